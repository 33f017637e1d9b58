//! What calls wait for, and what they must not wait for: in simulations, where time is exact.
//!
//! Plain #[test]: a simulation is a runtime of its own.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::SYNC;
use pumice::options::{CompactionStyle, FifoOptions};
use pumice::{
    CompactRangeOptions, Db, FlushOptions, MemFs, Options, ReadOptions, SubCode,
    WaitForCompactOptions, WriteOptions,
};
use pumice_env::FileSystem;
use pumice_env::mem::{Fault, FaultOp, FaultRule, FsyncFailure};
use pumice_port::{sim, thread, time};

const SEEDS: u64 = 40;
const SECOND: u64 = 1_000_000_000;

fn options(fs: &MemFs) -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.file_system = fs.shared();
    options.db.max_background_jobs = 2;
    options.cf.level0_file_num_compaction_trigger = 2;
    options
}

fn put(db: &Db, key: &str) -> pumice::Result<()> {
    db.put_opt(&WriteOptions::default(), key.as_bytes(), b"value")
}

/// Runs `body` under many schedules.
fn simulate(body: impl Fn(&MemFs)) {
    for seed in 0..SEEDS {
        let options = sim::Options { preempt_per_mille: 50, ..sim::Options::new(seed) };
        let (report, outcome) = sim::run(&options, || body(&MemFs::new(seed)));
        let stuck = report.stuck.map_or(String::new(), |stuck| stuck.to_string());
        assert!(outcome.is_ok() && stuck.is_empty(), "seed {seed}: {outcome:?}\n{stuck}");
    }
}

fn tables(fs: &MemFs) -> usize {
    let names = fs.list(Path::new("/db")).unwrap();
    names.iter().filter(|name| name.ends_with(".sst")).count()
}

/// A database with a due compaction that fails: its disk takes no more tables.
fn sick_database(fs: &MemFs) -> Db {
    let mut lazy = options(fs);
    lazy.cf.disable_auto_compactions = true;
    let db = Db::open(&lazy, "/db").unwrap();
    for _ in 0..2 {
        put(&db, "a").unwrap();
        db.flush_opt(&FlushOptions::default()).unwrap();
    }
    db.close().unwrap();
    fs.add_fault(FaultRule::always(FaultOp::Create, "*.sst", Fault::Eio));
    Db::open(&options(fs), "/db").unwrap()
}

#[test]
fn the_last_reader_of_a_file_has_it_deleted() {
    simulate(|fs| {
        let db = Db::open(&options(fs), "/db").unwrap();
        let mut readers = Vec::new();
        for round in 0..3 {
            put(&db, "a").unwrap();
            put(&db, "b").unwrap();
            db.flush_opt(&FlushOptions::default()).unwrap();
            let db = db.clone();
            readers.push(thread::spawn("reader", move || {
                let mut iter = db.cursor_opt(&ReadOptions::default()).unwrap();
                iter.seek_to_first();
                thread::sleep(Duration::from_micros(sim::random_below(3000)));
                for _ in 0..20 * round {
                    assert!(db.get_opt(&ReadOptions::default(), b"a").unwrap().is_some());
                }
                assert!(iter.valid());
            }));
        }
        db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
        readers.into_iter().for_each(|reader| reader.join().unwrap());
        db.wait_for_compact(&WaitForCompactOptions::default()).unwrap();
        thread::sleep(Duration::from_secs(1));
        assert_eq!(tables(fs), db.live_files_metadata().len(), "nothing else asks for it");
    });
}

