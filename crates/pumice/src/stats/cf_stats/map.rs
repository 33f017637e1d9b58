//! Property `rocksdb.cfstats` as names and values, by RocksDB's names.

use std::collections::BTreeMap;

use super::{CfStats, CfView, CompactionStats, LevelView, StallCounts, amplification};
use crate::stats::human::{GB, MB, MICROS_PER_SECOND};

type Map = BTreeMap<String, String>;

impl CfStats {
    /// The rows of the report's levels and its stalls, all since the database was opened.
    pub fn map(&self, view: &CfView<'_>) -> Map {
        let now = self.snapshot(view.now_micros);
        let ingested = now.flushed_bytes + now.added_bytes;
        let (mut map, mut total) = (Map::new(), LevelView::default());
        for (number, (level, stats)) in view.levels.iter().zip(&self.levels).enumerate() {
            total.files += level.files;
            total.being_compacted += level.being_compacted;
            total.bytes += level.bytes;
            if level.files > 0 || stats.micros > 0 {
                let input = if number == 0 { ingested } else { stats.bytes_read_non_output_levels };
                let written = amplification(stats, input);
                add_row(&mut map, &format!("L{number}"), level, written, stats);
            }
        }
        let sum = &now.compactions;
        add_row(&mut map, "Sum", &total, amplification(sum, ingested), sum);
        add_stalls(&mut map, &self.stalls);
        map
    }
}

fn add_row(
    map: &mut Map,
    row: &str,
    level: &LevelView,
    amplification: f64,
    stats: &CompactionStats,
) {
    let gigabytes = |bytes: u64| bytes as f64 / GB;
    let seconds = stats.micros as f64 / MICROS_PER_SECOND;
    // One microsecond more, so that no rate divides by zero.
    let rate = |bytes: u64| bytes as f64 / MB / (seconds + 1.0 / MICROS_PER_SECOND);
    let new_bytes = stats.bytes_written as f64 - stats.bytes_read_output_level as f64;
    for (name, value) in [
        ("NumFiles", level.files as f64),
        ("CompactedFiles", level.being_compacted as f64),
        ("SizeBytes", level.bytes as f64),
        ("Score", level.score),
        ("ReadGB", gigabytes(stats.bytes_read())),
        ("RnGB", gigabytes(stats.bytes_read_non_output_levels)),
        ("Rnp1GB", gigabytes(stats.bytes_read_output_level)),
        ("WriteGB", gigabytes(stats.bytes_written)),
        ("WnewGB", new_bytes / GB),
        ("MovedGB", gigabytes(stats.bytes_moved)),
        ("WriteAmp", amplification),
        ("ReadMBps", rate(stats.bytes_read())),
        ("WriteMBps", rate(stats.bytes_written)),
        ("CompSec", seconds),
        ("CompMergeCPU", stats.cpu_micros as f64 / MICROS_PER_SECOND),
        ("CompCount", stats.count as f64),
        ("AvgSec", seconds / stats.count.max(1) as f64),
        ("KeyIn", stats.num_input_records as f64),
        ("KeyDrop", stats.num_dropped_records as f64),
        // Values are never stored apart from their keys.
        ("RblobGB", 0.0),
        ("WblobGB", 0.0),
    ] {
        map.insert(format!("compaction.{row}.{name}"), format!("{value:.6}"));
    }
}

fn add_stalls(map: &mut Map, stalls: &StallCounts) {
    let [memtable_delays, l0_delays, pending_delays] = stalls.delays;
    let [memtable_stops, l0_stops, pending_stops] = stalls.stops;
    for (name, count) in [
        ("level0_slowdown", l0_delays),
        ("level0_slowdown_with_compaction", stalls.l0_delays_with_ongoing_compaction),
        ("level0_numfiles", l0_stops),
        ("level0_numfiles_with_compaction", stalls.l0_stops_with_ongoing_compaction),
        ("slowdown_for_pending_compaction_bytes", pending_delays),
        ("stop_for_pending_compaction_bytes", pending_stops),
        ("memtable_slowdown", memtable_delays),
        ("memtable_compaction", memtable_stops),
        ("total_slowdown", stalls.total_delays()),
        ("total_stop", stalls.total_stops()),
    ] {
        map.insert(format!("io_stalls.{name}"), count.to_string());
    }
}
