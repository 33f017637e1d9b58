//! Options that callers pass with a request: of reads, writes, flushes and compactions.
//!
//! Plain values with RocksDB's names and defaults.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pumice_compress::CompressionType;
use pumice_env::{IoPriority, Temperature};
use pumice_port::time::wall_micros;

pub use super::table_filter::TableFilter;
use crate::snapshot::Snapshot;

/// Options of a read.
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// # let dir = std::env::temp_dir().join(format!("pumice-readoptions-{}", std::process::id()));
/// # let db = pumice::Db::builder(&dir).create(true).open()?;
/// use pumice::ReadOptions;
/// db.put("a", "1")?;
/// // Only what is in memory, and nothing from the disk.
/// let options = ReadOptions { cache_only: true, ..ReadOptions::default() };
/// assert_eq!(db.get_opt(&options, "a")?.as_deref(), Some(&b"1"[..]));
/// # db.close()?;
/// # pumice::Db::destroy(&Default::default(), &dir)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ReadOptions {
    /// Read as of this snapshot, which must be of the same database; None reads the latest state.
    pub snapshot: Option<Snapshot>,
    /// Verify block checksums.
    pub verify_checksums: bool,
    /// Put blocks that had to be read into the block cache.
    pub fill_cache: bool,
    /// Bytes an iterator reads ahead in each table; 0 adapts to sequential reads, as
    /// `initial_auto_readahead_size` and `max_auto_readahead_size` say.
    pub readahead_size: usize,
    /// Nothing is read ahead beyond the block in which `iterate_upper_bound` lies. Without effect
    /// in families with timestamps.
    pub auto_readahead_size: bool,
    /// Reads wait for the device together: a move of a cursor asks for the blocks of all tables at
    /// once, a point read for those of all tables of level 0 that it may have to look into, and
    /// half of what is read ahead is in flight while the other half is used. Else one read follows
    /// the other, as with `deadline_micros` or `io_timeout_micros`. RocksDB's is off by default.
    pub async_io: bool,
    /// First key an iterator shows (inclusive).
    pub iterate_lower_bound: Option<Vec<u8>>,
    /// First key an iterator no longer shows (exclusive).
    pub iterate_upper_bound: Option<Vec<u8>>,
    /// An iterator ends where the prefix of the sought key ends.
    pub prefix_same_as_start: bool,
    /// Ignore prefixes even if a prefix extractor is configured.
    pub total_order_seek: bool,
    /// Read only what is in memory; anything else is `Incomplete`, as is a table that is not open.
    pub cache_only: bool,
    /// Priority of reads of tables at the rate limiter, if that limits reads; None bypasses it.
    pub rate_limiter_priority: Option<IoPriority>,
    /// Microseconds since 1970 after which the read gives up with `TimedOut`; 0 for never. The
    /// clock is read where a table file is read: data in memory is returned at any time, and a read
    /// that has begun is not cut off, but its result is dropped if it is too late. Opening a table
    /// has no limit. [`ReadOptions::within`] sets it relative to now.
    pub deadline_micros: u64,
    /// Microseconds that each read of a table file may take, else the answer is `TimedOut`; 0 for
    /// no limit. As with the deadline, it is checked when the read returns.
    pub io_timeout_micros: u64,
    /// Seeks use prefix filters where `iterate_upper_bound` shows that this makes no difference.
    /// Unlike RocksDB's it is on by default.
    pub auto_prefix_mode: bool,
    /// Each seek of a cursor sees everything that was written before it, not only what was written
    /// before the cursor was made; so does a step forward from what was the last key. Unlike
    /// RocksDB's, such a cursor also moves backwards. Refused with a snapshot.
    pub tailing: bool,
    /// A cursor passes over the entries of tables that this does not want; their range deletions
    /// still hide those of others. Point reads do not ask it. It must always answer the same.
    pub table_filter: Option<TableFilter>,
    /// Deletions of ranges are not looked for: what they deleted is read until a compaction.
    pub ignore_range_deletions: bool,
    /// A move of a cursor that has passed over more entries than this which it does not show ends
    /// without a key, and its status is Incomplete; 0 for no limit. Runs of deleted keys that are
    /// known count as nothing, so that a move may get further than RocksDB's.
    pub max_skippable_internal_keys: u64,
    /// The time that is read at, as bytes of a timestamp, for column families whose keys have
    /// timestamps: needed there and refused elsewhere. [`Db::at`](crate::Db::at) sets it.
    pub timestamp: Option<Vec<u8>>,
    /// A cursor shows every version from this time on up to `timestamp`, the newest of a key first,
    /// deletions with an empty value. Its keys are then whole: the user's bytes, the timestamp, and
    /// 8 bytes of which the first tells a deletion (0x14 or 0x07).
    pub iter_start_ts: Option<Vec<u8>>,
    /// Data blocks are found in this index where the column family and the table have it.
    pub table_index_factory: Option<pumice_table::UserDefinedIndex>,
}

