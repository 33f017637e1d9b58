//! Temperatures in the MANIFEST: what RocksDB 11.8.1 recorded stays, and it finds what was recorded
//! here. Real files, as RocksDB uses them.
#![allow(clippy::disallowed_methods)]

use std::path::Path;

use crate::blobs::theirs::{Theirs, peer};
use crate::common::{Scratch, contents};
use pumice::{CompactRangeOptions, Db, Options};

const COLD_AND_WARM: &str = "num_levels=3;compression=kNoCompression;disable_auto_compactions=true;\
                             last_level_temperature=kCold;default_write_temperature=kWarm";
const NONE: &str = "num_levels=3;compression=kNoCompression;disable_auto_compactions=true";

/// Bytes at each temperature.
type Bytes = Vec<(u8, String)>;

fn bytes(property: impl Fn(&str) -> String) -> Bytes {
    let numbers = [0, 4, 8, 10, 12, 16].into_iter();
    let of = |n: u8| (n, property(&format!("rocksdb.live-sst-files-size-at-temperature{n}")));
    numbers.map(of).filter(|(_, bytes)| bytes != "0").collect()
}

fn ours(path: &Path, text: &str) -> Db {
    let mut options = Options::new();
    options.db.create_if_missing = true;
    options.set("merge_operator", "stringappend").unwrap();
    options.set_from_text(text).unwrap();
    Db::open(&options, path).unwrap()
}

fn ours_bytes(db: &Db) -> Bytes {
    bytes(|name| db.property(name).unwrap())
}

fn theirs_bytes(db: &Theirs<'_>) -> Bytes {
    bytes(|name| db.property(name))
}

fn kinds(bytes: &Bytes) -> Vec<u8> {
    bytes.iter().map(|(number, _)| *number).collect()
}

// Plain #[test]: RocksDB blocks its thread.
#[test]
fn temperatures_go_to_rocksdb_and_back() {
    let Some(peer) = peer() else { return };
    let scratch = Scratch::new("temperatures");
    std::fs::create_dir_all(&scratch.0).unwrap();
    let path = scratch.0.join("theirs");
    let db = Theirs::open(&peer, &path, COLD_AND_WARM);
    for round in 0..3u8 {
        (0..50).for_each(|n: u8| db.put(&[b'k', n], &[round; 30]));
        db.flush();
        if round == 1 {
            db.compact();
        }
    }
    let found = theirs_bytes(&db);
    assert_eq!(kinds(&found), [8, 12]);
    drop(db);
    let db = ours(&path, NONE);
    assert_eq!(ours_bytes(&db), found);
    db.put(b"m", b"1").unwrap();
    db.flush().unwrap();
    let found = ours_bytes(&db);
    assert_eq!(kinds(&found), [0, 8, 12]);
    db.close().unwrap();
    let db = Theirs::open(&peer, &path, NONE);
    assert_eq!(theirs_bytes(&db), found);
    assert_eq!(db.contents().len(), 51);
    drop(db);

    let path = scratch.0.join("ours");
    let db = ours(&path, COLD_AND_WARM);
    for round in 0..3u8 {
        (0..50).for_each(|n: u8| db.put(&[b'k', n], &[round; 30]).unwrap());
        db.flush().unwrap();
        if round == 1 {
            db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
        }
    }
    let found = ours_bytes(&db);
    assert_eq!(kinds(&found), [8, 12]);
    db.close().unwrap();
    let db = Theirs::open(&peer, &path, NONE);
    assert_eq!(theirs_bytes(&db), found);
    drop(db);
    let db = ours(&path, NONE);
    assert_eq!((ours_bytes(&db), contents(&db).len()), (found, 50));
    db.close().unwrap();
}
