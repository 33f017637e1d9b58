//! Failing files, concurrent writers and column families dropped under way.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pumice::{
    ColumnFamilyOptions, Db, FileSystem, FlushOptions, HistogramKind, MemFs, Options, ReadOptions,
    Statistics, Ticker, WriteOptions,
};
use pumice_base::random::Rng;
use pumice_env::mem::{CrashMode, Fault, FaultOp, FaultRule};

use crate::common::eventually;

const DIR: &str = "/db";

fn options(fs: &MemFs) -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.file_system = fs.shared();
    options
}

fn get(db: &Db, key: &str) -> Option<Vec<u8>> {
    db.get_opt(&ReadOptions::default(), key.as_bytes()).unwrap().map(|v| v.to_vec())
}

fn put(db: &Db, key: &str, value: &str) -> pumice::Result<()> {
    db.put_opt(&WriteOptions::default(), key.as_bytes(), value.as_bytes())
}

fn flush(db: &Db) -> pumice::Result<()> {
    db.flush_opt(&FlushOptions::default())
}

/// Every table on disk is in the version; jobs delete files after they report, so look again.
fn assert_no_garbage(fs: &MemFs, db: &Db) {
    let mut counts = (0, 0);
    for _ in 0..3000 {
        let names = fs.list(Path::new(DIR)).unwrap();
        let on_disk = names.iter().filter(|name| name.ends_with(".sst")).count();
        counts = (on_disk, db.live_files_metadata().len());
        if counts.0 == counts.1 {
            return;
        }
        pumice_port::thread::sleep(std::time::Duration::from_millis(20));
    }
    panic!("{} tables on disk, {} in the version", counts.0, counts.1);
}

#[pumice_test_macros::test]
fn a_family_dropped_as_a_new_manifest_starts_leaves_it_readable() {
    let fs = MemFs::new(1);
    let mut options = options(&fs);
    options.db.max_manifest_file_size = 1;
    let db = Db::open(&options, DIR).unwrap();
    let cf = db.create_column_family(&ColumnFamilyOptions::default(), "gone").unwrap();
    db.put_cf_opt(&WriteOptions::default(), &cf, b"k", b"v").unwrap();
    db.drop_column_family(&cf).unwrap();
    drop(cf);
    db.close().unwrap();
    assert_eq!(Db::list_column_families(&options.db, DIR).unwrap(), ["default"]);
    Db::open(&options, DIR).unwrap().close().unwrap();
}

#[pumice_test_macros::test]
fn a_family_dropped_during_its_flush_leaves_the_manifest_readable() {
    let fs = MemFs::new(2);
    let options = options(&fs);
    let mut rng = Rng::new(2);
    let db = Db::open(&options, DIR).unwrap();
    for round in 0..150 {
        let cf = db.create_column_family(&ColumnFamilyOptions::default(), "gone").unwrap();
        for n in 0..1 + rng.uniform(40) {
            let value = vec![b'v'; rng.uniform(400) as usize];
            db.put_cf_opt(&WriteOptions::default(), &cf, &n.to_be_bytes(), &value).unwrap();
        }
        let no_wait =
            FlushOptions { wait: false, allow_write_stall: true, ..FlushOptions::default() };
        db.flush_cfs_opt(&no_wait, &[&cf]).unwrap();
        for _ in 0..rng.uniform(2000) {
            std::hint::spin_loop();
        }
        db.drop_column_family(&cf).unwrap();
        put(&db, "round", &round.to_string()).unwrap();
    }
    db.close().unwrap();
    let db = Db::open(&options, DIR).unwrap();
    assert_eq!(get(&db, "round").unwrap(), b"149");
    db.close().unwrap();
}

