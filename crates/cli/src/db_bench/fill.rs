//! Benchmarks that fill: in order, at random, each key once; with column families, several
//! databases, range tombstones, overwrites and disposable entries on request.
//!
//! Each loop mirrors RocksDB's db_bench in what counts as an operation and which bytes count.

use super::disposable::{Disposables, Entry};
use super::engine::{BenchDb, Result, Writer};
use super::stats::Operation;
use super::worker::{Limit, Worker, during};
use super::workload::{KeyMaker, ValueMaker};
use pumice_base::random::Rng;
use pumice_port::time::now_micros;
use std::collections::VecDeque;

/// The order of a fill's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Ascending.
    Sequential,
    /// Any, duplicates allowed.
    Random,
    /// Every key once, shuffled.
    Unique,
}

/// Where the keys of one database come from.
struct Source {
    order: Order,
    keys: u64,
    next: u64,
    shuffled: Vec<u64>,
}

impl Source {
    fn new(order: Order, keys: u64, rng: &mut Rng) -> Source {
        let mut shuffled = Vec::new();
        if order == Order::Unique {
            shuffled = (0..keys).collect();
            rng.shuffle(&mut shuffled);
        }
        Source { order, keys, next: 0, shuffled }
    }

    /// The next key; None once each was returned.
    #[inline]
    fn next(&mut self, rng: &mut Rng) -> Option<u64> {
        let at = self.next;
        self.next += 1;
        match self.order {
            Order::Sequential => Some(at),
            Order::Random => Some(rng.uniform(self.keys)),
            Order::Unique => self.shuffled.get(at as usize).copied(),
        }
    }
}

/// Overwrites among the keys of `filluniquerandom`.
struct Overwrites {
    probability: f64,
    window_len: usize,
    window: VecDeque<u64>,
    unique: u64,
    overwritten: u64,
}

impl Overwrites {
    fn next(&mut self, source: &mut Source, rng: &mut Rng) -> Option<u64> {
        if !self.window.is_empty() && rng.next_f64() < self.probability {
            self.overwritten += 1;
            return Some(self.window[rng.uniform(self.window.len() as u64) as usize]);
        }
        let number = source.next(rng)?;
        self.unique += 1;
        if self.window.len() == self.window_len {
            self.window.pop_front();
        }
        self.window.push_back(number);
        Some(number)
    }
}

/// Range tombstones between writes.
pub struct Tombstones {
    before: u64,
    every: u64,
    most: u64,
    /// Keys of one tombstone.
    pub width: u64,
    /// Deletions of each key in place of the tombstone.
    pub expand: bool,
    /// How many there were.
    pub done: u64,
}

impl Tombstones {
    /// As the flags say.
    pub fn new<D: BenchDb>(worker: &Worker<'_, D>) -> Tombstones {
        let flags = &worker.shared.flags;
        let number = |number: i64| u64::try_from(number).unwrap_or(0);
        Tombstones {
            before: number(flags.writes_before_delete_range),
            every: number(flags.writes_per_range_tombstone),
            most: number(flags.max_num_range_tombstones),
            width: number(flags.range_tombstone_width),
            expand: flags.expand_range_tombstones,
            done: 0,
        }
    }

    /// One is due after `written` writes; it is counted.
    #[inline]
    pub fn is_due(&mut self, written: u64) -> bool {
        if self.every == 0 || written <= self.before {
            return false;
        }
        let since = written - self.before;
        let due = since.is_multiple_of(self.every) && since / self.every <= self.most;
        self.done += u64::from(due);
        due
    }

    /// Adds one that begins at key `first` to the batch of `writer`.
    pub fn add(&self, writer: &mut impl Writer, keys: &mut [KeyMaker; 2], first: u64) {
        let [begin, end] = keys;
        if self.expand {
            (first..first + self.width).for_each(|number| writer.batch_delete(begin.key(number)));
        } else {
            writer.batch_delete_range(begin.key(first), end.key(first + self.width));
        }
    }

    /// Says how many there were, if any.
    pub fn report(&self) {
        if self.done > 0 {
            println!("Number of range deletions: {}", self.done);
        }
    }
}

/// One worker's fill.
struct Fill<'w, 's, D: BenchDb> {
    worker: &'w mut Worker<'s, D>,
    sources: Vec<Source>,
    writers: Vec<D::Writer>,
    keys: KeyMaker,
    range_keys: [KeyMaker; 2],
    values: ValueMaker,
    tombstones: Tombstones,
    overwrites: Option<Overwrites>,
    /// Of each database; none unless they are asked for.
    disposables: Vec<Disposables>,
    written: u64,
    deleted: u64,
}

/// Fills in `order`.
pub fn run<D: BenchDb>(worker: &mut Worker<'_, D>, order: Order) -> Result<()> {
    let plan = &worker.shared.plan;
    let per_db = if plan.writes == 0 { plan.keys } else { plan.writes };
    run_some(worker, order, per_db)
}

