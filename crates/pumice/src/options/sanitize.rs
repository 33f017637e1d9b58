//! The values an open database works with: zeros that mean "derive it" are derived, and
//! contradictory settings are adjusted, as RocksDB 10.10 does at open (functions `SanitizeOptions`
//! and `SanitizeCfOptions`). Those that cannot be adjusted are an error.
//!
//! Thread safety: pure functions.

use pumice_base::key::{U64_TS_LEN, U64_TS_SUFFIX};
use pumice_base::{Comparator, Error, Result};
use pumice_cache::CacheOptions;
use pumice_env::Temperature;
use pumice_manifest::Offpeak;
use pumice_table::{BlockCache, DataBlockIndexType, IndexType};
use pumice_wal::WalRecoveryMode;

use super::block_based::{BLOCK_CACHE_BYTES, BlockBasedTableOptions, MIN_FORMAT_VERSION};
use super::cache_usage;
use super::cf_options::{ColumnFamilyOptions, UNSET_SECONDS};
use super::db_options::DbOptions;
use super::enums::{BackgroundPolicy, CompactionStyle};
use super::fifo::{check_temperatures, derives_merge_bytes};
use super::row::{OptionSet, check_all};
use super::table_rules::{check_format, check_table};

/// Write rate under a slowdown when `delayed_write_rate` is 0 and there is no rate limiter.
pub(crate) const DELAYED_WRITE_RATE: u64 = 16 << 20;
/// `bytes_per_sync` of a database with a rate limiter unless it is set: paced writes must not
/// accumulate in the page cache.
const LIMITED_BYTES_PER_SYNC: u64 = 1 << 20;
/// Default readahead of compactions with direct reads.
const DIRECT_COMPACTION_READAHEAD_BYTES: u64 = 2 << 20;
/// Fewest open files that a database can work with.
const MIN_OPEN_FILES: i32 = 20;
/// Smallest memtable.
const MIN_WRITE_BUFFER_BYTES: usize = 64 << 10;
/// Smallest and largest arena block, as RocksDB's arena bounds them.
const ARENA_BLOCK_BYTES: (usize, usize) = (4 << 10, 2 << 30);
/// Largest arena block that is derived from the memtable's size.
const MAX_DERIVED_ARENA_BLOCK_BYTES: usize = 1 << 20;
/// Largest part of a memtable that its filter takes.
const MAX_MEMTABLE_BLOOM_RATIO: f64 = 0.25;
/// Arena blocks are multiples of this.
const ARENA_ALIGNMENT_BYTES: usize = 4 << 10;
/// `ttl` and, with a compaction filter, `periodic_compaction_seconds` unless they are set: 30 days.
const DERIVED_AGE_SECONDS: u64 = 30 * 24 * 60 * 60;

impl DbOptions {
    /// The options an open database works with.
    ///
    /// # Errors
    /// InvalidArgument or NotSupported naming the option that cannot be used.
    pub fn sanitized(&self) -> Result<Self> {
        check_all(self)?;
        offpeak(&self.daily_offpeak_time_utc)?;
        self.check_policy()?;
        if !self.write_dbid_to_manifest && !self.write_identity_file {
            return Err(Error::invalid_argument(
                "write_dbid_to_manifest and write_identity_file cannot both be false",
            ));
        }
        self.check_combinations()?;
        let mut o = self.clone();
        if o.max_open_files != -1 {
            o.max_open_files = o.max_open_files.max(MIN_OPEN_FILES);
        }
        if o.delayed_write_rate == 0 {
            let limited = o.rate_limiter.as_ref().map(|limiter| limiter.bytes_per_second());
            o.delayed_write_rate = limited.unwrap_or(DELAYED_WRITE_RATE);
        }
        if o.rate_limiter.is_some() && o.bytes_per_sync == 0 {
            o.bytes_per_sync = LIMITED_BYTES_PER_SYNC;
        }
        let direct = o.use_direct_reads || o.use_direct_io_for_compaction_reads;
        if direct && o.compaction_readahead_size == 0 {
            o.compaction_readahead_size = DIRECT_COMPACTION_READAHEAD_BYTES;
        }
        Ok(o)
    }

