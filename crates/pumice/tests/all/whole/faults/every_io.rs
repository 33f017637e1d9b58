//! Fails the i-th file operation of a short history, for every i, until none fails; and stops the
//! history there by a power cut instead.

use std::collections::{BTreeMap, BTreeSet};

use pumice::{
    ColumnFamilyDescriptor, CompactRangeOptions, Db, FlushOptions, MemFs, Result, WriteOptions,
};
use pumice_env::mem::{CrashMode, Fault, FaultOp, FaultRule, FsyncFailure};

use super::support::{DIR, check_against, key, options_on};
use crate::common::eventually;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// What happens at the i-th operation, and after the history.
#[derive(Clone, Copy, Debug)]
enum Mishap {
    /// It fails; the process continues.
    Fails(Fault),
    /// It fails; the power is cut after the history.
    FailsThenCrash(Fault, CrashMode),
    /// The power is cut. Counts only operations that change something.
    Crash(CrashMode),
}

struct History {
    fs: MemFs,
    acknowledged: Model,
    /// What was acknowledged before or with the last acknowledged sync.
    durable: Model,
    /// What may be there although no sync covered it.
    possible: BTreeSet<(Vec<u8>, Vec<u8>)>,
}

impl History {
    fn new(fs: &MemFs) -> Self {
        let model = Model::new;
        let possible = BTreeSet::new();
        History { fs: fs.clone(), acknowledged: model(), durable: model(), possible }
    }

    fn put(&mut self, db: &Db, n: u64, value: &str, sync: bool) -> Result<()> {
        let (key, value) = (key(n), value.as_bytes().to_vec());
        let options = WriteOptions { sync, ..WriteOptions::default() };
        self.possible.insert((key.clone(), value.clone()));
        db.put_opt(&options, &key, &value)?;
        self.acknowledged.insert(key, value);
        if sync {
            self.durable.clone_from(&self.acknowledged);
        }
        Ok(())
    }

    /// Opens, writes, flushes, compacts, closes; every step is tried whatever became of the others.
    fn run(&mut self, round: u64) -> Result<()> {
        let db = Db::open(&options_on(&self.fs), DIR)?;
        let mut result = Ok(());
        for n in 0..6 {
            let put = self.put(&db, round * 3 + n, &format!("round {round}"), n % 2 == 0);
            result = result.and(put);
        }
        result = result.and(db.flush_opt(&FlushOptions::default()));
        let last = self.put(&db, 90 + round, "tail", false);
        result = result.and(last);
        result = result.and(db.compact_range(&CompactRangeOptions::default(), None, None));
        result.and(db.close())
    }

    fn check(&self, what: &str, must_have: &Model) {
        let db = Db::open(&options_on(&self.fs), DIR)
            .unwrap_or_else(|e| panic!("{what}: {e}\n{}", self.fs.fault_log().join("\n")));
        check_against(&db, must_have, &self.possible);
        eventually("a write works", || db.put_opt(&WriteOptions::default(), b"~", b"~").is_ok());
        db.delete_opt(&WriteOptions::default(), b"~").unwrap();
        db.close().unwrap();
    }
}

/// Lets `mishap` happen at operation `i` of a history that had one good round before, if
/// `prepared`. False when the history ended before that.
fn happen(i: u64, mishap: Mishap, prepared: bool) -> bool {
    let what = format!("operation {i}, {mishap:?}, prepared {prepared}");
    let fs = MemFs::new(i);
    let mut history = History::new(&fs);
    if prepared {
        history.run(0).unwrap();
    }
    let before = fs.change_count();
    match mishap {
        Mishap::Fails(fault) | Mishap::FailsThenCrash(fault, _) => {
            fs.add_fault(FaultRule { op: None, path_glob: "*".into(), skip: i, count: 1, fault });
        }
        Mishap::Crash(_) => fs.halt_after(i),
    }
    // An error may surface or be cured silently; either way the state must be right.
    let clean = history.run(1).is_ok();
    let happened = match mishap {
        Mishap::Fails(_) | Mishap::FailsThenCrash(..) => !fs.fault_log().is_empty(),
        Mishap::Crash(_) => !clean || fs.change_count() > before + i,
    };
    assert!(happened || clean, "{what}: an error out of nowhere");
    fs.clear_faults();
    match mishap {
        Mishap::Fails(_) => {
            history.check(&what, &history.acknowledged);
            history.check(&what, &history.acknowledged);
        }
        Mishap::FailsThenCrash(_, mode) | Mishap::Crash(mode) => {
            fs.crash(i, mode);
            history.check(&what, &history.durable);
            history.check(&what, &history.durable);
        }
    }
    happened
}

