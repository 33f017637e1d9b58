//! The old BlobDB on a file system in memory, with a clock that the tests set.
#![allow(clippy::unwrap_used)]

mod crashes;
mod drawn;
mod openers;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::options::requests::{
    BottommostLevelCompaction, CompactRangeOptions, ReadOptions, WriteOptions,
};
use crate::{ErrorKind, FilterDecision, WriteBatch, filter_of};
use pumice_env::filename::parse;
use pumice_env::mem::{Fault, FaultRule};
use pumice_env::{MemFs, write_file};
use pumice_table::blob::format::{FOOTER_LEN, HEADER_LEN, RECORD_HEADER_LEN};
use pumice_table::blob::index::StackedIndex;

const DIR: &str = "/db";
const SYNC: WriteOptions = WriteOptions { sync: true, ..crate::db::store::WRITE_DEFAULT };

/// A database, its disk and its clock.
struct Bench {
    fs: MemFs,
    clock: Arc<AtomicU64>,
    options: Options,
    blobs: BlobDbOptions,
}

impl Bench {
    fn new(seed: u64) -> Bench {
        let (fs, clock) = (MemFs::new(seed), Arc::new(AtomicU64::new(1_000_000)));
        let mut options = Options::default();
        options.db.create_if_missing = true;
        options.db.file_system = fs.shared();
        options.cf.disable_auto_compactions = true;
        let now = Arc::clone(&clock);
        let blobs = BlobDbOptions {
            ttl_range_secs: 10,
            blob_file_size: 300,
            enable_garbage_collection: true,
            disable_background_tasks: true,
            clock: Some(Arc::new(move || now.load(Ordering::Relaxed))),
            ..BlobDbOptions::default()
        };
        Bench { fs, clock, options, blobs }
    }

    fn open(&self) -> Result<BlobDb> {
        BlobDb::open(&self.options, &self.blobs, DIR)
    }

    fn pass(&self, seconds: u64) {
        self.clock.fetch_add(seconds, Ordering::Relaxed);
    }

    /// The numbers of the files in `blob_dir`.
    fn on_disk(&self) -> Vec<u64> {
        let names = self.fs.shared().list(&Path::new(DIR).join(DIRECTORY)).unwrap();
        let mut numbers: Vec<u64> = names.iter().map(|name| parse(name).unwrap().0).collect();
        numbers.sort_unstable();
        numbers
    }

    fn blob(&self, number: u64) -> PathBuf {
        pumice_env::filename::blob_file(&Path::new(DIR).join(DIRECTORY), number)
    }
}

fn compact(db: &BlobDb) {
    let options = CompactRangeOptions {
        bottommost_level_compaction: BottommostLevelCompaction::Force,
        ..CompactRangeOptions::default()
    };
    db.db().compact_range(&options, None, None).unwrap();
}

fn numbers(db: &BlobDb) -> Vec<u64> {
    db.blob_files().into_iter().map(|(number, _)| number).collect()
}

fn is(found: Result<Option<crate::PinnedSlice>>, value: &str) -> bool {
    found.unwrap().as_deref() == Some(value.as_bytes())
}

#[pumice_test_macros::test]
fn values_live_as_long_as_asked() {
    let bench = Bench::new(1);
    let db = bench.open().unwrap();
    db.put("a", "lasting").unwrap();
    db.put_with_ttl("b", "short", 5).unwrap();
    db.put_with_ttl("c", "long", 25).unwrap();
    db.put_with_ttl("d", "none", 0).unwrap();
    db.put_with_ttl("e", "for ever", u64::MAX - 10).unwrap();
    let expiration = |key: &str| db.get_with_expiration(&ReadOptions::DEFAULT, key).unwrap();
    assert_eq!(expiration("a").unwrap().1, None);
    assert_eq!(expiration("b").unwrap().1, Some(1_000_005));
    assert_eq!((expiration("d"), expiration("e").unwrap().1), (None, None));
    bench.pass(4);
    assert!(is(db.get("b"), "short"));
    bench.pass(1);
    assert_eq!(db.get("b").unwrap().as_deref(), None);
    let keys: Vec<_> = db.iter().unwrap().map(|entry| entry.unwrap().0).collect();
    assert_eq!(keys, [b"a", b"c", b"e"]);
    // The file of a range goes when the range has passed; a compaction drops the indexes.
    let files = numbers(&db).len();
    db.evict_expired();
    assert_eq!(numbers(&db).len(), files);
    bench.pass(5);
    db.evict_expired();
    assert_eq!((numbers(&db).len(), bench.on_disk()), (files - 1, numbers(&db)));
    db.db().flush().unwrap();
    compact(&db);
    assert_eq!(db.db().property_int("rocksdb.estimate-num-keys"), Some(3));
    // The clock is set back: what has been deleted stays so.
    bench.clock.store(1_000_000, Ordering::Relaxed);
    assert_eq!(db.get("b").unwrap().as_deref(), None);
    assert!(is(db.get("c"), "long"));
    db.close().unwrap();
    assert_eq!(db.put("f", "late").unwrap_err().kind(), ErrorKind::ShutdownInProgress);
}

