//! When the next file becomes too old; `engine::expiry` waits for that.
//!
//! Thread safety: [`ExpiryWatch`] belongs to the state lock.

use crate::state::DbState;

/// See the module head.
#[derive(Default)]
pub(crate) struct ExpiryWatch {
    /// The task that waits exists.
    pub waiting: bool,
    /// What it waits for, seconds since 1970.
    pub next: u64,
}

/// The next moment after `now` at which a file becomes too old. The clock is read only if
/// necessary.
pub(crate) fn next_expiry(state: &DbState, now: impl Fn() -> u64) -> Option<u64> {
    let moments = state.cfs.values().filter(|cf| !cf.data.is_dropped());
    let mut moments = moments.filter_map(|cf| cf.plan.expires_at(&cf.version)).peekable();
    moments.peek()?;
    let now = now();
    moments.filter(|at| *at > now).min()
}
