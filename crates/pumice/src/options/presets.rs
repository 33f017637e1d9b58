//! Settings for a purpose, with RocksDB's values (`OptimizeForPointLookup` and similar calls).
//!
//! Each takes options and returns them changed; options that it does not name keep their values.
//!
//! Thread safety: plain data.

use std::sync::Arc;

use pumice_base::narrow::to_usize;
use pumice_cache::CacheOptions;
use pumice_compress::CompressionType;
use pumice_filter::FilterPolicy;
use pumice_memtable::WriteBufferManager;
use pumice_table::{BlockCache, DataBlockIndexType, IndexType};

use super::{BlockBasedTableOptions, ColumnFamilyOptions, CompactionStyle, DbOptions, Options};

const MEBIBYTE: usize = 1 << 20;
/// More files than L0 ever has.
const NEVER: i32 = 1 << 30;
/// Bytes of the cache of a small database, memtables included.
const SMALL_CACHE_BYTES: usize = 16 * MEBIBYTE;

fn cache(bytes: usize) -> Arc<BlockCache> {
    BlockCache::new(CacheOptions::new(bytes))
}

impl ColumnFamilyOptions {
    /// For a column family whose keys are only looked up one by one, never iterated over: hash
    /// indexes in data blocks, Bloom filters in tables and memtables, a block cache of this many
    /// MiB. Options of tables start from their defaults. RocksDB's `OptimizeForPointLookup`.
    #[must_use]
    pub fn for_point_lookups(mut self, block_cache_mib: usize) -> Self {
        self.table_factory = BlockBasedTableOptions {
            data_block_index_type: DataBlockIndexType::BinaryAndHash,
            data_block_hash_table_util_ratio: 0.75,
            filter_policy: Some(FilterPolicy::bloom(10.0)),
            block_cache: Some(cache(block_cache_mib.saturating_mul(MEBIBYTE))),
            ..BlockBasedTableOptions::default()
        };
        self.memtable_prefix_bloom_size_ratio = 0.02;
        self.memtable_whole_key_filtering = true;
        self
    }

    /// For a database of less than a gigabyte that should take little memory: small memtables and
    /// files, indexes and filters in `block_cache`. Options of tables start from their defaults.
    /// RocksDB's `OptimizeForSmallDb`; for a whole database use [`Options::for_small_db`].
    #[must_use]
    pub fn for_small_db(mut self, block_cache: Arc<BlockCache>) -> Self {
        self.write_buffer_size = 2 * MEBIBYTE;
        self.target_file_size_base = 2 << 20;
        self.max_bytes_for_level_base = 10 << 20;
        self.soft_pending_compaction_bytes_limit = 256 << 20;
        self.hard_pending_compaction_bytes_limit = 1 << 30;
        self.table_factory = BlockBasedTableOptions {
            block_cache: Some(block_cache),
            cache_index_and_filter_blocks: true,
            index_type: IndexType::TwoLevel,
            ..BlockBasedTableOptions::default()
        };
        self
    }

    /// Universal compaction in this many bytes of memtables: fewer bytes written per byte, more
    /// read and more space taken. RocksDB's `OptimizeUniversalStyleCompaction`, whose default
    /// budget is 512 MiB.
    #[must_use]
    pub fn optimize_universal(mut self, memtable_bytes: u64) -> Self {
        self.set_memtables(memtable_bytes);
        self.compaction_style = CompactionStyle::Universal;
        self.compaction_options_universal.compression_size_percent = 80;
        self
    }

