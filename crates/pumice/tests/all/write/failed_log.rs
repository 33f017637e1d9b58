//! Only a resume replaces a failed log, and until it is done nothing is acknowledged as durable
//! that the new log does not hold.
//!
//! Plain #[test] where a simulation is the runtime.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use pumice::stats::listener::BackgroundErrorReason;
use pumice::{
    ColumnFamily, ColumnFamilyOptions, CompactRangeOptions, Db, EventListener, FlushOptions, MemFs,
    Options, ReadOptions, WriteBatch, WriteOptions,
};
use pumice_base::Error;
use pumice_env::mem::{CrashMode, Fault, FaultOp, FaultRule};
use pumice_port::sync::Mutex;
use pumice_port::{sim, thread};

const DIR: &str = "/db";

fn options(fs: &MemFs) -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.create_missing_column_families = true;
    options.db.file_system = fs.shared();
    options.db.manual_wal_flush = true;
    options
}

fn open(options: &Options) -> (Db, ColumnFamily) {
    let family = ColumnFamilyOptions::default();
    let all =
        ["default", "other"].map(|name| pumice::ColumnFamilyDescriptor::new(name, family.clone()));
    let (db, handles) = Db::open_cf(&options.db, DIR, &all).unwrap();
    (db, handles[1].clone())
}

/// Flushes a family as soon as an error is reported, which is before the error stops writes.
#[derive(Default)]
struct FlushesAtOnce {
    of: OnceLock<(Arc<Db>, ColumnFamily)>,
    done: OnceLock<bool>,
}

impl EventListener for FlushesAtOnce {
    fn on_background_error(&self, _: BackgroundErrorReason, _: &Error) {
        let Some((db, other)) = self.of.get() else { return };
        let (db, other) = (Arc::clone(db), other.clone());
        let flush = move || db.flush_cfs_opt(&FlushOptions::default(), &[&other]).is_ok();
        let done = thread::spawn("flush", flush).join().unwrap();
        self.done.get_or_init(|| done);
    }
}

#[pumice_test_macros::test]
fn a_flush_of_one_family_does_not_forget_that_the_log_failed() {
    let fs = MemFs::new(1);
    let mut options = options(&fs);
    let listener = Arc::new(FlushesAtOnce::default());
    options.db.listeners.push(Arc::clone(&listener) as Arc<dyn EventListener>);
    let (db, other) = open(&options);
    let db = Arc::new(db);
    db.put_opt(&WriteOptions::default(), b"a", b"1").unwrap();
    db.put_cf_opt(&WriteOptions::default(), &other, b"b", b"1").unwrap();
    assert!(listener.of.set((Arc::clone(&db), other)).is_ok());
    fs.add_fault(FaultRule::once(FaultOp::Write, "*.log", 0, Fault::Eio));
    db.flush_wal(false).unwrap_err();
    assert!(listener.done.get().is_some(), "the error was reported");
    // Either this fails as well, or acknowledged data survives.
    let promised = db.flush_wal(true).is_ok();
    let copy = fs.crashed_copy(1, CrashMode::UNSYNCED);
    let mut again = self::options(&copy);
    again.db.listeners.clear();
    let (reopened, _) = open(&again);
    let found = reopened.get_opt(&ReadOptions::default(), b"a").unwrap();
    assert!(!promised || found.is_some(), "promised, and gone");
    assert!(!promised, "the log has failed, and nothing resumed it");
    db.resume().unwrap();
    db.flush_wal(true).unwrap();
}

#[test]
fn a_log_flush_promises_nothing_while_a_failed_log_is_being_left() {
    let (report, outcome) = sim::run(&sim::Options::new(1), || {
        let fs = MemFs::new(1);
        let (db, _) = open(&options(&fs));
        let db = Arc::new(db);
        db.put_opt(&WriteOptions::default(), b"a", b"1").unwrap();
        fs.add_fault(FaultRule::once(FaultOp::Write, "*.log", 0, Fault::Eio));
        db.flush_wal(false).unwrap_err();
        // The resume is writing the table that is to hold the data lost with the log.
        let stall = Fault::Stall(Duration::from_secs(1).as_nanos() as u64);
        fs.add_fault(FaultRule::once(FaultOp::Create, "*.sst", 0, stall));
        let resuming = Arc::clone(&db);
        let resume = thread::spawn("resume", move || resuming.resume());
        thread::sleep(Duration::from_millis(500));
        for sync in [false, true] {
            let flushed = db.flush_wal(sync);
            let copy = fs.crashed_copy(1, CrashMode::PROCESS);
            let (reopened, _) = open(&options(&copy));
            let found = reopened.get_opt(&ReadOptions::default(), b"a").unwrap();
            assert!(found.is_none(), "the test comes too late");
            assert!(flushed.is_err(), "promised with sync {sync}, and gone");
        }
        resume.join().unwrap().unwrap();
        db.flush_wal(false).unwrap();
        let copy = fs.crashed_copy(1, CrashMode::PROCESS);
        let (reopened, _) = open(&options(&copy));
        assert!(reopened.get_opt(&ReadOptions::default(), b"a").unwrap().is_some());
    });
    assert!(outcome.is_ok() && report.stuck.is_none(), "{outcome:?}");
}

