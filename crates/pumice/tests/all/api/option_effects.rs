//! Options whose effect is not in a single module: what files look like, what is checked.

use std::path::PathBuf;
use std::sync::Arc;

use pumice::{
    BlockCache, CacheOptions, CompactRangeOptions, CompressionType, Db, ErrorKind, FlushOptions,
    MemFs, Options, ReadOptions, Statistics, Ticker, WaitForCompactOptions, WriteOptions,
};
use pumice_env::filename::{self, FileType};
use pumice_env::mem::{Fault, FaultOp, FaultRule};
use pumice_env::{FileSystem, PosixFs, write_file};

fn on_memory() -> (MemFs, Options) {
    let fs = MemFs::new(3);
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.file_system = fs.shared();
    options.db.info_log = Some(Arc::new(pumice::stats::NullLogger));
    (fs, options)
}

fn key(n: u64) -> Vec<u8> {
    format!("key{n:06}").into_bytes()
}

fn fill(db: &Db, keys: u64) {
    for n in 0..keys {
        db.put_opt(&WriteOptions::default(), &key(n), &[b'v'; 100]).unwrap();
    }
}

/// The texts are RocksDB 11.8.1's.
#[pumice_test_macros::test]
fn what_rocksdb_does_not_open_together_is_refused_in_its_words() {
    for (on, off, kind, words) in [
        (
            &["allow_mmap_reads", "use_direct_reads"][..],
            "",
            ErrorKind::NotSupported,
            "If memory mapped reads (allow_mmap_reads) are enabled then direct I/O reads \
             (use_direct_reads) must be disabled. ",
        ),
        (
            &["allow_mmap_writes", "use_direct_io_for_flush_and_compaction"],
            "",
            ErrorKind::NotSupported,
            "If memory mapped writes (allow_mmap_writes) are enabled then direct I/O writes \
             (use_direct_io_for_flush_and_compaction) must be disabled. ",
        ),
        (
            &["atomic_flush", "enable_pipelined_write"],
            "",
            ErrorKind::InvalidArgument,
            "atomic_flush is incompatible with enable_pipelined_write",
        ),
        (
            &["unordered_write", "enable_pipelined_write"],
            "",
            ErrorKind::InvalidArgument,
            "unordered_write is incompatible with enable_pipelined_write",
        ),
        (
            &["unordered_write"],
            "allow_concurrent_memtable_write",
            ErrorKind::InvalidArgument,
            "unordered_write is incompatible with !allow_concurrent_memtable_write",
        ),
    ] {
        let (_, mut options) = on_memory();
        on.iter().for_each(|name| options.set(name, "true").unwrap());
        if !off.is_empty() {
            options.set(off, "false").unwrap();
        }
        let error = Db::open(&options, "/db").err().unwrap();
        assert_eq!((error.kind(), error.message()), (kind, words));
        // The last of them alone, or without what was taken away, is taken.
        options.set(on[0], "false").unwrap();
        Db::open(&options, "/db").unwrap().close().unwrap();
    }
}

#[pumice_test_macros::test]
fn preallocation_never_shows_in_file_sizes() {
    let dir: PathBuf = std::env::temp_dir().join(format!("pumice-sizes-{}", std::process::id()));
    let mut options = Options::default();
    options.db.create_if_missing = true;
    assert!(options.db.allow_fallocate && options.db.manifest_preallocation_size > 0);
    let db = Db::open(&options, &dir).unwrap();
    fill(&db, 1000);
    let bytes = |kind: FileType| -> u64 {
        let names = PosixFs.list(&dir).unwrap();
        let wanted = names.iter().filter(|n| filename::parse(n).is_some_and(|(_, k)| k == kind));
        wanted.map(|n| PosixFs.file_size(&dir.join(n)).unwrap()).sum()
    };
    // Records of 1000 updates of a hundred bytes, with less than a hundred bytes of frame each.
    assert!((100_000..200_000).contains(&bytes(FileType::Wal)), "{}", bytes(FileType::Wal));
    assert!(bytes(FileType::Descriptor) < 10_000);
    db.close().unwrap();
    assert!((100_000..200_000).contains(&bytes(FileType::Wal)));
    assert!(bytes(FileType::Descriptor) < 10_000);
    Db::destroy(&options, &dir).unwrap();
}

