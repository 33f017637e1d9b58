//! Perf context and IO stats context: what a task's own calls did, where and how long.
//!
//! Each task, thread or fiber, has a level and counters; a call adds to those of the task that made
//! it, background jobs add to counters that no program can see. Names, levels and the text of the
//! report are RocksDB's. Tasks begin with [`PerfLevel::Disable`]; RocksDB's threads begin with
//! counts, see docs/decisions/0030.
//!
//! Cost: as long as no task of the process has a level above `Disable`, a counting site reads one
//! variable ([`is_any`]), and the hot path of a point read none. Above that, each count reads the
//! task's variables.
//!
//! Invariants: (1) `WATCHERS` is the number of tasks whose level is above `Disable` and of
//! [`Attention`]s; (2) a
//! `Loan` puts the borrower's own level and counters back.
//!
//! Thread safety: every function concerns the calling task. It suspends nowhere.

mod counts;
mod level;
mod metrics;
mod report;
#[cfg(test)]
mod tests;

use counts::Counts;
pub use counts::TABLE_LEVELS;
pub use level::PerfLevel;
use metrics::Kind;
pub use metrics::{IoMetric, LevelMetric, PerfMetric};
use pumice_port::fiber::{CpuWatch, watch_cpu};
use pumice_port::time::{now_nanos, task_cpu_nanos};
pub use report::{IoStatsContext, PerfContext};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Tasks whose level is above `Disable`, and [`Attention`]s.
static WATCHERS: AtomicUsize = AtomicUsize::new(0);

/// The variables of a task.
struct Own {
    level: Cell<PerfLevel>,
    counts_by_level: Cell<bool>,
    perf: [Cell<u64>; PerfMetric::COUNT],
    by_level: [[Cell<u64>; LevelMetric::COUNT]; TABLE_LEVELS],
    levels_used: Cell<usize>,
    io: [Cell<u64>; IoMetric::COUNT],
}

impl Own {
    const fn new() -> Self {
        Own {
            level: Cell::new(PerfLevel::Disable),
            counts_by_level: Cell::new(false),
            perf: [const { Cell::new(0) }; PerfMetric::COUNT],
            by_level: [const { [const { Cell::new(0) }; LevelMetric::COUNT] }; TABLE_LEVELS],
            levels_used: Cell::new(0),
            io: [const { Cell::new(0) }; IoMetric::COUNT],
        }
    }

    fn collects(&self, kind: Kind) -> bool {
        self.level.get() >= kind.needs()
    }

    fn counts(&self) -> Counts {
        Counts {
            perf: std::array::from_fn(|at| self.perf[at].get()),
            by_level: std::array::from_fn(|level| {
                std::array::from_fn(|at| self.by_level[level][at].get())
            }),
            levels_used: self.levels_used.get(),
            io: std::array::from_fn(|at| self.io[at].get()),
        }
    }

    fn set_counts(&self, counts: &Counts) {
        let set = |cells: &[Cell<u64>], values: &[u64]| {
            cells.iter().zip(values).for_each(|(cell, value)| cell.set(*value));
        };
        set(&self.perf, &counts.perf);
        for (cells, values) in self.by_level.iter().zip(&counts.by_level) {
            set(cells, values);
        }
        self.levels_used.set(counts.levels_used);
        set(&self.io, &counts.io);
    }

    fn add_counts(&self, counts: &Counts) {
        let add = |cells: &[Cell<u64>], values: &[u64]| {
            cells.iter().zip(values).for_each(|(cell, value)| cell.set(cell.get() + *value));
        };
        add(&self.perf, &counts.perf);
        for (cells, values) in self.by_level.iter().zip(&counts.by_level) {
            add(cells, values);
        }
        self.levels_used.set(self.levels_used.get().max(counts.levels_used));
        add(&self.io, &counts.io);
    }
}

/// A task that is counted in `WATCHERS` until it ends.
struct Watcher {
    watches: Cell<bool>,
    cpu: Cell<Option<CpuWatch>>,
}

impl Watcher {
    const fn new() -> Self {
        Watcher { watches: Cell::new(false), cpu: Cell::new(None) }
    }

    fn set(&self, level: PerfLevel) {
        let watches = level > PerfLevel::Disable;
        if watches && !self.watches.get() {
            WATCHERS.fetch_add(1, Relaxed);
        } else if !watches && self.watches.get() {
            WATCHERS.fetch_sub(1, Relaxed);
        }
        self.watches.set(watches);
        self.cpu.set((level >= Kind::CpuTime.needs()).then(watch_cpu));
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.set(PerfLevel::Disable);
    }
}

pumice_port::task_local! {
    /// Nothing in it needs to be dropped, so that it can be used as long as its task runs code.
    static OWN: Own = const { Own::new() };
    static WATCHER: Watcher = const { Watcher::new() };
}

/// Whether some task of the process collects anything.
#[inline]
pub fn is_any() -> bool {
    WATCHERS.load(Relaxed) != 0
}

