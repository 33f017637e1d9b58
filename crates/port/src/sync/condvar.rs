//! Waiting for a change of the value a mutex guards.
//!
//! Contract: docs/port/condvar.md. A waiter queues itself while it still holds the mutex, so a task
//! that changes the value under the mutex and then notifies cannot miss it. A notified waiter whose
//! mutex is held goes to that mutex's queue and is woken when it is free: one wake-up, not two, and
//! no thundering herd.
//!
//! Invariants:
//! 1. `waiting` is the number of nodes in the queue, changed under the queue's lock only. A task
//!    that has held the mutex since the waiter queued itself sees it.
//! 2. A wait that ends by its deadline takes its node out under the queue's lock; found out of the
//!    queue, it was notified, and that is what it reports.
//!
//! Thread safety: `Sync`. One condvar serves one mutex at a time.

use super::mutex::MutexGuard;
use super::planted::{Planted, planted};
use super::queue::{GRANTED, Node, WOKEN, WaitQueue};
use super::raw_mutex::RawMutex;
use crate::atomic::{AtomicU32, Ordering, constant};
use crate::sim;
use crate::task::{self, WaitReason, clock};
use std::time::Duration;

static CONDVAR: WaitReason = WaitReason("condvar");

/// Waits for a change of the value a [`Mutex`](super::Mutex) guards.
///
/// ```
/// # use pumice_port::sync::{Condvar, Mutex};
/// let (queue, changed) = (Mutex::new(Vec::new()), Condvar::new());
/// std::thread::scope(|scope| {
///     scope.spawn(|| {
///         queue.lock().push("work");
///         changed.notify_one();
///     });
///     let mut held = changed.wait_while(queue.lock(), |queue| queue.is_empty());
///     assert_eq!(held.pop(), Some("work"));
/// });
/// ```
pub struct Condvar {
    waiting: AtomicU32,
    queue: WaitQueue,
}

impl Condvar {
    constant! {
        /// A condvar without waiters.
        pub fn new() -> Condvar {
            Condvar { waiting: AtomicU32::new(0), queue: WaitQueue::new() }
        }
    }
    /// Unlocks, waits for a notification (or wakes spuriously), locks again. Suspends.
    pub fn wait<'a, T: ?Sized>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        MutexGuard::released(&guard, |mutex| self.wait_raw(mutex, None));
        guard
    }
    /// Waits until `blocked` is false. Suspends.
    pub fn wait_while<'a, T: ?Sized>(
        &self,
        mut guard: MutexGuard<'a, T>,
        mut blocked: impl FnMut(&mut T) -> bool,
    ) -> MutexGuard<'a, T> {
        while blocked(&mut guard) {
            guard = self.wait(guard);
        }
        guard
    }
    /// As [`Condvar::wait`] but at most `limit`; true when the time ran out. Suspends.
    pub fn wait_timeout<'a, T: ?Sized>(
        &self,
        guard: MutexGuard<'a, T>,
        limit: Duration,
    ) -> (MutexGuard<'a, T>, bool) {
        let deadline = Some(clock::deadline(limit));
        let timed_out = MutexGuard::released(&guard, |mutex| self.wait_raw(mutex, deadline));
        (guard, timed_out)
    }

    /// Waits without the mutex, which is held before and after; true when the deadline ended it.
    fn wait_raw(&self, mutex: &RawMutex, deadline_nanos: Option<u64>) -> bool {
        let task = task::current();
        let mut node = Node::new(task, 0);
        node.mutex = mutex;
        if planted(Planted::CondvarUnlocksFirst) {
            mutex.unlock();
            sim::point();
        }
        self.queue.with(|list| {
            list.push_back(&node);
            self.count(1);
        });
        if !planted(Planted::CondvarUnlocksFirst) {
            mutex.unlock();
        }
        sim::point();
        let ended = match deadline_nanos {
            None => Some(node.wait(&CONDVAR)),
            Some(deadline) => self.wait_node(&node, deadline),
        };
        match ended {
            Some(GRANTED) => {}
            Some(_) => mutex.lock_woken(task, None),
            None => mutex.lock(),
        }
        ended.is_none()
    }

    /// Waits for the node's final state; `None` when the deadline came first.
    fn wait_node(&self, node: &Node, deadline_nanos: u64) -> Option<u32> {
        let state = node.wait_until(&CONDVAR, deadline_nanos);
        if state >= WOKEN {
            return Some(state);
        }
        // The node leaves the queue exactly once: here, or by a waker that owes it the mutex.
        let cancelled = self.queue.with(|list| {
            let cancelled = planted(Planted::CondvarTimeoutUnlinksTwice) || node.is_waiting();
            if cancelled {
                list.remove(node);
                self.count(u32::MAX);
            }
            cancelled
        });
        if cancelled { None } else { Some(node.wait(&CONDVAR)) }
    }

    /// Adds to `waiting`, under the queue's lock.
    fn count(&self, change: u32) {
        let waiting = self.waiting.load(Ordering::Relaxed);
        self.waiting.store(waiting.wrapping_add(change), Ordering::Relaxed);
    }

    /// Wakes one waiter, if there is one: the one that has waited longest.
    #[inline]
    pub fn notify_one(&self) {
        sim::point();
        if self.waiting.load(Ordering::Relaxed) != 0 {
            self.notify(1);
        }
    }
    /// Wakes all waiters.
    #[inline]
    pub fn notify_all(&self) {
        sim::point();
        if self.waiting.load(Ordering::Relaxed) != 0 {
            self.notify(usize::MAX);
        }
    }

    #[cold]
    fn notify(&self, most: usize) {
        let mut nodes = self.queue.with(|list| {
            let count = most.min(self.waiting.load(Ordering::Relaxed) as usize);
            self.count((count as u32).wrapping_neg());
            list.detach(count)
        });
        while let Some(mutex) = nodes.front().map(|node| node.mutex) {
            let group = nodes.detach(nodes.leading(|node| node.mutex == mutex));
            // SAFETY: the owner of each node holds a guard's borrow of its mutex until the node
            // is final (invariants 1 and 3 of the queue), which `requeue` does last.
            unsafe { (*mutex).requeue(group) };
        }
    }
}

impl Default for Condvar {
    fn default() -> Self {
        Condvar::new()
    }
}
