//! Files of leveled compaction that get too old, in a database that does nothing else: `ttl` moves
//! their data down, `periodic_compaction_seconds` has them rewritten.
//!
//! Plain #[test]: a simulation is a runtime of its own. Its clock is virtual, so days cost nothing
//! and every moment is exact.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{DIR, contents, fill, flush, memory, options};
use pumice::stats::listener::{CompactionJobInfo, CompactionReason};
use pumice::{
    CompactRangeOptions, CompactionFilter, Db, EventListener, FileSystem, FilterDecision, Options,
    Statistics, Ticker, WriteOptions,
};
use pumice_port::sim;
use pumice_port::sync::Mutex;
use pumice_port::thread::sleep;
use pumice_port::time::wall_seconds;

const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;

fn simulate(test: fn()) {
    for seed in 0..3 {
        let options = sim::Options {
            max_virtual_nanos: 200 * DAY * 1_000_000_000,
            ..sim::Options::new(seed)
        };
        let (report, outcome) = sim::run(&options, test);
        let stuck = report.stuck.map_or(String::new(), |stuck| stuck.to_string());
        assert!(outcome.is_ok(), "seed {seed}: {outcome:?}\n{stuck}");
    }
}

#[derive(Default)]
struct Reasons(Mutex<Vec<(CompactionReason, i32)>>);

impl EventListener for Reasons {
    fn on_compaction_completed(&self, info: &CompactionJobInfo) {
        self.0.lock().push((info.compaction_reason, info.output_level));
    }
}

/// Targets so large that only ages trigger compactions; L0 goes to L1.
fn leveled(fs: &Arc<dyn FileSystem>, ttl: u64, periodic: u64) -> (Options, Arc<Reasons>) {
    let reasons = Arc::new(Reasons::default());
    let mut options = options(fs);
    options.cf.level_compaction_dynamic_level_bytes = false;
    options.cf.num_levels = 5;
    options.cf.ttl = ttl;
    options.cf.periodic_compaction_seconds = periodic;
    options.db.listeners = vec![Arc::clone(&reasons) as Arc<dyn EventListener>];
    (options, reasons)
}

/// The levels with files, from the top, with the number of their files.
fn levels(db: &Db) -> Vec<(i32, usize)> {
    let mut counts = std::collections::BTreeMap::new();
    for file in db.live_files_metadata() {
        *counts.entry(file.level as i32).or_insert(0) += 1;
    }
    counts.into_iter().collect()
}

/// Keys all over the range, so that every file overlaps every other.
fn one_file(db: &Db, value: &str) -> u64 {
    fill(db, 0..10, value);
    flush(db);
    wall_seconds()
}

fn to_level(db: &Db, level: i32) {
    let down = CompactRangeOptions {
        change_level: true,
        target_level: level,
        ..CompactRangeOptions::default()
    };
    db.compact_range(&down, None, None).unwrap();
}

fn sleep_until(seconds: u64) {
    sleep(Duration::from_secs(seconds.saturating_sub(wall_seconds())));
}

/// Without any call, old data moves down level by level when its time is over, not before, and
/// stays in the last level with data.
#[test]
fn old_data_goes_down_in_a_database_at_rest() {
    simulate(|| {
        let (_, fs) = memory();
        let (mut options, reasons) = leveled(&fs, DAY, 0);
        let statistics = Arc::new(Statistics::new());
        options.db.statistics = Some(Arc::clone(&statistics));
        let db = Db::open(&options, DIR).unwrap();
        one_file(&db, "old");
        to_level(&db, 4);
        reasons.0.lock().clear();
        sleep(Duration::from_secs(2 * HOUR));
        let at = one_file(&db, "new");
        assert_eq!(levels(&db), [(0, 1), (4, 1)]);
        // Data in the last level may have any age.
        sleep_until(at + DAY - 5);
        assert_eq!(levels(&db), [(0, 1), (4, 1)]);
        sleep_until(at + DAY + 10);
        assert_eq!(levels(&db), [(4, 1)]);
        // On the way nothing overlaps, so the file moves; the last step merges.
        let ttl = [1, 2, 3, 4].map(|level| (CompactionReason::Ttl, level));
        assert_eq!(*reasons.0.lock(), ttl);
        let read = statistics.ticker(Ticker::CompactReadBytesTtl);
        assert!(read > 0 && statistics.ticker(Ticker::CompactWriteBytesTtl) > 0);
        assert_eq!(statistics.ticker(Ticker::CompactReadBytesPeriodic), 0);
        assert!(contents(&db).iter().all(|(_, value)| value == b"new"));
        sleep(Duration::from_secs(10 * DAY));
        assert_eq!(reasons.0.lock().len(), ttl.len());
        db.close().unwrap();
    });
}

