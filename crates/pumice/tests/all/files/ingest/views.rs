//! What readers see of ingested files: before, during, after, and after compactions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pumice::options::merge_operator_by_name;
use pumice::{
    BottommostLevelCompaction, ColumnFamilyOptions, CompactRangeOptions, Db, IngestExternalFileArg,
    IngestExternalFileOptions, ReadOptions, WriteOptions,
};
use pumice_port::thread;

use super::support::{
    DIR, Record, assert_no_litter, contents, file_of, files, flush, fresh, get, get_cf, ingest,
    places, put, table_of, write_table,
};

const WRITE: WriteOptions = WriteOptions {
    sync: false,
    disable_wal: false,
    no_slowdown: false,
    rate_limiter_priority: None,
    protection_bytes_per_key: 0,
    low_pri: false,
    ignore_missing_column_families: false,
};

fn text(db: &Db) -> String {
    let pair = |(k, v): &(Vec<u8>, Vec<u8>)| {
        format!("{}={}", String::from_utf8_lossy(k), String::from_utf8_lossy(v))
    };
    contents(db).iter().map(pair).collect::<Vec<_>>().join(" ")
}

/// Aborts the process unless dropped within a minute: an endless scan does not yield.
struct Watchdog(Arc<AtomicBool>);

impl Watchdog {
    fn new(what: &'static str) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&over);
        drop(thread::spawn_os("watchdog", move || {
            for _ in 0..600 {
                thread::sleep(Duration::from_millis(100));
                if seen.load(Ordering::Acquire) {
                    return;
                }
            }
            eprintln!("{what}: a scan does not end");
            std::process::abort();
        }));
        Watchdog(over)
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

fn compact_all(db: &Db) {
    let force = CompactRangeOptions {
        bottommost_level_compaction: BottommostLevelCompaction::Force,
        ..CompactRangeOptions::default()
    };
    db.compact_range(&force, None, None).unwrap();
}

/// Deletions, and all else, with sequence number 0 are where a seek after all versions of their
/// key lands.
#[pumice_test_macros::test]
fn a_scan_passes_entries_without_a_sequence_number() {
    let _watchdog = Watchdog::new("a_scan_passes_entries_without_a_sequence_number");
    for skips in [0, 1, 2, 8, u64::MAX] {
        let (_fs, mut options, db) = fresh();
        drop(db);
        options.cf.max_sequential_skip_in_iterations = skips;
        let db = Db::open(&options, DIR).unwrap();
        let deleted = |key: &str| Record::Delete(key.as_bytes().to_vec());
        let records =
            [put("a", "file"), deleted("b"), deleted("c"), deleted("d"), put("e", "file")];
        ingest(&db, &[&write_table(&options, "/in/1.sst", &records).unwrap()]).unwrap();
        assert_eq!(places(&db)[0].1, 0, "no sequence number");
        for versions in 0..4 {
            for key in ["a", "b", "d"] {
                db.put_opt(&WRITE, key.as_bytes(), versions.to_string().as_bytes()).unwrap();
            }
            db.delete_opt(&WRITE, b"d").unwrap();
            assert_eq!(text(&db), format!("a={versions} b={versions} e=file"), "{skips} skips");
        }
        let mut backwards = Vec::new();
        let mut cursor = db.cursor_opt(&ReadOptions::default()).unwrap();
        cursor.seek_to_last();
        while cursor.valid() {
            backwards.push(cursor.key().unwrap().to_vec());
            cursor.prev();
        }
        assert_eq!(backwards, [b"e", b"b", b"a"]);
        db.close().unwrap();
    }
}

#[pumice_test_macros::test]
fn a_file_overwrites_what_is_there_and_is_overwritten() {
    let (_fs, options, db) = fresh();
    for key in ["a", "b", "c"] {
        db.put_opt(&WRITE, key.as_bytes(), b"old").unwrap();
    }
    flush(&db);
    db.put_opt(&WRITE, b"d", b"memory").unwrap();
    let path = table_of(&options, "/in/1.sst", &["b", "d", "e"], "file");
    ingest(&db, &[&path]).unwrap();
    assert_eq!(text(&db), "a=old b=file c=old d=file e=file");
    db.put_opt(&WRITE, b"e", b"new").unwrap();
    db.delete_opt(&WRITE, b"b").unwrap();
    assert_eq!(text(&db), "a=old c=old d=file e=new");
    drop(db);
    let db = Db::open(&options, DIR).unwrap();
    assert_eq!(text(&db), "a=old c=old d=file e=new");
    compact_all(&db);
    assert_eq!(text(&db), "a=old c=old d=file e=new");
    assert!(options.db.file_system.exists(&path).unwrap(), "copied, not moved");
    db.close().unwrap();
    let db = Db::open(&options, DIR).unwrap();
    assert_no_litter(&options.db.file_system, &db);
}

#[pumice_test_macros::test]
fn all_kinds_of_records_work_together() {
    let (_fs, mut options, db) = fresh();
    drop(db);
    options.cf.merge_operator = merge_operator_by_name("stringappend");
    let db = Db::open(&options, DIR).unwrap();
    for n in 0..10 {
        db.put_opt(&WRITE, format!("k{n}").as_bytes(), b"old").unwrap();
    }
    let records = [
        Record::DeleteRange(b"k3".to_vec(), b"k6".to_vec()),
        Record::Merge(b"k1".to_vec(), b"more".to_vec()),
        Record::Delete(b"k2".to_vec()),
        put("k4", "survives its own file's range deletion"),
        Record::Merge(b"k5".to_vec(), b"alone".to_vec()),
        Record::DeleteRange(b"k8".to_vec(), b"x".to_vec()),
    ];
    let path = write_table(&options, "/in/1.sst", &records).unwrap();
    let expected = "k0=old k1=old,more k4=survives its own file's range deletion k5=alone k6=old \
                    k7=old";
    ingest(&db, &[&path]).unwrap();
    assert_eq!(text(&db), expected);
    // What comes later is not deleted.
    db.put_opt(&WRITE, b"k9", b"later").unwrap();
    assert_eq!(text(&db), format!("{expected} k9=later"));
    compact_all(&db);
    assert_eq!(text(&db), format!("{expected} k9=later"));
    drop(db);
    let db = Db::open(&options, DIR).unwrap();
    assert_eq!(text(&db), format!("{expected} k9=later"));
}

#[pumice_test_macros::test]
fn a_file_of_range_deletions_alone_deletes() {
    let (_fs, options, db) = fresh();
    for key in ["a", "b", "c", "d"] {
        db.put_opt(&WRITE, key.as_bytes(), b"1").unwrap();
    }
    compact_all(&db);
    let records = [Record::DeleteRange(b"b".to_vec(), b"d".to_vec())];
    let path = write_table(&options, "/in/1.sst", &records).unwrap();
    ingest(&db, &[&path]).unwrap();
    assert_eq!(text(&db), "a=1 d=1");
    compact_all(&db);
    assert_eq!(text(&db), "a=1 d=1");
    assert_eq!(files(&db).len(), 1);
}

#[pumice_test_macros::test]
fn later_files_of_a_call_win() {
    let (_fs, options, db) = fresh();
    let one = table_of(&options, "/in/1.sst", &["a", "c"], "1");
    let two = table_of(&options, "/in/2.sst", &["b", "c", "d"], "2");
    let three = table_of(&options, "/in/3.sst", &["d", "e"], "3");
    ingest(&db, &[&one, &two, &three]).unwrap();
    assert_eq!(text(&db), "a=1 b=2 c=2 d=3 e=3");
    compact_all(&db);
    assert_eq!(text(&db), "a=1 b=2 c=2 d=3 e=3");
    ingest(&db, &[&three, &two, &one]).unwrap();
    assert_eq!(text(&db), "a=1 b=2 c=1 d=2 e=3");
    drop(db);
    assert_eq!(text(&Db::open(&options, DIR).unwrap()), "a=1 b=2 c=1 d=2 e=3");
}

#[pumice_test_macros::test]
fn earlier_views_see_nothing() {
    let (_fs, options, db) = fresh();
    db.put_opt(&WRITE, b"b", b"old").unwrap();
    let at = |snapshot: &pumice::Snapshot| ReadOptions {
        snapshot: Some(snapshot.clone()),
        ..ReadOptions::default()
    };
    let snapshot = db.snapshot();
    let mut cursor = db.cursor_opt(&ReadOptions::default()).unwrap();
    // The second file overlaps nothing: only the snapshot makes it need a sequence number.
    let over = table_of(&options, "/in/1.sst", &["a", "b"], "new");
    let beside = table_of(&options, "/in/2.sst", &["x", "y"], "new");
    ingest(&db, &[&over]).unwrap();
    ingest(&db, &[&beside]).unwrap();
    assert!(places(&db).iter().all(|(_, sequence)| *sequence > 0), "{:?}", places(&db));
    cursor.seek_to_first();
    assert_eq!((cursor.key().unwrap(), cursor.value().unwrap()), (&b"b"[..], &b"old"[..]));
    cursor.next();
    assert!(!cursor.valid());
    let check = |db: &Db| {
        assert_eq!(db.get_opt(&at(&snapshot), b"a").unwrap().as_deref(), None);
        assert_eq!(db.get_opt(&at(&snapshot), b"b").unwrap().as_deref(), Some(&b"old"[..]));
        assert_eq!(db.get_opt(&at(&snapshot), b"x").unwrap().as_deref(), None);
        let mut seen = db.cursor_opt(&at(&snapshot)).unwrap();
        seen.seek_to_last();
        assert_eq!((seen.key().unwrap(), seen.value().unwrap()), (&b"b"[..], &b"old"[..]));
        assert_eq!(text(db), "a=new b=new x=new y=new");
    };
    check(&db);
    compact_all(&db);
    check(&db);
}

#[pumice_test_macros::test]
fn without_snapshot_consistency_a_snapshot_may_change() {
    let (_fs, options, db) = fresh();
    db.put_opt(&WRITE, b"a", b"1").unwrap();
    let snapshot = db.snapshot();
    let path = table_of(&options, "/in/1.sst", &["x"], "new");
    let how = IngestExternalFileOptions { snapshot_consistency: false, ..Default::default() };
    db.ingest_external_file(&how, &[&path]).unwrap();
    assert_eq!(places(&db), [(6, 0)]);
    let then = ReadOptions { snapshot: Some(snapshot), ..ReadOptions::default() };
    assert!(db.get_opt(&then, b"x").unwrap().is_some());
}

#[pumice_test_macros::test]
fn several_column_families_in_one_call() {
    let (_fs, options, db) = fresh();
    let family = ColumnFamilyOptions { disable_auto_compactions: true, ..Default::default() };
    let other = db.create_column_family(&family, "other").unwrap();
    db.put_opt(&WRITE, b"k", b"old").unwrap();
    db.put_cf_opt(&WRITE, &other, b"k", b"old").unwrap();
    let one = table_of(&options, "/in/1.sst", &["k", "l"], "default's");
    let two = table_of(&options, "/in/2.sst", &["k", "m"], "other's");
    let arg = |cf: &pumice::ColumnFamily, path: &std::path::PathBuf| {
        IngestExternalFileArg::new(cf, vec![path.clone()], &IngestExternalFileOptions::default())
    };
    db.ingest_external_files(&[arg(db.default_column_family(), &one), arg(&other, &two)]).unwrap();
    let check = |db: &Db, other: &pumice::ColumnFamily| {
        assert_eq!(get(db, b"k").as_deref(), Some(&b"default's"[..]));
        assert_eq!(get_cf(db, other, b"k").as_deref(), Some(&b"other's"[..]));
        assert_eq!((get(db, b"m"), get_cf(db, other, b"l")), (None, None));
    };
    check(&db, &other);
    drop((db, other));
    let all =
        ["default", "other"].map(|name| pumice::ColumnFamilyDescriptor::new(name, family.clone()));
    let (db, handles) = Db::open_cf(&options.db, DIR, &all).unwrap();
    check(&db, &handles[1]);
}

#[pumice_test_macros::test]
fn a_file_is_moved_if_asked() {
    let (_fs, options, db) = fresh();
    let system = Arc::clone(&options.db.file_system);
    let path = table_of(&options, "/in/1.sst", &["a"], "1");
    let link = IngestExternalFileOptions { link_files: true, ..Default::default() };
    db.ingest_external_file(&link, &[&path]).unwrap();
    assert!(system.exists(&path).unwrap());
    let path = table_of(&options, "/in/2.sst", &["b"], "2");
    let take = IngestExternalFileOptions { move_files: true, ..Default::default() };
    db.ingest_external_file(&take, &[&path]).unwrap();
    assert!(!system.exists(&path).unwrap());
    assert_eq!(text(&db), "a=1 b=2");
    assert_no_litter(&system, &db);
}

#[pumice_test_macros::test]
fn a_file_that_cannot_be_linked_is_copied_if_allowed() {
    use pumice_env::mem::{Fault, FaultOp, FaultRule};
    let (fs, options, db) = fresh();
    let path = table_of(&options, "/in/1.sst", &["a"], "1");
    let take = IngestExternalFileOptions { move_files: true, ..Default::default() };
    // A plain failure is no reason to copy.
    fs.add_fault(FaultRule::once(FaultOp::Link, "*", 0, Fault::Eio));
    db.ingest_external_file(&take, &[&path]).unwrap_err();
    assert_no_litter(&options.db.file_system, &db);
    for allowed in [false, true] {
        fs.add_fault(FaultRule::once(FaultOp::Link, "*", 0, Fault::Exdev));
        let how =
            IngestExternalFileOptions { failed_move_fall_back_to_copy: allowed, ..take.clone() };
        assert_eq!(db.ingest_external_file(&how, &[&path]).is_ok(), allowed);
        assert_no_litter(&options.db.file_system, &db);
    }
    assert_eq!(text(&db), "a=1");
    assert!(!options.db.file_system.exists(&path).unwrap(), "moved all the same");
}

#[pumice_test_macros::test]
fn the_sequence_number_is_stored_if_asked() {
    for move_files in [false, true] {
        let (_fs, options, db) = fresh();
        db.put_opt(&WRITE, b"b", b"old").unwrap();
        let path = table_of(&options, "/in/1.sst", &["a", "b"], "new");
        let untouched = options.db.file_system.read_file(&path).unwrap();
        let how = IngestExternalFileOptions {
            write_global_seqno: true,
            link_files: !move_files,
            move_files,
            ..Default::default()
        };
        db.ingest_external_file(&how, &[&path]).unwrap();
        assert_eq!(options.db.file_system.exists(&path).unwrap(), !move_files);
        let file = file_of(&db, "a", "b");
        let stored = file.directory.join(file.name.trim_start_matches('/'));
        let bytes = options.db.file_system.read_file(&stored).unwrap();
        let different: Vec<u8> =
            bytes.iter().zip(&untouched).filter(|(a, b)| a != b).map(|(a, _)| *a).collect();
        assert_eq!(bytes.len(), untouched.len());
        assert_eq!(different, [file.largest_seq as u8], "one byte of the number is not zero");
        drop(db);
        let db = Db::open(&options, DIR).unwrap();
        assert_eq!(text(&db), "a=new b=new");
        db.verify_checksum().unwrap();
        compact_all(&db);
        assert_eq!(text(&db), "a=new b=new");
    }
}
