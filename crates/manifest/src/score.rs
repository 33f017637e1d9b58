//! How badly each level needs compaction, and how many bytes have to be compacted in total.
//!
//! The formulas are RocksDB's, so that figures in logs and properties compare. A level needs
//! compaction at a score of 1.0. Sums over a level come ready with the level; only the files of
//! running compactions are visited one by one. Thread safety: plain data.

use std::sync::Arc;

use pumice_base::narrow::{round_down_u64, to_usize};
use pumice_base::order;

use crate::file_meta::FileMetaData;
use crate::level::Level;
use crate::offpeak::Offpeak;
use crate::options::LeveledOptions;
use crate::range::UserRange;
use crate::targets::LevelTargets;
use crate::version::Version;

/// With dynamic level bytes, factor of scores above 1, to leave room between 1 and 10 for levels
/// that should yield to others.
const SCORE_SCALE: f64 = 10.0;

/// Scores of the levels of one version.
#[derive(Clone, Debug, Default)]
pub struct LevelScores {
    /// (score, level) for all levels but the last, highest score first.
    pub by_score: Vec<(f64, usize)>,
    /// Estimate of the bytes that compactions must rewrite to bring all levels to their targets.
    pub estimated_compaction_needed_bytes: u64,
}

impl LevelScores {
    /// The scores of `version`; `compacting` are the input files of running compactions.
    pub fn compute<'a>(
        version: &Version,
        targets: &LevelTargets,
        options: &LeveledOptions,
        compacting: impl IntoIterator<Item = (usize, &'a Arc<FileMetaData>)>,
    ) -> Self {
        let mut busy = vec![Busy::default(); version.num_levels()];
        for (level, file) in compacting {
            if version.level(level).index_of(file.number).is_some() {
                busy[level].files += 1;
                let bytes = &mut busy[level].compensated_bytes;
                *bytes = bytes.saturating_add(file.compensated_size());
            }
        }
        let mut by_score = Vec::with_capacity(version.num_levels());
        let mut coming_down = 0.0;
        let scored = options.levels_in_use(version.num_levels()) - 1;
        for (level, busy) in version.levels().iter().zip(&busy).take(scored) {
            let score = if level.number() == 0 {
                coming_down += level.total_bytes() as f64;
                level0_score(version, targets, options, busy)
            } else {
                level_score(level, targets, options, busy, &mut coming_down)
            };
            by_score.push((score, level.number()));
        }
        by_score.sort_by(|a, b| b.0.total_cmp(&a.0));
        let estimated_compaction_needed_bytes = needed_bytes(version, targets, options);
        LevelScores { by_score, estimated_compaction_needed_bytes }
    }

    /// The score of `level`, 0 for the last.
    pub fn score(&self, level: usize) -> f64 {
        self.by_score.iter().find(|(_, l)| *l == level).map_or(0.0, |(score, _)| *score)
    }

    /// Some level needs compaction.
    pub fn needs_compaction(&self) -> bool {
        self.by_score.first().is_some_and(|(score, _)| *score >= 1.0)
    }
}

/// The part of a level that running compactions hold.
#[derive(Clone, Copy, Default)]
struct Busy {
    files: usize,
    compensated_bytes: u64,
}

impl Busy {
    fn idle_bytes(&self, level: &Level) -> u64 {
        level.compensated_bytes().saturating_sub(self.compensated_bytes)
    }
}

/// Files against the trigger, and bytes against the base level.
fn level0_score(
    version: &Version,
    targets: &LevelTargets,
    options: &LeveledOptions,
    busy: &Busy,
) -> f64 {
    let level = version.level(0);
    let runs = (level.len() - busy.files) as f64;
    let bytes = busy.idle_bytes(level);
    let mut score = runs / options.level0_file_num_compaction_trigger.max(1) as f64;
    if version.num_levels() == 1 {
        return score;
    }
    let base_max = options.max_bytes_for_level_base;
    if !options.level_compaction_dynamic_level_bytes {
        return score.max(bytes as f64 / base_max.max(1) as f64);
    }
    if bytes >= base_max {
        // The estimate of needed bytes counts such an L0, so a compaction must be picked.
        score = score.max(1.01);
    }
    let base_target = targets.max_bytes[targets.base_level];
    if bytes > base_target {
        // An L0 larger than the base level goes before the base level.
        let base_bytes = version.level(targets.base_level).compensated_bytes();
        score = score.max(bytes as f64 / base_bytes.max(base_target).max(1) as f64);
    }
    if score > 1.0 { score * SCORE_SCALE } else { score }
}

