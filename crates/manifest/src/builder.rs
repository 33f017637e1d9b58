//! Applies edits to a version and makes the next one, checking every rule a reader relies on.
//!
//! Thread safety: belongs to one thread. Invariants: (1) a failed `apply` or `build` leaves the
//! base version as it was, and the builder must be dropped; (2) levels that no edit touched are
//! shared with the base; (3) `build` returns only versions that keep the invariants of
//! [`Level`]: newer releases of RocksDB would silently empty a column family that
//! breaks them. Where files may overlap, levels in which they do say so.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::sync::Arc;

use pumice_base::order;
use pumice_base::{Error, InternalKeyComparator, Result};

use crate::blob::{BlobFileMetaData, BlobFiles};
use crate::edit::{BlobFileAddition, BlobFileGarbage, VersionEdit};
use crate::epoch;
use crate::file_meta::{FileMetaData, debug_key};
use crate::level::{Level, StatsSum};
use crate::range::UserRange;
use crate::version::Version;

/// What happens to one level.
#[derive(Default)]
struct LevelChange {
    /// Numbers of base files that are removed.
    deleted: BTreeSet<u64>,
    added: BTreeMap<u64, Arc<FileMetaData>>,
}

/// A base version and the changes to it so far.
pub struct VersionBuilder {
    base: Arc<Version>,
    num_levels: usize,
    changes: BTreeMap<usize, LevelChange>,
    blob_files: Option<BlobFiles>,
    compact_cursors: Option<BTreeMap<usize, Vec<u8>>>,
    full_history_ts_low: Option<Arc<[u8]>>,
    may_overlap: bool,
}

impl VersionBuilder {
    /// A builder on `base`.
    pub fn new(base: Arc<Version>) -> Self {
        let num_levels = base.num_levels();
        let full_history_ts_low = base.full_history_ts_low.clone();
        VersionBuilder {
            base,
            full_history_ts_low,
            num_levels,
            changes: BTreeMap::new(),
            blob_files: None,
            compact_cursors: None,
            may_overlap: false,
        }
    }

    /// Files of a level may overlap: for versions that are only read, since what picks, cuts and
    /// places files needs levels in which they do not.
    pub fn may_overlap(self, may: bool) -> Self {
        VersionBuilder { may_overlap: may, ..self }
    }

    /// Applies one edit: first its deletions, then its additions.
    ///
    /// # Errors
    /// `Corruption` if a deleted file is not where the edit says, an added file exists already,
    /// or a level is out of range.
    pub fn apply(&mut self, edit: &VersionEdit) -> Result<()> {
        for addition in &edit.blob_additions {
            self.add_blob_file(addition)?;
        }
        for garbage in &edit.blob_garbage {
            self.add_blob_garbage(garbage)?;
        }
        for &(level, number) in &edit.deleted_files {
            self.delete_file(level, number)?;
        }
        for (level, file) in &edit.new_files {
            self.add_file(*level, file)?;
        }
        if !edit.compact_cursors.is_empty() {
            let base = &self.base;
            let cursors =
                self.compact_cursors.get_or_insert_with(|| (*base.compact_cursors).clone());
            cursors.extend(edit.compact_cursors.iter().cloned());
        }
        if let Some(low) = &edit.full_history_ts_low {
            self.raise_history_low(low)?;
        }
        Ok(())
    }

    /// Timestamps below `low` may be gone from now on. It never goes down. Keys without timestamps
    /// have none: as RocksDB does, it is ignored.
    fn raise_history_low(&mut self, low: &[u8]) -> Result<()> {
        let order = self.base.time_order();
        if order.timestamp_size() == 0 {
            return Ok(());
        }
        if low.len() != order.timestamp_size() {
            let (expected, found) = (order.timestamp_size(), low.len());
            return Err(broken(format_args!(
                "full_history_ts_low has {found} bytes, and timestamps have {expected}"
            )));
        }
        let raises = |now: &Arc<[u8]>| order.compare_timestamp(low, now) == Ordering::Greater;
        if self.full_history_ts_low.as_ref().is_none_or(raises) {
            self.full_history_ts_low = Some(low.into());
        }
        Ok(())
    }

