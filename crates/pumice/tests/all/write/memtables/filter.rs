//! The memtable's Bloom filter: what it saves, what it costs, and that it hides nothing.

use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use pumice::{Comparator, Db, FixedPrefix, FlushOptions, Options, ReadOptions, WriteOptions};
use pumice_base::key::CustomComparator;

use super::on_memory;

/// Bytewise, and counts.
#[derive(Default)]
struct Counting(AtomicU64);

impl CustomComparator for Counting {
    fn name(&self) -> &str {
        "test.Counting"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        self.0.fetch_add(1, Relaxed);
        a.cmp(b)
    }
    fn can_keys_with_different_byte_contents_be_equal(&self) -> bool {
        false
    }
}

fn filtered(whole_keys: bool, prefix: Option<usize>) -> (Options, Arc<Counting>) {
    let (_, mut options) = on_memory();
    let order = Arc::new(Counting::default());
    options.cf.comparator = Comparator::Custom(Arc::clone(&order) as Arc<_>);
    options.cf.memtable_prefix_bloom_size_ratio = 0.1;
    options.cf.memtable_whole_key_filtering = whole_keys;
    if let Some(length) = prefix {
        options.cf.prefix_extractor = Some(Arc::new(FixedPrefix(length)));
    }
    (options, order)
}

fn key(n: u64) -> Vec<u8> {
    format!("{n:04}").into_bytes()
}

fn fill(db: &Db) {
    for n in 0..100 {
        db.put_opt(&WriteOptions::default(), &key(n), b"value").unwrap();
    }
}

/// Of a hundred absent keys, those whose lookup compared no key.
fn free_gets(db: &Db, order: &Counting) -> u64 {
    let missing = (200..300).map(|n| {
        let before = order.0.load(Relaxed);
        assert!(db.get_opt(&ReadOptions::default(), &key(n)).unwrap().is_none());
        u64::from(order.0.load(Relaxed) == before)
    });
    missing.sum()
}

#[pumice_test_macros::test]
fn lookups_of_absent_keys_ask_the_filter_first() {
    for (whole_keys, prefix) in [(true, None), (false, Some(2)), (true, Some(2))] {
        let (options, order) = filtered(whole_keys, prefix);
        let db = Db::open(&options, "/db").unwrap();
        fill(&db);
        assert!(free_gets(&db, &order) > 95, "whole keys {whole_keys}, prefix {prefix:?}");
        let keys: Vec<Vec<u8>> = (200..300).map(key).collect();
        let before = order.0.load(Relaxed);
        assert!(
            db.multi_get_opt(&ReadOptions::default(), &keys)
                .into_iter()
                .all(|v| v.unwrap().is_none())
        );
        let compared = order.0.load(Relaxed) - before;
        assert!(compared < 100, "{compared} comparisons for a hundred keys");
        // All that is there is found, by every way.
        for n in 0..100 {
            let found = db.get_opt(&ReadOptions::default(), &key(n)).unwrap();
            assert_eq!(found.as_deref(), Some(&b"value"[..]), "{n}");
        }
        // A range tombstone applies to keys in the filter and to others.
        db.flush_opt(&FlushOptions::default()).unwrap();
        db.delete_range_opt(&WriteOptions::default(), &key(10), &key(20)).unwrap();
        for n in 0..30 {
            let found = db.get_opt(&ReadOptions::default(), &key(n)).unwrap();
            assert_eq!(found.is_none(), (10..20).contains(&n), "{n}");
        }
        db.close().unwrap();
    }
}

#[pumice_test_macros::test]
fn a_ratio_without_keys_or_prefixes_is_no_filter() {
    let (options, order) = filtered(false, None);
    let db = Db::open(&options, "/db").unwrap();
    fill(&db);
    assert_eq!(free_gets(&db, &order), 0);
    db.close().unwrap();
}

