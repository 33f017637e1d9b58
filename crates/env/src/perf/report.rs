//! The numbers of a task at one moment, and RocksDB's text form of them.
//!
//! Thread safety: plain values.

use super::counts::{Counts, TABLE_LEVELS};
use super::metrics::{IoMetric, LevelMetric, PerfMetric};
use std::fmt::Write as _;

/// RocksDB prints the pool of the calling thread, and this number for those of no pool.
const NO_POOL: u64 = 4;

/// Numbers of a perf context.
///
/// ```
/// # use pumice_env::perf::{self, PerfContext, PerfLevel, PerfMetric};
/// perf::set_level(PerfLevel::EnableCount);
/// perf::reset();
/// // Here the task reads and writes.
/// # perf::count(PerfMetric::GetReadBytes, 5);
/// let context: PerfContext = perf::context();
/// assert_eq!(context.get(PerfMetric::GetReadBytes), 5);
/// assert_eq!(context.report(true), "get_read_bytes = 5");
/// assert_eq!(perf::level(), PerfLevel::EnableCount);
/// perf::set_level(PerfLevel::Disable);
/// ```
#[derive(Clone)]
pub struct PerfContext {
    counts: Counts,
    counts_by_level: bool,
}

/// Adds `name = value, `, except for a zero when zeros are excluded.
fn put(text: &mut String, name: &str, value: u64, exclude_zero: bool) {
    if value > 0 || !exclude_zero {
        write!(text, "{name} = {value}, ").expect("writing to a String cannot fail");
    }
}

/// Cuts the separator after the last number.
fn trimmed(text: &str) -> String {
    text.trim_end_matches([',', ' ']).to_owned()
}

impl PerfContext {
    pub(super) fn new(counts: Counts, counts_by_level: bool) -> Self {
        PerfContext { counts, counts_by_level }
    }

    /// One number: a count, bytes or nanoseconds.
    pub fn get(&self, metric: PerfMetric) -> u64 {
        self.counts.perf[metric as usize]
    }

    /// One number, by its number in `rocksdb_perfcontext_metric`; 0 for one unknown there.
    pub fn by_number(&self, number: u32) -> u64 {
        PerfMetric::from_number(number).map_or(0, |metric| self.get(metric))
    }

    /// One number of the tables of `level`; 0 if levels are not distinguished.
    pub fn at_level(&self, metric: LevelMetric, level: usize) -> u64 {
        self.counts.by_level[level.min(TABLE_LEVELS - 1)][metric as usize]
    }

    /// The numbers as RocksDB's `PerfContext::ToString` prints them: `name = value, ..` in its
    /// order, with `exclude_zero` without zeros.
    pub fn report(&self, exclude_zero: bool) -> String {
        let mut text = String::new();
        for &metric in PerfMetric::ALL {
            put(&mut text, metric.name(), self.get(metric), exclude_zero);
        }
        if self.counts_by_level {
            for &metric in LevelMetric::ALL {
                write!(text, "{} = ", metric.name()).expect("writing to a String cannot fail");
                for level in 0..self.counts.levels_used {
                    let value = self.at_level(metric, level);
                    if value > 0 || !exclude_zero {
                        write!(text, "{value}@level{level}, ")
                            .expect("writing to a String cannot fail");
                    }
                }
            }
        }
        trimmed(&text)
    }
}

impl std::fmt::Display for PerfContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.report(false))
    }
}

/// Numbers of an IO stats context.
///
/// ```
/// # use pumice_env::perf::{self, IoMetric, IoStatsContext, PerfLevel};
/// perf::set_level(PerfLevel::EnableCount);
/// perf::reset_io();
/// // Here the task reads and writes.
/// # perf::count_io(IoMetric::BytesWritten, 4096);
/// let files: IoStatsContext = perf::io_context();
/// assert_eq!(files.get(IoMetric::BytesWritten), 4096);
/// # perf::set_level(PerfLevel::Disable);
/// ```
#[derive(Clone)]
pub struct IoStatsContext {
    values: [u64; IoMetric::COUNT],
}

impl IoStatsContext {
    pub(super) fn new(values: [u64; IoMetric::COUNT]) -> Self {
        IoStatsContext { values }
    }

    /// One number: bytes or nanoseconds.
    pub fn get(&self, metric: IoMetric) -> u64 {
        self.values[metric as usize]
    }

    /// The numbers as RocksDB's `IOStatsContext::ToString` prints them.
    pub fn report(&self, exclude_zero: bool) -> String {
        let mut text = String::new();
        put(&mut text, "thread_pool_id", NO_POOL, exclude_zero);
        for &metric in IoMetric::ALL {
            put(&mut text, metric.name(), self.get(metric), exclude_zero);
        }
        trimmed(&text)
    }
}

impl std::fmt::Display for IoStatsContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.report(false))
    }
}
