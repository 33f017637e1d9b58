//! Tickers and histograms of a database.
//!
//! Counts are kept in shards. A task claims a shard when it first counts something and keeps it
//! until it ends, so that counting is a plain load and store of memory that no other task writes;
//! reading adds the shards up. A shard's counts stay when its task ends, and the next task
//! continues from them. Resetting remembers the present counts as a baseline instead of writing to
//! the shards. A database without statistics pays one branch (see [`Record`]).
//!
//! Cost: 37 KB, most of it histogram buckets, per shard; there are as many shards as tasks ever
//! counted at one time.
//!
//! Thread safety: everything may be called at any time from any thread. Readers see each count on
//! its own; a report is not a snapshot of one instant.
//!
//! Invariants:
//! 1. Only the task that claimed a shard writes to it (`taken` is released and acquired when it
//!    changes hands), so that no count is lost without atomic additions. Exception: `reset` clears
//!    minimum and maximum; an old extreme may survive it if its task counts at that moment.
//! 2. Sums of shards only grow and are never below the baseline.

use pumice_base::narrow::low_u64;
use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicU8, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use crossbeam_utils::CachePadded;
use pumice_base::histogram::{BUCKETS, Histogram, bucket_index};
use pumice_port::lane::at_normal_priority;
use pumice_port::os::is_forked;
use pumice_port::sync::Mutex;

use super::names::{HistogramKind, Ticker};

/// Shards of different statistics that a task keeps; beyond that, a task claims a shard for every
/// count.
const KEPT_SHARDS: usize = 4;

/// What is measured. Numbers are RocksDB's `StatsLevel`.
///
/// Example: that of [`Statistics`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum StatsLevel {
    /// Nothing.
    DisableAll = 0,
    /// Tickers only.
    ExceptHistogramOrTimers = 1,
    /// Also histograms that need no clock.
    ExceptTimers = 2,
    /// Also clocks, except around compression and mutexes.
    #[default]
    ExceptDetailedTimers = 3,
    /// Also clocks around compression.
    ExceptTimeForMutex = 4,
    /// Everything.
    All = 5,
}

impl StatsLevel {
    fn from_u8(number: u8) -> Self {
        use StatsLevel::*;
        [
            DisableAll,
            ExceptHistogramOrTimers,
            ExceptTimers,
            ExceptDetailedTimers,
            ExceptTimeForMutex,
            All,
        ][usize::from(number).min(5)]
    }
}

/// Adds to a counter of a claimed shard.
#[inline]
fn bump(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(by), Relaxed);
}

/// A histogram that one task at a time adds to and any task reads.
struct SharedHistogram {
    buckets: [AtomicU64; BUCKETS],
    sum: AtomicU64,
    sum_squares: AtomicU64,
    min: AtomicU64,
    max: AtomicU64,
}

impl SharedHistogram {
    fn new() -> Self {
        SharedHistogram {
            buckets: std::array::from_fn(|_| AtomicU64::new(0)),
            sum: AtomicU64::new(0),
            sum_squares: AtomicU64::new(0),
            min: AtomicU64::new(u64::MAX),
            max: AtomicU64::new(0),
        }
    }

    #[inline]
    fn add(&self, value: u64) {
        bump(&self.buckets[bucket_index(value)], 1);
        bump(&self.sum, value);
        bump(&self.sum_squares, value.wrapping_mul(value));
        self.widen(value, value);
    }

    /// Adds the counts of a histogram that is not empty.
    fn merge(&self, other: &Histogram) {
        for (mine, theirs) in self.buckets.iter().zip(other.buckets()) {
            bump(mine, *theirs);
        }
        bump(&self.sum, other.sum());
        bump(&self.sum_squares, low_u64(other.sum_squares()));
        self.widen(other.min(), other.max());
    }

    #[inline]
    fn widen(&self, min: u64, max: u64) {
        if min < self.min.load(Relaxed) {
            self.min.store(min, Relaxed);
        }
        if max > self.max.load(Relaxed) {
            self.max.store(max, Relaxed);
        }
    }
}

/// The growing part of a histogram, added up over shards.
#[derive(Clone)]
struct HistogramSums {
    buckets: [u64; BUCKETS],
    sum: u64,
    sum_squares: u64,
}

