//! The MANIFEST as a log of version edits, and the one way to change a version.
//!
//! [`Versions::apply_edits`] is the only place where a version is replaced: it builds the new
//! versions, makes the edits durable, then installs both under the state lock. An edit that depends
//! on the version is built under the lock under which it is applied
//! ([`Versions::change_versions`]). A fresh MANIFEST starts with a snapshot of all column families
//! and takes effect when CURRENT names it, so that everything appended before that is atomic.
//!
//! After a failed write or sync the file's tail is unknown: the writer is dropped, no file may be
//! deleted that an edit named (`ManifestLog::broken`), and the next change starts a new MANIFEST.
//!
//! Thread safety: from any thread; the log's state (`state::manifest_log`) is under the lock
//! `DbInner::manifest`. Suspends.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pumice_base::{Error, FileNumber, Result};
use pumice_env::filename::TableDirs;
use pumice_env::{BufferedWriter, filename};
use pumice_manifest::VersionEdit;
use pumice_port::sync::{Condvar, Mutex, MutexGuard};
use pumice_wal::LogWriter;

use crate::engine::DbInner;
use crate::engine::deletion::Deleter;
use crate::engine::life::Life;
use crate::engine::scheduler::Scheduler;
use crate::state::DbState;
use crate::state::manifest_log::{EditGroup, ManifestLog, append, next_version, recovering};
use crate::state::parts::{Directory, FileNumbers, Logs, Settings};
use crate::state::reports::Reports;
use crate::stats::{HistogramKind, Record};

/// The parts of a database that a change of its versions concerns, and no others.
pub(crate) struct Versions<'a> {
    pub(super) dir: &'a Directory,
    pub(super) state: &'a Mutex<DbState>,
    pub(super) logs: &'a Logs,
    pub(super) life: &'a Life,
    settings: &'a Settings,
    reports: &'a Reports,
    changed: &'a Condvar,
    manifest: &'a Mutex<ManifestLog>,
    last_sequence: &'a AtomicU64,
    file_numbers: &'a FileNumbers,
    scheduler: Scheduler<'a>,
    deleter: Deleter<'a>,
}

impl DbInner {
    /// Its versions, and the MANIFEST.
    pub(crate) fn versions(&self) -> Versions<'_> {
        Versions {
            dir: &self.dir,
            state: &self.state,
            logs: &self.logs,
            life: &self.life,
            settings: &self.settings,
            reports: &self.reports,
            changed: &self.changed,
            manifest: &self.manifest,
            last_sequence: &self.last_sequence,
            file_numbers: &self.file_numbers,
            scheduler: self.scheduler(),
            deleter: self.deleter(),
        }
    }
}

