//! The options that shape a leveled tree, as plain numbers.
//!
//! The engine fills one from the column family's options whenever they change; names are
//! RocksDB's. Thread safety: plain data.

use pumice_base::UserKey;
use pumice_base::narrow::round_down_u64;

/// Which file of a level is compacted first. Numbers are RocksDB's.
///
/// ```
/// # use pumice_manifest::CompactionPri;
/// // `options.cf.compaction_pri = CompactionPri::RoundRobin`, and `db_bench --compaction_pri=4`:
/// assert_eq!(CompactionPri::RoundRobin as u8, 4);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum CompactionPri {
    /// The largest file, tombstones weighted.
    ByCompensatedSize = 0,
    /// The file whose newest entry is oldest.
    OldestLargestSeqFirst = 1,
    /// The file whose oldest entry is oldest.
    OldestSmallestSeqFirst = 2,
    /// The file with the least overlap with the next level relative to its size.
    MinOverlappingRatio = 3,
    /// The file after the one that was compacted last.
    RoundRobin = 4,
}

/// Which compression the files of a level get, as persisted type numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompressionChoice {
    /// `compression`.
    pub default: u8,
    /// `bottommost_compression`, `None` if disabled.
    pub bottommost: Option<u8>,
    /// `compression_per_level`: L0, then from the base level on.
    pub per_level: Vec<u8>,
}

impl CompressionChoice {
    /// The compression of files written to `level`.
    pub fn for_level(&self, level: usize, base_level: usize, num_non_empty_levels: usize) -> u8 {
        if let Some(bottommost) = self.bottommost
            && level + 1 >= num_non_empty_levels
        {
            return bottommost;
        }
        let Some(last) = self.per_level.len().checked_sub(1) else {
            return self.default;
        };
        let index = if level == 0 { 0 } else { (level + 1).saturating_sub(base_level) };
        self.per_level[index.min(last)]
    }
}

/// Whether compactions into the last level leave young entries in the one above it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preclusion {
    /// All entries go to the last level.
    #[default]
    Off,
    /// What is in the last level stays there.
    Leveled,
    /// What is young in the last level goes up too, if nothing else is in the one above.
    Universal,
}

/// Shape of a leveled tree.
#[derive(Clone, Debug)]
pub struct LeveledOptions {
    /// L0 files that trigger a compaction.
    pub level0_file_num_compaction_trigger: usize,
    /// Target bytes of L1, or of the base level.
    pub max_bytes_for_level_base: u64,
    /// Ratio of the targets of neighbouring levels.
    pub max_bytes_for_level_multiplier: f64,
    /// Further factors for single levels, when the targets are static.
    pub max_bytes_for_level_multiplier_additional: Vec<u32>,
    /// Level targets follow the size of the last level.
    pub level_compaction_dynamic_level_bytes: bool,
    /// Target size of a file in L1, or in the base level.
    pub target_file_size_base: u64,
    /// Ratio of the file sizes of neighbouring levels.
    pub target_file_size_multiplier: u32,
    /// Limit of one compaction's input, and of the grandparents one output overlaps; 0 means 25
    /// target files.
    pub max_compaction_bytes: u64,
    /// The order in which files of a level are compacted.
    pub compaction_pri: CompactionPri,
    /// Compression by level: a file moves only between levels that agree.
    pub compression: CompressionChoice,
    /// The last level is for files that are ingested behind all data: nothing is compacted into it,
    /// so no level is the bottommost.
    pub reserved_last_level: bool,
    /// Young entries stay above the last level (`preclude_last_level_data_seconds`).
    pub preclusion: Preclusion,
    /// Files end where the first bytes of keys, so many of them, change.
    pub partition_prefix: Option<usize>,
    /// Bytes that each directory of tables is meant for; empty for one directory.
    pub path_sizes: Vec<u64>,
}

impl LeveledOptions {
    /// How many of `num_levels` levels compactions may write to.
    pub fn levels_in_use(&self, num_levels: usize) -> usize {
        num_levels.saturating_sub(usize::from(self.reserved_last_level)).max(1)
    }

    /// A compaction would cut a file between these keys, its first and last: they have different
    /// prefixes. As in RocksDB a shorter key is its own prefix.
    pub fn is_cut_between(&self, first: UserKey<'_>, last: UserKey<'_>) -> bool {
        let Some(len) = self.partition_prefix else { return false };
        let (first, last) = (first.as_bytes(), last.as_bytes());
        first[..len.min(first.len())] != last[..len.min(last.len())]
    }

    /// The static target of the level below `level`, whose target is `bytes`.
    pub fn next_level_bytes(&self, level: usize, bytes: u64) -> u64 {
        let additional = self.max_bytes_for_level_multiplier_additional.get(level);
        let additional = f64::from(additional.copied().unwrap_or(1));
        scale(bytes, self.max_bytes_for_level_multiplier * additional)
    }

    /// `max_compaction_bytes` with its default filled in.
    pub fn compaction_limit(&self) -> u64 {
        match self.max_compaction_bytes {
            0 => self.target_file_size_base.saturating_mul(25),
            limit => limit,
        }
    }

    /// Target size of files written to `level`.
    pub fn target_file_size(&self, level: usize, base_level: usize) -> u64 {
        let depth = match self.level_compaction_dynamic_level_bytes {
            true if level >= base_level => level - base_level,
            _ => level,
        };
        let factor = f64::from(self.target_file_size_multiplier);
        (1..depth).fold(self.target_file_size_base, |size, _| scale(size, factor))
    }
}

/// `value * factor`, or `value` unchanged if that overflows, as in RocksDB.
pub(crate) fn scale(value: u64, factor: f64) -> u64 {
    if value == 0 || factor <= 0.0 {
        return 0;
    }
    if (u64::MAX / value) as f64 >= factor { round_down_u64(value as f64 * factor) } else { value }
}
