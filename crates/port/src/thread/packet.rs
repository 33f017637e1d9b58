//! The result of a task on its way to its waiter.
//!
//! Invariants cited by unsafe blocks:
//! 1. `result` is written once, by the owner of the [`Promise`], before the gate is DONE, and after
//!    that touched only by the waiter.
//! 2. The gate is null, DONE, or a record from `&'static Task`.
//!
//! Thread safety: one task delivers, one waits; they may be any two.

use crate::task::{self, Task, TaskRef, WaitReason};
use pumice_base::{Error, SubCode};
use std::any::Any;
use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A body's outcome: its value, or its panic payload.
pub(crate) type Outcome<T> = Result<T, Box<dyn Any + Send>>;

static JOIN: WaitReason = WaitReason("join");

/// The address of this stands for "delivered".
static DONE: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());

fn done() -> *mut Task {
    ptr::from_ref(&DONE).cast_mut().cast()
}

/// The waiting end. See the head of this file.
pub(crate) struct Packet<T> {
    gate: AtomicPtr<Task>,
    result: UnsafeCell<Option<Outcome<T>>>,
}

// SAFETY: invariant 1: the value moves from one task to another.
unsafe impl<T: Send> Sync for Packet<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Packet<T> {}

impl<T> Packet<T> {
    /// Both ends of a new packet.
    pub(crate) fn new() -> (Arc<Packet<T>>, Promise<T>) {
        let gate = AtomicPtr::new(ptr::null_mut());
        let packet = Arc::new(Packet { gate, result: UnsafeCell::new(None) });
        (Arc::clone(&packet), Promise(packet))
    }

    /// Whether the result was delivered.
    pub(crate) fn is_done(&self) -> bool {
        self.gate.load(Ordering::Acquire) == done()
    }

    /// Waits until the result is there. Suspends. One waiter only.
    pub(crate) fn wait(&self) {
        if self.is_done() {
            return;
        }
        let me = ptr::from_ref(task::current().0).cast_mut();
        let null = ptr::null_mut();
        // A failure means DONE.
        if self.gate.compare_exchange(null, me, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            while !self.is_done() {
                task::park(&JOIN);
            }
        }
    }

    /// Whether this was the last owner of a panic that was not taken. Drops the result then.
    pub(crate) fn abandon(packet: Arc<Packet<T>>) -> bool {
        let last = Arc::into_inner(packet);
        last.is_some_and(|packet| packet.result.into_inner().is_some_and(|r| r.is_err()))
    }

    /// The result, once; a body that never ran has panicked with [`NotStarted`].
    pub(crate) fn take(&self) -> Outcome<T> {
        self.take_of_run().unwrap_or_else(|not_started| Err(Box::new(not_started)))
    }

    /// The result of the body, once.
    ///
    /// # Errors
    /// It never ran. A body that ran may have panicked with [`NotStarted`] itself.
    pub(crate) fn take_of_run(&self) -> Result<Outcome<T>, NotStarted> {
        assert!(self.is_done(), "the result is taken after it was delivered");
        // SAFETY: invariant 1.
        let outcome = unsafe { &mut *self.result.get() }.take().expect("the result is taken once");
        match outcome {
            Err(panic) if panic.is::<Unrun>() => Err(NotStarted),
            outcome => Ok(outcome),
        }
    }
}

/// Delivered for a body that never ran; no body can panic with it.
struct Unrun;

/// The outcome of a task that never ran: there was no memory for its stack.
///
/// Example: that of [`scope_here`](crate::fiber::scope_here).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotStarted;

impl NotStarted {
    /// As the message of a panic.
    pub(super) const TEXT: &str = "no memory for the stack of a fiber";

    /// As the error of the task `name`.
    pub(crate) fn error(name: &str) -> Error {
        let error = Error::aborted(format!("While starting fiber {name}: {}", Self::TEXT));
        error.with_subcode(SubCode::MemoryLimit)
    }
}

/// A body and the waiter of its result. If dropped without having run, it drops the closure and
/// then, when nothing borrows from the waiter, delivers [`NotStarted`].
pub(crate) struct Work<T, F> {
    /// Dropped first.
    f: F,
    promise: Promise<T>,
}

impl<T, F: FnOnce() -> T> Work<T, F> {
    pub(crate) fn run(self) {
        self.promise.fulfil(self.f);
    }
    /// As `run`, on a task that continues afterwards and keeps its locals.
    pub(crate) fn run_in_passing(self) {
        let Work { f, promise } = self;
        promise.deliver(catch_unwind(AssertUnwindSafe(f)));
    }
}

/// The delivering end; dropping it unused delivers [`NotStarted`].
pub(crate) struct Promise<T>(Arc<Packet<T>>);

impl<T> Promise<T> {
    /// The body of the task that will run `f`.
    pub(crate) fn body<F: FnOnce() -> T>(self, f: F) -> impl FnOnce() {
        let work = self.work(f);
        move || work.run()
    }

    pub(crate) fn work<F: FnOnce() -> T>(self, f: F) -> Work<T, F> {
        Work { f, promise: self }
    }

    /// Runs `f` and delivers what it ended with. The task's locals are dropped before that, so that
    /// their destructors have run when the joiner continues.
    pub(crate) fn fulfil(self, f: impl FnOnce() -> T) {
        let mut outcome = catch_unwind(AssertUnwindSafe(f));
        if let Some((task, _)) = task::current_fiber() {
            let cleared = catch_unwind(AssertUnwindSafe(|| task.locals.clear()));
            if let Err(panic) = cleared {
                outcome = Err(panic);
            }
        }
        self.deliver(outcome);
    }

    fn deliver(&self, outcome: Outcome<T>) {
        // SAFETY: invariant 1.
        unsafe { *self.0.result.get() = Some(outcome) };
        let waiter = self.0.gate.swap(done(), Ordering::AcqRel);
        // SAFETY: invariant 2; it is not DONE, which only this end writes, once.
        if let Some(waiter) = unsafe { waiter.cast_const().as_ref::<'static>() } {
            TaskRef(waiter).unpark();
        }
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        if !self.0.is_done() {
            self.deliver(Err(Box::new(Unrun)));
        }
    }
}
