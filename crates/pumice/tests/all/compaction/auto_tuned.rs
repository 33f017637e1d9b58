//! Auto-tuned compaction, guarded and as the seed had it, in virtual time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::common::{DIR, flush, key, memory, options};
use pumice::options::{BackgroundPolicy, BackgroundPriority};
use pumice::stats::listener::{CompactionJobInfo, FlushJobInfo};
use pumice::{
    Db, EventListener, FlushOptions, MemFs, Options, RateLimiter, RateLimiterOptions, Statistics,
    Ticker, WriteOptions,
};
use pumice_env::filename::{self, FileType};
use pumice_port::thread::sleep;
use pumice_port::time::now_micros;
use pumice_port::{sim, thread};

fn simulate(test: fn()) {
    for seed in 0..3 {
        let (report, outcome) = sim::run(&sim::Options::new(seed), test);
        let stuck = report.stuck.map_or(String::new(), |stuck| stuck.to_string());
        assert!(outcome.is_ok(), "seed {seed}: {outcome:?}\n{stuck}");
    }
}

/// A limiter of 1 MB/s with refills of 10 ms, so that the rule looks once a second.
fn tuned(policy: BackgroundPolicy) -> Options {
    let mut options = options(&MemFs::new(7).shared());
    let settings =
        RateLimiterOptions { refill_period_us: 10_000, ..RateLimiterOptions::new(1_000_000) };
    options.db.rate_limiter = Some(Arc::new(RateLimiter::new(&settings).unwrap()));
    options.db.statistics = Some(Arc::new(Statistics::new()));
    options.db.background_policy = policy;
    options.cf.auto_tuned_compaction = policy != BackgroundPolicy::SeedRule;
    options.cf.compression = pumice::CompressionType::None;
    options.cf.write_buffer_size = 128 << 10;
    options.cf.level0_file_num_compaction_trigger = 4;
    options.cf.level0_slowdown_writes_trigger = 20;
    options.cf.level0_stop_writes_trigger = 36;
    options
}

/// Writes as fast as the database allows.
fn load(db: &Db, seconds: u64) {
    let until = now_micros() + seconds * 1_000_000;
    let mut n = 0;
    while now_micros() < until {
        db.put_opt(&WriteOptions::default(), &key(n % 1000), &[b'v'; 1000]).unwrap();
        n += 1;
    }
}

fn l0_files(db: &Db) -> u64 {
    db.property("rocksdb.num-files-at-level0").unwrap().parse().unwrap()
}

fn ticker(options: &Options, ticker: Ticker) -> u64 {
    options.db.statistics.as_ref().unwrap().ticker(ticker)
}

/// The policies under which a family may be guarded.
const GUARDED: [BackgroundPolicy; 2] = [BackgroundPolicy::Static, BackgroundPolicy::Adaptive];

// Plain #[test]: a simulation is a runtime of its own.
#[test]
fn compaction_makes_way_for_flushes_and_comes_back_by_itself() {
    simulate(|| GUARDED.into_iter().for_each(makes_way));
}

fn makes_way(policy: BackgroundPolicy) {
    let options = tuned(policy);
    let db = Db::open(&options, DIR).unwrap();
    load(&db, 2);
    assert!(ticker(&options, Ticker::CompactionDisabledCount) > 0, "{policy:?}");
    assert!(l0_files(&db) > 6, "{policy:?}: {} files", l0_files(&db));
    let compacted = ticker(&options, Ticker::CompactWriteBytes);
    // Nothing is written, so no request evaluates the rule; the timer does.
    sleep(Duration::from_secs(10));
    assert!(l0_files(&db) < 4, "{policy:?}: {} files", l0_files(&db));
    assert!(ticker(&options, Ticker::CompactWriteBytes) > compacted);
    db.close().unwrap();
}

/// For any length of load the thresholds stay on, and the slowed writes bring compaction back.
// Plain #[test]: a simulation is a runtime of its own.
#[test]
fn a_guarded_family_never_goes_beyond_its_thresholds() {
    simulate(|| GUARDED.into_iter().for_each(stays_below_its_thresholds));
}

fn stays_below_its_thresholds(policy: BackgroundPolicy) {
    let options = tuned(policy);
    let db = Db::open(&options, DIR).unwrap();
    let most = thread::scope(|scope| {
        let writer = scope.spawn(|| load(&db, 60));
        let mut most = 0;
        while !writer.is_finished() {
            most = most.max(l0_files(&db));
            sleep(Duration::from_millis(20));
        }
        most
    });
    assert!(ticker(&options, Ticker::CompactionDisabledCount) > 0, "{policy:?}");
    assert!((10..=36).contains(&most), "{policy:?}: {most} files in L0");
    assert!(ticker(&options, Ticker::CompactWriteBytes) > 1_000_000, "{policy:?}");
    db.close().unwrap();
}

