//! What is durable when a reply leaves.

use std::path::Path;
use std::sync::Arc;

use pumice::{Db, MemFs, Options, ReadOptions};
use pumice_env::FileSystem;
use pumice_env::mem::{CrashMode, Fault, FaultOp, FaultRule};
use pumice_server::keyspace::Keyspace;

fn options(fs: Arc<dyn FileSystem>) -> Options {
    let mut options = Options::default();
    options.db.file_system = fs;
    options
}

/// A batch can be read before its writer continues: a reader's reply must not be sent before it is
/// durable either.
#[pumice_test_macros::test]
fn what_has_been_read_is_durable_after_a_sync() {
    let fs = Arc::new(MemFs::new(1));
    let path = Path::new("/data");
    let keyspace = Keyspace::open(options(fs.clone()), path).unwrap();
    keyspace.sync().unwrap();
    // Like a writer whose batch is written but not acknowledged yet.
    keyspace.db().put(b"k", b"v").unwrap();
    let before = keyspace.writes();
    keyspace.sync().unwrap();
    let after = Arc::new(fs.crashed_copy(1, CrashMode::UNSYNCED));
    let db = Db::open(&options(after), path).unwrap();
    assert_eq!(db.get_opt(&ReadOptions::default(), b"k").unwrap().as_deref(), Some(&b"v"[..]));
    db.close().unwrap();
    assert_eq!(keyspace.writes(), before, "a sync writes nothing");
    keyspace.close().unwrap();
}

/// The engine recovers from a full disk by itself, and then everything is durable: readers notice
/// even if nothing is written.
#[pumice_test_macros::test]
fn a_sync_that_failed_is_tried_again() {
    let fs = Arc::new(MemFs::new(1));
    let path = Path::new("/data");
    let mut options = options(fs.clone());
    // Only when this test says so.
    options.db.max_bgerror_resume_count = 0;
    let keyspace = Keyspace::open(options.clone(), path).unwrap();
    keyspace.db().put(b"k", b"v").unwrap();
    fs.add_fault(FaultRule::once(FaultOp::Sync, "*.log", 0, Fault::Enospc));
    for _ in 0..3 {
        assert!(keyspace.sync().is_err(), "the engine has not recovered");
    }
    keyspace.db().resume().unwrap();
    keyspace.sync().unwrap();
    options.db.file_system = Arc::new(fs.crashed_copy(1, CrashMode::UNSYNCED));
    let db = Db::open(&options, path).unwrap();
    assert_eq!(db.get(b"k").unwrap().as_deref(), Some(&b"v"[..]));
    db.close().unwrap();
    keyspace.close().unwrap();
}
