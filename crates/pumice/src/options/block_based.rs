//! The options of block-based table files: one row each, and their translation into the settings
//! of crate `pumice_table`.
//!
//! Defaults are those of [`TableOptions`], where each stands once; columns as in `db_options`.

use pumice_base::narrow::to_usize;
use std::sync::Arc;

use pumice_base::checksum::ChecksumType;
use pumice_base::{Comparator, Error};
use pumice_filter::FilterPolicy;
use pumice_table::{
    BlockCache, CacheUsageOptions, DataBlockIndexType, IndexShortening, IndexType, MetadataPinning,
    PersistentCache, PrepopulateBlockCache, TableOptions, UserDefinedIndex,
};

use super::ColumnFamilyOptions;
use super::other_tables::TableFactory;
use super::row::option_table;
use super::value::{Refusal, at_least, between};

/// The defaults.
const TABLE: TableOptions = TableOptions::DEFAULT;
/// Bytes of the cache that a column family without a `block_cache` gets.
pub const BLOCK_CACHE_BYTES: usize = 32 << 20;
/// Versions of the table format that are written.
pub(super) const MIN_FORMAT_VERSION: u32 = 2;
const MAX_FORMAT_VERSION: u32 = 7;

/// A check in RocksDB's words, which programs look for (Spark's tests do).
fn is_format_version(version: &u32) -> Result<(), Refusal> {
    let text = "Unsupported BlockBasedTable format_version. Please check include/rocksdb/table.h \
                for more info";
    if *version <= MAX_FORMAT_VERSION { Ok(()) } else { Err(Refusal::Bounds(text.to_string())) }
}

/// As [`is_format_version`].
fn is_super_block(bytes: &u64) -> Result<(), Refusal> {
    let text = match *bytes {
        0 => return Ok(()),
        bytes if !bytes.is_power_of_two() => {
            "Super Block alignment requested but super block alignment size is not a power of 2"
        }
        bytes if bytes <= u64::from(u32::MAX) => return Ok(()),
        _ => "Super block alignment size exceeds maximum number (4GiB) allowed",
    };
    Err(Refusal::Bounds(text.to_string()))
}

/// As [`is_format_version`].
fn is_overhead_ratio(ratio: &u64) -> Result<(), Refusal> {
    let text = "Super block alignment space overhead is too high";
    if (1..4).contains(ratio) { Err(Refusal::Bounds(text.to_string())) } else { Ok(()) }
}

