//! Calls that block, taken off a loop's thread, and work that goes on beside its caller.
//!
//! Thread safety: everything may be called from any task. The pool of [`offload`] is the process's
//! own, at most [`MOST_THREADS`] threads, none before the first call on a fiber; they stay. When
//! the first thread of a pool is refused, calls block their loop. [`aside`] has a pool of its own,
//! of the same size, so that neither kind of call waits for the other.

use super::borrowed::is_borrowed;
use super::scope::current_loop;
use crate::lane;
use crate::pool::Pool;
use crate::task::{self, TaskRef};
use crate::thread::{self, Packet};
use std::panic::resume_unwind;
use std::sync::{Arc, OnceLock};

const MOST_THREADS: usize = 16;

/// A pool of threads to which fibers hand blocking calls. Dropping it waits for the calls under
/// way.
pub struct Workers(Arc<Pool>);

impl Workers {
    /// A pool of at most `threads` threads, at least 1, called `name`; they are started when there
    /// are calls for them, and stay.
    pub fn new(name: &'static str, threads: usize) -> Workers {
        let pool = Arc::new(Pool::new(name));
        pool.set_limit(threads.max(1), true);
        Workers(pool)
    }

    /// Runs `f`, which may block its thread: on a thread of the pool when a fiber of a loop calls,
    /// which suspends meanwhile; at once on a thread, in a simulation, and where the operating
    /// system refuses a thread, which blocks the loop. Calls begin in the order in which they came.
    /// A thread of the pool has [`STACK_BYTES`](crate::thread::STACK_BYTES) of stack.
    ///
    /// # Panics
    /// With the panic of `f`.
    pub fn run<R: Send>(&self, f: impl FnOnce() -> R + Send) -> R {
        if current_loop().is_none() {
            return f();
        }
        let (packet, promise) = Packet::new();
        let work = promise.work(f);
        // SAFETY: the packet is delivered only when the body has run or been dropped.
        let body = unsafe { thread::erase(Box::new(move || work.run_in_passing())) };
        if let Err(body) = Pool::try_submit(&self.0, "offload", body) {
            // No thread is available: a loop that blocks for a while is better than one that hangs.
            body();
        }
        packet.wait();
        packet.take().unwrap_or_else(|panic| resume_unwind(panic))
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.0.join_all(true, false);
    }
}

/// As [`Workers::run`], on the process's own pool.
///
/// # Panics
/// With the panic of `f`.
///
/// ```
/// # use pumice_port::fiber::{Runtime, offload};
/// # let runtime = Runtime::builder().loops(1).build()?;
/// // On a fiber: std's files block, so another thread waits for them.
/// let there = runtime.run("looks", || offload(|| std::fs::metadata("/").is_ok()));
/// assert!(there);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn offload<R: Send>(f: impl FnOnce() -> R + Send) -> R {
    static POOL: OnceLock<Workers> = OnceLock::new();
    if current_loop().is_none() {
        return f();
    }
    POOL.get_or_init(|| Workers::new("pumice:offload", MOST_THREADS)).run(f)
}

/// Starts `work`, which nobody waits for here: on a fiber, a fiber of the same loop; on a thread, a
/// thread of a pool of the process's own. A panic of `work` is dropped. Never suspends.
///
/// False, and `work` is dropped, where it would run late or at the wrong priority: on a fiber of a
/// loop that a thread has borrowed, since nobody runs that loop while the thread does something
/// else; on a lane's thread that is lowered; and where the operating system refuses the first
/// thread.
///
/// ```
/// # use pumice_port::fiber::aside;
/// # use pumice_port::sync::Event;
/// # use std::sync::Arc;
/// let done = Arc::new(Event::new());
/// let own = Arc::clone(&done);
/// if aside("an example", move || own.set()) {
///     done.wait();
/// }
/// ```
pub fn aside(name: &'static str, work: impl FnOnce() + Send + 'static) -> bool {
    static POOL: OnceLock<Workers> = OnceLock::new();
    let (_packet, promise) = Packet::new();
    if let Some((task, scheduler)) = task::current_fiber() {
        if is_borrowed(TaskRef(task)) {
            return false;
        }
        scheduler.spawn_here(name, Box::new(promise.body(work)));
        return true;
    }
    // A thread that the pool starts inherits the priority of its starter.
    let submitted = lane::unless_lowered(|| {
        let pool = POOL.get_or_init(|| Workers::new("pumice:aside", MOST_THREADS));
        Pool::try_submit(&pool.0, name, Box::new(promise.body(work))).is_ok()
    });
    submitted == Some(true)
}
