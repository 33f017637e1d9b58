//! Traces of queries, files and the block cache, their readers and the replayer; with RocksDB's.

mod block_cache;
mod files;
mod misuse;
mod queries;
mod replay;
mod theirs;

use std::path::Path;
use std::sync::Arc;

use pumice::trace::{FileTraceReader, FileTraceWriter, QueryTraceReader, TraceQuery};
use pumice::{Db, FileSystem};

use crate::common::{DIR, memory, options};

/// Where traces are.
pub const TRACE: &str = "/trace";

/// A new database in memory.
pub fn database() -> (Db, Arc<dyn FileSystem>) {
    let (_, fs) = memory();
    let db = Db::open(&options(&fs), DIR).unwrap();
    (db, fs)
}

/// A writer of a trace's file.
pub fn writer(fs: &Arc<dyn FileSystem>) -> Box<FileTraceWriter> {
    Box::new(FileTraceWriter::create(&**fs, TRACE).unwrap())
}

/// A reader of one.
pub fn reader(fs: &Arc<dyn FileSystem>, path: impl AsRef<Path>) -> Box<FileTraceReader> {
    Box::new(FileTraceReader::open(Arc::clone(fs), path).unwrap())
}

/// The calls of a trace.
pub fn queries(fs: &Arc<dyn FileSystem>, path: impl AsRef<Path>) -> Vec<TraceQuery> {
    let mut reader = QueryTraceReader::new(reader(fs, path)).unwrap();
    // Times are not compared: the clock of the system may go back.
    std::iter::from_fn(|| reader.next().unwrap()).map(|record| record.query).collect()
}

/// The updates of a traced write: kinds are the words of `BatchRecord`.
pub fn updates(query: &TraceQuery) -> String {
    let TraceQuery::Write(rep) = query else { panic!("no write: {query:?}") };
    let batch = pumice::WriteBatch::from_data(rep).unwrap();
    let records: Vec<String> = batch.iter().map(|record| format!("{record:?}")).collect();
    records.join("\n")
}
