//! `get_updates_since` and the lists of logs: what is returned, in which order, and how it ends.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use crate::common::{self, DIR, SYNC, fill, flush, let_files_go, memory, names, options};
use pumice::{
    BatchRecord, ColumnFamilyOptions, Db, ErrorKind, FileSystem, MemFs, Options, WalFileType,
    WalIterator, WriteBatch, WriteOptions,
};
use pumice_base::random::Rng;
use pumice_env::mem::{Fault, FaultOp, FaultRule};
use pumice_port::thread;

/// A database that keeps all its logs.
fn archiving(fs: &Arc<dyn FileSystem>) -> Options {
    let mut options = options(fs);
    options.db.WAL_ttl_seconds = 1_000_000;
    options.cf.max_write_buffer_number = 8;
    options
}

/// First and last sequence numbers of the batches that are there now.
fn spans(updates: &mut WalIterator) -> Vec<(u64, u64)> {
    let span = |item: pumice::Result<(u64, WriteBatch)>| {
        let (sequence, batch) = item.unwrap();
        (sequence, sequence + u64::from(batch.count()) - 1)
    };
    updates.map(span).collect()
}

fn since(db: &Db, sequence: u64) -> Vec<(u64, u64)> {
    let mut updates = db.get_updates_since(sequence).unwrap();
    let found = spans(&mut updates);
    updates.status().unwrap();
    found
}

/// The error that ends the iteration, with the number of batches before it.
fn ended(updates: &mut WalIterator) -> (usize, String, ErrorKind) {
    let mut batches = 0;
    loop {
        match updates.next().unwrap() {
            Ok(_) => batches += 1,
            Err(error) => {
                assert!(updates.next().is_none(), "an error is the end");
                assert_eq!(updates.status().unwrap_err().to_string(), error.to_string());
                return (batches, error.to_string(), error.kind());
            }
        }
    }
}

#[pumice_test_macros::test]
fn batches_come_with_their_numbers_and_the_tail_goes_on() {
    let (_, fs) = memory();
    let db = Db::open(&options(&fs), DIR).unwrap();
    assert_eq!(since(&db, 0), []);
    let error = db.get_updates_since(1).unwrap_err();
    assert_eq!(error.to_string(), "NotFound: Requested sequence not yet written in the db");
    db.put("a", "1").unwrap();
    let mut batch = WriteBatch::new();
    (0..3u8).for_each(|n| batch.put([n], "v"));
    db.write(&mut batch).unwrap();
    db.delete("a").unwrap();
    assert_eq!(since(&db, 0), [(1, 1), (2, 4), (5, 5)]);
    // From inside a batch it is the whole batch.
    for inside in 2..5 {
        assert_eq!(since(&db, inside), [(2, 4), (5, 5)]);
    }
    let mut tail = db.get_updates_since(5).unwrap();
    let (sequence, batch) = tail.next().unwrap().unwrap();
    let records: Vec<BatchRecord<'_>> = batch.iter().map(|record| record.unwrap()).collect();
    assert!(matches!(records[..], [BatchRecord::Entry { key: b"a", value: b"", .. }]));
    assert_eq!(sequence, 5);
    for next in 6..20 {
        assert!(tail.next().is_none() && tail.next().is_none());
        db.put("more", vec![b'x'; 20_000]).unwrap();
        assert_eq!(spans(&mut tail), [(next, next)]);
    }
    // From nothing on, too.
    let empty = Db::open(&options(&MemFs::new(3).shared()), DIR).unwrap();
    let mut first = empty.get_updates_since(0).unwrap();
    assert!(first.next().is_none());
    empty.put("first", "1").unwrap();
    assert_eq!(spans(&mut first), [(1, 1)]);
}

#[pumice_test_macros::test]
fn logs_follow_each_other() {
    let (_, fs) = memory();
    let db = Db::open(&archiving(&fs), DIR).unwrap();
    let other = db.create_column_family(&ColumnFamilyOptions::default(), "other").unwrap();
    for n in 1..=6u64 {
        db.put_cf(&other, n.to_be_bytes(), "v").unwrap();
        db.flush().unwrap();
        db.flush_cfs(&[&other]).unwrap();
    }
    db.drop_column_family(&other).unwrap();
    for first in 0..=6 {
        let expected: Vec<(u64, u64)> = (first.max(1)..=6).map(|n| (n, n)).collect();
        assert_eq!(since(&db, first), expected, "from {first}");
    }
    // The list of an iterator ends with the log that is written when it is made.
    let mut updates = db.get_updates_since(6).unwrap();
    db.put("new", "1").unwrap();
    assert_eq!(spans(&mut updates), [(6, 6), (7, 7)]);
    db.flush().unwrap();
    assert_eq!(spans(&mut updates), []);
    db.put("newer", "2").unwrap();
    let text = "Operation failed. Try again.: Create a new iterator to fetch the new tail.";
    assert_eq!(ended(&mut updates), (0, text.to_string(), ErrorKind::TryAgain));
    assert_eq!(since(&db, 8), [(8, 8)]);
}

