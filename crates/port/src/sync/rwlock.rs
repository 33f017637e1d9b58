//! A lock with many readers or one writer.
//!
//! Contract: docs/port/rwlock.md. The state word:
//!
//! | bits | meaning |
//! |---|---|
//! | 0 to 29 | readers inside |
//! | 30, WRITER | a writer is inside |
//! | 31, WAITING | nodes are linked, and the last one out must wake from the queue |
//!
//! Invariants:
//! 1. WAITING changes only under the queue's lock, where a waiter links its node after setting it.
//! 2. While nodes are linked, WAITING is set, or a woken waiter is on its way, which sets it when
//!    it enters or queues again.
//! 3. A guard exists exactly while the state counts it: readers share the value, or the writer has
//!    it exclusively.
//!
//! New readers stay out while WAITING is set, so writers are not starved by them; a woken reader
//! joins other readers even then. The queue is left in order: all readers up to the next writer, or
//! one writer. As with the mutex, running tasks go before woken ones, and an overdue waiter is let
//! in by the leaving task before the lock can be seen free.
//!
//! Thread safety: `Sync` as std's. A guard stays on its thread.

use super::planted::{Planted, planted};
use super::queue::{GRANTED, Node, WOKEN, WaitQueue, wake_all};
use crate::atomic::{AtomicU32, Ordering, constant};
use crate::sim;
use crate::task::{self, WaitReason};
use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::panic::{RefUnwindSafe, UnwindSafe};

const WRITER: u32 = 1 << 30;
const WAITING: u32 = 1 << 31;
const READERS: u32 = WRITER - 1;

static READ: WaitReason = WaitReason("rwlock read");
static WRITE: WaitReason = WaitReason("rwlock write");

/// The lock without the value.
struct RawRwLock {
    state: AtomicU32,
    queue: WaitQueue,
}

/// What a task wants from the lock, as `Node::wants`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    Read,
    Write,
}

impl Access {
    /// The state after entering from `state`, `None` when that is not allowed now.
    fn enter(self, state: u32, woken: bool) -> Option<u32> {
        match self {
            Access::Read if state & WRITER == 0 && (woken || state & WAITING == 0) => {
                assert!(state & READERS < READERS, "too many readers");
                Some(state + 1)
            }
            Access::Write if state & (WRITER | READERS) == 0 => Some(state | WRITER),
            _ => None,
        }
    }
    fn reason(self) -> &'static WaitReason {
        match self {
            Access::Read => &READ,
            Access::Write => &WRITE,
        }
    }
}

impl RawRwLock {
    constant! {
        fn new() -> RawRwLock {
            RawRwLock { state: AtomicU32::new(0), queue: WaitQueue::new() }
        }
    }

    #[inline]
    fn try_read(&self) -> bool {
        let state = self.state.load(Ordering::Relaxed);
        // Below READERS neither WRITER nor WAITING is set, and there is room for one more.
        let (success, failure) = (Ordering::Acquire, Ordering::Relaxed);
        state < READERS
            && self.state.compare_exchange_weak(state, state + 1, success, failure).is_ok()
    }

