//! Futures that a fiber resolves: the way from any executor into a [`Runtime`].
//!
//! Thread safety: a [`Task`] may be polled from any thread, dropped at any time.

use crate::fiber::Runtime;
use crate::thread::Outcome;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// What the fiber and the poller share. The lock is held for a few instructions, never over a wait.
struct Shared<T> {
    outcome: Option<Outcome<T>>,
    waker: Option<Waker>,
}

/// The result of a fiber, as a future. Dropping it lets the fiber go on alone.
#[must_use = "a future does nothing unless it is polled; the fiber runs in any case"]
pub struct Task<T>(Arc<Mutex<Shared<T>>>);

/// Starts a fiber of `runtime` that runs `f`; it runs whether the future is polled or not. Never
/// suspends.
pub fn spawn<T: Send + 'static>(
    runtime: &Runtime,
    name: &str,
    f: impl FnOnce() -> T + Send + 'static,
) -> Task<T> {
    let shared = Arc::new(Mutex::new(Shared { outcome: None, waker: None }));
    let own = Deliver(Arc::clone(&shared));
    drop(runtime.spawn(name, move || own.deliver(catch_unwind(AssertUnwindSafe(f)))));
    Task(shared)
}

/// The fiber's end; dropping it unused delivers a panic.
struct Deliver<T>(Arc<Mutex<Shared<T>>>);

impl<T> Deliver<T> {
    fn deliver(&self, outcome: Outcome<T>) {
        let mut shared = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if shared.outcome.is_some() {
            return;
        }
        shared.outcome = Some(outcome);
        let waker = shared.waker.take();
        drop(shared);
        // Outside the lock: the executor may poll at once.
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> Future for Task<T> {
    type Output = T;

    /// # Panics
    /// With the panic of the fiber; when polled after it was ready.
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let mut shared = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match shared.outcome.take() {
            Some(Ok(value)) => Poll::Ready(value),
            Some(Err(panic)) => {
                drop(shared);
                resume_unwind(panic)
            }
            None => {
                let same = shared.waker.as_ref().is_some_and(|w| w.will_wake(context.waker()));
                if !same {
                    shared.waker = Some(context.waker().clone());
                }
                Poll::Pending
            }
        }
    }
}
