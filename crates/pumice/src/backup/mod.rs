//! Backups in RocksDB's format: a directory of copies that share their table files.
//!
//! ```text
//! meta/<id>            says which files make backup <id>; a backup exists when this does
//! private/<id>/        MANIFEST, CURRENT, OPTIONS and logs of that backup
//! shared_checksum/     tables of all backups, named by number, session and size
//! shared/              tables named by number alone, with `share_files_with_checksum=false`
//! ```
//! RocksDB restores backups made here, and this engine restores RocksDB's. Thread safety: calls on
//! one engine take turns; the caller must make sure that only one engine at a time writes to a
//! directory. Invariants: a meta file is written after all files that it names are durable, and
//! removed before any of them. Not built: threads that copy.

mod copying;
mod meta;
mod options;
mod restore;
mod tables;

pub use options::{
    BackupEngineOptions, BackupInfo, BackupLimits, CreateBackupOptions, RestoreMode,
    RestoreOptions, ShareFilesNaming,
};

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use copying::{How, check_crc};
use meta::{FileEntry, Meta, NOTE_BYTES_MAX};
use pumice_base::checksum::crc32c_extend;
use pumice_base::{Error, ErrorKind, Result};
use pumice_env::filename;
use pumice_env::{FileSystem, create_dir_durably, write_file};
use pumice_port::sync::Mutex;
use pumice_port::time::wall_seconds;

use crate::Db;
use crate::engine::checkpoint::{KeepFiles, Moment};

const META: &str = "meta";
const PRIVATE: &str = "private";
const SHARED: &str = "shared_checksum";
/// Directory of tables backed up by older versions of RocksDB.
const SHARED_OLD: &str = "shared";

/// Makes, lists, checks, restores and deletes the backups of one directory. Every call suspends.
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// use std::sync::Arc;
///
/// use pumice::backup::{BackupEngine, BackupEngineOptions, BackupInfo, BackupLimits};
/// use pumice::backup::{CreateBackupOptions, RestoreMode, RestoreOptions, ShareFilesNaming};
/// use pumice::{Db, RateLimiter, RateLimiterOptions};
/// # let fs = pumice::MemFs::new(1).shared();
/// # let own = fs.clone();
/// # let builder = Db::builder("/db").create(true);
/// # let db = builder.configure(|options| options.db.file_system = own).open()?;
/// # db.put("key", "value")?;
///
/// let slowly = RateLimiter::new(&RateLimiterOptions::new(100 << 20))?; // Bytes a second.
/// let engine = BackupEngine::open(fs.clone(), "/backups")?
///     .limited(BackupLimits { backup: Some(Arc::new(slowly)), ..Default::default() })
///     .with_options(BackupEngineOptions {
///         share_files_with_checksum_naming: ShareFilesNaming::UseDbSessionId,
///         ..Default::default()
///     });
/// let id = engine.create_backup_opt(&db, &CreateBackupOptions {
///     flush_before_backup: true,
///     app_metadata: b"before the upgrade",
///     ..Default::default()
/// })?;
/// engine.verify_backup(id, true)?;
/// let newest: Option<BackupInfo> = engine.backups()?.pop();
/// assert_eq!(newest.expect("one was made").app_metadata, b"before the upgrade");
/// engine.purge_old_backups(7)?;
///
/// // A database that is closed is replaced; only the tables that are missing are copied.
/// db.close()?;
/// let mode = RestoreMode::KeepLatestDbSessionIdFiles;
/// let options = RestoreOptions { mode, ..Default::default() };
/// engine.restore_latest_backup_opt(&options, "/db", "/db")?;
/// # Ok(())
/// # }
/// ```
pub struct BackupEngine {
    fs: Arc<dyn FileSystem>,
    dir: PathBuf,
    writable: bool,
    limits: BackupLimits,
    options: BackupEngineOptions,
    /// No backup is made any more.
    stopped: AtomicBool,
    turn: Mutex<()>,
}

impl std::fmt::Debug for BackupEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("BackupEngine");
        shown.field("dir", &self.dir).field("writable", &self.writable).finish_non_exhaustive()
    }
}

/// All backups: the contents of their meta files, or why one is not a backup.
type Known = BTreeMap<u32, Result<Meta>>;

impl BackupEngine {
    /// Opens the backup directory `dir` for all calls; creates it if it does not exist.
    ///
    /// # Errors
    /// I/O.
    pub fn open(fs: Arc<dyn FileSystem>, dir: impl AsRef<Path>) -> Result<BackupEngine> {
        let dir = dir.as_ref().to_path_buf();
        for part in [META, PRIVATE, SHARED] {
            create_dir_durably(&*fs, &dir.join(part), false)?;
        }
        Ok(BackupEngine::at(fs, dir, true))
    }

