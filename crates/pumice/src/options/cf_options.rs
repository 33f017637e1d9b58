//! The options of a column family: one row each.
//!
//! Defaults are RocksDB 10.10's; columns as in `db_options`.

use std::sync::Arc;

use pumice_base::extension::{CompactionFilter, MergeOperator, OpFailureScope, SliceTransform};
use pumice_base::{Comparator, Result};
use pumice_compress::{CompressionManager, CompressionOptions, CompressionType};
use pumice_env::Temperature;
use pumice_manifest::CompactionPri;
use pumice_table::{BlockCache, TableOptions};

use super::block_based::BlockBasedTableOptions;
use super::collectors::TablePropertiesCollectorFactory;
use super::component_values::{buildable_compression, buildable_samples};
use super::enums::{CompactionStyle, MemtableFactory, PrepopulateBlobCache, buildable_style};
use super::fifo::FifoOptions;
use super::filter_factory::CompactionFilterFactory;
use super::paths::DbPath;
use super::row::option_table;
use super::sst_partitioner::SstPartitionerFactory;
use super::task_limiter::ConcurrentTaskLimiter;
use super::universal::UniversalOptions;
use super::value::{at_least, between};

/// Levels at most.
pub(crate) const MAX_LEVELS: i32 = 64;
/// `ttl` or `periodic_compaction_seconds` that was not set.
pub(super) const UNSET_SECONDS: u64 = u64::MAX - 1;

