//! A database whose tables change their format at each open: block-based ones with and without a
//! trie, plain ones of every kind, cuckoo ones, which snapshots turn into others. Every read,
//! forward and backward, within bounds, by prefix and of the past, is compared with a model.
//!
//! One task; the disk is in memory.

use std::collections::BTreeMap;

use crate::common::{DIR, contents, flush, get, key, memory, options};
use pumice::options::{
    CuckooTableOptions, PlainEncoding, PlainTableOptions, TableFactory, UserDefinedIndex,
};
use pumice::{
    BlockCache, CacheOptions, ColumnFamily, ColumnFamilyDescriptor, CompactRangeOptions, Db,
    Options, ReadOptions, Snapshot,
};
use pumice_base::random::Rng;
use pumice_testkit::seed;

const SEEDS: u64 = 12;
const OPENS: usize = 6;
const STEPS: usize = 60;
/// The family whose keys and values are of one size.
const EVEN: &str = "even";

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

struct Life {
    rng: Rng,
    options: Options,
    /// Of the default family.
    prefix_len: Option<usize>,
    models: [Model; 2],
    snapshot: Option<(Snapshot, [Model; 2])>,
    holds_ranges: bool,
}

impl Life {
    fn below(&mut self, n: u64) -> u64 {
        self.rng.uniform(n)
    }

    fn key(&mut self, even: bool) -> Vec<u8> {
        let len = if even { 4 } else { self.below(8) as usize };
        (0..len).map(|_| b'a' + self.below(3) as u8).collect()
    }

    fn value(&mut self, even: bool) -> Vec<u8> {
        let len = match (even, self.below(10)) {
            (true, _) => 6,
            (false, 0) => 0,
            (false, 1) => 5000,
            (false, _) => 1 + self.below(40),
        };
        let byte = b'A' + self.below(26) as u8;
        vec![byte; len as usize]
    }

    fn plain(&mut self, prefixes: bool) -> TableFactory {
        TableFactory::Plain(PlainTableOptions {
            user_key_len: 0,
            bloom_bits_per_key: [0, 1, 10][self.below(3) as usize],
            hash_table_ratio: if prefixes { [0.0, 0.75][self.below(2) as usize] } else { 0.0 },
            index_sparseness: 1 + self.below(5),
            encoding_type: match self.below(2) {
                0 => PlainEncoding::Plain,
                _ => PlainEncoding::Prefix,
            },
            full_scan_mode: self.below(4) == 0,
            store_index_in_file: self.below(2) == 0,
            ..PlainTableOptions::default()
        })
    }

    fn format(&mut self, prefixes: bool, even: bool) -> TableFactory {
        match self.below(4) {
            0 => TableFactory::BlockBased,
            1 if even => TableFactory::Cuckoo(CuckooTableOptions {
                hash_table_ratio: [0.5, 0.9, 1.0][self.below(3) as usize],
                cuckoo_block_size: 1 + self.below(5) as u32,
                use_module_hash: self.below(2) == 0,
                ..CuckooTableOptions::default()
            }),
            _ => self.plain(prefixes),
        }
    }

    fn open(&mut self) -> (Db, Vec<ColumnFamily>) {
        let mut families = Vec::new();
        for even in [false, true] {
            let mut cf = self.options.cf.clone();
            let prefixes = self.prefix_len.filter(|_| !even);
            if let Some(len) = prefixes {
                cf.set("prefix_extractor", &format!("fixed:{len}")).unwrap();
            }
            cf.set("merge_operator", "stringappend").unwrap();
            let format = self.format(prefixes.is_some(), even);
            if !even {
                self.holds_ranges = format.is_block_based();
            }
            if format.is_block_based() && self.below(2) == 0 {
                cf.table_factory.set("user_defined_index_factory", "trie_index").unwrap();
            }
            cf.table_factory.set("block_size", ["200", "4096"][self.below(2) as usize]).unwrap();
            cf.table_factory.format = format;
            families.push(ColumnFamilyDescriptor::new(if even { EVEN } else { "default" }, cf));
        }
        Db::open_cf(&self.options.db, DIR, &families).unwrap()
    }

