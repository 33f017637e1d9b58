//! Tasks that fibers start on their own scheduler.
//!
//! Thread safety: a handle may be joined from any task of the same scheduler.

use crate::task::{self, Scheduler, TaskRef, WaitReason};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

static JOIN: WaitReason = WaitReason("join");

struct State<T> {
    result: Option<std::thread::Result<T>>,
    ended: bool,
    joiner: Option<TaskRef>,
}

/// A started fiber.
pub(super) struct Handle<T> {
    name: String,
    task: TaskRef,
    state: Arc<Mutex<State<T>>>,
}

impl<T> std::fmt::Debug for Handle<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Handle({})", self.name)
    }
}

/// Starts `f` on `scheduler`.
pub(super) fn spawn<T: Send + 'static>(
    scheduler: &'static dyn Scheduler,
    name: &str,
    f: impl FnOnce() -> T + Send + 'static,
) -> Handle<T> {
    let state = Arc::new(Mutex::new(State { result: None, ended: false, joiner: None }));
    let own = Arc::clone(&state);
    let body = move || {
        let result = catch_unwind(AssertUnwindSafe(f));
        let joiner = {
            let mut state = own.lock().unwrap_or_else(PoisonError::into_inner);
            state.result = Some(result);
            state.ended = true;
            state.joiner.take()
        };
        // A fiber's unused result is dropped here or with the handle, whichever is later.
        drop(own);
        if let Some(joiner) = joiner {
            joiner.unpark();
        }
    };
    let task = scheduler.spawn(name, Box::new(body));
    Handle { name: name.to_string(), task, state }
}

impl<T> Handle<T> {
    /// Waits for the end; the fiber's name and result.
    pub(super) fn join(self) -> (String, std::thread::Result<T>) {
        loop {
            {
                let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(result) = state.result.take() {
                    return (self.name, result);
                }
                state.joiner = Some(task::current());
            }
            task::park(&JOIN);
        }
    }
    pub(super) fn is_current(&self) -> bool {
        !self.is_finished() && self.task == task::current()
    }
    pub(super) fn is_finished(&self) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).ended
    }
}
