//! One benchmark run: what its workers share, and what each worker has.
//!
//! A worker is a thread or, with `--fibers`, a fiber; nothing here checks which.
//!
//! Thread safety: [`Shared`] is shared by the workers of a run, [`Worker`] belongs to one.
//! Invariant: (1) no worker starts its clock before all have arrived at the gate.

use super::engine::{BenchDb, ReadSettings, Result, WriteSettings};
use super::families::Families;
use super::flags::Flags;
use super::stats::{Operation, Progress, Stats};
use super::thread_report;
use super::workload::{ExistingKeys, KeyMaker, Lengths, ValueMaker};
use pumice_base::random::Rng;
use pumice_env::rate_limiter::{IoKind, IoPriority, RateLimiter, RateLimiterOptions};
use pumice_port::fiber::maybe_yield;
use pumice_port::sync::{Condvar, Mutex};
use pumice_port::thread::sleep;
use pumice_port::time::now_micros;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// Calls between two checks of the fiber's time slice, which cost a clock reading each.
const YIELD_EVERY: u32 = 16;

/// The numbers of one benchmark, after its name has changed some of the flags.
#[derive(Clone)]
pub struct Plan {
    /// Keys are chosen from `0..keys`.
    pub keys: u64,
    /// The number that the flag `num` gives, before a benchmark divides it.
    pub num: u64,
    /// Reads of each worker.
    pub reads: u64,
    /// Writes of each worker; 0 is `keys`.
    pub writes: u64,
    /// Deletions of each worker.
    pub deletes: u64,
    /// Bytes of a key.
    pub key_size: usize,
    /// Bytes of values.
    pub value_size: Lengths,
    /// Operations of each worker that mixes reads and writes.
    pub readwrites: u64,
    /// Keys of merges are chosen from `0..merge_keys`.
    pub merge_keys: u64,
    /// Column families.
    pub families: Families,
    /// Updates in a batch, keys in a multi-get.
    pub batch: u64,
    /// How to write.
    pub write: WriteSettings,
    /// How to read.
    pub read: ReadSettings,
}

/// What the workers of one run share.
pub struct Shared<D> {
    /// The command line.
    pub flags: Arc<Flags>,
    /// The run's numbers.
    pub plan: Plan,
    /// The database; the first one of several.
    pub db: Arc<D>,
    /// All of them (`--num_multi_db`).
    pub dbs: Vec<Arc<D>>,
    /// Keys to choose from (`--use_existing_keys`).
    pub existing: Option<ExistingKeys>,
    /// The time that timeseries makes.
    pub time: Arc<AtomicU64>,
    /// Bytes that values are cut from.
    pub values: Arc<[u8]>,
    /// Limit of foreground writes, bytes a second; the sine benchmark changes its rate.
    pub write_limiter: Option<RateLimiter>,
    /// Limit of reads, operations a second.
    pub read_limiter: Option<RateLimiter>,
    /// Operations of all workers, when a CSV report wants them.
    pub reported: Option<Arc<AtomicU64>>,
    /// Workers of this run, background writers included.
    pub workers: usize,
    /// Workers that are done.
    pub finished: AtomicUsize,
    gate: Mutex<Gate>,
    gate_changed: Condvar,
}

/// Where the workers of a run wait for each other.
#[derive(Default)]
struct Gate {
    arrived: usize,
    /// Some worker could not be started: none begins.
    closed: bool,
}

impl<D: BenchDb> Shared<D> {
    /// The shared part of a run of `workers` workers.
    pub fn new(
        flags: Arc<Flags>,
        plan: Plan,
        dbs: Vec<Arc<D>>,
        (values, existing): (Arc<[u8]>, Option<ExistingKeys>),
        reported: Option<Arc<AtomicU64>>,
        workers: usize,
    ) -> Self {
        let write_rate = match flags.sine_write_rate {
            true => sine_rate(&flags, 0.0),
            false => flags.benchmark_write_rate_limit,
        };
        let limiter = |rate: u64| (rate > 0).then(|| user_limiter(rate));
        // Until mixgraph's curve is first evaluated, a million operations a second.
        let mixed = |rate: u64| if flags.sine_mix_rate { 1_000_000 } else { rate };
        Shared {
            write_limiter: limiter(mixed(write_rate)),
            read_limiter: limiter(mixed(flags.benchmark_read_rate_limit)),
            flags,
            plan,
            time: dbs[0].time(),
            db: dbs[0].clone(),
            dbs,
            existing,
            values,
            reported,
            workers,
            finished: AtomicUsize::new(0),
            gate: Mutex::new(Gate::default()),
            gate_changed: Condvar::new(),
        }
    }