/// As the original: no thresholds while compaction is off, and nothing brings it back at rest.
// Plain #[test]: a simulation is a runtime of its own.
#[test]
fn the_seed_rule_has_no_thresholds_and_no_timer() {
    simulate(|| {
        let options = tuned(BackgroundPolicy::SeedRule);
        let db = Db::open(&options, DIR).unwrap();
        load(&db, 12);
        assert!(ticker(&options, Ticker::CompactionDisabledCount) >= 5);
        assert!(l0_files(&db) > 40, "{} files: beyond the stop", l0_files(&db));
        assert_eq!(db.property("rocksdb.is-write-stopped").as_deref(), Some("0"));
        let files = l0_files(&db);
        sleep(Duration::from_secs(100));
        assert!(l0_files(&db) >= files, "{} files", l0_files(&db));
        // Work that never waits for a refill does not count as work for the rule.
        db.put_opt(&WriteOptions::default(), b"k", b"v").unwrap();
        flush(&db);
        assert!(l0_files(&db) > files, "{} files", l0_files(&db));
        // A little work: the rule enables, and the next version schedules.
        for _ in 0..5 {
            for n in 0..50 {
                db.put_opt(&WriteOptions::default(), &key(n), &[b'v'; 1000]).unwrap();
            }
            flush(&db);
            sleep(Duration::from_secs(2));
        }
        sleep(Duration::from_secs(60));
        assert!(l0_files(&db) < 8, "{} files", l0_files(&db));
        db.close().unwrap();
    });
}

// Plain #[test]: a simulation is a runtime of its own.
#[test]
fn policies_and_tuning_change_at_run_time() {
    simulate(|| {
        let options = tuned(BackgroundPolicy::SeedRule);
        let db = Db::open(&options, DIR).unwrap();
        load(&db, 4);
        let files = l0_files(&db);
        assert!(files > 20, "{files} files");
        db.set_db_options(&[("background_policy", "static")]).unwrap();
        sleep(Duration::from_secs(20));
        assert!(l0_files(&db) < 4, "{} files", l0_files(&db));
        // When the rule looks, flushes must be alone: a waiting compaction drains in their place.
        let late =
            [("level0_file_num_compaction_trigger", "14"), ("auto_tuned_compaction", "true")];
        db.set_options(&late).unwrap();
        let before = ticker(&options, Ticker::CompactionDisabledCount);
        load(&db, 3);
        assert!(ticker(&options, Ticker::CompactionDisabledCount) > before);
        assert!(l0_files(&db) > 14, "{} files", l0_files(&db));
        let off = [("auto_tuned_compaction", "false")];
        db.set_options(&off).unwrap();
        db.wait_for_compact(&Default::default()).unwrap();
        assert!(l0_files(&db) < 14, "{} files", l0_files(&db));
        // Deferred while it is closed.
        db.set_options(&[("auto_tuned_compaction", "true")]).unwrap();
        load(&db, 2);
        db.close().unwrap();
    });
}

/// While a family called other is flushed, nothing else is for a long time.
#[derive(Default)]
struct SlowFlush {
    on: AtomicBool,
    compactions: AtomicU64,
}

impl EventListener for SlowFlush {
    fn on_flush_begin(&self, info: &FlushJobInfo) {
        if info.cf_name == "other" && self.on.load(Ordering::Relaxed) {
            sleep(Duration::from_secs(5));
        }
    }
    fn on_compaction_begin(&self, _: &CompactionJobInfo) {
        self.compactions.fetch_add(1, Ordering::Relaxed);
    }
}

/// The stall begins with a flush whose job continues with something else.
// Plain #[test]: a simulation is a runtime of its own.
#[test]
fn compaction_comes_back_as_soon_as_writes_are_slowed() {
    simulate(|| {
        let mut options = tuned(BackgroundPolicy::Static);
        let settings = RateLimiterOptions::new(1_000_000); // A look in ten seconds.
        options.db.rate_limiter = Some(Arc::new(RateLimiter::new(&settings).unwrap()));
        options.cf.level0_file_num_compaction_trigger = 900;
        options.cf.level0_slowdown_writes_trigger = 900;
        options.cf.level0_stop_writes_trigger = 1000;
        let listener = Arc::new(SlowFlush::default());
        options.db.listeners = vec![Arc::clone(&listener) as Arc<dyn EventListener>];
        let db = Db::open(&options, DIR).unwrap();
        let other = db.create_column_family(&Default::default(), "other").unwrap();
        load(&db, 15);
        assert!(ticker(&options, Ticker::CompactionDisabledCount) > 0);
        flush(&db);
        let files = l0_files(&db);
        assert!(files > 6, "{files} files");
        let next = (files + 1).to_string();
        let slow = [
            ("level0_file_num_compaction_trigger", "4"),
            ("level0_slowdown_writes_trigger", next.as_str()),
        ];
        db.set_options(&slow).unwrap();
        listener.on.store(true, Ordering::Relaxed);
        let before = listener.compactions.load(Ordering::Relaxed);
        let families = [db.default_column_family(), &other];
        families.iter().for_each(|cf| {
            db.put_cf_opt(&WriteOptions::default(), cf, b"k", b"v").unwrap();
        });
        let at_once =
            FlushOptions { wait: false, allow_write_stall: true, ..FlushOptions::default() };
        db.flush_cfs_opt(&at_once, &families).unwrap();
        sleep(Duration::from_secs(1));
        assert!(l0_files(&db) > files || listener.compactions.load(Ordering::Relaxed) > before);
        assert!(listener.compactions.load(Ordering::Relaxed) > before, "deferred on");
        listener.on.store(false, Ordering::Relaxed);
        db.close().unwrap();
    });
}

