//! Tables with embedded blobs, which RocksDB 11.8.1 wrote (tests/testdata/rocksdb-11.8-embedded):
//! ingested, read in every way, compacted, repaired, and given back to RocksDB.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::blobs::theirs::{Contents, Theirs, blob_files, peer};
use crate::common::Scratch;
use pumice::{
    BottommostLevelCompaction, CacheOptions, CompactRangeOptions, Db, ErrorKind,
    IngestExternalFileOptions, Options, ReadOptions, SstFileReader,
};

/// The tables and how many keys they have.
const TABLES: [(&str, usize); 3] = [("xxh3", 60), ("crc-lz4", 30), ("partitioned", 30)];
const STATS: &str = "rocksdb.embedded.blob.stats";

fn table(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/testdata");
    root.join("rocksdb-11.8-embedded").join(format!("{name}.sst"))
}

/// The bytes of a value, as the program that made the tables has them.
fn value(n: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| b'a' + ((n * 7 + at * (1 + n % 3)) % 26) as u8).collect()
}

pub fn key(n: usize) -> Vec<u8> {
    format!("k{n:04}").into_bytes()
}

/// What key `n` shows; None if it is deleted.
pub fn shown(n: usize) -> Option<Vec<u8>> {
    Some(match n % 6 {
        0 => value(n, 300 + n),
        1 => value(n, 20),
        2 | 3 => value(n, 150),
        4 => return None,
        _ => value(n, 100),
    })
}

fn contents(keys: usize) -> Contents {
    (0..keys).filter_map(|n| Some((key(n), shown(n)?))).collect()
}

pub fn options() -> Options {
    let mut options = Options::new();
    options.set("merge_operator", "stringappend").unwrap();
    options.db.create_if_missing = true;
    options.cf.disable_auto_compactions = true;
    options
}

pub fn opened(options: &Options, dir: &Path, name: &str) -> Db {
    let db = Db::open(options, dir).unwrap();
    db.ingest_external_file(&IngestExternalFileOptions::default(), &[table(name)]).unwrap();
    db
}

fn compact(db: &Db) {
    try_compact(db).unwrap();
}

pub fn try_compact(db: &Db) -> pumice::Result<()> {
    let forced = CompactRangeOptions {
        bottommost_level_compaction: BottommostLevelCompaction::ForceOptimized,
        ..CompactRangeOptions::default()
    };
    db.compact_range(&forced, None, None)
}

/// Reads everything in every way.
fn check(db: &Db, keys: usize) {
    let expected = contents(keys);
    let all: Contents = db.iter().unwrap().collect::<pumice::Result<_>>().unwrap();
    assert_eq!(all, expected);
    let mut cursor = db.cursor().unwrap();
    cursor.seek_to_last();
    for (key, value) in expected.iter().rev() {
        assert_eq!(cursor.item(), Some((&key[..], &value[..])));
        cursor.prev();
    }
    cursor.status().unwrap();
    let names: Vec<Vec<u8>> = (0..keys).map(key).collect();
    for (n, together) in db.multi_get(&names).into_iter().enumerate() {
        assert_eq!(together.unwrap().as_deref(), shown(n).as_deref(), "{n}");
        assert_eq!(db.get(key(n)).unwrap().as_deref(), shown(n).as_deref(), "{n}");
        let entity = db.get_entity(key(n)).unwrap();
        let column = |name: &str| entity.as_ref().and_then(|found| found.get(name));
        if n % 6 == 2 {
            assert_eq!(column("small"), Some(&value(n, 5)[..]));
            assert_eq!(column("tall"), Some(&value(n + 1, 200)[..]));
        }
        assert_eq!(column(""), shown(n).as_deref());
        if let Some(shown) = shown(n) {
            cursor.seek(key(n));
            assert_eq!(cursor.item(), Some((&key(n)[..], &shown[..])));
        }
    }
    db.verify_checksum().unwrap();
}

