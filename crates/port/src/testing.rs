//! How tests choose what they run on: the environment variable `PUMICE_RUNTIME`.
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

use crate::fiber::{IoMode, Runtime};

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
