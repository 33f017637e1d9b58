//! `multi_get` answers what `get` answers, key by key, whatever is cached and however blocks are
//! laid out; it reads each block once; an error stays with the keys whose block it is in.

use std::sync::Arc;

use crate::common::{self, flush, key, memory, options};
use pumice::{
    BlockCache, CacheOptions, ColumnFamilyDescriptor, CompressedSecondaryCacheOptions, Db,
    ErrorKind, MemFs, Options, ReadOptions, Statistics, Ticker, WriteOptions,
};

const KEYS: usize = 3000;

/// A small generator; the seed is in the assertion texts.
struct Draw(u64);

impl Draw {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % n
    }
}

fn cache(bytes: usize) -> Option<Arc<BlockCache>> {
    Some(BlockCache::new(CacheOptions::new(bytes)))
}

/// Settings under which blocks are found, lost and needed in different ways.
fn layouts() -> Vec<(&'static str, Options)> {
    let with = |name, change: &dyn Fn(&mut Options)| {
        let (_, fs) = memory();
        let mut options = options(&fs);
        options.cf.disable_auto_compactions = true;
        options.set("merge_operator", "uint64add").unwrap();
        change(&mut options);
        (name, options)
    };
    vec![
        with("roomy cache", &|o| o.cf.table_factory.block_cache = cache(32 << 20)),
        with("tiny cache", &|o| o.cf.table_factory.block_cache = cache(16 << 10)),
        with("tiny cache with a secondary one", &|o| {
            let table = "{block_size=512;cache_index_and_filter_blocks=true}";
            o.set("block_based_table_factory", table).unwrap();
            let second = CompressedSecondaryCacheOptions::new(1 << 20);
            let cache = BlockCache::with_secondary(CacheOptions::new(16 << 10), &second);
            o.cf.table_factory.block_cache = Some(cache.unwrap());
        }),
        with("no cache", &|o| o.cf.table_factory.no_block_cache = true),
        with("index and filter in the cache", &|o| {
            let table =
                "{filter_policy=bloomfilter:10;block_size=512;cache_index_and_filter_blocks=true}";
            o.set("block_based_table_factory", table).unwrap();
            o.cf.table_factory.block_cache = cache(32 << 20);
        }),
        with("few open files", &|o| {
            o.cf.table_factory.block_cache = cache(32 << 20);
            o.db.max_open_files = 20;
        }),
    ]
}

/// Two column families over memtable, L0 and L1, with overwrites, deletions, merges and a range
/// tombstone.
fn fill(options: &Options) -> (Db, Vec<pumice::ColumnFamily>) {
    let mut db = options.db.clone();
    db.create_missing_column_families = true;
    let families =
        ["default", "other"].map(|name| ColumnFamilyDescriptor::new(name, options.cf.clone()));
    let (db, cfs) = Db::open_cf(&db, common::DIR, &families).unwrap();
    let write = WriteOptions::default();
    for (number, cf) in cfs.iter().enumerate() {
        for n in 0..KEYS {
            let value = (n as u64 * 10 + number as u64).to_le_bytes();
            db.put_cf_opt(&write, cf, &key(n), &value.repeat(1 + n % 9)[..8 * (1 + n % 9)])
                .unwrap();
        }
        for n in (0..KEYS).step_by(11) {
            db.put_cf_opt(&write, cf, &key(n), &5u64.to_le_bytes()).unwrap();
        }
    }
    db.flush_all_opt(&Default::default()).unwrap();
    for cf in &cfs {
        db.compact_range_cf(&Default::default(), cf, None, None).unwrap();
        for n in (0..KEYS).step_by(11) {
            db.merge_cf_opt(&write, cf, &key(n), &7u64.to_le_bytes()).unwrap();
        }
        db.delete_range_cf_opt(&write, cf, &key(500), &key(540)).unwrap();
    }
    db.flush_all_opt(&Default::default()).unwrap();
    for cf in &cfs {
        for n in (0..KEYS).step_by(7) {
            db.delete_cf_opt(&write, cf, &key(n)).unwrap();
        }
    }
    db.flush_all_opt(&Default::default()).unwrap();
    for cf in &cfs {
        for n in (0..KEYS).step_by(33) {
            db.merge_cf_opt(&write, cf, &key(n), &1u64.to_le_bytes()).unwrap();
        }
    }
    (db, cfs)
}

fn plain(found: pumice::Result<Option<pumice::PinnedSlice>>) -> Result<Option<Vec<u8>>, ErrorKind> {
    found.map(|value| value.map(|v| v.to_vec())).map_err(|error| error.kind())
}

