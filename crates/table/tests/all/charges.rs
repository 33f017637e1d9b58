//! What builders and open tables hold is charged to the block cache while they hold it, if
//! `cache_usage_options` say so.

use std::path::Path;
use std::sync::Arc;

use crate::support;
use pumice_base::key::internal_key;
use pumice_base::random::Rng;
use pumice_base::{ErrorKind, SubCode, ValueType};
use pumice_cache::{CacheOptions, ChargedRole};
use pumice_compress::{CompressionOptions, CompressionType};
use pumice_env::{BufferedWriter, FileOptions, MemFs, WriterOptions};
use pumice_filter::FilterPolicy;
use pumice_table::{
    BlockCache, CacheUsageOptions, Charged, IndexType, TableBuildContext, TableBuilder,
    TableOptions,
};

const BUFFER: ChargedRole = ChargedRole::CompressionDictionaryBuildingBuffer;
const FILTER: ChargedRole = ChargedRole::FilterConstruction;
const READER: ChargedRole = ChargedRole::BlockBasedTableReader;

fn context(options: TableOptions) -> TableBuildContext {
    TableBuildContext { table: Arc::new(options), ..TableBuildContext::default() }
}

fn builder(context: &TableBuildContext) -> TableBuilder {
    let fs = MemFs::new(1).shared();
    let file = fs.create(Path::new("/t.sst"), &FileOptions::default()).unwrap();
    let writer = BufferedWriter::new(file, WriterOptions::new(1 << 20));
    TableBuilder::new(context.clone(), writer).unwrap()
}

fn strict(capacity: usize) -> Arc<BlockCache> {
    let strict_capacity_limit = true;
    BlockCache::new(CacheOptions { strict_capacity_limit, ..CacheOptions::new(capacity) })
}

/// Entry `n`, which does not compress.
fn add(builder: &mut TableBuilder, n: u64, value_len: usize) {
    let key = internal_key(format!("{n:08}").as_bytes(), 1, ValueType::Value);
    builder.add(&key, &Rng::new(n).bytes(value_len)).unwrap();
}

/// Tables with a dictionary, whose decision about the buffer is this.
fn with_dictionary(cache: &Arc<BlockCache>, charged: Charged) -> TableBuildContext {
    let usage = CacheUsageOptions {
        compression_dictionary_building_buffer: charged,
        ..CacheUsageOptions::default()
    };
    TableBuildContext {
        compression: CompressionType::Zstd,
        compression_opts: CompressionOptions {
            max_dict_bytes: 4096,
            max_dict_buffer_bytes: 200_000,
            ..CompressionOptions::default()
        },
        ..context(TableOptions {
            block_cache: Some(Arc::clone(cache)),
            cache_usage_options: usage,
            ..TableOptions::default()
        })
    }
}

/// Each block of one entry has the same size: while they wait, a multiple of it is charged, which
/// grows with each block and goes when the dictionary is made.
#[pumice_test_macros::test]
fn blocks_that_wait_for_a_dictionary_are_charged() {
    for (charged, expected) in
        [(Charged::Fallback, true), (Charged::Enabled, true), (Charged::Disabled, false)]
    {
        let cache = support::cache(1 << 20);
        let mut builder = builder(&with_dictionary(&cache, charged));
        let mut charges = Vec::new();
        for n in 0..60 {
            add(&mut builder, n, 5000);
            charges.push(cache.charged_bytes(BUFFER));
            assert_eq!(charges[n as usize], cache.usage());
        }
        if !expected {
            assert!(charges.iter().all(|charge| *charge == 0));
            continue;
        }
        // The first entry ends no block; 39 of the blocks do not exceed the limit.
        let block = charges[1];
        assert!((5000..5100).contains(&block), "{block}");
        let until = 200_000 / block;
        assert_eq!(charges[..=until], Vec::from_iter((0..=until).map(|n| n * block)));
        assert!(charges[until + 1..].iter().all(|charge| *charge == 0), "{charges:?}");
        drop(builder);

        // A builder that is given up while its blocks wait.
        let mut given_up = self::builder(&with_dictionary(&cache, charged));
        (0..10).for_each(|n| add(&mut given_up, n, 5000));
        assert_eq!(cache.usage(), 9 * block);
        given_up.abandon().unwrap();
        assert_eq!(cache.usage(), 0);
    }
}