    /// Opens the backup directory `dir` for calls that change nothing in it.
    ///
    /// # Errors
    /// NotFound if there is none; I/O.
    pub fn open_read_only(fs: Arc<dyn FileSystem>, dir: impl AsRef<Path>) -> Result<BackupEngine> {
        let dir = dir.as_ref().to_path_buf();
        if !fs.exists(&dir.join(META))? {
            return Err(Error::not_found(format!("{} is missing", dir.join(META).display())));
        }
        Ok(BackupEngine::at(fs, dir, false))
    }

    /// The same engine, copying no faster than `limits` allow.
    #[must_use]
    pub fn limited(mut self, limits: BackupLimits) -> BackupEngine {
        self.limits = limits;
        self
    }

    /// The same engine, with these options.
    #[must_use]
    pub fn with_options(mut self, options: BackupEngineOptions) -> BackupEngine {
        self.options = options;
        self
    }

    fn at(fs: Arc<dyn FileSystem>, dir: PathBuf, writable: bool) -> BackupEngine {
        BackupEngine {
            fs,
            dir,
            writable,
            limits: BackupLimits::default(),
            options: BackupEngineOptions::default(),
            stopped: AtomicBool::new(false),
            turn: Mutex::new(()),
        }
    }

    /// Ends the backup that is being made, and refuses others of this engine: they are Incomplete.
    /// Does not wait.
    pub fn stop_backup(&self) {
        self.stopped.store(true, Ordering::Release);
    }

    /// Backs up the present state of `db` with the caller's `note`; returns the backup's number.
    /// `flush` saves memtables first; without it their logs are backed up, and writes that were not
    /// logged are missing.
    ///
    /// # Errors
    /// InvalidArgument for a note over 1 MiB; NotSupported after [`Self::open_read_only`]; I/O.
    /// After an error nothing is left of the backup.
    pub fn create_backup(&self, db: &Db, flush: bool, note: &[u8]) -> Result<u32> {
        let (flush_before_backup, app_metadata) = (flush, note);
        let options =
            CreateBackupOptions { flush_before_backup, app_metadata, ..Default::default() };
        self.create_backup_opt(db, &options)
    }

    /// [`Self::create_backup`] with options.
    ///
    /// # Errors
    /// As there; Incomplete after [`Self::stop_backup`]; InvalidArgument for files to be left out
    /// without `schema_version` 2.
    pub fn create_backup_opt(&self, db: &Db, options: &CreateBackupOptions<'_>) -> Result<u32> {
        self.check_writable()?;
        self.check_not_stopped()?;
        let note = options.app_metadata;
        if note.len() > NOTE_BYTES_MAX {
            return Err(Error::invalid_argument("App metadata too large"));
        }
        self.options.check()?;
        if options.exclude_files_callback.is_some() && self.options.schema_version < 2 {
            let text = "exclude_files_callback requires schema_version >= 2";
            return Err(Error::invalid_argument(text));
        }
        let _turn = self.turn.lock();
        let known = self.load()?;
        let id = known.keys().next_back().copied().unwrap_or(0) + 1;
        let private = self.dir.join(PRIVATE).join(id.to_string());
        if self.fs.exists(&private)? {
            self.collect(&known)?;
        }
        create_dir_durably(&*self.fs, &private, false)?;
        let made = self.fill(db, options, id, &known).and_then(|mut meta| {
            meta.note = note.to_vec();
            self.write_meta(id, &meta)
        });
        if made.is_err() {
            // Files that cannot be removed now are removed by a later collection.
            drop(self.undo(id, &known));
        }
        made.map(|()| id)
    }

    /// Removes what exists of backup `id`, which could not be completed.
    fn undo(&self, id: u32, known: &Known) -> Result<()> {
        let meta = self.dir.join(META).join(id.to_string());
        if self.fs.exists(&meta)? {
            // The meta file's name may not be durable.
            self.fs.remove(&meta)?;
            self.fs.sync_dir(&self.dir.join(META))?;
        }
        self.collect(known)
    }

