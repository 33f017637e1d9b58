//! The numbers of a task.
//!
//! Thread safety: plain values.

use super::metrics::{IoMetric, LevelMetric, PerfMetric};

/// Levels of tables that are distinguished; deeper ones count with the last.
///
/// Example: that of [`LevelMetric`](super::LevelMetric).
pub const TABLE_LEVELS: usize = 16;

/// The numbers of a task.
#[derive(Clone, Copy)]
pub(super) struct Counts {
    pub perf: [u64; PerfMetric::COUNT],
    pub by_level: [[u64; LevelMetric::COUNT]; TABLE_LEVELS],
    /// Levels that counted something.
    pub levels_used: usize,
    pub io: [u64; IoMetric::COUNT],
}

impl Counts {
    pub const ZERO: Counts = Counts {
        perf: [0; PerfMetric::COUNT],
        by_level: [[0; LevelMetric::COUNT]; TABLE_LEVELS],
        levels_used: 0,
        io: [0; IoMetric::COUNT],
    };
}
