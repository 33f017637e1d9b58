//! Fails the i-th file operation of a short history, for every i, until none fails.

use std::collections::BTreeMap;

use pumice::{CompactRangeOptions, Db, FlushOptions, MemFs, Result, WriteOptions};
use pumice_env::mem::{Fault, FaultRule};

use crate::support::{DIR, check_against, eventually, key, options_on};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

struct History {
    fs: MemFs,
    acknowledged: Model,
    attempted: Model,
}

impl History {
    fn put(&mut self, db: &Db, n: u64, value: &str, sync: bool) -> Result<()> {
        let (key, value) = (key(n), value.as_bytes().to_vec());
        let options = WriteOptions { sync, ..WriteOptions::default() };
        let written = db.put(&options, &key, &value);
        match &written {
            Ok(()) => drop(self.acknowledged.insert(key, value)),
            Err(_) => drop(self.attempted.insert(key, value)),
        }
        written
    }

    /// Opens, writes, flushes, compacts, closes; every step is tried whatever became of the others.
    fn run(&mut self, round: u64) -> Result<()> {
        let db = Db::open(&options_on(&self.fs), DIR)?;
        let mut result = Ok(());
        for n in 0..6 {
            let put = self.put(&db, round * 3 + n, &format!("round {round}"), n % 2 == 0);
            result = result.and(put);
        }
        result = result.and(db.flush(&FlushOptions::default()));
        let last = self.put(&db, 90 + round, "tail", false);
        result = result.and(last);
        result = result.and(db.compact_range(&CompactRangeOptions::default(), None, None));
        result.and(db.close())
    }

    fn check(&self, what: &str) {
        let db = Db::open(&options_on(&self.fs), DIR)
            .unwrap_or_else(|e| panic!("{what}: {e}\n{}", self.fs.fault_log().join("\n")));
        check_against(&db, &self.acknowledged, &self.attempted);
        eventually("a write works", || db.put(&WriteOptions::default(), b"~", b"~").is_ok());
        db.delete(&WriteOptions::default(), b"~").unwrap();
        db.close().unwrap();
    }
}

/// Fails operation `i` on a database that has had one good round before (or none).
fn fail_one(i: u64, fault: Fault, prepared: bool) -> bool {
    let what = format!("operation {i}, {fault:?}, prepared {prepared}");
    let fs = MemFs::new(i);
    let mut history =
        History { fs: fs.clone(), acknowledged: Model::new(), attempted: Model::new() };
    if prepared {
        history.run(0).unwrap();
    }
    fs.add_fault(FaultRule { op: None, path_glob: "*".into(), skip: i, count: 1, fault });
    // An error may surface or be cured silently; either way the state must be right.
    drop(history.run(1));
    let injected = !fs.fault_log().is_empty();
    fs.clear_faults();
    history.check(&what);
    history.check(&what);
    injected
}

fn fail_each(fault: Fault, prepared: bool) {
    let mut i = 0;
    while fail_one(i, fault, prepared) {
        i += 1;
        assert!(i < 2000, "the history never ends");
    }
    assert!(i > 40, "only {i} operations: the history does too little");
}

#[test]
fn eio_in_a_new_database() {
    fail_each(Fault::Eio, false);
}

#[test]
fn eio_in_a_used_database() {
    fail_each(Fault::Eio, true);
}

#[test]
fn enospc_in_a_used_database() {
    fail_each(Fault::Enospc, true);
}

#[test]
fn short_writes_in_a_used_database() {
    fail_each(Fault::ShortWrite, true);
}