#[pumice_test_macros::test]
fn a_flush_that_fails_twice_is_resumed_and_leaves_no_garbage() {
    let fs = MemFs::new(3);
    let db = Db::open(&options(&fs), DIR).unwrap();
    put(&db, "a", "1").unwrap();
    fs.add_fault(FaultRule::always(FaultOp::Write, "*.sst", Fault::Eio));
    flush(&db).unwrap_err();
    put(&db, "b", "2").unwrap_err();
    db.resume().unwrap_err();
    put(&db, "b", "2").unwrap_err();
    fs.clear_faults();
    db.resume().unwrap();
    put(&db, "b", "2").unwrap();
    flush(&db).unwrap();
    assert_eq!((get(&db, "a").unwrap(), get(&db, "b").unwrap()), (b"1".to_vec(), b"2".to_vec()));
    assert_no_garbage(&fs, &db);
    db.close().unwrap();
}

#[pumice_test_macros::test]
fn a_failed_compaction_leaves_no_garbage() {
    let fs = MemFs::new(4);
    let mut options = options(&fs);
    options.cf.disable_auto_compactions = true;
    options.cf.target_file_size_base = 4 << 10;
    let db = Db::open(&options, DIR).unwrap();
    let mut rng = Rng::new(4);
    for _ in 0..3 {
        for n in 0..200u32 {
            let value = rng.bytes(100);
            db.put_opt(&WriteOptions::default(), &n.to_be_bytes(), &value).unwrap();
        }
        flush(&db).unwrap();
    }
    let all = Default::default();
    fs.add_fault(FaultRule::once(FaultOp::Sync, "*.sst", 2, Fault::Eio));
    db.compact_range(&all, None, None).unwrap_err();
    fs.clear_faults();
    db.compact_range(&all, None, None).unwrap();
    assert_no_garbage(&fs, &db);
    db.close().unwrap();
}

#[pumice_test_macros::test]
fn a_failed_log_write_is_resumed_without_reusing_what_the_log_may_hold() {
    for (seed, op) in [(5, FaultOp::Write), (6, FaultOp::Sync), (7, FaultOp::Create)] {
        let fs = MemFs::new(seed);
        let options = options(&fs);
        let db = Db::open(&options, DIR).unwrap();
        let sync = WriteOptions { sync: true, ..WriteOptions::default() };
        db.put_opt(&sync, b"a", b"1").unwrap();
        fs.add_fault(FaultRule::once(op, "*.log", 0, Fault::Eio));
        if op == FaultOp::Create {
            flush(&db).unwrap_err();
        } else {
            db.put_opt(&sync, b"lost", b"x").unwrap_err();
        }
        db.put_opt(&sync, b"b", b"2").unwrap_err();
        // Whatever a crash keeps at this point must open.
        let copy = fs.crashed_copy(seed, CrashMode::PROCESS);
        let db2 = Db::open(&self::options(&copy), DIR).unwrap();
        assert_eq!(get(&db2, "a").unwrap(), b"1", "{op:?}");
        db2.close().unwrap();
        db.resume().unwrap();
        db.put_opt(&sync, b"b", b"2").unwrap();
        for mode in [CrashMode::PROCESS, CrashMode::UNSYNCED] {
            let copy = fs.crashed_copy(seed, mode);
            let db2 = Db::open(&self::options(&copy), DIR).unwrap();
            assert_eq!(get(&db2, "a").unwrap(), b"1", "{op:?} {mode:?}");
            assert_eq!(get(&db2, "b").unwrap(), b"2", "{op:?} {mode:?}");
            db2.close().unwrap();
        }
        db.close().unwrap();
    }
}