#[test]
fn no_files_are_deleted_for_good_while_a_failed_log_is_being_left() {
    let (report, outcome) = sim::run(&sim::Options::new(1), || {
        let fs = MemFs::new(1);
        let (db, _) = open(&options(&fs));
        let db = Arc::new(db);
        let cf = db.default_column_family();
        let is_in =
            |db: &Db, key: &[u8]| db.get_opt(&ReadOptions::default(), key).unwrap().is_some();
        let after_a_crash = || open(&options(&fs.crashed_copy(1, CrashMode::UNSYNCED))).0;
        db.put_opt(&WriteOptions::default(), b"a", b"1").unwrap();
        let down =
            CompactRangeOptions { change_level: true, target_level: 3, ..Default::default() };
        db.compact_range(&down, None, None).unwrap();
        db.put_opt(&WriteOptions::default(), b"b", b"1").unwrap();
        fs.add_fault(FaultRule::once(FaultOp::Write, "*.log", 0, Fault::Eio));
        db.flush_wal(false).unwrap_err();
        let stall = Fault::Stall(Duration::from_secs(1).as_nanos() as u64);
        fs.add_fault(FaultRule::once(FaultOp::Create, "*.sst", 0, stall));
        let resuming = Arc::clone(&db);
        let resume = thread::spawn("resume", move || resuming.resume());
        thread::sleep(Duration::from_millis(500));
        let error = db.delete_files_in_ranges_cf(cf, &[(None, None)], true).unwrap_err();
        assert!(error.to_string().contains("recovering from a failed log"), "{error}");
        assert!(!resume.is_finished() && is_in(&db, b"a") && is_in(&after_a_crash(), b"a"));
        resume.join().unwrap().unwrap();
        db.delete_files_in_ranges_cf(cf, &[(None, None)], true).unwrap();
        for db in [&db, &after_a_crash()] {
            assert!(!is_in(db, b"a") && is_in(db, b"b"));
        }
    });
    assert!(outcome.is_ok() && report.stuck.is_none(), "{outcome:?}");
}

/// Writes acknowledged before their log failed survive a close during its replacement: the close
/// waits for that, or returns an error. Paused background work, which the recovery waits for,
/// continues as far as needed for that.
#[test]
fn a_close_does_not_lose_what_a_failed_log_should_have_held() {
    for (manifest_fails, paused) in [(false, false), (true, false), (false, true), (true, true)] {
        let (report, outcome) = sim::run(&sim::Options::new(1), || {
            let fs = MemFs::new(1);
            let (db, _) = open(&options(&fs));
            let db = Arc::new(db);
            db.put_opt(&WriteOptions::default(), b"a", b"1").unwrap();
            fs.add_fault(FaultRule::once(FaultOp::Write, "*.log", 0, Fault::Eio));
            db.flush_wal(false).unwrap_err();
            if manifest_fails {
                fs.add_fault(FaultRule::always(FaultOp::Create, "*MANIFEST-*", Fault::Eio));
            }
            let stall = Fault::Stall(Duration::from_secs(1).as_nanos() as u64);
            fs.add_fault(FaultRule::once(FaultOp::Create, "*.sst", 0, stall));
            if paused {
                db.pause_background_work();
            }
            let resuming = Arc::clone(&db);
            let resume = thread::spawn("resume", move || resuming.resume());
            thread::sleep(Duration::from_millis(500));
            let closed = db.close();
            assert_eq!(resume.join().unwrap().is_err(), manifest_fails);
            drop(db);
            fs.clear_faults();
            let (reopened, _) = open(&options(&fs));
            let found = reopened.get_opt(&ReadOptions::default(), b"a").unwrap();
            assert_eq!(found.is_none(), manifest_fails, "not what the test is about");
            assert_eq!(closed.is_err(), manifest_fails, "{closed:?}");
        });
        assert!(outcome.is_ok() && report.stuck.is_none(), "{outcome:?}");
    }
}

