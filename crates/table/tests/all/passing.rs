//! Blocks read in passing: index partitions that are searched in their encoded form, not decoded
//! and not kept, and data blocks that are not kept. Lookups must find the same as in decoded
//! partitions, detect damage, and be counted.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::support;
use pumice_base::checksum::ChecksumType;
use pumice_base::key::{InternalKey, MAX_SEQUENCE, internal_key, seek_key};
use pumice_base::random::Rng;
use pumice_base::{Comparator, Error, ErrorKind, InternalKeyComparator, ValueType};
use pumice_compress::CompressionType;
use pumice_table::{
    BlockKind, IndexType, Table, TableBuildContext, TableOptions, TableReadContext,
    TableReadOptions, TableStats,
};

type Entries = Vec<(Vec<u8>, Vec<u8>)>;
type Versions = Vec<(u64, Vec<u8>)>;

/// What happened to blocks of a kind.
struct Counts {
    kind: BlockKind,
    hits: AtomicUsize,
    misses: AtomicUsize,
    adds: AtomicUsize,
    reads: AtomicUsize,
}

impl Counts {
    fn new(kind: BlockKind) -> Self {
        let [hits, misses, adds, reads] = Default::default();
        Counts { kind, hits, misses, adds, reads }
    }

    fn count(&self, counter: &AtomicUsize, kind: BlockKind) {
        if kind == self.kind {
            counter.fetch_add(1, Relaxed);
        }
    }

    fn now(&self) -> [usize; 4] {
        [&self.hits, &self.misses, &self.adds, &self.reads].map(|count| count.load(Relaxed))
    }
}

impl TableStats for Counts {
    fn cache_hit(&self, kind: BlockKind, _bytes: usize) {
        self.count(&self.hits, kind);
    }
    fn cache_miss(&self, kind: BlockKind) {
        self.count(&self.misses, kind);
    }
    fn cache_add(&self, kind: BlockKind, _bytes: usize) {
        self.count(&self.adds, kind);
    }
    fn block_read(&self, kind: BlockKind, _bytes: usize) {
        self.count(&self.reads, kind);
    }
}

struct Fixture {
    table: Arc<Table>,
    counts: Arc<Counts>,
    list: Entries,
}

fn open(
    context: &TableBuildContext,
    bytes: &[u8],
    (cache, kind): (usize, BlockKind),
) -> (Arc<Table>, Arc<Counts>) {
    let counts = Arc::new(Counts::new(kind));
    let options = TableOptions {
        block_cache: Some(support::cache(cache)),
        no_block_cache: false,
        ..(*context.table).clone()
    };
    let read = TableReadContext {
        options: Arc::new(options),
        stats: Some(counts.clone()),
        ..support::read_context(context)
    };
    (support::open(read, bytes).unwrap(), counts)
}

/// A table of many partitions, of any form, with a cache of this many bytes; blocks of that kind
/// are counted.
fn fixture(seed: u64, cache: (usize, BlockKind), n: u64) -> Fixture {
    let mut rng = Rng::new(seed);
    let order =
        [Comparator::Bytewise, Comparator::ReverseBytewise][rng.uniform(2) as usize].clone();
    let comparator = InternalKeyComparator::new(order);
    // Several versions of a key may lie in two blocks: then separators are internal keys.
    let versions = 1 + rng.uniform(2) * 4;
    let mut list: Entries = (0..n)
        .map(|_| {
            let user = format!("{:07}", 2 * rng.uniform(n / versions));
            let key = internal_key(user.as_bytes(), 1 + rng.uniform(1000), ValueType::Value);
            (key, rng.bytes(20))
        })
        .collect();
    list.sort_by(|a, b| comparator.compare(InternalKey::new(&a.0), InternalKey::new(&b.0)));
    list.dedup_by(|a, b| match versions {
        1 => InternalKey::new(&a.0).user_key().has_bytes_of(InternalKey::new(&b.0).user_key()),
        _ => a.0 == b.0,
    });
    let options = TableOptions {
        index_type: IndexType::TwoLevel,
        index_block_restart_interval: [1, 1, 2, 16][rng.uniform(4) as usize],
        format_version: 2 + rng.uniform(6) as u32,
        block_size: 300,
        metadata_block_size: 400,
        ..Default::default()
    };
    let codecs = [CompressionType::None, CompressionType::Lz4, CompressionType::Snappy];
    let compression = codecs[rng.uniform(3) as usize];
    let table = Arc::new(options);
    let context = TableBuildContext { table, comparator, compression, ..Default::default() };
    let built = support::build(context.clone(), list.iter().map(|(k, v)| (&k[..], &v[..])));
    let (table, counts) = open(&context, &built.bytes, cache);
    Fixture { table, counts, list }
}

fn get(table: &Table, options: &TableReadOptions, target: &[u8]) -> Result<Versions, Error> {
    let mut found = Versions::new();
    table.get(options, InternalKey::new(target), &mut |key, value, _| {
        found.push((key.sequence, value.to_vec()));
        true
    })?;
    Ok(found)
}

