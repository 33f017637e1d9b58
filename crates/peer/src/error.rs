//! RocksDB's errors as values.
//!
//! Thread safety: values.

use std::fmt;

/// RocksDB's error text, for example `IO error: No such file or directory: ...`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(String);

/// Result of every fallible call.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Error(message.into())
    }
    /// The text, beginning with RocksDB's name of the status code.
    pub fn message(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}
