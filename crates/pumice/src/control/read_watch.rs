//! Whether users' reads meet `read_latency_target_micros`.
//!
//! Point reads are timed while there is a target: a read then costs two clock reads and an addition
//! to a shared counter, otherwise only a check of the target.
//!
//! Thread safety: everything from anywhere. What it does not do: time iterators.

use std::sync::atomic::{AtomicU64, Ordering};

use pumice_port::time::now_micros;

/// See the module head.
#[derive(Debug, Default)]
pub(crate) struct ReadWatch {
    /// How long a read may take; 0 means no target.
    target_micros: AtomicU64,
    reads: AtomicU64,
    slow_reads: AtomicU64,
}

impl ReadWatch {
    /// Sets how long a read may take from now on; 0 times none.
    pub fn set_target(&self, micros: u64) {
        self.target_micros.store(micros, Ordering::Relaxed);
    }

    /// Whether reads are timed.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.target_micros.load(Ordering::Relaxed) > 0
    }

    /// A read begins; returns the time if the read is timed.
    #[inline]
    pub fn begin(&self) -> Option<u64> {
        self.is_on().then(now_micros)
    }

    /// The read that began at `began` has its answer.
    #[inline]
    pub fn end(&self, began: Option<u64>) {
        if let Some(began) = began {
            let took = now_micros().saturating_sub(began);
            self.reads.fetch_add(1, Ordering::Relaxed);
            if took > self.target_micros.load(Ordering::Relaxed) {
                self.slow_reads.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Reads that were timed so far, and how many of them were slow.
    pub fn totals(&self) -> (u64, u64) {
        (self.reads.load(Ordering::Relaxed), self.slow_reads.load(Ordering::Relaxed))
    }
}
