//! Closing a database: finish or stop background work, save what was never logged, release the
//! directory.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pumice_base::Result;
use pumice_base::planted::{self, Bug};
use pumice_memtable::MemTable;
use pumice_port::os::is_forked;
use pumice_port::pool::Priority;
use pumice_port::thread;

use crate::engine::memtable_switch::all_ids;
use crate::engine::options_file;
use crate::engine::{DbInner, start_task};
use crate::options::requests::FlushOptions;
use crate::state::family::CfState;
use crate::stats::listener::{FlushReason, TableFileDeletionInfo};

const POLL: Duration = Duration::from_millis(50);

/// The close that is under way. When it is dropped, by a panic too, those that wait for it
/// continue.
struct Closing<'a> {
    db: &'a DbInner,
    result: Result<()>,
}

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        // Calls that arrived meanwhile.
        self.db.life.shutting_down.store(true, Ordering::Release);
        self.db.state.lock().closed = Some(self.result.clone());
        self.db.changed.notify_all();
        self.db.background.retry.ring();
    }
}

impl DbInner {
    /// Closes the database; further calls wait for that and return its result. From the start
    /// nothing is written, and writers that wait in a stall fail. Running jobs are finished or
    /// cancelled, queued ones dropped. Unlogged writes are flushed, even if background work is
    /// paused, unless `avoid_flush_during_shutdown`; logged ones stay in the log. Suspends.
    ///
    /// # Errors
    /// The first failure of flushing or closing a file, or the background error that keeps unlogged
    /// writes from being flushed; the database is closed all the same. Aborted, with nothing done,
    /// in code that a job calls: it would wait for itself.
    pub(crate) fn close(self: &Arc<Self>) -> Result<()> {
        self.life.mark.check_may_wait()?;
        if self.life.closing.swap(true, Ordering::AcqRel) {
            return self.wait_closed();
        }
        let mut closing = Closing { db: self, result: Ok(()) };
        self.writes.attention.store(true, Ordering::Release);
        {
            let _state = self.state.lock();
            self.changed.notify_all();
        }
        self.await_resume();
        let saves = !self.dir.read_only && !self.options().avoid_flush_during_shutdown;
        // Without background work nothing can be flushed.
        if saves && !self.life.shutting_down.load(Ordering::Acquire) {
            closing.result = self.save_unlogged();
        }
        if !self.dir.read_only {
            options_file::try_renew(self);
        }
        self.life.shutting_down.store(true, Ordering::Release);
        self.stop(&mut closing.result);
        let result = closing.result.clone();
        drop(closing);
        if let Some(log) = &self.reports.info_log {
            log.settle();
        }
        result
    }

    /// The last handle is dropped. If a job does that (a listener, say), for which a close would
    /// wait, another task closes the database after this call. In a child that `fork` made
    /// everything stays as it is: files and threads are the parent's.
    pub(crate) fn close_for_last_handle(self: &Arc<Self>) {
        if is_forked() {
            std::mem::forget(Arc::clone(self));
        } else if self.life.mark.is_inside() {
            self.close_elsewhere();
        } else if let Err(error) = self.close() {
            self.reports.info(format_args!("close failed: {error}"));
        }
    }

    fn close_elsewhere(self: &Arc<Self>) {
        let db = Arc::clone(self);
        let started = start_task("pumice:close", move || db.close_for_last_handle());
        if started.is_ok() {
            return;
        }
        // If a pool's thread closed the database, it would wait for jobs that wait for that thread.
        let db = Arc::clone(self);
        let again = move || {
            thread::sleep(POLL);
            db.close_elsewhere();
        };
        self.resources.pools.schedule(Priority::Low, "close", Box::new(again));
    }

    /// A recovery from a failed log holds changes of the MANIFEST back until all is flushed: it
    /// must finish, or the data it flushed would be lost with its log. No new one begins. Its
    /// flushes run even if background work is paused, or it would not end.
    fn await_resume(&self) {
        let mut state = self.state.lock();
        if state.errors.is_resuming() {
            state.jobs.saving = true;
            self.scheduler().schedule_background(&mut state);
        }
        while state.errors.is_resuming() {
            state = self.changed.wait_timeout(state, POLL).0;
        }
    }

    /// The error of a failed log, if the data it should have held is in no table either.
    fn check_failed_log(&self) -> Result<()> {
        let lacks = self.manifest.lock().lacks_failed_log;
        match self.faults().stopping_error() {
            Some(error) if lacks => Err(error),
            _ => Ok(()),
        }
    }

