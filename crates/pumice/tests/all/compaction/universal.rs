//! Universal compaction in a running database: the results of a load, of manual compactions, and of
//! its options. By age: `universal_age`.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::common::{DIR, contents, fill, flush, get, key, memory, options};
use pumice::options::{CompactionStyle, StopStyle};
use pumice::stats::listener::{CompactionJobInfo, CompactionReason};
use pumice::{
    CompactRangeOptions, CompressionType, Db, EventListener, Options, Statistics, Ticker,
    WaitForCompactOptions, WriteOptions,
};
use pumice_port::sync::Mutex;

#[derive(Default)]
struct Jobs(Mutex<Vec<CompactionJobInfo>>);

impl EventListener for Jobs {
    fn on_compaction_completed(&self, info: &CompactionJobInfo) {
        // Files that move are told as a compaction that reads no entries.
        if info.num_input_records > 0 {
            self.0.lock().push(info.clone());
        }
    }
}

impl Jobs {
    fn reasons(&self) -> Vec<CompactionReason> {
        self.0.lock().iter().map(|job| job.compaction_reason).collect()
    }
}

fn universal(fs: &Arc<dyn pumice::FileSystem>) -> (Options, Arc<Jobs>) {
    let jobs = Arc::new(Jobs::default());
    let mut options = options(fs);
    options.cf.compaction_style = CompactionStyle::Universal;
    options.cf.compression = CompressionType::None;
    options.db.listeners = vec![Arc::clone(&jobs) as Arc<dyn EventListener>];
    (options, jobs)
}

fn settle(db: &Db) {
    db.wait_for_compact(&WaitForCompactOptions::default()).unwrap();
}

/// Files and bytes by level.
fn levels(db: &Db) -> BTreeMap<usize, (usize, u64)> {
    let mut levels = BTreeMap::new();
    for file in db.live_files_metadata() {
        let level: &mut (usize, u64) = levels.entry(file.level).or_default();
        *level = (level.0 + 1, level.1 + file.size);
    }
    levels
}

fn runs(db: &Db) -> usize {
    levels(db).iter().map(|(level, (files, _))| if *level == 0 { *files } else { 1 }).sum()
}

/// Bytes outside the oldest run, in percent of it.
fn amplification(db: &Db) -> u64 {
    let levels = levels(db);
    let total: u64 = levels.values().map(|(_, bytes)| bytes).sum();
    let (last, (_, oldest)) = levels.last_key_value().unwrap();
    assert!(*last > 0);
    (total - oldest) * 100 / oldest
}

/// Round `n` overwrites a third of the keys.
fn round(db: &Db, n: usize, keys: usize) {
    let third = keys / 3;
    fill(db, n % 3 * third..n % 3 * third + third, &format!("{n:0100}"));
    flush(db);
}

/// What `rounds` rounds leave.
fn check(db: &Db, rounds: usize, keys: usize) {
    let expected = (0..keys / 3 * 3).map(|n| {
        let part = n / (keys / 3);
        let newest = (0..rounds).rev().find(|round| round % 3 == part).unwrap();
        (key(n), format!("{newest:0100}").into_bytes())
    });
    assert!(contents(db) == expected.collect::<Vec<_>>(), "{rounds} rounds");
}

/// Small runs of one size are merged with each other, and the large one next to them stays.
#[pumice_test_macros::test]
fn runs_of_one_size_are_merged() {
    let (_, fs) = memory();
    let (options, jobs) = universal(&fs);
    let db = Db::open(&options, DIR).unwrap();
    fill(&db, 0..3000, &"v".repeat(100));
    flush(&db);
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    jobs.0.lock().clear();
    for n in 0..12 {
        fill(&db, 0..10, &format!("{n:0100}"));
        flush(&db);
        settle(&db);
    }
    let reasons = jobs.reasons();
    assert!(!reasons.is_empty(), "{:?}", levels(&db));
    assert!(
        reasons.iter().all(|reason| *reason == CompactionReason::UniversalSizeRatio),
        "{reasons:?}"
    );
    assert!(runs(&db) <= 4 && amplification(&db) < 10, "{:?}", levels(&db));
    assert_eq!(contents(&db).len(), 3000);
    db.close().unwrap();
}

