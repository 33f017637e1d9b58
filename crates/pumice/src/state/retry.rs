//! Recent failures of a column family's compactions, and when they may start again.
//!
//! A failure stops the automatic compactions of its column family for a while, longer with every
//! failure since the last success. Retries never end, since nothing else brings the tree back into
//! shape. But after [`FAILURES_MAX`] failures in a row tasks that wait for a compaction get the
//! error. `engine::compaction_retry` starts them again, and gives the reasons; also those that
//! found no place under a limit that families share.
//!
//! Thread safety: `CompactionRetry` belongs to the state lock.

use std::sync::Arc;
use std::time::Duration;

use pumice_base::Error;
use pumice_base::narrow::saturating_u64;
use pumice_port::time;

use crate::options::Bell;
use crate::state::DbState;

/// Wait after the first failure; it doubles with each further one.
pub(crate) const BASE: Duration = Duration::from_millis(100);

/// It doubles at most this often: 3.2 s. A disk that has space again must be used again within 5 s.
pub(crate) const DOUBLED_MAX: u32 = 5;

/// After this many failures in a row, 3 s of waits between them, waiting tasks get the error.
pub(crate) const FAILURES_MAX: u32 = 6;

/// See the module head.
#[derive(Default)]
pub(crate) struct CompactionRetry {
    /// Microseconds of the monotonic clock; 0 if nothing has failed.
    pub not_before: u64,
    /// Since the last success.
    pub failures: u32,
    pub error: Option<Error>,
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
    /// The error for tasks that wait for a compaction; None while waiting makes sense.
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
    /// The error of the compactions that would have to end a stop of writes, if that can no longer
    /// be expected.
    pub fn hopeless_stop(&self) -> Option<&Error> {
        let stopped = self.cfs.values().filter(|cf| cf.stall.waits_for_compaction());
        stopped.filter_map(|cf| cf.compaction_retry.hopeless()).next()
    }

    /// When the first of the waiting column families may try again, microseconds.
    pub fn next_retry(&self) -> Option<u64> {
        let early = self.cfs.values().filter(|cf| cf.compaction_retry.is_too_early());
        early.map(|cf| cf.compaction_retry.not_before).min()
    }

    /// How many of the queued column families may compact now, and whether others find no place
    /// under their limits: `bell` rings when there may be one.
    pub fn ready_compactions(&self, bell: &Arc<Bell>) -> (usize, bool) {
        let queued = self.jobs.compaction_queue.iter().filter_map(|id| self.cfs.get(id));
        let mut ready = 0;
        let mut limited = false;
        for cf in queued.filter(|cf| cf.may_compact()) {
            match cf.limiter().is_some_and(|limiter| limiter.is_full_until(bell)) {
                true => limited = true,
                false => ready += 1,
            }
        }
        (ready, limited)
    }
}
