//! When the next file becomes too old, or a memtable with range tombstones has been idle for long
//! enough; `engine::expiry_task` waits for that.
//!
//! Thread safety: [`ExpiryWatch`] belongs to the state lock.

use pumice_base::SequenceNumber;

use crate::state::DbState;

/// See the module head.
#[derive(Default)]
pub(crate) struct ExpiryWatch {
    /// The task that waits exists.
    pub waiting: bool,
    /// What it waits for, seconds since 1970.
    pub next: u64,
    /// A memtable has range tombstones: when that is looked at, seconds since 1970, and the newest
    /// sequence number when it last was.
    pub deleting: Option<(u64, SequenceNumber)>,
}

/// The next moment after `now` at which a file becomes too old, or memtables are looked at;
/// `u64::MAX` if there is none, but samples of the time are taken. The clock is read only if
/// necessary.
pub(crate) fn next_expiry(state: &DbState, now: impl Fn() -> u64) -> Option<u64> {
    let moments = state.cfs.values().filter(|cf| !cf.data.is_dropped());
    let files = moments.filter_map(|cf| cf.plan.expires_at(&cf.version));
    let mut moments = files.chain(state.tasks.expiry.deleting.map(|(at, _)| at)).peekable();
    // The task also takes samples of the time; it knows when.
    let samples = state.times.next_sample().map(|_| u64::MAX);
    if moments.peek().is_none() {
        return samples;
    }
    let now = now();
    moments.filter(|at| *at > now).min().or(samples)
}
