//! What is learned from totals: moving averages, and how fast a kind of job makes room.
//!
//! Thread safety: plain data.

use crate::control::policy::Relief;

/// Share of an average that `seconds` replace if it forgets in `horizon` seconds.
pub(super) fn weight(seconds: f64, horizon: f64) -> f64 {
    1.0 - (-seconds / horizon).exp()
}

/// A moving average; None before the first value.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Average(Option<f64>);

impl Average {
    /// Takes `value` with `weight` between 0 and 1; the first one whole.
    pub fn add(&mut self, value: f64, weight: f64) {
        let old = self.0.unwrap_or(value);
        self.0 = Some(old + (value - old) * weight);
    }
    pub fn get(self) -> Option<f64> {
        self.0
    }
}

/// A total that only grows, and its increase since the last look.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counter(f64);

impl Counter {
    pub fn advance(&mut self, total: f64) -> f64 {
        let fresh = (total - self.0).max(0.0);
        self.0 = total;
        fresh
    }
}

/// Progress is averaged over about this many seconds; a stalled device shows in averages over the
/// shorter time.
const PROGRESS_HORIZON: f64 = 1.0;
const STALL_HORIZON: f64 = 0.2;
/// Averages cover at least this many steps of progress.
const GAPS: f64 = 3.0;
/// Share that the newest finished job has in the average.
const JOB_WEIGHT: f64 = 0.3;
/// The throughput is averaged over about this many seconds in which there was something to do.
const THROUGHPUT_WINDOW: f64 = 30.0;
/// A job about which nothing is known is expected to take this many more seconds, plus as long
/// again as it has taken: the next look shows how it progresses, and until then the room lasts.
const UNKNOWN_SECONDS: f64 = 0.1;
/// A job that takes longer than expected is expected to take half of the surplus on top.
const OVERDUE_SHARE: f64 = 0.5;

/// No job is expected to take more than this many times as long as it has taken so far or as
/// similar jobs take.
const PATIENCE: f64 = 8.0;

/// How fast one kind of job makes room.
#[derive(Clone, Debug, Default)]
pub(super) struct Drain {
    written: Counter,
    entries: Counter,
    drained: Counter,
    seconds: Counter,
    /// There was something to do at the last look.
    needed: bool,
    /// Bytes a second that jobs write while one runs.
    writes: Average,
    writes_now: Average,
    /// Entries a second that jobs process while one runs.
    progress: Average,
    progress_now: Average,
    /// Seconds between two steps of progress, and since the last one.
    gap: Average,
    quiet: f64,
    /// Stock that a job drains per second.
    speed: Average,
    /// Stock drained recently, and the time in which there was something to do.
    window_drained: f64,
    window_seconds: f64,
}

/// The state of one kind of job at a look.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    /// Seconds since the last look.
    pub seconds: f64,
    /// The policy rested for most of them, as there was nothing to do.
    pub rested: bool,
    /// There is something to do.
    pub needed: bool,
    /// How long the oldest running job has run.
    pub elapsed: Option<f64>,
    /// Totals: bytes written, entries processed, stock drained, seconds that finished jobs took.
    pub written: f64,
    pub entries: f64,
    pub drained: f64,
    pub job_seconds: f64,
}

impl Drain {
    /// Processes a look.
    pub fn learn(&mut self, look: &Look) {
        let bytes = self.written.advance(look.written);
        let entries = self.entries.advance(look.entries);
        // A job that ran for only part of the time says nothing about speed.
        if look.elapsed.is_some_and(|elapsed| elapsed >= look.seconds) {
            self.quiet += look.seconds;
            if entries > 0.0 {
                self.gap.add(std::mem::take(&mut self.quiet), JOB_WEIGHT);
            }
            // Large entries come in large steps.
            let steps = GAPS * self.gap.get().unwrap_or(0.0);
            let rate = entries / look.seconds;
            self.progress.add(rate, weight(look.seconds, PROGRESS_HORIZON.max(steps)));
            self.progress_now.add(rate, weight(look.seconds, STALL_HORIZON.max(steps)));
            self.writes.add(bytes / look.seconds, weight(look.seconds, PROGRESS_HORIZON));
            self.writes_now.add(bytes / look.seconds, weight(look.seconds, STALL_HORIZON));
        }
        let stock = self.drained.advance(look.drained);
        let took = self.seconds.advance(look.job_seconds);
        let was_needed = std::mem::replace(&mut self.needed, look.needed) && !look.rested;
        let needed = if was_needed { look.seconds } else { 0.0 };
        self.window_seconds += needed.max(took.min(look.seconds));
        self.window_drained += stock;
        if self.window_seconds > THROUGHPUT_WINDOW {
            self.window_seconds /= 2.0;
            self.window_drained /= 2.0;
        }
        if stock > 0.0 && took > 0.0 {
            self.speed.add(stock / took, JOB_WEIGHT);
        }
    }

    /// Stock drained per second while there is something to do, including waits for a turn. None
    /// before the first job is done.
    pub fn throughput(&self) -> Option<f64> {
        (self.window_drained > 0.0).then(|| self.window_drained / self.window_seconds.max(1e-3))
    }

    /// Progress of running jobs: the device has slowed only if both entries and bytes show it,
    /// since a write buffer delays one against the other.
    fn progress_rate(&self) -> Option<f64> {
        let share = |now: Average, long: Average| {
            let (now, long) = (now.get().unwrap_or(0.0), long.get().unwrap_or(0.0));
            if long > 0.0 { (now / long).min(1.0) } else { 0.0 }
        };
        let entries = share(self.progress_now, self.progress);
        Some(self.progress.get()? * entries.max(share(self.writes_now, self.writes)))
    }

    /// Seconds until `job` is done. The slower of two estimates holds: a job may have finished its
    /// input and still wait for its sync, or it may be stuck.
    pub fn seconds_left(&self, job: &Relief) -> f64 {
        let left = (job.total_entries - job.done_entries).max(0.0);
        let by_progress = match self.progress_rate() {
            Some(rate) if job.elapsed > 0.0 => left / rate.max(1.0),
            _ => 0.0,
        };
        let Some(speed) = self.speed.get() else {
            let unknown = self.progress.get().is_none();
            let least = if unknown { UNKNOWN_SECONDS + job.elapsed } else { 1e-3 };
            return by_progress.max(least);
        };
        let expected = job.stock / speed.max(1e-9);
        let overdue = (job.elapsed - expected).max(0.0);
        let by_speed = (expected - job.elapsed).max(OVERDUE_SHARE * overdue);
        // Jobs that end between two looks were never seen to progress.
        let by_progress = by_progress.min(PATIENCE * (job.elapsed + expected));
        by_progress.max(by_speed).max(1e-3)
    }
}
