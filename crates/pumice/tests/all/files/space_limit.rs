//! The limits of `sst_file_manager`: which jobs do not start, what fails, and when writes work
//! again.
//!
//! Plain #[test]: a simulation is a runtime of its own.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{self, DIR, fill, flush, get, key};
use pumice::stats::listener::CompactionJobInfo;
use pumice::{
    BottommostLevelCompaction, CompactRangeOptions, CompressionType, Db, ErrorKind, EventListener,
    MemFs, Options, Severity, SstFileManager, SstFileManagerOptions, Statistics, SubCode, Ticker,
    WriteOptions,
};
use pumice_port::{sim, thread};

/// Runs `test` under a few schedules.
fn simulate(test: fn(&MemFs)) {
    for seed in 0..4 {
        let limits =
            sim::Options { max_virtual_nanos: 3600 * 1_000_000_000, ..sim::Options::new(seed) };
        let (report, outcome) = sim::run(&limits, || test(&MemFs::new(seed)));
        let stuck = report.stuck.map_or(String::new(), |stuck| stuck.to_string());
        assert!(outcome.is_ok() && stuck.is_empty(), "seed {seed}: {outcome:?}\n{stuck}");
    }
}

fn managed(fs: &MemFs) -> (Options, Arc<SstFileManager>) {
    let manager = Arc::new(SstFileManager::new(&SstFileManagerOptions::default()).unwrap());
    let mut options = common::options(&fs.shared());
    options.db.sst_file_manager = Some(Arc::clone(&manager));
    options.db.statistics = Some(Arc::new(Statistics::new()));
    options.cf.compression = CompressionType::None;
    options.cf.disable_auto_compactions = true;
    (options, manager)
}

fn put(db: &Db) -> pumice::Result<()> {
    db.put_opt(&WriteOptions::default(), b"next", b"value")
}

fn compact(db: &Db) -> pumice::Result<()> {
    let bottommost_level_compaction = BottommostLevelCompaction::Force;
    let options =
        CompactRangeOptions { bottommost_level_compaction, ..CompactRangeOptions::default() };
    db.compact_range(&options, None, None)
}

fn cancelled(options: &Options) -> u64 {
    options.db.statistics.as_ref().unwrap().ticker(Ticker::CompactionCancelled)
}

/// A table of about 105 KB.
fn add_table(db: &Db) {
    fill(db, 0..100, &"v".repeat(1000));
    flush(db);
}

/// After the flush that reaches the limit nothing is written until the limit is raised and the
/// database resumed.
#[test]
fn writes_end_at_the_limit() {
    simulate(|fs| {
        let (options, manager) = managed(fs);
        let db = Db::open(&options, DIR).unwrap();
        manager.set_max_allowed_space_usage(150_000);
        add_table(&db);
        assert!(!manager.is_max_allowed_space_reached());
        put(&db).unwrap();
        fill(&db, 100..200, &"v".repeat(1000));
        drop(db.flush_opt(&Default::default()));
        assert!(manager.is_max_allowed_space_reached());
        assert_eq!(db.live_files_metadata().len(), 2, "the flush counts");
        thread::sleep(Duration::from_secs(60));
        let error = put(&db).unwrap_err();
        assert_eq!(
            error.to_string(),
            "IO error: Space limit reached: Max allowed space was reached"
        );
        assert_eq!((error.kind(), error.subcode()), (ErrorKind::IoError, SubCode::SpaceLimit));
        assert_eq!(error.severity(), Severity::Hard);
        assert_eq!(get(&db, &key(150)).unwrap().len(), 1000, "reads go on");
        manager.set_max_allowed_space_usage(1_000_000);
        put(&db).unwrap_err();
        db.resume().unwrap();
        put(&db).unwrap();
        db.close().unwrap();
        let db = Db::open(&options, DIR).unwrap();
        assert_eq!(get(&db, b"next").unwrap(), b"value");
        db.close().unwrap();
    });
}

/// Files that move, and those that go as a whole, take no room.
#[test]
fn moves_and_deletions_need_no_room() {
    simulate(|fs| {
        let (options, manager) = managed(fs);
        let db = Db::open(&options, DIR).unwrap();
        add_table(&db);
        manager.set_max_allowed_space_usage(manager.total_size() + 1);
        let error = compact(&db).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::CompactionTooLarge, "{error}");
        db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
        assert!(db.live_files_metadata()[0].level > 0);
        db.delete_files_in_ranges(&[(None, None)], true).unwrap();
        assert_eq!(db.live_files_metadata().len(), 0);
        db.close().unwrap();
    });
}

