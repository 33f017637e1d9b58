//! RocksDB through its C library, loaded at run time, as a safe Rust API.
//!
//! The peer of benchmarks and tests: the same work is given to Pumice and to a real RocksDB
//! (10.10 or later). Nothing is linked; [`Peer::load`] opens the shared library by path.
//!
//! Thread safety: [`Peer`], [`Options`], [`Db`], [`ColumnFamily`], [`Snapshot`], [`ReadOptions`]
//! and [`WriteOptions`] may be shared between threads as RocksDB allows; [`DbIterator`],
//! [`WriteBatch`] and [`SstFileWriter`] belong to one thread at a time, [`PerfContext`] to the one
//! that made it.
//! Invariants: (1) a wrapper owns exactly one C object, made by this library and destroyed once, in
//! its `Drop`; (2) a wrapper keeps alive (by `Arc`) every object that its C object points to, so a
//! database closes after its iterators, snapshots and column family handles are gone; (3) pointers
//! to bytes that RocksDB keeps after a call (read bounds) point to boxed bytes in the same wrapper.
//!
//! It does not cover backups or callbacks other than a merge operator's
//! and a comparator's; whatever has a name in an OPTIONS file is set by name with [`Options::set`].
#![deny(unsafe_op_in_unsafe_fn)]
#![allow(clippy::disallowed_types, clippy::disallowed_methods)] // Not part of the engine.

mod any_version;
mod api;
mod batch;
mod db;
mod error;
mod family;
mod iterator;
mod maintenance;
mod options;
mod owner;
mod perf;
mod snapshot;
mod sst;
#[cfg(test)]
mod tests;
mod timed;
mod traces;
mod transactions;
mod txn;
mod wal;

pub use any_version::AnyVersion;
pub use batch::WriteBatch;
pub use db::Db;
pub use error::{Error, Result};
pub use family::{ColumnFamily, TransactionKind};
pub use iterator::DbIterator;
pub use maintenance::{CompactRangeSettings, IngestSettings, LiveFile};
pub use options::{
    Cache, Options, RateLimiterSettings, ReadOptions, ReadSettings, WriteOptions, WriteSettings,
};
pub use owner::{Compare, Merge};
pub use perf::PerfContext;
pub use snapshot::Snapshot;
pub use sst::SstFileWriter;
pub use traces::{TraceKind, Traces};
pub use transactions::{Transaction, TransactionDb};
pub use txn::{TxnSettings, TxnWorker, is_conflict};
pub use wal::WalIterator;

use std::ffi::{CStr, CString, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A loaded RocksDB library. Clones share it.
#[derive(Clone)]
pub struct Peer {
    pub(crate) api: Arc<api::Api>,
}

/// The variable with the library to use instead of any installed one.
const LIBRARY_VARIABLE: &str = "PUMICE_ROCKSDB_SO";
/// Where `cargo xtask peers` installs it, below the workspace or on the machine.
const PLACES: [&str; 2] = [
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../.peers/librocksdbjni-linux64.so"),
    "/opt/pumice-peers/librocksdbjni-linux64.so",
];

/// The installed library that `cargo xtask peers` provides, or the one that `$PUMICE_ROCKSDB_SO`
/// names; `None`, with a message on standard error, on a machine without one.
///
/// # Panics
/// If the variable names no file, so that CI, which sets it, never passes a test by skipping it.
pub fn installed_library() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os(LIBRARY_VARIABLE) {
        let path = PathBuf::from(named);
        assert!(path.is_file(), "{LIBRARY_VARIABLE} names no file: {}", path.display());
        return Some(path);
    }
    let found = PLACES.iter().map(PathBuf::from).find(|path| path.is_file());
    if found.is_none() {
        eprintln!("SKIPPED: no RocksDB library; `cargo xtask peers` installs it");
    }
    found
}

/// The library that `cargo xtask peers --native` built for this processor, next to the installed
/// one.
pub fn native_library() -> Option<PathBuf> {
    let places = PLACES.iter().map(|place| Path::new(place).with_file_name("librocksdb-native.so"));
    places.into_iter().find(|path| path.is_file())
}

