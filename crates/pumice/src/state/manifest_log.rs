//! The state of the MANIFEST as a log of version edits, and edits that take effect together.
//!
//! How they are applied is `engine::versions`. After a failed write or sync the file's tail is
//! unknown: the writer is dropped, no file may be deleted that an edit named
//! (`ManifestLog::broken`), and the next change starts a new MANIFEST.
//!
//! Thread safety: `ManifestLog` belongs to the MANIFEST lock.

use std::sync::Arc;

use pumice_base::narrow::len_u32;
use pumice_base::{Error, FileNumber, Result};
use pumice_manifest::blob::SharedBlobFile;
use pumice_manifest::{FileMetaData, Version, VersionBuilder, VersionEdit};
use pumice_wal::LogWriter;

use crate::state::DbState;
use crate::state::family::CfState;
use crate::version::charges::charge_metadata;
use crate::version::family::CfData;

/// See the module head.
#[derive(Default)]
pub(crate) struct ManifestLog {
    pub writer: Option<LogWriter>,
    /// Number of the MANIFEST that CURRENT names.
    pub number: FileNumber,
    /// The last write failed: what recovery would read is unknown.
    pub broken: bool,
    /// Changes of files take effect in memory only, until `release` (see `hold`).
    pub held: bool,
    /// Data that a failed log should have held is in no MANIFEST yet: from `hold` until a change
    /// after `release` is durable.
    pub lacks_failed_log: bool,
    pub started: bool,
    /// The database is closed: another process may own the directory.
    pub closed: bool,
}

impl ManifestLog {
    /// This open has its own MANIFEST, and CURRENT names it.
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
    /// Until that is durable the present one counts as broken: it lacks the held back changes.
    /// Returns whether there were any.
    pub fn release(&mut self) -> bool {
        let held = std::mem::take(&mut self.held);
        if held {
            self.writer = None;
            self.broken = true;
        }
        held
    }

    /// Refuses changes of a closed database. Code that writes files outside of jobs checks here and
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
    /// Files that the edits remove from a version, filled in while they are applied.
    pub removed: Vec<(Arc<CfData>, Arc<FileMetaData>)>,
    /// Blob files that the versions do not need any more, filled in while edits are applied.
    pub removed_blobs: Vec<(Arc<CfData>, Arc<SharedBlobFile>)>,
}

impl From<VersionEdit> for EditGroup {
    fn from(edit: VersionEdit) -> Self {
        EditGroup { edits: vec![edit], ..EditGroup::default() }
    }
}

impl From<Vec<VersionEdit>> for EditGroup {
    fn from(edits: Vec<VersionEdit>) -> Self {
        EditGroup { edits, ..EditGroup::default() }
    }
}

pub(crate) fn recovering() -> Error {
    Error::aborted("the database is recovering from a failed log")
}

/// The column family's version after `edit`, whose files are charged; None if it touches no file
/// and no history.
pub(crate) fn next_version(cf: &CfState, edit: &VersionEdit) -> Result<Option<Arc<Version>>> {
    let blobs = !edit.blob_additions.is_empty() || !edit.blob_garbage.is_empty();
    let files = !edit.new_files.is_empty() || !edit.deleted_files.is_empty();
    if !files && !blobs && edit.full_history_ts_low.is_none() {
        return Ok(None);
    }
    let mut builder = VersionBuilder::new(Arc::clone(&cf.version));
    builder.apply(edit)?;
    let next = builder.build()?;
    charge_metadata(&cf.data.table_options(), &next)?;
    Ok(Some(next))
}

pub(crate) fn append(writer: &mut LogWriter, edits: &[VersionEdit]) -> Result<()> {
    for edit in edits {
        let record = edit.encode();
        if record.is_empty() {
            return Err(Error::corruption("refusing to write an empty version edit"));
        }
        writer.add_record(&record)?;
    }
    writer.flush()
}

impl ManifestLog {
    /// Closes the MANIFEST. Suspends.
    pub fn close(&mut self) -> Result<()> {
        self.closed = true;
        match self.writer.take() {
            Some(mut writer) => writer.close(),
            None => Ok(()),
        }
    }
}

impl EditGroup {
    /// Notes the blob files of `old`, a version of `cf`, that `new` has not.
    pub fn note_removed_blobs(&mut self, cf: &Arc<CfData>, old: &Version, new: &Version) {
        let gone =
            old.blob_files().iter().filter(|(number, _)| !new.blob_files().contains_key(number));
        let gone = gone.map(|(_, blob)| (Arc::clone(cf), Arc::clone(&blob.shared)));
        self.removed_blobs.extend(gone);
    }

    /// Fills in the fields common to every edit.
    pub fn complete(&mut self, state: &DbState, next_file: FileNumber, last_sequence: u64) {
        let has_log = self.edits.iter().any(|e| e.log_number.is_some());
        let min_log = state.oldest_needed_log(&self.edits);
        let members = self.edits.len();
        for (index, edit) in self.edits.iter_mut().enumerate() {
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
}

impl DbState {
    /// Edits that describe the whole present state. `db_id` is the identity to record, if any.
    pub fn snapshot_edits(&self, db_id: Option<String>, last_sequence: u64) -> Vec<VersionEdit> {
        let mut edits = Vec::new();
        if db_id.is_some() {
            edits.push(VersionEdit { db_id, ..VersionEdit::default() });
        }
        for cf in self.cfs.values().filter(|cf| !cf.data.is_dropped()) {
            let id = cf.data.id;
            edits.push(VersionEdit {
                comparator: Some(cf.data.comparator().name().to_string()),
                persist_user_defined_timestamps: cf.data.table_keys.stripped.then_some(false),
                column_family: id,
                add_column_family: (id != 0).then(|| cf.data.name.clone()),
                ..VersionEdit::default()
            });
            let mut files = VersionEdit {
                column_family: id,
                log_number: Some(cf.log_number),
                last_sequence: Some(last_sequence),
                prev_log_number: Some(0),
                ..VersionEdit::default()
            };
            files.full_history_ts_low = cf.version.full_history_ts_low().map(|low| low.to_vec());
            for (level, file) in cf.version.all_files() {
                files.new_files.push((level, Arc::clone(file)));
            }
            for blob in cf.version.blob_files().values() {
                files.blob_additions.push(blob.addition().clone());
                files.blob_garbage.extend(blob.garbage());
            }
            for (level, key) in cf.version.compact_cursors() {
                files.compact_cursors.push((*level, key.clone()));
            }
            if id == 0 {
                files.min_log_number_to_keep = Some(self.files.min_log_to_keep);
                files.max_column_family = Some(self.max_column_family);
            }
            edits.push(files);
        }
        edits
    }
}
