//! Chooses what to compact.
//!
//! Pure: a version, its scores and the running compactions go in, a [`CompactionPick`] comes out.
//! Nothing here takes a lock, reads a clock or touches a file; the engine calls it under its own
//! lock and registers the pick with [`RunningCompactions`] before it releases the lock.
//!
//! Invariants of a pick: (1) no input file is input of a running compaction; (2) no running
//! compaction writes to the output level inside the pick's range; (3) the input files of a level
//! are a clean cut: no file outside shares a user key with one inside; in L0 every older file that
//! overlaps is inside; (4) all files of the output level that overlap are inputs; (5) of a second
//! output (`proximal`) (2) and (4) hold as well.

mod compact_files;
mod fifo;
mod intra_l0;
mod leveled;
mod manual;
mod paths;
mod priority;
mod proximal;
mod running;
mod setup;
#[cfg(test)]
mod tests;
mod universal;

use std::sync::Arc;

use pumice_compress::CompressionType;
use pumice_env::Temperature;
use pumice_env::filename::PathId;
use pumice_manifest::{FileMetaData, LevelTargets, LeveledOptions, UserRange, Version};

pub use compact_files::{FilesRequest, pick_files};
pub use fifo::{FifoMerges, FifoRules};
pub use leveled::{Reach, pick};
pub use manual::{ManualPick, ManualRange, pick_range};
pub use priority::PriorityCache;
pub use proximal::{ProximalOutput, Young};
pub use running::{Registered, RunningCompactions};
pub use universal::UniversalRules;

pub use crate::stats::listener::CompactionReason;

/// Input files of one level: L0 newest first, other levels in key order.
#[derive(Clone, Debug, Default)]
pub struct InputLevel {
    /// The level.
    pub level: usize,
    /// The level's files.
    pub files: Vec<Arc<FileMetaData>>,
}

impl InputLevel {
    fn new(level: usize, files: Vec<Arc<FileMetaData>>) -> Self {
        InputLevel { level, files }
    }

    /// Sum of the file sizes.
    pub fn bytes(&self) -> u64 {
        total_bytes(&self.files)
    }

    fn any_busy(&self) -> bool {
        self.files.iter().any(|f| f.is_being_compacted())
    }
}

fn total_bytes(files: &[Arc<FileMetaData>]) -> u64 {
    files.iter().fold(0, |sum, f| sum.saturating_add(f.file_size))
}

/// What every pick depends on.
#[derive(Clone, Copy)]
pub struct PickContext<'a> {
    /// The newest version.
    pub version: &'a Version,
    /// The targets of the family's levels.
    pub targets: &'a LevelTargets,
    /// Shape of the tree.
    pub options: &'a LeveledOptions,
    /// What is being compacted.
    pub running: &'a RunningCompactions,
    /// What automatic compactions leave above the last level; None: they do not ask.
    pub young: Option<Young>,
}

impl<'a> PickContext<'a> {
    /// The user keys that `files` cover.
    fn range_of(&self, inputs: &'a [InputLevel]) -> UserRange<'a> {
        UserRange::of_files(self.version.comparator(), inputs.iter().flat_map(|i| &i.files))
    }

    /// Levels that compactions may write to.
    fn levels_in_use(&self) -> usize {
        self.options.levels_in_use(self.version.num_levels())
    }

    /// L0 has a level to be compacted into.
    fn has_base_level(&self) -> bool {
        (1..self.levels_in_use()).contains(&self.targets.base_level)
    }

    /// The level that a compaction of `level` writes to.
    fn next_level(&self, level: usize) -> usize {
        if level == 0 { self.targets.base_level } else { level + 1 }
    }
}

/// What the level of the outputs does not say of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputForm {
    /// The directory that they go to; with moves, that of all inputs.
    pub path_id: PathId,
    /// Their compression, if it differs from their level's.
    pub compression: Option<CompressionType>,
    /// Their temperature, if it is not that of the options.
    pub temperature: Option<Temperature>,
    /// Where young entries stay; None: all go to the output level.
    pub proximal: Option<ProximalOutput>,
}