/// A compaction that could pass the limit is not begun; it is when there is room.
#[test]
fn compactions_need_room() {
    simulate(|fs| {
        let (mut options, manager) = managed(fs);
        options.cf.level0_file_num_compaction_trigger = 3;
        let db = Db::open(&options, DIR).unwrap();
        (0..3).for_each(|_| add_table(&db));
        let tables = manager.total_size();
        manager.set_max_allowed_space_usage(2 * tables - 1);
        let error = compact(&db).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::CompactionTooLarge, "{error}");
        assert_eq!((cancelled(&options), db.live_files_metadata().len()), (1, 3));
        put(&db).unwrap();
        // Automatic ones are tried again and again.
        db.set_options(&[("disable_auto_compactions", "false")]).unwrap();
        thread::sleep(Duration::from_secs(10));
        let tries = cancelled(&options);
        assert!((4..20).contains(&tries), "{tries} in 10 s");
        put(&db).unwrap();
        manager.set_max_allowed_space_usage(2 * tables);
        manager.set_compaction_buffer_size(1);
        thread::sleep(Duration::from_secs(10));
        assert_eq!(db.live_files_metadata().len(), 3, "not with the buffer");
        manager.set_compaction_buffer_size(0);
        thread::sleep(Duration::from_secs(10));
        assert_eq!(db.live_files_metadata().len(), 1);
        assert!(!manager.is_max_allowed_space_reached_including_compactions());
        manager.set_max_allowed_space_usage(manager.total_size() + 1);
        assert!(!manager.is_max_allowed_space_reached(), "nothing is reserved for good");
        assert!(!manager.is_max_allowed_space_reached_including_compactions());
        db.close().unwrap();
    });
}

/// Lowers the limit as soon as a compaction has begun.
struct Lower(Arc<SstFileManager>);

impl EventListener for Lower {
    fn on_compaction_begin(&self, _info: &CompactionJobInfo) {
        self.0.set_max_allowed_space_usage(self.0.total_size() + 1);
        assert!(self.0.is_max_allowed_space_reached_including_compactions());
    }
}

/// A compaction that reaches the limit fails, leaves no files, and stops writes.
#[test]
fn a_compaction_reaches_the_limit() {
    simulate(|fs| {
        let (mut options, manager) = managed(fs);
        options.db.listeners = vec![Arc::new(Lower(Arc::clone(&manager)))];
        let db = Db::open(&options, DIR).unwrap();
        (0..2).for_each(|_| add_table(&db));
        let tables = manager.total_size();
        let error = compact(&db).unwrap_err();
        assert_eq!(error.subcode(), SubCode::SpaceLimit, "{error}");
        let error = put(&db).unwrap_err();
        assert_eq!((error.subcode(), error.severity()), (SubCode::SpaceLimit, Severity::Hard));
        thread::sleep(Duration::from_secs(60));
        assert_eq!((manager.total_size(), db.live_files_metadata().len()), (tables, 2));
        put(&db).unwrap_err();
        // With its output deleted, there is room again.
        db.resume().unwrap();
        put(&db).unwrap();
        db.close().unwrap();
    });
}

/// After a full disk a database with a manager resumes when there is room for a memtable, one
/// without as soon as anything can be written.
#[test]
fn a_full_disk_is_tried_when_there_is_room_for_a_memtable() {
    simulate(|fs| {
        for with in [true, false] {
            fs.set_quota(None);
            let (mut options, _) = managed(fs);
            if !with {
                options.db.sst_file_manager = None;
            }
            let dir = format!("/db{with}");
            let db = Db::open(&options, &dir).unwrap();
            fill(&db, 0..100, &"v".repeat(1000));
            fs.set_quota(Some(fs.used_bytes() + 5000));
            let failed = db.put_opt(&WriteOptions::default(), b"large", &[b'x'; 10_000]);
            assert!(failed.unwrap_err().is_no_space());
            // `write_buffer_size` is 1 MiB.
            fs.set_quota(Some(fs.used_bytes() + (500 << 10)));
            thread::sleep(Duration::from_secs(60));
            assert_eq!(put(&db).is_ok(), !with, "with 500 KiB free");
            fs.set_quota(Some(fs.used_bytes() + (1100 << 10)));
            thread::sleep(Duration::from_secs(5));
            put(&db).unwrap();
            db.close().unwrap();
        }
    });
}

/// Once the disk was full for a compaction, the next ones leave the buffer free.
#[test]
fn compactions_after_a_full_disk_leave_the_buffer() {
    simulate(|fs| {
        let (options, manager) = managed(fs);
        let db = Db::open(&options, DIR).unwrap();
        (0..2).for_each(|_| add_table(&db));
        manager.set_compaction_buffer_size(10 << 20);
        thread::sleep(Duration::from_secs(1)); // The logs of flushed data are deleted.
        fs.set_quota(Some(fs.used_bytes() + 5000));
        let error = compact(&db).unwrap_err();
        assert!(error.is_no_space(), "{error}");
        assert_eq!(cancelled(&options), 0);
        fs.set_quota(Some(fs.used_bytes() + (5 << 20)));
        let error = compact(&db).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::CompactionTooLarge, "{error}");
        assert_eq!(cancelled(&options), 1);
        put(&db).unwrap();
        fs.set_quota(Some(fs.used_bytes() + (11 << 20)));
        compact(&db).unwrap();
        // That was enough to forget it.
        fs.set_quota(Some(fs.used_bytes() + (5 << 20)));
        compact(&db).unwrap();
        assert_eq!(cancelled(&options), 1);
        db.close().unwrap();
    });
}
