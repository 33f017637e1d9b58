//! FIFO compaction: the oldest files are deleted once there are too many bytes, or they are too
//! old.
//!
//! Files of L0 are in order, newest first, so deletions take the end of L0: no older version of a
//! key ever comes back. A tree that was leveled before may have deeper levels; they are emptied
//! first, smallest keys first, because their age is not known. Files of L0 are merged so that reads
//! check fewer of them, by one of two rules ([`FifoMerges`]).
//!
//! With blob files in the limit it is not known what a file would free, so each is taken for the
//! same share of all bytes, as in RocksDB; what is still too much then is the next compaction's.
//!
//! Pure, like the rest of the picker; the time is an argument. One compaction runs at a time: two
//! would delete more than needed. Not here: file temperatures.

use std::ops::Range;
use std::sync::Arc;

use pumice_env::filename::TableDirs;
use pumice_manifest::{FileMetaData, LevelScores, Version};

use super::setup::Start;
use super::{
    CompactionPick, CompactionReason, InputLevel, OutputForm, PickContext, RunningCompactions,
    total_bytes,
};

/// When a file is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FifoRules {
    /// Total bytes beyond which the oldest files are deleted.
    pub max_bytes: u64,
    /// Blob files are part of the total.
    pub counts_blobs: bool,
    /// Age at which files of L0 are deleted, seconds since they were written; 0 never.
    pub ttl_seconds: u64,
    /// Which files of L0 are merged.
    pub merges: FifoMerges,
    /// L0 files from which on a merge is considered.
    pub merge_trigger: usize,
}

/// Which files of L0 are merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FifoMerges {
    /// None.
    Never,
    /// The newest, as long as each removed file costs less than this many bytes.
    Newest(u64),
    /// Neighbours of a tier, into a file of the next. Tiers are `merge_trigger` times apart; files
    /// of the last one, which as many as `merge_trigger` fill the limit, stay as they are.
    Tiers,
}

/// No tier is of smaller files, except where the last one is.
const MIN_TIER_BYTES: u64 = 10 << 10;

impl FifoRules {
    /// The need for compaction: 1 and more means that something should be done. Only level 0 has a
    /// score.
    pub fn scores(
        &self,
        version: &Version,
        running: &RunningCompactions,
        now_seconds: u64,
    ) -> LevelScores {
        let mut score = self.counted_bytes(version) as f64 / self.max_bytes.max(1) as f64;
        if self.merges != FifoMerges::Never && score < 1.0 {
            let busy = running.files().filter(|(level, _)| *level == 0).count();
            let runs = version.num_level_files(0).saturating_sub(busy);
            score = score.max(runs as f64 / self.merge_trigger.max(1) as f64);
        }
        if score < 1.0 {
            score = score.max(self.expired(version, now_seconds).len() as f64);
        }
        LevelScores { by_score: vec![(score, 0)], estimated_compaction_needed_bytes: 0 }
    }

    /// The bytes that `max_bytes` limits.
    fn counted_bytes(&self, version: &Version) -> u64 {
        let blobs = if self.counts_blobs { blob_bytes(version) } else { 0 };
        version.total_bytes().saturating_add(blobs)
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
        let freed = total_bytes(expired);
        let left = match self.counts_blobs {
            false => ctx.version.level_bytes(0) - freed,
            true => {
                let all = ctx.version.total_bytes();
                let tables = all - freed;
                let share = tables as f64 / all.max(1) as f64;
                tables.saturating_add((share * blob_bytes(ctx.version) as f64) as u64)
            }
        };
        if expired.is_empty() || left > self.max_bytes {
            return None;
        }
        Some(deletion(CompactionReason::FifoTtl, InputLevel::new(0, expired.to_vec())))
    }

    fn by_size(&self, ctx: &PickContext<'_>) -> Option<CompactionPick> {
        let mut left = self.counted_bytes(ctx.version);
        let last = ctx.version.num_non_empty_levels().checked_sub(1)?;
        let files = ctx.version.files(last);
        let share = self.counts_blobs.then(|| (left / files.len().max(1) as u64).max(1));
        let mut take = 0;
        while left > self.max_bytes && take < files.len() {
            let oldest = if last == 0 { files.len() - 1 - take } else { take };
            left = left.saturating_sub(share.unwrap_or(files[oldest].file_size));
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
        let inputs = match self.merges {
            FifoMerges::Never => return None,
            FifoMerges::Newest(most) => ctx.merge_newest(self.merge_trigger.max(2), most)?,
            FifoMerges::Tiers => self.tier(ctx)?,
        };
        let pick = ctx.complete(Start::new(CompactionReason::FifoReduceNumFiles, 0, inputs))?;
        // There is no other level, so nothing is written to the last one.
        Some(CompactionPick { deepest: false, ..pick })
    }

    /// Neighbours of the lowest tier that has enough of them.
    fn tier(&self, ctx: &PickContext<'_>) -> Option<InputLevel> {
        let files = ctx.version.files(0);
        if self.merge_trigger < 2 || files.len() < self.merge_trigger {
            return None;
        }
        let last = match ctx.options.max_compaction_bytes {
            0 => self.last_tier(ctx.version),
            chosen => chosen,
        };
        let mut tiers = vec![last];
        while let Some(lower) = tiers.last().map(|tier| tier / self.merge_trigger as u64) {
            if lower < MIN_TIER_BYTES {
                break;
            }
            tiers.push(lower);
        }
        let found = tiers.iter().rev().find_map(|&tier| tier_span(files, tier))?;
        Some(InputLevel::new(0, files[found].to_vec()))
    }

    /// The size of files of which `merge_trigger`, with their blob files, fill the limit.
    fn last_tier(&self, version: &Version) -> u64 {
        let (tables, blobs) = (version.level_bytes(0), blob_bytes(version));
        let share = tables as f64 / tables.saturating_add(blobs).max(1) as f64;
        (self.max_bytes as f64 * share) as u64 / self.merge_trigger as u64
    }
}

/// Bytes of all blob files.
fn blob_bytes(version: &Version) -> u64 {
    let sizes = version.blob_files().values().map(|blob| blob.shared.file_size());
    sizes.fold(0, u64::saturating_add)
}

/// The oldest neighbours, each smaller than `tier`, that together are not. They end before twice
/// that size where they can: a larger file would skip a tier.
fn tier_span(files: &[Arc<FileMetaData>], tier: u64) -> Option<Range<usize>> {
    let mut end = files.len();
    while end > 0 {
        let (mut start, mut bytes) = (end, 0u64);
        while let Some(file) = files[..start].last().filter(|file| file.file_size < tier) {
            let with = bytes.saturating_add(file.file_size);
            if bytes >= tier && with > tier.saturating_mul(2) {
                break;
            }
            (start, bytes) = (start - 1, with);
        }
        if bytes >= tier && start < end {
            return Some(start..end);
        }
        // The file before the span is too large for it.
        end = start.saturating_sub(1);
    }
    None
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