#[pumice_test_macros::test]
fn seeks_that_stay_with_a_prefix_ask_the_filter() {
    for whole_keys in [false, true] {
        let (options, order) = filtered(whole_keys, Some(2));
        let db = Db::open(&options, "/db").unwrap();
        fill(&db);
        db.put_opt(&WriteOptions::default(), b"x", b"has no prefix").unwrap();
        let by_prefix = ReadOptions { prefix_same_as_start: true, ..ReadOptions::default() };
        let all = ReadOptions { total_order_seek: true, ..by_prefix.clone() };
        let (mut within, mut anywhere) =
            (db.cursor_opt(&by_prefix).unwrap(), db.cursor_opt(&all).unwrap());
        let mut free = 0;
        for n in 200..300u64 {
            let target = format!("{n:03}").into_bytes();
            for backward in [false, true] {
                let before = order.0.load(Relaxed);
                if backward {
                    within.seek_for_prev(&target)
                } else {
                    within.seek(&target)
                }
                assert!(!within.valid());
                free += u64::from(order.0.load(Relaxed) == before);
            }
            anywhere.seek(&target);
            assert_eq!(anywhere.key().unwrap(), b"x");
            anywhere.seek_for_prev(&target);
            assert_eq!(anywhere.key().unwrap(), key(99));
        }
        assert!(free > 190, "{free} of 200 seeks, whole keys {whole_keys}");
        within.seek(b"x");
        assert_eq!(within.key().unwrap(), b"x");
        within.seek(&key(42));
        for n in 42..100 {
            assert_eq!(within.key().unwrap(), key(n));
            within.next();
        }
        assert!(!within.valid());
        // Turning round within the prefix.
        within.seek_for_prev(&key(42));
        within.next();
        assert_eq!(within.key().unwrap(), key(43));
        within.prev();
        within.prev();
        assert_eq!(within.key().unwrap(), key(41));
        drop((within, anywhere));
        db.close().unwrap();
    }
}

#[pumice_test_macros::test]
fn the_options_hold_for_memtables_to_come() {
    let (mut options, order) = filtered(true, Some(2));
    options.cf.memtable_prefix_bloom_size_ratio = 0.0;
    options.db.avoid_flush_during_recovery = true;
    let db = Db::open(&options, "/db").unwrap();
    let set = |name, value| db.set_options(&[(name, value)]).unwrap();
    let memory = |db: &Db| db.property_int("rocksdb.cur-size-active-mem-table").unwrap();
    let bare = memory(&db);
    fill(&db);
    set("memtable_prefix_bloom_size_ratio", "7");
    assert_eq!(free_gets(&db, &order), 0, "this memtable has no filter");
    db.flush_opt(&FlushOptions::default()).unwrap();
    // A ratio beyond a quarter is a quarter.
    assert_eq!(memory(&db), bare + options.cf.write_buffer_size as u64 / 4);
    set("memtable_prefix_bloom_size_ratio", "0.01");
    set("prefix_extractor", "rocksdb.FixedPrefix.1");
    for n in 0..100 {
        db.put_opt(&WriteOptions::default(), &key(1000 + n), b"new").unwrap();
    }
    // The filter has prefixes of another kind than the seek is about.
    let by_prefix = ReadOptions { prefix_same_as_start: true, ..ReadOptions::default() };
    let mut within = db.cursor_opt(&by_prefix).unwrap();
    within.seek(b"1");
    assert_eq!(within.key().unwrap(), key(1000));
    within.seek_for_prev(b"19");
    assert_eq!(within.key().unwrap(), key(1099));
    drop(within);
    db.close().unwrap();
    drop(db);
    // Replay fills a filter, too.
    let mut options = options;
    options.cf.memtable_prefix_bloom_size_ratio = 0.05;
    let db = Db::open(&options, "/db").unwrap();
    assert!(free_gets(&db, &order) < 5, "there is a table now");
    for n in 0..100 {
        for (key, value) in [(key(n), &b"value"[..]), (key(1000 + n), b"new")] {
            let found = db.get_opt(&ReadOptions::default(), &key).unwrap();
            assert_eq!(found.as_deref(), Some(value), "{n}");
        }
    }
    db.close().unwrap();
}