    /// Releases the waiting workers without work: the others could not be started.
    pub fn abandon(&self) {
        self.gate.lock().closed = true;
        self.gate_changed.notify_all();
    }

    fn wait_for_all(&self) -> Result<()> {
        let mut gate = self.gate.lock();
        gate.arrived += 1;
        if gate.arrived == self.workers {
            self.gate_changed.notify_all();
        }
        while gate.arrived < self.workers && !gate.closed {
            gate = self.gate_changed.wait(gate);
        }
        if gate.closed { Err("the benchmark was abandoned".into()) } else { Ok(()) }
    }
}

/// One worker of a run.
pub struct Worker<'a, D: BenchDb> {
    /// What all workers share.
    pub shared: &'a Shared<D>,
    /// 0-based number of the worker.
    pub index: usize,
    /// The worker's random numbers.
    pub rng: Rng,
    /// What the worker did.
    pub stats: Stats,
    /// Calls of `finished` since the last that let other fibers run.
    unyielded: u32,
    last_sine_change: u64,
    /// When the next write arrives, microseconds after the start (`--open_loop`).
    next_arrival: f64,
}

impl<'a, D: BenchDb> Worker<'a, D> {
    /// Waits at the gate for the other workers and starts the clock.
    ///
    /// # Errors
    /// The run was abandoned.
    pub fn start(shared: &'a Shared<D>, index: usize, seed: u64) -> Result<Self> {
        shared.wait_for_all()?;
        let stats = Stats::start(&shared.flags, index, shared.reported.clone());
        let last_sine_change = stats.started_at();
        let rng = Rng::new(seed);
        let (unyielded, next_arrival) = (0, 0.0);
        Ok(Worker { shared, index, rng, stats, unyielded, last_sine_change, next_arrival })
    }

    /// The maker of keys, from the flags.
    pub fn keys(&self) -> KeyMaker {
        let keys = KeyMaker::new(&self.shared.flags, self.shared.plan.key_size);
        keys.choosing(self.shared.existing.clone())
    }

    /// The database of the next operation.
    #[inline]
    pub fn pick(&mut self) -> usize {
        match self.shared.dbs.len() {
            1 => 0,
            count => self.rng.uniform(count as u64) as usize,
        }
    }

    /// Where key `number` of database `db` is.
    #[inline]
    pub fn family(&self, db: usize, number: u64) -> usize {
        let families = &self.shared.plan.families;
        match families.total {
            1 => 0,
            _ => families.of_key(number, self.shared.dbs[db].families()),
        }
    }

    /// A writer for each database.
    pub fn writers(&self) -> Vec<D::Writer> {
        self.shared.dbs.iter().map(|db| db.writer(self.shared.plan.write)).collect()
    }

    /// A reader for each database.
    pub fn readers(&self) -> Vec<D::Reader> {
        self.shared.dbs.iter().map(|db| db.reader(&self.shared.plan.read)).collect()
    }

    /// A limit of `operations`, or of the seconds that the flags say.
    pub fn limit(&self, operations: u64) -> Limit {
        Limit::new(&self.shared.flags, self.shared.flags.duration, operations)
    }

    /// The distance of the keys of a batch (`--multiread_stride`), if one is wanted.
    pub fn stride(&self) -> Option<u64> {
        let stride = u64::try_from(self.shared.flags.multiread_stride).unwrap_or(0);
        (stride > 0 && self.shared.plan.batch > 1).then_some(stride)
    }

    /// The first key of a batch whose keys have that distance; all of them exist if the batch does
    /// not span more than there are.
    pub fn strided_key(&mut self) -> u64 {
        let Some(stride) = self.stride() else { return 0 };
        let (num, batch) = (self.shared.plan.num, self.shared.plan.batch);
        let first = self.read_key();
        match first + (batch - 1) * stride >= num {
            true => num.saturating_sub(batch * stride),
            false => first,
        }
    }

