//! Blob files: databases of RocksDB's, what is written here, garbage, the cache.

mod cached;
mod collected;
mod crashes;
mod foreign;
mod theirs;
mod written;