    /// Flushes data that may be in no log.
    fn save_unlogged(self: &Arc<Self>) -> Result<()> {
        // Writers that began before the close have registered by now.
        drop(self.exclusive());
        let last = self.writes.last_unlogged.load(Ordering::Relaxed);
        let may_hold = |mem: &MemTable| !mem.is_empty() && mem.first_seq() <= last;
        let ids = {
            let mut state = self.state.lock();
            let unsaved =
                |cf: &CfState| may_hold(&cf.mem) || cf.imm.iter().any(|m| may_hold(&m.mem));
            if last == 0 || !state.cfs.values().any(unsaved) {
                return Ok(());
            }
            if let Some(error) = state.errors.current() {
                return Err(error.clone());
            }
            state.jobs.saving = true;
            all_ids(&state)
        };
        let flush = FlushOptions { wait: true, allow_write_stall: true, ..FlushOptions::default() };
        self.flush_families(&flush, &ids, FlushReason::ShutDown)
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

    /// Ends background work until the close. Unlogged writes are flushed first, as by a close.
    /// Queued jobs are dropped and running ones end early; with `wait` none runs on return.
    ///
    /// # Errors
    /// As those of a close for the flush; the work has ended all the same. Aborted, with nothing
    /// done, in code that a job calls.
    pub(crate) fn cancel_all_background_work(self: &Arc<Self>, wait: bool) -> Result<()> {
        self.life.mark.check_may_wait()?;
        self.reports.info(format_args!("Shutdown: canceling all background work"));
        self.await_resume();
        let saves = !self.dir.read_only && !self.options().avoid_flush_during_shutdown;
        let saved = match saves && !self.life.is_ending() {
            true => self.save_unlogged(),
            false => Ok(()),
        };
        self.life.shutting_down.store(true, Ordering::Release);
        self.end_jobs();
        if wait {
            self.await_jobs();
        }
        saved
    }

    /// Wakes all that waits, so that it finds that the database shuts down, and takes back jobs.
    fn end_jobs(self: &Arc<Self>) {
        self.writes.attention.store(true, Ordering::Release);
        self.cancel_remote_jobs();
        {
            let state = self.state.lock();
            self.changed.notify_all();
            self.background.expiry_changed.notify_all();
            self.background.retry.ring();
            self.reports.dumps_changed.notify_all();
            self.background.regulator.wake(&state);
        }
        self.take_back_jobs(true);
    }

    /// Waits until no job and no task runs.
    fn await_jobs(&self) {
        let mut state = self.state.lock();
        while state.jobs.scheduled_flushes > 0
            || state.has_compaction_jobs()
            || state.tasks.awaiting_retry
            || state.tasks.tuning
            || state.tasks.regulating
            || state.tasks.expiry.waiting
            || state.tasks.dumping
            || state.tasks.following
            || state.jobs.running_deletions > 0
            || state.jobs.running_ingestions > 0
            || state.errors.is_resuming()
        {
            if state.has_compaction_jobs() {
                // A job may have begun to wait for its service after the last time.
                drop(state);
                self.cancel_remote_jobs();
                state = self.state.lock();
            }
            state = self.changed.wait_timeout(state, POLL).0;
        }
    }

    /// Stops everything without flushing.
    fn stop(self: &Arc<Self>, result: &mut Result<()>) {
        self.end_jobs();
        self.await_jobs();
        if self.dir.owns_files() {
            let deleted = self.let_go(result);
            let _inside = self.life.mark.enter_job(); // Others wait for this close.
            self.notify_deleted(&deleted);
        } else if planted::is(Bug::ReadOnlyCloseDeletes) {
            *result = self.delete_unreferenced_files(false);
        }
        // Handles and iterators may live on, and with them what is not written yet.
        if let Err(error) = self.reports.traces.end() {
            self.reports.info(format_args!("a trace could not be ended: {error}"));
        }
    }

    /// Closes the files and releases the directory; returns the events for the listeners.
    fn let_go(&self, result: &mut Result<()>) -> Vec<TableFileDeletionInfo> {
        // When leadership is free the last writer is done.
        let _alone = self.exclusive();
        self.state.lock().cfs.values().for_each(|cf| cf.give_up_memory());
        let closed = self.logs.at_rest().close(false);
        // Not in one statement: the checks take the lock, too.
        let checked = self.check_manifest_content();
        let manifest = self.manifest.lock().close();
        let manifest = checked.and(manifest).and(self.check_failed_log());
        if result.is_ok() {
            *result = closed.and(manifest);
        }
        self.discard_staged();
        // Files that the last jobs made obsolete, while the directory is still ours.
        let deleted = self.delete_silently();
        self.untrack_tables();
        self.reports.info(format_args!("Shutdown complete"));
        *self.dir.lock.lock() = None;
        deleted
    }
}
