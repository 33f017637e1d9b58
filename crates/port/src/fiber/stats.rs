//! What the loops of a runtime have done, and their live fibers.
//!
//! Thread safety: counters are read from anywhere; a survey runs on the loop it asks.

use super::event_loop::{self, Loop};
use super::stack;
use std::sync::atomic::Ordering;

/// Sums over the loops of a runtime, each read at a slightly different moment.
///
/// Example: that of [`Builder`](super::Builder).
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
    /// System calls for sockets on loops that io_uring does not serve, waiting included, sending
    /// not.
    pub socket_calls: u64,
    /// Requests given to the kernel's ring.
    pub sqes: u64,
    /// Requests the kernel has not answered yet.
    pub inflight: u64,
    /// Loops that io_uring serves; the others are served by threads.
    pub uring_loops: u64,
    /// Fibers alive.
    pub tasks: u64,
    /// The deepest stack of an ended fiber so far, in bytes, to a page; up to 32 KiB may be an
    /// earlier fiber's on the same stack. With assertions every fiber is measured, without them
    /// one in 64, and the name is that of the last fiber on the stack. See also
    /// [`Runtime::fibers`](super::Runtime::fibers).
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
        stats.enters += counters.enters.load(Ordering::Relaxed);
        stats.socket_calls += counters.socket_calls.load(Ordering::Relaxed);
        stats.sqes += counters.requests.load(Ordering::Relaxed);
        stats.inflight += counters.inflight.load(Ordering::Relaxed);
        stats.uring_loops += counters.rings.load(Ordering::Relaxed);
        let deepest = counters.deepest.load(Ordering::Relaxed);
        if deepest > stats.stack_high_water_bytes {
            stats.stack_high_water_bytes = deepest;
            stats.stack_high_water_name = counters.deepest_name.text();
        }
    }
    stats
}

/// A fiber that has started to run and has not ended.
///
/// Example: that of [`Builder`](super::Builder).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FiberInfo {
    /// What it is called.
    pub name: String,
    /// Which of the runtime's loops runs it.
    pub loop_index: usize,
    /// Why it waits; empty when it is not waiting.
    pub waits_for: &'static str,
    /// How deep its stack has been, in bytes, to a page; up to 32 KiB may be an earlier fiber's.
    pub stack_bytes: usize,
}

/// The name of the fibers that take the survey.
pub(crate) const SURVEY: &str = "survey";

/// The live fibers of the calling fiber's loop.
pub(crate) fn survey(loop_index: usize) -> Vec<FiberInfo> {
    let Some(own) = event_loop::current() else { return Vec::new() };
    let mut found = Vec::new();
    own.for_each_live(|slot| {
        let name = slot.name.text();
        let low = slot.stack_low.load(Ordering::Relaxed);
        let usable = slot.stack_usable.load(Ordering::Relaxed);
        let stack_bytes = if low == 0 { 0 } else { stack::depth(low, usable) };
        if name != SURVEY {
            let waits_for = slot.task.reason();
            found.push(FiberInfo { name, loop_index, waits_for, stack_bytes });
        }
    });
    found
}
