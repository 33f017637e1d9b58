//! Fibers that wait until their loop has nothing else to do, so that their next step also serves
//! the fibers that are about to need it.
//!
//! | the loop | lets them run |
//! |---|---|
//! | has runnable fibers, or completions to process | when the first has waited long enough |
//! | would sleep | at once |
//!
//! Thread safety: none; belongs to its loop. To other tasks a fiber in here counts as runnable, so
//! an unpark leaves a notification.

use super::inbox::Queue;
use crate::task::Task;
use crate::time;
use std::cell::Cell;

/// See the head of this file.
pub(super) struct IdleWaiters {
    queue: Queue,
    /// When the first of them will have waited long enough.
    until: Cell<u64>,
}

impl IdleWaiters {
    pub(super) fn new() -> IdleWaiters {
        IdleWaiters { queue: Queue::new(), until: Cell::new(u64::MAX) }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// The running fiber is about to suspend, at most until `until`.
    pub(super) fn push(&self, task: &'static Task, until: u64) {
        self.queue.push(task);
        self.until.set(self.until.get().min(until));
    }

    /// One of them has waited long enough.
    #[inline]
    pub(super) fn are_due(&self) -> bool {
        !self.is_empty() && time::monotonic_nanos() >= self.until.get()
    }

    /// Gives all of them to `run`, in the order in which they came.
    pub(super) fn take(&self, mut run: impl FnMut(&'static Task)) {
        while let Some(task) = self.queue.pop() {
            run(task);
        }
        self.until.set(u64::MAX);
    }
}
