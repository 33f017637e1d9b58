//! What a trace of queries has: every call once, as it was made.

use std::sync::Arc;

use pumice::trace::{TraceFilter, TraceOptions, TraceQuery, TraceWriter};
use pumice::{
    ColumnFamilyOptions, Db, Error, ErrorKind, FlushOptions, ReadOptions, WriteBatch, WriteOptions,
};
use pumice_port::sync::Mutex;
use pumice_port::thread;

use super::{TRACE, database, queries, updates, writer};

fn get(key: &[u8]) -> TraceQuery {
    TraceQuery::Get { family: 0, key: key.to_vec() }
}

#[pumice_test_macros::test]
fn every_call_is_noted_once() {
    let (db, fs) = database();
    let other = db.create_column_family(&ColumnFamilyOptions::default(), "other").unwrap();
    db.put("before", "the trace").unwrap();
    // A cursor that was made before the trace is traced, too.
    let mut early = db.cursor().unwrap();
    db.start_trace(&TraceOptions::default(), writer(&fs)).unwrap();
    db.put("a", "1").unwrap();
    db.put_cf(&other, "b", "2").unwrap();
    db.delete("a").unwrap();
    let mut batch = WriteBatch::new();
    batch.put("c", "3");
    batch.delete_range("d", "e");
    db.write(&mut batch).unwrap();
    db.get("c").unwrap();
    db.get_cf(&other, "b").unwrap();
    db.get_entity("c").unwrap();
    drop(db.multi_get_cf(&[(&other, "x"), (db.default_column_family(), "y")]));
    early.seek("k");
    early.seek_to_first();
    early.seek_to_last();
    let bounds = ReadOptions {
        iterate_lower_bound: Some(b"low".to_vec()),
        iterate_upper_bound: Some(b"up".to_vec()),
        ..ReadOptions::default()
    };
    let mut cursor = db.cursor_cf_opt(&bounds, &other).unwrap();
    cursor.seek_for_prev("m");
    // These go to the bounds.
    cursor.seek_to_first();
    cursor.seek_to_last();
    db.flush_opt(&FlushOptions::default()).unwrap();
    db.end_trace().unwrap();
    db.put("after", "the trace").unwrap();
    db.get("after").unwrap();
    early.seek("after");

    let found = queries(&fs, TRACE);
    let writes: Vec<String> = found[..4].iter().map(updates).collect();
    for (write, part) in
        writes.iter().zip(["type: Value", "column_family: 1", "type: Deletion", "RangeDeletion"])
    {
        assert!(write.contains(part), "{write}");
    }
    let seek = |family, key: &[u8], bounds: [&[u8]; 2], for_prev| TraceQuery::Seek {
        family,
        key: key.to_vec(),
        bounds: bounds.map(<[u8]>::to_vec),
        for_prev,
    };
    let id = other.id();
    let reads = [
        get(b"c"),
        TraceQuery::Get { family: id, key: b"b".to_vec() },
        get(b"c"),
        TraceQuery::MultiGet(vec![(id, b"x".to_vec()), (0, b"y".to_vec())]),
        seek(0, b"k", [b"", b""], false),
        seek(id, b"m", [b"low", b"up"], true),
        seek(id, b"low", [b"low", b"up"], false),
        seek(id, b"up", [b"low", b"up"], true),
    ];
    assert_eq!(found[4..], reads);
    db.close().unwrap();
}

#[pumice_test_macros::test]
fn filters_and_samples_leave_out() {
    let (db, fs) = database();
    let run = |options: &TraceOptions| {
        db.start_trace(options, writer(&fs)).unwrap();
        for _ in 0..10 {
            db.put("key", "value").unwrap();
            db.get("key").unwrap();
        }
        drop(db.multi_get(&["a", "b"]));
        let mut cursor = db.cursor().unwrap();
        cursor.seek("a");
        cursor.seek_for_prev("a");
        db.end_trace().unwrap();
        queries(&fs, TRACE).len()
    };
    let with = |filter| TraceOptions { filter, ..TraceOptions::default() };
    assert_eq!(run(&TraceOptions::default()), 23);
    assert_eq!(run(&with(TraceFilter::WRITE)), 13);
    assert_eq!(run(&with(TraceFilter::GET | TraceFilter::WRITE)), 3);
    assert_eq!(run(&with(TraceFilter::MULTI_GET)), 22);
    assert_eq!(run(&with(TraceFilter::ITERATOR_SEEK)), 22);
    assert_eq!(run(&with(TraceFilter::ITERATOR_SEEK_FOR_PREV)), 22);
    // What is filtered is no part of what is sampled.
    let third = TraceOptions { sampling_frequency: 3, ..with(TraceFilter::GET) };
    assert_eq!(run(&third), 13 / 3);
    assert_eq!(run(&TraceOptions { sampling_frequency: 0, ..TraceOptions::default() }), 23);
    db.close().unwrap();
}