impl OutputForm {
    /// As the level has it, in that directory.
    pub fn of_level(path_id: PathId) -> Self {
        OutputForm { path_id, compression: None, temperature: None, proximal: None }
    }
}

/// A compaction to be run.
#[derive(Clone, Debug)]
pub struct CompactionPick {
    /// Why.
    pub reason: CompactionReason,
    /// Score of the start level when it was picked, 0 if it was not picked by score.
    pub score: f64,
    /// Level of the first inputs.
    pub start_level: usize,
    /// Level of the outputs.
    pub output_level: usize,
    /// Inputs by level, shallowest first; no level is empty.
    pub inputs: Vec<InputLevel>,
    /// Files of the first level below the output level that overlap, in key order: where outputs
    /// should end.
    pub grandparents: Vec<Arc<FileMetaData>>,
    /// The files may change level without being rewritten.
    pub is_trivial_move: bool,
    /// The input files are deleted, and that is all: data that FIFO compaction drops.
    pub is_deletion: bool,
    /// Nothing older than the inputs overlaps them: tombstones can be dropped and sequence numbers
    /// zeroed.
    pub bottommost: bool,
    /// No level below the output level has files: the bottommost level's compression settings
    /// apply, whether or not `bottommost` is true.
    pub deepest: bool,
    /// How outputs are written.
    pub outputs: OutputForm,
    /// Size at which an output should end.
    pub target_output_file_size: u64,
    /// Size at which an output must end.
    pub max_output_file_size: u64,
    /// Limit of the grandparent bytes one output overlaps.
    pub max_compaction_bytes: u64,
    /// Round-robin cursor of the start level once this is done: an internal key.
    pub next_cursor: Option<Vec<u8>>,
}

/// Assumed size of an entry when nothing is known about a table.
const ENTRY_BYTES_GUESSED: u64 = 100;

impl CompactionPick {
    /// Every input file with its level.
    pub fn input_files(&self) -> impl Iterator<Item = (usize, &Arc<FileMetaData>)> {
        self.inputs.iter().flat_map(|i| i.files.iter().map(move |f| (i.level, f)))
    }

    /// Entries of all inputs, estimated from the size for a file whose properties have not been
    /// read yet.
    pub fn input_entries(&self) -> u64 {
        let (mut entries, mut bytes, mut unknown) = (0u64, 0u64, 0u64);
        for (_, file) in self.input_files() {
            match file.stats.get() {
                Some(stats) => {
                    // A foreign table may claim any number.
                    entries = entries.saturating_add(stats.num_entries);
                    bytes = bytes.saturating_add(file.file_size);
                }
                None => unknown = unknown.saturating_add(file.file_size),
            }
        }
        let entry_bytes = bytes.checked_div(entries).unwrap_or(ENTRY_BYTES_GUESSED);
        entries.saturating_add(unknown / entry_bytes.max(1))
    }

    /// Entries of all inputs without range tombstones; None if a file's are not known.
    pub fn input_points(&self) -> Option<u64> {
        self.input_files().try_fold(0u64, |sum, (_, file)| {
            let stats = file.stats.get()?;
            let points = stats.num_entries.saturating_sub(stats.num_range_deletions);
            Some(sum.saturating_add(points))
        })
    }

    /// Bytes of all inputs.
    pub fn input_bytes(&self) -> u64 {
        self.inputs.iter().map(InputLevel::bytes).sum()
    }

    /// No entry was written after this, seconds since 1970; 0 if a file does not say when.
    pub fn newest_key_time(&self) -> u64 {
        let of = |file: &FileMetaData| file.stats.get().map_or(0, |stats| stats.newest_key_time);
        let mut times = self.input_files().map(|(_, file)| of(file));
        times.try_fold(0, |newest, time| (time > 0).then(|| time.max(newest))).unwrap_or(0)
    }

    /// The epoch number of the outputs.
    pub fn output_epoch(&self) -> u64 {
        self.input_files().map(|(_, f)| f.epoch_number).min().unwrap_or(0)
    }
}
