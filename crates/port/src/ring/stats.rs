//! Counters of a ring, and the decision to call a helper.
//!
//! Both belong to the emitter alone, which is one task at a time; so the fields are changed by
//! plain loads and stores of std's relaxed atomics, which loom does not order: they are not part of
//! the protocol. Thread safety: written by the emitter, read from anywhere, each value by itself.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// What a ring has counted so far. Times in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingStats {
    /// Blocks emitted.
    pub emitted: u64,
    /// How often a helper was called ([`Ring::wants_helper`](super::Ring::wants_helper)).
    pub calls: u64,
    /// How often a helper attached and found work.
    pub visits: u64,
    /// Blocks that the emitter compressed.
    pub steals_compressed: u64,
    /// Blocks that the emitter wrote.
    pub steals_written: u64,
    /// Blocks that helpers compressed, including those they still hold.
    pub helper_compressed: u64,
    /// Blocks that helpers wrote.
    pub helper_written: u64,
    /// How often the emitter had to wait for helpers.
    pub waits: u64,
    /// How long it waited: each wait ends with one wake-up.
    pub idle_nanos: u64,
    /// How often a block was emitted and no slot was free for the next one.
    pub ring_full: u64,
    /// How long no slot was free, compressing and waiting included: sampled one time in 16, and
    /// multiplied by 16.
    pub ring_full_nanos: u64,
}

impl RingStats {
    /// Adds another ring's counts.
    pub fn add(&mut self, other: &RingStats) {
        self.emitted += other.emitted;
        self.calls += other.calls;
        self.visits += other.visits;
        self.steals_compressed += other.steals_compressed;
        self.steals_written += other.steals_written;
        self.helper_compressed += other.helper_compressed;
        self.helper_written += other.helper_written;
        self.waits += other.waits;
        self.idle_nanos += other.idle_nanos;
        self.ring_full += other.ring_full;
        self.ring_full_nanos += other.ring_full_nanos;
    }
}

/// A number that only the emitter changes.
#[derive(Default)]
pub(super) struct Own(AtomicU64);

impl Own {
    #[inline]
    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
    #[inline]
    pub(super) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }
    #[inline]
    pub(super) fn add(&self, n: u64) {
        self.set(self.get() + n);
    }
}

/// The emitter's own counters.
#[derive(Default)]
pub(super) struct Counters {
    pub(super) emitted: Own,
    pub(super) calls: Own,
    pub(super) compressed: Own,
    pub(super) written: Own,
    pub(super) waits: Own,
    pub(super) idle_nanos: Own,
    pub(super) full: Own,
    pub(super) full_nanos: Own,
    /// When the ring became full; 0 when it is not, or when this time is not measured.
    full_since: Own,
}

/// The sampling interval for a full ring: without helpers the ring fills with every block, and
/// reading the clock twice costs more than the rest of a hand-off.
const FULL_SAMPLED: u64 = 16;

impl Counters {
    #[inline]
    pub(super) fn full_begins(&self, clock_nanos: impl Fn() -> u64) {
        let count = self.full.get();
        self.full.set(count + 1);
        if count.is_multiple_of(FULL_SAMPLED) {
            self.full_since.set(clock_nanos());
        }
    }
    #[inline]
    pub(super) fn full_ends(&self, clock_nanos: impl Fn() -> u64) {
        let since = self.full_since.get();
        if since != 0 {
            self.full_nanos.add((clock_nanos() - since) * FULL_SAMPLED);
            self.full_since.set(0);
        }
    }
}

/// How many calls a ring makes without a pause when it starts.
const EAGER_CALLS: i64 = 4;

/// Decides when a helper is called.
///
/// A call costs a wake-up, and a helper that finds little leaves again. So a call needs a backlog
/// of [`Pace::threshold`] blocks, and after the first few calls it also needs, since the last call,
/// some emitted blocks with such a backlog: at most half of the ring, so that a ring whose helper
/// has left gets it back when three quarters are waiting, before it is full.
pub(super) struct Pace {
    /// Eligible blocks since the last call.
    toward: AtomicI64,
    /// How many it takes.
    pause: AtomicI64,
    pause_max: i64,
    /// The backlog that a call needs while no helper is attached.
    backlog_min: usize,
}

impl Pace {
    pub(super) fn new(slots: usize) -> Self {
        Pace {
            toward: AtomicI64::new(0),
            pause: AtomicI64::new(1 - EAGER_CALLS),
            pause_max: slots as i64 / 2,
            backlog_min: (slots / 4).max(2).min(slots / 2),
        }
    }

    /// The backlog at which another helper would be of use.
    #[inline]
    pub(super) fn threshold(&self, attached: usize) -> usize {
        self.backlog_min + attached
    }

    /// A block was emitted, leaving `backlog`; true when a helper should be called.
    #[inline]
    pub(super) fn emitted(&self, backlog: usize, attached: usize) -> bool {
        if backlog < self.threshold(attached) {
            return false;
        }
        let (toward, pause) =
            (self.toward.load(Ordering::Relaxed), self.pause.load(Ordering::Relaxed));
        if toward < pause {
            self.toward.store(toward + 1, Ordering::Relaxed);
            return false;
        }
        self.toward.store(0, Ordering::Relaxed);
        self.pause.store((pause + 1).min(self.pause_max), Ordering::Relaxed);
        true
    }
}
