//! How large each level should be.
//!
//! With dynamic level bytes the targets are derived from the largest level upwards: the base
//! level is the first that L0 is compacted into, its target lies between
//! `max_bytes_for_level_base / multiplier` and `max_bytes_for_level_base`, levels before it are
//! empty or to be drained. Otherwise L1 is the base level and targets grow from there.
//!
//! Thread safety: plain data, computed once per version. The numbers are RocksDB's.

use crate::options::{LeveledOptions, Preclusion, scale};
use crate::version::Version;
use pumice_base::narrow::round_down_u64;

/// Target sizes of the levels of one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LevelTargets {
    /// Target bytes by level; `u64::MAX` where no size triggers a compaction.
    pub max_bytes: Vec<u64>,
    /// The level that L0 is compacted into.
    pub base_level: usize,
    /// Non-empty levels up to this one are drained.
    pub lowest_unnecessary_level: Option<usize>,
}

impl LevelTargets {
    /// The targets of `version` under `options`.
    pub fn compute(version: &Version, options: &LeveledOptions) -> Self {
        if options.level_compaction_dynamic_level_bytes {
            Self::dynamic(version, options)
        } else {
            Self::fixed(version.num_levels(), options)
        }
    }

    fn fixed(num_levels: usize, options: &LeveledOptions) -> Self {
        let additional = &options.max_bytes_for_level_multiplier_additional;
        let mut max_bytes = vec![options.max_bytes_for_level_base; num_levels];
        for level in 2..num_levels {
            let grown = scale(max_bytes[level - 1], options.max_bytes_for_level_multiplier);
            let factor = additional.get(level - 1).copied().unwrap_or(1);
            max_bytes[level] = scale(grown, f64::from(factor));
        }
        LevelTargets { max_bytes, base_level: 1, lowest_unnecessary_level: None }
    }

    fn dynamic(version: &Version, options: &LeveledOptions) -> Self {
        let num_levels = options.levels_in_use(version.num_levels());
        let mut targets = LevelTargets {
            max_bytes: vec![u64::MAX; version.num_levels()],
            base_level: num_levels - 1,
            lowest_unnecessary_level: None,
        };
        let sizes = || (1..num_levels).map(|level| (level, version.level_bytes(level)));
        let Some((first_non_empty, _)) = sizes().find(|&(_, bytes)| bytes > 0) else {
            return targets;
        };
        let largest = sizes().map(|(_, bytes)| bytes).max().unwrap_or(0);
        let multiplier = options.max_bytes_for_level_multiplier;
        let base_max = options.max_bytes_for_level_base;
        let base_min = round_down_u64(base_max as f64 / multiplier);

        // The size the first non-empty level would have if the last one had the largest size.
        let mut size = largest;
        for level in (first_non_empty..num_levels - 1).rev() {
            size = round_down_u64(size as f64 / multiplier);
            // The level above the last one is where young entries stay.
            let is_needed =
                options.preclusion != Preclusion::Off && level + 2 == version.num_levels();
            if size <= base_min && targets.lowest_unnecessary_level.is_none() && !is_needed {
                targets.lowest_unnecessary_level = Some(level);
            }
        }
        targets.base_level = first_non_empty;
        let base_size = if size <= base_min {
            base_min.saturating_add(1)
        } else {
            while targets.base_level > 1 && size > base_max {
                targets.base_level -= 1;
                size = round_down_u64(size as f64 / multiplier);
            }
            size.min(base_max).max(1)
        };
        let mut size = base_size;
        for level in targets.base_level..num_levels {
            if level > targets.base_level {
                size = scale(size, multiplier);
            }
            // A level smaller than the limit of L0 would draw compactions away from L0.
            targets.max_bytes[level] = size.max(base_max);
        }
        targets
    }
}
