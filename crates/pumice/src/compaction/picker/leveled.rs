//! The automatic leveled picker: a file of the level with the highest score, then marked files.

use pumice_base::order;
use std::sync::Arc;

use pumice_manifest::{CompactionPri, FileMarks, FileMetaData, LevelScores, UserRange};

use super::priority::PriorityCache;
use super::setup::Start;
use super::{CompactionPick, CompactionReason, InputLevel, PickContext};

/// A trivial move takes at most this many files, so as not to flood the next level.
const MAX_MOVED_FILES: usize = 4;

/// Which compactions may be picked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Any.
    All,
    /// Those that L0 waits for: out of L0, and out of the level below it, which every compaction of
    /// L0 rewrites.
    Upper,
    /// Compactions inside L0.
    Merges,
}

/// The most urgent compaction within `reach` that can run now.
pub fn pick(
    ctx: &PickContext<'_>,
    scores: &LevelScores,
    marks: &FileMarks,
    cache: &mut PriorityCache,
    reach: Reach,
) -> Option<CompactionPick> {
    let upper = |level| level == 0 || level == ctx.targets.base_level;
    match reach {
        Reach::All => into_empty_level(ctx, scores, cache)
            .or_else(|| by_score(ctx, scores, cache, |_| true))
            .or_else(|| by_mark(ctx, marks)),
        Reach::Upper => by_score(ctx, scores, cache, upper),
        Reach::Merges => {
            let pick = inside_level0(ctx, ctx.pick_intra_level0()?)?;
            Some(CompactionPick { score: scores.score(0), ..pick })
        }
    }
}

/// A move into a level that holds nothing yet, out of a level that is too large: it costs nothing,
/// so no score needs to be compared. In order of scores it would have to wait while L0 and the
/// level below it lag. All that time the level that is too large grows, so each compaction into it
/// costs more, and in the end the estimate of pending bytes, which leaves out levels above an empty
/// one, jumps.
fn into_empty_level(
    ctx: &PickContext<'_>,
    scores: &LevelScores,
    cache: &mut PriorityCache,
) -> Option<CompactionPick> {
    let is_last = |level| ctx.version.levels().iter().skip(level + 1).all(|next| next.is_empty());
    let (score, level) = *scores.by_score.iter().find(|(_, level)| is_last(*level))?;
    if score < 1.0 || level == 0 {
        return None;
    }
    let pick = out_of_level(ctx, level, cache).filter(|pick| pick.is_trivial_move)?;
    Some(CompactionPick { score, ..pick })
}

/// The first of the `wanted` levels with a score of 1 or more that offers a compaction.
fn by_score(
    ctx: &PickContext<'_>,
    scores: &LevelScores,
    cache: &mut PriorityCache,
    wanted: impl Fn(usize) -> bool,
) -> Option<CompactionPick> {
    let mut level0_waits = false;
    let due = scores.by_score.iter().take_while(|(score, _)| *score >= 1.0);
    for &(score, level) in due.filter(|(_, level)| wanted(*level)) {
        // Nothing may leave the base level while L0 waits for it, or L0 would starve.
        if level0_waits && level == ctx.targets.base_level {
            continue;
        }
        let pick = if level == 0 {
            let pick = out_of_level0(ctx);
            level0_waits = pick.is_none();
            pick.or_else(|| inside_level0(ctx, ctx.pick_intra_level0()?))
        } else {
            out_of_level(ctx, level, cache)
        };
        if let Some(pick) = pick {
            return Some(CompactionPick { score, ..pick });
        }
    }
    None
}

fn inside_level0(ctx: &PickContext<'_>, inputs: InputLevel) -> Option<CompactionPick> {
    ctx.complete(Start::new(CompactionReason::LevelL0FilesNum, 0, inputs))
}

/// A compaction of L0 files: a move, or a merge of a small L0 with itself, or one of the oldest
/// files with the base level. Only moves may run alongside another compaction out of L0; a merge of
/// newer files among themselves conflicts with nothing.
fn out_of_level0(ctx: &PickContext<'_>) -> Option<CompactionPick> {
    if !ctx.has_base_level() {
        return None;
    }
    let base = ctx.targets.base_level;
    if let Some(inputs) = movable_level0_files(ctx) {
        let start = Start::new(CompactionReason::LevelL0FilesNum, base, inputs);
        let pick = ctx.complete(Start { is_l0_move: true, ..start });
        if let Some(pick) = pick.filter(|pick| pick.is_trivial_move) {
            return Some(pick);
        }
    }
    let small = || inside_level0(ctx, ctx.pick_small_level0()?);
    if ctx.running.leaves_level0() {
        return small();
    }
    small().or_else(|| {
        let oldest = ctx.version.files(0).last()?;
        let inputs = ctx.expand_oldest_level0(oldest, base)?;
        ctx.complete(Start::new(CompactionReason::LevelL0FilesNum, base, inputs))
    })
}

