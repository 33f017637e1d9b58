//! Deletes one file: through the `sst_file_manager` if it is a table, or a log beside them, and the
//! open has succeeded; everything else, and without a manager, at once.
//!
//! Thread safety: from anywhere, without a lock. Suspends.

use std::path::Path;
use std::sync::{Arc, Weak};

use pumice_base::{Error, Result};
use pumice_env::filename::{self, FileType};
use pumice_env::{Deletion, DeletionEvents, SstFileManager};
use pumice_port::sync::Mutex;
use pumice_port::thread;

use crate::engine::DbInner;
use crate::options::InfoLogLevel;
use crate::state::DbState;
use crate::state::parts::{Directory, Logs, Settings};
use crate::state::reports::Reports;
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

/// The parts of a database that deleting a file needs, and no others.
pub(crate) struct Deleter<'a> {
    pub(super) dir: &'a Directory,
    pub(super) settings: &'a Settings,
    pub(super) reports: &'a Reports,
    pub(super) logs: &'a Logs,
    state: &'a Mutex<DbState>,
}

impl DbInner {
    /// What deletes its files.
    pub(crate) fn deleter(&self) -> Deleter<'_> {
        Deleter {
            dir: &self.dir,
            settings: &self.settings,
            reports: &self.reports,
            logs: &self.logs,
            state: &self.state,
        }
    }

    pub(super) fn manager(&self) -> Option<Arc<SstFileManager>> {
        self.options().sst_file_manager.clone()
    }
}

impl Deleter<'_> {
    /// Deletes a file as `remove_or_trash`; failures are logged. Suspends.
    pub(crate) fn delete_file(&self, path: &Path) {
        // If the file system panics that file is left, and the others are deleted.
        let removed = thread::contain("File deletion", || self.remove_or_trash(path));
        match removed.and_then(|removed| removed) {
            Ok(()) => {}
            Err(error) if error.is_not_found() => {}
            Err(error) => {
                self.reports.info(format_args!("Failed to delete {}: {error}", path.display()));
            }
        }
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
        let manager = self.settings.current().sst_file_manager.clone();
        let manager = manager.filter(|_| counted && self.state.lock().opened);
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
