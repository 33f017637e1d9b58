//! A leader and a follower in one simulation, drawn from seeds: the follower catches up in its own
//! period and when it is asked, while it is read and the leader deletes what it has replaced.
//!
//! Each change writes its number to a clock key in both column families, so that a view shows its
//! moment. What a follower shows of a family is the family after some change, not before the last
//! one that was flushed when it began to catch up, and it never goes back. With atomic flushes both
//! families are of one moment.
//!
//! Plain #[test]: a simulation is a runtime of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use super::{OWN, tables};
use crate::common::{DIR, options};
use crate::files::secondary::drawn::{CLOCK, Contents, NAMES, clock_of, draw};
use pumice::{ColumnFamily, ColumnFamilyDescriptor, CompactRangeOptions, Db, MemFs, Options};
use pumice_base::random::Rng;
use pumice_port::sync::Mutex;
use pumice_port::{sim, thread};
use pumice_testkit::seed;

const SEEDS: u64 = 40;
const CHANGES: u64 = 120;

struct World {
    options: Options,
    /// Both families after each change.
    history: Mutex<Vec<[Contents; 2]>>,
    /// By family, a change that is flushed.
    flushed: [AtomicU64; 2],
    over: AtomicBool,
}

fn families(world: &World) -> [ColumnFamilyDescriptor; 2] {
    NAMES.map(|name| ColumnFamilyDescriptor::new(name, world.options.cf.clone()))
}

/// Applies one drawn change to the model and to the database.
fn change(db: &Db, cfs: &[ColumnFamily], world: &World, rng: &mut Rng, n: u64) {
    let mut next = world.history.lock().last().unwrap().clone();
    let mut batch = draw(cfs, &mut next, &world.options.cf.comparator, rng, n);
    // Before the write: a follower may be faster than the answer.
    world.history.lock().push(next);
    db.write(&mut batch).unwrap();
}

fn lead(world: &World, seed: u64) {
    let mut rng = Rng::new(seed);
    let open = || Db::open_cf(&world.options.db, DIR, &families(world)).unwrap();
    let (mut db, mut cfs) = open();
    let flushed = |at: usize, n: u64| world.flushed[at].store(n, SeqCst);
    for n in 1..=CHANGES {
        change(&db, &cfs, world, &mut rng, n);
        match rng.uniform(30) {
            0 | 1 => {
                let at = rng.uniform(2) as usize;
                db.flush_cf(&cfs[at]).unwrap();
                flushed(at, n);
            }
            2 => {
                db.flush_all().unwrap();
                (0..2).for_each(|at| flushed(at, n));
            }
            3 => {
                let at = rng.uniform(2) as usize;
                let how = CompactRangeOptions::default();
                db.compact_range_cf(&how, &cfs[at], None, None).unwrap();
                flushed(at, n);
            }
            4 => {
                db.close().unwrap();
                drop((db, cfs));
                (db, cfs) = open();
            }
            5..10 => thread::sleep(Duration::from_millis(rng.uniform(20))),
            _ => {}
        }
    }
    db.flush_all().unwrap();
    (0..2).for_each(|at| flushed(at, CHANGES));
    world.over.store(true, SeqCst);
    thread::sleep(Duration::from_secs(60)); // Its files can be compared.
    db.close().unwrap();
}

/// One family, read over some time, is as it was after a change; returns that.
fn view(db: &Db, cf: &ColumnFamily, at: usize, world: &World, rng: &mut Rng) -> u64 {
    let mut seen = Contents::new();
    for entry in db.iter_cf(cf).unwrap() {
        let (key, value) = entry.unwrap();
        seen.insert(key, value);
        if rng.uniform(20) == 0 {
            thread::sleep(Duration::from_millis(rng.uniform(5)));
        }
    }
    let clock = clock_of(&seen);
    assert_eq!(seen, world.history.lock()[clock as usize][at], "{} at {clock}", NAMES[at]);
    clock
}

