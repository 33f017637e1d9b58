//! Failures of MANIFEST and CURRENT: what recovery would read is unknown, so nothing is deleted.

use std::collections::BTreeSet;

use pumice::{ColumnFamilyDescriptor, CompactRangeOptions, Db, ErrorKind, FlushOptions};
use pumice_env::mem::{CrashMode, Fault, FaultOp, FaultRule, FsyncFailure};

use super::support::{DIR, Fixture};
use crate::common::{SYNC, eventually};

fn failures() -> Vec<(&'static str, FaultRule)> {
    let sync = |f| Fault::Fsync(f);
    vec![
        ("write", FaultRule::once(FaultOp::Write, "*MANIFEST*", 0, Fault::Eio)),
        ("short", FaultRule::once(FaultOp::Write, "*MANIFEST*", 0, Fault::ShortWrite)),
        (
            "lost",
            FaultRule::once(FaultOp::Sync, "*MANIFEST*", 0, sync(FsyncFailure::ReadableThenLost)),
        ),
        ("old", FaultRule::once(FaultOp::Sync, "*MANIFEST*", 0, sync(FsyncFailure::OldData))),
        ("durable", FaultRule::once(FaultOp::Sync, "*MANIFEST*", 0, sync(FsyncFailure::Durable))),
    ]
}

/// Failures while a new MANIFEST is written.
fn replacement_failures() -> Vec<FaultRule> {
    let mut rules: Vec<FaultRule> = failures().into_iter().map(|(_, rule)| rule).collect();
    rules.push(FaultRule::once(FaultOp::Create, "*MANIFEST*", 0, Fault::Eio));
    rules.push(FaultRule::once(FaultOp::SyncDir, "/db", 0, Fault::Eio));
    rules.push(FaultRule::once(FaultOp::SyncDir, "/db", 1, Fault::Eio));
    rules.push(FaultRule::once(FaultOp::Rename, "*", 0, Fault::Eio));
    rules.push(FaultRule::once(FaultOp::Write, "*dbtmp", 0, Fault::Eio));
    rules.push(FaultRule::once(FaultOp::Sync, "*dbtmp", 0, Fault::Eio));
    rules
}

/// A database with two tables to compact and something to flush; no automatic resume.
fn busy() -> Fixture {
    let mut f = Fixture::new();
    f.reopen_with(|o| o.db.max_bgerror_resume_count = 0);
    for round in 0..2 {
        f.fill(round..round + 30);
        f.db().flush_opt(&FlushOptions::default()).unwrap();
    }
    let logs = |f: &Fixture| f.files().iter().filter(|name| name.ends_with(".log")).count();
    eventually("what the flushes made obsolete is gone", || logs(&f) == 1);
    f
}

fn assert_nothing_deleted(before: &[String], f: &Fixture, what: &str) {
    let now: BTreeSet<String> = f.files().into_iter().collect();
    for name in before.iter().filter(|n| !n.ends_with("dbtmp")) {
        assert!(now.contains(name), "{what}: {name} was deleted");
    }
}

#[pumice_test_macros::test]
fn a_failed_manifest_deletes_nothing_until_a_new_one_is_durable() {
    for (what, rule) in failures() {
        for compaction in [false, true] {
            let mut f = busy();
            f.fill(100..120);
            let before = f.files();
            f.fs.add_fault(rule.clone());
            let error = if compaction {
                f.db().compact_range(&CompactRangeOptions::default(), None, None).unwrap_err()
            } else {
                f.db().flush_opt(&FlushOptions::default()).unwrap_err()
            };
            assert_eq!(error.kind(), ErrorKind::IoError, "{what}");
            assert_nothing_deleted(&before, &f, what);
            f.check();
            for mode in [CrashMode::UNSYNCED, CrashMode::PROCESS] {
                f.check_copy(what, mode);
            }
            f.db().resume().unwrap();
            f.fill(120..140);
            f.check();
            for mode in [CrashMode::UNSYNCED, CrashMode::PROCESS] {
                f.check_copy_synced(what, mode);
            }
            f.reopen();
        }
    }
}

#[pumice_test_macros::test]
fn a_failed_drop_accepts_no_write_that_could_vanish() {
    for (what, rule) in failures() {
        let f = busy();
        let cf = f.db().create_column_family(&f.options().cf, "more").unwrap();
        f.db().put_cf_opt(&SYNC, &cf, b"before", b"1").unwrap();
        f.fs.add_fault(rule);
        assert_eq!(
            f.db().drop_column_family(&cf).unwrap_err().kind(),
            ErrorKind::IoError,
            "{what}"
        );
        f.db().put_cf_opt(&SYNC, &cf, b"refused", b"2").unwrap_err();
        f.db().resume().unwrap();
        f.db().put_cf_opt(&SYNC, &cf, b"after", b"3").unwrap();
        drop(cf);
        f.fs.crash(9, CrashMode::UNSYNCED);
        let options = f.options();
        let all = ["default", "more"].map(|n| ColumnFamilyDescriptor::new(n, options.cf.clone()));
        drop(f);
        let (db, handles) = Db::open_cf(&options.db, DIR, &all).unwrap();
        for key in [b"before".as_slice(), b"after"] {
            assert!(
                db.get_cf_opt(&Default::default(), &handles[1], key).unwrap().is_some(),
                "{what}"
            );
        }
    }
}

#[pumice_test_macros::test]
fn a_replacement_that_fails_too_is_tried_again() {
    for rule in replacement_failures() {
        let what = format!("{rule:?}");
        let mut f = busy();
        f.fill(100..120);
        let before = f.files();
        let broken = FaultRule::once(FaultOp::Sync, "*MANIFEST*", 0, Fault::Eio);
        f.fs.add_fault(broken);
        f.db().flush_opt(&FlushOptions::default()).unwrap_err();
        f.fs.clear_faults();
        // It lasts: the flush may be tried beside the resume, and start a MANIFEST too.
        f.fs.add_fault(FaultRule { count: u64::MAX, ..rule });
        f.db().resume().unwrap_err();
        assert_nothing_deleted(&before, &f, &what);
        for mode in [CrashMode::UNSYNCED, CrashMode::PROCESS] {
            f.check_copy(&what, mode);
        }
        f.fs.clear_faults();
        f.db().resume().unwrap();
        f.fill(120..140);
        f.check();
        f.reopen();
    }
}
