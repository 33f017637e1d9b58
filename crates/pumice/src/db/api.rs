//! `Db`: the handle that programs hold.
//!
//! A handle is cheap to clone and may move between threads; the database closes when the last
//! handle is dropped or `close` is called. Snapshots, iterators and column family handles may
//! outlive it. Every call may suspend unless its text says otherwise.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use pumice_base::{Error, Result, SequenceNumber, names};

use crate::callbacks::Mark;
use crate::engine::DbInner;
use crate::engine::live_files;
use crate::engine::memtable_switch::all_ids;
use crate::engine::open::{self, ColumnFamilyDescriptor, DEFAULT_COLUMN_FAMILY_NAME};
use crate::options::requests::{
    CompactRangeOptions, FlushOptions, ReadOptions, WaitForCompactOptions,
};
use crate::options::{ColumnFamilyOptions, DbOptions, Options};
use crate::recovery::consistent_read::read_settled;
use crate::recovery::lock::Mode;
use crate::recovery::{manifest_reader, version_recovery};
use crate::snapshot::{Purpose, Snapshot};
use crate::stats::listener::FlushReason;
use crate::stats::{Statistics, StatsHistoryEntry};
use crate::version::family::{CfData, ColumnFamily};

/// An open database: the handle that programs hold.
///
/// It is cheap to clone and may be used by any number of threads and fibers; the database closes
/// when the last handle is dropped, or with [`Db::close`]. Snapshots, iterators and column family
/// handles may outlive it. Every call may wait for the disk or a lock unless its text says
/// otherwise.
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// use pumice::{Db, WriteBatch};
/// # let dir = std::env::temp_dir().join(format!("pumice-db-{}", std::process::id()));
/// let db = Db::builder(&dir).create(true).open()?;
/// db.put("a", "1")?;
/// assert_eq!(db.get("a")?.as_deref(), Some(&b"1"[..]));
/// db.delete("a")?;
/// let mut batch = WriteBatch::new();
/// batch.put("b", "2");
/// batch.put("c", "3");
/// db.write(&mut batch)?;
/// let view = db.view();
/// for entry in db.range("b".."c")? {
///     assert_eq!(entry?, (b"b".to_vec(), b"2".to_vec()));
/// }
/// db.flush()?;
/// db.close()?;
/// # Db::destroy(&Default::default(), &dir)?;
/// # Ok(())
/// # }
/// ```
///
/// The commonest calls:
///
/// | to | calls |
/// |---|---|
/// | open | [`Db::builder`], [`Db::open`] |
/// | read | [`Db::get`], [`Db::multi_get`] |
/// | write | [`Db::put`], [`Db::delete`], [`Db::write`] (a batch) |
/// | scan | [`Db::iter`], [`Db::range`], [`Db::prefix`] |
/// | read as of one moment | [`Db::view`] |
///
/// A call has four forms: `get`, `get_cf` in a column family, `get_opt` with options, and
/// `get_cf_opt` with both; those that wait have `_async` forms, too, and [`Db::stream`] gives
/// entries to an executor.
///
/// | the rest | calls |
/// |---|---|
/// | column families | [`Db::column_family`], [`Db::create_cf`], [`Db::drop_column_family`] |
/// | typed keys and values | [`Db::table`] |
/// | other writes | [`Db::merge`], [`Db::single_delete`], [`Db::delete_range`] |
/// | wide columns | [`Db::put_entity`], [`Db::get_entity`] |
/// | other reads | [`Db::get_merge_operands`], [`Db::key_may_exist`], [`Db::cursor`] |
/// | durability | [`Db::flush`], [`Db::flush_wal`], [`Db::sync_wal`] |
/// | compaction | [`Db::compact_range`], [`Db::compact_files`], [`Db::wait_for_compact`] |
/// | whole files | [`Db::checkpoint`], [`Db::ingest_files`], [`backup`](crate::backup) |
/// | files of a column family | [`Db::export_column_family`], [`Db::live_files_storage_info`] |
/// | settings | [`Db::set_options`], [`Db::set_db_options`], [`Db::options`] |
/// | looking in | [`Db::property`], [`Db::statistics`], [`Db::live_files_metadata`] |
/// | checks and errors | [`Db::verify_checksum`], [`Db::background_error`], [`Db::resume`] |
/// | following | [`Db::get_updates_since`], [`Db::open_as_secondary`], [`Db::open_as_follower`] |
#[derive(Clone)]
pub struct Db {
    handle: Arc<Handle>,
}

