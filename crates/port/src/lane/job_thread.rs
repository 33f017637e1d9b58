//! A thread working for a lane: its priority, and the thread that runs the steps it must not run.
//!
//! | the thread | changes of its priority | what it does by `at_normal_priority` |
//! |---|---|---|
//! | normal | by the caller, at once | itself; a change meanwhile waits until that is done |
//! | lowered | by the caller; up only with a privilege | is handed back to the job's own thread |
//! | a helper of it | none | as the thread; once that was lowered, handed back |
//!
//! Invariants:
//! 1. `lowered` is set before the kernel is asked for a lower priority, and stays set until the
//!    kernel has granted a normal one.
//! 2. While `steady`, the thread is not lowered.
//!
//! Thread safety: all methods from any thread, except those that name their thread.

use super::hand_back::HandBack;
use super::{LanePriority, spent};
use crate::os::{self, CpuPriority, IoPriority, ThreadPriority};
use crate::sync::Mutex;
use std::cell::RefCell;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

struct State {
    wanted: LanePriority,
    present: LanePriority,
    /// The thread is inside `at_normal_priority` itself.
    steady: bool,
    lowered: bool,
    /// The current priority is not the one it began with.
    changed: bool,
}

/// See the head of this file.
pub(crate) struct JobThread {
    floor: LanePriority,
    /// The priority of a thread that was not lowered.
    base: ThreadPriority,
    hand_back: HandBack,
    state: Mutex<State>,
    /// The thread was lowered at some time, so its helpers may be.
    was_lowered: AtomicBool,
    /// 0 before it has begun and after its end.
    thread: AtomicU64,
    /// The thread's CPU time when it began; what it spent after its end.
    cpu_nanos: AtomicU64,
    began_with: Mutex<ThreadPriority>,
}

/// The lane thread that the calling thread is, or helps.
struct Current {
    job_thread: Arc<JobThread>,
    helper: bool,
    /// Inside `at_normal_priority`, on this thread.
    steady: bool,
}

crate::task_local! {
    static CURRENT: RefCell<Option<Current>> = const { RefCell::new(None) };
}

/// Brings the thread `thread` (0: the calling one) from one priority to another; `base` is the
/// one from before it was lowered.
pub(super) fn change(
    thread: u64,
    from: LanePriority,
    to: LanePriority,
    base: ThreadPriority,
) -> io::Result<()> {
    if from.cpu != to.cpu {
        match to.cpu {
            CpuPriority::Normal | CpuPriority::High => os::restore_cpu_priority(thread, base)?,
            // A process that already runs at idle priority has nothing to lower.
            CpuPriority::Low if base.is_idle_policy() => {}
            lower => os::set_cpu_priority_of(thread, lower)?,
        }
    }
    if from.io != to.io {
        match to.io {
            IoPriority::Normal => os::restore_io_priority(thread, base)?,
            IoPriority::Low if base.is_idle_io() => {}
            lower => os::set_io_priority_of(thread, lower)?,
        }
    }
    Ok(())
}

impl JobThread {
    pub(super) fn new(floor: LanePriority, base: ThreadPriority) -> Self {
        JobThread {
            floor,
            base,
            hand_back: HandBack::default(),
            state: Mutex::new(State {
                wanted: LanePriority::default(),
                present: LanePriority::default(),
                steady: false,
                lowered: false,
                changed: false,
            }),
            was_lowered: AtomicBool::new(false),
            thread: AtomicU64::new(0),
            cpu_nanos: AtomicU64::new(0),
            began_with: Mutex::new(base),
        }
    }

