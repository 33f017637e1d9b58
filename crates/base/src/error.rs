//! The one error type of the project.
//!
//! `Error` is one pointer wide and cheap to clone (a background error is reported many times).
//! `kind` has the meaning and number of RocksDB's `Status` codes; `Display` prints what
//! `Status::ToString` prints ("Corruption: bad block ...", "IO error: No such file ..."). A missing
//! key is not an error: reads return `Ok(None)`. The operating system's error is kept as the
//! `source`, and is in the text too, as in RocksDB's texts.
//!
//! Thread safety: immutable after construction, `Send + Sync`.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Result of every fallible Pumice call.
///
/// Example: that of [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong, by what the caller can do about it. Numbers are RocksDB's `Status::Code`.
///
/// Example: that of [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(u8)]
pub enum ErrorKind {
    /// A named thing (file, column family) does not exist.
    NotFound = 1,
    /// Stored bytes are not what was written. Restore from a backup.
    Corruption = 2,
    /// This build cannot do that. Change the request.
    NotSupported = 3,
    /// The request contradicts itself or the database. Change the request.
    InvalidArgument = 4,
    /// The operating system reported a failure.
    IoError = 5,
    /// A merge could not be completed.
    MergeInProgress = 6,
    /// The call stopped early as configured (no_slowdown, budget).
    Incomplete = 7,
    /// The database is closing.
    ShutdownInProgress = 8,
    /// A time limit passed.
    TimedOut = 9,
    /// The operation was cancelled.
    Aborted = 10,
    /// A resource is in use.
    Busy = 11,
    /// The record is past its time to live.
    Expired = 12,
    /// Repeat the call.
    TryAgain = 13,
    /// A compaction input exceeds a limit.
    CompactionTooLarge = 14,
    /// The column family was dropped.
    ColumnFamilyDropped = 15,
}

/// Finer reason under an [`ErrorKind`]. Numbers are RocksDB's `Status::SubCode`.
///
/// Example: that of [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
#[repr(u8)]
pub enum SubCode {
    /// No finer reason.
    #[default]
    None = 0,
    /// A lock of the lock table itself was not free in time.
    MutexTimeout = 1,
    /// A key was locked by another transaction for too long.
    LockTimeout = 2,
    /// As many keys are locked as options allow.
    LockLimit = 3,
    /// The device or quota is full.
    NoSpace = 4,
    /// Waiting for a lock would never have ended.
    Deadlock = 5,
    /// A file handle of a removed file (ESTALE).
    StaleFile = 6,
    /// A configured memory limit was reached.
    MemoryLimit = 7,
    /// A configured space limit was reached.
    SpaceLimit = 8,
    /// A path component does not exist.
    PathNotFound = 9,
    /// There are more merge operands than were expected.
    MergeOperandsInsufficientCapacity = 10,
    /// A manual compaction was paused or cancelled.
    ManualCompactionPaused = 11,
    /// A transaction is not prepared, and must be.
    TxnNotPrepared = 13,
    /// The user's merge operator returned failure.
    MergeOperatorFailed = 15,
    /// Compactions do not run until they are resumed.
    CompactionAborted = 19,
}

impl SubCode {
    /// What `Status::ToString` prints between the kind and the message.
    fn text(self) -> &'static str {
        match self {
            SubCode::None => "",
            SubCode::MutexTimeout => "Timeout Acquiring Mutex",
            SubCode::LockTimeout => "Timeout waiting to lock key",
            SubCode::LockLimit => "Failed to acquire lock due to max_num_locks limit",
            SubCode::Deadlock => "Deadlock",
            SubCode::TxnNotPrepared => "Txn not prepared",
            SubCode::NoSpace => "No space left on device",
            SubCode::StaleFile => "Stale file handle",
            SubCode::MemoryLimit => "Memory limit reached",
            SubCode::SpaceLimit => "Space limit reached",
            SubCode::PathNotFound => "No such file or directory",
            SubCode::MergeOperandsInsufficientCapacity => {
                "Insufficient capacity for merge operands"
            }
            SubCode::ManualCompactionPaused => "Manual compaction paused",
            SubCode::MergeOperatorFailed => "Merge operator failed",
            SubCode::CompactionAborted => "All compactions aborted",
        }
    }
}

/// How much of the database a background error stops. RocksDB's `Status::Severity`.
///
/// Example: that of [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(u8)]
pub enum Severity {
    /// Not a background error.
    #[default]
    None = 0,
    /// Writes continue; a background job will be repeated.
    Soft = 1,
    /// Writes stop until `resume`.
    Hard = 2,
    /// Writes stop until the database is reopened.
    Fatal = 3,
    /// Reopening will not help.
    Unrecoverable = 4,
}

