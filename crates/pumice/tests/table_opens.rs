//! Which tables a read opens, when few may be open: those that it reaches.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;

use common::{contents, fill, flush, key, memory, options};
use pumice::{
    CompactRangeOptions, Db, Options, ReadOptions, Snapshot, Statistics, Ticker,
    WaitForCompactOptions, WriteOptions,
};
use pumice_base::random::Rng;

/// Some hundred files in one level, of which few may be open.
fn many_files(max_open_files: i32) -> (Db, Options, Arc<Statistics>) {
    let (_, fs) = memory();
    let mut options = options(&fs);
    let statistics = Arc::new(Statistics::new());
    options.db.statistics = Some(Arc::clone(&statistics));
    options.db.max_open_files = max_open_files;
    options.cf.target_file_size_base = 4 << 10;
    options.cf.compression = pumice::CompressionType::None;
    options.cf.disable_auto_compactions = true;
    let db = Db::open(&options, "/db").unwrap();
    for value in ["old".repeat(33), "v".repeat(100)] {
        fill(&db, 0..4000, &value);
        flush(&db);
    }
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    let files = db.live_files_metadata().len();
    assert!(files > 100, "{files}");
    (db, options, statistics)
}

fn opens(statistics: &Statistics, read: impl FnOnce()) -> u64 {
    let before = statistics.ticker(Ticker::NoFileOpens);
    read();
    statistics.ticker(Ticker::NoFileOpens) - before
}

fn seek(db: &Db, n: usize) {
    let mut iter = db.iter(&ReadOptions::default()).unwrap();
    iter.seek(&key(n));
    assert_eq!(iter.key(), key(n));
    iter.prev();
    assert_eq!(iter.key(), key(n - 1));
}

#[pumice_test_macros::test]
fn an_iterator_opens_the_tables_that_it_reaches() {
    let (mut db, options, statistics) = many_files(30);
    for round in 0..10 {
        if round == 5 {
            // What was known of the files is forgotten.
            db.close().unwrap();
            db = Db::open(&options, "/db").unwrap();
        }
        fill(&db, 5000 + round..5001 + round, "new");
        flush(&db);
        // The flushed ones (those of before the last round are open), and one or two of the level.
        let opened = opens(&statistics, || seek(&db, 317 * (round + 1)));
        assert!(opened <= if round == 5 { 8 } else { 3 }, "round {round}: {opened} opened");
    }
    assert_eq!(contents(&db).len(), 4010);
}

/// Databases of several levels with tombstones in some files of them, read through few open
/// tables, forwards and backwards, give what a map gives.
#[pumice_test_macros::test]
fn what_ranges_deleted_stays_hidden_in_every_level() {
    let seed = std::env::var("PUMICE_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    let share = std::env::var("PUMICE_TEST_SHARE").is_ok();
    let seeds = if share { seed..seed + 1 } else { seed..seed + 3 };
    for seed in seeds {
        println!("PUMICE_SEED={seed}");
        Life::new(seed).run();
    }
}

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

struct Life {
    random: Rng,
    options: Options,
    now: Map,
}

impl Life {
    fn new(seed: u64) -> Self {
        let (_, fs) = memory();
        let mut options = options(&fs);
        options.db.max_open_files = 20;
        options.cf.target_file_size_base = 2 << 10;
        options.cf.max_bytes_for_level_base = 8 << 10;
        options.cf.max_bytes_for_level_multiplier = 3.0;
        options.cf.level0_file_num_compaction_trigger = 2;
        options.cf.level_compaction_dynamic_level_bytes = false;
        options.cf.compression = pumice::CompressionType::None;
        Life { random: Rng::new(seed), options, now: Map::new() }
    }

    fn run(mut self) {
        let mut db = Db::open(&self.options, "/db").unwrap();
        let mut moments = Vec::new();
        let mut levels = 0;
        for round in 0..40 {
            self.write(&db, round);
            if round % 3 != 1 {
                flush(&db);
            }
            db.wait_for_compact(&WaitForCompactOptions::default()).unwrap();
            let files = db.live_files_metadata();
            levels = levels.max(files.iter().map(|file| file.level).max().unwrap_or(0));
            self.check(&db, &ReadOptions::default(), &self.now.clone());
            for (snapshot, map) in &moments {
                let at =
                    ReadOptions { snapshot: Some(Snapshot::clone(snapshot)), ..Default::default() };
                self.check(&db, &at, map);
            }
            match round % 10 {
                2 | 5 => moments.push((db.snapshot(), self.now.clone())),
                9 => {
                    moments.clear();
                    db.close().unwrap();
                    db = Db::open(&self.options, "/db").unwrap();
                }
                _ => {}
            }
        }
        assert!(levels >= 3, "{levels}");
    }

    fn number(&mut self) -> usize {
        self.random.uniform(600) as usize
    }

    fn write(&mut self, db: &Db, round: usize) {
        let to = WriteOptions::default();
        for _ in 0..60 {
            let (name, value) = (key(self.number()), format!("{round:>30}").into_bytes());
            db.put(&to, &name, &value).unwrap();
            self.now.insert(name, value);
        }
        for _ in 0..self.random.uniform(4) {
            let (at, long) = (self.number(), 1 + self.number() / 8);
            let (from, end) = (key(at), key(at + long));
            db.delete_range(&to, &from, &end).unwrap();
            self.now.retain(|name, _| *name < from || *name >= end);
        }
    }

    fn check(&mut self, db: &Db, at: &ReadOptions, map: &Map) {
        let all: Vec<_> = map.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
        let mut iter = db.iter(at).unwrap();
        let mut found = Vec::new();
        iter.seek_to_first();
        while iter.valid() {
            found.push((iter.key().to_vec(), iter.value().to_vec()));
            iter.next();
        }
        assert_eq!(found, all);
        found.clear();
        iter.seek_to_last();
        while iter.valid() {
            found.push((iter.key().to_vec(), iter.value().to_vec()));
            iter.prev();
        }
        found.reverse();
        assert_eq!(found, all);
        for _ in 0..20 {
            let target = key(self.number());
            let mut iter = db.iter(at).unwrap();
            let mut index = all.partition_point(|(key, _)| *key < target);
            match self.random.uniform(2) {
                0 => iter.seek(&target),
                _ => {
                    iter.seek_for_prev(&target);
                    let behind = all.partition_point(|(key, _)| *key <= target);
                    index = behind.wrapping_sub(1);
                }
            }
            for _ in 0..6 {
                assert_eq!(iter.valid(), index < all.len());
                if !iter.valid() {
                    break;
                }
                assert_eq!((iter.key(), iter.value()), (&all[index].0[..], &all[index].1[..]));
                if self.random.uniform(2) == 0 {
                    iter.next();
                    index += 1;
                } else {
                    iter.prev();
                    index = index.wrapping_sub(1);
                }
            }
            iter.status().unwrap();
        }
    }
}