/// A compaction passes the age of its oldest input on, also through the MANIFEST.
#[test]
fn the_age_of_data_is_that_of_its_oldest_part() {
    simulate(|| {
        let (_, fs) = memory();
        let (options, reasons) = leveled(&fs, DAY, 0);
        let db = Db::open(&options, DIR).unwrap();
        one_file(&db, "bottom");
        to_level(&db, 4);
        let first = one_file(&db, "a");
        sleep(Duration::from_secs(DAY / 2));
        one_file(&db, "b");
        // L0 into L1: the result is as old as the first of the two.
        let level0: Vec<_> =
            db.live_files_metadata().into_iter().filter(|file| file.level == 0).collect();
        assert_eq!(level0.len(), 2);
        let trigger = [("level0_file_num_compaction_trigger", "2")];
        db.set_options(&trigger).unwrap();
        sleep(Duration::from_secs(60));
        assert_eq!(levels(&db), [(1, 1), (4, 1)]);
        db.close().unwrap();
        drop(db);
        let db = Db::open(&options, DIR).unwrap();
        sleep_until(first + DAY - 5);
        assert_eq!(levels(&db), [(1, 1), (4, 1)]);
        sleep_until(first + DAY + 10);
        assert_eq!(levels(&db), [(4, 1)]);
        assert!(reasons.0.lock().contains(&(CompactionReason::Ttl, 4)));
        db.close().unwrap();
    });
}

/// Files get a new life every period, the last level included, and so the compaction filter sees
/// everything.
#[test]
fn old_files_are_rewritten_every_period() {
    simulate(|| {
        let (_, fs) = memory();
        let (mut options, reasons) = leveled(&fs, 0, DAY);
        let statistics = Arc::new(Statistics::new());
        options.db.statistics = Some(Arc::clone(&statistics));
        let db = Db::open(&options, DIR).unwrap();
        one_file(&db, "old");
        to_level(&db, 4);
        reasons.0.lock().clear();
        let mut at = wall_seconds();
        for round in 1..4 {
            sleep_until(at + DAY - 10);
            assert_eq!(reasons.0.lock().len(), round - 1);
            sleep_until(at + DAY + 10);
            assert_eq!(reasons.0.lock().len(), round);
            at += DAY;
        }
        assert!(reasons.0.lock().iter().all(|r| *r == (CompactionReason::PeriodicCompaction, 4)));
        assert!(statistics.ticker(Ticker::CompactReadBytesPeriodic) > 0);
        assert!(statistics.ticker(Ticker::CompactWriteBytesPeriodic) > 0);
        assert_eq!(statistics.ticker(Ticker::CompactReadBytesTtl), 0);
        assert_eq!(contents(&db).len(), 10);
        db.close().unwrap();
    });
}

/// With dynamic level bytes a file above the last level moves down instead, as in RocksDB.
#[test]
fn with_dynamic_levels_old_files_go_down() {
    simulate(|| {
        let (_, fs) = memory();
        let (mut options, reasons) = leveled(&fs, 0, DAY);
        options.cf.level_compaction_dynamic_level_bytes = true;
        let db = Db::open(&options, DIR).unwrap();
        one_file(&db, "old");
        to_level(&db, 4);
        sleep(Duration::from_secs(HOUR));
        let at = one_file(&db, "new");
        reasons.0.lock().clear();
        sleep_until(at + DAY - HOUR + 60);
        // The last level first, where the file is older.
        assert_eq!(*reasons.0.lock(), [(CompactionReason::PeriodicCompaction, 4)]);
        sleep_until(at + DAY + 10);
        assert_eq!(levels(&db), [(4, 1)]);
        assert_eq!(reasons.0.lock().len(), 2);
        db.close().unwrap();
    });
}

/// Drops every key.
struct DropsAll;

impl CompactionFilter for DropsAll {
    fn name(&self) -> &str {
        "drops all"
    }
    fn filter(&self, _level: i32, _key: &[u8], _value: &[u8]) -> FilterDecision {
        FilterDecision::Remove
    }
}

/// What is not set: 30 days for `ttl`, and for periodic compaction if there is a filter.
#[test]
fn the_defaults_are_30_days() {
    simulate(|| {
        let (_, fs) = memory();
        let (mut options, _) = leveled(&fs, u64::MAX - 1, u64::MAX - 1);
        let db = Db::open(&options, DIR).unwrap();
        one_file(&db, "old");
        to_level(&db, 4);
        let at = one_file(&db, "new");
        sleep_until(at + 30 * DAY - 10);
        assert_eq!(levels(&db), [(0, 1), (4, 1)]);
        sleep_until(at + 30 * DAY + 10);
        assert_eq!(levels(&db), [(4, 1)]);
        db.close().unwrap();
        drop(db);
        options.cf.compaction_filter = Some(Arc::new(DropsAll));
        let db = Db::open(&options, DIR).unwrap();
        sleep_until(at + 60 * DAY - 60);
        assert_eq!(levels(&db), [(4, 1)]);
        sleep_until(at + 60 * DAY + 60);
        assert_eq!(levels(&db), []);
        db.close().unwrap();
    });
}

