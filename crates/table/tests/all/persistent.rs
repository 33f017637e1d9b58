//! Tables behind a persistent cache: all is found, whatever the kind of index; point reads take
//! nothing from the file once the cache has it; and what is damaged there is read from the file.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::{index_kinds, support};
use pumice_base::key::{InternalKey, MAX_SEQUENCE, internal_key, seek_key};
use pumice_base::random::Rng;
use pumice_base::{Comparator, Result, ValueType};
use pumice_cache::{Cache, CacheOptions};
use pumice_compress::CompressionType;
use pumice_env::{FileSystem, MemFs, RandomAccessFile, RandomAccessFileWrapper, ReadRequest};
use pumice_table::{
    IndexType, PersistentCache, PersistentCacheOptions, Table, TableBuildContext, TableOptions,
    TableReadContext, TableReadOptions, TableStats, session_id,
};

/// A file that counts reads, and changes a bit of what the first `spoiled` ones read.
struct Counted {
    file: Arc<dyn RandomAccessFile>,
    reads: Arc<AtomicUsize>,
    spoiled: Arc<AtomicUsize>,
}

impl RandomAccessFileWrapper for Counted {
    fn wrapped(&self) -> &dyn RandomAccessFile {
        &*self.file
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.reads.fetch_add(1, Relaxed);
        let read = self.file.read_at(offset, buf)?;
        let left = self.spoiled.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1));
        if left.is_ok() {
            // In a value of a block that is not compressed.
            buf[read / 2] ^= 1;
        }
        Ok(read)
    }
    fn read_batch(&self, requests: &mut [ReadRequest<'_>]) {
        for request in requests {
            let (offset, buf) = (request.offset, &mut *request.buf);
            request.result = RandomAccessFileWrapper::read_at(self, offset, buf);
        }
    }
    fn needs_little_stack(&self) -> bool {
        self.file.needs_little_stack()
    }
}

#[derive(Default)]
struct Lookups {
    hits: AtomicUsize,
    misses: AtomicUsize,
}

impl TableStats for Lookups {
    fn persistent(&self, hit: bool) {
        let count = if hit { &self.hits } else { &self.misses };
        count.fetch_add(1, Relaxed);
    }
}

struct Opened {
    table: Arc<Table>,
    reads: Arc<AtomicUsize>,
    spoiled: Arc<AtomicUsize>,
    lookups: Arc<Lookups>,
}

impl Opened {
    fn counts(&self) -> [usize; 3] {
        let Lookups { hits, misses } = &*self.lookups;
        [&*self.reads, hits, misses].map(|count| count.load(Relaxed))
    }
}

/// A device and a cache on it.
fn fast() -> (MemFs, Arc<PersistentCache>) {
    let fs = MemFs::default();
    let options = PersistentCacheOptions {
        cache_file_size: 2 << 20,
        ..PersistentCacheOptions::new("/fast", 16 << 20)
    };
    let cache = PersistentCache::open(fs.shared(), options).unwrap();
    (fs, cache)
}

/// The table behind the cache, and behind a block cache of `blocks` bytes, if that is not 0.
fn open(
    context: &TableBuildContext,
    bytes: &[u8],
    cache: &Arc<PersistentCache>,
    blocks: usize,
) -> Opened {
    let (reads, spoiled) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let lookups = Arc::new(Lookups::default());
    let mut options = (*context.table).clone();
    options.persistent_cache = Some(Arc::clone(cache));
    options.block_cache = (blocks > 0).then(|| Cache::new(CacheOptions::new(blocks)));
    options.no_block_cache = blocks == 0;
    options.cache_index_and_filter_blocks = blocks > 0;
    let context = TableReadContext {
        options: Arc::new(options),
        stats: Some(lookups.clone()),
        ..support::read_context(context)
    };
    let file = support::file_of(bytes);
    let file = Counted { file, reads: Arc::clone(&reads), spoiled: Arc::clone(&spoiled) };
    let table = Table::open(context, Arc::new(file), bytes.len() as u64).unwrap();
    Opened { table, reads, spoiled, lookups }
}

/// Its tables are told apart.
fn with_identity(context: TableBuildContext, number: u64) -> TableBuildContext {
    TableBuildContext {
        db_id: "db".to_string(),
        db_session_id: session_id([1, 2]),
        original_file_number: number,
        ..context
    }
}