/// The rule's earlier decision does not count once it has been off; and while it defers
/// compactions, none counts as lagging, so low-priority writes are not held up.
// Plain #[test]: a simulation is a runtime of its own.
#[test]
fn the_seed_rule_forgets_its_verdict_when_it_is_turned_off() {
    simulate(|| {
        let mut options = tuned(BackgroundPolicy::SeedRule);
        options.cf.auto_tuned_compaction = true;
        let db = Db::open(&options, DIR).unwrap();
        load(&db, 4);
        assert!(l0_files(&db) > 20, "{} files", l0_files(&db));
        let started = now_micros();
        let low = WriteOptions { low_pri: true, ..WriteOptions::default() };
        db.put_opt(&low, &key(0), &[b'v'; 10_000]).unwrap();
        assert!(now_micros() - started < 1000, "{} us", now_micros() - started);
        db.set_db_options(&[("background_policy", "static")]).unwrap();
        sleep(Duration::from_secs(20));
        assert!(l0_files(&db) < 4, "{} files", l0_files(&db));
        db.set_db_options(&[("background_policy", "seed_rule")]).unwrap();
        for n in 0..8 {
            db.put_opt(&WriteOptions::default(), &key(n), b"v").unwrap();
            flush(&db);
        }
        sleep(Duration::from_secs(1));
        assert!(l0_files(&db) < 8, "{} files", l0_files(&db));
        db.close().unwrap();
    });
}

#[pumice_test_macros::test]
fn what_cannot_be_tuned_is_refused() {
    let (_fs, fs) = memory();
    let mut options = options(&fs);
    options.cf.auto_tuned_compaction = true;
    let refused = |error: pumice::Error| {
        assert!(error.to_string().contains("auto_tuned_compaction: needs a rate_limiter"));
    };
    refused(Db::open(&options, DIR).err().unwrap());
    let tuned = std::mem::take(&mut options.cf);
    let db = Db::open(&options, DIR).unwrap();
    refused(db.set_options(&[("auto_tuned_compaction", "true")]).unwrap_err());
    refused(db.create_column_family(&tuned, "x").err().unwrap());
    let error = db.set_db_options(&[("background_policy", "nosuch")]).unwrap_err().to_string();
    assert!(error.contains("background_policy"), "{error}");
    db.close().unwrap();
}

/// RocksDB would refuse to load them.
#[pumice_test_macros::test]
fn options_that_rocksdb_does_not_know_are_not_in_its_file() {
    let mut options = tuned(BackgroundPolicy::SeedRule);
    options.db.background_cpu_priority = BackgroundPriority::Low;
    options.db.read_latency_target_micros = 5000;
    let fs = Arc::clone(&options.db.file_system);
    let db = Db::open(&options, DIR).unwrap();
    db.set_db_options(&[("background_io_priority", "idle")]).unwrap();
    db.set_options(&[("auto_tuned_compaction", "true")]).unwrap();
    db.close().unwrap();
    let names = fs.list(DIR.as_ref()).unwrap();
    let is_options =
        |n: &&String| filename::parse(n).is_some_and(|(_, kind)| kind == FileType::Options);
    let newest = names.iter().filter(is_options).max().unwrap();
    let text = fs.read_file(&std::path::Path::new(DIR).join(newest)).unwrap();
    let text = String::from_utf8(text).unwrap();
    for name in [
        "auto_tuned_compaction",
        "background_policy",
        "background_cpu_priority",
        "background_io_priority",
        "read_latency_target_micros",
        "rate_limiter",
    ] {
        assert!(!text.contains(name), "{name}");
    }
    assert!(text.contains("disable_auto_compactions=false"), "the deferral is not an option");
}
