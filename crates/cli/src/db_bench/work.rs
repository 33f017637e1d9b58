//! The benchmarks: what one worker does in each.
//!
//! Every loop mirrors RocksDB's db_bench in what counts as an operation, which bytes count, and
//! where the latency clock restarts. Scratch memory is taken before the loop, not in it.

use super::engine::{BenchDb, Cursor, Reader, Result, Writer};
use super::stats::Operation;
use super::worker::{Limit, Worker, during, user_limiter, wait_for};

/// What the workers of a benchmark do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Writes in ascending order.
    FillSequential,
    /// Writes of random keys, duplicates allowed.
    FillRandom,
    /// Writes of every key once, in random order.
    FillUnique,
    /// A read and a write of a random key.
    Update,
    /// Iteration from the first key.
    ReadForward,
    /// Iteration from the last key.
    ReadBackward,
    /// Gets of random keys.
    ReadRandom,
    /// Multi-gets of random keys.
    MultiRead,
    /// Seeks to random keys.
    Seek,
    /// Gets, with worker 0 putting.
    ReadWhileWriting,
    /// Gets, with worker 0 merging.
    ReadWhileMerging,
    /// Deletions in ascending order.
    DeleteSequential,
    /// Deletions of random keys.
    DeleteRandom,
    /// Full compaction.
    Compact,
    /// Checksums of all files.
    VerifyChecksum,
}

/// Does one worker's share of `work`.
pub fn run<D: BenchDb>(work: Work, worker: &mut Worker<'_, D>) -> Result<()> {
    match work {
        Work::FillSequential => fill(worker, 0, 0.., |next, _| next),
        Work::FillRandom => {
            let seconds = worker.shared.flags.duration;
            fill(worker, seconds, 0.., |_, worker| worker.random_key())
        }
        Work::FillUnique => {
            let mut order: Vec<u64> = (0..worker.shared.plan.keys).collect();
            worker.rng.shuffle(&mut order);
            fill(worker, 0, order, |next, _| next)
        }
        Work::Update => update(worker),
        Work::ReadForward => read_in_order(worker, true),
        Work::ReadBackward => read_in_order(worker, false),
        Work::ReadRandom => read_random(worker),
        Work::MultiRead => multi_read(worker),
        Work::Seek => seek(worker),
        Work::ReadWhileWriting if worker.index == 0 => write_in_background(worker, false),
        Work::ReadWhileMerging if worker.index == 0 => write_in_background(worker, true),
        Work::ReadWhileWriting | Work::ReadWhileMerging => read_random(worker),
        Work::DeleteSequential => delete(worker, false),
        Work::DeleteRandom => delete(worker, true),
        Work::Compact => {
            during("compact", worker.shared.db.compact(worker.shared.flags.subcompactions))?;
            worker.finished(1, Operation::Other);
            Ok(())
        }
        Work::VerifyChecksum => {
            during("verifychecksum", worker.shared.db.verify_checksum())?;
            worker.finished(1, Operation::Other);
            Ok(())
        }
    }
}

