//! Perf contexts: each call counts, where it should, for the task that made it and for no other.

use crate::common::{DIR, flush, memory, options};
use pumice::perf::{self, IoMetric, LevelMetric, PerfLevel, PerfMetric};
use pumice::{BlockCache, CacheOptions, Db, FilterPolicy, Options};

const KEYS: u64 = 1000;

fn key(i: u64) -> Vec<u8> {
    format!("key{i:07}").into_bytes()
}

fn filtered() -> (pumice::MemFs, Options) {
    let (mem, fs) = memory();
    let mut options = options(&fs);
    options.cf.disable_auto_compactions = true;
    options.cf.table_factory.filter_policy = Some(FilterPolicy::bloom(10.0));
    options.cf.table_factory.block_cache = Some(BlockCache::new(CacheOptions::new(32 << 20)));
    (mem, options)
}

fn filled(options: &Options) -> Db {
    let db = Db::open(options, DIR).unwrap();
    (0..KEYS).for_each(|i| db.put(key(i), [b'v'; 50]).unwrap());
    db
}

/// What `call` counts at `level`.
fn counted(level: PerfLevel, call: impl FnOnce()) -> perf::PerfContext {
    perf::set_level(level);
    perf::reset();
    perf::reset_io();
    call();
    let context = perf::context();
    perf::set_level(PerfLevel::Disable);
    context
}

fn counts(call: impl FnOnce()) -> perf::PerfContext {
    counted(PerfLevel::EnableCount, call)
}

#[pumice_test_macros::test]
fn point_reads_are_counted() {
    let (_mem, options) = filtered();
    let db = filled(&options);
    let get = |i| assert!(db.get(key(i)).unwrap().is_some());
    let context = counts(|| get(1));
    assert_eq!(context.report(true), "get_read_bytes = 50, get_from_memtable_count = 1");
    flush(&db);
    let context = counts(|| get(1));
    let of = |metric| context.get(metric);
    assert_eq!(of(PerfMetric::BlockReadCount), 1, "index and filter are held: {context}");
    assert_eq!(of(PerfMetric::BlockReadByte), of(PerfMetric::DataBlockReadByte));
    assert_eq!(of(PerfMetric::BlockReadByte), perf::io_context().get(IoMetric::BytesRead));
    assert_eq!(of(PerfMetric::BlockCacheHitCount), 0);
    let context = counts(|| get(1));
    assert_eq!(context.get(PerfMetric::BlockReadCount), 0);
    assert_eq!(context.get(PerfMetric::BlockCacheHitCount), 1);
    assert_eq!(context.get(PerfMetric::BloomSstHitCount), 1);
    let missing: Vec<_> = (0..100).map(|i| format!("key{i:07}x")).collect();
    let context = counts(|| missing.iter().for_each(|k| assert!(db.get(k).unwrap().is_none())));
    assert!(context.get(PerfMetric::BloomSstMissCount) > 90, "{context}");
    assert_eq!(counted(PerfLevel::Disable, || get(2)).report(true), "");
    assert_eq!(counts(|| ()).report(true), "");
    db.close().unwrap();
}

/// Several reads as one: their blocks are read by fibers of their own, for the caller all the same.
#[pumice_test_macros::test]
fn blocks_read_beside_count_for_the_caller() {
    let (_mem, options) = filtered();
    let db = filled(&options);
    flush(&db);
    let keys: Vec<_> = (0..10).map(|i| key(i * 100)).collect();
    let context = counts(|| {
        assert!(db.multi_get(&keys).into_iter().all(|value| value.unwrap().is_some()));
    });
    assert_eq!(context.get(PerfMetric::MultigetReadBytes), 500);
    assert!((5..=10).contains(&context.get(PerfMetric::BlockReadCount)), "{context}");
    assert_eq!(context.get(PerfMetric::GetReadBytes), 0);
    db.close().unwrap();
}

