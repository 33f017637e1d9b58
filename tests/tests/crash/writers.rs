//! Several writers at once, one crash: no hole in the history that they share.
//!
//! Each writer has its own keys and its own judge, which checks that no batch is torn and no
//! promise to that writer broken. Beyond that, the writers' batches form one sequence: a batch that
//! was acknowledged before another was issued comes first, so if the later one exists, the earlier
//! one must. Every batch leaves its number under the writer's mark, so what is there can be
//! counted.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use pumice::{ColumnFamily, Db, WriteOptions};
use pumice_base::random::Rng;
use pumice_env::MemFs;
use pumice_env::mem::CrashMode;
use pumice_testkit::oracle::{Crash, CrashOracle, Logging};
use pumice_testkit::{Model, Op, OpGenerator, Shape, contents};

use super::life::Tally;
use crate::stores::Settings;
use crate::stores::pumice::{Pumice, batch};

const FAMILIES: usize = 2;
const WRITERS: [&str; 3] = ["a", "b", "c"];
const BATCHES_MAX: u64 = 60;

/// When a batch was issued and acknowledged, by a clock that all writers share.
struct Stamp {
    issued: u64,
    acknowledged: Option<u64>,
}

struct Writer {
    prefix: &'static str,
    rng: Rng,
    generator: OpGenerator,
    oracle: CrashOracle,
    stamps: Vec<Stamp>,
}

/// Runs one seed.
///
/// # Errors
/// A broken promise.
pub fn run(seed: u64) -> Result<Tally, String> {
    let mut rng = Rng::new(seed ^ 0x3a17e5);
    let fs = MemFs::new(seed);
    let settings = Settings::small(FAMILIES);
    let store = Pumice::open_on(fs.shared(), Path::new("/db"), &settings)?;
    let mut writers: Vec<Writer> =
        WRITERS.iter().map(|prefix| Writer::new(prefix, rng.fork())).collect();
    fs.halt_after(rng.uniform(150));
    let clock = AtomicU64::new(0);
    pumice_port::thread::scope(|scope| {
        for writer in &mut writers {
            let (db, families, clock) = (store.db(), store.families(), &clock);
            scope.spawn(move || writer.write_until_the_crash(db, families, clock));
        }
    });
    fs.halt_after(0);
    let (crash, mode) = match rng.uniform(2) {
        0 => (Crash::Process, CrashMode::PROCESS),
        _ => (Crash::Power, CrashMode::MIXED),
    };
    let survivors = fs.crashed_copy(rng.next_u64(), mode);
    drop(store);
    let mut store = Pumice::open_on(survivors.shared(), Path::new("/db"), &settings)
        .map_err(|e| format!("open after a crash: {e}"))?;
    let found = Model::from_entries(contents::read(&mut store, FAMILIES)?);
    let mut tally = Tally { crashes: 1, ..Tally::default() };
    for writer in &mut writers {
        writer.oracle.crash(crash);
        let part = found.part(writer.prefix);
        writer.oracle.recovered(&part).map_err(|e| format!("writer {}: {e}", writer.prefix))?;
        tally.acked += writer.stamps.iter().filter(|s| s.acknowledged.is_some()).count() as u64;
    }
    check_order(&writers, &found)?;
    Ok(tally)
}

/// No batch is missing that was acknowledged before a batch that is there was issued.
fn check_order(writers: &[Writer], found: &Model) -> Result<(), String> {
    let (mut last_present, mut first_missing) = (0, u64::MAX);
    for writer in writers {
        let present = match found.family(0).get(&writer.mark()[..]) {
            Some(number) => 1 + String::from_utf8_lossy(number).parse::<usize>().expect("a number"),
            None => 0,
        };
        for (n, stamp) in writer.stamps.iter().enumerate() {
            if n < present {
                last_present = last_present.max(stamp.issued);
            } else {
                first_missing = first_missing.min(stamp.acknowledged.unwrap_or(u64::MAX));
            }
        }
    }
    if first_missing < last_present {
        return Err(format!(
            "a hole: a batch acknowledged at {first_missing} is missing, one issued at \
             {last_present} is there"
        ));
    }
    Ok(())
}

impl Writer {
    fn new(prefix: &'static str, mut rng: Rng) -> Self {
        let shape = Shape {
            families: FAMILIES,
            prefix: prefix.to_string(),
            keys: 30,
            value_bytes_max: 200,
            batch_ops_max: 5,
            range_deletions_per_mille: 20,
        };
        let generator = OpGenerator::new(shape, rng.next_u64());
        let oracle = CrashOracle::new(FAMILIES, Logging::Wal);
        Writer { prefix, rng, generator, oracle, stamps: Vec::new() }
    }

    fn mark(&self) -> Vec<u8> {
        format!("k{}mark", self.prefix).into_bytes()
    }

    fn write_until_the_crash(&mut self, db: &Db, families: &[ColumnFamily], clock: &AtomicU64) {
        for n in 0..self.rng.uniform(BATCHES_MAX) {
            let mut ops = self.generator.batch();
            ops.push(Op::Put { cf: 0, key: self.mark(), value: n.to_string().into_bytes() });
            let options = WriteOptions { sync: self.rng.one_in(4), ..WriteOptions::default() };
            self.oracle.issue(&ops);
            let issued = clock.fetch_add(1, Ordering::SeqCst);
            self.stamps.push(Stamp { issued, acknowledged: None });
            if db.write_opt(&options, &mut batch(families, &ops)).is_err() {
                return;
            }
            let now = clock.fetch_add(1, Ordering::SeqCst);
            self.stamps.last_mut().expect("just pushed").acknowledged = Some(now);
            self.oracle.acknowledge(options.sync);
        }
    }
}