#[pumice_test_macros::test]
fn multi_get_answers_as_get_does() {
    for (name, options) in layouts() {
        let (db, cfs) = fill(&options);
        let mut draw = Draw(name.len() as u64);
        for round in 0..60 {
            let read = ReadOptions {
                fill_cache: draw.below(4) > 0,
                cache_only: draw.below(8) == 0,
                snapshot: (draw.below(3) == 0).then(|| db.snapshot()),
                ..ReadOptions::default()
            };
            let count = [1, 2, 16, 100][draw.below(4)];
            let spread = if draw.below(3) == 0 { 40 } else { KEYS + 50 };
            let from = draw.below(KEYS);
            let keys: Vec<(usize, Vec<u8>)> = (0..count)
                .map(|_| (draw.below(2), key((from + draw.below(spread)) % (KEYS + 50))))
                .collect();
            let asked: Vec<_> = keys.iter().map(|(cf, key)| (&cfs[*cf], &key[..])).collect();
            // With `cache_only` the result depends on what is cached, so single gets come first.
            let expect = |read: &ReadOptions| -> Vec<_> {
                asked.iter().map(|(cf, key)| plain(db.get_cf_opt(read, cf, key))).collect()
            };
            let before = read.cache_only.then(|| expect(&read));
            let found: Vec<_> = db.multi_get_cf_opt(&read, &asked).into_iter().map(plain).collect();
            let expected = before.unwrap_or_else(|| expect(&read));
            assert_eq!(found, expected, "{name}, round {round}, {keys:?}");
        }
        db.close().unwrap();
    }
}

/// Keys of one block cost one read; keys of many blocks one each.
#[pumice_test_macros::test]
fn each_block_is_read_once() {
    let (_, fs) = memory();
    let mut options = options(&fs);
    let statistics = Arc::new(Statistics::new());
    options.db.statistics = Some(Arc::clone(&statistics));
    options.cf.table_factory.block_cache = cache(32 << 20);
    let db = Db::open(&options, common::DIR).unwrap();
    common::fill(&db, 0..KEYS, &"v".repeat(100));
    flush(&db);
    let added = || statistics.ticker(Ticker::BlockCacheDataAdd);
    let ask = |keys: Vec<Vec<u8>>| {
        let before = added();
        let found = db.multi_get_opt(&ReadOptions::default(), &keys);
        assert!(found.into_iter().all(|value| value.unwrap().is_some()));
        added() - before
    };
    // About 30 entries of 130 bytes are in a block of 4 KiB.
    assert!(ask((0..16).map(key).collect()) <= 2);
    assert_eq!(ask((0..16).map(key).collect()), 0);
    assert_eq!(ask((0..16).map(|n| key(200 + n * 100)).collect()), 16);
    assert_eq!(ask((0..32).map(|n| key(200 + n * 50)).collect()), 16, "every other one is new");
}

/// A damaged block fails the keys in it and no other.
#[pumice_test_macros::test]
fn an_error_is_the_answer_of_its_keys_only() {
    let (fs, shared): (MemFs, _) = memory();
    let mut options = options(&shared);
    options.cf.table_factory.block_cache = cache(32 << 20);
    let db = Db::open(&options, common::DIR).unwrap();
    common::fill(&db, 0..KEYS, &"v".repeat(100));
    flush(&db);
    db.close().unwrap();
    let table = common::names(&shared, common::DIR).into_iter().find(|n| n.ends_with(".sst"));
    let path = std::path::Path::new(common::DIR).join(table.unwrap());
    let mut bytes = shared.read_file(&path).unwrap();
    bytes[100] ^= 0x40; // In the first data block.
    pumice_env::write_file(&*shared, &path, &bytes, true).unwrap();
    let db = Db::open(&options, common::DIR).unwrap();
    let keys: Vec<_> = [0, 1, 1000, 2000, 2, 2999].into_iter().map(key).collect();
    for _ in 0..2 {
        let found: Vec<_> =
            db.multi_get_opt(&ReadOptions::default(), &keys).into_iter().map(plain).collect();
        let failed: Vec<bool> = found.iter().map(Result::is_err).collect();
        assert_eq!(failed, [true, true, false, false, true, false], "{found:?}");
        assert_eq!(found[0], Err(ErrorKind::Corruption));
    }
    drop(fs);
}

#[pumice_test_macros::test]
fn a_large_memtable_answers_the_same() {
    let (_, fs) = memory();
    let db = Db::open(&options(&fs), common::DIR).unwrap();
    let name = |n: usize| format!("common__{n:06}").into_bytes();
    for n in (0..20_000).step_by(2) {
        db.put(name(n), name(n * 3)).unwrap();
    }
    db.delete(name(100)).unwrap();
    let mut draw = Draw(11);
    for count in 0..60 {
        let keys: Vec<_> =
            (0..count).map(|_| name(draw.below(20_100))).chain([name(100)]).collect();
        for (key, answer) in keys.iter().zip(db.multi_get(&keys)) {
            let answer = answer.unwrap().map(|value| value.to_vec());
            assert_eq!(answer, db.get(key).unwrap().map(|value| value.to_vec()), "{key:?}");
        }
    }
    db.close().unwrap();
}
