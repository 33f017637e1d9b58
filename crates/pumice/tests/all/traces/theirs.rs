//! Traces of RocksDB 11.8.1's library are read here, and ours replayed there.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pumice::trace::{
    BlockCacheTraceOptions, BlockType, FileTraceWriter, TableReaderCaller, TraceOptions, TraceQuery,
};
use pumice::{Db, PosixFs, ReplayOptions};
use pumice_peer::{
    Peer, ReadOptions, ReadSettings, TraceKind, Traces, WriteBatch, WriteOptions, WriteSettings,
};

use super::block_cache::uses;
use super::files::operations;
use super::{queries, reader};
use crate::common::Scratch;

/// A directory that is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let path = Scratch::new("traces").0.clone();
        posix().create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    #[allow(clippy::disallowed_methods)] // Databases and traces, outside of any file system.
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0)); // A leftover does no harm.
    }
}

struct Theirs {
    peer: Peer,
    traces: Traces,
}

fn theirs() -> Option<Theirs> {
    let library = pumice_peer::installed_11_8()?;
    let peer = Peer::load(&library).unwrap();
    Some(Theirs { peer, traces: Traces::load(&library).unwrap() })
}

impl Theirs {
    fn open(&self, path: &Path) -> pumice_peer::Db {
        let mut options = pumice_peer::Options::new(&self.peer);
        options.set_many("create_if_missing=true;compression=kNoCompression").unwrap();
        pumice_peer::Db::open(&options, path).unwrap()
    }

    /// Runs calls of all kinds that its library has.
    fn work(&self, db: &pumice_peer::Db) {
        let write = WriteOptions::new(&self.peer, &WriteSettings::default());
        let read = ReadOptions::new(&self.peer, &ReadSettings::default());
        let cf = db.default_column_family();
        for n in 0..300u32 {
            db.put(&write, cf, &n.to_be_bytes(), &[n as u8; 100]).unwrap();
        }
        db.delete(&write, cf, &5u32.to_be_bytes()).unwrap();
        let mut batch = WriteBatch::new(&self.peer);
        batch.put(cf, b"batch", b"1");
        db.write(&write, &batch).unwrap();
        db.flush(cf).unwrap();
        for n in 0..100u32 {
            db.get(&read, cf, &n.to_be_bytes(), &mut Vec::with_capacity(200)).unwrap();
        }
        let mut cursor = db.iter(&read, cf);
        cursor.seek(&7u32.to_be_bytes());
        cursor.seek_for_prev(&9u32.to_be_bytes());
    }
}

fn posix() -> Arc<dyn pumice::FileSystem> {
    PosixFs::shared()
}

fn contents(path: &Path) -> Vec<(Vec<u8>, Vec<u8>)> {
    let db = Db::builder(path).open().unwrap();
    let all = db.iter().unwrap().map(Result::unwrap).collect();
    db.close().unwrap();
    all
}

#[pumice_test_macros::test]
fn their_queries_are_read_and_replayed() {
    let Some(theirs) = theirs() else { return };
    let dir = Folder::new();
    let (path, trace, again) = (dir.0.join("db"), dir.0.join("trace"), dir.0.join("again"));
    let db = theirs.open(&path);
    theirs.traces.start(&db, TraceKind::Queries, &trace).unwrap();
    theirs.work(&db);
    theirs.traces.end(&db, TraceKind::Queries).unwrap();
    drop(db);
    let found = queries(&posix(), &trace);
    let count = |is: fn(&TraceQuery) -> bool| found.iter().filter(|query| is(query)).count();
    assert_eq!(count(|query| matches!(query, TraceQuery::Write(_))), 302);
    assert_eq!(count(|query| matches!(query, TraceQuery::Get { .. })), 100);
    assert_eq!(count(|query| matches!(query, TraceQuery::Seek { .. })), 2);

    let db = Db::builder(&again).create(true).open().unwrap();
    let families = [db.default_column_family().clone()];
    let mut replayer = db.new_default_replayer(&families, reader(&posix(), &trace)).unwrap();
    replayer.prepare().unwrap();
    replayer.replay(&ReplayOptions { num_threads: 1, fast_forward: 1e9 }).unwrap();
    db.close().unwrap();
    drop(replayer);
    drop((db, families));
    assert_eq!(contents(&again), contents(&path));
}

