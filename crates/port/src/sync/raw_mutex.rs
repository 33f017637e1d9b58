//! Mutual exclusion without a value: the state word and the queue of a `Mutex`.
//!
//! | state | meaning | left by |
//! |---|---|---|
//! | FREE | not held | lock (to LOCKED; to CONTENDED by a woken waiter) |
//! | LOCKED | held; no waiter to wake | unlock (to FREE), a waiter (to CONTENDED) |
//! | CONTENDED | held; unlock must wake the first waiter | unlock, under the queue's lock |
//!
//! Invariants:
//! 1. CONTENDED is left only under the queue's lock; a waiter links its node under that lock after
//!    it has made the state CONTENDED there. So no unlock misses a linked node.
//! 2. While nodes are linked, the state is CONTENDED, or a woken waiter is on its way, which makes
//!    it CONTENDED when it takes the lock or queues again.
//!
//! A running task takes a free lock before tasks that were woken (barging: no switch while there is
//! work). A woken waiter that loses queues in front, and one that has waited longer than
//! `hand_off_nanos` is marked overdue: the next unlock gives it the lock without freeing it.
//! Threads spin briefly before they queue; fibers do not, as the holder may be waiting for their
//! loop.

use super::planted::{Planted, planted};
use super::queue::{GRANTED, List, Node, WOKEN, WaitQueue, wake};
use crate::atomic::{AtomicU32, Ordering, constant};
use crate::task::{self, TaskRef, WaitReason};

const FREE: u32 = 0;
const LOCKED: u32 = 1;
const CONTENDED: u32 = 2;

static MUTEX: WaitReason = WaitReason("mutex");

/// See the module head.
pub(super) struct RawMutex {
    state: AtomicU32,
    queue: WaitQueue,
}

impl RawMutex {
    constant! {
        /// Free.
        pub(super) fn new() -> RawMutex {
            RawMutex { state: AtomicU32::new(FREE), queue: WaitQueue::new() }
        }
    }

    /// Takes the lock. Suspends.
    #[inline]
    pub(super) fn lock(&self) {
        if !self.try_lock() {
            self.lock_slow();
        }
    }

    /// Takes the lock if it is free.
    #[inline]
    pub(super) fn try_lock(&self) -> bool {
        self.state.compare_exchange(FREE, LOCKED, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Frees the lock, which the caller holds, and wakes the first waiter.
    #[inline]
    pub(super) fn unlock(&self) {
        let (from, to) = (LOCKED, FREE);
        if self.state.compare_exchange(from, to, Ordering::Release, Ordering::Relaxed).is_err() {
            self.unlock_slow();
        }
    }

    #[cold]
    fn lock_slow(&self) {
        let task = task::current();
        if self.spin(task, LOCKED) {
            return;
        }
        let node = Node::new(task, 0);
        let queued = self.take_or(|list| list.push_back(&node));
        // The clock is read by the waiter, which waits anyway, never by the unlocking task.
        let since = task::clock::now_nanos();
        if queued && node.wait(&MUTEX) != GRANTED {
            self.lock_woken(task, Some(since));
        }
    }

    /// Takes the lock for a waiter that was woken without getting it and has waited since `since`.
    pub(super) fn lock_woken(&self, task: TaskRef, since: Option<u64>) {
        let mut since = since;
        loop {
            if self.spin(task, CONTENDED) {
                return;
            }
            let mut node = Node::new(task, 0);
            let now = task::clock::now_nanos();
            node.overdue = now.saturating_sub(*since.get_or_insert(now)) >= super::hand_off_nanos();
            if !self.take_or(|list| list.push_front(&node)) || node.wait(&MUTEX) == GRANTED {
                return;
            }
        }
    }

    /// Takes the lock, or makes it CONTENDED and links a node; returns whether it did the latter.
    fn take_or(&self, link: impl FnOnce(&mut List)) -> bool {
        self.queue.with(|list| {
            if planted(Planted::MutexQueuesUnmarked) {
                if self.try_lock() {
                    return false;
                }
            } else if self.state.swap(CONTENDED, Ordering::Acquire) == FREE {
                if list.is_empty() {
                    // Ours, and unobserved: others make it CONTENDED under this lock.
                    self.state.store(LOCKED, Ordering::Relaxed);
                }
                return false;
            }
            link(list);
            true
        })
    }

    /// Spins briefly for the lock to become free, where the holder can be running.
    fn spin(&self, task: TaskRef, taken: u32) -> bool {
        let mut left = if task.is_fiber() { 0 } else { super::SPINS };
        loop {
            let state = self.state.load(Ordering::Relaxed);
            if state == FREE {
                let (success, failure) = (Ordering::Acquire, Ordering::Relaxed);
                if self.state.compare_exchange(FREE, taken, success, failure).is_ok() {
                    return true;
                }
            }
            if state == CONTENDED || left == 0 {
                return false;
            }
            left -= 1;
            std::hint::spin_loop();
        }
    }

    #[cold]
    fn unlock_slow(&self) {
        let woken = self.queue.with(|list| {
            let Some(node) = list.pop() else {
                self.state.store(FREE, Ordering::Release);
                return None;
            };
            // SAFETY: invariant 1 of the queue: it is not final yet.
            if !unsafe { (*node).overdue } {
                self.state.store(FREE, Ordering::Release);
                return Some((node, WOKEN));
            }
            if list.is_empty() {
                self.state.store(LOCKED, Ordering::Relaxed);
            }
            Some((node, GRANTED))
        });
        if let Some((node, outcome)) = woken {
            wake(node, outcome);
        }
    }

    /// Gives detached nodes of a condvar to this mutex: they are woken when the lock becomes free.
    /// Every node's owner keeps the mutex alive until its node is final.
    pub(super) fn requeue(&self, mut nodes: List) {
        let first = self.queue.with(|list| {
            let mut first = None;
            let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
            while first.is_none()
                && self.state.load(Ordering::Relaxed) != CONTENDED
                && self.state.compare_exchange(LOCKED, CONTENDED, success, failure).is_err()
            {
                if self.state.load(Ordering::Relaxed) == FREE {
                    // By invariant 2 the first of them, on its way, covers the others.
                    first = nodes.pop();
                }
            }
            list.append(nodes);
            first
        });
        if let Some(node) = first {
            wake(node, WOKEN);
        }
    }
}
