//! Many databases in one process: they share the pools of background threads, and none of them
//! keeps another waiting for longer than it has jobs of its own to wait for.
//!
//! What is counted is turns: flushes and compactions that began. `PUMICE_NEIGHBOURS=N` draws N
//! times as many lives (1).
//!
//! Plain #[test]: a simulation is a runtime of its own, with pools of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::common::{fill, flush, key, memory, options};
use pumice::stats::listener::{CompactionJobInfo, FlushJobInfo};
use pumice::{
    ColumnFamily, CompactRangeOptions, Db, EventListener, FileSystem, FlushOptions, Options,
    PoolPriority, ThreadPools, WaitForCompactOptions, WriteOptions,
};
use pumice_base::random::Rng;
use pumice_port::sync::{Mutex, Semaphore};
use pumice_port::{sim, thread};

/// In each of these crowds everything is tried.
const CROWDS: [usize; 3] = [2, 20, 200];

fn simulate(seed: u64, what: &str, body: impl FnOnce() + Send + 'static) {
    let limits = sim::Options {
        max_virtual_nanos: 3600 * 1_000_000_000,
        max_steps: 200_000_000,
        ..sim::Options::new(seed)
    };
    let (report, outcome) = sim::run(&limits, body);
    let stuck = report.stuck.map_or(String::new(), |stuck| stuck.to_string());
    assert!(outcome.is_ok(), "{what}, PUMICE_SEED={seed}: {outcome:?}\n{stuck}");
}

/// Who began a job, in order.
#[derive(Default)]
struct Turns {
    flushes: Mutex<Vec<usize>>,
    compactions: Mutex<Vec<usize>>,
    count: AtomicUsize,
}

impl Turns {
    fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }
}

/// The jobs of database number `.0`.
struct Of(usize, Arc<Turns>);

impl EventListener for Of {
    fn on_flush_begin(&self, _: &FlushJobInfo) {
        self.1.flushes.lock().push(self.0);
        self.1.count.fetch_add(1, Ordering::Relaxed);
    }
    fn on_compaction_begin(&self, _: &CompactionJobInfo) {
        self.1.compactions.lock().push(self.0);
        self.1.count.fetch_add(1, Ordering::Relaxed);
    }
}

fn options_of(fs: &Arc<dyn FileSystem>, number: usize, turns: &Arc<Turns>) -> Options {
    let mut options = options(fs);
    options.cf.level0_file_num_compaction_trigger = 2;
    options.cf.write_buffer_size = 64 << 10;
    options.cf.ttl = 0;
    options.db.stats_persist_period_sec = 0;
    options.db.stats_dump_period_sec = 0;
    options.db.listeners = vec![Arc::new(Of(number, Arc::clone(turns))) as Arc<dyn EventListener>];
    options
}

fn open(fs: &Arc<dyn FileSystem>, number: usize, turns: &Arc<Turns>) -> Db {
    Db::open(&options_of(fs, number, turns), format!("/db{number}")).unwrap()
}

/// All threads of a pool are busy until the semaphore has a permit for each.
fn occupy(priority: PoolPriority) -> Arc<Semaphore> {
    let pools = ThreadPools::shared();
    let (started, gate) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let threads = pools.background_threads(priority);
    for _ in 0..threads {
        let (started, gate) = (Arc::clone(&started), Arc::clone(&gate));
        let job = move || {
            started.release(1);
            gate.acquire(1);
        };
        pools.schedule(priority, "busy", Box::new(job));
    }
    started.acquire(threads);
    gate
}

/// As many families as there are turns to be unfair in.
fn families(db: &Db) -> Vec<ColumnFamily> {
    let options = db.column_family_options(db.default_column_family()).unwrap();
    (0..8).map(|n| db.create_column_family(&options, &format!("family{n}")).unwrap()).collect()
}

fn put_in(db: &Db, family: &ColumnFamily, n: usize) {
    db.put_cf_opt(&WriteOptions::default(), family, &key(n), b"value").unwrap();
}

/// The first of `crowd` databases was first and has most to do: it still begins one job only
/// before each of the others has begun one.
fn check_turns(begun: &[usize], crowd: usize) {
    let mut first: Vec<usize> = begun[..crowd].to_vec();
    first.sort_unstable();
    assert_eq!(first, (0..crowd).collect::<Vec<_>>(), "{begun:?}");
}

