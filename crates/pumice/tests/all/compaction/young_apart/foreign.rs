//! The same databases with RocksDB's 11.8.1.

use std::path::Path;

use pumice::PosixFs;
use pumice_peer::{CompactRangeSettings, Peer, WriteSettings};

use super::*;
use crate::common::Scratch;

fn theirs(peer: &Peer, path: &Path, style: CompactionStyle, young: u64) -> pumice_peer::Db {
    let style = match style {
        CompactionStyle::Universal => "kCompactionStyleUniversal",
        _ => "kCompactionStyleLevel",
    };
    let mut options = pumice_peer::Options::new(peer);
    let text = format!(
        "create_if_missing=true;compaction_style={style};num_levels=4;\
         disable_auto_compactions=true;preclude_last_level_data_seconds={young}"
    );
    options.set_many(&text).unwrap();
    pumice_peer::Db::open(&options, path).unwrap()
}

fn ours(path: &Path, style: CompactionStyle, young: u64) -> Db {
    let fs = Arc::new(PosixFs) as Arc<dyn FileSystem>;
    let mut options = apart(&fs, style);
    options.cf.preclude_last_level_data_seconds = young;
    options.cf.disable_auto_compactions = true;
    options.cf.merge_operator = None;
    Db::open(&options, path).unwrap()
}

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// A key and its value, or the ends of a range.
type Pair = (Vec<u8>, Vec<u8>);

/// One round of writes: new keys, overwritten ones, and a deleted range.
fn round(n: u32) -> (Vec<Pair>, Pair) {
    let key = |k: u32| format!("{k:03}").into_bytes();
    let value = format!("value {n}").into_bytes();
    let puts = (0..40).map(|k| (key(n * 20 + k), value.clone())).collect();
    (puts, (key(n * 20 + 10), key(n * 20 + 15)))
}

fn apply(map: &mut Map, n: u32) {
    let (puts, (begin, end)) = round(n);
    map.extend(puts);
    map.retain(|key, _| *key < begin || *key >= end);
}

fn write_theirs(db: &pumice_peer::Db, n: u32) {
    let wo = pumice_peer::WriteOptions::new(db.peer(), &WriteSettings::default());
    let (puts, (begin, end)) = round(n);
    for (key, value) in &puts {
        db.put(&wo, db.default_column_family(), key, value).unwrap();
    }
    db.delete_range(&wo, db.default_column_family(), &begin, &end).unwrap();
    db.flush(db.default_column_family()).unwrap();
    let force = CompactRangeSettings { bottommost_level: 2, ..CompactRangeSettings::default() };
    db.compact_range(db.default_column_family(), None, None, &force);
}

fn write_ours(db: &Db, n: u32) {
    let (puts, (begin, end)) = round(n);
    for (key, value) in &puts {
        db.put(key, value).unwrap();
    }
    db.delete_range(&begin, &end).unwrap();
    flush(db);
    rewrite(db);
}

/// The levels that have files.
fn levels(db: &Db) -> Vec<usize> {
    let mut levels: Vec<_> = db.live_files_metadata().iter().map(|file| file.level).collect();
    levels.sort_unstable();
    levels.dedup();
    levels
}

fn levels_of_theirs(db: &pumice_peer::Db) -> Vec<usize> {
    let mut levels: Vec<_> = db.live_files().iter().map(|file| file.level as usize).collect();
    levels.sort_unstable();
    levels.dedup();
    levels
}

fn read_theirs(db: &pumice_peer::Db) -> Map {
    let ro = pumice_peer::ReadOptions::new(db.peer(), &Default::default());
    let mut cursor = db.iter(&ro, db.default_column_family());
    let mut all = Map::new();
    cursor.seek_to_first();
    while cursor.valid() {
        all.insert(cursor.key().to_vec(), cursor.value().to_vec());
        cursor.next();
    }
    cursor.status().unwrap();
    all
}

/// The same writes and compactions, by either engine, in turns: each reads what the other wrote,
/// and leaves the same levels.
// Plain #[test]: RocksDB has its own threads.
#[test]
fn both_engines_go_on_with_what_the_other_left() {
    let Some(library) = pumice_peer::installed_11_8() else { return };
    let peer = Peer::load(library).unwrap();
    for style in STYLES {
        let mut shapes = Vec::new();
        for first in [0, 1] {
            let dir = Scratch::new("young-apart");
            let mut map = Map::new();
            let mut shape = Vec::new();
            for n in 0..8 {
                // Without the option at first, so that the last level has entries.
                let young = if n < 2 { 0 } else { 100_000 };
                apply(&mut map, n);
                if n % 2 == first {
                    let db = theirs(&peer, &dir.0, style, young);
                    write_theirs(&db, n);
                    assert_eq!(read_theirs(&db), map, "{style:?} {n}");
                    shape.push(levels_of_theirs(&db));
                } else {
                    let db = ours(&dir.0, style, young);
                    write_ours(&db, n);
                    assert_eq!(contents(&db).into_iter().collect::<Map>(), map, "{style:?} {n}");
                    shape.push(levels(&db));
                    db.close().unwrap();
                }
            }
            shapes.push(shape);
        }
        println!("{style:?}: {shapes:?}");
        assert_eq!(shapes[0], shapes[1], "{style:?}");
        assert_eq!(shapes[0][7], [LAST - 1, LAST]);
    }
}