option_table! {
    /// Options of block-based tables. Every public field has the name of RocksDB's option.
    ///
    /// ```
    /// use pumice::{BlockBasedTableOptions, ColumnFamilyOptions, FilterPolicy};
    /// let mut options = ColumnFamilyOptions::default();
    /// options.table_factory = BlockBasedTableOptions {
    ///     filter_policy: Some(FilterPolicy::bloom(10.0)),
    ///     block_size: 16 << 10,
    ///     ..Default::default()
    /// };
    /// ```
    pub struct BlockBasedTableOptions;
    fields {
        /// Put index and filter blocks into the block cache instead of keeping them with the
        /// open file.
        cache_index_and_filter_blocks: bool = TABLE.cache_index_and_filter_blocks, mutable, saved
            => "filters::pinned_blocks_are_not_looked_up";
        /// Give those blocks high priority.
        cache_index_and_filter_blocks_with_high_priority: bool =
            TABLE.cache_index_and_filter_blocks_with_high_priority, mutable, saved
            => "option_effects::indexes_of_high_priority_outlive_a_scan";
        /// Keep those blocks of L0 files pinned.
        pin_l0_filter_and_index_blocks_in_cache: bool =
            TABLE.pin_l0_filter_and_index_blocks_in_cache, mutable, saved
            => "filters::pinned_blocks_are_not_looked_up";
        /// Checksum of blocks.
        checksum: ChecksumType = TABLE.checksum, mutable, saved
            => "table_interop::every_table_option_is_read";
        /// Use no block cache.
        no_block_cache: bool = TABLE.no_block_cache, mutable, saved
            => "option_rows::blocks_are_kept_where_a_cache_is_wanted";
        /// Uncompressed bytes of a data block.
        block_size: usize = TABLE.block_size, mutable, saved, between(1, u32::MAX as usize)
            => "model::random_tables_read_as_the_map";
        /// Percent by which a block may stay below block_size.
        block_size_deviation: i32 =
            TABLE.block_size_deviation as i32, mutable, saved, between(0, 100)
            => "identical::serial_tables_have_the_bytes_they_always_had";
        /// Keys between restart points of a data block.
        block_restart_interval: i32 =
            TABLE.block_restart_interval as i32, mutable, saved, at_least(1)
            => "identical::serial_tables_have_the_bytes_they_always_had";
        /// Keys between restart points of an index block.
        index_block_restart_interval: i32 =
            TABLE.index_block_restart_interval as i32, mutable, saved, at_least(1)
            => "identical::serial_tables_have_the_bytes_they_always_had";
        /// Store keys as differences from their predecessors.
        use_delta_encoding: bool = TABLE.use_delta_encoding, mutable, newer
            => "identical::serial_tables_have_the_bytes_they_always_had";
        /// Store the values of a data block after all of its keys. Read by RocksDB from 11.0 on.
        separate_key_value_in_data_block: bool =
            TABLE.separate_key_value_in_data_block, mutable, newest
            => "rocksdb_11::data_blocks_are_those_of_rocksdb";
        /// Mark index blocks whose keys have distances with a coefficient of variation below this,
        /// for RocksDB's searches; negative marks none. Read by RocksDB from 11.1 on.
        uniform_cv_threshold: f64 = TABLE.uniform_cv_threshold, mutable, newest
            => "rocksdb_11::even_indexes_are_marked_where_rocksdb_marks_them";
        /// Filter, for instance `bloomfilter:10:false` or `ribbonfilter:10:0`; None writes none.
        filter_policy: Option<FilterPolicy> = TABLE.filter_policy, mutable, saved
            => "golden::ours_equal_rocksdbs";
        /// Put whole keys into the filter.
        whole_key_filtering: bool = TABLE.whole_key_filtering, mutable, saved
            => "filters::versions_and_prefixes_count_once";
        /// Decompress every written block and compare.
        verify_compression: bool = TABLE.verify_compression, mutable, saved
            => "mutation::each_planted_bug_is_seen";
        /// Version of the table format. 0 and 1 count as 2, as in RocksDB 11.
        format_version: u32 = TABLE.format_version, mutable, saved, is_format_version
            => "table_interop::every_table_option_is_read";
        /// Compress index blocks.
        enable_index_compression: bool = TABLE.enable_index_compression, mutable, saved
            => "identical::serial_tables_have_the_bytes_they_always_had";
        /// Align uncompressed data blocks to pages.
        block_align: bool = TABLE.block_align, mutable, saved
            => "aligned::compressed_blocks_are_aligned";
        /// Let no data block lie in two units of this many bytes of the device, a power of 2; 0 for
        /// no units.
        super_block_alignment_size: u64 =
            TABLE.super_block_alignment_size, mutable, newer, is_super_block
            => "rocksdb_11::blocks_lie_in_one_super_block_where_rocksdbs_do";
        /// Leave less than this part of such a unit empty for that; 0 leaves nothing empty.
        super_block_alignment_space_overhead_ratio: u64 =
            TABLE.super_block_alignment_space_overhead_ratio, mutable, newer, is_overhead_ratio
            => "rocksdb_11::blocks_lie_in_one_super_block_where_rocksdbs_do";
        /// How index keys are shortened.
        index_shortening: IndexShortening = TABLE.index_shortening, mutable, saved
            => "identical::serial_tables_have_the_bytes_they_always_had";
        /// First size of automatic read-ahead.
        initial_auto_readahead_size: u64 = TABLE.initial_auto_readahead_size as u64, mutable, saved
            => "option_rows::scans_read_ahead";
        /// Largest size of automatic read-ahead; 0 turns it off.
        max_auto_readahead_size: u64 = TABLE.max_auto_readahead_size as u64, mutable, saved
            => "option_rows::scans_read_ahead";
        /// Kind of index. A hash index needs a prefix_extractor.
        index_type: IndexType = TABLE.index_type, mutable, saved
            => "index_kinds::rocksdb_reads_every_kind";
        /// Search aid inside data blocks.
        data_block_index_type: DataBlockIndexType = TABLE.data_block_index_type,
            mutable, saved => "index_kinds::rocksdb_reads_every_kind";
        /// Keys per bucket of the hash index of a data block.
        data_block_hash_table_util_ratio: f64 =
            TABLE.data_block_hash_table_util_ratio, mutable, saved
            => "index_kinds::rocksdb_reads_every_kind";
        /// Write filters in partitions; without index_type kTwoLevelIndexSearch it is turned off,
        /// as in RocksDB.
        partition_filters: bool = TABLE.partition_filters, mutable, saved
            => "filters::every_layout_finds_its_keys";
        /// Cut filter partitions by their own size, not where index partitions end.
        decouple_partitioned_filters: bool = TABLE.decouple_partitioned_filters, mutable, newer
            => "index_builder::coupled_partitions_end_where_entries_say";
        /// Bytes of a partition of index or filter.
        metadata_block_size: u64 = TABLE.metadata_block_size as u64, mutable, saved
            => "index_builder::partitions_have_their_size";
        /// Keep the top level of partitioned indexes and filters pinned.
        pin_top_level_index_and_filter: bool = TABLE.pin_top_level_index_and_filter, mutable, saved
            => "filters::pinned_blocks_are_not_looked_up";
        /// Finer pinning of metadata; kFallback leaves it to the two pin options.
        metadata_cache_options: MetadataPinning = TABLE.metadata_pinning, mutable, saved
            => "filters::unpartitioned_blocks_are_pinned_by_their_tier";
        /// Size filters by the allocator's classes.
        optimize_filters_for_memory: bool = TABLE.optimize_filters_for_memory, mutable, saved
            => "filters::every_layout_finds_its_keys";
        /// Check every filter against the keys it was made from.
        detect_filter_construct_corruption: bool =
            TABLE.detect_filter_construct_corruption, mutable, saved
            => "filter_block::changed_hashes_are_detected";
        /// Tables whose blocks go into the block cache while they are written: none, those of
        /// flushes, or those of flushes and compactions.
        prepopulate_block_cache: PrepopulateBlockCache = TABLE.prepopulate_block_cache,
            mutable, saved => "option_effects::what_is_flushed_is_in_the_block_cache";
        /// Which memory outside of the block cache is charged to it: data blocks that wait for a
        /// dictionary (kFallback: charged), filters under construction, open tables, metadata of
        /// files, the blob cache (kFallback: not charged). RocksDB has no text form of it.
        cache_usage_options: CacheUsageOptions = TABLE.cache_usage_options, mutable, unsaved
            => "charges::open_tables_are_charged";
        /// With statistics: measure how much of the data blocks that are read is returned, with a
        /// bit for this many bytes; 0 measures nothing.
        read_amp_bytes_per_bit: u32 = TABLE.read_amp_bytes_per_bit, mutable, saved
            => "table_statistics::read_amplification_is_measured_on_request";
        /// A second index of new tables, and that reads of tables which have it may ask for:
        /// trie_index, a trie over the separators of data blocks, for keys in the order of their
        /// bytes. Written and read by RocksDB 11.8 and 11.9.
        user_defined_index_factory: Option<UserDefinedIndex> =
            TABLE.user_defined_index_factory, mutable, newest
            => "rocksdb_11::trie_indexes_are_those_of_rocksdb";
        /// All reads use that index; tables without it are not opened.
        use_udi_as_primary_index: bool = TABLE.use_udi_as_primary_index, mutable, newest
            => "model::reads_through_a_trie_find_what_the_map_has";
        /// Tables without that index are not opened.
        fail_if_no_udi_on_open: bool = TABLE.fail_if_no_udi_on_open, mutable, newer
            => "model::tables_without_a_trie_are_read_unless_one_is_required";
    }
    components {
        /// Cache of blocks; None makes one of 32 MiB per column family unless `no_block_cache`.
        block_cache: Option<Arc<BlockCache>> = None;
        /// The format of new tables.
        format: TableFactory = TableFactory::BlockBased;
        /// Cache of blocks as they are in their files, in files on a faster device.
        persistent_cache: Option<Arc<PersistentCache>> = None;
    }
    hints {
        /// Sequential reads before automatic read-ahead starts; always two.
        "num_file_reads_for_auto_readahead": u64 = "2", mutable, saved;
        /// Only for hash indexes (removed in RocksDB 7).
        "hash_index_allow_collision": bool = "true", mutable, saved;
        /// Obsolete since RocksDB 4.
        "skip_table_builder_flush": bool = "false", mutable, saved;
    }
    unsupported {
        /// Custom block boundaries.
        "flush_block_policy_factory" accepts ["FlushBlockBySizePolicyFactory", "nullptr"];
        /// Objects cannot be made from text; see the field persistent_cache.
        "persistent_cache" accepts ["nullptr"];
        /// A cache of compressed blocks (removed in RocksDB 8).
        "block_cache_compressed" accepts ["nullptr"];
    }
    aliases {}
}

