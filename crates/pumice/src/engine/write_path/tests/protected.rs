//! Tests: updates that change in a batch's memory are not written, if the batch is protected.
#![allow(clippy::unwrap_used)]
use std::sync::Arc;

use pumice_base::ErrorKind;
use pumice_port::sim;
use pumice_port::sync::Mutex;

use crate::engine::two_phase;
use crate::engine::write_path::*;
use crate::{Db, FileSystem, MemFs, Options};

const MISMATCH: &str = "Corruption: ProtectionInfo mismatch";
/// A batch that ends with this changes after it was logged, see [`change_what_is_logged`].
const CHANGES: &[u8] = b"changes once it is logged";

/// The seam of `write_group` for tests: the last bit of a batch flips between log and memtable.
pub(in crate::engine::write_path) fn change_what_is_logged(rep: &mut [u8]) {
    if rep.ends_with(CHANGES)
        && let Some(last) = rep.last_mut()
    {
        *last ^= 1;
    }
}

fn open(fs: &Arc<dyn FileSystem>) -> Db {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.file_system = Arc::clone(fs);
    options.cf.set("merge_operator", "stringappend").unwrap();
    Db::open(&options, "/db").unwrap()
}

fn log_of(fs: &Arc<dyn FileSystem>) -> Vec<u8> {
    let names = fs.list("/db".as_ref()).unwrap();
    let log = names.into_iter().filter(|name| name.ends_with(".log")).max().unwrap();
    fs.read_file(format!("/db/{log}").as_ref()).unwrap()
}

fn flip(batch: &mut WriteBatch, byte: usize) {
    let mut rep = batch.take_rep();
    rep[byte] ^= 1;
    batch.restore(rep);
}

type Fill = fn(&mut WriteBatch);
type Write = fn(&Db, &WriteOptions, &mut WriteBatch) -> Result<()>;

/// Ways to write a batch, each of which is refused without its last update.
const WAYS: [(&str, Fill, Write); 5] = [
    ("plain", |_| {}, |db, options, batch| db.write_opt(options, batch)),
    ("checked", |_| {}, |db, options, batch| db.inner().write_checked(options, batch, &|| Ok(()))),
    (
        "prepared",
        |_| {},
        |db, options, batch| two_phase::prepare(db.inner(), options, b"name", batch).map(drop),
    ),
    (
        "partly logged",
        |batch| batch.mark_wal_termination_point(),
        |db, options, batch| db.write_opt(options, batch),
    ),
    (
        "of unknown families",
        |batch| batch.put_cf(77, "u", "v"),
        |db, options, batch| {
            let options = WriteOptions { ignore_missing_column_families: true, ..*options };
            db.write_opt(&options, batch)
        },
    ),
];

#[pumice_test_macros::test]
fn what_changed_in_a_batch_is_not_written() {
    for ((name, fill, write), disable_wal) in WAYS.into_iter().flat_map(|w| [(w, false), (w, true)])
    {
        let fs = MemFs::new(1).shared();
        let db = open(&fs);
        db.put("before", "1").unwrap();
        let options = WriteOptions { disable_wal, ..WriteOptions::default() };
        let filled = |protect: bool| {
            let mut batch = WriteBatch::new();
            if protect {
                batch.protect();
            }
            batch.put("first", "1");
            fill(&mut batch);
            batch.put("last", "value");
            batch
        };
        let (logged, latest) = (log_of(&fs), db.latest_sequence_number());
        let bytes = filled(false).data_bytes();
        // A bit of the last value, of the first kind, and of the count.
        for byte in [bytes - 1, batch::HEADER_LEN, 8] {
            let mut batch = filled(true);
            flip(&mut batch, byte);
            let refused = write(&db, &options, &mut batch).unwrap_err();
            assert!(refused.is_corruption(), "{name}, {byte}: {refused}");
            if byte == bytes - 1 {
                assert_eq!(refused.to_string(), MISMATCH, "{name}");
            }
            assert!(log_of(&fs) == logged, "{name}, {byte}");
            assert_eq!(db.latest_sequence_number(), latest, "{name}, {byte}");
        }
        assert!(db.get("first").unwrap().is_none() && db.get("last").unwrap().is_none(), "{name}");
        write(&db, &options, &mut filled(true)).unwrap();
        db.put("after", "1").unwrap();
        // Without checksums the same change is written.
        let mut batch = filled(false);
        flip(&mut batch, bytes - 1);
        if name != "prepared" {
            assert_eq!(db.get("last").unwrap().as_deref(), Some(&b"value"[..]), "{name}");
            write(&db, &options, &mut batch).unwrap();
            assert_eq!(db.get("last").unwrap().as_deref(), Some(&b"valud"[..]), "{name}");
        }
        drop(db);
    }
}

/// A family that a flip made unknown is no mistake of the caller's.
#[pumice_test_macros::test]
fn a_changed_family_is_corruption() {
    let fs = MemFs::new(1).shared();
    let db = open(&fs);
    let cf = db.create_column_family(&Default::default(), "other").unwrap();
    let written = |protect: bool| {
        let mut batch = WriteBatch::new();
        if protect {
            batch.protect();
        }
        batch.put_cf(&cf, "key", "value");
        let mut rep = batch.take_rep();
        rep[batch::HEADER_LEN + 1] ^= 64;
        batch.restore(rep);
        db.write(&mut batch).unwrap_err()
    };
    assert_eq!(written(true).to_string(), MISMATCH);
    assert_eq!(written(false).kind(), ErrorKind::InvalidArgument);
    db.close().unwrap();
}

