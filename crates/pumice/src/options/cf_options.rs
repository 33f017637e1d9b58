//! The options of a column family: one row each.
//!
//! Defaults are RocksDB 10.10's; columns as in `db_options`.

use std::sync::Arc;

use pumice_base::Comparator;
use pumice_base::extension::{CompactionFilter, MergeOperator, SliceTransform};
use pumice_compress::{CompressionOptions, CompressionType};

use super::block_based::BlockBasedTableOptions;
use super::collectors::CompactOnDeletionCollectorFactory;
use super::component_values::buildable_compression;
use super::enums::{CompactionPri, CompactionStyle, MemtableFactory, buildable_style};
use super::fifo::FifoOptions;
use super::row::option_table;
use super::universal::UniversalOptions;
use super::value::{Refusal, at_least, between};

/// Levels at most.
pub const MAX_LEVELS: i32 = 64;
/// `ttl` or `periodic_compaction_seconds` that was not set.
pub(super) const UNSET_SECONDS: u64 = u64::MAX - 1;

option_table! {
    /// Options of a column family. Every public field has the name of RocksDB's option.
    pub struct ColumnFamilyOptions;
    fields {
        /// Order of user keys; its name is persisted and checked on open.
        comparator: Comparator = Comparator::Bytewise, fixed, saved;
        /// Combines merge operands; None refuses merges.
        merge_operator: Option<Arc<dyn MergeOperator>> = None, fixed, saved;
        /// Prefix of keys for prefix filters and prefix iteration.
        prefix_extractor: Option<Arc<dyn SliceTransform>> = None, mutable, saved;
        /// Kind of memtable.
        memtable_factory: MemtableFactory = MemtableFactory::default(), fixed, saved;
        /// Options of table files.
        table_factory: BlockBasedTableOptions = BlockBasedTableOptions::default(), mutable, saved;
        /// Bytes of one memtable.
        write_buffer_size: usize = 64 << 20, mutable, saved, at_least(1);
        /// Memtables at most, the one written to included; writes stop when all are full.
        max_write_buffer_number: i32 = 2, mutable, saved, at_least(1);
        /// Memtables that one flush merges at least.
        min_write_buffer_number_to_merge: i32 = 1, fixed, saved, at_least(1);
        /// A memtable is full with so many range deletions, too; 0 for however many. Holds for
        /// memtables to come.
        memtable_max_range_deletions: u32 = 0, mutable, unsaved;
        /// A Bloom filter in each memtable, of so large a part of `write_buffer_size` (at most a
        /// quarter) and counted with the memtable's memory: of prefixes, if there is a
        /// `prefix_extractor`. 0 for none. Holds for memtables to come.
        memtable_prefix_bloom_size_ratio: f64 = 0.0, mutable, saved;
        /// The memtable's filter has whole keys, too (`memtable_prefix_bloom_size_ratio` asks for
        /// it). Holds for memtables to come.
        memtable_whole_key_filtering: bool = false, mutable, saved;
        /// A merge of a key that has so many operands in a row in the memtable is resolved as it is
        /// written: the log has the operand, the memtable the value, where that needs nothing that
        /// is not in memory. 0 for never. Holds for memtables to come.
        max_successive_merges: usize = 0, mutable, saved;
        /// `max_successive_merges` holds even if the write must read tables.
        strict_max_successive_merges: bool = false, mutable, unsaved;
        /// Bytes of an arena block of the memtable; 0 derives it from write_buffer_size.
        arena_block_size: usize = 0, mutable, saved;
        /// Levels of the tree, L0 included.
        num_levels: i32 = 7, fixed, saved, between(1, MAX_LEVELS);
        /// Compression of levels without a setting of their own.
        compression: CompressionType = CompressionType::Snappy, mutable, saved,
            buildable_compression;
        /// Compression level by level; empty uses `compression` for all. With dynamic level
        /// bytes, entry 1 is for the base level.
        compression_per_level: Vec<CompressionType> = Vec::new(), mutable, saved,
            |list: &Vec<CompressionType>| list.iter().try_for_each(buildable_compression);
        /// Compression of the bottommost level; kDisableCompressionOption uses the others.
        bottommost_compression: CompressionType = CompressionType::Disable, mutable, saved,
            |kind: &CompressionType| match kind {
                CompressionType::Disable => Ok(()),
                other => buildable_compression(other),
            };
        /// Parameters of the compression.
        compression_opts: CompressionOptions = CompressionOptions::default(), mutable, saved;
        /// Parameters of the bottommost compression, used when `enabled` is set in them.
        bottommost_compression_opts: CompressionOptions = CompressionOptions::default(),
            mutable, saved;
        /// L0 files that start a compaction.
        level0_file_num_compaction_trigger: i32 = 4, mutable, saved, at_least(1);
        /// L0 files that slow writes down; negative never.
        level0_slowdown_writes_trigger: i32 = 20, mutable, saved;
        /// L0 files that stop writes.
        level0_stop_writes_trigger: i32 = 36, mutable, saved;
        /// Bytes of a table file at level 1.
        target_file_size_base: u64 = 64 << 20, mutable, saved, at_least(1);
        /// Factor of the file size from level to level.
        target_file_size_multiplier: i32 = 1, mutable, saved, at_least(1);
        /// Compactions count all of a file against its target, with index and filter, so that files
        /// hardly exceed it; otherwise only the data blocks.
        target_file_size_is_upper_bound: bool = false, mutable, unsaved;
        /// Choose level targets from the bottom up, so that the last level holds most data.
        level_compaction_dynamic_level_bytes: bool = true, fixed, saved;
        /// Target bytes of the base level.
        max_bytes_for_level_base: u64 = 256 << 20, mutable, saved, at_least(1);
        /// Factor of the target from level to level.
        max_bytes_for_level_multiplier: f64 = 10.0, mutable, saved;
        /// Extra factor level by level.
        max_bytes_for_level_multiplier_additional: Vec<i32> = vec![1; 7], mutable, saved;
        /// Bytes at most in one compaction; 0 means 25 times target_file_size_base.
        max_compaction_bytes: u64 = 0, mutable, saved;
        /// Estimated compaction debt that slows writes down; 0 never.
        soft_pending_compaction_bytes_limit: u64 = 64 << 30, mutable, saved;
        /// Estimated compaction debt that stops writes; 0 never.
        hard_pending_compaction_bytes_limit: u64 = 256 << 30, mutable, saved;
        /// Compact only on demand.
        disable_auto_compactions: bool = false, mutable, saved;
        /// Stop automatic compactions while flushes alone drain the `rate_limiter`, which has to be
        /// there. Pumice's own.
        auto_tuned_compaction: bool = false, mutable, unsaved;
        /// Reserve the last level for files that are ingested behind all others.
        cf_allow_ingest_behind: bool = false, fixed, unsaved;
        /// How files are merged: leveled, universal or FIFO.
        compaction_style: CompactionStyle = CompactionStyle::Level, fixed, saved,
            buildable_style;
        /// FIFO compaction: how much is kept, and whether small files are merged.
        compaction_options_fifo: FifoOptions = FifoOptions::default(), mutable, saved;
        /// Universal compaction: when sorted runs are merged.
        compaction_options_universal: UniversalOptions = UniversalOptions::default(), mutable,
            saved;
        /// Age in seconds, 0 for none; the default means 30 days. Leveled compaction moves older
        /// data down to the last level with data; FIFO compaction deletes older files. Also in a
        /// database at rest.
        ttl: u64 = UNSET_SECONDS, mutable, saved;
        /// Leveled compaction rewrites files of this age in seconds, those of the last level too;
        /// 0 for never. The default means 30 days with a compaction filter, else never. Universal
        /// compaction rewrites everything, after `ttl` if that is less; the default means 30 days.
        /// Also in a database at rest. FIFO compaction has `ttl`.
        periodic_compaction_seconds: u64 = UNSET_SECONDS, mutable, saved;
        /// Seconds since its creation before a file that has nothing older below it is rewritten
        /// because snapshots no longer need what it holds.
        bottommost_file_compaction_delay: u32 = 0, mutable, unsaved;
        /// Take the blocks of a file that is not needed any more out of the block cache, as long as
        /// at least 0.99 to the power of this less one of those looked for are there; 1 ends at the
        /// first one that is missing, 10000 hardly ever gives up, 0 leaves them to eviction. Not
        /// for databases that share a cache with a copy of themselves.
        uncache_aggressiveness: u32 = 0, mutable, unsaved;
        /// Which file of a level is compacted first.
        compaction_pri: CompactionPri = CompactionPri::MinOverlappingRatio, fixed, saved;
        /// Versions of a key that an iterator steps over before it seeks instead.
        max_sequential_skip_in_iterations: u64 = 8, mutable, saved;
        /// Check the order and overlap of files in every new version; cannot be turned off.
        force_consistency_checks: bool = true, fixed, saved, must_be_true;
        /// Write no filters for the last level: most gets find their key.
        optimize_filters_for_hits: bool = false, fixed, saved;
        /// One of so many data blocks is compressed with LZ4 and with ZSTD as well: what they would
        /// make of the whole table goes into its properties (fast and slow compression estimated
        /// data size). 0 for none.
        sample_for_compression: u64 = 0, mutable, saved;
        /// Read every written table file back and check it.
        paranoid_file_checks: bool = false, mutable, saved;
    }
    components {
        /// Drops or rewrites entries while they are compacted.
        compaction_filter: Option<Arc<dyn CompactionFilter>> = None;
        /// Watch the entries of tables that are written, and may ask for their compaction.
        table_properties_collector_factories: Vec<CompactOnDeletionCollectorFactory> = Vec::new();
    }
    hints {
        /// Memtable bytes kept for conflict checks of transactions, which are not built.
        "max_write_buffer_size_to_maintain": i64 = "0", fixed, saved;
        /// See max_write_buffer_size_to_maintain (removed in RocksDB 10).
        "max_write_buffer_number_to_maintain": i32 = "0", fixed, unsaved;
        /// Huge pages for the memtable.
        "memtable_huge_page_size": u64 = "0", mutable, saved;
        /// Locality of old Bloom filters.
        "bloom_locality": u32 = "0", fixed, saved;
        /// Locks of in-place updates, which are not built.
        "inplace_update_num_locks": u64 = "10000", mutable, saved;
        /// Disk times of background jobs are always measured.
        "report_bg_io_stats": bool = "false", mutable, saved;
        /// Blob files, see enable_blob_files.
        "min_blob_size": u64 = "0", mutable, saved;
        /// Blob files, see enable_blob_files.
        "blob_file_size": u64 = "268435456", mutable, saved;
        /// Blob files, see enable_blob_files.
        "blob_compression_type": String = "kNoCompression", mutable, saved;
        /// Blob files, see enable_blob_files.
        "enable_blob_garbage_collection": bool = "false", mutable, saved;
        /// Blob files, see enable_blob_files.
        "blob_garbage_collection_age_cutoff": f64 = "0.250000", mutable, saved;
        /// Blob files, see enable_blob_files.
        "blob_garbage_collection_force_threshold": f64 = "1.000000", mutable, saved;
        /// Blob files, see enable_blob_files.
        "blob_compaction_readahead_size": u64 = "0", mutable, saved;
        /// Blob files, see enable_blob_files.
        "blob_file_starting_level": i32 = "0", mutable, saved;
        /// Blob files, see enable_blob_files.
        "prepopulate_blob_cache": String = "kDisable", mutable, saved;
        /// Placement hint of file systems with temperatures.
        "last_level_temperature": String = "kUnknown", mutable, unsaved;
        /// Placement hint of file systems with temperatures.
        "bottommost_temperature": String = "kUnknown", mutable, unsaved;
        /// Placement hint of file systems with temperatures.
        "default_temperature": String = "kUnknown", fixed, unsaved;
        /// Placement hint of file systems with temperatures.
        "default_write_temperature": String = "kUnknown", mutable, unsaved;
        /// Flush when scans skip too many hidden entries.
        "memtable_op_scan_flush_trigger": u32 = "0", mutable, unsaved;
        /// See memtable_op_scan_flush_trigger.
        "memtable_avg_op_scan_flush_trigger": u32 = "0", mutable, unsaved;
        /// Turned into a field of the write path (removed in RocksDB 10).
        "check_flush_compaction_key_order": bool = "true", mutable, unsaved;
        /// File sizes follow the next level's boundaries always (removed in RocksDB 10).
        "level_compaction_dynamic_file_size": bool = "true", mutable, unsaved;
        /// Removed in RocksDB 10.
        "ignore_max_compaction_bytes_for_input": bool = "true", mutable, unsaved;
        /// Memtable garbage collection.
        "experimental_mempurge_threshold": f64 = "0.000000", mutable, unsaved;
        /// Obsolete since RocksDB 5.
        "soft_rate_limit": f64 = "0.000000", mutable, unsaved;
        /// Obsolete since RocksDB 5.
        "hard_rate_limit": f64 = "0.000000", mutable, unsaved;
        /// Obsolete since RocksDB 5.
        "rate_limit_delay_max_milliseconds": u32 = "100", mutable, unsaved;
        /// Obsolete since RocksDB 5.
        "filter_deletes": bool = "false", mutable, unsaved;
        /// Obsolete since RocksDB 5.
        "max_mem_compaction_level": i32 = "2", mutable, unsaved;
        /// Obsolete since RocksDB 5.
        "purge_redundant_kvs_while_flush": bool = "true", mutable, unsaved;
        /// Obsolete since RocksDB 5.
        "verify_checksums_in_compaction": bool = "true", mutable, unsaved;
        /// Obsolete since RocksDB 5.
        "source_compaction_factor": i32 = "1", mutable, unsaved;
        /// Obsolete since RocksDB 5.
        "expanded_compaction_factor": i32 = "25", mutable, unsaved;
        /// Obsolete since RocksDB 5.
        "max_grandparent_overlap_factor": i32 = "10", mutable, unsaved;
        /// Obsolete since RocksDB 6.
        "snap_refresh_nanos": u64 = "0", mutable, unsaved;
    }
    unsupported {
        /// Keep large values in blob files (reading them is supported by the format only).
        "enable_blob_files" accepts ["false", "0"];
        /// Change values in the memtable.
        "inplace_update_support" accepts ["false", "0"];
        /// Objects cannot be made from text; see the field compaction_filter.
        "compaction_filter" accepts ["nullptr"];
        /// A filter per compaction.
        "compaction_filter_factory" accepts ["nullptr"];
        /// Boundaries between table files.
        "sst_partitioner_factory" accepts ["nullptr"];
        /// Custom codecs.
        "compression_manager" accepts ["nullptr"];
        /// Hints for memtable inserts by prefix (hints are automatic).
        "memtable_insert_with_hint_prefix_extractor" accepts ["nullptr"];
        /// Checksums per memtable entry.
        "memtable_protection_bytes_per_key" accepts ["0"];
        /// Checksums per block entry.
        "block_protection_bytes_per_key" accepts ["0"];
        /// Check key order in the memtable on every read.
        "paranoid_memory_checks" accepts ["false", "0"];
        /// Check memtable checksums on every seek (RocksDB's spelling).
        "memtable_veirfy_per_key_checksum_on_seek" accepts ["false", "0"];
        /// Kinds of verification of written files.
        "verify_output_flags" accepts ["0"];
        /// Keep recent data off the last level.
        "preclude_last_level_data_seconds" accepts ["0"];
        /// Keep the times of recent writes.
        "preserve_internal_time_seconds" accepts ["0"];
        /// User-defined timestamps.
        "persist_user_defined_timestamps" accepts ["true", "1"];
        /// Refuse writes into memtables.
        "disallow_memtable_writes" accepts ["false", "0"];
        /// Several directories for table files.
        "cf_paths" accepts ["", "{}"];
    }
    aliases {
        "block_based_table_factory" => "table_factory";
        "memtable" => "memtable_factory";
    }
}

fn must_be_true(value: &bool) -> Result<(), Refusal> {
    match value {
        true => Ok(()),
        false => Err(Refusal::Unsupported("false is not supported by this build".to_string())),
    }
}
