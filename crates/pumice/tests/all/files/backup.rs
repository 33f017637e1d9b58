//! Backups: made, shared, checked, restored, deleted. That RocksDB understands them is tested with
//! the tools (`-p pumice-cli --test ldb`).

use std::path::Path;
use std::sync::Arc;

use pumice::backup::{BackupEngine, BackupLimits};
use pumice::{
    Db, ErrorKind, FileSystem, FlushOptions, IngestExternalFileOptions, MemFs, Options,
    RateLimiter, RateLimiterMode, RateLimiterOptions, ReadOptions, SstFileWriter, WriteOptions,
};
use pumice_env::mem::{Fault, FaultOp, FaultRule};

struct Setup {
    disk: MemFs,
    fs: Arc<dyn FileSystem>,
    options: Options,
    db: Db,
}

impl Setup {
    fn new() -> Setup {
        let mut options = Options::default();
        options.db.create_if_missing = true;
        let disk = MemFs::new(1);
        options.db.file_system = disk.shared();
        let fs = Arc::clone(&options.db.file_system);
        let db = Db::open(&options, "/db").unwrap();
        Setup { disk, fs, options, db }
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
    /// Changes the meta file of a backup; returns what it was.
    fn change_meta(&self, id: u32, change: impl FnOnce(String) -> String) -> String {
        let path = format!("/backups/meta/{id}");
        let text = String::from_utf8(self.fs.read_file(Path::new(&path)).unwrap()).unwrap();
        self.write(&path, change(text.clone()).as_bytes());
        text
    }
    fn write(&self, path: &str, bytes: &[u8]) {
        let mut file = self.fs.create(Path::new(path), &Default::default()).unwrap();
        file.append(bytes).unwrap();
        file.close().unwrap();
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

/// Two backups of which each has a table of its own.
fn two_backups() -> (Setup, BackupEngine) {
    let setup = Setup::new();
    let engine = setup.engine();
    for key in ["a", "b"] {
        setup.put(key);
        setup.flush();
        engine.create_backup(&setup.db, true, b"").unwrap();
    }
    (setup, engine)
}

/// A device that fails once says nothing about a backup: its files stay, and an older one is not
/// taken for the newest.
#[pumice_test_macros::test]
fn a_backup_that_cannot_be_read_for_once_is_kept() {
    let (setup, engine) = two_backups();
    for (op, path) in [
        (FaultOp::Open, "/backups/meta/2"),
        (FaultOp::Read, "/backups/meta/2"),
        (FaultOp::Stat, "/backups/shared_checksum/*"),
        (FaultOp::Stat, "/backups/private/2/*"),
    ] {
        let fail = || setup.disk.add_fault(FaultRule::once(op, path, 0, Fault::Eio));
        fail();
        assert_eq!(engine.garbage_collect().unwrap_err().kind(), ErrorKind::IoError, "{op:?}");
        if path.contains('2') {
            fail();
            let restored = engine.restore_latest_backup("/target", "/target");
            assert_eq!(restored.unwrap_err().kind(), ErrorKind::IoError, "{op:?}");
        }
        setup.disk.clear_faults();
        engine.verify_backup(2, true).unwrap_or_else(|e| panic!("{op:?} {path}: {e}"));
    }
    setup.disk.add_fault(FaultRule::once(FaultOp::Open, "/backups/meta/2", 0, Fault::Eio));
    // The backup is gone, and its files stay until the other one can be read.
    assert_eq!(engine.delete_backup(1).unwrap_err().kind(), ErrorKind::IoError);
    assert_eq!((engine.backups().unwrap().len(), setup.shared()), (1, 2));
    engine.verify_backup(2, true).unwrap();
    engine.restore_latest_backup("/target", "/target").unwrap();
    assert_eq!(setup.keys("/target"), ["a", "b"]);
    setup.db.close().unwrap();
}

/// What a backup of a newer format needs is not known.
#[pumice_test_macros::test]
fn a_backup_of_a_newer_format_keeps_its_files() {
    let (setup, engine) = two_backups();
    let text = setup.change_meta(2, |text| format!("schema_version 3\n{text}"));
    assert_eq!(engine.corrupted_backups().unwrap()[0].1.kind(), ErrorKind::NotSupported);
    engine.delete_backup(1).unwrap();
    engine.garbage_collect().unwrap();
    setup.change_meta(2, |_| text);
    engine.verify_backup(2, true).unwrap();
    engine.restore_latest_backup("/target", "/target").unwrap();
    assert_eq!(setup.keys("/target"), ["a", "b"]);
    setup.db.close().unwrap();
}

/// RocksDB's schema 2 may leave checksums out. A backup that shares such a file has one.
#[pumice_test_macros::test]
fn a_file_without_a_checksum_is_shared_with_its_own() {
    let (setup, engine) = two_backups();
    setup.change_meta(2, |text| {
        let names = text.lines().map(|line| line.split(" crc32 ").next().unwrap());
        format!("schema_version 2.1\n{}\n", names.collect::<Vec<_>>().join("\n"))
    });
    engine.delete_backup(1).unwrap();
    assert_eq!(engine.create_backup(&setup.db, true, b"").unwrap(), 3);
    assert_eq!(setup.shared(), 2);
    engine.verify_backup(3, true).unwrap();
    engine.restore_backup(3, "/target", "/target").unwrap();
    assert_eq!(setup.keys("/target"), ["a", "b"]);
    setup.db.close().unwrap();
}

/// A backup with a file that has no place in a database is refused before the database that is
/// there is touched.
#[pumice_test_macros::test]
fn a_backup_with_strange_files_replaces_nothing() {
    let (setup, engine) = two_backups();
    engine.restore_backup(1, "/target", "/target").unwrap();
    setup.write("/backups/private/2/strange", b"");
    let text = setup
        .change_meta(2, |text| text.replacen("\n6\n", "\n7\n", 1) + "private/2/strange crc32 0\n");
    assert_eq!(engine.backups().unwrap().len(), 2, "{text}");
    let error = engine.restore_backup(2, "/target", "/target").unwrap_err();
    assert!(error.to_string().contains("not a file of a database"), "{error}");
    assert_eq!(setup.keys("/target"), ["a"]);
    let without_current = text.lines().filter(|line| !line.contains("CURRENT"));
    let without_current = without_current.map(|line| if line == "6" { "5" } else { line });
    let without_current = without_current.collect::<Vec<_>>().join("\n") + "\n";
    setup.change_meta(2, |_| without_current);
    assert_eq!(engine.backups().unwrap().len(), 2);
    let error = engine.restore_backup(2, "/target", "/target").unwrap_err();
    assert!(error.to_string().contains("CURRENT"), "{error}");
    assert_eq!(setup.keys("/target"), ["a"]);
    setup.db.close().unwrap();
}

/// A table made outside is ingested twice, in two lives of a database that agree on its number, and
/// each time a different sequence number is stored in it.
#[pumice_test_macros::test]
fn a_table_with_another_stored_sequence_number_is_another_table() {
    let mut setup = Setup::new();
    let engine = setup.engine();
    let mut writer = SstFileWriter::new(&setup.options).unwrap();
    writer.open("/made.sst").unwrap();
    writer.put(b"k", b"new").unwrap();
    writer.finish().unwrap();
    let options = IngestExternalFileOptions { write_global_seqno: true, ..Default::default() };
    let ingest = |db: &Db| {
        db.ingest_external_file(&options, &["/made.sst"]).unwrap();
        let files = db.live_files_metadata();
        files.iter().map(|file| (file.largest_seq, file.file_number)).max().unwrap()
    };
    let old = |setup: &Setup, times: usize| {
        for _ in 0..times {
            setup.db.put_opt(&WriteOptions::default(), b"k", b"old").unwrap();
        }
    };
    old(&setup, 1);
    setup.flush();
    engine.create_backup(&setup.db, true, b"").unwrap();
    // Every change of an option takes a number of a file.
    for _ in 0..40 {
        setup.db.set_db_options(&[("stats_dump_period_sec", "0")]).unwrap();
    }
    let (first_sequence, number) = ingest(&setup.db);
    engine.create_backup(&setup.db, true, b"").unwrap();
    setup.db.close().unwrap();
    engine.restore_backup(1, "/db", "/db").unwrap();
    setup.db = Db::open(&setup.options, "/db").unwrap();
    old(&setup, 3);
    setup.flush();
    let newest = |setup: &Setup| {
        let names = setup.fs.list(Path::new("/db")).unwrap();
        let options = names.iter().filter_map(|name| name.strip_prefix("OPTIONS-"));
        options.map(|number| number.parse::<u64>().unwrap()).max().unwrap()
    };
    while newest(&setup) + 1 < number {
        setup.db.set_db_options(&[("stats_dump_period_sec", "0")]).unwrap();
    }
    let (sequence, again) = ingest(&setup.db);
    assert_eq!(number, again);
    assert_ne!(first_sequence, sequence);
    assert_eq!(engine.create_backup(&setup.db, true, b"").unwrap(), 3);
    // The same file once more is shared.
    assert_eq!(engine.create_backup(&setup.db, true, b"").unwrap(), 4);
    for id in [2, 3, 4] {
        engine.verify_backup(id, true).unwrap();
        let path = format!("/target{id}");
        engine.restore_backup(id, &path, &path).unwrap();
        let db = Db::open(&setup.options, &path).unwrap();
        assert_eq!(db.get("k").unwrap().as_deref(), Some(&b"new"[..]), "backup {id}");
        db.close().unwrap();
    }
    setup.db.close().unwrap();
}
