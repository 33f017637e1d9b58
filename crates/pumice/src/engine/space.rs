//! The database and its `sst_file_manager`: which files it tracks, and what it may refuse. Which
//! deletions go through it is in `deletion`.
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
use std::sync::Arc;

use pumice_base::{Error, ErrorKind, Result, SubCode};
use pumice_env::SstFileManager;

use crate::engine::DbInner;
use crate::state::DbState;
use crate::state::errors::Reason;
use crate::state::work::CompactionWork;
use crate::stats::Ticker;

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
    /// The open succeeds: the manager tracks the existing tables.
    pub(crate) fn track_tables(&self, state: &mut DbState) {
        let Some(manager) = self.manager() else { return };
        for cf in state.cfs.values() {
            for file in cf.files() {
                manager.on_add_file(&cf.data.table_of(file), file.file_size);
            }
        }
        for cf in state.cfs.values() {
            for (number, blob) in cf.version.blob_files() {
                manager.on_add_file(&cf.data.blob(*number), blob.shared.file_size());
            }
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
        for dir in state.table_dirs() {
            manager.untrack_files_in(&dir);
        }
        manager.release_disk_buffer(std::mem::take(&mut state.files.disk_buffer));
    }

    /// A table or blob file was written.
    pub(crate) fn track_table(&self, path: &Path, bytes: u64) {
        if let Some(manager) = self.manager() {
            manager.on_add_file(path, bytes);
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
            self.faults().background_error(&error, Reason::Flush);
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
        let full = self.faults().stopping_error().is_some_and(|error| error.is_no_space());
        let enough = |free| manager.enough_room_to_resume(free);
        !full || self.dir.fs.free_space(&self.dir.path).map_or(true, enough)
    }
}