/// Bytes against the target. `coming_down`: bytes that compactions above will move down soon.
fn level_score(
    level: &Level,
    targets: &LevelTargets,
    options: &LeveledOptions,
    busy: &Busy,
    coming_down: &mut f64,
) -> f64 {
    let idle = busy.idle_bytes(level);
    let target = targets.max_bytes[level.number()];
    let plain = idle as f64 / target.max(1) as f64;
    if !options.level_compaction_dynamic_level_bytes {
        return plain;
    }
    let mut score = if idle < target {
        plain
    } else {
        // A level that will receive much data soon should wait for it.
        idle as f64 / (target as f64 + *coming_down) * SCORE_SCALE
    };
    let total = level.total_bytes();
    match targets.lowest_unnecessary_level {
        Some(lowest) if level.number() <= lowest => {
            if idle > 0 {
                let depth = (lowest - level.number()) as f64;
                score = score.max(SCORE_SCALE * (1.001 + 0.001 * depth));
            }
            *coming_down += total as f64;
        }
        _ => *coming_down += total.saturating_sub(target) as f64,
    }
    score
}

/// Bytes of the compactions that bring every level to its target, from L0 downwards: what
/// exceeds a target goes to the next level and rewrites there as much as the levels' ratio says.
fn needed_bytes(version: &Version, targets: &LevelTargets, options: &LeveledOptions) -> u64 {
    let num_levels = options.levels_in_use(version.num_levels());
    let level0_bytes = version.level_bytes(0);
    let level0_triggers = version.num_level_files(0) >= options.level0_file_num_compaction_trigger
        || level0_bytes >= options.max_bytes_for_level_base;
    let mut incoming = if level0_triggers { level0_bytes } else { 0 };
    let mut needed = incoming;
    for level in targets.base_level..num_levels.saturating_sub(1) {
        let own = version.level_bytes(level);
        if level == targets.base_level && level0_triggers {
            needed = needed.saturating_add(own);
        }
        let size = own.saturating_add(incoming);
        incoming = size.saturating_sub(targets.max_bytes[level]);
        let next = version.level_bytes(level + 1);
        if incoming > 0 && next > 0 {
            let fanout = next as f64 / size as f64 + 1.0;
            needed = needed.saturating_add(round_down_u64(incoming as f64 * fanout));
        }
    }
    needed
}

/// Files that should be compacted whatever the size of their level.
#[derive(Clone, Debug, Default)]
pub struct FileMarks {
    /// A table property collector asked for it; never files of the last level with data, unless
    /// that is L0.
    pub marked: Vec<(usize, Arc<FileMetaData>)>,
    /// Nothing older overlaps them and no snapshot needs their sequence numbers any more.
    pub bottommost: Vec<(usize, Arc<FileMetaData>)>,
    /// When the oldest snapshot passes this number, `bottommost` may gain files.
    pub bottommost_threshold: u64,
    /// Data older than `ttl`, except in the last level with data, where it may stay.
    pub expired: Vec<(usize, Arc<FileMetaData>)>,
    /// Files older than `periodic_compaction_seconds`.
    pub periodic: Vec<(usize, Arc<FileMetaData>)>,
    /// Tables that refer to the oldest blob file, where the oldest ones are mostly garbage.
    pub blob_garbage: Vec<(usize, Arc<FileMetaData>)>,
    /// Files that many reads find no value in, the one with the most for its size first; as
    /// `marked`.
    pub hot: Vec<(usize, Arc<FileMetaData>)>,
    /// When files will be marked because of their age, unix seconds; `u64::MAX` never.
    pub next_old: u64,
}

/// The inputs that decide about marks, besides the version.
#[derive(Clone, Copy, Debug)]
pub struct MarkRules {
    /// Oldest sequence number a snapshot (or the newest write, if there is none) needs.
    pub oldest_snapshot: u64,
    /// Unix seconds.
    pub now: u64,
    /// Bottommost files younger than this many seconds wait.
    pub bottommost_delay: u64,
    /// `ttl` in seconds; 0 is off.
    pub ttl: u64,
    /// `periodic_compaction_seconds`; 0 is off.
    pub periodic: u64,
    /// `daily_offpeak_time_utc`, in which files may get their age of `periodic` early.
    pub offpeak: Offpeak,
    /// Files may be ingested behind all others, so no file is the bottommost.
    pub allow_ingest_behind: bool,
    /// Young entries keep their sequence numbers, so that rewriting a file need not clean it: of
    /// the bottommost only those with tombstones are marked.
    pub keeps_times: bool,
    /// Seconds for which entries stay above the last level; 0 is off.
    pub preclude: u64,
    /// Files that hold mostly tombstones go down, and those with range tombstones once no file of
    /// L0 is younger than this many seconds. None: they wait for other reasons.
    pub reclaim_seconds: Option<u64>,
    /// When garbage in blob files forces compactions; None for never.
    pub blob_garbage: Option<BlobGarbageRule>,
    /// Reads without a value, for each byte of a file, above which it goes down; 0 for never.
    pub reads_per_byte: f64,
}

