//! Settings of tables: how they are built, opened and read.
//!
//! Field names are RocksDB's option names (`BlockBasedTableOptions`, `ReadOptions`). Plain data;
//! shared by reference between every table of a column family.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use pumice_base::checksum::ChecksumType;
use pumice_base::extension::SliceTransform;
use pumice_base::narrow::low_u32;
use pumice_base::{Error, InternalKeyComparator, Result, SizeLimits};
use pumice_compress::{CompressionOptions, CompressionType};
use pumice_env::IoPriority;
use pumice_filter::{FilterBuildSettings, FilterPolicy, RateBalance};
use pumice_port::helpers::HelperPool;
use pumice_port::sync::Mutex;

use crate::footer::{MAX_FORMAT_VERSION, MIN_FORMAT_VERSION};
use crate::handle::{BlockHandle, BlockKind};
use crate::read::cached_block::BlockCache;
use crate::read::cached_block::PinnedBlock;
use crate::read::table::Table;
use crate::stats::TableStats;

/// How the index of a table is organised. Persisted as a property: never renumber.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum DataBlockIndexType {
    /// Binary search over restart points.
    #[default]
    BinarySearch,
    /// Also a hash of user keys, for point lookups.
    BinaryAndHash,
}

/// How far index keys are shortened.
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

/// Tables whose blocks go into the block cache while they are built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum PrepopulateBlockCache {
    /// None.
    #[default]
    Disable,
    /// Those that a flush writes.
    FlushOnly,
    /// Those that a flush or a compaction writes.
    FlushAndCompaction,
}

/// Settings of the tables of a column family, `BlockBasedTableOptions` of RocksDB.
#[derive(Clone)]
pub struct TableOptions {
    /// Cache of decoded blocks; `None` reads every data block from the file.
    pub block_cache: Option<Arc<BlockCache>>,
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
    /// Decompress every block after compressing it and compare.
    pub verify_compression: bool,
    /// Align uncompressed data blocks to pages.
    pub block_align: bool,
    /// Size filters by allocator classes; filters stay readable either way.
    pub optimize_filters_for_memory: bool,
    /// Index of new tables.
    pub index_type: IndexType,
    /// Search aid of new data blocks.
    pub data_block_index_type: DataBlockIndexType,
    /// First automatic readahead, bytes; 0 turns automatic readahead off.
    pub initial_auto_readahead_size: usize,
    /// Largest automatic readahead, bytes.
    pub max_auto_readahead_size: usize,
    /// Largest size that a compressed block may decompress to, unless the properties of its table
    /// say that there is more in it.
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
}

/// Which tables keep a kind of metadata block pinned (`PinningTier` of RocksDB).
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
        block_cache: None,
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
        verify_compression: false,
        block_align: false,
        optimize_filters_for_memory: true,
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
        Ok(())
    }
}

/// Why a table is built (`TableFileCreationReason` of RocksDB).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum TableReason {
    /// A memtable is written out.
    Flush,
    /// A log is recovered.
    Recovery,
    /// Level-0 files are compacted.
    CompactionLevel0,
    /// Deeper levels are compacted.
    Compaction,
    /// Anything else, a table built outside a database included.
    #[default]
    Other,
}

/// What a table builder knows about the table besides its entries.
#[derive(Clone)]
#[allow(missing_docs)] // Properties of the same names, docs/format/table.md#properties.
pub struct TableBuildContext {
    pub table: Arc<TableOptions>,
    pub comparator: InternalKeyComparator,
    pub compression: CompressionType,
    pub compression_opts: CompressionOptions,
    pub column_family_id: u32,
    pub column_family_name: String,
    /// Level of the new table, -1 unknown.
    pub level: i32,
    /// Levels indicate how long tables live, as in leveled compaction. Otherwise filters are made
    /// as for the last level.
    pub is_leveled: bool,
    pub oldest_ancestor_time: u64,
    pub oldest_key_time: u64,
    pub newest_key_time: u64,
    pub file_creation_time: u64,
    pub original_file_number: u64,
    pub db_id: String,
    pub db_session_id: String,
    pub db_host_id: String,
    pub merge_operator_name: Option<String>,
    pub prefix_extractor: Option<Arc<dyn SliceTransform>>,
    /// Build no filter.
    pub skip_filters: bool,
    /// Why the table is built.
    pub reason: TableReason,
    /// Approximate upper bound of the table's bytes; 0 unknown. Bounds what is buffered for a
    /// dictionary.
    pub target_file_size: u64,
    /// Helpers that compress blocks, if `compression_opts` asks for them; `None` builds with one
    /// thread.
    pub helpers: Option<HelperPool>,
    /// Time the codec for every block, not for every 64th.
    pub time_codec: bool,
    /// Receives counts of blocks put into the cache.
    pub stats: Option<Arc<dyn TableStats>>,
    /// With `optimize_filters_for_memory`: the balance of sizes that this table's filters share
    /// with those of others. `None` balances them among themselves; then the bytes of the table are
    /// a function of entries and settings.
    pub filter_balance: Option<Arc<RateBalance>>,
    /// One in this many data blocks is compressed with a fast and a slow codec to estimate what
    /// they would save; 0 for none.
    pub sample_for_compression: u64,
    /// More properties to store, by name.
    pub user_collected: Vec<(String, Vec<u8>)>,
    /// Names of the collectors that watched the entries.
    pub property_collectors: Vec<String>,
    /// Maximum size of blocks; tests lower it.
    pub limits: SizeLimits,
}

