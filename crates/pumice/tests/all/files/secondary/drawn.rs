//! A primary and a secondary in one simulation, drawn from seeds: at random moments the secondary
//! catches up while it is read. Readers see the primary at one moment, which is not before the
//! start of the catch-up, and never goes back.
//!
//! Each change writes its number to a clock key in both column families, so that a view shows its
//! moment.
//!
//! Plain #[test]: a simulation is a runtime of its own.

use pumice_base::UserKey;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use super::{contents_of, descriptors};
use crate::common::{DIR, key, options};
use pumice::{
    ColumnFamily, CompactRangeOptions, Comparator, Db, MemFs, Options, SstFileWriter, WriteBatch,
};
use pumice_base::random::Rng;
use pumice_port::sync::Mutex;
use pumice_port::{sim, thread};
use pumice_testkit::seed;

const SEEDS: u64 = 60;
const CHANGES: u64 = 120;
/// The key with the number of the last change.
pub const CLOCK: &str = "clock";
pub const NAMES: [&str; 2] = ["default", "other"];

/// What is in a family.
pub type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

/// What the primary has done so far.
struct World {
    options: Options,
    /// Both families after each change.
    history: Mutex<Vec<[Contents; 2]>>,
    /// The last change that was answered.
    done: AtomicU64,
    over: AtomicBool,
}

fn open(options: &Options) -> (Db, Vec<ColumnFamily>) {
    Db::open_cf(&options.db, DIR, &descriptors(&options.cf, &NAMES)).unwrap()
}

/// Change `n` of both families: drawn, in the order of keys given, and done to the model.
pub fn draw(
    cfs: &[ColumnFamily],
    model: &mut [Contents; 2],
    order: &Comparator,
    rng: &mut Rng,
    n: u64,
) -> WriteBatch {
    let mut batch = WriteBatch::new();
    for (cf, model) in cfs.iter().zip(model) {
        let k = rng.uniform(40) as usize;
        match rng.uniform(8) {
            0 => {
                batch.delete_cf(cf, key(k));
                model.remove(&key(k));
            }
            1 => {
                let mut ends = [key(k), key(k + 5)];
                ends.sort_by(|a, b| order.compare(UserKey::new(a), UserKey::new(b)));
                batch.delete_range_cf(cf, &ends[0], &ends[1]);
                model.retain(|at, _| {
                    order.compare(UserKey::new(at), UserKey::new(&ends[0])).is_lt()
                        || order.compare(UserKey::new(at), UserKey::new(&ends[1])).is_ge()
                });
            }
            _ => {
                let value = vec![b'a' + (n % 26) as u8; rng.uniform(600) as usize];
                batch.put_cf(cf, key(k), &value);
                model.insert(key(k), value);
            }
        }
        batch.put_cf(cf, CLOCK, n.to_string());
        model.insert(CLOCK.into(), n.to_string().into_bytes());
    }
    batch
}

/// Applies one drawn change to the model and to the database.
fn change(db: &Db, cfs: &[ColumnFamily], world: &World, rng: &mut Rng, n: u64) {
    let mut next = world.history.lock().last().unwrap().clone();
    let mut batch = draw(cfs, &mut next, &world.options.cf.comparator, rng, n);
    // Before the write: a secondary may be faster than the answer.
    world.history.lock().push(next);
    db.write(&mut batch).unwrap();
    world.done.store(n, SeqCst);
}

/// A change that comes as files.
fn ingest(db: &Db, cfs: &[ColumnFamily], world: &World, rng: &mut Rng, n: u64) {
    let mut next = world.history.lock().last().unwrap().clone();
    let mut args = Vec::new();
    for (at, (cf, model)) in cfs.iter().zip(&mut next).enumerate() {
        let path = format!("/external-{n}-{at}.sst");
        let mut writer = SstFileWriter::new(&world.options).unwrap();
        writer.open(&path).unwrap();
        let text = n.to_string().into_bytes();
        let mut keys = [CLOCK.into(), key(rng.uniform(40) as usize)];
        keys.sort_by(|a: &Vec<u8>, b| {
            world.options.cf.comparator.compare(UserKey::new(a), UserKey::new(b))
        });
        for key in keys {
            writer.put(&key, &text).unwrap();
            model.insert(key, text.clone());
        }
        writer.finish().unwrap();
        let files = vec![path.into()];
        args.push(pumice::IngestExternalFileArg::new(cf, files, &Default::default()));
    }
    world.history.lock().push(next);
    db.ingest_external_files(&args).unwrap();
    world.done.store(n, SeqCst);
}

