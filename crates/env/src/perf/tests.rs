//! Levels, numbers, reports and loans of perf contexts.
#![allow(clippy::unwrap_used)]
use super::*;
use PerfMetric::{BlockReadCount, BlockReadTime, GetCpuNanos, WriteDelayTime};

/// What each level collects, and that a level that is lowered keeps what there is.
#[pumice_test_macros::test]
fn levels_collect_more_and_more() {
    let metrics = [BlockReadCount, WriteDelayTime, BlockReadTime, GetCpuNanos];
    for (number, collected) in [(0, 0), (1, 0), (2, 1), (3, 2), (4, 3), (5, 4), (6, 4)] {
        reset();
        set_level(PerfLevel::from_number(number).unwrap());
        metrics.iter().for_each(|&metric| count(metric, 7));
        set_level(PerfLevel::Disable);
        metrics.iter().for_each(|&metric| count(metric, 7));
        let context = context();
        let expected: Vec<u64> = (0..4).map(|at| if at < collected { 7 } else { 0 }).collect();
        assert_eq!(metrics.map(|metric| context.get(metric)).to_vec(), expected, "level {number}");
    }
    assert_eq!(PerfLevel::from_number(7), None);
}

/// Numbers and names are the C API's, the text is RocksDB's.
#[pumice_test_macros::test]
fn reports_are_rocksdbs() {
    reset();
    set_level(PerfLevel::EnableCount);
    count(BlockReadCount, 3);
    count(PerfMetric::GetReadBytes, 11);
    assert_eq!(context().report(true), "block_read_count = 3, get_read_bytes = 11");
    assert_eq!(context().by_number(2), 3);
    assert_eq!(context().by_number(7), 11);
    assert_eq!((context().by_number(83), context().by_number(1000)), (0, 0));
    let whole = context().report(false);
    assert!(whole.starts_with("user_key_comparison_count = 0, block_cache_hit_count = 0, "));
    assert!(whole.ends_with("multiscan_io_coalesced_nonadjacent = 0"), "{whole}");
    assert_eq!(whole.split(", ").count(), PerfMetric::COUNT);
    count_at_level(LevelMetric::BlockCacheHitCount, 1, 2);
    count_by_level(true);
    count_at_level(LevelMetric::BlockCacheHitCount, 1, 5);
    assert!(context().report(true).ends_with(
        "bloom_filter_useful = bloom_filter_full_positive = bloom_filter_full_true_positive = \
         user_key_return_count = get_from_table_nanos = block_cache_hit_count = 5@level1, \
         block_cache_miss_count ="
    ));
    assert_eq!(context().at_level(LevelMetric::BlockCacheHitCount, 1), 5);
    clear_levels();
    count_io(IoMetric::BytesRead, 9);
    assert_eq!(io_context().report(true), "thread_pool_id = 4, bytes_read = 9");
    reset();
    assert_eq!(context().report(true), "");
    assert_eq!(io_context().get(IoMetric::BytesRead), 9);
    reset_io();
    assert_eq!(io_context().get(IoMetric::BytesRead), 0);
    set_level(PerfLevel::Disable);
}

/// Tasks count for themselves; a task that works for another counts for that one.
#[pumice_test_macros::test]
fn each_task_has_its_own_numbers() {
    reset();
    assert_eq!(level(), PerfLevel::Disable);
    set_level(PerfLevel::EnableCount);
    assert!(is_any());
    count(BlockReadCount, 1);
    let other = pumice_port::thread::spawn("other", || {
        count(BlockReadCount, 100);
        (level(), context().get(BlockReadCount))
    });
    assert_eq!(other.join().unwrap(), (PerfLevel::Disable, 0));
    let loan = Loan::new().unwrap();
    loan.run(|| count(BlockReadCount, 10));
    assert_eq!(context().get(BlockReadCount), 1);
    loan.run(|| count(BlockReadCount, 10));
    loan.end();
    assert_eq!((level(), context().get(BlockReadCount)), (PerfLevel::EnableCount, 21));
    set_level(PerfLevel::Disable);
    assert!(Loan::new().is_none());
}
