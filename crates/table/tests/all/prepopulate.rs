//! `prepopulate_block_cache`: a flush puts the same blocks into the block cache as reading the
//! table would, and the file is the same.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::builds::{Entries, compressions, entries, with_threads};
use crate::support;
use pumice_base::Comparator;
use pumice_base::extension::FixedPrefix;
use pumice_base::key::{InternalKey, MAX_SEQUENCE, seek_key};
use pumice_base::random::Rng;
use pumice_filter::FilterPolicy;
use pumice_port::helpers::HelperPool;
use pumice_port::sync::Mutex;
use pumice_table::{
    BlockCache, BlockKind, IndexType, PrepopulateBlockCache, TableBuildContext, TableReadContext,
    TableReadOptions, TableReason, TableStats,
};

/// Counts of cache misses, reads of the file, insertions into the cache, refusals.
#[derive(Default)]
struct Counts {
    missed: Mutex<Vec<BlockKind>>,
    read: Mutex<Vec<BlockKind>>,
    added: Mutex<Vec<(BlockKind, usize)>>,
    refused: Mutex<usize>,
}

impl TableStats for Counts {
    fn cache_miss(&self, kind: BlockKind) {
        self.missed.lock().push(kind);
    }
    fn block_read(&self, kind: BlockKind, _bytes: usize) {
        self.read.lock().push(kind);
    }
    fn cache_add(&self, kind: BlockKind, bytes: usize) {
        self.added.lock().push((kind, bytes));
    }
    fn cache_add_failed(&self) {
        *self.refused.lock() += 1;
    }
}

/// Various settings of a table that a flush writes.
fn context(rng: &mut Rng) -> TableBuildContext {
    let mut context = TableBuildContext {
        reason: TableReason::Flush,
        original_file_number: 7,
        db_id: "a database".to_string(),
        db_session_id: "W2SARK6PR3YBJ7A4OXXH".to_string(),
        prefix_extractor: Some(Arc::new(FixedPrefix(4))),
        ..TableBuildContext::default()
    };
    if rng.one_in(4) {
        context.comparator = pumice_base::InternalKeyComparator::new(Comparator::ReverseBytewise);
    }
    let codecs = compressions();
    if !rng.one_in(3) {
        let codec = &codecs[rng.uniform(codecs.len() as u64) as usize];
        (context.compression, context.compression_opts) = codec.clone();
    }
    let table = Arc::make_mut(&mut context.table);
    table.block_size = 1000;
    table.metadata_block_size = 300;
    table.format_version = 2 + rng.uniform(6) as u32;
    table.filter_policy = Some(FilterPolicy::bloom(10.0));
    table.index_type = IndexType::from_u32(rng.uniform(4) as u32).unwrap();
    table.partition_filters = rng.one_in(2);
    table.decouple_partitioned_filters = rng.one_in(2);
    table.cache_index_and_filter_blocks = rng.one_in(2);
    table.enable_index_compression = rng.one_in(2);
    table.block_align =
        context.compression == pumice_compress::CompressionType::None && rng.one_in(4);
    if table.block_align {
        table.block_size = 1024;
    }
    table.prepopulate_block_cache = PrepopulateBlockCache::FlushOnly;
    context
}

fn with_cache(context: &TableBuildContext, cache: &Arc<BlockCache>) -> TableBuildContext {
    let mut context = context.clone();
    Arc::make_mut(&mut context.table).block_cache = Some(Arc::clone(cache));
    context
}

/// Everything in a cache by its key. Charges may differ: decompressed buffers have spare capacity.
fn contents(cache: &BlockCache) -> BTreeMap<(u64, u64), String> {
    let mut all = BTreeMap::new();
    cache.for_each(|key, _, block| {
        all.insert((key.0, key.1), format!("{block:?}"));
    });
    all
}

/// Opens the table, and looks every key and a few others up.
fn read_all(context: &TableBuildContext, bytes: &[u8], list: &Entries, stats: &Arc<Counts>) {
    let read = TableReadContext {
        level: 0,
        max_file_size_for_l0_meta_pin: 0,
        stats: Some(Arc::clone(stats) as Arc<dyn TableStats>),
        ..support::read_context(context)
    };
    let table = support::open(read, bytes).unwrap();
    let options = TableReadOptions::default();
    for (ikey, _) in list {
        let mut found = false;
        let sought = seek_key(InternalKey::new(ikey).user_key(), MAX_SEQUENCE);
        table
            .get(&options, InternalKey::new(&sought), &mut |_, _, _| {
                found = true;
                false
            })
            .unwrap();
        assert!(found);
    }
    let mut iter = table.iter(&options);
    iter.seek_to_first();
    let mut count = 0;
    while iter.valid() {
        count += 1;
        iter.next();
    }
    iter.status().unwrap();
    assert_eq!(count, list.len());
}

