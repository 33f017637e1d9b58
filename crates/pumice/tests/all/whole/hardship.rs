//! What must still work when things go badly: a slowed writer whose database closes, an error for
//! whose recovery there is no thread, a compaction whose parts get no threads, a table that cannot
//! be read any more.
//!
//! Plain #[test]: a simulation is a runtime of its own, in which time and refusals are exact.

use std::sync::Arc;
use std::time::Duration;

use pumice::options::BackgroundPolicy;
use pumice::{
    CompactRangeOptions, Db, FlushOptions, IoPriority, MemFs, Options, PoolPriority, RateLimiter,
    RateLimiterOptions, ReadOptions, ThreadPools, WaitForCompactOptions, WriteOptions,
};
use pumice_env::mem::{Fault, FaultOp, FaultRule};
use pumice_port::{sim, thread, time};

const DIR: &str = "/db";
const SECOND: u64 = 1_000_000_000;

fn options(fs: &MemFs) -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.file_system = fs.shared();
    options
}

fn put(db: &Db, key: &str, value: &[u8]) -> pumice::Result<()> {
    db.put_opt(&WriteOptions::default(), key.as_bytes(), value)
}

fn flush(db: &Db) {
    db.flush_opt(&FlushOptions::default()).unwrap();
}

/// Runs `body` under a few schedules.
fn simulate(body: impl Fn(&MemFs)) {
    for seed in 0..10 {
        let (report, outcome) = sim::run(&sim::Options::new(seed), || body(&MemFs::new(seed)));
        let stuck = report.stuck.map_or(String::new(), |stuck| stuck.to_string());
        assert!(outcome.is_ok() && stuck.is_empty(), "seed {seed}: {outcome:?}\n{stuck}");
    }
}

#[test]
fn a_slowed_writer_does_not_outwait_a_close() {
    simulate(|fs| {
        let mut options = options(fs);
        // RocksDB's rules: at the trigger, however few bytes the files have.
        options.db.background_policy = BackgroundPolicy::Static;
        options.cf.level0_file_num_compaction_trigger = 4;
        options.cf.level0_slowdown_writes_trigger = 4;
        options.db.delayed_write_rate = 1000;
        let db = Arc::new(Db::open(&options, DIR).unwrap());
        for n in 0..4 {
            if n == 3 {
                // The last flush makes one table; the compaction after it stalls on its first one.
                let stall = Fault::Stall(1000 * SECOND);
                let (op, path_glob) = (Some(FaultOp::Create), "*.sst".to_string());
                fs.add_fault(FaultRule { op, path_glob, skip: 1, count: 1, fault: stall });
            }
            put(&db, "a", format!("{n}").as_bytes()).unwrap();
            flush(&db);
        }
        let slowed = Arc::clone(&db);
        let writer = thread::spawn("writer", move || {
            let written = put(&slowed, "b", &[b'x'; 200_000]);
            (written, time::now_nanos())
        });
        thread::sleep(Duration::from_secs(2));
        let closed_at = time::now_nanos();
        let closing = Arc::clone(&db);
        let close = thread::spawn("close", move || closing.close());
        let (written, ended_at) = writer.join().unwrap();
        assert!(ended_at > closed_at, "the writer was not slowed");
        assert!(ended_at - closed_at < SECOND, "{} ns after the close", ended_at - closed_at);
        assert!(written.unwrap_err().to_string().contains("closing"));
        drop(close.join());
    });
}

#[test]
fn an_error_that_found_no_thread_is_recovered_from_after_the_next() {
    simulate(|fs| {
        let mut options = options(fs);
        options.db.bgerror_resume_retry_interval = 1_000_000;
        let db = Db::open(&options, DIR).unwrap();
        put(&db, "a", b"1").unwrap();
        sim::refuse_tasks("pumice:resume", 1);
        fs.set_quota(Some(fs.used_bytes()));
        assert!(db.flush_wal(true).and_then(|()| put(&db, "a", b"2")).unwrap_err().is_no_space());
        assert_eq!(sim::refused_tasks(), 1);
        fs.set_quota(None);
        // There is room, but no task that notices.
        thread::sleep(Duration::from_secs(20));
        put(&db, "a", b"2").unwrap_err();
        // The log reports its failure again, and this time a recovery task starts.
        db.flush_wal(true).unwrap_err();
        let mut tries = 0;
        while let Err(error) = put(&db, "a", b"3") {
            tries += 1;
            assert!(tries < 20, "it does not recover: {error}");
            thread::sleep(Duration::from_secs(1));
        }
        let found = db.get_opt(&ReadOptions::default(), b"a").unwrap();
        assert_eq!(found.as_deref(), Some(&b"3"[..]));
        db.close().unwrap();
    });
}

