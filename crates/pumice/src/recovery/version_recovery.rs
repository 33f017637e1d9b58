//! Reads CURRENT and the MANIFEST: the state of the database after its last change.
//!
//! Every edit is replayed into one builder per column family; atomic groups count only when
//! complete; a last change that a crash tore is ignored, any other damage refuses to open. Nothing
//! is written here, so that opening with the wrong options cannot harm a database. Suspends.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Weak};

use pumice_base::key::{FILE_NUMBER_FOUND_MAX, LAST_SEQUENCE_MAX};
use pumice_base::{Comparator, Error, FileNumber, Result, SequenceNumber};
use pumice_env::{FileSystem, filename};
use pumice_manifest::blob::SharedBlobFile;
use pumice_manifest::{FileMetaData, Version, VersionBuilder, VersionEdit};

use crate::commit::two_phase::{self, PreparedSections};
use crate::options::check_order_change;
use crate::recovery::manifest_reader::{DroppedTail, for_each_edit};

/// A column family as the MANIFEST describes it.
pub(crate) struct RecoveredFamily {
    pub name: String,
    pub log_number: FileNumber,
    pub version: Arc<Version>,
}

/// A column family that is not opened: its files are known, their order is not.
pub(crate) struct UnopenedFamily {
    pub name: String,
    pub log_number: FileNumber,
    pub files: Vec<Arc<FileMetaData>>,
}

/// The database as the MANIFEST describes it.
pub(crate) struct RecoveredVersions {
    pub families: BTreeMap<u32, RecoveredFamily>,
    pub unopened: BTreeMap<u32, UnopenedFamily>,
    pub manifest_number: FileNumber,
    pub next_file_number: FileNumber,
    pub last_sequence: SequenceNumber,
    pub min_log_to_keep: FileNumber,
    pub max_column_family: u32,
    pub db_id: Option<String>,
    /// The unusable end of the MANIFEST, if any.
    pub dropped: Option<DroppedTail>,
    /// What a best-efforts recovery left out, in words.
    pub losses: Vec<String>,
}

impl RecoveredVersions {
    /// The oldest log with data that is in no table.
    pub fn oldest_log(&self) -> FileNumber {
        let opened = self.families.values().map(|family| family.log_number);
        let logs = opened.chain(self.unopened.values().map(|family| family.log_number));
        logs.min().unwrap_or(0).max(self.min_log_to_keep)
    }

    /// Refuses a database with sections of transactions that were prepared in logs that no family
    /// needs: without those logs, which an open deletes, they would be lost.
    ///
    /// # Errors
    /// NotSupported if there are any; I/O.
    pub fn check_prepared(&self, fs: &dyn FileSystem, wal_dir: &Path) -> Result<()> {
        let kept = self.min_log_to_keep..self.oldest_log();
        match PreparedSections::find(fs, wal_dir, kept)?.is_empty() {
            true => Ok(()),
            false => Err(two_phase::refused()),
        }
    }

    /// The tables of all column families, with the family's name.
    pub fn tables(&self) -> impl Iterator<Item = (&str, &Arc<FileMetaData>)> {
        let opened = self.families.values().flat_map(|family| {
            family.version.all_files().map(|(_, file)| (family.name.as_str(), file))
        });
        let unopened = self
            .unopened
            .values()
            .flat_map(|family| family.files.iter().map(|file| (family.name.as_str(), file)));
        opened.chain(unopened)
    }

    /// The blob files of the column families that are opened, with the family's name.
    pub fn blob_files(&self) -> impl Iterator<Item = (&str, &SharedBlobFile)> {
        self.families.values().flat_map(|family| {
            let blobs = family.version.blob_files().values();
            blobs.map(|blob| (family.name.as_str(), &*blob.shared))
        })
    }
}

/// How to interpret a column family.
pub(crate) struct Shape {
    pub comparator: Comparator,
    /// Its tables have keys without the timestamps of that order.
    pub stripped: bool,
    pub levels: usize,
    /// Files of a level may overlap; for what is only read.
    pub may_overlap: bool,
}

/// The name of an order that files record, and whether tables lack the timestamps of its keys.
pub(crate) type RecordedOrder<'n> = (&'n str, bool);

