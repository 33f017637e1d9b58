//! Calls on single table files: delete those in a range, suggest a range for compaction, compact
//! given ones.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{self, DIR, contents, fill, flush, get, key, memory, options};
use pumice::options::CompactionStyle;
use pumice::stats::listener::{BackgroundErrorReason, CompactionJobInfo, CompactionReason};
use pumice::{
    BottommostLevelCompaction, CompactFilesOptions, CompactRangeOptions, CompressionType, Db,
    Error, ErrorKind, EventListener, FileSystem, MemFs, Options, Severity, WaitForCompactOptions,
    WriteOptions,
};
use pumice_env::mem::{Fault, FaultOp, FaultRule};
use pumice_port::sync::Mutex;
use pumice_port::{sim, thread};

#[derive(Default)]
struct Reasons(Mutex<Vec<CompactionReason>>);

impl EventListener for Reasons {
    fn on_compaction_completed(&self, info: &CompactionJobInfo) {
        self.0.lock().push(info.compaction_reason);
    }
}

/// Small files; nothing is compacted automatically.
fn quiet(fs: &Arc<dyn FileSystem>) -> (Options, Arc<Reasons>) {
    let reasons = Arc::new(Reasons::default());
    let mut options = options(fs);
    options.cf.compression = CompressionType::None;
    options.cf.target_file_size_base = 10_000;
    options.cf.num_levels = 4;
    options.cf.level_compaction_dynamic_level_bytes = false;
    options.cf.level0_file_num_compaction_trigger = 20;
    options.db.listeners = vec![Arc::clone(&reasons) as Arc<dyn EventListener>];
    (options, reasons)
}

/// Files by level.
fn levels(db: &Db) -> BTreeMap<usize, usize> {
    let mut levels = BTreeMap::new();
    for file in db.live_files_metadata() {
        *levels.entry(file.level).or_insert(0) += 1;
    }
    levels
}

/// Everything written so far goes to `level`.
fn to_level(db: &Db, level: i32) {
    let down = CompactRangeOptions {
        change_level: true,
        target_level: level,
        bottommost_level_compaction: BottommostLevelCompaction::Force,
        ..CompactRangeOptions::default()
    };
    db.compact_range(&down, None, None).unwrap();
}

fn names(db: &Db, level: usize) -> Vec<String> {
    let files = db.live_files_metadata();
    files.into_iter().filter(|f| f.level == level).map(|f| f.name).collect()
}

#[pumice_test_macros::test]
fn files_inside_ranges_are_deleted() {
    let (_, fs) = memory();
    let (options, _) = quiet(&fs);
    let db = Db::open(&options, DIR).unwrap();
    let cf = db.default_column_family();
    fill(&db, 0..2000, &"v".repeat(100));
    to_level(&db, 2);
    fill(&db, 500..600, "in level 0");
    flush(&db);
    let mut files = db.live_files_metadata();
    files.retain(|file| file.level == 2);
    files.sort_by(|a, b| a.smallest_key.cmp(&b.smallest_key));
    assert!(files.len() > 10, "{}", files.len());
    // No file lies wholly inside.
    let (start, end) = (&files[3].smallest_key, &files[6].largest_key);
    let narrow = (Some(&start[..]), Some(&files[3].largest_key[..8]));
    db.delete_files_in_ranges_cf(cf, &[narrow], true).unwrap();
    assert_eq!(levels(&db)[&2], files.len());
    // Four files, the last only if its last key counts; two ranges that share files.
    let range = (Some(&start[..]), Some(&end[..]));
    db.delete_files_in_ranges_cf(cf, &[range], false).unwrap();
    assert_eq!(levels(&db)[&2], files.len() - 3);
    db.delete_files_in_ranges_cf(cf, &[range, range], true).unwrap();
    assert_eq!(levels(&db)[&2], files.len() - 4);
    assert_eq!(get(&db, start), None);
    assert!(get(&db, &files[2].largest_key).is_some());
    assert!(get(&db, &files[7].smallest_key).is_some());
    let left = contents(&db).len();
    db.close().unwrap();
    let tables = common::names(&fs, DIR).iter().filter(|n| n.ends_with(".sst")).count();
    assert_eq!(tables, files.len() - 4 + 1, "they are gone from the disk");
    let db = Db::open(&options, DIR).unwrap();
    assert_eq!(contents(&db).len(), left);
    // The whole range; files in level 0 stay.
    let cf = db.default_column_family();
    db.delete_files_in_ranges_cf(cf, &[(None, None)], true).unwrap();
    assert_eq!(levels(&db), BTreeMap::from([(0, 1)]));
    assert_eq!(contents(&db).len(), 100);
    db.delete_files_in_ranges_cf(cf, &[(None, None)], true).unwrap();
    db.close().unwrap();
}

