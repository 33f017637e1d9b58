//! Closing a database: finish or stop background work, save what was never logged, let go.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pumice_base::Result;
use pumice_base::planted::{self, Bug};

use crate::db::DbInner;
use crate::db::requests::FlushOptions;
use crate::write::switch::all_ids;

const POLL: Duration = Duration::from_millis(50);

/// The close that is under way. When it is dropped, by a panic too, those that wait for it go on.
struct Closing<'a> {
    db: &'a DbInner,
    result: Result<()>,
}

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        // Those that were on their way in meanwhile.
        self.db.shutting_down.store(true, Ordering::Release);
        self.db.state.lock().closed = Some(self.result.clone());
        self.db.changed.notify_all();
    }
}

impl DbInner {
    /// Closes the database; further calls wait for that and say how it went. From the first moment
    /// on nothing is written, and writers that wait in a stall fail. Running jobs are finished or
    /// cancelled, queued ones dropped. Unlogged writes are flushed, even if background work is
    /// paused, unless `avoid_flush_during_shutdown`; logged ones stay in the log. Suspends.
    ///
    /// # Errors
    /// The first failure of flushing or closing a file, or the background error that keeps unlogged
    /// writes from being flushed; the database is closed all the same.
    pub(crate) fn close(self: &Arc<Self>) -> Result<()> {
        if self.closing.swap(true, Ordering::AcqRel) {
            return self.wait_closed();
        }
        let mut closing = Closing { db: self, result: Ok(()) };
        self.attention.store(true, Ordering::Release);
        {
            let _state = self.state.lock();
            self.changed.notify_all();
        }
        if !self.read_only && !self.options().avoid_flush_during_shutdown {
            closing.result = self.save_unlogged();
        }
        self.await_resume();
        self.shutting_down.store(true, Ordering::Release);
        self.stop(&mut closing.result);
        closing.result.clone()
    }

    /// A recovery from a failed log holds changes of the MANIFEST back until all is flushed: it is
    /// let finish, or what it flushed would be lost with its log.
    fn await_resume(&self) {
        let mut state = self.state.lock();
        while state.errors.is_resuming() {
            state = self.changed.wait_timeout(state, POLL).0;
        }
    }

    /// The error of a log that failed, if what it should have held is in no table either.
    fn check_failed_log(&self) -> Result<()> {
        let lacks = self.manifest.lock().lacks_failed_log;
        match self.stopping_error() {
            Some(error) if lacks => Err(error),
            _ => Ok(()),
        }
    }

    /// Flushes what may be in no log.
    fn save_unlogged(self: &Arc<Self>) -> Result<()> {
        // Who wrote before the close began has told by then.
        drop(self.exclusive());
        if !self.unlogged_writes.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.state.lock().saving = true;
        if let Some(error) = self.stopping_error() {
            let state = self.state.lock();
            let saved = state.cfs.values().all(|cf| cf.mem.is_empty() && cf.imm.is_empty());
            return if saved { Ok(()) } else { Err(error) };
        }
        let ids = all_ids(&self.state.lock());
        self.flush_families(&FlushOptions { wait: true, allow_write_stall: true }, &ids)
    }

    /// Waits for the task that closes the database. Jobs and listeners must not: it waits for them.
    fn wait_closed(&self) -> Result<()> {
        let mut state = self.state.lock();
        loop {
            if let Some(result) = &state.closed {
                return result.clone();
            }
            state = self.changed.wait_timeout(state, POLL).0;
        }
    }

    /// Stops everything without flushing.
    fn stop(self: &Arc<Self>, result: &mut Result<()>) {
        self.attention.store(true, Ordering::Release);
        {
            let mut state = self.state.lock();
            self.changed.notify_all();
            self.expiry_changed.notify_all();
            while state.scheduled_flushes > 0
                || state.has_compaction_jobs()
                || state.awaiting_retry
                || state.tuning
                || state.expiry.waiting
                || state.running_deletions > 0
                || state.running_ingestions > 0
                || state.errors.is_resuming()
            {
                if state.bottom_compactions > 0 {
                    drop(state);
                    self.drop_forwarded();
                    state = self.state.lock();
                }
                state = self.changed.wait_timeout(state, POLL).0;
            }
        }
        if !self.read_only {
            // The last writer is done once leadership can be had.
            let _alone = self.exclusive();
            self.state.lock().cfs.values().for_each(|cf| self.give_up_memory(cf));
            let closed = self.wal_at_rest().close(false);
            let manifest = self.close_manifest().and(self.check_failed_log());
            if result.is_ok() {
                *result = closed.and(manifest);
            }
            // What the last jobs made obsolete, while the directory is still ours.
            self.delete_obsolete_files();
            self.info(format_args!("Shutdown complete"));
            *self.lock.lock() = None;
        } else if planted::is(Bug::ReadOnlyCloseDeletes) {
            *result = self.delete_unreferenced_files();
        }
    }
}