/// Blocks that do not fit into a strict cache end the wait, and the table has its dictionary and
/// all its entries.
#[pumice_test_macros::test]
fn a_full_strict_cache_ends_the_wait_for_a_dictionary() {
    let cache = strict(52_000);
    let context = with_dictionary(&cache, Charged::Enabled);
    let mut waiting = builder(&context);
    let mut most = 0;
    for n in 0..30 {
        add(&mut waiting, n, 5000);
        most = most.max(cache.usage());
    }
    assert!((50_000..=52_000).contains(&most), "{most}");
    assert_eq!(cache.usage(), 0, "the eleventh block did not fit");
    waiting.finish_file(false, false).unwrap();
    assert_eq!((waiting.properties().num_entries, cache.usage()), (30, 0));

    let key = |n: u64| internal_key(format!("{n:08}").as_bytes(), 1, ValueType::Value);
    let entries: Vec<_> = (0..30).map(|n| (key(n), Rng::new(n).bytes(5000))).collect();
    let built = support::build(context.clone(), entries.iter().map(|(k, v)| (&k[..], &v[..])));
    let mut read = support::read_context(&context);
    read.options = Arc::new(TableOptions::default());
    let table = support::open(read, &built.bytes).unwrap();
    let mut iter = table.iter(&Default::default());
    iter.seek_to_first();
    for (key, value) in &entries {
        assert_eq!((iter.key().as_bytes(), iter.value()), (&key[..], &value[..]));
        iter.next();
    }
    assert!(!iter.valid());
    iter.status().unwrap();
}

fn with_filter(
    cache: &Arc<BlockCache>,
    charged: Charged,
    policy: FilterPolicy,
    change: impl FnOnce(&mut TableOptions),
) -> TableBuildContext {
    let mut options = TableOptions {
        block_cache: Some(Arc::clone(cache)),
        filter_policy: Some(policy),
        optimize_filters_for_memory: false,
        cache_usage_options: CacheUsageOptions {
            filter_construction: charged,
            ..CacheUsageOptions::default()
        },
        ..TableOptions::default()
    };
    change(&mut options);
    context(options)
}

/// The largest charge while keys were added, and the length of the filter that came of them. After
/// the builder is gone nothing is charged.
fn filter_charges(context: &TableBuildContext, keys: u64) -> (usize, u64) {
    let cache = context.table.block_cache.clone().unwrap();
    let mut building = builder(context);
    let mut last = 0;
    for n in 0..keys {
        add(&mut building, n, 10);
        let now = cache.charged_bytes(FILTER);
        assert!(now >= last && now == cache.usage(), "{last} then {now}");
        last = now;
    }
    building.finish_file(false, false).unwrap();
    let after = cache.charged_bytes(FILTER);
    // The memory of a chunk of hashes is kept for another filter.
    assert!(after <= last.min(8192 * 8), "{after} of {last}");
    let size = building.properties().filter_size;
    drop(building);
    assert_eq!(cache.charged_bytes(FILTER), 0);
    (last, size)
}

/// Hashes come in chunks of 8192 with eight bytes each.
#[pumice_test_macros::test]
fn hashes_of_filters_are_charged() {
    const KEYS: u64 = 20_000;
    let none = |_: &mut TableOptions| {};
    let cache = support::cache(8 << 20);
    let charges = |charged, policy: FilterPolicy, change: fn(&mut TableOptions)| {
        filter_charges(&with_filter(&cache, charged, policy, change), KEYS)
    };
    let bloom = FilterPolicy::bloom(10.0);
    assert_eq!(charges(Charged::Enabled, bloom, none), (3 * 8192 * 8, 25_024 + 5));
    let (hashes, ribbon) = charges(Charged::Enabled, FilterPolicy::ribbon(10.0, -1), none);
    assert!(hashes == 3 * 8192 * 8 && ribbon < 20_000, "{ribbon}");
    for charged in [Charged::Disabled, Charged::Fallback] {
        assert_eq!(charges(charged, bloom, none).0, 0);
    }
    assert_eq!(charges(Charged::Enabled, bloom, |o| o.format_version = 4).0, 0, "as in RocksDB");
    for decoupled in [false, true] {
        let change = |options: &mut TableOptions| {
            options.index_type = IndexType::TwoLevel;
            options.partition_filters = true;
            options.decouple_partitioned_filters = decoupled;
        };
        let context = with_filter(&cache, Charged::Enabled, bloom, change);
        let (most, size) = filter_charges(&context, KEYS);
        // All filters but the last two are there, and the memory of hashes of three partitions.
        let range = size as usize - 3 * 4096..=size as usize + 3 * 4096 * 8;
        assert!(range.contains(&most), "{most} {size}");
    }
}

