//! The adaptive policy in a database, in virtual time: a rate limiter is the device.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::common::{DIR, key, options};
use pumice::options::BackgroundPolicy;
use pumice::{
    Db, IoPriority, MemFs, MergeOperator, Options, RateLimiter, RateLimiterOptions, ReadOptions,
    Statistics, WriteOptions,
};
use pumice_port::thread::sleep;
use pumice_port::time::now_micros;
use pumice_port::{sim, thread};
use pumice_testkit::seed;

const MEGABYTE: u64 = 1 << 20;

fn simulate(seeds: u64, test: impl Fn() + Clone + Send + 'static) {
    for seed in seed::range(seeds) {
        let (report, outcome) = sim::run(&sim::Options::new(seed), test.clone());
        let stuck = report.stuck.map_or(String::new(), |stuck| stuck.to_string());
        assert!(outcome.is_ok(), "seed {seed}: {outcome:?}\n{stuck}");
    }
}

/// Small memtables on a device that takes 2 MB/s.
fn on_a_slow_device(policy: BackgroundPolicy) -> Options {
    let mut options = options(&MemFs::new(7).shared());
    let settings =
        RateLimiterOptions { refill_period_us: 10_000, ..RateLimiterOptions::new(2_000_000) };
    options.db.rate_limiter = Some(Arc::new(RateLimiter::new(&settings).unwrap()));
    options.db.statistics = Some(Arc::new(Statistics::new()));
    options.db.background_policy = policy;
    options.db.max_background_jobs = 4;
    options.db.writable_file_max_buffer_size = 16 << 10;
    options.cf.compression = pumice::CompressionType::None;
    options.cf.write_buffer_size = 128 << 10;
    options.cf.max_write_buffer_number = 4;
    options.cf.max_bytes_for_level_base = MEGABYTE;
    options.cf.target_file_size_base = 128 << 10;
    options.cf.soft_pending_compaction_bytes_limit = 8 * MEGABYTE;
    options.cf.hard_pending_compaction_bytes_limit = 24 * MEGABYTE;
    options
}

/// The result of a load.
#[derive(Debug, Default)]
struct Course {
    /// User bytes of each second.
    by_second: Vec<u64>,
    /// Samples, a tenth of a second apart, at which writes were stopped.
    stopped: u64,
    max_l0: u64,
    max_debt: u64,
    slowest_write_micros: u64,
}

fn number(db: &Db, name: &str) -> u64 {
    db.property(name).unwrap().parse().unwrap()
}

/// Writes 5 MB/s, or as fast as the database allows, for `seconds`.
fn course(db: &Db, seconds: u64) -> Course {
    let until = now_micros() + seconds * 1_000_000;
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let (mut by_second, mut slowest) = (vec![0; seconds as usize + 1], 0);
            let began = now_micros();
            let mut rng = pumice_base::random::Rng::new(3);
            while now_micros() < until {
                let before = now_micros();
                let value = [b'v'; 1000];
                db.put_opt(&WriteOptions::default(), &key(rng.uniform(20_000) as usize), &value)
                    .unwrap();
                // Virtual time passes in waits only: a writer of 5 MB/s at most.
                sleep(Duration::from_micros(200));
                let after = now_micros();
                slowest = slowest.max(after - before);
                let second = ((after - began) / 1_000_000).min(seconds) as usize;
                by_second[second] += 1016;
            }
            (by_second, slowest)
        });
        let mut course = Course::default();
        while !writer.is_finished() {
            sleep(Duration::from_millis(100));
            course.stopped += number(db, "rocksdb.is-write-stopped");
            course.max_l0 = course.max_l0.max(number(db, "rocksdb.num-files-at-level0"));
            let debt = number(db, "rocksdb.estimate-pending-compaction-bytes");
            course.max_debt = course.max_debt.max(debt);
        }
        (course.by_second, course.slowest_write_micros) = writer.join().unwrap();
        course.by_second.pop();
        course
    })
}

