//! `best_efforts_recovery`: the newest state of each column family of which all files are there.
//!
//! MANIFESTs are tried from the newest to the oldest, whatever CURRENT says; the first that can be
//! replayed is used. Each of its changes leads to a state. A state is whole if every table and blob
//! file that it needs exists with its length and its identity; or if only the newest tables of L0
//! are missing, with the blob files that they alone refer to: without them it is an older moment of
//! the same history. The last whole state of a family is taken, the empty one if there is none.
//! After an atomic group families go on only together, and nothing may be missing of those that
//! were in one. These are RocksDB's rules (`VersionEditHandlerPointInTime`), with one difference: a
//! blob file that is missing must be one to which no table that is left can refer, while RocksDB
//! looks only at tables whose oldest blob file it is.
//!
//! Logs are not recovered: what they have may follow something that is missing.
//!
//! Thread safety: plain functions and data; nothing is written. Suspends.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use pumice_base::{Error, FileNumber, Result};
use pumice_env::FileSystem;
use pumice_env::filename::{self, FileType};
use pumice_manifest::edit::BlobFileAddition;
use pumice_manifest::{FileMetaData, VersionEdit};

use crate::recovery::manifest_reader::for_each_edit;
use crate::recovery::version_recovery::{FamilySpec, ManifestReplay, RecoveredVersions, in_file};

/// Says of files whether they are there, and whole. Errors say nothing about the file.
pub(crate) trait Files {
    /// A table of the column family of that name.
    fn has_table(&self, family: &str, file: &FileMetaData) -> Result<bool>;
    /// A blob file of the column family of that id and name.
    fn has_blob_file(&self, family: (u32, &str), file: &BlobFileAddition) -> Result<bool>;
}