impl BlockBasedTableOptions {
    /// The settings that table builders and readers take.
    ///
    /// # Errors
    /// InvalidArgument or NotSupported for settings that contradict each other.
    pub fn to_table_options(&self) -> pumice_base::Result<TableOptions> {
        let options = TableOptions {
            row_table: self.format.row_table(),
            block_cache: self.block_cache.clone(),
            persistent_cache: self.persistent_cache.clone(),
            no_block_cache: self.no_block_cache,
            block_size: self.block_size,
            block_size_deviation: self.block_size_deviation as u32,
            block_restart_interval: self.block_restart_interval as u32,
            index_block_restart_interval: self.index_block_restart_interval as u32,
            checksum: self.checksum,
            format_version: self.format_version.max(MIN_FORMAT_VERSION),
            filter_policy: self.format.filter(self.filter_policy),
            whole_key_filtering: self.whole_key_filtering,
            cache_index_and_filter_blocks: self.cache_index_and_filter_blocks,
            cache_index_and_filter_blocks_with_high_priority: self
                .cache_index_and_filter_blocks_with_high_priority,
            pin_l0_filter_and_index_blocks_in_cache: self.pin_l0_filter_and_index_blocks_in_cache,
            enable_index_compression: self.enable_index_compression,
            index_shortening: self.index_shortening,
            use_delta_encoding: self.use_delta_encoding,
            separate_key_value_in_data_block: self.separate_key_value_in_data_block,
            uniform_cv_threshold: self.uniform_cv_threshold,
            verify_compression: self.verify_compression,
            block_align: self.block_align,
            super_block_alignment_size: self.super_block_alignment_size,
            super_block_alignment_space_overhead_ratio: self
                .super_block_alignment_space_overhead_ratio,
            initial_auto_readahead_size: to_usize(self.initial_auto_readahead_size),
            max_auto_readahead_size: to_usize(self.max_auto_readahead_size),
            index_type: self.index_type,
            data_block_index_type: self.data_block_index_type,
            data_block_hash_table_util_ratio: self.data_block_hash_table_util_ratio,
            partition_filters: self.partition_filters,
            decouple_partitioned_filters: self.decouple_partitioned_filters,
            metadata_block_size: to_usize(self.metadata_block_size),
            pin_top_level_index_and_filter: self.pin_top_level_index_and_filter,
            metadata_pinning: self.metadata_cache_options,
            optimize_filters_for_memory: self.optimize_filters_for_memory,
            detect_filter_construct_corruption: self.detect_filter_construct_corruption,
            prepopulate_block_cache: self.prepopulate_block_cache,
            read_amp_bytes_per_bit: self.read_amp_bytes_per_bit,
            cache_usage_options: self.cache_usage_options,
            user_defined_index_factory: self.user_defined_index_factory,
            use_udi_as_primary_index: self.use_udi_as_primary_index,
            fail_if_no_udi_on_open: self.fail_if_no_udi_on_open,
            // An option of the column family.
            block_protection: false,
            max_block_bytes: TABLE.max_block_bytes,
        };
        options.validate_for_building()?;
        Ok(options)
    }

