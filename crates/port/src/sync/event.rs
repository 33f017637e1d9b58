//! A flag that is raised once and can be waited for.
//!
//! Contract: docs/port/event.md. Invariants:
//! 1. Until the flag is up the state is UNSET_QUEUED exactly while nodes are linked; both change
//!    under the queue's lock.
//! 2. `set` does not touch the event after it has made a waiter's node final, so a sole waiter may
//!    drop the event as soon as its wait returns.
//!
//! Thread safety: `Sync`.

use super::planted::{Planted, planted};
use super::queue::{Node, WOKEN, WaitQueue, wake_all};
use crate::atomic::{AtomicU32, Ordering, constant};
use crate::sim;
use crate::task::{self, WaitReason, clock};
use std::time::Duration;

const UNSET: u32 = 0;
const UNSET_QUEUED: u32 = 1;
const SET: u32 = 2;

static EVENT: WaitReason = WaitReason("event");

/// A flag that is raised once and can be waited for.
///
/// ```
/// # use pumice_port::sync::Event;
/// let stop = Event::new();
/// std::thread::scope(|scope| {
///     scope.spawn(|| stop.set());
///     stop.wait();
/// });
/// assert!(stop.is_set());
/// ```
pub struct Event {
    state: AtomicU32,
    queue: WaitQueue,
}

impl Event {
    constant! {
        /// An event that has not happened.
        pub fn new() -> Event {
            Event { state: AtomicU32::new(UNSET), queue: WaitQueue::new() }
        }
    }
    /// Raises the flag and wakes every waiter. What was written before is visible to them.
    pub fn set(&self) {
        sim::point();
        let relaxed = planted(Planted::EventRelaxed);
        let order = if relaxed { Ordering::Relaxed } else { Ordering::AcqRel };
        if self.state.swap(SET, order) == UNSET_QUEUED {
            if planted(Planted::EventWakesUnderLock) {
                return self.queue.with(|list| wake_all(list.detach(usize::MAX), WOKEN));
            }
            wake_all(self.queue.with(|list| list.detach(usize::MAX)), WOKEN);
        }
    }
    /// Whether the flag is up.
    #[inline]
    pub fn is_set(&self) -> bool {
        self.state.load(Ordering::Acquire) == SET
    }
    /// Waits for the flag. Suspends.
    pub fn wait(&self) {
        sim::point();
        let node = Node::new(task::current(), 0);
        if !self.is_set() && self.queue(&node) {
            node.wait(&EVENT);
        }
    }
    /// Waits for the flag at most `limit`; true when it is up. Suspends.
    pub fn wait_timeout(&self, limit: Duration) -> bool {
        sim::point();
        let node = Node::new(task::current(), 0);
        if self.is_set() || !self.queue(&node) {
            return true;
        }
        if node.wait_until(&EVENT, clock::deadline(limit)) >= WOKEN {
            return true;
        }
        let cancelled = self.cancel(&node);
        if !cancelled {
            // The task that set the flag has the node, and needs it a moment longer.
            node.wait(&EVENT);
        }
        !cancelled
    }

    /// Takes the node out, or returns false: the flag is up, and the setter will take the node.
    fn cancel(&self, node: &Node) -> bool {
        self.queue.with(|list| {
            if !node.is_waiting() || self.is_set() {
                return false;
            }
            list.remove(node);
            let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
            let unmark = || self.state.compare_exchange(UNSET_QUEUED, UNSET, success, failure);
            if list.is_empty() && unmark().is_err() {
                list.push_back(node);
                return false;
            }
            true
        })
    }

    /// Links the node, or returns false when the flag is up.
    fn queue(&self, node: &Node) -> bool {
        self.queue.with(|list| {
            let (success, failure) = (Ordering::Relaxed, Ordering::Acquire);
            let marked = self.state.compare_exchange(UNSET, UNSET_QUEUED, success, failure);
            let waits = marked != Err(SET) || planted(Planted::EventNoRecheck);
            if waits {
                list.push_back(node);
            }
            waits
        })
    }
}

impl Default for Event {
    fn default() -> Self {
        Event::new()
    }
}