#[pumice_test_macros::test]
fn the_task_evicts_files() {
    let mut bench = Bench::new(2);
    bench.blobs.disable_background_tasks = false;
    let db = bench.open().unwrap();
    db.put_with_ttl("b", "short", 5).unwrap();
    assert!(is(db.get("b"), "short"));
    drop(db); // Which ends the task.
    let db = bench.open().unwrap();
    assert!(is(db.get("b"), "short"));
    db.close().unwrap();
    db.close().unwrap();
}

#[pumice_test_macros::test]
fn garbage_goes_when_no_reader_needs_it() {
    let bench = Bench::new(3);
    let db = bench.open().unwrap();
    let value = |round: usize, key: usize| format!("{round}-{key}-").repeat(10);
    for key in 0..40 {
        db.put(format!("{key:02}"), value(0, key)).unwrap();
    }
    db.db().flush().unwrap();
    let (snapshot, mut cursor) = (db.db().snapshot(), db.cursor().unwrap());
    let first = numbers(&db);
    for round in 1..4 {
        for key in 0..30 {
            db.put(format!("{key:02}"), value(round, key)).unwrap();
        }
        db.db().flush().unwrap();
        compact(&db);
    }
    // Values of keys from 30 on have been moved, so that no old file is left.
    for _ in 0..12 {
        compact(&db);
    }
    assert!(first.iter().any(|old| numbers(&db).contains(old)), "the snapshot has them");
    // All is there, for each reader.
    cursor.seek_to_first();
    let mut seen = 0;
    while let Some((key, found)) = cursor.item() {
        assert_eq!((key, found), (format!("{seen:02}").as_bytes(), value(0, seen).as_bytes()));
        seen += 1;
        cursor.next();
    }
    cursor.status().unwrap();
    assert_eq!(seen, 40);
    for key in 0..40 {
        let name = format!("{key:02}");
        assert!(is(db.get(&name), &value(if key < 30 { 3 } else { 0 }, key)));
        assert!(is(db.get_opt(&ReadOptions::at(&snapshot), &name), &value(0, key)));
    }
    drop(snapshot);
    db.evict_expired();
    assert!(first.iter().all(|old| !numbers(&db).contains(old)), "{first:?} {:?}", numbers(&db));
    assert!(first.iter().any(|old| bench.on_disk().contains(old)), "the cursor has them");
    drop(cursor);
    db.evict_expired();
    assert_eq!(bench.on_disk(), numbers(&db));
    db.close().unwrap();
    // Without garbage collection nothing goes.
    let bench =
        Bench { blobs: BlobDbOptions { enable_garbage_collection: false, ..bench.blobs }, ..bench };
    let (db, before) = (bench.open().unwrap(), bench.on_disk());
    compact(&db);
    assert_eq!((numbers(&db), bench.on_disk()), (before.clone(), before));
}

