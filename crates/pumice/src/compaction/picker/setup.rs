//! Steps that automatic and manual picks share: from the files of the start level to a pick.

use std::sync::Arc;

use pumice_base::order;
use pumice_base::planted::{self, Bug};
use pumice_env::filename::PathId;
use pumice_manifest::{CompactionPri, FileMetaData, UserRange};

use super::{
    CompactionPick, CompactionReason, InputLevel, OutputForm, PickContext, paths, total_bytes,
};

/// A compaction of L0 may take at least this many times the bytes of the output level, which it may
/// have to rewrite.
const BATCH_OVER_BASE: u64 = 4;

/// What is known about a pick before its output level is examined.
pub(super) struct Start {
    pub reason: CompactionReason,
    pub output_level: usize,
    pub inputs: InputLevel,
    /// Each input is an L0 file that overlaps neither another input, nor the output level, nor
    /// what is being written there. It must become a move: gaps between the files may be in use.
    pub is_l0_move: bool,
    /// A compaction filter must see every entry.
    pub forbid_move: bool,
    /// Inputs grow only towards larger keys.
    pub expand_right_only: bool,
    /// The directory that a caller chose for the outputs.
    pub path_id: Option<PathId>,
}

impl Start {
    pub fn new(reason: CompactionReason, output_level: usize, inputs: InputLevel) -> Self {
        Start {
            reason,
            output_level,
            inputs,
            is_l0_move: false,
            forbid_move: false,
            expand_right_only: false,
            path_id: None,
        }
    }
}