#[pumice_test_macros::test]
fn a_suggested_range_is_compacted_when_there_is_time() {
    for style in [CompactionStyle::Level, CompactionStyle::Universal] {
        let (_, fs) = memory();
        let (mut options, reasons) = quiet(&fs);
        options.cf.compaction_style = style;
        let db = Db::open(&options, DIR).unwrap();
        let cf = db.default_column_family();
        fill(&db, 0..1000, &"v".repeat(100));
        to_level(&db, 3);
        fill(&db, 0..100, "low");
        flush(&db);
        fill(&db, 900..950, "high");
        flush(&db);
        reasons.0.lock().clear();
        let settle = || db.wait_for_compact(&WaitForCompactOptions::default()).unwrap();
        // There is nothing above the last level.
        db.suggest_compact_range_cf(cf, Some(&key(300)), Some(&key(400))).unwrap();
        settle();
        assert_eq!((levels(&db)[&0], reasons.0.lock().len()), (2, 0));
        db.suggest_compact_range_cf(cf, None, Some(&key(400))).unwrap();
        settle();
        assert_eq!(levels(&db)[&0], 1, "{style:?}");
        assert!(!reasons.0.lock().is_empty());
        assert!(reasons.0.lock().iter().all(|r| *r == CompactionReason::FilesMarkedForCompaction));
        db.suggest_compact_range_cf(cf, None, None).unwrap();
        settle();
        assert_eq!(levels(&db).keys().copied().collect::<Vec<_>>(), [3], "{style:?}");
        assert_eq!(contents(&db).len(), 1000);
        assert_eq!(get(&db, &key(920)).unwrap(), b"high");
        db.close().unwrap();
    }
}

#[pumice_test_macros::test]
fn given_files_are_compacted_with_what_must_go_along() {
    for style in [CompactionStyle::Level, CompactionStyle::Universal] {
        let (_, fs) = memory();
        let (mut options, reasons) = quiet(&fs);
        options.cf.compaction_style = style;
        let db = Db::open(&options, DIR).unwrap();
        let cf = db.default_column_family();
        fill(&db, 0..1000, &"v".repeat(100));
        to_level(&db, 3);
        for round in 0..4 {
            fill(&db, round * 10..round * 10 + 30, &format!("round {round}"));
            flush(&db);
        }
        reasons.0.lock().clear();
        let mut level0 = db.live_files_metadata();
        level0.retain(|file| file.level == 0);
        level0.sort_by_key(|file| file.file_number);
        // The second newest file: the two that are older are included, the newest stays.
        let how = CompactFilesOptions::default();
        let outputs = db.compact_files_cf(&how, cf, &[&level0[2].name], 3).unwrap();
        assert_eq!(names(&db, 0), [level0[3].name.clone()]);
        // No limit of size: with what overlapped it is one file now.
        assert_eq!(outputs.len(), 1);
        assert!(names(&db, 3).contains(&outputs[0]));
        assert_eq!(*reasons.0.lock(), [CompactionReason::ManualCompaction]);
        for (n, expected) in [(5, "round 0"), (25, "round 2"), (45, "round 3")] {
            assert_eq!(get(&db, &key(n)).unwrap(), expected.as_bytes(), "{style:?}");
        }
        // The last level again: between two files, compressed and in pieces.
        let mut all = names(&db, 3);
        all.sort();
        let how = CompactFilesOptions {
            compression: Some(CompressionType::Lz4),
            output_file_size_limit: 4000,
            ..CompactFilesOptions::default()
        };
        let named: Vec<&str> = all.iter().map(String::as_str).collect();
        let before: u64 = db.live_files_metadata().iter().map(|f| f.size).sum();
        let outputs = db.compact_files_cf(&how, cf, &named, 3).unwrap();
        assert!(outputs.len() > 1, "{outputs:?}");
        let after: u64 = db.live_files_metadata().iter().map(|f| f.size).sum();
        assert!(after < before / 2, "{before} {after}");
        assert_eq!(contents(&db).len(), 1000);
        // Level 0 into itself is one file.
        fill(&db, 0..10, "last");
        flush(&db);
        let level0 = names(&db, 0);
        let newest = level0.iter().max().unwrap();
        assert_eq!(db.compact_files_cf(&how, cf, &[newest], 0).unwrap().len(), 1);
        assert_eq!(levels(&db)[&0], 1);
        assert_eq!(get(&db, &key(5)).unwrap(), b"last");
        db.close().unwrap();
    }
}

