//! Removing a table's blocks from the block cache: which are removed, and when it gives up.

use std::sync::Arc;

use crate::support;
use pumice_base::key::{MAX_SEQUENCE, internal_key, seek_key};
use pumice_base::{InternalKey, ValueType};
use pumice_cache::CacheKey;
use pumice_filter::FilterPolicy;
use pumice_table::{
    BlockCache, BlockKind, IndexType, MetadataPinning, PinningTier, Table, TableBuildContext,
    TableOptions, TableReadContext, TableReadOptions,
};

const BLOCKS: u64 = 64;

fn key(n: u64) -> Vec<u8> {
    format!("{n:05}").into_bytes()
}

/// A table with one entry in each of its blocks.
fn table(options: &TableOptions, file: u64) -> Arc<Table> {
    let context = TableBuildContext {
        table: Arc::new(options.clone()),
        db_session_id: pumice_table::session_id([7, 9]),
        db_id: "a database".to_string(),
        original_file_number: file,
        ..Default::default()
    };
    let entries: Vec<(Vec<u8>, Vec<u8>)> = (0..BLOCKS)
        .map(|n| (internal_key(&key(n), 1, ValueType::Value), vec![n as u8; 400]))
        .collect();
    let built = support::build(context.clone(), entries.iter().map(|(k, v)| (&k[..], &v[..])));
    let read = TableReadContext { level: 3, ..support::read_context(&context) };
    support::open(read, &built.bytes).unwrap()
}

fn options(cache: &Arc<BlockCache>) -> TableOptions {
    TableOptions {
        block_size: 300,
        metadata_block_size: 100,
        filter_policy: Some(FilterPolicy::bloom(10.0)),
        cache_index_and_filter_blocks: true,
        block_cache: Some(Arc::clone(cache)),
        ..Default::default()
    }
}

fn read(table: &Table, keys: impl IntoIterator<Item = u64>) {
    for n in keys {
        let mut found = 0;
        let mut note = |_: pumice_base::key::ParsedInternalKey<'_>, _: &[u8], _: &_| {
            found += 1;
            false
        };
        let target = seek_key(&key(n), MAX_SEQUENCE);
        table.get(&TableReadOptions::default(), InternalKey::new(&target), &mut note).unwrap();
        assert_eq!(found, 1);
    }
}

/// Entries of the cache: data blocks, and others.
fn counts(cache: &BlockCache) -> (usize, usize) {
    let (mut data, mut other) = (0, 0);
    cache.for_each(|_, _, block| match block.kind() {
        BlockKind::Data => data += 1,
        _ => other += 1,
    });
    (data, other)
}

#[pumice_test_macros::test]
fn every_kind_of_block_goes() {
    let all = MetadataPinning {
        top_level_index: PinningTier::All,
        partition: PinningTier::All,
        unpartitioned: PinningTier::All,
    };
    for index_type in [IndexType::BinarySearch, IndexType::TwoLevel] {
        for (cached, pinning) in
            [(true, MetadataPinning::default()), (true, all), (false, MetadataPinning::default())]
        {
            let cache = support::cache(8 << 20);
            let options = TableOptions {
                index_type,
                partition_filters: index_type == IndexType::TwoLevel,
                cache_index_and_filter_blocks: cached,
                metadata_pinning: pinning,
                ..options(&cache)
            };
            let (one, two) = (table(&options, 1), table(&options, 2));
            read(&one, 0..BLOCKS);
            let (data, other) = counts(&cache);
            assert_eq!(data, BLOCKS as usize);
            read(&two, 0..BLOCKS);
            one.uncache(0);
            assert_eq!(counts(&cache).0, 2 * BLOCKS as usize);
            one.uncache(1);
            drop(one);
            let (left, other_left) = counts(&cache);
            assert_eq!(left, BLOCKS as usize, "those of the other table");
            // A table's own blocks are cached before the first read, for both.
            assert!(other_left <= other, "{other_left} of {other}");
            two.uncache(1);
            drop(two);
            assert_eq!(counts(&cache), (0, 0), "{index_type:?}, cached {cached}");
        }
    }
}

#[pumice_test_macros::test]
fn it_gives_up_or_goes_on() {
    for index_type in [IndexType::BinarySearch, IndexType::TwoLevel] {
        let left = |aggressiveness| {
            let cache = support::cache(8 << 20);
            let table = table(&TableOptions { index_type, ..options(&cache) }, 1);
            read(&table, (0..BLOCKS).filter(|n| n % 2 == 0));
            assert_eq!(counts(&cache).0, BLOCKS as usize / 2);
            table.uncache(aggressiveness);
            counts(&cache).0
        };
        let half = BLOCKS as usize / 2;
        assert_eq!(left(0), half);
        assert_eq!(left(1), half - 1, "the first miss ends it");
        assert_eq!(left(2), half - 2, "the second");
        assert_eq!(left(60), half - 3, "the third, at a share that is too small");
        assert_eq!(left(100), 0, "half of them is enough");
        assert_eq!(left(10_000), 0);
    }
}

/// With a partitioned index, data blocks are found if their partition is in the cache.
#[pumice_test_macros::test]
fn nothing_is_read_for_it() {
    // Index blocks removed first; then whether all data blocks are left, or none.
    for (taken, all_left, none_left) in [(0, false, true), (6, false, false), (100, true, false)] {
        let cache = support::cache(8 << 20);
        let options = TableOptions {
            index_type: IndexType::TwoLevel,
            metadata_pinning: MetadataPinning {
                top_level_index: PinningTier::All,
                ..Default::default()
            },
            ..options(&cache)
        };
        let table = table(&options, 1);
        read(&table, 0..BLOCKS);
        let mut partitions: Vec<CacheKey> = Vec::new();
        cache.for_each(|key, _, block| {
            if block.kind() == BlockKind::Index {
                partitions.push(*key);
            }
        });
        assert!((10..100).contains(&partitions.len()), "{}", partitions.len());
        for key in partitions.iter().take(taken) {
            assert!(cache.erase(key));
        }
        table.uncache(10_000);
        let left = counts(&cache).0;
        assert_eq!(left == BLOCKS as usize, all_left, "{left} left without {taken}");
        assert_eq!(left == 0, none_left, "{left} left without {taken}");
    }
}