#[pumice_test_macros::test]
fn tables_of_rocksdb_are_ingested_and_given_back() {
    for (name, keys) in TABLES {
        let dir = Scratch::new("embedded");
        let db = opened(&options(), &dir.0, name);
        check(&db, keys);
        db.close().unwrap();
        drop(db);
        let theirs = |path: &Path| {
            let Some(peer) = peer() else { return };
            assert_eq!(Theirs::open(&peer, path, "").contents(), contents(keys), "{name}");
        };
        theirs(&dir.0);
        let db = Db::open(&options(), &dir.0).unwrap();
        check(&db, keys);
        assert!(has_embedded(&db));
        compact(&db);
        assert!(!has_embedded(&db));
        check(&db, keys);
        assert_eq!(blob_files(&dir.0), Vec::<PathBuf>::new());
        db.close().unwrap();
        drop(db);
        theirs(&dir.0);
    }
}

/// A table of the database says that it has embedded blobs.
fn has_embedded(db: &Db) -> bool {
    db.live_files_metadata().iter().any(|file| {
        let mut reader = SstFileReader::new(&options()).unwrap();
        reader.open(file.directory.join(&file.name[1..])).unwrap();
        reader.table_properties().unwrap().collected(STATS).is_some()
    })
}

/// Databases into which RocksDB ingested such a table.
#[pumice_test_macros::test]
fn databases_of_rocksdb_with_such_tables_are_read() {
    let Some(peer) = peer() else { return };
    for (name, keys) in TABLES {
        let dir = Scratch::new("embedded-theirs");
        {
            let theirs = Theirs::open(&peer, &dir.0, "");
            let family = theirs.db.default_column_family();
            theirs.db.ingest(family, &[&table(name)], false).unwrap();
        }
        let db = Db::open(&options(), &dir.0).unwrap();
        check(&db, keys);
        compact(&db);
        check(&db, keys);
        db.close().unwrap();
    }
}

/// A compaction takes the values into blob files where the options say so.
#[pumice_test_macros::test]
fn compactions_may_move_the_values_to_blob_files() {
    let dir = Scratch::new("embedded-separated");
    let mut options = options();
    options.cf.enable_blob_files = true;
    options.cf.min_blob_size = 200;
    options.cf.blob_cache = Some(pumice::BlockCache::new(CacheOptions::new(1 << 20)));
    let db = opened(&options, &dir.0, "xxh3");
    for _ in 0..2 {
        // The second time from the cache.
        check(&db, 60);
    }
    compact(&db);
    assert_eq!(blob_files(&dir.0).len(), 1);
    check(&db, 60);
    // 10 values of 300 bytes and more, 10 columns of 200.
    let stats = db.property("rocksdb.blob-stats").unwrap();
    assert!(stats.starts_with("Number of blob files: 1\n"), "{stats}");
    assert_eq!(db.property("rocksdb.live-blob-file-garbage-size").unwrap(), "0");
    db.close().unwrap();
}

/// Operands over and under such values, and what a filter sees.
#[pumice_test_macros::test]
fn merges_and_filters_see_the_values() {
    let dir = Scratch::new("embedded-merged");
    let mut options = options();
    options.cf.compaction_filter = Some(Arc::new(Filter));
    let db = Db::open(&options, &dir.0).unwrap();
    db.put(key(3), "base").unwrap();
    db.flush().unwrap();
    let how = IngestExternalFileOptions::default();
    db.ingest_external_file(&how, &[table("xxh3")]).unwrap();
    db.merge(key(0), "over").unwrap();
    db.merge(key(2), "over").unwrap();
    let with = |bytes: Vec<u8>| [&bytes[..], b",over"].concat();
    for _ in 0..2 {
        let read = |n: usize| db.get(key(n)).unwrap().unwrap().into_vec();
        assert_eq!(read(0), with(value(0, 300)));
        assert_eq!(read(2), with(value(2, 150)));
        assert_eq!(read(3), [&b"base,"[..], &value(3, 150)].concat());
        let entity = db.get_entity(key(2)).unwrap().unwrap();
        assert_eq!(entity.get("tall"), Some(&value(3, 200)[..]));
        compact(&db);
    }
    // The filter has removed the values of 306 bytes.
    assert_eq!(db.get(key(6)).unwrap(), None);
    assert_eq!(db.get(key(12)).unwrap().unwrap(), value(12, 312));
    db.close().unwrap();
}

#[derive(Debug)]
struct Filter;

impl pumice::CompactionFilter for Filter {
    fn name(&self) -> &str {
        "removes-306"
    }
    fn filter(&self, _: i32, _: &[u8], value: &[u8]) -> pumice::FilterDecision {
        match value.len() {
            306 => pumice::FilterDecision::Remove,
            _ => pumice::FilterDecision::Keep,
        }
    }
}