#[pumice_test_macros::test]
fn files_that_cannot_be_compacted_are_named() {
    let (_, fs) = memory();
    let (mut options, _) = quiet(&fs);
    options.cf.cf_allow_ingest_behind = true;
    let db = Db::open(&options, DIR).unwrap();
    let cf = db.default_column_family();
    let how = CompactFilesOptions::default();
    db.put_opt(&WriteOptions::default(), b"a", b"b").unwrap();
    to_level(&db, 2);
    let name = names(&db, 2).remove(0);
    let refused = |names: &[&str], level: i32| {
        let error = db.compact_files_cf(&how, cf, names, level).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        error.to_string()
    };
    for (names, level, text) in [
        (&[&name[..]][..], -1, "Output level cannot be negative."),
        (&[&name], 4, "Output level for column family default must between [0, 3]."),
        (&[&name], 3, "Exceed the maximum output level defined by the current compaction"),
        (&[&name], 1, "Cannot compact file to up level, input file: "),
        (&[], 2, "A compaction must contain at least one file."),
        (&["/999999.sst"], 2, "input file /999999.sst does not exist in column family default."),
        (&["x.log"], 2, "x.log is not the name of a table file"),
    ] {
        let error = refused(names, level);
        assert!(error.contains(text), "{error}");
    }
    db.compact_files_cf(&how, cf, &[&name], 2).unwrap();
    db.close().unwrap();
}

/// In FIFO all files stay in level 0, where their order is by age.
#[pumice_test_macros::test]
fn fifo_compacts_given_files_in_level_0_alone() {
    let (_, fs) = memory();
    let (mut options, _) = quiet(&fs);
    options.cf.compaction_style = CompactionStyle::Fifo;
    let db = Db::open(&options, DIR).unwrap();
    let cf = db.default_column_family();
    for round in 0..3 {
        fill(&db, round * 10..round * 10 + 30, &format!("round {round}"));
        flush(&db);
    }
    let mut level0 = names(&db, 0);
    level0.sort();
    let how = CompactFilesOptions::default();
    for level in 1..4 {
        let error = db.compact_files_cf(&how, cf, &[&level0[1]], level).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        let text = "Exceed the maximum output level defined by the current compaction algorithm";
        assert!(error.to_string().contains(&format!("{text} --- 0")), "{error}");
    }
    db.compact_files_cf(&how, cf, &[&level0[1]], 0).unwrap();
    assert_eq!(levels(&db), BTreeMap::from([(0, 2)]));
    assert_eq!(get(&db, &key(15)).unwrap(), b"round 1");
    assert_eq!(get(&db, &key(25)).unwrap(), b"round 2");
    db.close().unwrap();
}

