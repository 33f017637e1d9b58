//! Open tables: finds, opens and keeps them.
//!
//! With `max_open_files = -1` (the default) an open table stays in its file's metadata, so that a
//! read reaches it through one pointer. With a limit, tables are kept in one least-recently-used
//! list for the whole database and closed when it overflows. The list also counts the tables in
//! metadata: when a limit is set, their descriptors are closed (`table_file`), roughly the least
//! recently read first.
//!
//! Thread safety: all methods from anywhere. Two readers may open one file at the same time; the
//! loser's table is dropped. Opening reads the file and so may suspend.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Weak};

use pumice_base::extension::SliceTransform;
use pumice_base::planted::{self, Bug};
use pumice_base::{Error, FileNumber, InternalKeyComparator, Result};
use pumice_env::filename::TableDirs;
use pumice_env::rate_limiter::reads::LimitedFile;
use pumice_env::{
    FileSystem, FileTimes, ObservedFile, RandomAccessFile, RateLimiter, RateLimiterEvents,
    ReadFileOptions, Temperature,
};
use pumice_manifest::file_meta::TableSlot;
use pumice_manifest::{FileMetaData, FileStats};
use pumice_port::lane::at_normal_priority;
use pumice_port::sync::Mutex;
use pumice_table::{
    BlockTracer, Extractor, Table, TableOptions, TableProperties, TableReadContext,
    TableReadOptions, TableStats,
};

use crate::blob::file::BlobFile;
use crate::lock_order;
use crate::options::index_owner::IndexOwner;
use crate::options::{ColumnFamilyOptions, DbOptions};
use crate::row_cache::Rows;
use crate::stats::{HistogramKind, Record, Statistics, TableTickers, Ticker};
use crate::trace::Traces;
use crate::version::charges::BlobCache;
use crate::version::table_file::{FileOpener, FileWatcher, TableFile};

/// An unknown level.
const UNKNOWN_LEVEL: usize = usize::MAX;
/// Files that RocksDB keeps for itself out of `max_open_files`.
const RESERVED_FILES: i32 = 10;

/// An open descriptor.
pub(super) enum Open {
    /// Of a table that only the list keeps.
    Table(Arc<Table>),
    /// Of a table, or a blob file, in its file's metadata.
    File(Weak<TableFile>),
    /// Of a blob file that only the list keeps.
    Blob(Arc<BlobFile>),
}

#[derive(Default)]
pub(super) struct Recent {
    by_number: BTreeMap<FileNumber, (u64, Open)>,
    by_use: BTreeMap<u64, FileNumber>,
    clock: u64,
}

/// Entries removed from the list; closed when dropped, which may do I/O.
#[derive(Default)]
struct Closed {
    tables: Vec<Arc<Table>>,
    files: Vec<Arc<TableFile>>,
    blobs: Vec<Arc<BlobFile>>,
}

impl Drop for Closed {
    fn drop(&mut self) {
        self.tables.clear();
        self.blobs.clear();
        self.files.iter().for_each(|file| file.close());
    }
}

/// Shared by the table caches of one database: the directory and the limit on open files.
pub(crate) struct OpenTables {
    pub(super) fs: Arc<dyn FileSystem>,
    /// The directory of the database, for families without paths of their own.
    own: PathBuf,
    /// The database's identity and that of this open.
    pub(super) ids: (String, String),
    pub(super) statistics: Option<Arc<Statistics>>,
    /// The receivers of tables' statistics: for those of the last level, and for the others.
    last_level: Option<Arc<dyn TableStats>>,
    other_levels: Option<Arc<dyn TableStats>>,
    rows: Option<Rows>,
    verify_unique_id: bool,
    pub(super) files: ReadFileOptions,
    pub(super) rate_limiter: Option<Arc<RateLimiter>>,
    pub(super) rate_events: Option<Arc<dyn RateLimiterEvents>>,
    pub(super) file_times: Option<Arc<dyn FileTimes>>,
    max_open_files: AtomicI32,
    recent: Mutex<Recent>,
    traces: Arc<Traces>,
}