/// The numbers of the MANIFESTs in `dir` that are not empty, the newest first.
///
/// # Errors
/// I/O.
pub(crate) fn manifests(fs: &dyn FileSystem, dir: &Path) -> Result<Vec<FileNumber>> {
    let names = match fs.list(dir) {
        Ok(names) => names,
        Err(error) if error.is_not_found() => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut found = Vec::new();
    for name in names {
        if let Some((number, FileType::Descriptor)) = filename::parse(&name)
            && fs.file_size(&dir.join(&name))? > 0
        {
            found.push(number);
        }
    }
    found.sort_unstable_by_key(|number| Reverse(*number));
    Ok(found)
}

/// There is nothing to recover from.
pub(crate) fn no_manifest(dir: &Path) -> Error {
    Error::corruption(format!("Cannot locate MANIFEST file in {}", dir.display()))
}

/// The state that can be recovered.
///
/// # Errors
/// Corruption if there is no MANIFEST that can be replayed: that of the oldest; I/O; errors of
/// `spec`.
pub(crate) fn recover(
    fs: &dyn FileSystem,
    dir: &Path,
    files: &dyn Files,
    spec: &FamilySpec<'_>,
) -> Result<RecoveredVersions> {
    let (mut failed, mut passed_over) = (no_manifest(dir), Vec::new());
    for number in manifests(fs, dir)? {
        match recover_from(fs, dir, number, files, spec) {
            Err(error) if error.is_corruption() || error.is_not_found() => {
                let name = filename::manifest_file_name(number);
                passed_over.push(format!("best-efforts recovery: {name} cannot be used: {error}"));
                failed = error;
            }
            Err(error) => return Err(error),
            Ok(mut recovered) => {
                recovered.losses.extend(passed_over);
                return Ok(recovered);
            }
        }
    }
    Err(failed)
}

fn recover_from(
    fs: &dyn FileSystem,
    dir: &Path,
    number: FileNumber,
    files: &dyn Files,
    spec: &FamilySpec<'_>,
) -> Result<RecoveredVersions> {
    let path = filename::manifest_file(dir, number);
    let in_manifest = |error: Error| match error.is_corruption() {
        true => in_file(&error, &path),
        false => error,
    };
    let mut edits = Vec::new();
    let keep = &mut |edit| {
        edits.push(edit);
        Ok(())
    };
    let dropped = for_each_edit(fs, &path, keep).map_err(in_manifest)?;
    let found = Survey::of(files, &edits)?;
    let mut replay = ManifestReplay::new(BTreeMap::new());
    for (at, mut edit) in edits.into_iter().enumerate() {
        let family = found.families.get(&edit.column_family);
        cut(&mut edit, at, family.and_then(|family| family.saved.as_ref()));
        replay.take(edit).map_err(in_manifest)?;
    }
    let versions = replay.versions(&path, number, spec)?;
    Ok(RecoveredVersions { dropped, losses: found.losses(), ..versions })
}

/// Takes out of an edit, number `at` of its MANIFEST, what is not of the state that is recovered.
fn cut(edit: &mut VersionEdit, at: usize, point: Option<&Point>) {
    let Some(point) = point.filter(|point| at < point.end) else {
        edit.new_files.clear();
        edit.deleted_files.clear();
        edit.blob_additions.clear();
        edit.blob_garbage.clear();
        edit.compact_cursors.clear();
        return;
    };
    edit.new_files.retain(|(_, file)| !point.tables.contains(&file.number));
    edit.deleted_files.retain(|(_, number)| !point.tables.contains(number));
    edit.blob_additions.retain(|file| !point.blobs.contains(&file.number));
    edit.blob_garbage.retain(|garbage| !point.blobs.contains(&garbage.number));
}

/// A state that can be recovered.
#[derive(Clone, Default)]
struct Point {
    /// It is that after the edits before this one.
    end: usize,
    /// Without these tables of L0,
    tables: BTreeSet<FileNumber>,
    /// and without these blob files.
    blobs: BTreeSet<FileNumber>,
}

struct Held {
    level: usize,
    file: Arc<FileMetaData>,
    /// The edit that added it.
    added: usize,
    is_there: bool,
}

struct HeldBlobs {
    added: usize,
    is_there: bool,
}

/// How many files are not there.
#[derive(Default)]
struct Missing {
    level0: usize,
    deeper: usize,
    blobs: usize,
}

/// A column family after some edits.
struct Family {
    id: u32,
    name: String,
    tables: BTreeMap<FileNumber, Held>,
    level0: BTreeSet<FileNumber>,
    /// Blob files that are not known to be dead.
    blobs: BTreeMap<FileNumber, HeldBlobs>,
    /// The oldest blob files of tables, each with how many tables have it.
    linked: BTreeMap<FileNumber, usize>,
    missing: Missing,
    /// An atomic group has changed its files.
    grouped: bool,
    saved: Option<Point>,
}

impl Family {
    fn new(id: u32, name: &str) -> Self {
        Family {
            id,
            name: name.to_string(),
            tables: BTreeMap::new(),
            level0: BTreeSet::new(),
            blobs: BTreeMap::new(),
            linked: BTreeMap::new(),
            missing: Missing::default(),
            grouped: false,
            saved: None,
        }
    }

    /// Applies the files of edit number `at`. Whether they fit together is seen by the replay.
    fn apply(&mut self, files: &dyn Files, at: usize, edit: &VersionEdit) -> Result<()> {
        for addition in &edit.blob_additions {
            let is_there = files.has_blob_file((self.id, &self.name), addition)?;
            self.missing.blobs += usize::from(!is_there);
            let old = self.blobs.insert(addition.number, HeldBlobs { added: at, is_there });
            self.missing.blobs -= usize::from(old.is_some_and(|old| !old.is_there));
        }
        for (_, number) in &edit.deleted_files {
            self.forget(*number);
        }
        for (level, file) in &edit.new_files {
            self.forget(file.number);
            let is_there = files.has_table(&self.name, file)?;
            *self.missing_at(*level) += usize::from(!is_there);
            if *level == 0 {
                self.level0.insert(file.number);
            }
            if file.oldest_blob_file_number != 0 {
                *self.linked.entry(file.oldest_blob_file_number).or_default() += 1;
            }
            let held = Held { level: *level, file: Arc::clone(file), added: at, is_there };
            self.tables.insert(file.number, held);
        }
        self.forget_dead_blobs();
        self.grouped |= edit.atomic_group_remaining.is_some()
            && !(edit.new_files.is_empty() && edit.deleted_files.is_empty());
        Ok(())
    }

    fn missing_at(&mut self, level: usize) -> &mut usize {
        if level == 0 { &mut self.missing.level0 } else { &mut self.missing.deeper }
    }

    fn forget(&mut self, table: FileNumber) {
        let Some(old) = self.tables.remove(&table) else { return };
        *self.missing_at(old.level) -= usize::from(!old.is_there);
        self.level0.remove(&table);
        let oldest = old.file.oldest_blob_file_number;
        if let Some(tables) = self.linked.get_mut(&oldest) {
            *tables -= 1;
            if *tables == 0 {
                self.linked.remove(&oldest);
            }
        }
    }

    /// Blob files that are older than any that a table names are needed by none.
    fn forget_dead_blobs(&mut self) {
        let kept = match self.linked.keys().next() {
            Some(first) => self.blobs.split_off(first),
            None => BTreeMap::new(),
        };
        self.blobs = kept;
        self.missing.blobs = self.blobs.values().filter(|blobs| !blobs.is_there).count();
    }

    /// The state after the edits before number `end`, if it is whole.
    fn point(&self, end: usize) -> Option<Point> {
        let Missing { level0, deeper, blobs } = self.missing;
        if deeper > 0 || level0 > 0 && self.grouped {
            return None;
        }
        if level0 == 0 && blobs == 0 {
            return Some(Point { end, ..Point::default() });
        }
        // Most of a history whose old blob files were collected ends here.
        let is_linked = |(number, blobs): (&FileNumber, &HeldBlobs)| {
            let linked = self.linked.get(number).copied().unwrap_or(0);
            !blobs.is_there && linked > level0
        };
        if self.blobs.iter().any(is_linked) {
            return None;
        }
        let tables = self.missing_tables()?;
        // Tables refer to blob files of their own edit or of earlier ones.
        let may_refer = |table: &Held, number: FileNumber, blobs: &HeldBlobs| {
            let oldest = table.file.oldest_blob_file_number;
            table.added >= blobs.added && oldest != 0 && oldest <= number
        };
        let mut left_out = BTreeSet::new();
        for (number, blobs) in &self.blobs {
            let mut kept = self.tables.values().filter(|table| table.is_there);
            let is_needed = kept.any(|table| may_refer(table, *number, blobs));
            let linked =
                |table: &FileNumber| self.tables[table].file.oldest_blob_file_number == *number;
            match (is_needed, blobs.is_there) {
                (true, false) => return None,
                (true, true) => {}
                (false, false) => drop(left_out.insert(*number)),
                (false, true) if tables.iter().any(linked) => drop(left_out.insert(*number)),
                (false, true) => {}
            }
        }
        Some(Point { end, tables, blobs: left_out })
    }

    /// The tables of L0 that are missing, if these are the newest ones.
    fn missing_tables(&self) -> Option<BTreeSet<FileNumber>> {
        let mut level0: Vec<_> = self.level0.iter().map(|number| &self.tables[number]).collect();
        // Old RocksDBs give tables no epochs.
        let timeless = level0.iter().any(|table| table.file.epoch_number == 0);
        level0.sort_by_key(|table| {
            let (epoch, largest, smallest, number) = table.file.age_key();
            Reverse((if timeless { 0 } else { epoch }, largest, smallest, number))
        });
        let newest = level0.iter().take(self.missing.level0);
        let are_missing = newest.clone().all(|table| !table.is_there);
        are_missing.then(|| newest.map(|table| table.file.number).collect())
    }
}

/// All column families after some edits.
struct Survey<'a> {
    files: &'a dyn Files,
    families: BTreeMap<u32, Family>,
    /// The families of the last atomic group, and their states since, until each has one.
    together: Option<BTreeMap<u32, Option<Point>>>,
    in_group: bool,
    /// A log, the next file number and the last sequence number are known.
    known: [bool; 3],
    /// The edits that count,
    end: usize,
    /// of so many.
    edits: usize,
}

