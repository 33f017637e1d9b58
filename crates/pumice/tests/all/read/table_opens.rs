//! Which tables a read opens, when few may be open: those that it reaches.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::common::{contents, fill, flush, key, memory, options};
use pumice::{
    CompactRangeOptions, Db, FilterPolicy, IngestExternalFileOptions, Options, ReadOptions,
    Snapshot, SstFileWriter, Statistics, Ticker, WaitForCompactOptions, WriteOptions,
};
use pumice_base::extension::builtin_slice_transform;
use pumice_base::random::Rng;
use pumice_testkit::seed;

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
    let mut iter = db.cursor_opt(&ReadOptions::default()).unwrap();
    iter.seek(&key(n));
    assert_eq!(iter.key().unwrap(), key(n));
    iter.prev();
    assert_eq!(iter.key().unwrap(), key(n - 1));
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

/// Jobs open the tables that they wrote, so that the first reader does not wait for it.
#[pumice_test_macros::test]
fn readers_find_new_tables_open() {
    let (db, _, statistics) = many_files(-1);
    fill(&db, 5000..5001, "flushed");
    flush(&db);
    let all = || assert_eq!(contents(&db).len(), 4001);
    assert_eq!(opens(&statistics, all), 0);
    // With a limit, new tables use at most a quarter of it.
    let (db, _, statistics) = many_files(50);
    assert_eq!(opens(&statistics, || seek(&db, 3)), 0);
    let files = db.live_files_metadata().len() as u64;
    // Some of the quarter was its inputs'.
    let opened = opens(&statistics, || assert_eq!(contents(&db).len(), 4000));
    assert!((files - 10..files).contains(&opened), "{opened} of {files}");
}

/// Databases of several levels with tombstones in some files of them, read through few open tables,
/// forwards and backwards, give the same as a map.
#[pumice_test_macros::test]
fn what_ranges_deleted_stays_hidden_in_every_level() {
    for seed in seed::range(3) {
        println!("PUMICE_SEED={seed}");
        Life::new(seed).run();
    }
}

