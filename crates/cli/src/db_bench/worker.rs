//! One benchmark run: what its threads share, and what each thread has.
//!
//! Thread safety: [`Shared`] is shared by the threads of a run, [`Worker`] belongs to one.
//! Invariant: (1) no thread starts its clock before all have arrived at the gate.

use super::engine::{BenchDb, ReadSettings, Result, WriteSettings};
use super::flags::Flags;
use super::stats::{Operation, Stats};
use super::workload::{KeyMaker, ValueMaker};
use pumice_base::random::Rng;
use pumice_env::rate_limiter::{IoClass, RateLimiter};
use pumice_port::sync::{Condvar, Mutex};
use pumice_port::time::now_micros;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The numbers of one benchmark, after its name has changed some of the flags.
#[derive(Clone)]
pub struct Plan {
    /// Keys are chosen from `0..keys`.
    pub keys: u64,
    /// The number that the flag `num` gives, before a benchmark divides it.
    pub num: u64,
    /// Reads of each thread.
    pub reads: u64,
    /// Writes of each thread; 0 is `keys`.
    pub writes: u64,
    /// Deletions of each thread.
    pub deletes: u64,
    /// Bytes of a key.
    pub key_size: usize,
    /// Bytes of a value.
    pub value_size: usize,
    /// Updates in a batch, keys in a multi-get.
    pub batch: u64,
    /// How to write.
    pub write: WriteSettings,
    /// How to read.
    pub read: ReadSettings,
}

/// What the threads of one run share.
pub struct Shared<'a, D> {
    /// The command line.
    pub flags: &'a Flags,
    /// The run's numbers.
    pub plan: Plan,
    /// The database.
    pub db: &'a D,
    /// Bytes that values are cut from.
    pub values: Arc<[u8]>,
    /// Limit of foreground writes, bytes a second; the sine benchmark changes its rate.
    pub write_limiter: Option<RateLimiter>,
    /// Limit of reads, operations a second.
    pub read_limiter: Option<RateLimiter>,
    /// Operations of all threads, when a CSV report wants them.
    pub reported: Option<Arc<AtomicU64>>,
    /// Threads of this run, background writers included.
    pub threads: usize,
    /// Threads that are done.
    pub finished: AtomicUsize,
    arrived: Mutex<usize>,
    all_arrived: Condvar,
}

impl<'a, D: BenchDb> Shared<'a, D> {
    /// The shared part of a run of `threads` threads.
    pub fn new(
        flags: &'a Flags,
        plan: Plan,
        db: &'a D,
        values: Arc<[u8]>,
        reported: Option<Arc<AtomicU64>>,
        threads: usize,
    ) -> Self {
        let write_rate = match flags.sine_write_rate {
            true => sine_rate(flags, 0.0),
            false => flags.benchmark_write_rate_limit,
        };
        let limiter = |rate: u64| (rate > 0).then(|| RateLimiter::new(rate));
        Shared {
            flags,
            plan,
            db,
            values,
            write_limiter: limiter(write_rate),
            read_limiter: limiter(flags.benchmark_read_rate_limit),
            reported,
            threads,
            finished: AtomicUsize::new(0),
            arrived: Mutex::new(0),
            all_arrived: Condvar::new(),
        }
    }

    fn wait_for_all(&self) {
        let mut arrived = self.arrived.lock();
        *arrived += 1;
        if *arrived == self.threads {
            self.all_arrived.notify_all();
        }
        while *arrived < self.threads {
            arrived = self.all_arrived.wait(arrived);
        }
    }
}

/// One thread of a run.
pub struct Worker<'a, D: BenchDb> {
    /// What all threads share.
    pub shared: &'a Shared<'a, D>,
    /// 0-based number of the thread.
    pub thread: usize,
    /// The thread's random numbers.
    pub rng: Rng,
    /// What the thread did.
    pub stats: Stats,
    last_sine_change: u64,
}

impl<'a, D: BenchDb> Worker<'a, D> {
    /// Waits at the gate for the other threads and starts the clock.
    pub fn start(shared: &'a Shared<'a, D>, thread: usize, seed: u64) -> Self {
        shared.wait_for_all();
        let stats = Stats::start(shared.flags, thread, shared.reported.clone());
        let last_sine_change = stats.started_at();
        Worker { shared, thread, rng: Rng::new(seed), stats, last_sine_change }
    }

    /// Keys as the flags want them.
    pub fn keys(&self) -> KeyMaker {
        KeyMaker::new(self.shared.flags, self.shared.plan.key_size)
    }

    /// Values as the flags want them.
    pub fn values(&self) -> ValueMaker {
        ValueMaker::new(self.shared.values.clone(), self.shared.plan.value_size)
    }

    /// A random key number.
    #[inline]
    pub fn random_key(&mut self) -> u64 {
        self.rng.uniform(self.shared.plan.num)
    }

    /// Counts `n` operations that ended now.
    #[inline]
    pub fn finished(&mut self, n: u64, operation: Operation) {
        if self.stats.finished(n, operation)
            && self.thread == 0
            && self.shared.flags.stats_per_interval > 0
        {
            for name in ["stats", "num-running-compactions", "num-running-flushes"] {
                if let Some(text) = self.shared.db.property(&format!("rocksdb.{name}")) {
                    eprintln!("{text}");
                }
            }
        }
    }

    /// Waits until the write limit allows `bytes`.
    #[inline]
    pub fn limit_write(&mut self, bytes: u64) {
        if let Some(limiter) = &self.shared.write_limiter {
            wait_for(limiter, bytes);
            self.stats.reset_operation_timer();
        }
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
        let flags = self.shared.flags;
        let Some(limiter) = self.shared.write_limiter.as_ref().filter(|_| flags.sine_write_rate)
        else {
            return;
        };
        let now = now_micros();
        if now - self.last_sine_change > flags.sine_write_rate_interval_milliseconds * 1000 {
            self.last_sine_change = now;
            let seconds = (now - self.stats.started_at()) as f64 / 1e6;
            limiter.set_rate_bytes_per_sec(sine_rate(flags, seconds));
        }
    }

    /// All other threads are done (for background writers).
    pub fn alone(&self) -> bool {
        self.shared.finished.load(Ordering::Acquire) + 1 >= self.shared.threads
    }
}

/// Takes `amount` tokens, in as many portions as the limiter gives.
pub fn wait_for(limiter: &RateLimiter, mut amount: u64) {
    while amount > 0 {
        amount -= limiter.request(amount, IoClass::High);
    }
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