/// Both families, again and again, also during catch-ups, until `is_over`.
fn watch(db: &Db, cfs: &[ColumnFamily], world: &World, rng: &mut Rng, is_over: &AtomicBool) {
    let mut before = [0, 0];
    while !is_over.load(SeqCst) {
        let both = db.multi_get_cf(&[(&cfs[0], CLOCK), (&cfs[1], CLOCK)]);
        let clocks: Vec<u64> = both
            .into_iter()
            .map(|value| value.unwrap().map_or(0, |v| String::from_utf8_lossy(&v).parse().unwrap()))
            .collect();
        if world.options.db.atomic_flush {
            assert_eq!(clocks[0], clocks[1], "of one moment");
        }
        for at in 0..2 {
            assert!(clocks[at] >= before[at], "{} after {}", clocks[at], before[at]);
            before[at] = view(db, &cfs[at], at, world, rng);
            assert!(before[at] >= clocks[at], "{} after {}", before[at], clocks[at]);
        }
        thread::sleep(Duration::from_micros(300));
    }
}

fn known(world: &World) -> [u64; 2] {
    [0, 1].map(|at: usize| world.flushed[at].load(SeqCst))
}

/// Catches up some times; returns whether everything has been seen.
fn check(
    db: &Db,
    cfs: &[ColumnFamily],
    world: &World,
    rng: &mut Rng,
    known_at_open: [u64; 2],
) -> bool {
    let mut before = known_at_open;
    loop {
        for at in 0..2 {
            let clock = view(db, &cfs[at], at, world, rng);
            assert!(clock >= before[at], "{clock}: {} was flushed before", before[at]);
        }
        if before == [CHANGES; 2] {
            return true;
        }
        if rng.uniform(8) == 0 && !world.over.load(SeqCst) {
            return false;
        }
        thread::sleep(Duration::from_millis(rng.skewed(5)));
        before = known(world);
        db.try_catch_up_with_primary().unwrap();
    }
}

fn follow_and_check(world: &Arc<World>, seed: u64) {
    let mut rng = Rng::new(seed ^ 0x5ec0);
    // Until the leader has made the database.
    while world.history.lock().len() < 2 + seed as usize % 30 {
        thread::sleep(Duration::from_millis(1));
    }
    let mut with = world.options.db.clone();
    with.max_open_files = [-1, 10][rng.uniform(2) as usize];
    loop {
        let before = known(world);
        let (db, cfs) = Db::open_as_follower(&with, OWN, DIR, &families(world)).unwrap();
        let is_over = AtomicBool::new(false);
        let mut watcher = Rng::new(rng.uniform(1 << 30));
        let all = thread::scope(|scope| {
            scope.spawn(|| watch(&db, &cfs, world, &mut watcher, &is_over));
            let all = check(&db, &cfs, world, &mut rng, before);
            is_over.store(true, SeqCst);
            all
        });
        let fs = &world.options.db.file_system;
        while all && tables(fs, OWN) != tables(fs, DIR) {
            thread::sleep(Duration::from_millis(100));
        }
        db.close().unwrap();
        if all {
            return;
        }
    }
}

fn options_of(seed: u64) -> Options {
    let mut rng = Rng::new(seed);
    let mut options = options(&MemFs::new(seed).shared());
    options.db.create_missing_column_families = true;
    options.db.max_manifest_file_size = [200, 1000, 1 << 30][rng.uniform(3) as usize];
    options.db.atomic_flush = rng.uniform(2) == 0;
    options.db.follower_refresh_catchup_period_ms = 1 + rng.skewed(7);
    options.db.follower_catchup_retry_wait_ms = rng.uniform(4);
    options.cf.write_buffer_size = 8 << 10;
    options.cf.level0_file_num_compaction_trigger = 2;
    options.cf.ttl = 0;
    options.cf.table_factory.set("block_size", "512").unwrap();
    options
}

#[test]
fn a_view_is_what_was_flushed_at_one_moment_and_never_goes_back() {
    for seed in seed::range(SEEDS) {
        let (report, outcome) = sim::run(&sim::Options::new(seed), move || {
            let world = Arc::new(World {
                options: options_of(seed),
                history: Mutex::new(vec![Default::default()]),
                flushed: Default::default(),
                over: AtomicBool::new(false),
            });
            thread::scope(|scope| {
                scope.spawn(|| lead(&world, seed));
                scope.spawn(|| follow_and_check(&world, seed));
            });
        });
        let stuck = report.stuck.map_or(String::new(), |stuck| stuck.to_string());
        assert!(outcome.is_ok(), "seed {seed}: {outcome:?}\n{stuck}");
    }
}