/// The L0 files that can change level as they are, in key order: no older file overlaps them, nor
/// does the base level, nor what is being written there. Into an empty base level all idle files
/// move or none does: a lone overlapping file there would not help.
fn movable_level0_files(ctx: &PickContext<'_>) -> Option<InputLevel> {
    if !ctx.can_move(0, ctx.targets.base_level) {
        return None;
    }
    let cmp = &ctx.version.comparator().user;
    let base = ctx.version.level(ctx.targets.base_level);
    let mut older: Vec<UserRange<'_>> = Vec::new();
    let mut moved = Vec::new();
    let mut idle = 0;
    for file in ctx.version.files(0).iter().rev() {
        let own = UserRange::of_file(file);
        idle += usize::from(!file.is_being_compacted());
        if !file.is_being_compacted()
            && !older.iter().any(|range| range.overlaps(&own, cmp))
            && !base.overlaps(&own, cmp)
            && !ctx.running.writes_into(base.number(), &own, cmp)
            && ctx.moves_cheaply(file, base.number())
        {
            moved.push(file.clone());
        }
        older.push(own);
    }
    if moved.is_empty() || (base.is_empty() && moved.len() < idle) {
        return None;
    }
    order::sort_by(&mut moved, |a, b| {
        ctx.version.comparator().compare(a.smallest_key(), b.smallest_key())
    });
    Some(InputLevel::new(0, moved))
}

/// A compaction of the first file of `level`, by priority, without a conflict.
fn out_of_level(
    ctx: &PickContext<'_>,
    level: usize,
    cache: &mut PriorityCache,
) -> Option<CompactionPick> {
    let pri = ctx.options.compaction_pri;
    let order = cache.order(ctx.version, level, pri);
    // Round robin waits for its file instead of skipping it.
    let tries = if pri == CompactionPri::RoundRobin { 1 } else { order.len() };
    let files = ctx.version.files(level);
    let useful = order.iter().filter(|index| !ctx.stays_young(level, [&files[**index as usize]]));
    useful.take(tries).find_map(|&index| {
        let start = try_file(ctx, level, index as usize, ctx.next_level(level))?;
        ctx.complete(start)
    })
}

fn try_file(
    ctx: &PickContext<'_>,
    level: usize,
    index: usize,
    output_level: usize,
) -> Option<Start> {
    let file = &ctx.version.files(level)[index];
    if file.is_being_compacted() {
        return None;
    }
    let inputs = ctx.expand_to_clean_cut(InputLevel::new(level, vec![file.clone()]))?;
    if ctx.conflicts_with_running(std::slice::from_ref(&inputs), output_level) {
        return None;
    }
    let cmp = &ctx.version.comparator().user;
    let range = UserRange::of_files(ctx.version.comparator(), &inputs.files);
    let below = ctx.version.level(output_level).overlapping_files(&range, cmp);
    let mut start = Start::new(CompactionReason::LevelMaxLevelSize, output_level, inputs);
    if below.is_empty() {
        extend_move(ctx, &mut start.inputs, index);
    } else {
        ctx.expand_to_clean_cut(InputLevel::new(output_level, below))?;
    }
    if ctx.options.compaction_pri == CompactionPri::RoundRobin {
        start.expand_right_only = true;
        extend_round_robin(ctx, &mut start);
    }
    Some(start)
}

/// Adds neighbours that may move too.
fn extend_move(ctx: &PickContext<'_>, inputs: &mut InputLevel, index: usize) {
    let options = ctx.options;
    let output_level = ctx.next_level(inputs.level);
    if inputs.files.len() != 1
        || !ctx.can_move(inputs.level, output_level)
        || !ctx.moves_cheaply(&inputs.files[0], output_level)
    {
        return;
    }
    let cmp = &ctx.version.comparator().user;
    let level = ctx.version.level(inputs.level);
    let output = ctx.version.level(output_level);
    let mut span = index..index + 1;
    let mut bytes = inputs.bytes();
    let mut admit = |span: &std::ops::Range<usize>, file: &FileMetaData| {
        bytes = bytes.saturating_add(file.file_size);
        let range = UserRange::of_files(ctx.version.comparator(), &level.files()[span.clone()]);
        !file.is_being_compacted()
            && bytes <= options.compaction_limit()
            && ctx.moves_cheaply(file, output_level)
            && !output.overlaps(&range, cmp)
            && level.clean_cut(span.clone(), cmp) == *span
            && !ctx.running.writes_into(output.number(), &range, cmp)
    };
    while span.len() < MAX_MOVED_FILES && span.end < level.len() {
        let wider = span.start..span.end + 1;
        if !admit(&wider, &level.files()[span.end]) {
            break;
        }
        span = wider;
    }
    if options.compaction_pri != CompactionPri::RoundRobin {
        while span.len() < MAX_MOVED_FILES && span.start > 0 {
            let wider = span.start - 1..span.end;
            if !admit(&wider, &level.files()[span.start - 1]) {
                break;
            }
            span = wider;
        }
    }
    inputs.files = level.files()[span].to_vec();
}