impl<'a> Survey<'a> {
    /// Goes through `edits`.
    fn of(files: &'a dyn Files, edits: &[VersionEdit]) -> Result<Self> {
        let mut survey = Survey {
            files,
            families: BTreeMap::from([(0, Family::new(0, "default"))]),
            together: None,
            in_group: false,
            known: [false; 3],
            end: 0,
            edits: edits.len(),
        };
        let mut at = 0;
        while let Some(edit) = edits.get(at) {
            if edit.atomic_group_remaining.is_none() {
                survey.apply(at, edit)?;
                at += 1;
                continue;
            }
            let last = |edit: &VersionEdit| edit.atomic_group_remaining == Some(0);
            // One that is not complete counts for nothing.
            let Some(members) = edits[at..].iter().position(last).map(|last| last + 1) else {
                break;
            };
            survey.begin_group(at);
            for member in 0..members {
                survey.apply(at + member, &edits[at + member])?;
            }
            survey.in_group = false;
            at += members;
        }
        survey.end = at;
        survey.save_all(at);
        Ok(survey)
    }

    fn apply(&mut self, at: usize, edit: &VersionEdit) -> Result<()> {
        let id = edit.column_family;
        if let Some(name) = &edit.add_column_family {
            self.families.insert(id, Family::new(id, name));
        }
        if edit.drop_column_family {
            self.families.remove(&id);
            if let Some(together) = &mut self.together {
                together.remove(&id);
            }
            self.settle();
        } else if let Some(family) = self.families.get_mut(&id) {
            let before = family.point(at);
            family.apply(self.files, at, edit)?;
            let may_end = !self.in_group && self.known == [true; 3];
            if let Some(before) = before.filter(|_| may_end && family.point(at + 1).is_none()) {
                self.save(id, before);
            }
        }
        let says = [edit.log_number, edit.next_file_number, edit.last_sequence];
        let known = self.known.iter_mut().zip(says);
        known.for_each(|(known, says)| *known |= says.is_some());
        Ok(())
    }