#[pumice_test_macros::test]
fn our_queries_are_replayed_there() {
    let Some(theirs) = theirs() else { return };
    let dir = Folder::new();
    let (path, trace) = (dir.0.join("db"), dir.0.join("trace"));
    let db = Db::builder(&path).create(true).open().unwrap();
    let file = FileTraceWriter::create(&*posix(), &trace).unwrap();
    db.start_trace(&TraceOptions::default(), Box::new(file)).unwrap();
    for n in 0..300u32 {
        db.put(n.to_be_bytes(), [n as u8; 10]).unwrap();
        db.get(n.to_be_bytes()).unwrap();
    }
    db.delete_range(3u32.to_be_bytes(), 9u32.to_be_bytes()).unwrap();
    drop(db.multi_get(&["a", "b"]));
    let mut cursor = db.cursor().unwrap();
    cursor.seek("a");
    cursor.seek_for_prev("b");
    drop(cursor);
    db.end_trace().unwrap();
    db.close().unwrap();
    drop(db);
    for threads in [1, 3] {
        let again = dir.0.join(format!("again{threads}"));
        let db = theirs.open(&again);
        theirs.traces.replay(&db, &[db.default_column_family()], &trace, threads).unwrap();
        drop(db);
        if threads == 1 {
            assert_eq!(contents(&again), contents(&path));
        }
    }
}

#[pumice_test_macros::test]
fn their_traces_of_blocks_and_files_are_read() {
    let Some(theirs) = theirs() else { return };
    let dir = Folder::new();
    let (path, blocks, files) = (dir.0.join("db"), dir.0.join("blocks"), dir.0.join("files"));
    let db = theirs.open(&path);
    theirs.traces.start(&db, TraceKind::BlockCache, &blocks).unwrap();
    theirs.traces.start(&db, TraceKind::Files, &files).unwrap();
    theirs.work(&db);
    theirs.traces.end(&db, TraceKind::BlockCache).unwrap();
    theirs.traces.end(&db, TraceKind::Files).unwrap();
    drop(db);

    let used = uses(&posix(), &blocks);
    let gets: Vec<_> = used
        .iter()
        .filter(|r| r.caller == TableReaderCaller::UserGet && r.block_type == BlockType::Data)
        .collect();
    assert_eq!(gets.len(), 100, "{used:#?}");
    let there = gets.iter().filter(|r| r.lookup.referenced_key_exist_in_block).count();
    assert!(there >= 99 && gets.iter().all(|r| r.lookup.num_keys_in_block > 10), "{:#?}", gets[0]);
    assert!(gets.iter().all(|r| r.cf_name == "default" && r.lookup.get_id > 0));

    let done = operations(&posix(), &files);
    for operation in ["NewWritableFile", "Append", "GetFileSize", "Close", "Read"] {
        let found = done.iter().find(|io| io.file_operation == operation);
        assert!(found.is_some_and(|io| io.io_status == "OK"), "{operation}: {done:#?}");
    }
    let reads = done.iter().filter(|io| io.file_operation == "Read");
    assert!(reads.clone().all(|io| io.len.is_some()) && reads.count() > 1);
    let sizes = done.iter().filter(|io| io.file_operation == "GetFileSize");
    assert!(sizes.clone().all(|io| io.file_size.is_some()) && sizes.count() > 1);

    // The same from ours: field by field what theirs has.
    let db = Db::builder(dir.0.join("ours")).create(true).open().unwrap();
    (0..300u32).for_each(|n| db.put(n.to_be_bytes(), [n as u8; 100]).unwrap());
    db.flush().unwrap();
    let file = FileTraceWriter::create(&*posix(), &blocks).unwrap();
    db.start_block_cache_trace(&BlockCacheTraceOptions::default(), Box::new(file)).unwrap();
    db.get(7u32.to_be_bytes()).unwrap();
    db.end_block_cache_trace().unwrap();
    db.close().unwrap();
    let ours = uses(&posix(), &blocks);
    let data = ours.iter().find(|r| r.block_type == BlockType::Data).unwrap();
    assert_eq!(data.block_key.len(), gets[0].block_key.len());
    assert_eq!(data.lookup.referenced_key.len(), gets[0].lookup.referenced_key.len());
    assert_eq!(data.lookup.referenced_key[..5], gets[7].lookup.referenced_key[..5]);
    assert_eq!(data.lookup.referenced_data_size, gets[7].lookup.referenced_data_size);
}
