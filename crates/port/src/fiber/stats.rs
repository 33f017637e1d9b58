//! What the loops of a runtime have done.

use super::event_loop::Loop;
use std::sync::atomic::Ordering;

/// Sums over the loops of a runtime, each read at a slightly different moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RuntimeStats {
    /// Fibers that were resumed.
    pub switches: u64,
    /// Times a sleeping loop was woken by another thread, at one system call each.
    pub kicks: u64,
    /// Turns of the loops.
    pub turns: u64,
    /// Calls into the kernel's ring.
    pub enters: u64,
    /// Requests given to the kernel's ring.
    pub sqes: u64,
    /// Requests the kernel has not answered yet.
    pub inflight: u64,
    /// Fibers alive.
    pub tasks: u64,
    /// The deepest stack of a fiber so far, in bytes.
    pub stack_high_water_bytes: u64,
    /// The name of that fiber.
    pub stack_high_water_name: String,
}

pub(crate) fn collect(loops: &[&'static Loop]) -> RuntimeStats {
    let mut stats = RuntimeStats::default();
    for each in loops {
        let counters = &each.counters;
        stats.switches += counters.switches.load(Ordering::Relaxed);
        stats.kicks += counters.kicks.load(Ordering::Relaxed);
        stats.turns += counters.turns.load(Ordering::Relaxed);
        stats.tasks += counters.live.load(Ordering::Relaxed);
    }
    stats
}
