//! A database whose block cache is too small and whose secondary cache is not: after a few rounds
//! of reads its tables and blob files are not read any more.

use std::sync::Arc;

use crate::common::{self, contents, fill, flush, key, memory};
use pumice::{BlockCache, CacheOptions, CompressedSecondaryCacheOptions, Db, Statistics, Ticker};

const KEYS: usize = 1000;

#[pumice_test_macros::test]
fn what_does_not_fit_is_kept_compressed() {
    let (_fs, shared) = memory();
    let mut options = common::options(&shared);
    options.cf.disable_auto_compactions = true;
    options.set("enable_blob_files", "true").unwrap();
    options.set("min_blob_size", "150").unwrap();
    let table = "{filter_policy=bloomfilter:10;block_size=512;cache_index_and_filter_blocks=true}";
    options.set("block_based_table_factory", table).unwrap();
    let second = CompressedSecondaryCacheOptions::new(4 << 20);
    let cache = BlockCache::with_secondary(CacheOptions::new(16 << 10), &second).unwrap();
    options.cf.table_factory.block_cache = Some(Arc::clone(&cache));
    options.cf.blob_cache = Some(Arc::clone(&cache));
    let statistics = Arc::new(Statistics::new());
    options.db.statistics = Some(Arc::clone(&statistics));
    let db = Db::open(&options, common::DIR).unwrap();
    let (short, long) = ("s".repeat(100), "l".repeat(200));
    fill(&db, 0..KEYS, &short);
    flush(&db);
    fill(&db, KEYS..KEYS + 100, &long);
    flush(&db);
    let tick = |ticker| statistics.ticker(ticker);
    let read = || {
        tick(Ticker::LastLevelReadCount)
            + tick(Ticker::NonLastLevelReadCount)
            + tick(Ticker::BlobDbBlobFileBytesRead)
    };
    let kinds = [
        Ticker::SecondaryCacheHits,
        Ticker::SecondaryCacheDataHits,
        Ticker::SecondaryCacheIndexHits,
        Ticker::SecondaryCacheFilterHits,
        Ticker::CompressedSecondaryCacheHits,
    ];
    for round in 0..6 {
        let (before, hits) = (read(), kinds.map(tick));
        for n in 0..KEYS + 100 {
            let expected = if n < KEYS { &short } else { &long };
            assert_eq!(db.get(&key(n)).unwrap().as_deref(), Some(expected.as_bytes()), "{n}");
        }
        assert_eq!(contents(&db).len(), KEYS + 100);
        if round >= 3 {
            assert_eq!(read() - before, 0, "round {round}");
            let grown: Vec<u64> = kinds.iter().zip(hits).map(|(t, hits)| tick(*t) - hits).collect();
            assert!(grown[1] > 50, "{grown:?}");
            assert!(grown[0] > grown[1..4].iter().sum::<u64>(), "blobs are of no kind: {grown:?}");
            assert_eq!(grown[0], grown[4]);
        }
    }
    assert!(tick(Ticker::CompressedSecondaryCacheDummyHits) > 0);
    assert!(kinds.iter().all(|kind| tick(*kind) > 0));
    let second = cache.secondary_cache().unwrap();
    // Keys and values of one letter: a tenth of what they are.
    let raw = KEYS * 100 + 100 * 200;
    assert!(second.usage() < raw, "{} of {raw}", second.usage());
    db.close().unwrap();
}
