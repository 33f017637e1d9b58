//! The tickers and histograms of tables, filters, compression and compaction that
//! docs/statistics.md lists as counted: each is counted, and counts what its name says.

use std::path::Path;
use std::sync::Arc;

use crate::common::{DIR, flush, memory, options};
use pumice::stats::StatsLevel;
use pumice::{
    BlockCache, CacheOptions, CompactRangeOptions, CompactionFilter, CompressionType, Db,
    DbIterator, FilterDecision, FilterPolicy, FixedPrefix, FlushOptions, HistogramKind,
    IngestExternalFileOptions, Options, ReadOptions, SstFileWriter, Statistics, Ticker,
    WaitForCompactOptions, WriteOptions,
};
use pumice_base::random::Rng;
use pumice_env::mem::{Fault, FaultOp, FaultRule};

/// What docs/statistics.md says.
const DOCS: &str = include_str!("../../../../../docs/statistics.md");

struct Counted {
    statistics: Arc<Statistics>,
    options: Options,
}

impl Counted {
    fn new(level: StatsLevel) -> (pumice::MemFs, Self) {
        let (mem, fs) = memory();
        let statistics = Arc::new(Statistics::new());
        statistics.set_level(level);
        let mut options = options(&fs);
        options.db.statistics = Some(Arc::clone(&statistics));
        options.db.max_subcompactions = 3;
        options.cf.num_levels = 3;
        // What is compacted, and in how many parts, is up to the test.
        options.cf.disable_auto_compactions = true;
        options.cf.compression = CompressionType::Lz4;
        options.cf.prefix_extractor = Some(Arc::new(FixedPrefix(4)));
        options.cf.table_factory.filter_policy = Some(FilterPolicy::bloom(10.0));
        options.cf.table_factory.cache_index_and_filter_blocks = true;
        (mem, Counted { statistics, options })
    }

    fn open(&self) -> Db {
        Db::open(&self.options, DIR).unwrap()
    }
    fn ticker(&self, ticker: Ticker) -> u64 {
        self.statistics.ticker(ticker)
    }
    fn count(&self, kind: HistogramKind) -> u64 {
        self.statistics.histogram(kind).count()
    }
}

fn key(group: u32, n: u32) -> Vec<u8> {
    format!("g{group:03}-{n:06}").into_bytes()
}

/// Entries that compress well or, with random values, not at all.
fn put(db: &Db, group: u32, random: bool) {
    let mut rng = Rng::new(7);
    for n in 0..2000 {
        let mut value = vec![b'v'; 40];
        if random {
            value.iter_mut().for_each(|byte| *byte = rng.next_u64() as u8);
        }
        db.put_opt(&WriteOptions::default(), &key(group, n), &value).unwrap();
    }
}

/// Whether the group has a key at or after number `n`.
fn seek(db: &Db, group: u32, n: u32) -> bool {
    // Prefix filters are used where the bound shows that other prefixes do not matter.
    let iterate_upper_bound = Some(key(group, 999_999));
    let options = ReadOptions { iterate_upper_bound, ..ReadOptions::default() };
    let mut iter = db.cursor_opt(&options).unwrap();
    iter.seek(&key(group, n));
    iter.status().unwrap();
    iter.valid()
}

/// Steps both ways, and over an older version.
fn walk(db: &Db) {
    let mut iter = db.cursor_opt(&ReadOptions::default()).unwrap();
    iter.seek_to_first();
    iter.next();
    iter.prev();
    iter.seek(&key(6, 0));
    iter.next();
    assert!(!iter.valid());
    iter.status().unwrap();
}

fn to_last_level(db: &Db) {
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    assert!(db.live_files_metadata().iter().all(|file| file.level == 2));
}

fn get(db: &Db, key: &[u8]) -> bool {
    db.get_opt(&ReadOptions::default(), key).unwrap().is_some()
}

/// Drops one key of each group.
struct Drops;

