//! Futures that a fiber resolves: the way from any executor into a [`Runtime`].
//!
//! Thread safety: a [`Task`] may be polled from any thread, dropped at any time.

use crate::fiber::Runtime;
use crate::thread::{NotStarted, Outcome};
use pumice_base::Error;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// What the fiber and the poller share. The lock is held for a few instructions, never over a wait.
struct Shared<T> {
    outcome: Option<Outcome<T>>,
    /// The poller has taken the outcome.
    is_taken: bool,
    waker: Option<Waker>,
}

/// The result of a fiber, as a future. Dropping it detaches the fiber.
#[must_use = "a future does nothing unless it is polled; the fiber runs in any case"]
pub struct Task<T>(Arc<Mutex<Shared<T>>>);

/// Starts a fiber of `runtime` that runs `f`; it runs whether the future is polled or not. When
/// there is no memory for its stack, the future gives the result of `refused` for the error. Never
/// suspends.
pub fn spawn<T: Send + 'static>(
    runtime: &Runtime,
    name: &'static str,
    f: impl FnOnce() -> T + Send + 'static,
    refused: impl FnOnce(Error) -> T + Send + 'static,
) -> Task<T> {
    let shared = Arc::new(Mutex::new(Shared { outcome: None, is_taken: false, waker: None }));
    let deliver = Deliver { name, refused: Some(refused), shared: Arc::clone(&shared) };
    let work = Work { f, deliver };
    drop(runtime.spawn(name, move || {
        let Work { f, mut deliver } = work;
        let outcome = catch_unwind(AssertUnwindSafe(f));
        deliver.outcome(outcome);
    }));
    Task(shared)
}

/// What the fiber runs. When it is dropped instead, what `f` holds is dropped before the answer is
/// delivered.
struct Work<F, T, R: FnOnce(Error) -> T> {
    f: F,
    deliver: Deliver<T, R>,
}

/// The fiber's end of the channel; dropping it unused delivers what `refused` returns.
struct Deliver<T, R: FnOnce(Error) -> T> {
    name: &'static str,
    /// Until it has delivered.
    refused: Option<R>,
    shared: Arc<Mutex<Shared<T>>>,
}

impl<T, R: FnOnce(Error) -> T> Deliver<T, R> {
    fn outcome(&mut self, outcome: Outcome<T>) {
        self.refused = None;
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        shared.outcome = Some(outcome);
        let waker = shared.waker.take();
        drop(shared);
        // Outside the lock: the executor may poll at once.
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T, R: FnOnce(Error) -> T> Drop for Deliver<T, R> {
    fn drop(&mut self) {
        if let Some(refused) = self.refused.take() {
            let error = NotStarted::error(self.name);
            self.outcome(catch_unwind(AssertUnwindSafe(|| refused(error))));
        }
    }
}

impl<T> Future for Task<T> {
    type Output = T;

    /// # Panics
    /// With the panic of the fiber; when polled after it was ready.
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let mut shared = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let outcome = shared.outcome.take();
        if outcome.is_none() && shared.is_taken {
            drop(shared);
            panic!("a future is polled until it is ready");
        }
        shared.is_taken = outcome.is_some();
        match outcome {
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