    /// Where file `number` is, all changes so far applied.
    pub fn level_of(&self, number: u64) -> Option<usize> {
        let added = self.changes.iter().find(|(_, change)| change.added.contains_key(&number));
        if let Some((&level, _)) = added {
            return Some(level);
        }
        let (level, _) = self.base.find_by_number(number)?;
        let deleted = self.changes.get(&level).is_some_and(|c| c.deleted.contains(&number));
        (!deleted).then_some(level)
    }

    fn delete_file(&mut self, level: usize, number: u64) -> Result<()> {
        let current = self.level_of(number);
        if current != Some(level) {
            let place = match current {
                Some(current) => format!("on level {current}"),
                None => "not in the LSM tree".to_string(),
            };
            return Err(broken(format_args!(
                "Cannot delete table file #{number} from level {level} since it is {place}"
            )));
        }
        let change = self.changes.entry(level).or_default();
        if change.added.remove(&number).is_none() {
            change.deleted.insert(number);
        }
        Ok(())
    }

    fn add_file(&mut self, level: usize, file: &Arc<FileMetaData>) -> Result<()> {
        let number = file.number;
        if level >= self.num_levels {
            return Err(Error::invalid_argument("db has more levels than options.num_levels"));
        }
        if let Some(current) = self.level_of(number) {
            return Err(broken(format_args!(
                "Cannot add table file #{number} to level {level} since it is already in the \
                 LSM tree on level {current}"
            )));
        }
        self.changes.entry(level).or_default().added.insert(number, file.clone());
        Ok(())
    }

    fn blob_files_mut(&mut self) -> &mut BlobFiles {
        let base = &self.base;
        self.blob_files.get_or_insert_with(|| (*base.blob_files).clone())
    }

    fn add_blob_file(&mut self, addition: &BlobFileAddition) -> Result<()> {
        let blob = BlobFileMetaData::new(addition.clone());
        match self.blob_files_mut().insert(addition.number, Arc::new(blob)) {
            None => Ok(()),
            Some(_) => Err(broken(format_args!("Blob file #{} already added", addition.number))),
        }
    }

    fn add_blob_garbage(&mut self, garbage: &BlobFileGarbage) -> Result<()> {
        let number = garbage.number;
        let Some(blob) = self.blob_files_mut().get_mut(&number) else {
            return Err(broken(format_args!("Blob file #{number} not found")));
        };
        let blob = Arc::make_mut(blob);
        blob.garbage_count = blob.garbage_count.saturating_add(garbage.garbage_count);
        blob.garbage_bytes = blob.garbage_bytes.saturating_add(garbage.garbage_bytes);
        let all = &blob.shared.addition;
        if blob.garbage_count > all.blob_count || blob.garbage_bytes > all.blob_bytes {
            return Err(broken(format_args!("Garbage overflow for blob file #{number}")));
        }
        Ok(())
    }

    /// The next version.
    ///
    /// # Errors
    /// `Corruption` if files overlap where they must not, or one ends before it begins.
    pub fn build(self) -> Result<Arc<Version>> {
        let icmp = self.base.icmp.clone();
        let mut changed: BTreeMap<usize, Vec<Arc<FileMetaData>>> = BTreeMap::new();
        let levels = self.base.levels.iter().filter(|level| level.is_overlapping());
        let mut overlapping: BTreeSet<usize> = levels.map(|level| level.number()).collect();
        for (&number, change) in &self.changes {
            let (files, overlap) = merge_level(self.base.level(number), change, &icmp)?;
            self.note_overlap(&mut overlapping, number, overlap)?;
            changed.insert(number, files);
        }
        self.fill_epochs(&mut changed);
        if let Some(files) = changed.get(&0) {
            self.note_overlap(&mut overlapping, 0, level0_overlap(files, &icmp))?;
        }
        self.fix_compensated_sizes(&changed);

        let mut levels = self.base.levels.clone();
        for (number, files) in changed {
            let overlaps = overlapping.contains(&number);
            levels[number] = Arc::new(Level::of(number, files, &icmp.user, overlaps));
        }
        let blob_files = match self.blob_files {
            Some(blobs) => Arc::new(blobs),
            None => self.base.blob_files.clone(),
        };
        let cursors = match self.compact_cursors {
            Some(cursors) => Arc::new(cursors),
            None => self.base.compact_cursors.clone(),
        };
        let mut version = Version::new(icmp, levels, blob_files, cursors);
        version.full_history_ts_low = self.full_history_ts_low;
        version.stripped_of = self.base.stripped_of.clone();
        drop_dead_blob_files(&mut version);
        Ok(Arc::new(version))
    }