#[derive(Clone, Debug)]
struct Inner {
    kind: ErrorKind,
    subcode: SubCode,
    severity: Severity,
    message: String,
    source: Option<Arc<io::Error>>,
}

/// An error with kind, subcode, severity and a message that names file, offset and operation.
///
/// ```
/// # use pumice_base::{Error, ErrorKind, Result, Severity, SubCode};
/// /// What a caller does about it.
/// fn next_step(error: &Error) -> &'static str {
///     match error.kind() {
///         ErrorKind::Busy | ErrorKind::TryAgain => "again",
///         ErrorKind::Corruption => "restore a backup",
///         ErrorKind::IoError if error.subcode() == SubCode::NoSpace => "make room",
///         _ => "tell the user",
///     }
/// }
///
/// fn full() -> Result<()> {
///     let error = Error::io_message("000012.sst: no space left on device");
///     Err(error.with_subcode(SubCode::NoSpace).with_severity(Severity::Hard))
/// }
///
/// let error = full().unwrap_err();
/// assert_eq!(next_step(&error), "make room");
/// assert!(error.is_no_space() && error.severity() == Severity::Hard);
/// assert_eq!(next_step(&Error::busy("locked")), "again");
/// ```
#[derive(Clone)]
pub struct Error(Arc<Inner>);

