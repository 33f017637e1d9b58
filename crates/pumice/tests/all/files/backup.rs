//! Backups: made, shared, checked, restored, deleted. That RocksDB understands them is tested with
//! the tools (`-p pumice-cli --test ldb`).

use std::path::Path;
use std::sync::Arc;

use pumice::backup::{BackupEngine, BackupLimits};
use pumice::{
    Db, ErrorKind, FileSystem, FlushOptions, MemFs, Options, RateLimiter, RateLimiterMode,
    RateLimiterOptions, ReadOptions, WriteOptions,
};

struct Setup {
    fs: Arc<dyn FileSystem>,
    options: Options,
    db: Db,
}

impl Setup {
    fn new() -> Setup {
        let mut options = Options::default();
        options.db.create_if_missing = true;
        options.db.file_system = MemFs::new(1).shared();
        let fs = Arc::clone(&options.db.file_system);
        let db = Db::open(&options, "/db").unwrap();
        Setup { fs, options, db }
    }
    fn put(&self, key: &str) {
        self.db.put_opt(&WriteOptions::default(), key.as_bytes(), b"v").unwrap();
    }
    fn flush(&self) {
        self.db.flush_opt(&FlushOptions::default()).unwrap();
    }
    fn engine(&self) -> BackupEngine {
        BackupEngine::open(Arc::clone(&self.fs), "/backups").unwrap()
    }
    /// The keys of the database at `path`.
    fn keys(&self, path: &str) -> Vec<String> {
        let db = Db::open(&self.options, path).unwrap();
        let mut cursor = db.cursor_opt(&ReadOptions::default()).unwrap();
        let mut keys = Vec::new();
        cursor.seek_to_first();
        while cursor.valid() {
            keys.push(String::from_utf8(cursor.key().unwrap().to_vec()).unwrap());
            cursor.next();
        }
        cursor.status().unwrap();
        drop(cursor);
        db.close().unwrap();
        keys
    }
    fn shared(&self) -> usize {
        self.fs.list(Path::new("/backups/shared_checksum")).unwrap().len()
    }
}