/// Options of a database that compacts two tables and stops its writers at four.
fn impatient(fs: &MemFs) -> Options {
    let mut options = options(fs);
    options.cf.level0_file_num_compaction_trigger = 2;
    options.cf.level0_slowdown_writes_trigger = 4;
    options.cf.level0_stop_writes_trigger = 4;
    options.cf.table_factory.no_block_cache = true;
    options
}

/// Runs `call`, which must not take more than a minute.
fn within_a_minute<T>(call: impl FnOnce() -> T) -> T {
    let started = time::now_nanos();
    let result = call();
    let took = time::now_nanos() - started;
    assert!(took < 60 * SECOND, "{took} ns");
    result
}

#[test]
fn writers_get_the_error_of_the_compaction_that_they_wait_for() {
    simulate(|fs| {
        let options = impatient(fs);
        let db = Arc::new(Db::open(&options, DIR).unwrap());
        put(&db, "a", b"1").unwrap();
        put(&db, "c", b"1").unwrap();
        flush(&db);
        let name = db.live_files_metadata()[0].name.clone();
        fs.add_fault(FaultRule::always(FaultOp::Read, &format!("*{name}"), Fault::Eio));
        let writer = {
            let db = Arc::clone(&db);
            thread::spawn("writer", move || {
                within_a_minute(|| {
                    (0..100).find_map(|n| {
                        put(&db, "b", format!("{n}").as_bytes())
                            .and_then(|()| db.flush_opt(&FlushOptions::default()))
                            .err()
                    })
                })
            })
        };
        let error = writer.join().unwrap().expect("the tree grows without end");
        assert!(error.to_string().contains("IO error"), "{error}");
        // So do later writers, at once, and a flush that waits for compactions.
        let started = time::now_nanos();
        put(&db, "c", b"").unwrap_err();
        assert!(time::now_nanos() - started < SECOND);
        drop(within_a_minute(|| db.flush_opt(&FlushOptions::default())));
        within_a_minute(|| db.wait_for_compact(&Default::default())).unwrap_err();
        // It is tried again all the time: no more is needed than that the table can be read.
        fs.clear_faults();
        let mut tries = 0;
        while put(&db, "c", b"2").is_err() {
            tries += 1;
            assert!(tries < 50, "nothing compacts");
            thread::sleep(Duration::from_millis(100));
        }
        db.wait_for_compact(&Default::default()).unwrap();
        assert!(db.get_opt(&ReadOptions::default(), b"a").unwrap().is_some());
        db.close().unwrap();
    });
}

#[test]
fn a_family_that_cannot_be_compacted_delays_no_other() {
    simulate(|fs| {
        let options = impatient(fs);
        let db = Db::open(&options, DIR).unwrap();
        let other = db.create_column_family(&options.cf, "other").unwrap();
        put(&db, "a", b"1").unwrap();
        flush(&db);
        let name = db.live_files_metadata()[0].name.clone();
        fs.add_fault(FaultRule::always(FaultOp::Read, &format!("*{name}"), Fault::Eio));
        put(&db, "a", b"2").unwrap();
        flush(&db);
        thread::sleep(Duration::from_secs(20));
        for n in 0..10 {
            let started = time::now_nanos();
            db.put_cf_opt(&WriteOptions::default(), &other, b"a", &[n]).unwrap();
            db.flush_cfs_opt(&FlushOptions::default(), &[&other]).unwrap();
            let tables = || db.property_int_cf(&other, "rocksdb.num-files-at-level0").unwrap();
            while tables() > 1 {
                thread::sleep(Duration::from_millis(1));
                let waited = time::now_nanos() - started;
                assert!(waited < SECOND / 2, "{waited} ns for compaction {n}");
            }
        }
        fs.clear_faults();
        db.close().unwrap();
    });
}