    /// What RocksDB does not open, in its words, even where one of the two has no effect here.
    fn check_combinations(&self) -> Result<()> {
        let is_on = |name: &str| self.hints().get(name).is_some_and(|value| value == "true");
        let (pipelined, unordered) = (is_on("enable_pipelined_write"), is_on("unordered_write"));
        let unsupported = [
            (
                self.use_direct_reads && is_on("allow_mmap_reads"),
                "If memory mapped reads (allow_mmap_reads) are enabled then direct I/O reads \
                 (use_direct_reads) must be disabled. ",
            ),
            (
                self.use_direct_io_for_flush_and_compaction && is_on("allow_mmap_writes"),
                "If memory mapped writes (allow_mmap_writes) are enabled then direct I/O writes \
                 (use_direct_io_for_flush_and_compaction) must be disabled. ",
            ),
        ];
        let invalid = [
            (
                self.atomic_flush && pipelined,
                "atomic_flush is incompatible with enable_pipelined_write",
            ),
            (unordered && pipelined, "unordered_write is incompatible with enable_pipelined_write"),
            (
                unordered && !self.allow_concurrent_memtable_write,
                "unordered_write is incompatible with !allow_concurrent_memtable_write",
            ),
        ];
        let first = |rules: &[(bool, &'static str)]| {
            rules.iter().find(|(is_so, _)| *is_so).map(|(_, text)| *text)
        };
        match (first(&unsupported), first(&invalid)) {
            (Some(text), _) => Err(Error::not_supported(text)),
            (None, Some(text)) => Err(Error::invalid_argument(text)),
            (None, None) => Ok(()),
        }
    }

    fn check_policy(&self) -> Result<()> {
        let tunes = self.rate_limiter.as_ref().is_some_and(|limiter| limiter.is_auto_tuned());
        if self.background_policy == BackgroundPolicy::DrainAutoTune && !tunes {
            return Err(Error::invalid_argument(
                "background_policy=drain_auto_tune: needs an auto-tuned rate_limiter",
            ));
        }
        Ok(())
    }

    /// `daily_offpeak_time_utc`; none if it is malformed, which an open database does not have.
    pub fn offpeak(&self) -> Offpeak {
        offpeak(&self.daily_offpeak_time_utc).unwrap_or_default()
    }

    /// What recovery does at a damaged WAL record.
    pub(crate) fn replay_mode(&self) -> WalRecoveryMode {
        match self.paranoid_checks {
            true => self.wal_recovery_mode,
            // RocksDB's `RecoverLogFiles` then takes no report of damage.
            false => WalRecoveryMode::SkipAnyCorrupted,
        }
    }

    /// Log files that are kept to be used again: `recycle_log_file_num`, unless logs are archived,
    /// or `wal_recovery_mode` asks for what old content does not allow. As RocksDB's
    /// `SanitizeOptions` since 9.1.
    pub(crate) fn recycled_logs(&self) -> u64 {
        use WalRecoveryMode::{AbsoluteConsistency, TolerateCorruptedTail};
        let archived = self.WAL_ttl_seconds > 0 || self.WAL_size_limit_MB > 0;
        match self.wal_recovery_mode {
            TolerateCorruptedTail | AbsoluteConsistency => 0,
            _ if archived => 0,
            _ => self.recycle_log_file_num,
        }
    }

    /// The adaptive policy is in force.
    pub(crate) fn is_adaptive(&self) -> bool {
        self.background_policy == BackgroundPolicy::Adaptive
    }

    /// Flushes and compactions that may run at once (`GetBGJobLimits`): a quarter of
    /// `max_background_jobs` flushes, unless one of the older two options says otherwise.
    pub fn background_limits(&self) -> (usize, usize) {
        let (flushes, compactions) = (self.max_background_flushes, self.max_background_compactions);
        let (flushes, compactions) = if flushes == -1 && compactions == -1 {
            let flushes = (self.max_background_jobs / 4).max(1);
            (flushes, (self.max_background_jobs - flushes).max(1))
        } else {
            (flushes.max(1), compactions.max(1))
        };
        (flushes as usize, compactions as usize)
    }
}

/// The hours `text` names, `HH:mm-HH:mm`; none if it is empty.
fn offpeak(text: &str) -> Result<Offpeak> {
    if text.is_empty() {
        return Ok(Offpeak::default());
    }
    let number = |text: &str, end: u64| -> Option<u64> {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|number| digits && *number < end)
    };
    let seconds = |text: &str| -> Option<u64> {
        let (hours, minutes) = text.split_once(':')?;
        Some(number(hours, 24)? * 3600 + number(minutes, 60)? * 60)
    };
    let ends = text.split_once('-').and_then(|(start, end)| Some((seconds(start)?, seconds(end)?)));
    match ends {
        None => Err(Error::invalid_argument(
            "daily_offpeak_time_utc should be set in the format HH:mm-HH:mm (e.g. 04:30-07:30)",
        )),
        Some((start, end)) if start == end => Err(Error::invalid_argument(
            "daily_offpeak_time_utc: start_time and end_time cannot be the same",
        )),
        Some((start, end)) => Ok(Offpeak::new(start, end)),
    }
}

