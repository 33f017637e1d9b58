//! The MANIFEST as a log of version edits, and the one way to change a version.
//!
//! `DbInner::apply_edits` is the only place where a version is replaced: it builds the new
//! versions, makes the edits durable, then installs both under the state lock. An edit that depends
//! on the version is built under the lock under which it is applied, `DbInner::change_versions`. A
//! fresh MANIFEST starts with a snapshot of all column families and takes effect when CURRENT names
//! it, so that whatever is appended before that is atomic.
//!
//! After a failed write or sync the file's tail is unknown: the writer is dropped, no file may be
//! deleted that an edit named (`ManifestLog::broken`), and the next change starts a new MANIFEST.
//!
//! Thread safety: `ManifestLog` belongs to the lock `DbInner::manifest`. Suspends.

use pumice_base::narrow::len_u32;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use pumice_base::{Error, FileNumber, Result};
use pumice_env::{BufferedWriter, FileOptions, filename};
use pumice_manifest::{FileMetaData, Version, VersionBuilder, VersionEdit};
use pumice_port::sync::MutexGuard;
use pumice_wal::LogWriter;

use crate::engine::family_state::CfState;
use crate::engine::{DbInner, DbState};
use crate::stats::{HistogramKind, Record};

/// See the module head.
#[derive(Default)]
pub(crate) struct ManifestLog {
    writer: Option<LogWriter>,
    /// Number of the MANIFEST that CURRENT names.
    pub number: FileNumber,
    /// The last write failed: what recovery would read is unknown.
    pub broken: bool,
    /// Changes of files take effect in memory only, until `release` (see `hold`).
    pub held: bool,
    /// What a failed log should have held is in no MANIFEST yet: from `hold` until a change after
    /// `release` is durable.
    pub lacks_failed_log: bool,
    started: bool,
    /// The database is closed: another process may own the directory.
    closed: bool,
}

impl ManifestLog {
    /// A MANIFEST of this open is there, and CURRENT names it.
    pub fn is_started(&self) -> bool {
        self.started
    }

    /// The next change starts a new MANIFEST in place of `number`.
    pub fn replacing(number: FileNumber) -> Self {
        ManifestLog { number, ..ManifestLog::default() }
    }

    /// A log has failed whose records are not durable. Its batches are being flushed family by
    /// family, and no part of a batch may be durable without the others: changes become durable
    /// together, in the MANIFEST that is started after `release`. No file that an edit named is
    /// deleted until then.
    pub fn hold(&mut self) {
        self.held = true;
        self.lacks_failed_log = true;
    }

    /// Everything that was held back goes into the next MANIFEST, which the next change starts.
    /// Until that is durable the present one counts as broken: it lacks what was held back.
    /// Whether anything was.
    pub fn release(&mut self) -> bool {
        let held = std::mem::take(&mut self.held);
        if held {
            self.writer = None;
            self.broken = true;
        }
        held
    }

    /// Refuses changes of a closed database. Code that writes files outside of jobs asks here and
    /// keeps the lock while it writes.
    pub fn check_open(&self) -> Result<()> {
        if self.closed { Err(Error::shutdown("the database is closed")) } else { Ok(()) }
    }

    /// Refuses changes while they would take effect in memory only (see [`Self::hold`]): for calls
    /// that promise their effect.
    pub fn check_lasting(&self) -> Result<()> {
        self.check_open()?;
        if self.held { Err(recovering()) } else { Ok(()) }
    }
}

/// Edits for several column families that take effect together.
#[derive(Default)]
pub(crate) struct EditGroup {
    pub edits: Vec<VersionEdit>,
    /// Files that the edits take out of a version, filled in while they are applied.
    pub removed: Vec<(u32, Arc<FileMetaData>)>,
}

impl From<VersionEdit> for EditGroup {
    fn from(edit: VersionEdit) -> Self {
        EditGroup { edits: vec![edit], removed: Vec::new() }
    }
}

impl From<Vec<VersionEdit>> for EditGroup {
    fn from(edits: Vec<VersionEdit>) -> Self {
        EditGroup { edits, removed: Vec::new() }
    }
}

