//! Errors as the operating system reports them, and of a world that has ended.
//!
//! Thread safety: pure functions.

use pumice_base::Error;
use std::io;
use std::path::Path;

pub(super) const ENOENT: i32 = 2;
pub(super) const EAGAIN: i32 = 11;
pub(super) const EEXIST: i32 = 17;

/// The error of an operation in a world that has ended.
pub(super) fn halted(operation: &str, path: &Path) -> Error {
    Error::io_message(format!("{operation}: {}: halted", path.display()))
}

/// An error of the system call `operation` on `path`.
pub(super) fn os_error(operation: &str, path: &Path, errno: i32) -> Error {
    Error::io(operation, path, &io::Error::from_raw_os_error(errno))
}