    fn step(&mut self, db: &Db, cfs: &[ColumnFamily]) {
        let even = self.below(3) == 0;
        let (cf, key, value) = (&cfs[usize::from(even)], self.key(even), self.value(even));
        match self.below(20) {
            0..9 => {
                db.put_cf(cf, &key, &value).unwrap();
                self.models[usize::from(even)].insert(key, value);
            }
            9..12 => {
                db.delete_cf(cf, &key).unwrap();
                self.models[usize::from(even)].remove(&key);
            }
            12 if !even => {
                db.merge_cf(cf, &key, &value).unwrap();
                let joined = match self.models[0].get(&key) {
                    Some(base) => [&base[..], b",", &value[..]].concat(),
                    None => value,
                };
                self.models[0].insert(key, joined);
            }
            13 if !even && self.holds_ranges => {
                let (start, end) = {
                    let other = self.key(false);
                    if other < key { (other, key) } else { (key, other) }
                };
                db.delete_range_cf(cf, &start, &end).unwrap();
                self.models[0].retain(|key, _| *key < start || *key >= end);
            }
            14 | 15 => db.flush_cf(cf).unwrap(),
            16 => db.compact_range_cf(&CompactRangeOptions::default(), cf, None, None).unwrap(),
            17 => self.snapshot = Some((db.snapshot(), self.models.clone())),
            18 => self.snapshot = None,
            _ => {}
        }
    }

    fn check_all(&mut self, db: &Db, cfs: &[ColumnFamily], what: &str) {
        self.check(db, cfs, &self.models.clone(), None, what);
        if let Some((snapshot, models)) = self.snapshot.clone() {
            self.check(db, cfs, &models, Some(snapshot), &format!("{what}, past"));
        }
    }

    fn check(
        &mut self,
        db: &Db,
        cfs: &[ColumnFamily],
        models: &[Model; 2],
        snapshot: Option<Snapshot>,
        what: &str,
    ) {
        for ((cf, model), even) in cfs.iter().zip(models).zip([false, true]) {
            let read = ReadOptions {
                snapshot: snapshot.clone(),
                total_order_seek: true,
                table_index_factory: (self.below(2) == 0).then_some(UserDefinedIndex::Trie),
                ..ReadOptions::default()
            };
            let what = format!("{what}, {}", cf.name());
            self.check_keys(db, cf, model, &read, &what);
            self.check_steps(db, cf, model, &read, &what);
            if let Some(len) = self.prefix_len.filter(|_| !even) {
                self.check_prefix(db, cf, model, &read, len);
            }
        }
    }

    fn check_keys(
        &mut self,
        db: &Db,
        cf: &ColumnFamily,
        model: &Model,
        read: &ReadOptions,
        what: &str,
    ) {
        let keys: Vec<_> = (0..5).map(|_| self.key(cf.name() == EVEN)).collect();
        let pairs: Vec<_> = keys.iter().map(|key| (cf, &key[..])).collect();
        for (key, found) in keys.iter().zip(db.multi_get_cf_opt(read, &pairs)) {
            let expected = model.get(key).map(|value| &value[..]);
            assert_eq!(found.unwrap().as_deref(), expected, "{what}: {key:?} of many");
            let found = db.get_cf_opt(read, cf, key).unwrap();
            assert_eq!(found.as_deref(), expected, "{what}: {key:?}");
        }
    }

    /// Back and forth within bounds.
    fn check_steps(
        &mut self,
        db: &Db,
        cf: &ColumnFamily,
        model: &Model,
        read: &ReadOptions,
        what: &str,
    ) {
        let even = cf.name() == EVEN;
        let lower = Some(self.key(even)).filter(|_| self.below(2) == 0);
        let upper = Some(self.key(even)).filter(|_| self.below(2) == 0);
        let what = format!("{what}, {lower:?} to {upper:?}");
        let within = |key: &Vec<u8>| {
            lower.as_ref().is_none_or(|lower| key >= lower)
                && upper.as_ref().is_none_or(|upper| key < upper)
        };
        let list: Vec<_> = model.iter().filter(|(key, _)| within(key)).collect();
        let bounded = ReadOptions {
            iterate_lower_bound: lower.clone(),
            iterate_upper_bound: upper.clone(),
            ..read.clone()
        };
        let mut cursor = db.cursor_cf_opt(&bounded, cf).unwrap();
        let mut place: Option<usize> = None;
        for _ in 0..25 {
            let target = self.key(even);
            place = match (self.below(8), place) {
                (0, _) => {
                    cursor.seek_to_first();
                    Some(0)
                }
                (1, _) => {
                    cursor.seek_to_last();
                    list.len().checked_sub(1)
                }
                (2, _) => {
                    cursor.seek(&target);
                    Some(list.partition_point(|entry| *entry.0 < target))
                }
                (3, _) => {
                    cursor.seek_for_prev(&target);
                    list.partition_point(|entry| *entry.0 <= target).checked_sub(1)
                }
                (4 | 5, Some(at)) => {
                    cursor.next();
                    Some(at + 1)
                }
                (_, Some(at)) => {
                    cursor.prev();
                    at.checked_sub(1)
                }
                (_, None) => None,
            };
            cursor.status().unwrap();
            place = place.filter(|at| *at < list.len());
            let expected = place.map(|at| (&list[at].0[..], &list[at].1[..]));
            assert_eq!(cursor.item(), expected, "{what}: {target:?}");
        }
    }