#[test]
fn a_database_on_a_dead_disk_leaves_the_threads_to_others() {
    simulate(|fs| {
        let failing = MemFs::new(2);
        let sick = sick_database(&failing);
        thread::sleep(Duration::from_secs(20));
        assert!(failing.fault_log().len() > 5, "{:?}", failing.fault_log());
        let db = Db::open(&options(fs), "/db").unwrap();
        for round in 0..8 {
            put(&db, "a").unwrap();
            db.flush_opt(&FlushOptions::default()).unwrap();
            let start = time::now_nanos();
            db.wait_for_compact(&WaitForCompactOptions::default()).unwrap();
            let waited = time::now_nanos() - start;
            assert!(waited < SECOND / 2, "round {round}: {waited} ns");
        }
        // The disk works again, and due compactions run by themselves.
        failing.clear_faults();
        let start = time::now_nanos();
        while tables(&failing) > 1 {
            thread::sleep(Duration::from_millis(10));
            assert!(time::now_nanos() - start < 5 * SECOND, "{} tables", tables(&failing));
        }
        let start = time::now_nanos();
        sick.close().unwrap();
        assert!(time::now_nanos() - start < SECOND);
    });
}

#[test]
fn a_close_ends_the_wait_for_a_retry() {
    simulate(|fs| {
        let db = sick_database(fs);
        thread::sleep(Duration::from_secs(10));
        let start = time::now_nanos();
        drop(db.close());
        assert!(time::now_nanos() - start < SECOND);
    });
}

#[test]
fn every_close_returns_when_the_database_is_closed() {
    simulate(|fs| {
        let db = Db::open(&options(fs), "/db").unwrap();
        put(&db, "a").unwrap();
        fs.add_fault(FaultRule::once(FaultOp::Close, "*", 0, Fault::Stall(5 * SECOND)));
        let first = {
            let db = db.clone();
            thread::spawn("closer", move || db.close())
        };
        thread::sleep(Duration::from_micros(sim::random_below(2000)));
        db.close().unwrap();
        let again = Db::open(&options(fs), "/db").unwrap();
        assert!(again.get_opt(&ReadOptions::default(), b"a").unwrap().is_some());
        first.join().unwrap().unwrap();
    });
}

const UNLOGGED: WriteOptions = WriteOptions {
    rate_limiter_priority: None,
    protection_bytes_per_key: 0,
    sync: false,
    disable_wal: true,
    no_slowdown: false,
    low_pri: false,
    ignore_missing_column_families: false,
};

#[test]
fn the_last_handle_saves_what_is_in_no_log_though_work_is_paused() {
    simulate(|fs| {
        let db = Db::open(&options(fs), "/db").unwrap();
        db.put_opt(&UNLOGGED, b"a", b"value").unwrap();
        db.pause_background_work();
        db.put_opt(&UNLOGGED, b"b", b"value").unwrap();
        drop(db);
        let db = Db::open(&options(fs), "/db").unwrap();
        for key in [b"a", b"b"] {
            assert!(db.get_opt(&ReadOptions::default(), key).unwrap().is_some());
        }
        db.close().unwrap();
    });
}

/// A writer that waits for paused work keeps the leadership that saving needs.
#[test]
fn a_close_ends_the_stalls_of_paused_work() {
    for l0 in [false, true] {
        simulate(|fs| {
            let mut options = options(fs);
            options.cf.level0_file_num_compaction_trigger = 2;
            options.cf.level0_slowdown_writes_trigger = if l0 { 2 } else { 20 };
            options.cf.level0_stop_writes_trigger = if l0 { 2 } else { 36 };
            options.cf.max_write_buffer_number = 2;
            let db = Db::open(&options, "/db").unwrap();
            db.set_options(&[("disable_auto_compactions", "true")]).unwrap();
            let no_wait =
                FlushOptions { wait: !l0, allow_write_stall: true, ..FlushOptions::default() };
            for round in 0..2 {
                db.put_opt(&UNLOGGED, b"a", b"value").unwrap();
                if l0 {
                    db.flush_opt(&FlushOptions { wait: true, ..no_wait }).unwrap();
                } else if round == 0 {
                    db.pause_background_work();
                }
                if !l0 {
                    db.flush_opt(&FlushOptions { wait: false, ..no_wait }).unwrap();
                }
            }
            if l0 {
                db.put_opt(&UNLOGGED, b"b", b"value").unwrap();
                db.pause_background_work();
                let on = [("disable_auto_compactions", "false")];
                db.set_options(&on).unwrap();
            }
            let writer = {
                let db = db.clone();
                thread::spawn("writer", move || db.put_opt(&UNLOGGED, b"c", b"value"))
            };
            thread::sleep(Duration::from_secs(3));
            let start = time::now_nanos();
            db.close().unwrap();
            assert!(time::now_nanos() - start < 2 * SECOND);
            let error = writer.join().unwrap().unwrap_err();
            assert!(error.to_string().contains("closing"), "{error}");
            drop(db);
            let db = Db::open(&options, "/db").unwrap();
            assert!(db.get_opt(&ReadOptions::default(), b"a").unwrap().is_some());
            assert_eq!(db.get_opt(&ReadOptions::default(), b"b").unwrap().is_some(), l0);
            assert!(db.get_opt(&ReadOptions::default(), b"c").unwrap().is_none());
            db.close().unwrap();
        });
    }
}

