//! Recovery from a background error, on request or by itself.
//!
//! After a full disk, or a failure to write a table or the MANIFEST, resuming is tried
//! automatically every `bgerror_resume_retry_interval`. After a failed log write it is not: that
//! needs an operator. Neither is it at the limit of `sst_file_manager`, which an operator has to
//! raise; with a manager, a full disk is not retried before as much space is free as the manager
//! reserves for that. A file that failed to sync is never used again: `resume` flushes the
//! memtables to new files, starts a new log and records in the MANIFEST that the old one is not
//! needed.
//!
//! Thread safety: from any thread. Suspends.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pumice_base::planted::{self, Bug};
use pumice_base::{Error, Result, Severity, SubCode};
use pumice_manifest::VersionEdit;

use crate::commit::queue::Leadership;
use crate::engine::memtable_switch::all_ids;
use crate::engine::{DbInner, options_file};
use crate::state::manifest_log::EditGroup;
use crate::stats::listener::FlushReason;
use crate::stats::{HistogramKind, Ticker};

impl DbInner {
    /// Automatic attempt number `tried`, of at most `attempts`; returns whether it was the last
    /// one. The same step notes that no task retries any more, so that the next error starts a new
    /// series.
    pub(super) fn resumed_or_hopeless(self: &Arc<Self>, tried: i32, attempts: i32) -> bool {
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
            if self.life.is_ending() {
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
        self.scheduler().schedule_background(&mut state);
        self.changed.notify_all();
        drop(state);
        if result.is_ok() {
            self.reports.info(format_args!("Successfully resumed DB"));
            self.delete_obsolete_files();
            options_file::try_renew(self);
            let _inside = self.life.mark.enter_job(); // As for the error itself.
            self.faults().notify(|l| l.on_error_recovery_completed(&cleared));
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
        let left = self.versions().apply_edits(&mut manifest, EditGroup::from(edits), |_| ());
        if left.is_err() && held {
            // A later change must not start it either.
            manifest.hold();
        }
        left
    }
}
