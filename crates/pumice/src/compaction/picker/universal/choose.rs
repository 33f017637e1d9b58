//! Which neighbouring sorted runs universal compaction merges: arithmetic on sizes, nothing else.
//!
//! Runs are in order, newest first. A choice is always a stretch of neighbours, so that its output
//! can take its place and the order by age is kept. Names and numbers are RocksDB's
//! `compaction_options_universal`.
//!
//! Pure: no file, no clock. Not here: which files a run consists of, and where output goes.

use std::ops::Range;

/// One sorted run: a file of L0, or all of a deeper level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub level: usize,
    /// Bytes of its files.
    pub size: u64,
    /// The same with a bonus for tombstones.
    pub compensated: u64,
    /// A file of it is being compacted.
    pub busy: bool,
}

/// When runs are merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UniversalRules {
    /// Number of runs from which on sizes are compared.
    pub trigger: usize,
    /// Runs at which writes stop.
    pub stop_writes_trigger: usize,
    /// Percent by which the next run may be larger than the runs to be merged with it.
    pub size_ratio: u32,
    /// Fewest runs of a merge by size ratio; less than two means two.
    pub min_merge_width: u32,
    /// Most runs of such a merge.
    pub max_merge_width: u32,
    /// Size that all other runs may have together, in percent of the oldest run.
    pub max_size_amplification_percent: u32,
    /// Percent of all bytes that are to be compressed; negative for all.
    pub compression_size_percent: i32,
    /// Most runs that are left alone: -1 means `trigger`, 0 a limit derived from the sizes.
    pub max_read_amp: i32,
    /// A run is compared with its neighbour instead of with all runs taken so far.
    pub similar_size: bool,
    /// Files that do not overlap change level without being rewritten.
    pub allow_trivial_move: bool,
    /// The two oldest runs are merged piece by piece.
    pub incremental: bool,
    /// Bytes of a memtable, the smallest run there normally is.
    pub write_buffer_size: u64,
    /// Bytes of one compaction, for pieces.
    pub max_compaction_bytes: u64,
}

/// `value` increased by `ratio` percent.
fn enlarged(value: u64, ratio: u32) -> f64 {
    value as f64 * (100.0 + f64::from(ratio)) / 100.0
}

fn sum(runs: &[Run], size: impl Fn(&Run) -> u64) -> u64 {
    runs.iter().fold(0, |sum, run| sum.saturating_add(size(run)))
}

impl UniversalRules {
    /// The longest stretch that ends with the oldest run and in which nothing is being compacted.
    pub(super) fn idle_end(runs: &[Run]) -> Option<Range<usize>> {
        let start = runs.iter().rposition(|run| run.busy).map_or(0, |busy| busy + 1);
        (start < runs.len()).then_some(start..runs.len())
    }

    /// The stretch up to the oldest run, if newer runs are too large compared to it; and their
    /// bytes.
    pub(super) fn by_size_amplification(&self, runs: &[Run]) -> Option<(Range<usize>, u64)> {
        let whole = Self::idle_end(runs)?;
        let (base, newer) = runs[whole.clone()].split_last()?;
        if newer.is_empty() {
            return None;
        }
        let all = sum(newer, |run| run.compensated);
        let left_out = self.left_out(newer, base.size, all);
        let bytes = all - sum(&newer[..left_out], |run| run.compensated);
        self.is_amplified(bytes, base.size).then_some((whole.start + left_out..whole.end, bytes))
    }

    fn is_amplified(&self, newer: u64, base: u64) -> bool {
        u128::from(newer) * 100
            >= u128::from(self.max_size_amplification_percent) * u128::from(base)
    }

