//! The one primitive under every wait: a task parks, any task unparks it.
//!
//! A task is an operating-system thread or a fiber, and only this module tells them apart. Records
//! of tasks live forever and are reused, so a [`TaskRef`] is a plain pointer that is copied freely:
//! an `unpark` that comes too late reaches the record's current task as a spurious wake-up, which
//! every waiter must tolerate anyway.
//!
//! | state | meaning | left by |
//! |---|---|---|
//! | EMPTY | runs, nothing was announced | park (PARKED or BLOCKED), unpark (NOTIFIED) |
//! | PARKED | a fiber waits or is about to | unpark (NOTIFIED, and wakes), a deadline (EMPTY) |
//! | BLOCKED | a thread waits or is about to, also under a fiber that unwinds | as PARKED |
//! | NOTIFIED | an unpark has not been consumed yet | the task's next park (EMPTY) |
//!
//! Invariants:
//! 1. The task that moves another out of PARKED or BLOCKED, and no other, makes it run again, once.
//! 2. `home` never changes: records of threads and of each scheduler are kept apart.
//! 3. `next` belongs to the waker that made the task runnable, until its scheduler has taken it
//!    over.
//! 4. Records are never freed; a `next` inside a chain points to one.
//! 5. `locals` is touched by the task itself only; `data` is set once, before the task is shared.
//!
//! Thread safety: `TaskRef` is `Send` and `Sync`. `park` concerns the calling task only.

pub(crate) mod batch;
pub(crate) mod clock;
pub(crate) mod futex;
#[cfg(loom)]
#[doc(hidden)]
pub mod model;
pub(crate) mod thread_task;

pub use batch::unpark_all;

use crate::atomic::{AtomicPtr, Ordering};
use crate::local::Locals;
use futex::Futex;
use std::cell::Cell;
use std::fmt;

pub(crate) const EMPTY: u32 = 0;
pub(crate) const PARKED: u32 = 1;
pub(crate) const NOTIFIED: u32 = 2;
pub(crate) const BLOCKED: u32 = 3;

