//! Benchmarks whose workers read and write: read-modify-write, merges, mixes by percentage.
//!
//! Each loop counts operations and prints its line as RocksDB's db_bench does.

use super::engine::{BenchDb, Reader, Result, Writer};
use super::stats::Operation;
use super::worker::{Worker, during};
use super::workload::normal;

/// `readrandomwriterandom`: a number of gets, then a number of puts, by `--readwritepercent`.
pub fn read_write<D: BenchDb>(worker: &mut Worker<'_, D>) -> Result<()> {
    let (plan, flags) = (&worker.shared.plan, &worker.shared.flags);
    let mut limit = worker.limit(plan.readwrites);
    let (mut readers, mut writers) = (worker.readers(), worker.writers());
    let (mut keys, mut values) = (worker.keys(), worker.values());
    let gets = u64::try_from(flags.readwritepercent).unwrap_or(0);
    let (mut reads, mut writes, mut found, mut turn) = (0u64, 0u64, 0u64, 0u64);
    while !limit.reached(1) {
        let db = worker.pick();
        let key = keys.key(worker.random_key());
        if turn < gets {
            found += u64::from(during("get", readers[db].get(key))?.is_some());
            reads += 1;
            worker.finished(1, Operation::Read);
        } else {
            during("put", writers[db].put(key, values.value()))?;
            writes += 1;
            worker.finished(1, Operation::Write);
        }
        turn = (turn + 1) % 100;
    }
    let total = plan.readwrites;
    worker
        .stats
        .set_message(format!("( reads:{reads} writes:{writes} total:{total} found:{found})"));
    Ok(())
}

/// `mergerandom`.
pub fn merge<D: BenchDb>(worker: &mut Worker<'_, D>) -> Result<()> {
    let plan = &worker.shared.plan;
    let mut limit = worker.limit(plan.readwrites);
    let mut writers = worker.writers();
    let (mut keys, mut values) = (worker.keys(), worker.values());
    let mut bytes = 0u64;
    while !limit.reached(1) {
        let db = worker.pick();
        let number = worker.rng.uniform(plan.merge_keys);
        if plan.families.total > 1 {
            writers[db].select(worker.family(db, number));
        }
        let (key, value) = (keys.key(number), values.value());
        during("merge", writers[db].merge(key, value))?;
        bytes += (key.len() + value.len()) as u64;
        worker.finished(1, Operation::Merge);
    }
    worker.stats.add_bytes(bytes);
    worker.stats.set_message(format!("( updates:{})", plan.readwrites));
    Ok(())
}

/// `readrandommergerandom`.
pub fn read_merge<D: BenchDb>(worker: &mut Worker<'_, D>) -> Result<()> {
    let (plan, flags) = (&worker.shared.plan, &worker.shared.flags);
    let mut limit = worker.limit(plan.readwrites);
    let (mut readers, mut writers) = (worker.readers(), worker.writers());
    let (mut keys, mut values) = (worker.keys(), worker.values());
    let percent = u64::try_from(flags.mergereadpercent).unwrap_or(0);
    let (mut gets, mut merges, mut hits, mut longest) = (0u64, 0u64, 0u64, 0usize);
    while !limit.reached(1) {
        let db = worker.pick();
        let key = keys.key(worker.rng.uniform(plan.merge_keys));
        if worker.rng.uniform(100) < percent {
            during("merge", writers[db].merge(key, values.value()))?;
            merges += 1;
            worker.finished(1, Operation::Merge);
        } else {
            if let Some(len) = during("get", readers[db].get(key))? {
                hits += 1;
                longest = longest.max(len);
            }
            gets += 1;
            worker.finished(1, Operation::Read);
        }
    }
    worker.stats.set_message(format!(
        "(reads:{gets} merges:{merges} total:{} hits:{hits} maxlength:{longest})",
        plan.readwrites
    ));
    Ok(())
}

/// The result of `rewrite` for a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rewrite {
    /// `appendrandom`: the value, a comma and a new one.
    Append,
    /// `xorupdaterandom`: the value with each byte changed by one of a new value.
    Xor,
}

