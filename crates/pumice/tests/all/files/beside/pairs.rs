//! Each operation on a directory together with each other one, of which one is held up at each of
//! its system calls in turn.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pumice::{ColumnFamilyDescriptor, Db, MemFs, Options, Result};
use pumice_port::sync::Mutex;
use pumice_port::thread;

use super::simulate;
use crate::code::{Code, Kind};
use crate::common::{DIR, SYNC, get, key};

const COPY: &str = "/copy";
/// Keys of the database that is there before.
const OLD: usize = 20;
/// System calls of each operation at which it is held up.
const PLACES: u64 = 6;
/// Longer than the second operation takes.
const HELD_UP: Duration = Duration::from_secs(20);

/// What an operation has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Done {
    /// Put this key with sync and closed.
    Put(usize),
    /// Found this many of the old keys.
    Read(usize),
    Copied,
    Repaired,
    Destroyed,
}

type Operation = fn(&Options, usize) -> Result<Done>;

fn put(options: &Options, who: usize) -> Result<Done> {
    let db = Db::open(options, DIR)?;
    db.put_opt(&SYNC, &key(100 + who), b"new")?;
    db.flush_opt(&Default::default())?;
    db.close()?;
    Ok(Done::Put(100 + who))
}

fn open(options: &Options, who: usize) -> Result<Done> {
    let mut options = options.clone();
    options.db.create_if_missing = false;
    put(&options, who)
}

fn create(options: &Options, who: usize) -> Result<Done> {
    let mut options = options.clone();
    options.db.error_if_exists = true;
    put(&options, who)
}

fn read(options: &Options, _who: usize) -> Result<Done> {
    let mut options = options.clone();
    options.db.create_if_missing = false;
    let families = [ColumnFamilyDescriptor::new("default", options.cf.clone())];
    let (db, _) = Db::open_read_only(&options.db, DIR, &families, false)?;
    let found = |n: &usize| db.get_opt(&Default::default(), &key(*n)).map(|value| value.is_some());
    let old = (0..OLD).map(|n| found(&n)).collect::<Result<Vec<bool>>>()?;
    Ok(Done::Read(old.iter().filter(|there| **there).count()))
}

fn copy(options: &Options, _who: usize) -> Result<Done> {
    let db = Db::open(options, DIR)?;
    let copied = db.checkpoint(COPY);
    db.close()?;
    copied?;
    Ok(Done::Copied)
}

fn destroy(options: &Options, _who: usize) -> Result<Done> {
    Db::destroy(options, DIR).map(|()| Done::Destroyed)
}

fn repair(options: &Options, _who: usize) -> Result<Done> {
    pumice::repair(options, DIR).map(|_| Done::Repaired)
}

const OPERATIONS: [(&str, Operation); 7] = [
    ("create or open", put),
    ("open", open),
    ("create", create),
    ("open for reading", read),
    ("checkpoint", copy),
    ("repair", repair),
    ("destroy", destroy),
];

fn options(code: &Arc<Code>) -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.file_system = code.options().db.file_system;
    options
}

/// Fills the directory, unless `empty`.
fn prepare(fs: &MemFs, empty: bool) {
    if empty {
        return;
    }
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.file_system = fs.shared();
    let db = Db::open(&options, DIR).unwrap();
    (0..OLD).for_each(|n| db.put_opt(&SYNC, &key(n), b"old").unwrap());
    db.close().unwrap();
}

/// Errors that name the conflict.
fn is_expected(text: &str) -> bool {
    let known = [
        "lock",           // Another process has it open.
        "does not exist", // It was destroyed,
        "No such file",   // or is being destroyed,
        "found no files", // or there was none to repair.
        "exists",         // The other operation was first.
        "Try again",      // It changed all the time.
    ];
    known.iter().any(|known| text.contains(known))
}

