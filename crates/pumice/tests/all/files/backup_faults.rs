//! Backups while the device fails, and when the power is cut: what was made and not deleted can be
//! restored, whatever became of the calls after it.

use std::collections::BTreeMap;
use std::path::Path;

use pumice::backup::BackupEngine;
use pumice::{Db, FileSystem, MemFs, Options, Result, WriteOptions};
use pumice_env::mem::{CrashMode, Fault, FaultRule, FsyncFailure};
use pumice_testkit::seed;

const DB: &str = "/db";
const BACKUPS: &str = "/backups";
const RESTORED: &str = "/restored";

fn options_on(fs: &MemFs) -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.file_system = fs.shared();
    options.cf.disable_auto_compactions = true;
    options
}

fn engine_on(fs: &MemFs) -> Result<BackupEngine> {
    BackupEngine::open(fs.shared(), BACKUPS)
}

/// The keys of the database at `path`; None if there is no database.
fn keys_of(fs: &MemFs, path: &str) -> Option<Vec<String>> {
    let mut options = options_on(fs);
    options.db.create_if_missing = false;
    if !fs.exists(&Path::new(path).join("CURRENT")).unwrap() {
        return None;
    }
    let db = Db::open(&options, path).unwrap();
    let keys = db.iter().unwrap().map(|entry| String::from_utf8(entry.unwrap().0).unwrap());
    let keys = keys.collect();
    db.close().unwrap();
    Some(keys)
}

/// A life of backups of a database that does not fail itself.
struct Life {
    fs: MemFs,
    db: Db,
    written: Vec<String>,
    /// The backups that must be there, and their keys.
    made: BTreeMap<u32, Vec<String>>,
    /// What a database restored to `RESTORED` may hold.
    restored: Vec<Vec<String>>,
    /// The fault happens only while calls on backups run.
    fault: Option<FaultRule>,
}

impl Life {
    /// With two backups, the first of them restored.
    fn new(seed: u64) -> Life {
        let fs = MemFs::new(seed);
        let db = Db::open(&options_on(&fs), DB).unwrap();
        let mut life = Life {
            fs,
            db,
            written: Vec::new(),
            made: BTreeMap::new(),
            restored: Vec::new(),
            fault: None,
        };
        life.make(1, true).unwrap();
        life.make(2, false).unwrap();
        life.restore(1).unwrap();
        life
    }

    fn on_backups<T>(&mut self, call: impl FnOnce(&BackupEngine) -> Result<T>) -> Result<T> {
        engine_on(&self.fs).and_then(|engine| call(&engine))
    }

    fn make(&mut self, n: u32, flush: bool) -> Result<u32> {
        for name in ["a", "b"] {
            let key = format!("{n}{name}");
            let options = WriteOptions { sync: true, ..WriteOptions::default() };
            // The database's own promises are tested elsewhere.
            if self.db.put_opt(&options, &key, "v").is_ok() {
                self.written.push(key);
            }
        }
        let (db, keys) = (self.db.clone(), self.written.clone());
        let id = self.on_backups(|engine| engine.create_backup(&db, flush, b"note"))?;
        assert!(self.made.insert(id, keys).is_none(), "number {id} was given twice");
        Ok(id)
    }

    /// Deletes the backup; it may still be there after an error.
    fn delete(&mut self, id: u32) -> Result<()> {
        self.made.remove(&id);
        self.on_backups(|engine| engine.delete_backup(id))
    }

    fn restore(&mut self, id: u32) -> Result<()> {
        let keys = self.made[&id].clone();
        self.restored.push(keys.clone());
        self.on_backups(|engine| engine.restore_backup(id, RESTORED, RESTORED))?;
        self.restored = vec![keys];
        Ok(())
    }

