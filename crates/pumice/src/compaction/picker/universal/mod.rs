//! Universal compaction: neighbouring sorted runs are merged when sizes, their number or age ask
//! for it (`choose`), single files when they are marked, everything on request.
//!
//! Newest first, each L0 file is a run, and so is each deeper level with files. Every run is older
//! than those before it. A stretch of runs is merged into the level right above the next older run,
//! or into L0 in the stretch's place if that is an L0 file, or into the last level if there is
//! none: so the order by age stays. `pieces` handles compactions of parts of a level.
//!
//! Pure, like the rest of the picker. Several compactions run at once on different runs. Differs
//! from RocksDB: files that overlap nothing may move out of an L0 whose other files overlap; a
//! compaction because of age never moves files. Not here: several paths, and holding back files
//! that consist of one range tombstone until a compaction of their own.

mod choose;
mod pieces;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;

use choose::Run;
use pumice_compress::CompressionType;
use pumice_env::filename::PathId;
use pumice_manifest::{FileMarks, FileMetaData, LevelScores, Version};

use super::{CompactionPick, CompactionReason, InputLevel, ManualPick, OutputForm, PickContext};
use super::{RunningCompactions, paths, total_bytes};

pub use choose::UniversalRules;

/// A pick before it is checked for conflicts.
struct Draft {
    reason: CompactionReason,
    output_level: usize,
    /// By level, shallowest first; no level is empty.
    inputs: Vec<InputLevel>,
    grandparents: Vec<Arc<FileMetaData>>,
    uncompressed: bool,
    may_move: bool,
}

impl Draft {
    fn new(reason: CompactionReason, output_level: usize, inputs: Vec<InputLevel>) -> Self {
        let (grandparents, uncompressed, may_move) = (Vec::new(), false, true);
        Draft { reason, output_level, inputs, grandparents, uncompressed, may_move }
    }
}

impl UniversalRules {
    /// Runs that count against the triggers of stalls: files of L0, and deeper levels with files.
    pub fn runs(version: &Version) -> usize {
        let deeper = version.levels().iter().skip(1).filter(|level| !level.is_empty());
        version.num_level_files(0) + deeper.count()
    }

    /// The need for compaction: 1 and more means that there are many runs. Only level 0 has a
    /// score; bytes to be compacted are not estimated.
    pub fn scores(&self, version: &Version, running: &RunningCompactions) -> LevelScores {
        let busy = running.files().filter(|(level, _)| *level == 0).count();
        let idle = |files: &[Arc<FileMetaData>]| {
            files.first().is_some_and(|file| !file.is_being_compacted())
        };
        let deeper = version.levels().iter().skip(1).filter(|level| idle(level.files())).count();
        let runs = version.num_level_files(0).saturating_sub(busy) + deeper;
        let score = runs as f64 / self.trigger.max(1) as f64;
        LevelScores { by_score: vec![(score, 0)], estimated_compaction_needed_bytes: 0 }
    }

    /// What to do next.
    pub fn pick(&self, ctx: &PickContext<'_>, marks: &FileMarks) -> Option<CompactionPick> {
        let runs = sorted_runs(ctx);
        let by_age = || self.by_age(ctx, &runs, marks);
        let by_size = || self.by_size(ctx, &runs);
        by_age()
            .or_else(|| (runs.len() >= self.trigger).then(by_size).flatten())
            .or_else(|| self.by_mark(ctx, &runs, marks))
    }

    /// If files are too old, everything that is not being compacted is rewritten.
    fn by_age(
        &self,
        ctx: &PickContext<'_>,
        runs: &[Run],
        marks: &FileMarks,
    ) -> Option<CompactionPick> {
        if marks.periodic.is_empty() {
            return None;
        }
        let stretch = Self::idle_end(runs)?;
        let draft = self.draft(ctx, runs, stretch.clone(), CompactionReason::PeriodicCompaction);
        let is_marked = |(_, file): (usize, &Arc<FileMetaData>)| {
            marks.periodic.iter().any(|(_, old)| old.number == file.number)
        };
        if stretch.len() == 1 && !draft.inputs.iter().flat_map(of_level).any(is_marked) {
            return None;
        }
        self.finish(ctx, Draft { may_move: false, ..draft })
    }

