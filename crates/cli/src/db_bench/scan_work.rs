//! Benchmarks of iterators: making them, seeking in order, many scans at once, one scan during
//! reads, sizes of ranges; and the comparison of two databases.
//!
//! Each loop counts operations and prints its line as RocksDB's db_bench does.

use super::engine::{BenchDb, Cursor, Reader, Result};
use super::fill::{self, Order};
use super::stats::Operation;
use super::worker::{Worker, during};
use super::workload::KeyMaker;
use pumice_base::histogram::Histogram;

/// `newiterator`.
pub fn create_iterators<D: BenchDb>(worker: &mut Worker<'_, D>) -> Result<()> {
    let plan = &worker.shared.plan;
    let mut limit = worker.limit(plan.reads);
    while !limit.reached(1) {
        let db = worker.pick();
        drop(worker.shared.dbs[db].cursor(&plan.read, [None, None])?);
        worker.finished(1, Operation::Other);
    }
    Ok(())
}

/// `fillseekseq`: fills in order, then seeks each key; only the seeks count.
///
/// # Errors
/// An operation failed, or a key is not where it must be.
pub fn fill_then_seek<D: BenchDb>(worker: &mut Worker<'_, D>) -> Result<()> {
    // `--writes` does not count here: every key is sought.
    fill::run_some(worker, Order::Sequential, worker.shared.plan.num)?;
    worker.restart();
    let (plan, flags) = (&worker.shared.plan, &worker.shared.flags);
    let mut cursor = worker.shared.db.cursor(&plan.read, [None, None])?;
    let mut keys = worker.keys();
    let mut number = 0;
    while number < plan.num {
        cursor.seek(keys.key(number));
        check_at(&cursor, keys.key(number))?;
        worker.finished(1, Operation::Seek);
        for _ in 0..flags.seek_nexts {
            if number + 1 >= plan.num {
                break;
            }
            // RocksDB's asserts that the next key is there, which it is only forward.
            cursor.next();
            number += 1;
            check_at(&cursor, keys.key(number))?;
            worker.finished(1, Operation::Seek);
        }
        cursor.seek(keys.key(number));
        check_at(&cursor, keys.key(number))?;
        worker.finished(1, Operation::Seek);
        number += 1;
    }
    during("iterator", cursor.status())
}

fn check_at(cursor: &impl Cursor, key: &[u8]) -> Result<()> {
    match cursor.valid() && cursor.key() == key {
        true => Ok(()),
        false => during("iterator", cursor.status()).and_then(|()| {
            let hex: String = key.iter().map(|byte| format!("{byte:02X}")).collect();
            Err(format!("key 0x{hex} was written but is not found"))
        }),
    }
}

/// `multiscan`: `--multiscan_size` scans of `--seek_nexts` keys at a distance from each other,
/// each with its bounds, as one operation: the engine's own for that, where our binding has one.
pub fn multi_scan<D: BenchDb>(worker: &mut Worker<'_, D>) -> Result<()> {
    let (plan, flags) = (&worker.shared.plan, &worker.shared.flags);
    let number = |number: i64| u64::try_from(number).unwrap_or(0);
    let len = if flags.seek_nexts > 0 { flags.seek_nexts as u64 } else { 50 };
    let (scans, step) = (number(flags.multiscan_size), len + number(flags.multiscan_stride));
    let Some(range) = plan.num.checked_sub(scans * step).filter(|range| *range > 0) else {
        return Err(format!("multiscan needs a num above {}", scans * step));
    };
    let mut limit = worker.limit(plan.reads);
    let (mut begin, mut end) = (worker.keys(), worker.keys());
    let (mut done, mut keys, mut ranges) = (0u64, 1, Vec::new());
    while !limit.reached(keys) {
        let db = worker.pick();
        let mut first = worker.rng.uniform(range);
        keys = 0;
        ranges.clear();
        for _ in 0..scans {
            ranges.push((begin.key(first).to_vec(), end.key(first + len).to_vec()));
            first += step;
        }
        let see = &mut |key: &[u8], value: &[u8]| {
            std::hint::black_box((key, value));
            keys += 1;
        };
        during("iterator", worker.shared.dbs[db].multi_scan(&plan.read, &ranges, see))?;
        keys = keys.max(1);
        worker.limit_read(0, 1);
        worker.finished(1, Operation::MultiScan);
        done += 1;
    }
    worker.stats.set_message(format!("(multscans:{done})"));
    Ok(())
}

/// Worker 0 of `readwhilescanning`: walks through the database again and again.
pub fn scan_in_background<D: BenchDb>(worker: &mut Worker<'_, D>) -> Result<()> {
    let plan = &worker.shared.plan;
    eprintln!("num reads to do {}", plan.reads);
    let mut cursor = worker.shared.db.cursor(&plan.read, [None, None])?;
    let mut limit = worker.limit(plan.reads);
    while !limit.reached(1) {
        match cursor.valid() {
            true => cursor.next(),
            false => {
                during("iterator", cursor.status())?;
                cursor.seek_to_first();
            }
        }
        worker.finished(1, Operation::Seek);
    }
    Ok(())
}

