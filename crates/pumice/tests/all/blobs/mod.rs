//! Blob files: databases of RocksDB's, what is written here, garbage, the cache.
//!
//! RocksDB works on real files, which the suites look at as it does.
#![allow(clippy::disallowed_methods)]

mod cached;
mod collected;
mod crashes;
mod embedded;
mod embedded_bent;
mod fifo;
mod filtered;
mod foreign;
mod many_keys;
mod repaired;
pub mod theirs;
pub mod written;