/// All kinds of indexes, orders and codecs, behind block caches that are too small or not there;
/// from the third round on with a cache whose files are damaged.
#[pumice_test_macros::test]
fn all_is_found_through_it() {
    use CompressionType::{Lz4, None, Snappy, Zstd};
    let (fs, cache) = fast();
    let mut hits = 0;
    for seed in 0..16u64 {
        let mut rng = Rng::new(seed);
        let (kind, _) = index_kinds::KINDS[seed as usize % 4];
        let reverse = rng.one_in(3);
        let order = if reverse { Comparator::ReverseBytewise } else { Comparator::Bytewise };
        let options = TableOptions {
            partition_filters: kind == IndexType::TwoLevel,
            separate_key_value_in_data_block: rng.one_in(3),
            ..index_kinds::options(kind, rng.one_in(2), &mut rng)
        };
        let mut context = with_identity(index_kinds::context(options, order), seed + 1);
        context.compression = [None, Lz4, Snappy, Zstd][rng.uniform(4) as usize];
        let versions = 1 + rng.uniform(3);
        let list = index_kinds::entries(&mut rng, versions, &context.comparator);
        let built = support::build(context.clone(), list.iter().map(|(k, v)| (&k[..], &v[..])));
        let opened = open(&context, &built.bytes, &cache, rng.uniform(2) as usize * 3000);
        for round in 0..4 {
            index_kinds::check(&opened.table, &list, &mut Rng::new(seed), seed);
            cache.flush();
            let dir = Path::new("/fast/cache");
            for name in fs.list(dir).unwrap().iter().filter(|_| round > 1) {
                let flip = |file: &mut Vec<u8>| {
                    let start = rng.uniform(100) as usize;
                    file.iter_mut().skip(start).step_by(1999).for_each(|byte| *byte ^= 4);
                };
                fs.damage(&dir.join(name), flip).unwrap();
            }
        }
        hits += opened.lookups.hits.load(Relaxed);
    }
    assert!(hits > 500 && cache.stats().errors > 50, "{hits} {:?}", cache.stats());
}

/// A table of 40 blocks with one entry each, which are not compressed.
fn blocks(cache: &Arc<PersistentCache>) -> Opened {
    let context = TableBuildContext {
        table: Arc::new(TableOptions { block_size: 300, ..Default::default() }),
        compression: CompressionType::None,
        ..Default::default()
    };
    let context = with_identity(context, 7);
    let list: Vec<_> =
        (0..40u8).map(|n| (internal_key(&[b'k', n], 1, ValueType::Value), vec![n; 400])).collect();
    let built = support::build(context.clone(), list.iter().map(|(k, v)| (&k[..], &v[..])));
    open(&context, &built.bytes, cache, 0)
}

fn get(table: &Table, n: u8, options: &TableReadOptions) -> Vec<u8> {
    let mut found = Vec::new();
    let target = seek_key(&[b'k', n], MAX_SEQUENCE);
    table
        .get(options, InternalKey::new(&target), &mut |_, value, _| {
            found = value.to_vec();
            false
        })
        .unwrap();
    found
}

/// Reads with `fill_cache` alone put blocks there; all reads find them, with the table opened anew.
#[pumice_test_macros::test]
fn point_reads_take_nothing_from_the_file() {
    let (_fs, cache) = fast();
    let opened = blocks(&cache);
    let passing = TableReadOptions { fill_cache: false, ..Default::default() };
    let [before, ..] = opened.counts();
    for _ in 0..2 {
        for n in 0..40 {
            assert_eq!(get(&opened.table, n, &passing), [n; 400]);
        }
    }
    assert_eq!(opened.counts(), [before + 80, 0, 80]);
    for n in 0..40 {
        assert_eq!(get(&opened.table, n, &TableReadOptions::default()), [n; 400]);
    }
    assert_eq!(opened.counts(), [before + 120, 0, 120]);
    cache.flush();
    let again = blocks(&cache);
    let [before, ..] = again.counts();
    for n in 0..40 {
        assert_eq!(get(&again.table, n, &passing), [n; 400]);
    }
    assert_eq!(again.counts(), [before, 40, 0]);
}

/// A scan without readahead yet looks there, and what it reads by itself is kept.
#[pumice_test_macros::test]
fn iterators_look_there_too() {
    let (_fs, cache) = fast();
    let opened = blocks(&cache);
    let seek = |n: u8| {
        let mut iter = opened.table.iter(&TableReadOptions::default());
        iter.seek(InternalKey::new(&seek_key(&[b'k', n], MAX_SEQUENCE)));
        assert!(iter.valid() && iter.value() == [n; 400]);
    };
    (0..40).for_each(seek);
    let [reads, hits, misses] = opened.counts();
    assert_eq!((hits, misses), (0, 40));
    (0..40).for_each(seek);
    assert_eq!(opened.counts(), [reads, 40, 40]);
}

/// A block that was read without its checksum may be wrong: a read that compares it goes to the
/// file.
#[pumice_test_macros::test]
fn a_wrong_block_is_not_kept_for_ever() {
    let (_fs, cache) = fast();
    let opened = blocks(&cache);
    let trusting = TableReadOptions { verify_checksums: false, ..Default::default() };
    opened.spoiled.store(1, Relaxed);
    assert_ne!(get(&opened.table, 5, &trusting), [5; 400]);
    assert_ne!(get(&opened.table, 5, &trusting), [5; 400]);
    opened.spoiled.store(1, Relaxed);
    assert_ne!(get(&opened.table, 6, &trusting), [6; 400]);
    cache.flush();
    opened.spoiled.store(1, Relaxed);
    assert_ne!(get(&opened.table, 7, &trusting), [7; 400]);
    // The last one still waits for its write.
    for n in 5..8 {
        for _ in 0..2 {
            assert_eq!(get(&opened.table, n, &TableReadOptions::default()), [n; 400]);
        }
        assert_eq!(get(&opened.table, n, &trusting), [n; 400]);
    }
}
