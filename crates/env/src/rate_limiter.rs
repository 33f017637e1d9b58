//! A limit on bytes written per second, shared by background jobs: a token bucket.
//!
//! Tokens come in once per refill period; a request takes what it may and waits in its class's
//! queue otherwise. Higher classes go first, except that one refill in `fairness` starts with the
//! lower class, so that nobody starves.
//!
//! Thread safety: all methods may be called from anywhere; `request` suspends.
//! It does not tune itself and does not count reads.

use pumice_port::sync::{Condvar, Mutex};
use pumice_port::time::now_micros;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How urgent a write is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum IoClass {
    /// Compaction.
    Low = 0,
    /// Flush.
    High = 1,
    /// A user waits for it: never limited.
    User = 2,
}

struct State {
    tokens: u64,
    next_refill_micros: u64,
    waiting: [u32; 2],
    refills: u64,
}

/// See the head of this file.
pub struct RateLimiter {
    rate_bytes_per_sec: AtomicU64,
    refill_period_micros: u64,
    fairness: u64,
    state: Mutex<State>,
    refilled: Condvar,
    through: [AtomicU64; 3],
}

impl RateLimiter {
    /// A limiter with RocksDB's defaults: a refill each 100 ms, fairness 10.
    pub fn new(rate_bytes_per_sec: u64) -> Self {
        Self::with_period(rate_bytes_per_sec, 100_000, 10)
    }

    /// A limiter with its own refill period (microseconds, at least 1) and fairness (at least 1).
    pub fn with_period(rate_bytes_per_sec: u64, period_micros: u64, fairness: u64) -> Self {
        RateLimiter {
            rate_bytes_per_sec: AtomicU64::new(rate_bytes_per_sec.max(1)),
            refill_period_micros: period_micros.max(1),
            fairness: fairness.max(1),
            state: Mutex::new(State {
                tokens: 0,
                next_refill_micros: now_micros(),
                waiting: [0; 2],
                refills: 0,
            }),
            refilled: Condvar::new(),
            through: [const { AtomicU64::new(0) }; 3],
        }
    }

    /// The present limit.
    pub fn rate_bytes_per_sec(&self) -> u64 {
        self.rate_bytes_per_sec.load(Ordering::Relaxed)
    }
    /// Changes the limit from the next refill on.
    pub fn set_rate_bytes_per_sec(&self, rate: u64) {
        self.rate_bytes_per_sec.store(rate.max(1), Ordering::Relaxed);
    }
    /// The most bytes one request is granted: one refill.
    pub fn burst_bytes(&self) -> u64 {
        let rate = u128::from(self.rate_bytes_per_sec());
        let bytes = rate * u128::from(self.refill_period_micros) / 1_000_000;
        u64::try_from(bytes).unwrap_or(u64::MAX).max(1)
    }
    /// Bytes granted to a class so far.
    pub fn total_bytes(&self, class: IoClass) -> u64 {
        self.through[class as usize].load(Ordering::Relaxed)
    }

    /// Waits until some of `bytes` may be written; how many, at least 1 unless `bytes` is 0.
    pub fn request(&self, bytes: u64, class: IoClass) -> u64 {
        let granted = match class {
            IoClass::User => bytes,
            IoClass::Low | IoClass::High => self.take(bytes.min(self.burst_bytes()), class),
        };
        self.through[class as usize].fetch_add(granted, Ordering::Relaxed);
        granted
    }

    fn take(&self, bytes: u64, class: IoClass) -> u64 {
        let own = class as usize;
        let mut state = self.state.lock();
        state.waiting[own] += 1;
        let granted = loop {
            self.refill(&mut state);
            // This refill belongs to High, or in its turn to Low, while that class has waiters.
            let preferred = usize::from(!state.refills.is_multiple_of(self.fairness));
            let yields = own != preferred && state.waiting[preferred] > 0;
            if !yields && state.tokens > 0 {
                break bytes.min(state.tokens);
            }
            let pause = state.next_refill_micros.saturating_sub(now_micros()).max(1);
            state = self.refilled.wait_timeout(state, Duration::from_micros(pause)).0;
        };
        state.tokens -= granted;
        state.waiting[own] -= 1;
        drop(state);
        // The other class may have stood back for this request only.
        self.refilled.notify_all();
        granted
    }

    fn refill(&self, state: &mut State) {
        let now = now_micros();
        if now >= state.next_refill_micros {
            state.tokens = self.burst_bytes();
            state.next_refill_micros = now + self.refill_period_micros;
            state.refills += 1;
        }
    }
}
