//! The live write-ahead logs of a database, and switching between them.
//!
//! One log receives records; older ones stay until the column families that have data in them are
//! flushed. After a power loss the surviving records never skip a lost one (no hole), in one of two
//! ways (docs/decisions/0028). With several column families a log is synced before the next one
//! receives records, so that a flush never makes data durable before earlier data of other column
//! families is durable. With one, the next log begins with the length that the old one must have
//! (`Predecessor`), and the old one is synced only if a sync is asked for before its memtable is
//! flushed, or if a prepared section is held.
//!
//! Thread safety: `Wals` belongs to the lock `Logs::wal` of the engine. Invariants: (1) `sizes`
//! lists the logs that recovery would read, ascending, the current one last; (2) after an I/O error
//! the current writer is never used again: `failed` stays set until a new log is installed; (3)
//! while a `LogSync` is under way no other task syncs, replaces or closes the log. The operating
//! system reports a sync failure once per open file: with two at a time, the wrong one could get
//! it; (4) whatever makes the current log durable makes those of `complete` durable first.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use pumice_base::planted::{self, Bug};
use pumice_base::{Error, FileNumber, Result};
use pumice_env::{
    BufferedWriter, FileOptions, FileSyncer, FileSystem, Temperature, WriterOptions, filename,
};
use pumice_wal::LogWriter;

use super::predecessor::{Predecessor, Prelude};
use super::spare_logs::SpareLogs;
use super::{batch, log_sizes::LogSizes};

/// See the module head.
pub(crate) struct Wals {
    fs: Arc<dyn FileSystem>,
    dir: PathBuf,
    current: Option<LogWriter>,
    /// Complete logs that are needed and not durable, ascending.
    complete: Vec<LogWriter>,
    /// What the current log must record before its next record.
    prelude: Prelude,
    /// Logs whose files are used again.
    spare: SpareLogs,
    number: FileNumber,
    sizes: LogSizes,
    unsynced: bool,
    dir_synced: bool,
    failed: Option<Error>,
    closed: bool,
    /// A `LogSync` is under way.
    syncing: bool,
    how: LogSettings,
    writer_options: WriterOptions,
}

/// How all logs of a database are written.
#[derive(Clone, Copy)]
pub(crate) struct LogSettings {
    pub use_fsync: bool,
    /// Records go to the operating system only when they are flushed.
    pub manual_flush: bool,
    /// By zstd.
    pub compresses: bool,
    /// Of the files.
    pub temperature: Temperature,
    /// How many files are kept to be used again; the records of all logs then have their number.
    pub recycled: usize,
}

/// A sync of the current log, done without the lock while others append.
pub(crate) struct LogSync {
    /// Of the logs that are needed, ascending.
    syncers: Vec<Arc<dyn FileSyncer>>,
    /// Bytes of the current log that will be durable.
    bytes: u64,
    /// Its name is not durable yet.
    directory: Option<(Arc<dyn FileSystem>, PathBuf)>,
}

impl LogSync {
    /// Makes the bytes durable, and the name. Suspends.
    ///
    /// # Errors
    /// I/O; `Wals::end_sync` must be told of it.
    pub fn run(&self) -> Result<()> {
        self.syncers.iter().try_for_each(|syncer| syncer.sync())?;
        match &self.directory {
            Some((fs, dir)) => fs.sync_dir(dir),
            None => Ok(()),
        }
    }
}

impl Wals {
    /// No log yet.
    pub fn new(
        fs: Arc<dyn FileSystem>,
        dir: PathBuf,
        how: LogSettings,
        writer_options: WriterOptions,
    ) -> Self {
        Wals {
            fs,
            dir,
            current: None,
            complete: Vec::new(),
            prelude: Prelude::default(),
            spare: SpareLogs::new(how.recycled),
            number: 0,
            sizes: LogSizes::default(),
            unsynced: false,
            dir_synced: true,
            failed: None,
            closed: false,
            syncing: false,
            how,
            writer_options,
        }
    }