    /// An atomic group begins with edit `at`. All families that exist are taken to be in it.
    fn begin_group(&mut self, at: usize) {
        self.save_all(at);
        self.together = Some(self.families.keys().map(|id| (*id, None)).collect());
        self.in_group = true;
    }

    /// Saves the present state of all families of which it is whole.
    fn save_all(&mut self, at: usize) {
        let points = self.families.iter().map(|(id, family)| (*id, family.point(at)));
        for (id, point) in points.collect::<Vec<_>>() {
            if let Some(point) = point {
                self.save(id, point);
            }
        }
    }

    fn save(&mut self, id: u32, point: Point) {
        if let Some(slot) = self.together.as_mut().and_then(|all| all.get_mut(&id)) {
            *slot = Some(point);
            return self.settle();
        }
        if let Some(family) = self.families.get_mut(&id) {
            family.saved = Some(point);
        }
    }

    /// Ends the wait of the families of a group, if each has a state.
    fn settle(&mut self) {
        let is_ready = |all: &mut BTreeMap<u32, Option<Point>>| all.values().all(Option::is_some);
        for (id, point) in self.together.take_if(is_ready).into_iter().flatten() {
            if let Some(family) = self.families.get_mut(&id) {
                family.saved = point;
            }
        }
    }

    /// What is lost, for the info log.
    fn losses(&self) -> Vec<String> {
        let lost = self.families.values().filter_map(|family| {
            let none = Point::default();
            let point = family.saved.as_ref().unwrap_or(&none);
            let is_all = point.end == self.end && point.tables.is_empty();
            (!is_all && !family.tables.is_empty()).then(|| {
                format!(
                    "best-efforts recovery: column family {} as after {} of {} changes of the \
                     MANIFEST, without {} newest tables",
                    family.name,
                    point.end,
                    self.end,
                    point.tables.len()
                )
            })
        });
        let is_cut = self.end < self.edits;
        let group = is_cut.then(|| {
            "best-efforts recovery: the last atomic group of the MANIFEST is not complete"
                .to_string()
        });
        lost.chain(group).collect()
    }
}
