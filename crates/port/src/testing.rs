//! How tests choose what they run on: the environment variable `PUMICE_RUNTIME`; and an executor
//! for their futures.
//!
//! | value | the body runs | what it spawns |
//! |---|---|---|
//! | unset, `threads` | on the calling thread | threads |
//! | `fibers` | on a fiber of a runtime of two loops | fibers on the next loop |
//! | `fibers-threads` | as `fibers` | the same, input and output without io_uring |
//!
//! The first of the two loops is the calling thread itself, so what the body returns never leaves
//! its thread and need not be `Send`.
//!
//! Thread safety: everything may be called from any thread.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use crate::fiber::{IoMode, Runtime};

/// Wakes a thread.
struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The least executor: polls on the calling operating-system thread until the future is ready.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// Closes the loops that plain threads share and nobody has borrowed, so that the next call makes
/// new ones. Never suspends.
pub fn close_idle_loops() {
    crate::fiber::close_idle_loops();
}

/// Runs `f` on what `PUMICE_RUNTIME` says. Suspends.
///
/// # Panics
/// With the panic of `f`; when the variable has another value; when the runtime cannot start.
pub fn run<T>(f: impl FnOnce() -> T + Send) -> T {
    match std::env::var("PUMICE_RUNTIME").as_deref() {
        Err(_) | Ok("" | "threads") => f(),
        Ok("fibers") => on_fibers(IoMode::Auto, f),
        Ok("fibers-threads") => on_fibers(IoMode::Threads, f),
        Ok(other) => panic!("PUMICE_RUNTIME={other}: threads, fibers or fibers-threads"),
    }
}

fn on_fibers<T>(mode: IoMode, f: impl FnOnce() -> T + Send) -> T {
    let builder = Runtime::builder().loops(2).io(mode).spawn_as_fibers(true);
    builder.run_here("test", f).expect("the operating system starts the loops")
}