    fn by_size(&self, ctx: &PickContext<'_>, runs: &[Run]) -> Option<CompactionPick> {
        self.by_amplification(ctx, runs)
            .or_else(|| {
                let stretch = self.by_size_ratio(runs)?;
                self.by_number(ctx, runs, stretch, CompactionReason::UniversalSizeRatio)
            })
            .or_else(|| {
                let stretch = self.by_run_count(runs)?;
                self.by_number(ctx, runs, stretch, CompactionReason::UniversalSortedRunNum)
            })
    }

    fn by_amplification(&self, ctx: &PickContext<'_>, runs: &[Run]) -> Option<CompactionPick> {
        let compared = without_last_level(ctx, runs);
        let (stretch, newer) = self.by_size_amplification(compared)?;
        let piece = self.incremental.then(|| {
            let base = compared.last().map_or(0, |run| run.size);
            let draft = self.piece(ctx, compared, base as f64 / newer.max(1) as f64)?;
            self.finish(ctx, draft)
        });
        piece.flatten().or_else(|| {
            let reason = CompactionReason::UniversalSizeAmplification;
            self.finish(ctx, self.draft(ctx, runs, stretch, reason))
        })
    }

    fn by_number(
        &self,
        ctx: &PickContext<'_>,
        runs: &[Run],
        stretch: Range<usize>,
        reason: CompactionReason,
    ) -> Option<CompactionPick> {
        let uncompressed = self.leaves_uncompressed(runs, stretch.end);
        let next = runs.get(stretch.end).map_or(0, |run| run.level);
        let draft = self.draft(ctx, runs, stretch, reason);
        // Outputs that end where files of the next run end can be merged with those alone.
        let aligned = self.incremental && next > 1;
        let grandparents = if aligned { ctx.version.files(next).to_vec() } else { Vec::new() };
        self.finish(ctx, Draft { uncompressed, grandparents, ..draft })
    }

    /// A merge of all runs of `stretch`.
    fn draft(
        &self,
        ctx: &PickContext<'_>,
        runs: &[Run],
        stretch: Range<usize>,
        reason: CompactionReason,
    ) -> Draft {
        let output_level = match runs.get(stretch.end) {
            None => ctx.levels_in_use() - 1,
            Some(next) => next.level.saturating_sub(1),
        };
        let level0 = runs.iter().filter(|run| run.level == 0).count();
        let files = &ctx.version.files(0)[stretch.start.min(level0)..stretch.end.min(level0)];
        let mut inputs = Vec::with_capacity(2);
        inputs.extend((!files.is_empty()).then(|| InputLevel::new(0, files.to_vec())));
        for run in runs[stretch].iter().filter(|run| run.level > 0) {
            inputs.push(InputLevel::new(run.level, ctx.version.files(run.level).to_vec()));
        }
        Draft::new(reason, output_level, inputs)
    }

    /// `draft` as a pick, unless another compaction writes where it would.
    fn finish(&self, ctx: &PickContext<'_>, draft: Draft) -> Option<CompactionPick> {
        let Draft { reason, output_level, inputs, grandparents, uncompressed, may_move } = draft;
        let conflict = output_level > 0 && ctx.conflicts_with_running(&inputs, output_level);
        let proximal = ctx.proximal_output(&inputs, output_level);
        if conflict
            || ctx.conflicts_at_proximal(proximal.as_ref())
            || inputs.iter().any(InputLevel::any_busy)
        {
            return None;
        }
        let first = inputs.first()?;
        // What is written again because of its age is done once.
        let by_age = reason == CompactionReason::PeriodicCompaction;
        if proximal.is_some() && !by_age && ctx.stays_young(first.level, &first.files) {
            return None;
        }
        let range = ctx.range_of(&inputs);
        let bottommost = ctx.is_bottommost(&inputs, output_level, &range);
        let target = ctx.target_file_size(output_level);
        let bytes = inputs.iter().fold(0, |sum: u64, input| sum.saturating_add(input.bytes()));
        let path_id = paths::of_bytes(ctx.options, bytes, self.size_ratio.into());
        let mut pick = CompactionPick {
            reason,
            score: 0.0,
            start_level: first.level,
            output_level,
            inputs,
            grandparents,
            is_trivial_move: false,
            is_deletion: false,
            bottommost,
            deepest: output_level + 1 >= ctx.version.num_non_empty_levels(),
            outputs: OutputForm {
                compression: uncompressed.then_some(CompressionType::None),
                proximal,
                ..OutputForm::of_level(path_id)
            },
            target_output_file_size: target,
            max_output_file_size: target,
            max_compaction_bytes: self.max_overlap(ctx),
            next_cursor: None,
        };
        pick.is_trivial_move = may_move && self.may_move(ctx, &pick);
        Some(pick)
    }