impl ReadOptions {
    /// RocksDB's defaults.
    pub const DEFAULT: ReadOptions = ReadOptions {
        snapshot: None,
        verify_checksums: true,
        fill_cache: true,
        readahead_size: 0,
        auto_readahead_size: true,
        async_io: true,
        iterate_lower_bound: None,
        iterate_upper_bound: None,
        prefix_same_as_start: false,
        total_order_seek: false,
        cache_only: false,
        rate_limiter_priority: None,
        deadline_micros: 0,
        io_timeout_micros: 0,
        auto_prefix_mode: true,
        tailing: false,
        table_filter: None,
        ignore_range_deletions: false,
        max_skippable_internal_keys: 0,
        timestamp: None,
        iter_start_ts: None,
        table_index_factory: None,
    };

    /// The defaults, with a deadline this many microseconds from now.
    pub fn within(micros: u64) -> Self {
        let deadline_micros = wall_micros().saturating_add(micros).max(1);
        ReadOptions { deadline_micros, ..Self::DEFAULT }
    }

    /// The defaults, as of `snapshot`.
    pub fn at(snapshot: &Snapshot) -> Self {
        ReadOptions { snapshot: Some(snapshot.clone()), ..Self::DEFAULT }
    }
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Whether merge operands older than the given one are wanted.
///
/// Example: that of [`GetMergeOperandsOptions`](crate::GetMergeOperandsOptions).
pub type ContinueCallback<'a> = &'a dyn Fn(&[u8]) -> bool;

/// How [`crate::Db::get_merge_operands`] reads.
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// # let dir = std::env::temp_dir().join(format!("pumice-operands-{}", std::process::id()));
/// # let db = pumice::Db::builder(&dir).create(true).open()?;
/// use pumice::{ContinueCallback, GetMergeOperandsOptions, ReadOptions};
/// # db.close()?;
/// # let db = pumice::Db::builder(&dir)
/// #     .configure(|options| {
/// #         options.cf.set_merge_operator_associative("sum", |_, _, _| None);
/// #     })
/// #     .open()?;
/// for operand in ["1", "2", "3"] {
///     db.merge("key", operand)?;
/// }
/// let mut found = 0;
/// let all = db.get_merge_operands("key", &GetMergeOperandsOptions::at_most(10), &mut found)?;
/// assert_eq!((all.len(), found), (3, 3));
/// // Nothing older than an operand of this value.
/// let newer: ContinueCallback<'_> = &|operand| operand != b"2";
/// let options = GetMergeOperandsOptions::at_most(10).while_true(newer);
/// let few = db.get_merge_operands("key", &options, &mut found)?;
/// assert_eq!(few.len(), 2);
/// # drop((all, few));
/// # db.close()?;
/// # pumice::Db::destroy(&Default::default(), &dir)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Default)]
pub struct GetMergeOperandsOptions<'a> {
    /// With more operands than this, the base value counted, the read is Incomplete.
    pub expected_max_number_of_operands: usize,
    /// Called with each operand, the newest one first, but not with the base value; if it returns
    /// false, nothing that is older is read. It may call the database.
    pub continue_cb: Option<ContinueCallback<'a>>,
}

impl<'a> GetMergeOperandsOptions<'a> {
    /// At most this many operands.
    pub fn at_most(operands: usize) -> Self {
        GetMergeOperandsOptions { expected_max_number_of_operands: operands, continue_cb: None }
    }

    /// With this `continue_cb`.
    #[must_use]
    pub fn while_true(mut self, continue_cb: ContinueCallback<'a>) -> Self {
        self.continue_cb = Some(continue_cb);
        self
    }
}

impl fmt::Debug for GetMergeOperandsOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GetMergeOperandsOptions")
            .field("expected_max_number_of_operands", &self.expected_max_number_of_operands)
            .field("continue_cb", &self.continue_cb.is_some())
            .finish()
    }
}

/// A [`ContinueCallback`] of a future.
///
/// Example: that of [`GetMergeOperandsAsyncOptions`].
pub type OwnedContinueCallback = Box<dyn Fn(&[u8]) -> bool + Send>;