    /// Restarts the clock: earlier counts are not in the result.
    pub fn restart(&mut self) {
        self.stats = Stats::start(&self.shared.flags, self.index, self.shared.reported.clone());
    }

    /// Moves the rates of mixgraph along the sine curve when its interval has passed: reads and
    /// scans (the first and the third of `ratios`) have one limit, puts another.
    pub fn follow_mix_sine(&mut self, ratios: [f64; 3]) {
        let flags = &self.shared.flags;
        let now = now_micros();
        if now - self.last_sine_change <= flags.sine_mix_rate_interval_milliseconds * 1000 {
            return;
        }
        self.last_sine_change = now;
        let seconds = (now - self.stats.started_at()) as f64 / 1e6;
        let mut rate = sine_rate(flags, seconds) as f64;
        if (0.0..=1.0).contains(&flags.sine_mix_rate_noise) {
            let noise = (self.rng.next_f64() - 0.5) * flags.sine_a * flags.sine_mix_rate_noise;
            rate = if rate + noise < 0.0 { rate } else { rate + noise };
        }
        let [get, put, seek] = ratios;
        let limiters = [(&self.shared.read_limiter, get + seek), (&self.shared.write_limiter, put)];
        for (limiter, share) in limiters {
            if let Some(limiter) = limiter
                && rate * share >= 1.0
            {
                limiter.set_bytes_per_second((rate * share) as u64).expect("a rate above 0");
            }
        }
    }

    /// A key number as random reads draw it, skewed with `--read_random_exp_range`.
    #[inline]
    pub fn read_key(&mut self) -> u64 {
        let num = self.shared.plan.num;
        let range = self.shared.flags.read_random_exp_range;
        if range == 0.0 {
            return self.rng.uniform(num);
        }
        // Times a prime, so that adjacent numbers are not adjacent keys.
        let number = ((-self.rng.next_f64() * range).exp() * num as f64) as u64;
        number.wrapping_mul(0x5bd1_e995) % num
    }

    /// The maker of values, from the flags.
    pub fn values(&self) -> ValueMaker {
        let (bytes, lengths) = (self.shared.values.clone(), self.shared.plan.value_size);
        ValueMaker::new(bytes, lengths, &self.shared.flags, 301 + self.index as u64)
    }

    /// A random key number.
    #[inline]
    pub fn random_key(&mut self) -> u64 {
        self.rng.uniform(self.shared.plan.num)
    }

    /// Counts `n` operations that ended now. On a fiber it may suspend: operations that find all
    /// they need in memory do not wait, and the other workers of the loop need their turn.
    #[inline]
    pub fn finished(&mut self, n: u64, operation: Operation) {
        self.unyielded += 1;
        if self.unyielded == YIELD_EVERY {
            self.unyielded = 0;
            maybe_yield();
        }
        match self.stats.finished(n, operation) {
            Progress::None => {}
            progress => self.report_progress(progress),
        }
    }

    /// What the first worker adds to a report of its progress.
    #[cold]
    fn report_progress(&self, progress: Progress) {
        let flags = &self.shared.flags;
        if self.index == 0 && progress == Progress::Interval && flags.stats_per_interval > 0 {
            self.report_interval();
        }
        if self.index == 0 && flags.thread_status_per_interval != 0 {
            eprint!("{}", thread_report::text(&self.shared.db.thread_list()));
        }
    }

    /// What `--stats_per_interval` adds to an interval's line, word for word as RocksDB's.
    fn report_interval(&self) {
        let property = |name: &str| self.shared.db.property(&format!("rocksdb.{name}"));
        if let Some(text) = property("stats") {
            eprint!("{text}");
        }
        if let Some(text) = property("num-running-compactions") {
            eprintln!("num-running-compactions: {text}");
        }
        if let Some(text) = property("num-running-flushes") {
            eprintln!("num-running-flushes: {text}\n");
        }
        if self.shared.flags.show_table_properties {
            for level in 0..self.shared.flags.num_levels {
                let name = format!("aggregated-table-properties-at-level{level}");
                let text = property(&name).filter(|text| !text.contains("# entries=0"));
                text.iter().for_each(|text| eprintln!("Level[{level}]: {text}"));
            }
        }
    }

