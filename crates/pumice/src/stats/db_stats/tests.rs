//! The report against two that RocksDB 10.10.1 printed.

use super::*;

/// Printed after 700,000 puts with stalls. (RocksDB's first interval starts a moment after the
/// open, so its last digits of `Interval` rates differed by one; here they are the total's.)
const FIRST: &str = include_str!("testdata/rocksdb-10.10.1-first.txt");
/// Printed at once afterwards.
const SECOND: &str = include_str!("testdata/rocksdb-10.10.1-second.txt");

fn busy() -> DbStats {
    let stats = DbStats::opened_at(1_000_000);
    for _ in 0..700_000 {
        stats.written(1, 1, 128, true);
        stats.wal_written(128, false);
    }
    stats.stalled(1_064_000);
    stats
}

#[pumice_test_macros::test]
fn report_is_that_of_rocksdb_and_ends_the_interval() {
    let stats = busy();
    let now = 1_000_000 + 5_391_000;
    assert_eq!(stats.report(now), FIRST);
    assert_eq!(stats.report(now), SECOND);
    assert_eq!(stats.bytes_written(), 89_600_000);
}

#[pumice_test_macros::test]
fn groups_and_syncs_divide() {
    let stats = DbStats::opened_at(0);
    (0..10).for_each(|_| stats.written(5, 0, 0, true));
    (0..4).for_each(|_| stats.wal_written(0, true));
    stats.add_buffer_manager_stop();
    let text = stats.report(1_000_000);
    assert!(text.contains("50 writes, 0 keys, 10 commit groups, 5.0 writes per commit group"));
    assert!(text.contains("WAL: 50 writes, 4 syncs, 12.50 writes per sync"));
    assert!(text.contains("limit-stops: 1\ninterval: 1 total count\n"));
    assert!(!stats.report(2_000_000).contains("interval: 1"));
}

#[pumice_test_macros::test]
fn group_sizes_count_lone_writers_too() {
    let stats = DbStats::opened_at(0);
    assert_eq!(stats.group_sizes(), Histogram::new());
    for batches in [1, 7, 1, 1, 30] {
        stats.written(batches, batches, 100, true);
    }
    let mut expected = Histogram::new();
    [1, 7, 1, 1, 30].into_iter().for_each(|size| expected.add(size));
    assert_eq!(stats.group_sizes(), expected);
}
