//! Whether users' reads meet `read_latency_target_micros`, and which of them are sampled for
//! `read_triggered_compaction_threshold`.
//!
//! Point reads are timed while there is a target: a read then costs two clock reads and an addition
//! to a shared counter. While some are sampled, a read costs one step of a random generator.
//! Otherwise it costs a check of one word.
//!
//! Thread safety: everything from anywhere. What it does not do: time iterators.

use std::sync::atomic::{AtomicU64, Ordering};

use pumice_port::time::now_micros;

use crate::read::sampling::Sampled;

/// Some reads are sampled.
const SAMPLED: u64 = 1 << 63;

/// See the module head.
#[derive(Debug, Default)]
pub(crate) struct ReadWatch {
    /// How long a read may take, 0 for no target; and `SAMPLED`.
    watched: AtomicU64,
    reads: AtomicU64,
    slow_reads: AtomicU64,
}

impl ReadWatch {
    /// Sets how long a read may take from now on; 0 times none.
    pub fn set_target(&self, micros: u64) {
        self.watched.fetch_and(SAMPLED, Ordering::Relaxed);
        self.watched.fetch_or(micros.min(SAMPLED - 1), Ordering::Relaxed);
    }

    /// From now on some reads are sampled, or none.
    pub fn set_sampled(&self, on: bool) {
        match on {
            true => self.watched.fetch_or(SAMPLED, Ordering::Relaxed),
            false => self.watched.fetch_and(!SAMPLED, Ordering::Relaxed),
        };
    }

    /// Whether reads are timed or sampled.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.watched.load(Ordering::Relaxed) > 0
    }

    fn target_micros(&self) -> u64 {
        self.watched.load(Ordering::Relaxed) & (SAMPLED - 1)
    }

    /// Whether reads are timed.
    pub fn is_timed(&self) -> bool {
        self.target_micros() > 0
    }

    /// Which reads are sampled.
    pub fn sampled(&self) -> Sampled {
        match self.watched.load(Ordering::Relaxed) & SAMPLED {
            0 => Sampled::Never,
            _ => Sampled::Drawn,
        }
    }

    /// A read begins; returns the time if the read is timed.
    #[inline]
    pub fn begin(&self) -> Option<u64> {
        self.is_timed().then(now_micros)
    }

    /// The read that began at `began` has its answer.
    #[inline]
    pub fn end(&self, began: Option<u64>) {
        if let Some(began) = began {
            let took = now_micros().saturating_sub(began);
            self.reads.fetch_add(1, Ordering::Relaxed);
            if took > self.target_micros() {
                self.slow_reads.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Reads that were timed so far, and how many of them were slow.
    pub fn totals(&self) -> (u64, u64) {
        (self.reads.load(Ordering::Relaxed), self.slow_reads.load(Ordering::Relaxed))
    }
}
