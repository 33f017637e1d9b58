//! Auto-tuned compaction, as the jobs of a database feed it.
//!
//! Each request that a job's writes make to the rate limiter reports its drains to the tuner, and
//! applies the rule when that is due; so does a timer of the engine. The verdict goes to the engine
//! through [`CompactionSwitch`].
//!
//! Thread safety: all methods from anywhere. The lock is a leaf; the switch is called without it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pumice_env::{IoKind, RateLimiterEvents};
use pumice_port::sync::Mutex;
use pumice_port::time::now_micros;

use super::drain_rule::{DrainWatch, Drainer, Verdict};
use crate::lock_order;
use crate::stats::Statistics;

/// What the engine does for a policy.
pub(crate) trait CompactionSwitch: Send + Sync {
    /// Automatic compactions of those column families that are tuned.
    fn switch_compactions(&self, verdict: Verdict);
}

/// See the module head.
pub(crate) struct Tuner {
    watch: Mutex<DrainWatch>,
    /// Some column family is tuned; otherwise requests only check this flag.
    active: AtomicBool,
}

impl Tuner {
    /// For a limiter with `refill_period_micros`. Nothing is tuned yet.
    pub fn new(refill_period_micros: u64) -> Self {
        let watch = DrainWatch::new(refill_period_micros, now_micros());
        Tuner {
            watch: Mutex::ranked(&lock_order::DRAIN_WATCH, watch),
            active: AtomicBool::new(false),
        }
    }

    /// Starts counting, from now on, or stops it.
    pub fn set_active(&self, active: bool) {
        if !self.active.swap(active, Ordering::Relaxed) && active {
            self.watch.lock().restart(now_micros());
        }
    }
    /// Some column family is tuned.
    pub fn is_active(&self) -> bool {
        self.active.load(Ordering::Relaxed)
    }
    /// Microseconds between looks.
    pub fn interval_micros(&self) -> u64 {
        self.watch.lock().interval_micros()
    }
    /// The verdict, if a look is due.
    pub fn look(&self) -> Option<Verdict> {
        if !self.is_active() {
            return None;
        }
        self.watch.lock().look(now_micros())
    }
    /// The verdict of a timer, if a look is due.
    pub fn look_at_rest(&self) -> Option<Verdict> {
        self.watch.lock().look_at_rest(now_micros())
    }
    fn drained(&self, by: Drainer) {
        if self.is_active() {
            self.watch.lock().drained(by);
        }
    }
}

/// Receives the outcome of one job's requests: counts them, and reports to the tuner.
pub(crate) struct JobEvents {
    pub statistics: Option<Arc<Statistics>>,
    pub tuner: Arc<Tuner>,
    pub switch: Arc<dyn CompactionSwitch>,
    pub job: Drainer,
}

impl RateLimiterEvents for JobEvents {
    fn drained(&self) {
        if let Some(statistics) = &self.statistics {
            statistics.drained();
        }
        self.tuner.drained(self.job);
    }
    fn granted(&self, kind: IoKind, bytes: u64, waited_micros: Option<u64>) {
        if let Some(statistics) = &self.statistics {
            statistics.granted(kind, bytes, waited_micros);
        }
        if let Some(verdict) = self.tuner.look() {
            self.switch.switch_compactions(verdict);
        }
    }
}
