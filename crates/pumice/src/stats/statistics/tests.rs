//! Counting from many tasks, levels, resets and text.
#![allow(clippy::unwrap_used)]
use super::*;
use std::collections::BTreeSet;

#[pumice_test_macros::test]
fn names_are_unique_and_found() {
    let mut seen = BTreeSet::new();
    for ticker in Ticker::ALL {
        assert!(seen.insert(ticker.name()));
        assert_eq!(Ticker::from_name(ticker.name()), Some(*ticker));
    }
    for kind in HistogramKind::ALL {
        assert!(seen.insert(kind.name()));
        assert_eq!(HistogramKind::from_name(kind.name()), Some(*kind));
    }
    assert_eq!(Ticker::from_name("rocksdb.nothing"), None);
}

#[pumice_test_macros::test]
fn threads_add_up() {
    let statistics = Arc::new(Statistics::new());
    let workers: Vec<_> = (0..8u64)
        .map(|worker| {
            let s = Arc::clone(&statistics);
            pumice_port::thread::spawn("adder", move || {
                for i in 0..1000 {
                    s.record_tick(Ticker::BytesRead, 3);
                    s.measure(HistogramKind::DbGet, worker * 1000 + i);
                }
            })
        })
        .collect();
    for worker in workers {
        worker.join().unwrap();
    }
    assert_eq!(statistics.ticker(Ticker::BytesRead), 24_000);
    let h = statistics.histogram(HistogramKind::DbGet);
    assert_eq!((h.count(), h.min(), h.max()), (8000, 0, 7999));
    assert_eq!(h.sum(), (0..8000).sum::<u64>());
    assert_eq!(statistics.take_ticker(Ticker::BytesRead), 24_000);
    assert_eq!(statistics.ticker(Ticker::BytesRead), 0);
    statistics.reset();
    assert_eq!(statistics.histogram(HistogramKind::DbGet).count(), 0);
}

#[pumice_test_macros::test]
fn levels_gate_what_is_counted() {
    let s = Some(Arc::new(Statistics::new()));
    let inner = s.as_ref().unwrap();
    assert!(inner.wants_timers() && !inner.wants_detailed_timers());
    inner.set_level(StatsLevel::ExceptHistogramOrTimers);
    s.tick(Ticker::MemtableHit);
    s.record(HistogramKind::BytesPerRead, 1);
    s.timer().stop(&s, HistogramKind::DbGet);
    inner.set_level(StatsLevel::DisableAll);
    s.tick(Ticker::MemtableHit);
    assert_eq!(inner.level(), StatsLevel::DisableAll);
    assert_eq!(inner.ticker(Ticker::MemtableHit), 1);
    assert_eq!(inner.histogram(HistogramKind::BytesPerRead).count(), 0);
    inner.set_level(StatsLevel::All);
    s.timer().stop(&s, HistogramKind::DbGet);
    assert_eq!(inner.histogram(HistogramKind::DbGet).count(), 1);
    None::<Arc<Statistics>>.tick(Ticker::MemtableHit);
}

#[pumice_test_macros::test]
fn text_has_rocksdb_layout() {
    let s = Statistics::new();
    s.record_tick(Ticker::BlockCacheHit, 4871);
    for _ in 0..20_000 {
        s.measure(HistogramKind::BytesPerWrite, 114);
    }
    let text = s.to_string();
    let expected = [
        "rocksdb.block.cache.miss COUNT : 0",
        "rocksdb.block.cache.hit COUNT : 4871",
        // RocksDB 10.10.1 printed these two lines.
        "rocksdb.bytes.per.write P50 : 114.000000 P95 : 114.000000 P99 : 114.000000 \
         P100 : 114.000000 COUNT : 20000 SUM : 2280000",
        "rocksdb.db.seek.micros P50 : 0.000000 P95 : 0.000000 P99 : 0.000000 \
         P100 : 0.000000 COUNT : 0 SUM : 0",
    ];
    for line in expected {
        assert!(text.lines().any(|l| l == line), "{line}\n{text}");
    }
    assert_eq!(text.lines().count(), Ticker::COUNT + HistogramKind::COUNT);
}

#[pumice_test_macros::test]
fn shards_are_handed_on_and_lose_nothing() {
    let statistics = Arc::new(Statistics::new());
    for _ in 0..20 {
        let s = Arc::clone(&statistics);
        let worker = pumice_port::thread::spawn("adder", move || {
            (0..100).for_each(|_| s.record_tick(Ticker::MemtableHit, 1));
        });
        worker.join().unwrap();
    }
    assert_eq!(statistics.ticker(Ticker::MemtableHit), 2000);
    // One worker at a time: the next one may start before the last one's shard is back, not more.
    assert!(statistics.shards.lock().len() <= 2);
}

#[pumice_test_macros::test]
fn a_task_counts_into_many_statistics() {
    let all: Vec<Statistics> = (0..3 * KEPT_SHARDS).map(|_| Statistics::new()).collect();
    for round in 0..5 {
        for (i, statistics) in all.iter().enumerate() {
            statistics.record_tick(Ticker::MemtableHit, i as u64);
            assert_eq!(statistics.ticker(Ticker::MemtableHit), i as u64 * (round + 1));
        }
    }
    assert!(all.iter().all(|statistics| statistics.shards.lock().len() == 1));
}

#[pumice_test_macros::test]
fn a_reset_while_others_count_forgets_only_the_past() {
    let statistics = Arc::new(Statistics::new());
    let workers: Vec<_> = (0..2)
        .map(|_| {
            let s = Arc::clone(&statistics);
            pumice_port::thread::spawn("adder", move || {
                for _ in 0..50_000 {
                    s.record_tick(Ticker::BytesRead, 1);
                    s.measure(HistogramKind::DbGet, 5);
                }
            })
        })
        .collect();
    let mut taken = 0;
    for _ in 0..100 {
        taken += statistics.take_ticker(Ticker::BytesRead);
        assert!(statistics.histogram(HistogramKind::DbGet).count() <= 100_000);
    }
    for worker in workers {
        worker.join().unwrap();
    }
    assert_eq!(taken + statistics.ticker(Ticker::BytesRead), 100_000);
    assert_eq!(statistics.histogram(HistogramKind::DbGet).count(), 100_000);
    statistics.reset();
    statistics.measure(HistogramKind::DbGet, 7);
    let h = statistics.histogram(HistogramKind::DbGet);
    assert_eq!((h.count(), h.sum(), h.min(), h.max()), (1, 7, 7, 7));
    assert_eq!(statistics.ticker(Ticker::BytesRead), 0);
}

/// A task of a child without a shard would wait for a lock that is never released there.
// Plain #[test]: loops do not survive a fork.
#[test]
fn a_child_of_fork_counts_nothing_new() {
    pumice_port::os::watch_forks();
    let statistics = Statistics::new();
    let held = statistics.shards.lock();
    let child = pumice_port::testing::fork(|| {
        statistics.record_tick(Ticker::BytesRead, 1);
        0
    });
    assert_eq!(child.wait(), Some(0));
    drop(held);
    statistics.record_tick(Ticker::BytesRead, 2);
    assert_eq!(statistics.ticker(Ticker::BytesRead), 2);
}