impl Error {
    /// An error of `kind` with `message`.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error(Arc::new(Inner {
            kind,
            subcode: SubCode::None,
            severity: Severity::None,
            message: message.into(),
            source: None,
        }))
    }

    /// An error by RocksDB's numbers, as it comes from another process or language; a kind that is
    /// unknown is Aborted, other unknown numbers are as 0. Not for the kind 0, which is success.
    pub fn of_numbers(kind: u8, subcode: u8, severity: u8, message: impl Into<String>) -> Self {
        use ErrorKind::*;
        let kinds = [
            NotFound,
            Corruption,
            NotSupported,
            InvalidArgument,
            IoError,
            MergeInProgress,
            Incomplete,
            ShutdownInProgress,
            TimedOut,
            Aborted,
            Busy,
            Expired,
            TryAgain,
            CompactionTooLarge,
            ColumnFamilyDropped,
        ];
        let subcodes = [
            SubCode::MutexTimeout,
            SubCode::LockTimeout,
            SubCode::LockLimit,
            SubCode::NoSpace,
            SubCode::Deadlock,
            SubCode::StaleFile,
            SubCode::MemoryLimit,
            SubCode::SpaceLimit,
            SubCode::PathNotFound,
            SubCode::MergeOperandsInsufficientCapacity,
            SubCode::ManualCompactionPaused,
            SubCode::TxnNotPrepared,
            SubCode::MergeOperatorFailed,
            SubCode::CompactionAborted,
        ];
        let severities = [Severity::Soft, Severity::Hard, Severity::Fatal, Severity::Unrecoverable];
        let kind = kinds.into_iter().find(|known| *known as u8 == kind).unwrap_or(Aborted);
        let subcode = subcodes.into_iter().find(|known| *known as u8 == subcode);
        let severity = severities.into_iter().find(|known| *known as u8 == severity);
        Error::new(kind, message)
            .with_subcode(subcode.unwrap_or_default())
            .with_severity(severity.unwrap_or_default())
    }
    /// Stored bytes are wrong.
    pub fn corruption(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Corruption, message)
    }
    /// The request is contradictory.
    pub fn invalid_argument(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidArgument, message)
    }
    /// This build cannot do that.
    pub fn not_supported(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotSupported, message)
    }
    /// A named thing does not exist.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, message)
    }
    /// The call stopped early as configured.
    pub fn incomplete(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Incomplete, message)
    }
    /// The operation was cancelled.
    pub fn aborted(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Aborted, message)
    }
    /// A resource is in use.
    pub fn busy(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Busy, message)
    }
    /// The database is closing.
    pub fn shutdown(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::ShutdownInProgress, message)
    }
    /// The column family was dropped.
    pub fn column_family_dropped(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::ColumnFamilyDropped, message)
    }
    /// An I/O failure without an operating-system code.
    pub fn io_message(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::IoError, message)
    }

    /// An operating-system failure during `operation` on `path`.
    ///
    /// The text is RocksDB's `While open a file for random read: PATH: REASON`, which `Display`
    /// puts after the subcode's text: `IO error: No such file or directory: While open a ...`.
    pub fn io(operation: &str, path: &Path, source: &io::Error) -> Self {
        let os_error = source.raw_os_error();
        let reason = os_reason(source);
        let subcode = match os_error {
            Some(28) | Some(122) => SubCode::NoSpace, // ENOSPC, EDQUOT
            Some(116) => SubCode::StaleFile,          // ESTALE
            Some(2) => SubCode::PathNotFound,         // ENOENT
            _ => SubCode::None,
        };
        Error(Arc::new(Inner {
            kind: ErrorKind::IoError,
            subcode,
            severity: Severity::None,
            message: format!("{operation}: {}: {reason}", path.display()),
            source: Some(Arc::new(copy_of(source))),
        }))
    }

    /// The same error with `context` put before its message.
    #[must_use]
    pub fn with_context(&self, context: impl fmt::Display) -> Self {
        let mut inner = (*self.0).clone();
        inner.message = format!("{context}: {}", inner.message);
        Error(Arc::new(inner))
    }
    /// The same error with a subcode.
    #[must_use]
    pub fn with_subcode(&self, subcode: SubCode) -> Self {
        let mut inner = (*self.0).clone();
        inner.subcode = subcode;
        Error(Arc::new(inner))
    }
    /// The same error with a severity.
    #[must_use]
    pub fn with_severity(&self, severity: Severity) -> Self {
        let mut inner = (*self.0).clone();
        inner.severity = severity;
        Error(Arc::new(inner))
    }

    /// What kind of failure this is.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }
    /// The finer reason.
    pub fn subcode(&self) -> SubCode {
        self.0.subcode
    }
    /// How much of the database a background error takes down.
    pub fn severity(&self) -> Severity {
        self.0.severity
    }
    /// The message without the kind's prefix.
    pub fn message(&self) -> &str {
        &self.0.message
    }
    /// The errno, when an operating-system call failed.
    pub fn os_error(&self) -> Option<i32> {
        self.0.source.as_ref()?.raw_os_error()
    }
    /// Stored bytes are wrong.
    pub fn is_corruption(&self) -> bool {
        self.0.kind == ErrorKind::Corruption
    }
    /// A file or name does not exist (`NotFound`, or an I/O error with ENOENT).
    pub fn is_not_found(&self) -> bool {
        self.0.kind == ErrorKind::NotFound || self.0.subcode == SubCode::PathNotFound
    }
    /// Something is in use: with transactions, another one has changed what this one read or
    /// wants to change, or the two wait for each other. Repeat the whole transaction.
    pub fn is_busy(&self) -> bool {
        self.0.kind == ErrorKind::Busy
    }
    /// The operation could not decide and may succeed if it is repeated: with optimistic
    /// transactions, memory does not reach back far enough. Repeat the whole transaction.
    pub fn is_try_again(&self) -> bool {
        self.0.kind == ErrorKind::TryAgain
    }
    /// Transactions wait for each other in a circle; this one gives way. Roll it back, and repeat
    /// it.
    pub fn is_deadlock(&self) -> bool {
        self.0.subcode == SubCode::Deadlock
    }
    /// A time limit passed.
    pub fn is_timed_out(&self) -> bool {
        self.0.kind == ErrorKind::TimedOut
    }
    /// A transaction is past its time.
    pub fn is_expired(&self) -> bool {
        self.0.kind == ErrorKind::Expired
    }
    /// The device is full.
    pub fn is_no_space(&self) -> bool {
        self.0.subcode == SubCode::NoSpace
    }
}

/// The same failure once more: `io::Error` cannot be cloned.
fn copy_of(source: &io::Error) -> io::Error {
    match source.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::Error::new(source.kind(), source.to_string()),
    }
}

