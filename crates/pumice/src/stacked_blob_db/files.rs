//! The files of `blob_dir`: which there are, which take records, and which may go.
//!
//! ```text
//! written to ─(full, expired, close)→ sealed ─(unreferenced, expired)→ obsolete ─(no reader)→ gone
//! ```
//!
//! Values without expiration go to one file, the others to one for each range of
//! `ttl_range_secs`. An expired file goes as a whole; others go oldest first, once no table and no
//! memtable can refer to them, and only with garbage collection.
//!
//! Thread safety: all methods from any task. `writers` is held over I/O and before `shown`, which
//! is not. Invariants: (1) readers find a file through `shown`, and whoever has that map keeps all
//! of its files on disk; (2) a file is in `shown` before an index of it is in the database.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use pumice_base::narrow::round_down_u64;
use pumice_base::{Error, FileNumber, Result, SequenceNumber, SubCode};
use pumice_env::FileSystem;
use pumice_port::lane::at_normal_priority;
use pumice_port::sync::{Mutex, MutexGuard};
use pumice_port::time::wall_seconds;
use pumice_table::blob::format::{Expirations, RECORD_HEADER_LEN};
use pumice_table::blob::index::StackedIndex;

use super::BlobDbOptions;
use super::file::{BlobFile, Writer};
use super::recovered::{Recovered, recover};
use crate::engine::DbInner;
use crate::stats::{Record, Statistics, Ticker};

/// The share of the sealed files without expiration, the oldest ones, whose blobs compactions move.
const GARBAGE_CUTOFF: f64 = 0.25;

/// Files by number.
pub(super) type Shown = Arc<BTreeMap<FileNumber, Arc<BlobFile>>>;

/// The files that take records.
#[derive(Default)]
struct Writers {
    lasting: Option<Writer>,
    /// By the beginning of their range.
    expiring: BTreeMap<u64, Writer>,
    /// Files whose last record could not be written; what is before it may not be durable yet.
    cut_short: Vec<Arc<BlobFile>>,
    /// A sync has failed: what is durable is not known any more.
    broken: Option<Error>,
    closed: bool,
}

/// See the module head.
pub(super) struct Files {
    pub fs: Arc<dyn FileSystem>,
    pub dir: PathBuf,
    pub options: BlobDbOptions,
    pub statistics: Option<Arc<Statistics>>,
    use_fsync: bool,
    shown: Mutex<Shown>,
    writers: Mutex<Writers>,
    /// Those that are no longer shown.
    obsolete: Mutex<Vec<Arc<BlobFile>>>,
    next_number: AtomicU64,
    /// So were those that were found.
    all_whole: AtomicBool,
    /// All entries up to this are in tables.
    flushed: AtomicU64,
    /// Bytes of the tables, as of the last change.
    table_bytes: AtomicU64,
    /// What the replay of the log has lost, for the info log.
    pub lost: OnceLock<String>,
    db: OnceLock<Weak<DbInner>>,
}

impl Files {
    /// None yet.
    pub fn new(
        fs: Arc<dyn FileSystem>,
        dir: PathBuf,
        options: &BlobDbOptions,
        (statistics, use_fsync): (Option<Arc<Statistics>>, bool),
    ) -> Self {
        Files {
            fs,
            dir,
            options: options.clone(),
            statistics,
            use_fsync,
            shown: Mutex::foreground(Shown::default()),
            writers: Mutex::foreground(Writers::default()),
            obsolete: Mutex::foreground(Vec::new()),
            next_number: AtomicU64::new(1),
            all_whole: AtomicBool::new(true),
            flushed: AtomicU64::new(0),
            table_bytes: AtomicU64::new(0),
            lost: OnceLock::new(),
            db: OnceLock::new(),
        }
    }

    /// Finds the files of earlier opens, and deletes those without records. The database is locked:
    /// nobody else writes to them any more.
    ///
    /// # Errors
    /// As [`recover`].
    pub fn recover(&self) -> Result<()> {
        let found = match self.fs.exists(&self.dir)? {
            true => recover(&self.fs, &self.dir)?,
            false => Recovered::default(),
        };
        found.leftovers.iter().try_for_each(|leftover| self.fs.remove(leftover))?;
        self.next_number.fetch_max(found.next_number, Ordering::AcqRel);
        self.all_whole.store(found.files.iter().all(|file| file.whole), Ordering::Release);
        found.files.into_iter().for_each(|file| self.show(Arc::new(file)));
        Ok(())
    }

