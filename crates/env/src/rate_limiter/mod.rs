//! A limit on bytes per second, shared by flushes, compactions and users: RocksDB's
//! `GenericRateLimiter`, with the same options, fairness and auto-tuning.
//!
//! | part | does |
//! |---|---|
//! | `bucket` | tokens and queues, pure |
//! | `auto_tune` | RocksDB's rule for the rate, pure |
//! | `reads` | files whose reads are limited |
//! | this file | the lock around both, and waiting |
//!
//! One of the waiting tasks sleeps until the next refill (the *timed waiter*) and then hands the
//! tokens out; all others sleep until they are granted. A task that leaves wakes the first of the
//! highest queue, so that there is a timed waiter whenever a task waits.
//!
//! Thread safety: all methods may be called from anywhere; `request` and `request_token` suspend.
//! It limits only what is requested: the log and the MANIFEST are written without requests.

mod auto_tune;
mod bucket;
mod priority;
pub mod reads;

pub use priority::IoPriority;

use auto_tune::AutoTune;
use bucket::Bucket;
use pumice_base::{Error, Result};
use pumice_port::lane::at_normal_priority;
use pumice_port::sync::{Condvar, Mutex, MutexGuard};
use pumice_port::time::now_micros;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IoKind {
    /// It reads.
    Read,
    /// It writes.
    Write,
}

/// Which operations a limiter limits: RocksDB's `RateLimiter::Mode`.
///
/// Example: that of [`RateLimiter`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RateLimiterMode {
    /// Reads only.
    ReadsOnly,
    /// Writes only.
    #[default]
    WritesOnly,
    /// Both.
    AllIo,
}

/// Receiver of the outcome of requests; the engine counts it in its statistics.
pub trait RateLimiterEvents: Send + Sync {
    /// A task begins to wait for a refill.
    fn drained(&self);
    /// A request of `bytes` was granted after `waited_micros`; None if it did not have to wait.
    fn granted(&self, kind: IoKind, bytes: u64, waited_micros: Option<u64>);
}

/// Settings of a [`RateLimiter`]; the fields are the arguments of RocksDB's
/// `NewGenericRateLimiter`.
///
/// Example: that of [`RateLimiter`].
#[derive(Clone, Debug, PartialEq)]
pub struct RateLimiterOptions {
    /// Bytes per second, above 0; the maximum if the rate is tuned.
    pub rate_bytes_per_sec: u64,
    /// Microseconds between refills, above 0.
    pub refill_period_us: u64,
    /// One refill in this many serves lower priorities first; above 0, at most 100.
    pub fairness: u64,
    /// What is limited.
    pub mode: RateLimiterMode,
    /// Move the rate with the load, between a twentieth of `rate_bytes_per_sec` and all of it.
    pub auto_tuned: bool,
    /// The most bytes one request gets at once; 0 is one refill.
    pub single_burst_bytes: u64,
}

impl RateLimiterOptions {
    /// RocksDB's defaults at that rate.
    pub fn new(rate_bytes_per_sec: u64) -> Self {
        RateLimiterOptions {
            rate_bytes_per_sec,
            refill_period_us: 100_000,
            fairness: 10,
            mode: RateLimiterMode::WritesOnly,
            auto_tuned: false,
            single_burst_bytes: 0,
        }
    }

    fn check(&self) -> Result<()> {
        let wrong = |name: &str| Err(Error::invalid_argument(format!("{name} must be above 0")));
        match (self.rate_bytes_per_sec, self.refill_period_us, self.fairness) {
            (0, _, _) => wrong("rate_bytes_per_sec"),
            (_, 0, _) => wrong("refill_period_us"),
            (_, _, 0) => wrong("fairness"),
            _ => Ok(()),
        }
    }
}

/// Rates above this are held at it: RocksDB's rates are signed.
const RATE_MAX: u64 = i64::MAX as u64;
const FAIRNESS_MAX: u64 = 100;

/// A request that waits.
struct Waiter {
    granted: AtomicBool,
    wake: Condvar,
}

/// Names a waiter in the bucket.
#[derive(Clone)]
struct Request(Arc<Waiter>);

