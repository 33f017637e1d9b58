//! Background errors as data: their severity, whether a retry may help, and the present one.
//!
//! Their effects and the recovery are in `engine::error_handler`.
//!
//! Thread safety: `ErrorState` belongs to the state lock.

use pumice_base::planted::{self, Bug};
use pumice_base::{Error, ErrorKind, Severity, SubCode};
use pumice_port::task::TaskRef;

use crate::stats::listener::BackgroundErrorReason;

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

impl Reason {
    pub fn public(self) -> BackgroundErrorReason {
        match self {
            Reason::Flush => BackgroundErrorReason::Flush,
            Reason::Compaction => BackgroundErrorReason::Compaction,
            Reason::WriteCallback => BackgroundErrorReason::WriteCallback,
            Reason::Manifest => BackgroundErrorReason::ManifestWrite,
        }
    }
}

/// An error that `task` has to report to the listeners.
pub(crate) struct UnreportedError {
    pub task: TaskRef,
    pub reason: BackgroundErrorReason,
    pub error: Error,
}

/// The present background error.
#[derive(Default)]
pub(crate) struct ErrorState {
    pub error: Option<Error>,
    pub resuming: bool,
    /// The error that occurred during the running `resume`.
    pub failed_again: Option<Error>,
    /// A job that tries to resume is scheduled or running.
    pub retrying: bool,
    /// The disk was full for a compaction, and none has succeeded since.
    pub compaction_found_no_space: bool,
}

impl ErrorState {
    /// The error, if there is one.
    pub fn current(&self) -> Option<&Error> {
        self.error.as_ref()
    }
    /// The error because of which flushes and compactions must not start.
    pub fn stopping_jobs(&self) -> Option<&Error> {
        if self.resuming { self.failed_again.as_ref() } else { self.error.as_ref() }
    }
    /// `resume` is under way.
    pub fn is_resuming(&self) -> bool {
        self.resuming
    }
}

/// The severity of an error, from its kind and what it interrupted; `paranoid` is
/// `paranoid_checks`.
pub(crate) fn severity(error: &Error, reason: Reason, paranoid: bool) -> Severity {
    if error.severity() == Severity::Unrecoverable {
        return Severity::Unrecoverable; // A panic.
    }
    match error.kind() {
        ErrorKind::Corruption if reason == Reason::Compaction && !paranoid => Severity::Soft,
        // Nothing is damaged; with another `merge_operator_failure_scope` a resume works.
        ErrorKind::Corruption if error.subcode() == SubCode::MergeOperatorFailed => Severity::Hard,
        ErrorKind::Corruption => Severity::Unrecoverable,
        ErrorKind::ShutdownInProgress | ErrorKind::ColumnFamilyDropped => Severity::None,
        // Its caller, or one who aborts all, ended it.
        _ if matches!(
            error.subcode(),
            SubCode::ManualCompactionPaused | SubCode::CompactionAborted
        ) =>
        {
            Severity::None
        }
        // The job has not begun.
        ErrorKind::CompactionTooLarge => Severity::None,
        // The job was cancelled; a lack of memory is a different reason.
        ErrorKind::Aborted if error.subcode() != SubCode::MemoryLimit => Severity::None,
        _ if error.subcode() == SubCode::SpaceLimit => Severity::Hard,
        _ if reason == Reason::Compaction => Severity::Soft,
        _ if reason == Reason::Manifest => Severity::Fatal,
        _ => Severity::Hard,
    }
}

/// Whether a retry may help without an operator.
pub(crate) fn heals(error: &Error, reason: Reason) -> bool {
    if planted::is(Bug::NoSpaceForGood) && error.is_no_space() {
        return false;
    }
    error.severity() < Severity::Unrecoverable
        && !matches!(error.subcode(), SubCode::SpaceLimit | SubCode::MergeOperatorFailed)
        && (error.is_no_space() || reason != Reason::WriteCallback)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cancelled job is not an error of the database; a panic and a lack of memory are, or
    /// flushes would be retried forever.
    #[pumice_test_macros::test]
    fn aborted_jobs_tell_why() {
        let aborted = Error::aborted("a job");
        assert_eq!(severity(&aborted, Reason::Flush, true), Severity::None);
        let no_memory = aborted.with_subcode(SubCode::MemoryLimit);
        assert_eq!(severity(&no_memory, Reason::Flush, true), Severity::Hard);
        assert_eq!(severity(&no_memory, Reason::Compaction, true), Severity::Soft);
        for panic in [Error::aborted("a panic"), Error::io_message("a panic")] {
            let panic = panic.with_severity(Severity::Unrecoverable);
            for paranoid in [false, true] {
                let severity = severity(&panic, Reason::Compaction, paranoid);
                assert_eq!(severity, Severity::Unrecoverable);
            }
        }
    }

    /// Applies to damage that a compaction reads; errors of a flush or the MANIFEST do not concern
    /// old files.
    #[pumice_test_macros::test]
    fn damage_in_a_compaction_stops_writes_only_if_paranoid() {
        let damage = Error::corruption("a block");
        assert_eq!(severity(&damage, Reason::Compaction, false), Severity::Soft);
        assert_eq!(severity(&damage, Reason::Compaction, true), Severity::Unrecoverable);
        assert_eq!(severity(&damage, Reason::Flush, false), Severity::Unrecoverable);
        assert_eq!(severity(&damage, Reason::Manifest, false), Severity::Unrecoverable);
    }
}
