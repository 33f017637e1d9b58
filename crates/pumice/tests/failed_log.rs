//! A log that has failed is left behind by a resume alone, and until that is over nothing is
//! promised that the new log does not hold.
//!
//! Plain #[test] where a simulation is the runtime.
#![allow(clippy::unwrap_used)]

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use pumice::stats::listener::BackgroundErrorReason;
use pumice::{
    ColumnFamily, ColumnFamilyOptions, Db, EventListener, FlushOptions, MemFs, Options,
    ReadOptions, WriteOptions,
};
use pumice_base::Error;
use pumice_env::mem::{CrashMode, Fault, FaultOp, FaultRule};
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

/// Flushes a family as soon as an error is told of, which is before the error stops writes.
#[derive(Default)]
struct FlushesAtOnce {
    of: OnceLock<(Arc<Db>, ColumnFamily)>,
    done: OnceLock<bool>,
}

impl EventListener for FlushesAtOnce {
    fn on_background_error(&self, _: BackgroundErrorReason, _: &Error) {
        let Some((db, other)) = self.of.get() else { return };
        let (db, other) = (Arc::clone(db), other.clone());
        let flush = move || db.flush_cfs(&FlushOptions::default(), &[&other]).is_ok();
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
    db.put(&WriteOptions::default(), b"a", b"1").unwrap();
    db.put_cf(&WriteOptions::default(), &other, b"b", b"1").unwrap();
    assert!(listener.of.set((Arc::clone(&db), other)).is_ok());
    fs.add_fault(FaultRule::once(FaultOp::Write, "*.log", 0, Fault::Eio));
    db.flush_wal(false).unwrap_err();
    assert!(listener.done.get().is_some(), "the error was told of");
    // Either this fails as well, or what was acknowledged survives.
    let promised = db.flush_wal(true).is_ok();
    let copy = fs.crashed_copy(1, CrashMode::UNSYNCED);
    let mut again = self::options(&copy);
    again.db.listeners.clear();
    let (reopened, _) = open(&again);
    let found = reopened.get(&ReadOptions::default(), b"a").unwrap();
    assert!(!promised || found.is_some(), "promised, and gone");
    assert!(!promised, "the log has failed, and nobody resumed");
    db.resume().unwrap();
    db.flush_wal(true).unwrap();
}

#[test]
fn a_log_flush_promises_nothing_while_a_failed_log_is_being_left() {
    let (report, outcome) = sim::run(&sim::Options::new(1), || {
        let fs = MemFs::new(1);
        let (db, _) = open(&options(&fs));
        let db = Arc::new(db);
        db.put(&WriteOptions::default(), b"a", b"1").unwrap();
        fs.add_fault(FaultRule::once(FaultOp::Write, "*.log", 0, Fault::Eio));
        db.flush_wal(false).unwrap_err();
        // The resume is at the table that is to hold what the log lost.
        let stall = Fault::Stall(Duration::from_secs(1).as_nanos() as u64);
        fs.add_fault(FaultRule::once(FaultOp::Create, "*.sst", 0, stall));
        let resuming = Arc::clone(&db);
        let resume = thread::spawn("resume", move || resuming.resume());
        thread::sleep(Duration::from_millis(500));
        for sync in [false, true] {
            let flushed = db.flush_wal(sync);
            let copy = fs.crashed_copy(1, CrashMode::PROCESS);
            let (reopened, _) = open(&options(&copy));
            let found = reopened.get(&ReadOptions::default(), b"a").unwrap();
            assert!(found.is_none(), "the test comes too late");
            assert!(flushed.is_err(), "promised with sync {sync}, and gone");
        }
        resume.join().unwrap().unwrap();
        db.flush_wal(false).unwrap();
        let copy = fs.crashed_copy(1, CrashMode::PROCESS);
        let (reopened, _) = open(&options(&copy));
        assert!(reopened.get(&ReadOptions::default(), b"a").unwrap().is_some());
    });
    assert!(outcome.is_ok() && report.stuck.is_none(), "{outcome:?}");
}

/// What was acknowledged before its log failed survives a close that comes while that log is being
/// left: the close waits for it, or says that it could not be done.
#[test]
fn a_close_does_not_lose_what_a_failed_log_should_have_held() {
    for manifest_fails in [false, true] {
        let (report, outcome) = sim::run(&sim::Options::new(1), || {
            let fs = MemFs::new(1);
            let (db, _) = open(&options(&fs));
            let db = Arc::new(db);
            db.put(&WriteOptions::default(), b"a", b"1").unwrap();
            fs.add_fault(FaultRule::once(FaultOp::Write, "*.log", 0, Fault::Eio));
            db.flush_wal(false).unwrap_err();
            if manifest_fails {
                fs.add_fault(FaultRule::always(FaultOp::Create, "*MANIFEST-*", Fault::Eio));
            }
            let stall = Fault::Stall(Duration::from_secs(1).as_nanos() as u64);
            fs.add_fault(FaultRule::once(FaultOp::Create, "*.sst", 0, stall));
            let resuming = Arc::clone(&db);
            let resume = thread::spawn("resume", move || resuming.resume());
            thread::sleep(Duration::from_millis(500));
            let closed = db.close();
            assert_eq!(resume.join().unwrap().is_err(), manifest_fails);
            drop(db);
            fs.clear_faults();
            let (reopened, _) = open(&options(&fs));
            let found = reopened.get(&ReadOptions::default(), b"a").unwrap();
            assert_eq!(found.is_none(), manifest_fails, "not what the test is about");
            assert_eq!(closed.is_err(), manifest_fails, "{closed:?}");
        });
        assert!(outcome.is_ok() && report.stuck.is_none(), "{outcome:?}");
    }
}
