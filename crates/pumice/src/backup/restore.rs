//! Puts the files of a backup into the place of a database.
//!
//! Thread safety: the caller has the engine's turn. Suspends. Invariant: CURRENT is removed first
//! and renamed to its place last, so that a half-restored database does not count as one.

use std::path::Path;

use pumice_base::{Error, Result};
use pumice_env::create_dir_durably;
use pumice_env::filename::{self, FileType};

use super::meta::{FileEntry, Meta};
use super::{BackupEngine, check_crc};

impl BackupEngine {
    /// Replaces the database in `db_dir` with the backup `meta`, whose logs go into `wal_dir`.
    ///
    /// # Errors
    /// See [`BackupEngine::restore_backup`].
    pub(super) fn restore(&self, meta: &Meta, db_dir: &Path, wal_dir: &Path) -> Result<()> {
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
        let targets = meta.files.iter().map(target).collect::<Result<Vec<_>>>()?;
        if !targets.contains(&temporary) {
            return Err(Error::corruption("the backup has no CURRENT"));
        }
        for dir in [db_dir, wal_dir] {
            create_dir_durably(&*self.fs, dir, false)?;
        }
        let lock = self.fs.lock(&filename::lock_file(db_dir))?;
        // CURRENT first: without it there is no database, whatever happens next.
        let current = filename::current_file(db_dir);
        if self.fs.exists(&current)? {
            self.fs.remove(&current)?;
            self.fs.sync_dir(db_dir)?;
        }
        let archive = filename::archive_dir(wal_dir);
        for dir in [db_dir, wal_dir, &archive] {
            self.remove_database_files(dir)?;
        }
        for (file, to) in meta.files.iter().zip(&targets) {
            let from = self.dir.join(&file.path);
            let crc = self.copy(&from, None, Some(to), self.limits.restore.as_deref())?;
            check_crc(file, crc, &from, to)?;
        }
        self.fs.sync_dir(wal_dir)?;
        self.fs.sync_dir(db_dir)?;
        self.fs.rename(&temporary, &current)?;
        self.fs.sync_dir(db_dir)?;
        drop(lock);
        Ok(())
    }

    /// Removes the files of a database, except its lock and its LOG.
    fn remove_database_files(&self, dir: &Path) -> Result<()> {
        if !self.fs.exists(dir)? {
            return Ok(());
        }
        for name in self.fs.list(dir)? {
            match filename::parse(&name) {
                None | Some((_, FileType::Lock | FileType::InfoLog)) => {}
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