/// How to interpret a column family while replaying: by id, name and persisted order. None: it is
/// not opened. The id is what tells it from another of that name, created after a drop.
pub(crate) type FamilySpec<'a> =
    dyn Fn(u32, &str, Option<RecordedOrder<'_>>) -> Result<Option<Shape>> + 'a;

struct Family {
    name: String,
    comparator: Option<String>,
    /// Its tables have no timestamps.
    stripped: bool,
    log_number: Option<FileNumber>,
    /// The version built last; None before the first.
    built: Option<Arc<Version>>,
    /// Edits of files since.
    edits: Vec<VersionEdit>,
    /// If it is not opened: its files before those edits.
    files: BTreeMap<FileNumber, Arc<FileMetaData>>,
}

/// The state after the edits of a MANIFEST processed so far.
#[derive(Default)]
pub(crate) struct ManifestReplay {
    families: BTreeMap<u32, Family>,
    next_file: Option<FileNumber>,
    /// The largest file number that an edit names.
    used: FileNumber,
    last_sequence: Option<SequenceNumber>,
    /// The largest sequence number that a table has or had.
    used_sequence: SequenceNumber,
    log_seen: bool,
    min_log: FileNumber,
    max_family: u32,
    db_id: Option<String>,
    group: Vec<VersionEdit>,
    /// Files that may be open already, by number; it keeps none of them open.
    known: BTreeMap<FileNumber, Weak<FileMetaData>>,
}

/// The number of the MANIFEST that CURRENT names.
///
/// # Errors
/// NotFound-like I/O errors if there is no database; Corruption if CURRENT is malformed.
pub(crate) fn current_manifest(fs: &dyn FileSystem, dir: &Path) -> Result<FileNumber> {
    let path = filename::current_file(dir);
    let text = fs.read_file(&path)?;
    let malformed = |why: &str| Error::corruption(format!("{why}: {}", path.display()));
    let text = std::str::from_utf8(&text).map_err(|_| malformed("CURRENT file corrupted"))?;
    let Some(name) = text.strip_suffix('\n') else {
        return Err(malformed("CURRENT file does not end with newline"));
    };
    match filename::parse(name) {
        Some((number, filename::FileType::Descriptor)) => check_found(number, &path),
        _ => Err(malformed("CURRENT file corrupted")),
    }
}

/// Checks that a number found on disk leaves room for later ones. `place` is where it was found.
///
/// # Errors
/// Corruption if it does not.
pub(crate) fn check_found(number: FileNumber, place: &Path) -> Result<FileNumber> {
    if number <= FILE_NUMBER_FOUND_MAX {
        return Ok(number);
    }
    Err(Error::corruption(format!("file number {number} is out of range: {}", place.display())))
}

/// Replays the current MANIFEST of `dir`.
///
/// # Errors
/// Corruption naming the file and what is wrong; I/O errors; errors of `spec`.
pub(crate) fn recover_versions(
    fs: &dyn FileSystem,
    dir: &Path,
    spec: &FamilySpec<'_>,
) -> Result<RecoveredVersions> {
    recover_manifest(fs, dir, current_manifest(fs, dir)?, spec)
}

/// Replays the MANIFEST of that number.
///
/// # Errors
/// As [`recover_versions`].
pub(crate) fn recover_manifest(
    fs: &dyn FileSystem,
    dir: &Path,
    manifest_number: FileNumber,
    spec: &FamilySpec<'_>,
) -> Result<RecoveredVersions> {
    let path = filename::manifest_file(dir, manifest_number);
    let mut replay = ManifestReplay::new(BTreeMap::new());
    let dropped = for_each_edit(fs, &path, &mut |edit| replay.take(edit))
        .map_err(|e| if e.is_corruption() { in_file(&e, &path) } else { e })?;
    let versions = replay.versions(&path, manifest_number, spec)?;
    Ok(RecoveredVersions { dropped, ..versions })
}

/// The largest number of an existing or former file in `edit`. Whatever it says about the next
/// number, none of these must be given to a new file.
fn largest_file_number(edit: &VersionEdit) -> FileNumber {
    let logs = [edit.log_number, edit.prev_log_number];
    let tables = edit.new_files.iter().map(|(_, file)| file.number);
    let blobs = edit.blob_additions.iter().map(|blob| blob.number);
    logs.into_iter().flatten().chain(tables).chain(blobs).max().unwrap_or(0)
}

pub(crate) fn in_file(error: &Error, path: &Path) -> Error {
    error.with_context(path.display())
}

impl Family {
    fn new(name: &str) -> Self {
        Family {
            name: name.to_string(),
            comparator: None,
            stripped: false,
            log_number: None,
            built: None,
            edits: Vec::new(),
            files: BTreeMap::new(),
        }
    }

    fn recorded(&self) -> Option<RecordedOrder<'_>> {
        self.comparator.as_deref().map(|name| (name, self.stripped))
    }

    /// The family as of now, None if it is not opened. Edits already applied are not processed
    /// again.
    fn build(&mut self, id: u32, spec: &FamilySpec<'_>) -> Result<Option<RecoveredFamily>> {
        let version = match self.built.take() {
            Some(built) if self.edits.is_empty() => built,
            Some(built) => {
                self.share_files(&built);
                self.build_on(built, false)?
            }
            None => match spec(id, &self.name, self.recorded())? {
                Some(shape) => self.build_first(shape)?,
                None => return Ok(None),
            },
        };
        self.check_times(&version)?;
        self.built = Some(Arc::clone(&version));
        Ok(Some(RecoveredFamily {
            name: self.name.clone(),
            log_number: self.log_number.unwrap_or(0),
            version,
        }))
    }

    /// Refuses files whose keys have not the timestamps that those of the others have.
    ///
    /// # Errors
    /// NotSupported.
    fn check_times(&self, version: &Version) -> Result<()> {
        let order = version.time_order();
        let recorded = self.comparator.as_deref().unwrap_or(order.name());
        let what = if order.timestamp_size() > 0
            && !version.is_stripped()
            && version.all_files().any(|(_, file)| file.timestamps_stripped)
        {
            "tables without the timestamps of their keys, which others have"
        } else if order.name() != recorded && !version.blob_files().is_empty() {
            // The keys in their records would need the timestamps too.
            "its keys cannot get or lose timestamps while it has blob files"
        } else {
            return Ok(());
        };
        Err(Error::not_supported(format!("column family {}: {what}", self.name)))
    }

    /// The family as of now, which is not opened.
    fn unopened(&mut self) -> UnopenedFamily {
        for edit in std::mem::take(&mut self.edits) {
            for (_, number) in &edit.deleted_files {
                self.files.remove(number);
            }
            self.files.extend(edit.new_files.into_iter().map(|(_, file)| (file.number, file)));
        }
        UnopenedFamily {
            name: self.name.clone(),
            log_number: self.log_number.unwrap_or(0),
            files: self.files.values().cloned().collect(),
        }
    }

    fn build_first(&mut self, shape: Shape) -> Result<Arc<Version>> {
        let Shape { comparator, stripped, levels, may_overlap } = shape;
        if let Some(recorded) = self.recorded() {
            check_order_change(&comparator, stripped, recorded)?;
        }
        if stripped {
            // Those from before the family had timestamps lack them too.
            let files = self.edits.iter_mut().flat_map(|edit| &mut edit.new_files);
            for (_, file) in files.filter(|(_, file)| !file.timestamps_stripped) {
                let known = FileMetaData::clone(file);
                *file = Arc::new(FileMetaData { timestamps_stripped: true, ..known });
            }
        }
        self.build_on(Version::of_family(&comparator, stripped, levels), may_overlap)
    }

    /// A file that moves keeps its object, and with it the table that it keeps open.
    fn share_files(&mut self, built: &Version) {
        for (_, file) in self.edits.iter_mut().flat_map(|edit| &mut edit.new_files) {
            if let Some((_, known)) = built.find_by_number(file.number)
                && is_same(known, file)
            {
                *file = Arc::clone(known);
            }
        }
    }

    fn build_on(&mut self, base: Arc<Version>, may_overlap: bool) -> Result<Arc<Version>> {
        let mut builder = VersionBuilder::new(base).may_overlap(may_overlap);
        for edit in std::mem::take(&mut self.edits) {
            builder.apply(&edit)?;
        }
        builder.build()
    }
}