#[pumice_test_macros::test]
fn a_full_file_takes_no_more() {
    let (db, fs) = database();
    let options = TraceOptions { max_trace_file_size: 1000, ..TraceOptions::default() };
    db.start_trace(&options, writer(&fs)).unwrap();
    (0..100).for_each(|_| db.put("key", [7; 100]).unwrap());
    db.end_trace().unwrap();
    // The record that exceeds the limit is the last but for the end.
    let found = queries(&fs, TRACE).len();
    assert!((6..9).contains(&found), "{found}");
    db.close().unwrap();
}

#[pumice_test_macros::test]
fn ends_and_replacements() {
    let (db, fs) = database();
    let error = db.end_trace().unwrap_err();
    assert_eq!((error.kind(), error.message()), (ErrorKind::IoError, "No trace file to close"));
    db.start_trace(&TraceOptions::default(), writer(&fs)).unwrap();
    db.put("first", "1").unwrap();
    let second = pumice::trace::FileTraceWriter::create(&*fs, "/second").unwrap();
    db.start_trace(&TraceOptions::default(), Box::new(second)).unwrap();
    db.put("second", "2").unwrap();
    db.end_trace().unwrap();
    assert!(db.end_trace().is_err());
    assert!(updates(&queries(&fs, TRACE)[0]).contains(&format!("{:?}", b"first")));
    assert_eq!(queries(&fs, "/second").len(), 1);
    // A database that is closed leaves a trace that can be read.
    db.start_trace(&TraceOptions::default(), writer(&fs)).unwrap();
    db.put("third", "3").unwrap();
    db.close().unwrap();
    drop(db);
    assert_eq!(queries(&fs, TRACE).len(), 1);
}

/// Threads write at once: in the trace are their writes, in the order in which they took effect.
#[pumice_test_macros::test]
fn writes_are_noted_in_their_order() {
    let (db, fs) = database();
    let options = TraceOptions { preserve_write_order: true, ..TraceOptions::default() };
    db.start_trace(&options, writer(&fs)).unwrap();
    thread::scope(|scope| {
        for number in 0..4u8 {
            let db = &db;
            drop(scope.spawn(move || {
                (0..200u8).for_each(|turn| db.put("same", [number, turn]).unwrap());
            }));
        }
    });
    db.end_trace().unwrap();
    let found = queries(&fs, TRACE);
    assert_eq!(found.len(), 800);
    let last = updates(found.last().unwrap());
    let value = db.get("same").unwrap().unwrap().to_vec();
    assert!(last.contains(&format!("{value:?}")), "{last} is not the write of {value:?}");
    db.close().unwrap();
}

/// Fails or panics at its third record.
struct Bad {
    written: Arc<Mutex<Vec<usize>>>,
    panics: bool,
}

impl TraceWriter for Bad {
    fn write(&mut self, record: &[u8]) -> Result<(), Error> {
        let written = &mut *self.written.lock();
        written.push(record.len());
        assert!(!self.panics || written.len() < 3, "a writer that panics");
        match written.len() {
            3.. => Err(Error::invalid_argument("enough")),
            _ => Ok(()),
        }
    }
    fn close(&mut self) -> Result<(), Error> {
        Ok(())
    }
    fn file_size(&self) -> u64 {
        0
    }
}

#[pumice_test_macros::test]
fn a_writer_that_fails_ends_the_trace_and_no_call() {
    let (db, _) = database();
    for panics in [false, true] {
        let written = Arc::<Mutex<Vec<usize>>>::default();
        let bad = Bad { written: Arc::clone(&written), panics };
        db.start_trace(&TraceOptions::default(), Box::new(bad)).unwrap();
        for _ in 0..10 {
            db.put_opt(&WriteOptions::default(), "key", "value").unwrap();
            db.get("key").unwrap();
        }
        let error = db.end_trace().unwrap_err();
        assert!(panics || error.message() == "enough", "{error}");
        assert_eq!(written.lock().len(), 3);
    }
    db.close().unwrap();
    let (db, _): (Db, _) = database();
    db.close().unwrap();
}
