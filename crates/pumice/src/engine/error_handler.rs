//! Background errors: what they stop, and who is told.
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
//! How the database recovers is in `resume`.
//!
//! Invariant: while there is an error no write is accepted, not even during `resume`, so that a log
//! whose tail is unknown is never followed by records.
//!
//! Thread safety: from any thread; the present error is `state::errors`, under the state lock.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pumice_base::narrow::saturating_u64;
use pumice_base::planted::{self, Bug};
use pumice_base::{Error, Result, Severity};
use pumice_port::sync::{Condvar, Mutex};
use pumice_port::{task, thread};

use crate::engine::life::Life;
use crate::engine::{DbInner, start_task};
use crate::state::DbState;
use crate::state::errors::{Reason, UnreportedError, heals, severity};
use crate::state::manifest_log::ManifestLog;
use crate::state::parts::{Logs, Settings};
use crate::state::reports::Reports;
use crate::stats::listener::BackgroundErrorReason;
use crate::stats::{EventListener, Ticker};

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

/// The parts of a database that an error concerns, and no others.
pub(crate) struct Faults<'a> {
    settings: &'a Settings,
    reports: &'a Reports,
    state: &'a Mutex<DbState>,
    changed: &'a Condvar,
    manifest: &'a Mutex<ManifestLog>,
    logs: &'a Logs,
    /// Has the next leader look at the error.
    attention: &'a AtomicBool,
    life: &'a Life,
}

impl DbInner {
    /// Its errors, and who is told of them.
    pub(crate) fn faults(&self) -> Faults<'_> {
        Faults {
            settings: &self.settings,
            reports: &self.reports,
            state: &self.state,
            changed: &self.changed,
            manifest: &self.manifest,
            logs: &self.logs,
            attention: &self.writes.attention,
            life: &self.life,
        }
    }

    /// The result of a call that no longer holds anything. Listeners are told of its errors before
    /// its caller sees them.
    #[inline]
    pub(crate) fn with_errors_reported<T>(&self, result: Result<T>) -> Result<T> {
        if result.is_err() {
            self.faults().report_own_errors();
        }
        result
    }
}

impl Faults<'_> {
    /// Reports a background error to the listeners, records it and starts its handling. Requires:
    /// neither a lock nor leadership is held.
    pub(crate) fn background_error(&self, error: &Error, reason: Reason) {
        self.record_error(error, reason, |error| self.notify_job_error(error));
    }

    /// As `background_error`, for a task that leads: the listeners are told by the same task's
    /// `with_errors_reported`, which has to follow.
    pub(crate) fn background_error_of_leader(&self, error: &Error, reason: Reason) {
        self.record_error(error, reason, |error| {
            self.reports.events.unreported.lock().push(error);
            false
        });
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

    pub(crate) fn notify(&self, call: impl Fn(&dyn EventListener)) {
        for listener in &self.settings.current().listeners {
            if let Err(error) = thread::contain("A listener", || call(&**listener)) {
                self.poison(&error);
            }
        }
    }

    fn notify_error(&self, error: UnreportedError) {
        let _inside = self.life.mark.enter_job(); // Jobs may wait for this task.
        self.notify(|l| l.on_background_error(error.reason, &error.error));
    }

    /// As `notify_error`, of a job; true if a listener wants the error to be forgotten, which it
    /// may unless a log or the MANIFEST is in doubt.
    fn notify_job_error(&self, error: UnreportedError) -> bool {
        if !matches!(error.reason, BackgroundErrorReason::Flush | BackgroundErrorReason::Compaction)
        {
            self.notify_error(error);
            return false;
        }
        let _inside = self.life.mark.enter_job(); // Jobs may wait for this task.
        let forgotten = Cell::new(false);
        self.notify(|listener| {
            let forget = listener.on_job_error(error.reason, &error.error);
            forgotten.set(forgotten.get() | forget);
        });
        forgotten.get()
    }

    /// `report` says whether the error is to be forgotten.
    fn record_error(
        &self,
        error: &Error,
        reason: Reason,
        report: impl FnOnce(UnreportedError) -> bool,
    ) {
        let broken_manifest = reason != Reason::WriteCallback && self.manifest.lock().broken;
        let reason = if broken_manifest { Reason::Manifest } else { reason };
        let severity = severity(error, reason, self.settings.current().paranoid_checks);
        if severity == Severity::None {
            return;
        }
        let error = error.with_severity(severity);
        self.reports.info(format_args!("Background error, reason {reason:?}: {error}"));
        self.reports.events.background_error();
        self.reports.count_error(&error, heals(&error, reason));
        let forget = report(UnreportedError {
            task: task::current(),
            reason: reason.public(),
            error: error.clone(),
        });
        if forget {
            self.reports.info(format_args!("A listener takes back the error"));
            if reason == Reason::Flush {
                // The flush is queued again at once.
                let interval = self.settings.current().bgerror_resume_retry_interval;
                wait_to_retry(Duration::from_micros(interval));
            }
            return self.changed.notify_all();
        }
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
            self.attention.store(true, Ordering::Release);
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
        self.attention.store(true, Ordering::Release);
        self.changed.notify_all();
    }

    /// The error that stops writes, if any.
    pub(crate) fn stopping_error(&self) -> Option<Error> {
        self.state.lock().errors.current().cloned()
    }

    /// Starts the automatic attempts to resume, unless they are under way.
    fn schedule_resume(&self, state: &mut DbState) {
        let Some(runner) = self.life.runner().filter(|_| !state.errors.retrying) else { return };
        let options = self.settings.current();
        if options.max_bgerror_resume_count == 0 {
            return;
        }
        state.errors.retrying = true;
        let (runner, attempts) = (Arc::downgrade(&runner), options.max_bgerror_resume_count);
        let interval = Duration::from_micros(options.bgerror_resume_retry_interval);
        let job = move || {
            let mut tried = 0;
            loop {
                wait_to_retry(interval);
                let Some(runner) = runner.upgrade() else { return };
                if runner.try_to_resume(&mut tried, attempts) {
                    return;
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
}