    /// All files that were found are whole.
    pub fn were_whole(&self) -> bool {
        self.all_whole.load(Ordering::Acquire)
    }

    /// The database is open: `newest` is its last sequence number if something is in memtables.
    pub fn attach(&self, db: &Arc<DbInner>, newest: SequenceNumber) {
        for file in self.shown().values() {
            file.last_sequence.store(newest, Ordering::Release);
        }
        if let Some(lost) = self.lost.get() {
            db.reports.warn(format_args!("{lost}"));
        }
        // The first one: there is one database.
        drop(self.db.set(Arc::downgrade(db)));
        self.tables_changed(0);
    }

    /// The present files.
    pub fn shown(&self) -> Shown {
        Arc::clone(&self.shown.lock())
    }

    fn change_shown(&self, change: impl FnOnce(&mut BTreeMap<FileNumber, Arc<BlobFile>>)) {
        change(Arc::make_mut(&mut *self.shown.lock()));
    }

    /// Seconds since 1970.
    pub fn now(&self) -> u64 {
        self.options.clock.as_ref().map_or_else(wall_seconds, |clock| clock())
    }

    /// The value of `key` that the stored `index` refers to, and when it expires; None if it has
    /// expired. `shown` is of a time when the index was in the database.
    ///
    /// # Errors
    /// Corruption, also if the file is not in `shown`; I/O.
    pub fn value(
        &self,
        shown: &Shown,
        key: &[u8],
        index: &[u8],
    ) -> Result<Option<(Vec<u8>, Option<u64>)>> {
        let (place, expires) = match StackedIndex::decode(index)? {
            StackedIndex::Inlined(expires, value) => {
                let alive = expires > self.now();
                return Ok(alive.then(|| (value.to_vec(), Some(expires))));
            }
            StackedIndex::Blob(place, expires) => (place, expires),
        };
        if expires.is_some_and(|at| at <= self.now()) {
            return Ok(None);
        }
        let Some(file) = shown.get(&place.file) else {
            // The clock may have been set back since the file has expired.
            return if expires.is_some() { Ok(None) } else { Err(self.missing(place.file)) };
        };
        let value = file.read(key, &place)?;
        self.statistics.tick_by(Ticker::BlobDbBlobFileBytesRead, value.len() as u64);
        Ok(Some((value, expires)))
    }

    #[cold]
    fn missing(&self, number: FileNumber) -> Error {
        let dir = self.dir.display();
        Error::corruption(format!("Blob Not Found as blob file missing: {dir}/{number:06}.blob"))
    }

