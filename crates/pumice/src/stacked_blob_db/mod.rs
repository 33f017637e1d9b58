//! RocksDB's old BlobDB: a database stacked on a plain one. Every value goes to a file in
//! `blob_dir`, and the database has its index (docs/blob_files.md#the-old-blobdb). Not the engine's
//! own blob files, which are `blob`, `table_output::blob_output` and the option
//! `enable_blob_files`.
//!
//! | file | what |
//! |---|---|
//! | `calls` | reads and writes |
//! | `cursor` | cursors |
//! | `file` | one file of `blob_dir` |
//! | `files` | all of them, and which may go |
//! | `garbage` | what flushes and compactions do |
//! | `recovered` | what an open finds |
//!
//! Thread safety: as [`Db`]. Invariants: (1) a blob is with the system before its index is in the
//! log, and durable before the log is, or a table has its index; (2) a file is deleted only when
//! neither a table, a memtable nor a reader can refer to it, or when all that is in it has expired.

mod calls;
mod cursor;
mod file;
mod files;
mod garbage;
mod recovered;

pub use cursor::{BlobDbEntries, BlobDbIterator};

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use pumice_base::{Error, Result};
use pumice_port::sync::{Event, Mutex, RwLock};
use pumice_port::thread::{self, JoinHandle};

use self::files::Files;
use self::garbage::{IndexFilters, Watch};
use self::recovered::LostBlobs;
use crate::db::api::Db;
use crate::options::Options;
use crate::options::index_owner::{DIRECTORY, blobs_of};

/// How often files are looked at.
const PERIOD: Duration = Duration::from_secs(10);

/// Options of a [`BlobDb`], with RocksDB's names and defaults.
///
/// Example: that of [`BlobDb`].
#[derive(Clone)]
pub struct BlobDbOptions {
    /// Writes that would make tables and blob files larger than this together fail with NoSpace; 0
    /// for no limit.
    pub max_db_size: u64,
    /// Values that expire within the same range of this many seconds have a file in common.
    pub ttl_range_secs: u64,
    /// A file gets no more records once it has this many bytes.
    pub blob_file_size: u64,
    /// Compactions move blobs of the oldest quarter of the files without expiration to new ones,
    /// so that the old files go.
    pub enable_garbage_collection: bool,
    /// Files that have expired go only with [`BlobDb::evict_expired`]. For tests.
    pub disable_background_tasks: bool,
    /// The present time in seconds since 1970; None: the system's clock. For tests.
    pub clock: Option<Arc<dyn Fn() -> u64 + Send + Sync>>,
}

impl Default for BlobDbOptions {
    fn default() -> Self {
        BlobDbOptions {
            max_db_size: 0,
            ttl_range_secs: 3600,
            blob_file_size: 256 << 20,
            enable_garbage_collection: false,
            disable_background_tasks: false,
            clock: None,
        }
    }
}

impl std::fmt::Debug for BlobDbOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlobDbOptions")
            .field("max_db_size", &self.max_db_size)
            .field("ttl_range_secs", &self.ttl_range_secs)
            .field("blob_file_size", &self.blob_file_size)
            .field("enable_garbage_collection", &self.enable_garbage_collection)
            .field("disable_background_tasks", &self.disable_background_tasks)
            .finish_non_exhaustive()
    }
}

/// An open database of RocksDB's old BlobDB: its values are in files of `blob_dir`, and may expire.
/// Only the default column family has them. Merges, single deletions and wide columns are
/// NotSupported.
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// use pumice::{BlobDb, BlobDbOptions, Options, ReadOptions};
/// # let dir = std::env::temp_dir().join(format!("pumice-blobdb-{}", std::process::id()));
/// let mut options = Options::default();
/// options.db.create_if_missing = true;
/// let blobs = BlobDbOptions { enable_garbage_collection: true, ..BlobDbOptions::default() };
/// let db = BlobDb::open(&options, &blobs, &dir)?;
/// db.put("picture", vec![7; 100_000])?;
/// db.put_with_ttl("session", "Ada", 3600)?;
/// assert_eq!(db.get("session")?.as_deref(), Some(&b"Ada"[..]));
/// let (_, expires) = db.get_with_expiration(&ReadOptions::DEFAULT, "session")?.expect("alive");
/// assert!(expires.is_some());
/// db.close()?;
/// # BlobDb::destroy(&options, &dir)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct BlobDb {
    stack: Arc<Stack>,
}

struct Stack {
    db: Db,
    files: Arc<Files>,
    /// See `calls`.
    gate: RwLock<()>,
    stop: Arc<Event>,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl std::fmt::Debug for BlobDb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlobDb").field("db", &self.stack.db).finish_non_exhaustive()
    }
}

fn check(options: &Options, blobs: &BlobDbOptions) -> Result<()> {
    if blobs.ttl_range_secs == 0 {
        return Err(Error::invalid_argument("ttl_range_secs is 0"));
    }
    if options.cf.enable_blob_files {
        return Err(Error::not_supported("enable_blob_files in RocksDB's old BlobDB"));
    }
    if options.cf.comparator.timestamp_size() > 0 {
        return Err(Error::not_supported("keys with timestamps in RocksDB's old BlobDB"));
    }
    Ok(())
}

