//! Background errors: what they stop, and how the database recovers from them.
//!
//! | severity | from | effect | cleared by |
//! |---|---|---|---|
//! | Soft | read or space failure of a compaction | its family's compaction pauses | the next try |
//! | Hard | failed flush, full disk, failed log write, space limit | writes stop | `resume` |
//! | Fatal | failed MANIFEST write | as Hard, and files stay | `resume` |
//! | Unrecoverable | corruption, a panic, memory and log that differ | writes stop | reopening |
//!
//! Without `paranoid_checks` damage that a compaction finds is Soft, too.
//!
//! After a full disk, or a failure to write a table or the MANIFEST, resuming is tried
//! automatically every `bgerror_resume_retry_interval`. After a failed log write it is not: that
//! needs an operator. Neither is it at the limit of `sst_file_manager`, which an operator has to
//! raise; with a manager, a full disk is not retried before as much space is free as the manager
//! reserves for that. A file that failed to sync is never used again: `resume` flushes the
//! memtables to new files, starts a new log and records in the MANIFEST that the old one is not
//! needed.
//!
//! Invariant: while there is an error no write is accepted, not even during `resume`, so that a log
//! whose tail is unknown is never followed by records.
//!
//! Thread safety: from any thread; the present error is `state::errors`, under the state lock. The
//! order of the locks is in `engine`.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use pumice_base::narrow::saturating_u64;
use pumice_base::planted::{self, Bug};
use pumice_base::{Error, Result, Severity, SubCode};
use pumice_manifest::VersionEdit;
use pumice_port::task;

use crate::commit::queue::Leadership;
use crate::engine::memtable_switch::all_ids;
use crate::engine::{DbInner, options_file, start_task};
use crate::state::DbState;
use crate::state::errors::{Reason, UnreportedError, heals, severity};
use crate::state::manifest_log::EditGroup;
use crate::stats::listener::FlushReason;
use crate::stats::{HistogramKind, Ticker};

/// Sleeps between two automatic attempts to resume.
fn wait_to_retry(interval: Duration) {
    if planted::is(Bug::ClockJumpStopsResume) {
        let until = pumice_port::time::wall_micros() + saturating_u64(interval.as_micros());
        while pumice_port::time::wall_micros() < until {
            pumice_port::thread::sleep(interval / 10);
        }
    } else {
        pumice_port::thread::sleep(interval);
    }
}

impl DbInner {
    /// Reports a background error to the listeners, records it and starts its handling. Requires:
    /// neither a lock nor leadership is held.
    pub(crate) fn background_error(&self, error: &Error, reason: Reason) {
        self.record_error(error, reason, |error| self.notify_error(error));
    }

    /// As `background_error`, for a task that leads: the listeners are told by the same task's
    /// `with_errors_reported`, which has to follow.
    pub(crate) fn background_error_of_leader(&self, error: &Error, reason: Reason) {
        self.record_error(error, reason, |error| self.reports.events.unreported.lock().push(error));
    }

    /// The result of a call that no longer holds anything. Listeners are told of its errors before
    /// its caller sees them.
    #[inline]
    pub(crate) fn with_errors_reported<T>(&self, result: Result<T>) -> Result<T> {
        if result.is_err() {
            self.report_own_errors();
        }
        result
    }

    #[cold]
    fn report_own_errors(&self) {
        if self.life.mark.is_locked() {
            return; // A call that was refused; the enclosing one reports.
        }
        let me = task::current();
        loop {
            let mut unreported = self.reports.events.unreported.lock();
            let Some(at) = unreported.iter().position(|error| error.task == me) else { return };
            let error = unreported.remove(at);
            drop(unreported);
            self.notify_error(error);
        }
    }

    fn notify_error(&self, error: UnreportedError) {
        let _inside = self.life.mark.enter_job(); // Jobs may wait for this task.
        self.notify(|l| l.on_background_error(error.reason, &error.error));
    }

