//! A picked compaction, and decisions that depend on its inputs alone.
//!
//! Thread safety: plain data; the version keeps the inputs.

use std::path::PathBuf;
use std::sync::Arc;

use pumice_base::FileNumber;
use pumice_base::order;
use pumice_base::range_tombstone::FragmentedTombstones;
use pumice_base::{Error, InternalKey, Result, UserKey};
use pumice_env::{IoClass, JobIo};
use pumice_manifest::{Version, VersionEdit};
use pumice_port::time;

use crate::compaction::picker::{CompactionPick, Registered};
use crate::options::{CompactionStyle, TaskToken};
use crate::read::range_del::truncate_to_file;
use crate::state::manual_queue::ManualPiece;
use crate::version::family::CfData;

/// A picked compaction, which is always registered.
pub(crate) struct CompactionWork {
    pub cf: Arc<CfData>,
    pub version: Arc<Version>,
    pub pick: CompactionPick,
    /// No other compaction takes the inputs, or writes where this one does.
    pub registered: Registered,
    pub base_level: usize,
    pub max_subcompactions: usize,
    pub manual: Option<ManualPiece>,
    /// Its place under the family's limit.
    pub token: Option<TaskToken>,
    /// The account of its writes.
    pub io: Option<Arc<JobIo>>,
}

impl CompactionWork {
    /// Its inputs neither move as they are nor are deleted.
    pub fn writes_tables(&self) -> bool {
        !self.pick.is_trivial_move && !self.pick.is_deletion
    }
}

/// All range tombstones of the inputs, cut to their files' bounds.
pub(crate) fn input_tombstones(work: &CompactionWork) -> Result<Option<Arc<FragmentedTombstones>>> {
    let comparator = work.cf.table_order();
    let tables = work.cf.tables();
    let mut all = Vec::new();
    for (level, file) in work.pick.input_files() {
        if let Some(list) = tables.table_at(file, level)?.range_tombstones() {
            truncate_to_file(
                comparator,
                &list,
                InternalKey::new(&file.smallest),
                InternalKey::new(&file.largest),
                &mut all,
            );
        }
    }
    Ok((!all.is_empty()).then(|| Arc::new(FragmentedTombstones::build(all, comparator))))
}

/// Since when the oldest input's data has been in the tree; now if unknown.
pub(crate) fn oldest_time(work: &CompactionWork) -> u64 {
    let times = work.pick.input_files().map(|(_, file)| file.oldest_ancester_time);
    times.filter(|time| *time > 0).min().unwrap_or_else(time::wall_seconds)
}

/// User keys that cut the inputs into parts of about equal bytes.
pub(crate) fn split_points(work: &CompactionWork) -> Vec<Vec<u8>> {
    let parts = work.max_subcompactions;
    let universal = work.cf.options().compaction_style == CompactionStyle::Universal;
    let worthwhile = work.pick.start_level == 0 || work.manual.is_some() || universal;
    // Inside L0 the aim is fewer files: parts would produce as many again.
    if parts < 2 || !worthwhile || work.pick.output_level == 0 {
        return Vec::new();
    }
    let comparator = work.cf.table_order();
    let mut starts: Vec<(UserKey<'_>, u64)> = work
        .pick
        .input_files()
        .map(|(_, file)| (file.smallest_user_key(), file.file_size))
        .collect();
    order::sort_by(&mut starts, |a, b| comparator.compare(a.0, b.0));
    let total: u64 = starts.iter().map(|(_, bytes)| bytes).sum();
    let share = total / parts as u64 + 1;
    let mut points: Vec<Vec<u8>> = Vec::new();
    let mut bytes = 0;
    let Some(&(mut last, _)) = starts.first() else { return points };
    for &(key, size) in &starts {
        let fresh = comparator.compare_without_timestamp(key, last).is_gt();
        if fresh && bytes >= share * (points.len() as u64 + 1) && points.len() + 1 < parts {
            // All versions of a key go to one part.
            let bare = comparator.without_timestamp(key).as_bytes();
            points.push(comparator.at_newest(bare));
            last = key;
        }
        bytes += size;
    }
    points
}

impl CompactionWork {
    /// How soon writers wait for it.
    pub fn io_class(&self) -> IoClass {
        match (self.pick.start_level, self.pick.output_level) {
            (0, 0) => IoClass::Merge,
            (0, _) => IoClass::Level0,
            _ => IoClass::Deep,
        }
    }

    /// Compactions out of L0 never wait for it. They do wait for compactions of the level below L0,
    /// which cannot run at the same time.
    pub fn is_deep(&self) -> bool {
        let leveled = self.cf.options().compaction_style == CompactionStyle::Level;
        let start = self.pick.start_level;
        start != 0 && !(leveled && start == self.base_level)
    }
}

impl CompactionWork {
    pub fn add_cursor(&self, edit: &mut VersionEdit) {
        if let Some(cursor) = &self.pick.next_cursor {
            edit.compact_cursors.push((self.pick.start_level, cursor.clone()));
        }
    }

    /// The path of its output of that number.
    pub fn output_path(&self, number: FileNumber) -> PathBuf {
        self.cf.dirs.table(self.pick.outputs.path_id, number)
    }

    /// The number of entries read must match the inputs' properties.
    pub fn verify_entry_count(&self, entries_in: u64) -> Result<()> {
        let Some(expected) = self.pick.input_points() else { return Ok(()) };
        if expected != entries_in {
            return Err(Error::corruption(format!(
                "Compaction number of input keys does not match number of keys processed. \
                 Expected {expected} but processed {entries_in}."
            )));
        }
        Ok(())
    }
}