    /// Keeps logs that recovery read and that memtables still depend on. They are synced first:
    /// data that a recovery showed must survive the next power loss.
    ///
    /// # Errors
    /// I/O. Suspends.
    pub fn keep(&mut self, logs: &[(FileNumber, u64)]) -> Result<()> {
        for (number, _) in logs {
            let mut file = self.fs.reopen_append(&filename::log_file(&self.dir, *number))?;
            if self.how.use_fsync {
                file.fsync()?
            } else {
                file.sync()?
            }
            file.close()?;
        }
        self.sizes.extend(logs);
        self.fs.sync_dir(&self.dir)
    }

    /// Sets how the next log is written. The rules for writing back to the device apply to the
    /// current log too.
    pub fn set_writer_options(&mut self, options: WriterOptions) {
        if let Some(log) = &mut self.current {
            log.set_bytes_per_sync(options.bytes_per_sync, options.strict_bytes_per_sync);
        }
        self.writer_options = options;
    }

    /// Directory of the logs.
    pub fn dir(&self) -> &Path {
        &self.dir
    }
    /// Number of the current log.
    pub fn number(&self) -> FileNumber {
        self.number
    }
    /// The current log has no record.
    pub fn is_empty(&self) -> bool {
        self.current.as_ref().is_none_or(|log| log.file_size() <= self.prelude.records_begin)
    }
    /// The current log has records that are not in its file yet.
    pub fn holds_back(&self) -> bool {
        self.current.as_ref().is_some_and(|log| log.buffered_bytes() > 0)
    }
    /// Bytes of all live logs.
    pub fn total_bytes(&self) -> u64 {
        self.sizes.total()
    }
    /// Number of the oldest live log.
    pub fn oldest(&self) -> FileNumber {
        self.sizes.oldest().unwrap_or(self.number)
    }
    /// The live logs and their bytes, ascending.
    pub fn live(&self) -> Vec<(FileNumber, u64)> {
        self.sizes.all()
    }
    /// How much of log `number` is with the operating system, if it is the current one: readers end
    /// there. None for another, which ends with its file.
    pub fn written(&self, number: FileNumber) -> Option<Arc<AtomicU64>> {
        self.current.as_ref().filter(|log| log.log_number() == number).map(LogWriter::written)
    }
    /// The files that are used again.
    pub fn spare(&mut self) -> &mut SpareLogs {
        &mut self.spare
    }
    /// The error that stopped logging.
    pub fn failure(&self) -> Option<&Error> {
        self.failed.as_ref()
    }

    /// Starts log `number`, and returns the one whose file it uses again, if any. The present log
    /// is flushed first, and synced with `durable`, unless it failed: then the caller must flush
    /// all memtables, since its tail is unknown.
    ///
    /// # Errors
    /// I/O; the present log then counts as failed. Suspends.
    pub fn switch(&mut self, number: FileNumber, durable: bool) -> Result<Option<FileNumber>> {
        if self.closed {
            return Err(Error::shutdown("the database is closed"));
        }
        self.prelude.predecessor = None;
        match self.current.take() {
            Some(old) if self.failed.is_none() => {
                if let Err(error) = self.finish(old, durable) {
                    self.failed = Some(error.clone());
                    return Err(error);
                }
            }
            // All memtables are flushed before anything is written again. What a log that failed
            // holds is unknown, and its file is not used again, nor are those before it.
            _ => {
                self.complete.clear();
                self.spare.begin(number);
            }
        }
        let (mut log, reused) = match self.start(number) {
            Ok(started) => started,
            Err(error) => {
                self.failed.get_or_insert_with(|| error.clone());
                return Err(error);
            }
        };
        if self.how.compresses
            && let Err(error) = log.enable_compression()
        {
            self.failed.get_or_insert_with(|| error.clone());
            return Err(error);
        }
        self.prelude.records_begin = log.file_size();
        self.current = Some(log);
        self.prelude.begin_log();
        self.number = number;
        self.sizes.start(number);
        self.unsynced = false;
        self.dir_synced = false;
        self.failed = None;
        Ok(reused)
    }

