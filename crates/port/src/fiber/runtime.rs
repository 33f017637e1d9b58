//! Runtimes: a number of loops, each on a thread of its own, that start and end together.
//!
//! Dropping a runtime waits until its fibers have ended by themselves; nothing is cancelled. A
//! runtime dropped by one of its own fibers ends when its last fiber does, and no task waits for
//! it.
//!
//! Thread safety: `Runtime` is `Sync`; see each method for whether it suspends.

use super::event_loop::Loop;
use super::stack::{DEFAULT_STACK_BYTES, SHARED_STACK_BYTES};
use super::watchdog::{self, Hook, Stall};
use super::{FiberInfo, RuntimeStats, is_fiber, scope, stats};
use crate::io::IoMode;
use crate::io::Reactor;
use crate::sync::{Event, Mutex};
use crate::task::TaskRef;
use crate::thread::{self, JoinHandle, NotStarted, Packet, Promise, Started};
use std::io;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// What the loops of one runtime share.
pub(crate) struct Group {
    pub(crate) loops: Vec<&'static Loop>,
    pub(crate) stack_bytes: usize,
    pub(crate) spawn_as_fibers: bool,
    /// Fibers that were started and have not ended.
    live: AtomicUsize,
    closing: AtomicBool,
    next: AtomicUsize,
}

impl Group {
    pub(crate) fn new(loops: Vec<&'static Loop>, stack_bytes: usize, as_fibers: bool) -> Self {
        Group {
            loops,
            stack_bytes,
            spawn_as_fibers: as_fibers,
            live: AtomicUsize::new(0),
            closing: AtomicBool::new(false),
            next: AtomicUsize::new(0),
        }
    }

    /// Starts a fiber on the loop whose turn it is.
    pub(crate) fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> TaskRef {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        self.spawn_on(turn % self.loops.len(), name, body)
    }

    /// Starts a fiber on one loop.
    pub(crate) fn spawn_on(
        &self,
        index: usize,
        name: &str,
        body: Box<dyn FnOnce() + Send>,
    ) -> TaskRef {
        self.live.fetch_add(1, Ordering::SeqCst);
        self.loops[index].start(name, body)
    }

    /// A fiber has ended.
    pub(crate) fn ended(&self) {
        if self.live.fetch_sub(1, Ordering::SeqCst) == 1 && self.closing.load(Ordering::SeqCst) {
            self.notify_all();
        }
    }

    /// The loops end with the last fiber.
    fn close(&self) {
        self.closing.store(true, Ordering::SeqCst);
        self.notify_all();
    }

    fn notify_all(&self) {
        self.loops.iter().for_each(|each| each.notify());
    }

    /// Whether no fiber is alive.
    pub(crate) fn is_empty(&self) -> bool {
        self.live.load(Ordering::SeqCst) == 0
    }

    /// Whether the loops may end. Once this is true, no new fiber can appear.
    fn finished(&self) -> bool {
        self.closing.load(Ordering::SeqCst) && self.is_empty()
    }
}

/// How to make a [`Runtime`].
///
/// ```
/// # use pumice_port::fiber::{self, FiberInfo, IoMode, Runtime, RuntimeStats, Stall};
/// let runtime = Runtime::builder()
///     .loops(2)
///     .stack_bytes(64 << 10)
///     .io(IoMode::Auto)
///     .name("app:loop")
///     .on_stall(|stall: &Stall| eprintln!("{} keeps its loop busy", stall.fiber))
///     .build()?;
/// let names = runtime.run("asking", || {
///     let alive: Vec<FiberInfo> = Runtime::fibers(&runtime);
///     alive.into_iter().map(|fiber| fiber.name).collect::<Vec<_>>()
/// });
/// assert_eq!(names, ["asking"]);
/// let stats: RuntimeStats = runtime.stats();
/// assert!(stats.switches > 0);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder builds nothing by itself"]
pub struct Builder {
    loops: usize,
    stack_bytes: usize,
    io: IoMode,
    spawn_as_fibers: bool,
    name: String,
    hook: Option<Hook>,
}

impl Builder {
    /// Number of loops, each on a thread of its own; at least 1. Default: one per processor.
    pub fn loops(mut self, loops: usize) -> Self {
        self.loops = loops.max(1);
        self
    }
    /// Stack of each fiber in bytes, guard not counted; 16 KiB at least. Default 256 KiB.
    pub fn stack_bytes(mut self, bytes: usize) -> Self {
        self.stack_bytes = bytes;
        self
    }
    /// How fibers do input and output. Default `Auto`.
    pub fn io(mut self, mode: IoMode) -> Self {
        self.io = mode;
        self
    }
    /// Whether `thread::spawn` and `thread::scope` from a fiber start fibers. Default: threads.
    pub fn spawn_as_fibers(mut self, yes: bool) -> Self {
        self.spawn_as_fibers = yes;
        self
    }
    /// What the threads of the loops are called. Default `pumice:loop`.
    pub fn name(mut self, name: &str) -> Self {
        self.name = name.to_string();
        self
    }
    /// Starts a watchdog: `hook` is told, on a thread of its own, of each loop that has not turned
    /// for 100 ms, once per incident. Default: none.
    pub fn on_stall(mut self, hook: impl Fn(&Stall) + Send + Sync + 'static) -> Self {
        self.hook = Some(Hook(Arc::new(hook)));
        self
    }
    /// Starts the loops. Suspends until they run.
    ///
    /// # Errors
    /// When the operating system refuses a thread, a descriptor or memory.
    pub fn build(self) -> io::Result<Runtime> {
        self.start(0)
    }

