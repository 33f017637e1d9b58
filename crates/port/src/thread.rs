//! Starting, parking and naming tasks. In this backend a task is an operating-system thread.
//!
//! Thread safety: everything here may be called from any thread.
//! It does not set priorities: `pool` does, because priorities belong to background work.

use pumice_base::{Error, Result};
use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

mod simulated;

pub use std::thread::{Scope, ScopedJoinHandle};

/// Runs `f`, which may start tasks that borrow from the caller; they have ended on return.
pub fn scope<'env, T>(f: impl for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T) -> T {
    std::thread::scope(f)
}

/// Waits for a task and takes its result.
#[derive(Debug)]
pub struct JoinHandle<T> {
    inner: Inner<T>,
}

#[derive(Debug)]
enum Inner<T> {
    Thread(std::thread::JoinHandle<T>),
    Fiber(simulated::Handle<T>),
}

impl<T> JoinHandle<T> {
    /// Waits for the end of the task. Suspends.
    ///
    /// # Errors
    /// `Aborted` with the panic's message when the task panicked.
    pub fn join(self) -> Result<T> {
        let (name, result) = match self.inner {
            Inner::Thread(handle) => {
                let name = handle.thread().name().unwrap_or("thread").to_string();
                (name, handle.join())
            }
            Inner::Fiber(handle) => handle.join(),
        };
        result.map_err(|panic| {
            Error::aborted(format!("{name} panicked: {}", panic_message(panic.as_ref())))
        })
    }
    /// Whether this is the handle of the calling task, which must not join itself.
    pub fn is_current(&self) -> bool {
        match &self.inner {
            Inner::Thread(handle) => handle.thread().id() == std::thread::current().id(),
            Inner::Fiber(handle) => handle.is_current(),
        }
    }
    /// Whether the task has ended, so that `join` would not wait.
    pub fn is_finished(&self) -> bool {
        match &self.inner {
            Inner::Thread(handle) => handle.is_finished(),
            Inner::Fiber(handle) => handle.is_finished(),
        }
    }
}

/// The text a panic was raised with.
pub fn panic_message(panic: &(dyn Any + Send)) -> &str {
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (_, Some(text)) => text,
        _ => "(not a text)",
    }
}

/// Starts a task named `name` (the kernel keeps 15 bytes of it).
///
/// # Panics
/// When the operating system refuses a thread; [`try_spawn`] reports that instead.
pub fn spawn<T: Send + 'static>(
    name: &str,
    f: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    try_spawn(name, f).expect("the operating system starts a thread")
}

/// As [`spawn`], reporting a refusal.
///
/// # Errors
/// `IoError` when the operating system has no thread left to give.
pub fn try_spawn<T: Send + 'static>(
    name: &str,
    f: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>> {
    if let Some((_, scheduler)) = crate::task::current_fiber()
        && scheduler.spawns_tasks()
    {
        return Ok(JoinHandle { inner: Inner::Fiber(simulated::spawn(scheduler, name, f)) });
    }
    let spawned = std::thread::Builder::new().name(name.to_string()).spawn(f);
    match spawned {
        Ok(inner) => Ok(JoinHandle { inner: Inner::Thread(inner) }),
        Err(e) => Err(Error::io_message(format!("While starting thread {name}: {e}"))),
    }
}

/// Suspends the task for at least `time`.
pub fn sleep(time: Duration) {
    let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    if !crate::sim::sleep(nanos) {
        std::thread::sleep(time);
    }
}

/// Lets other tasks run.
pub fn yield_now() {
    if !crate::sim::yield_now() {
        std::thread::yield_now();
    }
}

/// A task that can be woken from [`park`].
pub use crate::task::{TaskRef, current};

static PARK: crate::task::WaitReason = crate::task::WaitReason("park");

/// Suspends until somebody unparks this task; may also return for no reason.
pub fn park() {
    crate::task::park(&PARK);
}

/// As [`park`], at most `limit`.
pub fn park_timeout(limit: Duration) {
    let nanos = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
    let deadline = crate::time::now_nanos().saturating_add(nanos);
    crate::task::park_until(&PARK, Some(deadline));
}

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

crate::task_local! {
    static ID: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// A small number of the calling task, never 0 and never used again: good for choosing a shard.
#[inline]
pub fn current_id() -> u64 {
    if let Some(number) = crate::sim::fiber_number() {
        return number;
    }
    ID.with(|id| {
        if id.get() == 0 {
            id.set(NEXT_ID.fetch_add(1, Ordering::Relaxed));
        }
        id.get()
    })
}

/// How many tasks the machine can run at one time; at least 1.
pub fn available_parallelism() -> usize {
    if crate::sim::is_running() {
        return crate::os::SIM_CPUS as usize;
    }
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}