/// While all compactions are aborted, a writer at the stop and a call that waits for compactions
/// wait until they resume, or until a close.
#[test]
fn stalls_of_aborted_compactions_end_with_a_resumption_or_a_close() {
    for resumes in [true, false] {
        simulate(|fs| {
            let mut options = options(fs);
            options.cf.level0_slowdown_writes_trigger = 2;
            options.cf.level0_stop_writes_trigger = 2;
            let db = Db::open(&options, "/db").unwrap();
            db.abort_all_compactions();
            for _ in 0..2 {
                put(&db, "a").unwrap();
                db.flush_opt(&FlushOptions::default()).unwrap();
            }
            let ended = Arc::new(AtomicUsize::new(0));
            let wait = |name, call: fn(&Db) -> pumice::Result<()>| {
                let (db, ended) = (db.clone(), Arc::clone(&ended));
                thread::spawn(name, move || {
                    let done = call(&db);
                    ended.fetch_add(1, Ordering::SeqCst);
                    done
                })
            };
            let writer = wait("writer", |db| put(db, "b"));
            let waiter =
                wait("waiter", |db| db.wait_for_compact(&WaitForCompactOptions::default()));
            thread::sleep(Duration::from_secs(60));
            assert_eq!(ended.load(Ordering::SeqCst), 0, "they wait");
            let no_wait = WriteOptions { no_slowdown: true, ..WriteOptions::default() };
            let refused = db.put_opt(&no_wait, b"c", b"value").unwrap_err();
            assert!(refused.to_string().contains("Write stall"), "{refused}");
            let start = time::now_nanos();
            match resumes {
                true => db.resume_all_compactions(),
                false => db.close().unwrap(),
            }
            for call in [writer, waiter] {
                let done = call.join().unwrap();
                let text = done.map_or_else(|error| error.to_string(), |()| String::new());
                assert!(if resumes { text.is_empty() } else { text.contains("closing") }, "{text}");
            }
            assert!(time::now_nanos() - start < 2 * SECOND);
            drop(db);
            let db = Db::open(&options, "/db").unwrap();
            let value = db.get_opt(&ReadOptions::default(), b"b").unwrap();
            assert_eq!(value.is_some(), resumes);
            db.close().unwrap();
        });
    }
}