#[pumice_test_macros::test]
fn what_no_log_has_is_a_gap() {
    let (_, fs) = memory();
    let db = Db::open(&options(&fs), DIR).unwrap();
    let unlogged = WriteOptions { disable_wal: true, ..WriteOptions::default() };
    db.put("a", "1").unwrap();
    db.put_opt(&unlogged, "b", "2").unwrap();
    let mut updates = db.get_updates_since(1).unwrap();
    let (batches, text, kind) = ended(&mut updates);
    assert_eq!((batches, kind), (1, ErrorKind::TryAgain), "{text}");
    db.put("c", "3").unwrap();
    let mut updates = db.get_updates_since(1).unwrap();
    let gap = "NotFound: Gap in sequence numbers".to_string();
    assert_eq!(ended(&mut updates), (1, gap, ErrorKind::NotFound));
    assert_eq!(since(&db, 2), [(3, 3)], "the first batch has no predecessor");
    // Once its log is deleted a write is missing at the beginning.
    db.flush().unwrap();
    let_files_go(&db);
    assert_eq!(since(&db, 3), []);
    db.put("d", "4").unwrap();
    assert_eq!(since(&db, 1), [(4, 4)]);
}

/// Annotations are returned and take no number; Pumice's own records are not returned.
#[pumice_test_macros::test]
fn annotations_are_given() {
    let (_, fs) = memory();
    let db = Db::open(&archiving(&fs), DIR).unwrap();
    for round in 0..3u8 {
        let mut batch = WriteBatch::new();
        batch.put([round], "v");
        batch.put_log_data(b"beside it");
        db.write(&mut batch).unwrap();
        let mut alone = WriteBatch::new();
        alone.put_log_data(b"alone");
        db.write(&mut alone).unwrap();
        db.flush().unwrap(); // The next log begins with a record about this one.
    }
    db.put("last", "v").unwrap();
    let mut updates = db.get_updates_since(0).unwrap();
    let notes: Vec<String> = (&mut updates)
        .map(|item| {
            let (sequence, batch) = item.unwrap();
            let note = batch.iter().find_map(|record| match record.unwrap() {
                BatchRecord::LogData(blob) => Some(String::from_utf8_lossy(blob).into_owned()),
                _ => None,
            });
            format!("{sequence}+{} {}", batch.count(), note.unwrap_or_default())
        })
        .collect();
    updates.status().unwrap();
    let expected = [
        "1+1 beside it",
        "2+0 alone",
        "2+1 beside it",
        "3+0 alone",
        "3+1 beside it",
        "4+0 alone",
        "4+1 ",
    ];
    assert_eq!(notes, expected);
}

/// With `manual_wal_flush` unflushed data is not there yet, which is not an error.
#[pumice_test_macros::test]
fn unflushed_writes_come_when_they_are_flushed() {
    let (_, fs) = memory();
    let mut options = archiving(&fs);
    options.db.manual_wal_flush = true;
    options.cf.write_buffer_size = 8 << 20;
    let db = Db::open(&options, DIR).unwrap();
    db.put("a", "1").unwrap();
    let mut updates = db.get_updates_since(0).unwrap();
    assert_eq!(spans(&mut updates), []);
    updates.status().unwrap();
    db.flush_wal(false).unwrap();
    assert_eq!(spans(&mut updates), [(1, 1)]);
    // A part of a record has reached the file.
    db.put("b", vec![b'x'; 1_500_000]).unwrap();
    db.put("c", "3").unwrap();
    assert!(spans(&mut updates).len() < 2);
    updates.status().unwrap();
    db.flush_wal(false).unwrap();
    let rest = spans(&mut updates);
    assert_eq!(rest.last(), Some(&(3, 3)));
    // A log that is complete has reached its file.
    db.put("d", "4").unwrap();
    db.flush().unwrap();
    assert_eq!(spans(&mut updates), [(4, 4)]);
    db.put("e", "5").unwrap();
    assert_eq!(ended(&mut updates).2, ErrorKind::TryAgain);
}