    /// Makes a runtime whose first loop is the calling thread, runs `f` on a fiber there, waits
    /// until all fibers have ended and tears the runtime down. Neither `f` nor its result ever
    /// leaves the calling thread. Called on a fiber it only runs `f`. Suspends.
    ///
    /// # Errors
    /// When the operating system refuses a thread, a descriptor or memory; `f` did not run then.
    ///
    /// # Panics
    /// With the panic of `f`.
    pub fn run_here<T>(self, name: &str, f: impl FnOnce() -> T) -> io::Result<T> {
        if is_fiber() {
            return Ok(f());
        }
        let reactor = Reactor::new(self.io)?;
        let runtime = self.start(1)?;
        let group = Arc::clone(&runtime.group);
        let first = group.loops[0];
        if let Err(e) = first.open(Arc::clone(&group), 0, reactor) {
            drop(runtime);
            first.release();
            return Err(e);
        }
        let (packet, promise) = Packet::new();
        // SAFETY: the body runs on this thread, and the loop is driven until it has ended.
        let body = unsafe { scope::local(Box::new(promise.body(f))) };
        group.spawn_on(0, name, body);
        // From now on the loops end with the last fiber.
        group.close();
        live_here(&group, 0);
        drop(runtime);
        match packet.take_of_run() {
            Err(NotStarted) => Err(io::ErrorKind::OutOfMemory.into()),
            Ok(outcome) => Ok(outcome.unwrap_or_else(|panic| resume_unwind(panic))),
        }
    }

    /// Starts the threads of the loops from `first` on.
    fn start(self, first: usize) -> io::Result<Runtime> {
        let loops: Vec<_> = (0..self.loops).map(|_| Loop::claim()).collect();
        let group = Arc::new(Group::new(loops, self.stack_bytes, self.spawn_as_fibers));
        // Dropping it ends and joins the loops that have started.
        let mut runtime = Runtime { group, threads: Vec::new(), watchdog: None };
        match self.start_threads(&mut runtime, first) {
            Ok(()) => Ok(runtime),
            Err(e) => {
                runtime.group.loops[..first].iter().for_each(|own| own.release());
                Err(e)
            }
        }
    }

    fn start_threads(self, runtime: &mut Runtime, first: usize) -> io::Result<()> {
        let mut starts = Vec::new();
        for index in first..self.loops {
            let (packet, promise) = Packet::new();
            let (group, mode) = (Arc::clone(&runtime.group), self.io);
            let life = move || run_loop(group, index, mode, promise);
            match thread::spawn_loop(&self.name, life) {
                Ok(thread) => runtime.threads.push(thread),
                Err(e) => {
                    // These loops have no threads that could do it.
                    runtime.group.loops[index..].iter().for_each(|own| own.release());
                    return Err(e);
                }
            }
            starts.push(packet);
        }
        for packet in starts {
            packet.wait();
            packet.take().unwrap_or_else(|panic| resume_unwind(panic))?;
        }
        if let Some(hook) = self.hook {
            let (stop, group) = (Arc::new(Event::new()), Arc::clone(&runtime.group));
            let own = Arc::clone(&stop);
            let life = move || watchdog::watch(&group.loops, watchdog::LIMIT, &hook, &own);
            runtime.watchdog = Some((stop, thread::spawn_loop("pumice:watchdog", life)?));
        }
        Ok(())
    }
}

/// The life of one loop's thread.
fn run_loop(group: Arc<Group>, index: usize, mode: IoMode, started: Promise<io::Result<()>>) {
    let own = group.loops[index];
    let mut open = false;
    started.fulfil(|| {
        own.open(Arc::clone(&group), index, Reactor::new(mode)?)?;
        open = true;
        Ok(())
    });
    if open {
        live_here(&group, index);
    } else {
        own.release();
    }
}

/// Runs the calling thread's open loop until its runtime ends.
fn live_here(group: &Group, index: usize) {
    let own = group.loops[index];
    let reactor = own.reactor();
    own.drive(&|| group.finished() && reactor.inflight() == 0);
    drop(reactor);
    own.close();
    own.release();
}

