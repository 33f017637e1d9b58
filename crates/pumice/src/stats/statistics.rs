//! Tickers and histograms of a database.
//!
//! Counts are kept in shards. A task always uses the shard it was given first, so that counting
//! is one uncontended atomic addition as long as there are no more busy tasks than shards; reading
//! adds the shards up. A database without statistics pays one branch (see [`Record`]).
//!
//! Cost: a shard has about 37 KB, most of it histogram buckets.
//!
//! Thread safety: everything may be called at any time from any thread. Readers see each count on
//! its own; a report is not a snapshot of one instant.
//!
//! Invariant 1: counts are published by nothing and publish nothing, so all orders are relaxed.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering::Relaxed};

use crossbeam_utils::CachePadded;
use pumice_base::histogram::{BUCKETS, Histogram, bucket_index};

use super::names::{HistogramKind, Ticker};

/// Shards at most.
const MAX_SHARDS: usize = 64;

/// How much is measured. Numbers are RocksDB's `StatsLevel`.
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

/// A histogram that any thread may add to.
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
        self.buckets[bucket_index(value)].fetch_add(1, Relaxed);
        self.sum.fetch_add(value, Relaxed);
        self.sum_squares.fetch_add(value.wrapping_mul(value), Relaxed);
        if value < self.min.load(Relaxed) {
            self.min.fetch_min(value, Relaxed);
        }
        if value > self.max.load(Relaxed) {
            self.max.fetch_max(value, Relaxed);
        }
    }

    fn snapshot(&self) -> Histogram {
        Histogram::from_parts(
            std::array::from_fn(|i| self.buckets[i].load(Relaxed)),
            self.sum.load(Relaxed),
            u128::from(self.sum_squares.load(Relaxed)),
            self.min.load(Relaxed),
            self.max.load(Relaxed),
        )
    }

    fn reset(&self) {
        self.buckets.iter().for_each(|b| b.store(0, Relaxed));
        self.sum.store(0, Relaxed);
        self.sum_squares.store(0, Relaxed);
        self.min.store(u64::MAX, Relaxed);
        self.max.store(0, Relaxed);
    }
}

struct Shard {
    tickers: [AtomicU64; Ticker::COUNT],
    histograms: Box<[SharedHistogram]>,
}

impl Shard {
    fn new() -> Self {
        Shard {
            tickers: std::array::from_fn(|_| AtomicU64::new(0)),
            histograms: HistogramKind::ALL.iter().map(|_| SharedHistogram::new()).collect(),
        }
    }
}

/// Tickers and histograms, shared by `Arc`; several databases may share one.
pub struct Statistics {
    shards: Box<[CachePadded<Shard>]>,
    level: AtomicU8,
}

/// Tasks are dealt to shards in the order in which they first count something.
static NEXT_TASK: AtomicUsize = AtomicUsize::new(0);

pumice_port::task_local! {
    static TASK: usize = NEXT_TASK.fetch_add(1, Relaxed);
}

impl Default for Statistics {
    fn default() -> Self {
        Self::new()
    }
}

impl Statistics {
    /// Statistics with the default level.
    pub fn new() -> Self {
        let shards = pumice_port::thread::available_parallelism().next_power_of_two();
        Statistics {
            shards: (0..shards.min(MAX_SHARDS)).map(|_| CachePadded::new(Shard::new())).collect(),
            level: AtomicU8::new(StatsLevel::default() as u8),
        }
    }

