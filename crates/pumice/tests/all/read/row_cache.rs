//! `row_cache`: reads find the same with it and without, and less is read.

use std::sync::Arc;

use crate::common::{self, DIR, flush, memory};
use pumice::{
    CompactRangeOptions, Db, Options, ReadOptions, RowCache, Snapshot, Statistics, Ticker,
};
use pumice_base::random::Rng;

fn options(rows: Option<&Arc<RowCache>>) -> (Options, Arc<Statistics>) {
    let (_fs, shared) = memory();
    let mut options = common::options(&shared);
    options.db.row_cache = rows.cloned();
    let statistics = Arc::new(Statistics::new());
    options.db.statistics = Some(Arc::clone(&statistics));
    options.cf.merge_operator = pumice::options::merge_operator_by_name("stringappend");
    (options, statistics)
}

/// Row cache hits and misses.
fn counts(statistics: &Statistics) -> (u64, u64) {
    (statistics.ticker(Ticker::RowCacheHit), statistics.ticker(Ticker::RowCacheMiss))
}

fn at(snapshot: &Snapshot) -> ReadOptions {
    ReadOptions { snapshot: Some(snapshot.clone()), ..ReadOptions::default() }
}

#[pumice_test_macros::test]
fn the_second_read_of_a_row_asks_no_table() {
    let rows = RowCache::new(1 << 20);
    let (options, statistics) = options(Some(&rows));
    let db = Db::open(&options, DIR).unwrap();
    db.put("key", "value").unwrap();
    assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"value"[..]));
    assert_eq!(counts(&statistics), (0, 0), "memtables have no rows");
    flush(&db);
    let read = |key: &str| db.get(key).unwrap().map(|value| value.to_vec());
    for expected in [(0, 1), (1, 1), (2, 1)] {
        assert_eq!(read("key"), Some(b"value".to_vec()));
        assert_eq!(counts(&statistics), expected);
    }
    let blocks = || {
        statistics.ticker(Ticker::BlockCacheDataHit) + statistics.ticker(Ticker::BlockCacheDataMiss)
    };
    let before = blocks();
    assert_eq!(read("key"), Some(b"value".to_vec()));
    assert_eq!(blocks(), before);
    assert_eq!((read("absent"), read("absent")), (None, None));
    assert_eq!(counts(&statistics).0, 3, "what is not there has no row");
    assert!(rows.usage() > 0);
    db.put("key", "newer").unwrap();
    assert_eq!(read("key"), Some(b"newer".to_vec()));
    db.close().unwrap();
}

#[pumice_test_macros::test]
fn nothing_is_kept_of_reads_that_fill_no_cache() {
    let (options, statistics) = options(Some(&RowCache::new(1 << 20)));
    let db = Db::open(&options, DIR).unwrap();
    db.put("key", "value").unwrap();
    flush(&db);
    let unfilled = ReadOptions { fill_cache: false, ..ReadOptions::default() };
    for misses in 1..4 {
        assert!(db.get_opt(&unfilled, b"key").unwrap().is_some());
        assert_eq!(counts(&statistics), (0, misses));
    }
    db.close().unwrap();
}

/// A cache outlives the database: the next one's files have the same numbers.
#[pumice_test_macros::test]
fn databases_that_share_a_cache_see_their_own_rows() {
    let rows = RowCache::new(1 << 20);
    for value in ["one", "two", "three"] {
        let (options, statistics) = options(Some(&rows));
        let db = Db::open(&options, DIR).unwrap();
        db.put("key", value).unwrap();
        flush(&db);
        for _ in 0..2 {
            assert_eq!(db.get("key").unwrap().as_deref(), Some(value.as_bytes()));
        }
        assert_eq!(counts(&statistics), (1, 1));
        db.close().unwrap();
    }
}

/// One step of a drawn life.
fn step(db: &Db, draw: u64, key: &[u8], n: u64) {
    let end = [key, b"5"].concat();
    match draw {
        0..40 => db.put(key, format!("value{n}")).unwrap(),
        40..60 => db.merge(key, format!("operand{n}")).unwrap(),
        60..70 => db.delete(key).unwrap(),
        70..73 if n.is_multiple_of(5) => {
            // The tombstone does not cover what its file has of the key, but what older files have.
            db.delete_range(key, &end).unwrap();
            db.merge(key, format!("operand{n}")).unwrap();
        }
        73..76 => flush(db),
        80..81 => db.compact_range(&CompactRangeOptions::default(), None, None).unwrap(),
        _ => {}
    }
}