/// The tables of one column family.
pub struct TableCache {
    pub(super) open: Arc<OpenTables>,
    pub(super) dirs: TableDirs,
    options: Arc<TableOptions>,
    comparator: InternalKeyComparator,
    prefix_extractor: Option<Arc<dyn SliceTransform>>,
    /// The same in the form that readers use.
    extractor: Option<Extractor>,
    pub(crate) blob_cache: Option<BlobCache>,
    /// Who keeps the blobs that indexes refer to, if that is not the engine.
    pub(crate) index_owner: Option<Arc<dyn IndexOwner>>,
    tracer: Arc<dyn BlockTracer>,
    /// Files of L0 up to this many bytes are treated like flushed ones.
    flushed_bytes_max: u64,
    last_level: usize,
}

/// A table in use: borrowed from its file's metadata, or held.
pub(crate) enum TableRef<'a> {
    /// The table, and the slot that holds it.
    Kept(&'a Table, &'a TableSlot),
    Held(Arc<Table>),
}

impl TableRef<'_> {
    /// A share of the table, for what outlives the reference to its file.
    pub(crate) fn share(&self) -> Result<Arc<Table>> {
        match self {
            TableRef::Kept(_, slot) => slot.share().ok_or_else(wrong_slot),
            TableRef::Held(table) => Ok(Arc::clone(table)),
        }
    }
}

#[cold]
pub(super) fn wrong_slot() -> Error {
    Error::corruption("table slot of a file holds something else")
}

impl Deref for TableRef<'_> {
    type Target = Table;
    #[inline]
    fn deref(&self) -> &Table {
        match self {
            TableRef::Kept(table, _) => table,
            TableRef::Held(table) => table,
        }
    }
}

impl OpenTables {
    /// Tables in `dir` on `fs` of the database and session `ids`, opened as `options` say.
    pub fn new(
        options: &DbOptions,
        (fs, dir): (&Arc<dyn FileSystem>, &Path),
        ids: (String, String),
        traces: &Arc<Traces>,
    ) -> Arc<Self> {
        let statistics = options.statistics.clone();
        let receiver = |last_level| {
            let statistics = Arc::clone(statistics.as_ref()?);
            Some(Arc::new(TableTickers::new(statistics, last_level)) as Arc<dyn TableStats>)
        };
        Arc::new(OpenTables {
            fs: Arc::clone(fs),
            own: dir.to_path_buf(),
            ids,
            last_level: receiver(true),
            other_levels: receiver(false),
            statistics,
            rows: options.row_cache.as_ref().map(Rows::new),
            verify_unique_id: options.verify_sst_unique_id_in_manifest,
            files: ReadFileOptions {
                direct: options.use_direct_reads,
                ..ReadFileOptions::default()
            },
            rate_limiter: options.rate_limiter.clone(),
            rate_events: options.rate_events(),
            file_times: options.file_times(),
            max_open_files: AtomicI32::new(options.max_open_files),
            recent: Mutex::ranked(&lock_order::OPEN_TABLES, Recent::default()),
            traces: Arc::clone(traces),
        })
    }

    /// Changes the limit, and closes files beyond it.
    pub fn set_max_open_files(&self, limit: i32) {
        let mut recent = self.recent.lock();
        self.max_open_files.store(limit, Ordering::Relaxed);
        let closed = recent.shrink(tables_max(limit));
        drop(recent);
        drop(closed);
    }

    /// Forgets a deleted file; its table is returned if only the list kept it.
    pub fn erase(&self, number: FileNumber) -> Option<Arc<Table>> {
        let mut recent = self.recent.lock();
        let (used, open) = recent.by_number.remove(&number)?;
        recent.by_use.remove(&used);
        match open {
            Open::Table(table) => Some(table),
            Open::File(_) | Open::Blob(_) => None,
        }
    }

    /// How many descriptors the list has.
    fn len(&self) -> usize {
        self.recent.lock().by_number.len()
    }

    fn lookup(&self, number: FileNumber) -> Option<Arc<Table>> {
        self.find(number, |open| match open {
            Open::Table(table) => Some(Arc::clone(table)),
            _ => None,
        })
    }