/// The files below are deleted meanwhile: those of level 0 have somewhere to go all the same.
#[pumice_test_macros::test]
fn a_wish_outlives_the_levels_below() {
    let (_, fs) = memory();
    let (mut options, _) = quiet(&fs);
    options.cf.disable_auto_compactions = true;
    let db = Db::open(&options, DIR).unwrap();
    let cf = db.default_column_family();
    fill(&db, 0..100, "below");
    to_level(&db, 2);
    fill(&db, 0..50, "above");
    flush(&db);
    db.suggest_compact_range_cf(cf, None, None).unwrap();
    db.delete_files_in_ranges_cf(cf, &[(None, None)], true).unwrap();
    assert_eq!(levels(&db), BTreeMap::from([(0, 1)]));
    db.set_options_cf(cf, &[("disable_auto_compactions", "false")]).unwrap();
    db.wait_for_compact(&WaitForCompactOptions::default()).unwrap();
    assert_eq!(levels(&db).get(&0), None);
    assert_eq!(contents(&db).len(), 50);
    db.close().unwrap();
}

#[derive(Default)]
struct ErrorReasons(Mutex<Vec<BackgroundErrorReason>>);

impl EventListener for ErrorReasons {
    fn on_background_error(&self, reason: BackgroundErrorReason, _: &Error) {
        self.0.lock().push(reason);
    }
}

/// Whether the deletion has happened is unknown, as with any failed write to the MANIFEST: writes
/// stop until there is a new one.
#[pumice_test_macros::test]
fn a_deletion_that_the_manifest_fails_to_take_is_an_error_of_the_database() {
    let (mem, fs) = memory();
    let (mut options, _) = quiet(&fs);
    let listener = Arc::new(ErrorReasons::default());
    options.db.listeners = vec![Arc::clone(&listener) as Arc<dyn EventListener>];
    options.db.max_bgerror_resume_count = 0;
    let db = Db::open(&options, DIR).unwrap();
    let cf = db.default_column_family();
    fill(&db, 0..500, &"v".repeat(100));
    to_level(&db, 2);
    let before = levels(&db);
    mem.add_fault(FaultRule::once(FaultOp::Sync, "*MANIFEST-*", 0, Fault::Eio));
    db.delete_files_in_ranges_cf(cf, &[(None, None)], true).unwrap_err();
    assert_eq!(*listener.0.lock(), [BackgroundErrorReason::ManifestWrite]);
    let error = db.put_opt(&WriteOptions::default(), b"a", b"b").unwrap_err();
    assert_eq!(error.severity(), Severity::Fatal, "{error}");
    assert_eq!((levels(&db), contents(&db).len()), (before, 500));
    db.resume().unwrap();
    db.put_opt(&WriteOptions::default(), b"a", b"b").unwrap();
    db.delete_files_in_ranges_cf(cf, &[(None, None)], true).unwrap();
    assert_eq!(contents(&db).len(), 1);
    db.close().unwrap();
    // An error of the call is not a background error.
    let dropped = Db::open(&options, DIR).unwrap();
    let other = dropped.create_column_family(&options.cf, "other").unwrap();
    dropped.drop_column_family(&other).unwrap();
    dropped.delete_files_in_ranges_cf(&other, &[(None, None)], true).unwrap_err();
    assert_eq!(listener.0.lock().len(), 1);
    dropped.close().unwrap();
}

/// `call` of virtual seconds in a simulation.
fn simulated(call: impl FnOnce() + Send + 'static) {
    let (report, outcome) = sim::run(&sim::Options::new(1), call);
    assert!(outcome.is_ok() && report.stuck.is_none(), "{outcome:?} {:?}", report.stuck);
}

fn stall(mem: &MemFs, op: FaultOp, path: &str, seconds: u64) {
    let nanos = Duration::from_secs(seconds).as_nanos() as u64;
    mem.add_fault(FaultRule::once(op, path, 0, Fault::Stall(nanos)));
}

