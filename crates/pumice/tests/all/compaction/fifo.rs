//! FIFO compaction in a running database: what is deleted, what stays, and that writes never stall.
//! Deletion by age is in `fifo_age`.

use std::sync::Arc;

use crate::common::{self, DIR, contents, fill, flush, get, key, memory, options};
use pumice::options::{CompactionStyle, FifoOptions};
use pumice::stats::listener::{CompactionJobInfo, CompactionReason};
use pumice::{
    CompactRangeOptions, Db, EventListener, Options, Statistics, Ticker, WaitForCompactOptions,
};
use pumice_port::sync::Mutex;

fn fifo(options: &mut Options, max_bytes: u64, allow_compaction: bool) {
    options.cf.compaction_style = CompactionStyle::Fifo;
    options.cf.compression = pumice::CompressionType::None;
    options.cf.compaction_options_fifo =
        FifoOptions { max_table_files_size: max_bytes, allow_compaction, ..FifoOptions::default() };
}

fn settle(db: &Db) {
    db.wait_for_compact(&WaitForCompactOptions::default()).unwrap();
}

/// Numbers of the files in L0, oldest last; panics on files elsewhere.
fn l0(db: &Db) -> Vec<u64> {
    let files = db.live_files_metadata();
    assert!(files.iter().all(|f| f.level == 0), "{files:?}");
    let mut numbers: Vec<u64> = files.iter().map(|f| f.file_number).collect();
    numbers.sort_unstable_by(|a, b| b.cmp(a));
    numbers
}

/// Flushed rounds of a hundred keys of about 110 bytes.
fn rounds(db: &Db, rounds: std::ops::Range<usize>) {
    for round in rounds {
        fill(db, round * 100..round * 100 + 100, &"v".repeat(100));
        flush(db);
    }
}

#[derive(Default)]
struct Reasons(Mutex<Vec<CompactionReason>>);

impl EventListener for Reasons {
    fn on_compaction_completed(&self, info: &CompactionJobInfo) {
        self.0.lock().push(info.compaction_reason);
    }
}

#[pumice_test_macros::test]
fn the_oldest_files_go_once_there_are_too_many_bytes() {
    let (_, fs) = memory();
    let reasons = Arc::new(Reasons::default());
    let mut options = options(&fs);
    fifo(&mut options, 60_000, false);
    options.db.listeners = vec![Arc::clone(&reasons) as Arc<dyn EventListener>];
    let statistics = Arc::new(Statistics::new());
    options.db.statistics = Some(Arc::clone(&statistics));
    let db = Db::open(&options, DIR).unwrap();
    rounds(&db, 0..20);
    settle(&db);
    let bytes: u64 = db.live_files_metadata().iter().map(|f| f.size).sum();
    assert!((40_000..=60_000).contains(&bytes), "{bytes}");
    let kept = l0(&db).len();
    for round in 0..20 {
        let found = get(&db, &key(round * 100 + 50)).is_some();
        assert_eq!(found, round >= 20 - kept, "round {round} of 20, {kept} files kept");
    }
    assert_eq!(contents(&db).len(), kept * 100);
    let reasons = reasons.0.lock().clone();
    assert!(!reasons.is_empty());
    assert!(reasons.iter().all(|r| *r == CompactionReason::FifoMaxSize), "{reasons:?}");
    let counted = statistics.ticker(Ticker::FifoMaxSizeCompactions);
    assert_eq!(counted, reasons.len() as u64);
    assert_eq!(statistics.ticker(Ticker::FifoTtlCompactions), 0);
    db.close().unwrap();
    // The deleted files are gone from the disk, too, and stay gone.
    let tables = common::names(&fs, DIR).iter().filter(|n| n.ends_with(".sst")).count();
    assert_eq!(tables, kept);
    let db = Db::open(&options, DIR).unwrap();
    assert_eq!((l0(&db).len(), contents(&db).len()), (kept, kept * 100));
    // The limit can change while the database is open.
    db.set_options(&[("compaction_options_fifo", "{max_table_files_size=1}")]).unwrap();
    settle(&db);
    assert!(l0(&db).is_empty() && contents(&db).is_empty());
    db.close().unwrap();
}

