//! Ends another task's operation early.
//!
//! A token is shared by the task that waits and those that may cancel it. Cancelling asks the
//! kernel to end the operation; the waiter still waits for the operation's own completion, which
//! may report that it succeeded after all.
//!
//! Invariants: 1. `state` is null, the address of the waiting task's record, or [`cancelled`],
//! which it keeps forever. Records of tasks live forever, so an address can always be woken. Every
//! change is one read-modify-write of one word: no wake-up is lost.
//!
//! Thread safety: any thread may cancel; one task at a time waits under a token.

use crate::atomic::{AtomicPtr, Ordering};
use crate::task::{Task, TaskRef};

/// See the head of this file.
#[derive(Debug)]
pub struct CancelToken {
    state: AtomicPtr<Task>,
}

fn cancelled() -> *mut Task {
    std::ptr::without_provenance_mut(usize::MAX)
}

impl Default for CancelToken {
    fn default() -> Self {
        CancelToken::new()
    }
}

impl CancelToken {
    /// A token under which nothing waits.
    pub fn new() -> Self {
        CancelToken { state: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// Cancels what waits under the token, now and later. Never suspends.
    pub fn cancel(&self) {
        let before = self.state.swap(cancelled(), Ordering::AcqRel);
        if !before.is_null() && before != cancelled() {
            // SAFETY: invariant 1.
            TaskRef(unsafe { &*before }).unpark();
        }
    }

    /// Whether it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.state.load(Ordering::Acquire) == cancelled()
    }

    /// From now on `cancel` wakes `task`; false when it was cancelled already.
    pub(super) fn arm(&self, task: TaskRef) -> bool {
        let record = std::ptr::from_ref(task.0).cast_mut();
        let free = std::ptr::null_mut();
        self.state.compare_exchange(free, record, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// The task no longer waits.
    pub(super) fn disarm(&self, task: TaskRef) {
        let record = std::ptr::from_ref(task.0).cast_mut();
        let free = std::ptr::null_mut();
        // This fails when the token was cancelled meanwhile; it stays cancelled.
        let _same = self.state.compare_exchange(record, free, Ordering::AcqRel, Ordering::Acquire);
    }
}