/// Where `value` is in the file.
fn place(file: &[u8], value: &[u8]) -> usize {
    file.windows(value.len()).position(|part| part == value).unwrap()
}

#[pumice_test_macros::test]
fn a_damaged_value_is_named_and_other_keys_are_read() {
    for (name, _) in TABLES {
        let dir = Scratch::new("embedded-damage");
        let db = opened(&options(), &dir.0, name);
        let file = db.live_files_metadata().remove(0);
        db.close().unwrap();
        drop(db);
        let path = file.directory.join(&file.name[1..]);
        let whole = std::fs::read(&path).unwrap();
        let (at, len) = (place(&whole, &value(6, 306)), 306);
        let refused = |changed: usize| {
            let mut bytes = whole.clone();
            bytes[changed] ^= 1;
            std::fs::write(&path, &bytes).unwrap();
            let db = Db::open(&options(), &dir.0).unwrap();
            let error = db.get(key(6)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corruption);
            let text = error.to_string();
            let where_ = format!("offset {at} of {len} bytes in");
            assert!(text.contains(&where_) && text.contains(&file.name[1..]), "{text}");
            let mut cursor = db.cursor().unwrap();
            cursor.seek(key(6));
            assert!(!cursor.valid() && cursor.status().is_err());
            let text = db.verify_checksum().unwrap_err().to_string();
            assert!(text.contains(&where_), "{text}");
            let both = db.multi_get(&[key(6), key(0)]);
            assert!(both[0].is_err());
            assert_eq!(both[1].as_ref().unwrap().as_deref(), shown(0).as_deref());
            let error = try_compact(&db).unwrap_err().to_string();
            assert!(error.contains(&where_), "{error}");
            db
        };
        // A byte of the value, of the compression's, of the checksum.
        for changed in [at + 20, at + len, at + len + 3] {
            let db = refused(changed);
            let unchecked = ReadOptions { verify_checksums: false, ..ReadOptions::default() };
            let found = db.get_opt(&unchecked, key(6));
            assert_eq!(found.is_ok(), changed != at + len);
            let cached = ReadOptions { cache_only: true, ..ReadOptions::default() };
            let error = db.get_opt(&cached, key(0)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Incomplete);
            drop(db);
        }
        // A repair keeps the others.
        let report = pumice::repair(&options(), &dir.0).unwrap();
        println!("{report:?}");
        let db = Db::open(&options(), &dir.0).unwrap();
        assert_eq!(db.get(key(6)).unwrap(), None);
        let n = if name == "xxh3" { 54 } else { 24 };
        assert_eq!(db.get(key(n)).unwrap().unwrap(), value(n, 300 + n));
        assert_eq!(db.get_entity(key(2)).unwrap().unwrap().get("tall"), Some(&value(3, 200)[..]));
        db.verify_checksum().unwrap();
        db.close().unwrap();
    }
}

/// Without a MANIFEST a repair takes the tables as they are.
#[pumice_test_macros::test]
fn a_repair_keeps_whole_tables() {
    let dir = Scratch::new("embedded-repaired");
    let db = opened(&options(), &dir.0, "partitioned");
    db.close().unwrap();
    drop(db);
    for entry in std::fs::read_dir(&dir.0).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().unwrap().to_str().unwrap().starts_with("MANIFEST") {
            std::fs::remove_file(path).unwrap();
        }
    }
    pumice::repair(&options(), &dir.0).unwrap();
    let db = Db::open(&options(), &dir.0).unwrap();
    check(&db, 30);
    db.close().unwrap();
}

#[pumice_test_macros::test]
fn a_reader_of_one_table_finds_the_values() {
    for (name, keys) in TABLES {
        let mut reader = SstFileReader::new(&options()).unwrap();
        reader.open(table(name)).unwrap();
        reader.verify_checksum().unwrap();
        let mut cursor = reader.cursor(&ReadOptions::default()).unwrap();
        cursor.seek_to_first();
        cursor.status().unwrap();
        for (key, value) in contents(keys) {
            assert_eq!(cursor.item(), Some((&key[..], &value[..])));
            cursor.next();
        }
        assert!(!cursor.valid());
        cursor.status().unwrap();
    }
}