fn happen_everywhere(mishap: Mishap, prepared: bool) {
    let mut i = 0;
    while happen(i, mishap, prepared) {
        i += pumice_testkit::seed::one_in();
        assert!(i < 2000, "the history never ends");
    }
    assert!(i > 30, "only {i} operations: the history does too little");
}

#[pumice_test_macros::test]
fn eio_in_a_new_database() {
    happen_everywhere(Mishap::Fails(Fault::Eio), false);
}

#[pumice_test_macros::test]
fn eio_in_a_used_database() {
    happen_everywhere(Mishap::Fails(Fault::Eio), true);
}

#[pumice_test_macros::test]
fn enospc_in_a_used_database() {
    happen_everywhere(Mishap::Fails(Fault::Enospc), true);
}

#[pumice_test_macros::test]
fn short_writes_in_a_used_database() {
    happen_everywhere(Mishap::Fails(Fault::ShortWrite), true);
}

#[pumice_test_macros::test]
fn failed_syncs_and_then_a_crash() {
    let failures = [FsyncFailure::ReadableThenLost, FsyncFailure::Durable, FsyncFailure::OldData];
    for failure in failures {
        for mode in [CrashMode::UNSYNCED, CrashMode::MIXED] {
            happen_everywhere(Mishap::FailsThenCrash(Fault::Fsync(failure), mode), true);
        }
    }
}

#[pumice_test_macros::test]
fn eio_and_then_a_crash() {
    for mode in [CrashMode::UNSYNCED, CrashMode::MIXED, CrashMode::PROCESS] {
        happen_everywhere(Mishap::FailsThenCrash(Fault::Eio, mode), true);
    }
}

#[pumice_test_macros::test]
fn a_power_cut_at_every_change() {
    for mode in [CrashMode::UNSYNCED, CrashMode::MIXED, CrashMode::PROCESS] {
        for prepared in [false, true] {
            happen_everywhere(Mishap::Crash(mode), prepared);
        }
    }
}

/// Two column families share a log that tears; the power is cut at the i-th change of the resume.
/// False when the resume ended before that.
fn cut_a_resume(i: u64, mode: CrashMode) -> bool {
    let what = format!("resume cut at {i}, {mode:?}");
    let fs = MemFs::new(i);
    let mut options = options_on(&fs);
    options.db.create_missing_column_families = true;
    options.db.max_bgerror_resume_count = 0;
    let all = ["default", "other"].map(|n| ColumnFamilyDescriptor::new(n, options.cf.clone()));
    let (db, handles) = Db::open_cf(&options.db, DIR, &all).unwrap();
    let sync = WriteOptions { sync: true, ..WriteOptions::default() };
    for n in 0..4 {
        db.put_cf_opt(&sync, &handles[(n % 2) as usize], &key(n), b"v").unwrap();
    }
    fs.add_fault(FaultRule::once(FaultOp::Write, "*.log", 0, Fault::ShortWrite));
    db.put_opt(&sync, &key(9), &[b'x'; 3000]).unwrap_err();
    let before = fs.change_count();
    fs.halt_after(i);
    let resumed = db.resume().is_ok();
    let happened = !resumed || fs.change_count() > before + i;
    fs.crash(i, mode);
    drop((db, handles));
    let (db, handles) =
        Db::open_cf(&options.db, DIR, &all).unwrap_or_else(|e| panic!("{what}: {e}"));
    for n in 0..4 {
        let found =
            db.get_cf_opt(&Default::default(), &handles[(n % 2) as usize], &key(n)).unwrap();
        assert_eq!(found.as_deref(), Some(&b"v"[..]), "{what}: key {n}");
    }
    happened
}

#[pumice_test_macros::test]
fn a_power_cut_at_every_change_of_a_resume() {
    for mode in [CrashMode::UNSYNCED, CrashMode::MIXED, CrashMode::PROCESS] {
        let mut i = 0;
        while cut_a_resume(i, mode) {
            i += pumice_testkit::seed::one_in();
        }
        assert!(i > 8, "a resume with only {i} changes");
    }
}
