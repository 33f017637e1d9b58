//! Makes a repaired database the one that opens.
//!
//! Order: the tables exist and are synced; files to be removed get a second name in `lost`; the new
//! MANIFEST is written and synced; CURRENT names it; the old names are removed. So at every moment
//! the directory holds either the database as it was, with all its files, or the repaired one, and
//! everything else is in `lost`. If files cannot have two names, they are renamed after the change
//! of CURRENT.
//!
//! Thread safety: the caller holds the lock of the database. Suspends on I/O.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pumice_base::{FileNumber, Result, SequenceNumber};
use pumice_env::{
    BufferedWriter, FileOptions, FileSystem, create_dir_durably, filename, parent_of, write_file,
};
use pumice_manifest::{FileMetaData, VersionEdit};
use pumice_wal::LogWriter;

use crate::repair::blobs::PlannedBlobs;
use crate::repair::context::{Family, RepairContext};
use crate::repair::repaired_tables::Outputs;

/// Directory for unusable files, as in RocksDB.
pub(super) const LOST: &str = "lost";
/// Bytes that are compared at a time.
const CHUNK_BYTES: usize = 1 << 16;

/// A column family of the repaired database.
pub(super) struct PlannedFamily {
    pub family: Family,
    pub files: Vec<(usize, Arc<FileMetaData>)>,
    pub cursors: Vec<(usize, Vec<u8>)>,
    pub blobs: PlannedBlobs,
}

/// The repaired database.
pub(super) struct Plan {
    pub families: Vec<PlannedFamily>,
    pub min_log: FileNumber,
    /// An empty log to create: the data of the others is in tables.
    pub new_log: Option<FileNumber>,
    pub last_sequence: SequenceNumber,
    pub max_family: u32,
    pub db_id: Option<String>,
    /// Files to move to `lost`.
    pub retire: Vec<PathBuf>,
    /// Files that the repair wrote and whose data is now in other tables.
    pub remove: Vec<PathBuf>,
}

/// See the module head.
///
/// # Errors
/// I/O. Unless CURRENT was reached, nothing has changed.
pub(super) fn install(
    context: &RepairContext<'_>,
    outputs: &mut Outputs<'_>,
    plan: &Plan,
) -> Result<()> {
    let dirs: BTreeSet<&Path> = plan.retire.iter().map(|path| parent_of(path)).collect();
    for dir in &dirs {
        create_dir_durably(&**context.fs, &dir.join(LOST), true)?;
    }
    let mut linked = BTreeSet::new();
    for path in &plan.retire {
        if second_name(&**context.fs, path)? {
            linked.insert(path);
        }
    }
    for dir in &dirs {
        context.fs.sync_dir(&dir.join(LOST))?;
    }
    if let Some(log) = plan.new_log {
        let log = filename::log_file(&context.wal_dir, log);
        outputs.written.push(log.clone());
        write_file(&**context.fs, &log, b"", true)?;
        context.fs.sync_dir(&context.wal_dir)?;
    }
    let (number, next_file) = (outputs.new_number(), outputs.new_number());
    let manifest = filename::manifest_file(context.dir, number);
    outputs.written.push(manifest.clone());
    write_manifest(context, &manifest, number, &plan.edits(next_file))?;
    context.fs.sync_dir(context.dir)?;
    let how = FileOptions::default();
    filename::prepare_current_file(&**context.fs, context.dir, number, true, &how)?;
    // From here until the call returns it is unknown which of the two opens.
    outputs.written.clear();
    filename::rename_current_file(&**context.fs, context.dir, number, true)?;
    for path in &plan.retire {
        match linked.contains(path) {
            true => context.fs.remove(path)?,
            false => context.fs.rename(path, &lost_name(&**context.fs, path)?)?,
        }
    }
    for path in &plan.remove {
        context.fs.remove(path)?;
    }
    for dir in dirs {
        context.fs.sync_dir(&dir.join(LOST))?;
        context.fs.sync_dir(dir)?;
    }
    Ok(())
}

