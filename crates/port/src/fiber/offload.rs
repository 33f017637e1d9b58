//! Calls that block, taken off a loop's thread.
//!
//! Thread safety: `offload` may be called from any task. The pool is the process's own, at most
//! [`MOST_THREADS`] threads, none before the first call on a fiber; they stay.

use super::here::current_loop;
use crate::pool::Pool;
use crate::thread::{self, Packet};
use std::panic::resume_unwind;
use std::sync::{Arc, OnceLock};

const MOST_THREADS: usize = 16;

/// Runs `f`, which may block its thread: on a pool of threads when a fiber of a loop calls, which
/// suspends meanwhile; at once on a thread, in a simulation, and where the operating system has no
/// thread to give, which blocks the loop. A thread of the pool has
/// [`STACK_BYTES`](crate::thread::STACK_BYTES) of stack.
///
/// # Panics
/// With the panic of `f`.
pub fn offload<R: Send>(f: impl FnOnce() -> R + Send) -> R {
    if current_loop().is_none() {
        return f();
    }
    static POOL: OnceLock<Arc<Pool>> = OnceLock::new();
    let pool = POOL.get_or_init(|| {
        let pool = Arc::new(Pool::new("pumice:offload"));
        pool.set_limit(MOST_THREADS, true);
        pool
    });
    let (packet, promise) = Packet::new();
    let errand = promise.errand(f);
    // SAFETY: the packet is delivered when the body has run or been dropped, and then only.
    let body = unsafe { thread::erase(Box::new(move || errand.run_in_passing())) };
    if let Err(body) = Pool::try_submit(pool, "offload", body) {
        body();
    }
    packet.wait();
    packet.take().unwrap_or_else(|panic| resume_unwind(panic))
}