    /// The intact backups, oldest first: those whose files exist with the right sizes.
    ///
    /// # Errors
    /// I/O.
    pub fn backups(&self) -> Result<Vec<BackupInfo>> {
        let _turn = self.turn.lock();
        let mut list = Vec::new();
        for (id, meta) in self.load()? {
            let Ok(meta) = meta else { continue };
            let mut size = 0;
            for file in &meta.files {
                size += self.fs.file_size(&self.dir.join(&file.path))?;
            }
            let (timestamp, number_files) = (meta.timestamp, meta.files.len());
            let (app_metadata, excluded_files) = (meta.note, meta.excluded);
            list.push(BackupInfo {
                id,
                timestamp,
                size,
                number_files,
                app_metadata,
                excluded_files,
            });
        }
        Ok(list)
    }

    /// The backups that cannot be restored, with the reason.
    ///
    /// # Errors
    /// I/O.
    pub fn corrupted_backups(&self) -> Result<Vec<(u32, Error)>> {
        let _turn = self.turn.lock();
        Ok(self.load()?.into_iter().filter_map(|(id, meta)| Some((id, meta.err()?))).collect())
    }

    /// Checks that all files of a backup exist with the right sizes; with `with_checksum` also
    /// their contents.
    ///
    /// # Errors
    /// NotFound for an unknown backup; Corruption that names the file; I/O.
    pub fn verify_backup(&self, id: u32, with_checksum: bool) -> Result<()> {
        let _turn = self.turn.lock();
        let meta = take(self.load()?, id)?;
        for file in meta.files.iter().filter(|_| with_checksum) {
            let path = self.dir.join(&file.path);
            let crc = self.copy(&path, None, None, &How::at(self.limits.backup.as_deref()))?;
            check_crc(file, crc, &path, &path)?;
        }
        Ok(())
    }

    /// Replaces the database in `db_dir`, if any, with a backup, whose logs go into `wal_dir`. The
    /// database there must not be open. If this fails there is no database in `db_dir`, and none
    /// can be created there until a restore has succeeded or the remains have been destroyed.
    ///
    /// # Errors
    /// NotFound for an unknown backup; what is wrong with the backup (also a file of unknown kind),
    /// before anything is changed; Corruption if the checksum of a copy differs; I/O.
    pub fn restore_backup(
        &self,
        id: u32,
        db_dir: impl AsRef<Path>,
        wal_dir: impl AsRef<Path>,
    ) -> Result<()> {
        self.restore_backup_opt(&RestoreOptions::default(), id, db_dir, wal_dir)
    }

    /// [`Self::restore_backup`] with options.
    ///
    /// # Errors
    /// As there.
    pub fn restore_backup_opt(
        &self,
        options: &RestoreOptions,
        id: u32,
        db_dir: impl AsRef<Path>,
        wal_dir: impl AsRef<Path>,
    ) -> Result<()> {
        let _turn = self.turn.lock();
        let known = self.load()?;
        let meta = completed(take(known.clone(), id)?, &known);
        self.restore(options, &meta, db_dir.as_ref(), wal_dir.as_ref())
    }

    /// As [`Self::restore_backup`] of the newest intact backup.
    ///
    /// # Errors
    /// As for that call; NotFound if there is no backup; I/O if it cannot be determined whether a
    /// newer one is intact.
    pub fn restore_latest_backup(
        &self,
        db_dir: impl AsRef<Path>,
        wal_dir: impl AsRef<Path>,
    ) -> Result<()> {
        self.restore_latest_backup_opt(&RestoreOptions::default(), db_dir, wal_dir)
    }

    /// [`Self::restore_latest_backup`] with options.
    ///
    /// # Errors
    /// As there.
    pub fn restore_latest_backup_opt(
        &self,
        options: &RestoreOptions,
        db_dir: impl AsRef<Path>,
        wal_dir: impl AsRef<Path>,
    ) -> Result<()> {
        let _turn = self.turn.lock();
        let known = self.load()?;
        for meta in known.values().rev().cloned() {
            match meta {
                Ok(meta) => {
                    let meta = completed(meta, &known);
                    return self.restore(options, &meta, db_dir.as_ref(), wal_dir.as_ref());
                }
                Err(error) if is_unknown(&error) => return Err(error),
                Err(_) => {}
            }
        }
        Err(Error::not_found("Backup not found"))
    }

    /// Deletes a backup, even one that is not intact. Shared files stay as
    /// [`Self::garbage_collect`] says.
    ///
    /// # Errors
    /// NotFound for an unknown backup; NotSupported after [`Self::open_read_only`]; I/O.
    pub fn delete_backup(&self, id: u32) -> Result<()> {
        self.check_writable()?;
        let _turn = self.turn.lock();
        let known = self.load()?;
        if !known.contains_key(&id) {
            return Err(Error::not_found("Backup not found"));
        }
        self.forget(known, &[id])
    }

