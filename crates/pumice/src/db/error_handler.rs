//! Background errors: what they stop, and how the database recovers from them.
//!
//! | severity | from | effect | cleared by |
//! |---|---|---|---|
//! | Soft | retryable read or space failure of a compaction | compaction pauses | the next try |
//! | Hard | failed flush, full disk, failed log write | writes stop, reads go on | `resume` |
//! | Fatal | failed MANIFEST write | as Hard, and no file is deleted | `resume` |
//! | Unrecoverable | corruption, memory out of step with the log | writes stop | reopening |
//!
//! A full disk is retried every second without being asked, so that writes succeed soon after
//! space returns. A file that failed to sync is never used again: `resume` flushes the memtables
//! to new files and starts a new log.
//!
//! Thread safety: `ErrorState` belongs to the state lock. Lock order as in `db`.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pumice_base::{Error, ErrorKind, Result, Severity};
use pumice_port::pool::Priority;

use crate::db::DbInner;
use crate::stats::listener::FlushReason;
use crate::write::switch::all_ids;

/// Time between automatic attempts to resume.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// What was being done when a background error happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A flush.
    Flush,
    /// A compaction.
    Compaction,
    /// Writing the log or the memtable.
    WriteCallback,
    /// Writing the MANIFEST.
    Manifest,
}

/// The present background error.
#[derive(Default)]
pub(crate) struct ErrorState {
    error: Option<Error>,
    resuming: bool,
    compaction_failures: u32,
}

impl ErrorState {
    /// The error, if there is one.
    pub fn current(&self) -> Option<&Error> {
        self.error.as_ref()
    }
    /// The error, unless a resume is under way and may clear it.
    pub fn stopping(&self) -> Option<&Error> {
        self.error.as_ref().filter(|_| !self.resuming)
    }
    /// Flushes and compactions must not start.
    pub fn stops_jobs(&self) -> bool {
        !self.resuming && self.error.as_ref().is_some_and(|e| e.severity() >= Severity::Hard)
    }
    /// Compactions that failed one after the other, to space out their retries.
    pub fn compaction_failures(&self) -> u32 {
        self.compaction_failures
    }
    /// A compaction succeeded.
    pub fn compaction_succeeded(&mut self) {
        self.compaction_failures = 0;
    }
}

/// How bad an error is, by its kind and what it interrupted.
fn severity(error: &Error, reason: Reason) -> Severity {
    match error.kind() {
        ErrorKind::Corruption => Severity::Unrecoverable,
        ErrorKind::ShutdownInProgress | ErrorKind::ColumnFamilyDropped | ErrorKind::Aborted => {
            Severity::None
        }
        _ if reason == Reason::Compaction => Severity::Soft,
        _ if reason == Reason::Manifest => Severity::Fatal,
        _ => Severity::Hard,
    }
}

impl DbInner {
    /// Records a background error and starts what can be done about it.
    pub(crate) fn background_error(&self, error: &Error, reason: Reason) {
        let broken_manifest = reason != Reason::WriteCallback && self.manifest.lock().broken;
        let reason = if broken_manifest { Reason::Manifest } else { reason };
        let severity = severity(error, reason);
        if severity == Severity::None {
            return;
        }
        let error = error.with_severity(severity);
        self.info(format_args!("Background error, reason {reason:?}: {error}"));
        self.notify_background_error(reason, &error);
        let mut state = self.state.lock();
        if reason == Reason::Compaction {
            state.errors.compaction_failures = state.errors.compaction_failures.saturating_add(1);
        }
        let worse = state.errors.error.as_ref().is_none_or(|e| e.severity() < severity);
        if severity >= Severity::Hard && worse {
            state.errors.error = Some(error.clone());
            self.attention.store(true, Ordering::Release);
        }
        self.changed.notify_all();
        drop(state);
        if worse
            && error.is_no_space()
            && let Some(me) = self.me.get().and_then(std::sync::Weak::upgrade)
        {
            me.schedule_resume_if_full();
        }
    }

    /// Memory no longer is what the log says: nothing may be written until reopening.
    pub(crate) fn poison(&self, error: &Error) {
        let error = error.with_severity(Severity::Unrecoverable);
        self.state.lock().errors.error = Some(error);
        self.attention.store(true, Ordering::Release);
    }

    /// The error that stops writes, if any.
    pub(crate) fn stopping_error(&self) -> Option<Error> {
        self.state.lock().errors.stopping().cloned()
    }

    /// Starts the automatic recovery from a full disk, if that is the error.
    pub(crate) fn schedule_resume_if_full(self: &Arc<Self>) {
        let full = |e: &Error| e.is_no_space() && e.severity() < Severity::Unrecoverable;
        {
            let state = self.state.lock();
            if !state.errors.error.as_ref().is_some_and(full) {
                return;
            }
        }
        let db = Arc::downgrade(self);
        let job = move || {
            loop {
                pumice_port::thread::sleep(RETRY_INTERVAL);
                let Some(db) = db.upgrade() else { return };
                if db.shutting_down.load(Ordering::Acquire) || db.resume().is_ok() {
                    return;
                }
                let state = db.state.lock();
                if !state.errors.error.as_ref().is_some_and(full) {
                    return;
                }
            }
        };
        self.pools.schedule(Priority::User, "resume", Box::new(job));
    }

    /// Clears a recoverable background error: new log, flush of everything, new MANIFEST if the
    /// old one failed. Suspends.
    ///
    /// # Errors
    /// The error itself if it is unrecoverable; the new failure if recovery fails.
    pub(crate) fn resume(self: &Arc<Self>) -> Result<()> {
        {
            let mut state = self.state.lock();
            let Some(error) = state.errors.error.clone() else { return Ok(()) };
            if error.severity() >= Severity::Unrecoverable {
                return Err(error);
            }
            if state.errors.resuming {
                return Err(Error::busy("Recovery in progress"));
            }
            state.errors.resuming = true;
        }
        let result = self.try_resume();
        let mut state = self.state.lock();
        state.errors.resuming = false;
        match &result {
            Ok(()) => state.errors.error = None,
            Err(error) => {
                if error.is_corruption() {
                    state.errors.error = Some(error.with_severity(Severity::Unrecoverable));
                }
                self.attention.store(true, Ordering::Release);
            }
        }
        self.schedule_background(&mut state);
        self.changed.notify_all();
        drop(state);
        if result.is_ok() {
            self.info(format_args!("Successfully resumed DB"));
            self.delete_obsolete_files();
        }
        result
    }

    fn try_resume(self: &Arc<Self>) -> Result<()> {
        let ids = all_ids(&self.state.lock());
        {
            let _alone = self.exclusive();
            let failed = self.wal.lock().failure().is_some();
            if failed {
                // The tail of the failed log is unknown; what it should hold is in memory.
                let number = self.new_file_number();
                self.wal.lock().switch(number)?;
            }
            self.switch_memtables(&ids, FlushReason::ErrorRecovery)?;
        }
        self.flush_all_now(&ids)
    }
}