impl ColumnFamilyOptions {
    /// As [`Self::sanitized`], in a database with the options `db`.
    ///
    /// # Errors
    /// The same.
    pub(crate) fn sanitized_in(&self, db: &DbOptions) -> Result<Self> {
        let mut o = self.clone();
        o.cf_allow_ingest_behind |= db.allow_ingest_behind;
        o.sanitize_paths(db)?;
        let mut o = o.sanitized()?;
        if o.inplace_update_support && db.allow_concurrent_memtable_write {
            return Err(Error::invalid_argument(
                "In-place memtable updates (inplace_update_support) is not compatible with \
                 concurrent writes (allow_concurrent_memtable_write)",
            ));
        }
        if db.atomic_flush {
            // Sealed memtables of one family cannot wait for more while those of others are
            // flushed.
            o.min_write_buffer_number_to_merge = 1;
        }
        Ok(o)
    }

    /// The options an open column family works with.
    ///
    /// # Errors
    /// InvalidArgument or NotSupported naming the option that cannot be used.
    pub fn sanitized(&self) -> Result<Self> {
        check_column_family(self)?;
        let mut o = self.clone();
        o.write_buffer_size = o.write_buffer_size.max(MIN_WRITE_BUFFER_BYTES);
        if o.arena_block_size == 0 {
            let derived = (o.write_buffer_size / 8).min(MAX_DERIVED_ARENA_BLOCK_BYTES);
            o.arena_block_size = derived.next_multiple_of(ARENA_ALIGNMENT_BYTES);
        }
        o.table_factory.format_version = o.table_factory.format_version.max(MIN_FORMAT_VERSION);
        let (smallest, largest) = ARENA_BLOCK_BYTES;
        o.arena_block_size = o.arena_block_size.clamp(smallest, largest);
        o.memtable_prefix_bloom_size_ratio =
            o.memtable_prefix_bloom_size_ratio.clamp(0.0, MAX_MEMTABLE_BLOOM_RATIO);
        o.max_write_buffer_number = o.max_write_buffer_number.max(2);
        o.min_write_buffer_number_to_merge =
            o.min_write_buffer_number_to_merge.min(o.max_write_buffer_number - 1);
        if o.compaction_style == CompactionStyle::Level {
            // L0, one level that is compacted into, and the one that is reserved.
            o.num_levels = o.num_levels.max(2 + i32::from(o.cf_allow_ingest_behind));
        } else {
            o.level_compaction_dynamic_level_bytes = false;
        }
        if o.compaction_style == CompactionStyle::Universal && o.cf_allow_ingest_behind {
            o.num_levels = o.num_levels.max(3);
        }
        o.sanitize_ages();
        if o.max_bytes_for_level_multiplier <= 0.0 {
            o.max_bytes_for_level_multiplier = 1.0;
        }
        if o.level0_slowdown_writes_trigger < 0 {
            o.level0_slowdown_writes_trigger = i32::MAX;
        }
        o.level0_slowdown_writes_trigger =
            o.level0_slowdown_writes_trigger.max(o.level0_file_num_compaction_trigger);
        o.level0_stop_writes_trigger =
            o.level0_stop_writes_trigger.max(o.level0_slowdown_writes_trigger);
        if o.compaction_style == CompactionStyle::Fifo {
            // Old files are deleted, however many there are.
            o.level0_slowdown_writes_trigger = i32::MAX;
            o.level0_stop_writes_trigger = i32::MAX;
            o.last_level_temperature = Temperature::Unknown;
        }
        if o.soft_pending_compaction_bytes_limit == 0 {
            o.soft_pending_compaction_bytes_limit = o.hard_pending_compaction_bytes_limit;
        } else if o.hard_pending_compaction_bytes_limit > 0 {
            let hard = o.hard_pending_compaction_bytes_limit;
            o.soft_pending_compaction_bytes_limit = o.soft_pending_compaction_bytes_limit.min(hard);
        }
        if o.max_compaction_bytes == 0 && !derives_merge_bytes(&o) {
            o.max_compaction_bytes = o.target_file_size_base.saturating_mul(25);
        }
        o.max_bytes_for_level_multiplier_additional.resize(o.num_levels as usize, 1);
        if !o.table_factory.format.is_block_based() {
            // They hold no range deletions.
            o.min_tombstones_for_range_conversion = 0;
        }
        o.table_factory.sanitize();
        if !o.table_factory.no_block_cache {
            let cache = || BlockCache::new(CacheOptions::new(BLOCK_CACHE_BYTES));
            o.table_factory.block_cache.get_or_insert_with(cache);
        }
        Ok(o)
    }

