//! Checks that the files the MANIFEST names exist, and removes files when an open fails.
//!
//! Thread safety: the checks are free functions and write nothing; an open is undone by the task
//! that opened, before other tasks can see the database.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use pumice_base::planted::{self, Bug};
use pumice_base::{Error, Result};
use pumice_env::FileSystem;
use pumice_env::filename::{self, FileType, TableDirs};
use pumice_manifest::FileMetaData;
use pumice_manifest::blob::SharedBlobFile;
use pumice_manifest::edit::BlobFileAddition;
use pumice_table::{Table, unique_id_of};

use crate::blob::file::BlobFile;
use crate::engine::DbInner;
use crate::recovery::best_efforts::Files;
use crate::recovery::version_recovery::RecoveredVersions;
use crate::version::blob_files::size_mismatch;

/// A change of the MANIFEST was dropped because a crash tore it, which is right only if nothing has
/// acted on it yet. Tables that it replaced must exist (`check_tables`), and so must the oldest log
/// of those that it made obsolete: a log is durable by name before the MANIFEST names it.
pub(crate) fn check_logs(
    fs: &dyn FileSystem,
    wal_dir: &Path,
    recovered: &RecoveredVersions,
) -> Result<()> {
    let Some(dropped) = recovered.dropped.as_ref().filter(|dropped| dropped.holed) else {
        return Ok(());
    };
    let log = filename::log_file(wal_dir, recovered.oldest_log());
    if planted::is(Bug::DamagedManifestCut) || fs.exists(&log)? {
        return Ok(());
    }
    Err(Error::corruption(format!(
        "{} after offset {} is damaged, not torn by a crash (it took effect: {} is gone)",
        dropped.manifest.display(),
        dropped.offset,
        log.display()
    )))
}

/// With a new `wal_dir` the logs that are still next to the tables would not be read, and the next
/// MANIFEST would not need them any more.
pub(crate) fn check_logs_moved(
    fs: &dyn FileSystem,
    path: &Path,
    wal_dir: &Path,
    recovered: &RecoveredVersions,
) -> Result<()> {
    if path == wal_dir {
        return Ok(());
    }
    let oldest = recovered.oldest_log();
    for name in fs.list(path)? {
        let Some((number, FileType::Wal)) = filename::parse(&name) else { continue };
        let (log, moved) = (path.join(&name), filename::log_file(wal_dir, number));
        if number >= oldest && fs.file_size(&log)? > 0 && !fs.exists(&moved)? {
            return Err(Error::invalid_argument(format!(
                "{} has records and is not in wal_dir, {}: move the logs there",
                log.display(),
                wal_dir.display()
            )));
        }
    }
    Ok(())
}

/// Every table and blob file that the MANIFEST names must exist with its length: a database that
/// lacks a part is refused before anything is written. `dirs` are those of a family's name.
pub(crate) fn check_tables(
    fs: &dyn FileSystem,
    dirs: &dyn Fn(&str) -> TableDirs,
    recovered: &RecoveredVersions,
) -> Result<()> {
    recovered.tables().try_for_each(|(family, file)| check_length(fs, &dirs(family), file))?;
    recovered.blob_files().try_for_each(|(family, file)| check_blob_file(fs, &dirs(family), file))
}

/// The blob file `file` of a family must exist with its length.
pub(crate) fn check_blob_file(
    fs: &dyn FileSystem,
    dirs: &TableDirs,
    file: &SharedBlobFile,
) -> Result<()> {
    let blob = dirs.blob(file.addition.number);
    let bytes = fs.file_size(&blob)?;
    match bytes == file.file_size() {
        true => Ok(()),
        false => Err(size_mismatch(&blob, file.file_size(), bytes)),
    }
}

/// The table `file` of a family must exist with its length.
pub(crate) fn check_length(
    fs: &dyn FileSystem,
    dirs: &TableDirs,
    file: &FileMetaData,
) -> Result<()> {
    let table = dirs.table(file.path_id, file.number);
    let bytes = fs.file_size(&table)?;
    if bytes == file.file_size {
        return Ok(());
    }
    Err(Error::corruption(format!(
        "Sst file size mismatch: {}: the MANIFEST says {} bytes, the file has {bytes}",
        table.display(),
        file.file_size
    )))
}

/// Which files are there, for a best-efforts recovery.
pub(crate) struct WholeFiles<'a> {
    pub fs: &'a dyn FileSystem,
    /// Those of a family's name.
    pub dirs: &'a dyn Fn(&str) -> TableDirs,
    /// Tables are those that the MANIFEST means.
    pub verify_ids: bool,
}

/// Whether a check found the file whole.
fn verdict(checked: Result<()>) -> Result<bool> {
    match checked {
        Ok(()) => Ok(true),
        Err(error) if error.is_corruption() || error.is_not_found() => Ok(false),
        Err(error) => Err(error),
    }
}

impl Files for WholeFiles<'_> {
    fn has_table(&self, family: &str, file: &FileMetaData) -> Result<bool> {
        let dirs = (self.dirs)(family);
        let is_meant = || {
            check_length(self.fs, &dirs, file)?;
            if !self.verify_ids || file.unique_id == [0, 0] {
                return Ok(());
            }
            let table = self.fs.open_random(&dirs.table(file.path_id, file.number))?;
            let properties = Table::read_properties(table, file.file_size)?;
            match unique_id_of(&properties).is_none_or(|id| id == file.unique_id) {
                true => Ok(()),
                false => Err(Error::corruption("the table is another one")),
            }
        };
        verdict(is_meant())
    }

    fn has_blob_file(&self, (id, family): (u32, &str), file: &BlobFileAddition) -> Result<bool> {
        let dirs = (self.dirs)(family);
        let shared = SharedBlobFile { addition: file.clone(), ..SharedBlobFile::default() };
        let is_meant = || {
            check_blob_file(self.fs, &dirs, &shared)?;
            BlobFile::open(self.fs.open_random(&dirs.blob(file.number))?, id, None).map(drop)
        };
        verdict(is_meant())
    }
}

impl DbInner {
    /// The open has failed: removes the files that it wrote and that nothing names, so that
    /// repeated attempts do not fill the disk. After a failure that may have changed CURRENT
    /// everything stays.
    pub(crate) fn undo_open(&self) {
        let installed = self.manifest.lock().is_started();
        drop(self.manifest.lock().close());
        let (number, log) = {
            let mut wal = self.logs.wal.lock();
            drop(wal.close(false)); // It has no record.
            (wal.number(), filename::log_file(wal.dir(), wal.number()))
        };
        {
            let mut state = self.state.lock();
            if number != 0 && !installed {
                state.files.obsolete.file(log);
            }
            let firsts: BTreeSet<PathBuf> =
                state.cfs.values().map(|cf| cf.data.dirs.dir(TableDirs::OWN).into()).collect();
            for table in std::mem::take(&mut state.files.pending_outputs) {
                // Of which family it is, and of which kind, is not known.
                let names = [filename::table_file_name(table), filename::blob_file_name(table)];
                let paths = firsts.iter().flat_map(|dir| names.iter().map(|name| dir.join(name)));
                let made = paths.filter(|path| self.dir.fs.exists(path).unwrap_or(true));
                made.for_each(|path| state.files.obsolete.file(path));
            }
        }
        if installed {
            // As if it had succeeded, including files left by earlier opens. The end of the
            // MANIFEST may be unknown, but everything that names files comes before it.
            drop(self.delete_unreferenced_files(false));
        } else if !self.state.lock().files.obsolete.may_be_current() {
            self.manifest.lock().broken = false;
        }
        self.delete_silently();
    }
}