    fn record_error(&self, error: &Error, reason: Reason, report: impl FnOnce(UnreportedError)) {
        let broken_manifest = reason != Reason::WriteCallback && self.manifest.lock().broken;
        let reason = if broken_manifest { Reason::Manifest } else { reason };
        let severity = severity(error, reason, self.options().paranoid_checks);
        if severity == Severity::None {
            return;
        }
        let error = error.with_severity(severity);
        self.reports.info(format_args!("Background error, reason {reason:?}: {error}"));
        self.reports.events.background_error();
        self.reports.count_error(&error, heals(&error, reason));
        report(UnreportedError {
            task: task::current(),
            reason: reason.public(),
            error: error.clone(),
        });
        let mut state = self.state.lock();
        if reason == Reason::WriteCallback && self.logs.wal.lock().failure().is_none() {
            return; // A resume has abandoned that log meanwhile.
        }
        if reason == Reason::Compaction && error.is_no_space() {
            state.errors.compaction_found_no_space = true;
        }
        if severity >= Severity::Hard {
            let worse = state.errors.error.as_ref().is_none_or(|e| e.severity() < severity);
            if worse {
                state.errors.error = Some(error.clone());
            }
            if state.errors.resuming {
                state.errors.failed_again.get_or_insert_with(|| error.clone());
            }
            self.writes.attention.store(true, Ordering::Release);
            if heals(&error, reason) {
                self.schedule_resume(&mut state);
            }
        }
        self.changed.notify_all();
    }

    /// Memory no longer matches the log: nothing may be written until the database is reopened.
    pub(crate) fn poison(&self, error: &Error) {
        let error = error.with_severity(Severity::Unrecoverable);
        let mut state = self.state.lock();
        if state.errors.resuming {
            // The running `resume` must not clear an error that it does not fix.
            state.errors.failed_again = Some(error.clone());
        }
        state.errors.error = Some(error);
        self.writes.attention.store(true, Ordering::Release);
        self.changed.notify_all();
    }

    /// The error that stops writes, if any.
    pub(crate) fn stopping_error(&self) -> Option<Error> {
        self.state.lock().errors.current().cloned()
    }

    /// Starts the automatic attempts to resume, unless they are under way.
    fn schedule_resume(&self, state: &mut DbState) {
        let Some(me) = self.life.me.get().filter(|_| !state.errors.retrying) else { return };
        let options = self.options();
        if options.max_bgerror_resume_count == 0 {
            return;
        }
        state.errors.retrying = true;
        let (db, attempts) = (Weak::clone(me), options.max_bgerror_resume_count);
        let interval = Duration::from_micros(options.bgerror_resume_retry_interval);
        let job = move || {
            let mut tried = 0;
            loop {
                wait_to_retry(interval);
                let Some(db) = db.upgrade() else { return };
                if db.life.closing.load(Ordering::Acquire) {
                    return;
                }
                if db.may_resume() {
                    tried += 1;
                    if db.resumed_or_hopeless(tried, attempts) {
                        return;
                    }
                }
            }
        };
        // A thread of its own: it sleeps most of the time, maybe for days.
        if let Err(error) = start_task("pumice:resume", job) {
            state.errors.retrying = false; // The next error tries to start one again.
            self.reports.warn(format_args!("No thread to resume from a background error: {error}"));
        } else {
            self.reports.tick(Ticker::ErrorHandlerAutoresumeCount, 1);
        }
    }

    /// Automatic attempt number `tried`, of at most `attempts`; returns whether it was the last
    /// one. The same step notes that no task retries any more, so that the next error starts a new
    /// series.
    fn resumed_or_hopeless(self: &Arc<Self>, tried: i32, attempts: i32) -> bool {
        {
            let mut state = self.state.lock();
            if state.errors.error.is_none() {
                state.errors.retrying = false; // A call has resumed it.
                return true;
            }
        }
        self.reports.tick(Ticker::ErrorHandlerAutoresumeRetryTotalCount, 1);
        drop(self.resume());
        let mut state = self.state.lock();
        let errors = &mut state.errors;
        let hopeless = |error: &Error| error.severity() >= Severity::Unrecoverable;
        let over = tried >= attempts || errors.error.as_ref().is_none_or(hopeless);
        let resumed = errors.error.is_none();
        errors.retrying = !over;
        drop(state);
        if over {
            let tries = u64::from(tried.unsigned_abs());
            self.reports.measure(HistogramKind::ErrorHandlerAutoresumeRetryCount, tries);
            self.reports.tick(Ticker::ErrorHandlerAutoresumeSuccessCount, u64::from(resumed));
        }
        over
    }