impl Versions<'_> {
    /// Takes the MANIFEST lock, lets `build` make edits from the state at that moment, and applies
    /// them. No version changes in between. Does nothing if there are none. Suspends.
    ///
    /// # Errors
    /// Of `build`, and as [`Versions::apply_edits`].
    pub(crate) fn change_versions(
        &self,
        build: impl FnOnce(&mut DbState) -> Result<EditGroup>,
        install: impl FnOnce(&mut DbState),
    ) -> Result<()> {
        let mut manifest = self.manifest.lock();
        let group = build(&mut self.state.lock())?;
        match group.edits.is_empty() {
            true => Ok(()),
            false => self.apply_edits(&mut manifest, group, install),
        }
    }

    /// Makes `group` durable and current; its edits were built since the lock was taken. `install`
    /// runs under the state lock right after the new versions are in place and before readers see
    /// them. Suspends.
    ///
    /// # Errors
    /// Corruption if the edits do not fit the versions, ColumnFamilyDropped if their column family
    /// is gone: nothing has happened then. I/O errors of the MANIFEST, after which nothing has
    /// changed in memory and what is on disk is unknown.
    pub(crate) fn apply_edits(
        &self,
        manifest: &mut MutexGuard<'_, ManifestLog>,
        mut group: EditGroup,
        install: impl FnOnce(&mut DbState),
    ) -> Result<()> {
        let mut versions = Vec::with_capacity(group.edits.len());
        let mut gone = Vec::new();
        {
            let state = self.state.lock();
            for edit in &group.edits {
                let cf = match state.cfs.get(&edit.column_family) {
                    Some(cf) => cf,
                    None if edit.add_column_family.is_some() => {
                        versions.push(None);
                        continue;
                    }
                    // Recovery would refuse a MANIFEST with further edits of a dropped family.
                    None => return Err(Error::column_family_dropped("")),
                };
                let next = next_version(cf, edit)?;
                if let Some(next) = &next {
                    gone.push((Arc::clone(&cf.data), Arc::clone(&cf.version), Arc::clone(next)));
                }
                versions.push(next);
                let removed = edit.deleted_files.iter();
                let found = removed.filter_map(|(_, number)| cf.version.find_by_number(*number));
                group
                    .removed
                    .extend(found.map(|(_, file)| (Arc::clone(&cf.data), Arc::clone(file))));
            }
            gone.iter().for_each(|(cf, old, new)| group.note_removed_blobs(cf, old, new));
            let next_file = self.file_numbers.next_free();
            group.complete(&state, next_file, self.last_sequence.load(Ordering::Acquire));
        }
        self.persist(manifest, &group)?;
        let mut state = self.state.lock();
        for (edit, version) in group.edits.iter().zip(versions) {
            let Some(cf) = state.cfs.get_mut(&edit.column_family) else { continue };
            cf.log_number = cf.log_number.max(edit.log_number.unwrap_or(0));
            if let Some(version) = version {
                cf.version = version;
                self.scheduler.refresh_scores(cf);
            }
        }
        let before: Vec<_> = group.edits.iter().map(|e| e.column_family).collect();
        install(&mut state);
        for id in before {
            if let Some(cf) = state.cfs.get_mut(&id) {
                cf.publish();
                self.scheduler.update_stall(cf);
            }
        }
        if let Some(min_log) = group.edits.iter().filter_map(|e| e.min_log_number_to_keep).max() {
            state.files.min_log_to_keep = state.files.min_log_to_keep.max(min_log);
        }
        self.collect_obsolete(&mut state, &group);
        // A stall that begins ends the deferral of compactions.
        self.scheduler.schedule_background(&mut state);
        self.changed.notify_all();
        Ok(())
    }

    /// Writes and syncs the edits, on a new MANIFEST if there is none to append to. While changes
    /// are held back only the drop of a column family is written, which makes no part of a batch
    /// durable; a new MANIFEST would.
    fn persist(&self, manifest: &mut ManifestLog, group: &EditGroup) -> Result<()> {
        manifest.check_open()?;
        let drops = group.edits.iter().any(|e| e.drop_column_family);
        if manifest.held && !drops {
            return match group.edits.iter().any(|e| e.add_column_family.is_some()) {
                true => Err(recovering()),
                false => Ok(()),
            };
        }
        self.name_logs(&group.edits)?;
        let limit = self.settings.current().max_manifest_file_size;
        if !manifest.held && manifest.writer.as_ref().is_some_and(|w| w.file_size() > limit) {
            manifest.writer = None;
        }
        let result = match manifest.writer.as_mut() {
            None if manifest.held => return Err(recovering()),
            Some(writer) => self.append_edits(writer, &group.edits),
            None => self.start_manifest(manifest, &group.edits),
        };
        if let Err(error) = &result {
            manifest.writer = None;
            manifest.broken = true;
            self.reports.info(format_args!("MANIFEST write failed: {error}"));
        } else {
            manifest.broken = false;
            manifest.lacks_failed_log = manifest.held;
        }
        result
    }

    /// Writes a new MANIFEST: snapshot, `edits`, sync, CURRENT.
    fn start_manifest(&self, manifest: &mut ManifestLog, edits: &[VersionEdit]) -> Result<()> {
        let number = self.file_numbers.next();
        self.reports.info(format_args!("Creating manifest {number}"));
        let db_id = self.settings.current().write_dbid_to_manifest.then(|| self.dir.db_id.clone());
        let last_sequence = self.last_sequence.load(Ordering::Acquire);
        let mut snapshot = self.state.lock().snapshot_edits(db_id, last_sequence);
        let mut edits = edits.to_vec();
        // The MANIFEST's own number lies below the next free one.
        let next_file = self.file_numbers.next_free();
        // Only what ends the file says it, as in RocksDB: a part of the snapshot is no MANIFEST.
        let mut is_said = false;
        for edit in edits.iter_mut().filter(|edit| edit.next_file_number.is_some()) {
            edit.next_file_number = Some(next_file);
            is_said = true;
        }
        if !is_said && let Some(last) = snapshot.last_mut() {
            last.next_file_number = Some(next_file);
        }
        let path = filename::manifest_file(&self.dir.path, number);
        let written = self.write_manifest(&path, number, &snapshot, &edits);
        // Nothing names it: it only takes space that the next one may need.
        let prepared = written.and_then(|writer| {
            let how = self.settings.current().metadata_file();
            filename::prepare_current_file(&*self.dir.fs, &self.dir.path, number, true, &how)?;
            Ok(writer)
        });
        let writer = prepared.inspect_err(|_| self.deleter.delete_file(&path))?;
        if let Err(error) =
            filename::rename_current_file(&*self.dir.fs, &self.dir.path, number, true)
        {
            self.state.lock().files.obsolete.manifest_in_doubt(number);
            return Err(error);
        }
        let old = std::mem::replace(&mut manifest.number, number);
        manifest.writer = Some(writer);
        manifest.started = true;
        if old != 0 {
            self.state.lock().files.obsolete.manifest(old);
        }
        Ok(())
    }

    fn write_manifest(
        &self,
        path: &Path,
        number: FileNumber,
        snapshot: &[VersionEdit],
        edits: &[VersionEdit],
    ) -> Result<LogWriter> {
        let options = self.settings.current();
        let file = self.dir.fs.create(path, &options.metadata_file())?;
        let file = BufferedWriter::new(file, options.manifest_writer());
        let mut writer = LogWriter::new(file, number, false, true);
        for edit in snapshot {
            writer.add_record(&edit.encode())?;
        }
        self.append_edits(&mut writer, edits)?;
        self.dir.fs.sync_dir(&self.dir.path)?;
        Ok(writer)
    }

    /// Appends `edits` and makes them durable.
    fn append_edits(&self, writer: &mut LogWriter, edits: &[VersionEdit]) -> Result<()> {
        append(writer, edits)?;
        let timer = self.reports.statistics.timer();
        let synced = if self.settings.current().use_fsync { writer.fsync() } else { writer.sync() };
        timer.stop(&self.reports.statistics, HistogramKind::ManifestFileSyncMicros);
        synced
    }
}

impl Versions<'_> {
    /// A log that edits name exists whenever they do: its name becomes durable first. That
    /// distinguishes a torn edit from one that took effect (`found_files::check_logs`). Syncing the
    /// directory of new tables has done that if the logs are in it too.
    fn name_logs(&self, edits: &[VersionEdit]) -> Result<()> {
        let dir = self.logs.dir();
        let named = {
            let state = self.state.lock();
            let is_here = |id: &u32| {
                let family = state.cfs.get(id);
                family.is_some_and(|cf| cf.data.dirs.dir(TableDirs::OWN) == dir)
            };
            let done =
                |edit: &VersionEdit| !edit.new_files.is_empty() && is_here(&edit.column_family);
            edits.iter().all(|edit| edit.log_number.is_none() || done(edit))
        };
        if named { Ok(()) } else { self.dir.fs.sync_dir(&dir) }
    }
}