#[pumice_test_macros::test]
fn what_it_cannot_do_is_refused() {
    let mut bench = Bench::new(4);
    let db = bench.open().unwrap();
    let refused = |done: Result<()>| assert_eq!(done.unwrap_err().kind(), ErrorKind::NotSupported);
    refused(db.merge("a", "1"));
    refused(db.single_delete("a"));
    refused(db.put_entity("a", [("n", "v")]));
    refused(db.get_entity("a").map(drop));
    refused(db.db().checkpoint("/copy"));
    refused(db.db().live_files_storage_info(&Default::default()).map(drop));
    let mut batch = WriteBatch::new();
    batch.put("a", "1");
    batch.merge("a", "1");
    refused(db.write(&mut batch));
    let cf = db.db().create_column_family(&Default::default(), "cf").unwrap();
    refused(db.put_cf(&cf, "a", "1"));
    refused(db.get_cf(&cf, "a").map(drop));
    batch.clear();
    batch.put_cf(&cf, "a", "1");
    refused(db.write(&mut batch));
    assert_eq!(db.get("a").unwrap().as_deref(), None);
    db.db().drop_column_family(&cf).unwrap();
    drop(cf);
    db.close().unwrap();
    bench.blobs.ttl_range_secs = 0;
    assert_eq!(bench.open().unwrap_err().kind(), ErrorKind::InvalidArgument);
    bench.blobs.ttl_range_secs = 1;
    bench.options.cf.enable_blob_files = true;
    refused(bench.open().map(drop));
    let plain = Db::open(&bench.options, "/plain").unwrap();
    plain.put("a", "1").unwrap();
    plain.flush().unwrap();
    plain.close().unwrap();
    bench.options.cf.enable_blob_files = false;
    refused(BlobDb::open(&bench.options, &bench.blobs, "/plain").map(drop));
    BlobDb::destroy(&bench.options, DIR).unwrap();
    assert!(!bench.fs.shared().exists(Path::new(DIR)).unwrap());
    bench.options.db.create_if_missing = false;
    assert_eq!(bench.open().unwrap_err().kind(), ErrorKind::InvalidArgument);
}

/// What a power cut looks like is not silent.
#[pumice_test_macros::test]
fn the_log_tells_of_lost_blobs() {
    let bench = Bench::new(12);
    let db = bench.open().unwrap();
    db.put("a", "1").unwrap();
    db.put("b", "2").unwrap();
    db.close().unwrap();
    drop(db);
    let (fs, blob) = (bench.fs.shared(), bench.blob(1));
    let bytes = fs.read_file(&blob).unwrap();
    write_file(&*fs, &blob, &bytes[..HEADER_LEN + RECORD_HEADER_LEN + 10], true).unwrap();
    let db = bench.open().unwrap();
    assert!(is(db.get("a"), "1") && db.get("b").unwrap().is_none());
    db.close().unwrap();
    let log = fs.read_file(&Path::new(DIR).join("LOG")).unwrap();
    let text = "the replay has ended at a record whose blob is not there";
    assert!(String::from_utf8_lossy(&log).contains(text));
}

/// A copy by the plain handle would have no values, whoever makes it.
#[pumice_test_macros::test]
fn plain_handles_make_no_copies() {
    let bench = Bench::new(13);
    let db = bench.open().unwrap();
    db.put("a", "1").unwrap();
    db.close().unwrap();
    drop(db);
    let plain = Db::open(&bench.options, DIR).unwrap();
    let error = plain.checkpoint("/copy").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotSupported, "{error}");
    plain.close().unwrap();
}

/// It would take the indexes for ones of blobs that are gone.
#[pumice_test_macros::test]
fn a_repair_is_refused() {
    let bench = Bench::new(11);
    let db = bench.open().unwrap();
    db.put("a", "1").unwrap();
    db.db().flush().unwrap();
    db.close().unwrap();
    drop(db);
    let error = crate::repair(&bench.options, DIR).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotSupported, "{error}");
    assert!(is(bench.open().unwrap().get("a"), "1"));
}

/// A file whose number leaves none for the next one is not counted on from.
#[pumice_test_macros::test]
fn a_number_without_a_next_one_is_refused() {
    let bench = Bench::new(7);
    bench.open().unwrap().close().unwrap();
    let path = bench.blob(u64::MAX);
    write_file(&*bench.fs.shared(), &path, b"", true).unwrap();
    let error = bench.open().unwrap_err();
    assert!(error.is_corruption() && error.to_string().contains("out of range"), "{error}");
}

#[pumice_test_macros::test]
fn a_full_database_takes_deletions_only() {
    let mut bench = Bench::new(5);
    bench.blobs.max_db_size = 2000;
    let db = bench.open().unwrap();
    let written = (0..40).take_while(|key| db.put(format!("{key:02}"), [7; 100]).is_ok()).count();
    assert!((10..20).contains(&written), "{written}");
    assert!(db.put("x", [7; 100]).unwrap_err().is_no_space());
    db.delete("00").unwrap();
}