struct Handle {
    inner: Arc<DbInner>,
    default: ColumnFamily,
}

impl std::fmt::Debug for Db {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Db").field("path", &self.path()).finish_non_exhaustive()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.inner.close_for_last_handle();
    }
}

impl Db {
    /// Opens or creates a database with only the default column family.
    ///
    /// ```
    /// # fn main() -> Result<(), pumice::Error> {
    /// use pumice::{Db, Options};
    /// let dir = std::env::temp_dir().join(format!("pumice-doc-{}", std::process::id()));
    /// let mut options = Options::default();
    /// options.db.create_if_missing = true;
    /// let db = Db::open(&options, &dir)?;
    /// db.put("key", "value")?;
    /// assert_eq!(db.get("key")?.as_deref(), Some(&b"value"[..]));
    /// db.close()?;
    /// Db::destroy(&options, &dir)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// InvalidArgument for contradictory options, a missing database, another comparator or
    /// column families not named; IoError if another process holds the lock; Corruption.
    pub fn open(options: &Options, path: impl AsRef<Path>) -> Result<Db> {
        let only = ColumnFamilyDescriptor::new(DEFAULT_COLUMN_FAMILY_NAME, options.cf.clone());
        Ok(Self::open_with(&options.db, path.as_ref(), &[only], Mode::ReadWrite)?.0)
    }

    /// Opens a database with these column families, which must be all it has. Handles are in the
    /// same order.
    ///
    /// # Errors
    /// As [`Db::open`].
    pub fn open_cf(
        options: &DbOptions,
        path: impl AsRef<Path>,
        families: &[ColumnFamilyDescriptor],
    ) -> Result<(Db, Vec<ColumnFamily>)> {
        Self::open_with(options, path.as_ref(), families, Mode::ReadWrite)
    }

    /// Opens a database for reading: takes no lock, writes nothing, sees the present state, logs
    /// included. Not all column families need to be named. Another process may be writing to it:
    /// then the state is that of one moment during the open. Reading a table that the writer
    /// deletes later is an error.
    ///
    /// # Errors
    /// As [`Db::open`]; TryAgain if a writer keeps changing the files; Corruption if
    /// `error_if_wal_exists` and there are records in a log.
    pub fn open_read_only(
        options: &DbOptions,
        path: impl AsRef<Path>,
        families: &[ColumnFamilyDescriptor],
        error_if_wal_exists: bool,
    ) -> Result<(Db, Vec<ColumnFamily>)> {
        let mode = Mode::ReadOnly { error_if_wal_exists, until: None };
        Self::open_with(options, path.as_ref(), families, mode)
    }

    pub(crate) fn open_with(
        options: &DbOptions,
        path: &Path,
        families: &[ColumnFamilyDescriptor],
        mode: Mode<'_>,
    ) -> Result<(Db, Vec<ColumnFamily>)> {
        let (inner, handles) = open::open(options, path, families, mode)?;
        let at = families.iter().position(|f| f.name == DEFAULT_COLUMN_FAMILY_NAME);
        let default = at.and_then(|at| handles.get(at)).cloned();
        let default = default.ok_or_else(|| Error::corruption("no default column family"))?;
        Ok((Db { handle: Arc::new(Handle { inner, default }) }, handles))
    }

    /// Names of the column families of a database, in the order they were created, as every call
    /// takes them ([`column_family_name`](crate::column_family_name) says how odd bytes are shown).
    ///
    /// # Errors
    /// I/O and Corruption of CURRENT and MANIFEST.
    pub fn list_column_families(
        options: &DbOptions,
        path: impl AsRef<Path>,
    ) -> Result<Vec<String>> {
        let fs = &*options.file_system;
        read_settled(fs, path.as_ref(), |_| {
            let number = version_recovery::current_manifest(fs, path.as_ref())?;
            let manifest = pumice_env::filename::manifest_file(path.as_ref(), number);
            let mut names = vec![(0, DEFAULT_COLUMN_FAMILY_NAME.to_string())];
            manifest_reader::for_each_edit(fs, &manifest, &mut |edit| {
                if let Some(name) = edit.add_column_family {
                    names.push((edit.column_family, name));
                } else if edit.drop_column_family {
                    names.retain(|(id, _)| *id != edit.column_family);
                }
                Ok(())
            })?;
            Ok(names.into_iter().map(|(_, name)| name).collect())
        })
    }

