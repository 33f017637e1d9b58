//! A database of universal style goes from Pumice to RocksDB and back, each time opened with the
//! OPTIONS file that the other left, and both compact it.

use std::collections::BTreeMap;
use std::path::Path;

use pumice::options::{CompactionStyle, FileRules, StopStyle, load_latest_options};
use pumice::{CompactRangeOptions, Db, FlushOptions, WaitForCompactOptions};
use pumice_base::random::Rng;
use pumice_env::PosixFs;
use pumice_peer::{Db as PeerDb, Options as PeerOptions, Peer};
use pumice_peer::{ReadOptions, ReadSettings, WriteOptions, WriteSettings};

const KEYS: u64 = 1000;
const MEMBERS: &str = "size_ratio=7;max_size_amplification_percent=120;\
                       stop_style=kCompactionStopStyleSimilarSize;allow_trivial_move=true";

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn key(n: u64) -> Vec<u8> {
    format!("key{n:05}").into_bytes()
}

/// The latest OPTIONS file, as `name=value;` of its default column family.
fn saved_options(path: &Path) -> String {
    let names = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name());
    let names = names.filter_map(|name| name.into_string().ok());
    let newest = names.filter(|name| name.starts_with("OPTIONS-")).max().unwrap();
    let text = std::fs::read_to_string(path.join(newest)).unwrap();
    let family = text.split("[CFOptions \"default\"]").nth(1).unwrap();
    let lines = family.lines().map(str::trim).skip(1).take_while(|line| !line.starts_with('['));
    // Values may be nested: braces keep their semicolons together.
    let braced = |line: &str| match line.split_once('=') {
        Some((name, value)) if value.contains(';') && !value.starts_with('{') => {
            format!("{name}={{{value}}}")
        }
        _ => line.to_string(),
    };
    lines.filter(|line| line.contains('=')).map(braced).collect::<Vec<_>>().join(";")
}

/// Opens with the options that are on the disk.
fn ours(path: &Path) -> Db {
    let loaded = load_latest_options(&PosixFs, path, FileRules::default()).unwrap().unwrap();
    let family = &loaded.column_families[0];
    assert_eq!(family.options.compaction_style, CompactionStyle::Universal);
    let universal = &family.options.compaction_options_universal;
    assert_eq!((universal.size_ratio, universal.max_size_amplification_percent), (7, 120));
    assert_eq!(universal.stop_style, StopStyle::SimilarSize);
    assert!(universal.allow_trivial_move && !universal.incremental);
    let descriptor = pumice::ColumnFamilyDescriptor::new("default", family.options.clone());
    Db::open_cf(&loaded.db, path, &[descriptor]).unwrap().0
}

fn theirs(peer: &Peer, path: &Path) -> PeerDb {
    let mut options = PeerOptions::new(peer);
    options.set_many(&saved_options(path)).unwrap();
    PeerDb::open(&options, path).unwrap()
}

/// The files that RocksDB finds; only reading, it compacts none of them.
fn found_by_them(peer: &Peer, path: &Path) -> usize {
    let mut options = PeerOptions::new(peer);
    options.set_many(&saved_options(path)).unwrap();
    PeerDb::open_read_only(&options, path, false).unwrap().live_files().len()
}

/// What is written in a round: a tenth of the keys, of which a tenth is deleted.
fn round(rng: &mut Rng, model: &mut Model) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    let mut writes = Vec::new();
    for _ in 0..KEYS / 10 {
        let key = key(rng.uniform(KEYS));
        let value = (!rng.one_in(10)).then(|| format!("{:080}", rng.uniform(1 << 40)).into_bytes());
        match &value {
            Some(value) => drop(model.insert(key.clone(), value.clone())),
            None => drop(model.remove(&key)),
        }
        writes.push((key, value));
    }
    writes
}

/// A range that is deleted.
fn doomed(rng: &mut Rng, model: &mut Model) -> (Vec<u8>, Vec<u8>) {
    let first = rng.uniform(KEYS);
    let range = key(first)..key(first + 20);
    model.retain(|key, _| !range.contains(key));
    (range.start, range.end)
}