/// While it lives, [`is_any`] is true, so that calls take the paths on which they are counted: for
/// traces, which are noted there and cost no check of their own while they are off.
#[derive(Debug)]
pub struct Attention(());

impl Attention {
    /// One more.
    #[must_use]
    pub fn pay() -> Self {
        WATCHERS.fetch_add(1, Relaxed);
        Attention(())
    }
}

impl Drop for Attention {
    fn drop(&mut self) {
        WATCHERS.fetch_sub(1, Relaxed);
    }
}

/// How much the calling task collects.
///
/// Example: that of [`PerfContext`].
pub fn level() -> PerfLevel {
    OWN.with(|own| own.level.get())
}

/// Changes how much the calling task collects from now on; what it has counted stays.
///
/// # Panics
/// On a thread that is ending.
///
/// Example: that of [`PerfContext`].
pub fn set_level(level: PerfLevel) {
    WATCHER.with(|watcher| watcher.set(level));
    OWN.with(|own| own.level.set(level));
}

/// Whether the calling task collects counts for each level of tables separately
/// (`EnablePerLevelPerfContext`, `DisablePerLevelPerfContext`).
///
/// Example: that of [`LevelMetric`].
pub fn count_by_level(enabled: bool) {
    OWN.with(|own| own.counts_by_level.set(enabled));
}

/// Clears the counts by level, and stops collecting them (`ClearPerLevelPerfContext`).
///
/// Example: that of [`LevelMetric`].
pub fn clear_levels() {
    OWN.with(|own| {
        own.by_level.iter().flatten().for_each(|cell| cell.set(0));
        own.levels_used.set(0);
        own.counts_by_level.set(false);
    });
}

/// The numbers of the calling task as they are now.
///
/// Example: that of [`PerfContext`].
pub fn context() -> PerfContext {
    OWN.with(|own| PerfContext::new(own.counts(), own.counts_by_level.get()))
}

/// Resets every number of the perf context of the calling task to 0.
///
/// Example: that of [`PerfContext`].
pub fn reset() {
    OWN.with(|own| own.set_counts(&Counts { io: own.counts().io, ..Counts::ZERO }));
}

/// The numbers of the calling task's files as they are now.
///
/// Example: that of [`IoStatsContext`].
pub fn io_context() -> IoStatsContext {
    OWN.with(|own| IoStatsContext::new(own.counts().io))
}

/// Resets every number of the IO stats context of the calling task to 0.
///
/// Example: that of [`IoStatsContext`].
pub fn reset_io() {
    OWN.with(|own| own.io.iter().for_each(|cell| cell.set(0)));
}

/// Adds `by` to a count of the calling task, if it collects them.
#[inline]
pub fn count(metric: PerfMetric, by: u64) {
    if is_any() {
        add(metric, by);
    }
}

#[inline(never)]
fn add(metric: PerfMetric, by: u64) {
    OWN.with(|own| {
        if own.collects(metric.kind()) {
            let cell = &own.perf[metric as usize];
            cell.set(cell.get() + by);
        }
    });
}

/// Adds `by` to a count of the calling task for tables of `level`, if it collects such.
#[inline]
pub fn count_at_level(metric: LevelMetric, level: usize, by: u64) {
    if is_any() {
        add_at_level(metric, level, by);
    }
}

#[inline(never)]
fn add_at_level(metric: LevelMetric, level: usize, by: u64) {
    OWN.with(|own| {
        if own.counts_by_level.get() && own.collects(Kind::Count) {
            let level = level.min(TABLE_LEVELS - 1);
            let cell = &own.by_level[level][metric as usize];
            cell.set(cell.get() + by);
            own.levels_used.set(own.levels_used.get().max(level + 1));
        }
    });
}

/// A running clock that adds to `metric` of tables of one level when it is dropped.
#[derive(Debug)]
#[must_use]
pub struct LevelTimer {
    metric: LevelMetric,
    level: usize,
    start_nanos: Option<u64>,
}

/// Starts a clock, which runs only if the calling task measures times and distinguishes levels.
#[inline]
pub fn time_at_level(metric: LevelMetric, level: usize) -> LevelTimer {
    let start_nanos = if is_any() { started_at_level() } else { None };
    LevelTimer { metric, level, start_nanos }
}

#[inline(never)]
fn started_at_level() -> Option<u64> {
    let wanted = OWN.with(|own| own.counts_by_level.get() && own.collects(Kind::Time));
    wanted.then(now_nanos)
}

impl Drop for LevelTimer {
    #[inline]
    fn drop(&mut self) {
        if let Some(start) = self.start_nanos {
            add_at_level(self.metric, self.level, now_nanos().saturating_sub(start));
        }
    }
}

/// Adds `by` to a number of the calling task's files, if it collects counts.
#[inline]
pub fn count_io(metric: IoMetric, by: u64) {
    if is_any() {
        add_io(metric, by);
    }
}