fn write_manifest(
    context: &RepairContext<'_>,
    path: &Path,
    number: FileNumber,
    edits: &[VersionEdit],
) -> Result<()> {
    let file = context.fs.create(path, &FileOptions::default())?;
    let file = BufferedWriter::new(file, context.db.manifest_writer());
    let mut writer = LogWriter::new(file, number, false, true);
    for edit in edits {
        writer.add_record(&edit.encode())?;
    }
    writer.flush()?;
    if context.db.use_fsync {
        writer.fsync()?
    } else {
        writer.sync()?
    }
    writer.close()
}

impl Plan {
    /// Edits that describe the whole database. Only the last has the next file number, without
    /// which no reader accepts a MANIFEST.
    fn edits(&self, next_file: FileNumber) -> Vec<VersionEdit> {
        let mut edits = Vec::new();
        if self.db_id.is_some() {
            edits.push(VersionEdit { db_id: self.db_id.clone(), ..VersionEdit::default() });
        }
        for PlannedFamily { family, files, cursors, blobs } in &self.families {
            let id = family.id;
            edits.push(VersionEdit {
                comparator: Some(family.options.comparator.name().to_string()),
                persist_user_defined_timestamps: family
                    .options
                    .strips_timestamps()
                    .then_some(false),
                column_family: id,
                add_column_family: (id != 0).then(|| family.name.clone()),
                ..VersionEdit::default()
            });
            edits.push(VersionEdit {
                column_family: id,
                log_number: Some(family.log_number),
                full_history_ts_low: family.low.clone(),
                new_files: files.clone(),
                compact_cursors: cursors.clone(),
                blob_additions: blobs.additions.clone(),
                blob_garbage: blobs.garbage.clone(),
                ..VersionEdit::default()
            });
        }
        edits.push(VersionEdit {
            prev_log_number: Some(0),
            next_file_number: Some(next_file),
            last_sequence: Some(self.last_sequence),
            min_log_number_to_keep: Some(self.min_log),
            max_column_family: Some(self.max_family),
            ..VersionEdit::default()
        });
        edits
    }
}

/// Gives a file a second name in `lost`, unless it has one; false if it cannot have two.
fn second_name(fs: &dyn FileSystem, path: &Path) -> Result<bool> {
    match former_name(fs, path)? {
        Some(_) => Ok(true),
        None => Ok(fs.link(path, &lost_name(fs, path)?).is_ok()),
    }
}

/// The names that a file may get in `lost`.
fn names(path: &Path) -> impl Iterator<Item = PathBuf> {
    let lost = parent_of(path).join(LOST);
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    (0u64..).map(move |n| lost.join(if n == 0 { name.clone() } else { format!("{name}.{n}") }))
}

/// An unused name for it in `lost`.
fn lost_name(fs: &dyn FileSystem, path: &Path) -> Result<PathBuf> {
    for name in names(path) {
        if !fs.exists(&name)? {
            return Ok(name);
        }
    }
    unreachable!("there are names without end")
}

/// The name in `lost` that an unfinished repair has given it.
fn former_name(fs: &dyn FileSystem, path: &Path) -> Result<Option<PathBuf>> {
    for name in names(path) {
        if !fs.exists(&name)? {
            return Ok(None);
        }
        if same_bytes(fs, path, &name)? {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

/// An unreadable file equals no other.
fn same_bytes(fs: &dyn FileSystem, a: &Path, b: &Path) -> Result<bool> {
    if fs.file_size(a)? != fs.file_size(b)? {
        return Ok(false);
    }
    let (Ok(mut a), Ok(mut b)) = (fs.open_sequential(a), fs.open_sequential(b)) else {
        return Ok(false);
    };
    let (mut left, mut right) = (vec![0; CHUNK_BYTES], vec![0; CHUNK_BYTES]);
    loop {
        let (Ok(n), Ok(m)) = (a.read(&mut left), b.read(&mut right)) else { return Ok(false) };
        if n != m || left[..n] != right[..m] {
            return Ok(false);
        }
        if n == 0 {
            return Ok(true);
        }
    }
}