    /// Waits until the write limit allows `bytes`.
    #[inline]
    pub fn limit_write(&mut self, bytes: u64) {
        if self.shared.flags.open_loop {
            self.await_arrival(bytes);
        } else if let Some(limiter) = &self.shared.write_limiter {
            wait_for(limiter, bytes);
            self.stats.reset_operation_timer();
        }
    }

    /// Waits until the next write of `bytes` arrives, if it has not: all workers together get the
    /// rate of the flags, whatever became of earlier writes.
    fn await_arrival(&mut self, bytes: u64) {
        let flags = &self.shared.flags;
        let rate = match flags.sine_write_rate {
            true => sine_rate(flags, self.next_arrival / 1e6),
            false => flags.benchmark_write_rate_limit,
        };
        let own = rate as f64 / self.shared.workers as f64;
        self.next_arrival += bytes as f64 / own * 1e6;
        let arrival = self.stats.started_at() + self.next_arrival as u64;
        let now = now_micros();
        if now < arrival {
            sleep(Duration::from_micros(arrival - now));
        }
        self.stats.set_operation_start(arrival);
    }

    /// Waits, once in `every` reads, until the read limit allows `every` operations.
    #[inline]
    pub fn limit_read(&self, reads: u64, every: u64) {
        if let Some(limiter) = &self.shared.read_limiter
            && reads % every == every - 1
        {
            wait_for(limiter, every);
        }
    }

    /// Moves the write rate along the sine curve when its interval has passed.
    pub fn follow_sine(&mut self) {
        let flags = &self.shared.flags;
        let Some(limiter) = self.shared.write_limiter.as_ref().filter(|_| flags.sine_write_rate)
        else {
            return;
        };
        let now = now_micros();
        if now - self.last_sine_change > flags.sine_write_rate_interval_milliseconds * 1000 {
            self.last_sine_change = now;
            let seconds = (now - self.stats.started_at()) as f64 / 1e6;
            // The rate is at least 1, which no limiter refuses.
            limiter.set_bytes_per_second(sine_rate(flags, seconds)).expect("a rate above 0");
        }
    }

    /// All other workers are done (for background writers).
    pub fn alone(&self) -> bool {
        self.shared.finished.load(Ordering::Acquire) + 1 >= self.shared.workers
    }
}

/// Takes `amount` tokens, in as many portions as the limiter gives.
pub fn wait_for(limiter: &RateLimiter, mut amount: u64) {
    while amount > 0 {
        amount -= limiter.request_token(amount, 0, IoPriority::High, IoKind::Write, None);
    }
}

/// A limiter of the workers' own operations, `rate` (above 0) a second.
pub fn user_limiter(rate: u64) -> RateLimiter {
    RateLimiter::new(&RateLimiterOptions::new(rate)).expect("a rate above 0")
}

/// `a sin(b x + c) + d` in bytes a second; at least 1.
fn sine_rate(flags: &Flags, x: f64) -> u64 {
    let rate = flags.sine_a * (flags.sine_b * x + flags.sine_c).sin() + flags.sine_d;
    (rate as u64).max(1)
}

/// When a benchmark ends: after a number of operations, or of seconds if that is not 0.
pub struct Limit {
    until: Option<u64>,
    check_every: u64,
    operations: u64,
    done: u64,
}

impl Limit {
    /// Ends after `seconds` if positive, otherwise after `operations`.
    pub fn new(flags: &Flags, seconds: i32, operations: u64) -> Self {
        let seconds = u64::try_from(seconds).unwrap_or(0);
        Limit {
            until: (seconds > 0).then(|| now_micros() + seconds * 1_000_000),
            check_every: u64::try_from(flags.ops_between_duration_checks).unwrap_or(0).max(1),
            operations,
            done: 0,
        }
    }

    /// Operations that were counted.
    pub fn done(&self) -> u64 {
        self.done
    }

    /// Counts the `n` operations that come next; true when they are no longer wanted.
    #[inline]
    pub fn reached(&mut self, n: u64) -> bool {
        let before = self.done;
        self.done += n;
        match self.until {
            Some(end) => {
                self.done / self.check_every != before / self.check_every && now_micros() >= end
            }
            None => self.done > self.operations,
        }
    }
}

/// Prefixes an engine's error with what was done.
pub fn during<T>(what: &str, result: Result<T>) -> Result<T> {
    result.map_err(|error| format!("{what} error: {error}"))
}
