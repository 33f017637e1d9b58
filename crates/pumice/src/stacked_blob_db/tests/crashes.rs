//! Power cuts and failing operations at any point: what was acknowledged with a sync is there, what
//! was not is there up to some write, and every index finds its blob.

use std::collections::BTreeMap;

use super::{Bench, SYNC, compact, numbers};
use crate::Result;
use crate::options::requests::WriteOptions;
use crate::stacked_blob_db::BlobDb;
use pumice_env::mem::{CrashMode, Fault, FaultRule};
use pumice_testkit::seed;

type State = BTreeMap<Vec<u8>, Vec<u8>>;

/// The states after each write, and up to which of them writes are acknowledged.
struct Done {
    states: Vec<State>,
    /// By any, and by one with a sync.
    acknowledged: usize,
    synced: usize,
}

impl Done {
    fn write(
        &mut self,
        sync: bool,
        change: impl FnOnce(&mut State),
        write: impl FnOnce(&WriteOptions) -> Result<()>,
    ) -> Result<()> {
        let mut state = self.states.last().cloned().unwrap_or_default();
        change(&mut state);
        self.states.push(state);
        write(if sync { &SYNC } else { &crate::db::store::WRITE_DEFAULT })?;
        self.acknowledged = self.states.len() - 1;
        if sync {
            self.synced = self.acknowledged;
        }
        Ok(())
    }
}

fn work(db: &BlobDb, all_synced: bool, done: &mut Done) -> Result<()> {
    for round in 0..4u8 {
        for number in 0..8u8 {
            let (key, value) = (vec![b'k', number], vec![round; 20 + 15 * usize::from(number)]);
            let sync = all_synced || (round + number) % 5 == 0;
            let change = |state: &mut State| _ = state.insert(key.clone(), value.clone());
            done.write(sync, change, |options| match number % 3 {
                // Long enough for the test.
                0 => db.put_with_ttl_opt(options, &key, &value, 1000),
                _ => db.put_opt(options, &key, &value),
            })?;
        }
        let gone = vec![b'k', round];
        let change = |state: &mut State| _ = state.remove(&gone);
        done.write(all_synced, change, |options| db.delete_opt(options, &gone))?;
        if round > 0 {
            db.db().flush()?;
            db.db().compact_range(&Default::default(), None, None)?;
        }
    }
    Ok(())
}

fn contents(db: &BlobDb, what: &str) -> State {
    let entries = db.iter().unwrap();
    entries.map(|entry| entry.unwrap_or_else(|error| panic!("{what}: {error}"))).collect()
}

fn check(bench: &Bench, what: &str, done: &Done, least: usize) {
    let mut first = None;
    for _ in 0..2 {
        let db = bench.open().unwrap_or_else(|error| panic!("{what}: {error}"));
        let found = contents(&db, what);
        assert!(
            done.states[least..].contains(&found),
            "{what}: {found:?} is none of the states from {least} on"
        );
        assert_eq!(*first.get_or_insert_with(|| found.clone()), found, "{what}");
        compact(&db);
        assert_eq!(contents(&db, what), found, "{what}");
        db.evict_expired();
        assert_eq!(bench.on_disk(), numbers(&db), "{what}");
        db.close().unwrap();
    }
}

fn new_done() -> Done {
    Done { states: vec![State::new()], acknowledged: 0, synced: 0 }
}

fn changes(all_synced: bool) -> u64 {
    let bench = Bench::new(0);
    let db = bench.open().unwrap();
    let before = bench.fs.change_count();
    work(&db, all_synced, &mut new_done()).unwrap();
    bench.fs.change_count() - before
}

fn power_cuts(mode: CrashMode, all_synced: bool) {
    const POINTS: u64 = 60;
    let total = changes(all_synced);
    for point in seed::range(POINTS) {
        let at = total * point / POINTS;
        let what = format!("power cut at {at}, {mode:?}, all synced {all_synced}");
        println!("point {point}: {what}");
        let (bench, mut done) = (Bench::new(point), new_done());
        let db = bench.open().unwrap();
        bench.fs.halt_after(at);
        drop(work(&db, all_synced, &mut done)); // Whether it fails depends on `at`.
        bench.fs.crash(at, mode);
        drop(db.close());
        drop(db);
        check(&bench, &what, &done, done.synced);
    }
}

#[pumice_test_macros::test]
fn power_cuts_lose_no_synced_value() {
    power_cuts(CrashMode::UNSYNCED, true);
    power_cuts(CrashMode::MIXED, true);
}

#[pumice_test_macros::test]
fn power_cuts_leave_a_prefix_of_what_was_not_synced() {
    power_cuts(CrashMode::UNSYNCED, false);
    power_cuts(CrashMode::MIXED, false);
}

/// A process that ends takes nothing that was acknowledged.
#[pumice_test_macros::test]
fn the_end_of_the_process_loses_nothing() {
    const POINTS: u64 = 30;
    let total = changes(false);
    for point in seed::range(POINTS) {
        let at = total * point / POINTS;
        println!("point {point}: process ends at {at}");
        let (bench, mut done) = (Bench::new(point), new_done());
        let db = bench.open().unwrap();
        bench.fs.halt_after(at);
        drop(work(&db, false, &mut done));
        let least = done.acknowledged;
        drop(db.close());
        drop(db);
        bench.fs.crash(at, CrashMode::PROCESS);
        check(&bench, &format!("process ends at {at}"), &done, least);
    }
}

#[pumice_test_macros::test]
fn failing_operations_leave_no_index_without_its_blob() {
    const POINTS: u64 = 60;
    let total = changes(false);
    for point in seed::range(POINTS) {
        let at = total * point / POINTS;
        for fault in [Fault::Eio, Fault::Enospc] {
            let what = format!("operation {at} fails with {fault:?}");
            println!("point {point}: {what}");
            let (bench, mut done) = (Bench::new(point), new_done());
            let db = bench.open().unwrap();
            let rule = FaultRule { op: None, path_glob: "*".into(), skip: at, count: 1, fault };
            bench.fs.add_fault(rule);
            drop(work(&db, false, &mut done));
            bench.fs.clear_faults();
            drop(db.db().resume());
            drop(db.close());
            drop(db);
            check(&bench, &what, &done, done.acknowledged);
        }
    }
}