/// The tickers of a load, its flushes and a full compaction, and the bytes of the resulting files.
fn built_with(threads: u32) -> (Vec<(Ticker, u64)>, u64) {
    let (_, mut options) = on_memory();
    let statistics = Arc::new(Statistics::new());
    options.db.statistics = Some(Arc::clone(&statistics));
    options.cf.compression = pumice::CompressionType::Zstd;
    options.cf.compression_opts.parallel_threads = threads;
    options.cf.table_factory.filter_policy = Some(pumice::FilterPolicy::bloom(10.0));
    let db = Db::open(&options, "/db").unwrap();
    for round in 0..4u64 {
        for n in 0..5000 {
            let value = format!("value {} of round {round} ", n * 7).repeat(5);
            db.put_opt(&WriteOptions::default(), &key(n), value.as_bytes()).unwrap();
        }
        db.flush_opt(&FlushOptions::default()).unwrap();
    }
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    let files = db.live_files_metadata();
    let bytes: u64 = files.iter().map(|f| f.size).sum();
    let wanted = [
        Ticker::NumberBlockCompressed,
        Ticker::NumberBlockCompressionRejected,
        Ticker::NumberBlockCompressionBypassed,
        Ticker::BytesCompressedFrom,
        Ticker::BytesCompressedTo,
        Ticker::FlushWriteBytes,
        Ticker::CompactWriteBytes,
    ];
    let tickers = wanted.map(|ticker| (ticker, statistics.ticker(ticker))).to_vec();
    let report = db.property("pumice.table-builds").unwrap();
    assert!(report.starts_with("tables: 5, with a ring: "), "{report}");
    assert_eq!(threads > 1, !report.starts_with("tables: 5, with a ring: 0\n"), "{report}");
    db.close().unwrap();
    (tickers, bytes)
}

#[pumice_test_macros::test]
fn what_helpers_write_is_counted_as_if_there_were_none() {
    let (serial, bytes) = built_with(1);
    let (parallel, _) = built_with(4);
    assert_eq!(serial, parallel);
    let count = |wanted| serial.iter().find(|(ticker, _)| *ticker == wanted).unwrap().1;
    assert!(count(Ticker::NumberBlockCompressed) > 200, "{serial:?}");
    assert!(count(Ticker::BytesCompressedFrom) > 3 * count(Ticker::BytesCompressedTo));
    assert_eq!(count(Ticker::CompactWriteBytes), bytes);
    assert!(count(Ticker::FlushWriteBytes) > bytes);
}

#[pumice_test_macros::test]
fn paranoid_file_checks_accept_good_files() {
    let (_fs, mut options) = on_memory();
    options.cf.paranoid_file_checks = true;
    let db = Db::open(&options, "/db").unwrap();
    for round in 0..4 {
        fill(&db, 500);
        db.delete_range_opt(&WriteOptions::default(), &key(round * 50), &key(round * 50 + 30))
            .unwrap();
        db.flush_opt(&FlushOptions::default()).unwrap();
    }
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    assert!(db.get_opt(&ReadOptions::default(), &key(151)).unwrap().is_none());
    assert!(db.get_opt(&ReadOptions::default(), &key(181)).unwrap().is_some());
    db.close().unwrap();
}

#[pumice_test_macros::test]
fn paranoid_file_checks_read_the_file_before_it_is_used() {
    for paranoid in [false, true] {
        let (fs, mut options) = on_memory();
        options.cf.paranoid_file_checks = paranoid;
        options.db.max_bgerror_resume_count = 0;
        let db = Db::open(&options, "/db").unwrap();
        fill(&db, 100);
        // The new table is opened in any case, by one read of its end.
        let rule = FaultRule::always(FaultOp::Read, "*.sst", Fault::Eio);
        fs.add_fault(FaultRule { skip: 1, ..rule });
        assert_eq!(db.flush_opt(&FlushOptions::default()).is_err(), paranoid);
        fs.clear_faults();
        assert!(db.get_opt(&ReadOptions::default(), &key(7)).unwrap().is_some());
        db.resume().unwrap();
        db.close().unwrap();
    }
}