/// The tables that an open finds, if it may open, or None without a database.
fn check(fs: &MemFs, done: &[Option<Done>], empty: bool, what: &str) {
    let mut options = Options::default();
    options.db.file_system = fs.shared();
    let destroyed = done.contains(&Some(Done::Destroyed));
    let puts = done.iter().flatten().filter_map(|done| match done {
        Done::Put(n) => Some(*n),
        _ => None,
    });
    for done in done.iter().flatten() {
        if let Done::Read(old) = done {
            assert!(*old == OLD || empty || destroyed, "{what}: {old} of {OLD} keys were read");
        }
    }
    let there = fs.shared().exists("/db/CURRENT".as_ref()).unwrap();
    assert!(there || destroyed || empty, "{what}: it is gone");
    if there {
        let db = Db::open(&options, DIR).unwrap_or_else(|e| panic!("{what}: {e}"));
        db.verify_checksum().unwrap();
        let old = (0..OLD).filter(|n| get(&db, &key(*n)).is_some()).count();
        if !empty {
            assert!(old == OLD || (destroyed && old == 0), "{what}: {old} of {OLD} keys");
        }
        for n in puts {
            let found = get(&db, &key(n)).is_some();
            assert!(found || destroyed, "{what}: key {n} was acknowledged");
        }
        db.close().unwrap();
    } else {
        assert!(puts.count() == 0 || destroyed, "{what}: what was acknowledged is gone");
    }
    if done.contains(&Some(Done::Copied)) {
        let db = Db::open(&options, COPY).unwrap_or_else(|e| panic!("{what}: copy: {e}"));
        let old = (0..OLD).filter(|n| get(&db, &key(*n)).is_some()).count();
        assert!(old == OLD || old == 0 && (empty || destroyed), "{what}: copy of {old} keys");
        db.close().unwrap();
    }
}

/// Runs `first`, held up at its system call `at`, and `second` meanwhile. Returns whether it was
/// held up.
fn beside(first: Operation, second: Operation, at: u64, empty: bool, what: &str) -> bool {
    let fs = MemFs::new(at);
    prepare(&fs, empty);
    let (held, free) = (Code::on(fs.clone()), Code::on(fs.clone()));
    let reached = Arc::new(pumice_port::sync::Event::default());
    let (here, ends) = (Arc::clone(&reached), Arc::clone(&reached));
    let was_held = Arc::new(Mutex::new(false));
    let note = Arc::clone(&was_held);
    let hook = move || {
        *note.lock() = true;
        here.set();
        thread::sleep(HELD_UP);
    };
    held.tell_hook(Kind::Files, at, Arc::new(hook));
    let done = thread::scope(|scope| {
        let slow = scope.spawn(|| {
            let done = first(&options(&held), 0);
            ends.set();
            done
        });
        reached.wait();
        let quick = second(&options(&free), 1);
        [slow.join().unwrap(), quick]
    });
    let done = done.map(|done| match done {
        Ok(done) => Some(done),
        Err(error) => {
            assert!(is_expected(&error.to_string()), "{what}: {error}");
            None
        }
    });
    check(&fs, &done, empty, what);
    *was_held.lock()
}

/// System calls of an operation that is alone.
fn calls(operation: Operation, empty: bool) -> u64 {
    let counted = Arc::new(Mutex::new(0));
    let count = Arc::clone(&counted);
    simulate(0, "alone", move || {
        let fs = MemFs::new(0);
        prepare(&fs, empty);
        let code = Code::on(fs);
        code.tell_hook(Kind::Files, u64::MAX, Arc::new(|| ()));
        drop(operation(&options(&code), 0));
        *count.lock() = code.calm();
    });
    *counted.lock()
}

// Plain #[test]: a simulation is a runtime of its own.
#[test]
fn each_beside_each() {
    let times = std::env::var("PUMICE_BESIDE").ok().and_then(|text| text.parse().ok());
    let places = PLACES * times.unwrap_or(1);
    let mut ran: BTreeMap<String, u64> = BTreeMap::new();
    for (index, (name, first)) in OPERATIONS.into_iter().enumerate() {
        for empty in [false, true] {
            let calls = calls(first, empty).max(1);
            for (other, (beside_it, second)) in OPERATIONS.into_iter().enumerate() {
                // With each other operation it is held up at other calls.
                let shift = (index + other) as u64;
                for place in 0..places.min(calls) {
                    let at = (place * calls / places.min(calls) + shift) % calls;
                    let what = format!("{name}, held up at {at}, beside {beside_it} ({empty})");
                    let held = Arc::new(Mutex::new(false));
                    let (note, text) = (Arc::clone(&held), what.clone());
                    simulate(at, &what, move || {
                        *note.lock() = beside(first, second, at, empty, &text);
                    });
                    *ran.entry(format!("{name} beside {beside_it}")).or_default() +=
                        u64::from(*held.lock());
                }
            }
        }
    }
    for (pair, times) in &ran {
        println!("{pair}: {times}");
        assert!(*times > 0, "{pair} did not overlap");
    }
    assert_eq!(ran.len(), OPERATIONS.len() * OPERATIONS.len());
}