impl CompactionFilter for Drops {
    fn name(&self) -> &str {
        "drops"
    }
    fn filter(&self, _level: i32, key: &[u8], _value: &[u8]) -> FilterDecision {
        if key.ends_with(b"-000033") { FilterDecision::Remove } else { FilterDecision::Keep }
    }
}

/// Flushes, compactions, reads of every sort. In the end groups 1 and 4 are in the last level,
/// groups 2 and 5 in level 0.
fn work(counted: &Counted) {
    let mut options = counted.options.clone();
    options.cf.compaction_filter = Some(Arc::new(Drops));
    let db = Db::open(&options, DIR).unwrap();
    let write = WriteOptions::default();
    for round in 0..2 {
        for (group, random) in [(1, true), (4, false)] {
            put(&db, group, random);
            if round == 1 {
                db.delete_opt(&write, &key(group, 1999)).unwrap();
                db.delete_range_opt(&write, &key(group, 0), &key(group, 10)).unwrap();
            }
            flush(&db);
        }
    }
    to_last_level(&db);
    put(&db, 2, false);
    put(&db, 5, false);
    flush(&db);
    for group in [1, 4, 2, 5] {
        assert!(get(&db, &key(group, 77)) && !get(&db, &key(group, 5000)));
        assert!(seek(&db, group, 100) && seek(&db, group, 1500));
    }
    assert!(!get(&db, &key(3, 0)) && !seek(&db, 3, 0));
    let found = db.multi_get_opt(&ReadOptions::default(), &[key(1, 11), key(2, 22)]);
    assert!(found.into_iter().all(|value| value.unwrap().is_some()));
    work_by_prefix(&db, &options);
    for value in [b"older", b"newer"] {
        db.put_opt(&WriteOptions { sync: true, ..write }, &key(6, 0), value).unwrap();
    }
    assert!(get(&db, &key(6, 0)));
    walk(&db);
    db.close().unwrap();
}

/// Point reads of a column family that has filters of prefixes only, and no compression.
fn work_by_prefix(db: &Db, options: &Options) {
    let mut options = options.cf.clone();
    options.compression = CompressionType::None;
    options.table_factory.whole_key_filtering = false;
    let family = db.create_column_family(&options, "prefixes").unwrap();
    for group in [1, 3] {
        db.put_cf_opt(&WriteOptions::default(), &family, &key(group, 0), b"value").unwrap();
    }
    db.flush_cfs_opt(&FlushOptions::default(), &[&family]).unwrap();
    let get = |group| db.get_cf_opt(&ReadOptions::default(), &family, &key(group, 0)).unwrap();
    assert!(get(1).is_some() && get(2).is_none());
    db.drop_column_family(&family).unwrap();
}

/// The names in backquotes after the heading, up to the next one.
fn names_under(heading: &str) -> Vec<&'static str> {
    let (_, rest) = DOCS.split_once(heading).unwrap();
    let section = rest.split("\n## ").next().unwrap();
    section.split('`').skip(1).step_by(2).filter(|word| word.starts_with("rocksdb.")).collect()
}