/// One that changes when it is in the log already stops the database, whose next open reads the
/// log; without checksums the memtable gets something else than the log.
#[pumice_test_macros::test]
fn what_changes_behind_the_log_does_not_get_into_the_memtable() {
    for protection_bytes_per_key in [8, 0] {
        let fs = MemFs::new(1).shared();
        let db = open(&fs);
        let options = WriteOptions { protection_bytes_per_key, ..WriteOptions::default() };
        let mut batch = WriteBatch::new();
        batch.put("first", "1");
        batch.put("last", CHANGES);
        let written = db.write_opt(&options, &mut batch);
        let read = db.get("last").unwrap();
        if protection_bytes_per_key == 8 {
            assert_eq!(written.unwrap_err().to_string(), MISMATCH);
            assert!(read.is_none() && db.get("first").unwrap().is_none());
            db.put("next", "1").unwrap_err();
        } else {
            written.unwrap();
            assert!(read.is_some_and(|value| *value != *CHANGES));
        }
        drop(db);
        let db = open(&fs);
        assert_eq!(db.get("last").unwrap().as_deref(), Some(CHANGES));
        db.close().unwrap();
    }
}

/// With the option the log is the same, and other sizes than RocksDB's are refused in its words.
#[pumice_test_macros::test]
fn single_updates_are_protected_too() {
    let log_with = |protection_bytes_per_key: u8| {
        let fs = MemFs::new(1).shared();
        let db = open(&fs);
        let options = WriteOptions { protection_bytes_per_key, ..WriteOptions::default() };
        let low = WriteOptions { low_pri: true, ..options };
        let cf = db.default_column_family();
        let results = [
            db.put_opt(&options, "a", "1"),
            db.put_opt(&low, "b", "2"),
            db.merge_cf_opt(&options, cf, "a", "3"),
            db.delete_opt(&options, "b"),
            db.single_delete_cf_opt(&options, cf, "b"),
            db.delete_range_cf_opt(&options, cf, "c", "d"),
            db.put_entity_opt(&options, "e", [("column", "4")]),
        ];
        let read = db.get("a").unwrap();
        db.close().unwrap();
        (results, read, log_of(&fs))
    };
    let ((plain, read, log), (same, same_read, same_log)) = (log_with(0), log_with(8));
    for result in plain.into_iter().chain(same) {
        result.unwrap();
    }
    assert_eq!(read.as_deref(), Some(&b"1,3"[..]));
    assert!(read.as_deref() == same_read.as_deref() && log == same_log);
    for bytes in [1, 4, 7, 9, 255] {
        for result in log_with(bytes).0 {
            let text =
                "Not implemented: WriteBatch protection info must be zero or eight bytes/key";
            assert_eq!(result.unwrap_err().to_string(), text);
        }
    }
}

/// Protected writers and others at once, of whom some write changed batches: each write is whole
/// and as it was meant, or fails and is not there; writers without checksums never fail.
#[test] // Plain: a simulation is a runtime of its own.
fn groups_are_protected_or_not() {
    let (mut failed, mut grouped) = (0, 0);
    for seed in 0..20 {
        let counts = Mutex::new((0, 0));
        let (report, outcome) = sim::run(&sim::Options::new(seed), || {
            let db = open(&MemFs::new(seed).shared());
            let written = Mutex::new(Vec::new());
            thread::scope(|scope| {
                for writer in 0..6u64 {
                    let (db, written) = (&db, &written);
                    scope.spawn(move || {
                        for n in 0..8u64 {
                            let (protects, changes) = (writer < 4, writer == 0 && n % 3 == 1);
                            let mut batch = WriteBatch::new();
                            if protects {
                                batch.protect();
                            }
                            let keys = [0, 1].map(|key| format!("{writer}/{n}/{key}"));
                            keys.iter().for_each(|key| batch.put(key, "value"));
                            if changes {
                                flip(&mut batch, batch::HEADER_LEN + 3);
                            }
                            let result = db.write(&mut batch);
                            assert!(!changes || result.is_err());
                            assert!(protects || result.is_ok());
                            written.lock().push((keys, result, changes));
                        }
                    });
                }
            });
            let mut counts = counts.lock();
            for (keys, result, changed) in written.into_inner() {
                let read = keys.map(|key| db.get(key).unwrap());
                match result {
                    Ok(()) => assert!(read.iter().all(|value| value.as_deref() == Some(b"value"))),
                    Err(error) => {
                        assert_eq!(error.to_string(), MISMATCH);
                        assert!(read.iter().all(Option::is_none));
                        counts.0 += 1;
                        counts.1 += usize::from(!changed);
                    }
                }
            }
            db.close().unwrap();
        });
        assert!(outcome.is_ok(), "seed {seed}: {outcome:?} {:?}", report.stuck);
        let counts = counts.into_inner();
        (failed, grouped) = (failed + counts.0, grouped + counts.1);
    }
    println!("{failed} failed, {grouped} of them for another writer's batch");
    assert!(failed > 0 && grouped > 0, "{failed} failed, {grouped} for another's");
}