impl HistogramSums {
    const ZERO: Self = HistogramSums { buckets: [0; BUCKETS], sum: 0, sum_squares: 0 };
}

struct Shard {
    taken: AtomicBool,
    tickers: [AtomicU64; Ticker::COUNT],
    histograms: Box<[SharedHistogram]>,
}

impl Shard {
    fn new() -> Self {
        Shard {
            taken: AtomicBool::new(true),
            tickers: std::array::from_fn(|_| AtomicU64::new(0)),
            histograms: HistogramKind::ALL.iter().map(|_| SharedHistogram::new()).collect(),
        }
    }
}

/// A claimed shard; given back when dropped.
struct Claim {
    statistics: u64,
    shard: Arc<CachePadded<Shard>>,
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.shard.taken.store(false, Release);
    }
}

pumice_port::worker_local! {
    /// The shards this task has claimed, by the number of their statistics.
    static CLAIMS: RefCell<Vec<Claim>> = const { RefCell::new(Vec::new()) };
}

/// Counts at the last reset.
struct Baseline {
    tickers: [u64; Ticker::COUNT],
    histograms: Box<[HistogramSums]>,
}

/// Tickers and histograms, shared by `Arc`; several databases may share one.
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// use std::sync::Arc;
/// use pumice::stats::StatsLevel;
/// use pumice::{Db, Options, Statistics, Ticker};
/// let mut options = Options::default();
/// options.db.create_if_missing = true;
/// options.db.statistics = Some(Arc::new(Statistics::new()));
/// # let dir = std::env::temp_dir().join(format!("pumice-tickers-{}", std::process::id()));
/// let db = Db::open(&options, &dir)?;
/// db.put("a", "1")?;
/// let statistics = db.statistics().expect("they are on");
/// assert_eq!(statistics.ticker(Ticker::NumberKeysWritten), 1);
/// statistics.set_level(StatsLevel::ExceptTimers); // Without the clock, from here on.
/// # db.close()?;
/// # Db::destroy(&options, &dir)?;
/// # Ok(())
/// # }
/// ```
pub struct Statistics {
    number: u64,
    level: AtomicU8,
    shards: Mutex<Vec<Arc<CachePadded<Shard>>>>,
    /// Locked before `shards`.
    baseline: Mutex<Baseline>,
}

impl fmt::Debug for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Statistics").field("level", &self.level()).finish_non_exhaustive()
    }
}

impl Default for Statistics {
    fn default() -> Self {
        Self::new()
    }
}

