//! FIFO compaction: the oldest files are deleted once there are too many bytes, or they are too
//! old.
//!
//! Files of L0 are in order, newest first, so deletions take the end of L0: no older version of a
//! key ever comes back. A tree that was leveled before may have deeper levels; they are emptied
//! first, smallest keys first, because their age is not known. With `merge_below`, small files at
//! the newest end of L0 are merged into one (the rule of `intra_l0`) so that reads check fewer
//! files.
//!
//! Pure, like the rest of the picker; the time is an argument. One compaction runs at a time: two
//! would delete more than needed. Not here: file temperatures.

use std::sync::Arc;

use pumice_env::filename::TableDirs;
use pumice_manifest::{FileMetaData, LevelScores, Version};

use super::setup::Start;
use super::{
    CompactionPick, CompactionReason, InputLevel, OutputForm, PickContext, RunningCompactions,
};

/// When a file is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FifoRules {
    /// Total bytes beyond which the oldest files are deleted.
    pub max_bytes: u64,
    /// Age at which files of L0 are deleted, seconds since they were written; 0 never.
    pub ttl_seconds: u64,
    /// Merge L0 files as long as each removed file costs less than this many bytes; `None` never.
    pub merge_below: Option<u64>,
    /// L0 files from which on a merge is considered.
    pub merge_trigger: usize,
}

impl FifoRules {
    /// The need for compaction: 1 and more means that something should be done. Only level 0 has a
    /// score.
    pub fn scores(
        &self,
        version: &Version,
        running: &RunningCompactions,
        now_seconds: u64,
    ) -> LevelScores {
        let mut score = version.total_bytes() as f64 / self.max_bytes.max(1) as f64;
        if self.merge_below.is_some() && score < 1.0 {
            let busy = running.files().filter(|(level, _)| *level == 0).count();
            let runs = version.num_level_files(0).saturating_sub(busy);
            score = score.max(runs as f64 / self.merge_trigger.max(1) as f64);
        }
        if score < 1.0 {
            score = score.max(self.expired(version, now_seconds).len() as f64);
        }
        LevelScores { by_score: vec![(score, 0)], estimated_compaction_needed_bytes: 0 }
    }

    /// The files at the old end of L0 that are past their time. A file of unknown age stays, and
    /// so do the files before it.
    fn expired<'v>(&self, version: &'v Version, now_seconds: u64) -> &'v [Arc<FileMetaData>] {
        let files = version.files(0);
        if self.ttl_seconds == 0 || now_seconds <= self.ttl_seconds {
            return &[];
        }
        let limit = now_seconds - self.ttl_seconds;
        let is_old = |f: &Arc<FileMetaData>| (1..limit).contains(&f.file_creation_time);
        let kept = files.iter().rposition(|f| !is_old(f)).map_or(0, |last| last + 1);
        &files[kept..]
    }

    /// When the first file will be past its time, seconds since 1970.
    pub fn expires_at(&self, version: &Version) -> Option<u64> {
        let oldest = version.files(0).last()?;
        let known = self.ttl_seconds > 0 && oldest.file_creation_time > 0;
        known.then(|| oldest.file_creation_time.saturating_add(self.ttl_seconds).saturating_add(1))
    }

    /// What to do next.
    pub fn pick(&self, ctx: &PickContext<'_>, now_seconds: u64) -> Option<CompactionPick> {
        if !ctx.running.is_empty() {
            return None;
        }
        self.by_age(ctx, now_seconds).or_else(|| self.by_size(ctx)).or_else(|| self.merge(ctx))
    }

    /// Files past their time, unless the rest would still be too large: then size decides.
    fn by_age(&self, ctx: &PickContext<'_>, now_seconds: u64) -> Option<CompactionPick> {
        let expired = self.expired(ctx.version, now_seconds);
        let freed: u64 = expired.iter().map(|f| f.file_size).sum();
        if expired.is_empty() || ctx.version.level_bytes(0) - freed > self.max_bytes {
            return None;
        }
        Some(deletion(CompactionReason::FifoTtl, InputLevel::new(0, expired.to_vec())))
    }

    fn by_size(&self, ctx: &PickContext<'_>) -> Option<CompactionPick> {
        let mut left = ctx.version.total_bytes();
        let last = ctx.version.num_non_empty_levels().checked_sub(1)?;
        let files = ctx.version.files(last);
        let mut take = 0;
        while left > self.max_bytes && take < files.len() {
            let oldest = if last == 0 { files.len() - 1 - take } else { take };
            left -= files[oldest].file_size;
            take += 1;
        }
        if take == 0 {
            return None;
        }
        let doomed = if last == 0 { &files[files.len() - take..] } else { &files[..take] };
        Some(deletion(CompactionReason::FifoMaxSize, InputLevel::new(last, doomed.to_vec())))
    }

    fn merge(&self, ctx: &PickContext<'_>) -> Option<CompactionPick> {
        if ctx.version.num_non_empty_levels() > 1 {
            return None;
        }
        let inputs = ctx.merge_newest(self.merge_trigger.max(2), self.merge_below?)?;
        let pick = ctx.complete(Start::new(CompactionReason::FifoReduceNumFiles, 0, inputs))?;
        // There is no other level, so nothing is written to the last one.
        Some(CompactionPick { deepest: false, ..pick })
    }
}

/// The files are deleted, nothing is read or written.
fn deletion(reason: CompactionReason, inputs: InputLevel) -> CompactionPick {
    CompactionPick {
        reason,
        score: 0.0,
        start_level: inputs.level,
        output_level: inputs.level,
        inputs: vec![inputs],
        grandparents: Vec::new(),
        is_trivial_move: false,
        is_deletion: true,
        bottommost: true,
        deepest: false,
        outputs: OutputForm { path_id: TableDirs::OWN, compression: None },
        target_output_file_size: 0,
        max_output_file_size: 0,
        max_compaction_bytes: 0,
        next_cursor: None,
    }
}
