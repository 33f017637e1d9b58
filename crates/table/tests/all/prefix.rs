//! Prefix seeks over every layout of filters: a skipped key never has the target's prefix.

use std::sync::Arc;

use crate::prefixed::{
    LAYOUTS, Layout, UpToColon, at, build, check_seek, context, open, with_options,
};
use crate::support;
use pumice_base::extension::builtin_slice_transform;
use pumice_base::key::{MAX_SEQUENCE, internal_key, seek_key};
use pumice_base::random::Rng;
use pumice_base::{Comparator, InternalKey, InternalKeyComparator, UserKey, ValueType};
use pumice_table::{Table, TableReadContext, TableReadOptions};

const EXTRACTORS: [&str; 5] = [
    "rocksdb.FixedPrefix.1",
    "rocksdb.FixedPrefix.3",
    "rocksdb.CappedPrefix.2",
    "rocksdb.CappedPrefix.4",
    "rocksdb.Noop",
];

/// A key of a few letters, so that prefixes are shared, missing, and as long as keys.
fn random_key(rng: &mut Rng) -> Vec<u8> {
    let len = rng.uniform(7) as usize;
    (0..len).map(|_| [b'a', b'b', b'c', 0xff, 0][rng.uniform(5) as usize]).collect()
}

#[pumice_test_macros::test]
fn random_seeks_lose_nothing() {
    let mut cut = [0usize; LAYOUTS.len()];
    for seed in 0..120u64 {
        println!("seed {seed}");
        let mut rng = Rng::new(seed);
        let layout = LAYOUTS[(seed % 3) as usize];
        let name = EXTRACTORS[rng.uniform(5) as usize];
        let mut context = with_options(context(layout, rng.one_in(2), name), |options| {
            options.block_size = [40, 300, 2000][rng.uniform(3) as usize];
            options.metadata_block_size = [1, 200, 1000][rng.uniform(3) as usize];
            options.format_version = 2 + rng.uniform(6) as u32;
            options.block_cache = rng.one_in(2).then(|| support::cache(1 << 20));
            options.cache_index_and_filter_blocks = rng.one_in(2);
        });
        // Under a capped or no-op extractor only byte order keeps the keys of a prefix together.
        if name.contains("Fixed") && rng.one_in(4) {
            context.comparator = InternalKeyComparator::new(Comparator::ReverseBytewise);
        }
        let order = context.comparator.user.clone();
        let mut users: Vec<_> = (0..1 + rng.uniform(1500)).map(|_| random_key(&mut rng)).collect();
        users.sort_by(|a, b| order.compare(UserKey::new(a), UserKey::new(b)));
        users.dedup();
        let table = open(&context, &users);
        let extractor = builtin_slice_transform(name).unwrap();
        for _ in 0..400 {
            let mut target = random_key(&mut rng);
            if rng.one_in(2) {
                target = users[rng.uniform(users.len() as u64) as usize].clone();
                target.push(rng.uniform(256) as u8);
            }
            cut[(seed % 3) as usize] += check_seek(&table, &*extractor, &target);
        }
        for user in &users {
            assert!(table.key_may_match(&TableReadOptions::default(), user).unwrap());
        }
    }
    println!("seeks cut short: {cut:?}");
    assert!(cut.iter().all(|cut| *cut > 100), "the filters do nothing: {cut:?}");
}

/// Every key has its own prefix, so that every boundary of blocks and partitions is one of
/// prefixes; seeks to and around every key.
#[pumice_test_macros::test]
fn every_border_is_crossed() {
    let users: Vec<_> = (0..600).map(|i| format!("{i:03}key").into_bytes()).collect();
    for layout in LAYOUTS {
        for whole in [true, false] {
            for sizes in [(60, 1), (300, 200), (1000, 4096)] {
                let context = with_options(context(layout, whole, EXTRACTORS[1]), |options| {
                    (options.block_size, options.metadata_block_size) = sizes;
                });
                let table = open(&context, &users);
                let extractor = builtin_slice_transform(EXTRACTORS[1]).unwrap();
                for user in &users {
                    check_seek(&table, &*extractor, user);
                    check_seek(&table, &*extractor, &user[..3]);
                    check_seek(&table, &*extractor, &[&user[..], b"~"].concat());
                }
            }
        }
    }
}

/// RocksDB's PrefixInWrongPartitionBug: the first seek of each prefix over partitions of one key.
#[pumice_test_macros::test]
fn a_prefix_is_found_across_partitions() {
    let users: Vec<_> = ["p_key1", "p_key2", "p_key3", "q_key1", "q_key4", "s_key1"]
        .map(|key| key.as_bytes().to_vec())
        .into();
    for layout in LAYOUTS {
        for whole in [true, false] {
            let context = with_options(context(layout, whole, "rocksdb.FixedPrefix.2"), |o| {
                (o.block_size, o.metadata_block_size) = (1, 1);
            });
            let table = open(&context, &users);
            let extractor = builtin_slice_transform("rocksdb.FixedPrefix.2").unwrap();
            for target in ["p_", "p_key1~", "q_", "q_key", "q_key2", "q_key~", "s_", "s_~", "r_"] {
                check_seek(&table, &*extractor, target.as_bytes());
            }
        }
    }
}