    /// Derives the ages at which files are compacted.
    fn sanitize_ages(&mut self) {
        let blocks = self.table_factory.format.is_block_based();
        if self.ttl == UNSET_SECONDS {
            self.ttl = if blocks { DERIVED_AGE_SECONDS } else { 0 };
        }
        if self.periodic_compaction_seconds == UNSET_SECONDS {
            // Compaction filters should see all data from time to time. FIFO compaction never uses
            // them.
            let asks = match self.compaction_style {
                CompactionStyle::Universal => true,
                CompactionStyle::Fifo => false,
                _ => self.has_filter(),
            };
            self.periodic_compaction_seconds = if asks && blocks { DERIVED_AGE_SECONDS } else { 0 };
        }
        if self.compaction_style == CompactionStyle::Universal && self.ttl > 0 {
            // There is no level to move old data to, so both rewrite it.
            let periods = [self.ttl, self.periodic_compaction_seconds].into_iter();
            self.periodic_compaction_seconds = periods.filter(|p| *p > 0).min().unwrap_or(0);
        }
    }
}

impl BlockBasedTableOptions {
    /// Adjusts settings as RocksDB's table factory does (`InitializeOptions`).
    fn sanitize(&mut self) {
        if self.index_type == IndexType::HashSearch {
            self.index_block_restart_interval = 1;
        }
        self.partition_filters &= self.index_type == IndexType::TwoLevel;
    }
}

/// Whether a column family can work with these options: every row's bounds, and the rules between
/// rows.
///
/// # Errors
/// InvalidArgument or NotSupported naming the option that cannot be used.
pub(crate) fn check_column_family(options: &ColumnFamilyOptions) -> Result<()> {
    check_all(options)?;
    check_all(&options.table_factory)?;
    check_format(options)?;
    let mut table = options.table_factory.clone();
    table.sanitize();
    check_table(options, &table)?;
    check_hashes(options, &table)?;
    check_timestamps(options, &table)?;
    check_universal(options)?;
    check_temperatures(options)?;
    check_blobs(options)?;
    if ![0, 1, 2, 4, 8].contains(&options.memtable_protection_bytes_per_key) {
        return Err(Error::not_supported(
            "Memtable per key-value checksum protection only supports 0, 1, 2, 4 or 8 bytes per \
             key: memtable_protection_bytes_per_key",
        ));
    }
    if ![0, 1, 2, 4, 8].contains(&options.block_protection_bytes_per_key) {
        return Err(Error::not_supported(
            "Block per key-value checksum protection only supports 0, 1, 2, 4 or 8 bytes per key: \
             block_protection_bytes_per_key",
        ));
    }
    if !(0.0..f64::INFINITY).contains(&options.read_triggered_compaction_threshold) {
        return Err(Error::invalid_argument(
            "read_triggered_compaction_threshold must be >= 0.0 and finite.",
        ));
    }
    table.to_table_options()?;
    cache_usage::check(options, &table)?;
    check_codecs(options)
}