#[pumice_test_macros::test]
fn automatic_resume_can_be_switched_off() {
    let (fs, mut options) = on_memory();
    options.db.max_bgerror_resume_count = 0;
    options.db.bgerror_resume_retry_interval = 1000;
    let db = Db::open(&options, "/db").unwrap();
    fill(&db, 100);
    fs.add_fault(FaultRule::once(FaultOp::Sync, "*.sst", 0, Fault::Eio));
    db.flush_opt(&FlushOptions::default()).unwrap_err();
    pumice_port::thread::sleep(std::time::Duration::from_millis(50));
    db.put_opt(&WriteOptions::default(), b"k", b"v").unwrap_err();
    db.resume().unwrap();
    db.put_opt(&WriteOptions::default(), b"k", b"v").unwrap();
    db.close().unwrap();
}

#[pumice_test_macros::test]
fn the_buffer_size_decides_how_often_files_are_written() {
    let mut writes = Vec::new();
    for bytes in [4096, 1 << 20] {
        let (fs, mut options) = on_memory();
        options.db.writable_file_max_buffer_size = bytes;
        options.db.manual_wal_flush = true;
        let db = Db::open(&options, "/db").unwrap();
        let before = fs.change_count();
        fill(&db, 1000);
        writes.push(fs.change_count() - before);
        db.close().unwrap();
    }
    assert!(writes[0] > 20 && writes[1] < 5, "{writes:?}");
}

#[pumice_test_macros::test]
fn skips_and_seeks_show_the_same() {
    for skips in ["0", "1", "8", "1000"] {
        let (_fs, mut options) = on_memory();
        options.set("max_sequential_skip_in_iterations", skips).unwrap();
        let db = Db::open(&options, "/db").unwrap();
        let mut snapshots = Vec::new();
        for round in 0..20u8 {
            for n in 0..10 {
                db.put_opt(&WriteOptions::default(), &key(n), &[round]).unwrap();
            }
            snapshots.push(db.snapshot());
        }
        for (round, snapshot) in snapshots.into_iter().enumerate() {
            let read = ReadOptions { snapshot: Some(snapshot), ..ReadOptions::default() };
            let mut iter = db.cursor_opt(&read).unwrap();
            iter.seek_to_first();
            for n in 0..10 {
                assert_eq!(
                    (iter.key().unwrap(), iter.value().unwrap()),
                    (&key(n)[..], &[round as u8][..])
                );
                iter.next();
            }
            assert!(!iter.valid());
        }
        db.close().unwrap();
    }
}

/// Found by simulation (T1 seed 15974): a compaction inside L0 that two subcompactions shared left
/// two files for two, and so on without end.
#[pumice_test_macros::test]
fn a_compaction_inside_level_0_is_not_split() {
    let (_fs, mut options) = on_memory();
    options.cf.level0_file_num_compaction_trigger = 2;
    options.db.max_subcompactions = 2;
    let db = Db::open(&options, "/db").unwrap();
    // So much data below that L0 is merged within itself.
    fill(&db, 20_000);
    db.flush_opt(&FlushOptions::default()).unwrap();
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    // The first of the two is larger, so a cut by bytes falls between them.
    let large: Vec<u8> = (0..200).collect();
    for (n, value) in [(7, &large[..]), (1007, b"v")] {
        db.put_opt(&WriteOptions::default(), &key(n), value).unwrap();
        db.flush_opt(&FlushOptions::default()).unwrap();
    }
    let wait = WaitForCompactOptions { timeout_micros: 600_000_000, ..Default::default() };
    db.wait_for_compact(&wait).unwrap();
    assert_eq!(db.property("rocksdb.num-files-at-level0").as_deref(), Some("1"));
    db.close().unwrap();
}