    /// Records whether files of level `number` overlap; `overlap` describes them, if they do.
    fn note_overlap(
        &self,
        overlapping: &mut BTreeSet<usize>,
        number: usize,
        overlap: Option<Error>,
    ) -> Result<()> {
        overlapping.remove(&number);
        match overlap {
            None => {}
            Some(_) if self.may_overlap => {
                overlapping.insert(number);
            }
            Some(error) => return Err(error),
        }
        Ok(())
    }

    /// Infers epoch numbers if a file has none, which changes every level.
    fn fill_epochs(&self, changed: &mut BTreeMap<usize, Vec<Arc<FileMetaData>>>) {
        if changed.values().flatten().any(|f| f.epoch_number == 0) {
            let mut all: Vec<_> = (0..self.num_levels)
                .map(|n| changed.remove(&n).unwrap_or_else(|| self.base.files(n).to_vec()))
                .collect();
            epoch::infer(&mut all);
            changed.extend(all.into_iter().enumerate());
        }
    }

    /// Gives the new files their compensated size, by the average value of the whole version.
    fn fix_compensated_sizes(&self, changed: &BTreeMap<usize, Vec<Arc<FileMetaData>>>) {
        let mut sum = StatsSum::default();
        for level in self.base.levels.iter().filter(|l| !changed.contains_key(&l.number())) {
            sum.add(&level.stats);
        }
        changed.values().flatten().for_each(|f| sum.add_file(f));
        let average = sum.average_value_size();
        changed.values().flatten().for_each(|f| f.fix_compensated_size(average));
    }
}

/// The files of a level after `change`, in order, and the first two that overlap (those of L0 are
/// looked for later).
fn merge_level(
    base: &Level,
    change: &LevelChange,
    icmp: &InternalKeyComparator,
) -> Result<(Vec<Arc<FileMetaData>>, Option<Error>)> {
    let level = base.number();
    let kept = base.files().iter().filter(|f| !change.deleted.contains(&f.number));
    let mut added: Vec<_> = change.added.values().cloned().collect();
    if level == 0 {
        added.extend(kept.cloned());
        order::sort_by_key(&mut added, |f| std::cmp::Reverse(f.age_key()));
        return Ok((added, None));
    }
    let by_key = |a: &FileMetaData, b: &FileMetaData| {
        icmp.compare(a.smallest_key(), b.smallest_key()).then(a.number.cmp(&b.number))
    };
    order::sort_by(&mut added, |a, b| by_key(a, b));
    let mut merged: Vec<Arc<FileMetaData>> = Vec::with_capacity(base.len() + added.len());
    let mut added = added.into_iter().peekable();
    let mut overlap = None;
    let mut look = |left: Option<&Arc<FileMetaData>>, right: &FileMetaData| {
        let found = overlap_of(level, left, right, icmp)?;
        overlap = overlap.take().or(found);
        Ok::<(), Error>(())
    };
    // Two neighbours from the base were checked when the base was built.
    let mut last_is_new = base.is_overlapping();
    for file in kept {
        while let Some(new) = added.next_if(|new| by_key(new, file) == Ordering::Less) {
            look(merged.last(), &new)?;
            merged.push(new);
            last_is_new = true;
        }
        if last_is_new {
            look(merged.last(), file)?;
        }
        merged.push(file.clone());
        last_is_new = base.is_overlapping();
    }
    for new in added {
        look(merged.last(), &new)?;
        merged.push(new);
    }
    Ok((merged, overlap))
}