/// Refuses what does not work with keys that have timestamps.
fn check_timestamps(options: &ColumnFamilyOptions, table: &BlockBasedTableOptions) -> Result<()> {
    let order = &options.comparator;
    if order.timestamp_size() == 0 {
        return Ok(());
    }
    if order.timestamp_size() > TIMESTAMP_BYTES_MAX {
        return Err(Error::invalid_argument(format!(
            "comparator {}: timestamps of more than {TIMESTAMP_BYTES_MAX} bytes",
            order.name()
        )));
    }
    if options.strips_timestamps() && !has_u64_timestamps(order) {
        return Err(Error::not_supported(
            "Not persisting user-defined timestampsfeature only support user-defined timestamps \
             formatted as uint64_t.",
        ));
    }
    let is_built_in = matches!(order, Comparator::Custom(own) if own.is_built_in());
    let refused = [
        // A resolved value has what its time sees, and would hide all that was written before it
        // once a flush takes the times off.
        (
            "max_successive_merges with persist_user_defined_timestamps=false",
            options.strips_timestamps() && options.max_successive_merges > 0,
        ),
        ("index_type=kHashSearch", table.index_type == IndexType::HashSearch),
        (
            "data_block_index_type=kDataBlockBinaryAndHash",
            table.data_block_index_type == DataBlockIndexType::BinaryAndHash,
        ),
        // Their separators must not be shortened: of other orders that is not known.
        (
            "partition_filters",
            table.partition_filters && !(is_built_in || options.strips_timestamps()),
        ),
    ];
    match refused.iter().find(|(_, used)| *used) {
        None => Ok(()),
        Some((name, _)) => Err(Error::not_supported(format!(
            "{name} with comparator {}, whose keys have timestamps",
            order.name()
        ))),
    }
}

/// Its timestamps are little-endian numbers of 8 bytes, as its name says. RocksDB believes the
/// name.
pub(crate) fn has_u64_timestamps(order: &Comparator) -> bool {
    let compare = |a: u64, b: u64| order.compare_timestamp(&a.to_le_bytes(), &b.to_le_bytes());
    order.name().ends_with(U64_TS_SUFFIX)
        && order.timestamp_size() == U64_TS_LEN
        && compare(0x100, 1).is_gt()
}

/// Refuses options of a database that do not go with those of a family.
///
/// # Errors
/// NotSupported.
pub(crate) fn check_together(db: &DbOptions, family: &ColumnFamilyOptions) -> Result<()> {
    let text = match family.strips_timestamps() {
        true if db.atomic_flush => {
            "Not persisting user-defined timestamps feature is not supportedin combination with \
             atomic flush."
        }
        true if db.allow_concurrent_memtable_write => {
            "Not persisting user-defined timestamps feature is not supported in combination with \
             concurrent memtable write."
        }
        _ => return Ok(()),
    };
    Err(Error::not_supported(text))
}

/// Refuses, as RocksDB does, another order than the one that is `recorded`, and whether tables lack
/// timestamps; but a family without timestamps may get them, and lose them again, as long as its
/// tables have none.
///
/// # Errors
/// InvalidArgument.
pub(crate) fn check_order_change(
    order: &Comparator,
    stripped: bool,
    (recorded, was_stripped): (&str, bool),
) -> Result<()> {
    let size = order.timestamp_size();
    let gained = order.name().strip_suffix(U64_TS_SUFFIX) == Some(recorded) && size == U64_TS_LEN;
    let lost = recorded.strip_suffix(U64_TS_SUFFIX) == Some(order.name()) && size == 0;
    let text = match order.name() == recorded {
        true if stripped == was_stripped || size == 0 => return Ok(()),
        true => {
            "Cannot toggle the persist_user_defined_timestamps flag for a column family with \
             user-defined timestamps feature enabled."
        }
        false if gained && stripped || lost && was_stripped => return Ok(()),
        false if gained => {
            "Cannot open a column family and enable user-defined timestamps feature without \
             setting persist_user_defined_timestamps flag to false."
        }
        false if lost => {
            "Cannot open a column family and disable user-defined timestamps feature if its \
             existing persist_user_defined_timestamps flag is not false."
        }
        false => {
            let name = order.name();
            let text = format!("{name}: does not match existing comparator {recorded}");
            return Err(Error::invalid_argument(text));
        }
    };
    Err(Error::invalid_argument(text))
}