#[test]
fn a_family_dropped_during_its_compaction_delays_no_other() {
    simulate(|fs| {
        let mut options = impatient(fs);
        options.db.max_background_jobs = 8;
        options.cf.write_buffer_size = 1 << 20;
        let db = Db::open(&options, DIR).unwrap();
        let doomed = db.create_column_family(&options.cf, "doomed").unwrap();
        for _ in 0..2 {
            // Enough keys that the compaction checks for cancellation.
            for n in 0..3000u32 {
                db.put_cf_opt(&WriteOptions::default(), &doomed, &n.to_be_bytes(), b"v").unwrap();
            }
            fs.add_fault(FaultRule::always(FaultOp::Read, "*.sst", Fault::Stall(SECOND / 100)));
            db.flush_cfs_opt(&FlushOptions::default(), &[&doomed]).unwrap();
        }
        thread::sleep(Duration::from_micros(sim::random_below(30_000)));
        db.drop_column_family(&doomed).unwrap();
        drop(doomed);
        thread::sleep(Duration::from_millis(60));
        fs.clear_faults();
        for n in 0..2 {
            put(&db, "a", &[n]).unwrap();
            flush(&db);
        }
        let started = time::now_nanos();
        db.wait_for_compact(&Default::default()).unwrap();
        let waited = time::now_nanos() - started;
        assert!(waited < SECOND / 20, "{waited} ns");
        db.close().unwrap();
    });
}

#[test]
fn a_compaction_loses_nothing_when_its_parts_get_no_threads() {
    const FILES: usize = 4;
    const KEYS: usize = 60;
    for times in [1, 2, u64::MAX] {
        simulate(|fs| {
            let mut options = options(fs);
            options.db.max_subcompactions = FILES as u32;
            options.cf.disable_auto_compactions = true;
            options.cf.target_file_size_base = 4 << 10;
            let db = Db::open(&options, DIR).unwrap();
            for file in 0..FILES {
                for n in 0..KEYS {
                    let key = format!("{:04}", file * KEYS / 2 + n);
                    put(&db, &key, format!("{file}-{n}-{:0100}", n).as_bytes()).unwrap();
                }
                flush(&db);
            }
            let read = |db: &Db| {
                let mut all = Vec::new();
                let mut cursor = db.cursor_opt(&ReadOptions::default()).unwrap();
                cursor.seek_to_first();
                while cursor.valid() {
                    all.push((cursor.key().unwrap().to_vec(), cursor.value().unwrap().to_vec()));
                    cursor.next();
                }
                cursor.status().unwrap();
                all
            };
            let before = read(&db);
            sim::refuse_tasks("pumice:sub", times);
            db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
            assert!(sim::refused_tasks() >= times.min(2), "{} parts", sim::refused_tasks());
            assert_eq!(before.len(), KEYS / 2 * (FILES + 1));
            assert!(read(&db) == before, "keys were lost");
            db.close().unwrap();
        });
    }
}

/// Writes that no log has, and that a recovery saves while the database closes.
#[test]
fn a_close_does_not_report_as_lost_what_a_recovery_saves() {
    simulate(|fs| {
        let mut options = options(fs);
        options.db.max_bgerror_resume_count = 0;
        let db = Arc::new(Db::open(&options, DIR).unwrap());
        let unlogged = WriteOptions { disable_wal: true, ..WriteOptions::default() };
        db.put_opt(&unlogged, b"a", b"1").unwrap();
        fs.add_fault(FaultRule::once(FaultOp::Write, "*.sst", 0, Fault::Eio));
        db.flush_opt(&FlushOptions::default()).unwrap_err();
        fs.add_fault(FaultRule::once(FaultOp::Create, "*.sst", 0, Fault::Stall(SECOND)));
        let resuming = Arc::clone(&db);
        let resume = thread::spawn("resume", move || resuming.resume());
        thread::sleep(Duration::from_millis(500));
        let closed = db.close();
        resume.join().unwrap().unwrap();
        drop(db);
        let db = Db::open(&options, DIR).unwrap();
        assert!(db.get_opt(&ReadOptions::default(), b"a").unwrap().is_some());
        closed.unwrap();
    });
}