/// Writes batches of the keys that `choose` makes of `numbers`, until these or the limit end.
fn fill<D: BenchDb>(
    worker: &mut Worker<'_, D>,
    seconds: i32,
    numbers: impl IntoIterator<Item = u64>,
    choose: impl Fn(u64, &mut Worker<'_, D>) -> u64,
) -> Result<()> {
    let plan = &worker.shared.plan;
    let operations = if plan.writes == 0 { plan.keys } else { plan.writes };
    if operations != plan.keys {
        worker.stats.set_message(format!("({} ops)", plan.keys));
    }
    let (mut keys, mut values) = (worker.keys(), worker.values());
    let mut writer = worker.shared.db.writer(plan.write);
    let mut limit = Limit::new(&worker.shared.flags, seconds, operations);
    let mut numbers = numbers.into_iter();
    let pair_bytes = (plan.key_size + plan.value_size) as u64;
    let mut bytes = 0;
    'batches: while !limit.reached(plan.batch) {
        for _ in 0..plan.batch {
            let Some(next) = numbers.next() else { break 'batches };
            let number = choose(next, worker);
            writer.batch_put(keys.key(number), values.value());
        }
        worker.limit_write(plan.batch * pair_bytes);
        during("put", writer.commit())?;
        worker.finished(plan.batch, Operation::Write);
        bytes += plan.batch * pair_bytes;
        worker.follow_sine();
    }
    worker.stats.add_bytes(bytes);
    Ok(())
}

fn delete<D: BenchDb>(worker: &mut Worker<'_, D>, random: bool) -> Result<()> {
    let plan = &worker.shared.plan;
    let seconds = if random { worker.shared.flags.duration } else { 0 };
    let mut limit = Limit::new(&worker.shared.flags, seconds, plan.deletes);
    let mut writer = worker.shared.db.writer(plan.write);
    let mut keys = worker.keys();
    let mut next = 0;
    while !limit.reached(plan.batch) {
        for _ in 0..plan.batch {
            let number = if random { worker.random_key() } else { next };
            next += 1;
            writer.batch_delete(keys.key(number));
        }
        during("del", writer.commit())?;
        worker.finished(plan.batch, Operation::Delete);
    }
    Ok(())
}

fn update<D: BenchDb>(worker: &mut Worker<'_, D>) -> Result<()> {
    let plan = &worker.shared.plan;
    let mut limit = Limit::new(&worker.shared.flags, worker.shared.flags.duration, plan.reads);
    let mut reader = worker.shared.db.reader(&plan.read);
    let mut writer = worker.shared.db.writer(plan.write);
    let (mut keys, mut values) = (worker.keys(), worker.values());
    let (mut updates, mut found, mut bytes) = (0u64, 0u64, 0u64);
    while !limit.reached(1) {
        let number = worker.random_key();
        let key = keys.key(number);
        if let Some(len) = during("get", reader.get(key))? {
            found += 1;
            bytes += (key.len() + len) as u64;
        }
        worker.limit_write((key.len() + plan.value_size) as u64);
        during("put", writer.put(key, values.value()))?;
        bytes += (key.len() + plan.value_size) as u64;
        updates += 1;
        worker.finished(1, Operation::Update);
    }
    worker.stats.add_bytes(bytes);
    worker.stats.set_message(format!("( updates:{updates} found:{found})"));
    Ok(())
}

fn read_in_order<D: BenchDb>(worker: &mut Worker<'_, D>, forward: bool) -> Result<()> {
    let plan = &worker.shared.plan;
    let mut cursor = worker.shared.db.cursor(&plan.read, [None, None])?;
    let (mut read, mut bytes) = (0u64, 0u64);
    if forward {
        cursor.seek_to_first();
    } else {
        cursor.seek_to_last();
    }
    while read < plan.reads && cursor.valid() {
        bytes += (cursor.key().len() + cursor.value().len()) as u64;
        worker.finished(1, Operation::Read);
        worker.limit_read(read, 1024);
        read += 1;
        if forward {
            cursor.next();
        } else {
            cursor.prev();
        }
    }
    worker.stats.add_bytes(bytes);
    during("iterator", cursor.status())
}

fn read_random<D: BenchDb>(worker: &mut Worker<'_, D>) -> Result<()> {
    let plan = &worker.shared.plan;
    let mut limit = Limit::new(&worker.shared.flags, worker.shared.flags.duration, plan.reads);
    let mut reader = worker.shared.db.reader(&plan.read);
    let mut keys = worker.keys();
    let (mut read, mut found, mut bytes) = (0u64, 0u64, 0u64);
    while !limit.reached(1) {
        let number = worker.random_key();
        let key = keys.key(number);
        read += 1;
        if let Some(len) = during("get", reader.get(key))? {
            found += 1;
            bytes += (key.len() + len) as u64;
        }
        worker.limit_read(read, 256);
        worker.finished(1, Operation::Read);
    }
    worker.stats.add_bytes(bytes);
    worker.stats.set_message(format!("({found} of {read} found)\n"));
    Ok(())
}

fn multi_read<D: BenchDb>(worker: &mut Worker<'_, D>) -> Result<()> {
    let plan = &worker.shared.plan;
    let mut limit = Limit::new(&worker.shared.flags, worker.shared.flags.duration, plan.reads);
    let mut reader = worker.shared.db.reader(&plan.read);
    let mut keys = worker.keys();
    let mut batch = Vec::with_capacity(plan.batch as usize * plan.key_size);
    let (mut read, mut found, mut bytes) = (0u64, 0u64, 0u64);
    while !limit.reached(plan.batch) {
        batch.clear();
        for _ in 0..plan.batch {
            let number = worker.random_key();
            batch.extend_from_slice(keys.key(number));
        }
        let hits = during("multiget", reader.multi_get(&batch, plan.key_size))?;
        read += plan.batch;
        found += hits.found;
        bytes += hits.bytes;
        worker.limit_read(read / plan.batch, 256);
        worker.finished(plan.batch, Operation::Read);
    }
    worker.stats.add_bytes(bytes);
    worker.stats.set_message(format!("({found} of {read} found)"));
    Ok(())
}

/// Seeks with a new iterator each, as RocksDB's db_bench does without `use_tailing_iterator`.
fn seek<D: BenchDb>(worker: &mut Worker<'_, D>) -> Result<()> {
    let (plan, flags) = (&worker.shared.plan, &worker.shared.flags);
    let mut limit = Limit::new(flags, flags.duration, plan.reads);
    let (mut keys, mut bound) = (worker.keys(), worker.keys());
    let distance = u64::try_from(flags.max_scan_distance).unwrap_or(0);
    let mut copied = [0u8; 256];
    let (mut read, mut found, mut bytes) = (0u64, 0u64, 0u64);
    while !limit.reached(1) {
        let number = worker.random_key();
        let bounds = match (distance, flags.reverse_iterator) {
            (0, _) => [None, None],
            (_, true) => [Some(bound.key(number.saturating_sub(distance))), None],
            (_, false) => [None, Some(bound.key((number + distance).min(plan.num)))],
        };
        let mut cursor = worker.shared.db.cursor(&plan.read, bounds)?;
        let key = keys.key(number);
        cursor.seek(key);
        read += 1;
        found += u64::from(cursor.valid() && cursor.key() == key);
        for _ in 0..flags.seek_nexts {
            if !cursor.valid() {
                break;
            }
            let value = cursor.value();
            let len = value.len().min(copied.len());
            copied[..len].copy_from_slice(&value[..len]);
            std::hint::black_box(&mut copied);
            bytes += (cursor.key().len() + value.len()) as u64;
            if flags.reverse_iterator {
                cursor.prev();
            } else {
                cursor.next();
            }
        }
        during("iterator", cursor.status())?;
        worker.limit_read(read, 256);
        worker.finished(1, Operation::Seek);
    }
    worker.stats.add_bytes(bytes);
    worker.stats.set_message(format!("({found} of {read} found)\n"));
    Ok(())
}

/// Worker 0 of the mixed benchmarks: writes until the readers are done, and is not in the result.
fn write_in_background<D: BenchDb>(worker: &mut Worker<'_, D>, merge: bool) -> Result<()> {
    let (plan, flags) = (&worker.shared.plan, &worker.shared.flags);
    worker.stats.exclude();
    let rate = flags.benchmark_write_rate_limit;
    let limiter = (rate > 0).then(|| user_limiter(rate));
    let range = if flags.bgwriter_num > 0 { flags.bgwriter_num } else { plan.num };
    let mut writer = worker.shared.db.writer(plan.write);
    let (mut keys, mut values) = (worker.keys(), worker.values());
    let (mut written, mut told) = (0u64, false);
    loop {
        if flags.finish_after_writes && written >= plan.writes {
            eprintln!("Exiting the writer after {written} writes...");
            return Ok(());
        }
        if worker.alone() {
            if !flags.finish_after_writes {
                return Ok(());
            }
            if !told {
                eprintln!("Reads are finished. Have {} more writes to do", plan.writes - written);
                told = true;
            }
        }
        let key = keys.key(worker.rng.uniform(range));
        let value = values.value();
        if merge {
            during("merge", writer.merge(key, value))?;
        } else {
            during("put", writer.put(key, value))?;
        }
        written += 1;
        worker.finished(1, if merge { Operation::Merge } else { Operation::Write });
        if let Some(limiter) = &limiter {
            wait_for(limiter, (key.len() + value.len()) as u64);
        }
    }
}