    /// Begins to append the blobs of one write.
    ///
    /// # Errors
    /// ShutdownInProgress after a close; that of a sync that has failed.
    pub fn append(&self) -> Result<Appending<'_>> {
        let writers = self.writers.lock();
        if writers.closed {
            return Err(Error::shutdown("the database is closed"));
        }
        match &writers.broken {
            Some(error) => Err(error.clone()),
            None => Ok(Appending { files: self, writers, pending: Pending(Vec::new()) }),
        }
    }

    /// Files that are created from now on have this number or a larger one.
    pub fn next_number(&self) -> FileNumber {
        self.next_number.load(Ordering::Acquire)
    }

    /// Shows a file that was written beside the others.
    pub fn show(&self, file: Arc<BlobFile>) {
        self.change_shown(|shown| _ = shown.insert(file.number, file));
    }

    /// Creates the next file, which is not shown yet.
    ///
    /// # Errors
    /// I/O.
    pub fn create(&self, expire: Option<Expirations>) -> Result<Writer> {
        let number = self.next_number.fetch_add(1, Ordering::AcqRel);
        Writer::create(&self.fs, &self.dir, number, expire)
    }

    /// Ends a file, durably.
    ///
    /// # Errors
    /// As [`Writer::seal`].
    pub fn seal(&self, writer: Writer) -> Result<Arc<BlobFile>> {
        let sealed = writer.seal(self.use_fsync)?;
        self.statistics.tick(Ticker::BlobDbBlobFileSynced);
        self.statistics.tick_by(Ticker::BlobDbBlobFileBytesWritten, sealed.bytes());
        Ok(sealed)
    }

    /// Makes all records durable.
    ///
    /// # Errors
    /// I/O.
    pub fn sync(&self) -> Result<()> {
        self.writers.lock().sync(self.use_fsync)
    }

    /// Seals all files; nothing is appended any more.
    ///
    /// # Errors
    /// I/O.
    pub fn close(&self) -> Result<()> {
        let mut writers = self.writers.lock();
        writers.closed = true;
        let expiring = std::mem::take(&mut writers.expiring).into_values();
        let open: Vec<_> = writers.lasting.take().into_iter().chain(expiring).collect();
        open.into_iter().try_for_each(|writer| self.seal(writer).map(drop))
    }

    /// Files that have expired become obsolete.
    pub fn evict_expired(&self) {
        let now = self.now();
        let mut writers = self.writers.lock();
        let shown = self.shown();
        for file in shown.values().filter(|file| file.is_expired(now)) {
            let start = file.expire.unwrap_or_default().0;
            if writers.expiring.get(&start).is_some_and(|open| open.file.number == file.number) {
                // Nothing of it is read again, whether or not it gets a footer.
                drop(writers.expiring.remove(&start));
            }
            self.retire(file);
        }
    }

    fn retire(&self, file: &Arc<BlobFile>) {
        self.change_shown(|shown| _ = shown.remove(&file.number));
        self.obsolete.lock().push(Arc::clone(file));
    }

    /// A flush or a compaction has changed the tables; all entries up to `flushed` are in some.
    pub fn tables_changed(&self, flushed: SequenceNumber) {
        self.flushed.fetch_max(flushed, Ordering::AcqRel);
        let Some(db) = self.db.get().and_then(Weak::upgrade) else { return };
        let families = db.cfs.load_full();
        let Some(family) = families.by_id(0) else { return };
        let version = Arc::clone(&family.super_version.load().version);
        let bytes = version.all_files().map(|(_, file)| file.file_size).sum();
        self.table_bytes.store(bytes, Ordering::Release);
        if self.options.enable_garbage_collection {
            let oldest = version.all_files().map(|(_, file)| file.oldest_blob_file_number);
            let oldest = oldest.filter(|number| *number != 0).min();
            let newest = db.last_sequence.load(Ordering::Acquire).max(1);
            let snapshot = db.snapshots.sequences().first().copied();
            let oldest = oldest.unwrap_or(FileNumber::MAX);
            self.retire_below(oldest, newest, snapshot.unwrap_or(SequenceNumber::MAX));
        }
    }

    /// Sealed files without expiration that no table refers to become obsolete, the oldest first,
    /// up to one that a memtable may refer to, or the tables of a time that `snapshot`, the oldest
    /// one, is of.
    fn retire_below(&self, referred: FileNumber, newest: SequenceNumber, snapshot: SequenceNumber) {
        let flushed = self.flushed.load(Ordering::Acquire);
        let writers = self.writers.lock();
        for (number, file) in &*self.sealed_lasting(&writers) {
            let settled = file.pending.load(Ordering::Acquire) == 0
                && file.last_sequence.load(Ordering::Acquire) <= flushed;
            if *number >= referred || !settled {
                break;
            }
            let since = &file.unreferenced_since;
            // It stays what it was first set to.
            let first = since.compare_exchange(0, newest, Ordering::AcqRel, Ordering::Acquire);
            if snapshot <= first.err().unwrap_or(newest) {
                break;
            }
            self.retire(file);
        }
    }

    fn sealed_lasting(&self, writers: &Writers) -> Shown {
        let open = writers.lasting.as_ref().map(|open| open.file.number);
        let mut sealed = self.shown();
        let all = Arc::make_mut(&mut sealed);
        all.retain(|number, file| file.expire.is_none() && Some(*number) != open);
        sealed
    }

    /// Compactions move the blobs of lasting files numbered below this.
    pub fn garbage_below(&self) -> FileNumber {
        let sealed = self.sealed_lasting(&self.writers.lock());
        let old = round_down_u64(GARBAGE_CUTOFF * sealed.len() as f64);
        let first = sealed.keys().nth(usize::try_from(old).unwrap_or(usize::MAX));
        first.copied().unwrap_or(FileNumber::MAX)
    }

    /// Deletes obsolete files that no reader can meet. One that cannot be deleted is tried again.
    pub fn delete_obsolete(&self) {
        let mut obsolete = self.obsolete.lock();
        let unused: Vec<_> = obsolete.extract_if(.., |file| Arc::strong_count(file) == 1).collect();
        drop(obsolete);
        let failed: Vec<_> =
            unused.into_iter().filter(|file| self.fs.remove(&file.path).is_err()).collect();
        self.obsolete.lock().extend(failed);
    }

    /// Writing `bytes` more would exceed `max_db_size`.
    fn is_full(&self, bytes: u64) -> bool {
        let max = self.options.max_db_size;
        if max == 0 {
            return false;
        }
        let blobs: u64 = self.shown().values().map(|file| file.bytes()).sum();
        let tables = self.table_bytes.load(Ordering::Acquire);
        blobs.saturating_add(tables).saturating_add(bytes) > max
    }
}