#[inline(never)]
fn add_io(metric: IoMetric, by: u64) {
    OWN.with(|own| {
        if own.collects(Kind::Count) {
            let cell = &own.io[metric as usize];
            cell.set(cell.get() + by);
        }
    });
}

/// Whether the calling task measures the time of `metric`.
#[inline]
pub fn measures(metric: PerfMetric) -> bool {
    is_any() && collects(metric.kind())
}

#[inline(never)]
fn collects(kind: Kind) -> bool {
    OWN.with(|own| own.collects(kind))
}

/// A running clock that adds to `metric` when it is dropped.
#[derive(Debug)]
#[must_use]
pub struct PerfTimer {
    metric: PerfMetric,
    start_nanos: Option<u64>,
}

fn clock(metric: PerfMetric) -> u64 {
    if metric.kind() == Kind::CpuTime { task_cpu_nanos() } else { now_nanos() }
}

/// Starts a clock, which runs only if the calling task collects `metric`.
#[inline]
pub fn time(metric: PerfMetric) -> PerfTimer {
    let start_nanos = if is_any() { started(metric) } else { None };
    PerfTimer { metric, start_nanos }
}

#[inline(never)]
fn started(metric: PerfMetric) -> Option<u64> {
    collects(metric.kind()).then(|| clock(metric))
}

/// Starts a clock for phases of a write, which runs if the calling task collects any times; `any`
/// is what [`is_any`] says.
#[inline]
pub fn phases(any: bool, first: PerfMetric) -> PerfTimer {
    let wanted = any && collects(Kind::WaitTime);
    PerfTimer { metric: first, start_nanos: wanted.then(now_nanos) }
}

impl PerfTimer {
    /// Adds the time so far, and counts for `metric` from here on. Both metrics use one clock.
    #[inline]
    pub fn turn_to(&mut self, metric: PerfMetric) {
        if self.start_nanos.is_some() {
            self.lap();
            self.metric = metric;
        }
    }

    /// Adds the time so far, and continues from here.
    #[inline(never)]
    fn lap(&mut self) {
        if let Some(start) = self.start_nanos {
            let now = clock(self.metric);
            add(self.metric, now.saturating_sub(start));
            self.start_nanos = Some(now);
        }
    }
}

impl Drop for PerfTimer {
    #[inline]
    fn drop(&mut self) {
        if self.start_nanos.is_some() {
            self.lap();
        }
    }
}

/// A running clock of the IO stats context.
#[derive(Debug)]
#[must_use]
pub struct IoTimer {
    metric: IoMetric,
    start_nanos: Option<u64>,
}

/// Starts a clock, which runs only if the calling task measures times.
#[inline]
pub fn time_io(metric: IoMetric) -> IoTimer {
    let wanted = is_any() && collects(Kind::Time);
    IoTimer { metric, start_nanos: wanted.then(now_nanos) }
}

impl Drop for IoTimer {
    #[inline]
    fn drop(&mut self) {
        if let Some(start) = self.start_nanos {
            count_io(self.metric, now_nanos().saturating_sub(start));
        }
    }
}

/// The perf level of a task, at which its helpers count, and the sum of their counts.
pub struct Loan {
    level: PerfLevel,
    counts_by_level: bool,
    counts: Cell<Counts>,
}

/// What the borrower had.
struct Repay<'a> {
    loan: &'a Loan,
    level: PerfLevel,
    counts_by_level: bool,
    counts: Counts,
}

impl Loan {
    /// From the calling task; None if it collects nothing.
    pub fn new() -> Option<Self> {
        let (level, counts_by_level) = match is_any() {
            true => OWN.with(|own| (own.level.get(), own.counts_by_level.get())),
            false => return None,
        };
        let counts = Cell::new(Counts::ZERO);
        (level > PerfLevel::Disable).then_some(Loan { level, counts_by_level, counts })
    }

    /// Runs `work` on the calling task for the lender.
    pub fn run<R>(&self, work: impl FnOnce() -> R) -> R {
        let _repay = OWN.with(|own| {
            let repay = Repay {
                loan: self,
                level: own.level.replace(self.level),
                counts_by_level: own.counts_by_level.replace(self.counts_by_level),
                counts: own.counts(),
            };
            own.set_counts(&Counts::ZERO);
            repay
        });
        work()
    }

    /// Adds what was counted to the calling task, the lender.
    pub fn end(self) {
        OWN.with(|own| own.add_counts(&self.counts.get()));
    }
}

impl Drop for Repay<'_> {
    fn drop(&mut self) {
        OWN.with(|own| {
            let counted = own.counts();
            own.set_counts(&self.loan.counts.get());
            own.add_counts(&counted);
            self.loan.counts.set(own.counts());
            own.set_counts(&self.counts);
            own.level.set(self.level);
            own.counts_by_level.set(self.counts_by_level);
        });
    }
}