/// The MANIFEST that ends a recovery cannot be created, and another job changes the tree
/// afterwards: that change, once durable, must not cause a refused batch to be replayed in part.
#[test]
fn a_change_after_a_failed_recovery_makes_no_half_of_a_refused_batch_durable() {
    let (report, outcome) = sim::run(&sim::Options::new(1), || {
        let fs = MemFs::new(1);
        let mut options = options(&fs);
        options.db.manual_wal_flush = false;
        options.db.max_bgerror_resume_count = 0;
        let (db, other) = open(&options);
        let db = Arc::new(db);
        let third = db.create_column_family(&ColumnFamilyOptions::default(), "third").unwrap();
        let compacted = third.clone();
        let put = |cf: &ColumnFamily| {
            db.put_cf_opt(&WriteOptions::default(), cf, b"a", b"1").unwrap();
        };
        let flush = |cf: &ColumnFamily| db.flush_cfs_opt(&FlushOptions::default(), &[cf]).unwrap();
        put(&third);
        flush(&third);
        put(&third);
        flush(&third);
        put(&other);
        put(db.default_column_family());
        let stall = |seconds| {
            let stall = Fault::Stall(Duration::from_secs(seconds).as_nanos() as u64);
            fs.add_fault(FaultRule::once(FaultOp::Create, "*.sst", 0, stall));
        };
        stall(20);
        let compacting = Arc::clone(&db);
        let compaction = thread::spawn("compact", move || {
            compacting.compact_range_cf(&Default::default(), &compacted, None, None)
        });
        thread::sleep(Duration::from_secs(1));
        // The flush of this family makes the log that is going to fail its first log; the other
        // family needs an older one.
        stall(5);
        let at_once =
            FlushOptions { wait: false, allow_write_stall: true, ..FlushOptions::default() };
        db.flush_cfs_opt(&at_once, &[db.default_column_family()]).unwrap();
        thread::sleep(Duration::from_secs(1));
        let mut batch = WriteBatch::new();
        batch.put_cf(0, b"refused", b"1");
        batch.put_cf(other.id(), b"refused", b"1");
        fs.add_fault(FaultRule::once(FaultOp::Sync, "*.log", 0, Fault::Eio));
        let sync = WriteOptions { sync: true, ..WriteOptions::default() };
        db.write_opt(&sync, &mut batch).unwrap_err();
        fs.add_fault(FaultRule::once(FaultOp::Create, "*MANIFEST-*", 0, Fault::Eio));
        db.resume().unwrap_err();
        assert!(!compaction.is_finished(), "the test comes too late");
        drop(compaction.join().unwrap());
        let copy = fs.crashed_copy(1, CrashMode::PROCESS);
        let mut again = self::options(&copy);
        again.db.manual_wal_flush = false;
        let all = ["default", "other", "third"]
            .map(|name| pumice::ColumnFamilyDescriptor::new(name, ColumnFamilyOptions::default()));
        let (reopened, cfs) = Db::open_cf(&again.db, DIR, &all).unwrap();
        let found = |cf, key: &[u8]| {
            reopened.get_cf_opt(&ReadOptions::default(), cf, key).unwrap().is_some()
        };
        assert!(cfs.iter().all(|cf| found(cf, b"a")));
        assert_eq!(found(&cfs[0], b"refused"), found(&cfs[1], b"refused"), "half of the batch");
        db.resume().unwrap();
        db.write_opt(&sync, &mut batch).unwrap();
    });
    assert!(outcome.is_ok() && report.stuck.is_none(), "{outcome:?}");
}

/// A listener whose first call takes long.
#[derive(Default)]
struct SlowToTell(AtomicBool);

impl EventListener for SlowToTell {
    fn on_background_error(&self, _: BackgroundErrorReason, _: &Error) {
        if !self.0.swap(true, Ordering::Relaxed) {
            thread::sleep(Duration::from_secs(5));
        }
    }
}

