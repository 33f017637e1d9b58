//! The archive: keeps logs that are no longer needed, with `WAL_ttl_seconds` or
//! `WAL_size_limit_MB`, and deletes them by these limits.
//!
//! A log gets there by a rename, when it would otherwise be deleted: so the archive takes nothing
//! that a recovery could need, and a crash leaves the log under either name. If it has its old
//! name, the next open archives it. Logs without a record are deleted. Logs that recovery has put
//! aside (`obsolete_files`) are there too, under the same rules; without these options they stay.
//!
//! It is checked when obsolete files are deleted, not by a clock: an idle database deletes nothing.
//!
//! Thread safety: from any thread that may delete obsolete files. No lock is held over I/O.

use std::path::{Path, PathBuf};

use pumice_base::{FileNumber, Result};
use pumice_env::create_dir_durably;
use pumice_env::filename::{self, FileType};
use pumice_port::{thread, time};

use crate::engine::deletion::Deleter;
use crate::log_tail::retention::Retention;
use crate::options::DbOptions;
use crate::state::parts::Directory;
use crate::state::reports::Reports;

/// The archive's limits from the options.
pub(crate) fn retention(options: &DbOptions) -> Retention {
    Retention { ttl_seconds: options.WAL_ttl_seconds, size_limit_mb: options.WAL_size_limit_MB }
}

impl Deleter<'_> {
    /// Makes the archive's directory, if there is to be one. Suspends.
    ///
    /// # Errors
    /// I/O.
    pub(crate) fn make_archive(&self) -> Result<()> {
        if !retention(&self.settings.current()).is_wanted() {
            return Ok(());
        }
        create_dir_durably(&*self.dir.fs, &filename::archive_dir(&self.logs.dir()), false)
    }

    /// Deletes files that nothing needs, or moves them to the archive: logs, if there is one.
    /// Failures are logged. Suspends.
    pub(crate) fn discard_files(&self, paths: &[PathBuf]) {
        if paths.is_empty() || !retention(&self.settings.current()).is_wanted() {
            return paths.iter().for_each(|path| self.delete_file(path));
        }
        let dir = self.logs.dir();
        let mut archived = false;
        for path in paths {
            if self.dir.log_in(path, &dir).is_some()
                && self.dir.fs.file_size(path).is_ok_and(|bytes| bytes > 0)
            {
                archived |= self.dir.archive_log(self.reports, path, &dir);
            } else {
                self.delete_file(path);
            }
        }
        // A later sync of only one directory could make half of the move durable.
        if archived {
            for dir in [filename::archive_dir(&dir), dir] {
                let synced = thread::contain("Log archive", || self.dir.fs.sync_dir(&dir));
                if let Err(error) = synced.and_then(|synced| synced) {
                    self.reports.warn(format_args!("{}: {error}", dir.display()));
                }
            }
        }
    }

    /// Deletes logs of the archive that are too old or for which there is no room, unless the
    /// archive was checked a short while ago. Failures are logged. Suspends.
    pub(crate) fn purge_archive(&self) {
        let retention = retention(&self.settings.current());
        let now = time::wall_seconds();
        if !retention.is_wanted()
            || !self.logs.history.claim_purge(now, retention.interval_seconds())
        {
            return;
        }
        let dir = filename::archive_dir(&self.logs.dir());
        let found = thread::contain("Log archive", || self.dir.archived_logs(&dir));
        let logs = match found.and_then(|logs| logs) {
            Ok(logs) => logs,
            Err(error) => return self.reports.warn(format_args!("{}: {error}", dir.display())),
        };
        for number in retention.expired(&logs, now) {
            let path = filename::log_file(&dir, number);
            self.reports.info(format_args!("Deleting archived log {}", path.display()));
            self.delete_file(&path);
        }
    }
}

impl Directory {
    /// The number of `path`, if that is a log in `dir`.
    pub(crate) fn log_in(&self, path: &Path, dir: &Path) -> Option<FileNumber> {
        let name = path.file_name().and_then(std::ffi::OsStr::to_str)?;
        match filename::parse(name) {
            Some((number, FileType::Wal)) if path.parent() == Some(dir) => Some(number),
            _ => None,
        }
    }

    /// Moves a log of `dir` to the archive; returns whether it did.
    fn archive_log(&self, reports: &Reports, path: &Path, dir: &Path) -> bool {
        let Some(name) = path.file_name() else { return false };
        let to = filename::archive_dir(dir).join(name);
        let moved = thread::contain("Log archive", || {
            // Recovery may have put it aside: a rename to another name of the same file does
            // nothing.
            if self.fs.exists(&to)? {
                self.fs.remove(&to)?;
            }
            self.fs.rename(path, &to)
        });
        match moved.and_then(|moved| moved) {
            Ok(()) => {
                reports.info(format_args!("Moved {} to {}", path.display(), to.display()));
                true
            }
            Err(error) => {
                reports.warn(format_args!(
                    "Failed to move {} to the archive: {error}",
                    path.display()
                ));
                false
            }
        }
    }
}