/// A log that was in its place when the iterator was made is found in the archive.
#[pumice_test_macros::test]
fn a_log_that_moves_is_found() {
    let (_, fs) = memory();
    let db = Db::open(&archiving(&fs), DIR).unwrap();
    db.pause_background_work();
    let flush = pumice::FlushOptions {
        wait: false,
        allow_write_stall: true,
        ..pumice::FlushOptions::default()
    };
    for n in 0..2u8 {
        db.put([n], "v").unwrap();
        db.flush_opt(&flush).unwrap();
    }
    let mut updates = db.get_updates_since(0).unwrap();
    let alive = db.wal_files().unwrap();
    assert!(alive.iter().all(|file| file.file_type == WalFileType::Alive));
    db.continue_background_work().unwrap();
    db.flush().unwrap();
    db.wait_for_compact(&Default::default()).unwrap();
    let_files_go(&db);
    let moved = db.wal_files().unwrap();
    assert!(moved.iter().all(|file| file.file_type == WalFileType::Archived), "{moved:?}");
    assert_eq!(spans(&mut updates), [(1, 1), (2, 2)]);
    updates.status().unwrap();
    // Gone from both places.
    db.put("third", "v").unwrap();
    let mut updates = db.get_updates_since(1).unwrap();
    for file in &moved[1..] {
        fs.remove(Path::new(&format!("{DIR}{}", file.path_name))).unwrap();
    }
    let (batches, text, _) = ended(&mut updates);
    assert_eq!(batches, 1);
    assert!(text.contains(".log"), "{text}");
}

#[pumice_test_macros::test]
fn logs_are_listed() {
    let (_, fs) = memory();
    let db = Db::open(&archiving(&fs), DIR).unwrap();
    let current = db.current_wal_file().unwrap();
    assert_eq!((current.size_file_bytes, current.start_sequence), (0, 0));
    assert_eq!(db.wal_files().unwrap(), [], "a log without a record is none");
    fill(&db, 0..10, "value");
    flush(&db);
    let_files_go(&db);
    fill(&db, 10..15, "value");
    let list = db.wal_files().unwrap();
    let [old, new] = &list[..] else { panic!("{list:?}") };
    assert_eq!((old.file_type, old.start_sequence), (WalFileType::Archived, 1));
    assert_eq!((new.file_type, new.start_sequence), (WalFileType::Alive, 11));
    assert_eq!(old.path_name, format!("/archive/{:06}.log", old.log_number));
    assert_eq!(new.path_name, format!("/{:06}.log", new.log_number));
    for file in [old, new] {
        let path = format!("{DIR}{}", file.path_name);
        assert_eq!(fs.file_size(Path::new(&path)).unwrap(), file.size_file_bytes);
    }
    let current = db.current_wal_file().unwrap();
    assert_eq!((&current.path_name, current.file_type), (&new.path_name, WalFileType::Alive));
    db.close().unwrap();
    let families = [pumice::ColumnFamilyDescriptor::new("default", archiving(&fs).cf)];
    let (reader, _) = Db::open_read_only(&archiving(&fs).db, DIR, &families, false).unwrap();
    assert_eq!(reader.wal_files().unwrap(), list);
    assert!(reader.current_wal_file().unwrap_err().is_not_found());
    assert_eq!(since(&reader, 15), [(15, 15)]);
}

/// A write that was refused is in the failed log, and others have its numbers.
#[pumice_test_macros::test]
fn a_refused_write_is_not_given() {
    let (fs, shared) = memory();
    let mut options = archiving(&shared);
    options.db.max_bgerror_resume_count = 0;
    let db = Db::open(&options, DIR).unwrap();
    db.put("before", "1").unwrap();
    let mut early = db.get_updates_since(0).unwrap();
    assert_eq!(spans(&mut early), [(1, 1)]);
    fs.add_fault(FaultRule::once(FaultOp::Sync, "*.log", 0, Fault::Eio));
    db.put_opt(&SYNC, b"refused", b"2").unwrap_err();
    assert_eq!(spans(&mut early), []);
    fs.clear_faults();
    db.resume().unwrap();
    db.put("after", "3").unwrap();
    assert_eq!(ended(&mut early).2, ErrorKind::TryAgain);
    let keys = |db: &Db| -> Vec<Vec<u8>> {
        let batches = db.get_updates_since(0).unwrap().map(|item| item.unwrap().1);
        let first = |batch: WriteBatch| match batch.iter().next() {
            Some(Ok(BatchRecord::Entry { key, .. })) => key.to_vec(),
            other => panic!("{other:?}"),
        };
        batches.map(first).collect()
    };
    assert_eq!(keys(&db), [b"before".to_vec(), b"after".to_vec()]);
    db.close().unwrap();
    let db = Db::open(&options, DIR).unwrap();
    assert_eq!(keys(&db), [b"before".to_vec(), b"after".to_vec()]);
}