#[test]
fn nobody_waits_for_the_compaction_of_a_family_that_is_dropped() {
    let bounded = WaitForCompactOptions { timeout_micros: 100_000_000, ..Default::default() };
    for paused in [true, false] {
        simulate(|fs| {
            let mut options = impatient(fs);
            options.cf.disable_auto_compactions = true;
            let db = Db::open(&options, DIR).unwrap();
            let doomed = db.create_column_family(&options.cf, "doomed").unwrap();
            for _ in 0..2 {
                db.put_cf_opt(&WriteOptions::default(), &doomed, b"a", b"1").unwrap();
                db.flush_cfs_opt(&FlushOptions::default(), &[&doomed]).unwrap();
            }
            if paused {
                db.pause_background_work();
            } else {
                fs.add_fault(FaultRule::always(FaultOp::Read, "*.sst", Fault::Eio));
            }
            db.set_options_cf(&doomed, &[("disable_auto_compactions", "false")]).unwrap();
            thread::sleep(Duration::from_millis(50));
            db.drop_column_family(&doomed).unwrap();
            if paused {
                db.continue_background_work().unwrap();
            }
            db.wait_for_compact(&bounded).unwrap();
            db.close().unwrap();
        });
    }
}

/// Memtables wait for a flush, which does not read what compactions cannot read.
#[test]
fn a_flush_waits_for_another_though_nothing_compacts() {
    simulate(|fs| {
        let mut options = impatient(fs);
        options.cf.max_write_buffer_number = 2;
        options.cf.level0_slowdown_writes_trigger = 20;
        options.cf.level0_stop_writes_trigger = 40;
        let db = Db::open(&options, DIR).unwrap();
        put(&db, "a", b"1").unwrap();
        flush(&db);
        let name = db.live_files_metadata()[0].name.clone();
        fs.add_fault(FaultRule::always(FaultOp::Read, &format!("*{name}"), Fault::Eio));
        put(&db, "a", b"2").unwrap();
        flush(&db);
        thread::sleep(Duration::from_secs(20));
        db.wait_for_compact(&Default::default()).unwrap_err();
        fs.add_fault(FaultRule::once(FaultOp::Sync, "*.sst", 0, Fault::Stall(10 * SECOND)));
        put(&db, "a", b"3").unwrap();
        let at_once =
            FlushOptions { wait: false, allow_write_stall: true, ..FlushOptions::default() };
        db.flush_opt(&at_once).unwrap();
        put(&db, "a", b"4").unwrap();
        flush(&db);
        fs.clear_faults();
        db.close().unwrap();
    });
}

#[test]
fn a_paced_writer_does_not_outwait_a_close() {
    simulate(|fs| {
        let mut options = options(fs);
        let slow = RateLimiter::new(&RateLimiterOptions::new(1000)).unwrap();
        options.db.rate_limiter = Some(Arc::new(slow));
        let db = Arc::new(Db::open(&options, DIR).unwrap());
        let paced = Arc::clone(&db);
        let writer = thread::spawn("writer", move || {
            let user = WriteOptions {
                rate_limiter_priority: Some(IoPriority::User),
                ..WriteOptions::default()
            };
            paced.put_opt(&user, b"a", &[b'x'; 200_000])
        });
        thread::sleep(Duration::from_secs(2));
        let started = time::now_nanos();
        db.close().unwrap();
        let waited = time::now_nanos() - started;
        assert!(waited < SECOND, "{waited} ns");
        assert!(writer.join().unwrap().unwrap_err().to_string().contains("closing"));
        drop(db);
        let db = Db::open(&self::options(fs), DIR).unwrap();
        assert!(db.get_opt(&ReadOptions::default(), b"a").unwrap().is_none());
    });
}

/// The bottom pool may have a thread, but the system does not give one.
#[test]
fn a_compaction_does_not_wait_for_a_bottom_pool_that_gets_no_thread() {
    simulate(|fs| {
        let mut options = options(fs);
        options.cf.disable_auto_compactions = true;
        options.cf.num_levels = 2;
        let db = Db::open(&options, DIR).unwrap();
        sim::refuse_tasks("pumice:bottom", u64::MAX);
        ThreadPools::shared().set_background_threads(1, PoolPriority::Bottom);
        for n in 0..2 {
            put(&db, "a", &[n]).unwrap();
            put(&db, "b", &[n]).unwrap();
            flush(&db);
        }
        let all = CompactRangeOptions::default();
        within_a_minute(|| db.compact_range(&all, None, None)).unwrap();
        assert!(sim::refused_tasks() > 0, "nothing went to the bottom pool");
        within_a_minute(|| db.pause_background_work());
        db.close().unwrap();
    });
}