/// The same life with rows, with few rows and without: every read of every snapshot agrees.
#[pumice_test_macros::test]
fn rows_change_no_answer() {
    for seed in 0..6 {
        let caches = [None, Some(RowCache::new(2 << 10)), Some(RowCache::new(1 << 20))];
        let opened: Vec<(Db, Arc<Statistics>)> = caches
            .iter()
            .map(|rows| options(rows.as_ref()))
            .map(|(options, statistics)| (Db::open(&options, DIR).unwrap(), statistics))
            .collect();
        let mut rng = Rng::new(seed);
        let mut snapshots: Vec<Vec<Snapshot>> = Vec::new();
        for n in 0..3000 {
            let (draw, key) = (rng.uniform(100), format!("k{}", rng.uniform(40)));
            for (db, _) in &opened {
                step(db, draw, key.as_bytes(), n);
            }
            if rng.uniform(50) == 0 {
                snapshots.push(opened.iter().map(|(db, _)| db.snapshot()).collect());
            }
            if snapshots.len() > 4 {
                snapshots.remove(rng.uniform(5) as usize);
            }
            let key = format!("k{}", rng.uniform(40));
            let past = (rng.uniform(3) == 0 && !snapshots.is_empty())
                .then(|| &snapshots[rng.uniform(snapshots.len() as u64) as usize]);
            let answers: Vec<_> = opened
                .iter()
                .enumerate()
                .map(|(which, (db, _))| {
                    let options = past.map_or_else(ReadOptions::default, |all| at(&all[which]));
                    let one = db.get_opt(&options, key.as_bytes()).unwrap().map(|v| v.to_vec());
                    let many = db.multi_get_opt(&options, &[&key]).remove(0).unwrap();
                    assert_eq!(one, many.map(|v| v.to_vec()), "seed {seed}, step {n}, {key}");
                    one
                })
                .collect();
            assert_eq!(answers[0], answers[1], "seed {seed}, step {n}, {key}: few rows");
            assert_eq!(answers[0], answers[2], "seed {seed}, step {n}, {key}: rows");
        }
        assert_eq!(counts(&opened[0].1), (0, 0));
        assert!(counts(&opened[2].1).0 > 500, "seed {seed}: {:?}", counts(&opened[2].1));
        drop(snapshots);
        opened.into_iter().for_each(|(db, _)| db.close().unwrap());
    }
}

/// The same calls in RocksDB and here: hits and misses are counted alike.
#[pumice_test_macros::test]
fn rocksdb_counts_the_same() {
    const KEYS: u64 = 50;
    let Some(library) = pumice_peer::installed_library() else { return };
    let peer = pumice_peer::Peer::load(library).unwrap();
    let dir = std::env::temp_dir().join(format!("pumice-row-cache-{}", std::process::id()));
    let mut theirs = pumice_peer::Options::new(&peer);
    theirs.set_many("create_if_missing=true").unwrap();
    theirs.set_row_cache(&pumice_peer::Cache::lru_sharded(&peer, 1 << 20, 0));
    theirs.enable_statistics();
    let their_db = pumice_peer::Db::open(&theirs, &dir).unwrap();
    let cf = their_db.default_column_family().clone();
    let write = pumice_peer::WriteOptions::new(&peer, &pumice_peer::WriteSettings::default());
    let read = pumice_peer::ReadOptions::new(&peer, &pumice_peer::ReadSettings::default());
    let (ours, statistics) = options(Some(&RowCache::new(1 << 20)));
    let our_db = Db::open(&ours, DIR).unwrap();
    let key = |n: u64| format!("key{n:03}").into_bytes();

    for n in 0..KEYS {
        their_db.put(&write, &cf, &key(n), b"value").unwrap();
        our_db.put(key(n), "value").unwrap();
    }
    their_db.flush(&cf).unwrap();
    flush(&our_db);
    let mut rng = Rng::new(1);
    for n in 0..300 {
        // Some that are not there, and one that is in the memtable from the middle on.
        let mut key = key(rng.uniform(KEYS - 1));
        if rng.uniform(6) == 0 {
            key.push(b'x');
        }
        if n == 150 {
            their_db.put(&write, &cf, &key, b"newer").unwrap();
            our_db.put(&key, "newer").unwrap();
        }
        let mut value = Vec::with_capacity(100); // It would be read twice to fit.
        let found = their_db.get(&read, &cf, &key, &mut value).unwrap().then_some(value);
        assert_eq!(our_db.get(&key).unwrap().map(|value| value.to_vec()), found);
    }
    let their_count = |name: &str| theirs.ticker(name).unwrap();
    let expected = (their_count("rocksdb.row.cache.hit"), their_count("rocksdb.row.cache.miss"));
    assert!(expected.0 > 100 && expected.1 > 80, "{expected:?}");
    assert_eq!(counts(&statistics), expected);
    drop(their_db);
    our_db.close().unwrap();
    Db::destroy(&Options::default(), &dir).unwrap();
}
