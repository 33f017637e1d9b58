//! When automatic compactions may start again after one has failed.
//!
//! A failure stops the automatic compactions of its database for a while, longer with every failure
//! since the last success. Nobody holds a thread of the pool meanwhile, which other databases use
//! too: one task, which exists only while there is something to wait for, starts them again.
//! Manual compactions go on: whoever asks for one wants to see its error.
//!
//! Thread safety: `CompactionRetry` belongs to the state lock.

use pumice_base::narrow::saturating_u64;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use pumice_port::time;

use crate::db::{DbInner, DbState};

/// The first failure is followed by so long a wait, doubled per failure.
const BASE: Duration = Duration::from_millis(100);
/// At most so often doubled: 3.2 s. A disk that has space again must be used again within 5 s.
const DOUBLED_MAX: u32 = 5;

/// See the module head.
#[derive(Default)]
pub(crate) struct CompactionRetry {
    /// Microseconds of the monotonic clock; 0 if nothing has failed.
    not_before: u64,
    /// The task that waits exists.
    pub waiting: bool,
}

impl CompactionRetry {
    /// Automatic compactions must not start yet.
    pub fn is_too_early(&self) -> bool {
        self.not_before != 0 && time::now_micros() < self.not_before
    }
    /// A compaction succeeded: the disk works.
    pub fn succeeded(&mut self) {
        self.not_before = 0;
    }
}

impl DbInner {
    /// A compaction failed, the `failures`th after as many others. Requires: state lock held.
    pub(crate) fn delay_compactions(&self, state: &mut DbState, failures: u32) {
        let wait = BASE * 2u32.pow(failures.min(DOUBLED_MAX));
        let retry = &mut state.compaction_retry;
        retry.not_before = time::now_micros() + saturating_u64(wait.as_micros());
        let Some(db) = self.me.get().and_then(Weak::upgrade) else { return };
        if retry.waiting || self.shutting_down.load(Ordering::Acquire) {
            return;
        }
        // Without a thread the next job to be scheduled after that time looks at the queue.
        let task = move || db.resume_compactions();
        retry.waiting = pumice_port::thread::try_spawn("pumice:retry", task).is_ok();
    }

    /// Body of the task: waits for the time, or for the close of the database.
    fn resume_compactions(self: Arc<Self>) {
        let mut state = self.state.lock();
        while !self.shutting_down.load(Ordering::Acquire) && state.compaction_retry.is_too_early() {
            let now = time::now_micros();
            let micros = state.compaction_retry.not_before.saturating_sub(now).max(1);
            state = self.changed.wait_timeout(state, Duration::from_micros(micros)).0;
        }
        state.compaction_retry.waiting = false;
        self.schedule_background(&mut state);
        self.changed.notify_all();
    }
}