/// Loops that run fibers, each on a thread of its own. Dropping it waits until its fibers have
/// ended by themselves.
///
/// ```
/// # use pumice_port::fiber::{IoMode, Runtime};
/// let runtime = Runtime::builder().loops(1).io(IoMode::Auto).build()?;
/// // On a fiber: a call that waits lets others run.
/// let answer = runtime.run("answer", || 6 * 7);
/// assert_eq!(answer, 42);
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Runtime {
    group: Arc<Group>,
    threads: Vec<JoinHandle<()>>,
    watchdog: Option<(Arc<Event>, JoinHandle<()>)>,
}

impl std::fmt::Debug for Runtime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runtime").field("loops", &self.threads.len()).finish_non_exhaustive()
    }
}

impl Runtime {
    /// A builder with the defaults.
    pub fn builder() -> Builder {
        Builder {
            loops: thread::available_parallelism(),
            stack_bytes: DEFAULT_STACK_BYTES,
            io: IoMode::Auto,
            spawn_as_fibers: false,
            name: "pumice:loop".to_string(),
            hook: None,
        }
    }

    /// The runtime of the process, made at the first call and never dropped: one loop per
    /// processor, fibers with 2 MiB of stack, as much as the stack of a Rust thread. That call
    /// suspends.
    ///
    /// # Panics
    /// When the operating system refuses what a runtime needs; [`Runtime::try_shared`] does not.
    pub fn shared() -> &'static Runtime {
        Runtime::try_shared().expect("the operating system starts the loops")
    }

    /// As [`Runtime::shared`], reporting a refusal.
    ///
    /// # Errors
    /// When the operating system refuses what a runtime needs. The next call tries again.
    pub fn try_shared() -> io::Result<&'static Runtime> {
        static SHARED: OnceLock<Runtime> = OnceLock::new();
        // Not std's: the fibers of one loop may meet here.
        static STARTING: Mutex<()> = Mutex::new(());
        if let Some(runtime) = SHARED.get() {
            return Ok(runtime);
        }
        let _starting = STARTING.lock();
        if let Some(runtime) = SHARED.get() {
            return Ok(runtime);
        }
        let runtime = Runtime::builder().stack_bytes(SHARED_STACK_BYTES).build()?;
        Ok(SHARED.get_or_init(|| runtime))
    }

    /// Starts a fiber on the loop whose turn it is. Never suspends.
    pub fn spawn<T: Send + 'static>(
        &self,
        name: &str,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let (packet, promise) = Packet::new();
        let task = self.group.spawn(name, Box::new(promise.body(f)));
        JoinHandle::new(packet, Started::fiber(task), name)
    }

    /// Starts a fiber on one of the loops. Never suspends.
    ///
    /// # Panics
    /// When there is no loop `index`.
    pub fn spawn_on<T: Send + 'static>(
        &self,
        index: usize,
        name: &str,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        assert!(index < self.loops(), "there is a loop {index}");
        let (packet, promise) = Packet::new();
        let task = self.group.spawn_on(index, name, Box::new(promise.body(f)));
        JoinHandle::new(packet, Started::fiber(task), name)
    }

    /// Runs `f`, which may borrow from the caller, on a fiber and waits for it. Suspends.
    ///
    /// # Panics
    /// With the panic of `f`; with [`NotStarted`] when there is no memory for its stack.
    pub fn run<T: Send>(&self, name: &str, f: impl FnOnce() -> T + Send) -> T {
        let (packet, promise) = Packet::new();
        let body = Box::new(promise.body(f));
        // SAFETY: the packet is delivered only when the body has run or been dropped.
        let body = unsafe { thread::erase(body) };
        self.group.spawn(name, body);
        packet.wait();
        packet.take().unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// The number of loops.
    pub fn loops(&self) -> usize {
        self.group.loops.len()
    }

    /// The fibers that have started and not ended, except this call's own fibers. Suspends: the
    /// loops are asked one after the other, and one system call per fiber measures its stack.
    pub fn fibers(&self) -> Vec<FiberInfo> {
        let ask = |index| self.spawn_on(index, stats::SURVEY, move || stats::survey(index));
        let asked: Vec<_> = (0..self.loops()).map(ask).collect();
        let answers = asked.into_iter().flat_map(|handle| handle.join().unwrap_or_default());
        answers.collect()
    }

    /// What the loops have done so far.
    pub fn stats(&self) -> RuntimeStats {
        stats::collect(&self.group.loops)
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        self.group.close();
        let is_own = |own: &Loop| self.group.loops.iter().any(|each| std::ptr::eq(*each, own));
        let own = scope::current_loop().is_some_and(is_own);
        for thread in self.threads.drain(..).filter(|_| !own) {
            thread.join().expect("a loop ends normally");
        }
        if let Some((stop, thread)) = self.watchdog.take() {
            stop.set();
            thread.join().expect("a watchdog ends normally");
        }
    }
}
