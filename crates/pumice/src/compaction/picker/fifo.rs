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
//! A file whose newest entry is old enough is rewritten with the temperature of its age. The time
//! of that entry is a property of tables; where it is not known, the file was written later, and
//! the oldest entry of the next file.
//!
//! Pure, like the rest of the picker; the time is an argument. One compaction runs at a time: two
//! would delete more than needed.

use std::ops::Range;
use std::sync::Arc;

use pumice_env::Temperature;
use pumice_env::filename::TableDirs;
use pumice_manifest::{FileMetaData, LevelScores, Version};

use super::setup::Start;
use super::{
    CompactionPick, CompactionReason, InputLevel, OutputForm, PickContext, RunningCompactions,
    total_bytes,
};
use crate::options::FileTemperatureAge;

/// When a file is deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// The temperatures of files by age, ascending.
    pub temperatures: Vec<FileTemperatureAge>,
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

/// Any need will do.
const SCORE_OF_A_CHANGE: f64 = 1.1;

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
        if score < 1.0 && self.change(version, now_seconds).is_some() {
            score = SCORE_OF_A_CHANGE;
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
        let is_old = |f: &Arc<FileMetaData>| (1..limit).contains(&newest_or_created(f));
        let kept = files.iter().rposition(|f| !is_old(f)).map_or(0, |last| last + 1);
        &files[kept..]
    }

    /// When the first file will be past its time, or of an age with another temperature, seconds
    /// since 1970; perhaps before `now_seconds`, which is asked for only if it matters.
    pub fn expires_at(&self, version: &Version, now_seconds: impl Fn() -> u64) -> Option<u64> {
        let written = newest_or_created(version.files(0).last()?);
        let known = self.ttl_seconds > 0 && written > 0;
        let expiry = known.then(|| written.saturating_add(self.ttl_seconds).saturating_add(1));
        let changes = match self.temperatures.is_empty() {
            true => None,
            false => self.next_change(version.files(0), now_seconds()),
        };
        expiry.into_iter().chain(changes).min()
    }

    /// The next moment at which a file gets another temperature by its age.
    fn next_change(&self, files: &[Arc<FileMetaData>], now: u64) -> Option<u64> {
        let moments = (0..files.len()).filter_map(|index| {
            let (file, newest) = (&files[index], newest_time(files, index)?);
            let at = |age: u64| newest.saturating_add(age);
            if let Some(due) = self.due(newest, now)
                && due.temperature as u8 != file.temperature
            {
                return Some(at(due.age));
            }
            let mut later = self.temperatures.iter().filter(|one| at(one.age) > now);
            later.find(|one| one.temperature as u8 != file.temperature).map(|one| at(one.age))
        });
        moments.min()
    }

    /// The temperature of a file whose newest entry is of then; None if it is too young for any.
    fn due(&self, newest: u64, now: u64) -> Option<FileTemperatureAge> {
        self.temperatures.iter().rev().find(|one| newest.saturating_add(one.age) <= now).copied()
    }

    /// The oldest file whose age asks for another temperature, and that temperature.
    fn change(&self, version: &Version, now: u64) -> Option<(Arc<FileMetaData>, Temperature)> {
        if self.temperatures.is_empty() {
            return None;
        }
        let files = version.files(0);
        for index in (0..files.len()).rev() {
            let Some(newest) = newest_time(files, index) else { continue };
            // The files after it are younger.
            let temperature = self.due(newest, now)?.temperature;
            if temperature as u8 != files[index].temperature {
                return Some((Arc::clone(&files[index]), temperature));
            }
        }
        None
    }

    /// What to do next.
    pub fn pick(&self, ctx: &PickContext<'_>, now_seconds: u64) -> Option<CompactionPick> {
        if !ctx.running.is_empty() {
            return None;
        }
        self.by_age(ctx, now_seconds)
            .or_else(|| self.by_size(ctx))
            .or_else(|| self.merge(ctx))
            .or_else(|| self.by_temperature(ctx, now_seconds))
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
                tables.saturating_add(share(blob_bytes(ctx.version), tables, all))
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

    fn by_temperature(&self, ctx: &PickContext<'_>, now_seconds: u64) -> Option<CompactionPick> {
        let (file, temperature) = self.change(ctx.version, now_seconds)?;
        let inputs = InputLevel::new(0, vec![file]);
        let pick = ctx.complete(Start::new(CompactionReason::ChangeTemperature, 0, inputs))?;
        let outputs = OutputForm { temperature: Some(temperature), ..pick.outputs.clone() };
        Some(CompactionPick { deepest: false, outputs, ..pick })
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
        share(self.max_bytes, tables, tables.saturating_add(blobs)) / self.merge_trigger as u64
    }
}

/// No entry of the file of L0 is newer than this, as far as is known.
fn newest_time(files: &[Arc<FileMetaData>], index: usize) -> Option<u64> {
    let next = index.checked_sub(1).map_or(0, |next| files[next].oldest_ancester_time);
    let written = newest_or_created(&files[index]);
    match files[index].stats.get().is_some_and(|stats| stats.newest_key_time > 0) {
        true => Some(written),
        false => [next, written].into_iter().filter(|time| *time > 0).min(),
    }
}

/// When the newest entry was written, or else the file; 0 if neither is known.
fn newest_or_created(file: &FileMetaData) -> u64 {
    match file.stats.get().map_or(0, |stats| stats.newest_key_time) {
        0 => file.file_creation_time,
        known => known,
    }
}

/// As much of `whole` as `part` is of `all`.
fn share(whole: u64, part: u64, all: u64) -> u64 {
    let share = u128::from(whole) * u128::from(part) / u128::from(all.max(1));
    u64::try_from(share).unwrap_or(u64::MAX)
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
        outputs: OutputForm::of_level(TableDirs::OWN),
        target_output_file_size: 0,
        max_output_file_size: 0,
        max_compaction_bytes: 0,
        next_cursor: None,
    }
}