#[pumice_test_macros::test]
fn users_filters_see_values_that_last() {
    let mut bench = Bench::new(6);
    bench.options.cf.compaction_filter =
        Some(filter_of("by value", |_level, _key, value| match value {
            b"drop" => FilterDecision::Remove,
            b"change" => FilterDecision::ChangeValue(b"changed".to_vec()),
            _ => FilterDecision::Keep,
        }));
    let db = bench.open().unwrap();
    for (key, value) in [("a", "drop"), ("b", "change"), ("c", "keep")] {
        db.put(key, value).unwrap();
        db.put_with_ttl(format!("t{key}"), value, 100).unwrap();
    }
    db.db().flush().unwrap();
    compact(&db);
    let found: Vec<_> = db.iter().unwrap().map(|entry| entry.unwrap().1).collect();
    let expected: [&[u8]; 5] = [b"changed", b"keep", b"drop", b"change", b"keep"];
    assert_eq!(found, expected);
}

/// Entries that RocksDB wrote until version 10: values that are in the table.
#[pumice_test_macros::test]
fn older_kinds_of_entries_are_read() {
    let bench = Bench::new(7);
    let db = bench.open().unwrap();
    let mut batch = WriteBatch::new();
    for (key, expires) in [(&b"alive"[..], 1_000_050), (b"dead", 1_000_000)] {
        let mut index = Vec::new();
        StackedIndex::Inlined(expires, b"inlined").encode(&mut index);
        batch.put_blob_index(key, &index);
    }
    batch.put("plain", "value");
    db.db().write(&mut batch).unwrap();
    for _ in 0..2 {
        assert!(is(db.get("alive"), "inlined") && is(db.get("plain"), "value"));
        assert_eq!(db.get("dead").unwrap().as_deref(), None);
        let found: Vec<_> = db.iter().unwrap().map(|entry| entry.unwrap().1).collect();
        assert_eq!(found, [&b"inlined"[..], b"value"]);
        db.db().flush().unwrap();
        compact(&db);
    }
    assert_eq!(db.db().property_int("rocksdb.estimate-num-keys"), Some(2));
}

/// A changed byte is an error of the keys whose record it is in, and of no other.
#[pumice_test_macros::test]
fn damaged_blobs_are_found() {
    let bench = Bench::new(8);
    let db = bench.open().unwrap();
    for key in ["a", "b", "c"] {
        db.put(key, key.repeat(20)).unwrap();
    }
    db.db().flush().unwrap();
    db.close().unwrap();
    drop(db);
    let path = bench.blob(1);
    let bytes = bench.fs.shared().file_size(&path).unwrap();
    let flip = |at: u64| {
        bench.fs.damage(&path, |bytes| bytes[usize::try_from(at).unwrap()] ^= 0x10).unwrap();
    };
    for at in HEADER_LEN as u64..bytes - FOOTER_LEN as u64 {
        flip(at);
        let db = bench.open().unwrap();
        let damaged = ["a", "b", "c"].into_iter().filter(|key| match db.get(key) {
            Ok(found) => {
                assert_eq!(found.as_deref(), Some(key.repeat(20).as_bytes()), "{at}");
                false
            }
            Err(error) => {
                assert!(error.is_corruption() && error.to_string().contains("000001.blob"));
                true
            }
        });
        assert_eq!(damaged.count(), 1, "{at}");
        assert!(db.iter().unwrap().any(|entry| entry.is_err()), "{at}");
        db.close().unwrap();
        flip(at);
    }
    for at in 0..4 {
        flip(at);
        assert!(bench.open().unwrap_err().is_corruption(), "{at}");
        flip(at);
    }
    // The whole file.
    bench.fs.shared().remove(&path).unwrap();
    let db = bench.open().unwrap();
    let error = db.get("a").unwrap_err();
    assert!(error.is_corruption() && error.to_string().contains("000001.blob"), "{error}");
}

/// What is durable is not known after a sync has failed: no table gets indexes then.
#[pumice_test_macros::test]
fn a_failed_sync_ends_writes() {
    let bench = Bench::new(9);
    let db = bench.open().unwrap();
    db.put("a", "1").unwrap();
    bench.fs.add_fault(FaultRule {
        op: Some(pumice_env::mem::FaultOp::Sync),
        path_glob: "*.blob".into(),
        skip: 0,
        count: 1,
        fault: Fault::Eio,
    });
    db.put_opt(&SYNC, "b", "2").unwrap_err();
    db.put("c", "3").unwrap_err();
    db.db().flush().unwrap_err();
    assert!(is(db.get("a"), "1"));
    drop(db.close());
    drop(db);
    let db = bench.open().unwrap();
    assert!(is(db.get("a"), "1"));
    db.put_opt(&SYNC, "b", "2").unwrap();
}