    pub(super) fn floor(&self) -> LanePriority {
        self.floor
    }
    pub(super) fn hand_back(&self) -> &HandBack {
        &self.hand_back
    }
    /// The thread's scheduling when the job began.
    pub(super) fn began_with(&self) -> ThreadPriority {
        *self.began_with.lock()
    }
    /// The kernel's number of the thread, while it works.
    pub(super) fn thread(&self) -> Option<u64> {
        Some(self.thread.load(Ordering::Acquire)).filter(|thread| *thread != 0)
    }
    /// CPU time that the thread has spent for this lane, nanoseconds.
    pub(super) fn cpu_nanos(&self) -> u64 {
        let counted = self.cpu_nanos.load(Ordering::Acquire);
        match self.thread() {
            Some(thread) => os::thread_cpu_nanos_of(thread).saturating_sub(counted),
            None => counted,
        }
    }

    /// Sets the priority to begin with.
    pub(super) fn want(&self, priority: LanePriority) {
        self.state.lock().wanted = priority;
    }

    fn begin_account(&self) {
        *self.began_with.lock() = os::thread_priority();
        self.cpu_nanos.store(spent(), Ordering::Relaxed);
        self.thread.store(os::thread_id(), Ordering::Release);
    }

    /// For a calling thread that works and is not a lane's.
    pub(super) fn begin_here(&self) {
        self.begin_account();
    }

    /// The calling thread works for the lane from now on; it has the priority `has`.
    pub(super) fn begin(self: &Arc<Self>, has: LanePriority) {
        let mut state = self.state.lock();
        state.present = has;
        state.lowered = has.is_lowered();
        self.was_lowered.store(state.lowered, Ordering::Relaxed);
        self.begin_account();
        self.settle(&mut state);
        drop(state);
        let current = Current { job_thread: Arc::clone(self), helper: false, steady: false };
        CURRENT.with(|place| *place.borrow_mut() = Some(current));
    }

    /// The calling thread works for the lane no longer; returns whether it has the priority it came
    /// with.
    pub(super) fn end(&self) -> bool {
        CURRENT.with(|place| place.borrow_mut().take());
        let state = self.state.lock();
        let cpu = spent().saturating_sub(self.cpu_nanos.load(Ordering::Relaxed));
        // From here on the thread's priority is no longer this job's to change.
        self.thread.store(0, Ordering::Release);
        self.cpu_nanos.store(cpu, Ordering::Release);
        !state.changed
    }

    /// Gives the thread the requested priority, as far as the kernel allows.
    fn settle(&self, state: &mut State) -> bool {
        let Some(thread) = self.thread() else { return true };
        if state.wanted == state.present || state.steady {
            return true;
        }
        if state.wanted.is_lowered() {
            state.lowered = true;
            self.was_lowered.store(true, Ordering::Relaxed);
        }
        state.changed = true;
        if change(thread, state.present, state.wanted, self.base).is_err() {
            return false;
        }
        state.present = state.wanted;
        state.lowered = state.present.is_lowered();
        true
    }

    /// Changes the priority, at once if the thread works. Suspends.
    pub(super) fn change_to(&self, priority: LanePriority) -> Result<(), ()> {
        let mut state = self.state.lock();
        state.wanted = priority;
        if self.settle(&mut state) { Ok(()) } else { Err(()) }
    }

    /// As `change_to`, unless another change is in progress. Never waits.
    pub(super) fn try_change_to(&self, priority: LanePriority) {
        if let Some(mut state) = self.state.try_lock() {
            state.wanted = priority;
            self.settle(&mut state);
        }
    }

    /// Whether the calling thread itself may do work that must not be done at low priority.
    fn enter(&self, helper: bool) -> bool {
        if helper {
            return !self.was_lowered.load(Ordering::Relaxed);
        }
        let mut state = self.state.lock();
        state.steady = !state.lowered;
        state.steady
    }

    fn leave(&self, helper: bool) {
        if !helper {
            let mut state = self.state.lock();
            state.steady = false;
            self.settle(&mut state);
        }
    }
}

/// Ends `at_normal_priority` on this thread.
struct Steady<'a> {
    job_thread: &'a JobThread,
    helper: bool,
}

