//! A mutual-exclusion lock around a value.
//!
//! Contract: docs/port/mutex.md. Invariants cited by unsafe blocks:
//! 1. A guard exists exactly while its task holds the mutex, so it has the value exclusively.
//!
//! Thread safety: `Sync` as std's. A guard stays on its thread.

use super::order::LockRank;
use super::raw_mutex::RawMutex;
use crate::atomic::constant;
use crate::sim;
use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::panic::{RefUnwindSafe, UnwindSafe};

/// A mutual-exclusion lock around a `T`.
///
/// ```
/// # use pumice_port::sync::{Mutex, MutexGuard};
/// let words = Mutex::new(Vec::new());
/// let mut held: MutexGuard<'_, Vec<&str>> = words.lock();
/// held.push("one");
/// assert!(words.try_lock().is_none());
/// drop(held);
/// assert_eq!(words.into_inner(), ["one"]);
/// ```
pub struct Mutex<T: ?Sized> {
    raw: RawMutex,
    /// Readers or writers may need it.
    #[cfg(all(debug_assertions, not(loom)))]
    foreground: bool,
    #[cfg(all(debug_assertions, not(loom)))]
    rank: Option<&'static LockRank>,
    value: UnsafeCell<T>,
}

/// Access to the value of a locked [`Mutex`]; dropping it unlocks.
///
/// Example: that of [`Mutex`].
#[must_use = "an unused guard unlocks at once"]
pub struct MutexGuard<'a, T: ?Sized> {
    mutex: &'a Mutex<T>,
    /// The task that locks is the one that unlocks.
    stays: PhantomData<*const ()>,
}

// SAFETY: invariant 1: a shared mutex hands its value from task to task, one at a time.
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}
// SAFETY: as above; an owned mutex has no waiters.
unsafe impl<T: ?Sized + Send> Send for Mutex<T> {}
// SAFETY: a shared guard gives out `&T` only.
unsafe impl<T: ?Sized + Sync> Sync for MutexGuard<'_, T> {}
// A panic under the lock leaves the value as it was: code that cares keeps its own failed state.
impl<T: ?Sized> UnwindSafe for Mutex<T> {}
impl<T: ?Sized> RefUnwindSafe for Mutex<T> {}

impl<T> Mutex<T> {
    constant! {
        /// An unlocked mutex.
        pub fn new(value: T) -> Mutex<T> {
            Mutex {
                raw: RawMutex::new(),
                #[cfg(all(debug_assertions, not(loom)))]
                foreground: false,
                #[cfg(all(debug_assertions, not(loom)))]
                rank: None,
                value: UnsafeCell::new(value),
            }
        }
    }
    /// An unlocked mutex that readers or writers may need: in debug builds, locking it on a thread
    /// that may run at low priority panics (`lane`).
    pub fn foreground(value: T) -> Mutex<T> {
        Mutex {
            #[cfg(all(debug_assertions, not(loom)))]
            foreground: true,
            ..Mutex::new(value)
        }
    }
    /// An unlocked mutex with a place in the order of locks: in debug builds, waiting for it while
    /// holding a later one panics (`order`).
    pub fn ranked(rank: &'static LockRank, value: T) -> Mutex<T> {
        let mutex = if rank.is_foreground() { Mutex::foreground(value) } else { Mutex::new(value) };
        Mutex {
            #[cfg(all(debug_assertions, not(loom)))]
            rank: Some(rank),
            ..mutex
        }
    }
    /// The value; no locking, as the mutex is owned.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits for the lock. Suspends. Locking twice from one task deadlocks.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        sim::point();
        self.check();
        self.check_order();
        self.raw.lock();
        self.note_locked();
        MutexGuard { mutex: self, stays: PhantomData }
    }
    /// The lock if it is free.
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        sim::point();
        self.check();
        self.raw.try_lock().then(|| {
            self.note_locked();
            MutexGuard { mutex: self, stays: PhantomData }
        })
    }
    /// Checks that the caller may hold it.
    #[inline(always)]
    fn check(&self) {
        #[cfg(all(debug_assertions, not(loom)))]
        if self.foreground {
            crate::lane::check_foreground();
        }
    }
    /// Checks that the caller may wait for it.
    #[inline(always)]
    fn check_order(&self) {
        #[cfg(all(debug_assertions, not(loom)))]
        if let Some(rank) = self.rank {
            rank.check();
        }
    }
    #[inline(always)]
    fn note_locked(&self) {
        #[cfg(all(debug_assertions, not(loom)))]
        if let Some(rank) = self.rank {
            rank.push();
        }
    }
    #[inline(always)]
    fn note_unlocked(&self) {
        #[cfg(all(debug_assertions, not(loom)))]
        if let Some(rank) = self.rank {
            rank.pop();
        }
    }
    /// The value of an unshared mutex.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Mutex::new(T::default())
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.try_lock() {
            Some(guard) => write!(f, "Mutex({:?})", &*guard),
            None => f.write_str("Mutex(<locked>)"),
        }
    }
}

impl<'a, T: ?Sized> MutexGuard<'a, T> {
    /// Calls `wait` with the lock under the value, for a condvar: `wait` releases it meanwhile, and
    /// holds it again afterwards.
    pub(super) fn released<R>(guard: &Self, wait: impl FnOnce(&'a RawMutex) -> R) -> R {
        #[cfg(all(debug_assertions, not(loom)))]
        if let Some(rank) = guard.mutex.rank {
            rank.check_again();
        }
        guard.mutex.note_unlocked();
        let waited = wait(&guard.mutex.raw);
        guard.mutex.note_locked();
        waited
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.mutex.note_unlocked();
        self.mutex.raw.unlock();
        sim::point();
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: invariant 1.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: invariant 1; `&mut self` excludes other uses of this guard.
        unsafe { &mut *self.mutex.value.get() }
    }
}