    /// What `take` takes of the entry of file `number`, which then counts as just used.
    pub(super) fn find<T>(
        &self,
        number: FileNumber,
        take: impl Fn(&Open) -> Option<T>,
    ) -> Option<T> {
        let mut recent = self.recent.lock();
        recent.clock += 1;
        let now = recent.clock;
        let (used, open) = recent.by_number.get_mut(&number)?;
        let taken = take(open)?;
        let before = std::mem::replace(used, now);
        recent.by_use.remove(&before);
        recent.by_use.insert(now, number);
        Some(taken)
    }

    /// As many files may be open as there are.
    pub(super) fn is_unlimited(&self) -> bool {
        self.max_open_files.load(Ordering::Relaxed) < 0
    }

    pub(super) fn keep(&self, number: FileNumber, open: Open) {
        let mut recent = self.recent.lock();
        let before = recent.insert(number, open);
        // Under the lock: a limit that is set meanwhile finds it in the list.
        let closed = recent.shrink(tables_max(self.max_open_files.load(Ordering::Relaxed)));
        drop(recent);
        drop((before, closed));
    }
}

impl FileWatcher for OpenTables {
    fn opened_again(&self, file: &Arc<TableFile>) {
        self.statistics.tick(Ticker::NoFileOpens);
        at_normal_priority(|| self.keep(file.number(), Open::File(Arc::downgrade(file))));
    }
}

/// Tables that may be open with `max_open_files` at `limit`.
fn tables_max(limit: i32) -> usize {
    match limit {
        ..0 => usize::MAX,
        _ => (limit - RESERVED_FILES).max(1) as usize,
    }
}

impl Recent {
    /// The caller drops the replaced entry, without the lock.
    fn insert(&mut self, number: FileNumber, open: Open) -> Option<Open> {
        self.clock += 1;
        let before = self.by_number.insert(number, (self.clock, open));
        self.by_use.insert(self.clock, number);
        let (used, open) = before?;
        self.by_use.remove(&used);
        Some(open)
    }

    /// Removes the least recently used entries until `limit` are left; the caller drops them
    /// without the lock. Reads of tables in metadata do not touch the list: one that was read since
    /// the last check stays for another round.
    fn shrink(&mut self, limit: usize) -> Closed {
        let mut closed = Closed::default();
        let mut turns = self.by_number.len();
        while self.by_number.len() > limit {
            let Some((_, number)) = self.by_use.pop_first() else { break };
            let Some((_, open)) = self.by_number.remove(&number) else { continue };
            match open {
                Open::Table(table) => closed.tables.push(table),
                Open::Blob(blob) => closed.blobs.push(blob),
                Open::File(file) => {
                    let Some(kept) = file.upgrade() else { continue };
                    if turns > 0 && kept.take_used() {
                        turns -= 1;
                        self.insert(number, Open::File(file));
                    } else {
                        closed.files.push(kept);
                    }
                }
            }
        }
        closed
    }
}

/// The table that the metadata of `file` keeps open.
#[inline]
pub(crate) fn kept_table(file: &FileMetaData) -> Option<&Table> {
    file.table.get::<Table>()
}

impl TableCache {
    /// The tables of a column family, of that id and name, with these settings.
    pub(crate) fn new(
        open: Arc<OpenTables>,
        options: Arc<TableOptions>,
        comparator: InternalKeyComparator,
        (id, name, family): (u32, &str, &ColumnFamilyOptions),
    ) -> Self {
        TableCache {
            dirs: family.table_dirs(&open.own),
            tracer: open.traces.blocks.tracer(id, name),
            open,
            blob_cache: BlobCache::new(family, &options),
            index_owner: family.compaction_filter_factory.as_ref().and_then(|f| f.index_owner()),
            options,
            comparator,
            prefix_extractor: family.prefix_extractor.clone(),
            extractor: family.prefix_extractor.as_ref().map(Extractor::new),
            // Uncompressed, a table can be larger than the memtable that it was.
            flushed_bytes_max: (family.write_buffer_size as u64 / 2).saturating_mul(3),
            last_level: (family.num_levels as usize).saturating_sub(1),
        }
    }

    /// Where the tables are.
    pub(crate) fn dirs(&self) -> &TableDirs {
        &self.dirs
    }

    /// The traces of the database.
    pub(crate) fn traces(&self) -> &Traces {
        &self.open.traces
    }

    /// The counters of the database, if they are wanted.
    pub(crate) fn statistics(&self) -> &Option<Arc<Statistics>> {
        &self.open.statistics
    }

