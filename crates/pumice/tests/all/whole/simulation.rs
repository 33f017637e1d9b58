//! The real engine inside a simulation: one seed is one run, whatever ran before it.
//!
//! A life is: open, several tasks that write and read, flushes and compactions, a power cut in the
//! middle of all that, recovery, a check of what was acknowledged, close, reopen. The oracle here
//! is small on purpose; the suites of the `tests` crate have the full one.
//!
//! Plain #[test]: a simulation is a runtime of its own.

use pumice::{
    CompactRangeOptions, CompressionType, Db, FlushOptions, MemFs, Options, ReadOptions,
    Statistics, WriteBatch, WriteOptions,
};
use pumice_base::hash::hash64;
use pumice_base::random::Rng;
use pumice_env::mem::{CrashMode, Fault, FaultOp, FaultRule, FsyncFailure};
use pumice_port::sim::{self, Report, Schedule};
use pumice_port::sync::Mutex;
use pumice_port::thread;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const WRITERS: u64 = 3;
const WRITES: u64 = 120;

/// A small database with options drawn from `seed`.
fn options_on(fs: &MemFs, seed: u64) -> Options {
    let mut rng = Rng::new(seed);
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.file_system = fs.shared();
    options.db.max_background_jobs = 1 + rng.uniform(6) as i32;
    options.db.max_subcompactions = 1 + rng.uniform(3) as u32;
    options.db.bytes_per_sync = rng.uniform(2) * 2048;
    options.db.statistics = rng.one_in(2).then(|| Arc::new(Statistics::new()));
    options.cf.write_buffer_size = 12 << 10;
    options.cf.level0_file_num_compaction_trigger = 2;
    options.cf.target_file_size_base = 4 << 10;
    // The task that waits for the age of files has tests of its own.
    options.cf.ttl = 0;
    let all = [CompressionType::None, CompressionType::Snappy, CompressionType::Zstd];
    options.cf.compression = all[rng.uniform(3) as usize];
    options
}

/// Makes some operations fail, stall or return wrong data while the power is still on.
fn add_faults(fs: &MemFs, rng: &mut Rng) {
    const FAULTS: [(FaultOp, Fault); 7] = [
        (FaultOp::Write, Fault::Eio),
        (FaultOp::Sync, Fault::Fsync(FsyncFailure::ReadableThenLost)),
        (FaultOp::Sync, Fault::Stall(3_000_000)),
        (FaultOp::Read, Fault::Eio),
        (FaultOp::Read, Fault::BitFlip),
        (FaultOp::Read, Fault::ShortRead),
        (FaultOp::Rename, Fault::Enospc),
    ];
    for _ in 0..rng.uniform(3) {
        let (op, fault) = FAULTS[rng.uniform(FAULTS.len() as u64) as usize];
        fs.add_fault(FaultRule::once(op, "*", rng.skewed(7), fault));
    }
}

fn key(writer: u64, n: u64) -> Vec<u8> {
    format!("key{writer}-{:03}", n % 40).into_bytes()
}

/// What each key's writer knows: the last number acknowledged with sync, and the last issued.
#[derive(Default, Clone)]
struct Known {
    synced: u64,
    issued: u64,
}
type Oracle = Arc<Mutex<BTreeMap<Vec<u8>, Known>>>;

/// Reads that may fail, with answers that depend on what the other tasks have done.
fn look_around(db: &Db, writer: u64) {
    let keys: Vec<_> = (0..8).map(|n| key(writer, n)).collect();
    for value in db.multi_get_opt(&ReadOptions::default(), &keys) {
        sim::note(value.map_or(1, |v| v.map_or(0, |v| hash64(&v))));
    }
    let Ok(mut iter) = db.cursor_opt(&ReadOptions::default()) else { return };
    iter.seek(&key(writer, 3));
    while iter.valid() {
        sim::note(hash64(iter.key().unwrap()) ^ hash64(iter.value().unwrap()));
        iter.next();
    }
}

/// Writes until the power is cut; each key's values only grow.
fn write(db: &Db, oracle: &Oracle, writer: u64, seed: u64) {
    let mut rng = Rng::new(seed ^ (writer + 1));
    for n in 1..=WRITES {
        let key = key(writer, rng.next_u64());
        let sync = rng.one_in(8);
        oracle.lock().entry(key.clone()).or_default().issued = n;
        let mut value = format!("{n:06}").into_bytes();
        value.resize(16 + rng.uniform(200) as usize, b'.');
        let mut batch = WriteBatch::new();
        batch.put(&key, &value);
        let write_options = WriteOptions { sync, ..WriteOptions::default() };
        if db.write_opt(&write_options, &mut batch).is_err() {
            return;
        }
        if sync {
            oracle.lock().get_mut(&key).unwrap().synced = n;
        }
        if rng.one_in(20) {
            look_around(db, writer);
        }
        if rng.one_in(10) {
            let found = db.get_opt(&ReadOptions::default(), &key);
            if let Ok(found) = found {
                assert_eq!(&found.unwrap()[..], value, "own write");
            }
        }
    }
}

