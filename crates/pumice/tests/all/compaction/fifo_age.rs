//! Files of FIFO compaction that get too old, in a database that does nothing else.
//!
//! Plain #[test]: a simulation is a runtime of its own. Its clock is virtual, so hours cost nothing
//! and every moment is exact.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{DIR, fill, flush, memory, options};
use pumice::options::{CompactionStyle, FifoOptions};
use pumice::stats::listener::{CompactionJobInfo, CompactionReason};
use pumice::{
    Db, EventListener, FileSystem, FlushOptions, Options, Statistics, Ticker, WriteOptions,
};
use pumice_port::sim;
use pumice_port::sync::Mutex;
use pumice_port::thread::sleep;
use pumice_port::time::wall_seconds;

const HOUR: u64 = 3600;

fn simulate(test: fn()) {
    for seed in 0..5 {
        let (report, outcome) = sim::run(&sim::Options::new(seed), test);
        let stuck = report.stuck.map_or(String::new(), |stuck| stuck.to_string());
        assert!(outcome.is_ok(), "seed {seed}: {outcome:?}\n{stuck}");
    }
}

fn fifo(fs: &Arc<dyn FileSystem>, ttl_seconds: u64) -> Options {
    let mut options = options(fs);
    options.cf.compaction_style = CompactionStyle::Fifo;
    options.cf.compression = pumice::CompressionType::None;
    options.cf.compaction_options_fifo = FifoOptions::default();
    options.cf.ttl = ttl_seconds;
    options
}

#[derive(Default)]
struct Reasons(Mutex<Vec<CompactionReason>>);

impl EventListener for Reasons {
    fn on_compaction_completed(&self, info: &CompactionJobInfo) {
        self.0.lock().push(info.compaction_reason);
    }
}

fn one_file(db: &Db, number: usize) -> u64 {
    fill(db, number * 10..number * 10 + 10, "value");
    flush(db);
    wall_seconds()
}

fn files(db: &Db) -> usize {
    db.live_files_metadata().len()
}

/// Sleeps until the wall clock shows `seconds`.
fn sleep_until(seconds: u64) {
    sleep(Duration::from_secs(seconds.saturating_sub(wall_seconds())));
}

/// Without any call, every file is deleted when its own time is over, not before.
#[test]
fn files_go_one_by_one_from_a_database_at_rest() {
    simulate(|| {
        let (_, fs) = memory();
        let reasons = Arc::new(Reasons::default());
        let mut options = fifo(&fs, HOUR);
        let statistics = Arc::new(Statistics::new());
        options.db.statistics = Some(Arc::clone(&statistics));
        options.db.listeners = vec![Arc::clone(&reasons) as Arc<dyn EventListener>];
        let db = Db::open(&options, DIR).unwrap();
        let mut written = Vec::new();
        for number in 0..3 {
            written.push(one_file(&db, number));
            sleep(Duration::from_secs(1000));
        }
        for (gone, at) in written.iter().enumerate() {
            sleep_until(at + HOUR - 5);
            assert_eq!(files(&db), 3 - gone);
            sleep_until(at + HOUR + 5);
            assert_eq!(files(&db), 2 - gone);
        }
        assert_eq!(*reasons.0.lock(), [CompactionReason::FifoTtl; 3]);
        assert_eq!(statistics.ticker(Ticker::FifoTtlCompactions), 3);
        assert_eq!(statistics.ticker(Ticker::FifoMaxSizeCompactions), 0);
        // Now that nothing is left to wait for, a new file is watched again.
        let at = one_file(&db, 3);
        sleep_until(at + HOUR + 5);
        assert_eq!(files(&db), 0);
        db.close().unwrap();
    });
}

/// A time that was made shorter applies at once; one that was made longer too.
#[test]
fn the_time_can_change_while_the_database_is_at_rest() {
    simulate(|| {
        let (_, fs) = memory();
        let db = Db::open(&fifo(&fs, 10 * HOUR), DIR).unwrap();
        let ttl = |seconds: u64| {
            let family = db.default_column_family();
            db.set_options_cf(family, &[("ttl", &seconds.to_string())]).unwrap();
        };
        let first = one_file(&db, 0);
        sleep_until(first + HOUR);
        ttl(2 * HOUR);
        sleep_until(first + 2 * HOUR - 5);
        assert_eq!(files(&db), 1);
        ttl(3 * HOUR);
        sleep_until(first + 3 * HOUR - 5);
        assert_eq!(files(&db), 1);
        sleep_until(first + 3 * HOUR + 5);
        assert_eq!(files(&db), 0);
        // Without a limit files are never deleted.
        ttl(0);
        let second = one_file(&db, 1);
        sleep_until(second + 15 * HOUR);
        assert_eq!(files(&db), 1);
        // Files that are too old already are deleted at once.
        ttl(HOUR);
        sleep(Duration::from_secs(5));
        assert_eq!(files(&db), 0);
        db.close().unwrap();
    });
}

