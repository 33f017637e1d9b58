//! The time operations take in a simulation, and when they take effect.
//!
//! In a simulation an operation suspends its task for a seeded time, and its effect happens at a
//! seeded moment between submission and completion, so that operations of several tasks overlap
//! and take effect in any order. Outside a simulation no time passes and nothing suspends.
//!
//! Thread safety: used from anywhere.

use super::fault::FaultOp;
use pumice_port::sim;
use std::sync::atomic::{AtomicU64, Ordering};

/// Nanoseconds an operation of each kind takes: at least the first, less than the sum.
struct Latency {
    least: u64,
    spread: u64,
}

impl FaultOp {
    fn latency(self) -> Latency {
        let (least, spread) = match self {
            FaultOp::Read => (2_000, 60_000),
            FaultOp::Write => (500, 6_000),
            FaultOp::Sync | FaultOp::SyncDir => (30_000, 900_000),
            FaultOp::Stat | FaultOp::Close => (300, 1_500),
            _ => (1_000, 20_000),
        };
        Latency { least, spread }
    }
}

/// One in this many operations takes `SLOW_FACTOR` times as long.
const SLOW_ONE_IN: u64 = 150;
const SLOW_FACTOR: u64 = 25;
const NORMAL_SPEED: u64 = 100;

/// The simulated device under one file system.
pub(super) struct Device {
    /// Duration of operations in hundredths of the usual.
    slowness: AtomicU64,
}

/// What is left of an operation after its effect.
#[must_use = "the operation has not completed"]
pub(super) struct Completion(u64);

impl Device {
    pub(super) fn new() -> Self {
        Device { slowness: AtomicU64::new(NORMAL_SPEED) }
    }

    /// Operations take `hundredths` of the usual time from now on.
    pub(super) fn set_slowness(&self, hundredths: u64) {
        self.slowness.store(hundredths, Ordering::Relaxed);
    }

    /// Submits an operation; returns at the moment of its effect.
    #[inline]
    pub(super) fn submit(&self, op: FaultOp, what: u64) -> Completion {
        if sim::is_running() { self.submit_simulated(op, what) } else { Completion(0) }
    }

    #[cold]
    fn submit_simulated(&self, op: FaultOp, what: u64) -> Completion {
        sim::note(what ^ ((op as u64 + 1) << 56));
        let Latency { least, spread } = op.latency();
        let mut nanos = least + sim::random_below(spread);
        if sim::random_below(SLOW_ONE_IN) == 0 {
            nanos *= SLOW_FACTOR;
        }
        nanos = nanos * self.slowness.load(Ordering::Relaxed) / NORMAL_SPEED;
        // The two ends are as likely as all moments between: they are where bugs show.
        let before = match sim::random_below(3) {
            0 => 0,
            1 => nanos,
            _ => sim::random_below(nanos),
        };
        if before > 0 {
            sim::device_wait(before);
        }
        Completion(nanos - before)
    }
}

impl Completion {
    /// Waits for the completion; whether time passed, in which the world may have changed.
    pub(super) fn wait(self) -> bool {
        if self.0 > 0 {
            sim::device_wait(self.0);
        }
        self.0 > 0
    }
}
