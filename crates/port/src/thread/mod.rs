//! Starting, parking and naming tasks: operating-system threads, fibers, simulated fibers.
//!
//! | caller | `spawn`, `scope` | `spawn_os` |
//! |---|---|---|
//! | a thread | a thread | a thread |
//! | a fiber | a thread; with `spawn_as_fibers` a fiber on the runtime's next loop | a thread |
//! | a simulated fiber | a simulated fiber | a simulated fiber |
//!
//! A thread started here has [`STACK_BYTES`] of stack, as threads of C programs have, or as much as
//! `RUST_MIN_STACK` says if that is more: user code runs there too. A fiber has what its runtime
//! was built with.
//!
//! Thread safety: everything here may be called from any task.
//! It does not set priorities: `pool` does, because priorities belong to background work.
//!
//! Invariant cited by unsafe blocks: 1. see `erase`.

mod packet;
mod scope;

use crate::task::{self, Scheduler, Task, WaitReason};
use crate::time;
pub use packet::NotStarted;
pub(crate) use packet::{Outcome, Packet, Promise};
use pumice_base::{Error, Result, Severity};
pub(crate) use scope::Children;
pub use scope::{Scope, ScopedJoinHandle, scope};
use std::any::Any;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

pub use crate::task::{TaskRef, current};

/// Stack of a thread that is started here, in bytes; only what is touched takes memory.
pub const STACK_BYTES: usize = 8 << 20;

/// See the head of this file.
fn stack_bytes() -> usize {
    static BYTES: OnceLock<usize> = OnceLock::new();
    *BYTES.get_or_init(|| {
        let asked = std::env::var("RUST_MIN_STACK").ok().and_then(|text| text.parse().ok());
        asked.unwrap_or(0).max(STACK_BYTES)
    })
}

/// What a task runs; it does not unwind.
pub(crate) type Body = Box<dyn FnOnce() + Send>;