fn primary(world: &World, seed: u64) {
    let mut rng = Rng::new(seed);
    let (mut db, mut cfs) = open(&world.options);
    for n in 1..=CHANGES {
        match rng.uniform(40) {
            0 => db.flush_cf(&cfs[rng.uniform(2) as usize]).unwrap(),
            1 => db.flush_all().unwrap(),
            2 => db.compact_range(&CompactRangeOptions::default(), None, None).unwrap(),
            3 => {
                db.close().unwrap();
                drop((db, cfs));
                (db, cfs) = open(&world.options);
            }
            4 => thread::sleep(Duration::from_millis(rng.uniform(20))),
            _ => {}
        }
        match rng.uniform(15) {
            0 => ingest(&db, &cfs, world, &mut rng, n),
            _ => change(&db, &cfs, world, &mut rng, n),
        }
    }
    db.close().unwrap();
    world.over.store(true, SeqCst);
}

/// The change after which a family was like this.
pub fn clock_of(contents: &Contents) -> u64 {
    let text = contents.get(CLOCK.as_bytes()).map_or("0".into(), |v| String::from_utf8_lossy(v));
    text.parse().unwrap()
}

/// Both clocks at one moment, during catch-ups.
fn watch(db: &Db, cfs: &[ColumnFamily], world: &World) {
    let mut before = 0;
    while !world.over.load(SeqCst) {
        let both = db.multi_get_cf(&[(&cfs[0], CLOCK), (&cfs[1], CLOCK)]);
        let mut clocks = both.into_iter().map(|value| {
            let value = value.unwrap().map_or(b"0".to_vec(), |value| value.to_vec());
            String::from_utf8(value).unwrap().parse::<u64>().unwrap()
        });
        let (one, other) = (clocks.next().unwrap(), clocks.next().unwrap());
        assert_eq!(one, other, "of one moment");
        assert!(one >= before, "{one} after {before}");
        before = one;
        for (at, cf) in cfs.iter().enumerate() {
            let seen: Contents = contents_of(db, cf).into_iter().collect();
            let clock = clock_of(&seen);
            assert!(clock >= before, "{clock} after {before}");
            assert_eq!(seen, world.history.lock()[clock as usize][at], "at {clock}");
            before = clock;
        }
        thread::sleep(Duration::from_micros(300));
    }
}

fn follow_and_check(world: &Arc<World>, seed: u64) {
    let mut rng = Rng::new(seed ^ 0x5ec0);
    let families = descriptors(&world.options.cf, &NAMES);
    // Until the primary has made the database.
    while world.done.load(SeqCst) < 1 + seed % 30 {
        thread::sleep(Duration::from_millis(1));
    }
    let open = || Db::open_as_secondary(&world.options.db, DIR, "/beside", &families).unwrap();
    let known = world.done.load(SeqCst);
    let (db, cfs) = open();
    thread::scope(|scope| {
        scope.spawn(|| watch(&db, &cfs, world));
        let mut before = known;
        loop {
            let over = world.over.load(SeqCst);
            for (at, cf) in cfs.iter().enumerate() {
                let seen: Contents = contents_of(&db, cf).into_iter().collect();
                let clock = clock_of(&seen);
                assert!(clock >= before, "{clock}: {before} was written before");
                assert_eq!(seen, world.history.lock()[clock as usize][at], "at {clock}");
            }
            if over && before == CHANGES {
                break;
            }
            thread::sleep(Duration::from_millis(rng.skewed(5)));
            before = world.done.load(SeqCst);
            db.try_catch_up_with_primary().unwrap();
        }
    });
    db.close().unwrap();
}

fn options_of(seed: u64) -> Options {
    let mut rng = Rng::new(seed);
    let mut options = options(&MemFs::new(seed).shared());
    options.db.create_missing_column_families = true;
    options.db.max_manifest_file_size = [200, 1000, 1 << 30][rng.uniform(3) as usize];
    options.db.wal_bytes_per_sync = rng.uniform(2) * 1024;
    options.cf.write_buffer_size = 8 << 10;
    options.cf.level0_file_num_compaction_trigger = 2;
    options.cf.ttl = 0;
    options.cf.comparator =
        [Comparator::Bytewise, Comparator::ReverseBytewise][rng.uniform(2) as usize].clone();
    options.cf.table_factory.set("block_size", "512").unwrap();
    options
}

#[test]
fn a_view_is_the_primary_at_one_moment_and_never_goes_back() {
    for seed in seed::range(SEEDS) {
        let (report, outcome) = sim::run(&sim::Options::new(seed), move || {
            let world = Arc::new(World {
                options: options_of(seed),
                history: Mutex::new(vec![Default::default()]),
                done: AtomicU64::new(0),
                over: AtomicBool::new(false),
            });
            thread::scope(|scope| {
                scope.spawn(|| primary(&world, seed));
                scope.spawn(|| follow_and_check(&world, seed));
            });
        });
        let stuck = report.stuck.map_or(String::new(), |stuck| stuck.to_string());
        assert!(outcome.is_ok(), "seed {seed}: {outcome:?}\n{stuck}");
    }
}