#[pumice_test_macros::test]
fn a_load_leaves_few_runs_and_little_waste() {
    for num_levels in [1, 2, 7] {
        let (_, fs) = memory();
        let (mut options, jobs) = universal(&fs);
        options.cf.num_levels = num_levels;
        options.cf.target_file_size_base = 20_000;
        let db = Db::open(&options, DIR).unwrap();
        for n in 0..40 {
            round(&db, n, 900);
            // Which rules apply depends on the runs at that moment.
            settle(&db);
        }
        check(&db, 40, 900);
        assert!(runs(&db) <= 4, "{:?}", levels(&db));
        let last = *levels(&db).last_key_value().unwrap().0;
        assert_eq!(last, num_levels as usize - 1);
        if num_levels > 1 {
            assert!(amplification(&db) <= 200, "{:?}", levels(&db));
        }
        let reasons = jobs.reasons();
        assert!(reasons.contains(&CompactionReason::UniversalSizeAmplification), "{reasons:?}");
        assert_eq!(db.property_int("rocksdb.estimate-pending-compaction-bytes"), Some(0));
        db.close().unwrap();
        let db = Db::open(&options, DIR).unwrap();
        check(&db, 40, 900);
        db.close().unwrap();
    }
}

/// Sizes that no ratio brings together.
#[pumice_test_macros::test]
fn too_many_runs_are_merged_by_number() {
    let (_, fs) = memory();
    let (options, jobs) = universal(&fs);
    let db = Db::open(&options, DIR).unwrap();
    for keys in [4000, 1000, 250, 60, 15] {
        fill(&db, 0..keys, &format!("{keys:0100}"));
        flush(&db);
    }
    settle(&db);
    assert_eq!(jobs.reasons(), [CompactionReason::UniversalSortedRunNum]);
    assert_eq!(jobs.0.lock()[0].output_level, 0);
    assert_eq!(levels(&db)[&0].0, 4);
    for (n, newest) in [(0, 15), (15, 60), (100, 250), (300, 1000), (2000, 4000)] {
        assert_eq!(get(&db, &key(n)).unwrap(), format!("{newest:0100}").into_bytes());
    }
    db.close().unwrap();
}

#[pumice_test_macros::test]
fn a_manual_compaction_takes_everything_whatever_the_range() {
    for num_levels in [1, 3] {
        let (_, fs) = memory();
        let (mut options, jobs) = universal(&fs);
        options.cf.num_levels = num_levels;
        options.cf.level0_file_num_compaction_trigger = 10;
        let db = Db::open(&options, DIR).unwrap();
        for n in 0..6 {
            round(&db, n, 300);
        }
        settle(&db);
        assert_eq!(levels(&db)[&0].0, 6);
        let last = num_levels as usize - 1;
        let range = (Some(&b"a"[..]), Some(&b"b"[..]));
        db.compact_range(&CompactRangeOptions::default(), range.0, range.1).unwrap();
        assert_eq!(jobs.reasons(), [CompactionReason::ManualCompaction]);
        assert_eq!(levels(&db).keys().copied().collect::<Vec<_>>(), [last]);
        assert_eq!(levels(&db)[&last].0, 1);
        check(&db, 6, 300);
        // The second time it is rewritten again, and moved to the caller's level.
        let up = CompactRangeOptions {
            change_level: true,
            target_level: 1.min(num_levels - 1),
            ..CompactRangeOptions::default()
        };
        round(&db, 6, 300);
        db.compact_range(&up, None, None).unwrap();
        assert_eq!(levels(&db).keys().copied().collect::<Vec<_>>(), [last.min(1)]);
        check(&db, 7, 300);
        db.close().unwrap();
    }
}

/// Files of L0 and levels with files count alike.
#[pumice_test_macros::test]
fn stalls_count_sorted_runs() {
    let (_, fs) = memory();
    let (mut options, _) = universal(&fs);
    options.db.background_policy = pumice::options::BackgroundPolicy::Static;
    options.cf.level0_file_num_compaction_trigger = 2;
    options.cf.level0_slowdown_writes_trigger = 3;
    options.cf.compaction_options_universal.max_read_amp = 100;
    let db = Db::open(&options, DIR).unwrap();
    let delayed = || db.property_int("rocksdb.actual-delayed-write-rate").unwrap() > 0;
    fill(&db, 0..1000, &"v".repeat(100));
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    fill(&db, 0..100, &"w".repeat(100));
    flush(&db);
    settle(&db);
    assert_eq!((runs(&db), delayed()), (2, false), "{:?}", levels(&db));
    fill(&db, 0..10, &"x".repeat(100));
    flush(&db);
    settle(&db);
    assert_eq!((levels(&db)[&0].0, runs(&db), delayed()), (2, 3, true), "{:?}", levels(&db));
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    assert_eq!((runs(&db), delayed()), (1, false));
    db.close().unwrap();
}