/// Length of the prefixes: of ten keys each.
const PREFIX: usize = 8;

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
        options.cf.prefix_extractor = builtin_slice_transform("rocksdb.FixedPrefix.8");
        options.cf.table_factory.filter_policy = Some(FilterPolicy::bloom(10.0));
        let mut random = Rng::new(seed);
        options.cf.min_tombstones_for_range_conversion = random.uniform(4) as u32;
        options.cf.max_sequential_skip_in_iterations = [0, 1, 8][random.uniform(3) as usize];
        Life { random, options, now: Map::new() }
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
        if round % 5 == 4 {
            self.ingest_tombstones(db, round);
        }
        for _ in 0..60 {
            let (name, value) = (key(self.number()), format!("{round:>30}").into_bytes());
            db.put_opt(&to, &name, &value).unwrap();
            self.now.insert(name, value);
        }
        for _ in 0..self.random.uniform(3) {
            self.delete_run(db);
        }
        if self.random.uniform(4) == 0 {
            self.ingest_key(db, round);
        }
        for _ in 0..self.random.uniform(4) {
            let (at, long) = (self.number(), 1 + self.number() / 8);
            let (from, end) = (key(at), key(at + long));
            db.delete_range_opt(&to, &from, &end).unwrap();
            self.now.retain(|name, _| *name < from || *name >= end);
        }
    }

    /// Deletes keys in a row, one by one, and reads on the way: readers tell what they found dead.
    fn delete_run(&mut self, db: &Db) {
        let (at, long) = (self.number(), 1 + self.number() / 4);
        for n in at..at + long {
            db.delete_opt(&WriteOptions::default(), &key(n)).unwrap();
            self.now.remove(&key(n));
            if self.random.uniform(8) == 0 {
                let mut iter = db.cursor_opt(&ReadOptions::default()).unwrap();
                match self.random.uniform(2) {
                    0 => iter.seek(&key(at)),
                    _ => iter.seek_for_prev(&key(n)),
                }
            }
            if self.random.uniform(40) == 0 {
                let (name, value) = (key(at + long / 2), b"back".to_vec());
                db.put_opt(&WriteOptions::default(), &name, &value).unwrap();
                self.now.insert(name, value);
            }
        }
    }

    /// A file of one key, perhaps where nothing was visible.
    fn ingest_key(&mut self, db: &Db, round: usize) {
        let path = format!("/key {round}");
        let mut writer = SstFileWriter::new(&self.options).unwrap();
        writer.open(&path).unwrap();
        let (name, value) = (key(self.number()), b"ingested".to_vec());
        writer.put(&name, &value).unwrap();
        writer.finish().unwrap();
        db.ingest_external_file(&IngestExternalFileOptions::default(), &[&path]).unwrap();
        self.now.insert(name, value);
    }

    /// A file without a key.
    fn ingest_tombstones(&mut self, db: &Db, round: usize) {
        let path = format!("/tombstones {round}");
        let mut writer = SstFileWriter::new(&self.options).unwrap();
        writer.open(&path).unwrap();
        let (at, long) = (self.number(), 1 + self.number() / 8);
        let (from, end) = (key(at), key(at + long));
        writer.delete_range(&from, &end).unwrap();
        writer.finish().unwrap();
        db.ingest_external_file(&IngestExternalFileOptions::default(), &[&path]).unwrap();
        self.now.retain(|name, _| *name < from || *name >= end);
    }

    fn check(&mut self, db: &Db, at: &ReadOptions, map: &Map) {
        let all: Vec<_> = map.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
        let mut iter = db.cursor_opt(at).unwrap();
        let mut found = Vec::new();
        iter.seek_to_first();
        while iter.valid() {
            found.push((iter.key().unwrap().to_vec(), iter.value().unwrap().to_vec()));
            iter.next();
        }
        assert_eq!(found, all);
        found.clear();
        iter.seek_to_last();
        while iter.valid() {
            found.push((iter.key().unwrap().to_vec(), iter.value().unwrap().to_vec()));
            iter.prev();
        }
        found.reverse();
        assert_eq!(found, all);
        for _ in 0..8 {
            self.wander(db, at, &all);
        }
    }

    /// One iterator, within bounds or a prefix or neither, sought and turned many times.
    fn wander(&mut self, db: &Db, at: &ReadOptions, all: &[(Vec<u8>, Vec<u8>)]) {
        let mut at = at.clone();
        let (mut low, mut high) = (self.number(), self.number());
        if low > high {
            std::mem::swap(&mut low, &mut high);
        }
        let kind = self.random.uniform(4);
        if kind & 1 == 1 {
            at.iterate_lower_bound = Some(key(low));
        }
        if kind & 2 == 2 {
            at.iterate_upper_bound = Some(key(high));
        }
        at.prefix_same_as_start = self.random.uniform(3) == 0;
        let bounded: Vec<_> = all
            .iter()
            .filter(|(name, _)| at.iterate_lower_bound.as_ref().is_none_or(|low| name >= low))
            .filter(|(name, _)| at.iterate_upper_bound.as_ref().is_none_or(|high| name < high))
            .collect();
        let mut iter = db.cursor_opt(&at).unwrap();
        for _ in 0..6 {
            let target = key(self.number());
            let same = |name: &[u8]| !at.prefix_same_as_start || name[..PREFIX] == target[..PREFIX];
            let shown: Vec<_> = bounded.iter().filter(|(name, _)| same(name)).collect();
            let mut index = shown.partition_point(|(name, _)| *name < target);
            if self.random.uniform(2) == 0 {
                iter.seek(&target);
            } else {
                iter.seek_for_prev(&target);
                index = shown.partition_point(|(name, _)| *name <= target).wrapping_sub(1);
            }
            for _ in 0..8 {
                let Some((name, value)) = shown.get(index) else { break };
                assert!(iter.valid(), "{:?} in {at:?}", String::from_utf8_lossy(name));
                assert_eq!((iter.key().unwrap(), iter.value().unwrap()), (&name[..], &value[..]));
                if self.random.uniform(3) > 0 {
                    iter.next();
                    index += 1;
                } else {
                    iter.prev();
                    index = index.wrapping_sub(1);
                }
            }
            assert_eq!(iter.valid(), index < shown.len(), "{at:?}");
            iter.status().unwrap();
        }
    }
}
