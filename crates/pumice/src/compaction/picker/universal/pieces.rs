//! Compactions of single files: marked ones, and pieces of the two oldest runs.
//!
//! As in leveled compaction the files of a level are a clean cut, and every file of the output
//! level that overlaps is an input; newer files that overlap stay above. Differs from RocksDB: a
//! file is not moved past an overlapping one in between that stays. Pure.

use std::ops::Range;
use std::sync::Arc;

use pumice_manifest::{FileMarks, FileMetaData, UserRange};

use super::super::setup::Start;
use super::super::{CompactionPick, CompactionReason, InputLevel, PickContext};
use super::choose::Run;
use super::{Draft, UniversalRules};

/// A piece may cost this many times more per byte of newer runs than a merge of everything.
const PIECE_PENALTY: f64 = 1.8;

impl UniversalRules {
    /// A compaction of the first marked file without a conflict.
    pub(super) fn by_mark(
        &self,
        ctx: &PickContext<'_>,
        runs: &[Run],
        marks: &FileMarks,
    ) -> Option<CompactionPick> {
        self.first_marked(ctx, runs, &marks.marked, CompactionReason::FilesMarkedForCompaction)
            .or_else(|| self.first_marked(ctx, runs, &marks.hot, CompactionReason::ReadTriggered))
    }

    /// A compaction of the first of these files without a conflict.
    fn first_marked(
        &self,
        ctx: &PickContext<'_>,
        runs: &[Run],
        marked: &[(usize, Arc<FileMetaData>)],
        reason: CompactionReason,
    ) -> Option<CompactionPick> {
        if ctx.version.num_levels() == 1 {
            return self.by_mark_in_level0(ctx, runs, marked, reason);
        }
        marked.iter().find_map(|(level, file)| {
            let gone = ctx.version.level(*level).index_of(file.number).is_none();
            let level0_blocked = *level == 0 && ctx.running.level0_busy();
            let stays = ctx.stays_young(*level, [file]);
            if gone || level0_blocked || stays || file.is_being_compacted() {
                return None;
            }
            let deeper = *level + 1..ctx.levels_in_use();
            let next = deeper.clone().find(|below| ctx.version.num_level_files(*below) > 0);
            let output_level = match next {
                Some(next) => next,
                None if *level == 0 => deeper.last()?,
                // Moving it would free nothing.
                None => return None,
            };
            let inputs = ctx.expand_to_clean_cut(InputLevel::new(*level, vec![file.clone()]))?;
            let inputs = match *level {
                0 => ctx.expand_level0(inputs, output_level)?,
                _ => inputs,
            };
            let pick = ctx.complete(Start::new(reason, output_level, inputs))?;
            let max_output_file_size = pick.target_output_file_size;
            let max_compaction_bytes = self.max_overlap(ctx);
            Some(CompactionPick { max_output_file_size, max_compaction_bytes, ..pick })
        })
    }

    /// With L0 alone: the newest marked file with all that are older, up to one that is being
    /// compacted. The oldest by itself would stay as it is.
    fn by_mark_in_level0(
        &self,
        ctx: &PickContext<'_>,
        runs: &[Run],
        marked: &[(usize, Arc<FileMetaData>)],
        reason: CompactionReason,
    ) -> Option<CompactionPick> {
        let files = ctx.version.files(0);
        let marked = |at: &usize| {
            let mut all = marked.iter();
            !runs[*at].busy && all.any(|(_, file)| file.number == files[*at].number)
        };
        let start = (0..runs.len().checked_sub(1)?).find(marked)?;
        let older = runs[start..].iter().position(|run| run.busy);
        let end = older.map_or(runs.len(), |busy| start + busy);
        (end - start > 1).then(|| self.finish(ctx, self.draft(ctx, runs, start..end, reason)))?
    }