/// Names that need another option, a damaged file, a full cache, a stall or another style of
/// compaction: tests below, `fifo`, `fifo_age`, `ages`, `rate_limit`, `auto_tuned`, `trash`,
/// `space_limit`, `row_cache`, `drops`, those of writes and the comparison with RocksDB
/// (`counters`); `background_errors` has those of errors.
const ELSEWHERE: [&str; 40] = [
    "rocksdb.row.cache.hit",
    "rocksdb.row.cache.miss",
    "rocksdb.db.write.stall",
    "rocksdb.l1.hit",
    "rocksdb.number.reseeks.iteration",
    "rocksdb.number.merge.failures",
    "rocksdb.read.num.merge_operands",
    "rocksdb.merge.operation.time.nanos",
    "rocksdb.file.write.db.open.micros",
    "rocksdb.file.read.db.open.micros",
    "rocksdb.read.amp.estimate.useful.bytes",
    "rocksdb.read.amp.total.read.bytes",
    "rocksdb.block.cache.add.failures",
    "rocksdb.block.checksum.mismatch.count",
    "rocksdb.no.file.errors",
    "rocksdb.compact.read.marked.bytes",
    "rocksdb.compact.read.periodic.bytes",
    "rocksdb.compact.read.ttl.bytes",
    "rocksdb.compact.write.marked.bytes",
    "rocksdb.compact.write.periodic.bytes",
    "rocksdb.compact.write.ttl.bytes",
    "rocksdb.stall.micros",
    "rocksdb.write.other",
    "rocksdb.compaction.disabled.count",
    "rocksdb.number.rate_limiter.drains",
    "rocksdb.rate.limiter.bytes.read",
    "rocksdb.rate.limiter.bytes.write",
    "rocksdb.rate.limiter.requests.read",
    "rocksdb.rate.limiter.requests.write",
    "rocksdb.rate.limiter.delayed.requests.read",
    "rocksdb.rate.limiter.delayed.requests.write",
    "rocksdb.rate.limiter.total.wait.micros.read",
    "rocksdb.rate.limiter.total.wait.micros.write",
    "rocksdb.rate.limiter.wait.micros.read",
    "rocksdb.rate.limiter.wait.micros.write",
    "rocksdb.files.marked.trash",
    "rocksdb.files.marked.trash.deleted",
    "rocksdb.files.deleted.immediately",
    "rocksdb.compaction.cancelled",
    "rocksdb.compaction.optimized.del.drop.obsolete",
];

#[pumice_test_macros::test]
fn what_the_docs_say_is_counted_is_counted() {
    let (_fs, counted) = Counted::new(StatsLevel::All);
    work(&counted);
    let names = names_under("## Counted");
    assert!(names.len() > 50, "{names:?}");
    for name in names {
        // `blobs`, in modules of their own, and in `quick`.
        let others = ["error.", "blobdb.", "sim.", "fifo.", "secondary.", "compressed.", "persist"];
        let others = others.map(|other| format!("rocksdb.{other}"));
        if ELSEWHERE.contains(&name) || others.iter().any(|other| name.starts_with(other)) {
            continue;
        }
        let count = match (Ticker::from_name(name), HistogramKind::from_name(name)) {
            (Some(ticker), _) => counted.ticker(ticker),
            (None, Some(kind)) => counted.count(kind),
            (None, None) => panic!("no such name: {name}"),
        };
        assert!(count > 0, "{name}");
    }
}

/// When one of them gets counted, its name has to move.
#[pumice_test_macros::test]
fn what_the_docs_say_is_not_counted_is_not() {
    let (_fs, counted) = Counted::new(StatsLevel::All);
    work(&counted);
    let names = names_under("## Listed, not counted");
    assert!(names.len() > 10, "{names:?}");
    for name in names {
        let count = match (Ticker::from_name(name), HistogramKind::from_name(name)) {
            (Some(ticker), _) => counted.ticker(ticker),
            (None, Some(kind)) => counted.count(kind),
            (None, None) => panic!("no such name: {name}"),
        };
        assert_eq!(count, 0, "{name}");
    }
    for name in names_under("## Not listed") {
        assert!(Ticker::from_name(name).is_none(), "{name}");
        assert!(HistogramKind::from_name(name).is_none(), "{name}");
    }
}

/// Each name that is printed is in the docs, under one of the two headings.
#[pumice_test_macros::test]
fn the_docs_are_complete() {
    let mut known = names_under("## Counted");
    known.extend(names_under("## Listed, not counted"));
    known.sort_unstable();
    let mut all: Vec<&str> = Ticker::ALL.iter().map(|t| t.name()).collect();
    all.extend(HistogramKind::ALL.iter().map(|kind| kind.name()));
    all.sort_unstable();
    assert_eq!(known, all);
}

