//! What is durable when a reply leaves.

use std::path::Path;
use std::sync::Arc;

use pumice::{Db, MemFs, Options, ReadOptions, WriteOptions};
use pumice_env::FileSystem;
use pumice_env::mem::CrashMode;
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
    keyspace.engine().put(&WriteOptions::default(), b"k", b"v").unwrap();
    let before = keyspace.writes();
    keyspace.sync().unwrap();
    let after = Arc::new(fs.crashed_copy(1, CrashMode::UNSYNCED));
    let db = Db::open(&options(after), path).unwrap();
    assert_eq!(db.get_opt(&ReadOptions::default(), b"k").unwrap().as_deref(), Some(&b"v"[..]));
    db.close().unwrap();
    assert_eq!(keyspace.writes(), before, "a sync writes nothing");
    keyspace.close().unwrap();
}
