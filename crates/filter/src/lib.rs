//! Table filters: "is this key perhaps in here?" (format spec section 3).
//!
//! Built: the cache-local Bloom filter of format 5 and later, and the legacy Bloom filter of
//! formats up to 4. Read: both of them and the Ribbon filter. A payload is `data ‖ 5 metadata
//! bytes`; payloads that this version does not know always match, as RocksDB has it.
//!
//! Thread safety: builders belong to one thread at a time, [`FilterReader`] and [`FilterPolicy`]
//! are immutable. No input makes a reader panic or read out of bounds; a damaged filter answers
//! wrongly, so blocks are verified before they get here.
//!
//! Not here: cutting filters into partitions, caching, `optimize_filters_for_memory`.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod bloom;
mod builder;
mod dedup;
mod legacy;
mod policy;
mod reader;
mod ribbon;
#[cfg(test)]
mod tests;

pub use bloom::BloomBuilder;
pub use builder::FilterBuilder;
pub use dedup::KeyHashes;
pub use legacy::LegacyBloomBuilder;
pub use policy::{FilterKind, FilterPolicy};
pub use reader::FilterReader;

/// Bytes behind the data of every filter that say how to read it.
pub(crate) const METADATA_LEN: usize = 5;