/// Neither call waits for a compaction that uses a file; one thread compacts.
// Plain #[test]: a simulation is a runtime of its own.
#[test]
fn files_that_are_being_compacted_are_left_to_that() {
    simulated(|| {
        let (mem, fs) = memory();
        let (mut options, _) = quiet(&fs);
        options.db.max_background_jobs = 1;
        let db = Db::open(&options, DIR).unwrap();
        let cf = db.default_column_family().clone();
        fill(&db, 0..500, &"v".repeat(100));
        to_level(&db, 2);
        let mut files = db.live_files_metadata();
        files.sort_by(|a, b| a.smallest_key.cmp(&b.smallest_key));
        let (busy, idle) = (files[1].clone(), files[3].name.clone());
        stall(&mem, FaultOp::Create, "*.sst", 20);
        let (handle, family, name) = (db.clone(), cf.clone(), busy.name.clone());
        let compacting = thread::spawn("compact", move || {
            handle.compact_files_cf(&CompactFilesOptions::default(), &family, &[&name], 2)
        });
        thread::sleep(Duration::from_secs(1));
        let compact = |names: &[&str]| {
            db.compact_files_cf(&CompactFilesOptions::default(), &cf, names, 2).unwrap_err()
        };
        let error = compact(&[&busy.name]);
        assert_eq!(error.kind(), ErrorKind::Aborted);
        assert!(error.to_string().contains("is already being compacted."), "{error}");
        let error = compact(&[&files[0].name, &idle]);
        assert_eq!(error.kind(), ErrorKind::Aborted);
        assert!(error.to_string().contains("is currently being compacted."), "{error}");
        assert_eq!(compact(&["/999999.sst"]).kind(), ErrorKind::InvalidArgument);
        db.delete_files_in_ranges_cf(&cf, &[(None, None)], true).unwrap();
        assert_eq!(names(&db, 2), [busy.name]);
        assert!(!compacting.is_finished(), "the test comes too late");
        assert_eq!(compacting.join().unwrap().unwrap(), names(&db, 2));
        let (first, last) = (busy.smallest_key, busy.largest_key);
        let left: Vec<_> = contents(&db).into_iter().map(|(key, _)| key).collect();
        assert_eq!((left.first(), left.last()), (Some(&first), Some(&last)));
        db.close().unwrap();
    });
}

/// A compaction that found the files of the next level reserved is picked again once they are free.
// Plain #[test]: a simulation is a runtime of its own.
#[test]
fn what_waits_for_files_that_are_being_deleted_goes_on() {
    simulated(|| {
        let (mem, fs) = memory();
        let (options, reasons) = quiet(&fs);
        let db = Db::open(&options, DIR).unwrap();
        let cf = db.default_column_family().clone();
        fill(&db, 0..500, &"v".repeat(100));
        to_level(&db, 1);
        fill(&db, 0..500, "new");
        flush(&db);
        reasons.0.lock().clear();
        stall(&mem, FaultOp::Sync, "*MANIFEST-*", 20);
        let (handle, family) = (db.clone(), cf.clone());
        let deleting = thread::spawn("delete", move || {
            handle.delete_files_in_ranges_cf(&family, &[(None, Some(&key(200)))], true)
        });
        thread::sleep(Duration::from_secs(1));
        db.suggest_compact_range_cf(&cf, None, None).unwrap();
        thread::sleep(Duration::from_secs(1));
        assert!(!deleting.is_finished(), "the test comes too late");
        assert_eq!((levels(&db)[&0], reasons.0.lock().len()), (1, 0));
        deleting.join().unwrap().unwrap();
        db.wait_for_compact(&WaitForCompactOptions::default()).unwrap();
        assert_eq!(*reasons.0.lock(), [CompactionReason::FilesMarkedForCompaction]);
        assert_eq!(levels(&db).get(&0), None);
        assert_eq!(get(&db, &key(100)).unwrap(), b"new");
        db.close().unwrap();
    });
}