    /// Log `number` and the one whose file it has, if there is one to use again.
    fn start(&mut self, number: FileNumber) -> Result<(LogWriter, Option<FileNumber>)> {
        let (path, options) = (filename::log_file(&self.dir, number), self.writer_options.clone());
        let (numbered, manual_flush) = (self.how.recycled > 0, self.how.manual_flush);
        if let Some((old, bytes)) = self.spare.take() {
            // A file that is gone, or cannot be opened, is no loss.
            if let Ok(file) = self.fs.reuse(&filename::log_file(&self.dir, old), &path) {
                let writer = BufferedWriter::new(file, options);
                return Ok((LogWriter::over(writer, bytes, number, manual_flush), Some(old)));
            }
        }
        let how = FileOptions { temperature: self.how.temperature, ..FileOptions::default() };
        let file = self.fs.create(&path, &how)?;
        let writer = BufferedWriter::new(file, options);
        Ok((LogWriter::new(writer, number, numbered, manual_flush), None))
    }

    fn finish(&mut self, mut log: LogWriter, durable: bool) -> Result<()> {
        // Nothing follows the last record of a log that has a successor. Until that is durable, the
        // log counts as unsynced.
        let cut = log.cut()?;
        if !self.unsynced && !cut {
            return log.close();
        }
        if durable && !planted::is(Bug::LogNotSyncedAtSwitch) {
            self.sync_complete()?;
            sync_file(&mut log, self.how.use_fsync)?;
            self.sync_dir()?;
            return log.close();
        }
        if !planted::is(Bug::LogWithoutPredecessor) {
            // Recovery knows how far a log has records, and nothing of one that has none.
            let is_empty = log.file_size() <= self.prelude.records_begin;
            let (number, bytes) = (log.log_number(), if is_empty { 0 } else { log.file_size() });
            self.prelude.predecessor = Some(Predecessor { number, bytes });
        }
        self.complete.push(log);
        Ok(())
    }

    /// Makes the complete logs durable, but not their names.
    fn sync_complete(&mut self) -> Result<()> {
        if planted::is(Bug::CompleteLogNotSynced) {
            return Ok(());
        }
        for log in &mut self.complete {
            sync_file(log, self.how.use_fsync)?;
        }
        self.complete.drain(..).try_for_each(|mut log| log.close())
    }

    /// Some log before the current one is needed and not durable.
    pub fn has_unsynced_before(&self) -> bool {
        !self.complete.is_empty()
    }

    fn sync_dir(&mut self) -> Result<()> {
        if !self.dir_synced && !planted::is(Bug::LogDirNotSynced) {
            self.fs.sync_dir(&self.dir)?;
            self.dir_synced = true;
        }
        Ok(())
    }

    /// Appends one record gathered from `parts`; reaches the operating system unless
    /// `manual_wal_flush`; durable if `sync`. Returns the bytes the log grew by.
    ///
    /// # Errors
    /// I/O; the log is then failed for good. Suspends.
    pub fn append(&mut self, parts: &[&[u8]], sync: bool) -> Result<u64> {
        let result = self.try_append(parts, sync);
        if let Err(error) = &result {
            self.failed = Some(error.clone());
        }
        result
    }

