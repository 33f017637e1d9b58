//! Mutual exclusion and condition variables over std's futex implementation.
//!
//! The wrappers exist for two reasons: poisoning is ignored, and the engine never names a std type
//! that a fiber could not wait on.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{self, PoisonError, TryLockError};
use std::time::Duration;

/// A mutual-exclusion lock around a `T`.
#[derive(Default)]
pub struct Mutex<T: ?Sized>(sync::Mutex<T>);

/// Access to the value of a locked [`Mutex`]; dropping it unlocks.
#[must_use = "an unused guard unlocks at once"]
pub struct MutexGuard<'a, T: ?Sized>(sync::MutexGuard<'a, T>);

impl<T> Mutex<T> {
    /// An unlocked mutex.
    pub const fn new(value: T) -> Self {
        Mutex(sync::Mutex::new(value))
    }
    /// The value; no locking, as the mutex is owned.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits for the lock. Suspends. Locking twice from one task deadlocks.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard(self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
    /// The lock if it is free.
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(MutexGuard(guard)),
            Err(TryLockError::Poisoned(e)) => Some(MutexGuard(e.into_inner())),
            Err(TryLockError::WouldBlock) => None,
        }
    }
    /// The value of a mutex nobody else can reach.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
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

/// A lock with many readers or one writer.
#[derive(Default)]
pub struct RwLock<T: ?Sized>(sync::RwLock<T>);

/// Shared access to the value of an [`RwLock`].
#[must_use = "an unused guard unlocks at once"]
pub struct RwLockReadGuard<'a, T: ?Sized>(sync::RwLockReadGuard<'a, T>);

/// Exclusive access to the value of an [`RwLock`].
#[must_use = "an unused guard unlocks at once"]
pub struct RwLockWriteGuard<'a, T: ?Sized>(sync::RwLockWriteGuard<'a, T>);

impl<T> RwLock<T> {
    /// An unlocked lock.
    pub const fn new(value: T) -> Self {
        RwLock(sync::RwLock::new(value))
    }
    /// The value; no locking, as the lock is owned.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Waits for shared access. Suspends. Not to be nested: a waiting writer goes first.
    #[inline]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        RwLockReadGuard(self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
    /// Waits for exclusive access. Suspends.
    #[inline]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        RwLockWriteGuard(self.0.write().unwrap_or_else(PoisonError::into_inner))
    }
    /// Shared access if no writer holds or awaits the lock.
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        match self.0.try_read() {
            Ok(guard) => Some(RwLockReadGuard(guard)),
            Err(TryLockError::Poisoned(e)) => Some(RwLockReadGuard(e.into_inner())),
            Err(TryLockError::WouldBlock) => None,
        }
    }
    /// Exclusive access if nobody holds the lock.
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        match self.0.try_write() {
            Ok(guard) => Some(RwLockWriteGuard(guard)),
            Err(TryLockError::Poisoned(e)) => Some(RwLockWriteGuard(e.into_inner())),
            Err(TryLockError::WouldBlock) => None,
        }
    }
    /// The value of a lock nobody else can reach.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

macro_rules! deref_guard {
    ($($guard:ident $(, $mutable:ident)?);+) => {$(
        impl<T: ?Sized> Deref for $guard<'_, T> {
            type Target = T;
            #[inline]
            fn deref(&self) -> &T {
                &self.0
            }
        }
        $(impl<T: ?Sized> DerefMut for $guard<'_, T> {
            #[inline]
            fn deref_mut(&mut self) -> &mut T {
                let $mutable = &mut self.0;
                $mutable
            }
        })?
    )+};
}
deref_guard!(MutexGuard, value; RwLockReadGuard; RwLockWriteGuard, value);

/// Waiting for a change of what a [`Mutex`] guards. One condvar serves one mutex.
#[derive(Default)]
pub struct Condvar(sync::Condvar);

impl Condvar {
    /// A condvar nobody waits on.
    pub const fn new() -> Self {
        Condvar(sync::Condvar::new())
    }
    /// Unlocks, waits for a notification (or wakes for no reason), locks again. Suspends.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        MutexGuard(self.0.wait(guard.0).unwrap_or_else(PoisonError::into_inner))
    }
    /// Waits until `blocked` is false. Suspends.
    pub fn wait_while<'a, T>(
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
    pub fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        limit: Duration,
    ) -> (MutexGuard<'a, T>, bool) {
        let (guard, result) =
            self.0.wait_timeout(guard.0, limit).unwrap_or_else(PoisonError::into_inner);
        (MutexGuard(guard), result.timed_out())
    }
    /// Wakes one waiter, if there is one.
    #[inline]
    pub fn notify_one(&self) {
        self.0.notify_one();
    }
    /// Wakes all waiters.
    #[inline]
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}