/// Reads that merge: how many operands, how long, and how often it failed.
#[pumice_test_macros::test]
fn merges_of_reads_are_counted() {
    let (_fs, mut counted) = Counted::new(StatsLevel::default());
    counted.options.cf.merge_operator = Some(Arc::new(Concat));
    let db = counted.open();
    db.merge(b"key", b"one").unwrap();
    db.merge(b"key", b"two").unwrap();
    assert_eq!(db.get(b"key").unwrap().as_deref(), Some(&b"onetwo"[..]));
    let operands = counted.statistics.histogram(HistogramKind::ReadNumMergeOperands);
    assert_eq!((operands.count(), operands.sum()), (1, 2));
    assert_eq!(counted.ticker(Ticker::NumberMergeFailures), 0);
    db.merge(b"key", b"fail").unwrap();
    assert!(db.get(b"key").is_err());
    assert_eq!(counted.ticker(Ticker::NumberMergeFailures), 1);
    db.close().unwrap();
}

/// Joins operands; one is refused.
struct Concat;

impl pumice::MergeOperator for Concat {
    fn name(&self) -> &str {
        "concat"
    }
    fn full_merge(&self, _key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        (!operands.contains(&&b"fail"[..]))
            .then(|| [base.unwrap_or_default(), &operands.concat()].concat())
    }
}

/// A log that is replayed becomes a table while the database opens.
#[pumice_test_macros::test]
fn files_of_an_open_are_timed_apart() {
    let (_fs, counted) = Counted::new(StatsLevel::default());
    let db = counted.open();
    put(&db, 1, false);
    assert_eq!(counted.count(HistogramKind::SstWriteMicros), 0);
    db.close().unwrap();
    drop(db);
    let db = counted.open();
    let written = counted.count(HistogramKind::FileWriteDbOpenMicros);
    assert!(written > 0 && counted.count(HistogramKind::SstWriteMicros) == written);
    assert!(counted.count(HistogramKind::FileReadDbOpenMicros) > 0);
    assert_eq!(counted.count(HistogramKind::FileWriteFlushMicros), 0);
    db.close().unwrap();
}

/// Seeks that a prefix filter spared, and those that it let through, by level.
#[pumice_test_macros::test]
fn seeks_are_counted_by_level() {
    use Ticker::{
        LastLevelSeekFilterMatch, LastLevelSeekFiltered, NonLastLevelSeekFilterMatch,
        NonLastLevelSeekFiltered,
    };
    let (_fs, counted) = Counted::new(StatsLevel::default());
    let all = || {
        let tickers = [
            LastLevelSeekFiltered,
            LastLevelSeekFilterMatch,
            NonLastLevelSeekFiltered,
            NonLastLevelSeekFilterMatch,
        ];
        tickers.map(|ticker| counted.statistics.take_ticker(ticker))
    };
    let db = counted.open();
    put(&db, 1, false);
    put(&db, 5, false);
    flush(&db);
    assert_eq!(all(), [0; 4]);
    assert!(seek(&db, 1, 5));
    assert_eq!(all(), [0, 0, 0, 1]);
    assert!(!seek(&db, 3, 5));
    assert_eq!(all(), [0, 0, 1, 0]);
    to_last_level(&db);
    // A table counts for the level that it was opened in.
    db.close().unwrap();
    drop(db);
    let db = counted.open();
    all();
    assert!(seek(&db, 5, 5) && !seek(&db, 3, 5));
    assert_eq!(all(), [1, 1, 0, 0]);
    db.cursor_opt(&ReadOptions::default()).unwrap().seek(&key(3, 5));
    assert_eq!(all(), [0; 4]);
    db.close().unwrap();
}

