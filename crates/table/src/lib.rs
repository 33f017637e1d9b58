//! Block-based tables (SST files), as RocksDB writes and reads them (docs/format/table.md and
//! docs/format/filter.md).
//!
//! `blob` has the format of blob files.
//!
//! Writing is in `build` ([`TableBuilder`]), reading in `read` ([`Table`], [`TableIter`]). `plain`
//! and `cuckoo` tables have settings in `formats`, builders in `row_builder`, and are read through
//! `translated`; `builder` chooses. Shared: `footer`, `handle`, `metaindex`, `properties`,
//! `options`, `cache_usage`, `stats`, `trace`, `unique_id`, `block_footer`, `data_block_hash`,
//! `seqno_to_time_mapping`, `trie`.
//!
//! Formats 2 to 7 are written and read. Files are untrusted: any bytes lead to an error or to wrong
//! entries, never to a panic or an allocation beyond the file's own size and
//! [`TableOptions::max_block_bytes`], or the total of its entries according to its properties.
#![cfg_attr(not(test), deny(clippy::cast_possible_truncation))]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod blob;
mod block_footer;
mod build;
mod builder;
mod cache_usage;
mod cuckoo;
mod data_block_hash;
pub mod dump;
pub mod footer;
mod formats;
mod handle;
mod metaindex;
pub mod options;
mod persistent_cache;
mod plain;
mod prefix;
pub mod properties;
mod read;
mod row_builder;
mod seqno_to_time_mapping;
mod stats;
mod trace;
mod translated;
mod trie;
mod unique_id;

pub use build::BuildStats;
pub use build::context::{TableBuildContext, TableReason};
pub use builder::TableBuilder;
pub use cache_usage::{CacheUsageOptions, Charged, over_memory_limit};
pub use formats::{CuckooFormat, PlainEncoding, PlainFormat, RowTable};
pub use handle::{BLOCK_TRAILER_LEN, BlockHandle, BlockKind};
pub use options::{
    DataBlockIndexType, IndexShortening, IndexType, MetadataPinning, PinningTier,
    PrepopulateBlockCache, TableOptions, UserDefinedIndex,
};
pub use persistent_cache::{PersistentCache, PersistentCacheOptions, PersistentCacheStats};
pub use properties::TableProperties;
pub use pumice_base::extractor::Extractor;
pub use read::block::Block;
pub use read::blocks::paced;
pub use read::cached_block::{BlockCache, CachedBlock, PinnedBlock};
pub use read::context::{MissedBlock, ReadCount, ReadLimits, TableReadContext, TableReadOptions};
pub use read::index::IndexBlock;
pub use read::iter::{Goal, TableIter};
pub use read::salvage::SalvageIter;
pub use read::secondary::from_secondary;
pub use read::table::Table;
pub use seqno_to_time_mapping::SeqnoToTimeMapping;
pub use stats::TableStats;
pub use trace::{BlockAccess, BlockEntries, BlockTracer};
pub use unique_id::{SESSION_ID_LEN, cache_base_of, session_id, unique_id, unique_id_of};
