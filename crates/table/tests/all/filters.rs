//! Filters in tables: right answers of every layout, and where their blocks are kept.

use std::sync::Arc;

use crate::prefixed::{LAYOUTS, Layout, build, context, open, with_options};
use crate::support;
use pumice_base::key::{MAX_SEQUENCE, internal_key, seek_key};
use pumice_base::random::Rng;
use pumice_base::{InternalKey, ValueType};
use pumice_filter::FilterPolicy;
use pumice_port::sync::Mutex;
use pumice_table::{
    BlockKind, IndexType, MetadataPinning, MissedBlock, PinningTier, Table, TableReadContext,
    TableReadOptions, TableStats, properties,
};

/// Counts a table's block accesses.
#[derive(Default)]
struct Counts(Mutex<Vec<(&'static str, BlockKind)>>);

impl Counts {
    /// How often each thing happened since the last call.
    fn take(&self, what: &str, kind: BlockKind) -> usize {
        let mut list = self.0.lock();
        let count = list.iter().filter(|event| **event == (what, kind)).count();
        list.retain(|event| (event.0, event.1) != (what, kind));
        count
    }

    fn lookups(&self, kind: BlockKind) -> usize {
        self.take("hit", kind) + self.take("miss", kind)
    }
}

impl TableStats for Counts {
    fn cache_hit(&self, kind: BlockKind, _bytes: usize) {
        self.0.lock().push(("hit", kind));
    }
    fn cache_miss(&self, kind: BlockKind) {
        self.0.lock().push(("miss", kind));
    }
    fn filter_useful(&self) {
        self.0.lock().push(("useful", BlockKind::Filter));
    }
    fn filter_positive(&self) {
        self.0.lock().push(("positive", BlockKind::Filter));
    }
    fn filter_true_positive(&self) {
        self.0.lock().push(("true positive", BlockKind::Filter));
    }
    fn prefix_filter_checked(&self, useful: bool) {
        self.0.lock().push((if useful { "prefix useful" } else { "prefix" }, BlockKind::Filter));
    }
    fn block_read(&self, kind: BlockKind, _bytes: usize) {
        self.0.lock().push(("read", kind));
    }
}

fn users(n: u64) -> Vec<Vec<u8>> {
    (0..n).map(|i| format!("key{:06}", i * 2).into_bytes()).collect()
}

fn get(table: &Table, options: &TableReadOptions, key: &[u8]) -> pumice_base::Result<bool> {
    let mut found = false;
    table.get(options, InternalKey::new(&seek_key(key, MAX_SEQUENCE)), &mut |_, _, _| {
        found = true;
        false
    })?;
    Ok(found)
}

/// Keys that are there are found, most others are stopped by the filter.
#[pumice_test_macros::test]
fn every_layout_finds_its_keys() {
    for seed in 0..40 {
        println!("seed {seed}");
        let mut rng = Rng::new(seed);
        for layout in LAYOUTS {
            let context = with_options(context(layout, true, "rocksdb.Noop"), |options| {
                options.filter_policy = Some(match rng.uniform(3) {
                    0 => FilterPolicy::ribbon(12.0, -1),
                    _ => FilterPolicy::bloom(12.0),
                });
                options.block_size = [60, 500, 4096][rng.uniform(3) as usize];
                options.metadata_block_size = [1, 300, 1500][rng.uniform(3) as usize];
                options.format_version = 2 + rng.uniform(6) as u32;
                options.index_block_restart_interval = 1 + rng.uniform(8) as u32;
                options.optimize_filters_for_memory = rng.one_in(2);
                options.detect_filter_construct_corruption = rng.one_in(2);
                options.enable_index_compression = rng.one_in(2);
            });
            let keys = users(1 + rng.uniform(3000));
            let table = open(&context, &keys);
            table.verify_checksums().unwrap();
            let options = TableReadOptions::default();
            for key in &keys {
                assert!(get(&table, &options, key).unwrap());
            }
            let absent = |i: usize| format!("key{:06}", i * 2 + 1).into_bytes();
            let passed = (0..keys.len())
                .filter(|i| table.key_may_match(&options, &absent(*i)).unwrap())
                .count();
            assert!(passed <= 3 + keys.len() / 40, "{layout:?} {passed} of {}", keys.len());
        }
    }
}

#[pumice_test_macros::test]
fn properties_say_what_was_built() {
    for layout in LAYOUTS {
        let context = context(layout, true, "rocksdb.FixedPrefix.4");
        let keys = users(3000);
        let table = open(&context, &keys);
        let properties = table.properties();
        let decoupled = properties.collected(properties::DECOUPLED_FILTERS);
        assert_eq!(decoupled, (layout == Layout::Decoupled).then_some(&b"1"[..]));
        // 3000 keys and 1 prefix; each cut adds at most a prefix on each side.
        let entries = properties.num_filter_entries;
        let cuts = properties.filter_size / 64;
        assert!((3001..=3001 + 2 * cuts).contains(&entries), "{layout:?} {entries}");
        assert!(properties.filter_size * 8 >= 40 * 3001);
        assert_eq!(properties.prefix_extractor, "rocksdb.FixedPrefix.4");
        let index_type = properties.index_type().unwrap();
        assert_eq!(index_type, IndexType::TwoLevel);
    }
    // Without a partitioned index the filter is not partitioned either.
    let context = with_options(context(Layout::Decoupled, true, "rocksdb.Noop"), |options| {
        options.index_type = IndexType::BinarySearch;
    });
    let table = open(&context, &users(3000));
    assert!(table.properties().collected(properties::DECOUPLED_FILTERS).is_none());
}

/// Three versions of five keys with two prefixes: each key and each prefix counts once.
#[pumice_test_macros::test]
fn versions_and_prefixes_count_once() {
    let users = [b"abc1", b"abc2", b"abc3", b"xyz4", b"xyz5"];
    let version = |user: &[u8; 4], seq: u64| internal_key(user, seq, ValueType::Value);
    let entries: Vec<_> =
        users.iter().flat_map(|user| [9, 6, 3].map(|seq| version(user, seq))).collect();
    for layout in LAYOUTS {
        for (whole, extractor, expected) in [
            (true, "nullptr", 5),
            (false, "rocksdb.FixedPrefix.3", 2),
            (true, "rocksdb.FixedPrefix.3", 7),
            (true, "rocksdb.CappedPrefix.3", 7),
            // Every key is its own prefix.
            (true, "rocksdb.Noop", 5),
        ] {
            let context = with_options(context(layout, whole, extractor), |options| {
                options.metadata_block_size = 4096;
            });
            let built = support::build(context, entries.iter().map(|k| (&k[..], &b"v"[..])));
            let count = built.properties.num_filter_entries;
            assert_eq!(count, expected, "{layout:?} {whole} {extractor}");
        }
    }
}

/// How the table of one layout is opened over a cache, with counts.
fn counted(
    layout: Layout,
    level: i32,
    change: impl FnOnce(&mut pumice_table::TableOptions),
) -> (Arc<Table>, Arc<Counts>, Vec<Vec<u8>>) {
    let context = with_options(context(layout, true, "rocksdb.Noop"), |options| {
        options.block_cache = Some(support::cache(8 << 20));
        options.cache_index_and_filter_blocks = true;
        change(options);
    });
    let keys = users(3000);
    let (bytes, read) = build(&context, &keys);
    let counts = Arc::new(Counts::default());
    let read = TableReadContext { level, stats: Some(counts.clone()), ..read };
    let table = support::open(read, &bytes).unwrap();
    counts.0.lock().clear();
    (table, counts, keys)
}

const KINDS: [BlockKind; 4] =
    [BlockKind::Index, BlockKind::FilterIndex, BlockKind::Filter, BlockKind::Data];

/// Cache lookups of one point read, by kind of block.
fn lookups_of_a_get(table: &Table, counts: &Counts, keys: &[Vec<u8>]) -> [usize; 4] {
    assert!(get(table, &TableReadOptions::default(), &keys[1234]).unwrap());
    KINDS.map(|kind| counts.lookups(kind))
}

#[pumice_test_macros::test]
fn pinned_blocks_are_not_looked_up() {
    let pin = |tiers: MetadataPinning| {
        move |options: &mut pumice_table::TableOptions| {
            options.pin_top_level_index_and_filter = false;
            options.metadata_pinning = tiers;
        }
    };
    let none = MetadataPinning::default();
    let all = |part: PinningTier, top: PinningTier| MetadataPinning {
        partition: part,
        top_level_index: top,
        unpartitioned: PinningTier::Fallback,
    };
    let (tier_all, flushed) = (PinningTier::All, PinningTier::FlushedAndSimilar);
    let cases = [
        // Two levels of index and filter and the data block.
        (1, none, [2, 1, 1, 1]),
        (1, all(PinningTier::None, tier_all), [1, 0, 1, 1]),
        (1, all(tier_all, tier_all), [0, 0, 0, 1]),
        (1, all(tier_all, PinningTier::None), [1, 1, 0, 1]),
        (1, all(flushed, flushed), [2, 1, 1, 1]),
        (0, all(flushed, flushed), [0, 0, 0, 1]),
        (0, all(flushed, PinningTier::None), [1, 1, 0, 1]),
        (0, none, [2, 1, 1, 1]),
    ];
    for layout in [Layout::Coupled, Layout::Decoupled] {
        for (level, tiers, want) in cases {
            let (table, counts, keys) = counted(layout, level, pin(tiers));
            let got = lookups_of_a_get(&table, &counts, &keys);
            assert_eq!(got, want, "{layout:?} level {level} {tiers:?}");
        }
        // By default the top levels are pinned; the older flag pins the rest for level 0.
        let (table, counts, keys) = counted(layout, 0, |_| {});
        assert_eq!(lookups_of_a_get(&table, &counts, &keys), [1, 0, 1, 1]);
        let l0 = |o: &mut pumice_table::TableOptions| {
            o.pin_l0_filter_and_index_blocks_in_cache = true;
        };
        let (table, counts, keys) = counted(layout, 0, l0);
        assert_eq!(lookups_of_a_get(&table, &counts, &keys), [0, 0, 0, 1]);
        let (table, counts, keys) = counted(layout, 1, l0);
        assert_eq!(lookups_of_a_get(&table, &counts, &keys), [1, 0, 1, 1]);
        // Outside of the cache the top levels are the table's, partitions are in the cache.
        let (table, counts, keys) = counted(layout, 1, |o| o.cache_index_and_filter_blocks = false);
        assert_eq!(lookups_of_a_get(&table, &counts, &keys), [1, 0, 1, 1]);
        // Without a cache everything is the table's.
        let (table, counts, keys) = counted(layout, 1, |o| o.block_cache = None);
        let held = table.approximate_memory();
        assert!(held as u64 > table.properties().filter_size, "{held}");
        assert!(get(&table, &TableReadOptions::default(), &keys[7]).unwrap());
        assert_eq!(counts.take("read", BlockKind::Filter), 0);
        assert_eq!(counts.take("read", BlockKind::Data), 1);
    }
}

#[pumice_test_macros::test]
fn unpartitioned_blocks_are_pinned_by_their_tier() {
    let unpartitioned = |tier| MetadataPinning { unpartitioned: tier, ..Default::default() };
    let cases = [
        (1, PinningTier::Fallback, [1, 0, 1, 1]),
        (1, PinningTier::All, [0, 0, 0, 1]),
        (1, PinningTier::FlushedAndSimilar, [1, 0, 1, 1]),
        (0, PinningTier::FlushedAndSimilar, [0, 0, 0, 1]),
        (0, PinningTier::None, [1, 0, 1, 1]),
    ];
    for (level, tier, want) in cases {
        let (table, counts, keys) = counted(Layout::Full, level, |options| {
            options.index_type = IndexType::BinarySearch;
            options.metadata_pinning = unpartitioned(tier);
        });
        assert_eq!(lookups_of_a_get(&table, &counts, &keys), want, "level {level} {tier:?}");
    }
}

/// A table of level 0 that is larger than what a flush writes is not pinned.
#[pumice_test_macros::test]
fn large_tables_of_level_0_are_not_pinned() {
    let context = with_options(context(Layout::Decoupled, true, "rocksdb.Noop"), |options| {
        options.block_cache = Some(support::cache(8 << 20));
        options.cache_index_and_filter_blocks = true;
        options.pin_l0_filter_and_index_blocks_in_cache = true;
    });
    let keys = users(3000);
    let (bytes, read) = build(&context, &keys);
    for (limit, lookups) in [(bytes.len() as u64, 0), (bytes.len() as u64 - 1, 1)] {
        let counts = Arc::new(Counts::default());
        let read = TableReadContext {
            level: 0,
            stats: Some(counts.clone()),
            max_file_size_for_l0_meta_pin: limit,
            ..read.clone()
        };
        let table = support::open(read, &bytes).unwrap();
        counts.0.lock().clear();
        assert!(get(&table, &TableReadOptions::default(), &keys[5]).unwrap());
        assert_eq!(counts.lookups(BlockKind::Filter), lookups);
    }
}

/// Filters that are disabled, or belong to another policy, are not touched.
#[pumice_test_macros::test]
fn skipped_filters_are_not_read() {
    for layout in LAYOUTS {
        let (bytes, read) = build(&context(layout, true, "rocksdb.Noop"), &users(500));
        let counts = Arc::new(Counts::default());
        let read = TableReadContext {
            skip_filters: true,
            stats: Some(counts.clone()),
            tail_size: 0,
            ..read
        };
        let table = support::open(read, &bytes).unwrap();
        assert!(table.key_may_match(&TableReadOptions::default(), b"absent").unwrap());
        assert_eq!(counts.take("useful", BlockKind::Filter), 0);
        assert_eq!(counts.take("read", BlockKind::Filter), 0);
    }
}

#[pumice_test_macros::test]
fn filters_are_counted() {
    let (table, counts, keys) = counted(Layout::Decoupled, 1, |_| {});
    let options = TableReadOptions::default();
    assert!(get(&table, &options, &keys[3]).unwrap());
    assert!(!get(&table, &options, b"key000007").unwrap());
    assert_eq!(counts.take("positive", BlockKind::Filter), 1);
    assert_eq!(counts.take("true positive", BlockKind::Filter), 1);
    assert_eq!(counts.take("useful", BlockKind::Filter), 1);
    let (table, counts, keys) = counted(Layout::Full, 1, |o| o.whole_key_filtering = false);
    assert!(get(&table, &options, &keys[3]).unwrap());
    assert!(!get(&table, &options, b"key000007").unwrap());
    assert_eq!(counts.take("prefix", BlockKind::Filter), 1);
    assert_eq!(counts.take("prefix useful", BlockKind::Filter), 1);
    assert_eq!(counts.take("positive", BlockKind::Filter), 0);
}

/// A filter partition that is not in the cache: a read without I/O continues without it, and a read
/// that tracks misses records it.
#[pumice_test_macros::test]
fn a_missing_partition_is_noted_or_done_without() {
    let (table, _, keys) = counted(Layout::Decoupled, 1, |_| {});
    let key = &keys[1000];
    let blind = TableReadOptions { cache_only: true, ..Default::default() };
    assert!(table.key_may_match(&blind, b"key001001").unwrap(), "nothing is known");
    let missed = Arc::new(MissedBlock::default());
    let options = TableReadOptions { missed: Some(Arc::clone(&missed)), ..blind };
    let mut kinds = Vec::new();
    while get(&table, &options, key).is_err() {
        missed.set_table(Arc::clone(&table));
        let (table, block) = missed.take().unwrap();
        kinds.push(block.1);
        table.load(block, &TableReadOptions::default()).unwrap();
    }
    assert_eq!(kinds, [BlockKind::Filter, BlockKind::Index, BlockKind::Data]);
    assert!(get(&table, &options, key).unwrap());
}

/// Damage to a filter partition costs its benefit, not answers.
#[pumice_test_macros::test]
fn a_damaged_partition_is_done_without() {
    for cached in [false, true] {
        let context = with_options(context(Layout::Decoupled, true, "rocksdb.Noop"), |options| {
            options.block_cache = cached.then(|| support::cache(1 << 20));
        });
        let keys = users(3000);
        let (mut bytes, read) = build(&context, &keys);
        let properties = support::open(read.clone(), &bytes).unwrap().properties().clone();
        // The filter begins right after the data.
        bytes[properties.data_size as usize + 3] ^= 0x40;
        let table = support::open(read, &bytes).unwrap();
        let options = TableReadOptions::default();
        assert!(keys.iter().all(|key| get(&table, &options, key).unwrap()));
        assert!(table.key_may_match(&options, b"key000001").unwrap());
        assert!(!table.key_may_match(&options, b"key005001").unwrap(), "the others serve");
        assert!(table.verify_checksums().unwrap_err().is_corruption());
    }
}
