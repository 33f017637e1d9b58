//! Blob files: databases of RocksDB's, what is written here, garbage, damage.

mod foreign;
mod theirs;
