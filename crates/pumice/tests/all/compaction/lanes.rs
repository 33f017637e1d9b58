//! Lanes of a database: which jobs compute at which priority, what is never lowered, and what is
//! reported.
//!
//! Priorities are read back from the kernel, of the threads that compute (a merge operator notes
//! them). The privilege to raise them is not needed: no test raises a running thread.

use std::sync::Arc;
use std::time::Duration;

use crate::common::probe::Probe;
use crate::common::{self, DIR, fill, flush, memory, options};
use pumice::options::{BackgroundPolicy, BackgroundPriority};
use pumice::stats::listener::{CompactionJobInfo, FlushJobInfo};
use pumice::{
    CompactRangeOptions, CompactionFilter, Db, EventListener, FilterDecision, Options, RateLimiter,
    RateLimiterMode, RateLimiterOptions, Statistics, WaitForCompactOptions,
};
use pumice_port::os::{self, ThreadPriority};
use pumice_port::sync::{Mutex, Semaphore};
use pumice_port::thread;

/// Merges in files: the next compaction computes.
fn prepare(probe: &Probe, db: &Db) {
    probe.write(db);
    fill(db, 0..1000, "value");
    flush(db);
    probe.append(db);
    fill(db, 0..1000, "other");
    flush(db);
}

fn compact(db: &Db) {
    db.compact_range(&CompactRangeOptions::default(), None, None).unwrap();
}

/// What a flush and then a compaction compute at.
fn work(probe: &Probe, db: &Db) -> [ThreadPriority; 2] {
    prepare(probe, db);
    let (_, flushed) = probe.seen();
    compact(db);
    [flushed, probe.seen().1]
}

fn low(options: &mut Options) {
    options.db.background_cpu_priority = BackgroundPriority::Low;
    options.db.background_io_priority = BackgroundPriority::Low;
}

/// The priorities of the threads that install flushes and compactions.
#[derive(Default)]
struct Installers(Mutex<Vec<ThreadPriority>>);

impl EventListener for Installers {
    fn on_flush_completed(&self, _: &FlushJobInfo) {
        self.0.lock().push(os::thread_priority());
    }
    fn on_compaction_completed(&self, _: &CompactionJobInfo) {
        self.0.lock().push(os::thread_priority());
    }
}

// Plain #[test]: priorities are those of operating-system threads.
#[test]
fn only_compactions_that_can_wait_are_lowered() {
    let normal = os::thread_priority();
    let (_fs, fs) = memory();
    let mut options = options(&fs);
    let installers = Arc::new(Installers::default());
    options.db.listeners = vec![Arc::clone(&installers) as Arc<dyn EventListener>];
    options.cf.disable_auto_compactions = true;
    // The threshold that delays writes is RocksDB's.
    options.db.background_policy = BackgroundPolicy::Static;
    options.cf.level0_slowdown_writes_trigger = 4;
    options.db.max_background_jobs = 8;
    let probe = Probe::of(&mut options);
    let db = Db::open(&options, DIR).unwrap();
    assert_eq!(work(&probe, &db), [normal, normal]);
    let set = |cpu, io| {
        let changes = [("background_cpu_priority", cpu), ("background_io_priority", io)];
        db.set_db_options(&changes).unwrap();
    };
    set("low", "low");
    let [flushed, compacted] = work(&probe, &db);
    assert_eq!((flushed, compacted.nice()), (normal, 19));
    assert_eq!(compacted.io_name(), "best-effort/7");
    set("idle", "idle");
    let [flushed, compacted] = work(&probe, &db);
    assert_eq!(flushed, normal);
    assert!(compacted.is_idle_policy() && compacted.is_idle_io());
    // Three files of four that slow writes: 0.75.
    prepare(&probe, &db);
    fill(&db, 0..10, "more");
    flush(&db);
    probe.forget();
    compact(&db);
    assert_eq!(probe.seen().1, normal, "urgent");
    // Writes are slowed, if only because of another family, as long as its compaction takes.
    let gate = Gate::new();
    options.cf.disable_auto_compactions = false;
    options.cf.compaction_filter = Some(Arc::clone(&gate) as Arc<dyn CompactionFilter>);
    let other = db.create_column_family(&options.cf, "other").unwrap();
    for _ in 0..4 {
        db.put_cf_opt(&Default::default(), &other, HELD, b"value").unwrap();
        db.flush_cfs_opt(&Default::default(), &[&other]).unwrap();
    }
    gate.came.acquire(1);
    assert_ne!(db.property_int("rocksdb.actual-delayed-write-rate"), Some(0));
    assert_eq!(work(&probe, &db), [normal, normal], "all jobs, while writes are delayed");
    gate.go.release(1000);
    db.wait_for_compact(&WaitForCompactOptions::default()).unwrap();
    let [flushed, compacted] = work(&probe, &db);
    assert!(flushed == normal && compacted.is_idle_policy());
    set("normal", "normal");
    assert_eq!(work(&probe, &db), [normal, normal]);
    db.close().unwrap();
    let installers = installers.0.lock().clone();
    assert!(installers.len() > 20, "{}", installers.len());
    assert!(installers.iter().all(|priority| *priority == normal), "{installers:?}");
}

