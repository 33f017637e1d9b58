//! The report against one that RocksDB 10.10.1 printed.
#![allow(clippy::unwrap_used)]

use super::*;

/// Printed by RocksDB 10.10.1 after 700,000 random puts; the hash seed of its cache cut out.
const PRINTED: &str = include_str!("testdata/rocksdb-10.10.1.txt");

fn megabytes(mb: f64) -> u64 {
    (mb * MB) as u64
}

fn job(seconds: f64, cpu: f64, read: [f64; 2], written: f64, raw: f64) -> CompactionStats {
    CompactionStats {
        micros: (seconds * 1e6) as u64,
        cpu_micros: (cpu * 1e6) as u64,
        bytes_read_non_output_levels: megabytes(read[0]),
        bytes_read_output_level: megabytes(read[1]),
        bytes_written: megabytes(written),
        bytes_written_pre_comp: megabytes(raw),
        ..CompactionStats::default()
    }
}

/// The numbers behind the printed report, as far as its digits tell.
fn numbers() -> CfStats {
    let mut cf = CfStats::new(7, 0);
    cf.end_interval(2_000);
    let mut flushes = job(1.24, 0.854, [0.0, 0.0], 46.0, 83.0);
    (flushes.num_input_records, flushes.count) = (686_394, 49);
    cf.add_job(0, Priority::High, &flushes);
    cf.flushed_bytes = megabytes(46.0);
    let mut five = job(2.183, 1.962, [34.1, 55.178], 88.76, 150.0);
    (five.num_input_records, five.num_dropped_records, five.count) = (1_341_500, 57, 9);
    cf.add_job(5, Priority::Low, &five);
    let mut six = job(1.667, 1.432, [33.9, 32.69], 64.42, 110.0);
    (six.num_input_records, six.num_dropped_records, six.count) = (1_032_200, 90, 21);
    cf.add_job(6, Priority::Low, &six);
    for i in 0..22 {
        cf.stalls.count(StallCause::L0FileCountLimit, false, i < 20);
    }
    cf
}

fn levels() -> Vec<LevelView> {
    let mut levels = vec![LevelView::default(); 7];
    levels[5] = LevelView { files: 12, being_compacted: 1, bytes: megabytes(11.45), score: 13.3 };
    levels[6] = LevelView { files: 37, being_compacted: 1, bytes: megabytes(31.87), score: 0.0 };
    levels
}

fn cache() -> BlockCacheView {
    BlockCacheView {
        identity: "AutoHyperClockCache@0x55d530bbc950#17995".to_string(),
        capacity: 32 << 20,
        usage: 4 << 10,
        table_size: 64,
        occupancy: 1,
        collections: 1,
        last_copies: 0,
        last_secs: 2.7e-5,
        secs_since: 5,
        roles: vec![("DataBlock", 0, 0), ("Misc", 1, 0)],
    }
}

#[pumice_test_macros::test]
fn report_is_that_of_rocksdb() {
    let (cf, levels, cache) = (numbers(), levels(), cache());
    let view = CfView {
        cf_name: "default",
        now_micros: 5_390_000,
        levels: &levels,
        estimated_pending_compaction_bytes: 13_685_958,
        block_cache: Some(&cache),
        read_latencies: &[],
        blobs: BlobView::default(),
    };
    let report = cf.report(&view);
    for (ours, theirs) in report.lines().zip(PRINTED.lines()) {
        assert_eq!(ours, theirs);
    }
    assert_eq!(report, PRINTED);
    // Reading does not end the interval.
    assert_eq!(cf.report(&view), PRINTED);
}

#[pumice_test_macros::test]
fn only_the_dump_ends_the_interval() {
    let mut cf = numbers();
    cf.end_interval(5_000_000);
    let levels = levels();
    let view = CfView { cf_name: "x", now_micros: 6_000_000, levels: &levels, ..CfView::default() };
    let report = cf.report(&view);
    assert!(report.contains("** Compaction Stats [x] **"));
    assert!(report.contains("Uptime(secs): 6.0 total, 1.0 interval"));
    assert!(report.contains("Interval compaction: 0.00 GB write, 0.00 MB/s write, 0.00 GB read"));
    assert!(report.contains("total-stops: 0\ninterval: 0 total count\n"));
    let interval_row = report.lines().find(|l| l.starts_with(" Int")).unwrap();
    assert!(interval_row.ends_with("0    0.000       0      0       0.0       0.0"));
}

/// benchmark.sh cuts these fields by position.
#[pumice_test_macros::test]
fn positions_that_scripts_cut_stay() {
    let levels = levels();
    let view = CfView { cf_name: "default", levels: &levels, ..CfView::default() };
    let report = numbers().report(&view);
    let field = |start: &str, n: usize| {
        let line = report.lines().find(|l| l.starts_with(start)).unwrap();
        line.split_whitespace().nth(n - 1).unwrap().to_string()
    };
    assert_eq!(field("  L0", 9), "0.0");
    assert_eq!(field(" Sum", 3), "43.32");
    assert_eq!(field(" Sum", 9), "0.2");
    assert_eq!(field("Uptime(secs", 2), "0.0");
}

#[pumice_test_macros::test]
fn latencies_print_by_level() {
    let mut histogram = Histogram::new();
    histogram.add(7);
    let latencies = [Histogram::new(), histogram];
    let view = CfView { cf_name: "default", read_latencies: &latencies, ..CfView::default() };
    let report = read_latency_report(&view);
    assert!(!report.contains("Level 0 read"));
    assert!(report.contains("** Level 1 read latency histogram (micros):\nCount: 1 Average: 7.0"));
}

#[pumice_test_macros::test]
fn level_report_is_that_of_rocksdb() {
    let expected = "\
Level Files Size(MB)
--------------------
  0        0        0
  1        0        0
  2        0        0
  3        0        0
  4        0        0
  5       12       11
  6       37       32
";
    assert_eq!(level_report(&levels()), expected);
}
