//! A database with a persistent cache answers as one without, and its reads are counted; what is in
//! the files of the cache is not read from tables, and damage there changes nothing.

use std::path::Path;
use std::sync::Arc;

use crate::common::{self, contents, fill, flush, key, memory};
use pumice::{
    CompactRangeOptions, Db, MemFs, PersistentCache, PersistentCacheOptions, ReadOptions,
    Statistics, Ticker,
};

const KEYS: usize = 2000;

fn cache(fs: &MemFs) -> Arc<PersistentCache> {
    let options = PersistentCacheOptions {
        cache_file_size: 2 << 20,
        ..PersistentCacheOptions::new("/fast", 8 << 20)
    };
    PersistentCache::open(fs.shared(), options).unwrap()
}

#[pumice_test_macros::test]
fn a_database_reads_from_it() {
    for table in [
        "{block_size=512;no_block_cache=true}",
        "{block_size=512;filter_policy=bloomfilter:10;cache_index_and_filter_blocks=true;\
         index_type=kTwoLevelIndexSearch;partition_filters=true}",
    ] {
        let (_fs, shared) = memory();
        let mut options = common::options(&shared);
        options.cf.disable_auto_compactions = true;
        options.set("block_based_table_factory", table).unwrap();
        let fast = MemFs::default();
        let cache = cache(&fast);
        options.cf.table_factory.persistent_cache = Some(Arc::clone(&cache));
        let statistics = Arc::new(Statistics::new());
        options.db.statistics = Some(Arc::clone(&statistics));
        let db = Db::open(&options, common::DIR).unwrap();
        fill(&db, 0..KEYS, "first");
        flush(&db);
        fill(&db, 0..KEYS / 2, "second");
        flush(&db);
        let tick = |ticker| statistics.ticker(ticker);
        let counts = || [tick(Ticker::PersistentCacheHit), tick(Ticker::PersistentCacheMiss)];
        let read = || tick(Ticker::LastLevelReadCount) + tick(Ticker::NonLastLevelReadCount);
        let check = || {
            let value = |n| if n < KEYS / 2 { "second" } else { "first" };
            for n in 0..KEYS {
                assert_eq!(db.get(&key(n)).unwrap().unwrap(), value(n).as_bytes(), "{n}");
            }
            let keys: Vec<_> = (0..KEYS).step_by(7).map(key).collect();
            let found = db.multi_get_opt(&ReadOptions::default(), &keys);
            for (got, n) in found.into_iter().zip((0..KEYS).step_by(7)) {
                assert_eq!(got.unwrap().unwrap(), value(n).as_bytes(), "{n}");
            }
            assert_eq!(contents(&db).len(), KEYS);
        };
        check();
        cache.flush();
        let [hits, misses] = counts();
        assert!(misses > 50, "{hits} {misses}");
        let before = read();
        for n in 100..200 {
            assert!(db.get(&key(n)).unwrap().is_some());
        }
        let [more, same] = counts();
        if table.contains("no_block_cache") {
            assert!(more - hits >= 100 && same == misses && read() == before);
        }
        check();
        for name in fast.shared().list(Path::new("/fast/cache")).unwrap() {
            let spoil = |bytes: &mut Vec<u8>| bytes.iter_mut().step_by(97).for_each(|b| *b ^= 64);
            fast.damage(&Path::new("/fast/cache").join(name), spoil).unwrap();
        }
        check();
        let errors = cache.stats().errors;
        if table.contains("no_block_cache") {
            assert!(errors > 50, "{errors}");
        }
        db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
        check();
        db.close().unwrap();
    }
}