/// Fills in `order`, with `writes` writes to each database.
pub fn run_some<D: BenchDb>(worker: &mut Worker<'_, D>, order: Order, per_db: u64) -> Result<()> {
    let shared = worker.shared;
    let plan = &shared.plan;
    if plan.keys != plan.num {
        worker.stats.set_message(format!("({} ops)", plan.keys));
    }
    let total = per_db * shared.dbs.len() as u64;
    let families = &plan.families;
    let stages = (families.total / families.hot) as u64;
    let stage_len = total.saturating_sub(1) / stages + 1;
    let seconds = if order == Order::Random { shared.flags.duration } else { 0 };
    let mut limit = Limit::new(&shared.flags, seconds, total);
    let mut fill = Fill::new(worker, order);
    let (mut bytes, mut stage) = (0, 0);
    while !limit.reached(plan.batch) {
        let now = (limit.done().min(total).saturating_sub(1) / stage_len).min(stages - 1);
        if now != stage {
            stage = now;
            let wanted = (stage as usize + 1) * families.hot;
            shared.dbs.iter().try_for_each(|db| db.create_families(wanted))?;
        }
        let db = match order {
            Order::Sequential => ((fill.written / per_db) as usize).min(shared.dbs.len() - 1),
            _ => fill.worker.pick(),
        };
        let Some(batch_bytes) = fill.batch(db)? else { break };
        bytes += batch_bytes;
    }
    fill.report();
    fill.worker.stats.add_bytes(bytes);
    Ok(())
}

impl<'w, 's, D: BenchDb> Fill<'w, 's, D> {
    fn new(worker: &'w mut Worker<'s, D>, order: Order) -> Self {
        let shared = worker.shared;
        let (plan, flags) = (&shared.plan, &shared.flags);
        let keys = plan.keys + u64::try_from(flags.max_num_range_tombstones).unwrap_or(0);
        let probability = flags.overwrite_probability.min(1.0);
        let overwrites = (order == Order::Unique && probability > 0.0).then(|| Overwrites {
            probability,
            window_len: flags.overwrite_window_size as usize,
            window: VecDeque::new(),
            unique: 0,
            overwritten: 0,
        });
        let disposables = Disposables::new(flags).filter(|_| order == Order::Unique);
        let sources = shared.dbs.iter().map(|_| Source::new(order, keys, &mut worker.rng));
        Fill {
            sources: sources.collect(),
            writers: worker.writers(),
            keys: worker.keys(),
            range_keys: [worker.keys(), worker.keys()],
            values: worker.values(),
            tombstones: Tombstones::new(worker),
            overwrites,
            disposables: disposables.map_or_else(Vec::new, |one| vec![one; shared.dbs.len()]),
            written: 0,
            deleted: 0,
            worker,
        }
    }

    /// Writes one batch to database `db`; its bytes, or None: no key is left.
    fn batch(&mut self, db: usize) -> Result<Option<u64>> {
        let shared = self.worker.shared;
        let plan = &shared.plan;
        let mut bytes = 0;
        for _ in 0..plan.batch {
            if !self.disposables.is_empty() {
                let Some(added) = self.add_disposable(db) else { return Ok(None) };
                bytes += added;
                continue;
            }
            let (source, writer) = (&mut self.sources[db], &mut self.writers[db]);
            let rng = &mut self.worker.rng;
            let next = match &mut self.overwrites {
                Some(overwrites) => overwrites.next(source, rng),
                None => source.next(rng),
            };
            let Some(number) = next else { return Ok(None) };
            if plan.families.total > 1 {
                writer.select(self.worker.family(db, number));
            }
            let (key, value) = (self.keys.key(number), self.values.value());
            writer.batch_put(key, value);
            bytes += (key.len() + value.len()) as u64;
            self.written += 1;
            if self.tombstones.is_due(self.written) {
                let first = source.next(&mut self.worker.rng).unwrap_or(number);
                self.tombstones.add(writer, &mut self.range_keys, first);
            }
        }
        self.worker.limit_write(bytes);
        during("put", self.writers[db].commit())?;
        self.worker.finished(plan.batch, Operation::Write);
        self.worker.follow_sine();
        Ok(Some(bytes))
    }

    /// Adds a disposable or a persistent entry, or a deletion; its bytes, or None: no key is
    /// left.
    fn add_disposable(&mut self, db: usize) -> Option<u64> {
        let shared = self.worker.shared;
        let flags = &shared.flags;
        let (at, len) = match self.disposables[db].next(now_micros()) {
            Entry::Disposable(at) => (at, Some(flags.disposable_entries_value_size)),
            Entry::Persistent(at) => (at, Some(flags.persistent_entries_value_size)),
            Entry::Delete(at) => (at, None),
        };
        let number = *self.sources[db].shuffled.get(usize::try_from(at).ok()?)?;
        let writer = &mut self.writers[db];
        if shared.plan.families.total > 1 {
            writer.select(self.worker.family(db, number));
        }
        let key = self.keys.key(number);
        let Some(len) = len else {
            writer.batch_delete(key);
            self.deleted += 1;
            return Some(key.len() as u64);
        };
        let value = self.values.value_of(usize::try_from(len).unwrap_or(0));
        writer.batch_put(key, value);
        self.written += 1;
        Some((key.len() + value.len()) as u64)
    }

    fn report(&self) {
        if !self.disposables.is_empty() {
            println!(
                "Number of unique keys inserted (disposable+persistent): {}.\n\
                 Number of 'disposable entry delete': {}",
                self.written, self.deleted
            );
        }
        if let Some(overwrites) = &self.overwrites {
            println!(
                "Number of unique keys inserted: {}.\nNumber of overwrites: {}",
                overwrites.unique, overwrites.overwritten
            );
        }
        self.tombstones.report();
    }
}