#[pumice_test_macros::test]
fn writes_go_on_by_themselves_once_a_full_disk_has_space_again() {
    let fs = MemFs::new(8);
    let mut options = options(&fs);
    options.cf.write_buffer_size = 64 << 10;
    let db = Db::open(&options, DIR).unwrap();
    fs.set_quota(Some(fs.used_bytes() + (200 << 10)));
    let value = "v".repeat(1000);
    let mut written = 0;
    while put(&db, &format!("k{written}"), &value).is_ok() {
        written += 1;
        assert!(written < 2000, "the quota has no effect");
    }
    fs.set_quota(None);
    // Bounded by tries, not by time: each try waits for the next automatic resume.
    let mut resumed = false;
    for _ in 0..2400 {
        if put(&db, "after", "1").is_ok() {
            resumed = true;
            break;
        }
        pumice_port::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert!(resumed);
    for n in 0..written {
        assert_eq!(get(&db, &format!("k{n}")).unwrap(), value.as_bytes());
    }
    db.close().unwrap();
}

#[pumice_test_macros::test]
fn errors_and_what_is_done_about_them_are_counted() {
    use Ticker::{
        ErrorHandlerAutoresumeCount, ErrorHandlerAutoresumeRetryTotalCount,
        ErrorHandlerAutoresumeSuccessCount, ErrorHandlerBgErrorCount, ErrorHandlerBgIoErrorCount,
        ErrorHandlerBgRetryableIoErrorCount,
    };
    let fs = MemFs::new(8);
    let statistics = Arc::new(Statistics::new());
    let mut options = options(&fs);
    options.db.bgerror_resume_retry_interval = 1000;
    options.db.statistics = Some(Arc::clone(&statistics));
    let db = Db::open(&options, DIR).unwrap();
    let ticker = |ticker| statistics.ticker(ticker);
    put(&db, "a", "1").unwrap();
    fs.add_fault(FaultRule::always(FaultOp::Write, "*.sst", Fault::Eio));
    flush(&db).unwrap_err();
    eventually("three attempts", || ticker(ErrorHandlerAutoresumeRetryTotalCount) >= 3);
    assert_eq!(ticker(ErrorHandlerAutoresumeSuccessCount), 0);
    fs.clear_faults();
    eventually("success", || ticker(ErrorHandlerAutoresumeSuccessCount) == 1);
    put(&db, "b", "2").unwrap();
    assert_eq!(ticker(ErrorHandlerAutoresumeCount), 1, "one series");
    let tries = statistics.histogram(HistogramKind::ErrorHandlerAutoresumeRetryCount);
    let total = ticker(ErrorHandlerAutoresumeRetryTotalCount);
    assert_eq!((tries.count(), tries.sum()), (1, total));
    let errors = ticker(ErrorHandlerBgErrorCount);
    assert!(errors >= 3, "{errors}");
    assert_eq!(ticker(ErrorHandlerBgIoErrorCount), errors);
    assert_eq!(ticker(ErrorHandlerBgRetryableIoErrorCount), errors);
    // What a device did with a log that it failed to sync is not known: that is not tried again.
    fs.add_fault(FaultRule::always(FaultOp::Sync, "*.log", Fault::Eio));
    db.put_opt(&WriteOptions { sync: true, ..Default::default() }, "c", "3").unwrap_err();
    assert_eq!(ticker(ErrorHandlerBgIoErrorCount), errors + 1);
    assert_eq!(ticker(ErrorHandlerBgRetryableIoErrorCount), errors);
    assert_eq!(ticker(ErrorHandlerAutoresumeCount), 1);
    fs.clear_faults();
    db.resume().unwrap();
    db.close().unwrap();
}

#[pumice_test_macros::test]
fn logs_over_their_limit_seal_each_memtable_once() {
    let fs = MemFs::new(9);
    let mut options = options(&fs);
    options.db.max_total_wal_size = 8 << 10;
    let db = Db::open(&options, DIR).unwrap();
    let cf = db.create_column_family(&ColumnFamilyOptions::default(), "other").unwrap();
    db.put_cf_opt(&WriteOptions::default(), &cf, b"k", b"v").unwrap();
    db.pause_background_work();
    for n in 0..400 {
        put(&db, &format!("{n}"), &"v".repeat(100)).unwrap();
    }
    let waiting = |cf| db.property_int_cf(cf, "rocksdb.num-immutable-mem-table").unwrap();
    assert_eq!(waiting(db.default_column_family()), 1);
    assert_eq!(waiting(&cf), 1);
    db.continue_background_work().unwrap();
    db.wait_for_compact(&Default::default()).unwrap();
    assert_eq!(waiting(db.default_column_family()), 0);
    db.close().unwrap();
}

/// Threads write with all kinds of options while others flush and read; after a crash that keeps
/// only synced data, every write acknowledged as durable is there, and every earlier logged write
/// of its thread.
#[pumice_test_macros::test]
fn many_writers_lose_nothing_they_were_promised() {
    for seed in 0..3u64 {
        let fs = MemFs::new(100 + seed);
        let mut options = options(&fs);
        options.cf.write_buffer_size = 64 << 10;
        let db = Db::open(&options, DIR).unwrap();
        let threads = 8u64;
        let each = 600u64;
        let durable: Arc<Vec<AtomicU64>> =
            Arc::new((0..threads).map(|_| AtomicU64::new(0)).collect());
        let first = db.latest_sequence_number();
        let handles: Vec<_> = (0..threads)
            .map(|thread| {
                let (db, durable) = (db.clone(), Arc::clone(&durable));
                pumice_port::thread::spawn("writer", move || {
                    let mut rng = Rng::new(seed * 1000 + thread);
                    for n in 1..=each {
                        let sync = rng.one_in(20);
                        let options = WriteOptions {
                            sync,
                            low_pri: rng.one_in(5),
                            ..WriteOptions::default()
                        };
                        let key = format!("{thread}/{n}");
                        if rng.one_in(3) {
                            let mut batch = pumice::WriteBatch::new();
                            batch.put(key.as_bytes(), key.as_bytes());
                            batch.put(format!("{thread}/last").as_bytes(), key.as_bytes());
                            db.write_opt(&options, &mut batch).unwrap();
                        } else {
                            put_with(&db, &options, &key);
                        }
                        if sync {
                            durable[thread as usize].store(n, Ordering::SeqCst);
                        }
                        assert_eq!(get(&db, &key).unwrap(), key.as_bytes());
                        if rng.one_in(200) {
                            flush(&db).unwrap();
                        }
                    }
                })
            })
            .collect();
        for handle in handles {
            handle.join().unwrap();
        }
        assert!(db.latest_sequence_number() >= first + threads * each);
        let check = |db: &Db, upto: &dyn Fn(u64) -> u64| {
            for thread in 0..threads {
                for n in 1..=upto(thread) {
                    let key = format!("{thread}/{n}");
                    assert_eq!(get(db, &key).as_deref(), Some(key.as_bytes()), "seed {seed}");
                }
            }
        };
        check(&db, &|_| each);
        let copy = fs.crashed_copy(seed, CrashMode::UNSYNCED);
        let db2 = Db::open(&self::options(&copy), DIR).unwrap();
        check(&db2, &|thread| durable[thread as usize].load(Ordering::SeqCst));
        db2.close().unwrap();
        db.close().unwrap();
        let db = Db::open(&options, DIR).unwrap();
        check(&db, &|_| each);
        db.close().unwrap();
    }
}

fn put_with(db: &Db, options: &WriteOptions, key: &str) {
    db.put_opt(options, key.as_bytes(), key.as_bytes()).unwrap();
}

/// Readers without snapshots see every batch whole: `multi_get` at one sequence, iterators too.
#[pumice_test_macros::test]
fn readers_see_batches_whole() {
    let fs = MemFs::new(10);
    let mut options = options(&fs);
    options.cf.write_buffer_size = 64 << 10;
    let db = Db::open(&options, DIR).unwrap();
    let keys: Vec<String> = (0..16).map(|n| format!("key{n:02}")).collect();
    let write = |db: &Db, value: u64| {
        let mut batch = pumice::WriteBatch::new();
        for key in (0..16).map(|n| format!("key{n:02}")) {
            batch.put(key.as_bytes(), &value.to_be_bytes());
        }
        db.write_opt(&WriteOptions::default(), &mut batch).unwrap();
    };
    write(&db, 0);
    let writer = {
        let db = db.clone();
        pumice_port::thread::spawn("writer", move || {
            for value in 1..4000 {
                write(&db, value);
            }
        })
    };
    for _ in 0..1500 {
        let values: Vec<Vec<u8>> = db
            .multi_get_opt(&ReadOptions::default(), &keys)
            .into_iter()
            .map(|v| v.unwrap().unwrap().to_vec())
            .collect();
        assert!(values.windows(2).all(|w| w[0] == w[1]), "torn multi_get: {values:?}");
        let mut cursor = db.cursor_opt(&ReadOptions::default()).unwrap();
        cursor.seek_to_first();
        let value = cursor.value().unwrap().to_vec();
        let mut rows = 0;
        while cursor.valid() {
            assert_eq!(cursor.value().unwrap(), value);
            rows += 1;
            cursor.next();
        }
        assert_eq!(rows, 16);
    }
    writer.join().unwrap();
    db.close().unwrap();
}

/// A memtable is sealed, its flush has not begun, and the next log fails: resuming must replace
/// that log although nothing in memory names the next one.
#[pumice_test_macros::test]
fn a_resume_during_a_flush_leaves_the_failed_log_behind() {
    let fs = MemFs::new(7);
    let mut options = options(&fs);
    options.db.avoid_flush_during_recovery = true;
    let db = Db::open(&options, DIR).unwrap();
    put(&db, "before", "1").unwrap();
    db.pause_background_work();
    db.flush_opt(&FlushOptions { wait: false, ..FlushOptions::default() }).unwrap();
    fs.add_fault(FaultRule::once(FaultOp::Write, "*.log", 0, Fault::ShortWrite));
    put(&db, "torn", &"x".repeat(3000)).unwrap_err();
    let logs = || {
        let names = fs.list(Path::new(DIR)).unwrap();
        names.iter().filter(|name| name.ends_with(".log")).count()
    };
    let before = logs();
    let resuming = {
        let db = db.clone();
        pumice_port::thread::spawn("resume", move || db.resume())
    };
    while logs() == before {
        pumice_port::thread::yield_now();
    }
    db.continue_background_work().unwrap();
    resuming.join().unwrap().unwrap();
    let sync = WriteOptions { sync: true, ..WriteOptions::default() };
    db.put_opt(&sync, b"after", b"2").unwrap();
    db.close().unwrap();
    let db = Db::open(&options, DIR).unwrap();
    assert_eq!(get(&db, "before").as_deref(), Some(&b"1"[..]));
    assert_eq!(get(&db, "after").as_deref(), Some(&b"2"[..]));
}

/// What a failed log held is flushed family by family; a power cut in between must not leave the
/// part of a batch that one of them had.
#[pumice_test_macros::test]
fn a_power_cut_during_resume_leaves_batches_whole() {
    use pumice::{ColumnFamilyDescriptor, WriteBatch};
    let open = |fs: &MemFs| {
        let mut options = options(fs);
        options.db.create_missing_column_families = true;
        let families = ["default", "other"]
            .map(|name| ColumnFamilyDescriptor::new(name, ColumnFamilyOptions::default()));
        Db::open_cf(&options.db, DIR, &families).unwrap()
    };
    for changes in 0.. {
        let fs = MemFs::new(changes);
        let (db, cfs) = open(&fs);
        let mut batch = WriteBatch::new();
        cfs.iter().for_each(|cf| batch.put_cf(cf.id(), b"a", b"1"));
        db.write_opt(&WriteOptions::default(), &mut batch).unwrap();
        fs.add_fault(FaultRule::once(FaultOp::Write, "*.log", 0, Fault::Eio));
        db.put_opt(&WriteOptions::default(), b"b", b"lost").unwrap_err();
        fs.halt_after(changes);
        let finished = db.resume().is_ok();
        fs.crash(changes, CrashMode::UNSYNCED);
        drop(db.close());
        drop((db, cfs));
        let (db, cfs) = open(&fs);
        let held = |cf| db.get_cf_opt(&ReadOptions::default(), cf, b"a").unwrap().is_some();
        assert_eq!(held(&cfs[0]), held(&cfs[1]), "half a batch after {changes} changes");
        if finished {
            assert!(held(&cfs[0]), "resume has made it durable");
            break;
        }
    }
}

/// While a background error stops writes, column families are neither created nor dropped; none of
/// that is on disk after a crash.
#[pumice_test_macros::test]
fn families_wait_for_the_end_of_a_background_error() {
    let faults = [
        (FaultOp::Write, "*.log", Fault::Eio),
        (FaultOp::Create, "*.log", Fault::Eio),
        (FaultOp::Write, "*.sst", Fault::Eio),
        (FaultOp::Sync, "*MANIFEST-*", Fault::Eio),
    ];
    for (seed, (op, glob, fault)) in faults.into_iter().enumerate() {
        let fs = MemFs::new(seed as u64);
        let mut options = options(&fs);
        options.db.max_bgerror_resume_count = 0;
        let db = Db::open(&options, DIR).unwrap();
        let there = db.create_column_family(&options.cf, "there").unwrap();
        put(&db, "a", "1").unwrap();
        fs.add_fault(FaultRule::always(op, glob, fault));
        put(&db, "b", "2").and_then(|()| flush(&db)).unwrap_err();
        fs.clear_faults();
        let error = put(&db, "c", "3").unwrap_err().to_string();
        let created = db.create_column_family(&options.cf, "new").unwrap_err();
        assert_eq!(created.to_string(), error, "{glob}");
        assert_eq!(db.drop_column_family(&there).unwrap_err().to_string(), error, "{glob}");
        let copy = fs.crashed_copy(seed as u64, CrashMode::PROCESS);
        let names = Db::list_column_families(&self::options(&copy).db, DIR).unwrap();
        assert_eq!(names, ["default", "there"], "{glob}");
        db.resume().unwrap();
        let new = db.create_column_family(&options.cf, "new").unwrap();
        db.put_cf_opt(&WriteOptions::default(), &new, b"k", b"v").unwrap();
        db.drop_column_family(&there).unwrap();
        assert_eq!(get(&db, "a").unwrap(), b"1");
        db.close().unwrap();
        assert_eq!(Db::list_column_families(&options.db, DIR).unwrap(), ["default", "new"]);
    }
    // To drop one is a way out of a full disk.
    let fs = MemFs::new(9);
    let db = Db::open(&options(&fs), DIR).unwrap();
    let big = db.create_column_family(&ColumnFamilyOptions::default(), "big").unwrap();
    db.put_cf_opt(&WriteOptions::default(), &big, b"k", &[b'v'; 50_000]).unwrap();
    db.flush_cfs_opt(&FlushOptions::default(), &[&big]).unwrap();
    fs.set_quota(Some(fs.used_bytes() + 5000));
    // A log that the flush made obsolete may be deleted meanwhile, which frees room for more.
    let fits = |n: &i32| put(&db, &format!("b{n}"), &"2".repeat(10_000)).is_ok();
    assert!((0..100).take_while(fits).count() < 100, "the disk is never full");
    fs.set_quota(Some(fs.used_bytes() + 1000));
    db.drop_column_family(&big).unwrap();
    drop(big);
    drop(db.close()); // It may report that its log is incomplete.
    assert_eq!(Db::list_column_families(&options(&fs).db, DIR).unwrap(), ["default"]);
}

/// Unlogged writes that a background error keeps in memory: the close reports them.
#[pumice_test_macros::test]
fn a_close_that_cannot_save_unlogged_writes_says_so() {
    for lost in [false, true] {
        let fs = MemFs::new(1);
        let mut options = options(&fs);
        options.db.max_bgerror_resume_count = 0;
        let db = Db::open(&options, DIR).unwrap();
        let unlogged = WriteOptions { disable_wal: true, ..WriteOptions::default() };
        db.put_opt(&unlogged, b"a", b"1").unwrap();
        flush(&db).unwrap();
        let how = if lost { unlogged } else { WriteOptions::default() };
        db.put_opt(&how, b"b", b"2").unwrap();
        fs.add_fault(FaultRule::always(FaultOp::Write, "*MANIFEST*", Fault::Eio));
        db.create_column_family(&ColumnFamilyOptions::default(), "fails").unwrap_err();
        fs.clear_faults();
        assert_eq!(db.close().is_err(), lost);
        drop(db);
        let db = Db::open(&options, DIR).unwrap();
        assert_eq!((get(&db, "a").is_some(), get(&db, "b").is_some()), (true, !lost));
    }
}