    /// Calls of every kind, each tried whatever became of the others.
    fn run(&mut self) -> Result<()> {
        if let Some(rule) = self.fault.take() {
            self.fs.add_fault(rule);
        }
        let mut result = self.make(3, true).map(drop);
        let restored = self.restore(2);
        result = result.and(restored);
        let deleted = self.delete(1);
        result = result.and(deleted);
        let made = self.make(4, false).map(drop);
        result = result.and(made);
        let kept = self.on_backups(|engine| engine.garbage_collect());
        result.and(kept)
    }

    fn check(&self, what: &str) {
        let log = self.fs.fault_log().join("\n");
        let engine = engine_on(&self.fs).unwrap();
        for (id, keys) in &self.made {
            let whole = engine.verify_backup(*id, true);
            whole.unwrap_or_else(|e| panic!("{what}: backup {id}: {e}\n{log}"));
            engine.restore_backup(*id, "/check", "/check").unwrap();
            assert_eq!(keys_of(&self.fs, "/check").as_ref(), Some(keys), "{what}: backup {id}");
        }
        if let Some(found) = keys_of(&self.fs, RESTORED) {
            assert!(self.restored.contains(&found), "{what}: restored {found:?}\n{log}");
        }
        // A next backup is made and is whole.
        let db = Db::open(&options_on(&self.fs), "/other").unwrap();
        db.put("k", "v").unwrap();
        let id = engine.create_backup(&db, true, b"").unwrap();
        engine.verify_backup(id, true).unwrap_or_else(|e| panic!("{what}: the next: {e}\n{log}"));
        db.close().unwrap();
    }
}

#[derive(Clone, Copy, Debug)]
enum Mishap {
    Fails(Fault),
    FailsThenCrash(Fault, CrashMode),
    Crash(CrashMode),
}

/// Lets `mishap` happen at operation `i` on files of backups; false if there were fewer.
fn happen(i: u64, mishap: Mishap) -> bool {
    let what = format!("operation {i}, {mishap:?}");
    let mut life = Life::new(i);
    let fs = life.fs.clone();
    let before = fs.change_count();
    match mishap {
        Mishap::Fails(fault) | Mishap::FailsThenCrash(fault, _) => {
            let path_glob = "*".into();
            life.fault = Some(FaultRule { op: None, path_glob, skip: i, count: 1, fault });
        }
        Mishap::Crash(_) => fs.halt_after(i),
    }
    let clean = life.run().is_ok();
    let happened = match mishap {
        Mishap::Crash(_) => !clean || fs.change_count() > before + i,
        _ => !fs.fault_log().is_empty(),
    };
    fs.clear_faults();
    match mishap {
        Mishap::Fails(_) => {}
        Mishap::FailsThenCrash(_, mode) | Mishap::Crash(mode) => fs.crash(i, mode),
    }
    if matches!(mishap, Mishap::Fails(_)) {
        let broken = engine_on(&fs).unwrap().corrupted_backups().unwrap();
        assert!(broken.is_empty(), "{what}: {broken:?} was left\n{}", fs.fault_log().join("\n"));
    }
    life.check(&what);
    happened
}

fn happen_everywhere(mishap: Mishap) {
    let mut i = 0;
    while happen(i, mishap) {
        i += seed::one_in();
        assert!(i < 3000, "the life never ends");
    }
    assert!(i > 100, "only {i} operations: the life does too little");
}

#[pumice_test_macros::test]
fn a_failure_of_any_operation_costs_no_other_backup() {
    for fault in [Fault::Eio, Fault::Enospc] {
        happen_everywhere(Mishap::Fails(fault));
    }
}

#[pumice_test_macros::test]
fn a_failed_sync_and_a_power_cut_cost_no_backup() {
    for failure in [FsyncFailure::ReadableThenLost, FsyncFailure::OldData] {
        happen_everywhere(Mishap::FailsThenCrash(Fault::Fsync(failure), CrashMode::UNSYNCED));
    }
}

#[pumice_test_macros::test]
fn a_power_cut_at_any_change_costs_no_backup() {
    for mode in [CrashMode::UNSYNCED, CrashMode::MIXED, CrashMode::PROCESS] {
        happen_everywhere(Mishap::Crash(mode));
    }
}