    /// Deletes the oldest intact backups until `keep` are left.
    ///
    /// # Errors
    /// NotSupported after [`Self::open_read_only`]; I/O.
    pub fn purge_old_backups(&self, keep: usize) -> Result<()> {
        self.check_writable()?;
        let _turn = self.turn.lock();
        let known = self.load()?;
        let intact: Vec<u32> =
            known.iter().filter(|(_, meta)| meta.is_ok()).map(|(id, _)| *id).collect();
        let surplus = intact.len().saturating_sub(keep);
        self.forget(known, &intact[..surplus])
    }

    /// Deletes all backups, intact or not.
    ///
    /// # Errors
    /// NotSupported after [`Self::open_read_only`]; I/O.
    pub fn delete_all_backups(&self) -> Result<()> {
        self.check_writable()?;
        let _turn = self.turn.lock();
        let known = self.load()?;
        let ids: Vec<u32> = known.keys().copied().collect();
        self.forget(known, &ids)
    }

    /// Removes files that no intact backup needs, such as those of an unfinished backup. While
    /// there is a backup of a newer format, whose files are not known, all shared files stay.
    ///
    /// # Errors
    /// NotSupported after [`Self::open_read_only`]; I/O, also if a backup cannot be read: then no
    /// file is removed.
    pub fn garbage_collect(&self) -> Result<()> {
        self.check_writable()?;
        let _turn = self.turn.lock();
        let known = self.load()?;
        self.collect(&known)
    }

    fn check_writable(&self) -> Result<()> {
        match self.writable {
            true => Ok(()),
            false => Err(Error::not_supported("the backup directory was opened read-only")),
        }
    }

    fn load(&self) -> Result<Known> {
        let mut known = Known::new();
        for name in self.fs.list(&self.dir.join(META))? {
            if let Ok(id) = name.parse::<u32>() {
                known.insert(id, self.load_one(&self.dir.join(META).join(&name)));
            }
        }
        Ok(known)
    }

    fn load_one(&self, path: &Path) -> Result<Meta> {
        let bytes = self.fs.read_file(path)?;
        let meta = Meta::decode(&String::from_utf8_lossy(&bytes), &path.display().to_string())?;
        for file in &meta.files {
            let path = self.dir.join(&file.path);
            let found = self.fs.file_size(&path)?;
            let wanted = file.bytes.or_else(|| size_in_name(&file.path));
            if wanted.is_some_and(|wanted| wanted != found) {
                return Err(Error::corruption(format!(
                    "File corrupted: File size mismatch for {}: {found}",
                    path.display()
                )));
            }
        }
        Ok(meta)
    }

    /// Copies one consistent state of `db`, durably.
    fn fill(
        &self,
        db: &Db,
        options: &CreateBackupOptions<'_>,
        id: u32,
        known: &Known,
    ) -> Result<Meta> {
        let how = self.how_to_save(options.progress_callback);
        let inner = db.inner();
        let _keep = KeepFiles::new(inner);
        let mut moment = inner.moment_for_backup(options.flush_before_backup)?;
        if !self.options.backup_log_files {
            moment.logs.clear();
        }
        let mut meta =
            Meta { timestamp: wall_seconds(), sequence: moment.sequence, ..Meta::default() };
        self.save_files(&moment, (id, known), options, &how, &mut meta)?;
        for (from, name, bytes) in private_files(&inner.dir.path, &inner.logs.dir(), &moment) {
            let path = format!("{PRIVATE}/{id}/{name}");
            let crc = self.copy(&from, bytes, Some(&self.dir.join(&path)), &how)?;
            meta.files.push(FileEntry { path, crc: Some(crc), bytes: None });
        }
        let path = format!("{PRIVATE}/{id}/CURRENT");
        let current = format!("{}\n", filename::manifest_file_name(moment.manifest.0));
        write_file(&*self.fs, &self.dir.join(&path), current.as_bytes(), true)?;
        let crc = Some(crc32c_extend(0, current.as_bytes()));
        meta.files.push(FileEntry { path, crc, bytes: None });
        self.fs.sync_dir(&self.dir.join(PRIVATE).join(id.to_string()))?;
        self.fs.sync_dir(&self.dir.join(PRIVATE))?;
        Ok(meta)
    }

    fn write_meta(&self, id: u32, meta: &Meta) -> Result<()> {
        let dir = self.dir.join(META);
        let temporary = dir.join(format!(".{id}.tmp"));
        let text = meta.encode(self.options.schema_version);
        write_file(&*self.fs, &temporary, text.as_bytes(), true)?;
        self.fs.rename(&temporary, &dir.join(id.to_string()))?;
        self.fs.sync_dir(&dir)?;
        self.fs.sync_dir(&self.dir)
    }

