//! Variables of which each task has its own copy (`task_local!`).
//!
//! A thread keeps its copies in std's thread-locals, a fiber in its task record: an array indexed
//! by the number that each variable gets at its first use on a fiber. A fiber's copies are dropped
//! on the fiber when its body has ended, last made first.
//!
//! Invariants cited by unsafe blocks:
//! 1. A `Locals` is touched by the task it belongs to, on one thread, and no reference into the
//!    array outlives the statement that made it.
//! 2. The value at an index has the type of the one variable that has this index; it stays where it
//!    is (a box) until `clear`, which runs after the body, when nothing borrows it.
//!
//! Thread safety: `TaskLocal` from anywhere; `Locals` by invariant 1.

use crate::task;
use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::LocalKey;

/// A fiber's copies. See the head of this file.
#[derive(Default)]
pub(crate) struct Locals(UnsafeCell<Vec<Option<Box<dyn Any>>>>);

// SAFETY: invariant 1.
unsafe impl Send for Locals {}
// SAFETY: invariant 1.
unsafe impl Sync for Locals {}

impl Locals {
    fn find(&self, index: usize) -> Option<*const ()> {
        // SAFETY: invariant 1.
        let values = unsafe { &*self.0.get() };
        let value = values.get(index)?.as_ref()?;
        Some(std::ptr::from_ref::<dyn Any>(&**value).cast())
    }

    fn insert<T: 'static>(&self, index: usize, value: T) {
        let value: Box<dyn Any> = Box::new(value);
        // SAFETY: invariant 1.
        let values = unsafe { &mut *self.0.get() };
        if values.len() <= index {
            values.resize_with(index + 1, || None);
        }
        values[index] = Some(value);
    }

    /// Drops all copies, including those that their destructors make. May suspend and may panic.
    pub(crate) fn clear(&self) {
        loop {
            // SAFETY: invariant 1; the value is moved out before its destructor runs.
            let last = unsafe { &mut *self.0.get() }.pop();
            match last {
                Some(value) => drop(value),
                None => return,
            }
        }
    }
}

static NEXT_INDEX: AtomicUsize = AtomicUsize::new(1);

/// What [`task_local!`](crate::task_local) declares.
///
/// Example: that of [`task_local`](crate::task_local).
pub struct TaskLocal<T: 'static> {
    thread: &'static LocalKey<T>,
    initial: fn() -> T,
    /// 0 before the first use on a fiber.
    index: AtomicUsize,
}

impl<T: 'static> TaskLocal<T> {
    /// For the macro only.
    #[doc(hidden)]
    pub const fn new(thread: &'static LocalKey<T>, initial: fn() -> T) -> Self {
        TaskLocal { thread, initial, index: AtomicUsize::new(0) }
    }

    /// Gives the calling task's copy, made at its first use, to `f`, which may suspend.
    ///
    /// # Panics
    /// On a thread whose copies have been dropped already.
    #[inline]
    pub fn with<R>(&'static self, f: impl FnOnce(&T) -> R) -> R {
        match task::current_fiber() {
            None => self.thread.with(f),
            Some((task, _)) => f(self.of_fiber(&task.locals)),
        }
    }

    fn of_fiber<'a>(&self, locals: &'a Locals) -> &'a T {
        let index = self.index();
        let value = locals.find(index).unwrap_or_else(|| {
            // The initial value may use other variables, and even this one.
            let value = (self.initial)();
            locals.find(index).unwrap_or_else(|| {
                locals.insert(index, value);
                locals.find(index).expect("it was put there")
            })
        });
        // SAFETY: invariant 2.
        unsafe { &*value.cast::<T>() }
    }

    fn index(&self) -> usize {
        let index = self.index.load(Ordering::Relaxed);
        if index != 0 {
            return index - 1;
        }
        let new = NEXT_INDEX.fetch_add(1, Ordering::Relaxed);
        match self.index.compare_exchange(0, new, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => new - 1,
            Err(other) => other - 1,
        }
    }
}

impl<T: Copy + 'static> TaskLocal<Cell<T>> {
    /// The calling task's value.
    #[inline]
    pub fn get(&'static self) -> T {
        self.with(Cell::get)
    }
    /// Changes the calling task's value.
    #[inline]
    pub fn set(&'static self, value: T) {
        self.with(|cell| cell.set(value));
    }
}