/// The rule of levels below L0: a file ends before the next begins. Returns the error to report if
/// `left` and `right` break it, and fails if `right` ends before it begins.
fn overlap_of(
    level: usize,
    left: Option<&Arc<FileMetaData>>,
    right: &FileMetaData,
    icmp: &InternalKeyComparator,
) -> Result<Option<Error>> {
    if icmp.compare(right.smallest_key(), right.largest_key()) == Ordering::Greater {
        return Err(broken(format_args!(
            "L{level} file #{} smallest key: {} is after its largest key: {}",
            right.number,
            debug_key(&right.smallest, true),
            debug_key(&right.largest, true)
        )));
    }
    let Some(left) = left else {
        return Ok(None);
    };
    if icmp.compare(left.largest_key(), right.smallest_key()) == Ordering::Less {
        return Ok(None);
    }
    Ok(Some(inconsistent(format_args!(
        "L{level} has overlapping ranges: file #{} largest key: {} vs. file #{} smallest key: {}",
        left.number,
        debug_key(&left.largest, true),
        right.number,
        debug_key(&right.smallest, true)
    ))))
}

/// The rule of L0, whose files are sorted: files of one epoch do not overlap. Returns the error
/// about the first that do.
fn level0_overlap(files: &[Arc<FileMetaData>], icmp: &InternalKeyComparator) -> Option<Error> {
    for same_epoch in files.chunk_by(|a, b| a.epoch_number == b.epoch_number) {
        for (i, newer) in same_epoch.iter().enumerate() {
            let range = UserRange::of_file(newer);
            for older in &same_epoch[i + 1..] {
                if range.overlaps(&UserRange::of_file(older), &icmp.user) {
                    return Some(same_epoch_overlap(newer, older));
                }
            }
        }
    }
    None
}

fn same_epoch_overlap(newer: &FileMetaData, older: &FileMetaData) -> Error {
    let describe = |f: &FileMetaData| {
        let (smallest, largest) = (debug_key(&f.smallest, true), debug_key(&f.largest, true));
        format!("file #{} smallest key: {smallest} largest key: {largest}", f.number)
    };
    inconsistent(format_args!(
        "L0 files of same epoch number but overlapping range {} vs. {}",
        describe(newer),
        describe(older)
    ))
}

/// The files that a version must keep, as RocksDB decides it (`VersionBuilder::SaveBlobFilesTo`):
/// tables say only the oldest file that they refer to, so that no file older than all of these is
/// needed, and a younger one is unless it is all garbage.
fn drop_dead_blob_files(version: &mut Version) {
    if version.blob_files.is_empty() {
        return;
    }
    let oldest = version.all_files().map(|(_, file)| file.oldest_blob_file_number);
    let mut linked: Vec<u64> = oldest.filter(|number| *number != 0).collect();
    linked.sort_unstable();
    let first = linked.iter().find(|number| version.blob_files.contains_key(number)).copied();
    let is_dead = |blob: &BlobFileMetaData| {
        let number = blob.number();
        first.is_none_or(|first| number < first)
            || (blob.is_all_garbage() && linked.binary_search(&number).is_err())
    };
    if version.blob_files.values().any(|blob| is_dead(blob)) {
        let mut blobs = (*version.blob_files).clone();
        blobs.retain(|_, blob| !is_dead(blob));
        version.blob_files = Arc::new(blobs);
    }
}

/// The text says which option makes it an error, as RocksDB's does.
fn inconsistent(what: impl Display) -> Error {
    Error::corruption(format!("force_consistency_checks: VersionBuilder: {what}"))
}

fn broken(what: impl Display) -> Error {
    Error::corruption(format!("VersionBuilder: {what}"))
}
