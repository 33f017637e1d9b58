//! Block compression as RocksDB's tables store it (docs/format/table.md#compression).
//!
//! A payload is `varint size ‖ codec stream`, except Snappy, whose stream carries its own size.
//! [`Compressor`] and [`Decompressor`] own the codecs' contexts, so that a block costs neither an
//! allocation nor a context reset; keep one of each per worker thread. The compressed form of a
//! block depends on its bytes, the options and the dictionary, never on a context's earlier work.
//!
//! Thread safety: both are `Send` and used by one thread at a time; dictionaries are shared:
//! [`CompressionDict`] by the writers of a table, [`Dictionary`] by its readers. Hostile input ends
//! in `Error::corruption`: a stored size above the caller's limit, or beyond what the codec can
//! reach from so few bytes, is rejected before anything is allocated.
//!
//! lz4 and zstd are C libraries, each behind a feature of its name; without it, a request for the
//! codec gets `NotSupported` with its name.
//!
//! Not here: which blocks to compress (`manager` has only the names of the rules), the block
//! trailer, sampling for dictionaries, Xpress.
#![deny(unsafe_code)]
#![warn(missing_docs)]

mod compressor;
mod decompressor;
#[cfg(all(test, feature = "lz4", feature = "zstd"))]
mod dict_tests;
mod dictionary;
#[cfg(feature = "lz4")]
mod lz4;
#[cfg(not(feature = "lz4"))]
#[path = "lz4_absent.rs"]
mod lz4;
mod manager;
mod options;
mod snappy;
#[cfg(all(test, feature = "lz4", feature = "zstd"))]
mod tests;
mod uninit;
#[cfg(feature = "zstd")]
mod zstd;
#[cfg(not(feature = "zstd"))]
#[path = "zstd_absent.rs"]
mod zstd;

pub use compressor::Compressor;
pub use decompressor::{Decompressor, Dictionary};
pub use dictionary::CompressionDict;
pub use manager::CompressionManager;
pub use options::{
    AUTO_SKIP_SAMPLE_EVERY, CompressionOptions, CompressionType, DEFAULT_LEVEL,
    MAX_PARALLEL_THREADS,
};
pub use snappy::SnappyPrefix;