/// When garbage in blob files forces compactions.
#[derive(Clone, Copy, Debug)]
pub struct BlobGarbageRule {
    /// The share of the blob files, from the oldest on, that is looked at.
    pub age_cutoff: f64,
    /// The share of garbage in them from which on the oldest has to go.
    pub threshold: f64,
}

impl FileMarks {
    /// No file is marked.
    pub fn is_empty(&self) -> bool {
        self.marked.is_empty()
            && self.bottommost.is_empty()
            && self.expired.is_empty()
            && self.periodic.is_empty()
            && self.blob_garbage.is_empty()
            && self.hot.is_empty()
    }

    /// Only marks that do not depend on the level: for trees whose levels do not reflect age.
    pub fn without_levels(self) -> Self {
        let bottommost_threshold = u64::MAX;
        FileMarks {
            bottommost: Vec::new(),
            expired: Vec::new(),
            blob_garbage: Vec::new(),
            bottommost_threshold,
            ..self
        }
    }

    /// The marked files of `version`, without those being compacted.
    pub fn compute(version: &Version, rules: &MarkRules) -> Self {
        let mut marks = FileMarks {
            bottommost_threshold: u64::MAX,
            next_old: u64::MAX,
            ..FileMarks::default()
        };
        // Files of L0 can go down even if nothing is below.
        let last = version.num_non_empty_levels().saturating_sub(1).max(1);
        for level in version.levels().iter().take(last) {
            for (_, file) in level.marked_files().filter(|(_, f)| !f.is_being_compacted()) {
                marks.marked.push((level.number(), file.clone()));
            }
        }
        if let Some(seconds) = rules.reclaim_seconds {
            marks.mark_deleting(version, rules.now, seconds);
        }
        if !rules.allow_ingest_behind {
            marks.mark_bottommost(version, rules);
        }
        marks.mark_old(version, rules);
        if rules.preclude > 0 {
            marks.watch_young(version, rules);
        }
        if let Some(rule) = rules.blob_garbage {
            marks.mark_blob_garbage(version, rule);
        }
        if rules.reads_per_byte > 0.0 {
            marks.mark_hot(version, rules.reads_per_byte);
        }
        marks
    }

    /// Notes when young files above the last level can go down: once they are old enough, and no
    /// snapshot is older.
    fn watch_young(&mut self, version: &Version, rules: &MarkRules) {
        let Some(level) = version.num_levels().checked_sub(2).filter(|level| *level > 0) else {
            return;
        };
        for file in version.files(level).iter().filter(|file| file.oldest_ancester_time > 0) {
            let old_at = file.oldest_ancester_time.saturating_add(rules.preclude);
            if old_at > rules.now {
                self.next_old = self.next_old.min(old_at);
            }
            if file.smallest_seq >= rules.oldest_snapshot {
                self.bottommost_threshold = self.bottommost_threshold.min(file.smallest_seq);
            }
        }
    }

    /// Marks files that reads would find no more once they were merged into the next level.
    fn mark_hot(&mut self, version: &Version, reads_per_byte: f64) {
        let last = version.num_non_empty_levels().saturating_sub(1).max(1);
        let mut hot = Vec::new();
        for level in version.levels().iter().take(last) {
            for file in level.files().iter().filter(|file| !file.is_being_compacted()) {
                let reads = file.collapsible_reads_per_byte();
                if reads > reads_per_byte {
                    hot.push((reads, level.number(), Arc::clone(file)));
                }
            }
        }
        order::sort_by(&mut hot, |a, b| b.0.total_cmp(&a.0).then(a.2.number.cmp(&b.2.number)));
        self.hot = hot.into_iter().map(|(_, level, file)| (level, file)).collect();
    }

    /// Marks the tables that refer to the oldest blob file if the oldest ones, those that garbage
    /// collection empties, are mostly garbage: the oldest goes once these tables are rewritten.
    fn mark_blob_garbage(&mut self, version: &Version, rule: BlobGarbageRule) {
        let blobs = version.blob_files();
        let count = to_usize(round_down_u64(rule.age_cutoff * blobs.len() as f64));
        let Some(first) = blobs.keys().next().filter(|_| count > 0) else { return };
        let (mut garbage, mut total) = (0u64, 0u64);
        for blob in blobs.values().take(count) {
            garbage = garbage.saturating_add(blob.garbage_bytes);
            total = total.saturating_add(blob.addition().blob_bytes);
        }
        if (garbage as f64) < rule.threshold * total as f64 {
            return;
        }
        let linked = version.all_files().filter(|(_, file)| file.oldest_blob_file_number == *first);
        let free = linked.filter(|(_, file)| !file.is_being_compacted());
        self.blob_garbage.extend(free.map(|(level, file)| (level, Arc::clone(file))));
    }

