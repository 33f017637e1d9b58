//! Options: one table row per option, and everything derived from the rows.
//!
//! | module | role |
//! |---|---|
//! | `row` | the row type and the macro that makes a settings struct and its table |
//! | `db_options`, `cf_options`, `block_based` | the tables |
//! | `value`, `enums`, `component_values`, `table_values` | text forms of types |
//! | `budget`, `presets` | three knobs that set the others; settings for a purpose |
//! | `objects`, `closures` | comparing objects without text form; operators from closures |
//! | `fifo`, `universal` | the settings of these kinds of compaction |
//! | `collectors`, `filter_factory` | collectors of table properties; filters made for each job |
//! | `text`, `cache_text` | escapes and `name=value;` maps; caches by text |
//! | `file` | the OPTIONS file: writing and reading |
//! | `on_disk` | options that decide what is in the files, and are refused for it |
//! | `requests` | what callers pass with a request |
//! | `codec` | which codec a file is written with |
//! | `latest` | finding the OPTIONS file of a database |
//! | `sanitize`, `cache_usage` | the values an open database works with; charges that cannot be |
//! | `docs`, `printed` | the reference page; options as RocksDB prints them in its log |
//! | `merge_operators` | built-in merge operators |
//!
//! Thread safety: plain data. An open database shares `Arc<DbOptions>` and
//! `Arc<ColumnFamilyOptions>` and replaces them whole when an option changes, so that readers
//! never see half a change.

pub mod block_based;
mod budget;
mod cache_text;
mod cache_usage;
pub mod cf_options;
mod closures;
pub(crate) mod codec;
mod collectors;
pub(crate) mod compaction_service;
mod component_values;
pub mod db_options;
pub mod docs;
pub mod enums;
pub mod fifo;
pub mod file;
mod filter_factory;
pub mod index_owner;
pub(crate) mod latest;
pub mod merge_operators;
pub mod objects;
mod on_disk;
mod other_tables;
pub(crate) mod paths;
mod presets;
pub(crate) mod printed;
pub mod requests;
pub mod row;
mod sanitize;
mod sst_partitioner;
pub(crate) mod table_filter;
mod table_rules;
mod table_values;
mod task_limiter;
pub mod text;
pub mod universal;
pub mod value;
pub(crate) mod wal_filter;
mod writers;

#[cfg(test)]
mod peer_tests;
#[cfg(test)]
mod tests;

use pumice_base::Result;

pub use block_based::BlockBasedTableOptions;
pub use budget::Budget;
pub use cache_text::cache_from_text;
pub use cf_options::ColumnFamilyOptions;
pub(crate) use cf_options::MAX_LEVELS;
pub use closures::filter_of;
pub use collectors::{
    CollectorContext, CompactOnDeletionCollectorFactory, EntryType, TablePropertiesCollector,
    TablePropertiesCollectorFactory,
};
pub use compaction_service::{
    CompactionService, CompactionServiceJobInfo, CompactionServiceJobStatus,
    CompactionServiceOptionsOverride, CompactionServiceScheduleResponse,
};
pub use db_options::DbOptions;
pub use enums::{
    BackgroundPolicy, BackgroundPriority, CompactionStyle, FileChecksumGenFactory, InfoLogLevel,
    MemtableFactory, PrepopulateBlobCache, StopStyle,
};
pub use fifo::{FifoOptions, FileTemperatureAge};
pub use file::{
    ColumnFamilyEntry, FileRules, LoadedOptions, format_options_file, options_file_bytes,
    parse_options_file, parse_options_file_over,
};
pub use filter_factory::{CompactionFilterContext, CompactionFilterFactory};
pub(crate) use latest::load_latest;
pub use latest::load_latest_options;
pub use merge_operators::{StringAppend, merge_operator_by_name};
pub use other_tables::{CuckooTableOptions, PlainTableOptions, TableFactory};
pub use paths::DbPath;
pub use row::OptionSet;
pub(crate) use sanitize::{
    DELAYED_WRITE_RATE, check_order_change, check_together, has_u64_timestamps,
};
pub use sst_partitioner::SstPartitionerFactory;
pub use task_limiter::ConcurrentTaskLimiter;
pub(crate) use task_limiter::{Bell, TaskToken};
pub use universal::UniversalOptions;
pub use wal_filter::{WalFilter, WalProcessing};

pub use pumice_base::checksum::ChecksumType;
pub use pumice_manifest::CompactionPri;
pub use pumice_table::{
    CacheUsageOptions, Charged, DataBlockIndexType, IndexShortening, IndexType, MetadataPinning,
    PinningTier, PlainEncoding, PrepopulateBlockCache, UserDefinedIndex,
};
pub use pumice_wal::WalRecoveryMode;

/// Options of a database and of its default column family.
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// let mut options = pumice::Options::default();
/// options.set("write_buffer_size", "8MB")?;
/// options.tables().block_size = 8192;
/// assert_eq!(options.get("write_buffer_size")?, "8388608");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    /// Options of the database.
    pub db: DbOptions,
    /// Options of the column families that are created with it.
    pub cf: ColumnFamilyOptions,
}

impl Options {
    /// Default options.
    pub fn new() -> Self {
        Self::default()
    }

    /// The options of block-based tables of the default column family: blocks, caches, filters,
    /// indexes. The option `table_factory` of RocksDB.
    pub fn tables(&mut self) -> &mut BlockBasedTableOptions {
        &mut self.cf.table_factory
    }

    /// Sets a database or column-family option by RocksDB's name, for instance
    /// `set("write_buffer_size", "64MB")` or `set("compression_opts.level", "3")`.
    ///
    /// # Errors
    /// InvalidArgument for an unknown name, bad text or a value out of bounds; NotSupported for a
    /// value this build cannot offer. All name the option.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let option = name.split('.').next().unwrap_or(name);
        match DbOptions::row(option) {
            Some(_) => self.db.set(name, value),
            None => self.cf.set(name, value),
        }
    }

    /// The present value of an option as text.
    ///
    /// # Errors
    /// InvalidArgument for an unknown name.
    pub fn get(&self, name: &str) -> Result<String> {
        match DbOptions::row(name) {
            Some(row) => Ok(row.get(&self.db)),
            None => self.cf.get(name),
        }
    }

    /// Applies `name=value;name={nested=value;};`, all or none.
    ///
    /// # Errors
    /// As [`Options::set`].
    pub fn set_from_text(&mut self, map: &str) -> Result<()> {
        let mut changed = self.clone();
        for (name, value) in text::parse_map(map)? {
            changed.set(&name, &value)?;
        }
        *self = changed;
        Ok(())
    }
}