/// Adds the files that follow the cursor's until the level is back at its target.
fn extend_round_robin(ctx: &PickContext<'_>, start: &mut Start) {
    let level = ctx.version.level(start.inputs.level);
    let cmp = &ctx.version.comparator().user;
    let excess = level.total_bytes().saturating_sub(ctx.targets.max_bytes[start.inputs.level]);
    let limit = ctx.options.compaction_limit();
    let Some(mut end) = start.inputs.files.last().and_then(|f| level.index_of(f.number)) else {
        return;
    };
    let begin = end + 1 - start.inputs.files.len();
    while start.inputs.bytes() < excess && end + 1 < level.len() {
        let span = level.clean_cut(begin..end + 2, cmp);
        let files = &level.files()[span.clone()];
        let range = UserRange::of_files(ctx.version.comparator(), files);
        let below = ctx.version.level(start.output_level).overlapping_inputs(&range, cmp);
        let wider = InputLevel::new(level.number(), files.to_vec());
        let below = InputLevel::new(start.output_level, below);
        if wider.any_busy()
            || below.any_busy()
            || wider.bytes().saturating_add(below.bytes()) >= limit
            || ctx.running.writes_into(start.output_level, &range, cmp)
        {
            return;
        }
        end = span.end - 1;
        start.inputs = wider;
    }
}

/// The level that a marked file goes to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Destination {
    /// The file is rewritten where it is.
    Same,
    /// A level down; files of the last level with data stay as they are.
    Next,
    /// A level down; files of the last level with data are rewritten there.
    NextOrLast,
}

/// A compaction of the first marked file without a conflict.
fn by_mark(ctx: &PickContext<'_>, marks: &FileMarks) -> Option<CompactionPick> {
    use CompactionReason as Reason;
    use Destination::{Next, NextOrLast, Same};
    // Where the last level holds most data, a rewrite above it would be repeated below.
    let dynamic = ctx.options.level_compaction_dynamic_level_bytes;
    let periodic = if dynamic { NextOrLast } else { Same };
    first_marked(ctx, Reason::FilesMarkedForCompaction, &marks.marked, Next)
        .or_else(|| first_marked(ctx, Reason::BottommostFiles, &marks.bottommost, Same))
        .or_else(|| first_marked(ctx, Reason::Ttl, &marks.expired, Next))
        .or_else(|| first_marked(ctx, Reason::PeriodicCompaction, &marks.periodic, periodic))
        .or_else(|| first_marked(ctx, Reason::ForcedBlobGc, &marks.blob_garbage, NextOrLast))
        .or_else(|| first_marked(ctx, Reason::ReadTriggered, &marks.hot, Next))
}

fn first_marked(
    ctx: &PickContext<'_>,
    reason: CompactionReason,
    files: &[(usize, Arc<FileMetaData>)],
    destination: Destination,
) -> Option<CompactionPick> {
    files.iter().find_map(|(level, file)| {
        let level = *level;
        let last = level + 1 >= ctx.version.num_non_empty_levels()
            || ctx.next_level(level) >= ctx.levels_in_use();
        let level0_blocked = level == 0 && (ctx.running.level0_busy() || !ctx.has_base_level());
        // Marks may be older than the version.
        let gone = ctx.version.level(level).index_of(file.number).is_none();
        let next = destination == Destination::Next;
        let stays = next && (last && level > 0 || ctx.stays_young(level, [file]));
        if file.is_being_compacted() || gone || level0_blocked || stays {
            return None;
        }
        let down = match destination {
            Destination::Same => false,
            Destination::Next => true,
            Destination::NextOrLast => !last,
        };
        let output_level = if down { ctx.next_level(level) } else { level };
        let inputs = ctx.expand_to_clean_cut(InputLevel::new(level, vec![file.clone()]))?;
        let inputs = match (level, down) {
            (0, true) => ctx.expand_level0(inputs, output_level)?,
            _ => inputs,
        };
        ctx.complete(Start::new(reason, output_level, inputs))
    })
}
