//! Where other threads put the tasks they have made runnable: a stack that is emptied as a whole.
//!
//! Invariant cited by unsafe blocks: 1. pointers in the list come from `&'static Task`.
//! Only `take` removes, and it removes everything, so an address that comes back (ABA) does no
//! harm.
//!
//! Thread safety: all methods from anywhere; the order is first in, first out within one `take`.

use super::prefetch;
use crate::atomic::{AtomicPtr, Ordering};
use crate::task::Task;
use std::ptr;

/// See the head of this file.
pub(crate) struct Inbox(AtomicPtr<Task>);

impl Inbox {
    pub(crate) fn new() -> Self {
        Inbox(AtomicPtr::new(ptr::null_mut()))
    }

    /// Adds one task.
    #[inline]
    pub(crate) fn push(&self, task: &'static Task) {
        self.push_chain(task, task);
    }

    /// Adds tasks linked through `next` from the newest, `first`, to the oldest, `last`.
    pub(crate) fn push_chain(&self, first: &'static Task, last: &'static Task) {
        let mut head = self.0.load(Ordering::Relaxed);
        loop {
            last.next.store(head, Ordering::Relaxed);
            let first = ptr::from_ref(first).cast_mut();
            match self.0.compare_exchange_weak(head, first, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Takes everything, giving the tasks to `run` in the order in which they came.
    #[inline]
    pub(crate) fn take(&self, mut run: impl FnMut(&'static Task)) {
        if self.0.load(Ordering::Relaxed).is_null() {
            return;
        }
        let mut newest = self.0.swap(ptr::null_mut(), Ordering::AcqRel);
        let mut oldest: *mut Task = ptr::null_mut();
        // SAFETY: invariant 1, in both loops.
        while let Some(task) = unsafe { newest.cast_const().as_ref::<'static>() } {
            newest = task.next.swap(oldest, Ordering::Relaxed);
            oldest = ptr::from_ref(task).cast_mut();
        }
        // SAFETY: invariant 1.
        while let Some(task) = unsafe { oldest.cast_const().as_ref::<'static>() } {
            // Read first: once `run` has the task, its `next` belongs to another owner.
            oldest = task.next.load(Ordering::Relaxed);
            run(task);
        }
    }
}

/// The run queue of a loop: first in, first out, through the same links. The loop's thread only.
pub(crate) struct Queue {
    head: std::cell::Cell<Option<&'static Task>>,
    tail: std::cell::Cell<Option<&'static Task>>,
}

impl Queue {
    pub(crate) fn new() -> Self {
        Queue { head: Default::default(), tail: Default::default() }
    }

    #[inline]
    pub(crate) fn push(&self, task: &'static Task) {
        task.next.store(ptr::null_mut(), Ordering::Relaxed);
        match self.tail.replace(Some(task)) {
            Some(last) => last.next.store(ptr::from_ref(task).cast_mut(), Ordering::Relaxed),
            None => self.head.set(Some(task)),
        }
    }

    #[inline]
    pub(crate) fn pop(&self) -> Option<&'static Task> {
        let task = self.head.get()?;
        // SAFETY: invariant 1.
        let next = unsafe { task.next.load(Ordering::Relaxed).cast_const().as_ref::<'static>() };
        self.head.set(next);
        if next.is_none() {
            self.tail.set(None);
        }
        Some(task)
    }

    /// Starts loading the data that the next task touches when it is resumed, and the record of the
    /// one after it.
    #[inline]
    pub(crate) fn load_ahead(&self) {
        let Some(first) = self.head.get() else { return };
        prefetch::load_stack(first);
        let second = first.next.load(Ordering::Relaxed);
        prefetch::load_record(second);
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.head.get().is_none()
    }
}