option_table! {
    /// Options of a column family. Every public field has the name of RocksDB's option.
    ///
    /// ```
    /// use pumice::{ColumnFamilyOptions, CompressionType};
    /// let mut options = ColumnFamilyOptions { write_buffer_size: 8 << 20, ..Default::default() };
    /// options.compression = CompressionType::Snappy;
    /// ```
    pub struct ColumnFamilyOptions;
    fields {
        /// Order of user keys; its name is persisted and checked on open.
        comparator: Comparator = Comparator::Bytewise, fixed, saved
            => "table_interop::reverse_order_is_read";
        /// Keys keep their timestamps in tables. If not, only memtables and logs have them: a flush
        /// takes them off, and raises `full_history_ts_low` above what it has written. The times of
        /// a key must not go down. Needs an order whose name ends with `.u64ts`, and none of
        /// `allow_concurrent_memtable_write`, `atomic_flush` and `max_successive_merges`.
        persist_user_defined_timestamps: bool = true, fixed, newer
            => "unkept::tables_lose_timestamps_and_flushes_raise_the_low";
        /// Combines merge operands; None refuses merges.
        merge_operator: Option<Arc<dyn MergeOperator>> = None, fixed, saved
            => "merges::every_so_many_merges_are_resolved_and_the_log_has_them_all";
        /// What it concerns that operands of a key cannot be merged, if the operator does not say
        /// it: with kTryMerge reads of the key, flushes, compactions and an open that finds them in
        /// a log; with kMustMerge only its reads, and all else keeps its operands as they are. So a
        /// database that such a key has stopped opens and goes on. kDefault is kTryMerge. Pumice's
        /// own.
        merge_operator_failure_scope: OpFailureScope = OpFailureScope::Default, mutable, unsaved
            => "merge_failures::an_open_keeps_what_cannot_be_merged";
        /// Prefix of keys for prefix filters and prefix iteration.
        prefix_extractor: Option<Arc<dyn SliceTransform>> = None, mutable, saved
            => "filter::seeks_that_stay_with_a_prefix_ask_the_filter";
        /// Kind of memtable.
        memtable_factory: MemtableFactory = MemtableFactory::SKIP_LIST, fixed, saved
            => "option_rows::each_kind_of_memtable_holds_the_same";
        /// Options of table files.
        table_factory: BlockBasedTableOptions = BlockBasedTableOptions::default(), mutable, saved
            => "options::options_of_tables_reach_the_table_layer";
        /// Bytes of one memtable.
        write_buffer_size: usize = 64 << 20, mutable, saved, at_least(1)
            => "option_rows::memtables_of_all_families_have_a_limit";
        /// Most memtables, including the one being written to; writes stop when all are full.
        max_write_buffer_number: i32 = 2, mutable, saved, at_least(1)
            => "controller::causes_follow_the_documented_order";
        /// Memtable bytes, flushed ones included, that say which keys were written lately: conflict
        /// checks of transactions look there, optimistic ones nowhere else. 0 keeps no flushed
        /// memtable; less means `max_write_buffer_number * write_buffer_size`, which is what
        /// databases with transactions make of 0.
        max_write_buffer_size_to_maintain: i64 = 0, fixed, saved
            => "history::flushed_memtables_stay_for_conflict_checks";
        /// Fewest memtables that one flush merges.
        min_write_buffer_number_to_merge: i32 = 1, fixed, saved, at_least(1)
            => "buffer_stall::memtables_that_wait_to_be_merged_are_flushed";
        /// A memtable also counts as full with this many range deletions; 0 for no limit. Applies
        /// to new memtables.
        memtable_max_range_deletions: u32 = 0, mutable, newer
            => "option_effects::many_range_deletions_make_a_memtable_full";
        /// A Bloom filter in each memtable, as large as this fraction of `write_buffer_size` (at
        /// most a quarter) and counted with the memtable's memory; of prefixes if there is a
        /// `prefix_extractor`. 0 for none. Applies to new memtables.
        memtable_prefix_bloom_size_ratio: f64 = 0.0, mutable, saved
            => "filter::lookups_of_absent_keys_ask_the_filter_first";
        /// The memtable's filter (see `memtable_prefix_bloom_size_ratio`) also holds whole keys.
        /// Applies to new memtables.
        memtable_whole_key_filtering: bool = false, mutable, saved
            => "filter::lookups_of_absent_keys_ask_the_filter_first";
        /// A merge of a key that has this many operands in a row in the memtable is resolved as it
        /// is written: the log has the operand, the memtable the value, where that needs nothing
        /// that is not in memory. 0 for never. Applies to new memtables.
        max_successive_merges: usize = 0, mutable, saved
            => "merges::every_so_many_merges_are_resolved_and_the_log_has_them_all";
        /// `max_successive_merges` applies even if the write must read tables.
        strict_max_successive_merges: bool = false, mutable, newer
            => "merges::strictly_a_write_reads_what_it_needs";
        /// Bytes of an arena block of the memtable; 0 derives it from write_buffer_size.
        arena_block_size: usize = 0, mutable, saved
            => "entrances::an_arena_block_of_any_size_works";
        /// Levels of the tree, L0 included.
        num_levels: i32 = 7, fixed, saved, between(1, MAX_LEVELS)
            => "change_level::without_a_target_files_go_to_a_level_that_they_fit_into";
        /// What ends the outputs of compactions besides their size: nullptr, or
        /// `{id=SstPartitionerFixedPrefixFactory;length=N;}`, with which the first N bytes of keys
        /// are the same in a file. A file that would be cut is not moved to another level.
        sst_partitioner_factory: SstPartitionerFactory = SstPartitionerFactory::None, fixed, saved
            => "partitions::outputs_end_where_prefixes_change";
        /// Compression of levels without a setting of their own.
        compression: CompressionType = CompressionType::Snappy, mutable, saved,
            buildable_compression => "table_interop::every_table_option_is_read";
        /// Compression level by level; empty uses `compression` for all. With dynamic level
        /// bytes, entry 1 is for the base level.
        compression_per_level: Vec<CompressionType> = Vec::new(), mutable, saved,
            |list: &Vec<CompressionType>| list.iter().try_for_each(buildable_compression)
            => "levels::each_level_has_its_codec";
        /// Compression of the bottommost level; kDisableCompressionOption uses the others.
        bottommost_compression: CompressionType = CompressionType::Disable, mutable, saved,
            |kind: &CompressionType| match kind {
                CompressionType::Disable => Ok(()),
                other => buildable_compression(other),
            } => "levels::the_last_level_has_its_codec_and_parameters";
        /// Parameters of the compression.
        compression_opts: CompressionOptions = CompressionOptions::default(), mutable, saved
            => "option_effects::what_helpers_write_is_counted_as_if_there_were_none";
        /// Parameters of the bottommost compression, used when `enabled` is set in them.
        bottommost_compression_opts: CompressionOptions = CompressionOptions::default(),
            mutable, saved => "levels::the_last_level_has_its_codec_and_parameters";
        /// Who chooses the codec of each block of a table: nullptr or `BuiltinV2` for the codec
        /// that is configured, `AutoSkipCompressorManager` for that codec but no tries while most
        /// are rejected, `RoundRobinManager` for all codecs in turn, `CostAwareCompressorManager`
        /// for zstd at its highest level. The last two compress even where no codec is configured.
        compression_manager: Option<CompressionManager> = None, mutable, newer
            => "managers::a_manager_applies_to_the_next_table";
        /// L0 files that start a compaction.
        level0_file_num_compaction_trigger: i32 = 4, mutable, saved, at_least(1)
            => "option_rows::automatic_compactions_can_be_switched_off";
        /// L0 files that slow writes down; negative never.
        level0_slowdown_writes_trigger: i32 = 20, mutable, saved
            => "controller::causes_follow_the_documented_order";
        /// L0 files that stop writes.
        level0_stop_writes_trigger: i32 = 36, mutable, saved
            => "events::stalls_are_logged_counted_and_reported";
        /// Bytes of a table file at level 1.
        target_file_size_base: u64 = 64 << 20, mutable, saved, at_least(1)
            => "option_rows::levels_have_their_sizes";
        /// Factor of the file size from level to level.
        target_file_size_multiplier: i32 = 1, mutable, saved, at_least(1)
            => "option_rows::levels_have_their_sizes";
        /// Compactions count all of a file against its target, with index and filter, so that files
        /// hardly exceed it; otherwise only the data blocks.
        target_file_size_is_upper_bound: bool = false, mutable, newer
            => "option_effects::target_sizes_can_be_upper_bounds";
        /// Refuse a database in which files of a level overlap. If false, it can be opened
        /// read-only: the overlapping files are read as level 0 is, the newest entry by sequence
        /// number. A database opened for writing is always checked.
        force_consistency_checks: bool = true, fixed, saved
            => "overlapping_files::are_read_where_checks_are_off";
        /// Choose level targets from the bottom up, so that the last level holds most data.
        level_compaction_dynamic_level_bytes: bool = true, fixed, saved
            => "ages::with_dynamic_levels_old_files_go_down";
        /// Target bytes of the base level.
        max_bytes_for_level_base: u64 = 256 << 20, mutable, saved, at_least(1)
            => "option_rows::levels_have_their_sizes";
        /// Factor of the target from level to level.
        max_bytes_for_level_multiplier: f64 = 10.0, mutable, saved
            => "option_rows::levels_have_their_sizes";
        /// Extra factor level by level.
        max_bytes_for_level_multiplier_additional: Vec<i32> = vec![1; 7], mutable, saved
            => "option_rows::levels_have_their_sizes";
        /// Most bytes in one compaction; 0 means 25 times target_file_size_base.
        max_compaction_bytes: u64 = 0, mutable, saved
            => "simulation::random_trees_stay_correct_and_come_to_rest";
        /// Estimated compaction debt that slows writes down; 0 never.
        soft_pending_compaction_bytes_limit: u64 = 64 << 30, mutable, saved
            => "controller::causes_follow_the_documented_order";
        /// Estimated compaction debt that stops writes; 0 never.
        hard_pending_compaction_bytes_limit: u64 = 256 << 30, mutable, saved
            => "controller::causes_follow_the_documented_order";
        /// Compact only on demand.
        disable_auto_compactions: bool = false, mutable, saved
            => "option_rows::automatic_compactions_can_be_switched_off";
        /// Stop automatic compactions while flushes alone drain the `rate_limiter`, which must be
        /// set. Pumice's own.
        auto_tuned_compaction: bool = false, mutable, unsaved
            => "auto_tuned::policies_and_tuning_change_at_run_time";
        /// Reserve the last level for files that are ingested as the oldest.
        cf_allow_ingest_behind: bool = false, fixed, newer
            => "behind::automatic_compactions_leave_the_last_level_alone";
        /// How files are merged: leveled, universal or FIFO.
        compaction_style: CompactionStyle = CompactionStyle::Level, fixed, saved,
            buildable_style => "universal::a_leveled_tree_becomes_universal_and_back";
        /// FIFO compaction: how much is kept, and whether small files are merged.
        compaction_options_fifo: FifoOptions = FifoOptions::default(), mutable, saved
            => "fifo::the_oldest_files_go_once_there_are_too_many_bytes";
        /// The temperature that new tables in the last level get: the file system is told, and the
        /// MANIFEST keeps it. Not with FIFO compaction.
        last_level_temperature: Temperature = Temperature::Unknown, mutable, saved
            => "temperatures::each_file_is_created_with_the_temperature_of_its_kind";
        /// The temperature that other new tables get, and the blob files of flushes.
        default_write_temperature: Temperature = Temperature::Unknown, mutable, newer
            => "temperatures::each_file_is_created_with_the_temperature_of_its_kind";
        /// Universal compaction: when sorted runs are merged.
        compaction_options_universal: UniversalOptions = UniversalOptions::default(), mutable,
            saved => "universal::options_change_while_the_database_is_open";
        /// Age in seconds, 0 for none; the default means 30 days. Leveled compaction moves older
        /// data down to the last level with data; FIFO compaction deletes older files. Also in a
        /// database at rest.
        ttl: u64 = UNSET_SECONDS, mutable, saved
            => "ages::old_data_goes_down_in_a_database_at_rest";
        /// Leveled compaction rewrites files of this age in seconds, those of the last level too;
        /// 0 for never. The default means 30 days with a compaction filter, else never. Universal
        /// compaction rewrites everything, after `ttl` if that is less; the default means 30 days.
        /// Also in a database at rest. FIFO compaction has `ttl`.
        periodic_compaction_seconds: u64 = UNSET_SECONDS, mutable, saved
            => "ages::old_files_are_rewritten_every_period";
        /// For as many seconds, tables know when their entries were written, roughly, and
        /// compactions leave them their sequence numbers; 0 for not at all. A cursor shows it
        /// (`DbIterator::write_time`).
        preserve_internal_time_seconds: u64 = 0, mutable, saved
            => "write_times::tables_know_when_young_entries_were_written";
        /// For as many seconds, compactions into the last level leave entries in the level above,
        /// so that `last_level_temperature` is for old data; 0 for not at all. Their times are kept
        /// as with `preserve_internal_time_seconds`. Leveled and universal compaction, with three
        /// levels and more.
        preclude_last_level_data_seconds: u64 = 0, mutable, saved
            => "young_apart::young_entries_stay_above_the_last_level";
        /// Seconds since its creation before a file that has nothing older below it is rewritten
        /// because snapshots no longer need what it holds.
        bottommost_file_compaction_delay: u32 = 0, mutable, newer
            => "ages::the_cleaning_of_bottommost_files_can_wait";
        /// Remove the blocks of a file that is no longer needed from the block cache, as long as
        /// the share of the blocks looked up that are there is at least 0.99 to the power of this
        /// option minus 1; 1 stops at the first missing block, 10000 hardly ever gives up, 0 leaves
        /// them to eviction. Not for databases that share a cache with a copy of themselves.
        uncache_aggressiveness: u32 = 0, mutable, newer => "uncache::blocks_of_compacted_files_go";
        /// Which file of a level is compacted first.
        compaction_pri: CompactionPri = CompactionPri::MinOverlappingRatio, fixed, saved
            => "round_robin::cursors_outlive_a_close_and_change_hands";
        /// Versions of a key that an iterator steps over before it seeks instead.
        max_sequential_skip_in_iterations: u64 = 8, mutable, saved
            => "option_effects::skips_and_seeks_show_the_same";
        /// Deleted keys in a row after which an iterator has its memtable remember that nothing is
        /// visible from the first to the last of them, so that later ones jump over all; 0 for
        /// never. Runs of many become range tombstones, and deletions of which nothing is in
        /// tables are not written, when the memtable is flushed. Of RocksDB 11.3, where it is 0
        /// unless set. Applies to new memtables.
        min_tombstones_for_range_conversion: u32 = 16, mutable, unsaved
            => "skipping::a_queue_of_keys_costs_the_same_after_any_number_of_rounds";
        /// The program does not ask for older values of what is in memory: the bindings give no
        /// snapshots, as RocksDB, which overwrites such values; here they stay until a flush, and
        /// `Db::snapshot` works. Not with `allow_concurrent_memtable_write`.
        inplace_update_support: bool = false, fixed, saved
            => "in_place::updates_in_place_need_one_writer";
        /// Write no filters for the last level: most gets find their key.
        optimize_filters_for_hits: bool = false, fixed, saved
            => "levels::the_last_level_has_filters_unless_hits_are_expected";
        /// Filters of small sorted runs get more bits a key than those of large ones, so that the
        /// same memory has fewer false positives. The `filter_policy` says the average. Pumice's
        /// own; the tables are RocksDB's, whose filters name their own parameters.
        filter_bits_by_level: bool = false, mutable, unsaved
            => "filter_bits::levels_get_bits_by_their_size";
        /// One in this many data blocks is compressed with LZ4 and with ZSTD as well: what they
        /// would make of the whole table goes into its properties (fast and slow compression
        /// estimated data size). 0 for none.
        sample_for_compression: u64 = 0, mutable, saved, buildable_samples
            => "option_effects::samples_estimate_what_other_codecs_would_save";
        /// Read every written table file back and check it.
        paranoid_file_checks: bool = false, mutable, saved
            => "option_effects::paranoid_file_checks_read_the_file_before_it_is_used";
        /// Flushes and compactions write large values to blob files, apart from their keys. Values
        /// that are in blob files are read whatever this says.
        enable_blob_files: bool = false, mutable, saved
            => "written::large_values_are_in_blob_files";
        /// Values of this many bytes or more go to blob files. Empty ones never do.
        min_blob_size: u64 = 0, mutable, saved => "written::large_values_are_in_blob_files";
        /// A blob file of this many bytes is closed, and the next value goes to another.
        blob_file_size: u64 = 256 << 20, mutable, saved
            => "written::large_values_are_in_blob_files";
        /// Compression of values in blob files, each by itself.
        blob_compression_type: CompressionType = CompressionType::None, mutable, saved,
            buildable_compression => "written::blobs_are_compressed_one_by_one";
        /// Compactions write the values of the oldest blob files anew, so that these can go.
        enable_blob_garbage_collection: bool = false, mutable, saved
            => "collected::old_blobs_are_written_anew_and_their_files_go";
        /// The share of the blob files, from the oldest on, whose values are written anew.
        blob_garbage_collection_age_cutoff: f64 = 0.25, mutable, saved
            => "collected::old_blobs_are_written_anew_and_their_files_go";
        /// With this share of garbage in the oldest blob files, the tables that refer to the oldest
        /// of them are compacted; 1 for never. Leveled compaction only.
        blob_garbage_collection_force_threshold: f64 = 1.0, mutable, saved
            => "collected::much_garbage_forces_compactions";
        /// Find entries of memtables that change in memory: each has a checksum of so many bytes,
        /// 1, 2, 4 or 8, which whoever reads its value compares; 0 for none. For memtables that are
        /// made from then on; several tasks do not insert into one at a time.
        memtable_protection_bytes_per_key: u32 = 0, mutable, saved
            => "guarded::a_changed_entry_ends_the_walk";
        /// Lookups and seeks in memtables also compare the checksums of the entries that they pass,
        /// if these have some by `memtable_protection_bytes_per_key`. Skip lists only. RocksDB's
        /// first spelling, which all of its versions read; `..verify..` sets it too.
        memtable_veirfy_per_key_checksum_on_seek: bool = false, mutable, newer
            => "checked::searches_find_a_changed_entry_that_they_pass";
        /// Lookups and cursors in memtables compare the order of the keys that they pass. Skip
        /// lists only.
        paranoid_memory_checks: bool = false, mutable, newer
            => "guarded::a_database_finds_keys_out_of_order";
        /// Find data blocks that change in memory: each has a checksum, which lookups and cursors
        /// compare when they use the block. 1, 2, 4 or 8, which all mean the same; 0 for no
        /// checksum. For tables that are opened from then on.
        block_protection_bytes_per_key: u32 = 0, mutable, newer
            => "protect::a_flipped_bit_is_found_wherever_it_is";
        /// Compact a file into the next level if so many point reads, for each of its bytes, found
        /// no value in it: nothing, a deletion, or an operand of a merge. One read in 1024 is
        /// looked at and counts for all of them. 0 for never; not with FIFO compaction.
        read_triggered_compaction_threshold: f64 = 0.0, mutable, unsaved
            => "read_triggered::files_without_values_go_down";
        /// Bytes that compactions read ahead in blob files; 0 reads value by value.
        blob_compaction_readahead_size: u64 = 0, mutable, saved
            => "collected::old_blobs_are_written_anew_and_their_files_go";
        /// Tables of lower levels than this keep their values; flushes write level 0.
        blob_file_starting_level: i32 = 0, mutable, saved
            => "written::lower_levels_keep_their_values";
        /// Which values enter the `blob_cache` as they are written.
        prepopulate_blob_cache: PrepopulateBlobCache = PrepopulateBlobCache::Disable, mutable,
            saved => "cached::values_enter_the_cache_when_read_or_flushed";
    }
    components {
        /// Keeps values of blob files, uncompressed; may be the block cache.
        blob_cache: Option<Arc<BlockCache>> = None;
        /// Directories of the family's tables; empty for those of `db_paths`. Not in the OPTIONS
        /// file, as in RocksDB: every open has to give the same ones.
        cf_paths: Vec<DbPath> = Vec::new();
        /// Drops or rewrites entries while they are compacted.
        compaction_filter: Option<Arc<dyn CompactionFilter>> = None;
        /// Makes a compaction filter for each job, where there is no `compaction_filter`.
        compaction_filter_factory: Option<Arc<dyn CompactionFilterFactory>> = None;
        /// How many compactions of the families that share it run at once.
        compaction_thread_limiter: Option<Arc<ConcurrentTaskLimiter>> = None;
        /// Watch the entries of tables that are written, add to their properties, and may ask for
        /// their compaction.
        table_properties_collector_factories: Vec<Arc<dyn TablePropertiesCollectorFactory>> =
            Vec::new();
    }
    hints {
        /// See max_write_buffer_size_to_maintain (removed in RocksDB 10).
        "max_write_buffer_number_to_maintain": i32 = "0", fixed, saved;
        /// Huge pages for the memtable.
        "memtable_huge_page_size": u64 = "0", mutable, saved;
        /// Locality of old Bloom filters.
        "bloom_locality": u32 = "0", fixed, saved;
        /// Locks of `inplace_update_support`, which needs none here.
        "inplace_update_num_locks": u64 = "10000", mutable, saved;
        /// Disk times of background jobs are always measured.
        "report_bg_io_stats": bool = "false", mutable, saved;
        /// See last_level_temperature (removed in RocksDB 9).
        "bottommost_temperature": String = "kUnknown", mutable, saved;
        /// What reads of files without a temperature count as; none are counted by temperature.
        "default_temperature": String = "kUnknown", fixed, newer;
        /// Flush when scans skip too many hidden entries.
        "memtable_op_scan_flush_trigger": u32 = "0", mutable, newer;
        /// See memtable_op_scan_flush_trigger.
        "memtable_avg_op_scan_flush_trigger": u32 = "0", mutable, newer;
        /// Turned into a field of the write path (removed in RocksDB 10).
        "check_flush_compaction_key_order": bool = "true", mutable, saved;
        /// File sizes always follow the next level's boundaries (removed in RocksDB 10).
        "level_compaction_dynamic_file_size": bool = "true", mutable, saved;
        /// Removed in RocksDB 10.
        "ignore_max_compaction_bytes_for_input": bool = "true", mutable, saved;
        /// Memtable garbage collection.
        "experimental_mempurge_threshold": f64 = "0.000000", mutable, saved;
        /// Obsolete since RocksDB 5.
        "soft_rate_limit": f64 = "0.000000", mutable, saved;
        /// Obsolete since RocksDB 5.
        "hard_rate_limit": f64 = "0.000000", mutable, saved;
        /// Obsolete since RocksDB 5.
        "rate_limit_delay_max_milliseconds": u32 = "100", mutable, saved;
        /// Obsolete since RocksDB 5.
        "filter_deletes": bool = "false", mutable, saved;
        /// Obsolete since RocksDB 5.
        "max_mem_compaction_level": i32 = "2", mutable, saved;
        /// Obsolete since RocksDB 5.
        "purge_redundant_kvs_while_flush": bool = "true", mutable, saved;
        /// Obsolete since RocksDB 5.
        "verify_checksums_in_compaction": bool = "true", mutable, saved;
        /// Obsolete since RocksDB 5.
        "source_compaction_factor": i32 = "1", mutable, saved;
        /// Obsolete since RocksDB 5.
        "expanded_compaction_factor": i32 = "25", mutable, saved;
        /// Obsolete since RocksDB 5.
        "max_grandparent_overlap_factor": i32 = "10", mutable, saved;
        /// Obsolete since RocksDB 6.
        "snap_refresh_nanos": u64 = "0", mutable, saved;
    }
    unsupported {
        /// Objects cannot be made from text; see the field compaction_filter.
        "compaction_filter" accepts ["nullptr"];
        /// Objects cannot be made from text; see the field compaction_filter_factory.
        "compaction_filter_factory" accepts ["nullptr"];
        /// Hints for memtable inserts by prefix (hints are automatic).
        "memtable_insert_with_hint_prefix_extractor" accepts ["nullptr"];
        /// Kinds of verification of written files.
        "verify_output_flags" accepts ["0"];
        /// Refuse writes into memtables.
        "disallow_memtable_writes" accepts ["false", "0"];
        /// Paths are not read from text; see the field `cf_paths`.
        "cf_paths" accepts ["", "{}"];
    }
    aliases {
        "block_based_table_factory" => "table_factory";
        "plain_table_factory" => "table_factory";
        "memtable" => "memtable_factory";
        "memtable_verify_per_key_checksum_on_seek" => "memtable_veirfy_per_key_checksum_on_seek";
    }
}

