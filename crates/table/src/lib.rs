//! Block-based tables (SST files), as RocksDB writes and reads them (format spec sections 2, 3).
//!
//! Writing: [`TableBuilder`] over `block_builder`, `index_builder`, `block_writer`. Reading:
//! [`Table`] (point reads) and [`TableIter`] over `block` and `index` (decoded forms), `scan` and
//! `cursor` (walking), `file` (checksums, decompression), `open`. Shared: `footer`, `handle`,
//! `metaindex`, `properties`, `options`, `stats`, `unique_id`.
//!
//! Formats 2 to 7 are written and read. Files are hostile: whatever their bytes say ends in an
//! error or in wrong entries, never in a panic or an allocation beyond the file's own size and
//! [`TableOptions::max_block_bytes`].
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod block;
mod block_builder;
mod block_writer;
mod builder;
mod cached_block;
mod cursor;
pub mod dump;
mod file;
pub mod footer;
mod handle;
mod index;
mod index_builder;
mod iter;
mod metaindex;
mod open;
pub mod options;
mod prefix;
pub mod properties;
mod scan;
mod stats;
mod table;
mod unique_id;

pub use block::Block;
pub use builder::TableBuilder;
pub use cached_block::{BlockCache, CachedBlock, PinnedBlock};
pub use handle::{BLOCK_TRAILER_LEN, BlockHandle, BlockKind};
pub use index::IndexBlock;
pub use iter::TableIter;
pub use options::{
    DataBlockIndexType, IndexShortening, IndexType, MissedBlock, TableBuildContext, TableOptions,
    TableReadContext, TableReadOptions,
};
pub use properties::TableProperties;
pub use stats::TableStats;
pub use table::Table;
pub use unique_id::{SESSION_ID_LEN, session_id, unique_id, unique_id_of};
