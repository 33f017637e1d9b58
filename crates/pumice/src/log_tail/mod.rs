//! Reads logs after they were written: iterators over them, the list of logs, and how long the
//! archive keeps those that are no longer needed.
//!
//! Nothing here locks a database or deletes a file: the engine passes files and numbers.

pub(crate) mod follow;
pub(crate) mod log_files;
pub(crate) mod log_history;
pub(crate) mod retention;
pub(crate) mod wal_iterator;