impl PartialEq for Request {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

struct State {
    bucket: Bucket<Request>,
    tune: Option<AutoTune>,
    /// A task sleeps until the next refill.
    timed_waiter: bool,
}

/// A limit on bytes per second, shared by flushes, compactions and users of one or more databases:
/// RocksDB's `GenericRateLimiter`. Logs and MANIFESTs are not limited.
///
/// ```
/// # fn main() -> Result<(), pumice_base::Error> {
/// # use pumice_env::{IoPriority, RateLimiter, RateLimiterMode, RateLimiterOptions};
/// // 100 MB a second for what flushes and compactions read and write together.
/// let options =
///     RateLimiterOptions { mode: RateLimiterMode::AllIo, ..RateLimiterOptions::new(100 << 20) };
/// let limiter = RateLimiter::new(&options)?;
/// limiter.set_bytes_per_second(50 << 20)?; // At any time.
/// assert_eq!(limiter.bytes_per_second(), 50 << 20);
/// assert_eq!(limiter.total_bytes_through(Some(IoPriority::Low)), 0);
/// # Ok(())
/// # }
/// ```
pub struct RateLimiter {
    mode: RateLimiterMode,
    refill_period_us: u64,
    auto_tuned: bool,
    state: Mutex<State>,
    /// Copies of what `state` has, for readers without the lock.
    rate: AtomicU64,
    burst: AtomicU64,
    bytes: [AtomicU64; IoPriority::COUNT],
    requests: [AtomicU64; IoPriority::COUNT],
    drains: AtomicU64,
}

impl fmt::Debug for RateLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimiter")
            .field("rate_bytes_per_sec", &self.bytes_per_second())
            .field("mode", &self.mode)
            .field("auto_tuned", &self.auto_tuned)
            .finish_non_exhaustive()
    }
}

impl RateLimiter {
    /// A limiter with these settings.
    ///
    /// # Errors
    /// InvalidArgument if a setting that must be above 0 is 0.
    pub fn new(options: &RateLimiterOptions) -> Result<Self> {
        options.check()?;
        let now = now_micros();
        let rate = options.rate_bytes_per_sec.min(RATE_MAX);
        let period = options.refill_period_us;
        let tune = options.auto_tuned.then(|| AutoTune::new(rate, period, now));
        let initial = tune.as_ref().map_or(rate, AutoTune::initial_rate);
        let fairness = options.fairness.min(FAIRNESS_MAX);
        let bucket = Bucket::new(initial, period, fairness, options.single_burst_bytes, now);
        Ok(RateLimiter {
            mode: options.mode,
            refill_period_us: period,
            auto_tuned: options.auto_tuned,
            rate: AtomicU64::new(initial),
            burst: AtomicU64::new(bucket.burst_bytes()),
            state: Mutex::foreground(State { bucket, tune, timed_waiter: false }),
            bytes: [const { AtomicU64::new(0) }; IoPriority::COUNT],
            requests: [const { AtomicU64::new(0) }; IoPriority::COUNT],
            drains: AtomicU64::new(0),
        })
    }

    /// The current limit, bytes per second.
    pub fn bytes_per_second(&self) -> u64 {
        self.rate.load(Ordering::Relaxed)
    }
    /// Changes the limit from the next refill on. An auto-tuned limiter continues from there.
    ///
    /// # Errors
    /// InvalidArgument if `rate` is 0.
    pub fn set_bytes_per_second(&self, rate: u64) -> Result<()> {
        if rate == 0 {
            return Err(Error::invalid_argument("rate_bytes_per_sec must be above 0"));
        }
        self.set_rate(&mut self.state.lock(), rate);
        Ok(())
    }
    /// The most bytes that one request gets at once.
    pub fn single_burst_bytes(&self) -> u64 {
        self.burst.load(Ordering::Relaxed)
    }
    /// Changes it; 0 makes it one refill.
    pub fn set_single_burst_bytes(&self, bytes: u64) {
        let mut state = self.state.lock();
        state.bucket.set_single_burst(bytes);
        self.burst.store(state.bucket.burst_bytes(), Ordering::Relaxed);
    }
    /// What is limited.
    pub fn mode(&self) -> RateLimiterMode {
        self.mode
    }
    /// The rate follows the load.
    pub fn is_auto_tuned(&self) -> bool {
        self.auto_tuned
    }
    /// Microseconds between refills.
    pub fn refill_period_us(&self) -> u64 {
        self.refill_period_us
    }
    /// Operations of that kind are limited.
    pub fn is_rate_limited(&self, kind: IoKind) -> bool {
        match self.mode {
            RateLimiterMode::AllIo => true,
            RateLimiterMode::ReadsOnly => kind == IoKind::Read,
            RateLimiterMode::WritesOnly => kind == IoKind::Write,
        }
    }

    /// Bytes granted so far; of all priorities for None.
    pub fn total_bytes_through(&self, priority: Option<IoPriority>) -> u64 {
        sum(&self.bytes, priority)
    }
    /// Requests made so far; of all priorities for None.
    pub fn total_requests(&self, priority: Option<IoPriority>) -> u64 {
        sum(&self.requests, priority)
    }
    /// Requests that wait now; of all priorities for None.
    pub fn total_pending_requests(&self, priority: Option<IoPriority>) -> usize {
        let state = self.state.lock();
        let queued = |p: &IoPriority| state.bucket.queued(*p);
        match priority {
            Some(priority) => queued(&priority),
            None => IoPriority::ALL.iter().map(queued).sum(),
        }
    }
    /// How often a task began to wait for a refill.
    pub fn total_drains(&self) -> u64 {
        self.drains.load(Ordering::Relaxed)
    }