/// The text of `strerror`, which `io::Error` prints with an ` (os error N)` tail.
fn os_reason(source: &io::Error) -> String {
    let text = source.to_string();
    match text.find(" (os error") {
        Some(at) => text[..at].to_string(),
        None => text,
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = match self.0.kind {
            ErrorKind::NotFound => "NotFound: ",
            ErrorKind::Corruption => "Corruption: ",
            ErrorKind::NotSupported => "Not implemented: ",
            ErrorKind::InvalidArgument => "Invalid argument: ",
            ErrorKind::IoError => "IO error: ",
            ErrorKind::MergeInProgress => "Merge in progress: ",
            ErrorKind::Incomplete => "Result incomplete: ",
            ErrorKind::ShutdownInProgress => "Shutdown in progress: ",
            ErrorKind::TimedOut => "Operation timed out: ",
            ErrorKind::Aborted => "Operation aborted: ",
            ErrorKind::Busy => "Resource busy: ",
            ErrorKind::Expired => "Operation expired: ",
            ErrorKind::TryAgain => "Operation failed. Try again.: ",
            ErrorKind::CompactionTooLarge => "Compaction too large: ",
            ErrorKind::ColumnFamilyDropped => "Column family dropped: ",
        };
        f.write_str(prefix)?;
        let subcode = self.0.subcode.text();
        f.write_str(subcode)?;
        if !subcode.is_empty() && !self.0.message.is_empty() {
            f.write_str(": ")?;
        }
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {
    /// The failure of the operating system, an [`io::Error`], if there was one.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

/// Errors are equal if everything they report is equal.
impl PartialEq for Error {
    fn eq(&self, other: &Self) -> bool {
        let facts = |e: &Self| (e.kind(), e.subcode(), e.severity(), e.os_error());
        facts(self) == facts(other) && self.message() == other.message()
    }
}

impl Eq for Error {}

/// For programs whose errors are `io::Error`; the error itself is inside
/// ([`io::Error::get_ref`]).
impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let kind = match (error.kind(), &error.0.source) {
            (_, Some(source)) => source.kind(),
            (ErrorKind::NotFound, _) => io::ErrorKind::NotFound,
            (ErrorKind::Corruption, _) => io::ErrorKind::InvalidData,
            (ErrorKind::NotSupported, _) => io::ErrorKind::Unsupported,
            (ErrorKind::InvalidArgument, _) => io::ErrorKind::InvalidInput,
            (ErrorKind::TimedOut, _) => io::ErrorKind::TimedOut,
            (ErrorKind::Busy, _) => io::ErrorKind::ResourceBusy,
            _ => io::ErrorKind::Other,
        };
        io::Error::new(kind, error)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn texts_are_those_of_rocksdb() {
        let missing = std::io::Error::from_raw_os_error(2);
        let error =
            Error::io("While open a file for random read", Path::new("/db/1.sst"), &missing);
        assert_eq!(
            error.to_string(),
            "IO error: No such file or directory: While open a file for random read: /db/1.sst: \
             No such file or directory"
        );
        assert!(error.is_not_found() && error.os_error() == Some(2));
        assert_eq!(Error::corruption("x").to_string(), "Corruption: x");
        assert_eq!(Error::not_supported("x").to_string(), "Not implemented: x");
        let full = Error::io_message("quota").with_subcode(SubCode::NoSpace);
        assert_eq!(full.to_string(), "IO error: No space left on device: quota");
        let device = Error::io("append", Path::new("f"), &std::io::Error::from_raw_os_error(28));
        assert!(device.is_no_space());
        assert_eq!(
            device.to_string(),
            "IO error: No space left on device: append: f: No space left on device"
        );
    }

    #[test]
    fn what_the_system_said_is_the_source() {
        use std::error::Error as _;
        let full = io::Error::from_raw_os_error(28);
        let error = Error::io("append", Path::new("f"), &full).with_context("000007.log");
        let source = error.source().unwrap().downcast_ref::<io::Error>().unwrap();
        assert_eq!((source.kind(), source.raw_os_error()), (full.kind(), Some(28)));
        assert!(Error::corruption("x").source().is_none());
        let odd = io::Error::new(io::ErrorKind::UnexpectedEof, "short");
        let error = Error::io("read", Path::new("f"), &odd);
        assert_eq!((error.os_error(), error.source().unwrap().to_string()), (None, "short".into()));
        assert_eq!(error, error.clone());
        assert_ne!(error, error.with_severity(Severity::Hard));
        assert_ne!(error, error.with_context("x"));
        let outer = io::Error::from(error.clone());
        assert_eq!((outer.kind(), outer.to_string()), (odd.kind(), error.to_string()));
        let inner = outer.get_ref().unwrap().downcast_ref::<Error>();
        assert_eq!(inner, Some(&error));
        assert_eq!(io::Error::from(Error::corruption("x")).kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn context_and_severity_keep_the_rest() {
        let error = Error::corruption("bad block").with_context("000007.sst");
        let error = error.with_severity(Severity::Fatal);
        assert_eq!(
            (error.kind(), error.message()),
            (ErrorKind::Corruption, "000007.sst: bad block")
        );
        assert_eq!((error.severity(), error.subcode()), (Severity::Fatal, SubCode::None));
        assert!(error.is_corruption() && !error.is_not_found());
        assert!(Severity::Soft < Severity::Hard);
    }
}
