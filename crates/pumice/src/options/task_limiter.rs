//! How many compactions run at once in the column families that share a limit.
//!
//! Thread safety: all methods from anywhere; counts are atomic. A family whose limit is reached
//! waits and is asked again a short while later, since the place may become free in another
//! database.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

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
}

/// A place that is taken until it is dropped.
#[derive(Debug)]
pub(crate) struct TaskToken(Arc<ConcurrentTaskLimiter>);

impl Drop for TaskToken {
    fn drop(&mut self) {
        self.0.outstanding.fetch_sub(1, Ordering::AcqRel);
    }
}

impl ConcurrentTaskLimiter {
    /// A limit of `max` compactions at once; none if it is negative.
    pub fn new(name: impl Into<String>, max: i32) -> Self {
        let (max, outstanding) = (AtomicI32::new(max), AtomicI32::new(0));
        ConcurrentTaskLimiter { name: name.into(), max, outstanding }
    }
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// Sets the limit; none if it is negative. Compactions that run go on.
    pub fn set_max_outstanding_tasks(&self, max: i32) {
        self.max.store(max, Ordering::Release);
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
}