impl ManifestReplay {
    /// Before the first edit. If a MANIFEST names a file of `known` with the same metadata, that
    /// object is used, and with it the table that it keeps open.
    pub fn new(known: BTreeMap<FileNumber, Weak<FileMetaData>>) -> Self {
        let families = BTreeMap::from([(0, Family::new("default"))]);
        ManifestReplay { families, known, ..ManifestReplay::default() }
    }

    /// The database described by the edits so far, except those of an incomplete group. After an
    /// error it must not be used any more.
    ///
    /// # Errors
    /// Corruption naming `path` and what is wrong; errors of `spec`.
    pub fn versions(
        &mut self,
        path: &Path,
        manifest_number: FileNumber,
        spec: &FamilySpec<'_>,
    ) -> Result<RecoveredVersions> {
        let missing =
            |what: &str| in_file(&Error::corruption(format!("no {what} entry in MANIFEST")), path);
        let next_file = self.next_file.ok_or_else(|| missing("meta-nextfile"))?;
        let last_sequence = self.last_sequence.ok_or_else(|| missing("last-sequence-number"))?;
        if !self.log_seen {
            return Err(missing("meta-lognumber"));
        }
        let (mut families, mut unopened) = (BTreeMap::new(), BTreeMap::new());
        for (id, family) in &mut self.families {
            match family.build(*id, spec).map_err(|e| in_file(&e, path))? {
                Some(built) => drop(families.insert(*id, built)),
                None => drop(unopened.insert(*id, family.unopened())),
            }
        }
        Ok(RecoveredVersions {
            families,
            unopened,
            manifest_number,
            next_file_number: check_found(next_file.max(self.used + 1), path)?
                .max(manifest_number + 1),
            // Whatever the edits say, what is in a table was written, and later writes are newer.
            last_sequence: last_sequence.max(self.used_sequence.min(LAST_SEQUENCE_MAX)),
            min_log_to_keep: self.min_log,
            max_column_family: self.max_family,
            db_id: self.db_id.clone(),
            dropped: None,
            losses: Vec::new(),
        })
    }