/// [`GetMergeOperandsOptions`] of a future, which owns its callback.
///
/// ```
/// use pumice::GetMergeOperandsAsyncOptions;
/// // For `db.get_merge_operands_async("key", options).await`.
/// let options = GetMergeOperandsAsyncOptions::at_most(10).while_true(|operand| operand != b"2");
/// assert_eq!(options.expected_max_number_of_operands, 10);
/// ```
#[derive(Default)]
pub struct GetMergeOperandsAsyncOptions {
    /// As [`GetMergeOperandsOptions::expected_max_number_of_operands`].
    pub expected_max_number_of_operands: usize,
    /// As [`GetMergeOperandsOptions::continue_cb`]. It runs on the future's fiber.
    pub continue_cb: Option<OwnedContinueCallback>,
}

impl GetMergeOperandsAsyncOptions {
    /// At most this many operands.
    pub fn at_most(operands: usize) -> Self {
        Self { expected_max_number_of_operands: operands, continue_cb: None }
    }

    /// With this `continue_cb`.
    #[must_use]
    pub fn while_true(mut self, continue_cb: impl Fn(&[u8]) -> bool + Send + 'static) -> Self {
        self.continue_cb = Some(Box::new(continue_cb));
        self
    }

    /// The same for the ordinary call.
    pub(crate) fn borrowed(&self) -> GetMergeOperandsOptions<'_> {
        GetMergeOperandsOptions {
            expected_max_number_of_operands: self.expected_max_number_of_operands,
            continue_cb: self.continue_cb.as_deref().map(|continue_cb| continue_cb as _),
        }
    }
}

impl fmt::Debug for GetMergeOperandsAsyncOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.borrowed().fmt(f)
    }
}

/// Options of a write.
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// # let dir = std::env::temp_dir().join(format!("pumice-writeoptions-{}", std::process::id()));
/// # let db = pumice::Db::builder(&dir).create(true).open()?;
/// use pumice::WriteOptions;
/// // On the disk when the call returns.
/// let durable = WriteOptions { sync: true, ..WriteOptions::default() };
/// db.put_opt(&durable, "a", "1")?;
/// # db.close()?;
/// # pumice::Db::destroy(&Default::default(), &dir)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteOptions {
    /// Return only when the write is durable against power loss.
    pub sync: bool,
    /// Do not log the write: it is lost if the process ends before a flush.
    pub disable_wal: bool,
    /// Fail with `Incomplete` instead of waiting for a write stall.
    pub no_slowdown: bool,
    /// Yield to other writes while compaction lags.
    pub low_pri: bool,
    /// Skip records of column families that do not exist instead of failing.
    pub ignore_missing_column_families: bool,
    /// Wait for the rate limiter first: `User`, with `disable_wal` and `manual_wal_flush` off.
    pub rate_limiter_priority: Option<IoPriority>,
    /// 8: updates get checksums; 0: those of [protected](crate::WriteBatch::protect) batches have.
    pub protection_bytes_per_key: u8,
}

/// Options of a checkpoint.
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// # let dir = std::env::temp_dir().join(format!("pumice-checkpoint-{}", std::process::id()));
/// # let db = pumice::Db::builder(&dir).create(true).open()?;
/// use pumice::{CheckpointOptions, Db};
/// db.put("a", "1")?;
/// let copy = dir.join("copy");
/// // No flush: what is in memtables is copied as logs.
/// db.checkpoint_opt(&CheckpointOptions { log_size_for_flush: u64::MAX }, &copy)?;
/// let copied = Db::builder(&copy).open()?;
/// assert_eq!(copied.get("a")?.as_deref(), Some(&b"1"[..]));
/// # copied.close()?;
/// # Db::destroy(&Default::default(), &copy)?;
/// # db.close()?;
/// # pumice::Db::destroy(&Default::default(), &dir)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckpointOptions {
    /// Memtables are flushed first if the live logs have at least this many bytes together; 0
    /// always, `u64::MAX` never. What is not flushed is copied as logs, so that an open of the
    /// checkpoint reads it from there; writes without a log are then missing.
    pub log_size_for_flush: u64,
}

/// Options of [`crate::Db::create_column_family_with_import`].
///
/// Example: that of [`ExportImportFilesMetadata`](crate::ExportImportFilesMetadata).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImportColumnFamilyOptions {
    /// Take the files: link them into the database and remove their old names afterwards. Without
    /// it they are copied.
    pub move_files: bool,
}