impl Writers {
    fn sync(&mut self, use_fsync: bool) -> Result<()> {
        if let Some(error) = &self.broken {
            return Err(error.clone());
        }
        let all = self.lasting.iter_mut().chain(self.expiring.values_mut());
        let mut dirty = all.filter(|open| open.dirty);
        let synced = dirty
            .try_for_each(|open| open.sync(use_fsync))
            .and_then(|()| self.cut_short.iter().try_for_each(|file| file.sync()));
        match &synced {
            Ok(()) => self.cut_short.clear(),
            Err(error) => self.broken = Some(error.clone()),
        }
        synced
    }
}

/// Files that one write has appended to: they stay until it is dropped.
pub(super) struct Pending(Vec<Arc<BlobFile>>);

impl Pending {
    /// The write has ended, with no entry above `newest`.
    pub fn done(self, newest: SequenceNumber) {
        for file in &self.0 {
            file.last_sequence.fetch_max(newest, Ordering::AcqRel);
        }
    }

    fn add(&mut self, file: &Arc<BlobFile>) {
        if !self.0.iter().any(|known| known.number == file.number) {
            file.pending.fetch_add(1, Ordering::AcqRel);
            self.0.push(Arc::clone(file));
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        for file in &self.0 {
            file.pending.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// The blobs of one write being appended; nobody else appends meanwhile.
pub(super) struct Appending<'a> {
    files: &'a Files,
    writers: MutexGuard<'a, Writers>,
    pending: Pending,
}

impl Appending<'_> {
    /// Appends the value of `key`, and gives the index to store.
    ///
    /// # Errors
    /// NoSpace beyond `max_db_size`; I/O.
    pub fn put(&mut self, key: &[u8], value: &[u8], expires: Option<u64>) -> Result<Vec<u8>> {
        if self.files.is_full((RECORD_HEADER_LEN + key.len() + value.len()) as u64) {
            let text = "Write failed, as writing it would exceed max_db_size limit.";
            return Err(Error::io_message(text).with_subcode(SubCode::NoSpace));
        }
        let start = expires.map(|at| at - at % self.files.options.ttl_range_secs);
        let mut writer = match self.take(start) {
            Some(open) => open,
            None => {
                let range = self.files.options.ttl_range_secs;
                let expire = start.map(|start| (start, start.saturating_add(range)));
                let created = self.files.create(expire)?;
                self.files.show(Arc::clone(&created.file));
                created
            }
        };
        self.pending.add(&writer.file);
        let appended = writer.append(key, value, expires);
        let place = match appended.and_then(|place| writer.flush().map(|()| place)) {
            Ok(place) => place,
            Err(error) => {
                // The next write begins another file.
                self.writers.cut_short.push(writer.file);
                return Err(error);
            }
        };
        match writer.file.bytes() >= self.files.options.blob_file_size {
            true => match self.files.seal(writer) {
                Ok(_) => {}
                Err(error) => {
                    self.writers.broken = Some(error.clone());
                    return Err(error);
                }
            },
            false => self.give_back(start, writer),
        }
        let mut index = Vec::new();
        StackedIndex::Blob(place, expires).encode(&mut index);
        Ok(index)
    }

    fn take(&mut self, start: Option<u64>) -> Option<Writer> {
        match start {
            None => self.writers.lasting.take(),
            Some(start) => self.writers.expiring.remove(&start),
        }
    }

    fn give_back(&mut self, start: Option<u64>, writer: Writer) {
        match start {
            None => self.writers.lasting = Some(writer),
            Some(start) => _ = self.writers.expiring.insert(start, writer),
        }
    }

    /// Ends it; with `sync` all records so far are durable.
    ///
    /// # Errors
    /// I/O.
    pub fn finish(mut self, sync: bool) -> Result<Pending> {
        if sync {
            self.writers.sync(self.files.use_fsync)?;
        }
        Ok(std::mem::replace(&mut self.pending, Pending(Vec::new())))
    }
}

/// As [`Files::tables_changed`], from a job.
pub(super) fn note_tables(files: &Files, flushed: SequenceNumber) {
    at_normal_priority(|| {
        files.tables_changed(flushed);
        files.delete_obsolete();
    });
}
