//! The blob cache.

use std::sync::Arc;

use crate::blobs::written::{number, options};
use crate::common::{Scratch, memory};
use pumice::options::PrepopulateBlobCache;
use pumice::{BlockCache, CacheOptions, Db, ErrorKind, ReadOptions, Statistics, Ticker};

#[pumice_test_macros::test]
fn values_enter_the_cache_when_read_or_flushed() {
    let (_, fs) = memory();
    let mut options = options();
    options.db.file_system = fs;
    let statistics = Arc::new(Statistics::new());
    options.db.statistics = Some(Arc::clone(&statistics));
    let cache = BlockCache::new(CacheOptions::new(1 << 20));
    options.cf.blob_cache = Some(Arc::clone(&cache));
    let db = Db::open(&options, "/db").unwrap();
    db.put("a", "a".repeat(100)).unwrap();
    db.put("b", "b".repeat(100)).unwrap();
    db.flush().unwrap();
    let tick = |ticker| statistics.ticker(ticker);
    let cached = ReadOptions { cache_only: true, ..ReadOptions::default() };
    assert_eq!(db.get("c").unwrap(), None); // Index and filter are in memory from now on.
    assert_eq!(db.get_opt(&cached, "a").err().unwrap().kind(), ErrorKind::Incomplete);
    let passing = ReadOptions { fill_cache: false, ..ReadOptions::default() };
    assert_eq!(db.get_opt(&passing, "a").unwrap().unwrap().len(), 100);
    assert_eq!((cache.occupancy(), tick(Ticker::BlobDbCacheAdd)), (0, 0));
    let value = db.get("a").unwrap().unwrap();
    assert_eq!((cache.occupancy(), tick(Ticker::BlobDbCacheAdd)), (1, 1));
    assert!(cache.pinned_usage() >= 100, "the value is lent from the cache");
    drop(value);
    assert_eq!(cache.pinned_usage(), 0);
    let read = tick(Ticker::BlobDbBlobFileBytesRead);
    assert_eq!(&db.get_opt(&cached, "a").unwrap().unwrap()[..], &[b'a'; 100][..]);
    assert_eq!(tick(Ticker::BlobDbBlobFileBytesRead), read);
    assert_eq!(tick(Ticker::BlobDbCacheHit), 1);
    assert_eq!(tick(Ticker::BlobDbCacheBytesRead), 100);
    let mut cursor = db.cursor_opt(&cached).unwrap();
    cursor.seek("a");
    assert_eq!(cursor.value(), Some(&[b'a'; 100][..]));
    cursor.next();
    assert!(cursor.status().is_err() && !cursor.valid());
    assert_eq!(number(&db, "blob-cache-capacity"), 1 << 20);
    assert!(number(&db, "blob-cache-usage") >= 100);
    assert_eq!(number(&db, "blob-cache-pinned-usage"), 0);

    options.cf.prepopulate_blob_cache = PrepopulateBlobCache::FlushOnly;
    db.set_options(&[("prepopulate_blob_cache", "kFlushOnly")]).unwrap();
    db.put("new", "n".repeat(100)).unwrap();
    db.flush().unwrap();
    assert_eq!(&db.get("new").unwrap().unwrap()[..], &[b'n'; 100][..]);
    assert_eq!(tick(Ticker::BlobDbBlobFileBytesRead), read, "it was there");
    db.close().unwrap();
}

/// Numbers and offsets that differ in the same bits: nothing is served from the other file.
#[pumice_test_macros::test]
fn values_of_two_files_share_no_entry() {
    let dir = Scratch::new("blob-cache");
    let mut options = options();
    options.cf.blob_cache = Some(BlockCache::new(CacheOptions::new(64 << 20)));
    let db = Db::open(&options, &dir.0).unwrap();
    let mut wanted = Vec::new();
    for file in 0..16u8 {
        for n in 0..200u8 {
            let value = vec![file ^ n; 30 + usize::from(n % 7) + usize::from(file)];
            db.put([file, n], &value).unwrap();
            wanted.push(([file, n], value));
        }
        db.flush().unwrap();
    }
    for _ in 0..2 {
        for (key, value) in &wanted {
            assert_eq!(&db.get(key).unwrap().unwrap()[..], &value[..], "{key:?}");
        }
    }
    db.close().unwrap();
}

/// One cache for blocks and blobs, full, and one that holds its limit strictly.
#[pumice_test_macros::test]
fn small_caches_serve_all_values() {
    for strict in [false, true] {
        let dir = Scratch::new("blob-cache");
        let mut options = options();
        let sizes = CacheOptions { strict_capacity_limit: strict, ..CacheOptions::new(8 << 10) };
        let cache = BlockCache::new(sizes);
        options.cf.blob_cache = Some(Arc::clone(&cache));
        if !strict {
            options.cf.table_factory.block_cache = Some(cache);
        }
        let db = Db::open(&options, &dir.0).unwrap();
        for n in 0..40u8 {
            db.put([n], vec![n; 1000]).unwrap();
        }
        db.flush().unwrap();
        let mut held = Vec::new();
        for n in (0..40u8).chain(0..40) {
            let value = db.get([n]).unwrap().unwrap();
            assert_eq!(&value[..], &vec![n; 1000][..]);
            held.push(value);
        }
        drop(held);
        db.close().unwrap();
    }
}
