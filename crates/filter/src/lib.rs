//! Table filters: "is this key perhaps in here?" (docs/format/filter.md).
//!
//! Built and read: the cache-local Bloom filter of format 5 and later, the legacy Bloom filter of
//! formats up to 4, and the standard 128-bit Ribbon filter. A payload is `data ‖ 5 metadata bytes`;
//! payloads that this version does not know always match, as in RocksDB. The bytes are RocksDB's
//! for the same keys unless `optimize_filters_for_memory` is on (see `size_class`).
//!
//! Thread safety: builders belong to one thread at a time, [`FilterReader`] and [`FilterPolicy`]
//! are immutable. No input makes a reader panic or read out of bounds; a damaged filter answers
//! wrongly, so blocks are verified before they get here.
//!
//! Not here: cutting filters into partitions, caching.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod bloom;
mod bloom_line;
mod builder;
mod dedup;
mod legacy;
mod parts;
mod policy;
mod rates;
mod reader;
mod ribbon;
mod settings;
mod size_class;
#[cfg(test)]
mod tests;
mod verify;

pub use bloom::BloomBuilder;
pub use builder::FilterBuilder;
pub use dedup::KeyHashes;
pub use legacy::LegacyBloomBuilder;
pub use policy::{FilterKind, FilterPolicy};
pub use reader::FilterReader;
pub use ribbon::RibbonBuilder;
pub use settings::FilterBuildSettings;
pub use size_class::RateBalance;

/// Bytes after the data of every filter that say how to read it.
pub(crate) const METADATA_LEN: usize = 5;

/// Asked before memory is taken; see [`FilterBuilder::finish_within`].
pub type Hold<'a> = &'a mut dyn FnMut(usize) -> bool;

/// A filter that matches every key, for where none could be built.
pub const ALWAYS_TRUE: [u8; 6] = [0; 6];
