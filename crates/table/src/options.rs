//! Settings of tables that a column family has.
//!
//! Field names are RocksDB's option names (`BlockBasedTableOptions`). Plain data; shared by
//! reference between every table of a column family. Parameters of a single table or read:
//! `build::context`, `read::context`.

use std::sync::Arc;

use pumice_base::checksum::ChecksumType;
use pumice_base::{Error, Result};
use pumice_cache::{ChargedRole, Reservation};
use pumice_filter::FilterPolicy;

use crate::cache_usage::CacheUsageOptions;
use crate::footer::{MAX_FORMAT_VERSION, MIN_FORMAT_VERSION};
use crate::formats::RowTable;
use crate::persistent_cache::PersistentCache;
use crate::read::cached_block::{BlockCache, CachedBlock};

/// How the index of a table is organised. Persisted as a property: never renumber.
///
/// ```
/// # use pumice_table::{DataBlockIndexType, IndexShortening, IndexType, TableOptions};
/// # use pumice_table::{PrepopulateBlockCache, UserDefinedIndex};
/// # let mut tables = TableOptions::default();
/// // `let tables = options.tables()`, for a database that is larger than its memory:
/// tables.index_type = IndexType::TwoLevel;
/// tables.index_shortening = IndexShortening::SeparatorsAndSuccessor;
/// tables.data_block_index_type = DataBlockIndexType::BinaryAndHash;
/// tables.prepopulate_block_cache = PrepopulateBlockCache::FlushOnly;
/// tables.user_defined_index_factory = Some(UserDefinedIndex::Trie);
/// # assert_eq!(IndexType::from_u32(2), Some(tables.index_type));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u32)]
pub enum IndexType {
    /// One block, binary search.
    #[default]
    BinarySearch = 0,
    /// One block and a hash over prefixes; read as `BinarySearch`.
    HashSearch = 1,
    /// An index of index partitions.
    TwoLevel = 2,
    /// `BinarySearch` with the first key of each block.
    BinarySearchWithFirstKey = 3,
}

impl IndexType {
    /// The type of that number.
    pub fn from_u32(number: u32) -> Option<Self> {
        [Self::BinarySearch, Self::HashSearch, Self::TwoLevel, Self::BinarySearchWithFirstKey]
            .get(number as usize)
            .copied()
    }
}

/// Search aid inside data blocks.
///
/// Example: that of [`IndexType`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum DataBlockIndexType {
    /// Binary search over restart points.
    #[default]
    BinarySearch,
    /// Also a hash of user keys, for point lookups.
    BinaryAndHash,
}

/// How far index keys are shortened.
///
/// Example: that of [`IndexType`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum IndexShortening {
    /// Last keys are stored as they are.
    None,
    /// Every separator but the last is shortened.
    #[default]
    Separators,
    /// The last one too.
    SeparatorsAndSuccessor,
}

/// An index of a table besides its own (`UserDefinedIndexFactory` of RocksDB).
///
/// Example: that of [`IndexType`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserDefinedIndex {
    /// A trie over the separators of data blocks. Only for keys in the order of their bytes.
    Trie,
}

impl UserDefinedIndex {
    /// The index of RocksDB's factory of that name.
    pub fn by_name(name: &str) -> Option<Self> {
        (name == Self::Trie.name()).then_some(Self::Trie)
    }

    /// The name of RocksDB's factory.
    pub fn name(self) -> &'static str {
        match self {
            UserDefinedIndex::Trie => "trie_index",
        }
    }
}

/// Tables whose blocks go into the block cache while they are built.
///
/// Example: that of [`IndexType`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum PrepopulateBlockCache {
    /// None.
    #[default]
    Disable,
    /// The blocks that a flush writes.
    FlushOnly,
    /// The blocks that a flush or a compaction writes.
    FlushAndCompaction,
}