#[pumice_test_macros::test]
fn options_change_while_the_database_is_open() {
    let (_, fs) = memory();
    let (mut options, jobs) = universal(&fs);
    options.cf.compaction_options_universal.max_size_amplification_percent = 1_000_000;
    options.cf.compaction_options_universal.min_merge_width = 100;
    let db = Db::open(&options, DIR).unwrap();
    for n in 0..8 {
        round(&db, n, 300);
    }
    settle(&db);
    assert_eq!((runs(&db), jobs.reasons().len()), (8, 0));
    let set = |members: &str| db.set_options(&[("compaction_options_universal", members)]);
    assert!(set("{max_read_amp=3}").is_err());
    set("{min_merge_width=2;max_merge_width=3}").unwrap();
    settle(&db);
    assert!(runs(&db) <= 4, "{:?}", levels(&db));
    assert!(jobs.0.lock().iter().all(|job| job.input_files[0].1.len() <= 3));
    let now = db.column_family_options(db.default_column_family()).unwrap();
    let now = &now.compaction_options_universal;
    assert_eq!((now.max_merge_width, now.max_size_amplification_percent), (3, 1_000_000));
    set("{max_size_amplification_percent=0;stop_style=kCompactionStopStyleSimilarSize}").unwrap();
    round(&db, 8, 300);
    round(&db, 9, 300);
    round(&db, 10, 300);
    settle(&db);
    let now = db.column_family_options(db.default_column_family()).unwrap();
    assert_eq!(now.compaction_options_universal.stop_style, StopStyle::SimilarSize);
    assert!(jobs.reasons().contains(&CompactionReason::UniversalSizeAmplification));
    check(&db, 11, 300);
    db.close().unwrap();
}

/// Files of sequentially written keys change level without a rewrite, out of L0 always and between
/// other levels where that is allowed.
#[pumice_test_macros::test]
fn what_does_not_overlap_is_moved_where_that_is_allowed() {
    for allowed in [false, true] {
        let (_, fs) = memory();
        let (mut options, jobs) = universal(&fs);
        options.cf.compaction_options_universal.allow_trivial_move = allowed;
        let db = Db::open(&options, DIR).unwrap();
        for n in 0..12 {
            fill(&db, n * 100..n * 100 + 100, &"v".repeat(100));
            flush(&db);
            settle(&db);
            assert!(n > 3 || jobs.reasons().is_empty(), "the first four move");
        }
        assert_eq!(jobs.reasons().is_empty(), allowed, "{:?}", levels(&db));
        assert_eq!(contents(&db).len(), 1200);
        db.close().unwrap();
    }
}

/// What moves overlaps nothing of its own; another file of L0, which stays, does.
#[pumice_test_macros::test]
fn files_move_from_under_one_that_overlaps_them() {
    let (_, fs) = memory();
    let (mut options, jobs) = universal(&fs);
    options.cf.disable_auto_compactions = true;
    options.cf.compaction_options_universal.stop_style = StopStyle::SimilarSize;
    options.cf.compaction_options_universal.max_size_amplification_percent = u32::MAX;
    let db = Db::open(&options, DIR).unwrap();
    for n in 0..4 {
        fill(&db, n * 100..n * 100 + 100, &"v".repeat(100));
        flush(&db);
    }
    fill(&db, 0..400, &"w".repeat(1000));
    flush(&db);
    db.set_options(&[("disable_auto_compactions", "false")]).unwrap();
    settle(&db);
    let files: Vec<_> = levels(&db).iter().map(|(level, (files, _))| (*level, *files)).collect();
    assert_eq!(files, [(0, 1), (6, 4)]);
    assert!(jobs.reasons().is_empty(), "nothing was rewritten");
    assert!(contents(&db).iter().all(|(_, value)| value.len() == 1000));
    db.close().unwrap();
}

