//! The parameters of a table besides its entries.
//!
//! Plain data; each builder has its own.

use std::sync::Arc;

use pumice_base::extension::SliceTransform;
use pumice_base::narrow::low_u32;
use pumice_base::{InternalKeyComparator, SizeLimits};
use pumice_compress::{CompressionManager, CompressionOptions, CompressionType};
use pumice_filter::{FilterBuildSettings, FilterPolicy, RateBalance};
use pumice_port::helpers::HelperPool;

use crate::options::TableOptions;
use crate::properties::UNKNOWN_COLUMN_FAMILY;
use crate::seqno_to_time_mapping::SeqnoToTimeMapping;
use crate::stats::TableStats;

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

/// What a table builder needs to know about the table besides its entries.
#[derive(Clone)]
#[allow(missing_docs)] // Properties of the same names, docs/format/table.md#properties.
pub struct TableBuildContext {
    pub table: Arc<TableOptions>,
    pub comparator: InternalKeyComparator,
    /// The name of the order of the keys before they lost their timestamps, which the table gets in
    /// place of that of `comparator`; None if they had none, or have them.
    pub stripped_of: Option<String>,
    pub compression: CompressionType,
    pub compression_opts: CompressionOptions,
    /// Chooses the codec of each block; `None` leaves it at `compression`.
    pub compression_manager: Option<CompressionManager>,
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
    /// The policy of the filter in place of that of `table`.
    pub filter_policy: Option<FilterPolicy>,
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
    /// One in this many data blocks is compressed with a fast and a slow codec to estimate their
    /// savings; 0 for none.
    pub sample_for_compression: u64,
    /// When entries were written: the part that concerns those of the table is stored.
    pub seqno_times: Option<Arc<SeqnoToTimeMapping>>,
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
            stripped_of: None,
            compression: CompressionType::None,
            compression_opts: CompressionOptions::default(),
            compression_manager: None,
            column_family_id: low_u32(UNKNOWN_COLUMN_FAMILY),
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
            filter_policy: None,
            reason: TableReason::Other,
            target_file_size: 0,
            helpers: None,
            time_codec: false,
            stats: None,
            filter_balance: None,
            sample_for_compression: 0,
            seqno_times: None,
            user_collected: Vec::new(),
            property_collectors: Vec::new(),
            limits: SizeLimits::FORMAT,
        }
    }
}
