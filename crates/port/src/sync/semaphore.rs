//! A number of permits, given out in the order in which they were asked for.
//!
//! Contract: docs/port/semaphore.md. The state word is the number of free permits, shifted left by
//! one, and the bit QUEUED.
//!
//! Invariants:
//! 1. QUEUED is set exactly while nodes are linked; both change under the queue's lock.
//! 2. While QUEUED is set, permits are taken under the queue's lock only, for the first node.
//!
//! Thread safety: `Sync`. Permits have no owner: one task may take and another give back.

use super::planted::{Planted, planted};
use super::queue::{GRANTED, Node, WaitQueue, wake_all};
use crate::atomic::{AtomicUsize, Ordering, constant};
use crate::sim;
use crate::task::{self, WaitReason};

const QUEUED: usize = 1;

static SEMAPHORE: WaitReason = WaitReason("semaphore");

/// A number of permits that tasks take and give back.
///
/// ```
/// # use pumice_port::sync::Semaphore;
/// let connections = Semaphore::new(2);
/// connections.acquire(1);
/// connections.acquire(1);
/// assert!(!connections.try_acquire(1));
/// connections.release(1);
/// assert_eq!(connections.available(), 1);
/// ```
pub struct Semaphore {
    state: AtomicUsize,
    queue: WaitQueue,
}

impl Semaphore {
    constant! {
        /// A semaphore with `permits` free permits, at most half the range of `usize`.
        pub fn new(permits: usize) -> Semaphore {
            assert!(permits <= usize::MAX >> 1, "too many permits");
            Semaphore { state: AtomicUsize::new(permits << 1), queue: WaitQueue::new() }
        }
    }
    /// Takes `n` permits at once when that many are free and all earlier requests are served.
    /// Suspends.
    #[inline]
    pub fn acquire(&self, n: usize) {
        if !self.try_acquire(n) {
            self.acquire_slow(n);
        }
    }
    /// Takes `n` permits if that many are free now and no task waits.
    #[inline]
    pub fn try_acquire(&self, n: usize) -> bool {
        sim::point();
        let mut state = self.state.load(Ordering::Relaxed);
        while let Some(rest) = enough(state, n) {
            let (success, failure) = (Ordering::Acquire, Ordering::Relaxed);
            match self.state.compare_exchange_weak(state, rest, success, failure) {
                Ok(_) => return true,
                Err(now) => state = now,
            }
        }
        false
    }
    /// Gives `n` permits back, and passes them on to waiters.
    ///
    /// # Panics
    /// In debug builds, when the free permits overflow the state word.
    #[inline]
    pub fn release(&self, n: usize) {
        let state = self.state.fetch_add(n << 1, Ordering::Release);
        debug_assert!((state >> 1).checked_add(n).is_some_and(|free| free <= usize::MAX >> 1));
        if state & QUEUED != 0 {
            self.pass_on();
        }
        sim::point();
    }
    /// The number of free permits; may be stale when it is returned.
    pub fn available(&self) -> usize {
        self.state.load(Ordering::Relaxed) >> 1
    }

    /// A task waits for permits; may be stale when it is returned.
    pub fn is_awaited(&self) -> bool {
        self.state.load(Ordering::Relaxed) & QUEUED != 0
    }

    #[cold]
    fn acquire_slow(&self, n: usize) {
        let node = Node::new(task::current(), n);
        let queued = self.queue.with(|list| {
            let mut state = self.state.load(Ordering::Relaxed);
            loop {
                let taken = enough(state, n);
                let (success, failure) = (Ordering::Acquire, Ordering::Relaxed);
                let next = match taken {
                    Some(rest) => rest,
                    None if planted(Planted::SemaphoreQueuesUnmarked) => state,
                    None => state | QUEUED,
                };
                match self.state.compare_exchange_weak(state, next, success, failure) {
                    Ok(_) if taken.is_some() => return false,
                    Ok(_) => break,
                    Err(now) => state = now,
                }
            }
            list.push_back(&node);
            true
        });
        if queued {
            let state = node.wait(&SEMAPHORE);
            debug_assert_eq!(state, GRANTED);
        }
    }

    /// Gives free permits to the first in the queue, as far as they go.
    #[cold]
    fn pass_on(&self) {
        let granted = self.queue.with(|list| {
            // Acquire: what the releasers have done is passed on as well. By invariant 2 no one
            // else takes; permits released meanwhile come with their own call of this.
            let free = self.state.load(Ordering::Acquire) >> 1;
            let taken = std::cell::Cell::new(0);
            let count = list.leading(|node| {
                let fits = node.wants <= free - taken.get();
                taken.set(taken.get() + if fits { node.wants } else { 0 });
                fits
            });
            let nodes = list.detach(count);
            let unmark = if list.is_empty() && count > 0 { QUEUED } else { 0 };
            self.state.fetch_sub((taken.get() << 1) | unmark, Ordering::Relaxed);
            nodes
        });
        wake_all(granted, GRANTED);
    }
}

/// The state after `n` permits were taken from `state` with no one waiting.
#[inline]
fn enough(state: usize, n: usize) -> Option<usize> {
    (state & QUEUED == 0 && state >> 1 >= n).then(|| state - (n << 1))
}