/// Within a prefix, filters are used in both directions without a bound, but only if there is a
/// prefix.
#[pumice_test_macros::test]
fn seeks_within_a_prefix_ask_its_filter() {
    let (_fs, counted) = Counted::new(StatsLevel::default());
    let db = counted.open();
    for group in [1, 5] {
        put(&db, group, false);
        flush(&db);
    }
    let options = ReadOptions { prefix_same_as_start: true, ..ReadOptions::default() };
    let mut iter = db.cursor_opt(&options).unwrap();
    let mut spared = |walk: &mut dyn FnMut(&mut DbIterator) -> bool| {
        let found = walk(&mut iter);
        iter.status().unwrap();
        (found, counted.statistics.take_ticker(Ticker::NonLastLevelSeekFiltered))
    };
    let to = |n: u32| {
        move |iter: &mut DbIterator| {
            iter.seek(&key(n, 5));
            iter.valid()
        }
    };
    assert_eq!(spared(&mut to(1)), (true, 1));
    assert_eq!(spared(&mut to(3)), (false, 2));
    assert_eq!(spared(&mut to(5)), (true, 1));
    let before = |iter: &mut DbIterator, n| {
        iter.seek_for_prev(&key(n, 5));
        iter.valid()
    };
    assert_eq!(spared(&mut |iter| before(iter, 1)), (true, 1));
    assert_eq!(spared(&mut |iter| before(iter, 3)), (false, 2));
    let ends = |iter: &mut DbIterator| {
        iter.seek_to_first();
        let first = iter.valid() && iter.key().unwrap() == key(1, 0);
        iter.seek_to_last();
        first && iter.valid() && iter.key().unwrap() == key(5, 1999)
    };
    assert_eq!(spared(&mut |iter| ends(iter)), (true, 0));
    // With total order all keys are found.
    let options = ReadOptions { total_order_seek: true, ..options };
    let mut iter = db.cursor_opt(&options).unwrap();
    iter.seek(&key(3, 5));
    assert_eq!(iter.key().unwrap(), key(5, 0));
    assert_eq!(counted.statistics.take_ticker(Ticker::NonLastLevelSeekFiltered), 0);
    drop(iter);
    db.close().unwrap();
}

/// Codecs are timed block by block, but only on request.
#[pumice_test_macros::test]
fn codecs_are_timed_on_request() {
    for (level, timed) in [(StatsLevel::default(), false), (StatsLevel::ExceptTimeForMutex, true)] {
        let (_fs, counted) = Counted::new(level);
        work(&counted);
        let of = |ticker| if timed { counted.ticker(ticker) } else { 0 };
        assert!(counted.ticker(Ticker::NumberBlockCompressed) > 0);
        assert_eq!(
            counted.count(HistogramKind::CompressionTimesNanos),
            of(Ticker::NumberBlockCompressed)
        );
        assert_eq!(
            counted.count(HistogramKind::DecompressionTimesNanos),
            of(Ticker::NumberBlockDecompressed)
        );
        let sum = counted.statistics.histogram(HistogramKind::CompressionTimesNanos).sum();
        assert_eq!(sum > 0, timed);
    }
}

/// Reads of the last level are counted apart, with their bytes.
#[pumice_test_macros::test]
fn reads_are_counted_by_level() {
    let (_fs, counted) = Counted::new(StatsLevel::default());
    work(&counted);
    let bytes = counted.ticker(Ticker::LastLevelReadBytes);
    let count = counted.ticker(Ticker::LastLevelReadCount);
    assert!(count > 0 && bytes > 100 * count, "{count} {bytes}");
    counted.statistics.reset();
    let db = counted.open();
    assert!(get(&db, &key(5, 77)));
    assert_eq!(counted.ticker(Ticker::LastLevelReadCount), 0);
    assert!(counted.ticker(Ticker::NonLastLevelReadCount) > 0);
    counted.statistics.reset();
    assert!(get(&db, &key(1, 77)));
    assert!(counted.ticker(Ticker::LastLevelReadCount) > 0);
    db.close().unwrap();
}