impl ColumnFamilyOptions {
    /// Leveled compaction rewrites files of that age, in seconds, if nothing else is set.
    pub(crate) fn rewrite_after(&mut self, seconds: u64) {
        let is_leveled = self.compaction_style == CompactionStyle::Level;
        if is_leveled && self.periodic_compaction_seconds == UNSET_SECONDS {
            self.periodic_compaction_seconds = seconds;
        }
    }

    /// How its tables are read and written.
    ///
    /// # Errors
    /// Those of `BlockBasedTableOptions::to_table_options`.
    pub(crate) fn table_options(&self) -> Result<TableOptions> {
        let tables = self.table_factory.to_table_options()?;
        Ok(TableOptions { block_protection: self.block_protection_bytes_per_key > 0, ..tables })
    }

    /// Its tables have keys without their timestamps.
    pub(crate) fn strips_timestamps(&self) -> bool {
        !self.persist_user_defined_timestamps && self.comparator.timestamp_size() > 0
    }

    /// The order of the keys in its tables.
    pub(crate) fn table_order(&self) -> Comparator {
        match self.strips_timestamps() {
            true => self.comparator.without_timestamps(),
            false => self.comparator.clone(),
        }
    }

    /// The name of the order of the keys that its tables have lost the timestamps of, if they have.
    pub(crate) fn stripped_of(&self) -> Option<String> {
        self.strips_timestamps().then(|| self.comparator.name().to_string())
    }

    /// See `max_write_buffer_size_to_maintain`; 0 for none.
    pub(crate) fn history_bytes(&self) -> usize {
        match usize::try_from(self.max_write_buffer_size_to_maintain) {
            Ok(bytes) => bytes,
            Err(_) => {
                let memtables = usize::try_from(self.max_write_buffer_number).unwrap_or(1);
                self.write_buffer_size.saturating_mul(memtables)
            }
        }
    }

    /// For how many seconds it is known when entries were written.
    pub(crate) fn kept_times(&self) -> u64 {
        self.preserve_internal_time_seconds.max(self.preclude_last_level_data_seconds)
    }

    /// Compactions have a filter, or may have.
    pub(crate) fn has_filter(&self) -> bool {
        self.compaction_filter.is_some() || self.compaction_filter_factory.is_some()
    }

    /// Compactions may remove entries that nothing hides.
    pub(crate) fn removes_unhidden(&self) -> bool {
        self.has_filter() || self.compaction_style == CompactionStyle::Fifo
    }
}
