//! The order in which the files of a level are tried, by `compaction_pri`.
//!
//! Computing it visits every file of the level and of the next one, so it is cached while both
//! levels stay the same object. Thread safety: the cache belongs to the column family and is used
//! under the engine's lock.

use pumice_base::narrow::len_u32;
use std::cmp::Reverse;
use std::sync::{Arc, Weak};

use pumice_base::{InternalKey, InternalKeyComparator};
use pumice_manifest::{CompactionPri, FileMetaData, Level, Version};

/// Only this many files are put in order; a pick rarely tries more.
const SORTED_FILES: usize = 50;

/// The order of files per level, kept between picks.
#[derive(Debug, Default)]
pub struct PriorityCache {
    levels: Vec<Option<Cached>>,
}

#[derive(Debug)]
struct Cached {
    /// A `Weak` keeps the address from being reused, but does not keep the files alive.
    level: Weak<Level>,
    next: Weak<Level>,
    pri: CompactionPri,
    order: Arc<[u32]>,
}

impl PriorityCache {
    /// Indices of the files of `level` (not L0) of `version`, first choice first.
    pub(super) fn order(
        &mut self,
        version: &Version,
        level: usize,
        pri: CompactionPri,
    ) -> Arc<[u32]> {
        let (current, next) = (&version.levels()[level], &version.levels()[level + 1]);
        if pri == CompactionPri::RoundRobin {
            return round_robin(version, level); // cheap, and the cursor is not in the key
        }
        if self.levels.len() <= level {
            self.levels.resize_with(level + 1, || None);
        }
        if let Some(cached) = &self.levels[level]
            && cached.level.as_ptr() == Arc::as_ptr(current)
            && cached.next.as_ptr() == Arc::as_ptr(next)
            && cached.pri == pri
        {
            return cached.order.clone();
        }
        let order = compute(version.comparator(), current.files(), next.files(), pri);
        self.levels[level] = Some(Cached {
            level: Arc::downgrade(current),
            next: Arc::downgrade(next),
            pri,
            order: order.clone(),
        });
        order
    }
}

fn compute(
    icmp: &InternalKeyComparator,
    files: &[Arc<FileMetaData>],
    next: &[Arc<FileMetaData>],
    pri: CompactionPri,
) -> Arc<[u32]> {
    let by = |rank: &dyn Fn(&FileMetaData) -> u64| files.iter().map(|f| rank(f)).collect();
    let ranks: Vec<u64> = match pri {
        CompactionPri::ByCompensatedSize => by(&|f| u64::MAX - f.compensated_size()),
        CompactionPri::OldestLargestSeqFirst => by(&|f| f.largest_seq),
        CompactionPri::OldestSmallestSeqFirst => by(&|f| f.smallest_seq),
        CompactionPri::MinOverlappingRatio => overlap_ratios(icmp, files, next),
        CompactionPri::RoundRobin => vec![0; files.len()],
    };
    let mut keyed: Vec<(Reverse<bool>, u64, u32)> = files
        .iter()
        .zip(ranks)
        .zip(0..)
        .map(|((file, rank), index)| (Reverse(file.marked_for_compaction), rank, index))
        .collect();
    if keyed.len() > SORTED_FILES {
        keyed.select_nth_unstable(SORTED_FILES);
        keyed[..SORTED_FILES].sort_unstable();
    } else {
        keyed.sort_unstable();
    }
    keyed.into_iter().map(|(_, _, index)| index).collect()
}

/// Bytes of `next` that each file overlaps, per 1024 bytes of its own.
fn overlap_ratios(
    icmp: &InternalKeyComparator,
    files: &[Arc<FileMetaData>],
    next: &[Arc<FileMetaData>],
) -> Vec<u64> {
    let mut at = 0;
    let ratio = |file: &Arc<FileMetaData>| {
        while at < next.len() && icmp.compare(next[at].largest_key(), file.smallest_key()).is_lt() {
            at += 1;
        }
        let mut bytes = 0u64;
        while at < next.len() && icmp.compare(next[at].smallest_key(), file.largest_key()).is_lt() {
            bytes = bytes.saturating_add(next[at].file_size);
            if icmp.compare(next[at].largest_key(), file.largest_key()).is_gt() {
                break; // it may overlap the following file, too
            }
            at += 1;
        }
        let scaled = u128::from(bytes) * 1024 / u128::from(file.compensated_size().max(1));
        u64::try_from(scaled).unwrap_or(u64::MAX)
    };
    files.iter().map(ratio).collect()
}

/// Key order, from the file the level's cursor points to, around the end to the beginning.
fn round_robin(version: &Version, level: usize) -> Arc<[u32]> {
    let files = version.files(level);
    let start = match version.compact_cursor(level) {
        Some(cursor) => {
            let before = |f: &Arc<FileMetaData>| {
                version.comparator().compare(f.smallest_key(), InternalKey::new(cursor)).is_lt()
            };
            files.partition_point(before)
        }
        None => 0,
    };
    let start = if start == files.len() { 0 } else { len_u32(start) };
    (start..len_u32(files.len())).chain(0..start).collect()
}
