//! `fillseqdeterministic` and `filluniquerandomdeterministic`: fills after which the tree has the
//! same shape each time. Sorted runs are written, the oldest one the largest, and each is compacted
//! into a level of its own, the oldest into the last.
//!
//! As RocksDB's db_bench does it with leveled and universal compaction; FIFO has no levels and is
//! refused. Automatic compactions must be off (`Spec::check`).

use std::collections::BTreeSet;

use super::engine::{BenchDb, Result};
use super::fill::{self, Order};
use super::option_flags::family_option;
use super::worker::{Worker, during};

/// The table files that one pass of writing left on level 0, newest first.
type Run = Vec<String>;

/// `--compaction_style` of universal compaction.
const UNIVERSAL: i32 = 1;

/// Fills, the first run in `order` and the others at random, and compacts.
pub fn run<D: BenchDb>(worker: &mut Worker<'_, D>, order: Order) -> Result<()> {
    let flags = &worker.shared.flags;
    let is_universal = flags.compaction_style == UNIVERSAL;
    if !flags.options_file.as_os_str().is_empty() {
        return Err("the shape of the tree comes from the flags, not from an options_file".into());
    }
    let levels = usize::try_from(flags.num_levels).unwrap_or(0);
    if levels < 2 {
        return Err("num_levels should be larger than 1".into());
    }
    let shrink = Shrink::new(worker, is_universal)?;
    let runs = write_runs(worker, order, levels, is_universal, &shrink)?;
    let needed = if is_universal { levels } else { levels - 1 };
    if runs.iter().any(|runs| runs.len() < needed) {
        return Err(format!("n is too small to fill {levels} levels"));
    }
    for (db, runs) in worker.shared.dbs.iter().zip(&runs) {
        for (number, run) in runs.iter().enumerate() {
            let level = (levels - 1).saturating_sub(number);
            during("compact files", db.compact_files(run, level))?;
        }
    }
    for (number, db) in worker.shared.dbs.iter().enumerate() {
        println!("---------------------- DB {number} LSM ---------------------");
        print_levels(&**db)?;
    }
    Ok(())
}

/// How much smaller each run is than the one before.
enum Shrink {
    Divide(u64),
    Universal(f64),
}

impl Shrink {
    fn new<D: BenchDb>(worker: &Worker<'_, D>, is_universal: bool) -> Result<Shrink> {
        let flags = &worker.shared.flags;
        if is_universal {
            let ratio = f64::from(flags.universal_size_ratio.max(1));
            return Ok(Shrink::Universal(100.0 / (ratio + 200.0)));
        }
        let multiplier = family_option(&flags.options, "max_bytes_for_level_multiplier");
        match multiplier.parse::<f64>().map_or(0, |multiplier| multiplier as u64) {
            0 | 1 => Err("max_bytes_for_level_multiplier should be larger than 1".into()),
            divisor => Ok(Shrink::Divide(divisor)),
        }
    }

    fn next(&self, writes: u64) -> u64 {
        match self {
            Shrink::Divide(divisor) => writes / divisor,
            Shrink::Universal(factor) => (writes as f64 * factor) as u64,
        }
    }
}

/// Writes runs until there are enough, or they are one file only; those of each database.
fn write_runs<D: BenchDb>(
    worker: &mut Worker<'_, D>,
    order: Order,
    levels: usize,
    is_universal: bool,
    shrink: &Shrink,
) -> Result<Vec<Vec<Run>>> {
    let plan = &worker.shared.plan;
    let mut writes = if plan.writes == 0 { plan.keys } else { plan.writes };
    let mut runs: Vec<Vec<Run>> = worker.shared.dbs.iter().map(|_| Vec::new()).collect();
    let mut seen: Vec<BTreeSet<String>> = runs.iter().map(|_| BTreeSet::new()).collect();
    let mut order = order;
    let mut is_enough = false;
    while !is_enough && writes > 0 {
        fill::run_some(worker, order, writes)?;
        order = Order::Unique;
        for ((db, runs), seen) in worker.shared.dbs.iter().zip(&mut runs).zip(&mut seen) {
            during("flush", db.flush())?;
            let files = db.table_files()?.into_iter().filter(|file| file.level == 0);
            let mut run: Run =
                files.map(|file| file.name).filter(|name| !seen.contains(name)).collect();
            run.sort_by(|a, b| b.cmp(a));
            seen.extend(run.iter().cloned());
            if run.is_empty() {
                is_enough = true;
                continue;
            }
            is_enough |= run.len() == 1;
            if !is_universal && runs.len() + 1 == levels - 1 && run.len() > 1 {
                // The newest third stays on level 0.
                run.drain(..run.len() / 3);
                is_enough = true;
            }
            runs.push(run);
        }
        writes = shrink.next(writes);
    }
    Ok(runs)
}

/// Prints which files are where.
fn print_levels(db: &impl BenchDb) -> Result<()> {
    let mut files = db.table_files()?;
    files.sort_by(|a, b| (a.level, &a.name).cmp(&(b.level, &b.name)));
    for file in files.iter().filter(|file| file.level == 0).rev() {
        println!("Level[0]: {}(size: {} bytes)", file.name, file.bytes);
    }
    for level in files.chunk_by(|a, b| a.level == b.level).filter(|level| level[0].level > 0) {
        let (first, last) = (&level[0], &level[level.len() - 1]);
        let bytes: u64 = level.iter().map(|file| file.bytes).sum();
        let number = first.level;
        println!("Level[{number}]: {} - {}(total size: {bytes} bytes)", first.name, last.name);
    }
    Ok(())
}
