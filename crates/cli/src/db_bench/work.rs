//! The benchmarks: what one worker does in each.
//!
//! Every loop mirrors RocksDB's db_bench in what counts as an operation, which bytes count, and
//! where the latency clock restarts. Scratch memory is taken before the loop, not in it.

use super::engine::{BenchDb, Cursor, Reader, Result, Writer};
use super::fill::{self, Order, Tombstones};
use super::flags::Flags;
use super::mixed_work::{self, Rewrite};
use super::stats::Operation;
use super::worker::{Limit, Worker, during, user_limiter, wait_for};
use super::{
    cpu_work, deterministic, directory, mixgraph, open_and_compact, operand_work, replay,
    scan_work, timeseries, transaction_work,
};
use pumice_base::checksum::ChecksumType;
use std::path::PathBuf;

/// What the workers of a benchmark do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Writes.
    Fill(Order),
    /// Writes, and compactions that shape the tree.
    FillShape(Order),
    /// A read and a write of a random key.
    Update,
    /// Iteration from the first key.
    ReadForward,
    /// Iteration from the last key.
    ReadBackward,
    /// Gets of random keys.
    ReadRandom,
    /// Operands of random keys.
    ReadOperands,
    /// Lists that are merged, and searched with and without merging them.
    SortedLists,
    /// Gets of random keys of a power of two, by the hundred.
    ReadFast,
    /// Gets of all keys, in order.
    ReadAll,
    /// Multi-gets of random keys.
    MultiRead,
    /// Seeks to random keys.
    Seek,
    /// New iterators.
    CreateIterators,
    /// Several scans as one operation.
    MultiScan,
    /// What the `Reading` does, with worker 0 doing the `Beside`.
    While(Reading, Beside),
    /// Gets and puts.
    ReadWrite,
    /// Gets and merges.
    ReadMerge,
    /// Merges.
    Merge,
    /// A read, and a write of the modified value.
    Rewrite(Rewrite),
    /// Three keys written, deleted and read together.
    VerifyMix,
    /// Versions of keys, each deleted when the next comes.
    ReplaceKeys,
    /// Numbers of several sets, changed together.
    AddToSets,
    /// A fill in order and a seek to each key.
    FillThenSeek,
    /// Gets, puts and scans after a model.
    MixGraph,
    /// Times of ids.
    TimeSeries,
    /// The calls of a trace.
    Replay,
    /// Sizes of random ranges.
    ApproximateSizes,
    /// Counts of entries of ranges in memtables.
    MemtableStats,
    /// Deletions in ascending order.
    DeleteSequential,
    /// Deletions of random keys.
    DeleteRandom,
    /// Full compaction.
    Compact,
    /// Checksums of all blocks of all files.
    VerifyChecksum,
    /// Checksums of whole files.
    VerifyFileChecksums,
    /// A compaction of all tables as a worker of a compaction service does it.
    OpenAndCompact,
    /// A backup in an emptied backup directory.
    Backup,
    /// The newest backup into a directory.
    Restore,
    /// A checksum of memory.
    Checksum(ChecksumType),
    /// Compression, or with true decompression, of memory.
    Codec(bool),
    /// Loads of memory.
    Load,
}

/// What the readers of a mixed benchmark do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// Gets.
    Get,
    /// Multi-gets.
    MultiGet,
    /// Seeks.
    Seek,
    /// New iterators.
    Create,
}

/// What worker 0 of a mixed benchmark does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    /// Puts.
    Put,
    /// Merges.
    Merge,
    /// A scan, again and again.
    Scan,
}

impl Work {
    /// It merges, and so needs an operator.
    pub fn merges(self) -> bool {
        use Work::*;
        matches!(self, Merge | ReadMerge | SortedLists | While(_, Beside::Merge))
    }

    /// It prints how many keys a batch has.
    pub fn prints_batch(self) -> bool {
        use Work::*;
        matches!(self, MultiRead | ApproximateSizes | While(Reading::MultiGet, _))
    }
}