    /// Bytes of the next run that one output may overlap.
    fn max_overlap(&self, ctx: &PickContext<'_>) -> u64 {
        match self.incremental {
            true => (ctx.options.target_file_size_base / 2).saturating_mul(3),
            false => u64::MAX,
        }
    }

    /// The inputs may change level as they are: they overlap nothing, and either the user says so
    /// or they come from one level and would be written there as they are.
    fn may_move(&self, ctx: &PickContext<'_>, pick: &CompactionPick) -> bool {
        if pick.output_level == 0
            || pick.output_level == pick.start_level
            || pick.outputs.proximal.is_some()
        {
            return false;
        }
        let files: Vec<_> = pick.input_files().map(|(_, file)| file.clone()).collect();
        let as_they_are = || {
            pick.inputs.len() == 1
                && pick.outputs.compression.is_none()
                && ctx.can_move(pick.start_level, pick.output_level)
                && files.iter().all(|file| ctx.moves_cheaply(file, pick.output_level))
        };
        (self.allow_trivial_move || as_they_are())
            && files.iter().all(|file| file.path_id == pick.outputs.path_id)
            && ctx.files_disjoint(&files)
    }

    /// All runs, whatever the range: into the last level, or into one file of L0 if there is no
    /// other level.
    pub fn pick_all(&self, ctx: &PickContext<'_>, path_id: PathId) -> ManualPick {
        let runs = sorted_runs(ctx);
        let Some(first) = runs.first() else { return ManualPick::Nothing };
        if first.level == 0 && ctx.running.level0_busy() {
            return ManualPick::Conflict;
        }
        let reason = CompactionReason::ManualCompaction;
        let draft = self.draft(ctx, &runs, 0..runs.len(), reason);
        match self.finish(ctx, Draft { may_move: false, ..draft }) {
            Some(mut pick) => {
                pick.outputs.path_id = path_id;
                ManualPick::Pick { pick: Box::new(pick), resume_at: None }
            }
            None => ManualPick::Conflict,
        }
    }
}

fn of_level(input: &InputLevel) -> impl Iterator<Item = (usize, &Arc<FileMetaData>)> {
    input.files.iter().map(|file| (input.level, file))
}

/// The runs that are compared for size amplification: where young entries stay above the last
/// level, which is meant to be large and cheap, the runs above it, as in RocksDB.
fn without_last_level<'r>(ctx: &PickContext<'_>, runs: &'r [Run]) -> &'r [Run] {
    match (runs.split_last(), ctx.proximal_level()) {
        (Some((last, rest)), Some(level)) if last.level > level && !rest.is_empty() => rest,
        _ => runs,
    }
}

/// The runs that compactions may touch, newest first. Those of L0 are in the order of its files.
fn sorted_runs(ctx: &PickContext<'_>) -> Vec<Run> {
    let run = |level: usize, files: &[Arc<FileMetaData>]| Run {
        level,
        size: total_bytes(files),
        compensated: files.iter().fold(0, |sum, f| sum.saturating_add(f.compensated_size())),
        busy: files.iter().any(|file| file.is_being_compacted()),
    };
    let level0 = ctx.version.files(0).iter().map(|file| run(0, std::slice::from_ref(file)));
    let deeper = ctx.version.levels().iter().take(ctx.levels_in_use()).skip(1);
    let deeper = deeper.filter(|level| !level.is_empty()).map(|l| run(l.number(), l.files()));
    level0.chain(deeper).collect()
}