impl TableBuildContext {
    /// The level that decides between kinds of filters: flushed tables are short-lived, and a table
    /// of unknown level counts as the last level.
    pub(crate) fn filter_level(&self) -> i32 {
        match self.reason {
            TableReason::Other => FilterBuildSettings::UNKNOWN_LEVEL,
            _ if !self.is_leveled => FilterBuildSettings::UNKNOWN_LEVEL,
            TableReason::Flush => FilterBuildSettings::FLUSH,
            _ if self.level < 0 => FilterBuildSettings::UNKNOWN_LEVEL,
            _ => self.level,
        }
    }
}

impl Default for TableBuildContext {
    fn default() -> Self {
        TableBuildContext {
            table: Arc::new(TableOptions::default()),
            comparator: InternalKeyComparator::default(),
            compression: CompressionType::None,
            compression_opts: CompressionOptions::default(),
            column_family_id: low_u32(crate::properties::UNKNOWN_COLUMN_FAMILY),
            column_family_name: String::new(),
            level: -1,
            is_leveled: true,
            oldest_ancestor_time: 0,
            oldest_key_time: 0,
            newest_key_time: 0,
            file_creation_time: 0,
            original_file_number: 0,
            db_id: String::new(),
            db_session_id: String::new(),
            db_host_id: String::new(),
            merge_operator_name: None,
            prefix_extractor: None,
            skip_filters: false,
            reason: TableReason::Other,
            target_file_size: 0,
            helpers: None,
            time_codec: false,
            stats: None,
            filter_balance: None,
            sample_for_compression: 0,
            user_collected: Vec::new(),
            property_collectors: Vec::new(),
            limits: SizeLimits::FORMAT,
        }
    }
}

/// How a table is opened.
#[derive(Clone)]
pub struct TableReadContext {
    /// Settings of the column family.
    pub options: Arc<TableOptions>,
    /// Key order of the column family.
    pub comparator: InternalKeyComparator,
    /// Number of the file, for messages.
    pub file_number: u64,
    /// Level of the table, -1 unknown.
    pub level: i32,
    /// Unique id in the MANIFEST; another one in the file is Corruption.
    pub expected_unique_id: Option<[u64; 2]>,
    /// Largest sequence number in the MANIFEST, `u64::MAX` unknown; the sequence number of the
    /// entries of an ingested file.
    pub largest_seqno: u64,
    /// Bytes of everything after the data blocks, 0 unknown; read in one go at open.
    pub tail_size: u64,
    /// Prefix extractor of the column family.
    pub prefix_extractor: Option<Arc<dyn SliceTransform>>,
    /// Receives cache and filter counts.
    pub stats: Option<Arc<dyn TableStats>>,
    /// Do not load or use the filter.
    pub skip_filters: bool,
    /// Level-0 tables up to this many bytes count as flushed for pinning.
    pub max_file_size_for_l0_meta_pin: u64,
}

impl Default for TableReadContext {
    fn default() -> Self {
        TableReadContext {
            options: Arc::new(TableOptions::default()),
            comparator: InternalKeyComparator::default(),
            file_number: 0,
            level: -1,
            expected_unique_id: None,
            largest_seqno: u64::MAX,
            tail_size: 0,
            prefix_extractor: None,
            stats: None,
            skip_filters: false,
            max_file_size_for_l0_meta_pin: u64::MAX,
        }
    }
}