    fn check_prefix(
        &mut self,
        db: &Db,
        cf: &ColumnFamily,
        model: &Model,
        read: &ReadOptions,
        len: usize,
    ) {
        let target = self.key(false);
        let Some(prefix) = target.get(..len) else { return };
        let same =
            ReadOptions { prefix_same_as_start: true, total_order_seek: false, ..read.clone() };
        let mut cursor = db.cursor_cf_opt(&same, cf).unwrap();
        cursor.seek(&target);
        let mut found = Vec::new();
        while let Some(key) = cursor.key() {
            found.push(key.to_vec());
            cursor.next();
        }
        cursor.status().unwrap();
        let from = model.range(target.clone()..).map(|(key, _)| key);
        let expected: Vec<_> = from.take_while(|key| key.starts_with(prefix)).cloned().collect();
        assert_eq!(found, expected, "prefix of {target:?}");
    }
}

#[pumice_test_macros::test]
fn tables_of_all_formats_live_together() {
    for seed in seed::range(SEEDS) {
        let (_fs, shared) = memory();
        let mut rng = Rng::new(seed);
        let prefix_len = [None, Some(1), Some(3)][rng.uniform(3) as usize];
        let mut options = options(&shared);
        options.db.create_missing_column_families = true;
        let mut life = Life {
            rng,
            options,
            prefix_len,
            models: Default::default(),
            snapshot: None,
            holds_ranges: false,
        };
        for open in 0..OPENS {
            let (db, cfs) = life.open();
            life.check_all(&db, &cfs, &format!("seed {seed}, open {open}"));
            for step in 0..STEPS {
                life.step(&db, &cfs);
                if step % 5 == 0 {
                    life.check_all(&db, &cfs, &format!("seed {seed}, open {open}, step {step}"));
                }
            }
            life.snapshot = None;
            if life.holds_ranges {
                // What other formats cannot hold.
                db.flush_cf(&cfs[0]).unwrap();
                db.compact_range_cf(
                    &CompactRangeOptions {
                        bottommost_level_compaction: pumice::BottommostLevelCompaction::Force,
                        ..CompactRangeOptions::default()
                    },
                    &cfs[0],
                    None,
                    None,
                )
                .unwrap();
            }
            drop(cfs);
            db.close().unwrap();
        }
    }
}

/// Tables without blocks are cut into blocks when they are opened: one that is cut otherwise at the
/// next open finds nothing of the first cut in a cache that both have.
#[pumice_test_macros::test]
fn a_cache_tells_the_cuts_of_a_table_apart() {
    let (_fs, shared) = memory();
    let mut options = options(&shared);
    let plain = PlainTableOptions { hash_table_ratio: 0.0, ..PlainTableOptions::default() };
    options.cf.table_factory.format = TableFactory::Plain(plain);
    options.cf.table_factory.block_cache = Some(BlockCache::new(CacheOptions::new(1 << 20)));
    options.cf.table_factory.cache_index_and_filter_blocks = true;
    for block_size in [4096, 200, 1000] {
        options.cf.table_factory.block_size = block_size;
        let db = Db::open(&options, DIR).unwrap();
        if block_size == 4096 {
            (0..500).for_each(|n| db.put(key(n), key(n)).unwrap());
            flush(&db);
        }
        for n in 0..500 {
            assert_eq!(get(&db, &key(n)), Some(key(n)), "block_size {block_size}");
        }
        assert_eq!(contents(&db).len(), 500, "block_size {block_size}");
        db.close().unwrap();
    }
}

/// A repair merges tables and drops no version, and a cuckoo table has one of each key.
#[pumice_test_macros::test]
fn cuckoo_tables_are_repaired_into_others() {
    let (_fs, shared) = memory();
    let mut options = options(&shared);
    options.cf.table_factory.format = TableFactory::Cuckoo(CuckooTableOptions::default());
    options.cf.disable_auto_compactions = true;
    let db = Db::open(&options, DIR).unwrap();
    for value in ["old", "new"] {
        (0..50).for_each(|n| db.put(key(n), value).unwrap());
        flush(&db);
    }
    db.close().unwrap();
    drop(db);
    for name in shared.list(DIR.as_ref()).unwrap() {
        if name == "CURRENT" || name.starts_with("MANIFEST") {
            shared.remove(&std::path::Path::new(DIR).join(name)).unwrap();
        }
    }
    pumice::repair(&options, DIR).unwrap();
    let db = Db::open(&options, DIR).unwrap();
    assert!((0..50).all(|n| get(&db, &key(n)).as_deref() == Some(b"new")));
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    assert_eq!(contents(&db).len(), 50);
    db.close().unwrap();
}
