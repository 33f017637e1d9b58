//! The wait queue embedded in every primitive: the waiters in order, on their own stacks.
//!
//! A waiter puts a [`Node`] on its stack, links it under the queue's lock, and parks until the
//! node says how the wait ended. Invariants cited by unsafe blocks:
//! 1. A linked node is alive and does not move: its owner leaves the frame only after the node's
//!    state is final, or after it has unlinked the node itself under the queue's lock.
//! 2. Links are touched only under the lock of the queue that holds the node, or, once the node is
//!    DETACHED, by the task that detached it.
//! 3. The task that makes the state final copies what it needs before, and does not touch the node
//!    after.
//!
//! | node state | meaning | left by |
//! |---|---|---|
//! | WAITING | in the queue | a waker under the lock (DETACHED or final); its owner unlinks it |
//! | DETACHED | taken by a waker, final soon; or moved to a mutex's queue | its holder (final) |
//! | WOKEN | final: the owner tries again | |
//! | GRANTED | final: the owner has got what it waited for | |
//!
//! Thread safety: a queue may be used from any thread; the lock is held for a few instructions and
//! never over anything that suspends or calls out. A task is made runnable after the lock is free.

use super::raw_mutex::RawMutex;
use crate::atomic::{AtomicU32, Ordering, UnsafeCell};
use crate::task::batch::Batch;
use crate::task::{self, TaskRef, WaitReason};
use std::ptr;

pub(super) const WAITING: u32 = 0;
pub(super) const DETACHED: u32 = 1;
pub(super) const WOKEN: u32 = 2;
pub(super) const GRANTED: u32 = 3;

#[derive(Clone, Copy)]
struct Links {
    prev: *const Node,
    next: *const Node,
}

/// One waiter.
pub(super) struct Node {
    links: UnsafeCell<Links>,
    state: AtomicU32,
    /// The waiter has lost to others for so long that it must be given the lock.
    pub(super) overdue: bool,
    /// What it waits for; each primitive defines the number's meaning.
    pub(super) wants: usize,
    /// For a condvar's waiter: the mutex that it will need.
    pub(super) mutex: *const RawMutex,
    task: TaskRef,
}

impl Node {
    /// A node of the calling task.
    pub(super) fn new(task: TaskRef, wants: usize) -> Self {
        Node {
            links: UnsafeCell::new(Links { prev: ptr::null(), next: ptr::null() }),
            state: AtomicU32::new(WAITING),
            overdue: false,
            wants,
            mutex: ptr::null(),
            task,
        }
    }

    /// Waits for the final state. Suspends.
    pub(super) fn wait(&self, reason: &'static WaitReason) -> u32 {
        loop {
            let state = self.state.load(Ordering::Acquire);
            if state >= WOKEN {
                return state;
            }
            task::park(reason);
        }
    }

    /// Waits for the final state until the deadline; the state then. Suspends.
    pub(super) fn wait_until(&self, reason: &'static WaitReason, deadline_nanos: u64) -> u32 {
        loop {
            let state = self.state.load(Ordering::Acquire);
            if state >= WOKEN || task::clock::now_nanos() >= deadline_nanos {
                return state;
            }
            task::park_until(reason, Some(deadline_nanos));
        }
    }

    /// Whether the node is still in the queue, whose lock the caller holds.
    pub(super) fn is_waiting(&self) -> bool {
        self.state.load(Ordering::Relaxed) == WAITING
    }

    /// Makes the state final; the task, to be woken. The node may be gone afterwards.
    fn finish(&self, state: u32) -> TaskRef {
        let task = self.task;
        self.state.store(state, Ordering::Release);
        task
    }
}

/// Nodes in order. Access is by invariant 2.
pub(super) struct List {
    head: *const Node,
    tail: *const Node,
}

