//! The database and its `sst_file_manager`: which files it tracks, what it may refuse, and which
//! deletions go through it.
//!
//! A table is tracked from the moment it is written to its deletion, whether or not it is ever
//! installed; logs are not. Tables, and logs in the database's directory, are deleted through the
//! manager once the open has succeeded; everything else, and logs elsewhere, at once. Files that
//! the manager has not deleted when the database is closed are trash, which nothing needs: the
//! manager continues with them, or the next open finds them.
//!
//! Without a manager nothing is tracked and files are deleted at once.
//!
//! Thread safety: everything from anywhere. The manager's locks are leaves.

use std::path::Path;
use std::sync::{Arc, Weak};

use pumice_base::{Error, ErrorKind, FileNumber, Result, SubCode};
use pumice_env::filename::{self, FileType};
use pumice_env::{Deletion, DeletionEvents, SstFileManager};

use crate::engine::DbInner;
use crate::options::InfoLogLevel;
use crate::state::DbState;
use crate::state::errors::Reason;
use crate::state::work::CompactionWork;
use crate::stats::{Logger, Statistics, Ticker};

/// Counts and logs deletions and their failures. It outlives the database, as trash does, but does
/// not keep the info log open, whose file belongs to the next opener.
struct DeletionLog {
    statistics: Option<Arc<Statistics>>,
    info_log: Option<Weak<dyn Logger>>,
}

impl DeletionLog {
    fn tick(&self, ticker: Ticker) {
        if let Some(statistics) = &self.statistics {
            statistics.record_tick(ticker, 1);
        }
    }
    fn log(&self, level: InfoLogLevel, line: std::fmt::Arguments<'_>) {
        if let Some(log) = self.info_log.as_ref().and_then(Weak::upgrade) {
            log.log(level, line);
        }
    }
}

impl DeletionEvents for DeletionLog {
    fn deleted_immediately(&self, _path: &Path) {
        self.tick(Ticker::FilesDeletedImmediately);
    }
    fn marked_trash(&self, trash: &Path) {
        self.tick(Ticker::FilesMarkedTrash);
        self.log(InfoLogLevel::Debug, format_args!("Marked as trash: {}", trash.display()));
    }
    fn trash_deleted(&self, trash: &Path, result: &Result<()>) {
        match result {
            Ok(()) => self.tick(Ticker::FilesDeletedFromTrashQueue),
            Err(error) => {
                let trash = trash.display();
                self.log(
                    InfoLogLevel::Error,
                    format_args!("Failed to delete {trash} from trash: {error}"),
                );
            }
        }
    }
    fn hindered(&self, path: &Path, error: &Error) {
        let path = path.display();
        self.log(InfoLogLevel::Warn, format_args!("{path} is deleted at once: {error}"));
    }
}

/// Space that a running compaction has reserved.
pub(crate) struct ReservedRoom {
    manager: Arc<SstFileManager>,
    bytes: u64,
}

impl Drop for ReservedRoom {
    fn drop(&mut self) {
        self.manager.on_compaction_completion(self.bytes);
    }
}

impl DbInner {
    fn manager(&self) -> Option<Arc<SstFileManager>> {
        self.options().sst_file_manager.clone()
    }

    /// The open succeeds: the manager tracks the existing tables.
    pub(crate) fn track_tables(&self, state: &mut DbState) {
        let Some(manager) = self.manager() else { return };
        for file in state.cfs.values().flat_map(|cf| cf.files()) {
            manager.on_add_file(&self.dir.table_of(file), file.file_size);
        }
        // At least a memtable, so that a nearly full disk does not lead to many small files.
        let budgets = state.cfs.values().map(|cf| cf.data.options().write_buffer_size as u64);
        state.files.disk_buffer = budgets.max().unwrap_or(0);
        manager.reserve_disk_buffer(state.files.disk_buffer);
    }