/// Bytes that a database with this `prepopulate_block_cache` put into the block cache by a flush,
/// blocks that reads did not find there then, and those put there by a compaction.
fn cached_with(prepopulate: &str) -> [u64; 3] {
    let (_fs, mut options) = on_memory();
    let statistics = Arc::new(Statistics::new());
    options.db.statistics = Some(Arc::clone(&statistics));
    let table = format!(
        "{{index_type=kTwoLevelIndexSearch;partition_filters=true;metadata_block_size=512;\
         cache_index_and_filter_blocks=true;filter_policy=bloomfilter:10;\
         prepopulate_block_cache={prepopulate}}}"
    );
    options.set("block_based_table_factory", &table).unwrap();
    let db = Db::open(&options, "/db").unwrap();
    fill(&db, 3000);
    db.flush_opt(&FlushOptions::default()).unwrap();
    let added = statistics.ticker(Ticker::BlockCacheDataBytesInsert);
    for n in 0..3000 {
        assert!(db.get_opt(&ReadOptions::default(), &key(n)).unwrap().is_some());
    }
    let missed = statistics.ticker(Ticker::BlockCacheMiss);
    assert!(statistics.ticker(Ticker::BlockCacheHit) > 3000);
    let before = statistics.ticker(Ticker::BlockCacheDataAdd);
    fill(&db, 3000);
    if prepopulate != "kFlushAndCompaction" {
        let off = [("block_based_table_factory", "{prepopulate_block_cache=kDisable}")];
        db.set_options(&off).unwrap();
    }
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    let by_compaction = statistics.ticker(Ticker::BlockCacheDataAdd) - before;
    db.close().unwrap();
    [added, missed, by_compaction]
}

#[pumice_test_macros::test]
fn what_is_flushed_is_in_the_block_cache() {
    let [added, missed, by_compaction] = cached_with("kFlushOnly");
    assert!(added > 300_000 && missed == 0 && by_compaction == 0, "{added} {missed}");
    let [added, missed, _] = cached_with("kDisable");
    assert!(added == 0 && missed > 50, "{added} {missed}");
}

#[pumice_test_macros::test]
fn what_is_compacted_is_in_the_block_cache() {
    let [added, missed, by_compaction] = cached_with("kFlushAndCompaction");
    assert!(added > 300_000 && missed == 0 && by_compaction > 0, "{added} {by_compaction}");
}

/// Flushes and compactions take samples of other codecs from the moment that the option is set;
/// they are summed over tables.
#[pumice_test_macros::test]
fn samples_estimate_what_other_codecs_would_save() {
    let (_, mut options) = on_memory();
    options.cf.compression = pumice::CompressionType::None;
    options.cf.disable_auto_compactions = true;
    let db = Db::open(&options, "/db").unwrap();
    let sizes = || {
        let text = db.property("rocksdb.aggregated-table-properties").unwrap();
        let number = |name: &str| -> u64 {
            let (_, rest) = text.split_once(name).unwrap_or_else(|| panic!("{name}: {text}"));
            rest.split(';').next().unwrap().parse().unwrap()
        };
        let slow = number("slow compression estimated data size=");
        (number("data block size="), number("fast compression estimated data size="), slow)
    };
    let flush = || {
        fill(&db, 2000);
        db.flush_opt(&FlushOptions::default()).unwrap();
    };
    flush();
    let (data, fast, slow) = sizes();
    assert!(data > 200_000 && (fast, slow) == (0, 0), "{data} {fast} {slow}");
    db.set_options(&[("sample_for_compression", "5")]).unwrap();
    flush();
    let one = sizes();
    // The second table alone was sampled.
    assert!(one.0 == 2 * data && one.1 > 1000 && one.1 < data / 3, "{one:?}");
    assert!(one.2 > 1000 && one.2 < one.1, "{one:?}");
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    let all = sizes();
    // Keys without sequence numbers take less.
    assert_eq!(all.0, data);
    assert!(1000 < all.1 && all.1 < one.1 && 1000 < all.2 && all.2 < one.2, "{all:?} {one:?}");
    db.close().unwrap();
}