/// The share of the processors wanted for compactions out of L0.
fn wanted_share(db: &Db) -> f64 {
    db.property_map("rocksdb.background-lanes").unwrap()["level0.wanted-share"].parse().unwrap()
}

#[test] // Priorities are those of operating-system threads.
fn compactions_out_of_l0_that_cost_little_are_not_lowered() {
    let normal = os::thread_priority();
    let (_fs, fs) = memory();
    let mut options = options(&fs);
    low(&mut options);
    options.cf.level0_file_num_compaction_trigger = 2;
    options.db.max_background_jobs = 8;
    let probe = Probe::of(&mut options);
    let db = Db::open(&options, DIR).unwrap();
    let flushed_twice = || {
        for value in ["value", "other"] {
            probe.append(&db);
            fill(&db, 0..1000, value);
            flush(&db);
            // Flushes in less than a quarter of a second are one, and one has no rate.
            thread::sleep(Duration::from_millis(300));
        }
        db.wait_for_compact(&WaitForCompactOptions::default()).unwrap();
        probe.seen().1
    };
    // What a byte costs is not known yet; then it is, and it is little.
    assert_eq!(wanted_share(&db), 0.0);
    assert_eq!(flushed_twice(), normal);
    let map = db.property_map("rocksdb.background-lanes").unwrap();
    assert_eq!(map["deferred.jobs"], "0");
    // Two rounds: the rate is counted from the first of several flushes.
    flushed_twice();
    assert!(wanted_share(&db) > 0.0);
    // Manual ones are lowered all the same.
    db.set_options(&[("disable_auto_compactions", "true")]).unwrap();
    prepare(&probe, &db);
    compact(&db);
    assert_eq!(probe.seen().1.nice(), 19);
    db.close().unwrap();
}

/// The key at which a [`Gate`] stops.
const HELD: &[u8] = b"key000500";

/// Stops a compaction in the middle.
struct Gate {
    came: Semaphore,
    go: Semaphore,
    thread: Mutex<u64>,
}

impl Gate {
    fn new() -> Arc<Self> {
        let (came, go) = (Semaphore::new(0), Semaphore::new(0));
        Arc::new(Gate { came, go, thread: Mutex::default() })
    }
}

impl CompactionFilter for Gate {
    fn name(&self) -> &str {
        "gate"
    }
    fn filter(&self, _: i32, key: &[u8], _: &[u8]) -> FilterDecision {
        if key == HELD {
            *self.thread.lock() = os::thread_id();
            self.came.release(1);
            self.go.acquire(1);
        }
        FilterDecision::Keep
    }
}