/// A call that compacts may wait to flush first. An abort ends it there, too: it is no request yet.
#[test]
fn an_abort_ends_a_compaction_that_waits_to_flush() {
    simulate(|fs| {
        let mut options = options(fs);
        options.cf.max_write_buffer_number = 2;
        let db = Db::open(&options, "/db").unwrap();
        db.pause_background_work();
        put(&db, "a").unwrap();
        let no_wait =
            FlushOptions { wait: false, allow_write_stall: true, ..FlushOptions::default() };
        db.flush_opt(&no_wait).unwrap();
        put(&db, "a").unwrap();
        let ended = Arc::new(AtomicUsize::new(0));
        let caller = {
            let (db, ended) = (db.clone(), Arc::clone(&ended));
            thread::spawn("caller", move || {
                let done = db.compact_range(&CompactRangeOptions::default(), None, None);
                ended.fetch_add(1, Ordering::SeqCst);
                done
            })
        };
        thread::sleep(Duration::from_secs(60));
        assert_eq!(ended.load(Ordering::SeqCst), 0, "it waits");
        db.abort_all_compactions();
        let error = caller.join().unwrap().unwrap_err();
        assert_eq!(error.subcode(), SubCode::CompactionAborted);
        db.resume_all_compactions();
        db.continue_background_work().unwrap();
        db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
        assert_eq!(db.live_files_metadata().len(), 1);
        db.close().unwrap();
    });
}

/// Writes acknowledged before the close are saved, later ones refused.
#[test]
fn unlogged_writes_beside_a_close_are_saved_or_refused() {
    simulate(|fs| {
        let db = Db::open(&options(fs), "/db").unwrap();
        let writers: Vec<_> = (0..3)
            .map(|writer| {
                let db = db.clone();
                let write = move |n: u64| db.put_opt(&UNLOGGED, &[writer, n as u8], b"value");
                thread::spawn("writer", move || (0..200).take_while(|n| write(*n).is_ok()).count())
            })
            .collect();
        thread::sleep(Duration::from_micros(sim::random_below(100)));
        db.close().unwrap();
        let written: Vec<_> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
        drop(db);
        let db = Db::open(&options(fs), "/db").unwrap();
        for (writer, count) in written.into_iter().enumerate() {
            for n in 0..count {
                let key = [writer as u8, n as u8];
                assert!(db.get_opt(&ReadOptions::default(), &key).unwrap().is_some(), "{key:?}");
            }
        }
        db.close().unwrap();
    });
}

/// While a failed log is being replaced, the MANIFEST lacks the flushed data, and the log has
/// refused writes: a copy of both would be a state that never existed.
#[test]
fn a_checkpoint_beside_a_resume_is_whole_or_refused() {
    use pumice::{ColumnFamilyDescriptor, WriteBatch};
    simulate(|fs| {
        let options = options(fs);
        let db = Db::open(&options, "/db").unwrap();
        let other = db.create_column_family(&options.cf, "other").unwrap();
        let both = |key: &[u8], sync| {
            let mut batch = WriteBatch::new();
            batch.put(key, b"value");
            batch.put_cf(other.id(), key, b"value");
            db.write_opt(&WriteOptions { sync, ..WriteOptions::default() }, &mut batch)
        };
        both(b"kept", false).unwrap();
        let lost = Fault::Fsync(FsyncFailure::ReadableThenLost);
        fs.add_fault(FaultRule::once(FaultOp::Sync, "*.log", 0, lost));
        fs.add_fault(FaultRule::always(FaultOp::Sync, "*.sst", Fault::Stall(SECOND / 100)));
        let copier = {
            let db = db.clone();
            thread::spawn("copier", move || {
                let mut copies = Vec::new();
                for n in 0..60 {
                    let path = format!("/copy{n}");
                    if db.checkpoint(&path).is_ok() {
                        copies.push(path);
                    }
                    thread::sleep(Duration::from_micros(sim::random_below(2000)));
                }
                copies
            })
        };
        thread::sleep(Duration::from_millis(sim::random_below(20)));
        let refused = both(b"refused", true).is_err();
        // A copy that synced the log may have hit the fault.
        let from = time::now_nanos();
        while db.resume().is_err() {
            thread::sleep(Duration::from_millis(1));
        }
        let resumed = time::now_nanos() - from;
        both(b"later", true).unwrap();
        let copies = copier.join().unwrap();
        assert!(!copies.is_empty(), "resumed in {resumed} ns, and no copy succeeds");
        let families =
            ["default", "other"].map(|name| ColumnFamilyDescriptor::new(name, options.cf.clone()));
        for path in copies {
            let (copy, handles) = Db::open_cf(&options.db, &path, &families).unwrap();
            let has = |key: &[u8]| {
                let held =
                    |cf| copy.get_cf_opt(&ReadOptions::default(), cf, key).unwrap().is_some();
                assert_eq!(held(&handles[0]), held(&handles[1]), "half a batch in {path}");
                held(&handles[0])
            };
            assert!(has(b"kept"), "{path}");
            assert!(!(refused && has(b"refused")), "{path}: the database never had it");
            has(b"later");
            copy.close().unwrap();
        }
        db.close().unwrap();
    });
}

