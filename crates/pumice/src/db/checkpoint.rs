//! Checkpoints: a copy of the database that shares its table files.
//!
//! The copy is the state of one moment during the call: the files of the versions, the MANIFEST up
//! to the edit that made them, and the logs up to the newest record. It is built beside the target,
//! in `<target>.tmp`, and renamed when all of it is durable, so that the target is whole or absent.
//!
//! Thread safety: from any thread; holds the MANIFEST lock while it notes what to copy, not while
//! copying. No file is deleted meanwhile. Suspends.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use pumice_base::{Error, ErrorKind, FileNumber, Result};
use pumice_env::{create_dir_durably, filename, parent_of};

use crate::db::DbInner;
use crate::db::requests::FlushOptions;
use crate::ingest::transfer;
use crate::write::switch::all_ids;

/// "Cross-device link": the target is on another file system.
const EXDEV: i32 = 18;
/// "Operation not permitted": the file system of the target has no hard links.
const EPERM: i32 = 1;
/// "Operation not supported".
const EOPNOTSUPP: i32 = 95;

/// The files of a moment.
struct Moment {
    tables: Vec<FileNumber>,
    manifest: (FileNumber, u64),
    options: FileNumber,
    logs: Vec<(FileNumber, u64)>,
    sequence: u64,
}

/// Allows deletions again when dropped.
struct KeepFiles<'a>(&'a DbInner);

impl<'a> KeepFiles<'a> {
    fn new(db: &'a DbInner) -> Self {
        db.state.lock().deletions_disabled += 1;
        KeepFiles(db)
    }
}

impl Drop for KeepFiles<'_> {
    fn drop(&mut self) {
        self.0.state.lock().deletions_disabled -= 1;
        self.0.delete_obsolete_files();
    }
}

impl DbInner {
    /// Makes a checkpoint in the new directory `target`.
    ///
    /// # Errors
    /// InvalidArgument if `target` exists; Aborted while the database resumes from a failed log;
    /// the background error; I/O. The target does not exist after an error.
    pub(crate) fn checkpoint(self: &Arc<Self>, target: &Path) -> Result<()> {
        self.check_writable()?;
        self.mark.check_may_wait()?;
        if self.fs.exists(target)? {
            return Err(Error::invalid_argument("Directory exists"));
        }
        let staging = staging_dir(target)?;
        self.info(format_args!(
            "Started the snapshot process -- creating snapshot in directory {}",
            target.display()
        ));
        self.remove_staging(&staging)?;
        let result = self.fill(&staging).and_then(|sequence| {
            self.fs.rename(&staging, target)?;
            self.fs.sync_dir(parent_of(target))?;
            Ok(sequence)
        });
        match result {
            Ok(sequence) => {
                self.info(format_args!("Snapshot DONE. All is good"));
                self.info(format_args!("Snapshot sequence number: {sequence}"));
                Ok(())
            }
            Err(error) => {
                self.info(format_args!("Snapshot failed -- {error}"));
                // What stays behind is removed by the next try.
                drop(self.remove_staging(&staging));
                Err(error)
            }
        }
    }

    /// Copies a moment into `staging`, durably; returns its sequence number.
    fn fill(self: &Arc<Self>, staging: &Path) -> Result<u64> {
        let _keep = KeepFiles::new(self);
        let ids = all_ids(&self.state.lock());
        // Only shortens the logs to copy, so that opening the checkpoint is fast.
        self.flush_families(&FlushOptions { wait: true, allow_write_stall: true }, &ids)?;
        let moment = self.note_moment()?;
        create_dir_durably(&*self.fs, staging, false)?;
        let mut linking = true;
        for &number in &moment.tables {
            let from = filename::table_file(&self.path, number);
            self.link_or_copy(&from, &filename::table_file(staging, number), &mut linking)?;
        }
        let (manifest, bytes) = moment.manifest;
        let from = filename::manifest_file(&self.path, manifest);
        self.copy(&from, &filename::manifest_file(staging, manifest), bytes)?;
        if moment.options != 0 {
            let from = filename::options_file(&self.path, moment.options);
            let bytes = self.fs.file_size(&from)?;
            self.copy(&from, &filename::options_file(staging, moment.options), bytes)?;
        }
        let wal_dir = self.wal_dir();
        for &(number, bytes) in &moment.logs {
            let from = filename::log_file(&wal_dir, number);
            self.copy(&from, &filename::log_file(staging, number), bytes)?;
        }
        // The last file makes it a database; this also makes all the names durable.
        filename::set_current_file(&*self.fs, staging, manifest, true)?;
        Ok(moment.sequence)
    }

    /// The files that make up the present state. Under the MANIFEST lock no version changes and so
    /// no log becomes unnecessary.
    fn note_moment(&self) -> Result<Moment> {
        let manifest = self.manifest.lock();
        if manifest.broken {
            return Err(Error::io_message("the MANIFEST failed; resume the database first"));
        }
        if manifest.held {
            // The MANIFEST lacks what was flushed since, and the failed log may hold what was
            // refused.
            return Err(Error::aborted("the database is recovering from a failed log"));
        }
        let path = filename::manifest_file(&self.path, manifest.number);
        let manifest_bytes = self.fs.file_size(&path)?;
        let (tables, options) = {
            let state = self.state.lock();
            let files = state.cfs.values().flat_map(|cf| cf.files().map(|f| f.number));
            (files.collect(), state.options_file_number)
        };
        let mut wal = self.wal.lock();
        wal.flush(false)?;
        Ok(Moment {
            tables,
            manifest: (manifest.number, manifest_bytes),
            options,
            logs: wal.live(),
            sequence: self.last_sequence.load(Ordering::Acquire),
        })
    }

    /// Gives a table file a second name, or copies it once links have turned out impossible.
    pub(super) fn link_or_copy(&self, from: &Path, to: &Path, linking: &mut bool) -> Result<()> {
        if *linking {
            match self.fs.link(from, to) {
                Err(error) if is_unlinkable(&error) => *linking = false,
                result => return result,
            }
        }
        self.copy(from, to, self.fs.file_size(from)?)
    }

    /// Copies the first `bytes` bytes of a file, durably.
    fn copy(&self, from: &Path, to: &Path, bytes: u64) -> Result<()> {
        transfer::copy(&*self.fs, false, (from, bytes), to, &|| Ok(()))
    }

    /// Removes what an earlier try left.
    fn remove_staging(&self, staging: &Path) -> Result<()> {
        if !self.fs.exists(staging)? {
            return Ok(());
        }
        for name in self.fs.list(staging)? {
            self.fs.remove(&staging.join(name))?;
        }
        self.fs.remove_dir(staging)
    }
}

/// The two names are on different file systems, or theirs has no links.
pub(crate) fn is_unlinkable(error: &Error) -> bool {
    error.kind() == ErrorKind::NotSupported
        || matches!(error.os_error(), Some(EXDEV | EPERM | EOPNOTSUPP))
}

/// `<target>.tmp`, beside the target so that the rename is one step.
fn staging_dir(target: &Path) -> Result<PathBuf> {
    let Some(name) = target.file_name() else {
        return Err(Error::invalid_argument(format!(
            "invalid checkpoint directory name: {}",
            target.display()
        )));
    };
    let mut name = name.to_os_string();
    name.push(".tmp");
    Ok(target.with_file_name(name))
}