    /// Refuses in RocksDB's words what does not go with an index besides that of the tables.
    ///
    /// # Errors
    /// InvalidArgument or NotSupported.
    pub(super) fn check_user_defined_index(
        &self,
        options: &ColumnFamilyOptions,
    ) -> pumice_base::Result<()> {
        let primary = self.use_udi_as_primary_index;
        let bottommost = options.bottommost_compression_opts.parallel_threads;
        let why = match self.user_defined_index_factory {
            None if primary => "use_udi_as_primary_index requires user_defined_index_factory",
            None => return Ok(()),
            Some(_) if options.compression_opts.parallel_threads.max(bottommost) > 1 => {
                "user_defined_index_factory not supported with parallel compression"
            }
            Some(_) if primary && self.index_type == IndexType::TwoLevel => {
                "use_udi_as_primary_index is incompatible with partitioned index \
                 (kTwoLevelIndexSearch). The UDI wrapper currently only supports flat \
                 (single-level) index builders."
            }
            Some(_) if !matches!(options.comparator, Comparator::Bytewise) => {
                return Err(Error::not_supported(format!(
                    "TrieIndexFactory requires BytewiseComparator; got: : {}",
                    options.comparator.name()
                )));
            }
            Some(_) => return Ok(()),
        };
        Err(Error::invalid_argument(why))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::sanitize::check_column_family;
    use super::*;

    #[pumice_test_macros::test]
    fn super_blocks_are_refused_in_rocksdbs_words() {
        let mut cf = ColumnFamilyOptions::default();
        let mut refused = |name: &str, value: u64| {
            let set = cf.table_factory.set(name, &value.to_string());
            set.err().map(|error| error.message().to_string()).unwrap_or_default()
        };
        for (bytes, words) in [
            (0, ""),
            (3 << 10, "super block alignment size is not a power of 2"),
            (1 << 31, ""),
            (1 << 33, "Super block alignment size exceeds maximum number (4GiB) allowed"),
        ] {
            let error = refused("super_block_alignment_size", bytes);
            assert!(error.contains(words) && error.is_empty() == words.is_empty(), "{error}");
        }
        for ratio in 0..6 {
            let error = refused("super_block_alignment_space_overhead_ratio", ratio);
            let expected = (1..4).contains(&ratio);
            assert_eq!(error.contains("space overhead is too high"), expected, "{ratio}: {error}");
        }
    }

    #[pumice_test_macros::test]
    fn trie_indexes_are_refused_in_rocksdbs_words() {
        let family = |text: &str| {
            let mut cf = ColumnFamilyOptions::default();
            cf.set("table_factory", text).map(|()| cf)
        };
        for text in ["trie_index", "{id=trie_index;}"] {
            let cf = family(&format!("{{user_defined_index_factory={text};}}")).unwrap();
            let name = cf.table_factory.get("user_defined_index_factory").unwrap();
            assert_eq!(name, "trie_index");
            check_column_family(&cf).unwrap();
        }
        let other = family("{user_defined_index_factory=other}").err().unwrap().to_string();
        assert!(other.contains("Could not load UserDefinedIndexFactory: other"), "{other}");
        let trie = |text: &str| {
            family(&format!("{{user_defined_index_factory=trie_index;{text}}}")).unwrap()
        };
        let refused = |cf: &ColumnFamilyOptions, words: &str| {
            let error = check_column_family(cf).err().unwrap().to_string();
            assert!(error.contains(words), "{error}");
        };
        let lone = family("{use_udi_as_primary_index=true;}").unwrap();
        refused(&lone, "use_udi_as_primary_index requires user_defined_index_factory");
        refused(
            &trie("use_udi_as_primary_index=true;index_type=kTwoLevelIndexSearch;"),
            "use_udi_as_primary_index is incompatible with partitioned index",
        );
        let mut parallel = trie("");
        parallel.set("compression_opts", "{parallel_threads=2}").unwrap();
        refused(&parallel, "user_defined_index_factory not supported with parallel compression");
        let mut reverse = trie("");
        reverse.comparator = Comparator::ReverseBytewise;
        refused(&reverse, "TrieIndexFactory requires BytewiseComparator; got: : rocksdb.Reverse");
    }

    #[pumice_test_macros::test]
    fn versions_are_refused_in_rocksdbs_words() {
        let mut cf = ColumnFamilyOptions::default();
        let error = cf.set("table_factory", "{format_version=8}").unwrap_err();
        let words = "Unsupported BlockBasedTable format_version";
        assert!(error.message().contains(words), "{error}");
        // Those that nobody writes any more count as the oldest that is written.
        cf.set("table_factory", "{format_version=1}").unwrap();
        assert_eq!(cf.sanitized().unwrap().table_factory.format_version, MIN_FORMAT_VERSION);
        assert_eq!(cf.table_options().unwrap().format_version, MIN_FORMAT_VERSION);
    }
}