#[test]
fn writers_go_on_while_the_log_is_synced() {
    simulate(|fs| {
        let db = Db::open(&options(fs), "/db").unwrap();
        put(&db, "a").unwrap();
        fs.add_fault(FaultRule::once(FaultOp::Sync, "*.log", 0, Fault::Stall(5 * SECOND)));
        let start = time::now_nanos();
        let syncing = {
            let db = db.clone();
            thread::spawn("sync", move || db.flush_wal(true))
        };
        thread::sleep(Duration::from_millis(100));
        put(&db, "b").unwrap();
        assert!(time::now_nanos() - start < SECOND, "waited for the sync of others");
        // Another sync must not report this one's success as its own.
        db.put_opt(&SYNC, b"c", b"value").unwrap();
        assert!(time::now_nanos() - start >= 5 * SECOND, "two syncs at a time");
        syncing.join().unwrap().unwrap();
    });
}

#[test]
fn a_failed_sync_of_the_log_stops_all_that_follows() {
    simulate(|fs| {
        let mut options = options(fs);
        options.db.max_bgerror_resume_count = 0;
        let db = Db::open(&options, "/db").unwrap();
        put(&db, "a").unwrap();
        let lost = Fault::Fsync(FsyncFailure::ReadableThenLost);
        fs.add_fault(FaultRule::once(FaultOp::Sync, "*.log", 0, lost));
        let writing = {
            let db = db.clone();
            thread::spawn("writer", move || (0..50).take_while(|_| put(&db, "b").is_ok()).count())
        };
        let flushing = {
            let db = db.clone();
            thread::spawn("sealer", move || db.flush_opt(&FlushOptions::default()))
        };
        let synced = db.flush_wal(true);
        let accepted = writing.join().unwrap();
        let flushed = flushing.join().unwrap();
        // The caller of the one failed sync got the error.
        assert!(synced.is_err() || flushed.is_err());
        if synced.is_err() {
            put(&db, "c").unwrap_err();
            db.put_opt(&SYNC, b"c", b"value").unwrap_err();
        }
        db.resume().unwrap();
        db.put_opt(&SYNC, b"d", b"value").unwrap();
        let after = fs.cut_power(1, pumice_env::mem::CrashMode::UNSYNCED);
        drop(db);
        options.db.file_system = after.shared();
        let db = Db::open(&options, "/db").unwrap();
        let has =
            |key: &str| db.get_opt(&ReadOptions::default(), key.as_bytes()).unwrap().is_some();
        assert!(has("a") && has("d"));
        assert!(has("b") || accepted == 0);
        assert!(!has("c"));
    });
}

