//! Fibers: tasks with stacks of their own that share one thread and yield it where they wait.
//!
//! A [`Runtime`] has loops, one per thread; a fiber stays on the loop where it was started, for
//! life, so the addresses of thread-locals never change under it. It is resumed when it is unparked
//! (`task`), when its deadline has passed or its request has completed, in the order in which that
//! happened. A fiber that does not wait is not interrupted: operations of the engine count against
//! its quantum ([`spend`]), long computations call [`maybe_yield`], and blocking calls that the
//! port does not know go through [`offload()`].
//!
//! A panic ends its fiber and is what joining it returns. A fiber that unwinds does not switch: if
//! a destructor must wait, it blocks the thread, so destructors must not wait for other fibers.
//!
//! Thread safety: see each item.

mod borrowed;
pub(crate) mod coroutine;
pub(crate) mod cpu;
mod event_loop;
mod idle_waiters;
mod inbox;
pub(crate) mod kick;
mod offload;
mod overflow;
mod prefetch;
pub(crate) mod quantum;
mod runtime;
mod scope;
mod slot;
pub(crate) mod stack;
mod stats;
mod timers;
mod watchdog;

pub use crate::io::{IoMode, leave_out_io_uring};
pub(crate) use borrowed::{close_idle as close_idle_loops, run_for as run_borrowed_for};
pub use cpu::{CpuWatch, watch_cpu};
pub use offload::{Workers, aside, offload};
pub use overflow::leave_signals_alone;
pub use quantum::{QUANTUM, spend};
pub use runtime::{Builder, Runtime};
pub use scope::{Scope, ScopedJoinHandle, scope_here, scope_independent, spawn_here};
pub use stats::{FiberInfo, RuntimeStats};
pub use watchdog::Stall;

use crate::task;

/// Whether the caller is a fiber, real or simulated.
///
/// Example: that of [`spawn_here`].
pub fn is_fiber() -> bool {
    task::current_fiber().is_some()
}

/// Yields if the calling fiber has run for 100 microseconds; nothing on a thread. The time
/// counts from the first call since the fiber was resumed.
///
/// ```
/// # use pumice_port::fiber::maybe_yield;
/// let mut sum = 0_u64;
/// for number in 0..10_000_u64 {
///     sum = sum.wrapping_add(number * number);
///     maybe_yield();
/// }
/// # assert_eq!(sum, 333_283_335_000);
/// ```
#[inline]
pub fn maybe_yield() {
    if is_fiber() {
        match scope::current_loop() {
            Some(own) => own.maybe_yield(),
            None => crate::sim::point(),
        }
    }
}

/// Suspends the calling fiber until its loop would sleep, at most this many nanoseconds: other
/// fibers run first, including those whose input or output completes meanwhile. For a caller that
/// is about to do one operation on behalf of many. Does nothing on a thread; in a simulation others
/// may run.
pub fn wait_until_idle(nanos: u64) {
    if is_fiber() {
        match scope::current_loop() {
            Some(own) => own.wait_until_idle(nanos),
            None => crate::sim::point(),
        }
    }
}

/// Which of its runtime's loops runs the calling fiber, for its whole life; 0 on a thread and in a
/// simulation. For data that is kept per loop.
#[inline]
pub fn loop_index() -> usize {
    scope::current_loop().map_or(0, event_loop::Loop::index)
}

/// Whether the caller is the only fiber of its loop.
pub(crate) fn is_alone() -> bool {
    scope::current_loop().is_some_and(event_loop::Loop::has_one_fiber)
}

/// Calls `f` with the reactor of the calling fiber's loop; None on a thread and in a simulation.
pub(crate) fn with_reactor<R>(f: impl FnOnce(&crate::io::Reactor) -> R) -> Option<R> {
    scope::current_loop().map(|own| f(&own.reactor()))
}

/// What the calling fiber's loop waits on; None on a thread and in a simulation.
pub(crate) fn reactor() -> Option<std::rc::Rc<crate::io::Reactor>> {
    scope::current_loop().map(|own| own.reactor())
}

/// Calls `f` with the reactor of a loop that the calling thread, which is not a fiber, borrows for
/// the call; None when none is available.
pub(crate) fn with_lent_reactor<R>(f: impl FnOnce(&crate::io::Reactor) -> R) -> Option<R> {
    borrowed::borrow(borrowed::Loops::Shared).map(|borrowed| f(&borrowed.reactor()))
}

#[cfg(test)]
mod tests;
