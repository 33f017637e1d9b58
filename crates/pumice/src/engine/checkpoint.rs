//! Checkpoints: a copy of the database that shares its table files.
//!
//! The copy is the state of one moment during the call: the files of the versions, the MANIFEST up
//! to the edit that made them, and the logs up to the newest record. It is built beside the target,
//! in `<target>.tmp.<id>`, and renamed when all of it is durable, so that the target is whole or
//! absent. If several tasks make one target, the first to rename wins.
//!
//! The builder holds a lock file beside its directory, `<target>.tmp.<id>.lock`, which is created
//! before the directory and removed after it. A directory whose lock is not held was left by a
//! crash; the next checkpoint to that target removes it. Directories without a lock file may belong
//! to others, and stay.
//!
//! Thread safety: from any thread; holds the MANIFEST lock while it notes what to copy, not while
//! copying. No file is deleted meanwhile. Suspends.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use pumice_base::{Error, FileNumber, Result};
use pumice_env::filename::TableDirs;
use pumice_env::{FileLock, FileSystem, create_dir_durably, filename, parent_of};
use pumice_manifest::FileMetaData;
use pumice_manifest::blob::SharedBlobFile;

use crate::engine::DbInner;
use crate::engine::memtable_switch::all_ids;
use crate::options::index_owner::{check_no_blobs, check_unowned};
use crate::options::requests::{CheckpointOptions, FlushOptions};
use crate::state::family::CfState;
use crate::stats::listener::FlushReason;
use crate::version::identity::{is_session_id, new_session_id};

/// Number of names to try for the directory in which a checkpoint is built.
const LOCK_TRIES_MAX: u32 = 10;
/// Extension of the lock file beside a directory in which a checkpoint is built.
const LOCK_EXTENSION: &str = ".lock";

/// The files of one state.
pub(crate) struct Moment {
    /// With their paths.
    pub tables: Vec<(Arc<FileMetaData>, PathBuf)>,
    /// With their paths.
    pub blobs: Vec<(Arc<SharedBlobFile>, PathBuf)>,
    /// With the bytes that belong to the moment.
    pub manifest: (FileNumber, u64),
    /// 0 for none.
    pub options: FileNumber,
    /// With the bytes that belong to the moment.
    pub logs: Vec<(FileNumber, u64)>,
    pub sequence: u64,
}

/// Allows deletions again when dropped.
pub(crate) struct KeepFiles<'a>(&'a DbInner);

impl<'a> KeepFiles<'a> {
    pub fn new(db: &'a DbInner) -> Self {
        db.state.lock().files.copies += 1;
        KeepFiles(db)
    }
}

impl Drop for KeepFiles<'_> {
    fn drop(&mut self) {
        self.0.state.lock().files.copies -= 1;
        self.0.delete_obsolete_files();
    }
}

impl DbInner {
    /// Makes a checkpoint in the new directory `target`.
    ///
    /// # Errors
    /// InvalidArgument if `target` exists, or has been made meanwhile; Aborted while
    /// the database resumes from a failed log; the background error; I/O. The target does not exist
    /// after an error.
    pub(crate) fn checkpoint(
        self: &Arc<Self>,
        options: &CheckpointOptions,
        target: &Path,
    ) -> Result<()> {
        self.check_writable()?;
        self.life.mark.check_may_wait()?;
        if self.dir.fs.exists(target)? {
            return Err(Error::invalid_argument("Directory exists"));
        }
        let staging = Staging::new(&*self.dir.fs, target)?;
        self.reports.info(format_args!(
            "Started the snapshot process -- creating snapshot in directory {}",
            target.display()
        ));
        let result = self.fill(options, &staging.dir).and_then(|sequence| {
            staging.finish(target)?;
            Ok(sequence)
        });
        match result {
            Ok(sequence) => {
                self.reports.info(format_args!("Snapshot DONE. All is good"));
                self.reports.info(format_args!("Snapshot sequence number: {sequence}"));
                Ok(())
            }
            Err(error) => {
                self.reports.info(format_args!("Snapshot failed -- {error}"));
                Err(error)
            }
        }
    }