/// `approximatesizerandom`: the sizes of `--batch_size` random ranges at a time.
pub fn approximate_sizes<D: BenchDb>(worker: &mut Worker<'_, D>) -> Result<()> {
    let plan = &worker.shared.plan;
    let mut limit = worker.limit(plan.reads);
    let (mut begin, mut end) = (worker.keys(), worker.keys());
    let (mut sum, mut count) = (0u64, 0u64);
    while !limit.reached(1) {
        let db = worker.pick();
        let ranges: Vec<(Vec<u8>, Vec<u8>)> = (0..plan.batch)
            .map(|_| {
                let (a, b) = (worker.read_key(), worker.read_key());
                (begin.key(a.min(b)).to_vec(), end.key(a.max(b)).to_vec())
            })
            .collect();
        sum += during("approximate sizes", worker.shared.dbs[db].approximate_sizes(&ranges))?;
        count += plan.batch;
        worker.finished(plan.batch, Operation::Other);
    }
    let average = sum as f64 / count.max(1) as f64;
    worker.stats.set_message(format!("(Avg approx size={average:.6})"));
    Ok(())
}

/// `approximatememtablestats`: how many entries of `--batch_size` keys that follow each other are
/// in memtables, as the engine estimates them.
pub fn memtable_stats<D: BenchDb>(worker: &mut Worker<'_, D>) -> Result<()> {
    let plan = &worker.shared.plan;
    let mut limit = worker.limit(plan.reads);
    let (mut begin, mut end) = (worker.keys(), worker.keys());
    let mut counts = Histogram::new();
    while !limit.reached(1) {
        let db = &worker.shared.dbs[worker.pick()];
        let first = worker.rng.uniform(plan.num.saturating_sub(plan.batch).max(1));
        let (begin, end) = (begin.key(first), end.key(first + plan.batch));
        let count = db.approximate_memtable_entries(begin, end);
        counts.add(during("approximate memtable stats", count)?);
        worker.finished(1, Operation::Other);
    }
    worker.stats.set_message(format!("({:.2} of {} entries)", counts.average(), plan.batch));
    println!("Reported entry count stats (expected {}):\n{counts}", plan.batch);
    Ok(())
}

/// `readrandomfast`: gets by the hundred, of keys up to the next power of two.
pub fn read_fast<D: BenchDb>(worker: &mut Worker<'_, D>) -> Result<()> {
    const TOGETHER: u64 = 100;
    let plan = &worker.shared.plan;
    let mut limit = worker.limit(plan.reads);
    let mut reader = worker.shared.db.reader(&plan.read);
    // Not of the existing keys: most numbers beyond have none.
    let mut keys = KeyMaker::new(&worker.shared.flags, plan.key_size);
    let range = plan.num.next_power_of_two();
    let (mut read, mut found, mut missing) = (0u64, 0u64, 0u64);
    loop {
        for _ in 0..TOGETHER {
            let number = worker.rng.uniform(range);
            missing += u64::from(number >= plan.num);
            found += u64::from(during("get", reader.get(keys.key(number)))?.is_some());
            read += 1;
        }
        worker.limit_read(TOGETHER - 1, TOGETHER);
        worker.finished(TOGETHER, Operation::Read);
        if limit.reached(TOGETHER) {
            break;
        }
    }
    let counts = format!("({found} of {read} found, issued {missing} non-exist keys)\n");
    worker.stats.set_message(counts);
    Ok(())
}

/// `readtorowcache`: a get of each key, in order, whatever `--reads` and `--duration` say.
pub fn read_all<D: BenchDb>(worker: &mut Worker<'_, D>) -> Result<()> {
    let mut readers = worker.readers();
    let mut keys = worker.keys();
    let (mut found, mut bytes) = (0u64, 0u64);
    let num = worker.shared.plan.num;
    for number in 0..num {
        let db = worker.pick();
        if worker.shared.plan.families.total > 1 {
            readers[db].select(worker.family(db, number));
        }
        let key = keys.key(number);
        if let Some(len) = during("get", readers[db].get(key))? {
            found += 1;
            bytes += (key.len() + len) as u64;
        }
        worker.limit_read(number + 1, 256);
        worker.finished(1, Operation::Read);
    }
    worker.stats.add_bytes(bytes);
    worker.stats.set_message(format!("({found} of {num} found)\n"));
    Ok(())
}

/// `verify`: `db` has the keys and values of `truth` and no others.
///
/// # Errors
/// A difference, by its key; a failed read.
pub fn verify<D: BenchDb>(db: &D, truth: &D, settings: &super::engine::ReadSettings) -> Result<()> {
    eprintln!("Verifying db >= truth_db with ::Get...");
    let settings = super::engine::ReadSettings { total_order_seek: true, ..settings.clone() };
    let mut reader = db.reader(&settings);
    let mut value = Vec::new();
    let mut there = truth.cursor(&settings, [None, None])?;
    there.seek_to_first();
    while there.valid() {
        let found = during("get", reader.read(there.key(), &mut value))?;
        if !found || value != there.value() {
            return Err(format!("verify: key {:?} differs from truth_db", there.key()));
        }
        there.next();
    }
    during("iterator", there.status())?;
    eprintln!("Verifying db == truth_db...");
    let mut here = db.cursor(&settings, [None, None])?;
    here.seek_to_first();
    there.seek_to_first();
    while here.valid() {
        if !there.valid() || here.key() != there.key() || here.value() != there.value() {
            return Err(format!("verify: key {:?} is not in truth_db", here.key()));
        }
        here.next();
        there.next();
    }
    during("iterator", here.status())?;
    eprintln!("...Verified");
    Ok(())
}