/// Settings of the tables of a column family, `BlockBasedTableOptions` of RocksDB.
#[derive(Clone)]
pub struct TableOptions {
    /// The format of new tables that are not block-based; `None` for those that are. What follows
    /// says how tables of all formats are read, each in the one that it has.
    pub row_table: Option<RowTable>,
    /// Cache of decoded blocks; `None` reads every data block from the file.
    pub block_cache: Option<Arc<BlockCache>>,
    /// Cache of blocks as they are in their files, on another device.
    pub persistent_cache: Option<Arc<PersistentCache>>,
    /// Do not use `block_cache`.
    pub no_block_cache: bool,
    /// Target of uncompressed bytes per data block.
    pub block_size: usize,
    /// Percentage of `block_size` that may stay free instead of exceeding it.
    pub block_size_deviation: u32,
    /// Entries per restart point of data blocks.
    pub block_restart_interval: u32,
    /// Entries per restart point of index blocks.
    pub index_block_restart_interval: u32,
    /// Target of bytes per index or filter partition.
    pub metadata_block_size: usize,
    /// Checksum of new tables.
    pub checksum: ChecksumType,
    /// Format of new tables, 2..=7.
    pub format_version: u32,
    /// Filter of new tables; also lets filters of existing tables be used.
    pub filter_policy: Option<FilterPolicy>,
    /// Put whole user keys into the filter.
    pub whole_key_filtering: bool,
    /// Partition filters; only effective with `IndexType::TwoLevel`.
    pub partition_filters: bool,
    /// Keep index and filter in the block cache instead of the table object.
    pub cache_index_and_filter_blocks: bool,
    /// Insert them with high priority.
    pub cache_index_and_filter_blocks_with_high_priority: bool,
    /// Let tables of level 0 keep theirs outside the cache's eviction.
    pub pin_l0_filter_and_index_blocks_in_cache: bool,
    /// Compress index blocks as data blocks.
    pub enable_index_compression: bool,
    /// How far index keys are shortened.
    pub index_shortening: IndexShortening,
    /// Store keys of data blocks as differences.
    pub use_delta_encoding: bool,
    /// Store the values of a data block after all of its keys. RocksDB reads such tables from 11.0
    /// on.
    pub separate_key_value_in_data_block: bool,
    /// Decompress every block after compressing it and compare.
    pub verify_compression: bool,
    /// Align uncompressed data blocks to pages.
    pub block_align: bool,
    /// Let no data block lie in two units of this many bytes; 0 for no units.
    pub super_block_alignment_size: u64,
    /// Leave at most this part of a unit empty for that; 0 leaves nothing empty.
    pub super_block_alignment_space_overhead_ratio: u64,
    /// Size filters by allocator classes; filters stay readable either way.
    pub optimize_filters_for_memory: bool,
    /// Mark index blocks whose keys have distances with a coefficient of variation below this;
    /// negative marks none.
    pub uniform_cv_threshold: f64,
    /// Index of new tables.
    pub index_type: IndexType,
    /// Search aid of new data blocks.
    pub data_block_index_type: DataBlockIndexType,
    /// First automatic readahead, bytes; 0 turns automatic readahead off.
    pub initial_auto_readahead_size: usize,
    /// Largest automatic readahead, bytes.
    pub max_auto_readahead_size: usize,
    /// Largest size that a compressed block may decompress to, unless the properties of its table
    /// allow more.
    pub max_block_bytes: usize,
    /// Cut filter partitions by their own size, not where index partitions end.
    pub decouple_partitioned_filters: bool,
    /// Check every filter against the hashes it was built from.
    pub detect_filter_construct_corruption: bool,
    /// Entries per bucket of the hash index of data blocks.
    pub data_block_hash_table_util_ratio: f64,
    /// Keep the top level of partitioned indexes and filters outside the cache's eviction.
    pub pin_top_level_index_and_filter: bool,
    /// Finer pinning; `Fallback` leaves it to the two flags above.
    pub metadata_pinning: MetadataPinning,
    /// Tables whose blocks go into the block cache while they are built.
    pub prepopulate_block_cache: PrepopulateBlockCache,
    /// Measure how much of the data blocks is used, with a bit per this many bytes; 0 turns it off.
    pub read_amp_bytes_per_bit: u32,
    /// Which memory outside of the cache is charged to it.
    pub cache_usage_options: CacheUsageOptions,
    /// Data blocks in memory have a checksum, which each use compares.
    pub block_protection: bool,
    /// A second index of new tables; also lets reads use those of existing tables.
    pub user_defined_index_factory: Option<UserDefinedIndex>,
    /// All reads use it.
    pub use_udi_as_primary_index: bool,
    /// A table without it is not opened.
    pub fail_if_no_udi_on_open: bool,
}

/// Which tables keep a kind of metadata block pinned (`PinningTier` of RocksDB).
///
/// Example: that of [`MetadataPinning`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum PinningTier {
    /// As the older flags say.
    #[default]
    Fallback,
    /// None.
    None,
    /// Tables that were flushed, or are like those in size and level.
    FlushedAndSimilar,
    /// All.
    All,
}

/// Pinning of metadata blocks (`MetadataCacheOptions` of RocksDB).
///
/// ```
/// # use pumice_table::{MetadataPinning, PinningTier};
/// // For `metadata_cache_options` of `options.tables()`: what every read needs stays in the cache.
/// let pinned = MetadataPinning {
///     top_level_index: PinningTier::All,
///     unpartitioned: PinningTier::FlushedAndSimilar,
///     ..MetadataPinning::default()
/// };
/// assert_eq!(pinned.partition, PinningTier::Fallback);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct MetadataPinning {
    /// Top level of partitioned indexes and filters.
    pub top_level_index: PinningTier,
    /// Partitions.
    pub partition: PinningTier,
    /// Indexes and filters of one block.
    pub unpartitioned: PinningTier,
}