#[pumice_test_macros::test]
fn hundreds_of_files_neither_stall_nor_merge() {
    let (_, fs) = memory();
    let mut options = options(&fs);
    // By RocksDB's rules: the adaptive policy may cap writes while a flush is slow.
    options.db.background_policy = pumice::options::BackgroundPolicy::Static;
    fifo(&mut options, 1 << 30, false);
    options.cf.level0_slowdown_writes_trigger = 5;
    options.cf.level0_stop_writes_trigger = 6;
    let db = Db::open(&options, DIR).unwrap();
    for round in 0..150 {
        fill(&db, round..round + 10, &format!("round {round}"));
        flush(&db);
    }
    settle(&db);
    assert_eq!(l0(&db).len(), 150);
    assert_eq!(db.property("rocksdb.is-write-stopped").unwrap(), "0");
    assert_eq!(db.property("rocksdb.actual-delayed-write-rate").unwrap(), "0");
    assert_eq!(db.property("rocksdb.estimate-pending-compaction-bytes").unwrap(), "0");
    for n in 0..159 {
        let newest = n.min(149);
        assert_eq!(get(&db, &key(n)).unwrap(), format!("round {newest}").into_bytes(), "key {n}");
    }
    assert!(get(&db, &key(159)).is_none() && get(&db, b"a").is_none());
    // A manual compaction does what is due, which is nothing.
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    assert_eq!(l0(&db).len(), 150);
    db.close().unwrap();
}

#[pumice_test_macros::test]
fn small_files_are_merged_where_that_is_allowed() {
    let (_, fs) = memory();
    let mut options = options(&fs);
    fifo(&mut options, 1 << 30, true);
    let db = Db::open(&options, DIR).unwrap();
    rounds(&db, 0..30);
    settle(&db);
    assert!(l0(&db).len() < 15, "{:?}", l0(&db));
    assert_eq!(contents(&db).len(), 3000);
    db.close().unwrap();
}

/// Bytes of all tables and blob files of the newest version.
fn data_bytes(db: &Db) -> u64 {
    let blobs: u64 = db.property("rocksdb.live-blob-file-size").unwrap().parse().unwrap();
    blobs + db.live_files_metadata().iter().map(|f| f.size).sum::<u64>()
}

#[pumice_test_macros::test]
fn tables_and_blob_files_together_stay_within_the_limit() {
    const LIMIT: u64 = 300_000;
    let (_, fs) = memory();
    let reasons = Arc::new(Reasons::default());
    let mut options = options(&fs);
    fifo(&mut options, 1, true);
    options.cf.compaction_options_fifo.max_data_files_size = LIMIT;
    options.cf.compaction_options_fifo.use_kv_ratio_compaction = true;
    options.cf.enable_blob_files = true;
    options.cf.min_blob_size = 50;
    options.cf.level0_file_num_compaction_trigger = 4;
    options.db.listeners = vec![Arc::clone(&reasons) as Arc<dyn EventListener>];
    let db = Db::open(&options, DIR).unwrap();
    for round in 0..60 {
        rounds(&db, round..round + 1);
        settle(&db);
        assert!(data_bytes(&db) <= LIMIT, "round {round}");
        assert!(l0(&db).len() < 12, "round {round}: {:?}", l0(&db));
    }
    assert!(data_bytes(&db) > LIMIT / 2);
    let kept = (0..60).filter(|round| get(&db, &key(round * 100 + 50)).is_some()).count();
    assert_eq!(contents(&db).len(), kept * 100);
    assert!((60 - kept..60).all(|round| get(&db, &key(round * 100)).is_some()), "{kept}");
    for reason in [CompactionReason::FifoMaxSize, CompactionReason::FifoReduceNumFiles] {
        assert!(reasons.0.lock().contains(&reason), "{reason:?}");
    }
    db.close().unwrap();
    // Nothing else is on the disk.
    let db = Db::open(&options, DIR).unwrap();
    assert_eq!(contents(&db).len(), kept * 100);
    let blobs = common::names(&fs, DIR).iter().filter(|n| n.ends_with(".blob")).count();
    assert_eq!(blobs.to_string(), db.property("rocksdb.num-blob-files").unwrap());
    // Without blob files in the limit the same tables are few enough.
    let tables_only = "{max_data_files_size=0;max_table_files_size=300000}";
    db.set_options(&[("compaction_options_fifo", tables_only)]).unwrap();
    rounds(&db, 60..80);
    settle(&db);
    assert_eq!(contents(&db).len(), (kept + 20) * 100);
    assert!(data_bytes(&db) > LIMIT);
    db.close().unwrap();
}

