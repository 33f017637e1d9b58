//! Directory entries of acknowledged data are durable, too, up to the root: a power loss does not
//! lose the directory of a new database, of its logs or of a checkpoint.

use std::path::Path;
use std::sync::Arc;

use crate::common::{SYNC, contents, fill, flush, options};
use pumice::{ColumnFamilyDescriptor, Db, ErrorKind, FileSystem, MemFs, Options};
use pumice_env::mem::{CrashMode, Fault, FaultOp, FaultRule};

fn at(fs: &MemFs) -> (Arc<dyn FileSystem>, Options) {
    let shared = fs.shared();
    let options = options(&shared);
    (shared, options)
}

/// The file system after a power loss that drops everything unsynced.
fn survivor(fs: &MemFs) -> MemFs {
    fs.crashed_copy(1, CrashMode::UNSYNCED)
}

#[pumice_test_macros::test]
fn a_new_database_keeps_its_directories() {
    for wal_dir in ["", "/logs/of/it"] {
        let fs = MemFs::new(1);
        let (_, mut options) = at(&fs);
        options.db.wal_dir = wal_dir.to_string();
        let path = Path::new("/far/below/db");
        let db = Db::open(&options, path).unwrap();
        db.put_opt(&SYNC, b"k", b"v").unwrap();
        options.db.file_system = survivor(&fs).shared();
        options.db.create_if_missing = false;
        let left = Db::open(&options, path).unwrap();
        assert_eq!(contents(&left), [(b"k".to_vec(), b"v".to_vec())], "{wal_dir:?}");
        left.close().unwrap();
        db.close().unwrap();
    }
}

/// The process that created the directory was killed before it synced it.
#[pumice_test_macros::test]
fn a_directory_that_is_there_already_is_not_trusted() {
    let fs = MemFs::new(1);
    let (shared, mut options) = at(&fs);
    let path = Path::new("/far/below/db");
    shared.create_dir_all(path).unwrap();
    let db = Db::open(&options, path).unwrap();
    db.put_opt(&SYNC, b"k", b"v").unwrap();
    options.db.file_system = survivor(&fs).shared();
    options.db.create_if_missing = false;
    let left = Db::open(&options, path).unwrap();
    assert_eq!(contents(&left).len(), 1);
    left.close().unwrap();
    db.close().unwrap();
}

/// A directory that cannot be made durable ends the open, and one that is known to be so is not
/// synced again: then it costs each open a sync of all above it.
#[pumice_test_macros::test]
fn the_directory_of_the_logs_is_synced_when_it_is_new() {
    let fs = MemFs::new(1);
    let (shared, mut options) = at(&fs);
    let (path, logs) = (Path::new("/db"), Path::new("/logs/of/it"));
    options.db.wal_dir = logs.display().to_string();
    shared.create_dir_all(logs).unwrap();
    fs.add_fault(FaultRule::once(FaultOp::SyncDir, "/logs/of", 0, Fault::Eio));
    let error = Db::open(&options, path).err().unwrap();
    assert_eq!(error.os_error(), Some(5), "{error}");
    let db = Db::open(&options, path).unwrap();
    db.put_opt(&SYNC, b"k", b"v").unwrap();
    db.close().unwrap();
    fs.add_fault(FaultRule::always(FaultOp::SyncDir, "/logs/of", Fault::Eio));
    let db = Db::open(&options, path).unwrap();
    assert_eq!(contents(&db).len(), 1);
    db.close().unwrap();
}

#[pumice_test_macros::test]
fn a_checkpoint_keeps_its_directories() {
    let fs = MemFs::new(1);
    let (_, mut options) = at(&fs);
    let db = Db::open(&options, "/db").unwrap();
    fill(&db, 0..10, "v");
    flush(&db);
    fill(&db, 10..20, "v");
    let target = Path::new("/copies/of/today");
    db.checkpoint(target).unwrap();
    options.db.file_system = survivor(&fs).shared();
    options.db.create_if_missing = false;
    let left = Db::open(&options, target).unwrap();
    assert_eq!(contents(&left).len(), 20);
    left.close().unwrap();
    db.close().unwrap();
}

/// A new `wal_dir` without the logs is refused by every way to open, and costs nothing; with them
/// it works.
#[pumice_test_macros::test]
fn logs_are_moved_before_their_directory_is_changed() {
    let fs = MemFs::new(1);
    let (shared, options) = at(&fs);
    let db = Db::open(&options, "/db").unwrap();
    fill(&db, 0..20, "flushed");
    flush(&db);
    fill(&db, 10..30, "logged");
    let before = contents(&db);
    db.close().unwrap();
    drop(db);
    let mut elsewhere = options.clone();
    elsewhere.db.wal_dir = "/logs".to_string();
    let families = [ColumnFamilyDescriptor::new("default", options.cf.clone())];
    let writing = Db::open(&elsewhere, "/db").map(drop);
    let reading = Db::open_read_only(&elsewhere.db, "/db", &families, false).map(drop);
    let following = Db::open_as_secondary(&elsewhere.db, "/db", "/second", &families).map(drop);
    for (how, opened) in [("write", writing), ("read", reading), ("follow", following)] {
        let error = opened.expect_err(how);
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{how}: {error}");
        assert!(error.to_string().contains("is not in wal_dir"), "{how}: {error}");
    }
    let db = Db::open(&options, "/db").unwrap();
    assert_eq!(contents(&db), before);
    fill(&db, 30..40, "logged");
    let before = contents(&db);
    db.close().unwrap();
    drop(db);
    for name in shared.list(Path::new("/db")).unwrap() {
        if name.ends_with(".log") {
            shared.rename(&Path::new("/db").join(&name), &Path::new("/logs").join(&name)).unwrap();
        }
    }
    for _ in 0..2 {
        let db = Db::open(&elsewhere, "/db").unwrap();
        assert_eq!(contents(&db), before);
        db.close().unwrap();
    }
}