    /// Leveled compaction in this many bytes of memtables: L0 is as large as L1, the first two
    /// levels are not compressed, the others use LZ4, or Snappy in a build without it. RocksDB's
    /// `OptimizeLevelStyleCompaction`, whose default budget is 512 MiB.
    #[must_use]
    pub fn optimize_leveled(mut self, memtable_bytes: u64) -> Self {
        self.set_memtables(memtable_bytes);
        self.level0_file_num_compaction_trigger = 2;
        self.target_file_size_base = memtable_bytes / 8;
        self.max_bytes_for_level_base = memtable_bytes;
        self.compaction_style = CompactionStyle::Level;
        let compressed = |level| match level {
            0 | 1 => CompressionType::None,
            _ if CompressionType::Lz4.is_built() => CompressionType::Lz4,
            _ => CompressionType::Snappy,
        };
        self.compression_per_level = (0..self.num_levels).map(compressed).collect();
        self
    }

    fn set_memtables(&mut self, bytes: u64) {
        self.write_buffer_size = to_usize(bytes / 4);
        self.min_write_buffer_number_to_merge = 2;
        self.max_write_buffer_number = 6;
    }
}

impl DbOptions {
    /// Runs this many background jobs at once instead of 2. RocksDB's `IncreaseParallelism`, whose
    /// default is 16; the number of cores is a good value.
    #[must_use]
    pub fn increase_parallelism(mut self, total_threads: usize) -> Self {
        self.max_background_jobs = i32::try_from(total_threads).unwrap_or(i32::MAX);
        self
    }

    fn for_small_db(mut self, block_cache: Arc<BlockCache>) -> Self {
        self.max_open_files = 5000;
        self.write_buffer_manager = Some(WriteBufferManager::new(0, Some(block_cache), false));
        self
    }
}

impl Options {
    /// See [`ColumnFamilyOptions::for_point_lookups`].
    #[must_use]
    pub fn for_point_lookups(mut self, block_cache_mib: usize) -> Self {
        self.cf = self.cf.for_point_lookups(block_cache_mib);
        self
    }

    /// See [`ColumnFamilyOptions::for_small_db`]: one cache of 16 MiB holds blocks, indexes and
    /// filters, and memtables are charged to it.
    #[must_use]
    pub fn for_small_db(mut self) -> Self {
        let cache = cache(SMALL_CACHE_BYTES);
        self.cf = self.cf.for_small_db(Arc::clone(&cache));
        self.db = self.db.for_small_db(cache);
        self
    }

    /// For loading a database in one go without stalls: all files stay in L0 until the program
    /// compacts everything with [`crate::Db::compact_range`] and opens it with other options.
    /// RocksDB's `PrepareForBulkLoad`.
    #[must_use]
    pub fn for_bulk_load(mut self) -> Self {
        let cf = &mut self.cf;
        cf.level0_file_num_compaction_trigger = NEVER;
        cf.level0_slowdown_writes_trigger = NEVER;
        cf.level0_stop_writes_trigger = NEVER;
        cf.soft_pending_compaction_bytes_limit = 0;
        cf.hard_pending_compaction_bytes_limit = 0;
        cf.disable_auto_compactions = true;
        cf.max_compaction_bytes = 1 << 60;
        cf.num_levels = 2;
        cf.max_write_buffer_number = 6;
        cf.min_write_buffer_number_to_merge = 1;
        cf.target_file_size_base = 256 << 20;
        self.db.max_background_flushes = 4;
        self.db.max_background_compactions = 2;
        self
    }

    /// See [`DbOptions::increase_parallelism`].
    #[must_use]
    pub fn increase_parallelism(mut self, total_threads: usize) -> Self {
        self.db = self.db.increase_parallelism(total_threads);
        self
    }

    /// See [`ColumnFamilyOptions::optimize_universal`].
    #[must_use]
    pub fn optimize_universal(mut self, memtable_bytes: u64) -> Self {
        self.cf = self.cf.optimize_universal(memtable_bytes);
        self
    }

    /// See [`ColumnFamilyOptions::optimize_leveled`].
    #[must_use]
    pub fn optimize_leveled(mut self, memtable_bytes: u64) -> Self {
        self.cf = self.cf.optimize_leveled(memtable_bytes);
        self
    }
}