impl PickContext<'_> {
    fn cmp(&self) -> &pumice_base::Comparator {
        &self.version.comparator().user
    }

    /// Extends `inputs` to a clean cut. `None` if a file of it is being compacted. L0 files are
    /// left as they are.
    pub(super) fn expand_to_clean_cut(&self, inputs: InputLevel) -> Option<InputLevel> {
        if inputs.level == 0 || inputs.files.is_empty() {
            return Some(inputs);
        }
        let level = self.version.level(inputs.level);
        let range = UserRange::of_files(self.version.comparator(), &inputs.files);
        let files = level.overlapping_inputs(&range, self.cmp());
        let expanded = InputLevel::new(inputs.level, files);
        (!expanded.any_busy()).then_some(expanded)
    }

    /// Some running compaction writes to `output_level` inside the range of `inputs`.
    pub(super) fn conflicts_with_running(
        &self,
        inputs: &[InputLevel],
        output_level: usize,
    ) -> bool {
        let range = self.range_of(inputs);
        self.running.writes_into(output_level, &range, self.cmp())
    }

    /// Replaces the L0 files by all that overlap them, transitively. `None` if a file of the
    /// output level in the way is being compacted.
    pub(super) fn expand_level0(
        &self,
        inputs: InputLevel,
        output_level: usize,
    ) -> Option<InputLevel> {
        let range = UserRange::of_files(self.version.comparator(), &inputs.files);
        let files = self.version.get_overlapping_inputs(0, &range);
        let expanded = InputLevel::new(0, files);
        let range = UserRange::of_files(self.version.comparator(), &expanded.files);
        let below = self.version.level(output_level).overlapping_files(&range, self.cmp());
        let busy = |f: &Arc<FileMetaData>| f.is_being_compacted();
        (!expanded.any_busy() && !below.iter().any(busy)).then_some(expanded)
    }

    /// The oldest L0 file with all that overlap it, transitively, up to those that are being
    /// merged: newer ones may stay. `None` if an overlapping file is being compacted.
    pub(super) fn expand_oldest_level0(
        &self,
        oldest: &Arc<FileMetaData>,
        output_level: usize,
    ) -> Option<InputLevel> {
        let files = self.version.files(0);
        let newer = files.iter().rposition(|f| f.is_being_compacted()).map_or(0, |at| at + 1);
        let older = &files[files.len() - self.level0_batch(&files[newer..], output_level)..];
        let range = UserRange::of_files(self.version.comparator(), std::slice::from_ref(oldest));
        let mut expanded = self.version.get_overlapping_inputs(0, &range);
        expanded.retain(|file| older.iter().any(|own| own.number == file.number));
        let range = UserRange::of_files(self.version.comparator(), &expanded);
        let below = self.version.level(output_level).overlapping_files(&range, self.cmp());
        let busy = |f: &Arc<FileMetaData>| f.is_being_compacted();
        (!expanded.is_empty() && !below.iter().any(busy)).then(|| InputLevel::new(0, expanded))
    }

    /// How many of these files, oldest last, one compaction into `output_level` takes: no more
    /// bytes than the limit of a compaction, so that an L0 of merged files is not compacted by one
    /// job that takes minutes, but enough to be worth a rewrite of that level.
    fn level0_batch(&self, files: &[Arc<FileMetaData>], output_level: usize) -> usize {
        let rewritten = self.version.level_bytes(output_level);
        let enough = self.options.compaction_limit().max(BATCH_OVER_BASE.saturating_mul(rewritten));
        let mut bytes = 0u64;
        let fits = |file: &&Arc<FileMetaData>| {
            bytes = bytes.saturating_add(file.file_size);
            bytes <= enough
        };
        files.iter().rev().take_while(fits).count().max(1).min(files.len())
    }

    /// Adds the files of the output level, grows the start level where that is free, and checks for
    /// conflicts. `None` if there is a conflict.
    pub(super) fn complete(&self, mut start: Start) -> Option<CompactionPick> {
        if start.output_level >= self.levels_in_use() {
            return None;
        }
        let start_level = start.inputs.level;
        let mut inputs = Vec::with_capacity(2);
        if start.output_level == start_level || start.is_l0_move {
            inputs.push(start.inputs);
        } else {
            let below = self.output_inputs(&start.inputs, start.output_level)?;
            if !below.files.is_empty() {
                self.grow_start_level(&mut start, &below);
            }
            inputs.push(start.inputs);
            inputs.extend((!below.files.is_empty()).then_some(below));
        }
        let busy = inputs.iter().any(InputLevel::any_busy);
        let conflict =
            start.output_level != 0 && self.conflicts_with_running(&inputs, start.output_level);
        let proximal = self.proximal_output(&inputs, start.output_level);
        if busy || conflict || self.conflicts_at_proximal(proximal.as_ref()) {
            return None;
        }
        let range = self.range_of(&inputs);
        let grandparents = match start.output_level {
            0 => Vec::new(),
            level => self.grandparents(level, &range),
        };
        let bottommost = self.is_bottommost(&inputs, start.output_level, &range);
        let target = self.target_file_size(start.output_level);
        let path_id =
            start.path_id.unwrap_or_else(|| paths::of_level(self.options, start.output_level));
        let may_grow = !bottommost && !grandparents.is_empty();
        let mut pick = CompactionPick {
            reason: start.reason,
            score: 0.0,
            start_level,
            output_level: start.output_level,
            grandparents,
            is_trivial_move: false,
            is_deletion: false,
            bottommost,
            deepest: start.output_level + 1 >= self.version.num_non_empty_levels(),
            outputs: OutputForm { proximal, ..OutputForm::of_level(path_id) },
            target_output_file_size: target,
            max_output_file_size: if may_grow { target.saturating_mul(2) } else { target },
            max_compaction_bytes: self.options.compaction_limit(),
            next_cursor: self.next_cursor(start.reason, &inputs),
            inputs,
        };
        pick.is_trivial_move = !start.forbid_move && self.is_trivial_move(&pick, start.is_l0_move);
        Some(pick)
    }

    /// The files of the output level that overlap `inputs`, as a clean cut.
    fn output_inputs(&self, inputs: &InputLevel, output_level: usize) -> Option<InputLevel> {
        let range = UserRange::of_files(self.version.comparator(), &inputs.files);
        let files = self.version.level(output_level).overlapping_files(&range, self.cmp());
        self.expand_to_clean_cut(InputLevel::new(output_level, files))
            .filter(|below| !below.any_busy())
    }

    /// Adds files of the start level if that adds none of the output level.
    fn grow_start_level(&self, start: &mut Start, below: &InputLevel) {
        let level = self.version.level(start.inputs.level);
        let own = UserRange::of_files(self.version.comparator(), &start.inputs.files);
        let other = UserRange::of_files(self.version.comparator(), &below.files);
        let mut hull = own.union(other, self.cmp());
        if start.expand_right_only {
            hull.begin = own.begin;
        }
        let limit = self.options.compaction_limit();
        let below_bytes = below.bytes();
        let acceptable = |files: &InputLevel| {
            files.files.len() > start.inputs.files.len()
                && !files.any_busy()
                && below_bytes.saturating_add(files.bytes()) < limit
        };
        let wider = InputLevel::new(level.number(), level.overlapping_inputs(&hull, self.cmp()));
        if acceptable(&wider) {
            let same_below = self
                .output_inputs(&wider, below.level)
                .is_some_and(|b| b.files.len() == below.files.len());
            if same_below {
                start.inputs = wider;
            }
        } else if level.number() > 0 {
            let within = level.files()[level.clean_inputs_within(&hull, self.cmp())].to_vec();
            let within = InputLevel::new(level.number(), within);
            let kept = start
                .inputs
                .files
                .iter()
                .all(|f| within.files.iter().any(|w| w.number == f.number));
            if kept && acceptable(&within) {
                start.inputs = within;
            }
        }
    }

    /// The files of the first level below `output_level` that overlaps `range`.
    fn grandparents(&self, output_level: usize, range: &UserRange<'_>) -> Vec<Arc<FileMetaData>> {
        let deeper = self.version.levels().iter().skip(output_level + 1);
        deeper
            .map(|level| level.overlapping_files(range, self.cmp()))
            .find(|files| !files.is_empty())
            .unwrap_or_default()
    }

    /// Nothing older than the inputs overlaps them.
    pub(super) fn is_bottommost(
        &self,
        inputs: &[InputLevel],
        output_level: usize,
        range: &UserRange<'_>,
    ) -> bool {
        let oldest = inputs.first().and_then(|i| i.files.last());
        let index = match (output_level, oldest) {
            (0, Some(oldest)) => self.version.level(0).index_of(oldest.number).unwrap_or(0),
            _ => 0,
        };
        // Files ingested later below count as older than anything here.
        (!self.options.reserved_last_level || planted::is(Bug::ReservedLevelForgotten))
            && !self.version.range_exists_after(output_level, index, range)
    }

    /// Outputs in L0 are never split: their order is by age alone.
    pub(super) fn target_file_size(&self, output_level: usize) -> u64 {
        match output_level {
            0 => u64::MAX,
            level => self.options.target_file_size(level, self.targets.base_level),
        }
    }

    fn compression(&self, level: usize) -> u8 {
        let non_empty = self.version.num_non_empty_levels();
        self.options.compression.for_level(level, self.targets.base_level, non_empty)
    }

    /// Smallest key of the file after the inputs, wrapping around to the first file.
    fn next_cursor(&self, reason: CompactionReason, inputs: &[InputLevel]) -> Option<Vec<u8>> {
        let start = inputs.first().filter(|i| i.level > 0)?;
        if self.options.compaction_pri != CompactionPri::RoundRobin
            || reason != CompactionReason::LevelMaxLevelSize
        {
            return None;
        }
        let level = self.version.level(start.level);
        let index = level.index_of(start.files.last()?.number)?;
        let next = level.files().get(index + 1).or_else(|| level.files().first())?;
        Some(next.smallest.clone())
    }

    /// Whether the inputs may change level as they are: nothing to merge with, no expensive overlap
    /// with the grandparents, same path and compression, no young entries to be left.
    fn is_trivial_move(&self, pick: &CompactionPick, is_l0_move: bool) -> bool {
        let [inputs] = pick.inputs.as_slice() else {
            return false;
        };
        // A rewrite leaves nothing of tombstones that have nothing below, and a file at the bottom
        // keeps them for good.
        if pick.bottommost && inputs.files.iter().any(|file| file.is_mostly_deletions()) {
            return false;
        }
        if pick.outputs.proximal.is_some()
            || !self.can_move(pick.start_level, pick.output_level)
            || inputs.files.iter().any(|f| f.path_id != pick.outputs.path_id)
        {
            return false;
        }
        if pick.start_level == 0 && !is_l0_move && !self.files_disjoint(&inputs.files) {
            return false;
        }
        inputs.files.iter().all(|file| self.moves_cheaply(file, pick.output_level))
    }

    /// `file` would not be cut by its prefixes, and in `output_level` would not overlap more of the
    /// level below than one compaction may read.
    pub(super) fn moves_cheaply(&self, file: &FileMetaData, output_level: usize) -> bool {
        if self.options.is_cut_between(file.smallest_user_key(), file.largest_user_key()) {
            return false;
        }
        let Some(next) = self.version.levels().get(output_level + 1) else {
            return true;
        };
        let overlap = next.overlapping_files(&UserRange::of_file(file), self.cmp());
        let bytes = file.file_size.saturating_add(total_bytes(&overlap));
        bytes <= self.options.compaction_limit()
    }

    /// Files of `level` keep their compression in `output_level`.
    pub(super) fn can_move(&self, level: usize, output_level: usize) -> bool {
        level != output_level && self.compression(level) == self.compression(output_level)
    }

    /// No two of `files` share a user key.
    pub(super) fn files_disjoint(&self, files: &[Arc<FileMetaData>]) -> bool {
        let icmp = self.version.comparator();
        let mut sorted: Vec<_> = files.iter().collect();
        order::sort_by(&mut sorted, |a, b| icmp.compare(a.smallest_key(), b.smallest_key()));
        sorted.windows(2).all(|pair| {
            UserRange::of_file(pair[0]).is_before(&UserRange::of_file(pair[1]), self.cmp())
        })
    }
}