fn check(db: &Db, oracle: &Oracle) {
    for (key, known) in &*oracle.lock() {
        let found = db.get_opt(&ReadOptions::default(), key).unwrap();
        let number = found.map_or(0, |v| std::str::from_utf8(&v[..6]).unwrap().parse().unwrap());
        let name = String::from_utf8_lossy(key);
        assert!((known.synced..=known.issued).contains(&number), "{name}: {number}");
    }
    let mut iter = db.cursor_opt(&ReadOptions::default()).unwrap();
    iter.seek_to_first();
    let mut count = 0;
    while iter.valid() {
        sim::note(iter.key().unwrap().len() as u64);
        count += 1;
        iter.next();
    }
    iter.status().unwrap();
    assert!(count <= oracle.lock().len());
}

/// Writers, flushes and compactions until the power is cut; returns what is left.
fn until_power_cut(fs: &MemFs, oracle: &Oracle, seed: u64) -> MemFs {
    let db = Arc::new(Db::open(&options_on(fs, seed), "/db").unwrap());
    add_faults(fs, &mut Rng::new(!seed));
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (db, oracle) = (Arc::clone(&db), Arc::clone(oracle));
            thread::spawn("writer", move || write(&db, &oracle, writer, seed))
        })
        .collect();
    let (busy, cut) = (Arc::clone(&db), Arc::new(AtomicBool::new(false)));
    let stop = Arc::clone(&cut);
    let keeper = thread::spawn("keeper", move || -> pumice::Result<()> {
        while !stop.load(Ordering::SeqCst) {
            thread::sleep(std::time::Duration::from_micros(1 + sim::random_below(20_000)));
            busy.flush_opt(&FlushOptions::default())?;
            let stats = busy.property("rocksdb.stats").unwrap_or_default();
            sim::note(hash64(stats.as_bytes()));
            busy.compact_range(&CompactRangeOptions::default(), None, None)?;
        }
        Ok(())
    });
    let at = sim::random_below(120_000);
    thread::sleep(std::time::Duration::from_micros(at));
    let after = fs.cut_power(seed, CrashMode::MIXED);
    cut.store(true, Ordering::SeqCst);
    writers.into_iter().for_each(|w| w.join().unwrap());
    drop(keeper.join());
    drop(db);
    after
}

fn life(seed: u64) {
    let fs = MemFs::new(seed);
    let oracle = Oracle::default();
    let after = until_power_cut(&fs, &oracle, seed);
    let db = Db::open(&options_on(&after, seed), "/db").unwrap();
    check(&db, &oracle);
    db.put_opt(&WriteOptions::default(), b"zz", b"last").unwrap();
    db.close().unwrap();
    drop(db);
    let db = Db::open(&options_on(&after, seed), "/db").unwrap();
    assert_eq!(db.get_opt(&ReadOptions::default(), b"zz").unwrap().as_deref(), Some(&b"last"[..]));
}

fn options(seed: u64, trace: bool) -> sim::Options {
    let schedule = match seed % 4 {
        3 => Schedule::PriorityChange { depth: 3 },
        _ => Schedule::Uniform,
    };
    sim::Options { schedule, trace, ..sim::Options::new(seed) }
}

fn run(seed: u64, trace: bool) -> Report {
    let (report, outcome) = sim::run(&options(seed, trace), || life(seed));
    if let Err(failure) = outcome {
        let stuck = report.stuck.map_or(String::new(), |stuck| stuck.to_string());
        panic!("seed {seed}: {failure:?}\n{stuck}");
    }
    report
}

/// Reports where two runs of one seed diverge.
fn difference(first: &[sim::TraceStep], second: &[sim::TraceStep]) -> String {
    let at = first.iter().zip(second).position(|(a, b)| a != b);
    let at = at.unwrap_or(first.len().min(second.len()));
    let from = at.saturating_sub(12);
    let show = |trace: &[sim::TraceStep]| {
        let lines = trace[from..].iter().take(16).map(|step| format!("  {step:x?}\n"));
        lines.collect::<String>()
    };
    format!("step {at}:\n{}or\n{}", show(first), show(second))
}

#[test]
fn a_seed_is_one_run_of_the_engine() {
    let count = std::env::var("PUMICE_SIM_SEEDS").map_or(60, |n| n.parse().unwrap());
    let first = std::env::var("PUMICE_SIM_SEED").map_or(0, |n| n.parse().unwrap());
    let trace = std::env::var_os("PUMICE_SIM_TRACE").is_some();
    let reports: Vec<Report> = (first..first + count).map(|seed| run(seed, trace)).collect();
    let mut steps = 0;
    // In another order, so that leftovers of a run cannot match by chance.
    for (i, report) in reports.iter().enumerate().rev() {
        let seed = first + i as u64;
        let again = run(seed, trace);
        steps += again.switches;
        let same = again.trace_hash == report.trace_hash;
        assert!(same, "seed {seed}, {}", difference(&report.trace, &again.trace));
        assert!(report.fibers >= 5);
    }
    println!("{count} seeds, {} switches each", steps / count.max(1));
}