fn compactions_in_turn(crowd: usize) {
    let (_, fs) = memory();
    let turns = Arc::new(Turns::default());
    let dbs: Vec<Db> = (0..crowd).map(|number| open(&fs, number, &turns)).collect();
    let gate = occupy(PoolPriority::Low);
    let own = families(&dbs[0]);
    for _ in 0..2 {
        for family in &own {
            put_in(&dbs[0], family, 1);
            dbs[0].flush_cf_opt(&FlushOptions::default(), family).unwrap();
        }
    }
    for db in &dbs[1..] {
        for _ in 0..2 {
            fill(db, 0..2, "value");
            flush(db);
        }
    }
    assert_eq!(*turns.compactions.lock(), []);
    gate.release(1);
    for db in &dbs {
        db.wait_for_compact(&WaitForCompactOptions::default()).unwrap();
    }
    let begun = turns.compactions.lock().clone();
    check_turns(&begun, crowd);
    assert_eq!(begun.len(), crowd - 1 + own.len(), "{begun:?}");
}

// Plain #[test]: see the head.
#[test]
fn compactions_of_databases_take_turns() {
    for crowd in CROWDS {
        simulate(1, "compactions", move || compactions_in_turn(crowd));
    }
}

fn flushes_in_turn(crowd: usize) {
    let (_, fs) = memory();
    let turns = Arc::new(Turns::default());
    let dbs: Vec<Db> = (0..crowd).map(|number| open(&fs, number, &turns)).collect();
    let gate = occupy(PoolPriority::High);
    let request = FlushOptions { wait: false, allow_write_stall: true, ..FlushOptions::default() };
    let own = families(&dbs[0]);
    for family in &own {
        put_in(&dbs[0], family, 1);
        dbs[0].flush_cf_opt(&request, family).unwrap();
    }
    for db in &dbs[1..] {
        fill(db, 0..2, "value");
        db.flush_opt(&request).unwrap();
    }
    assert_eq!(*turns.flushes.lock(), []);
    gate.release(1);
    for db in &dbs {
        db.wait_for_compact(&WaitForCompactOptions::default()).unwrap();
    }
    let begun = turns.flushes.lock().clone();
    check_turns(&begun, crowd);
    assert_eq!(begun.len(), crowd - 1 + own.len(), "{begun:?}");
}

// Plain #[test]: see the head.
#[test]
fn flushes_of_databases_take_turns() {
    for crowd in CROWDS {
        simulate(1, "flushes", move || flushes_in_turn(crowd));
    }
}

/// Requests of one family do not keep what is due in another waiting.
// Plain #[test]: see the head.
#[test]
fn requested_compactions_and_due_ones_take_turns() {
    simulate(1, "requests", || {
        let (_, fs) = memory();
        let turns = Arc::new(Turns::default());
        let names = Arc::new(Names::default());
        let mut options = options_of(&fs, 0, &turns);
        options.db.listeners.push(Arc::clone(&names) as Arc<dyn EventListener>);
        let db = Db::open(&options, "/db").unwrap();
        let gate = occupy(PoolPriority::Low);
        let own = families(&db);
        for family in &own {
            put_in(&db, family, 1);
            db.flush_cf_opt(&FlushOptions::default(), family).unwrap();
        }
        let force = CompactRangeOptions {
            bottommost_level_compaction: pumice::BottommostLevelCompaction::Force,
            ..CompactRangeOptions::default()
        };
        thread::scope(|scope| {
            for family in &own {
                scope.spawn(|| db.compact_range_cf(&force, family, None, None).unwrap());
            }
            // All of them wait for a thread.
            thread::sleep(std::time::Duration::from_secs(1));
            for _ in 0..2 {
                fill(&db, 0..2, "value");
                flush(&db);
            }
            gate.release(1);
        });
        db.wait_for_compact(&WaitForCompactOptions::default()).unwrap();
        let begun = names.0.lock().clone();
        let due = begun.iter().position(|name| name == "default");
        assert!(due.is_some_and(|at| at <= 1), "{begun:?}");
    });
}

#[derive(Default)]
struct Names(Mutex<Vec<String>>);

impl EventListener for Names {
    fn on_compaction_begin(&self, info: &CompactionJobInfo) {
        self.0.lock().push(info.cf_name.clone());
    }
}

