//! What a binding of RocksDB's C interface to another language needs, without the language: option
//! objects with all of RocksDB's names, handles' contents, reports, numbers.
//!
//! The C library (`crates/capi`) puts pointers and call-backs on top of it.
//!
//! | module | role |
//! |---|---|
//! | `table`, `store` | the table of properties; objects that are plain values |
//! | `value`, `overlay` | numbers that stand for texts; stored values over the engine's options |
//! | `options`, `requests` | options of databases, tables, reads, writes and other requests |
//! | `handles` | databases, cursors, batches: contents of handles |
//! | `reports`, `statistics`, `status` | what the engine reports, in RocksDB's numbers and texts |
//! | `transactions` | options of databases with transactions |
//! | `env` | file systems and threads |
//!
//! Thread safety: see each module.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod env;
mod handles;
pub mod options;
pub mod overlay;
pub mod reports;
pub mod requests;
pub mod statistics;
pub mod status;
pub mod store;
pub mod table;
pub mod transactions;
pub mod value;

pub use handles::{batch, cursor, database, log_cursor};

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// The path with these bytes.
pub fn path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}
