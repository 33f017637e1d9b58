//! Tables behind a block cache that is too small, with a secondary cache that is large enough: all
//! is found, whatever the kind of index, and after a few rounds nothing is read from the file.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::{index_kinds, support};
use pumice_base::key::{InternalKey, MAX_SEQUENCE, internal_key, seek_key};
use pumice_base::random::Rng;
use pumice_base::{Comparator, InternalKeyComparator, Result, ValueType};
use pumice_cache::{
    Cache, CacheOptions, CompressedSecondaryCacheOptions, TieredAdmissionPolicy, TieredCacheOptions,
};
use pumice_compress::CompressionType;
use pumice_env::perf::{self, PerfLevel, PerfMetric};
use pumice_env::{RandomAccessFile, RandomAccessFileWrapper, ReadRequest};
use pumice_filter::FilterPolicy;
use pumice_port::thread;
use pumice_table::{
    BlockCache, BlockKind, IndexType, Table, TableBuildContext, TableOptions, TableReadContext,
    TableReadOptions, TableStats,
};

/// A file that counts reads.
struct Counted(Arc<dyn RandomAccessFile>, Arc<AtomicUsize>);

impl RandomAccessFileWrapper for Counted {
    fn wrapped(&self) -> &dyn RandomAccessFile {
        &*self.0
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.1.fetch_add(1, Relaxed);
        self.0.read_at(offset, buf)
    }
    fn read_batch(&self, requests: &mut [ReadRequest<'_>]) {
        self.1.fetch_add(requests.len(), Relaxed);
        self.0.read_batch(requests);
    }
    fn needs_little_stack(&self) -> bool {
        self.0.needs_little_stack()
    }
}

/// Hits of the secondary cache by kind of block, and of dummies there.
#[derive(Default)]
struct Hits {
    data: AtomicUsize,
    index: AtomicUsize,
    filter: AtomicUsize,
    dummies: AtomicUsize,
    cache_hits: AtomicUsize,
}

impl TableStats for Hits {
    fn cache_hit(&self, _: BlockKind, _: usize) {
        self.cache_hits.fetch_add(1, Relaxed);
    }
    fn secondary_hit(&self, kind: BlockKind) {
        let count = match kind {
            BlockKind::Data => &self.data,
            BlockKind::Index => &self.index,
            _ => &self.filter,
        };
        count.fetch_add(1, Relaxed);
    }
    fn secondary_dummy_hit(&self) {
        self.dummies.fetch_add(1, Relaxed);
    }
}

fn cache(primary: usize, secondary: usize, codec: CompressionType) -> Arc<BlockCache> {
    let secondary = CompressedSecondaryCacheOptions {
        compression_type: codec,
        ..CompressedSecondaryCacheOptions::new(secondary)
    };
    Cache::with_secondary(CacheOptions::new(primary), &secondary).unwrap()
}

/// An open table and what is counted of it.
struct Opened {
    table: Arc<Table>,
    reads: Arc<AtomicUsize>,
    hits: Arc<Hits>,
}

fn open(context: &TableBuildContext, bytes: &[u8], cache: &Arc<BlockCache>) -> Opened {
    let (reads, hits) = (Arc::new(AtomicUsize::new(0)), Arc::new(Hits::default()));
    let mut options = (*context.table).clone();
    options.block_cache = Some(Arc::clone(cache));
    options.no_block_cache = false;
    options.cache_index_and_filter_blocks = true;
    let context = TableReadContext {
        options: Arc::new(options),
        stats: Some(hits.clone()),
        ..support::read_context(context)
    };
    let file = Counted(support::file_of(bytes), Arc::clone(&reads));
    let table = Table::open(context, Arc::new(file), bytes.len() as u64).unwrap();
    Opened { table, reads, hits }
}

/// All kinds of indexes, orders and codecs; the file is needed for two rounds only.
#[pumice_test_macros::test]
fn nothing_is_read_once_the_secondary_cache_has_it() {
    use CompressionType::{Lz4, None, Snappy, Zstd};
    let mut total = [0; 3];
    for seed in 0..24u64 {
        let mut rng = Rng::new(seed);
        let (kind, _) = index_kinds::KINDS[seed as usize % 4];
        let reverse = rng.one_in(3);
        let order = if reverse { Comparator::ReverseBytewise } else { Comparator::Bytewise };
        let options = TableOptions {
            filter_policy: Some(FilterPolicy::bloom(10.0)),
            partition_filters: kind == IndexType::TwoLevel,
            block_protection: rng.one_in(2),
            separate_key_value_in_data_block: rng.one_in(3),
            ..index_kinds::options(kind, rng.one_in(2), &mut rng)
        };
        let context = index_kinds::context(options, order);
        let versions = 1 + rng.uniform(3);
        let list = index_kinds::entries(&mut rng, versions, &context.comparator);
        let built = support::build(context.clone(), list.iter().map(|(k, v)| (&k[..], &v[..])));
        let codec = [None, Lz4, Snappy, Zstd][rng.uniform(4) as usize];
        let cache = cache(3000, 8 << 20, codec);
        let opened = open(&context, &built.bytes, &cache);
        for round in 0..6 {
            let before = opened.reads.load(Relaxed);
            index_kinds::check(&opened.table, &list, &mut Rng::new(seed), seed);
            let read = opened.reads.load(Relaxed) - before;
            assert!(round < 3 || read == 0, "PUMICE_SEED={seed} round {round}: {read} reads");
        }
        let hits = &opened.hits;
        for (sum, count) in total.iter_mut().zip([&hits.data, &hits.index, &hits.filter]) {
            *sum += count.load(Relaxed);
        }
    }
    assert!(total.iter().all(|count| *count > 100), "{total:?}");
}

/// A table of 40 data blocks with one entry each.
fn blocks(cache: &Arc<BlockCache>) -> Opened {
    let context = TableBuildContext {
        table: Arc::new(TableOptions { block_size: 300, ..Default::default() }),
        comparator: InternalKeyComparator::new(Comparator::Bytewise),
        ..Default::default()
    };
    let list: Vec<_> =
        (0..40u8).map(|n| (internal_key(&[b'k', n], 1, ValueType::Value), vec![n; 400])).collect();
    let built = support::build(context.clone(), list.iter().map(|(k, v)| (&k[..], &v[..])));
    open(&context, &built.bytes, cache)
}

fn get(table: &Table, n: u8) {
    let mut found = Vec::new();
    let target = seek_key(&[b'k', n], MAX_SEQUENCE);
    table
        .get(&TableReadOptions::default(), InternalKey::new(&target), &mut |_, value, _| {
            found = value.to_vec();
            false
        })
        .unwrap();
    assert_eq!(found, [n; 400]);
}

/// One block step by step: a first eviction leaves a dummy, a second one the block; a first hit
/// leaves it there, a second one while the block cache remembers the first takes it out.
#[pumice_test_macros::test]
fn one_block_goes_the_way_of_the_rule() {
    let cache = cache(64 << 10, 1 << 20, CompressionType::Lz4);
    let opened = blocks(&cache);
    let second = cache.secondary_cache().unwrap();
    let counts = |metric| perf::context().get(metric);
    let evict = || {
        cache.set_capacity(0);
        cache.set_capacity(64 << 10);
    };
    perf::set_level(PerfLevel::EnableCount);
    perf::reset();
    let table = &opened.table;
    let of_open = opened.reads.load(Relaxed);
    let reads = || opened.reads.load(Relaxed) - of_open;
    get(table, 7);
    evict();
    // The block and the index, which is in the cache since the open.
    assert_eq!(counts(PerfMetric::CompressedSecCacheInsertDummyCount), 2);
    assert_eq!((second.occupancy(), reads()), (2, 1));
    get(table, 7);
    assert_eq!((opened.hits.dummies.load(Relaxed), reads()), (2, 3));
    evict();
    assert_eq!(counts(PerfMetric::CompressedSecCacheInsertRealCount), 2);
    let (raw, packed) = (
        counts(PerfMetric::CompressedSecCacheUncompressedBytes),
        counts(PerfMetric::CompressedSecCacheCompressedBytes),
    );
    assert!(raw > 600 && packed < raw, "{packed} of {raw}");

    let cache_hits = opened.hits.cache_hits.load(Relaxed);
    get(table, 7);
    assert_eq!(counts(PerfMetric::SecondaryCacheHitCount), 2);
    assert_eq!(opened.hits.cache_hits.load(Relaxed) - cache_hits, 2, "they count as its hits");
    assert_eq!(counts(PerfMetric::BlockCacheStandaloneHandleCount), 2);
    assert_eq!((cache.occupancy(), cache.usage()), (2, 0), "dummies, which are charged nothing");
    let kept = second.usage();
    get(table, 7);
    assert_eq!(counts(PerfMetric::BlockCacheRealHandleCount), 2);
    assert!(second.usage() < kept && cache.usage() > 400, "the blocks have moved");
    get(table, 7);
    assert_eq!(counts(PerfMetric::SecondaryCacheHitCount), 4, "now they are in the block cache");
    // The dummies that they left there make the next eviction a second one.
    evict();
    assert_eq!((second.usage(), reads()), (kept, 3));
    assert_eq!(counts(PerfMetric::CompressedSecCacheInsertDummyCount), 2);
    perf::set_level(PerfLevel::Disable);
}

/// Without a second use a dummy of the block cache is evicted, and the next hit is a first one.
#[pumice_test_macros::test]
fn a_dummy_is_forgotten() {
    let cache = cache(64 << 10, 1 << 20, CompressionType::Lz4);
    let opened = blocks(&cache);
    let evict = || {
        cache.set_capacity(0);
        cache.set_capacity(64 << 10);
    };
    for _ in 0..2 {
        get(&opened.table, 9);
        evict();
    }
    let kept = cache.secondary_cache().unwrap().usage();
    for _ in 0..3 {
        get(&opened.table, 9);
        assert_eq!(cache.secondary_cache().unwrap().usage(), kept);
        cache.erase_all();
    }
    assert_eq!(opened.hits.data.load(Relaxed), 3);
}

/// Whether one use of a block, or two, are enough for its first eviction to keep it.
#[pumice_test_macros::test]
fn a_policy_takes_blocks_at_once() {
    use TieredAdmissionPolicy::{AllowAll, AllowCacheHits, Auto, Placeholder};
    const TOTAL: usize = 1 << 20;
    for (adm_policy, once, twice) in [
        (Auto, false, false),
        (Placeholder, false, false),
        (AllowCacheHits, false, true),
        (AllowAll, true, true),
    ] {
        for (uses, keeps) in [(1, once), (2, twice)] {
            let tiers = TieredCacheOptions {
                adm_policy,
                ..TieredCacheOptions::new(1.0 - 3e3 / TOTAL as f64)
            };
            let cache = Cache::tiered(CacheOptions::new(TOTAL), &tiers).unwrap();
            let opened = blocks(&cache);
            let round = || {
                let before = opened.reads.load(Relaxed);
                for n in 0..80 * uses {
                    get(&opened.table, n / uses % 40);
                }
                opened.reads.load(Relaxed) - before
            };
            let read = round();
            assert_eq!(read < 60, keeps, "{adm_policy:?} {uses}: {read} reads");
        }
    }
}

/// Readers of one table all find their values, whatever they move from cache to cache.
#[pumice_test_macros::test]
fn several_readers() {
    let cache = cache(4000, 20_000, CompressionType::Lz4);
    let opened = blocks(&cache);
    let readers: Vec<_> = (0..4u64)
        .map(|reader| {
            let table = Arc::clone(&opened.table);
            thread::spawn("reader", move || {
                let mut rng = Rng::new(reader);
                for _ in 0..3000 {
                    get(&table, rng.uniform(40) as u8);
                }
            })
        })
        .collect();
    for reader in readers {
        reader.join().unwrap();
    }
    assert!(opened.hits.data.load(Relaxed) > 100);
    let second = cache.secondary_cache().unwrap();
    assert!(second.usage() <= second.capacity());
}
