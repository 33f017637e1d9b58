//! When automatic compactions of a column family may start again after one has failed, or has found
//! no place under a limit that families of several databases share.
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
//! A job that finds no place leaves the family in the queue. The same task then waits until a place
//! may be free (`options::task_limiter`). Who finds the limit full leaves the bell there and looks
//! once more, so that no place is missed. The task starts a job, and if another database is faster
//! again, that job starts the task again.
//!
//! Thread safety: from any thread; `state::retry` has the part under the state lock.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pumice_port::time;

use crate::engine::DbInner;

impl DbInner {
    /// Body of the task: waits for the time, for a place, or for the close of the database.
    pub(super) fn resume_compactions(self: Arc<Self>) {
        let bell = &self.background.retry;
        let mut state = self.state.lock();
        while !self.life.shutting_down.load(Ordering::Acquire) {
            let limited = state.ready_compactions(bell).1;
            let next = state.next_retry();
            if next.is_none() && !limited {
                break;
            }
            drop(state);
            let wait = |next: u64| Duration::from_micros(next.saturating_sub(time::now_micros()));
            bell.wait(next.map(wait));
            state = self.state.lock();
            self.scheduler().schedule_background(&mut state);
        }
        state.tasks.awaiting_retry = false;
        self.scheduler().schedule_background(&mut state);
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use crate::{
        ConcurrentTaskLimiter, Db, FlushOptions, MemFs, Options, WaitForCompactOptions,
        WriteOptions,
    };

    /// A job is queued while its limit has a place, and finds that another database was faster. The
    /// compaction runs all the same once the place is free, without a nudge.
    #[pumice_test_macros::test]
    fn a_job_that_loses_its_place_is_not_lost() {
        let limiter = Arc::new(ConcurrentTaskLimiter::new("one", 1));
        let mut options = Options::default();
        options.db.create_if_missing = true;
        options.db.file_system = MemFs::new(1).shared();
        options.cf.level0_file_num_compaction_trigger = 2;
        options.cf.compaction_thread_limiter = Some(Arc::clone(&limiter));
        let db = Db::open(&options, "/db").unwrap();
        db.abort_all_compactions();
        for _ in 0..2 {
            db.put_opt(&WriteOptions::default(), b"k", b"v").unwrap();
            db.flush_opt(&FlushOptions::default()).unwrap();
        }
        let inner = db.inner();
        let mut state = inner.state.lock();
        inner.life.compaction_aborts.store(0, std::sync::atomic::Ordering::Release);
        inner.scheduler().schedule_background(&mut state);
        assert_eq!(state.jobs.scheduled_compactions, 1);
        let taken = limiter.token(false).unwrap();
        while state.jobs.scheduled_compactions > 0 {
            state = inner.changed.wait(state);
        }
        assert!(!state.jobs.compaction_queue.is_empty());
        drop(state);
        drop(taken);
        let patience = WaitForCompactOptions { timeout_micros: 60_000_000, ..Default::default() };
        db.wait_for_compact(&patience).unwrap();
        assert!(db.live_files_metadata().iter().all(|file| file.level > 0));
        assert_eq!(limiter.outstanding_tasks(), 0);
        db.close().unwrap();
    }
}
