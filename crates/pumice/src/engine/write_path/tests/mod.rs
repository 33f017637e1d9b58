//! Buffers that are given back, logs that do not depend on the form of a call, and checked
//! writes.
#![allow(clippy::unwrap_used)]
use std::sync::Arc;

use pumice_base::ErrorKind;
use pumice_port::sim;
use pumice_port::sync::Mutex;

use super::*;
use crate::{Db, FileSystem, MemFs, Options};

pub(super) mod protected;

/// A large update does not keep its memory for as long as the database is open.
#[pumice_test_macros::test]
fn the_buffer_of_a_large_update_is_given_back() {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.file_system = MemFs::new(1).shared();
    let db = Db::open(&options, "/db").unwrap();
    let kept = || {
        let mut scratch = db.inner().writes.scratch.lock();
        let rep = scratch.take_rep();
        let bytes = rep.capacity();
        scratch.restore(rep);
        bytes
    };
    db.delete_opt(&WriteOptions::default(), [1; 1000]).unwrap();
    assert!((1000..4096).contains(&kept()), "the usual one stays: {}", kept());
    db.delete_opt(&WriteOptions::default(), &vec![1; 1 << 20]).unwrap();
    assert!(kept() <= SCRATCH_BYTES_KEPT);
    db.put_opt(&WriteOptions::default(), b"k", b"v").unwrap();
    db.close().unwrap();
}

/// A put, whose value is not copied, leaves the log that a batch would.
#[pumice_test_macros::test]
fn puts_are_logged_as_batches_are() {
    let log_of = |in_batches: bool| {
        let fs = MemFs::new(1).shared();
        let mut options = Options::default();
        options.db.create_if_missing = true;
        options.db.file_system = Arc::clone(&fs);
        let db = Db::open(&options, "/db").unwrap();
        let cf = db.create_column_family(&options.cf, "other").unwrap();
        let write = WriteOptions::default();
        let sizes = [0, 1, 127, 128, 4096, 32 << 10, 100_000, 3 << 20];
        for (i, bytes) in sizes.into_iter().enumerate() {
            let (key, value) = (format!("key{i}").into_bytes(), vec![i as u8; bytes]);
            let mut batch = WriteBatch::new();
            if in_batches {
                batch.put(&key, &value);
                db.write_opt(&write, &mut batch).unwrap();
                batch.clear();
                batch.put_cf(cf.id(), &key, &value);
                db.write_opt(&write, &mut batch).unwrap();
            } else {
                db.put_opt(&write, &key, &value).unwrap();
                db.put_cf_opt(&write, &cf, &key, &value).unwrap();
            }
            assert_eq!(db.get_opt(&Default::default(), &key).unwrap().as_deref(), Some(&*value));
            let read = db.get_cf_opt(&Default::default(), &cf, &key).unwrap();
            assert_eq!(read.as_deref(), Some(&*value));
        }
        let names = fs.list("/db".as_ref()).unwrap();
        let log = names.iter().filter(|name| name.ends_with(".log")).max().unwrap().clone();
        let bytes = fs.read_file(format!("/db/{log}").as_ref()).unwrap();
        db.close().unwrap();
        bytes
    };
    let log = log_of(false);
    assert!(log.len() > 6 << 20);
    assert!(log == log_of(true), "the logs differ");
}

fn counter(db: &Db) -> u64 {
    let value = db.get("counter").unwrap();
    value.map_or(0, |value| String::from_utf8(value.to_vec()).unwrap().parse().unwrap())
}

fn open(fs: &Arc<dyn FileSystem>) -> Db {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.file_system = Arc::clone(fs);
    Db::open(&options, "/db").unwrap()
}

/// Adds one to the counter unless anything is written meanwhile; returns whether it did.
fn add_one(db: &Db) -> bool {
    let seen = db.latest_sequence_number();
    let mut batch = WriteBatch::new();
    batch.put("counter", (counter(db) + 1).to_string());
    let unchanged = || match db.latest_sequence_number() == seen {
        true => Ok(()),
        false => Err(Error::busy("")),
    };
    match db.inner().write_checked(&WriteOptions::default(), &mut batch, &unchanged) {
        Ok(()) => true,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
            assert_eq!(batch.count(), 1, "the caller keeps its batch");
            false
        }
    }
}

/// A check that allows a write is still true when the write is applied, and one that does not costs
/// no other writer anything.
#[test] // Plain: a simulation is a runtime of its own.
fn nothing_is_written_between_a_check_and_its_write() {
    let (mut added, mut refused) = (0, 0);
    for seed in 0..20 {
        let sums = Mutex::new((0, 0));
        let (report, outcome) = sim::run(&sim::Options::new(seed), || {
            let fs = MemFs::new(seed).shared();
            let db = open(&fs);
            thread::scope(|scope| {
                for writer in 0..3u64 {
                    let (db, sums) = (&db, &sums);
                    scope.spawn(move || {
                        for n in 0..10u64 {
                            let added = add_one(db);
                            let mut sums = sums.lock();
                            *if added { &mut sums.0 } else { &mut sums.1 } += 1;
                            drop(sums);
                            if n % 4 == writer {
                                db.put(format!("other{writer}"), n.to_string()).unwrap();
                            }
                        }
                    });
                }
            });
            let (added, _) = *sums.lock();
            assert_eq!(counter(&db), added);
            let written = db.latest_sequence_number();
            db.close().unwrap();
            let db = open(&fs);
            assert_eq!((counter(&db), db.latest_sequence_number()), (added, written));
        });
        assert!(outcome.is_ok(), "seed {seed}: {outcome:?} {:?}", report.stuck);
        let sums = sums.into_inner();
        (added, refused) = (added + sums.0, refused + sums.1);
    }
    println!("{added} added, {refused} refused");
    assert!(added > 0 && refused > 0, "{added} added, {refused} refused");
}

#[pumice_test_macros::test]
fn a_refused_write_leaves_nothing_behind() {
    let fs = MemFs::new(1).shared();
    let db = open(&fs);
    db.put("a", "1").unwrap();
    let log = || {
        let names = fs.list("/db".as_ref()).unwrap();
        let log = names.into_iter().filter(|name| name.ends_with(".log")).max().unwrap();
        fs.read_file(format!("/db/{log}").as_ref()).unwrap()
    };
    let (logged, written) = (log(), db.latest_sequence_number());
    let mut batch = WriteBatch::new();
    batch.put("a", "2");
    let options = WriteOptions::default();
    let refused = db.inner().write_checked(&options, &mut batch, &|| Err(Error::busy("taken")));
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Busy);
    let panicked = db.inner().write_checked(&options, &mut batch, &|| panic!("on purpose"));
    assert!(panicked.unwrap_err().to_string().contains("on purpose"));
    assert!(log() == logged);
    assert_eq!(db.latest_sequence_number(), written);
    assert_eq!(db.get("a").unwrap().as_deref(), Some(&b"1"[..]));
    db.inner().write_checked(&options, &mut batch, &|| Ok(())).unwrap();
    db.put("b", "3").unwrap();
    assert_eq!(db.get("a").unwrap().as_deref(), Some(&b"2"[..]));
    assert_eq!(db.latest_sequence_number(), written + 2);
    db.close().unwrap();
}