impl BlobDb {
    /// Opens or creates a database.
    ///
    /// # Errors
    /// As [`Db::open`]; Corruption of a header in `blob_dir`; NotSupported for a database with blob
    /// files of its own, for `enable_blob_files`, and for keys with timestamps.
    pub fn open(
        options: &Options,
        blobs: &BlobDbOptions,
        path: impl AsRef<Path>,
    ) -> Result<BlobDb> {
        check(options, blobs)?;
        let mut options = options.clone();
        let fs = Arc::clone(&options.db.file_system);
        let dir = path.as_ref().join(DIRECTORY);
        let settings = (options.db.statistics.clone(), options.db.use_fsync);
        let files = Arc::new(Files::new(Arc::clone(&fs), dir, blobs, settings));
        let (cf, db) = (&mut options.cf, &mut options.db);
        cf.compaction_filter_factory = Some(Arc::new(IndexFilters {
            files: Arc::clone(&files),
            filter: cf.compaction_filter.take(),
            factory: cf.compaction_filter_factory.take(),
        }));
        db.listeners.push(Arc::new(Watch(Arc::clone(&files))));
        db.wal_filter = Some(Arc::new(LostBlobs {
            files: Arc::clone(&files),
            mode: db.wal_recovery_mode,
            user: db.wal_filter.take(),
        }));
        let db = Db::open(&options, &path)?;
        if db.property_int("rocksdb.num-blob-files").unwrap_or(0) > 0 {
            db.close()?;
            return Err(Error::not_supported("a database with integrated blob files"));
        }
        // The directory of the database is there now, and locked.
        fs.create_dir_all(&files.dir)?;
        fs.sync_dir(path.as_ref())?;
        let in_memory = db.property_int("rocksdb.num-entries-active-mem-table").unwrap_or(0);
        let newest = if in_memory > 0 { db.latest_sequence_number() } else { 0 };
        files.attach(db.inner(), newest);
        Self::start(db, files)
    }

    fn start(db: Db, files: Arc<Files>) -> Result<BlobDb> {
        let stop = Arc::new(Event::new());
        let task = match files.options.disable_background_tasks {
            true => None,
            false => {
                let (files, stop) = (Arc::clone(&files), Arc::clone(&stop));
                let body = move || {
                    while !stop.wait_timeout(PERIOD) {
                        files.evict_expired();
                        files.tables_changed(0);
                        files.delete_obsolete();
                    }
                };
                Some(thread::try_spawn("blob_db", body)?)
            }
        };
        let (gate, task) = (RwLock::new(()), Mutex::foreground(task));
        Ok(BlobDb { stack: Arc::new(Stack { db, files, gate, stop, task }) })
    }

    /// The plain database, for calls that neither read nor write values. There an index is an
    /// entity.
    pub fn db(&self) -> &Db {
        &self.stack.db
    }

    /// Deletes files whose values have all expired, and other files that are not needed any more. A
    /// task of the database does it every ten seconds.
    pub fn evict_expired(&self) {
        self.stack.files.evict_expired();
        self.stack.files.tables_changed(0);
        self.stack.files.delete_obsolete();
    }

    /// The numbers and lengths of the files of `blob_dir` that are in use.
    pub fn blob_files(&self) -> Vec<(u64, u64)> {
        self.stack.files.shown().values().map(|file| (file.number, file.bytes())).collect()
    }

    /// Closes the database; blob files get their footers.
    ///
    /// # Errors
    /// As [`Db::close`]; I/O of blob files.
    pub fn close(&self) -> Result<()> {
        self.stack.stop()?;
        let closed = self.stack.db.close();
        let sealed = self.stack.files.close();
        self.stack.files.delete_obsolete();
        closed.and(sealed)
    }

    /// Deletes a database's files, those of `blob_dir` too.
    ///
    /// # Errors
    /// As [`Db::destroy`]; I/O.
    pub fn destroy(options: &Options, path: impl AsRef<Path>) -> Result<()> {
        let (fs, dir) = (&options.db.file_system, path.as_ref().join(DIRECTORY));
        // This refuses one that is open.
        Db::destroy(options, &path)?;
        if fs.exists(&dir)? {
            blobs_of(&**fs, path.as_ref())?.iter().try_for_each(|blob| fs.remove(blob))?;
            // What else is there stays, as in RocksDB.
            drop(fs.remove_dir(&dir).and_then(|()| fs.remove_dir(path.as_ref())));
        }
        Ok(())
    }
}

impl Stack {
    /// Ends the task.
    fn stop(&self) -> Result<()> {
        self.stop.set();
        let task = self.task.lock().take();
        task.map_or(Ok(()), JoinHandle::join)
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        // A close reports errors.
        drop(self.stop());
        drop(self.files.close());
    }
}

#[cfg(test)]
mod tests;