    /// Marks files whose tombstones slow reads or keep space in use that they could give back.
    fn mark_deleting(&mut self, version: &Version, now: u64, seconds: u64) {
        if version.num_levels() < 2 {
            return; // Nowhere to go.
        }
        let newest = version.files(0).iter().map(|file| file.file_creation_time).max();
        let idle_at = newest.unwrap_or(0).saturating_add(seconds);
        let last = version.num_non_empty_levels().saturating_sub(1).max(1);
        for level in version.levels().iter().take(last) {
            let number = level.number();
            let free = |file: &&Arc<FileMetaData>| {
                !file.is_being_compacted() && !file.marked_for_compaction
            };
            self.marked.extend(level.dense_files().filter(free).map(|file| (number, file.clone())));
            let mut files = level.range_deleting_files().filter(free).peekable();
            if files.peek().is_some() && now < idle_at {
                self.next_old = self.next_old.min(idle_at);
            } else {
                let known: Vec<u64> = level.dense_files().map(|file| file.number).collect();
                let files = files.filter(|file| !known.contains(&file.number));
                self.marked.extend(files.map(|file| (number, file.clone())));
            }
        }
    }

    fn mark_bottommost(&mut self, version: &Version, rules: &MarkRules) {
        let newest_allowed = rules.now.saturating_sub(rules.bottommost_delay);
        for level in version.levels() {
            for (index, file) in level.unzeroed_files() {
                let range = UserRange::of_file(file);
                if file.is_being_compacted()
                    || version.range_exists_after(level.number(), index, &range)
                    || !version.forgets_times(file)
                    || rules.keeps_times && !file.has_tombstones()
                {
                    continue;
                }
                if file.largest_seq >= rules.oldest_snapshot {
                    self.bottommost_threshold = self.bottommost_threshold.min(file.largest_seq);
                } else if rules.bottommost_delay == 0 || file.file_creation_time < newest_allowed {
                    self.bottommost.push((level.number(), file.clone()));
                } else {
                    let waits = rules.bottommost_delay.saturating_add(1);
                    self.next_old =
                        self.next_old.min(file.file_creation_time.saturating_add(waits));
                }
            }
        }
    }

    fn mark_old(&mut self, version: &Version, rules: &MarkRules) {
        let in_use = version.num_levels() - usize::from(rules.allow_ingest_behind);
        let last = version.num_non_empty_levels().saturating_sub(1);
        for level in version.levels().iter().take(in_use) {
            if level.number() < last && level.number() + 1 < in_use {
                let age = Age {
                    seconds: rules.ttl,
                    offpeak: Offpeak::default(),
                    oldest: level.oldest_ancester_time(),
                    time: |file| file.oldest_ancester_time,
                };
                age.mark(level, rules.now, &mut self.expired, &mut self.next_old);
            }
            let age = Age {
                seconds: rules.periodic,
                offpeak: rules.offpeak,
                oldest: level.oldest_creation_time(),
                time: |file| file.file_creation_time,
            };
            age.mark(level, rules.now, &mut self.periodic, &mut self.next_old);
        }
    }
}

/// How the age of files is determined, and how old they may get.
struct Age {
    /// Older files are too old; 0 for never.
    seconds: u64,
    /// When a file that will soon be too old is treated as too old.
    offpeak: Offpeak,
    /// The time of the oldest file of the level.
    oldest: u64,
    /// The time of a file in unix seconds, 0 unknown.
    time: fn(&FileMetaData) -> u64,
}

impl Age {
    /// Adds the files of `level` that are too old `now` to `old`, without those being compacted.
    /// `next` becomes the time at which the next one will be, if that is sooner.
    fn mark(
        &self,
        level: &Level,
        now: u64,
        old: &mut Vec<(usize, Arc<FileMetaData>)>,
        next: &mut u64,
    ) {
        let too_old_at = |time: u64| {
            let deadline = time.saturating_add(self.seconds).saturating_add(1);
            self.offpeak.due(time, deadline, now)
        };
        if self.seconds == 0 || self.oldest == u64::MAX {
            return;
        }
        if too_old_at(self.oldest) > now {
            *next = (*next).min(too_old_at(self.oldest));
            return;
        }
        for file in level.files().iter().filter(|file| (self.time)(file) > 0) {
            let at = too_old_at((self.time)(file));
            if at > now {
                *next = (*next).min(at);
            } else if !file.is_being_compacted() {
                old.push((level.number(), file.clone()));
            }
        }
    }
}