    /// Copies the present state into `staging`, durably; returns its sequence number.
    fn fill(self: &Arc<Self>, options: &CheckpointOptions, staging: &Path) -> Result<u64> {
        let _keep = KeepFiles::new(self);
        let ids = all_ids(&self.state.lock());
        // Only shortens the logs to copy, so that opening the checkpoint is fast.
        if self.wants_flush_for_copy(options.log_size_for_flush) {
            self.flush_for_copy(&ids)?;
        }
        let moment = self.note_moment()?;
        create_dir_durably(&*self.dir.fs, staging, false)?;
        let (staged, mut linking) = (TableDirs::of(staging), true);
        for (file, from) in &moment.tables {
            // All in one directory, as the database is opened without paths.
            let to = staged.table(TableDirs::OWN, file.number);
            self.dir.link_or_copy(from, &to, &mut linking)?;
        }
        for (blob, from) in &moment.blobs {
            let to = staged.blob(blob.addition.number);
            self.dir.link_or_copy(from, &to, &mut linking)?;
        }
        let (manifest, bytes) = moment.manifest;
        let from = filename::manifest_file(&self.dir.path, manifest);
        self.dir.copy(&from, &filename::manifest_file(staging, manifest), bytes)?;
        if moment.options != 0 {
            let from = filename::options_file(&self.dir.path, moment.options);
            let bytes = self.dir.fs.file_size(&from)?;
            self.dir.copy(&from, &filename::options_file(staging, moment.options), bytes)?;
        }
        let wal_dir = self.logs.dir();
        // One without a byte has nothing to restore. RocksDB copies it since 9.0; Flink, which runs
        // on 8.10, fails at an empty file.
        for &(number, bytes) in moment.logs.iter().filter(|(_, bytes)| *bytes > 0) {
            let from = filename::log_file(&wal_dir, number);
            let copied = self.dir.copy(&from, &filename::log_file(staging, number), bytes);
            copied.map_err(|error| self.why_log_is_short(error))?;
        }
        // The last file makes it a database; this also makes all the names durable.
        filename::set_current_file(&*self.dir.fs, staging, manifest, true)?;
        Ok(moment.sequence)
    }

    /// A log lost its tail while it was copied, by a sync that failed: that is the reason to give,
    /// and no damage.
    fn why_log_is_short(&self, error: Error) -> Error {
        match self.logs.at_rest().failure() {
            Some(failure) if error.is_corruption() => failure.clone(),
            _ => error,
        }
    }

    /// Whether the live logs have at least this many bytes; 0 always, `u64::MAX` never.
    pub(crate) fn wants_flush_for_copy(&self, log_bytes: u64) -> bool {
        let live = || self.logs.wal.lock().live().iter().map(|(_, bytes)| bytes).sum::<u64>();
        match log_bytes {
            0 => true,
            u64::MAX => false,
            bytes => live() >= bytes,
        }
    }

    fn flush_for_copy(self: &Arc<Self>, ids: &BTreeSet<u32>) -> Result<()> {
        let flush = FlushOptions { wait: true, allow_write_stall: true, ..FlushOptions::default() };
        self.flush_families(&flush, ids, FlushReason::GetLiveFiles)
    }

    /// The files that a backup copies; the caller keeps them from being deleted. Without `flush`,
    /// unlogged writes that are only in memtables are missing.
    ///
    /// # Errors
    /// As [`Self::checkpoint`].
    pub(crate) fn moment_for_backup(self: &Arc<Self>, flush: bool) -> Result<Moment> {
        self.check_writable()?;
        self.life.mark.check_may_wait()?;
        if flush {
            let ids = all_ids(&self.state.lock());
            self.flush_for_copy(&ids)?;
        }
        self.note_moment()
    }