impl DbInner {
    /// Takes the MANIFEST lock, lets `build` make edits of the state as it is then, and applies
    /// them. No version changes in between. Does nothing if there are none. Suspends.
    ///
    /// # Errors
    /// Of `build`, and as [`DbInner::apply_edits`].
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
    /// Corruption if the edits do not fit the versions, ColumnFamilyDropped if theirs is gone:
    /// nothing has happened then. I/O errors of the MANIFEST, after which nothing has changed in
    /// memory and what is on disk is unknown.
    pub(crate) fn apply_edits(
        &self,
        manifest: &mut MutexGuard<'_, ManifestLog>,
        mut group: EditGroup,
        install: impl FnOnce(&mut DbState),
    ) -> Result<()> {
        let mut versions = Vec::with_capacity(group.edits.len());
        {
            let state = self.state.lock();
            for edit in &group.edits {
                let cf = match state.cfs.get(&edit.column_family) {
                    Some(cf) => cf,
                    None if edit.add_column_family.is_some() => {
                        versions.push(None);
                        continue;
                    }
                    // Recovery would refuse a MANIFEST that goes on about it.
                    None => return Err(Error::column_family_dropped("")),
                };
                versions.push(next_version(cf, edit)?);
                let removed = edit.deleted_files.iter();
                let found = removed.filter_map(|(_, number)| cf.version.find_by_number(*number));
                group.removed.extend(found.map(|(_, file)| (cf.data.id, Arc::clone(file))));
            }
            self.complete(&state, &mut group);
        }
        self.persist(manifest, &group)?;
        let mut state = self.state.lock();
        for (edit, version) in group.edits.iter().zip(versions) {
            let Some(cf) = state.cfs.get_mut(&edit.column_family) else { continue };
            cf.log_number = cf.log_number.max(edit.log_number.unwrap_or(0));
            if let Some(version) = version {
                cf.version = version;
                self.refresh_scores(cf);
            }
        }
        let before: Vec<_> = group.edits.iter().map(|e| e.column_family).collect();
        install(&mut state);
        for id in before {
            if let Some(cf) = state.cfs.get_mut(&id) {
                cf.publish();
                self.update_stall(cf);
            }
        }
        if let Some(min_log) = group.edits.iter().filter_map(|e| e.min_log_number_to_keep).max() {
            state.files.min_log_to_keep = state.files.min_log_to_keep.max(min_log);
        }
        self.collect_obsolete(&mut state, &group);
        // A stall that begins ends the deferral of compactions.
        self.schedule_background(&mut state);
        self.changed.notify_all();
        Ok(())
    }

    /// Fills in what every edit carries.
    fn complete(&self, state: &DbState, group: &mut EditGroup) {
        let next_file = self.next_file_number.load(Ordering::Relaxed);
        let last_sequence = self.last_sequence.load(Ordering::Acquire);
        let log_number_of = |cf: &CfState, edits: &[VersionEdit]| {
            let edited = edits.iter().filter(|e| e.column_family == cf.data.id);
            edited.filter_map(|e| e.log_number).max().unwrap_or(0).max(cf.log_number)
        };
        let has_log = group.edits.iter().any(|e| e.log_number.is_some());
        let min_log = state
            .cfs
            .values()
            .filter(|cf| !cf.data.is_dropped())
            .map(|cf| log_number_of(cf, &group.edits))
            .min();
        let members = group.edits.len();
        for (index, edit) in group.edits.iter_mut().enumerate() {
            edit.prev_log_number = Some(0);
            edit.next_file_number = Some(next_file);
            edit.last_sequence = Some(edit.last_sequence.unwrap_or(0).max(last_sequence));
            if members > 1 {
                edit.atomic_group_remaining = Some(len_u32(members - 1 - index));
            }
            if has_log && index + 1 == members {
                edit.min_log_number_to_keep = min_log;
            }
        }
    }