    fn try_append(&mut self, parts: &[&[u8]], sync: bool) -> Result<u64> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let log = self.current.as_mut().ok_or_else(|| Error::io_message("no WAL is open"))?;
        let before = log.file_size();
        if self.prelude.is_due() {
            self.prelude.write(log, parts.first().map_or(0, |part| batch::sequence(part)))?;
        }
        let beside = sync && planted::is(Bug::FsyncBesideWrite);
        if beside {
            write_beside_sync(log, parts)?
        } else {
            log.add_record_parts(parts)?
        }
        self.unsynced = true;
        let after = log.file_size();
        self.sizes.grow(after);
        if beside {
            self.sync_dir()?;
        } else if sync && !planted::is(Bug::AckBeforeSync) {
            self.sync()?;
        }
        Ok(after - before)
    }

    /// Keys of column family `id` have timestamps of `size` bytes: each log says so before the next
    /// record.
    pub fn note_timestamps(&mut self, id: u32, size: usize) {
        self.prelude.note_timestamps(id, size);
    }

    /// Writes buffered records to the operating system; durable if `sync`.
    ///
    /// # Errors
    /// I/O; the log is then failed for good. Suspends.
    pub fn flush(&mut self, sync: bool) -> Result<()> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let result = match (self.current.as_mut(), sync) {
            (None, _) => Ok(()),
            (Some(_), true) => self.sync(),
            (Some(log), false) => log.flush(),
        };
        if let Err(error) = &result {
            self.failed = Some(error.clone());
        }
        result
    }

    /// A `LogSync` is under way: by invariant 3 no other task may sync, switch or close.
    pub fn is_syncing(&self) -> bool {
        self.syncing
    }

    /// Starts a sync of everything so far; `end_sync` must follow. None if there is no log, and
    /// with `use_fsync`, which a `FileSyncer` does not have: then it is done when this returns.
    ///
    /// # Errors
    /// I/O; the log is then failed for good. Suspends.
    pub fn begin_sync(&mut self) -> Result<Option<LogSync>> {
        debug_assert!(!self.syncing);
        self.flush(self.how.use_fsync)?;
        if self.how.use_fsync {
            return Ok(None);
        }
        let Some(log) = self.current.as_ref() else { return Ok(None) };
        let directory = (!self.dir_synced && !planted::is(Bug::LogDirNotSynced))
            .then(|| (Arc::clone(&self.fs), self.dir.clone()));
        let skipped = planted::is(Bug::CompleteLogNotSynced);
        let complete = self.complete.iter().filter(|_| !skipped);
        let syncers: Result<_> = complete.chain([log]).map(LogWriter::syncer).collect();
        let syncers = syncers.inspect_err(|error| self.failed = Some(error.clone()))?;
        let sync = LogSync { syncers, bytes: log.file_size(), directory };
        self.syncing = true;
        Ok(Some(sync))
    }

    /// `sync` has ended. If it failed, the log has failed too, with everything appended meanwhile.
    pub fn end_sync(&mut self, sync: &LogSync, result: &Result<()>) {
        self.syncing = false;
        match (result, self.current.as_mut()) {
            (Ok(()), log) => {
                self.dir_synced = true;
                self.complete.clear();
                if log.is_some_and(|log| log.file_size() == sync.bytes) {
                    self.unsynced = false;
                }
            }
            (Err(error), log) => {
                self.failed.get_or_insert_with(|| error.clone());
                if let Some(log) = log {
                    log.poison(error);
                }
            }
        }
    }

    fn sync(&mut self) -> Result<()> {
        self.sync_complete()?;
        if let Some(log) = self.current.as_mut() {
            log.flush()?;
            sync_file(log, self.how.use_fsync)?;
        }
        self.unsynced = false;
        self.sync_dir()
    }

    /// Forgets logs below `number`; they are returned for deletion.
    pub fn release_below(&mut self, number: FileNumber) -> Vec<FileNumber> {
        let mut gone = Vec::new();
        while let Some(oldest) = self.sizes.oldest() {
            if oldest >= number || oldest == self.number {
                break;
            }
            self.sizes.pop_oldest();
            gone.push(oldest);
        }
        self.complete.retain(|log| !gone.contains(&log.log_number()));
        gone
    }

    /// Closes the current log, synced if `sync`; no other can be started. Suspends.
    ///
    /// # Errors
    /// I/O.
    pub fn close(&mut self, sync: bool) -> Result<()> {
        let flushed = self.flush(sync && (self.unsynced || self.has_unsynced_before()));
        self.closed = true;
        self.spare.end();
        match self.current.take() {
            Some(mut log) => flushed.and(log.close()),
            None => flushed,
        }
    }
}

fn sync_file(log: &mut LogWriter, use_fsync: bool) -> Result<()> {
    if use_fsync { log.fsync() } else { log.sync() }
}

/// The mistake `FsyncBesideWrite`: both are under way at once, to save a round trip.
fn write_beside_sync(log: &mut LogWriter, parts: &[&[u8]]) -> Result<()> {
    let syncer = log.syncer()?;
    let sync = pumice_port::thread::spawn("pumice:sync", move || syncer.sync());
    let written = log.add_record_parts(parts);
    written.and(sync.join().and_then(|synced| synced))
}