    /// The rows of the database, if they are kept.
    pub(crate) fn rows(&self) -> Option<&Rows> {
        self.open.rows.as_ref()
    }

    /// The prefix extractor of the column family.
    pub(crate) fn extractor(&self) -> Option<&Extractor> {
        self.extractor.as_ref()
    }

    /// The table of `file`, opened if needed, for a caller that does not know its level.
    ///
    /// # Errors
    /// I/O errors; Corruption if the file is not what the MANIFEST says.
    pub(crate) fn table<'a>(&self, file: &'a FileMetaData) -> Result<TableRef<'a>> {
        self.table_at(file, UNKNOWN_LEVEL)
    }

    /// The table of `file`, which is in `level` (it decides what is pinned), opened if needed.
    ///
    /// # Errors
    /// As [`TableCache::table`].
    #[inline]
    pub(crate) fn table_at<'a>(
        &self,
        file: &'a FileMetaData,
        level: usize,
    ) -> Result<TableRef<'a>> {
        if let Some(table) = kept_table(file) {
            return Ok(TableRef::Kept(table, &file.table));
        }
        self.table_slow(file, level)
    }

    /// The table of `file` for a read with `options`, which may not allow opening it.
    ///
    /// # Errors
    /// As [`TableCache::table`]; Incomplete if the read may use only memory and the table is not
    /// open.
    #[inline]
    pub(crate) fn table_for<'a>(
        &self,
        options: &TableReadOptions,
        file: &'a FileMetaData,
        level: usize,
    ) -> Result<TableRef<'a>> {
        if let Some(table) = kept_table(file) {
            return Ok(TableRef::Kept(table, &file.table));
        }
        // A read that notes missing blocks reads them afterwards: then tables are opened at once.
        if options.cache_only && options.missed.is_none() {
            return self.opened(file).ok_or_else(unopened);
        }
        self.table_slow(file, level)
    }

    /// The table of `file` if it is open: reads nothing.
    pub(crate) fn opened<'a>(&self, file: &'a FileMetaData) -> Option<TableRef<'a>> {
        kept_table(file)
            .map(|table| TableRef::Kept(table, &file.table))
            .or_else(|| self.open.lookup(file.number).map(TableRef::Held))
    }

    /// Memory that the table of `file` holds outside of the block cache; 0 if it is not open.
    pub(crate) fn memory(&self, file: &FileMetaData) -> usize {
        self.opened(file).map_or(0, |table| table.approximate_memory())
    }

    #[cold]
    fn table_slow<'a>(&self, file: &'a FileMetaData, level: usize) -> Result<TableRef<'a>> {
        let limit = self.open.max_open_files.load(Ordering::Relaxed);
        if limit >= 0 {
            if let Some(table) = at_normal_priority(|| self.open.lookup(file.number)) {
                return Ok(TableRef::Held(table));
            }
            let (table, _) = self.open_table(file, level, self.open.files)?;
            at_normal_priority(|| self.open.keep(file.number, Open::Table(Arc::clone(&table))));
            return Ok(TableRef::Held(table));
        }
        let (table, handle) = self.open_table(file, level, self.open.files)?;
        let kept = at_normal_priority(|| {
            file.table.get_or_init(|| {
                // A table that was opened while there was a limit is replaced by this one.
                self.open.keep(file.number, Open::File(Arc::downgrade(&handle)));
                table
            })
        });
        match kept {
            Some(table) => Ok(TableRef::Kept(table, &file.table)),
            None => Err(wrong_slot()),
        }
    }

    /// Opens the table of a `file` that a job has just written, so that its first reader does not
    /// wait for index and filter. With a limit on open files, only while less than a quarter of it
    /// is used, as in RocksDB: new files should not cause those in use to be closed.
    ///
    /// # Errors
    /// As [`TableCache::table`]: then the file is useless and must not be installed.
    pub(crate) fn open_new(&self, file: &FileMetaData, level: usize) -> Result<()> {
        let limit = self.open.max_open_files.load(Ordering::Relaxed);
        if limit >= 0 && at_normal_priority(|| self.open.len()) >= tables_max(limit) / 4 {
            return Ok(());
        }
        self.table_at(file, level).map(drop)
    }

    /// The table of `file`, opened for one reader alone, past the page cache.
    ///
    /// # Errors
    /// As [`TableCache::table`].
    pub(crate) fn open_direct(&self, file: &FileMetaData, level: usize) -> Result<Arc<Table>> {
        let how = ReadFileOptions { direct: true, ..ReadFileOptions::default() };
        Ok(self.open_table(file, level, how)?.0)
    }

    fn open_table(
        &self,
        file: &FileMetaData,
        level: usize,
        how: ReadFileOptions,
    ) -> Result<(Arc<Table>, Arc<TableFile>)> {
        let statistics = &self.open.statistics;
        let timer = statistics.timer();
        let table = self.open_counted(file, level, how);
        match &table {
            Ok(_) => timer.stop(statistics, HistogramKind::TableOpenIoMicros),
            Err(_) => statistics.tick(Ticker::NoFileErrors),
        }
        table
    }

    fn open_counted(
        &self,
        file: &FileMetaData,
        level: usize,
        files: ReadFileOptions,
    ) -> Result<(Arc<Table>, Arc<TableFile>)> {
        let path = self.dirs.table(file.path_id, file.number);
        let opener = FileOpener {
            fs: Arc::clone(&self.open.fs),
            files: ReadFileOptions { temperature: Temperature::of_byte(file.temperature), ..files },
            number: file.number,
            watcher: Arc::downgrade(&self.open) as Weak<dyn FileWatcher>,
        };
        let handle = TableFile::open(opener, path.clone())?;
        self.open.statistics.tick(Ticker::NoFileOpens);
        if handle.len() != file.file_size {
            return Err(Error::corruption(format!(
                "Sst file size mismatch: {}. Size recorded in manifest {}, actual size {}",
                path.display(),
                file.file_size,
                handle.len()
            )));
        }
        let known_id = file.unique_id != [0, 0] && self.open.verify_unique_id;
        let limited = LimitedFile::wrap(
            ObservedFile::wrap(Arc::clone(&handle) as _, self.open.file_times.clone()),
            self.open.rate_limiter.as_ref(),
            self.open.rate_events.as_ref(),
        );
        let table = Table::open(
            TableReadContext {
                options: Arc::clone(&self.options),
                comparator: self.comparator.clone(),
                file_number: file.number,
                level: i32::try_from(level).unwrap_or(-1),
                expected_unique_id: known_id.then_some(file.unique_id),
                // The MANIFEST has the sequence number of an ingested file's entries.
                largest_seqno: match planted::is(Bug::IngestSequenceUnread) {
                    true => 0,
                    false => file.largest_seq,
                },
                tail_size: file.tail_size,
                prefix_extractor: self.prefix_extractor.clone(),
                stats: self.receiver(level),
                tracer: Some(Arc::clone(&self.tracer)),
                max_file_size_for_l0_meta_pin: self.flushed_bytes_max,
                ..TableReadContext::default()
            },
            limited,
            file.file_size,
        )?;
        file.stats.get_or_init(|| {
            let mut stats = file_stats(table.properties());
            // Readers skip a file that is noted to have none: so the block decides, not its
            // property.
            let found = table.range_tombstones_ref().map_or(0, |list| list.num_tombstones());
            stats.num_range_deletions = stats.num_range_deletions.max(found as u64);
            stats
        });
        Ok((table, handle))
    }

    /// The receiver for tables of `level`.
    pub fn receiver(&self, level: usize) -> Option<Arc<dyn TableStats>> {
        match level == self.last_level {
            true => self.open.last_level.clone(),
            false => self.open.other_levels.clone(),
        }
    }
}

#[cold]
fn unopened() -> Error {
    Error::incomplete("Table not found in table_cache, no_io is set")
}

/// The part of a table's properties that its file's metadata keeps.
pub(crate) fn file_stats(properties: &TableProperties) -> FileStats {
    FileStats {
        num_entries: properties.num_entries,
        num_deletions: properties.num_deletions,
        num_range_deletions: properties.num_range_deletions,
        raw_key_size: properties.raw_key_size,
        raw_value_size: properties.raw_value_size,
        newest_key_time: properties.newest_key_time,
    }
}