    /// Writes and syncs the edits, on a new MANIFEST if there is none to append to. While changes
    /// are held back only the end of a column family is written, which makes no part of a batch
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
        let limit = self.options().max_manifest_file_size;
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
            self.info(format_args!("MANIFEST write failed: {error}"));
        } else {
            manifest.broken = false;
            manifest.lacks_failed_log = manifest.held;
        }
        result
    }

    /// A log that edits name is there whenever they are: its name becomes durable first. That tells
    /// an edit that was torn from one that had effect (`open::check_logs`). Syncing the directory
    /// of new tables has done it, where that is the logs' too.
    fn name_logs(&self, edits: &[VersionEdit]) -> Result<()> {
        let dir = self.wal_dir();
        let done = |edit: &VersionEdit| !edit.new_files.is_empty() && dir == self.dir.path;
        match edits.iter().any(|edit| edit.log_number.is_some() && !done(edit)) {
            true => self.dir.fs.sync_dir(&dir),
            false => Ok(()),
        }
    }

    /// Writes a new MANIFEST: snapshot, `edits`, sync, CURRENT.
    fn start_manifest(&self, manifest: &mut ManifestLog, edits: &[VersionEdit]) -> Result<()> {
        let number = self.new_file_number();
        self.info(format_args!("Creating manifest {number}"));
        let mut snapshot = self.manifest_snapshot(&self.state.lock());
        let mut edits = edits.to_vec();
        // The MANIFEST's own number lies below the next free one.
        let next_file = self.next_file_number.load(Ordering::Relaxed);
        for edit in snapshot.iter_mut().chain(&mut edits) {
            if edit.next_file_number.is_some() {
                edit.next_file_number = Some(next_file);
            }
        }
        let path = filename::manifest_file(&self.dir.path, number);
        let written = self.write_manifest(&path, number, &snapshot, &edits);
        // Nothing names it: it only takes room that the next one may need.
        let prepared = written.and_then(|writer| {
            filename::prepare_current_file(&*self.dir.fs, &self.dir.path, number, true)?;
            Ok(writer)
        });
        let writer = prepared.inspect_err(|_| self.delete_file(&path))?;
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
        let file = self.dir.fs.create(path, &FileOptions::default())?;
        let file = BufferedWriter::new(file, self.options().manifest_writer());
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
        let synced = if self.options().use_fsync { writer.fsync() } else { writer.sync() };
        timer.stop(&self.reports.statistics, HistogramKind::ManifestFileSyncMicros);
        synced
    }

    /// Edits that describe the present state from nothing.
    fn manifest_snapshot(&self, state: &DbState) -> Vec<VersionEdit> {
        let mut edits = Vec::new();
        if self.options().write_dbid_to_manifest {
            edits.push(VersionEdit {
                db_id: Some(self.dir.db_id.clone()),
                ..VersionEdit::default()
            });
        }
        let last_sequence = self.last_sequence.load(Ordering::Acquire);
        for cf in state.cfs.values().filter(|cf| !cf.data.is_dropped()) {
            let id = cf.data.id;
            edits.push(VersionEdit {
                comparator: Some(cf.data.comparator().name().to_string()),
                column_family: id,
                add_column_family: (id != 0).then(|| cf.data.name.clone()),
                ..VersionEdit::default()
            });
            let mut files = VersionEdit {
                column_family: id,
                log_number: Some(cf.log_number),
                last_sequence: Some(last_sequence),
                prev_log_number: Some(0),
                next_file_number: Some(0),
                ..VersionEdit::default()
            };
            for (level, file) in cf.version.all_files() {
                files.new_files.push((level, Arc::clone(file)));
            }
            for (level, key) in cf.version.compact_cursors() {
                files.compact_cursors.push((*level, key.clone()));
            }
            if id == 0 {
                files.min_log_number_to_keep = Some(state.files.min_log_to_keep);
                files.max_column_family = Some(state.max_column_family);
            }
            edits.push(files);
        }
        edits
    }

    /// Closes the MANIFEST. Suspends.
    pub(crate) fn close_manifest(&self) -> Result<()> {
        let mut manifest = self.manifest.lock();
        manifest.closed = true;
        match manifest.writer.take() {
            Some(mut writer) => writer.close(),
            None => Ok(()),
        }
    }
}

fn recovering() -> Error {
    Error::aborted("the database is recovering from a failed log")
}

/// The version that `edit` makes of its column family's; None if it touches no file.
fn next_version(cf: &CfState, edit: &VersionEdit) -> Result<Option<Arc<Version>>> {
    if edit.new_files.is_empty() && edit.deleted_files.is_empty() {
        return Ok(None);
    }
    let mut builder = VersionBuilder::new(Arc::clone(&cf.version));
    builder.apply(edit)?;
    Ok(Some(builder.build()?))
}

fn append(writer: &mut LogWriter, edits: &[VersionEdit]) -> Result<()> {
    for edit in edits {
        let record = edit.encode();
        if record.is_empty() {
            return Err(Error::corruption("refusing to write an empty version edit"));
        }
        writer.add_record(&record)?;
    }
    writer.flush()
}