/// Erases the body's lifetime.
///
/// # Safety
/// The caller waits until the body has run or been dropped before anything it borrows goes away.
pub(crate) unsafe fn erase<'a>(body: Box<dyn FnOnce() + Send + 'a>) -> Body {
    // SAFETY: the types differ in the lifetime only, and the caller guarantees that.
    unsafe { std::mem::transmute::<Box<dyn FnOnce() + Send + 'a>, Body>(body) }
}

/// Where a new task runs.
pub(crate) enum Place {
    /// On a thread of its own.
    Thread,
    /// On the loop this scheduler chooses.
    Fiber(&'static dyn Scheduler),
}

impl Place {
    /// Follows the kind of the calling task; see the head of this file.
    fn by_caller() -> Place {
        match task::current_fiber() {
            Some((_, scheduler)) if scheduler.spawns_tasks() => Place::Fiber(scheduler),
            _ => Place::os(),
        }
    }
    /// A thread, if there are threads.
    fn os() -> Place {
        match task::current_fiber() {
            Some((_, scheduler)) if scheduler.is_simulation() => Place::Fiber(scheduler),
            _ => Place::Thread,
        }
    }
}

/// A task that was started.
pub(crate) struct Started {
    pub(crate) task: TaskRef,
    os: Option<std::thread::JoinHandle<()>>,
}

impl Started {
    pub(crate) fn fiber(task: TaskRef) -> Self {
        Started { task, os: None }
    }
    /// Joins a thread whose body has ended. Not on a fiber: the thread's remaining destructors
    /// might wait for another fiber of the caller's loop.
    fn finish(self) {
        if let (Some(thread), None) = (self.os, task::current_fiber()) {
            drop(thread.join());
        }
    }
}

/// Starts a task that runs `body`.
fn launch(name: &str, place: Place, body: Body) -> io::Result<Started> {
    match place {
        Place::Fiber(scheduler) => Ok(Started::fiber(scheduler.spawn(name, body))),
        Place::Thread => {
            let task: &'static Task = task::thread_task::reserve();
            let run = move || {
                task::thread_task::adopt(task);
                body();
            };
            match spawn_thread(name, run) {
                Ok(thread) => Ok(Started { task: TaskRef(task), os: Some(thread) }),
                Err(e) => {
                    task::thread_task::release(task);
                    Err(e)
                }
            }
        }
    }
}

/// A thread of the operating system.
pub(crate) fn spawn_thread(
    name: &str,
    life: impl FnOnce() + Send + 'static,
) -> io::Result<std::thread::JoinHandle<()>> {
    crate::machine::ask(crate::machine::Resource::Thread)?;
    let builder = std::thread::Builder::new().stack_size(stack_bytes());
    builder.name(name.to_string()).spawn(life)
}

/// Waits for a task and takes its result. Dropping it detaches the task.
///
/// Example: that of [`spawn_here`](crate::fiber::spawn_here).
pub struct JoinHandle<T> {
    packet: Arc<Packet<T>>,
    started: Started,
    name: Box<str>,
}

impl<T> JoinHandle<T> {
    pub(crate) fn new(packet: Arc<Packet<T>>, started: Started, name: &str) -> Self {
        JoinHandle { packet, started, name: name.into() }
    }

    /// Waits for the end of the task. Suspends.
    ///
    /// # Errors
    /// `Aborted` with the panic's message and severity `Unrecoverable` when the task panicked, with
    /// subcode `MemoryLimit` when there was no memory for its stack and it never ran.
    pub fn join(self) -> Result<T> {
        // The fiber may be one that only this thread can run.
        crate::fiber::run_borrowed_for(self.started.task, &|| self.packet.is_done());
        self.packet.wait();
        self.started.finish();
        match self.packet.take_of_run() {
            Err(NotStarted) => Err(NotStarted::error(&self.name)),
            Ok(outcome) => outcome.map_err(|panic| panicked(&self.name, panic.as_ref())),
        }
    }
    /// The task, for waking it.
    pub fn task(&self) -> TaskRef {
        self.started.task
    }
    /// Whether this is the handle of the calling task, which must not join itself.
    pub fn is_current(&self) -> bool {
        !self.is_finished() && self.started.task == task::current()
    }
    /// Whether the task has ended, so that `join` would not wait.
    pub fn is_finished(&self) -> bool {
        self.packet.is_done()
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The text a panic was raised with.
pub fn panic_message(panic: &(dyn Any + Send)) -> &str {
    if panic.is::<NotStarted>() {
        return NotStarted::TEXT;
    }
    match (panic.downcast_ref::<&str>(), panic.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (_, Some(text)) => text,
        _ => "(payload is not text)",
    }
}

fn panicked(what: &str, panic: &(dyn Any + Send)) -> Error {
    let error = Error::aborted(format!("{what} panicked: {}", panic_message(panic)));
    error.with_severity(Severity::Unrecoverable)
}

/// Calls `f` and turns its panic into an error, so that a task that waits for `f` learns of it. In
/// a simulation the panic continues: there it is a finding.
///
/// # Errors
/// As [`JoinHandle::join`].
pub fn contain<T>(what: &str, f: impl FnOnce() -> T) -> Result<T> {
    if crate::sim::is_running() {
        return Ok(f());
    }
    catch_unwind(AssertUnwindSafe(f)).map_err(|panic| panicked(what, panic.as_ref()))
}

/// Starts a task named `name` (the kernel keeps 15 bytes of a thread's name, a loop 40 of a
/// fiber's). The head of this file says of which kind.
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
/// `IoError` when the operating system refuses a thread.
pub fn try_spawn<T: Send + 'static>(
    name: &str,
    f: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>> {
    start(name, Place::by_caller(), f)
}

/// Starts an operating-system thread, whatever the caller's kind; in a simulation a simulated
/// fiber. For work that keeps a processor busy or blocks without the loops' knowledge.
///
/// # Errors
/// `IoError` when the operating system refuses a thread.
pub fn spawn_os<T: Send + 'static>(
    name: &str,
    f: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>> {
    start(name, Place::os(), f)
}

/// Starts the thread of a loop, also from a fiber.
#[cfg(not(loom))]
pub(crate) fn spawn_loop(
    name: &str,
    f: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    let (packet, promise) = Packet::new();
    let started = launch(name, Place::Thread, Box::new(promise.body(f)))?;
    Ok(JoinHandle::new(packet, started, name))
}

fn start<T: Send + 'static>(
    name: &str,
    place: Place,
    f: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>> {
    if crate::sim::refuses(name) {
        return Err(Error::io_message(format!("While starting thread {name}: refused")));
    }
    let (packet, promise) = Packet::new();
    match launch(name, place, Box::new(promise.body(f))) {
        Ok(started) => Ok(JoinHandle::new(packet, started, name)),
        Err(e) => Err(Error::io_message(format!("While starting thread {name}: {e}"))),
    }
}

static SLEEP: WaitReason = WaitReason("sleep");
static PARK: WaitReason = WaitReason("park");

/// Suspends the task for at least `time`. An [`TaskRef::unpark`] that comes meanwhile is lost.
///
/// Example: that of [`spawn_here`](crate::fiber::spawn_here).
pub fn sleep(time: Duration) {
    let deadline = time::now_nanos().saturating_add(nanos(time));
    while time::now_nanos() < deadline {
        task::park_until(&SLEEP, Some(deadline));
    }
}

/// Lets other tasks run.
///
/// Example: that of [`spawn_here`](crate::fiber::spawn_here).
pub fn yield_now() {
    match task::current_fiber() {
        Some((_, scheduler)) => scheduler.yield_now(),
        None => std::thread::yield_now(),
    }
}

/// Suspends until this task is unparked; may also return spuriously.
pub fn park() {
    task::park(&PARK);
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

crate::task_local! {
    static ID: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// A small number of the calling task, never 0 and never reused: good for choosing a shard.
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

/// How many tasks the machine can run at one time; at least 1. It is what the process had when it
/// first asked: the answer is read from the files of control groups, and every open database asks a
/// few times.
pub fn available_parallelism() -> usize {
    static FIRST: OnceLock<usize> = OnceLock::new();
    if crate::sim::is_running() {
        return crate::os::SIM_CPUS as usize;
    }
    let ask = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    *FIRST.get_or_init(ask)
}