// Plain #[test]: a simulation is a runtime of its own.
#[test]
fn a_lasting_peak_never_stops_writes() {
    simulate(3, || {
        let options = on_a_slow_device(BackgroundPolicy::Adaptive);
        let db = Db::open(&options, DIR).unwrap();
        let course = course(&db, 120);
        let settled = &course.by_second[40..];
        let mean = settled.iter().sum::<u64>() / settled.len() as u64;
        let worst = settled.windows(5).map(|w| w.iter().sum::<u64>() / 5).min().unwrap();
        assert_eq!(course.stopped, 0, "{course:?}");
        assert!(worst * 2 >= mean, "mean {mean}, worst window {worst}: {course:?}");
        assert!(course.max_l0 < 36 && course.max_debt < 24 * MEGABYTE, "{course:?}");
        db.close().unwrap();
    });
}

/// At any moment of a peak one line says what writes wait for, and since when.
// Plain #[test]: a simulation is a runtime of its own.
#[test]
fn the_controller_says_why_writes_are_slow() {
    simulate(2, || {
        let options = on_a_slow_device(BackgroundPolicy::Adaptive);
        let db = Db::open(&options, DIR).unwrap();
        let reports = thread::scope(|scope| {
            let load = scope.spawn(|| course(&db, 60));
            let mut reports = Vec::new();
            while !load.is_finished() {
                sleep(Duration::from_millis(500));
                reports.push(db.property("rocksdb.bg-controller").unwrap());
            }
            reports
        });
        // "writes are capped at 0.5 MB/s by files in L0 for 3.2 s: 1 memtables sealed, ..".
        let parse = |report: &String| {
            let line = report.lines().next()?.strip_prefix("writes are capped at ")?;
            let (rate, rest) = line.split_once(" MB/s by ")?;
            let (cause, rest) = rest.split_once(" for ")?;
            let seconds = rest.split_once(" s: ")?.0;
            let numbers = (rate.parse::<f64>().ok()?, seconds.parse::<f64>().ok()?);
            Some((cause.to_string(), numbers.0, numbers.1))
        };
        let capped: Vec<(String, f64, f64)> = reports[20..].iter().filter_map(parse).collect();
        assert!(capped.len() > 40, "{reports:?}");
        assert!(capped.iter().all(|(_, rate, _)| (0.05..5.0).contains(rate)), "{capped:?}");
        // While the cause is the same, it lasts longer each time.
        let grows = |pair: &[(String, f64, f64)]| {
            let ((before, _, from), (after, _, to)) = (&pair[0], &pair[1]);
            before == after && *to > from + 0.3
        };
        assert!(capped.windows(2).any(grows), "{capped:?}");
        // The ticks before follow, newest last.
        assert!(reports.last().unwrap().lines().count() > 10, "{reports:?}");
        db.close().unwrap();
    });
}

/// RocksDB's rules on the same device: shows that the test above would fail without a cap.
// Plain #[test]: a simulation is a runtime of its own.
#[test]
fn the_static_rules_let_go_of_the_load() {
    simulate(1, || {
        let options = on_a_slow_device(BackgroundPolicy::Static);
        let db = Db::open(&options, DIR).unwrap();
        let course = course(&db, 120);
        let settled = &course.by_second[40..];
        let mean = settled.iter().sum::<u64>() / settled.len() as u64;
        let worst = settled.windows(5).map(|w| w.iter().sum::<u64>() / 5).min().unwrap();
        assert!(course.stopped > 0 || worst * 2 < mean, "mean {mean}, {worst}: {course:?}");
        assert_eq!(
            db.property("rocksdb.bg-controller").unwrap(),
            "static: RocksDB's rules decide\n"
        );
        db.close().unwrap();
    });
}

