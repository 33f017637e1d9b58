//! Property `rocksdb.cfstats` as a map, `Db::property_map`.
//!
//! `compaction.L0.ReadGB` and so on are the rows of the report's table by level, and `Sum`; the
//! names are RocksDB 10.10's. How often writes were slowed or stopped has its names, as in
//! `rocksdb.cf-write-stall-stats`, and those of RocksDB up to 7.10 (`io_stalls.total_stop`).
//!
//! Thread safety: as `CfStats`. The block cache is not looked at.

use std::collections::BTreeMap;

use super::{CfStats, LevelView, Row};
use crate::stats::human::{GB, MB, MICROS_PER_SECOND};

/// Names of the counts of stalls up to 7.10, in the order of `StallCounts::named`.
const STALLS: [&str; 10] = [
    "level0_slowdown_with_compaction",
    "level0_numfiles_with_compaction",
    "level0_slowdown",
    "level0_numfiles",
    "memtable_slowdown",
    "memtable_compaction",
    "slowdown_for_pending_compaction_bytes",
    "stop_for_pending_compaction_bytes",
    "total_slowdown",
    "total_stop",
];

impl CfStats {
    /// The property as names and values.
    pub fn map(&self, levels: &[LevelView]) -> BTreeMap<String, String> {
        let mut map = BTreeMap::new();
        for row in self.rows(levels) {
            for (name, value) in figures(&row) {
                map.insert(format!("compaction.{}.{name}", row.name), format!("{value:.6}"));
            }
        }
        for ((name, count), old) in self.stalls.named().into_iter().zip(STALLS) {
            map.insert(name.to_string(), count.to_string());
            map.insert(format!("io_stalls.{old}"), count.to_string());
        }
        map
    }
}

/// A row's figures by name, all but those of blob files, which stay 0, as in the table.
fn figures(row: &Row) -> [(&'static str, f64); 22] {
    let (level, stats) = (&row.level, &row.stats);
    let gigabytes = |bytes: u64| bytes as f64 / GB;
    let seconds = stats.micros as f64 / MICROS_PER_SECOND;
    // One microsecond more, so that no rate divides by zero.
    let rate = |bytes: u64| bytes as f64 / MB / (seconds + 1.0 / MICROS_PER_SECOND);
    let new_bytes = stats.bytes_written as f64 - stats.bytes_read_output_level as f64;
    [
        ("NumFiles", level.files as f64),
        ("CompactedFiles", level.being_compacted as f64),
        ("SizeBytes", level.bytes as f64),
        ("Score", level.score),
        ("ReadGB", gigabytes(stats.bytes_read())),
        ("RnGB", gigabytes(stats.bytes_read_non_output_levels)),
        ("Rnp1GB", gigabytes(stats.bytes_read_output_level)),
        ("WriteGB", gigabytes(stats.bytes_written)),
        ("WPreCompGB", gigabytes(stats.bytes_written_pre_comp)),
        ("WnewGB", new_bytes / GB),
        ("MovedGB", gigabytes(stats.bytes_moved)),
        ("WriteAmp", row.amplification),
        ("ReadMBps", rate(stats.bytes_read())),
        ("WriteMBps", rate(stats.bytes_written)),
        ("CompSec", seconds),
        ("CompMergeCPU", stats.cpu_micros as f64 / MICROS_PER_SECOND),
        ("CompCount", stats.count as f64),
        ("AvgSec", seconds / stats.count.max(1) as f64),
        ("KeyIn", stats.num_input_records as f64),
        ("KeyDrop", stats.num_dropped_records as f64),
        ("RblobGB", 0.0),
        ("WblobGB", 0.0),
    ]
}