/// Sizes of the files of a compaction whose target is 300 kB, without the last one, which has the
/// rest.
fn sizes_with(is_upper_bound: bool, compression_opts: &str) -> Vec<u64> {
    let (_, mut options) = on_memory();
    options.cf.disable_auto_compactions = true;
    options.cf.target_file_size_base = TARGET;
    options.cf.target_file_size_is_upper_bound = is_upper_bound;
    // Filters take a fifth of a file. Their allocator size class is not known in advance.
    let table = "{filter_policy=bloomfilter:40;optimize_filters_for_memory=false}";
    options.set("block_based_table_factory", table).unwrap();
    options.set_from_text(compression_opts).unwrap();
    let db = Db::open(&options, "/db").unwrap();
    let mut rng = pumice_base::random::Rng::new(3);
    for round in 0..2 {
        for n in (round..100_000).step_by(2) {
            db.put_opt(&WriteOptions::default(), &key(n), &rng.bytes(8)).unwrap();
        }
        db.flush_opt(&FlushOptions::default()).unwrap();
    }
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    let mut files = db.live_files_metadata();
    assert!(files.iter().all(|file| file.level > 0));
    files.sort_by(|a, b| a.smallest_key.cmp(&b.smallest_key));
    files.pop();
    db.close().unwrap();
    files.into_iter().map(|file| file.size).collect()
}

const TARGET: u64 = 300_000;

/// The target is one of data blocks, or a bound of the file.
#[pumice_test_macros::test]
fn target_sizes_can_be_upper_bounds() {
    for compression_opts in [
        "compression=kNoCompression",
        "compression=kLZ4Compression",
        "compression=kZSTD;compression_opts={max_dict_bytes=9000;max_dict_buffer_bytes=50000;}",
    ] {
        let files = sizes_with(false, compression_opts);
        let too_large = files.iter().all(|&size| size > TARGET * 11 / 10 && size < TARGET * 2);
        assert!(files.len() > 2 && too_large, "{compression_opts}: {files:?}");
        let files = sizes_with(true, compression_opts);
        let near = files.iter().all(|&size| size <= TARGET && size > TARGET * 17 / 20);
        assert!(files.len() > 3 && near, "{compression_opts}: {files:?}");
    }
}

/// A memtable with many range deletions is flushed by the next write, however small it is; the
/// limit holds for memtables that begin after it was set.
#[pumice_test_macros::test]
fn many_range_deletions_make_a_memtable_full() {
    let (_, mut options) = on_memory();
    options.cf.memtable_max_range_deletions = 20;
    options.cf.disable_auto_compactions = true;
    let db = Db::open(&options, "/db").unwrap();
    let delete = |from: u64, count: u64| {
        for n in from..from + count {
            db.delete_range_opt(&WriteOptions::default(), &key(n), &key(n + 1)).unwrap();
        }
    };
    let tables = || {
        db.wait_for_compact(&WaitForCompactOptions::default()).unwrap();
        let mut deleted: Vec<u64> =
            db.live_files_metadata().iter().map(|file| file.num_deletions).collect();
        deleted.sort_unstable();
        deleted
    };
    fill(&db, 100);
    delete(0, 20);
    assert!(tables().is_empty(), "the next write flushes");
    delete(20, 1);
    assert_eq!(tables(), [20]);
    delete(21, 19);
    assert!(db.get_opt(&ReadOptions::default(), &key(39)).unwrap().is_none());
    delete(40, 1);
    assert_eq!(tables(), [20, 20]);
    db.set_options(&[("memtable_max_range_deletions", "0")]).unwrap();
    delete(41, 19);
    db.put_opt(&WriteOptions::default(), b"next", b"value").unwrap();
    assert_eq!(tables(), [20, 20, 20], "the present memtable had its limit already");
    delete(60, 39);
    db.put_opt(&WriteOptions::default(), b"next", b"value").unwrap();
    assert_eq!(tables(), [20, 20, 20]);
    assert!(db.get_opt(&ReadOptions::default(), &key(98)).unwrap().is_none());
    assert!(db.get_opt(&ReadOptions::default(), &key(99)).unwrap().is_some());
    db.close().unwrap();
}

