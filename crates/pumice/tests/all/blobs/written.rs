//! Large values go to blob files: which ones, in which form, and what RocksDB makes of them.

use std::path::Path;
use std::sync::Arc;

use crate::blobs::theirs::{Theirs, blob_files, peer};
use crate::common::Scratch;
use pumice::{BottommostLevelCompaction, CompactRangeOptions, Db, Options, Statistics, Ticker};
use pumice_base::random::Rng;

pub fn options() -> Options {
    let mut options = Options::new();
    options.db.create_if_missing = true;
    options.set("merge_operator", "stringappend").unwrap();
    options.cf.disable_auto_compactions = true;
    options.cf.table_factory.format_version = 5;
    options.cf.enable_blob_files = true;
    options.cf.min_blob_size = 30;
    options
}

/// Rewrites everything, once.
pub fn compact(db: &Db) {
    let forced = CompactRangeOptions {
        bottommost_level_compaction: BottommostLevelCompaction::ForceOptimized,
        ..CompactRangeOptions::default()
    };
    db.compact_range(&forced, None, None).unwrap();
}

pub fn number(db: &Db, name: &str) -> u64 {
    db.property_int(&format!("rocksdb.{name}")).unwrap()
}

#[pumice_test_macros::test]
fn large_values_are_in_blob_files() {
    let dir = Scratch::new("blobs");
    let mut options = options();
    let statistics = Arc::new(Statistics::new());
    options.db.statistics = Some(Arc::clone(&statistics));
    options.cf.blob_file_size = 200;
    let db = Db::open(&options, &dir.0).unwrap();
    let value = |n: usize| vec![b'a' + n as u8; n];
    for n in [0, 1, 29, 30, 31, 100, 101] {
        db.put(format!("{n:03}"), value(n)).unwrap();
    }
    db.flush().unwrap();
    // 30, 31 and 100 fill a file, which ends once it has its bytes.
    assert_eq!(number(&db, "num-blob-files"), 2);
    let records = |sizes: &[u64]| sizes.iter().map(|size| 32 + 3 + size).sum::<u64>();
    let bytes = records(&[30, 31, 100, 101]) + 2 * 62;
    assert_eq!(number(&db, "live-blob-file-size"), bytes);
    assert_eq!(number(&db, "total-blob-file-size"), bytes);
    assert_eq!(statistics.ticker(Ticker::BlobDbBlobFileBytesWritten), bytes);
    assert_eq!(statistics.ticker(Ticker::BlobDbBlobFileSynced), 2);
    let disk: u64 =
        blob_files(&dir.0).iter().map(|path| std::fs::metadata(path).unwrap().len()).sum();
    assert_eq!(disk, bytes);
    for _ in 0..2 {
        for n in [0, 1, 29, 30, 31, 100, 101] {
            assert_eq!(&db.get(format!("{n:03}")).unwrap().unwrap()[..], &value(n)[..]);
        }
        compact(&db);
        // Indexes go on as they are.
        assert_eq!(statistics.ticker(Ticker::BlobDbBlobFileBytesWritten), bytes);
    }
    assert_eq!(number(&db, "live-blob-file-garbage-size"), 0);
    db.put("100", "short").unwrap();
    db.delete("101").unwrap();
    compact(&db);
    assert_eq!(number(&db, "live-blob-file-garbage-size"), records(&[100]), "one file went");
    crate::common::let_files_go(&db);
    assert_eq!((number(&db, "num-blob-files"), blob_files(&dir.0).len()), (1, 1));
    // Options that change at run time.
    db.set_options(&[("enable_blob_files", "false")]).unwrap();
    db.put("inline", value(100)).unwrap();
    db.flush().unwrap();
    assert_eq!(number(&db, "num-blob-files"), 1);
    db.set_options(&[("enable_blob_files", "true"), ("min_blob_size", "100")]).unwrap();
    compact(&db);
    assert_eq!(number(&db, "num-blob-files"), 2, "compactions separate as well");
    assert_eq!(&db.get("inline").unwrap().unwrap()[..], &value(100)[..]);
    db.close().unwrap();
}

#[pumice_test_macros::test]
fn blobs_are_compressed_one_by_one() {
    for kind in ["kSnappyCompression", "kLZ4Compression", "kZSTD", "kZlibCompression"] {
        let dir = Scratch::new("blob-codec");
        let mut options = options();
        options.set("blob_compression_type", kind).unwrap();
        let db = Db::open(&options, &dir.0).unwrap();
        let mut rng = Rng::new(7);
        let random: Vec<u8> = (0..3000).map(|_| rng.next_u32() as u8).collect();
        db.put("packs", "v".repeat(5000)).unwrap();
        db.put("grows", &random).unwrap();
        db.flush().unwrap();
        let bytes = number(&db, "live-blob-file-size");
        assert!(bytes > 3000 && bytes < 4000, "{kind}: {bytes}");
        let expected = [("grows", random.clone()), ("packs", "v".repeat(5000).into_bytes())];
        let expected = expected.map(|(key, value)| (key.as_bytes().to_vec(), value));
        for (key, value) in &expected {
            assert_eq!(&db.get(key).unwrap().unwrap()[..], &value[..], "{kind}");
        }
        db.close().unwrap();
        drop(db);
        if let Some(peer) = peer() {
            let theirs = Theirs::open(&peer, &dir.0, "");
            assert_eq!(theirs.contents(), expected, "{kind}");
        }
    }
}