/// Compactions of files marked for compaction are counted separately: an ingested file of one range
/// tombstone is marked. Those by age: test `ages`.
#[pumice_test_macros::test]
fn compactions_of_marked_files_are_counted() {
    let (_fs, mut counted) = Counted::new(StatsLevel::default());
    let fs = Arc::clone(&counted.options.db.file_system);
    fs.create_dir_all(Path::new("/in")).unwrap();
    counted.options.cf.disable_auto_compactions = false;
    let db = counted.open();
    put(&db, 1, false);
    to_last_level(&db);
    assert_eq!(counted.ticker(Ticker::CompactReadBytesMarked), 0);
    let mut writer = SstFileWriter::new(&counted.options).unwrap();
    writer.open("/in/1.sst").unwrap();
    writer.delete_range(&key(1, 0), &key(1, 1000)).unwrap();
    writer.finish().unwrap();
    db.ingest_external_file(&IngestExternalFileOptions::default(), &["/in/1.sst"]).unwrap();
    let wait = WaitForCompactOptions { timeout_micros: 600_000_000, ..Default::default() };
    db.wait_for_compact(&wait).unwrap();
    assert!(!get(&db, &key(1, 0)) && get(&db, &key(1, 1000)));
    assert!(counted.ticker(Ticker::CompactReadBytesMarked) > 10_000);
    assert!(counted.ticker(Ticker::CompactWriteBytesMarked) > 1000);
    assert_eq!(counted.ticker(Ticker::CompactReadBytesTtl), 0);
    db.close().unwrap();
}

/// A block is counted as verified only if it is, and a damaged one as such.
#[pumice_test_macros::test]
fn checksums_are_counted() {
    let (mem, counted) = Counted::new(StatsLevel::default());
    let db = counted.open();
    put(&db, 1, false);
    flush(&db);
    assert!(get(&db, &key(1, 0)));
    counted.statistics.reset();
    let unverified = ReadOptions { verify_checksums: false, ..ReadOptions::default() };
    assert!(db.get_opt(&unverified, &key(1, 500)).unwrap().is_some());
    assert_eq!(counted.ticker(Ticker::NonLastLevelReadCount), 1);
    assert_eq!(counted.ticker(Ticker::BlockChecksumComputeCount), 0);
    assert!(get(&db, &key(1, 1000)));
    assert_eq!(counted.ticker(Ticker::BlockChecksumComputeCount), 1);
    assert_eq!(counted.ticker(Ticker::BlockChecksumMismatchCount), 0);
    mem.add_fault(FaultRule::once(FaultOp::Read, "*.sst", 0, Fault::BitFlip));
    assert!(db.get_opt(&ReadOptions::default(), &key(1, 1500)).is_err());
    assert_eq!(counted.ticker(Ticker::BlockChecksumComputeCount), 2);
    assert_eq!(counted.ticker(Ticker::BlockChecksumMismatchCount), 1);
    db.close().unwrap();
}

/// Tables that cannot be opened.
#[pumice_test_macros::test]
fn failed_opens_are_counted() {
    let (mem, counted) = Counted::new(StatsLevel::default());
    let db = counted.open();
    put(&db, 1, false);
    flush(&db);
    db.close().unwrap();
    drop(db);
    counted.statistics.reset();
    let db = counted.open();
    assert!(get(&db, &key(1, 0)));
    let opened = counted.ticker(Ticker::NoFileOpens);
    assert!(opened > 0);
    assert_eq!(counted.ticker(Ticker::NoFileErrors), 0);
    assert_eq!(counted.count(HistogramKind::TableOpenIoMicros), opened);
    db.close().unwrap();
    drop(db);
    counted.statistics.reset();
    let db = counted.open();
    mem.add_fault(FaultRule::once(FaultOp::Read, "*.sst", 0, Fault::Eio));
    assert!(db.get_opt(&ReadOptions::default(), &key(1, 0)).is_err());
    assert_eq!(counted.ticker(Ticker::NoFileErrors), 1);
    assert_eq!(counted.count(HistogramKind::TableOpenIoMicros), 0);
    assert!(get(&db, &key(1, 0)));
    db.close().unwrap();
}