    /// The files that make up the present state. Under the MANIFEST lock no version changes and so
    /// no log becomes unnecessary.
    fn note_moment(&self) -> Result<Moment> {
        let manifest = self.manifest.lock();
        if manifest.broken {
            return Err(Error::io_message("the MANIFEST failed; resume the database first"));
        }
        if manifest.held {
            // The MANIFEST lacks what has been flushed since, and the failed log may hold refused
            // writes.
            return Err(Error::aborted("the database is recovering from a failed log"));
        }
        check_no_blobs(&*self.dir.fs, &self.dir.path)?;
        let path = filename::manifest_file(&self.dir.path, manifest.number);
        let manifest_bytes = self.dir.fs.file_size(&path)?;
        let (tables, blobs, options) = {
            let state = self.state.lock();
            let mut owners = state.cfs.values().map(|cf| cf.data.tables());
            owners.try_for_each(|tables| check_unowned(tables.index_owner.as_ref()))?;
            let placed = |cf: &CfState| -> Vec<_> {
                cf.files().map(|file| (Arc::clone(file), cf.data.table_of(file))).collect()
            };
            let tables = state.cfs.values().flat_map(placed).collect();
            let placed = |cf: &CfState| -> Vec<_> {
                let blobs = cf.version.blob_files().iter();
                blobs.map(|(number, b)| (Arc::clone(&b.shared), cf.data.blob(*number))).collect()
            };
            let blobs = state.cfs.values().flat_map(placed).collect();
            (tables, blobs, state.files.options_file_number)
        };
        let mut wal = self.logs.wal.lock();
        wal.flush(false)?;
        Ok(Moment {
            tables,
            blobs,
            manifest: (manifest.number, manifest_bytes),
            options,
            logs: wal.live(),
            sequence: self.last_sequence.load(Ordering::Acquire),
        })
    }
}

/// The directory in which a checkpoint is built. Nothing of it stays when this is dropped.
pub(crate) struct Staging<'a> {
    fs: &'a dyn FileSystem,
    pub dir: PathBuf,
    lock_file: PathBuf,
    lock: Option<Box<dyn FileLock>>,
}

impl<'a> Staging<'a> {
    pub fn new(fs: &'a dyn FileSystem, target: &Path) -> Result<Self> {
        let prefix = staging_prefix(target)?;
        create_dir_durably(fs, parent_of(target), false)?;
        remove_left(fs, target, &prefix);
        let mut tries = 0;
        loop {
            let dir = target.with_file_name(format!("{prefix}{}", new_session_id()));
            let lock_file = lock_of(&dir);
            match fs.lock(&lock_file) {
                Ok(lock) => return Ok(Staging { fs, dir, lock_file, lock: Some(lock) }),
                Err(error) if tries == LOCK_TRIES_MAX => return Err(error),
                // Another call may just be checking whether it is abandoned.
                Err(_) => tries += 1,
            }
        }
    }

    /// Gives the directory, whose contents are durable, its name, durably.
    ///
    /// # Errors
    /// InvalidArgument if that exists by now; I/O. The target does not exist after an error.
    pub fn finish(&self, target: &Path) -> Result<()> {
        self.become_target(target)?;
        let durable = self.fs.sync_dir(parent_of(target));
        durable.inspect_err(|_| self.take_back(target))
    }

    fn become_target(&self, target: &Path) -> Result<()> {
        self.fs.rename(&self.dir, target).map_err(|error| match self.fs.exists(target) {
            Ok(true) => Error::invalid_argument("Directory exists"),
            _ => error,
        })
    }

    /// Undoes `become_target`, so that the call can be repeated.
    fn take_back(&self, target: &Path) {
        // If that fails too, the target stays and is whole.
        drop(self.fs.rename(target, &self.dir));
    }
}

impl Drop for Staging<'_> {
    fn drop(&mut self) {
        // Files left by a failure here are removed by the next checkpoint to this target.
        drop(remove_dir(self.fs, &self.dir));
        drop(self.fs.remove(&self.lock_file));
        self.lock = None;
    }
}

/// Removes what unfinished checkpoints left. What cannot be removed now is left to the next
/// checkpoint.
fn remove_left(fs: &dyn FileSystem, target: &Path, prefix: &str) {
    let Ok(names) = fs.list(parent_of(target)) else { return };
    let staging = |name: &String| {
        let id = name.strip_prefix(prefix)?.strip_suffix(LOCK_EXTENSION)?;
        is_session_id(id).then(|| target.with_file_name(format!("{prefix}{id}")))
    };
    for dir in names.iter().filter_map(staging) {
        let lock_file = lock_of(&dir);
        // Held by a builder that is still at work.
        let Ok(lock) = fs.lock(&lock_file) else { continue };
        drop(remove_dir(fs, &dir));
        drop(fs.remove(&lock_file));
        drop(lock);
    }
}