/// How a read of a table behaves.
#[derive(Clone, Debug)]
pub struct TableReadOptions {
    /// Verify the checksum of every block read from the file.
    pub verify_checksums: bool,
    /// Put blocks read from the file into the cache.
    pub fill_cache: bool,
    /// Fixed readahead of iterators, bytes; 0 adapts it automatically.
    pub readahead_size: usize,
    /// Order matters across prefixes: do not use prefix filters, unless one of the next two is set.
    pub total_order_seek: bool,
    /// The caller shows only keys that have the prefix of the key sought: prefix filters may be
    /// used, in both directions.
    pub prefix_same_as_start: bool,
    /// Use prefix filters only where order across prefixes cannot show the difference, with
    /// `total_order_seek` too.
    pub auto_prefix_mode: bool,
    /// User key at which iteration ends; readahead and prefix filters take it into account, the
    /// caller enforces it.
    pub iterate_upper_bound: Option<Arc<[u8]>>,
    /// Do no I/O: a block missing from the cache is an `Incomplete` error.
    pub cache_only: bool,
    /// Where a point read with `cache_only` notes the block that it missed.
    pub missed: Option<Arc<MissedBlock>>,
    /// Priority of block reads at the file's rate limiter; None bypasses it.
    pub io_priority: Option<IoPriority>,
    /// Time limits for reads of the file; none by default.
    pub limits: ReadLimits,
}

/// When reads of files time out. Checked before and after each read: none is interrupted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadLimits {
    /// Microseconds since 1970 after which no file is read any more; 0 for none.
    pub deadline_micros: u64,
    /// Microseconds that one read may take; 0 for no limit.
    pub io_timeout_micros: u64,
}

impl ReadLimits {
    /// Whether there is a limit to check.
    #[inline]
    pub fn is_set(&self) -> bool {
        self.deadline_micros != 0 || self.io_timeout_micros != 0
    }
}

/// The block that a point read with [`TableReadOptions::cache_only`] lacked; [`Table::load`] loads
/// it. Also the loaded blocks: such reads find them here, whether a cache has them or not. One read
/// at a time uses it.
#[derive(Default)]
pub struct MissedBlock {
    missed: Mutex<Option<Missed>>,
    /// By file and offset.
    loaded: Mutex<BTreeMap<(u64, u64), PinnedBlock>>,
}

struct Missed {
    block: (BlockHandle, BlockKind),
    table: Option<Arc<Table>>,
}

impl MissedBlock {
    pub(crate) fn note(&self, handle: BlockHandle, kind: BlockKind) {
        *self.missed.lock() = Some(Missed { block: (handle, kind), table: None });
    }
    /// Records which table the caller read.
    #[cold]
    pub fn set_table(&self, table: &Arc<Table>) {
        if let Some(missed) = &mut *self.missed.lock() {
            missed.table = Some(Arc::clone(table));
        }
    }
    /// Takes the table and the block.
    pub fn take(&self) -> Option<(Arc<Table>, (BlockHandle, BlockKind))> {
        let missed = self.missed.lock().take()?;
        Some((missed.table?, missed.block))
    }
    /// Keeps the block at `offset` of a table for future reads.
    pub fn keep(&self, table: &Table, offset: u64, block: PinnedBlock) {
        self.loaded.lock().insert((table.file_number(), offset), block);
    }
    /// Whether the block at `offset` of the file is kept here.
    pub fn has(&self, (file_number, offset): (u64, u64)) -> bool {
        self.loaded.lock().contains_key(&(file_number, offset))
    }
    /// The block, if it is kept here and of that kind.
    pub(crate) fn loaded(
        &self,
        file_number: u64,
        handle: BlockHandle,
        kind: BlockKind,
    ) -> Option<PinnedBlock> {
        let loaded = self.loaded.lock();
        let block = loaded.get(&(file_number, handle.offset))?;
        (block.get().kind() == kind).then(|| block.clone())
    }
}

impl fmt::Debug for MissedBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let block = self.missed.lock().as_ref().map(|missed| missed.block);
        f.debug_tuple("MissedBlock").field(&block).finish()
    }
}

impl Default for TableReadOptions {
    fn default() -> Self {
        TableReadOptions {
            verify_checksums: true,
            fill_cache: true,
            readahead_size: 0,
            total_order_seek: false,
            prefix_same_as_start: false,
            auto_prefix_mode: false,
            iterate_upper_bound: None,
            cache_only: false,
            missed: None,
            io_priority: None,
            limits: ReadLimits::default(),
        }
    }
}