/// A policy is set and reset during writes, and leaves no cap.
// Plain #[test]: a simulation is a runtime of its own.
#[test]
fn the_policy_changes_at_run_time() {
    simulate(2, || {
        let options = on_a_slow_device(BackgroundPolicy::Static);
        let db = Db::open(&options, DIR).unwrap();
        for policy in ["adaptive", "static", "seed_rule", "adaptive"] {
            db.set_db_options(&[("background_policy", policy)]).unwrap();
            course(&db, 6);
            let report = db.property("rocksdb.bg-controller").unwrap();
            assert_eq!(report.starts_with("writes are "), policy == "adaptive", "{report}");
        }
        db.set_db_options(&[("background_policy", "static")]).unwrap();
        sleep(Duration::from_secs(60));
        assert_eq!(number(&db, "rocksdb.actual-delayed-write-rate"), 0);
        let error = db.set_db_options(&[("background_policy", "drain_auto_tune")]).unwrap_err();
        assert!(error.to_string().contains("needs an auto-tuned rate_limiter"), "{error}");
        db.close().unwrap();
    });
}

/// Nothing ticks at rest, a cap does not delay a close, and a `no_slowdown` write gets an error.
// Plain #[test]: a simulation is a runtime of its own.
#[test]
fn a_capped_database_closes_at_once() {
    simulate(3, || {
        let options = on_a_slow_device(BackgroundPolicy::Adaptive);
        let db = Db::open(&options, DIR).unwrap();
        course(&db, 30);
        let write = WriteOptions { no_slowdown: true, ..WriteOptions::default() };
        let mut refused = 0;
        for n in 0..2000 {
            refused += u64::from(db.put_opt(&write, &key(n), &[b'w'; 1000]).is_err());
        }
        assert!(refused > 0, "nothing was slowed");
        let before = now_micros();
        db.close().unwrap();
        assert!(now_micros() - before < 5_000_000, "{} us", now_micros() - before);
    });
}

/// Sixteen writers get the same cap as one: those that queue after the paying writer pay too, and
/// memory keeps room for what they add at once.
// Plain #[test]: a simulation is a runtime of its own.
#[test]
fn many_writers_do_not_stop_themselves() {
    simulate(8, || {
        let options = on_a_slow_device(BackgroundPolicy::Adaptive);
        let db = Db::open(&options, DIR).unwrap();
        let until = now_micros() + 60_000_000;
        let mut looks = 0;
        thread::scope(|scope| {
            for writer in 0..16 {
                let db = &db;
                scope.spawn(move || {
                    let mut rng = pumice_base::random::Rng::new(writer);
                    while now_micros() < until {
                        let key = key(rng.uniform(20_000) as usize);
                        db.put_opt(&WriteOptions::default(), &key, &[b'v'; 1000]).unwrap();
                        sleep(Duration::from_micros(500));
                    }
                });
            }
            while now_micros() < until {
                sleep(Duration::from_millis(100));
                looks += number(&db, "rocksdb.is-write-stopped");
            }
        });
        let stalls = db.property("rocksdb.cf-write-stall-stats").unwrap();
        assert!(looks == 0 && stalls.contains("total-stops: 0"), "{looks} looks: {stalls}");
        db.close().unwrap();
    });
}

/// Compactions that lag under load do not count as lagging at rest: low-priority writes are not
/// held up.
// Plain #[test]: a simulation is a runtime of its own.
#[test]
fn nothing_is_behind_at_rest() {
    simulate(3, || {
        let options = on_a_slow_device(BackgroundPolicy::Adaptive);
        let db = Db::open(&options, DIR).unwrap();
        course(&db, 30);
        sleep(Duration::from_secs(120));
        let write = WriteOptions { low_pri: true, no_slowdown: true, ..WriteOptions::default() };
        db.put_opt(&write, b"key", b"value").unwrap();
        db.close().unwrap();
    });
}