impl MetadataPinning {
    /// As the older flags say.
    pub const FALLBACK: Self = MetadataPinning {
        top_level_index: PinningTier::Fallback,
        partition: PinningTier::Fallback,
        unpartitioned: PinningTier::Fallback,
    };
}

/// [`TableOptions::DEFAULT`].
impl Default for TableOptions {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl TableOptions {
    /// The defaults, which are RocksDB 10.10's; the rows of the engine's option table refer to
    /// them.
    pub const DEFAULT: Self = TableOptions {
        row_table: None,
        block_cache: None,
        persistent_cache: None,
        no_block_cache: false,
        block_size: 4096,
        block_size_deviation: 10,
        block_restart_interval: 16,
        index_block_restart_interval: 1,
        metadata_block_size: 4096,
        checksum: ChecksumType::Xxh3,
        format_version: 6,
        filter_policy: None,
        whole_key_filtering: true,
        partition_filters: false,
        cache_index_and_filter_blocks: false,
        cache_index_and_filter_blocks_with_high_priority: true,
        pin_l0_filter_and_index_blocks_in_cache: false,
        enable_index_compression: true,
        index_shortening: IndexShortening::Separators,
        use_delta_encoding: true,
        separate_key_value_in_data_block: false,
        verify_compression: false,
        block_align: false,
        super_block_alignment_size: 0,
        super_block_alignment_space_overhead_ratio: 128,
        optimize_filters_for_memory: true,
        uniform_cv_threshold: -1.0,
        index_type: IndexType::BinarySearch,
        data_block_index_type: DataBlockIndexType::BinarySearch,
        initial_auto_readahead_size: 8 << 10,
        max_auto_readahead_size: 256 << 10,
        max_block_bytes: 64 << 20,
        decouple_partitioned_filters: true,
        detect_filter_construct_corruption: false,
        data_block_hash_table_util_ratio: 0.75,
        pin_top_level_index_and_filter: true,
        metadata_pinning: MetadataPinning::FALLBACK,
        prepopulate_block_cache: PrepopulateBlockCache::Disable,
        read_amp_bytes_per_bit: 0,
        cache_usage_options: CacheUsageOptions::FALLBACK,
        block_protection: false,
        user_defined_index_factory: None,
        use_udi_as_primary_index: false,
        fail_if_no_udi_on_open: false,
    };

    /// Checks that tables can be built with these settings.
    ///
    /// # Errors
    /// `InvalidArgument` for contradictions, `NotSupported` for what is not written yet.
    pub fn validate_for_building(&self) -> Result<()> {
        if !(MIN_FORMAT_VERSION..=MAX_FORMAT_VERSION).contains(&self.format_version) {
            return Err(Error::invalid_argument(format!(
                "Unsupported BlockBasedTable format_version {}; 2 to 7 are written",
                self.format_version
            )));
        }
        if self.data_block_index_type == DataBlockIndexType::BinaryAndHash
            && (self.data_block_hash_table_util_ratio.is_nan()
                || self.data_block_hash_table_util_ratio <= 0.0)
        {
            return Err(Error::invalid_argument(
                "data_block_hash_table_util_ratio should be greater than 0 when \
                 data_block_index_type is set to kDataBlockBinaryAndHash",
            ));
        }
        if self.block_align && !self.block_size.is_power_of_two() {
            return Err(Error::invalid_argument(
                "Block alignment requested but block size is not a power of 2",
            ));
        }
        if self.block_size == 0 || self.block_size > u32::MAX as usize {
            return Err(Error::invalid_argument(format!("block_size {}", self.block_size)));
        }
        self.validate_primary_index()
    }

    /// Whether a second index can be the one that all reads use, in RocksDB's words.
    fn validate_primary_index(&self) -> Result<()> {
        let why = match self.user_defined_index_factory {
            _ if !self.use_udi_as_primary_index => return Ok(()),
            None => "requires user_defined_index_factory",
            Some(_) if self.index_type == IndexType::TwoLevel => {
                "is incompatible with partitioned index (kTwoLevelIndexSearch)"
            }
            Some(_) if self.partition_filters => "is incompatible with partitioned filters",
            Some(_) => return Ok(()),
        };
        Err(Error::invalid_argument(format!("use_udi_as_primary_index {why}")))
    }

    /// The cache that memory of `role` is charged to; None if it is not.
    pub fn charged_cache(&self, role: ChargedRole) -> Option<&Arc<BlockCache>> {
        let cache = self.block_cache.as_ref().filter(|_| !self.no_block_cache);
        cache.filter(|_| self.cache_usage_options.charges(role))
    }

    /// A reservation of nothing yet for memory of `role`; None if it is not charged.
    pub(crate) fn reservation(&self, role: ChargedRole) -> Option<Reservation<CachedBlock>> {
        self.charged_cache(role).map(|cache| cache.reservation(role))
    }
}