#[pumice_test_macros::test]
fn iterators_are_counted() {
    let (_mem, options) = filtered();
    let db = filled(&options);
    db.delete(key(11)).unwrap();
    db.put(key(12), b"new").unwrap();
    let mut before = db.cursor_opt(&Default::default()).unwrap();
    let context = counts(|| {
        let mut iter = db.cursor_opt(&Default::default()).unwrap();
        iter.seek(&key(10));
        iter.next();
        assert_eq!(iter.key(), Some(&key(12)[..]));
        iter.next();
        iter.prev();
        // An iterator from before is counted from its next seek on.
        before.seek(&key(20));
    });
    let of = |metric| context.get(metric);
    assert_eq!((of(PerfMetric::IterSeekCount), of(PerfMetric::IterNextCount)), (2, 2));
    assert_eq!(of(PerfMetric::IterPrevCount), 1);
    assert_eq!(of(PerfMetric::InternalDeleteSkippedCount), 1);
    assert_eq!(of(PerfMetric::IterReadBytes), 60 + 13 + 60 + 13 + 60);
    assert!(of(PerfMetric::NextOnMemtableCount) >= 4, "{context}");
    assert_eq!(of(PerfMetric::SeekChildSeekCount), of(PerfMetric::SeekOnMemtableCount));
    drop(before);
    db.close().unwrap();
}

#[pumice_test_macros::test]
fn levels_are_told_apart_on_request() {
    let (_mem, options) = filtered();
    let db = filled(&options);
    db.compact_range(&Default::default(), None, None).unwrap();
    (0..10).for_each(|i| db.put(key(i), b"newer").unwrap());
    flush(&db);
    let deepest = db.live_files_metadata().iter().map(|file| file.level).max().unwrap();
    let read = || {
        assert!(db.get(key(5)).unwrap().is_some());
        assert!(db.get(key(500)).unwrap().is_some());
    };
    read();
    let context = counts(read);
    assert_eq!(context.at_level(LevelMetric::UserKeyReturnCount, 0), 0);
    perf::count_by_level(true);
    let context = counts(read);
    for level in [0, deepest] {
        assert_eq!(context.at_level(LevelMetric::UserKeyReturnCount, level), 1);
        assert_eq!(context.at_level(LevelMetric::BlockCacheHitCount, level), 1);
        assert_eq!(context.at_level(LevelMetric::BloomFilterFullTruePositive, level), 1);
    }
    perf::clear_levels();
    db.close().unwrap();
}

/// Times are measured from their level on; the clock of a simulation may stand still.
#[pumice_test_macros::test]
fn writes_and_times_are_counted_for_their_task() {
    let (_mem, options) = filtered();
    let db = filled(&options);
    let put = || db.put(key(1), [b'w'; 50]).unwrap();
    assert_eq!(counts(put).report(true), "");
    assert!(perf::io_context().get(IoMetric::BytesWritten) > 0);
    let timed = counted(PerfLevel::EnableWait, || (0..100).for_each(|_| put()));
    assert!(timed.get(PerfMetric::WriteMemtableTime) > 0);
    assert_eq!(timed.get(PerfMetric::WriteWalTime), 0);
    let timed = counted(PerfLevel::EnableTimeExceptForMutex, || (0..100).for_each(|_| put()));
    assert!(timed.get(PerfMetric::WriteWalTime) > 0);
    assert!(timed.get(PerfMetric::WritePreAndPostProcessTime) > 0);
    // Other tasks have other levels, and their own numbers.
    perf::set_level(PerfLevel::EnableCount);
    perf::reset();
    let other = {
        let db = db.clone();
        pumice_port::thread::spawn("other", move || {
            assert!(db.get(key(1)).unwrap().is_some());
            perf::context().report(true)
        })
    };
    assert_eq!(other.join().unwrap(), "");
    assert_eq!(perf::context().report(true), "");
    perf::set_level(PerfLevel::Disable);
    db.close().unwrap();
}
