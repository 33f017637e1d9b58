//! Cuckoo tables, a format of RocksDB for point lookups of rows of one size
//! (docs/format/cuckoo.md).
//!
//! ```text
//! bucket* ‖ properties ‖ metaindex ‖ footer
//! bucket: key ‖ value, all of one size; an empty one has a key that no row has
//! key: internal key, or user key if every row has sequence 0
//! ```
//!
//! | part | is |
//! |---|---|
//! | `read` | the rows of a table in key order, for `translated` |
//! | `build` | writes a table |
//! | `hash` | where the buckets of a key are |
//!
//! Tables are read through an index of our own, so the hash functions matter to the builder alone.
//!
//! Thread safety: see each module.

mod build;
mod hash;
mod read;

pub(crate) use build::CuckooTable;
pub(crate) use read::translate;

/// Names of the properties; numbers are fixed and little-endian, of the bytes given.
mod names {
    /// The key of empty buckets.
    pub const EMPTY_KEY: &str = "rocksdb.cuckoo.bucket.empty.key";
    /// 4 bytes.
    pub const HASH_FUNCTIONS: &str = "rocksdb.cuckoo.hash.num";
    /// Buckets without those at the end that only blocks reach into; 8 bytes.
    pub const TABLE_SIZE: &str = "rocksdb.cuckoo.hash.size";
    /// 8 bytes.
    pub const VALUE_LENGTH: &str = "rocksdb.cuckoo.value.length";
    /// Keys are user keys; 1 byte.
    pub const IS_LAST_LEVEL: &str = "rocksdb.cuckoo.file.islastlevel";
    /// 4 bytes.
    pub const BLOCK_SIZE: &str = "rocksdb.cuckoo.hash.cuckooblocksize";
    /// 1 byte.
    pub const IDENTITY_FIRST: &str = "rocksdb.cuckoo.hash.identityfirst";
    /// 1 byte.
    pub const USE_MODULE: &str = "rocksdb.cuckoo.hash.usemodule";
    /// 4 bytes.
    pub const USER_KEY_LENGTH: &str = "rocksdb.cuckoo.hash.userkeylength";
}
