//! What a fiber may do before it lets others run: a quantum that operations count against.
//!
//! A fiber that finds all it needs in memory never waits, and would starve the others of its loop.
//! So each operation of the engine that can be repeated without end calls [`spend`] with its
//! approximate cost; a fiber that has spent its quantum since it was resumed yields. The quantum is
//! counted, not timed: the yield points are the same in every run.
//!
//! Thread safety: the count is the thread's own; schedulers fill it when they resume a fiber. On a
//! thread without fibers it is counted down too, without effect.

use super::scope::current_loop;
use crate::task;
use std::cell::Cell;

/// What a fiber may spend between two switches: units of about 50 nanoseconds.
pub const QUANTUM: u32 = 1000;

thread_local! {
    /// Below zero: spent.
    static LEFT: Cell<i32> = const { Cell::new(QUANTUM as i32) };
}

/// A fiber was resumed.
#[inline]
pub(crate) fn fill() {
    LEFT.set(QUANTUM as i32);
}

/// Counts `cost` (see [`QUANTUM`]) against the calling fiber; when its quantum is spent, the other
/// runnable fibers of its loop run once. Nothing on a thread. Costs two or three instructions.
#[inline]
pub fn spend(cost: u32) {
    let overdrawn = LEFT.with(|left| {
        left.set(left.get().wrapping_sub(cost as i32));
        left.get() < 0
    });
    if overdrawn {
        spent();
    }
}

#[cold]
#[inline(never)]
fn spent() {
    let Some((_, scheduler)) = task::current_fiber() else {
        LEFT.set(i32::MAX);
        return;
    };
    fill();
    // A fiber that unwinds does not switch.
    if std::thread::panicking() {
        return;
    }
    match current_loop() {
        Some(own) => own.yield_spent(),
        None => scheduler.yield_now(),
    }
}