fn seek(table: &Arc<Table>, target: &[u8], options: &TableReadOptions) -> Option<Vec<u8>> {
    let mut iter = table.iter(options);
    iter.seek(InternalKey::new(&seek_key(target, MAX_SEQUENCE)));
    at(&iter)
}

fn open_with(bytes: &[u8], mut read: TableReadContext, extractor: Option<&str>) -> Arc<Table> {
    read.prefix_extractor = extractor.and_then(builtin_slice_transform);
    support::open(read, bytes).unwrap()
}

fn upper(bound: &str, auto_prefix_mode: bool) -> TableReadOptions {
    TableReadOptions {
        iterate_upper_bound: Some(bound.as_bytes().into()),
        auto_prefix_mode,
        total_order_seek: auto_prefix_mode,
        ..Default::default()
    }
}

/// With an extractor other than the table's, or in auto prefix mode, the filter is used only if all
/// keys up to the upper bound have one prefix.
#[pumice_test_macros::test]
fn a_filter_of_another_extractor_serves_bounded_seeks() {
    let users: Vec<_> = (0..100).map(|i| format!("a{i:02}key").into_bytes()).collect();
    let users: Vec<_> = users.into_iter().filter(|user| user[1] != b'5').collect();
    for layout in LAYOUTS {
        let (bytes, read) = build(&context(layout, true, "rocksdb.FixedPrefix.3"), &users);
        let next = Some(b"a60key".to_vec());
        for other in [Some("rocksdb.FixedPrefix.2"), Some("rocksdb.Noop"), None] {
            let table = open_with(&bytes, read.clone(), other);
            // Nothing bounds the seek: it must see the next key, whatever its prefix.
            assert_eq!(seek(&table, b"a55", &TableReadOptions::default()), next, "{other:?}");
            for bound in ["a6", "a57", "a560", "a555~a", "b"] {
                let within = matches!(bound, "a555~a");
                let got = seek(&table, b"a555", &upper(bound, false));
                assert_eq!(got.is_none(), within, "{other:?} {bound}");
            }
            let table = open_with(&bytes, read.clone(), Some("rocksdb.FixedPrefix.3"));
            assert_eq!(seek(&table, b"a55", &TableReadOptions::default()), None);
            assert_eq!(seek(&table, b"a555", &upper("a560", true)), next);
            assert_eq!(seek(&table, b"a555", &upper("a56", true)), None, "the next prefix");
            assert_eq!(seek(&table, b"a555", &upper("a55~", true)), None);
            let mut iter = table.iter(&upper("a55~", true));
            iter.seek_for_prev(InternalKey::new(&internal_key(b"a555", 0, ValueType::Deletion)));
            assert_eq!(at(&iter), Some(b"a49key".to_vec()), "backward nothing bounds it");
            let total = TableReadOptions { total_order_seek: true, ..Default::default() };
            assert_eq!(seek(&table, b"a55", &total), next);
        }
    }
}

/// A table with a custom extractor: its prefixes are used only where it is configured.
#[pumice_test_macros::test]
fn foreign_extractors_are_used_where_they_are_configured() {
    let users: Vec<_> = (0..400)
        .map(|i| match i % 5 {
            0 => format!("user{:03}", i / 5).into_bytes(),
            n => format!("user{:03}:{n}", i / 5).into_bytes(),
        })
        .collect();
    for layout in LAYOUTS {
        for whole in [true, false] {
            let mut context = context(layout, whole, "rocksdb.Noop");
            context.prefix_extractor = Some(Arc::new(UpToColon));
            let (bytes, read) = build(&context, &users);
            let table = support::open(read.clone(), &bytes).unwrap();
            for user in &users {
                check_seek(&table, &UpToColon, user);
                check_seek(&table, &UpToColon, &[&user[..], b":"].concat());
                assert!(table.key_may_match(&TableReadOptions::default(), user).unwrap());
            }
            assert_eq!(seek(&table, b"none:", &TableReadOptions::default()), None);
            let table = open_with(&bytes, read, None);
            let first = Some(users[0].clone());
            assert_eq!(seek(&table, b"none:", &TableReadOptions::default()), first);
            let absent = table.key_may_match(&TableReadOptions::default(), b"none:").unwrap();
            assert_eq!(absent, !whole, "whole keys serve, prefixes do not");
        }
    }
}

/// Point lookups query the prefix where only prefixes are in the filter, with the extractor of the
/// table, whatever is configured.
#[pumice_test_macros::test]
fn point_lookups_by_prefix() {
    let users: Vec<_> = (0..600).map(|i| format!("{:03}key{i}", i / 2).into_bytes()).collect();
    for layout in [Layout::Full, Layout::Coupled, Layout::Decoupled] {
        let (bytes, read) = build(&context(layout, false, "rocksdb.FixedPrefix.3"), &users);
        for extractor in [Some("rocksdb.FixedPrefix.3"), Some("rocksdb.FixedPrefix.1"), None] {
            let table = open_with(&bytes, read.clone(), extractor);
            let may = |key: &[u8]| table.key_may_match(&TableReadOptions::default(), key).unwrap();
            assert!(users.iter().all(|user| may(user)));
            assert!(may(b"123nokey") && may(b"12"), "its prefix is there, or it has none");
            assert!(!may(b"300nokey") && !may(b"abc"));
        }
    }
}