    /// How many of the newest L0 files a merge for size leaves out, so that they can be merged with
    /// each other before writes have to stop.
    fn left_out(&self, newer: &[Run], base: u64, all: u64) -> usize {
        let level0 = newer.iter().filter(|run| run.level == 0).count();
        if level0 == 0 {
            return 0;
        }
        let most = (level0 - 1).min(newer.len() - 1);
        let room = self.stop_writes_trigger.saturating_sub(newer.len() + 1);
        let beyond_room = |width: u32| (width as usize).saturating_sub(room).min(most);
        let (low, high) = (beyond_room(self.min_merge_width), beyond_room(self.max_merge_width));
        let mut taken = 0;
        for count in low..=high {
            let rest = all - sum(&newer[..count], |run| run.compensated);
            if !self.is_amplified(rest, base) || u128::from(rest) < u128::from(all) * 9 / 10 {
                break;
            }
            taken = count;
        }
        taken
    }

    /// The newest stretch whose runs are each about as large as all newer runs of the stretch.
    pub(super) fn by_size_ratio(&self, runs: &[Run]) -> Option<Range<usize>> {
        self.by_ratio(runs, self.size_ratio, usize::MAX)
    }

    /// The same for any `ratio`, of at most `limit` runs.
    fn by_ratio(&self, runs: &[Run], ratio: u32, limit: usize) -> Option<Range<usize>> {
        let limit = limit.min(self.max_merge_width as usize);
        let enough = self.min_merge_width.max(2) as usize;
        let free = (0..runs.len()).filter(|start| !runs[*start].busy);
        let mut stretches = free.map(|start| start..self.stretch_end(runs, start, ratio, limit));
        stretches.find(|stretch| stretch.len() >= enough)
    }

    fn stretch_end(&self, runs: &[Run], start: usize, ratio: u32, limit: usize) -> usize {
        let mut taken = runs[start].compensated;
        let mut end = start + 1;
        while let Some(next) = runs.get(end).filter(|next| end - start < limit && !next.busy) {
            let too_large = enlarged(taken, ratio) < next.size as f64;
            let too_small = self.similar_size && enlarged(next.size, ratio) < taken as f64;
            if too_large || too_small {
                break;
            }
            let before = if self.similar_size { 0 } else { taken };
            taken = before.saturating_add(next.compensated);
            end += 1;
        }
        end
    }

    /// A stretch regardless of sizes, if there are more runs than allowed.
    pub(super) fn by_run_count(&self, runs: &[Run]) -> Option<Range<usize>> {
        let free = runs.iter().filter(|run| !run.busy).count();
        let surplus = free.checked_sub(self.run_limit(runs)).filter(|surplus| *surplus > 0)?;
        self.by_ratio(runs, u32::MAX, surplus + 1)
    }

    /// Runs that may be left alone.
    pub(super) fn run_limit(&self, runs: &[Run]) -> usize {
        match usize::try_from(self.max_read_amp) {
            Ok(0) if !self.similar_size => self.geometric_limit(runs),
            Ok(0) | Err(_) => self.trigger,
            Ok(limit) => limit,
        }
    }

    /// How many runs it takes from a memtable's size to the largest run, if each is as large as
    /// the ratio allows.
    fn geometric_limit(&self, runs: &[Run]) -> usize {
        let largest = runs.iter().map(|run| run.size).max().unwrap_or(0) as f64;
        let (mut limit, mut total) = (1, 0.0);
        let mut size = self.write_buffer_size.max(1) as f64;
        while size < largest {
            total += size;
            size = (100.0 + f64::from(self.size_ratio)) / 100.0 * total;
            limit += 1;
        }
        limit
    }

    /// Runs after `end` are so large a part of all bytes that they already are the compressed part.
    pub(super) fn leaves_uncompressed(&self, runs: &[Run], end: usize) -> bool {
        let Ok(percent) = u128::try_from(self.compression_size_percent) else { return false };
        let total = u128::from(sum(runs, |run| run.compensated));
        let older = &runs[end..];
        !older.is_empty() && u128::from(sum(older, |run| run.size)) * 100 >= total * percent
    }
}