    #[inline]
    fn shard(&self) -> &Shard {
        // The number of shards is a power of two.
        let task = TASK.with(|task| *task);
        &self.shards[task & (self.shards.len() - 1)]
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

    /// Whether durations of operations are to be measured: spares the caller the clock.
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
            self.shard().tickers[ticker as usize].fetch_add(count, Relaxed);
        }
    }

    /// Adds a value to a histogram.
    #[inline]
    pub fn measure(&self, kind: HistogramKind, value: u64) {
        if self.at_least(StatsLevel::ExceptTimers) {
            self.shard().histograms[kind as usize].add(value);
        }
    }

    /// The present count of a ticker.
    pub fn ticker(&self, ticker: Ticker) -> u64 {
        let counts = self.shards.iter().map(|s| s.tickers[ticker as usize].load(Relaxed));
        counts.fold(0, u64::wrapping_add)
    }

    /// The count of a ticker, which starts again at 0.
    pub fn take_ticker(&self, ticker: Ticker) -> u64 {
        let counts = self.shards.iter().map(|s| s.tickers[ticker as usize].swap(0, Relaxed));
        counts.fold(0, u64::wrapping_add)
    }

    /// The present contents of a histogram.
    pub fn histogram(&self, kind: HistogramKind) -> Histogram {
        let mut merged = Histogram::new();
        for shard in &self.shards {
            merged.merge(&shard.histograms[kind as usize].snapshot());
        }
        merged
    }

    /// Sets everything to 0.
    pub fn reset(&self) {
        for shard in &self.shards {
            shard.tickers.iter().for_each(|t| t.store(0, Relaxed));
            shard.histograms.iter().for_each(SharedHistogram::reset);
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
pub trait Record {
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

/// A running clock, or none when nobody asked for durations.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct Timer {
    start_nanos: Option<u64>,
}

impl Timer {
    /// Adds the microseconds since the start to a histogram.
    #[inline]
    pub fn stop(self, statistics: &Option<Arc<Statistics>>, kind: HistogramKind) {
        if let Some(start) = self.start_nanos {
            let nanos = pumice_port::time::now_nanos().saturating_sub(start);
            statistics.record(kind, nanos / 1000);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_found() {
        let mut seen = BTreeSet::new();
        for ticker in Ticker::ALL {
            assert!(seen.insert(ticker.name()));
            assert_eq!(Ticker::from_name(ticker.name()), Some(*ticker));
        }
        for kind in HistogramKind::ALL {
            assert!(seen.insert(kind.name()));
            assert_eq!(HistogramKind::from_name(kind.name()), Some(*kind));
        }
        assert_eq!(Ticker::from_name("rocksdb.nothing"), None);
    }

    #[test]
    fn threads_add_up() {
        let statistics = Arc::new(Statistics::new());
        let workers: Vec<_> = (0..8u64)
            .map(|worker| {
                let s = Arc::clone(&statistics);
                pumice_port::thread::spawn("adder", move || {
                    for i in 0..1000 {
                        s.record_tick(Ticker::BytesRead, 3);
                        s.measure(HistogramKind::DbGet, worker * 1000 + i);
                    }
                })
            })
            .collect();
        for worker in workers {
            worker.join().unwrap();
        }
        assert_eq!(statistics.ticker(Ticker::BytesRead), 24_000);
        let h = statistics.histogram(HistogramKind::DbGet);
        assert_eq!((h.count(), h.min(), h.max()), (8000, 0, 7999));
        assert_eq!(h.sum(), (0..8000).sum::<u64>());
        assert_eq!(statistics.take_ticker(Ticker::BytesRead), 24_000);
        assert_eq!(statistics.ticker(Ticker::BytesRead), 0);
        statistics.reset();
        assert_eq!(statistics.histogram(HistogramKind::DbGet).count(), 0);
    }

    #[test]
    fn levels_gate_what_is_counted() {
        let s = Some(Arc::new(Statistics::new()));
        let inner = s.as_ref().unwrap();
        assert!(inner.wants_timers() && !inner.wants_detailed_timers());
        inner.set_level(StatsLevel::ExceptHistogramOrTimers);
        s.tick(Ticker::MemtableHit);
        s.record(HistogramKind::BytesPerRead, 1);
        s.timer().stop(&s, HistogramKind::DbGet);
        inner.set_level(StatsLevel::DisableAll);
        s.tick(Ticker::MemtableHit);
        assert_eq!(inner.level(), StatsLevel::DisableAll);
        assert_eq!(inner.ticker(Ticker::MemtableHit), 1);
        assert_eq!(inner.histogram(HistogramKind::BytesPerRead).count(), 0);
        inner.set_level(StatsLevel::All);
        s.timer().stop(&s, HistogramKind::DbGet);
        assert_eq!(inner.histogram(HistogramKind::DbGet).count(), 1);
        None::<Arc<Statistics>>.tick(Ticker::MemtableHit);
    }

    #[test]
    fn text_has_rocksdb_layout() {
        let s = Statistics::new();
        s.record_tick(Ticker::BlockCacheHit, 4871);
        for _ in 0..20_000 {
            s.measure(HistogramKind::BytesPerWrite, 114);
        }
        let text = s.to_string();
        let expected = [
            "rocksdb.block.cache.miss COUNT : 0",
            "rocksdb.block.cache.hit COUNT : 4871",
            // RocksDB 10.10.1 printed these two lines.
            "rocksdb.bytes.per.write P50 : 114.000000 P95 : 114.000000 P99 : 114.000000 \
             P100 : 114.000000 COUNT : 20000 SUM : 2280000",
            "rocksdb.db.seek.micros P50 : 0.000000 P95 : 0.000000 P99 : 0.000000 \
             P100 : 0.000000 COUNT : 0 SUM : 0",
        ];
        for line in expected {
            assert!(text.lines().any(|l| l == line), "{line}\n{text}");
        }
        assert_eq!(text.lines().count(), Ticker::COUNT + HistogramKind::COUNT);
    }
}