/// Options of a flush.
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// # let dir = std::env::temp_dir().join(format!("pumice-flushoptions-{}", std::process::id()));
/// # let db = pumice::Db::builder(&dir).create(true).open()?;
/// use pumice::FlushOptions;
/// db.put("a", "1")?;
/// db.flush_opt(&FlushOptions::default())?;
/// assert_eq!(db.property("rocksdb.num-files-at-level0").as_deref(), Some("1"));
/// # db.close()?;
/// # pumice::Db::destroy(&Default::default(), &dir)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlushOptions {
    /// Return when the data is in table files.
    pub wait: bool,
    /// Flush at once even if that stalls writes.
    pub allow_write_stall: bool,
    /// With `wait`: return when the listeners have been told, too.
    pub listener_wait: bool,
}

impl Default for FlushOptions {
    fn default() -> Self {
        FlushOptions { wait: true, allow_write_stall: false, listener_wait: false }
    }
}

/// Whether a manual compaction rewrites the bottommost level.
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// # let dir = std::env::temp_dir().join(format!("pumice-bottommost-{}", std::process::id()));
/// # let db = pumice::Db::builder(&dir).create(true).open()?;
/// use pumice::{BottommostLevelCompaction, CompactRangeOptions};
/// db.put("a", "1")?;
/// // Every file is written again, also those that are in the last level already.
/// let options = CompactRangeOptions {
///     bottommost_level_compaction: BottommostLevelCompaction::Force,
///     ..Default::default()
/// };
/// db.compact_range(&options, None, None)?;
/// # db.close()?;
/// # pumice::Db::destroy(&Default::default(), &dir)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum BottommostLevelCompaction {
    /// No.
    Skip,
    /// Only with a compaction filter.
    #[default]
    IfHaveCompactionFilter,
    /// Yes.
    Force,
    /// Yes, but not files this compaction has made itself.
    ForceOptimized,
}

/// Whether a manual compaction writes old blobs anew.
///
/// Example: that of [`CompactRangeOptions`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BlobGarbageCollectionPolicy {
    /// It does, whatever the family's options say.
    Force,
    /// It does not.
    Disable,
    /// The family's `enable_blob_garbage_collection` decides.
    #[default]
    UseDefault,
}

/// Options of a manual compaction.
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// # let dir = std::env::temp_dir().join(format!("pumice-compact-{}", std::process::id()));
/// # let db = pumice::Db::builder(&dir).create(true).open()?;
/// use pumice::{BlobGarbageCollectionPolicy, CompactRangeOptions};
/// db.put("a", "1")?;
/// let how = CompactRangeOptions {
///     blob_garbage_collection_policy: BlobGarbageCollectionPolicy::Force,
///     ..CompactRangeOptions::default()
/// };
/// db.compact_range(&how, None, None)?;
/// assert_eq!(db.property("rocksdb.num-files-at-level0").as_deref(), Some("0"));
/// # db.close()?;
/// # pumice::Db::destroy(&Default::default(), &dir)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct CompactRangeOptions {
    /// No automatic compaction runs meanwhile.
    pub exclusive_manual_compaction: bool,
    /// Move the result to `target_level`, or to the lowest level that can hold it.
    pub change_level: bool,
    /// Level for `change_level`; negative finds the lowest possible.
    pub target_level: i32,
    /// What to do with the bottommost level.
    pub bottommost_level_compaction: BottommostLevelCompaction,
    /// Flush first even if that stalls writes.
    pub allow_write_stall: bool,
    /// Largest number of parts that each compaction is split into; 0 takes the database's setting.
    pub max_subcompactions: u32,
    /// A switch that ends the call with Incomplete.
    pub canceled: Option<CancelFlag>,
    /// The directory of `cf_paths` that the result goes to.
    pub target_path_id: u32,
    /// First raises the low of the history to this timestamp, see
    /// [`Db::increase_full_history_ts_low`](crate::Db::increase_full_history_ts_low).
    pub full_history_ts_low: Option<Vec<u8>>,
    /// Whether blobs of the oldest files are written anew.
    pub blob_garbage_collection_policy: BlobGarbageCollectionPolicy,
    /// The share of the files that counts as old, unless the policy is `Disable`; below 0 or above
    /// 1 it is the family's `blob_garbage_collection_age_cutoff`.
    pub blob_garbage_collection_age_cutoff: f64,
    /// Drops versions with newer timestamps; only an open that trims the history sets it.
    #[doc(hidden)]
    pub trim_above: Option<Vec<u8>>,
}