/// Without room for the equations of a Ribbon filter a Bloom filter is made; without room for
/// anything one is made too, and nothing is charged.
#[pumice_test_macros::test]
fn a_full_strict_cache_gets_bloom_filters() {
    const KEYS: u64 = 20_000;
    let ribbon = FilterPolicy::ribbon(10.0, -1);
    let charges = |capacity| {
        filter_charges(&with_filter(&strict(capacity), Charged::Enabled, ribbon, |_| {}), KEYS)
    };
    let hashes = 3 * 8192 * 8;
    assert!(charges(hashes + 25 * KEYS as usize).1 < 20_000, "room for 20 bytes a slot");
    assert_eq!(charges(hashes + 19 * KEYS as usize), (hashes, 25_024 + 5));
    assert_eq!(charges(10), (0, 25_024 + 5));
}

fn reader_options(cache: &Arc<BlockCache>, charged: Charged) -> TableOptions {
    TableOptions {
        block_cache: Some(Arc::clone(cache)),
        filter_policy: Some(FilterPolicy::bloom(10.0)),
        cache_usage_options: CacheUsageOptions {
            block_based_table_reader: charged,
            ..CacheUsageOptions::default()
        },
        ..TableOptions::default()
    }
}

#[pumice_test_macros::test]
fn open_tables_are_charged() {
    let entries: Vec<_> = (0..3000u64)
        .map(|n| internal_key(format!("{n:08}").as_bytes(), 1, ValueType::Value))
        .collect();
    let plain = context(reader_options(&support::cache(0), Charged::Disabled));
    let built = support::build(plain, entries.iter().map(|key| (&key[..], &[7u8; 100][..])));
    let open = |cache: &Arc<BlockCache>, charged, in_cache| {
        let options = TableOptions {
            cache_index_and_filter_blocks: in_cache,
            ..reader_options(cache, charged)
        };
        support::open(support::read_context(&context(options)), &built.bytes)
    };
    let cache = support::cache(1 << 20);
    let tables = [(); 2].map(|()| open(&cache, Charged::Enabled, false).unwrap());
    let bytes = tables[0].approximate_memory();
    let parts = built.properties.filter_size + built.properties.index_size;
    assert!(bytes as u64 > parts, "{bytes} for {parts}");
    assert_eq!((cache.charged_bytes(READER), cache.usage()), (2 * bytes, 2 * bytes));
    let [one, other] = tables;
    drop(one);
    assert_eq!(cache.usage(), bytes);
    drop(other);
    assert_eq!(cache.usage(), 0);

    // Blocks that are in the cache anyway do not count twice.
    let table = open(&cache, Charged::Enabled, true).unwrap();
    assert_eq!(cache.charged_bytes(READER), table.approximate_memory());
    assert!(table.approximate_memory() + built.properties.filter_size as usize <= bytes);
    drop(table);
    for charged in [Charged::Disabled, Charged::Fallback] {
        let _table = open(&cache, charged, false).unwrap();
        assert_eq!(cache.charged_bytes(READER), 0);
    }

    let full = strict(2 * bytes - 1);
    let _table = open(&full, Charged::Enabled, false).unwrap();
    let error = open(&full, Charged::Enabled, false).err().unwrap();
    assert_eq!((error.kind(), error.subcode()), (ErrorKind::Aborted, SubCode::MemoryLimit));
    let text = "Can't allocate BlockBasedTableReader due to memory limit based on cache capacity \
                for memory allocation";
    assert_eq!(error.message(), text);
    assert_eq!(full.usage(), bytes);
}
