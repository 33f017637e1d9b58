//! A counting semaphore and a one-shot event.
//!
//! The uncontended paths are one atomic operation; only a waiter touches the mutex and condvar.

use super::{Condvar, Mutex};
use crate::time;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A number of permits that tasks take and give back.
pub struct Semaphore {
    permits: Mutex<usize>,
    changed: Condvar,
}

impl Semaphore {
    /// A semaphore with `permits` free permits.
    pub const fn new(permits: usize) -> Self {
        Semaphore { permits: Mutex::new(permits), changed: Condvar::new() }
    }
    /// Takes `n` permits at once when that many are free. Suspends.
    pub fn acquire(&self, n: usize) {
        let guard = self.permits.lock();
        let mut guard = self.changed.wait_while(guard, |free| *free < n);
        *guard -= n;
    }
    /// Takes `n` permits if that many are free now.
    pub fn try_acquire(&self, n: usize) -> bool {
        let mut free = self.permits.lock();
        let enough = *free >= n;
        if enough {
            *free -= n;
        }
        enough
    }
    /// Gives `n` permits back.
    pub fn release(&self, n: usize) {
        *self.permits.lock() += n;
        self.changed.notify_all();
    }
    /// The number of free permits, already old when it is returned.
    pub fn available(&self) -> usize {
        *self.permits.lock()
    }
}

/// A flag that is raised once and can be waited for.
#[derive(Default)]
pub struct Event {
    raised: AtomicBool,
    gate: Mutex<()>,
    changed: Condvar,
}

impl Event {
    /// An event that has not happened.
    pub const fn new() -> Self {
        Event { raised: AtomicBool::new(false), gate: Mutex::new(()), changed: Condvar::new() }
    }
    /// Raises the flag and wakes every waiter. What was written before is visible to them.
    pub fn set(&self) {
        self.raised.store(true, Ordering::Release);
        // Passing the gate orders this store against a waiter between its check and its wait.
        drop(self.gate.lock());
        self.changed.notify_all();
    }
    /// Whether the flag is up.
    #[inline]
    pub fn is_set(&self) -> bool {
        self.raised.load(Ordering::Acquire)
    }
    /// Waits for the flag. Suspends.
    pub fn wait(&self) {
        if self.is_set() {
            return;
        }
        drop(self.changed.wait_while(self.gate.lock(), |()| !self.is_set()));
    }
    /// Waits for the flag at most `limit`; true when it is up. Suspends.
    pub fn wait_timeout(&self, limit: Duration) -> bool {
        let end = time::now_nanos().saturating_add(limit.as_nanos() as u64);
        let mut guard = self.gate.lock();
        while !self.is_set() {
            let now = time::now_nanos();
            if now >= end {
                return false;
            }
            guard = self.changed.wait_timeout(guard, Duration::from_nanos(end - now)).0;
        }
        true
    }
}