/// Two tasks find that the log has failed, and the recovery that one of them requests ends before
/// the other reports: that log is no longer in use.
#[test]
fn an_error_told_of_too_late_stops_nobody() {
    let (report, outcome) = sim::run(&sim::Options::new(1), || {
        let fs = MemFs::new(1);
        let mut options = options(&fs);
        options.db.listeners.push(Arc::new(SlowToTell::default()));
        let (db, _) = open(&options);
        let db = Arc::new(db);
        db.put_opt(&WriteOptions::default(), b"a", b"1").unwrap();
        fs.add_fault(FaultRule::once(FaultOp::Write, "*.log", 0, Fault::Eio));
        let late = Arc::clone(&db);
        let late = thread::spawn("late", move || late.flush_wal(false));
        thread::sleep(Duration::from_secs(1));
        db.flush_wal(false).unwrap_err();
        db.resume().unwrap();
        db.put_opt(&WriteOptions::default(), b"b", b"2").unwrap();
        late.join().unwrap().unwrap_err();
        db.put_opt(&WriteOptions::default(), b"c", b"3").unwrap();
        db.close().unwrap();
    });
    assert!(outcome.is_ok() && report.stuck.is_none(), "{outcome:?}");
}

/// Notes the errors that were cleared.
#[derive(Default)]
struct Recoveries(Mutex<Vec<String>>);

impl EventListener for Recoveries {
    fn on_error_recovery_completed(&self, old_error: &Error) {
        self.0.lock().push(old_error.to_string());
    }
}

#[pumice_test_macros::test]
fn a_listener_learns_of_a_recovery_and_its_error() {
    let fs = MemFs::new(1);
    let mut options = options(&fs);
    options.db.max_bgerror_resume_count = 0;
    let listener = Arc::new(Recoveries::default());
    options.db.listeners.push(Arc::clone(&listener) as Arc<dyn EventListener>);
    let (db, _) = open(&options);
    db.resume().unwrap();
    db.put_opt(&WriteOptions::default(), b"a", b"1").unwrap();
    fs.add_fault(FaultRule::once(FaultOp::Write, "*.log", 0, Fault::Eio));
    db.flush_wal(false).unwrap_err();
    fs.add_fault(FaultRule::once(FaultOp::Create, "*.sst", 0, Fault::Eio));
    db.resume().unwrap_err();
    assert!(listener.0.lock().is_empty(), "nothing has recovered");
    let error = db.background_error().unwrap().to_string();
    db.resume().unwrap();
    db.resume().unwrap();
    assert_eq!(*listener.0.lock(), [error]);
    assert!(db.background_error().is_none());
}

#[test]
fn a_listener_learns_of_an_automatic_recovery() {
    let (report, outcome) = sim::run(&sim::Options::new(1), || {
        let fs = MemFs::new(1);
        let mut options = options(&fs);
        let listener = Arc::new(Recoveries::default());
        options.db.listeners.push(Arc::clone(&listener) as Arc<dyn EventListener>);
        let (db, _) = open(&options);
        db.put_opt(&WriteOptions::default(), b"a", b"1").unwrap();
        fs.set_quota(Some(fs.used_bytes()));
        db.flush_wal(true).unwrap_err();
        let error = db.background_error().unwrap().to_string();
        fs.set_quota(None);
        // The first attempt comes after a second.
        thread::sleep(Duration::from_secs(30));
        assert_eq!(*listener.0.lock(), [error]);
        db.put_opt(&WriteOptions::default(), b"b", b"2").unwrap();
    });
    assert!(outcome.is_ok() && report.stuck.is_none(), "{outcome:?}");
}

/// Without a call a database recovers from a flush and from a change of the MANIFEST that failed.
#[test]
fn a_failed_log_alone_waits_for_a_call() {
    let (report, outcome) = sim::run(&sim::Options::new(1), || {
        for (op, files, by_itself) in [
            (FaultOp::Sync, "*.sst", true),
            (FaultOp::Sync, "*MANIFEST*", true),
            (FaultOp::Write, "*.log", false),
        ] {
            let fs = MemFs::new(1);
            let (db, _) = open(&options(&fs));
            let put = |key: &[u8]| db.put_opt(&WriteOptions::default(), key, b"value");
            put(b"a").unwrap();
            fs.add_fault(FaultRule::once(op, files, 0, Fault::Eio));
            match by_itself {
                true => db.flush_opt(&FlushOptions::default()),
                false => db.flush_wal(false),
            }
            .unwrap_err();
            put(b"b").unwrap_err();
            thread::sleep(Duration::from_secs(10));
            assert_eq!(put(b"b").is_ok(), by_itself, "{files}");
            db.resume().unwrap();
            put(b"c").unwrap();
            for key in [b"a", b"c"] {
                assert!(db.get_opt(&ReadOptions::default(), key).unwrap().is_some());
            }
            db.close().unwrap();
        }
    });
    assert!(outcome.is_ok() && report.stuck.is_none(), "{outcome:?}");
}