/// Records that recovery did not apply are not returned, neither after the damage nor from a later
/// log.
#[pumice_test_macros::test]
fn what_recovery_passed_over_is_not_given() {
    let (fs, shared) = memory();
    let options = archiving(&shared);
    let db = Db::open(&options, DIR).unwrap();
    db.pause_background_work();
    for log in 0..3 {
        fill(&db, log * 10..log * 10 + 10, "value");
        db.flush_opt(&pumice::FlushOptions {
            wait: false,
            allow_write_stall: true,
            ..pumice::FlushOptions::default()
        })
        .unwrap();
    }
    let fs = fs.crashed_copy(1, pumice_env::mem::CrashMode::PROCESS);
    db.continue_background_work().unwrap();
    let shared = fs.shared();
    let mut logs = names(&shared, DIR);
    logs.retain(|name| name.ends_with(".log"));
    let second = Path::new(DIR).join(&logs[1]);
    let middle = fs.file_size(&second).unwrap() as usize / 2;
    fs.damage(&second, |bytes| bytes[middle] ^= 1).unwrap();
    let options = archiving(&shared);
    let mut last = 0;
    // The second open finds no write of the first.
    for open in 0..3 {
        let db = Db::open(&options, DIR).unwrap();
        if open == 0 {
            last = db.latest_sequence_number();
            assert!((10..20).contains(&last), "{last}");
        }
        let expected: Vec<(u64, u64)> = (1..=last).map(|n| (n, n)).collect();
        assert_eq!(since(&db, 0), expected, "open {open}");
        if open > 0 {
            let mut tail = db.get_updates_since(last).unwrap();
            fill(&db, 0..15, "later");
            assert_eq!(spans(&mut tail).last(), Some(&(last + 15, last + 15)), "open {open}");
            tail.status().unwrap();
            last += 15;
        }
        db.close().unwrap();
    }
}

/// Applies the updates after `last` to `copy`, and returns the new last number.
fn follow(db: &Db, last: u64, copy: &mut BTreeMap<Vec<u8>, Vec<u8>>) -> u64 {
    let mut last = last;
    let Ok(updates) = db.get_updates_since(last + 1) else { return last };
    for item in updates {
        let Ok((sequence, batch)) = item else { break };
        assert_eq!(sequence, last + 1, "none is missing, none comes twice");
        for record in batch.iter() {
            match record.unwrap() {
                BatchRecord::Entry { key, value: [], .. } => drop(copy.remove(key)),
                BatchRecord::Entry { key, value, .. } => {
                    copy.insert(key.to_vec(), value.to_vec());
                }
                _ => {}
            }
        }
        last += u64::from(batch.count());
        assert!(last <= db.latest_sequence_number(), "nothing comes before it is published");
    }
    last
}

/// Several writers, flushes that switch and archive logs, and a follower.
#[pumice_test_macros::test]
fn a_follower_has_the_same_as_the_database() {
    let (_, fs) = memory();
    let mut options = archiving(&fs);
    options.cf.write_buffer_size = 64 << 10;
    let db = Db::open(&options, DIR).unwrap();
    let writers: Vec<_> = (0..3u64)
        .map(|writer| {
            let db = db.clone();
            let write = move || {
                let mut rng = Rng::new(writer);
                for _ in 0..400 {
                    let mut batch = WriteBatch::new();
                    for _ in 0..1 + rng.uniform(3) {
                        let key = rng.uniform(50).to_be_bytes();
                        if rng.one_in(4) {
                            batch.delete(key);
                        } else {
                            let bytes = 1 + rng.uniform(600) as usize;
                            batch.put(key, rng.bytes(bytes));
                        }
                    }
                    db.write(&mut batch).unwrap();
                    if rng.one_in(100) {
                        db.flush().unwrap();
                    }
                }
            };
            thread::spawn("writer", write)
        })
        .collect();
    let (mut last, mut copy) = (0, BTreeMap::new());
    for _ in 0..200 {
        last = follow(&db, last, &mut copy);
        thread::yield_now();
    }
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    while last < db.latest_sequence_number() {
        last = follow(&db, last, &mut copy);
    }
    let all: BTreeMap<Vec<u8>, Vec<u8>> = common::contents(&db).into_iter().collect();
    assert!(copy == all, "{} keys here and {} there", copy.len(), all.len());
    assert!(db.wal_files().unwrap().len() > 2);
}
