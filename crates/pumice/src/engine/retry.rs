//! When automatic compactions of a column family may start again after one has failed.
//!
//! A failure stops the automatic compactions of its column family for a while, longer with every
//! failure since the last success; other column families go on. Nobody holds a thread of the pool
//! meanwhile, which other databases use too: one task, which exists only while there is something
//! to wait for, starts them again. Manual compactions go on: their caller wants to see the error.
//!
//! Retries never end, since nothing else brings the tree in order. But after [`FAILURES_MAX`]
//! failures in a row those that wait for a compaction get the error instead: writers that are
//! stopped, flushes that would stop writes, `wait_for_compact`. RocksDB makes a failed read in a
//! compaction a Fatal background error at once; here writing goes on as long as there is room in
//! the tree, and again as soon as a compaction succeeds.
//!
//! Thread safety: `CompactionRetry` belongs to the state lock.

use pumice_base::narrow::saturating_u64;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use pumice_base::Error;
use pumice_port::time;

use crate::engine::{DbInner, DbState, start_task};

/// The first failure is followed by so long a wait, doubled per failure.
const BASE: Duration = Duration::from_millis(100);
/// At most so often doubled: 3.2 s. A disk that has space again must be used again within 5 s.
const DOUBLED_MAX: u32 = 5;
/// After so many failures in a row, 3 s of waits between them, those who wait get the error.
const FAILURES_MAX: u32 = 6;

/// How compactions of a column family have gone lately. See the module head.
#[derive(Default)]
pub(crate) struct CompactionRetry {
    /// Microseconds of the monotonic clock; 0 if nothing has failed.
    not_before: u64,
    /// Since the last success.
    failures: u32,
    error: Option<Error>,
}

impl CompactionRetry {
    /// Automatic compactions must not start yet.
    pub fn is_too_early(&self) -> bool {
        self.not_before != 0 && time::now_micros() < self.not_before
    }
    /// A compaction succeeded: the disk works.
    pub fn succeeded(&mut self) {
        *self = CompactionRetry::default();
    }
    /// The error to tell those who wait for a compaction; None while it is worth waiting.
    pub fn hopeless(&self) -> Option<&Error> {
        self.error.as_ref().filter(|_| self.failures >= FAILURES_MAX)
    }

    /// A compaction failed; `await_retry` has to follow.
    pub fn failed(&mut self, error: &Error) {
        let wait = BASE * 2u32.pow(self.failures.min(DOUBLED_MAX));
        self.not_before = time::now_micros() + saturating_u64(wait.as_micros());
        self.failures = self.failures.saturating_add(1);
        self.error = Some(error.clone());
    }
}

impl DbState {
    /// The error of the compactions that would have to end the stop of writes, when that is not to
    /// be expected any more.
    pub fn hopeless_stop(&self) -> Option<&Error> {
        let stopped = self.cfs.values().filter(|cf| cf.stall.waits_for_compaction());
        stopped.filter_map(|cf| cf.compaction_retry.hopeless()).next()
    }

    /// When the first column family may try again that may not now, microseconds.
    fn next_retry(&self) -> Option<u64> {
        let early = self.cfs.values().filter(|cf| cf.compaction_retry.is_too_early());
        early.map(|cf| cf.compaction_retry.not_before).min()
    }
}

impl DbInner {
    /// Has somebody start compactions again when it is time. Requires: state lock held.
    pub(crate) fn await_retry(&self, state: &mut DbState) {
        let Some(db) = self.life.me.get().and_then(Weak::upgrade) else { return };
        if state.tasks.awaiting_retry || self.life.shutting_down.load(Ordering::Acquire) {
            return;
        }
        // Without a thread the next job to be scheduled after that time looks at the queue.
        let task = move || db.resume_compactions();
        state.tasks.awaiting_retry = start_task("pumice:retry", task).is_ok();
    }

    /// Body of the task: waits for the time, or for the close of the database.
    fn resume_compactions(self: Arc<Self>) {
        let mut state = self.state.lock();
        while !self.life.shutting_down.load(Ordering::Acquire)
            && let Some(next) = state.next_retry()
        {
            let now = time::now_micros();
            if now < next {
                let wait = Duration::from_micros(next - now);
                state = self.changed.wait_timeout(state, wait).0;
            }
            if time::now_micros() >= next {
                self.schedule_background(&mut state);
            }
        }
        state.tasks.awaiting_retry = false;
        self.schedule_background(&mut state);
        self.changed.notify_all();
    }
}
