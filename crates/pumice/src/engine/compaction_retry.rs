//! When automatic compactions of a column family may start again after one has failed.
//!
//! A failure stops the automatic compactions of its column family for a while, longer with every
//! failure since the last success; other column families continue. No thread of the pool, which
//! other databases use too, is held meanwhile: one task, which exists only while there is something
//! to wait for, starts them again. Manual compactions continue: their caller wants to see the
//! error.
//!
//! Retries never end, since nothing else brings the tree back into shape. But after `FAILURES_MAX`
//! failures in a row those that wait for a compaction get the error instead: writers that are
//! stopped, flushes that would stop writes, `wait_for_compact`. RocksDB makes a failed read in a
//! compaction a Fatal background error at once; here writes continue as long as there is room in
//! the tree, and again as soon as a compaction succeeds.
//!
//! Thread safety: from any thread; `state::retry` has the part under the state lock.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pumice_port::time;

use crate::engine::DbInner;

impl DbInner {
    /// Body of the task: waits for the time, or for the close of the database.
    pub(super) fn resume_compactions(self: Arc<Self>) {
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
                self.scheduler().schedule_background(&mut state);
            }
        }
        state.tasks.awaiting_retry = false;
        self.scheduler().schedule_background(&mut state);
        self.changed.notify_all();
    }
}