#[pumice_test_macros::test]
fn lower_levels_keep_their_values() {
    let dir = Scratch::new("blob-level");
    let mut options = options();
    options.cf.blob_file_starting_level = 3;
    options.cf.num_levels = 4;
    options.cf.level_compaction_dynamic_level_bytes = false;
    let db = Db::open(&options, &dir.0).unwrap();
    let shift = |level: i32| {
        let how = CompactRangeOptions {
            change_level: true,
            target_level: level,
            bottommost_level_compaction: BottommostLevelCompaction::Force,
            ..CompactRangeOptions::default()
        };
        db.compact_range(&how, None, None).unwrap();
    };
    db.put("k", "v".repeat(100)).unwrap();
    shift(1);
    assert_eq!(number(&db, "num-blob-files"), 0);
    db.set_options(&[("blob_file_starting_level", "1")]).unwrap();
    shift(2);
    assert_eq!(number(&db, "num-blob-files"), 1);
    assert_eq!(db.get("k").unwrap().unwrap().len(), 100);
    db.close().unwrap();
}

fn their_options(path: &Path) -> String {
    let file = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    let file = file.filter(|path| path.to_string_lossy().contains("OPTIONS-")).max().unwrap();
    std::fs::read_to_string(file).unwrap()
}

/// The same operations, here and there: the same contents, the same figures.
#[pumice_test_macros::test]
fn rocksdb_writes_the_same_files() {
    let Some(peer) = peer() else { return };
    for seed in [1, 2] {
        println!("seed {seed}");
        let (ours, other) = (Scratch::new("blob-ours"), Scratch::new("blob-other"));
        let mut options = options();
        options.cf.blob_file_size = 5000;
        let db = Db::open(&options, &ours.0).unwrap();
        let text = "enable_blob_files=true;min_blob_size=30;blob_file_size=5000";
        let theirs = Theirs::open(&peer, &other.0, text);
        let mut rng = Rng::new(seed);
        for n in 0..1200 {
            let key = format!("k{:03}", rng.uniform(150)).into_bytes();
            let value = vec![b'a' + rng.uniform(26) as u8; rng.uniform(100) as usize];
            match rng.uniform(12) {
                0..=6 => {
                    db.put(&key, &value).unwrap();
                    theirs.put(&key, &value);
                }
                7 => {
                    db.delete(&key).unwrap();
                    theirs.delete(&key);
                }
                8 | 9 => {
                    db.merge(&key, &value).unwrap();
                    theirs.merge(&key, &value);
                }
                _ => {
                    let columns: [(&[u8], &[u8]); 2] = [(b"", &value), (b"n", &value)];
                    db.put_entity(&key, columns).unwrap();
                    theirs.put_entity(&key, &columns);
                }
            }
            if n % 200 == 199 {
                db.flush().unwrap();
                theirs.flush();
                assert_eq!(
                    db.property("rocksdb.blob-stats").unwrap(),
                    theirs.property("rocksdb.blob-stats"),
                    "after {n}"
                );
            }
        }
        compact(&db);
        theirs.compact();
        let stats = db.property("rocksdb.blob-stats").unwrap();
        assert_eq!(stats, theirs.property("rocksdb.blob-stats"));
        assert!(!stats.contains("garbage in blob files: 0"), "{stats}");
        let expected = theirs.contents();
        assert_eq!(crate::common::contents(&db), expected);
        let mut cursor = db.cursor().unwrap();
        cursor.seek_to_last();
        for (key, value) in expected.iter().rev() {
            assert_eq!(cursor.item(), Some((&key[..], &value[..])));
            cursor.prev();
        }
        drop(cursor);
        db.close().unwrap();
        drop((db, theirs));
        assert!(their_options(&ours.0).contains("enable_blob_files=true"));
        let theirs = Theirs::open(&peer, &ours.0, text);
        assert_eq!(theirs.contents(), expected);
        theirs.compact();
        assert_eq!(theirs.contents(), expected);
        drop(theirs);
        let db = Db::open(&options, &ours.0).unwrap();
        assert_eq!(crate::common::contents(&db), expected);
        db.close().unwrap();
    }
}
