//! Picks for `CompactRange`: one level of the range at a time, in pieces.

use pumice_env::filename::PathId;
use pumice_manifest::UserRange;

use super::setup::Start;
use super::{CompactionPick, CompactionReason, InputLevel, PickContext, total_bytes};

/// What a manual compaction asks of one level.
#[derive(Clone, Copy, Debug)]
pub struct ManualRange<'a> {
    /// Level to be compacted.
    pub input_level: usize,
    /// Level to write to; `None` is the base level, for L0. May be the input level itself.
    pub output_level: Option<usize>,
    /// First user key, `None` for the beginning.
    pub begin: Option<&'a [u8]>,
    /// Last user key, `None` for the end.
    pub end: Option<&'a [u8]>,
    /// Files with this number or a larger one are results of the same manual compaction and are
    /// left alone. `u64::MAX` for no limit.
    pub ignore_from_file: u64,
    /// Every entry must be rewritten (a compaction filter has to see it).
    pub forbid_move: bool,
    /// The directory that the caller chose for the outputs.
    pub path_id: PathId,
}

/// Outcome of a manual pick.
#[derive(Debug)]
pub enum ManualPick {
    /// The level has nothing (more) in the range.
    Nothing,
    /// A running compaction conflicts: repeat when it has ended.
    Conflict,
    /// Run this, then continue at `resume_at`.
    Pick {
        /// The compaction.
        pick: Box<CompactionPick>,
        /// User key where the rest of the range begins; `None` if this was all of it.
        resume_at: Option<Vec<u8>>,
    },
}

/// Picks the first piece of a manual compaction of one level.
pub fn pick_range(ctx: &PickContext<'_>, manual: &ManualRange<'_>) -> ManualPick {
    let level = ctx.version.level(manual.input_level);
    let range = UserRange::closed(manual.begin, manual.end);
    let files = ctx.version.get_overlapping_inputs(manual.input_level, &range);
    let output_level = manual.output_level.unwrap_or(ctx.targets.base_level);
    if files.is_empty() || output_level >= ctx.levels_in_use() {
        return ManualPick::Nothing;
    }
    if manual.input_level == 0 && ctx.running.level0_busy() {
        return ManualPick::Conflict;
    }
    let mut inputs = InputLevel::new(manual.input_level, files);
    let mut covers_all = true;
    if manual.input_level > 0 {
        covers_all = limit_bytes(ctx, &mut inputs, output_level);
    }
    if manual.input_level == output_level && manual.ignore_from_file != u64::MAX {
        covers_all &= skip_new_files(&mut inputs, manual.ignore_from_file);
        if inputs.files.is_empty() {
            return ManualPick::Nothing;
        }
    }
    let Some(inputs) = ctx.expand_to_clean_cut(inputs) else {
        return ManualPick::Conflict;
    };
    let resume_at = if covers_all {
        None
    } else {
        let last = inputs.files.last().and_then(|f| level.index_of(f.number));
        last.and_then(|i| level.files().get(i + 1)).map(|f| f.smallest_user_key().to_vec())
    };
    let mut start = Start::new(CompactionReason::ManualCompaction, output_level, inputs);
    start.forbid_move = manual.forbid_move;
    start.path_id = Some(manual.path_id);
    match ctx.complete(start) {
        Some(pick) => ManualPick::Pick { pick: Box::new(pick), resume_at },
        None => ManualPick::Conflict,
    }
}

/// Cuts `inputs` where input and output bytes reach the limit, after at least one file. Returns
/// whether all files stayed.
fn limit_bytes(ctx: &PickContext<'_>, inputs: &mut InputLevel, output_level: usize) -> bool {
    let limit = ctx.options.compaction_limit();
    let icmp = ctx.version.comparator();
    let mut bytes = 0u64;
    for i in 0..inputs.files.len() - 1 {
        bytes = bytes.saturating_add(inputs.files[i].file_size);
        let below = match output_level == inputs.level {
            true => 0,
            false => {
                let range = UserRange::of_files(icmp, &inputs.files[..=i]);
                let level = ctx.version.level(output_level);
                total_bytes(&level.files()[level.overlapping_range(&range, &icmp.user)])
            }
        };
        if bytes.saturating_add(below) >= limit {
            inputs.files.truncate(i + 1);
            return false;
        }
    }
    true
}

/// Keeps the first run of files below `limit`. Returns whether no such file was cut off.
fn skip_new_files(inputs: &mut InputLevel, limit: u64) -> bool {
    let is_old = |number: u64| number < limit;
    let first = inputs.files.iter().position(|f| is_old(f.number));
    let first = first.unwrap_or(inputs.files.len());
    inputs.files.drain(..first);
    let run = inputs.files.iter().position(|f| !is_old(f.number));
    let rest = inputs.files.split_off(run.unwrap_or(inputs.files.len()));
    !rest.iter().any(|f| is_old(f.number))
}