    /// The close has ended everything: from now on the manager tracks only trash here.
    pub(crate) fn untrack_tables(&self) {
        let Some(manager) = self.manager() else { return };
        manager.untrack_files_in(&self.dir.path);
        let mut state = self.state.lock();
        manager.release_disk_buffer(std::mem::take(&mut state.files.disk_buffer));
    }

    /// Table `number` was written.
    pub(crate) fn track_table(&self, number: FileNumber, bytes: u64) {
        if let Some(manager) = self.manager() {
            manager.on_add_file(&self.dir.table(number), bytes);
        }
    }

    /// Checks that the tables of all databases that share the manager are within its limit.
    ///
    /// # Errors
    /// SpaceLimit; jobs that write tables turn it into a background error.
    pub(crate) fn check_space(&self) -> Result<()> {
        match self.manager() {
            Some(manager) if manager.is_max_allowed_space_reached() => {
                let error = Error::io_message("Max allowed space was reached");
                Err(error.with_subcode(SubCode::SpaceLimit))
            }
            _ => Ok(()),
        }
    }

    /// As `check_space`, for a job that has installed its output: nothing is written afterwards.
    pub(crate) fn stop_if_too_large(&self) {
        if let Err(error) = self.check_space() {
            self.background_error(&error, Reason::Flush);
        }
    }

    /// Reserves space for the outputs of a compaction that writes tables.
    ///
    /// # Errors
    /// CompactionTooLarge if there is not enough; it is tried again later.
    pub(crate) fn reserve_room(&self, work: &CompactionWork) -> Result<Option<ReservedRoom>> {
        let Some(manager) = self.manager() else { return Ok(None) };
        let bytes = work.pick.input_bytes();
        let full = self.state.lock().errors.compaction_found_no_space;
        // If the file system does not report its free space, compactions try anyway.
        let free = if full { self.dir.fs.free_space(&self.dir.path).ok() } else { None };
        if manager.enough_room_for_compaction(bytes, free) {
            return Ok(Some(ReservedRoom { manager, bytes }));
        }
        self.reports.tick(Ticker::CompactionCancelled, 1);
        self.reports.info(format_args!(
            "[{}] Cancelled compaction of {bytes} bytes: not enough room",
            work.cf.name
        ));
        Err(Error::new(ErrorKind::CompactionTooLarge, "not enough room"))
    }

    /// After a full disk: whether there is enough free space for another attempt.
    pub(crate) fn may_resume(&self) -> bool {
        let Some(manager) = self.manager() else { return true };
        let full = self.stopping_error().is_some_and(|error| error.is_no_space());
        let enough = |free| manager.enough_room_to_resume(free);
        !full || self.dir.fs.free_space(&self.dir.path).map_or(true, enough)
    }

    /// Deletes a file, through the manager if it is a table or a log beside them. Suspends.
    ///
    /// # Errors
    /// NotFound, I/O.
    pub(crate) fn remove_or_trash(&self, path: &Path) -> Result<()> {
        let name = path.file_name().and_then(std::ffi::OsStr::to_str);
        let counted = match name.and_then(filename::parse) {
            Some((_, FileType::Table | FileType::Blob)) => true,
            Some((_, FileType::Wal | FileType::Trash)) => path.parent() == Some(&self.dir.path),
            _ => false,
        };
        let statistics = self.reports.statistics.clone();
        let info_log = self.reports.info_log.as_ref().map(Arc::downgrade);
        let events: Arc<dyn DeletionEvents> = Arc::new(DeletionLog { statistics, info_log });
        let deletion = Deletion { fs: &self.dir.fs, path, events: Some(&events) };
        let manager = self.manager().filter(|_| counted && self.state.lock().opened);
        match manager {
            Some(manager) if name.is_some_and(|n| n.ends_with(filename::TRASH_EXTENSION)) => {
                manager.delete_existing_trash(deletion)
            }
            Some(manager) => manager.delete_file(deletion),
            None => {
                self.dir.fs.remove(path)?;
                if counted {
                    events.deleted_immediately(path);
                }
                Ok(())
            }
        }
    }
}
