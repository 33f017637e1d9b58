//! Puts the files of a backup into the place of a database.
//!
//! Thread safety: the caller has the engine's turn. Suspends. Invariant: CURRENT is removed first
//! and renamed to its place last, so that a half-restored database does not count as one.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use pumice_base::{Error, Result};
use pumice_env::create_dir_durably;
use pumice_env::filename::{self, FileType};
use pumice_table::Table;

use super::copying::{How, check_crc};
use super::meta::{FileEntry, Meta};
use super::{BackupEngine, RestoreMode, RestoreOptions};

impl BackupEngine {
    /// Replaces the database in `db_dir` with the backup `meta`, whose logs go into `wal_dir`.
    ///
    /// # Errors
    /// See [`BackupEngine::restore_backup`].
    pub(super) fn restore(
        &self,
        options: &RestoreOptions,
        meta: &Meta,
        db_dir: &Path,
        wal_dir: &Path,
    ) -> Result<()> {
        let temporary = db_dir.join("CURRENT.tmp");
        let target = |file: &FileEntry| {
            let name = restored_name(&file.path);
            match filename::parse(&name) {
                Some((_, FileType::Wal)) => Ok(wal_dir.join(&name)),
                Some((_, FileType::Current)) => Ok(temporary.clone()),
                Some(_) => Ok(db_dir.join(&name)),
                None => Err(Error::corruption(format!("{}: not a file of a database", file.path))),
            }
        };
        let absent = meta.excluded.iter().map(|path| {
            let path = path.clone();
            FileEntry { path, crc: None, bytes: None }
        });
        let (there, files) = (meta.files.len(), meta.files.iter().cloned().chain(absent));
        let files: Vec<FileEntry> = files.collect();
        let targets = files.iter().map(target).collect::<Result<Vec<_>>>()?;
        if !targets.contains(&temporary) {
            return Err(Error::corruption("the backup has no CURRENT"));
        }
        for dir in [db_dir, wal_dir] {
            create_dir_durably(&*self.fs, dir, false)?;
        }
        let lock = self.fs.lock(&filename::lock_file(db_dir))?;
        let kept = self.kept(options.mode, &files, &targets)?;
        if let Some(at) = (there..files.len()).find(|at| !kept.contains(&targets[*at])) {
            return Err(Error::invalid_argument(format!(
                "Excluded file {} not found in any of the backup directories!",
                files[at].path
            )));
        }
        // CURRENT first: without it there is no database, whatever happens next.
        let current = filename::current_file(db_dir);
        if self.fs.exists(&current)? {
            self.fs.remove(&current)?;
            self.fs.sync_dir(db_dir)?;
        }
        let archive = filename::archive_dir(wal_dir);
        if options.keep_log_files {
            self.return_logs(&archive, wal_dir)?;
        }
        for dir in [db_dir, wal_dir, &archive] {
            self.remove_database_files(dir, options.keep_log_files, &kept)?;
        }
        let how = How::at(self.limits.restore.as_deref());
        for (file, to) in files.iter().zip(&targets).filter(|(_, to)| !kept.contains(*to)) {
            let from = self.dir.join(&file.path);
            let crc = self.copy(&from, None, Some(to), &how)?;
            check_crc(file, crc, &from, to)?;
        }
        self.fs.sync_dir(wal_dir)?;
        self.fs.sync_dir(db_dir)?;
        self.fs.rename(&temporary, &current)?;
        self.fs.sync_dir(db_dir)?;
        drop(lock);
        Ok(())
    }

    /// The tables that are there and need not be restored.
    fn kept(
        &self,
        mode: RestoreMode,
        files: &[FileEntry],
        targets: &[PathBuf],
    ) -> Result<BTreeSet<PathBuf>> {
        let mut kept = BTreeSet::new();
        for (file, to) in files.iter().zip(targets) {
            let name = to.file_name().and_then(std::ffi::OsStr::to_str).unwrap_or_default();
            let is_table = matches!(filename::parse(name), Some((_, FileType::Table)));
            if !is_table || mode == RestoreMode::PurgeAllFiles || !self.fs.exists(to)? {
                continue;
            }
            let same = match mode {
                // What cannot be read is replaced.
                RestoreMode::VerifyChecksum => {
                    let how = How::at(self.limits.restore.as_deref());
                    file.crc.is_some() && self.copy(to, None, None, &how).ok() == file.crc
                }
                _ => self.is_named_after(to, &file.path).unwrap_or(false),
            };
            if same {
                kept.insert(to.clone());
            }
        }
        Ok(kept)
    }

    /// Whether the table's own session and size give the name that it has in the backup.
    fn is_named_after(&self, table: &Path, backed_up: &str) -> Result<bool> {
        let bytes = self.fs.file_size(table)?;
        let properties = Table::read_properties(self.fs.open_random(table)?, bytes)?;
        let session = &properties.db_session_id;
        Ok(!session.is_empty() && backed_up.ends_with(&format!("_s{session}_{bytes}.sst")))
    }

    /// The logs of the archive are to be read again.
    fn return_logs(&self, archive: &Path, wal_dir: &Path) -> Result<()> {
        if !self.fs.exists(archive)? {
            return Ok(());
        }
        for name in self.fs.list(archive)? {
            if let Some((_, FileType::Wal)) = filename::parse(&name) {
                self.fs.rename(&archive.join(&name), &wal_dir.join(&name))?;
            }
        }
        self.fs.sync_dir(archive)
    }

    /// Removes the files of a database, except its lock, its LOG and those to be kept.
    fn remove_database_files(
        &self,
        dir: &Path,
        keep_logs: bool,
        kept: &BTreeSet<PathBuf>,
    ) -> Result<()> {
        if !self.fs.exists(dir)? {
            return Ok(());
        }
        for name in self.fs.list(dir)? {
            match filename::parse(&name) {
                None | Some((_, FileType::Lock | FileType::InfoLog)) => {}
                Some((_, FileType::Wal)) if keep_logs => {}
                Some(_) if kept.contains(&dir.join(&name)) => {}
                Some(_) => self.fs.remove(&dir.join(name))?,
            }
        }
        Ok(())
    }
}

/// `000012.sst` of `shared_checksum/000012_sABC_1234.sst`.
fn restored_name(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or(path);
    match (name.find('_'), name.rfind('.')) {
        (Some(from), Some(to)) if from < to => format!("{}{}", &name[..from], &name[to..]),
        _ => name.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[pumice_test_macros::test]
    fn names() {
        assert_eq!(restored_name("shared_checksum/000012_sABC_1234.sst"), "000012.sst");
        assert_eq!(restored_name("private/1/MANIFEST-000008"), "MANIFEST-000008");
    }
}