fn write_ours(db: &Db, rounds: u64, rng: &mut Rng, model: &mut Model) {
    let wo = pumice::WriteOptions::default();
    for _ in 0..rounds {
        for (key, value) in round(rng, model) {
            match value {
                Some(value) => db.put_opt(&wo, &key, &value).unwrap(),
                None => db.delete_opt(&wo, &key).unwrap(),
            }
        }
        let (start, end) = doomed(rng, model);
        db.delete_range_opt(&wo, &start, &end).unwrap();
        db.flush_opt(&FlushOptions::default()).unwrap();
    }
    db.wait_for_compact(&WaitForCompactOptions::default()).unwrap();
}

fn write_theirs(db: &PeerDb, peer: &Peer, rounds: u64, rng: &mut Rng, model: &mut Model) {
    let (wo, cf) = (WriteOptions::new(peer, &WriteSettings::default()), db.default_column_family());
    for _ in 0..rounds {
        for (key, value) in round(rng, model) {
            match value {
                Some(value) => db.put(&wo, cf, &key, &value).unwrap(),
                None => db.delete(&wo, cf, &key).unwrap(),
            }
        }
        let (start, end) = doomed(rng, model);
        db.delete_range(&wo, cf, &start, &end).unwrap();
        db.flush(cf).unwrap();
    }
    db.wait_for_compact(true).unwrap();
}

fn seen_by_us(db: &Db) -> Model {
    let mut iter = db.cursor_opt(&pumice::ReadOptions::default()).unwrap();
    let mut all = Model::new();
    iter.seek_to_first();
    while iter.valid() {
        all.insert(iter.key().unwrap().to_vec(), iter.value().unwrap().to_vec());
        iter.next();
    }
    iter.status().unwrap();
    all
}

fn seen_by_them(db: &PeerDb, peer: &Peer) -> Model {
    let ro = ReadOptions::new(peer, &ReadSettings::default());
    let mut iter = db.iter(&ro, db.default_column_family());
    let mut all = Model::new();
    iter.seek_to_first();
    while iter.valid() {
        all.insert(iter.key().to_vec(), iter.value().to_vec());
        iter.next();
    }
    iter.status().unwrap();
    all
}

fn goes_to_and_fro(peer: &Peer, num_levels: i32, seed: u64) {
    let (rng, model) = (&mut Rng::new(seed), &mut Model::new());
    let folder = crate::scratch();
    let path = folder.path().join("db");
    let mut options = pumice::Options::default();
    options.db.create_if_missing = true;
    let family = format!(
        "compression=kNoCompression;compaction_style=kCompactionStyleUniversal;\
         num_levels={num_levels};target_file_size_base=20000;\
         compaction_options_universal={{{MEMBERS}}}"
    );
    options.set_from_text(&family).unwrap();
    Db::open(&options, &path).unwrap().close().unwrap();
    for visit in 0..3 {
        let db = ours(&path);
        assert_eq!(seen_by_us(&db), *model, "visit {visit} of seed {seed}");
        write_ours(&db, 9, rng, model);
        assert_eq!(seen_by_us(&db), *model);
        let counted = db.live_files_metadata();
        db.close().unwrap();

        assert_eq!(found_by_them(peer, &path), counted.len());
        let db = theirs(peer, &path);
        assert_eq!(seen_by_them(&db, peer), *model, "visit {visit} of seed {seed}");
        write_theirs(&db, peer, 9, rng, model);
        assert_eq!(seen_by_them(&db, peer), *model);
    }
    let db = ours(&path);
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    let files = db.live_files_metadata();
    assert!(files.iter().all(|f| f.level as i32 == num_levels - 1), "{files:?}");
    assert_eq!(seen_by_us(&db), *model);
    db.close().unwrap();
    assert_eq!(seen_by_them(&theirs(peer, &path), peer), *model);
}

// Plain #[test]: RocksDB blocks its thread.
#[test]
fn a_universal_database_goes_to_rocksdb_and_back() {
    let Some(peer) = super::peer() else { return };
    for (num_levels, seed) in [(1, 1), (2, 2), (7, 3)] {
        goes_to_and_fro(&peer, num_levels, seed);
    }
}