    /// Clears a recoverable background error: new log, flush of everything, new MANIFEST if the
    /// old one failed. Suspends.
    ///
    /// # Errors
    /// The error itself if it is unrecoverable; the new failure if recovery fails. Without an error
    /// that of writing an OPTIONS file, if the last could not be written.
    pub(crate) fn resume(self: &Arc<Self>) -> Result<()> {
        self.life.check_caller()?;
        self.life.mark.check_may_wait()?;
        let cleared = {
            let mut state = self.state.lock();
            if self.life.closing.load(Ordering::Acquire) {
                return Err(Error::shutdown("the database is closing"));
            }
            let Some(error) = state.errors.error.clone() else {
                drop(state);
                return options_file::renew(self);
            };
            if error.severity() >= Severity::Unrecoverable {
                return Err(error);
            }
            if state.errors.resuming {
                return Err(Error::busy("Recovery in progress"));
            }
            state.errors.resuming = true;
            state.errors.failed_again = None;
            error
        };
        let mut result = self.try_resume();
        let mut state = self.state.lock();
        state.errors.resuming = false;
        if let Some(error) = state.errors.failed_again.take() {
            result = result.and(Err(error));
        }
        match &result {
            Ok(()) => state.errors.error = None,
            Err(error)
                if error.is_corruption() && error.subcode() != SubCode::MergeOperatorFailed =>
            {
                state.errors.error = Some(error.with_severity(Severity::Unrecoverable));
            }
            Err(_) => {}
        }
        self.schedule_background(&mut state);
        self.changed.notify_all();
        drop(state);
        if result.is_ok() {
            self.reports.info(format_args!("Successfully resumed DB"));
            self.delete_obsolete_files();
            options_file::try_renew(self);
            let _inside = self.life.mark.enter_job(); // As for the error itself.
            self.notify(|l| l.on_error_recovery_completed(&cleared));
        }
        self.with_errors_reported(result)
    }

    fn try_resume(self: &Arc<Self>) -> Result<()> {
        let ids = all_ids(&self.state.lock());
        {
            let leader = self.exclusive();
            self.replace_broken_manifest(&leader)?;
            let failed = self.logs.at_rest().failure().is_some();
            if failed {
                // The tail of the failed log is unknown; the data it should hold is in memory.
                self.manifest.lock().hold();
                let number = self.new_file_number();
                let mut wal = self.logs.at_rest();
                let old = wal.number();
                wal.switch(number, true)?;
                drop(wal);
                // Later writes take the sequence numbers of the refused ones.
                self.logs.history.end(old, self.last_sequence.load(Ordering::Acquire));
            }
            self.switch_memtables(&leader, &ids, FlushReason::ErrorRecovery)?;
        }
        self.flush_all_now(&ids)?;
        self.leave_failed_log(&self.exclusive())
    }

    /// Done before flushing, since a failed MANIFEST cannot record the flush: each try would leave
    /// tables that cannot be deleted. Held back changes are not recorded anyway.
    fn replace_broken_manifest(&self, leader: &Leadership) -> Result<()> {
        let failed = self.logs.at_rest().failure().is_some();
        let manifest = self.manifest.lock();
        let replace = manifest.broken && !manifest.held && !failed;
        drop(manifest);
        if replace { self.leave_failed_log(leader) } else { Ok(()) }
    }

    /// Records that no column family needs a log before the present one, unless it has unflushed
    /// data. Even if nothing was flushed: the failed log must not be replayed, since the next
    /// writes take the sequence numbers of the failed ones; and a failed MANIFEST must be replaced.
    ///
    /// A memtable that was sealed before the failure names the failed log as the next one to keep,
    /// so its flush alone does not release that log.
    fn leave_failed_log(&self, _: &Leadership) -> Result<()> {
        // Held to the end: another task's change must not start the next MANIFEST, which would make
        // the held back changes durable without the log numbers.
        let mut manifest = self.manifest.lock();
        let present = self.logs.wal.lock().number();
        let mut edits = Vec::new();
        for cf in self.state.lock().cfs.values().filter(|cf| !cf.data.is_dropped()) {
            let flushed = cf.mem.is_empty() && cf.imm.is_empty();
            let number = if flushed { cf.log_number.max(present) } else { cf.log_number };
            let log_number = (!planted::is(Bug::SequencesReused)).then_some(number);
            let column_family = cf.data.id;
            edits.push(VersionEdit { column_family, log_number, ..VersionEdit::default() });
        }
        let held = manifest.release();
        let left = self.apply_edits(&mut manifest, EditGroup::from(edits), |_| ());
        if left.is_err() && held {
            // A later change must not start it either.
            manifest.hold();
        }
        left
    }
}