fn remove_dir(fs: &dyn FileSystem, dir: &Path) -> Result<()> {
    if !fs.exists(dir)? {
        return Ok(());
    }
    for name in fs.list(dir)? {
        fs.remove(&dir.join(name))?;
    }
    fs.remove_dir(dir)
}

fn lock_of(staging: &Path) -> PathBuf {
    let mut name = staging.as_os_str().to_os_string();
    name.push(LOCK_EXTENSION);
    name.into()
}

/// The prefix of the names of directories in which `target` is built: beside it, so that the rename
/// is one step.
fn staging_prefix(target: &Path) -> Result<String> {
    let Some(name) = target.file_name() else {
        return Err(Error::invalid_argument(format!(
            "invalid checkpoint directory name: {}",
            target.display()
        )));
    };
    // Names that differ in bytes only that are not UTF-8 share a prefix: each directory is locked.
    Ok(format!("{}.tmp.", name.display()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::KeepFiles;
    use crate::{CompactRangeOptions, Db, FlushOptions, MemFs, Options, WriteOptions};

    /// A log may fail between the flush of a checkpoint and its look at the MANIFEST. No copy is
    /// made while changes are held back from the MANIFEST, nor after their release until a MANIFEST
    /// that has them is written.
    #[pumice_test_macros::test]
    fn what_the_manifest_lacks_is_in_no_copy() {
        let mut options = Options::default();
        options.db.create_if_missing = true;
        options.db.file_system = MemFs::new(1).shared();
        let db = Db::open(&options, "/db").unwrap();
        let inner = db.inner();
        db.put_opt(&WriteOptions::default(), b"k", b"v").unwrap();
        assert_eq!(inner.note_moment().unwrap().sequence, 1);
        inner.manifest.lock().hold();
        assert_eq!(inner.note_moment().err().unwrap().kind(), pumice_base::ErrorKind::Aborted);
        assert!(inner.manifest.lock().release());
        let error = inner.note_moment().err().unwrap();
        assert!(error.to_string().contains("the MANIFEST failed"), "{error}");
        // The next change makes a MANIFEST that is whole.
        db.flush_opt(&crate::FlushOptions::default()).unwrap();
        assert_eq!(inner.note_moment().unwrap().tables.len(), 1);
        db.close().unwrap();
    }

    /// A copy keeps its files even if a caller allows deletions once too often.
    #[pumice_test_macros::test]
    fn a_copy_keeps_its_files_whatever_the_caller_counts() {
        let mut options = Options::default();
        options.db.create_if_missing = true;
        options.db.file_system = MemFs::new(1).shared();
        let db = Db::open(&options, "/db").unwrap();
        for _ in 0..2 {
            db.put_opt(&WriteOptions::default(), b"k", b"v").unwrap();
            db.flush_opt(&FlushOptions::default()).unwrap();
        }
        let allowed = || db.property_int("rocksdb.is-file-deletions-enabled").unwrap();
        let keep = KeepFiles::new(db.inner());
        let moment = db.inner().note_moment().unwrap();
        // The moment itself keeps its files, too.
        let tables: Vec<u64> = moment.tables.iter().map(|(file, _)| file.number).collect();
        drop(moment);
        assert_eq!((tables.len(), allowed()), (2, 0));
        db.enable_file_deletions();
        db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
        db.enable_file_deletions();
        let exist = || {
            let fs = &options.db.file_system;
            let path = |number: &u64| format!("/db/{number:06}.sst");
            tables.iter().filter(|n| fs.exists(path(n).as_ref()).unwrap()).count()
        };
        assert_eq!((exist(), allowed()), (2, 0));
        drop(keep);
        assert_eq!(allowed(), 1);
        // The compaction may hold its inputs for a moment longer; then the close deletes them.
        db.close().unwrap();
        assert_eq!(exist(), 0);
    }
}
