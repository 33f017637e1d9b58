//! Writers of traces that call their database, panic or fail; traces that are on when another one
//! begins, or the database is closed; what `Db::options` shows.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use pumice::trace::{TraceFilter, TraceOptions, TraceQuery, TraceWriter};
use pumice::{Db, Error, ErrorKind, Result};
use pumice_port::sync::Mutex;

use super::{TRACE, database, files, queries, writer};

/// Calls its database with every record.
struct Caller {
    db: Arc<Db>,
    got: Arc<Mutex<Vec<Error>>>,
}

impl TraceWriter for Caller {
    fn write(&mut self, _: &[u8]) -> Result<()> {
        drop(self.db.get("a"));
        self.got.lock().push(self.db.put("a", "b").unwrap_err());
        Ok(())
    }
    fn close(&mut self) -> Result<()> {
        self.got.lock().push(self.db.put("a", "b").unwrap_err());
        Ok(())
    }
    fn file_size(&self) -> u64 {
        drop(self.db.get("a"));
        0
    }
}

#[pumice_test_macros::test]
fn a_writer_that_calls_its_database_does_not_hang() {
    let (db, _) = database();
    let db = Arc::new(db);
    let got = Arc::new(Mutex::new(Vec::new()));
    let caller = || Box::new(Caller { db: Arc::clone(&db), got: Arc::clone(&got) });
    db.start_trace(&TraceOptions::default(), caller()).unwrap();
    db.start_io_trace(&TraceOptions::default(), caller()).unwrap();
    db.start_block_cache_trace(&Default::default(), caller()).unwrap();
    db.put("a", "1").unwrap();
    db.flush().unwrap();
    assert_eq!(db.get("a").unwrap().as_deref(), Some(&b"1"[..]));
    db.end_trace().unwrap();
    db.end_io_trace().unwrap();
    db.end_block_cache_trace().unwrap();
    let got = got.lock();
    assert!(got.len() > 10 && got.iter().all(|error| error.kind() == ErrorKind::Aborted));
    db.close().unwrap();
}

/// Panics when it is asked for its size, and fails when it is closed.
struct Broken;

impl TraceWriter for Broken {
    fn write(&mut self, _: &[u8]) -> Result<()> {
        Ok(())
    }
    fn close(&mut self) -> Result<()> {
        Err(Error::io_message("not closed"))
    }
    fn file_size(&self) -> u64 {
        panic!("no size")
    }
}

impl Drop for Broken {
    fn drop(&mut self) {
        panic!("not dropped");
    }
}

#[pumice_test_macros::test]
fn a_writer_that_panics_ends_its_trace() {
    let (db, _) = database();
    db.start_trace(&TraceOptions::default(), Box::new(Broken)).unwrap();
    db.put("a", "1").unwrap();
    db.put("a", "2").unwrap();
    assert_eq!(db.get("a").unwrap().as_deref(), Some(&b"2"[..]));
    assert!(db.end_trace().unwrap_err().message().contains("no size"));
    db.put("a", "3").unwrap();
    db.close().unwrap();
}

/// The new trace has its own settings, however the one before it ends.
#[pumice_test_macros::test]
fn a_trace_replaces_one_that_fails() {
    let (db, fs) = database();
    let all_but = |filter| TraceOptions { filter, ..TraceOptions::default() };
    db.start_trace(&all_but(TraceFilter::WRITE), Box::new(Broken)).unwrap();
    db.start_trace(&all_but(TraceFilter::GET), writer(&fs)).unwrap();
    db.put("a", "1").unwrap();
    db.get("a").unwrap();
    db.end_trace().unwrap();
    let found = queries(&fs, TRACE);
    assert!(matches!(found[..], [TraceQuery::Write(_)]), "{found:?}");
    db.close().unwrap();
}

/// Tells of its end.
struct Ends(Arc<AtomicBool>);

impl TraceWriter for Ends {
    fn write(&mut self, _: &[u8]) -> Result<()> {
        Ok(())
    }
    fn close(&mut self) -> Result<()> {
        self.0.store(true, SeqCst);
        Ok(())
    }
    fn file_size(&self) -> u64 {
        0
    }
}

#[pumice_test_macros::test]
fn a_close_ends_traces() {
    let (db, _) = database();
    let ended: Vec<_> = (0..3).map(|_| Arc::new(AtomicBool::new(false))).collect();
    let writer = |which: usize| Box::new(Ends(Arc::clone(&ended[which])));
    db.start_trace(&TraceOptions::default(), writer(0)).unwrap();
    db.start_io_trace(&TraceOptions::default(), writer(1)).unwrap();
    db.start_block_cache_trace(&Default::default(), writer(2)).unwrap();
    db.put("a", "1").unwrap();
    let cursor = db.cursor().unwrap();
    db.close().unwrap();
    assert!(ended.iter().all(|ended| ended.load(SeqCst)));
    drop(cursor);
}

/// What a database is opened with does not lead to the traces of another.
#[pumice_test_macros::test]
fn options_have_the_file_system_of_the_program() {
    let (db, fs) = database();
    let other = Db::open(
        &pumice::Options { db: (*db.options()).clone(), ..Default::default() },
        "/another",
    );
    let other = other.unwrap();
    db.start_io_trace(&TraceOptions::default(), writer(&fs)).unwrap();
    other.put("a", "1").unwrap();
    other.flush().unwrap();
    other.close().unwrap();
    db.end_io_trace().unwrap();
    assert_eq!(files::operations(&fs, TRACE), []);
    db.close().unwrap();
}