/// Files are rewritten with the temperature of their age, one by one, and are no younger for that.
#[test]
fn files_change_their_temperature_in_a_database_at_rest() {
    simulate(|| {
        let (_, fs) = memory();
        let reasons = Arc::new(Reasons::default());
        let mut options = fifo(&fs, 10 * HOUR);
        options.cf.num_levels = 1;
        let ages = "{{age=3600;temperature=kWarm}:{age=10800;temperature=kCold}}";
        let member = "compaction_options_fifo.file_temperature_age_thresholds";
        options.cf.set(member, ages).unwrap();
        let statistics = Arc::new(Statistics::new());
        options.db.statistics = Some(Arc::clone(&statistics));
        options.db.listeners = vec![Arc::clone(&reasons) as Arc<dyn EventListener>];
        let db = Db::open(&options, DIR).unwrap();
        let mut written = Vec::new();
        for number in 0..3 {
            written.push(one_file(&db, number));
            sleep(Duration::from_secs(1000));
        }
        let temperatures = |db: &Db| {
            let mut files = db.live_files_metadata();
            files.sort_by_key(|file| file.epoch_number);
            files.iter().map(|file| file.temperature).collect::<Vec<_>>()
        };
        let entries = crate::common::contents(&db);
        for (age, from, to) in [(HOUR, 0, 8), (3 * HOUR, 8, 12)] {
            for (done, at) in written.iter().enumerate() {
                let state = |done: usize| [vec![to; done], vec![from; 3 - done]].concat();
                sleep_until(at + age - 5);
                assert_eq!(temperatures(&db), state(done), "after {age}");
                sleep_until(at + age + 5);
                assert_eq!(temperatures(&db), state(done + 1), "after {age}");
            }
        }
        assert_eq!(crate::common::contents(&db), entries);
        assert_eq!(*reasons.0.lock(), [CompactionReason::ChangeTemperature; 6]);
        assert_eq!(statistics.ticker(Ticker::FifoChangeTemperatureCompactions), 6);
        db.close().unwrap();
        let db = Db::open(&options, DIR).unwrap();
        assert_eq!(temperatures(&db), [12; 3]);
        // Their tables are open: they say how old the entries are.
        assert_eq!(crate::common::contents(&db), entries);
        let warm = "{file_temperature_age_thresholds={age=60;temperature=kIce}}";
        db.set_options(&[("compaction_options_fifo", warm)]).unwrap();
        sleep(Duration::from_secs(5));
        assert_eq!(temperatures(&db), [16; 3]);
        // An age without a temperature takes it away, whatever others are written with.
        db.set_options(&[
            ("default_write_temperature", "kHot"),
            ("compaction_options_fifo", "{file_temperature_age_thresholds={age=60}}"),
        ])
        .unwrap();
        sleep(Duration::from_secs(5));
        assert_eq!(temperatures(&db), [0; 3]);
        for (gone, at) in written.iter().enumerate() {
            sleep_until(at + 10 * HOUR - 5);
            assert_eq!(files(&db), 3 - gone);
            sleep_until(at + 10 * HOUR + 5);
            assert_eq!(files(&db), 2 - gone);
        }
        db.close().unwrap();
    });
}

/// Age is by the wall clock, which may be set.
#[test]
fn a_wall_clock_that_is_set_is_noticed() {
    simulate(|| {
        let (_, fs) = memory();
        let db = Db::open(&fifo(&fs, 10 * HOUR), DIR).unwrap();
        one_file(&db, 0);
        sleep(Duration::from_secs(60));
        sim::jump_wall_clock(11 * HOUR as i64 * 1_000_000_000);
        sleep(Duration::from_secs(660));
        assert_eq!(files(&db), 0);
        db.close().unwrap();
    });
}

/// Files that got too old while the database was closed are deleted by the open; those that get too
/// old later are watched from then on. Other column families have times of their own.
#[test]
fn an_opened_database_goes_on() {
    simulate(|| {
        let (_, fs) = memory();
        let db = Db::open(&fifo(&fs, HOUR), DIR).unwrap();
        one_file(&db, 0);
        sleep(Duration::from_secs(HOUR / 2));
        let second = one_file(&db, 1);
        let other = db.create_column_family(&fifo(&fs, 3 * HOUR).cf, "other").unwrap();
        db.put_cf_opt(&WriteOptions::default(), &other, b"key", b"value").unwrap();
        db.flush_cfs_opt(&FlushOptions::default(), &[&other]).unwrap();
        db.close().unwrap();
        drop((other, db));
        sleep(Duration::from_secs(HOUR / 2 + 60));
        let families = [("default", HOUR), ("other", 3 * HOUR)]
            .map(|(name, ttl)| pumice::ColumnFamilyDescriptor::new(name, fifo(&fs, ttl).cf));
        let (db, _handles) = Db::open_cf(&fifo(&fs, HOUR).db, DIR, &families).unwrap();
        sleep(Duration::from_secs(5));
        assert_eq!(files(&db), 2);
        sleep_until(second + HOUR + 5);
        assert_eq!(files(&db), 1);
        sleep_until(second + 3 * HOUR + 60);
        assert_eq!(files(&db), 0);
        db.close().unwrap();
    });
}

/// Automatic compactions that are off stay off, and no job spins because of that.
#[test]
fn nothing_goes_while_automatic_compaction_is_off() {
    simulate(|| {
        let (_, fs) = memory();
        let mut options = fifo(&fs, HOUR);
        options.cf.disable_auto_compactions = true;
        let db = Db::open(&options, DIR).unwrap();
        let at = one_file(&db, 0);
        sleep_until(at + 5 * HOUR);
        assert_eq!(files(&db), 1);
        let on = [("disable_auto_compactions", "false")];
        db.set_options(&on).unwrap();
        sleep(Duration::from_secs(5));
        assert_eq!(files(&db), 0);
        db.close().unwrap();
    });
}