/// What runs fibers: an event loop of the operating system, or the simulation.
pub(crate) trait Scheduler: Sync {
    /// Makes `task`, which the caller has moved out of PARKED, runnable. From any thread.
    fn wake(&self, task: &'static Task);
    /// As `wake` for several tasks of this scheduler, which run in the order given; a loop is
    /// kicked once at most.
    fn wake_many(&self, tasks: &mut dyn Iterator<Item = &'static Task>) {
        tasks.for_each(|task| self.wake(task));
    }
    /// Switches away from the running fiber, whose state is PARKED (or NOTIFIED by now), and
    /// returns when it runs again. With a deadline (monotonic nanoseconds) the scheduler moves the
    /// task from PARKED to EMPTY when the deadline has passed. On the scheduler's own thread only.
    fn suspend(&self, task: &'static Task, deadline_nanos: Option<u64>);
    /// Lets the other runnable fibers run once. On the scheduler's own thread only.
    fn yield_now(&self);
    /// Starts a fiber that runs `body`, which does not unwind. Called by one of the scheduler's
    /// own fibers; which of its threads runs the new one is the scheduler's choice.
    fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> TaskRef;
    /// As `spawn`, on the calling fiber's own thread.
    fn spawn_here(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> TaskRef {
        self.spawn(name, body)
    }
    /// Whether `thread::spawn` from one of the fibers starts a fiber (otherwise a thread).
    fn spawns_tasks(&self) -> bool;
    /// Whether this is a simulation, in which there are no threads at all. Its fibers switch even
    /// while they unwind: nothing else would let them make progress.
    fn is_simulation(&self) -> bool {
        false
    }
}

/// What a task runs on.
pub(crate) enum Home {
    /// The task is an operating-system thread.
    Thread,
    /// The task is a fiber of this scheduler.
    Fiber(&'static dyn Scheduler),
}

/// See the module head.
pub(crate) struct Task {
    state: Futex,
    home: Home,
    /// Invariant 3.
    pub(crate) next: AtomicPtr<Task>,
    /// Why the task waits, for reports; written by the task itself before it parks.
    reason: AtomicPtr<WaitReason>,
    /// The scheduler's record of a fiber; invariant 5.
    data: AtomicPtr<()>,
    /// A fiber's copies of `task_local!` variables; invariant 5. Its scheduler clears them, on the
    /// fiber, when the body has ended.
    pub(crate) locals: Locals,
}

/// Why a task waits; shown in reports of stuck tasks.
#[derive(Debug)]
pub struct WaitReason(pub &'static str);

impl Task {
    pub(crate) fn new(home: Home) -> Self {
        Task {
            state: Futex::new(EMPTY),
            home,
            next: AtomicPtr::new(std::ptr::null_mut()),
            reason: AtomicPtr::new(std::ptr::null_mut()),
            data: AtomicPtr::new(std::ptr::null_mut()),
            locals: Locals::default(),
        }
    }
    /// Notes the scheduler's record.
    pub(crate) fn set_data(&self, data: *const ()) {
        self.data.store(data.cast_mut(), Ordering::Relaxed);
    }
    /// The scheduler's record.
    #[inline]
    pub(crate) fn data(&self) -> *const () {
        self.data.load(Ordering::Relaxed)
    }
    /// The scheduler of a fiber, `None` for a thread.
    pub(crate) fn scheduler(&self) -> Option<&'static dyn Scheduler> {
        match self.home {
            Home::Thread => None,
            Home::Fiber(scheduler) => Some(scheduler),
        }
    }
    /// A deadline has passed: true when the task was still waiting; the caller then makes it run.
    pub(crate) fn expire(&self) -> bool {
        self.state.compare_exchange(PARKED, EMPTY, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
    /// Why it waits.
    pub(crate) fn reason(&self) -> &'static str {
        let reason = self.reason.load(Ordering::Acquire);
        // SAFETY: only `park_until` writes it, always from a `&'static WaitReason`.
        unsafe { reason.cast_const().as_ref() }.map_or("", |r: &'static WaitReason| r.0)
    }
    /// Before a record is given to a new task: forgets a late notification.
    pub(crate) fn reset(&self) {
        self.state.store(EMPTY, Ordering::Release);
    }
}

/// A task that can be woken. Equal references mean the same record, which another task may have
/// by now.
#[derive(Clone, Copy)]
pub struct TaskRef(pub(crate) &'static Task);

impl TaskRef {
    /// Wakes the task, or lets its next [`park`] return at once. Never suspends.
    pub fn unpark(self) {
        crate::sim::point();
        if let Some(scheduler) = self.notify() {
            scheduler.wake(self.0);
        }
    }
    /// Leaves the notification; a blocked thread is woken; for a parked fiber, returns the
    /// scheduler to which the caller must give it.
    #[inline]
    pub(crate) fn notify(self) -> Option<&'static dyn Scheduler> {
        match self.0.state.swap(NOTIFIED, Ordering::AcqRel) {
            PARKED => self.0.scheduler(),
            BLOCKED => {
                self.0.state.wake_one();
                None
            }
            _ => None,
        }
    }
    /// Whether the task is a fiber.
    pub fn is_fiber(self) -> bool {
        self.0.scheduler().is_some()
    }
}

impl PartialEq for TaskRef {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}
impl Eq for TaskRef {}

impl fmt::Debug for TaskRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TaskRef({:p})", self.0)
    }
}

#[cfg(not(loom))]
thread_local! {
    /// The task that runs on this thread at this moment: a scheduler sets it around each fiber.
    static CURRENT: Cell<Option<&'static Task>> = const { Cell::new(None) };
}
#[cfg(loom)]
loom::thread_local! {
    static CURRENT: Cell<Option<&'static Task>> = Cell::new(None);
}

/// The calling task.
#[inline]
pub fn current() -> TaskRef {
    match CURRENT.with(Cell::get) {
        Some(task) => TaskRef(task),
        None => first_use(),
    }
}

#[cold]
fn first_use() -> TaskRef {
    let task = thread_task::claim();
    set_current(Some(task));
    TaskRef(task)
}

/// The running fiber's record and scheduler, `None` on a thread.
#[inline]
pub(crate) fn current_fiber() -> Option<(&'static Task, &'static dyn Scheduler)> {
    let task = CURRENT.with(Cell::get)?;
    Some((task, task.scheduler()?))
}

/// Sets the task that runs on this thread; returns the previous one, to be restored.
pub(crate) fn set_current(task: Option<&'static Task>) -> Option<&'static Task> {
    CURRENT.with(|current| current.replace(task))
}

/// Suspends until this task is unparked; may also return spuriously.
pub fn park(reason: &'static WaitReason) {
    park_until(reason, None);
}

/// As [`park`], at most until `deadline_nanos` of the monotonic clock; true when it was unparked.
pub fn park_until(reason: &'static WaitReason, deadline_nanos: Option<u64>) -> bool {
    let task = current().0;
    task.reason.store(std::ptr::from_ref(reason).cast_mut(), Ordering::Release);
    // A fiber that unwinds must not switch: the count of panics belongs to its thread.
    let fiber =
        task.scheduler().filter(|scheduler| scheduler.is_simulation() || !std::thread::panicking());
    let waiting = if fiber.is_some() { PARKED } else { BLOCKED };
    let entered = task.state.compare_exchange(EMPTY, waiting, Ordering::AcqRel, Ordering::Acquire);
    if entered.is_ok() {
        match fiber {
            Some(scheduler) => scheduler.suspend(task, deadline_nanos),
            None => thread_task::wait(&task.state, deadline_nanos),
        }
    }
    task.reason.store(std::ptr::null_mut(), Ordering::Release);
    task.state.swap(EMPTY, Ordering::AcqRel) == NOTIFIED
}
