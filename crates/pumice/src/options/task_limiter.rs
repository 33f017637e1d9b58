//! How many compactions run at once in the column families that share a limit.
//!
//! A database that finds no place leaves its bell here: it rings when a place may be free, which
//! may be one of another database. All that wait are woken, since one that is may not need the
//! place any more.
//!
//! Thread safety: all methods from anywhere; counts are atomic. The locks are leaves: they are
//! taken one at a time, under locks of the engine's, and nothing is called under them.

use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use pumice_port::sync::{Condvar, Mutex};

use crate::lock_order;

/// No limit.
const UNLIMITED: i32 = -1;

/// A limit on compactions, shared by the column families that it is given to
/// ([`ColumnFamilyOptions::compaction_thread_limiter`](crate::ColumnFamilyOptions)), of one or more
/// databases. Manual compactions count and do not wait.
///
/// ```
/// use std::sync::Arc;
///
/// use pumice::{ColumnFamilyOptions, ConcurrentTaskLimiter};
///
/// let limiter = Arc::new(ConcurrentTaskLimiter::new("archives", 1));
/// let mut options = ColumnFamilyOptions::default();
/// options.compaction_thread_limiter = Some(Arc::clone(&limiter));
/// assert_eq!((limiter.name(), limiter.outstanding_tasks()), ("archives", 0));
/// ```
#[derive(Debug)]
pub struct ConcurrentTaskLimiter {
    name: String,
    max: AtomicI32,
    outstanding: AtomicI32,
    /// Rung once each, when a place may be free.
    bells: Mutex<Vec<Weak<Bell>>>,
}

/// Wakes the task of a database that waits for places.
pub(crate) struct Bell {
    rung: Mutex<bool>,
    changed: Condvar,
}

impl Bell {
    /// One that has not rung.
    pub fn new() -> Arc<Bell> {
        let rung = Mutex::ranked(&lock_order::PLACE_BELL, false);
        Arc::new(Bell { rung, changed: Condvar::new() })
    }
    /// Ends the next wait, or the present one.
    pub fn ring(&self) {
        *self.rung.lock() = true;
        self.changed.notify_all();
    }
    /// Waits until it rings or the time is over, if there is one.
    pub fn wait(&self, at_most: Option<Duration>) {
        let mut rung = self.rung.lock();
        match at_most {
            Some(at_most) if !*rung => rung = self.changed.wait_timeout(rung, at_most).0,
            Some(_) => {}
            None => rung = self.changed.wait_while(rung, |rung| !*rung),
        }
        *rung = false;
    }
}

/// A place that is taken until it is dropped.
#[derive(Debug)]
pub(crate) struct TaskToken(Arc<ConcurrentTaskLimiter>);

impl Drop for TaskToken {
    fn drop(&mut self) {
        self.0.outstanding.fetch_sub(1, Ordering::AcqRel);
        self.0.ring();
    }
}

impl ConcurrentTaskLimiter {
    /// A limit of `max` compactions at once; none if it is negative.
    pub fn new(name: impl Into<String>, max: i32) -> Self {
        let (max, outstanding) = (AtomicI32::new(max), AtomicI32::new(0));
        let bells = Mutex::ranked(&lock_order::LIMITER_BELLS, Vec::new());
        ConcurrentTaskLimiter { name: name.into(), max, outstanding, bells }
    }
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// Sets the limit; none if it is negative. Compactions that run go on.
    pub fn set_max_outstanding_tasks(&self, max: i32) {
        self.max.store(max, Ordering::Release);
        self.ring();
    }
    /// Takes the limit away.
    pub fn reset_max_outstanding_tasks(&self) {
        self.set_max_outstanding_tasks(UNLIMITED);
    }
    /// How many compactions run.
    pub fn outstanding_tasks(&self) -> i32 {
        self.outstanding.load(Ordering::Acquire)
    }

    fn admits(&self, running: i32) -> bool {
        let max = self.max.load(Ordering::Acquire);
        max < 0 || running < max
    }
    /// As many run as may.
    pub(crate) fn is_full(&self) -> bool {
        !self.admits(self.outstanding_tasks())
    }
    /// As [`Self::is_full`]; `bell` rings once that may not be so any more.
    pub(crate) fn is_full_until(&self, bell: &Arc<Bell>) -> bool {
        if !self.is_full() {
            return false;
        }
        let mut bells = self.bells.lock();
        bells.retain(|other| other.strong_count() > 0 && !std::ptr::eq(other.as_ptr(), &**bell));
        bells.push(Arc::downgrade(bell));
        drop(bells);
        self.is_full() // What became free before rings for others.
    }
    fn ring(&self) {
        let bells = std::mem::take(&mut *self.bells.lock());
        bells.iter().filter_map(Weak::upgrade).for_each(|bell| bell.ring());
    }
    /// A place; without one `bell` rings once there may be one.
    pub(crate) fn token_until(self: &Arc<Self>, bell: &Arc<Bell>) -> Option<TaskToken> {
        loop {
            match self.token(false) {
                None if !self.is_full_until(bell) => {}
                token => return token,
            }
        }
    }
    /// A place, if there is one or it is `forced`.
    pub(crate) fn token(self: &Arc<Self>, forced: bool) -> Option<TaskToken> {
        let more = |running| (forced || self.admits(running)).then_some(running + 1);
        let taken = self.outstanding.fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
        taken.ok().map(|_| TaskToken(Arc::clone(self)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[pumice_test_macros::test]
    fn places_are_limited_unless_they_are_forced() {
        let limiter = Arc::new(ConcurrentTaskLimiter::new("l", 1));
        let first = limiter.token(false);
        assert!(first.is_some() && limiter.is_full());
        assert!(limiter.token(false).is_none());
        let second = limiter.token(true);
        assert_eq!(limiter.outstanding_tasks(), 2);
        drop((first, second));
        assert_eq!(limiter.outstanding_tasks(), 0);
        limiter.set_max_outstanding_tasks(0);
        assert!(limiter.token(false).is_none());
        limiter.reset_max_outstanding_tasks();
        assert!(limiter.token(false).is_some());
    }

    /// A place that is given back, and a higher limit, ring for who found none; only once.
    #[pumice_test_macros::test]
    fn who_waits_for_a_place_is_woken() {
        let limiter = Arc::new(ConcurrentTaskLimiter::new("l", 1));
        let bell = Bell::new();
        let rung = || std::mem::take(&mut *bell.rung.lock());
        assert!(!limiter.is_full_until(&bell));
        let first = limiter.token(false);
        assert!(limiter.is_full_until(&bell) && limiter.is_full_until(&bell));
        assert_eq!(limiter.bells.lock().len(), 1);
        drop(first);
        assert!(rung());
        drop(limiter.token(false));
        assert!(!rung(), "it did not ask again");
        limiter.set_max_outstanding_tasks(0);
        assert!(limiter.is_full_until(&bell));
        limiter.set_max_outstanding_tasks(1);
        bell.wait(None);
        assert!(!rung());
        // One that is gone is forgotten.
        limiter.set_max_outstanding_tasks(0);
        limiter.is_full_until(&Bell::new());
        assert!(limiter.is_full_until(&bell));
        assert_eq!(limiter.bells.lock().len(), 1);
    }
}
