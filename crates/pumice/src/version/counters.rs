//! The counters of a column family, shared by its jobs and by reports.
//!
//! Thread safety: one short lock, taken once per job or stall, never per write.

use pumice_port::sync::{Mutex, MutexGuard};
use pumice_port::time;

use pumice_port::pool::Priority;

use crate::lock_order;
use crate::stats::cf_stats::{CfStats, CompactionStats};

/// See the module head.
pub(crate) struct CfCounters {
    stats: Mutex<CfStats>,
}

impl CfCounters {
    /// All zero, for `levels` levels, counting from now.
    pub fn new(levels: usize) -> Self {
        let stats = CfStats::new(levels, time::now_micros());
        CfCounters { stats: Mutex::ranked(&lock_order::FAMILY_STATS, stats) }
    }

    /// A flush ended.
    pub fn flushed(&self, job: &CompactionStats) {
        let mut stats = self.lock();
        stats.flushed_bytes += job.bytes_written;
        stats.add_job(0, Priority::High, job);
    }

    /// A compaction into `level` ended.
    pub fn compacted(&self, level: usize, job: &CompactionStats) {
        self.lock().add_job(level, Priority::Low, job);
    }

    /// Files of `bytes` went to `level` without being rewritten.
    pub fn moved(&self, level: usize, bytes: u64) {
        self.lock().add_moved_bytes(level, bytes);
    }

    /// A file was ingested into `level`: `job` says what that took.
    pub fn ingested(&self, level: usize, job: &CompactionStats, bytes: u64, entries: u64) {
        let mut stats = self.lock();
        stats.add_job(level, Priority::User, job);
        stats.added_bytes += bytes;
        stats.added_files += 1;
        stats.added_l0_files += u64::from(level == 0);
        // The number comes from the file, so it may be anything.
        stats.added_keys = stats.added_keys.saturating_add(entries);
    }

    /// Resets all to zero, counting from now.
    pub fn reset(&self) {
        let mut stats = self.lock();
        *stats = CfStats::new(stats.num_levels(), time::now_micros());
    }

    /// The counters, for reports and stalls.
    pub fn lock(&self) -> MutexGuard<'_, CfStats> {
        self.stats.lock()
    }
}