/// `appendrandom` and `xorupdaterandom`.
pub fn rewrite<D: BenchDb>(worker: &mut Worker<'_, D>, how: Rewrite) -> Result<()> {
    let plan = &worker.shared.plan;
    let mut limit = worker.limit(plan.readwrites);
    let (mut readers, mut writers) = (worker.readers(), worker.writers());
    let (mut keys, mut values) = (worker.keys(), worker.values());
    let longest = worker.shared.values.len();
    let mut value = Vec::new();
    let (mut found, mut bytes) = (0u64, 0u64);
    while !limit.reached(1) {
        let db = worker.pick();
        let key = keys.key(worker.random_key());
        if during("get", readers[db].read(key, &mut value))? {
            found += 1;
            bytes += (key.len() + value.len()) as u64;
        }
        match how {
            Rewrite::Append => {
                if !value.is_empty() {
                    value.push(b',');
                }
                value.extend_from_slice(values.value());
            }
            Rewrite::Xor if value.is_empty() => value.extend_from_slice(values.value()),
            Rewrite::Xor => {
                let other = values.value_of(value.len().min(longest));
                value.iter_mut().zip(other).for_each(|(byte, other)| *byte ^= other);
            }
        }
        during("put", writers[db].put(key, &value))?;
        bytes += (key.len() + value.len()) as u64;
        let operation = if how == Rewrite::Append { Operation::Update } else { Operation::Other };
        worker.finished(1, operation);
    }
    if how == Rewrite::Append {
        worker.stats.add_bytes(bytes);
    }
    worker.stats.set_message(format!("( updates:{} found:{found})", plan.readwrites));
    Ok(())
}

/// `randomwithverify`: three keys are written, deleted and read together, and must agree.
///
/// # Errors
/// An operation failed, or the three disagree.
pub fn verify_mix<D: BenchDb>(worker: &mut Worker<'_, D>) -> Result<()> {
    let (plan, flags) = (&worker.shared.plan, &worker.shared.flags);
    let (mut readers, mut writers) = (worker.readers(), worker.writers());
    let (mut keys, mut values) = (worker.keys(), worker.values());
    let distinct = u64::try_from(flags.numdistinct).unwrap_or(0).max(1);
    let gets_of_100 = u64::try_from(flags.readwritepercent).unwrap_or(0);
    let deletes_of_100 = u64::try_from(flags.deletepercent).unwrap_or(0);
    let (mut gets, mut puts, mut deletes, mut found) = (0u64, 0u64, 0u64, 0u64);
    let mut seen: [Vec<u8>; 3] = Default::default();
    for turn in 0..plan.readwrites {
        let db = worker.pick();
        let key = keys.key(worker.rng.uniform(distinct));
        let three = [b'0', b'1', b'2'].map(|suffix| [key, &[suffix]].concat());
        let turn = turn % 100;
        if turn < gets_of_100 {
            readers[db].pin(true);
            let mut all = true;
            for (key, value) in three.iter().zip(&mut seen) {
                all &= during("get", readers[db].read(key, value))?;
            }
            readers[db].pin(false);
            if seen[0] != seen[1] || seen[1] != seen[2] {
                return Err(format!("inconsistent values for key {key:?}"));
            }
            found += u64::from(all);
            gets += 1;
            worker.finished(1, Operation::Read);
        } else if turn < 100 - deletes_of_100 {
            let value = values.value();
            three.iter().rev().for_each(|key| writers[db].batch_put(key, value));
            during("putmany", writers[db].commit())?;
            puts += 1;
            worker.finished(1, Operation::Write);
        } else {
            three.iter().for_each(|key| writers[db].batch_delete(key));
            during("deletemany", writers[db].commit())?;
            deletes += 1;
            worker.finished(1, Operation::Delete);
        }
    }
    worker.stats.set_message(format!(
        "( get:{gets} put:{puts} del:{deletes} total:{} found:{found})",
        plan.readwrites
    ));
    Ok(())
}

/// `randomreplacekeys`: the present version of a key is deleted and the next one is put.
pub fn replace_keys<D: BenchDb>(worker: &mut Worker<'_, D>) -> Result<()> {
    const VERSIONS: u64 = 50;
    let (plan, flags) = (&worker.shared.plan, &worker.shared.flags);
    let mut writer = worker.shared.db.writer(plan.write);
    let (mut keys, mut values) = (worker.keys(), worker.values());
    let distinct = u64::try_from(flags.numdistinct).unwrap_or(0).max(1);
    for id in 0..distinct {
        during("put", writer.put(keys.key(id * VERSIONS), values.value()))?;
    }
    let mut versions = vec![0u64; distinct as usize];
    let mut limit = worker.limit(plan.num);
    while !limit.reached(1) {
        let drawn = distinct as f64 / 2.0 + normal(&mut worker.rng) * flags.stddev;
        let id = (drawn as u64).min(distinct - 1);
        let version = &mut versions[id as usize];
        let old = keys.key(id * VERSIONS + *version);
        match flags.use_single_deletes {
            true => during("single delete", writer.single_delete(old))?,
            false => during("delete", writer.delete(old))?,
        }
        *version = (*version + 1) % VERSIONS;
        during("put", writer.put(keys.key(id * VERSIONS + *version), b""))?;
        worker.finished(1, Operation::Other);
    }
    worker.stats.set_message(format!(
        "use single deletes: {}, standard deviation: {:.6}\n",
        u8::from(flags.use_single_deletes),
        flags.stddev
    ));
    Ok(())
}