/// A cache that must not grow and has no room.
#[pumice_test_macros::test]
fn a_full_cache_is_counted() {
    let (_mem, mut counted) = Counted::new(StatsLevel::default());
    let cache = CacheOptions { strict_capacity_limit: true, ..CacheOptions::new(100) };
    let table = &mut counted.options.cf.table_factory;
    table.block_cache = Some(BlockCache::new(cache));
    table.cache_index_and_filter_blocks = false;
    let db = counted.open();
    put(&db, 1, false);
    flush(&db);
    assert!(db.get_opt(&ReadOptions::default(), &key(1, 0)).is_err());
    assert_eq!(counted.ticker(Ticker::BlockCacheAddFailures), 1);
    assert_eq!(counted.ticker(Ticker::BlockCacheAdd), 0);
    let uncached = ReadOptions { fill_cache: false, ..ReadOptions::default() };
    assert!(db.get_opt(&uncached, &key(1, 0)).unwrap().is_some());
    assert_eq!(counted.ticker(Ticker::BlockCacheAddFailures), 1);
    db.close().unwrap();
}

/// With `read_amp_bytes_per_bit`: bytes of the data blocks that were read for users, and how much
/// of them was returned, once however often.
#[pumice_test_macros::test]
fn read_amplification_is_measured_on_request() {
    use Ticker::{ReadAmpEstimateUsefulBytes as Useful, ReadAmpTotalReadBytes as Total};
    let (_fs, mut counted) = Counted::new(StatsLevel::default());
    let both = |counted: &Counted| [Useful, Total].map(|t| counted.statistics.take_ticker(t));
    work(&counted);
    assert_eq!(both(&counted), [0, 0]);
    counted.options.cf.table_factory.read_amp_bytes_per_bit = 1;
    let db = counted.open();
    // A key of 11 bytes and 8 of trailer, a value of 40 and three lengths; some of the key is
    // shared.
    let entry = 43..=62;
    assert!(get(&db, &key(5, 500)));
    let [useful, total] = both(&counted);
    assert!(entry.contains(&useful) && (3000..5000).contains(&total), "{useful} {total}");
    assert!(get(&db, &key(5, 500)));
    assert_eq!(both(&counted), [0, 0], "it was counted before");
    assert!(get(&db, &key(5, 501)));
    let [useful, total] = both(&counted);
    assert!(entry.contains(&useful) && total == 0, "the block was there: {useful} {total}");
    // An iterator counts the entries that it returns, not those that it skips.
    let mut iter = db.cursor_opt(&ReadOptions::default()).unwrap();
    iter.seek(&key(5, 500));
    assert_eq!(iter.key().unwrap(), key(5, 500));
    iter.next();
    iter.next();
    assert_eq!(both(&counted)[0], 0);
    assert_eq!(iter.value().unwrap(), [b'v'; 40]);
    let [useful, _] = both(&counted);
    assert!(entry.contains(&useful), "{useful}");
    // Compactions use all they read, and are not counted.
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    assert_eq!(both(&counted), [0, 0]);
    let walk = |forward: bool, group: u32| {
        let mut iter = db.cursor_opt(&ReadOptions::default()).unwrap();
        iter.seek(&key(group, if forward { 0 } else { 1998 }));
        let mut bytes = 0;
        while iter.valid() && iter.key().unwrap().starts_with(format!("g{group:03}").as_bytes()) {
            bytes += iter.value().unwrap().len() as u64;
            if forward { iter.next() } else { iter.prev() }
        }
        iter.status().unwrap();
        let [useful, total] = both(&counted);
        assert!(bytes >= 1980 * 40 && useful > bytes && useful <= total, "{useful} {total}");
        assert!(useful * 20 > total * 19, "a walk uses nearly all: {useful} {total}");
    };
    walk(true, 5);
    walk(false, 4);
    db.close().unwrap();
}