#[pumice_test_macros::test]
fn a_flush_caches_what_reading_would() {
    let helpers = HelperPool::new(2);
    for seed in 0..60 {
        println!("seed {seed}");
        let mut rng = Rng::new(seed);
        let plain = context(&mut rng);
        let count = 1 + rng.uniform(900) as usize;
        let list = entries(&mut rng, &plain.comparator.user, count);
        let each = || list.iter().map(|(key, value)| (&key[..], &value[..]));

        let read_into = support::cache(64 << 20);
        let mut off = with_cache(&plain, &read_into);
        Arc::make_mut(&mut off.table).prepopulate_block_cache = PrepopulateBlockCache::Disable;
        let expected = support::build(off.clone(), each());
        assert_eq!(contents(&read_into).len(), 0);
        read_all(&off, &expected.bytes, &list, &Arc::default());

        for threads in [1, 3] {
            let flushed_into = support::cache(64 << 20);
            let on = with_cache(&plain, &flushed_into);
            let counts = Arc::new(Counts::default());
            let building = TableBuildContext {
                stats: Some(Arc::clone(&counts) as Arc<dyn TableStats>),
                ..with_threads(&on, threads, Some(&helpers))
            };
            let built = support::build(building, each());
            assert!(built.bytes == expected.bytes, "the file is the same");
            assert!(contents(&flushed_into) == contents(&read_into), "{:?}", on.table.index_type);
            assert!(flushed_into.usage() <= read_into.usage());
            let added: usize = counts.added.lock().iter().map(|(_, bytes)| bytes).sum();
            assert_eq!(added, flushed_into.usage());
            assert_eq!(counts.added.lock().len(), flushed_into.occupancy());

            let counts = Arc::new(Counts::default());
            read_all(&on, &built.bytes, &list, &counts);
            assert_eq!(*counts.missed.lock(), []);
            assert_eq!(*counts.added.lock(), []);
            assert!(counts.read.lock().iter().all(|kind| *kind != BlockKind::Data));
        }
    }
}

/// Only when enabled, and where the reader could find the blocks.
#[pumice_test_macros::test]
fn other_tables_cache_nothing() {
    let mut rng = Rng::new(3);
    let plain = context(&mut rng);
    let list = entries(&mut rng, &plain.comparator.user, 300);
    let cached_by = |change: &dyn Fn(&mut TableBuildContext)| {
        let cache = support::cache(64 << 20);
        let mut context = with_cache(&plain, &cache);
        change(&mut context);
        support::build(context, list.iter().map(|(key, value)| (&key[..], &value[..])));
        cache.occupancy()
    };
    assert!(cached_by(&|_| ()) > 10);
    for reason in [
        TableReason::Recovery,
        TableReason::CompactionLevel0,
        TableReason::Compaction,
        TableReason::Other,
    ] {
        assert_eq!(cached_by(&|context| context.reason = reason), 0, "{reason:?}");
    }
    assert_eq!(cached_by(&|context| context.original_file_number = 0), 0);
    let no_cache = |context: &mut TableBuildContext| {
        Arc::make_mut(&mut context.table).no_block_cache = true;
    };
    assert_eq!(cached_by(&no_cache), 0);
}

/// A cache that refuses blocks does not stop the flush.
#[pumice_test_macros::test]
fn a_full_cache_does_not_matter() {
    let mut rng = Rng::new(4);
    let plain = context(&mut rng);
    let list = entries(&mut rng, &plain.comparator.user, 300);
    let cache = pumice_cache::Cache::new(pumice_cache::CacheOptions {
        strict_capacity_limit: true,
        ..pumice_cache::CacheOptions::new(1 << 20)
    });
    let all = cache.try_reserve(pumice_cache::ChargedRole::FileMetadata, 1 << 20).unwrap();
    let counts = Arc::new(Counts::default());
    let context = TableBuildContext {
        stats: Some(Arc::clone(&counts) as Arc<dyn TableStats>),
        ..with_cache(&plain, &cache)
    };
    let built =
        support::build(context.clone(), list.iter().map(|(key, value)| (&key[..], &value[..])));
    assert_eq!(cache.occupancy(), 0);
    assert!(*counts.refused.lock() > 10);
    drop(all);
    read_all(&context, &built.bytes, &list, &Arc::default());
}