// Plain #[test]: priorities are those of operating-system threads.
#[test]
fn a_running_compaction_follows_at_once_and_the_property_tells() {
    let normal = os::thread_priority();
    let (_fs, fs) = memory();
    let mut options = options(&fs);
    options.cf.disable_auto_compactions = true;
    let gate =
        Arc::new(Gate { came: Semaphore::new(0), go: Semaphore::new(0), thread: Mutex::default() });
    options.cf.compaction_filter = Some(Arc::clone(&gate) as Arc<dyn CompactionFilter>);
    let db = Db::open(&options, DIR).unwrap();
    for value in ["value", "other"] {
        fill(&db, 0..1000, value);
        flush(&db);
    }
    let handle = db.clone();
    let compacting = thread::spawn("compact", move || compact(&handle));
    gate.came.acquire(1);
    let thread = *gate.thread.lock();
    let now = || os::thread_priority_of(thread).unwrap();
    let property = |what: &str| {
        let map = db.property_map("rocksdb.background-lanes").unwrap();
        map[&format!("deferred.{what}")].clone()
    };
    assert_eq!(now(), normal);
    assert_eq!((property("threads"), property("nice")), ("1".into(), normal.nice().to_string()));
    db.set_db_options(&[("background_cpu_priority", "low")]).unwrap();
    assert_eq!((now().nice(), now().io_name()), (19, normal.io_name()));
    db.set_db_options(&[("background_io_priority", "idle")]).unwrap();
    assert!(now().nice() == 19 && now().is_idle_io());
    assert_eq!((property("nice"), property("ioprio")), ("19".into(), "idle".into()));
    db.set_db_options(&[("background_cpu_priority", "idle")]).unwrap();
    assert!(now().is_idle_policy());
    assert_eq!(
        (property("policy"), property("cpu-priority")),
        ("SCHED_IDLE".into(), "idle".into())
    );
    let text = db.property("rocksdb.background-lanes").unwrap();
    assert!(text.contains(&format!("thread {thread} of lane deferred: nice ")), "{text}");
    gate.go.release(1000);
    compacting.join().unwrap();
    assert_eq!((property("threads"), property("refused")), ("0".into(), "0".into()));
    assert!(property("jobs").parse::<u64>().unwrap() >= 1);
    assert!(property("cpu-nanos").parse::<u64>().unwrap() > 0);
    let map = db.property_map("rocksdb.background-lanes").unwrap();
    assert_eq!(
        (map["normal.nice"].as_str(), map["normal.jobs"].as_str()),
        (&*normal.nice().to_string(), "2")
    );
    let error = db.set_db_options(&[("background_cpu_priority", "high")]).unwrap_err();
    assert!(error.to_string().contains("background_cpu_priority"), "{error}");
    db.close().unwrap();
}

/// Compactions, subcompactions and helpers at low priority over all that has locks of readers and
/// writers: a limiter that paces, few open tables, statistics. The debug build's locks watch.
#[test] // Priorities are those of operating-system threads.
fn lowered_compactions_take_no_lock_of_the_foreground() {
    pumice_port::lane::watch_locks();
    let (_fs, fs) = memory();
    let mut options = options(&fs);
    low(&mut options);
    options.cf.write_buffer_size = 64 << 10;
    options.cf.target_file_size_base = 64 << 10;
    options.cf.max_bytes_for_level_base = 256 << 10;
    options.cf.compression_opts.parallel_threads = 3;
    options.db.max_subcompactions = 3;
    options.db.max_open_files = 20;
    options.db.statistics = Some(Arc::new(Statistics::new()));
    let mode = RateLimiterMode::AllIo;
    let limiter = RateLimiterOptions { mode, ..RateLimiterOptions::new(64 << 20) };
    options.db.rate_limiter = Some(Arc::new(RateLimiter::new(&limiter).unwrap()));
    let db = Db::open(&options, DIR).unwrap();
    for round in 0..20 {
        fill(&db, 0..2000, &format!("{round:0200}"));
        // Manual ones are lowered whatever they cost.
        compact(&db);
    }
    assert_eq!(common::contents(&db).len(), 2000);
    let map = db.property_map("rocksdb.background-lanes").unwrap();
    assert_ne!(map["deferred.jobs"], "0");
    assert_eq!(db.property_int("rocksdb.background-errors"), Some(0));
    db.close().unwrap();
}