/// RocksDB 9.8.4, which `cargo xtask peers` installs next to 10.10.1 where it can; `None`, with a
/// message on standard error, where it is missing.
pub fn installed_9_8() -> Option<PathBuf> {
    installed_beside("librocksdbjni-linux64-9.8.4.so", "9.8.4")
}

/// RocksDB 11.8.1, as [`installed_9_8`].
pub fn installed_11_8() -> Option<PathBuf> {
    installed_beside("librocksdbjni-11.8.1.so", "11.8.1")
}

fn installed_beside(name: &str, version: &str) -> Option<PathBuf> {
    let places = PLACES.iter().map(|place| Path::new(place).with_file_name(name));
    let named = std::env::var_os(LIBRARY_VARIABLE).map(|l| Path::new(&l).with_file_name(name));
    let found = named.into_iter().chain(places).find(|path| path.is_file());
    if found.is_none() {
        eprintln!("SKIPPED: no RocksDB {version}; `cargo xtask peers` brings it");
    }
    found
}

/// A pool of the library's background threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    /// Compactions of the last level.
    Bottom,
    /// Compactions.
    Low,
    /// Flushes.
    High,
}

impl Peer {
    /// Loads the shared library at `path`.
    ///
    /// # Errors
    /// The file cannot be loaded, or lacks a function of RocksDB's C API (the message names it).
    pub fn load(path: impl AsRef<Path>) -> Result<Peer> {
        Ok(Peer { api: Arc::new(api::Api::load(path.as_ref())?) })
    }

    /// Sets how many threads a pool of the library has.
    pub fn set_background_threads(&self, pool: Pool, threads: i32) {
        let api = &self.api;
        // SAFETY: the default environment outlives its handle, which is destroyed once.
        unsafe {
            let env = (api.create_default_env)();
            match pool {
                Pool::Bottom => (api.env_set_bottom_priority_background_threads)(env, threads),
                Pool::Low => (api.env_set_low_priority_background_threads)(env, threads),
                Pool::High => (api.env_set_high_priority_background_threads)(env, threads),
            }
            (api.env_destroy)(env);
        }
    }

    /// Lowers the CPU priority, the I/O priority or both of the library's pools for compactions and
    /// flushes, each thread before its next job. It cannot be undone.
    pub fn lower_thread_pools(&self, cpu: bool, io: bool) {
        let api = &self.api;
        // SAFETY: the default environment outlives its handle, which is destroyed once.
        unsafe {
            let env = (api.create_default_env)();
            if cpu {
                (api.env_lower_thread_pool_cpu_priority)(env);
                (api.env_lower_high_priority_thread_pool_cpu_priority)(env);
            }
            if io {
                (api.env_lower_thread_pool_io_priority)(env);
                (api.env_lower_high_priority_thread_pool_io_priority)(env);
            }
            (api.env_destroy)(env);
        }
    }

    /// Runs a call that reports failure through `char **errptr`.
    pub(crate) fn checked<T>(&self, call: impl FnOnce(&api::Api, api::ErrorOut) -> T) -> Result<T> {
        let mut error: *mut c_char = std::ptr::null_mut();
        let result = call(&self.api, &mut error);
        if error.is_null() { Ok(result) } else { Err(self.take_error(error)) }
    }

    /// Takes ownership of an error text.
    #[cold]
    pub(crate) fn take_error(&self, error: *mut c_char) -> Error {
        Error::new(self.take_string(error))
    }

    /// Copies a NUL-terminated, `malloc`ed text and frees it. Null gives an empty string.
    pub(crate) fn take_string(&self, text: *mut c_char) -> String {
        if text.is_null() {
            return String::new();
        }
        // SAFETY: RocksDB hands over a NUL-terminated malloc block that is freed only here.
        unsafe {
            let owned = CStr::from_ptr(text).to_string_lossy().into_owned();
            (self.api.free)(text.cast());
            owned
        }
    }
}

/// A path as a C string.
pub(crate) fn c_path(path: &Path) -> Result<CString> {
    CString::new(path.as_os_str().as_bytes())
        .map_err(|_| Error::new(format!("Invalid argument: NUL byte in path {}", path.display())))
}

/// A name as a C string.
pub(crate) fn c_string(text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| Error::new(format!("Invalid argument: NUL byte in {text:?}")))
}