    /// Deletes backups: their meta files first, then what is no longer needed.
    fn forget(&self, mut known: Known, ids: &[u32]) -> Result<()> {
        for id in ids {
            self.fs.remove(&self.dir.join(META).join(id.to_string()))?;
            known.remove(id);
        }
        self.fs.sync_dir(&self.dir.join(META))?;
        self.collect(&known)
    }

    /// Removes files that no backup in `known` needs.
    ///
    /// # Errors
    /// I/O; if a backup cannot be read, its error, before anything is removed.
    fn collect(&self, known: &Known) -> Result<()> {
        let mut failed = known.values().filter_map(|meta| meta.as_ref().err());
        if let Some(error) = failed.clone().find(|error| is_unknown(error)) {
            return Err(error.clone());
        }
        let newer = failed.any(|error| error.kind() == ErrorKind::NotSupported);
        if !newer {
            self.collect_shared(known)?;
        }
        let private = self.dir.join(PRIVATE);
        for name in self.fs.list(&private)? {
            let number = name.trim_end_matches(".tmp").parse::<u32>();
            if name.parse().is_ok_and(|id: u32| known.contains_key(&id)) || number.is_err() {
                continue;
            }
            for file in self.fs.list(&private.join(&name))? {
                self.fs.remove(&private.join(&name).join(file))?;
            }
            self.fs.remove_dir(&private.join(&name))?;
        }
        Ok(())
    }

    fn collect_shared(&self, known: &Known) -> Result<()> {
        let entries = known.values().flatten().flat_map(|meta| &meta.files);
        let needed: BTreeSet<&str> = entries.map(|entry| entry.path.as_str()).collect();
        for part in [SHARED, SHARED_OLD] {
            let dir = self.dir.join(part);
            if !self.fs.exists(&dir)? {
                continue;
            }
            for name in self.fs.list(&dir)? {
                if !needed.contains(format!("{part}/{name}").as_str()) {
                    self.fs.remove(&dir.join(name))?;
                }
            }
        }
        Ok(())
    }
}

/// The files that are copied for one backup alone, except CURRENT: source, name, and the number of
/// bytes if not the whole file.
fn private_files(
    db: &Path,
    wal_dir: &Path,
    moment: &Moment,
) -> Vec<(PathBuf, String, Option<u64>)> {
    let (manifest, bytes) = moment.manifest;
    let name = filename::manifest_file_name(manifest);
    let mut files = vec![(filename::manifest_file(db, manifest), name, Some(bytes))];
    if moment.options != 0 {
        let from = filename::options_file(db, moment.options);
        files.push((from, format!("OPTIONS-{:06}", moment.options), None));
    }
    for &(number, bytes) in &moment.logs {
        let from = filename::log_file(wal_dir, number);
        files.push((from, filename::log_file_name(number), Some(bytes)));
    }
    files
}

/// Whether the backup is intact is unknown: the device failed, and may not fail the next time.
fn is_unknown(error: &Error) -> bool {
    let damaged = error.is_corruption() || error.kind() == ErrorKind::NotSupported;
    !damaged && !error.is_not_found()
}

/// The backup with the files that were left out of it and are in another one.
fn completed(mut meta: Meta, known: &Known) -> Meta {
    let saved = || known.values().flatten().flat_map(|meta| &meta.files);
    let (files, excluded) = (&mut meta.files, &mut meta.excluded);
    excluded.retain(|path| match saved().find(|entry| entry.path == *path) {
        Some(entry) => {
            files.push(entry.clone());
            false
        }
        None => true,
    });
    meta
}

fn take(mut known: Known, id: u32) -> Result<Meta> {
    known.remove(&id).unwrap_or_else(|| Err(Error::not_found("Backup not found")))
}

/// The size that is part of the name of a table in `shared_checksum`.
fn size_in_name(path: &str) -> Option<u64> {
    let name = path.strip_prefix(SHARED)?.rsplit_once('.')?.0;
    let mut parts = name.split('_').skip(2);
    // Not the underscore of the directory's name, which is stripped.
    parts.next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[pumice_test_macros::test]
    fn names() {
        assert_eq!(size_in_name("shared_checksum/000012_sABC_1234.sst"), Some(1234));
        assert_eq!(size_in_name("shared_checksum/000012_sABC.sst"), None);
        assert_eq!(size_in_name("shared_checksum/000012_77_1234.sst"), Some(1234));
        assert_eq!(size_in_name("private/1/CURRENT"), None);
    }
}