impl Statistics {
    /// Statistics with the default level.
    pub fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Statistics {
            number: NEXT.fetch_add(1, Relaxed),
            level: AtomicU8::new(StatsLevel::default() as u8),
            shards: Mutex::foreground(Vec::new()),
            baseline: Mutex::foreground(Baseline {
                tickers: [0; Ticker::COUNT],
                histograms: vec![HistogramSums::ZERO; HistogramKind::COUNT].into(),
            }),
        }
    }

    /// Runs `count` on this task's shard.
    #[inline]
    fn with_shard(&self, count: impl Fn(&Shard)) {
        let counted = CLAIMS.try_with(|claims| {
            let claims = claims.borrow();
            let mine = claims.iter().find(|claim| claim.statistics == self.number);
            mine.map(|claim| count(&claim.shard)).is_some()
        });
        // An ending task has no claims any more; it claims a shard for every count.
        if counted != Ok(true) {
            self.claim_and_count(count);
        }
    }

    #[cold]
    fn claim_and_count(&self, count: impl Fn(&Shard)) {
        // In a child the lock of the shards may be held forever, and its counts are never read.
        if is_forked() {
            return;
        }
        let claim = at_normal_priority(|| self.claim());
        count(&claim.shard);
        // Not kept when the task is ending: dropping the claim gives the shard back.
        CLAIMS
            .try_with(|claims| {
                let mut claims = claims.borrow_mut();
                if claims.len() == KEPT_SHARDS {
                    claims.remove(0);
                }
                claims.push(claim);
            })
            .ok();
    }

    /// A shard that no other task has. May suspend.
    fn claim(&self) -> Claim {
        let mut shards = self.shards.lock();
        for shard in shards.iter() {
            if shard.taken.compare_exchange(false, true, Acquire, Relaxed).is_ok() {
                return Claim { statistics: self.number, shard: Arc::clone(shard) };
            }
        }
        let shard = Arc::new(CachePadded::new(Shard::new()));
        shards.push(Arc::clone(&shard));
        Claim { statistics: self.number, shard }
    }

    /// How much is measured.
    pub fn level(&self) -> StatsLevel {
        StatsLevel::from_u8(self.level.load(Relaxed))
    }

    /// Changes how much is measured.
    pub fn set_level(&self, level: StatsLevel) {
        self.level.store(level as u8, Relaxed);
    }

    #[inline]
    fn at_least(&self, level: StatsLevel) -> bool {
        self.level.load(Relaxed) >= level as u8
    }

    /// Whether durations of operations are measured: saves the caller the clock.
    #[inline]
    pub fn wants_timers(&self) -> bool {
        self.at_least(StatsLevel::ExceptDetailedTimers)
    }

    /// Whether durations of compression are to be measured too.
    #[inline]
    pub fn wants_detailed_timers(&self) -> bool {
        self.at_least(StatsLevel::ExceptTimeForMutex)
    }

    /// Adds `count` to a ticker.
    #[inline]
    pub fn record_tick(&self, ticker: Ticker, count: u64) {
        if self.at_least(StatsLevel::ExceptHistogramOrTimers) {
            self.with_shard(|shard| bump(&shard.tickers[ticker as usize], count));
        }
    }

    /// Adds a value to a histogram.
    #[inline]
    pub fn measure(&self, kind: HistogramKind, value: u64) {
        if self.at_least(StatsLevel::ExceptTimers) {
            self.with_shard(|shard| shard.histograms[kind as usize].add(value));
        }
    }

    /// Counts several things at once: cheaper than one by one.
    #[inline]
    pub(crate) fn tally(&self, count: impl Fn(&Tally<'_>)) {
        let level = self.level();
        if level >= StatsLevel::ExceptHistogramOrTimers {
            let histograms = level >= StatsLevel::ExceptTimers;
            self.with_shard(|shard| count(&Tally { shard, histograms }));
        }
    }

    /// Adds the values of a histogram that was kept elsewhere.
    pub fn measure_all(&self, kind: HistogramKind, values: &Histogram) {
        if values.count() > 0 && self.at_least(StatsLevel::ExceptTimers) {
            self.with_shard(|shard| shard.histograms[kind as usize].merge(values));
        }
    }

    /// A ticker since the statistics were made.
    fn ticker_sum(&self, ticker: Ticker) -> u64 {
        let shards = self.shards.lock();
        let counts = shards.iter().map(|shard| shard.tickers[ticker as usize].load(Relaxed));
        counts.fold(0, u64::wrapping_add)
    }

    /// A histogram since the statistics were made, its minimum and its maximum.
    fn histogram_sums(&self, kind: HistogramKind) -> (HistogramSums, u64, u64) {
        let (mut sums, mut min, mut max) = (HistogramSums::ZERO, u64::MAX, 0);
        for shard in self.shards.lock().iter() {
            let histogram = &shard.histograms[kind as usize];
            for (sum, bucket) in sums.buckets.iter_mut().zip(&histogram.buckets) {
                *sum += bucket.load(Relaxed);
            }
            sums.sum = sums.sum.wrapping_add(histogram.sum.load(Relaxed));
            let squares = histogram.sum_squares.load(Relaxed);
            sums.sum_squares = sums.sum_squares.wrapping_add(squares);
            min = min.min(histogram.min.load(Relaxed));
            max = max.max(histogram.max.load(Relaxed));
        }
        (sums, min, max)
    }

    /// The present count of a ticker.
    pub fn ticker(&self, ticker: Ticker) -> u64 {
        let baseline = self.baseline.lock();
        self.ticker_sum(ticker).wrapping_sub(baseline.tickers[ticker as usize])
    }

    /// The count of a ticker, which starts again at 0.
    pub fn take_ticker(&self, ticker: Ticker) -> u64 {
        let mut baseline = self.baseline.lock();
        let sum = self.ticker_sum(ticker);
        let start = std::mem::replace(&mut baseline.tickers[ticker as usize], sum);
        sum.wrapping_sub(start)
    }

    /// The present contents of a histogram.
    pub fn histogram(&self, kind: HistogramKind) -> Histogram {
        let baseline = self.baseline.lock();
        let start = &baseline.histograms[kind as usize];
        let (sums, min, max) = self.histogram_sums(kind);
        Histogram::from_parts(
            std::array::from_fn(|i| sums.buckets[i] - start.buckets[i]),
            sums.sum.wrapping_sub(start.sum),
            u128::from(sums.sum_squares.wrapping_sub(start.sum_squares)),
            min,
            max,
        )
    }

    /// Starts every count again at 0.
    pub fn reset(&self) {
        let mut baseline = self.baseline.lock();
        for &ticker in Ticker::ALL {
            baseline.tickers[ticker as usize] = self.ticker_sum(ticker);
        }
        for &kind in HistogramKind::ALL {
            baseline.histograms[kind as usize] = self.histogram_sums(kind).0;
            for shard in self.shards.lock().iter() {
                let histogram = &shard.histograms[kind as usize];
                histogram.min.store(u64::MAX, Relaxed);
                histogram.max.store(0, Relaxed);
            }
        }
    }
}