    /// Processes the next edit.
    ///
    /// # Errors
    /// Corruption if it cannot follow those before it.
    pub fn take(&mut self, edit: VersionEdit) -> Result<()> {
        let Some(remaining) = edit.atomic_group_remaining else {
            if !self.group.is_empty() {
                return Err(Error::corruption("incomplete atomic group"));
            }
            return self.apply(edit);
        };
        if let Some(last) = self.group.last()
            && last.atomic_group_remaining != remaining.checked_add(1)
        {
            return Err(Error::corruption("atomic group members out of order"));
        }
        self.group.push(edit);
        if remaining == 0 {
            for member in std::mem::take(&mut self.group) {
                self.apply(member)?;
            }
        }
        Ok(())
    }

    fn apply(&mut self, mut edit: VersionEdit) -> Result<()> {
        for (_, file) in &mut edit.new_files {
            match self.known.get(&file.number).and_then(Weak::upgrade) {
                Some(known) if is_same(&known, file) => *file = known,
                _ => {}
            }
        }
        self.next_file = edit.next_file_number.or(self.next_file);
        self.used = self.used.max(largest_file_number(&edit));
        let sequences = edit.new_files.iter().map(|(_, file)| file.largest_seq);
        self.used_sequence = self.used_sequence.max(sequences.max().unwrap_or(0));
        if let Some(sequence) = edit.last_sequence {
            self.last_sequence = Some(self.last_sequence.unwrap_or(0).max(sequence));
        }
        self.min_log = self.min_log.max(edit.min_log_number_to_keep.unwrap_or(0));
        self.max_family = self.max_family.max(edit.max_column_family.unwrap_or(0));
        if edit.db_id.is_some() {
            self.db_id.clone_from(&edit.db_id);
        }
        self.log_seen |= edit.log_number.is_some();
        let id = edit.column_family;
        if let Some(name) = &edit.add_column_family {
            if self.families.contains_key(&id) {
                return Err(Error::corruption(format!("column family {id} added twice")));
            }
            self.max_family = self.max_family.max(id);
            self.families.insert(id, Family::new(name));
        }
        if edit.drop_column_family {
            return match self.families.remove(&id) {
                Some(_) if id != 0 => Ok(()),
                _ => Err(Error::corruption(format!("drop of unknown column family {id}"))),
            };
        }
        let family = self
            .families
            .get_mut(&id)
            .ok_or_else(|| Error::corruption(format!("edit of unknown column family {id}")))?;
        if let Some(name) = &edit.comparator {
            family.comparator = Some(name.clone());
            family.stripped = edit.persist_user_defined_timestamps == Some(false);
        }
        if let Some(number) = edit.log_number {
            // A lower number than before is ignored, as RocksDB does.
            family.log_number = Some(family.log_number.unwrap_or(0).max(number));
        }
        let touches_files = !edit.new_files.is_empty()
            || !edit.deleted_files.is_empty()
            || !edit.compact_cursors.is_empty()
            || !edit.blob_additions.is_empty()
            || !edit.blob_garbage.is_empty()
            || edit.full_history_ts_low.is_some();
        if touches_files {
            family.edits.push(edit);
        }
        Ok(())
    }
}

/// The MANIFEST says the same of both.
fn is_same(known: &FileMetaData, file: &FileMetaData) -> bool {
    let persisted = |file: &FileMetaData| {
        let sequences = (file.smallest_seq, file.largest_seq, file.epoch_number);
        (file.file_size, sequences, file.unique_id, file.path_id)
    };
    persisted(known) == persisted(file)
        && known.smallest == file.smallest
        && known.largest == file.largest
        && known.marked_for_compaction == file.marked_for_compaction
        && known.oldest_blob_file_number == file.oldest_blob_file_number
}