/// Only the oldest share of the bytes is compressed, and no flushed file.
#[pumice_test_macros::test]
fn a_share_of_the_bytes_is_compressed() {
    let (_, fs) = memory();
    let (mut options, jobs) = universal(&fs);
    options.cf.compression = CompressionType::Lz4;
    options.cf.compaction_options_universal.compression_size_percent = 50;
    options.cf.compaction_options_universal.max_size_amplification_percent = 1_000_000;
    options.cf.level0_file_num_compaction_trigger = 3;
    let db = Db::open(&options, DIR).unwrap();
    fill(&db, 0..3000, &"v".repeat(100));
    flush(&db);
    let flushed = levels(&db)[&0].1;
    assert!(flushed > 300_000, "{flushed}");
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    assert_eq!(jobs.0.lock().pop().unwrap().output_compression, "LZ4");
    let compressed = levels(&db)[&6].1;
    assert!(compressed < flushed / 5, "{compressed}");
    // Two more runs, smaller than the oldest: their result is the uncompressed half.
    for value in ["w", "x"] {
        fill(&db, 0..10, &value.repeat(100));
        flush(&db);
    }
    settle(&db);
    let job = jobs.0.lock().pop().unwrap();
    assert_eq!((job.output_level, job.output_compression), (5, "NoCompression"));
    let bytes = levels(&db)[&5].1;
    assert!(bytes > 1_000, "{bytes}");
    db.close().unwrap();
}

#[pumice_test_macros::test]
fn large_merges_run_in_parts() {
    let (_, fs) = memory();
    let (mut options, jobs) = universal(&fs);
    options.db.max_subcompactions = 4;
    options.cf.target_file_size_base = 20_000;
    options.cf.num_levels = 4;
    let statistics = Arc::new(Statistics::new());
    options.db.statistics = Some(Arc::clone(&statistics));
    let db = Db::open(&options, DIR).unwrap();
    for n in 0..4 {
        fill(&db, n * 500..2000, &format!("{n:0100}"));
        flush(&db);
    }
    settle(&db);
    // The levels alone, as a stretch of their own.
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    let jobs = jobs.0.lock().clone();
    assert!(jobs.iter().any(|job| job.num_subcompactions > 1), "{jobs:?}");
    assert_eq!(contents(&db).len(), 2000);
    assert!(statistics.ticker(Ticker::CompactWriteBytes) > 0);
    db.close().unwrap();
}

/// Deletions that nothing older needs are gone once the oldest run is rewritten.
#[pumice_test_macros::test]
fn deleted_data_leaves_with_the_oldest_run() {
    let (_, fs) = memory();
    let (options, _) = universal(&fs);
    let db = Db::open(&options, DIR).unwrap();
    fill(&db, 0..2000, &"v".repeat(100));
    flush(&db);
    let snapshot = db.snapshot();
    db.delete_range_opt(&WriteOptions::default(), &key(0), &key(1900)).unwrap();
    for n in 1900..1950 {
        db.delete_opt(&WriteOptions::default(), &key(n)).unwrap();
    }
    flush(&db);
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    let read = pumice::ReadOptions { snapshot: Some(snapshot.clone()), ..Default::default() };
    assert!(db.get_opt(&read, &key(5)).unwrap().is_some());
    assert_eq!(contents(&db).len(), 50);
    drop((read, snapshot));
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
    assert_eq!(contents(&db).len(), 50);
    let bytes: u64 = db.live_files_metadata().iter().map(|f| f.size).sum();
    assert!(bytes < 20_000, "{bytes}");
    db.close().unwrap();
}

/// A leveled tree is a row of runs already; with one level only it has to fit into L0.
#[pumice_test_macros::test]
fn a_leveled_tree_becomes_universal_and_back() {
    let (_, fs) = memory();
    let (mut options, _) = universal(&fs);
    options.cf.compaction_style = CompactionStyle::Level;
    options.cf.max_bytes_for_level_base = 50_000;
    options.cf.target_file_size_base = 10_000;
    let db = Db::open(&options, DIR).unwrap();
    for n in 0..30 {
        round(&db, n, 900);
    }
    settle(&db);
    db.close().unwrap();
    options.cf.compaction_style = CompactionStyle::Universal;
    let db = Db::open(&options, DIR).unwrap();
    for n in 30..45 {
        round(&db, n, 900);
    }
    settle(&db);
    check(&db, 45, 900);
    assert!(runs(&db) <= 4);
    db.close().unwrap();
    options.cf.num_levels = 1;
    assert!(Db::open(&options, DIR).is_err());
    options.cf.num_levels = 7;
    options.cf.compaction_style = CompactionStyle::Level;
    let db = Db::open(&options, DIR).unwrap();
    check(&db, 45, 900);
    round(&db, 45, 900);
    settle(&db);
    check(&db, 46, 900);
    db.close().unwrap();
}