impl List {
    pub(super) const fn new() -> Self {
        List { head: ptr::null(), tail: ptr::null() }
    }
    pub(super) fn is_empty(&self) -> bool {
        self.head.is_null()
    }
    pub(super) fn front(&self) -> Option<&Node> {
        // SAFETY: invariant 1.
        unsafe { self.head.as_ref() }
    }
    /// The length of the list's prefix of nodes for which `fits` holds.
    pub(super) fn leading(&self, fits: impl Fn(&Node) -> bool) -> usize {
        let mut count = 0;
        let mut at = self.head;
        // SAFETY: invariant 1.
        while unsafe { at.as_ref() }.is_some_and(&fits) {
            count += 1;
            at = links(at).next;
        }
        count
    }
    pub(super) fn push_back(&mut self, node: &Node) {
        self.link(self.tail, node, ptr::null());
    }
    pub(super) fn push_front(&mut self, node: &Node) {
        self.link(ptr::null(), node, self.head);
    }
    fn link(&mut self, prev: *const Node, node: &Node, next: *const Node) {
        let node: *const Node = node;
        set_links(node, Links { prev, next });
        self.set_next(prev, node);
        self.set_prev(next, node);
    }
    /// Moves all nodes of `other` to the end.
    pub(super) fn append(&mut self, other: List) {
        if !other.is_empty() {
            let (tail, head) = (self.tail, other.head);
            self.set_next(tail, head);
            set_links(head, Links { prev: tail, ..links(head) });
            self.tail = other.tail;
        }
    }
    /// Takes the first node out. It stays alive until it is made final.
    pub(super) fn pop(&mut self) -> Option<*const Node> {
        let node = self.head;
        // SAFETY: invariant 1.
        self.remove(unsafe { node.as_ref() }?);
        Some(node)
    }
    /// Takes the first `count` nodes out, DETACHED.
    pub(super) fn detach(&mut self, count: usize) -> List {
        let mut taken = List::new();
        for _ in 0..count {
            // SAFETY: invariant 1.
            let Some(node) = self.pop().and_then(|node| unsafe { node.as_ref() }) else { break };
            node.state.store(DETACHED, Ordering::Relaxed);
            taken.push_back(node);
        }
        taken
    }
    /// Takes a linked node out.
    pub(super) fn remove(&mut self, node: &Node) {
        let Links { prev, next } = links(node);
        self.set_next(prev, next);
        self.set_prev(next, prev);
    }
    /// Sets what follows `node`, or what is first.
    fn set_next(&mut self, node: *const Node, next: *const Node) {
        if node.is_null() {
            self.head = next;
        } else {
            set_links(node, Links { next, ..links(node) });
        }
    }
    /// Sets what comes before `node`, or what is last.
    fn set_prev(&mut self, node: *const Node, prev: *const Node) {
        if node.is_null() {
            self.tail = prev;
        } else {
            set_links(node, Links { prev, ..links(node) });
        }
    }
}

fn links(node: *const Node) -> Links {
    // SAFETY: invariants 1 and 2.
    unsafe { (*node).links.with(|links| *links) }
}

fn set_links(node: *const Node, new: Links) {
    // SAFETY: invariants 1 and 2.
    unsafe { (*node).links.with_mut(|links| *links = new) }
}

/// Ends the wait of a node that was popped and wakes its task.
pub(super) fn wake(node: *const Node, state: u32) {
    // SAFETY: invariants 1 and 3.
    unsafe { (*node).finish(state) }.unpark();
}

/// Ends the wait of detached nodes and wakes their tasks together.
pub(super) fn wake_all(list: List, state: u32) {
    if list.is_empty() {
        return;
    }
    crate::sim::point();
    let mut batch = Batch::default();
    let mut at = list.head;
    while !at.is_null() {
        let next = links(at).next;
        // SAFETY: invariants 1 and 3.
        batch.unpark(unsafe { (*at).finish(state) });
        at = next;
    }
}

/// A list under a lock.
#[cfg(not(loom))]
pub(super) struct WaitQueue {
    lock: super::raw_lock::RawLock,
    list: UnsafeCell<List>,
}

#[cfg(not(loom))]
impl WaitQueue {
    crate::atomic::constant! {
        /// A queue without waiters.
        pub(super) fn new() -> WaitQueue {
            WaitQueue {
                lock: super::raw_lock::RawLock::new(),
                list: UnsafeCell::new(List::new()),
            }
        }
    }
    /// Runs `f`, which must not suspend or panic, with the list.
    #[inline]
    pub(super) fn with<R>(&self, f: impl FnOnce(&mut List) -> R) -> R {
        self.lock.lock();
        // SAFETY: invariant 2: the lock excludes all others, and `f` does not re-enter here.
        let result = self.list.with_mut(|list| f(unsafe { &mut *list }));
        self.lock.unlock();
        result
    }
}

/// The same over loom's own lock: the raw lock has a model of its own, and here it would only
/// multiply the number of executions. `alive` is used by the lock's holder and changed at the end
/// of the queue, so loom sees a queue that ends while still in use.
#[cfg(loom)]
pub(super) struct WaitQueue {
    list: loom::sync::Mutex<List>,
    alive: UnsafeCell<()>,
}

#[cfg(loom)]
#[allow(clippy::unwrap_used)] // loom's locks are not poisoned.
impl WaitQueue {
    pub(super) fn new() -> WaitQueue {
        WaitQueue { list: loom::sync::Mutex::new(List::new()), alive: UnsafeCell::new(()) }
    }
    pub(super) fn with<R>(&self, f: impl FnOnce(&mut List) -> R) -> R {
        let mut list = self.list.lock().unwrap();
        let result = f(&mut list);
        self.alive.with(|_| ());
        result
    }
}

#[cfg(loom)]
impl Drop for WaitQueue {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.alive.with_mut(|_| ());
        }
    }
}

// SAFETY: invariant 2; the pointers in the list are to nodes that any thread may reach (1).
unsafe impl Send for WaitQueue {}
// SAFETY: as above.
unsafe impl Sync for WaitQueue {}
// A panic cannot leave the list half changed: `with` runs nothing that panics.
impl std::panic::UnwindSafe for WaitQueue {}
impl std::panic::RefUnwindSafe for WaitQueue {}