/// Both ages can change while the database is at rest.
#[test]
fn ages_can_be_set_while_the_database_is_at_rest() {
    simulate(|| {
        let (_, fs) = memory();
        let (options, _) = leveled(&fs, 0, 0);
        let db = Db::open(&options, DIR).unwrap();
        one_file(&db, "old");
        to_level(&db, 4);
        let at = one_file(&db, "new");
        sleep_until(at + 100 * DAY);
        assert_eq!(levels(&db), [(0, 1), (4, 1)]);
        let set = |name, value: &str| {
            db.set_options(&[(name, value)]).unwrap();
            sleep(Duration::from_secs(10));
        };
        set("ttl", "9000000");
        assert_eq!(levels(&db), [(0, 1), (4, 1)]);
        set("ttl", "8000000");
        assert_eq!(levels(&db), [(4, 1)]);
        let before = db.live_files_metadata()[0].file_number;
        set("periodic_compaction_seconds", "864000");
        assert_eq!(db.live_files_metadata()[0].file_number, before);
        sleep(Duration::from_secs(10 * DAY));
        assert_ne!(db.live_files_metadata()[0].file_number, before);
        db.close().unwrap();
    });
}

/// What snapshots held back is not cleaned up before the file has its age, and then at rest.
#[test]
fn the_cleaning_of_bottommost_files_can_wait() {
    simulate(|| {
        let (_, fs) = memory();
        let (mut options, reasons) = leveled(&fs, 0, 0);
        options.cf.bottommost_file_compaction_delay = HOUR as u32;
        let db = Db::open(&options, DIR).unwrap();
        fill(&db, 0..10, "a");
        let snapshot = db.snapshot();
        fill(&db, 0..10, "b");
        flush(&db);
        to_level(&db, 4);
        let at = wall_seconds();
        reasons.0.lock().clear();
        db.put_opt(&WriteOptions::default(), b"another", b"value").unwrap();
        drop(snapshot);
        sleep_until(at + HOUR - 10);
        assert_eq!(*reasons.0.lock(), []);
        sleep_until(at + HOUR + 10);
        assert_eq!(*reasons.0.lock(), [(CompactionReason::BottommostFiles, 4)]);
        db.close().unwrap();
    });
}

/// In the hours of low load files are rewritten that would not last until the next ones; whatever
/// the hours, never late.
#[test]
fn hours_of_low_load_come_first() {
    simulate(|| {
        let (_, fs) = memory();
        let (mut options, reasons) = leveled(&fs, 0, 10 * DAY);
        // The clock begins somewhere in a day.
        let midnight = wall_seconds().next_multiple_of(DAY);
        sleep_until(midnight);
        options.db.daily_offpeak_time_utc = "02:00-04:30".to_string();
        let db = Db::open(&options, DIR).unwrap();
        one_file(&db, "old");
        to_level(&db, 4);
        reasons.0.lock().clear();
        let compactions = || reasons.0.lock().len();
        // Written at midnight: too old at midnight of day 10, so done at 02:00 of day 9.
        sleep_until(midnight + 9 * DAY + 2 * HOUR - 10);
        assert_eq!(compactions(), 0);
        sleep_until(midnight + 9 * DAY + 2 * HOUR + 10);
        assert_eq!(*reasons.0.lock(), [(CompactionReason::PeriodicCompaction, 4)]);
        // Written just after 02:00: the next one is as these hours begin on day 19.
        sleep_until(midnight + 19 * DAY + 2 * HOUR - 10);
        assert_eq!(compactions(), 1);
        sleep_until(midnight + 19 * DAY + 2 * HOUR + 10);
        assert_eq!(compactions(), 2);
        // Without hours it is 10 days again.
        let set = |text: &str| db.set_db_options(&[("daily_offpeak_time_utc", text)]);
        set("").unwrap();
        sleep_until(midnight + 29 * DAY + 2 * HOUR - 10);
        assert_eq!(compactions(), 2);
        sleep_until(midnight + 29 * DAY + 2 * HOUR + 20);
        assert_eq!(compactions(), 3);
        // Hours that have begun apply at once, those over midnight too.
        let now = midnight + 39 * DAY + HOUR / 2;
        sleep_until(now);
        let refused = set("13:00-13:00").unwrap_err().to_string();
        assert_eq!(
            refused,
            "Invalid argument: daily_offpeak_time_utc: start_time and end_time cannot be the same"
        );
        set("23:00-00:29").unwrap();
        sleep_until(now + 30);
        assert_eq!(compactions(), 3);
        set("23:00-00:30").unwrap();
        sleep_until(now + 50);
        assert_eq!(compactions(), 4);
        db.close().unwrap();
    });
}

/// RocksDB refuses `ttl` with a limit of open files.
#[test]
fn old_data_goes_down_with_a_limit_of_open_files() {
    simulate(|| {
        let (_, fs) = memory();
        let (mut options, _) = leveled(&fs, DAY, 0);
        options.db.max_open_files = 20;
        let db = Db::open(&options, DIR).unwrap();
        one_file(&db, "old");
        to_level(&db, 4);
        let at = one_file(&db, "new");
        sleep_until(at + DAY - 5);
        assert_eq!(levels(&db), [(0, 1), (4, 1)]);
        sleep_until(at + DAY + 10);
        assert_eq!(levels(&db), [(4, 1)]);
        db.close().unwrap();
    });
}