    #[inline]
    fn try_write(&self) -> bool {
        self.state.compare_exchange(0, WRITER, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Enters if that is allowed now or at one of up to `spins` further looks.
    fn try_enter(&self, access: Access, spins: u32) -> bool {
        let mut state = self.look(access, spins, false);
        while let Some(entered) = access.enter(state, false) {
            let (success, failure) = (Ordering::Acquire, Ordering::Relaxed);
            match self.state.compare_exchange_weak(state, entered, success, failure) {
                Ok(_) => return true,
                Err(now) => state = now,
            }
        }
        false
    }

    /// The state, once entering is allowed, a task waits, or `spins` looks failed.
    fn look(&self, access: Access, spins: u32, woken: bool) -> u32 {
        let mut left = spins;
        loop {
            let state = self.state.load(Ordering::Relaxed);
            if left == 0 || state & WAITING != 0 || access.enter(state, woken).is_some() {
                return state;
            }
            left -= 1;
            std::hint::spin_loop();
        }
    }

    /// Waits to enter. Suspends.
    #[cold]
    fn enter_slow(&self, access: Access) {
        let task = task::current();
        let spins = if task.is_fiber() { 0 } else { super::SPINS };
        if self.try_enter(access, spins) {
            return;
        }
        let mut since = None;
        loop {
            let woken = since.is_some();
            let now = task::clock::now_nanos();
            let waited = now.saturating_sub(*since.get_or_insert(now));
            let mut node = Node::new(task, access as usize);
            node.overdue = woken && waited >= super::hand_off_nanos();
            if self.enter_or_queue(access, &node, woken) || node.wait(access.reason()) == GRANTED {
                return;
            }
            self.look(access, spins, true);
        }
    }

    /// Enters and returns true, or links the node.
    fn enter_or_queue(&self, access: Access, node: &Node, woken: bool) -> bool {
        self.queue.with(|list| {
            let waiting = if list.is_empty() { 0 } else { WAITING };
            let mut state = self.state.load(Ordering::Relaxed);
            loop {
                let entered = access.enter(state, woken);
                let next = entered.map_or(state | WAITING, |entered| entered | waiting);
                let (success, failure) = (Ordering::Acquire, Ordering::Relaxed);
                match self.state.compare_exchange_weak(state, next, success, failure) {
                    Err(now) => state = now,
                    Ok(_) if entered.is_some() => return true,
                    Ok(_) => break,
                }
            }
            if woken {
                list.push_front(node)
            } else {
                list.push_back(node)
            }
            false
        })
    }

    #[inline]
    fn read_unlock(&self) {
        let state = self.state.fetch_sub(1, Ordering::Release);
        if state == WAITING | 1 && !planted(Planted::RwLockReaderLeavesQuietly) {
            self.wake_next();
        }
    }

    #[inline]
    fn write_unlock(&self) {
        if self.state.compare_exchange(WRITER, 0, Ordering::Release, Ordering::Relaxed).is_err() {
            self.state.fetch_and(!WRITER, Ordering::Release);
            self.wake_next();
        }
    }

    /// The lock is free and WAITING is set, or was a moment ago: wakes the first in the queue.
    #[cold]
    fn wake_next(&self) {
        let woken = self.queue.with(|list| {
            loop {
                let state = self.state.load(Ordering::Relaxed);
                // Held again: the holder will come here when it leaves. Not WAITING: another
                // leaving task has done this.
                if state != WAITING {
                    return None;
                }
                let head = list.front()?;
                let write = head.wants == Access::Write as usize;
                let readers = list.leading(|node| node.wants == Access::Read as usize);
                let count = if write { 1 } else { readers };
                let (mut next, mut outcome) = (0, WOKEN);
                if head.overdue {
                    let rest = if list.leading(|_| true) > count { WAITING } else { 0 };
                    next = rest | if write { WRITER } else { readers as u32 };
                    outcome = GRANTED;
                }
                // Acquire: what all leaving tasks have done is passed on to those let in.
                let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
                if self.state.compare_exchange(state, next, success, failure).is_ok() {
                    return Some((list.detach(count), outcome));
                }
            }
        });
        if let Some((nodes, outcome)) = woken {
            wake_all(nodes, outcome);
        }
    }
}

/// A lock with many readers or one writer around a `T`.
///
/// ```
/// # use pumice_port::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
/// let names = RwLock::new(vec!["one"]);
/// let first: RwLockReadGuard<'_, Vec<&str>> = names.read();
/// let second = names.read();
/// assert_eq!(first.len(), second.len());
/// assert!(names.try_write().is_none());
/// drop((first, second));
/// let mut all: RwLockWriteGuard<'_, Vec<&str>> = names.write();
/// all.push("two");
/// ```
pub struct RwLock<T: ?Sized> {
    raw: RawRwLock,
    value: UnsafeCell<T>,
}

/// Shared access to the value of an [`RwLock`].
///
/// Example: that of [`RwLock`].
#[must_use = "an unused guard unlocks at once"]
pub struct RwLockReadGuard<'a, T: ?Sized> {
    lock: &'a RwLock<T>,
    stays: PhantomData<*const ()>,
}

/// Exclusive access to the value of an [`RwLock`].
///
/// Example: that of [`RwLock`].
#[must_use = "an unused guard unlocks at once"]
pub struct RwLockWriteGuard<'a, T: ?Sized> {
    lock: &'a RwLock<T>,
    stays: PhantomData<*const ()>,
}

// SAFETY: invariant 3; readers of several tasks share `&T`.
unsafe impl<T: ?Sized + Send + Sync> Sync for RwLock<T> {}
// SAFETY: an owned lock has no waiters.
unsafe impl<T: ?Sized + Send> Send for RwLock<T> {}
// SAFETY: a shared guard gives out `&T` only.
unsafe impl<T: ?Sized + Sync> Sync for RwLockReadGuard<'_, T> {}
// SAFETY: a shared guard gives out `&T` only.
unsafe impl<T: ?Sized + Sync> Sync for RwLockWriteGuard<'_, T> {}
// A panic under the lock leaves the value as it was: code that cares keeps its own failed state.
impl<T: ?Sized> UnwindSafe for RwLock<T> {}
impl<T: ?Sized> RefUnwindSafe for RwLock<T> {}

impl<T> RwLock<T> {
    constant! {
        /// An unlocked lock.
        pub fn new(value: T) -> RwLock<T> {
            RwLock { raw: RawRwLock::new(), value: UnsafeCell::new(value) }
        }
    }
    /// The value; no locking, as the lock is owned.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Waits for shared access. Suspends. Must not be nested: a waiting writer goes first.
    #[inline]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        sim::point();
        if !self.raw.try_read() {
            self.raw.enter_slow(Access::Read);
        }
        RwLockReadGuard { lock: self, stays: PhantomData }
    }
    /// Waits for exclusive access. Suspends.
    #[inline]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        sim::point();
        if !self.raw.try_write() {
            self.raw.enter_slow(Access::Write);
        }
        RwLockWriteGuard { lock: self, stays: PhantomData }
    }
    /// Shared access if no writer holds or awaits the lock.
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        sim::point();
        let entered = self.raw.try_enter(Access::Read, 0);
        entered.then(|| RwLockReadGuard { lock: self, stays: PhantomData })
    }
    /// Exclusive access if the lock is free.
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        sim::point();
        let entered = self.raw.try_enter(Access::Write, 0);
        entered.then(|| RwLockWriteGuard { lock: self, stays: PhantomData })
    }
    /// The value of an unshared lock.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
}

impl<T: Default> Default for RwLock<T> {
    fn default() -> Self {
        RwLock::new(T::default())
    }
}

impl<T: ?Sized> Drop for RwLockReadGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.raw.read_unlock();
        sim::point();
    }
}

impl<T: ?Sized> Drop for RwLockWriteGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.raw.write_unlock();
        sim::point();
    }
}

impl<T: ?Sized> Deref for RwLockReadGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: invariant 3.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T: ?Sized> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: invariant 3.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: invariant 3; `&mut self` excludes other uses of this guard.
        unsafe { &mut *self.lock.value.get() }
    }
}