    /// The part of the two oldest runs that costs least, of about half the bytes of a compaction,
    /// with what lies inside it in newer levels; `None` if it costs much more than a merge of
    /// everything, in which there are `whole` bytes of the oldest run for each other byte.
    pub(super) fn piece(&self, ctx: &PickContext<'_>, runs: &[Run], whole: f64) -> Option<Draft> {
        let [.., upper, lower] = runs else { return None };
        if upper.level == 0 {
            return None;
        }
        let span = self.cheapest(ctx, upper.level, lower.level, whole * PIECE_PENALTY)?;
        let files = ctx.version.files(upper.level)[span].to_vec();
        let reason = CompactionReason::UniversalSizeAmplification;
        let upper_inputs = ctx.expand_to_clean_cut(InputLevel::new(upper.level, files))?;
        // Extended where that costs nothing, with the files of the lower level.
        let pick = ctx.complete(Start::new(reason, lower.level, upper_inputs))?;
        let mut inputs = pick.inputs;
        let cmp = &ctx.version.comparator().user;
        for run in runs[..runs.len() - 2].iter().rev().take_while(|r| r.level > 0 && !r.busy) {
            let level = ctx.version.level(run.level);
            let range = UserRange::of_files(ctx.version.comparator(), &inputs[0].files);
            let span = level.clean_inputs_within(&range, cmp);
            if !span.is_empty() {
                inputs.insert(0, InputLevel::new(run.level, level.files()[span].to_vec()));
            } else if level.overlaps(&range, cmp) {
                break; // It stays, and so must all that is newer.
            }
        }
        Some(Draft::new(reason, lower.level, inputs))
    }

    /// The neighbours in level `upper` with the fewest bytes in level `lower` for each of their
    /// own, and fewer than `limit`.
    fn cheapest(
        &self,
        ctx: &PickContext<'_>,
        upper: usize,
        lower: usize,
        limit: f64,
    ) -> Option<Range<usize>> {
        let files = ctx.version.files(upper);
        let half = self.max_compaction_bytes / 2;
        let mut best = (limit, None);
        let mut start = 0;
        for end in 1..=files.len() {
            if end > 1 && self.gap_holds_files(ctx, &files[end - 2..end], lower) {
                start = end - 1;
            }
            let cost = |start: usize| cost(ctx, &files[start..end], lower);
            let (own, below) = cost(start);
            if own.saturating_add(below) <= half && end < files.len() {
                continue;
            }
            let fanout = below as f64 / own.max(1) as f64;
            if fanout < best.0 {
                best = (fanout, Some(start..end));
            }
            while start < end && cost(start).0.saturating_add(cost(start).1) > half {
                start += 1;
            }
        }
        best.1
    }

    /// More than one file of `lower` lies between two neighbours: taking both neighbours would
    /// rewrite those files for nothing.
    fn gap_holds_files(
        &self,
        ctx: &PickContext<'_>,
        pair: &[Arc<FileMetaData>],
        lower: usize,
    ) -> bool {
        let icmp = ctx.version.comparator();
        let inside = |file: &&Arc<FileMetaData>| {
            icmp.compare(file.smallest_key(), pair[0].largest_key()).is_gt()
                && icmp.compare(file.largest_key(), pair[1].smallest_key()).is_lt()
        };
        let (begin, end) = (pair[0].largest_user_key(), pair[1].smallest_user_key());
        let level = ctx.version.level(lower);
        let near = level.overlapping_range(
            &UserRange { begin: Some(begin), end: Some(end), end_open: false },
            &icmp.user,
        );
        // At most one at either end is not inside.
        level.files()[near].iter().filter(inside).nth(1).is_some()
    }
}

/// Bytes of `files`, and of those of level `lower` between their ends.
fn cost(ctx: &PickContext<'_>, files: &[Arc<FileMetaData>], lower: usize) -> (u64, u64) {
    if files.is_empty() {
        return (0, 0);
    }
    let icmp = ctx.version.comparator();
    let range = UserRange::of_files(icmp, files);
    let level = ctx.version.level(lower);
    let span = level.overlapping_range(&range, &icmp.user);
    let total = super::super::total_bytes;
    (total(files), total(&level.files()[span]))
}