/// A job finds nothing to do and ends while new work arrives: another job picks it up.
#[test]
fn compactions_are_not_forgotten_when_a_job_ends() {
    for seed in 0..SEEDS {
        let schedule = sim::Options { preempt_per_mille: 300, ..sim::Options::new(seed) };
        let (report, outcome) = sim::run(&schedule, || {
            let mut options = options(&MemFs::new(seed));
            // FIFO merges want many files at once, and mostly cannot have them.
            options.cf.compaction_style = CompactionStyle::Fifo;
            options.cf.compaction_options_fifo =
                FifoOptions { allow_compaction: true, ..FifoOptions::default() };
            options.cf.level0_file_num_compaction_trigger = 1;
            let db = Db::open(&options, "/db").unwrap();
            for n in 0..3 {
                put(&db, &format!("{n}")).unwrap();
                db.flush_opt(&FlushOptions::default()).unwrap();
            }
            let ask = || {
                let changes = [("level0_file_num_compaction_trigger", "1")];
                for _ in 0..20 {
                    db.set_options(&changes).unwrap();
                    let (timeout_micros, other) = (100_000_000, WaitForCompactOptions::default());
                    let patient = WaitForCompactOptions { timeout_micros, ..other };
                    db.wait_for_compact(&patient).unwrap();
                }
            };
            thread::scope(|scope| {
                let other = scope.spawn(ask);
                ask();
                other.join().unwrap();
            });
            db.close().unwrap();
        });
        assert!(outcome.is_ok() && report.stuck.is_none(), "seed {seed}: {outcome:?}");
    }
}

/// An open that fails after its recovery leaves nothing running that holds the directory.
#[test]
fn a_failed_open_lets_go_of_the_directory() {
    simulate(|fs| {
        let mut options = options(fs);
        options.cf.ttl = 3600;
        let db = Db::open(&options, "/db").unwrap();
        for n in 0..3 {
            put(&db, &format!("{n}")).unwrap();
            db.flush_opt(&FlushOptions::default()).unwrap();
        }
        put(&db, "unflushed").unwrap();
        db.close().unwrap();
        drop(db);
        fs.add_fault(FaultRule::always(FaultOp::Create, "*OPTIONS*", Fault::Eio));
        let failed = Db::open(&options, "/db").err().unwrap();
        assert_eq!(failed.kind(), pumice::ErrorKind::IoError, "{failed}");
        fs.clear_faults();
        let db = Db::open(&options, "/db").unwrap();
        db.close().unwrap();
    });
}

/// A sealed memtable waits for others to be merged with; then the limit that says how many may wait
/// becomes lower. Neither a flush nor a writer waits for what nobody does.
// Plain #[test]: a simulation is a runtime of its own.
#[test]
fn a_lower_limit_of_memtables_leaves_nobody_waiting() {
    simulate(|fs| {
        let mut options = options(fs);
        options.cf.write_buffer_size = 64 << 10;
        options.cf.max_write_buffer_number = 6;
        options.cf.min_write_buffer_number_to_merge = 2;
        let db = Db::open(&options, "/db").unwrap();
        db.put(b"large", vec![b'v'; 100 << 10]).unwrap();
        put(&db, "a").unwrap();
        assert_eq!(db.property_int("rocksdb.num-immutable-mem-table"), Some(1));
        db.set_options(&[("max_write_buffer_number", "2")]).unwrap();
        put(&db, "b").unwrap();
        db.flush_opt(&FlushOptions::default()).unwrap();
        assert_eq!(db.property_int("rocksdb.num-entries-active-mem-table"), Some(0));
        db.close().unwrap();
    });
}

/// Options change while a writer waits in a stall, and end it, with no background work at all.
// Plain #[test]: a simulation is a runtime of its own.
#[test]
fn options_end_the_stall_that_they_are_the_reason_for() {
    simulate(|fs| {
        let mut options = options(fs);
        options.cf.write_buffer_size = 64 << 10;
        let db = Db::open(&options, "/db").unwrap();
        db.pause_background_work();
        db.put(b"large", vec![b'v'; 100 << 10]).unwrap();
        db.put(b"large", vec![b'v'; 100 << 10]).unwrap();
        thread::scope(|scope| {
            let writer = scope.spawn(|| put(&db, "a").unwrap());
            thread::sleep(Duration::from_secs(1));
            assert!(!writer.is_finished(), "two memtables are full");
            db.set_options(&[("max_write_buffer_number", "4")]).unwrap();
            writer.join().unwrap();
        });
        db.continue_background_work().unwrap();
        db.close().unwrap();
    });
}