    /// Deletes a database's files and, if nothing else is left in it, its directory.
    ///
    /// # Errors
    /// IoError if it is open (its lock is held) or a file cannot be deleted.
    pub fn destroy(options: &Options, path: impl AsRef<Path>) -> Result<()> {
        Mark::new().check_may_lock()?;
        crate::recovery::destroy::destroy(&options.db, path.as_ref())
    }

    pub(crate) fn inner(&self) -> &Arc<DbInner> {
        &self.handle.inner
    }

    pub(super) fn data<'a>(&self, cf: &'a ColumnFamily) -> Result<&'a Arc<CfData>> {
        if !cf.belongs_to(&**self.inner()) {
            return Err(Error::invalid_argument("column family handle of another database"));
        }
        Ok(&cf.data)
    }

    #[inline]
    pub(crate) fn live<'a>(&self, cf: &'a ColumnFamily) -> Result<&'a Arc<CfData>> {
        let data = self.data(cf)?;
        if data.is_dropped() {
            return Err(Error::column_family_dropped(data.name.clone()));
        }
        Ok(data)
    }

    /// The column family that unqualified calls use.
    pub fn default_column_family(&self) -> &ColumnFamily {
        &self.handle.default
    }

    /// All open column families, by id ascending.
    pub fn column_families(&self) -> Vec<ColumnFamily> {
        let families = self.inner().cfs.load();
        let handle =
            |data: &Arc<_>| ColumnFamily::new(Arc::clone(data), Arc::downgrade(self.inner()));
        families.all().map(handle).collect()
    }

    /// The open column family with that name.
    pub fn column_family(&self, name: &str) -> Option<ColumnFamily> {
        let families = self.inner().cfs.load();
        let data = Arc::clone(families.by_name(&names::canonical(name))?);
        Some(ColumnFamily::new(data, Arc::downgrade(self.inner())))
    }

    /// The open column family with that id.
    pub(crate) fn column_family_of(&self, id: u32) -> Result<ColumnFamily> {
        let families = self.inner().cfs.load();
        let Some(data) = families.by_id(id) else {
            let text = "Invalid column family specified in write batch";
            return Err(Error::invalid_argument(text));
        };
        Ok(ColumnFamily::new(Arc::clone(data), Arc::downgrade(self.inner())))
    }

    /// A snapshot of the present state. Waits, and so suspends, only while files are ingested.
    ///
    /// # Panics
    /// In code that the database calls under its locks (comparators, prefix extractors, files).
    #[must_use = "it is released when it is dropped"]
    pub fn snapshot(&self) -> Snapshot {
        self.inner().life.mark.assert_may_lock();
        self.inner().snapshot(Purpose::Reads)
    }
    /// Whether an open column family has `inplace_update_support`. Does not suspend.
    pub fn has_in_place_updates(&self) -> bool {
        self.inner().cfs.load().all().any(|cf| cf.options().inplace_update_support)
    }
    /// Sequence number of the newest write. Does not suspend.
    pub fn latest_sequence_number(&self) -> SequenceNumber {
        self.inner().last_sequence.load(Ordering::Acquire)
    }

    /// Writes the default column family's memtables to table files and waits for it; with
    /// `atomic_flush` those of all column families, together.
    ///
    /// # Errors
    /// The background error that stops flushes; ShutdownInProgress.
    pub fn flush(&self) -> Result<()> {
        self.flush_opt(&FlushOptions::default())
    }
    /// [`Db::flush`] with options.
    ///
    /// # Errors
    /// As [`Db::flush`].
    pub fn flush_opt(&self, options: &FlushOptions) -> Result<()> {
        self.inner().flush_families(options, &BTreeSet::from([0]), FlushReason::ManualFlush)
    }
    /// [`Db::flush`] of `cf`.
    ///
    /// # Errors
    /// As [`Db::flush`]; InvalidArgument for a handle of another database.
    pub fn flush_cf(&self, cf: &ColumnFamily) -> Result<()> {
        self.flush_cfs(&[cf])
    }
    /// [`Db::flush`] of `cf` with options.
    ///
    /// # Errors
    /// As [`Db::flush_cf`].
    pub fn flush_cf_opt(&self, options: &FlushOptions, cf: &ColumnFamily) -> Result<()> {
        self.flush_cfs_opt(options, &[cf])
    }
    /// [`Db::flush`] of several column families.
    ///
    /// # Errors
    /// As [`Db::flush`]; InvalidArgument for a handle of another database.
    pub fn flush_cfs(&self, cfs: &[&ColumnFamily]) -> Result<()> {
        self.flush_cfs_opt(&FlushOptions::default(), cfs)
    }
    /// [`Db::flush_cfs`] with options.
    ///
    /// # Errors
    /// As [`Db::flush_cfs`].
    pub fn flush_cfs_opt(&self, options: &FlushOptions, cfs: &[&ColumnFamily]) -> Result<()> {
        let ids = cfs.iter().map(|cf| Ok(self.live(cf)?.id)).collect::<Result<BTreeSet<_>>>()?;
        self.inner().flush_families(options, &ids, FlushReason::ManualFlush)
    }
    /// [`Db::flush`] of all column families.
    ///
    /// # Errors
    /// As [`Db::flush`].
    pub fn flush_all(&self) -> Result<()> {
        self.flush_all_opt(&FlushOptions::default())
    }
    /// [`Db::flush_all`] with options.
    ///
    /// # Errors
    /// As [`Db::flush`].
    pub fn flush_all_opt(&self, options: &FlushOptions) -> Result<()> {
        self.inner().life.check_caller()?;
        let ids = all_ids(&self.inner().state.lock());
        self.inner().flush_families(options, &ids, FlushReason::ManualFlush)
    }
    /// Hands logged writes to the operating system; with `sync` they are durable on return.
    ///
    /// # Errors
    /// IoError of the log device.
    pub fn flush_wal(&self, sync: bool) -> Result<()> {
        self.inner().flush_wal(sync)
    }
    /// Makes all logged writes durable. `flush_wal(true)`.
    ///
    /// # Errors
    /// IoError of the log device.
    pub fn sync_wal(&self) -> Result<()> {
        self.inner().flush_wal(true)
    }

    /// Compacts the keys in `[begin, end]` (None: open end) down through the levels.
    ///
    /// # Errors
    /// The background error that stops compactions; Aborted when cancelled.
    pub fn compact_range(
        &self,
        options: &CompactRangeOptions,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
    ) -> Result<()> {
        self.compact_range_cf(options, &self.handle.default, begin, end)
    }
    /// [`Db::compact_range`] in `cf`.
    ///
    /// # Errors
    /// As [`Db::compact_range`].
    pub fn compact_range_cf(
        &self,
        options: &CompactRangeOptions,
        cf: &ColumnFamily,
        begin: Option<&[u8]>,
        end: Option<&[u8]>,
    ) -> Result<()> {
        self.inner().compact_range(options, self.live(cf)?, begin, end)
    }
    /// Waits until no flush or compaction runs or is due.
    ///
    /// # Errors
    /// The background error; TimedOut; Aborted while background work is paused, if the options say
    /// so.
    pub fn wait_for_compact(&self, options: &WaitForCompactOptions) -> Result<()> {
        self.inner().wait_for_compact(options)?;
        if options.close_db { self.close() } else { Ok(()) }
    }
    /// Keeps all files until [`Db::enable_file_deletions`] has been called as many times.
    ///
    /// # Panics
    /// In code that the database calls under its locks (comparators, prefix extractors, files).
    pub fn disable_file_deletions(&self) {
        self.inner().life.mark.assert_may_lock();
        self.inner().state.lock().files.deletions_disabled += 1;
    }
    /// Ends one [`Db::disable_file_deletions`].
    ///
    /// # Panics
    /// In code that the database calls under its locks (comparators, prefix extractors, files).
    pub fn enable_file_deletions(&self) {
        self.inner().life.mark.assert_may_lock();
        {
            let mut state = self.inner().state.lock();
            state.files.deletions_disabled = state.files.deletions_disabled.saturating_sub(1);
        }
        self.inner().delete_obsolete_files();
    }

    /// Creates a column family; the words are in the order of the other calls.
    ///
    /// # Errors
    /// Those of [`Db::create_column_family`].
    pub fn create_cf(&self, name: &str, options: &ColumnFamilyOptions) -> Result<ColumnFamily> {
        self.create_column_family(options, name)
    }

    /// Creates a column family, as RocksDB's call of this name.
    ///
    /// # Errors
    /// InvalidArgument if the name is taken; I/O.
    pub fn create_column_family(
        &self,
        options: &ColumnFamilyOptions,
        name: &str,
    ) -> Result<ColumnFamily> {
        self.inner().create_column_family(&ColumnFamilyDescriptor::new(name, options.clone()))
    }
    /// Drops a column family; existing handles and iterators stay readable.
    ///
    /// # Errors
    /// InvalidArgument for the default column family or one already dropped; I/O.
    pub fn drop_column_family(&self, cf: &ColumnFamily) -> Result<()> {
        self.data(cf)?;
        self.inner().drop_column_family(cf)
    }

    /// Changes mutable options of the default column family by name: all of `changes` or none.
    ///
    /// # Errors
    /// InvalidArgument naming the option that is unknown, immutable or out of bounds; I/O errors of
    /// the new OPTIONS file.
    pub fn set_options(&self, changes: &[(&str, &str)]) -> Result<()> {
        self.set_options_cf(&self.handle.default, changes)
    }
    /// [`Db::set_options`] of `cf`.
    ///
    /// # Errors
    /// As [`Db::set_options`]; InvalidArgument for a handle of another database.
    pub fn set_options_cf(&self, cf: &ColumnFamily, changes: &[(&str, &str)]) -> Result<()> {
        self.inner().set_cf_options(self.live(cf)?, changes)
    }
    /// Changes mutable options of the database by name.
    ///
    /// # Errors
    /// As [`Db::set_options`].
    pub fn set_db_options(&self, changes: &[(&str, &str)]) -> Result<()> {
        self.inner().set_db_options(changes)
    }
    /// The database's options as they are now.
    pub fn options(&self) -> Arc<DbOptions> {
        self.inner().options()
    }
    /// A column family's options as they are now.
    ///
    /// # Errors
    /// InvalidArgument for a handle of another database.
    pub fn column_family_options(&self, cf: &ColumnFamily) -> Result<Arc<ColumnFamilyOptions>> {
        Ok(self.data(cf)?.options())
    }

    /// A property of the default column family or the database, by RocksDB's name.
    pub fn property(&self, name: &str) -> Option<String> {
        self.inner().property(&self.handle.default.data, name)
    }
    /// A property of `cf`; None also for a handle of another database.
    pub fn property_cf(&self, cf: &ColumnFamily, name: &str) -> Option<String> {
        self.inner().property(self.data(cf).ok()?, name)
    }
    /// A property of the default column family as names and values; None if it has no such form.
    /// `rocksdb.block-cache-entry-stats` and its `fast-` variant, `dbstats` and
    /// `aggregated-table-properties`, also `-at-levelN`, have one.
    pub fn property_map(&self, name: &str) -> Option<BTreeMap<String, String>> {
        self.inner().property_map(&self.handle.default.data, name)
    }
    /// As [`Db::property_map`], of `cf`.
    pub fn property_map_cf(
        &self,
        cf: &ColumnFamily,
        name: &str,
    ) -> Option<BTreeMap<String, String>> {
        self.inner().property_map(self.data(cf).ok()?, name)
    }
    /// A property that is a number.
    pub fn property_int(&self, name: &str) -> Option<u64> {
        self.property(name)?.parse().ok()
    }
    /// A numeric property of `cf`.
    pub fn property_int_cf(&self, cf: &ColumnFamily, name: &str) -> Option<u64> {
        self.property_cf(cf, name)?.parse().ok()
    }
    /// Resets the counters of `rocksdb.stats`, those of all column families too; [`Statistics`] are
    /// not changed. Does not suspend.
    pub fn reset_stats(&self) {
        self.inner().reset_stats();
    }
    /// The statistics, if they are kept.
    pub fn statistics(&self) -> Option<&Arc<Statistics>> {
        self.inner().reports.statistics.as_ref()
    }
    /// The table files of all column families.
    ///
    /// # Panics
    /// In code that the database calls under its locks (comparators, prefix extractors, files).
    pub fn live_files_metadata(&self) -> Vec<crate::LiveFile> {
        self.inner().life.mark.assert_may_lock();
        self.inner().dir.live_files(&self.inner().cfs.load_full())
    }
    /// Reads every block of every table file and checks it.
    ///
    /// # Errors
    /// Corruption naming the file and block.
    pub fn verify_checksum(&self) -> Result<()> {
        self.inner().life.check_caller()?;
        live_files::verify_checksums(&self.inner().cfs.load_full())
    }
    /// Reads the whole of every table file that has a checksum in the MANIFEST, and compares
    /// checksums. Files without one, written before `file_checksum_gen_factory` was set, are not
    /// read. Suspends.
    ///
    /// # Errors
    /// Corruption naming the file; InvalidArgument without `file_checksum_gen_factory`, or if a
    /// file's checksum is of a function that is not known; I/O.
    pub fn verify_file_checksums(&self) -> Result<()> {
        self.verify_file_checksums_opt(&ReadOptions::DEFAULT)
    }
    /// [`Db::verify_file_checksums`] with options: `readahead_size` is the size of a read,
    /// `rate_limiter_priority` and `deadline_micros` apply, the others have no effect.
    ///
    /// # Errors
    /// As [`Db::verify_file_checksums`]; TimedOut after the deadline.
    pub fn verify_file_checksums_opt(&self, options: &ReadOptions) -> Result<()> {
        live_files::verify_file_checksums(self.inner(), options)
    }
    /// Whether `key` was written after the snapshot of `options`, by a deletion of a range over it
    /// too; false without a snapshot. RocksDB's `newer_version_present`. May read tables.
    ///
    /// # Errors
    /// As [`Db::get_cf_opt`].
    pub fn newer_version_present_cf(
        &self,
        cf: &ColumnFamily,
        options: &ReadOptions,
        key: &[u8],
    ) -> Result<bool> {
        self.inner().newer_version_present(options, self.live(cf)?, key)
    }
    /// By how much the tickers of the statistics grew in each period of `stats_persist_period_sec`
    /// that ended from `start_time` to before `end_time`, seconds since 1970, oldest first. The
    /// samples are in memory, as many as `stats_history_buffer_size` holds, since this open. Empty
    /// without statistics, and on a database that is opened read-only. Does not suspend.
    pub fn get_stats_history(&self, start_time: u64, end_time: u64) -> Vec<StatsHistoryEntry> {
        self.inner().reports.history.between(start_time, end_time)
    }
    /// The background error because of which writes fail, if there is one; its severity tells
    /// whether [`Db::resume`] can clear it. None in code that the database calls under its locks.
    pub fn background_error(&self) -> Option<Error> {
        self.inner().life.check_caller().ok()?;
        self.inner().faults().stopping_error()
    }
    /// Clears a recoverable background error.
    ///
    /// # Errors
    /// The error, if it is not recoverable or persists.
    pub fn resume(&self) -> Result<()> {
        self.inner().resume()
    }
    /// The database's identity, as in the file IDENTITY and in the MANIFEST. Does not suspend.
    pub fn db_identity(&self) -> &str {
        &self.inner().dir.db_id
    }
    /// The directory of the database. Does not suspend.
    pub fn path(&self) -> &Path {
        &self.inner().dir.path
    }
    /// Closes the database; later calls through other handles fail or see the last state. Another
    /// `close` waits for the first and gives its result. Suspends; a listener must not call it.
    ///
    /// # Errors
    /// The first failure of saving unlogged writes or closing a file.
    pub fn close(&self) -> Result<()> {
        self.inner().close()
    }
}