/// What waits for threads that others have keeps nobody's close or pause waiting.
// Plain #[test]: see the head.
#[test]
fn a_close_takes_its_jobs_out_of_the_queues() {
    simulate(1, "close", || {
        let (_, fs) = memory();
        let turns = Arc::new(Turns::default());
        let db = open(&fs, 0, &turns);
        let gates = [PoolPriority::Low, PoolPriority::High];
        let low = occupy(gates[0]);
        for _ in 0..2 {
            fill(&db, 0..2, "value");
            flush(&db);
        }
        let high = occupy(gates[1]);
        fill(&db, 0..2, "newest");
        db.flush_opt(&FlushOptions {
            wait: false,
            allow_write_stall: true,
            ..FlushOptions::default()
        })
        .unwrap();
        let pools = ThreadPools::shared();
        let queued = || gates.map(|priority| pools.queue_len(priority));
        // A flush, and the events of the sealed memtable.
        assert_eq!(queued(), [1, 2]);
        db.pause_background_work();
        assert_eq!(queued(), [0, 1]);
        db.continue_background_work().unwrap();
        assert_eq!(queued(), [1, 2]);
        db.close().unwrap();
        assert_eq!(queued(), [0, 1]);
        assert_eq!((turns.flushes.lock().len(), turns.compactions.lock().len()), (2, 0));
        low.release(1);
        high.release(1);
        let db = open(&fs, 0, &turns);
        assert_eq!(db.get(key(1)).unwrap().as_deref(), Some(&b"newest"[..]));
    });
}

/// Writes into three families of a database that always has something due, until `enough`.
fn keep_busy(db: &Db, families: &[ColumnFamily], seed: u64, enough: &AtomicBool) {
    let mut rng = Rng::new(seed);
    let value = vec![b'v'; 8 << 10];
    // Without a log a write costs no time, so that flushes never keep up with three writers.
    let unlogged = WriteOptions { disable_wal: true, ..WriteOptions::default() };
    while !enough.load(Ordering::Relaxed) {
        let family = &families[rng.uniform(3) as usize];
        let key = key(rng.uniform(1000) as usize);
        db.put_cf_opt(&unlogged, family, &key, &value).unwrap();
    }
}

/// A short life with calls that wait for jobs, each of which gets what it waits for in few turns.
fn live(fs: &Arc<dyn FileSystem>, number: usize, crowd: usize, seed: u64, turns: &Arc<Turns>) {
    let mut rng = Rng::new(seed);
    let mut db = open(fs, number, turns);
    let steps = if crowd > 50 { 2 } else { 6 };
    for step in 0..steps {
        fill(&db, 0..2 + rng.uniform(4) as usize, "value");
        let before = turns.count();
        let call = rng.uniform(6);
        match call {
            0 | 1 => flush(&db),
            2 => db.compact_range(&CompactRangeOptions::default(), None, None).unwrap(),
            3 => db.wait_for_compact(&WaitForCompactOptions::default()).unwrap(),
            4 => {
                db.pause_background_work();
                db.continue_background_work().unwrap();
            }
            _ => {
                db.close().unwrap();
                db = open(fs, number, turns);
            }
        }
        // A call needs a few jobs, and before each of them everybody has one in each pool. A pause
        // and a close need none: they wait for what is running, however long it takes, and that
        // they take back the rest is `a_close_takes_its_jobs_out_of_the_queues`.
        let (passed, most) = (turns.count() - before, 8 * 2 * (crowd + 1));
        let needs_jobs = call < 4;
        assert!(
            passed <= most || !needs_jobs,
            "database {number}, step {step}, call {call}: {passed} jobs"
        );
    }
    db.close().unwrap();
}

fn live_next_to_each_other(crowd: usize, seed: u64) {
    let (_, fs) = memory();
    let turns = Arc::new(Turns::default());
    let enough = AtomicBool::new(false);
    let mut busy_options = options_of(&fs, 0, &turns);
    busy_options.db.max_background_jobs = 2 + Rng::new(seed).uniform(3) as i32;
    let busy = Db::open(&busy_options, "/db0").unwrap();
    let own = families(&busy);
    thread::scope(|scope| {
        for writer in 0..3 {
            let (busy, own, enough) = (&busy, &own, &enough);
            scope.spawn(move || keep_busy(busy, own, seed ^ writer, enough));
        }
        let lives: Vec<_> = (1..crowd)
            .map(|number| {
                let (fs, turns) = (&fs, &turns);
                scope.spawn(move || live(fs, number, crowd, seed ^ number as u64, turns))
            })
            .collect();
        let ends: Vec<_> = lives.into_iter().map(|life| life.join()).collect();
        enough.store(true, Ordering::Relaxed);
        ends.into_iter().for_each(|end| end.unwrap());
    });
    busy.close().unwrap();
}

// Plain #[test]: see the head.
#[test]
fn nobody_starves_next_to_a_database_that_is_always_busy() {
    let times = std::env::var("PUMICE_NEIGHBOURS").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    let only = std::env::var("PUMICE_SEED").ok().and_then(|seed| seed.parse::<u64>().ok());
    for (crowd, seeds) in CROWDS.into_iter().zip([8, 2, 1]) {
        let seeds = only.map_or(1..1 + seeds * times, |seed| seed..seed + 1);
        for seed in seeds {
            simulate(seed, &format!("{crowd} databases"), move || {
                live_next_to_each_other(crowd, seed);
            });
        }
    }
}