/// A size for merges needs a limit of all bytes, not below that of the tables.
#[pumice_test_macros::test]
fn without_its_limit_a_merge_goes_by_the_other_rule() {
    for limit in [0, (1 << 30) - 1] {
        let (_, fs) = memory();
        let mut options = options(&fs);
        fifo(&mut options, 1 << 30, true);
        options.cf.compaction_options_fifo.max_data_files_size = limit;
        options.cf.compaction_options_fifo.use_kv_ratio_compaction = true;
        let db = Db::open(&options, DIR).unwrap();
        rounds(&db, 0..30);
        settle(&db);
        assert!(l0(&db).len() < 15, "{limit}: {:?}", l0(&db));
        assert_eq!(contents(&db).len(), 3000);
        db.close().unwrap();
    }
}

#[pumice_test_macros::test]
fn a_leveled_tree_becomes_fifo_and_back() {
    let (_, fs) = memory();
    let mut leveled = options(&fs);
    leveled.cf.compression = pumice::CompressionType::None;
    let db = Db::open(&leveled, DIR).unwrap();
    rounds(&db, 0..10);
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    assert!(db.live_files_metadata().iter().all(|f| f.level > 0));
    rounds(&db, 10..12);
    db.close().unwrap();

    let mut queued = leveled.clone();
    fifo(&mut queued, 1 << 30, false);
    let db = Db::open(&queued, DIR).unwrap();
    rounds(&db, 12..20);
    settle(&db);
    assert_eq!(contents(&db).len(), 2000);
    // Files of deep levels are deleted first, whatever their age.
    db.set_options(&[("compaction_options_fifo", "{max_table_files_size=130000}")]).unwrap();
    settle(&db);
    assert_eq!((l0(&db).len(), contents(&db).len()), (10, 1000));
    db.close().unwrap();

    let db = Db::open(&leveled, DIR).unwrap();
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    assert!(db.live_files_metadata().iter().all(|f| f.level > 0));
    assert_eq!(contents(&db).len(), 1000);
    db.close().unwrap();
}

#[pumice_test_macros::test]
fn one_level_is_enough() {
    let (_, fs) = memory();
    let mut options = options(&fs);
    fifo(&mut options, 60_000, true);
    options.cf.num_levels = 1;
    let db = Db::open(&options, DIR).unwrap();
    rounds(&db, 0..20);
    let manual = CompactRangeOptions { change_level: true, ..CompactRangeOptions::default() };
    let error = db.compact_range(&manual, None, None).unwrap_err();
    assert_eq!(error.kind(), pumice::ErrorKind::NotSupported, "{error}");
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    settle(&db);
    assert!(db.live_files_metadata().iter().map(|f| f.size).sum::<u64>() <= 60_000);
    assert!(get(&db, &key(1999)).is_some() && get(&db, &key(0)).is_none());
    assert!(db.property("rocksdb.stats").unwrap().contains("L0"));
    db.close().unwrap();
    let db = Db::open(&options, DIR).unwrap();
    assert!(get(&db, &key(1999)).is_some());
    db.close().unwrap();
}