#[pumice_test_macros::test]
fn made_restored_and_deleted() {
    let setup = Setup::new();
    let engine = setup.engine();
    setup.put("a");
    setup.flush();
    setup.put("b");
    assert_eq!(engine.create_backup(&setup.db, false, b"").unwrap(), 1);
    setup.put("c");
    assert_eq!(engine.create_backup(&setup.db, true, b"a note").unwrap(), 2);
    // The first table is there once.
    assert_eq!(setup.shared(), 2);
    let list = engine.backups().unwrap();
    assert_eq!(list.iter().map(|info| info.id).collect::<Vec<_>>(), [1, 2]);
    assert_eq!((&list[1].app_metadata[..], list[1].size > 0), (&b"a note"[..], true));
    engine.verify_backup(1, true).unwrap();
    engine.verify_backup(2, true).unwrap();

    engine.restore_backup(1, "/one", "/one").unwrap();
    assert_eq!(setup.keys("/one"), ["a", "b"]);
    engine.restore_latest_backup("/two", "/two").unwrap();
    assert_eq!(setup.keys("/two"), ["a", "b", "c"]);
    // Over a database that is there, and that has since changed.
    engine.restore_backup(1, "/two", "/two").unwrap();
    assert_eq!(setup.keys("/two"), ["a", "b"]);
    // Not over one that is open.
    assert!(engine.restore_backup(1, "/db", "/db").is_err());
    assert!(setup.db.get_opt(&ReadOptions::default(), b"c").unwrap().is_some());

    engine.delete_backup(2).unwrap();
    assert_eq!(setup.shared(), 1);
    assert_eq!(engine.delete_backup(2).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(engine.restore_backup(2, "/x", "/x").unwrap_err().kind(), ErrorKind::NotFound);
    for _ in 0..3 {
        engine.create_backup(&setup.db, false, b"").unwrap();
    }
    engine.purge_old_backups(1).unwrap();
    assert_eq!(engine.backups().unwrap().iter().map(|info| info.id).collect::<Vec<_>>(), [4]);
    engine.restore_latest_backup("/three", "/three").unwrap();
    assert_eq!(setup.keys("/three"), ["a", "b", "c"]);
    setup.db.close().unwrap();
}

#[pumice_test_macros::test]
fn damage_is_told_and_changes_nothing() {
    let setup = Setup::new();
    let engine = setup.engine();
    setup.put("a");
    engine.create_backup(&setup.db, true, b"").unwrap();
    engine.restore_backup(1, "/target", "/target").unwrap();
    let name = setup.fs.list(Path::new("/backups/shared_checksum")).unwrap().remove(0);
    let path = Path::new("/backups/shared_checksum").join(name);
    let bytes = setup.fs.read_file(&path).unwrap();
    let write = |bytes: &[u8]| {
        let mut file = setup.fs.create(&path, &Default::default()).unwrap();
        file.append(bytes).unwrap();
        file.close().unwrap();
    };
    let mut flipped = bytes.clone();
    flipped[5] ^= 1;
    write(&flipped);
    engine.verify_backup(1, false).unwrap();
    let error = engine.verify_backup(1, true).unwrap_err();
    assert!(error.to_string().contains("expected checksum is"), "{error}");
    assert_eq!(error.kind(), ErrorKind::Corruption);
    write(&bytes[1..]);
    assert_eq!(engine.verify_backup(1, false).unwrap_err().kind(), ErrorKind::Corruption);
    assert!(engine.backups().unwrap().is_empty());
    assert_eq!(engine.corrupted_backups().unwrap().len(), 1);
    // What is known to be damaged destroys no database.
    assert!(engine.restore_backup(1, "/target", "/target").is_err());
    assert_eq!(setup.keys("/target"), ["a"]);
    // The next one copies the table again.
    assert_eq!(engine.create_backup(&setup.db, true, b"").unwrap(), 2);
    engine.verify_backup(2, true).unwrap();
    let reader = BackupEngine::open_read_only(Arc::clone(&setup.fs), "/backups").unwrap();
    assert_eq!(reader.delete_backup(2).unwrap_err().kind(), ErrorKind::NotSupported);
    assert!(BackupEngine::open_read_only(Arc::clone(&setup.fs), "/none").is_err());
    setup.db.close().unwrap();
}

/// Every byte of a copy passes the limiter of its direction, once or twice by the limiter's mode.
#[pumice_test_macros::test]
fn copies_are_charged_to_their_limiter() {
    let setup = Setup::new();
    (0..500).for_each(|i| setup.put(&format!("key{i:05}")));
    let limiter = |mode| {
        let options = RateLimiterOptions { mode, ..RateLimiterOptions::new(1 << 40) };
        Arc::new(RateLimiter::new(&options).unwrap())
    };
    let charged = |limiter: &Arc<RateLimiter>| limiter.total_bytes_through(None);
    let (backup, restore) = (limiter(RateLimiterMode::WritesOnly), limiter(RateLimiterMode::AllIo));
    let engine = setup.engine().limited(BackupLimits {
        backup: Some(Arc::clone(&backup)),
        restore: Some(Arc::clone(&restore)),
    });
    engine.create_backup(&setup.db, true, b"").unwrap();
    let bytes = engine.backups().unwrap()[0].size;
    // CURRENT is made, not copied.
    let current = setup.fs.file_size(Path::new("/backups/private/1/CURRENT")).unwrap();
    assert_eq!((charged(&backup), charged(&restore)), (bytes - current, 0));
    engine.restore_latest_backup("/copy", "/copy").unwrap();
    assert_eq!((charged(&backup), charged(&restore)), (bytes - current, 2 * bytes));
    // A check writes nothing.
    engine.verify_backup(1, true).unwrap();
    assert_eq!(charged(&backup), bytes - current);
    assert_eq!(setup.keys("/copy").len(), 500);
    setup.db.close().unwrap();
}
