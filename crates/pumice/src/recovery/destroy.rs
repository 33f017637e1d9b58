//! Deleting a whole database, and nothing that is not part of one.
//!
//! Thread safety: holds the database's lock file throughout, so that it is not open. Files whose
//! names are not the engine's (`filename::parse`) stay, and so does their directory.
//!
//! With an `sst_file_manager` that has a rate, tables and the logs beside them are deleted at that
//! rate, and the call waits for it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pumice_base::{Error, Result};
use pumice_env::filename::{self, FileType};
use pumice_env::{Deletion, FileSystem, SstFileManager, TrashBucket};

use crate::options::DbOptions;
use crate::stats::InfoLog;

/// Deletes the files of the database at `path`, then those of its directories that are empty. A
/// directory that does not exist is no error. As in RocksDB the tables in `cf_paths` stay: which
/// these are is not known.
///
/// # Errors
/// IoError if the database is open; the first failure to delete a file, after trying all.
pub(crate) fn destroy(options: &DbOptions, path: &Path) -> Result<()> {
    let fs = &options.file_system;
    match fs.list(path) {
        Ok(_) => {}
        Err(error) if error.is_not_found() => return Ok(()),
        Err(error) => return Err(error),
    }
    let lock_file = filename::lock_file(path);
    let lock = fs.lock(&lock_file)?;
    // Another process may have opened and closed it before this.
    let names = fs.list(path)?;
    let manager = options.sst_file_manager.as_deref();
    let mut sweep = Sweep { fs, manager, bucket: Arc::default(), failure: None };
    for name in &names {
        match filename::parse(name) {
            None | Some((_, FileType::Lock | FileType::MetaDatabase)) => {}
            Some((_, FileType::Table | FileType::Blob | FileType::Wal)) => {
                sweep.remove_paced(&path.join(name));
            }
            Some(_) => sweep.remove(&path.join(name)),
        }
    }
    let wal_dir = match options.wal_dir.as_str() {
        "" => path.to_path_buf(),
        dir => PathBuf::from(dir),
    };
    let archived = [FileType::Wal, FileType::Table, FileType::Blob];
    sweep.remove_from(&filename::archive_dir(path), &archived);
    for dir in options.db_paths.iter().map(|dir| dir.path.as_path()).filter(|dir| *dir != path) {
        sweep.remove_from(&filename::archive_dir(dir), &archived);
        sweep.remove_from(dir, &[FileType::Table, FileType::Blob, FileType::Trash]);
    }
    if wal_dir != path {
        sweep.remove_from(&filename::archive_dir(&wal_dir), &[FileType::Wal]);
        sweep.remove_from(&wal_dir, &[FileType::Wal, FileType::Trash]);
    }
    if !options.db_log_dir.is_empty() {
        for file in InfoLog::files(&**fs, path, &options.db_log_dir)? {
            sweep.remove(&file);
        }
    }
    sweep.await_paced(path);
    // Done while the lock is held: a file that another process has locked since must stay.
    sweep.remove(&lock_file);
    drop(lock);
    sweep.remove_dir_if_empty(path);
    sweep.failure.map_or(Ok(()), Err)
}

/// Continues deleting after failures and remembers the first.
struct Sweep<'a> {
    fs: &'a Arc<dyn FileSystem>,
    manager: Option<&'a SstFileManager>,
    bucket: Arc<TrashBucket>,
    failure: Option<Error>,
}

impl Sweep<'_> {
    fn remove(&mut self, path: &Path) {
        self.note(self.fs.remove(path));
    }

    /// Deletes at the rate of the manager, if there is one.
    fn remove_paced(&mut self, path: &Path) {
        let deletion = Deletion { fs: self.fs, path, events: None };
        match self.manager {
            Some(manager) => self.note(manager.delete_uncounted(deletion, &self.bucket)),
            None => self.remove(path),
        }
    }

    /// Waits for the paced deletions in directory `dir`.
    fn await_paced(&mut self, dir: &Path) {
        let Some(manager) = self.manager else { return };
        manager.wait_for_trash_bucket(&self.bucket);
        let errors = manager.background_errors();
        let here = errors.into_iter().find(|(path, _)| path.parent() == Some(dir));
        self.note(here.map_or(Ok(()), |(_, error)| Err(error)));
    }

    fn note(&mut self, removed: Result<()>) {
        if let Err(error) = removed
            && !error.is_not_found()
        {
            self.failure.get_or_insert(error);
        }
    }

    /// Deletes files of some kinds in `dir`, and `dir` if that empties it.
    fn remove_from(&mut self, dir: &Path, kinds: &[FileType]) {
        let Ok(names) = self.fs.list(dir) else { return };
        for name in names {
            if filename::parse(&name).is_some_and(|(_, kind)| kinds.contains(&kind)) {
                self.remove(&dir.join(name));
            }
        }
        self.remove_dir_if_empty(dir);
    }

    /// A directory with foreign files stays, which is not a failure.
    fn remove_dir_if_empty(&self, dir: &Path) {
        if self.fs.list(dir).is_ok_and(|names| names.is_empty()) {
            drop(self.fs.remove_dir(dir));
        }
    }
}