    /// Waits until `bytes` may be read or written, if that kind is limited. They should be no more
    /// than [`RateLimiter::single_burst_bytes`]: more take several refills, and later requests wait
    /// as long. Suspends.
    pub fn request(
        &self,
        bytes: u64,
        priority: IoPriority,
        kind: IoKind,
        events: Option<&dyn RateLimiterEvents>,
    ) {
        if !self.is_rate_limited(kind) {
            return;
        }
        // Flushes and users take this lock too.
        at_normal_priority(|| {
            let waited = self.take(bytes, priority, events);
            self.bytes[priority as usize].fetch_add(bytes, Ordering::Relaxed);
            if let Some(events) = events {
                events.granted(kind, bytes, waited);
            }
        });
    }

    /// Requests part of `bytes`, and returns how many: at most one burst, a multiple of `alignment`
    /// (0 for none) but at least that, so that direct I/O makes progress with bursts below a page.
    /// All of them if that kind is not limited. Suspends.
    pub fn request_token(
        &self,
        bytes: u64,
        alignment: u64,
        priority: IoPriority,
        kind: IoKind,
        events: Option<&dyn RateLimiterEvents>,
    ) -> u64 {
        if !self.is_rate_limited(kind) {
            return bytes;
        }
        let mut granted = bytes.min(self.single_burst_bytes());
        if alignment > 0 {
            granted = (granted - granted % alignment).max(alignment);
        }
        self.request(granted, priority, kind, events);
        granted
    }

    /// Takes the tokens; returns how long it waited for them, None if not at all.
    fn take(
        &self,
        bytes: u64,
        priority: IoPriority,
        events: Option<&dyn RateLimiterEvents>,
    ) -> Option<u64> {
        self.requests[priority as usize].fetch_add(1, Ordering::Relaxed);
        let mut state = self.state.lock();
        let asked_at = now_micros();
        self.tune_if_due(&mut state, asked_at);
        let left = state.bucket.take(bytes);
        if left == 0 {
            return None;
        }
        let me =
            Request(Arc::new(Waiter { granted: AtomicBool::new(false), wake: Condvar::new() }));
        state.bucket.queue(left, priority, me.clone());
        let mut slept = false;
        while !me.0.granted.load(Ordering::Relaxed) {
            let pause = state.bucket.micros_to_refill(now_micros());
            if pause == 0 {
                self.refill(&mut state, &me);
            } else {
                slept = true;
                state = self.sleep(state, &me, pause, events);
            }
        }
        // The leaving task may have been the timed waiter, or was woken to become it.
        if let Some(next) = state.bucket.first_waiter() {
            next.0.wake.notify_one();
        }
        slept.then(|| now_micros().saturating_sub(asked_at))
    }

    /// Sleeps until granted or, if there is no timed waiter, until the refill.
    fn sleep<'a>(
        &self,
        mut state: MutexGuard<'a, State>,
        me: &Request,
        pause_micros: u64,
        events: Option<&dyn RateLimiterEvents>,
    ) -> MutexGuard<'a, State> {
        if state.timed_waiter {
            return me.0.wake.wait(state);
        }
        state.timed_waiter = true;
        self.drains.fetch_add(1, Ordering::Relaxed);
        if let Some(tune) = &mut state.tune {
            tune.drained();
        }
        if let Some(events) = events {
            events.drained();
        }
        let (mut state, _) = me.0.wake.wait_timeout(state, Duration::from_micros(pause_micros));
        state.timed_waiter = false;
        state
    }

    /// Fills the bucket, and wakes all tasks that have their bytes, except the caller.
    fn refill(&self, state: &mut State, me: &Request) {
        state.bucket.refill(now_micros(), |_, request: Request| {
            request.0.granted.store(true, Ordering::Relaxed);
            if request != *me {
                request.0.wake.notify_one();
            }
        });
    }

    fn tune_if_due(&self, state: &mut State, now: u64) {
        let rate = state.bucket.rate_bytes_per_sec();
        if let Some(rate) = state.tune.as_mut().and_then(|tune| tune.tune(rate, now)) {
            self.set_rate(state, rate);
        }
    }

    fn set_rate(&self, state: &mut State, rate: u64) {
        let rate = rate.min(RATE_MAX);
        state.bucket.set_rate(rate);
        self.rate.store(rate, Ordering::Relaxed);
        self.burst.store(state.bucket.burst_bytes(), Ordering::Relaxed);
    }
}

fn sum(counts: &[AtomicU64; IoPriority::COUNT], priority: Option<IoPriority>) -> u64 {
    match priority {
        Some(priority) => counts[priority as usize].load(Ordering::Relaxed),
        None => counts.iter().map(|count| count.load(Ordering::Relaxed)).sum(),
    }
}

#[cfg(test)]
mod tests;