impl Default for CompactRangeOptions {
    fn default() -> Self {
        CompactRangeOptions {
            exclusive_manual_compaction: false,
            change_level: false,
            target_level: -1,
            bottommost_level_compaction: BottommostLevelCompaction::default(),
            allow_write_stall: false,
            max_subcompactions: 0,
            canceled: None,
            target_path_id: 0,
            full_history_ts_low: None,
            blob_garbage_collection_policy: BlobGarbageCollectionPolicy::default(),
            blob_garbage_collection_age_cutoff: -1.0,
            trim_above: None,
        }
    }
}

/// A switch by which a caller ends a call from outside.
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// # let dir = std::env::temp_dir().join(format!("pumice-cancelflag-{}", std::process::id()));
/// # let db = pumice::Db::builder(&dir).create(true).open()?;
/// use pumice::{CancelFlag, CompactFilesOptions};
/// db.put("a", "1")?;
/// db.flush()?;
/// let name = db.live_files_metadata()[0].name.clone();
/// let flag = CancelFlag::default();
/// let how = CompactFilesOptions { canceled: Some(flag.clone()), ..Default::default() };
/// flag.set(true); // From any thread.
/// assert!(db.compact_files(&how, &[&name], 6).is_err());
/// # db.close()?;
/// # std::fs::remove_dir_all(&dir).ok();
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct CancelFlag(Arc<AtomicBool>);

impl CancelFlag {
    /// Ends the calls that have the flag, or lets later ones run again.
    pub fn set(&self, canceled: bool) {
        self.0.store(canceled, Ordering::Release);
    }

    /// Whether calls with the flag are to end.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl From<Arc<AtomicBool>> for CancelFlag {
    fn from(flag: Arc<AtomicBool>) -> Self {
        CancelFlag(flag)
    }
}

/// The same switch.
impl PartialEq for CancelFlag {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for CancelFlag {}

/// Options of [`crate::Db::compact_files`].
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// # let dir = std::env::temp_dir().join(format!("pumice-compactfiles-{}", std::process::id()));
/// # let db = pumice::Db::builder(&dir).create(true).open()?;
/// use pumice::{CompactFilesOptions, CompressionType};
/// db.put("a", "1")?;
/// db.flush()?;
/// let names: Vec<String> = db.live_files_metadata().into_iter().map(|file| file.name).collect();
/// let names: Vec<&str> = names.iter().map(String::as_str).collect();
/// let options =
///     CompactFilesOptions { compression: Some(CompressionType::None), ..Default::default() };
/// let made = db.compact_files(&options, &names, 3)?;
/// assert_eq!(made.len(), 1);
/// assert_eq!(db.property("rocksdb.num-files-at-level3").as_deref(), Some("1"));
/// # db.close()?;
/// # pumice::Db::destroy(&Default::default(), &dir)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactFilesOptions {
    /// Compression of the outputs; None for that of their level.
    pub compression: Option<CompressionType>,
    /// Bytes at which an output ends; no limit by default. In level 0 there is always one.
    pub output_file_size_limit: u64,
    /// Largest number of parts that the compaction is split into; 0 takes the database's setting.
    pub max_subcompactions: u32,
    /// Once it is set the call ends, Incomplete, with nothing changed.
    pub canceled: Option<CancelFlag>,
    /// The directory of `cf_paths` for the outputs; None for that of their level.
    pub output_path_id: Option<u32>,
    /// The temperature of the outputs; that of the options where it is unknown.
    pub output_temperature_override: Temperature,
}

impl Default for CompactFilesOptions {
    fn default() -> Self {
        CompactFilesOptions {
            compression: None,
            output_file_size_limit: u64::MAX,
            max_subcompactions: 0,
            canceled: None,
            output_path_id: None,
            output_temperature_override: Temperature::Unknown,
        }
    }
}

/// Options of [`crate::Db::wait_for_compact`].
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// # let dir = std::env::temp_dir().join(format!("pumice-wait-{}", std::process::id()));
/// # let db = pumice::Db::builder(&dir).create(true).open()?;
/// use pumice::WaitForCompactOptions;
/// db.put("a", "1")?;
/// db.flush()?;
/// db.wait_for_compact(&WaitForCompactOptions::default())?;
/// # db.close()?;
/// # pumice::Db::destroy(&Default::default(), &dir)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitForCompactOptions {
    /// Flush memtables first.
    pub flush: bool,
    /// Close the database afterwards.
    pub close_db: bool,
    /// Give up after this many microseconds; 0 waits forever.
    pub timeout_micros: u64,
    /// Return `Aborted` when background work is paused.
    pub abort_on_pause: bool,
}