/// The device has no space for a while: writes fail, recover by themselves, and are capped as
/// before.
// Plain #[test]: a simulation is a runtime of its own.
#[test]
fn writes_come_back_after_a_full_device() {
    simulate(2, || {
        let fs = MemFs::new(5);
        let mut options = on_a_slow_device(BackgroundPolicy::Adaptive);
        options.db.file_system = fs.shared();
        let db = Db::open(&options, DIR).unwrap();
        course(&db, 20);
        fs.set_quota(Some(1));
        let write = WriteOptions::default();
        let mut n = 0;
        while db.put_opt(&write, &key(n % 1000), &[b'v'; 1000]).is_ok() {
            n += 1;
            assert!(n < 100_000, "the device is not full");
        }
        fs.set_quota(None);
        sleep(Duration::from_secs(10));
        let course = course(&db, 60);
        let mean = course.by_second.iter().sum::<u64>() / 60;
        assert!(course.stopped == 0 && mean > 150_000, "mean {mean}: {course:?}");
        db.close().unwrap();
    });
}

/// Makes reads take a given time.
#[derive(Default)]
struct SlowRead(AtomicU64);

impl MergeOperator for SlowRead {
    fn name(&self) -> &str {
        "SlowRead"
    }
    fn full_merge(&self, _: &[u8], _: Option<&[u8]>, operands: &[&[u8]]) -> Option<Vec<u8>> {
        sleep(Duration::from_micros(self.0.load(Relaxed)));
        operands.last().map(|operand| operand.to_vec())
    }
}

/// A light load on a device whose reads are slow while compactions write more than three fifths of
/// its rate. Returns the share of slow reads in the last two of three minutes, and the debt at the
/// end.
fn slow_reads(target_micros: u64) -> (f64, u64) {
    let slow = Arc::new(SlowRead::default());
    let mut options = on_a_slow_device(BackgroundPolicy::Adaptive);
    let limiter = options.db.rate_limiter.clone().unwrap();
    options.db.read_latency_target_micros = target_micros;
    options.cf.merge_operator = Some(Arc::clone(&slow) as Arc<dyn MergeOperator>);
    let db = Db::open(&options, DIR).unwrap();
    let written = || {
        [IoPriority::Low, IoPriority::Mid]
            .map(|p| limiter.total_bytes_through(Some(p)))
            .iter()
            .sum()
    };
    let until = now_micros() + 180_000_000;
    let (mut reads, mut were_slow) = (0, 0);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut rng = pumice_base::random::Rng::new(3);
            while now_micros() < until {
                let key = key(rng.uniform(20_000) as usize);
                db.put_opt(&WriteOptions::default(), &key, &[b'v'; 1000]).unwrap();
                sleep(Duration::from_millis(15));
            }
        });
        scope.spawn(|| {
            while now_micros() < until {
                let before: u64 = written();
                sleep(Duration::from_millis(200));
                let is_busy = written() - before > 240_000;
                slow.0.store(if is_busy { 5_000 } else { 50 }, Relaxed);
            }
        });
        while now_micros() < until {
            db.merge_opt(&WriteOptions::default(), b"read", b"value").unwrap();
            let before = now_micros();
            db.get_opt(&ReadOptions::default(), b"read").unwrap().unwrap();
            if before + 120_000_000 > until {
                reads += 1;
                were_slow += u64::from(now_micros() - before > 1_000);
            }
            sleep(Duration::from_millis(9));
        }
    });
    let debt = number(&db, "rocksdb.estimate-pending-compaction-bytes");
    db.close().unwrap();
    (were_slow as f64 / reads as f64, debt)
}

/// While reads are slower than their target, compactions that can wait write less, and necessary
/// ones still run.
// Plain #[test]: a simulation is a runtime of its own.
#[test]
fn compactions_make_way_for_reads() {
    simulate(1, || {
        let (any, _) = slow_reads(0);
        let (aimed, debt) = slow_reads(1_000);
        println!("slow reads: {any:.3}, with a target {aimed:.3}; debt {debt}");
        assert!(any > 0.1 && aimed < any / 3.0, "{any} of the reads slow, with a target {aimed}");
        assert!(debt < 8 * MEGABYTE, "{debt} bytes are owed");
    });
}
