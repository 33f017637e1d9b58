//! One fiber: a stack and the switch onto it and back.
//!
//! Invariants cited by unsafe blocks:
//! 1. `yielder` points into the frame of the root closure on the fiber's own stack, which lives
//!    from the fiber's start to its end.
//! 2. A fiber is resumed and suspended on one thread only.
//!
//! Thread safety: none; a fiber belongs to the scheduler that made it. The body is `Send` because
//! it may have been made elsewhere. A fiber that has started must run to its end before it is
//! dropped: others may hold pointers to what is on its stack.

use super::stack::Stack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use std::cell::Cell;
use std::ptr::NonNull;
use std::rc::Rc;

/// How a resumed fiber came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ran {
    /// It suspended itself.
    Suspended,
    /// The body returned; the coroutine must not be resumed again.
    Ended,
}

type Switch = Coroutine<(), (), (), Stack>;

/// See the head of this file.
pub(crate) struct Fiber {
    coroutine: Switch,
    /// The exit of a fiber whose scheduler keeps none itself.
    exit: Option<Rc<ExitCell>>,
}

impl Fiber {
    /// A fiber that will run `body`, which must not unwind.
    pub(crate) fn new(stack: Stack, body: Box<dyn FnOnce() + Send>) -> Self {
        let exit = Rc::new(ExitCell::default());
        let own = Rc::clone(&exit);
        let coroutine = Coroutine::with_stack(stack, move |yielder: &Yielder<(), ()>, ()| {
            own.run(yielder, body);
        });
        Fiber { coroutine, exit: Some(exit) }
    }

    /// As `new`, with the way back at `exit`, which serves one fiber at a time.
    pub(crate) fn with_exit(
        stack: Stack,
        exit: &'static ExitCell,
        body: Box<dyn FnOnce() + Send>,
    ) -> Self {
        let coroutine = Coroutine::with_stack(stack, move |yielder: &Yielder<(), ()>, ()| {
            exit.run(yielder, body);
        });
        Fiber { coroutine, exit: None }
    }

    /// Runs the fiber until it suspends or ends.
    #[inline]
    pub(crate) fn resume(&mut self) -> Ran {
        match self.coroutine.resume(()) {
            CoroutineResult::Yield(()) => Ran::Suspended,
            CoroutineResult::Return(()) => Ran::Ended,
        }
    }

    /// The way back from a fiber made by `new`, for its scheduler to keep with it.
    pub(crate) fn exit(&self) -> FiberExit {
        FiberExit(Rc::clone(self.exit.as_ref().expect("the fiber has an exit of its own")))
    }

    /// The stack of a fiber that has ended, to be used again.
    pub(crate) fn into_stack(self) -> Stack {
        self.coroutine.into_stack()
    }
}

/// Where a fiber notes its way back while it lives.
#[derive(Default)]
pub(crate) struct ExitCell(Cell<Option<NonNull<Yielder<(), ()>>>>);

impl ExitCell {
    fn run(&self, yielder: &Yielder<(), ()>, body: Box<dyn FnOnce() + Send>) {
        self.0.set(Some(NonNull::from(yielder)));
        body();
        self.0.set(None);
    }

    /// Suspends the fiber; returns when it is resumed. Only from inside that very fiber.
    #[inline]
    pub(crate) fn suspend(&self) {
        let yielder = self.0.get().expect("only a running fiber suspends");
        // SAFETY: invariants 1 and 2.
        unsafe { yielder.as_ref().suspend(()) };
    }
}

/// The way back from a running fiber to its resumer.
pub(crate) struct FiberExit(Rc<ExitCell>);

impl FiberExit {
    /// As [`ExitCell::suspend`].
    #[inline]
    pub(crate) fn suspend(&self) {
        self.0.suspend();
    }
}