/// Does one worker's share of `work`.
pub fn run<D: BenchDb>(work: Work, worker: &mut Worker<'_, D>) -> Result<()> {
    match work {
        Work::Fill(order) => fill::run(worker, order),
        Work::FillShape(order) => deterministic::run(worker, order),
        Work::Update => update(worker),
        Work::ReadForward => read_in_order(worker, true),
        Work::ReadBackward => read_in_order(worker, false),
        Work::ReadRandom => read_random(worker, |reader, key| reader.get(key)),
        Work::ReadOperands => read_random(worker, operand_work::read),
        Work::SortedLists => operand_work::sorted_lists(worker),
        Work::ReadFast => scan_work::read_fast(worker),
        Work::ReadAll => scan_work::read_all(worker),
        Work::MultiRead => multi_read(worker),
        Work::Seek => seek(worker),
        Work::CreateIterators => scan_work::create_iterators(worker),
        Work::MultiScan => scan_work::multi_scan(worker),
        Work::While(_, Beside::Put) if worker.index == 0 => write_in_background(worker, false),
        Work::While(_, Beside::Merge) if worker.index == 0 => write_in_background(worker, true),
        Work::While(_, Beside::Scan) if worker.index == 0 => scan_work::scan_in_background(worker),
        Work::While(Reading::Get, _) => read_random(worker, |reader, key| reader.get(key)),
        Work::While(Reading::MultiGet, _) => multi_read(worker),
        Work::While(Reading::Seek, _) => seek(worker),
        Work::While(Reading::Create, _) => scan_work::create_iterators(worker),
        Work::ReadWrite => mixed_work::read_write(worker),
        Work::ReadMerge => mixed_work::read_merge(worker),
        Work::Merge => mixed_work::merge(worker),
        Work::Rewrite(how) => mixed_work::rewrite(worker, how),
        Work::VerifyMix => mixed_work::verify_mix(worker),
        Work::ReplaceKeys => mixed_work::replace_keys(worker),
        Work::AddToSets => transaction_work::add_to_sets(worker),
        Work::FillThenSeek => scan_work::fill_then_seek(worker),
        Work::MixGraph => mixgraph::run(worker),
        Work::TimeSeries => timeseries::run(worker),
        Work::Replay => replay::run(worker),
        Work::ApproximateSizes => scan_work::approximate_sizes(worker),
        Work::MemtableStats => scan_work::memtable_stats(worker),
        Work::DeleteSequential => delete(worker, false),
        Work::DeleteRandom => delete(worker, true),
        Work::Compact => {
            let db = worker.pick();
            let subcompactions = worker.shared.flags.subcompactions;
            during("compact", worker.shared.dbs[db].compact(subcompactions))?;
            worker.finished(1, Operation::Other);
            Ok(())
        }
        Work::VerifyChecksum => {
            let db = worker.pick();
            during("verifychecksum", worker.shared.dbs[db].verify_checksum())?;
            worker.finished(1, Operation::Other);
            Ok(())
        }
        Work::VerifyFileChecksums => verify_file_checksums(worker),
        Work::OpenAndCompact => open_and_compact::run(worker),
        Work::Backup => {
            let db = worker.pick();
            let to = backup_directory(&worker.shared.flags);
            let rate = worker.shared.flags.backup_rate_limit;
            during("backup", worker.shared.dbs[db].backup(&to, rate))
        }
        Work::Restore => {
            let flags = &worker.shared.flags;
            let (from, to) = (backup_directory(flags), restore_directory(flags));
            during("restore", worker.shared.db.restore(&from, &to, flags.restore_rate_limit))
        }
        Work::Checksum(kind) => cpu_work::checksum(worker, kind),
        Work::Codec(back) => cpu_work::codec(worker, back),
        Work::Load => cpu_work::load(worker),
    }
}

fn verify_file_checksums<D: BenchDb>(worker: &mut Worker<'_, D>) -> Result<()> {
    let db = worker.pick();
    let read = &worker.shared.plan.read;
    during("verifyfilechecksums", worker.shared.dbs[db].verify_file_checksums(read))?;
    worker.finished(1, Operation::Other);
    Ok(())
}

/// The directory that a flag names, or the one that RocksDB's db_bench takes without the flag.
/// Where `backup` writes and `restore` reads.
pub fn backup_directory(flags: &Flags) -> PathBuf {
    directory(&flags.backup_dir, "backup")
}

/// Where `restore` writes.
pub fn restore_directory(flags: &Flags) -> PathBuf {
    directory(&flags.restore_dir, "restore")
}