impl<'a> Steady<'a> {
    fn begin(job_thread: &'a JobThread, helper: bool) -> Self {
        set_steady(true);
        Steady { job_thread, helper }
    }
}

impl Drop for Steady<'_> {
    fn drop(&mut self) {
        set_steady(false);
        self.job_thread.leave(self.helper);
    }
}

fn set_steady(steady: bool) {
    CURRENT.with(|place| {
        if let Some(current) = &mut *place.borrow_mut() {
            current.steady = steady;
        }
    });
}

/// Runs `f` at normal priority: here, or, where the calling thread works for a lane and is lowered,
/// on the job's own thread, which takes two switches of threads. On such threads, everything that
/// takes a lock that readers or writers may need goes through this; on all others it costs reading
/// a task-local. Suspends when it does not run here.
#[inline]
pub fn at_normal_priority<T: Send>(f: impl FnOnce() -> T + Send) -> T {
    let in_lane = CURRENT.with(|place| place.borrow().is_some());
    if in_lane { at_normal_priority_in_lane(f) } else { f() }
}

#[inline(never)]
fn at_normal_priority_in_lane<T: Send>(f: impl FnOnce() -> T + Send) -> T {
    match here(f) {
        Ok(done) => done,
        Err((f, job_thread)) => job_thread.hand_back.put(f),
    }
}

/// Runs `f`, and the calling thread is not lowered meanwhile; None if it is lowered already.
pub(crate) fn unless_lowered<T>(f: impl FnOnce() -> T) -> Option<T> {
    here(f).ok()
}

/// Runs `f`, and the calling thread is not lowered meanwhile.
///
/// # Errors
/// `f`, and what the calling thread is, if it is lowered already.
fn here<T, F: FnOnce() -> T>(f: F) -> Result<T, (F, Arc<JobThread>)> {
    let found = CURRENT.with(|place| {
        let place = place.borrow();
        let current = place.as_ref().filter(|current| !current.steady)?;
        Some((Arc::clone(&current.job_thread), current.helper))
    });
    let Some((job_thread, helper)) = found else { return Ok(f()) };
    if !job_thread.enter(helper) {
        return Err((f, job_thread));
    }
    let _steady = Steady::begin(&job_thread, helper);
    Ok(f())
}

/// What the calling thread is for its lane, for its helpers.
pub(crate) fn job_thread_of_caller() -> Option<Arc<JobThread>> {
    CURRENT.with(|place| Some(Arc::clone(&place.borrow().as_ref()?.job_thread)))
}

/// The calling thread helps a lane's thread until it is dropped.
pub(crate) struct Helping;

impl Helping {
    /// The calling thread helps that thread.
    pub(crate) fn of(job_thread: Option<&Arc<JobThread>>) -> Option<Helping> {
        let current = Current { job_thread: Arc::clone(job_thread?), helper: true, steady: false };
        CURRENT.with(|place| *place.borrow_mut() = Some(current));
        Some(Helping)
    }
}

impl Drop for Helping {
    fn drop(&mut self) {
        CURRENT.with(|place| place.borrow_mut().take());
    }
}

/// Checks foreground locks from now on, in debug builds: for the engine's own tests. User code that
/// runs in a compaction may take any lock.
pub fn watch_locks() {
    #[cfg(debug_assertions)]
    WATCHED.store(true, Ordering::Relaxed);
}

#[cfg(debug_assertions)]
static WATCHED: AtomicBool = AtomicBool::new(false);

/// A lock that readers or writers may need is about to be taken.
///
/// # Panics
/// On a thread that may be lowered while it holds the lock.
#[cfg(debug_assertions)]
pub(crate) fn check_foreground() {
    if !WATCHED.load(Ordering::Relaxed) {
        return;
    }
    let wrong = CURRENT.with(|place| place.borrow().as_ref().is_some_and(|s| !s.steady));
    assert!(!wrong, "a thread of a lane takes a lock that readers or writers may need");
}