/// A table in which a block is damaged: with `paranoid_checks` the compaction that reads it stops
/// all writes; without, it is retried, and everything else continues.
#[pumice_test_macros::test]
fn paranoid_checks_decide_what_damage_stops() {
    for paranoid in [true, false] {
        let (fs, mut options) = on_memory();
        options.db.paranoid_checks = paranoid;
        options.cf.disable_auto_compactions = true;
        let db = Db::open(&options, "/db").unwrap();
        for _ in 0..2 {
            fill(&db, 1000);
            db.flush_opt(&FlushOptions::default()).unwrap();
        }
        let oldest = db.live_files_metadata().iter().map(|file| file.file_number).min().unwrap();
        db.close().unwrap();
        let table = filename::TableDirs::of("/db").table(0, oldest);
        let mut bytes = fs.read_file(&table).unwrap();
        bytes[500] ^= 1;
        write_file(&fs, &table, &bytes, true).unwrap();
        let db = Db::open(&options, "/db").unwrap();
        let compacted = db.compact_range(&CompactRangeOptions::default(), None, None);
        assert!(compacted.unwrap_err().is_corruption());
        let written = db.put_opt(&WriteOptions::default(), b"new", b"value");
        assert_eq!(written.is_err(), paranoid);
        assert_eq!(db.flush_opt(&FlushOptions::default()).is_err(), paranoid);
        drop(db.close());
    }
}

/// Where RocksDB goes on with the next log.
#[pumice_test_macros::test]
fn without_paranoid_checks_a_log_must_open_and_a_flush_succeed() {
    let (fs, mut options) = on_memory();
    options.db.paranoid_checks = false;
    options.db.max_bgerror_resume_count = 0;
    let db = Db::open(&options, "/db").unwrap();
    fill(&db, 100);
    db.close().unwrap();
    drop(db);
    fs.add_fault(FaultRule::once(FaultOp::Open, "*.log", 0, Fault::Eio));
    let error = Db::open(&options, "/db").unwrap_err();
    assert_eq!(error.kind(), pumice::ErrorKind::IoError, "{error}");
    let db = Db::open(&options, "/db").unwrap();
    assert_eq!(db.iter().unwrap().count(), 100);
    fill(&db, 10);
    fs.add_fault(FaultRule::once(FaultOp::Sync, "*.sst", 0, Fault::Eio));
    db.flush_opt(&FlushOptions::default()).unwrap_err();
    db.put_opt(&WriteOptions::default(), b"k", b"v").unwrap_err();
    db.resume().unwrap();
    db.close().unwrap();
}

/// The blocks of a scan go through a full cache, and evict indexes only if those have no higher
/// priority. The cache is a clock over hashed slots, so that one index may be lucky or not: many
/// are counted.
#[pumice_test_macros::test]
fn indexes_of_high_priority_outlive_a_scan() {
    const CAPACITY: usize = 256 << 10;
    const TABLES: u64 = 24;
    let [high, low] = [true, false].map(|high| {
        let (_fs, mut options) = on_memory();
        let statistics = Arc::new(Statistics::new());
        options.db.statistics = Some(Arc::clone(&statistics));
        options.cf.compression = CompressionType::None;
        options.cf.disable_auto_compactions = true;
        options.cf.table_factory.block_cache = Some(BlockCache::new(CacheOptions::new(CAPACITY)));
        options.cf.table_factory.cache_index_and_filter_blocks = true;
        options.cf.table_factory.cache_index_and_filter_blocks_with_high_priority = high;
        let db = Db::open(&options, "/db").unwrap();
        let scanned = db.create_column_family(&options.cf, "scanned").unwrap();
        for n in 0..TABLES {
            db.put(key(n), "v").unwrap();
            db.flush().unwrap();
        }
        for n in 0..11 * CAPACITY as u64 / 800 {
            db.put_cf(&scanned, key(n), [b'v'; 100]).unwrap();
        }
        db.flush_cfs(&[&scanned]).unwrap();
        let index_misses = || {
            let before = statistics.ticker(Ticker::BlockCacheIndexMiss);
            (0..TABLES).for_each(|n| assert!(db.get(key(n)).unwrap().is_some()));
            statistics.ticker(Ticker::BlockCacheIndexMiss) - before
        };
        index_misses();
        db.iter_cf(&scanned).unwrap().for_each(|entry| drop(entry.unwrap()));
        let missed = index_misses();
        db.close().unwrap();
        missed
    });
    assert!(2 * high < low, "missed {high} of high, {low} of low");
}