/// The shard of a task that counts several things. Its user must not count in any other way
/// meanwhile.
pub(crate) struct Tally<'a> {
    shard: &'a Shard,
    histograms: bool,
}

impl fmt::Debug for Tally<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tally").field("histograms", &self.histograms).finish_non_exhaustive()
    }
}

impl Tally<'_> {
    /// Adds `count` to a ticker.
    #[inline]
    pub fn tick(&self, ticker: Ticker, count: u64) {
        bump(&self.shard.tickers[ticker as usize], count);
    }

    /// Adds a value to a histogram.
    #[inline]
    pub fn measure(&self, kind: HistogramKind, value: u64) {
        if self.histograms {
            self.shard.histograms[kind as usize].add(value);
        }
    }
}

/// The lines that `db_bench --statistics` prints.
impl fmt::Display for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for &ticker in Ticker::ALL {
            writeln!(f, "{} COUNT : {}", ticker.name(), self.ticker(ticker))?;
        }
        for &kind in HistogramKind::ALL {
            let h = self.histogram(kind);
            writeln!(
                f,
                "{} P50 : {:.6} P95 : {:.6} P99 : {:.6} P100 : {:.6} COUNT : {} SUM : {}",
                kind.name(),
                h.median(),
                h.percentile(95.0),
                h.percentile(99.0),
                h.max() as f64,
                h.count(),
                h.sum()
            )?;
        }
        Ok(())
    }
}

/// Counting into statistics that may be absent: one branch when they are.
pub(crate) trait Record {
    /// Adds 1 to a ticker.
    fn tick(&self, ticker: Ticker);
    /// Adds `count` to a ticker.
    fn tick_by(&self, ticker: Ticker, count: u64);
    /// Adds a value to a histogram.
    fn record(&self, kind: HistogramKind, value: u64);
    /// A clock that runs only when durations are wanted.
    fn timer(&self) -> Timer;
}

impl Record for Option<Arc<Statistics>> {
    #[inline]
    fn tick(&self, ticker: Ticker) {
        self.tick_by(ticker, 1);
    }
    #[inline]
    fn tick_by(&self, ticker: Ticker, count: u64) {
        if let Some(statistics) = self {
            statistics.record_tick(ticker, count);
        }
    }
    #[inline]
    fn record(&self, kind: HistogramKind, value: u64) {
        if let Some(statistics) = self {
            statistics.measure(kind, value);
        }
    }
    #[inline]
    fn timer(&self) -> Timer {
        let wanted = self.as_ref().is_some_and(|s| s.wants_timers());
        Timer { start_nanos: wanted.then(pumice_port::time::now_nanos) }
    }
}

/// A running clock, or none when durations are not asked for.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub(crate) struct Timer {
    start_nanos: Option<u64>,
}

impl Timer {
    /// Microseconds since the start; None if the clock does not run.
    #[inline]
    pub fn micros(self) -> Option<u64> {
        let start = self.start_nanos?;
        Some(pumice_port::time::now_nanos().saturating_sub(start) / 1000)
    }

    /// Adds the microseconds since the start to a histogram.
    #[inline]
    pub fn stop(self, statistics: &Option<Arc<Statistics>>, kind: HistogramKind) {
        if let Some(micros) = self.micros() {
            statistics.record(kind, micros);
        }
    }
}

#[cfg(test)]
mod tests;
