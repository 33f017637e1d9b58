//! What the policy knows of a database's writes: how much comes in, and what becomes of a byte.
//!
//! Thread safety: plain data.

use super::rates::{Average, Counter, weight};
use crate::control::policy::Totals;

/// A burst is remembered for about so many seconds, to tell whether a cap could bind.
const DEMAND_SECONDS: f64 = 600.0;
/// User bytes after which older ones count half.
const GROWTH_WINDOW: f64 = 64.0 * 1024.0 * 1024.0;
/// Share that the newest file has in the average.
const FILE_WEIGHT: f64 = 0.2;

/// See the module head.
#[derive(Clone, Debug, Default)]
pub(super) struct Learned {
    admitted: Counter,
    peak: f64,
    memory: Counter,
    window_admitted: f64,
    window_grown: f64,
    flushed: Counter,
    flushes: Counter,
    file_bytes: Average,
}

impl Learned {
    /// Takes in a tick of `seconds`; `in_memory` are the bytes of all memtables. Returns the user
    /// bytes that were admitted.
    pub fn learn(&mut self, seconds: f64, totals: &Totals, in_memory: f64) -> f64 {
        let admitted = self.admitted.advance(totals.admitted);
        let faded = self.peak * (1.0 - weight(seconds, DEMAND_SECONDS));
        self.peak = faded.max(admitted / seconds);
        self.window_grown += self.memory.advance(totals.flushed + in_memory);
        self.window_admitted += admitted;
        if self.window_admitted > GROWTH_WINDOW {
            self.window_grown /= 2.0;
            self.window_admitted /= 2.0;
        }
        let bytes = self.flushed.advance(totals.flushed);
        let files = self.flushes.advance(totals.flushes);
        if files > 0.0 {
            self.file_bytes.add(bytes / files, FILE_WEIGHT);
        }
        admitted
    }

    /// User bytes a second that were let in at most, of late.
    pub fn peak(&self) -> f64 {
        self.peak
    }

    /// Memtable bytes that a user byte becomes.
    pub fn growth(&self) -> f64 {
        if self.window_admitted < 1.0 {
            return 1.0;
        }
        (self.window_grown / self.window_admitted).clamp(0.1, 100.0)
    }

    /// Memtable bytes in a file of L0.
    pub fn file_bytes(&self) -> Option<f64> {
        self.file_bytes.get()
    }
}
