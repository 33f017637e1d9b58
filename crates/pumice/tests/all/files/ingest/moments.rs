//! Reads during ingestions and writes: what is read at one moment is one state.
//!
//! A writer ingests `a` = n into two families with one call, then puts `b` = n, over and over. So
//! no state holds two different `a`, or a `b` that is newer than its `a`. A reader that takes its
//! view of memtables and files at one moment and its sequence number at another would see such a
//! state. Each seed is one schedule of the simulator.
//!
//! Plain #[test]: a simulation is a runtime of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pumice::{
    ColumnFamily, ColumnFamilyOptions, Db, IngestExternalFileArg, IngestExternalFileOptions, MemFs,
    Options, ReadOptions, WriteOptions,
};
use pumice_port::{sim, thread};
use pumice_testkit::seed;

use super::support::{DIR, table_of};

const ROUNDS: u32 = 6;
const SEEDS: u64 = 40;

fn number(value: Option<Vec<u8>>) -> u32 {
    value.map_or(0, |value| std::str::from_utf8(&value).unwrap().parse().unwrap())
}

/// Lets `read` look for a pair (a, b) that never existed, in every schedule.
fn no_schedule_shows_two_moments(read: fn(&Db, &ColumnFamily) -> (u32, u32)) {
    for seed in seed::range(SEEDS) {
        let options = sim::Options { preempt_per_mille: 100, ..sim::Options::new(seed) };
        let (_, outcome) = sim::run(&options, || life(seed, read));
        if let Err(failure) = outcome {
            panic!("seed {seed}: {failure:?}");
        }
    }
}

fn life(seed: u64, read: fn(&Db, &ColumnFamily) -> (u32, u32)) {
    let fs = MemFs::new(seed);
    let mut options: Options = crate::common::options(&fs.shared());
    options.cf.disable_auto_compactions = true;
    options.db.file_system.create_dir_all("/in".as_ref()).unwrap();
    let db = Arc::new(Db::open(&options, DIR).unwrap());
    let family = ColumnFamilyOptions { disable_auto_compactions: true, ..Default::default() };
    let other = db.create_column_family(&family, "other").unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..2)
        .map(|_| {
            let (db, other, done) = (Arc::clone(&db), other.clone(), Arc::clone(&done));
            thread::spawn("reader", move || {
                while !done.load(Ordering::SeqCst) {
                    let (a, b) = read(&db, &other);
                    assert!(b <= a, "b is of round {b}, a of round {a}");
                    thread::yield_now();
                }
            })
        })
        .collect();
    for round in 1..=ROUNDS {
        let path = table_of(&options, &format!("/in/{round}.sst"), &["a"], &round.to_string());
        let arg = |cf: &ColumnFamily| {
            IngestExternalFileArg::new(
                cf,
                vec![path.clone()],
                &IngestExternalFileOptions::default(),
            )
        };
        db.ingest_external_files(&[arg(&other), arg(db.default_column_family())]).unwrap();
        let value = round.to_string();
        db.put_cf_opt(&WriteOptions::default(), &other, b"b", value.as_bytes()).unwrap();
    }
    done.store(true, Ordering::SeqCst);
    readers.into_iter().for_each(|reader| reader.join().unwrap());
}

#[test]
fn a_cursor_shows_one_state() {
    no_schedule_shows_two_moments(|db, other| {
        let mut cursor = db.cursor_cf_opt(&ReadOptions::default(), other).unwrap();
        let mut at = |key: &[u8]| {
            cursor.seek(key);
            let found = cursor.valid() && cursor.key().unwrap() == key;
            number(found.then(|| cursor.value().unwrap().to_vec()))
        };
        let b = at(b"b");
        (at(b"a"), b)
    });
}

#[test]
fn a_multi_get_of_one_family_shows_one_state() {
    no_schedule_shows_two_moments(|db, other| {
        let found = db.multi_get_cf_opt(&ReadOptions::default(), &[(other, b"a"), (other, b"b")]);
        let numbers = found.into_iter().map(|v| number(v.unwrap().map(|v| v.to_vec())));
        let numbers: Vec<u32> = numbers.collect();
        (numbers[0], numbers[1])
    });
}

#[test]
fn a_multi_get_of_two_families_shows_one_state() {
    no_schedule_shows_two_moments(|db, other| {
        // Both files come in one call; the one whose family is read first must not be missed.
        let keys: [(&ColumnFamily, &[u8]); 2] = [(other, b"a"), (db.default_column_family(), b"a")];
        let found = db.multi_get_cf_opt(&ReadOptions::default(), &keys);
        let numbers = found.into_iter().map(|v| number(v.unwrap().map(|v| v.to_vec())));
        let numbers: Vec<u32> = numbers.collect();
        assert_eq!(numbers[0], numbers[1], "the files of one call");
        (numbers[0], numbers[1])
    });
}