fn delete<D: BenchDb>(worker: &mut Worker<'_, D>, random: bool) -> Result<()> {
    let plan = &worker.shared.plan;
    let seconds = if random { worker.shared.flags.duration } else { 0 };
    let mut limit = Limit::new(&worker.shared.flags, seconds, plan.deletes);
    let mut writers = worker.writers();
    let mut keys = worker.keys();
    let mut next = 0;
    while !limit.reached(plan.batch) {
        let writer = &mut writers[worker.pick()];
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
    let mut limit = worker.limit(plan.readwrites);
    let (mut readers, mut writers) = (worker.readers(), worker.writers());
    let (mut keys, mut values) = (worker.keys(), worker.values());
    let (mut updates, mut found, mut bytes) = (0u64, 0u64, 0u64);
    while !limit.reached(1) {
        let db = worker.pick();
        let number = worker.random_key();
        let (key, value) = (keys.key(number), values.value());
        if let Some(len) = during("get", readers[db].get(key))? {
            found += 1;
            bytes += (key.len() + len) as u64;
        }
        worker.limit_write((key.len() + value.len()) as u64);
        during("put", writers[db].put(key, value))?;
        bytes += (key.len() + value.len()) as u64;
        updates += 1;
        worker.finished(1, Operation::Update);
    }
    worker.stats.add_bytes(bytes);
    worker.stats.set_message(format!("( updates:{updates} found:{found})"));
    Ok(())
}

fn read_in_order<D: BenchDb>(worker: &mut Worker<'_, D>, forward: bool) -> Result<()> {
    for db in &worker.shared.dbs {
        read_all(worker, &**db, forward)?;
    }
    Ok(())
}

fn read_all<D: BenchDb>(worker: &mut Worker<'_, D>, db: &D, forward: bool) -> Result<()> {
    let plan = &worker.shared.plan;
    let mut cursor = db.cursor(&plan.read, [None, None])?;
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

/// Reads random keys by `get`, which returns the bytes of what it found.
fn read_random<D: BenchDb>(
    worker: &mut Worker<'_, D>,
    get: impl Fn(&mut D::Reader, &[u8]) -> Result<Option<usize>>,
) -> Result<()> {
    let plan = &worker.shared.plan;
    let mut limit = worker.limit(plan.reads);
    let mut readers = worker.readers();
    let mut keys = worker.keys();
    let stride = worker.stride();
    let (mut read, mut found, mut bytes, mut strided) = (0u64, 0u64, 0u64, 0u64);
    while !limit.reached(1) {
        let db = worker.pick();
        let number = match stride {
            Some(stride) if read % plan.batch != 0 => strided + stride,
            Some(_) => worker.strided_key(),
            None => worker.read_key(),
        };
        strided = number;
        if plan.families.total > 1 {
            readers[db].select(worker.family(db, number));
        }
        let key = keys.key(number);
        read += 1;
        if let Some(len) = during("get", get(&mut readers[db], key))? {
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
    let mut readers = worker.readers();
    let mut keys = worker.keys();
    let stride = worker.stride();
    let mut batch = Vec::with_capacity(plan.batch as usize * plan.key_size);
    let (mut read, mut found, mut bytes) = (0u64, 0u64, 0u64);
    while !limit.reached(plan.batch) {
        batch.clear();
        let db = worker.pick();
        let first = worker.strided_key();
        for at in 0..plan.batch {
            let number = match stride {
                Some(stride) => first + at * stride,
                None => worker.read_key(),
            };
            batch.extend_from_slice(keys.key(number));
        }
        let hits = during("multiget", readers[db].multi_get(&batch, plan.key_size))?;
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

/// Seeks with a new iterator each; with `use_tailing_iterator` and no bounds by one for each
/// database, as RocksDB's db_bench.
fn seek<D: BenchDb>(worker: &mut Worker<'_, D>) -> Result<()> {
    let (plan, flags) = (&worker.shared.plan, &worker.shared.flags);
    let mut limit = Limit::new(flags, flags.duration, plan.reads);
    let (mut keys, mut bound) = (worker.keys(), worker.keys());
    if flags.seek_missing_prefix {
        keys = keys.with_missing_prefix();
    }
    let distance = u64::try_from(flags.max_scan_distance).unwrap_or(0);
    let mut copied = [0u8; 256];
    let (mut read, mut found, mut bytes) = (0u64, 0u64, 0u64);
    let keeps = flags.use_tailing_iterator && distance == 0;
    let mut kept: Vec<Option<D::Cursor>> = worker.shared.dbs.iter().map(|_| None).collect();
    while !limit.reached(1) {
        let number = worker.random_key();
        let bounds = match (distance, flags.reverse_iterator) {
            (0, _) => [None, None],
            (_, true) => [Some(bound.key(number.saturating_sub(distance))), None],
            (_, false) => [None, Some(bound.key((number + distance).min(plan.num)))],
        };
        let db = worker.pick();
        let mut cursor = match kept[db].take() {
            Some(cursor) => cursor,
            None => worker.shared.dbs[db].cursor(&plan.read, bounds)?,
        };
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
        kept[db] = keeps.then_some(cursor);
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
    let mut writers = worker.writers();
    let mut range_keys = [worker.keys(), worker.keys()];
    let mut tombstones = Tombstones::new(worker);
    let (mut keys, mut values) = (worker.keys(), worker.values());
    let (mut written, mut announced) = (0u64, false);
    loop {
        if flags.finish_after_writes && written >= plan.writes {
            eprintln!("Exiting the writer after {written} writes...");
            break;
        }
        if worker.alone() {
            if !flags.finish_after_writes {
                break;
            }
            if !announced {
                eprintln!("Reads are finished. Have {} more writes to do", plan.writes - written);
                announced = true;
            }
        }
        let writer = &mut writers[worker.pick()];
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
        if tombstones.is_due(written) {
            let first = worker.rng.uniform(plan.num);
            tombstones.add(writer, &mut range_keys, first);
            during("deleterange", writer.commit())?;
            worker.finished(1, Operation::Write);
        }
    }
    tombstones.report();
    Ok(())
}