/// Without filling the cache every lookup searches a raw partition, and finds the same.
#[pumice_test_macros::test]
fn lookups_find_the_same_in_raw_partitions() {
    for seed in 0..60 {
        let Fixture { table, counts, list } = fixture(seed, (16 << 20, BlockKind::Index), 900);
        let passing = TableReadOptions { fill_cache: false, ..Default::default() };
        let mut rng = Rng::new(seed);
        let mut targets = Vec::new();
        for _ in 0..300 {
            let mut user = InternalKey::new(&list[rng.uniform(list.len() as u64) as usize].0)
                .user_key()
                .to_vec();
            match rng.uniform(4) {
                0 => *user.last_mut().unwrap() += 1,
                1 => user.truncate(rng.uniform(8) as usize),
                _ => {}
            }
            let sequence = if rng.one_in(2) { MAX_SEQUENCE } else { rng.uniform(1000) };
            targets.push(seek_key(&user, sequence));
        }
        let raw: Vec<Versions> =
            targets.iter().map(|target| get(&table, &passing, target).unwrap()).collect();
        let [hits, misses, adds, reads] = counts.now();
        assert_eq!((hits, adds), (0, 0), "seed {seed}");
        assert_eq!(misses, reads, "seed {seed}: a miss is a read");
        assert!(misses > 200, "seed {seed}: {misses}");
        let decoded: Vec<Versions> = targets
            .iter()
            .map(|target| get(&table, &TableReadOptions::default(), target).unwrap())
            .collect();
        assert_eq!(raw, decoded, "seed {seed}");
        let found = raw.iter().filter(|versions| !versions.is_empty()).count();
        assert!((50..299).contains(&found), "seed {seed}: {found}");
        // This cache has room: a read that fills it keeps a partition at its first miss.
        let [_, misses_now, adds, reads_now] = counts.now();
        assert_eq!((misses_now - misses, reads_now - reads), (adds, adds), "seed {seed}");
    }
}

/// A thrashing cache: blocks are not kept for their first miss, but one that is requested again at
/// once is.
#[pumice_test_macros::test]
fn a_full_cache_keeps_partitions_that_come_back() {
    check_full_cache(BlockKind::Index);
}

#[pumice_test_macros::test]
fn a_full_cache_keeps_data_blocks_that_come_back() {
    check_full_cache(BlockKind::Data);
}

fn check_full_cache(kind: BlockKind) {
    for seed in 0..4 {
        let Fixture { table, counts, list } = fixture(seed, (32 << 10, kind), 200_000);
        let mut rng = Rng::new(seed);
        let options = TableReadOptions::default();
        let one = |at: usize| {
            let target = seek_key(InternalKey::new(&list[at].0).user_key(), MAX_SEQUENCE);
            assert!(!get(&table, &options, &target).unwrap().is_empty(), "seed {seed}");
        };
        for _ in 0..6000 {
            one(rng.uniform(list.len() as u64) as usize);
        }
        let before = counts.now();
        for _ in 0..2000 {
            one(rng.uniform(list.len() as u64) as usize);
        }
        let after = counts.now();
        let [hits, misses, adds, reads] = std::array::from_fn(|i| after[i] - before[i]);
        assert_eq!(misses, reads, "seed {seed}");
        assert!(misses > 1500 && hits < misses / 4, "seed {seed}: {hits} {misses}");
        assert!(adds < misses / 2, "seed {seed}: {adds} of {misses}");
        // Three lookups each: missed, missed and admitted, hit.
        let (before, mut places) = (counts.now(), BTreeSet::new());
        for _ in 0..100 {
            let at = rng.uniform(list.len() as u64) as usize;
            places.insert(at);
            for _ in 0..3 {
                one(at);
            }
        }
        let after = counts.now();
        let [hits, misses, adds, _] = std::array::from_fn(|i| after[i] - before[i]);
        assert!(hits >= 90 && misses <= 220, "seed {seed}: {hits} {misses} {}", places.len());
        assert!(adds >= 80, "seed {seed}: {adds}");
    }
}

/// Damage in a partition that is searched undecoded gives Corruption or has no effect; blocks that
/// are not verified are decoded, which checks all of them.
#[pumice_test_macros::test]
fn damage_is_found_in_passing() {
    for checksum in [ChecksumType::Xxh3, ChecksumType::None] {
        let options = TableOptions {
            index_type: IndexType::TwoLevel,
            block_size: 200,
            metadata_block_size: 300,
            checksum,
            ..Default::default()
        };
        let context = TableBuildContext { table: Arc::new(options), ..Default::default() };
        let key = |i: u64| internal_key(format!("{i:07}").as_bytes(), 1, ValueType::Value);
        let list: Entries = (0..400).map(|i| (key(2 * i), vec![i as u8; 20])).collect();
        let built = support::build(context.clone(), list.iter().map(|(k, v)| (&k[..], &v[..])));
        let passing = TableReadOptions { fill_cache: false, ..Default::default() };
        let data_end = built.properties.data_size as usize;
        let index_end = data_end + built.properties.index_size as usize;
        let mut corrupt = 0;
        for at in (data_end..index_end.min(built.bytes.len())).step_by(3) {
            let mut bytes = built.bytes.clone();
            bytes[at] ^= 0x11;
            let read = TableReadContext {
                options: Arc::new(TableOptions {
                    block_cache: Some(support::cache(1 << 20)),
                    no_block_cache: false,
                    ..(*context.table).clone()
                }),
                ..support::read_context(&context)
            };
            let Ok(table) = support::open(read, &bytes) else { continue };
            for (key, value) in list.iter().step_by(7) {
                let target = seek_key(InternalKey::new(key).user_key(), MAX_SEQUENCE);
                match get(&table, &passing, &target) {
                    Ok(found) if checksum == ChecksumType::Xxh3 => {
                        assert_eq!(found, vec![(1, value.clone())], "byte {at}");
                    }
                    Ok(_) => {}
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::Corruption, "byte {at}: {error}");
                        corrupt += 1;
                    }
                }
            }
        }
        assert!(corrupt > 100, "{checksum:?}: {corrupt}");
    }
}
