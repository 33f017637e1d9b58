//! The real engine on a failing device: guarantees during the failure, and after.
//!
//! The database lives on `MemFs`, which fails on command. After each failure the test demands three
//! things: errors reach the caller, nothing acknowledged is lost, and the database becomes writable
//! again as documented (by itself, or by `resume`).

mod ddl;
mod every_io;
mod manifest;
mod space;
pub mod support;

use crate::common::SYNC;
use pumice::{CompactRangeOptions, Db, ErrorKind, FlushOptions, Severity};
use pumice_env::mem::{CrashMode, Fault, FaultOp, FaultRule, FsyncFailure};
use support::{DIR, Fixture, key};

use crate::common::eventually;

#[pumice_test_macros::test]
fn a_failed_log_stops_writes_until_resume() {
    let failures = [
        (FaultOp::Write, Fault::Eio),
        (FaultOp::Write, Fault::ShortWrite),
        (FaultOp::Sync, Fault::Eio),
        (FaultOp::Sync, Fault::Fsync(FsyncFailure::ReadableThenLost)),
        (FaultOp::Sync, Fault::Fsync(FsyncFailure::Durable)),
        (FaultOp::Sync, Fault::Fsync(FsyncFailure::OldData)),
    ];
    for (op, fault) in failures {
        // With and without data that the failed log shares its file with.
        for before in [0, 20] {
            let mut f = Fixture::new();
            for n in 0..before {
                f.put(&SYNC, n);
            }
            f.fs.add_fault(FaultRule::once(op, "*.log", 0, fault));
            let error = f.db().put_opt(&SYNC, &key(900), b"lost").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::IoError, "{op:?} {fault:?}");
            let again = f.db().put_opt(&SYNC, &key(901), b"lost").unwrap_err();
            assert_eq!(again.severity(), Severity::Hard, "{op:?} {fault:?}: {again}");
            f.check();
            f.db().resume().unwrap();
            for n in before..before + 20 {
                f.put(&SYNC, n);
            }
            f.check();
            f.may_have.insert((key(900), b"lost".to_vec()));
            f.reopen();
            f.put(&SYNC, 100);
            f.crash(7, CrashMode::UNSYNCED);
            f.check();
        }
    }
}

#[pumice_test_macros::test]
fn a_crash_after_resume_keeps_what_was_acknowledged() {
    for fault in [FsyncFailure::ReadableThenLost, FsyncFailure::Durable, FsyncFailure::OldData] {
        let mut f = Fixture::new();
        f.put(&SYNC, 1);
        f.fs.add_fault(FaultRule::once(FaultOp::Sync, "*.log", 0, Fault::Fsync(fault)));
        f.db().put_opt(&SYNC, &key(900), b"lost").unwrap_err();
        f.may_have.insert((key(900), b"lost".to_vec()));
        f.db().resume().unwrap();
        for n in 2..10 {
            f.put(&SYNC, n);
        }
        f.crash(3, CrashMode::UNSYNCED);
        f.check();
    }
}

#[pumice_test_macros::test]
fn a_table_that_cannot_be_written_is_rebuilt_under_a_new_number() {
    for op in [FaultOp::Create, FaultOp::Write, FaultOp::Sync, FaultOp::Close] {
        let mut f = Fixture::new();
        f.fill(0..50);
        f.fs.add_fault(FaultRule::once(op, "*.sst", 0, Fault::Eio));
        let error = f.db().flush_opt(&FlushOptions::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::IoError, "{op:?}");
        f.check();
        let failed = f.fs.fault_log().join("\n");
        eventually("the flush is repeated", || f.db().live_files_metadata().len() == 1);
        let number = f.db().live_files_metadata()[0].file_number;
        assert!(!failed.contains(&format!("{number:06}.sst")), "{failed} against {number}");
        eventually("writes work again", || f.db().put_opt(&SYNC, &key(900), b"x").is_ok());
        f.model.insert(key(900), b"x".to_vec());
        eventually("the failed file is gone", || f.tables_on_disk().len() == 1);
        f.reopen();
    }
}

#[pumice_test_macros::test]
fn a_failed_compaction_installs_nothing_and_is_repeated() {
    for op in [FaultOp::Read, FaultOp::Create, FaultOp::Write, FaultOp::Sync, FaultOp::Close] {
        let mut f = Fixture::new();
        for round in 0..3 {
            f.fill(round..round + 40);
            f.db().flush_opt(&FlushOptions::default()).unwrap();
        }
        // Without the check of `reopen`, which would fill the block cache.
        f.reopen_with(|_| ());
        let before = f.tables_on_disk();
        f.fs.add_fault(FaultRule::once(op, "*.sst", 0, Fault::Eio));
        let options = CompactRangeOptions::default();
        let error = f.db().compact_range(&options, None, None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::IoError, "{op:?}");
        let live: Vec<u64> = f.db().live_files_metadata().iter().map(|l| l.file_number).collect();
        assert_eq!(f.sorted(live), before, "{op:?}");
        f.check();
        f.put(&SYNC, 200);
        f.db().compact_range(&options, None, None).unwrap();
        f.check();
        f.reopen();
    }
}

#[pumice_test_macros::test]
fn a_failed_close_is_reported_and_loses_nothing() {
    for (op, glob) in [(FaultOp::Close, "*.log"), (FaultOp::Close, "*MANIFEST*")] {
        let mut f = Fixture::new();
        f.fill(0..30);
        f.fs.add_fault(FaultRule::once(op, glob, 0, Fault::Eio));
        assert_eq!(f.db().close().unwrap_err().kind(), ErrorKind::IoError, "{glob}");
        f.reopen();
        f.check();
    }
}

#[pumice_test_macros::test]
fn a_second_opener_is_refused_and_harms_nothing() {
    let mut f = Fixture::new();
    f.fill(0..30);
    let error = Db::open(&f.options(), DIR).map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::IoError);
    assert!(error.to_string().contains("lock"), "{error}");
    f.fill(30..60);
    f.check();
    f.reopen();
}

#[pumice_test_macros::test]
fn running_out_of_descriptors_passes() {
    let mut f = Fixture::new();
    f.fill(0..50);
    f.db().flush_opt(&FlushOptions::default()).unwrap();
    f.reopen_with(|_| ());
    f.fs.add_fault(FaultRule::always(FaultOp::Open, "*.sst", Fault::Emfile));
    let error = f.db().get_opt(&Default::default(), &key(3)).map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::IoError);
    f.fs.clear_faults();
    f.check();
    f.put(&SYNC, 60);
    f.reopen();
}