/// Most bytes of a timestamp: a log records the length in 16 bits, and every read copies one.
const TIMESTAMP_BYTES_MAX: usize = 1024;

/// Refuses options that look keys up by their hash where equal keys may have different hashes.
/// RocksDB refuses only the last of them, and does not find keys with the others.
fn check_hashes(options: &ColumnFamilyOptions, table: &BlockBasedTableOptions) -> Result<()> {
    let order = &options.comparator;
    if !order.can_keys_with_different_byte_contents_be_equal() {
        return Ok(());
    }
    let prefixes = options.prefix_extractor.is_some();
    let in_tables = prefixes || table.whole_key_filtering;
    let in_memtables = prefixes || options.memtable_whole_key_filtering;
    let hashed = [
        ("filter_policy", table.filter_policy.is_some() && in_tables),
        (
            "memtable_prefix_bloom_size_ratio",
            options.memtable_prefix_bloom_size_ratio > 0.0 && in_memtables,
        ),
        ("index_type=kHashSearch", table.index_type == IndexType::HashSearch),
        (
            "data_block_index_type=kDataBlockBinaryAndHash",
            table.data_block_index_type == DataBlockIndexType::BinaryAndHash,
        ),
    ];
    match hashed.iter().find(|(_, is_set)| *is_set) {
        None => Ok(()),
        Some((option, _)) => Err(Error::invalid_argument(format!(
            "{option}: not with comparator {}, to which keys of different bytes may be equal \
             (can_keys_with_different_byte_contents_be_equal)",
            order.name()
        ))),
    }
}

/// Checks the limit of sorted runs, as RocksDB does.
fn check_universal(options: &ColumnFamilyOptions) -> Result<()> {
    let limit = options.compaction_options_universal.max_read_amp;
    if options.compaction_style != CompactionStyle::Universal {
        return Ok(());
    }
    if limit < -1 {
        return Err(Error::not_supported(
            "CompactionOptionsUniversal::max_read_amp should be at least -1.",
        ));
    }
    if limit > 0 && limit < options.level0_file_num_compaction_trigger {
        return Err(Error::not_supported(
            "CompactionOptionsUniversal::max_read_amp limits the number of sorted runs but is \
             smaller than the compaction trigger level0_file_num_compaction_trigger.",
        ));
    }
    Ok(())
}

/// Checks the shares of garbage collection, in RocksDB's words and with the option's name.
fn check_blobs(options: &ColumnFamilyOptions) -> Result<()> {
    let is_share = |share: f64| (0.0..=1.0).contains(&share);
    if !options.enable_blob_garbage_collection {
        return Ok(());
    }
    if !is_share(options.blob_garbage_collection_age_cutoff) {
        return Err(Error::invalid_argument(
            "The age cutoff for blob garbage collection should be in the range [0.0, 1.0]: \
             blob_garbage_collection_age_cutoff",
        ));
    }
    if !is_share(options.blob_garbage_collection_force_threshold) {
        return Err(Error::invalid_argument(
            "The garbage ratio threshold for forcing blob garbage collection should be in the \
             range [0.0, 1.0]: blob_garbage_collection_force_threshold",
        ));
    }
    Ok(())
}

/// Checks that tables can be written with the configured codecs, so that no flush fails for that.
fn check_codecs(options: &ColumnFamilyOptions) -> Result<()> {
    let kinds = std::iter::once(&options.compression).chain(&options.compression_per_level);
    for kind in kinds.chain([&options.bottommost_compression]) {
        let checked = options.compression_opts.check(*kind);
        checked.map_err(|error| error.with_context("compression_opts"))?;
        if options.bottommost_compression_opts.enabled {
            let checked = options.bottommost_compression_opts.check(*kind);
            checked.map_err(|error| error.with_context("bottommost_compression_opts"))?;
        }
    }
    Ok(())
}
