//! For loom's models: a scheduler of one fiber, with checks of a loop's obligations to its tasks,
//! and the kick word.
//!
//! The fiber runs on a loom thread; while suspended it waits there for its scheduler. A task that
//! is made runnable twice for one suspension, or while it runs, fails the model (invariant 1 of the
//! module `task`). Only under loom. Thread safety: `wake` from any thread.

use super::{Home, Scheduler, Task, TaskRef, set_current};
use crate::atomic::Ordering;
use crate::task::futex::Futex;

const SUSPENDED: u32 = 0;
const RUNNABLE: u32 = 1;

struct OneFiber {
    word: Futex,
}

impl Scheduler for OneFiber {
    fn wake(&self, _task: &'static Task) {
        let before = self.word.swap(RUNNABLE, Ordering::AcqRel);
        assert_eq!(before, SUSPENDED, "a task was made runnable twice");
        self.word.wake_one();
    }
    fn suspend(&self, task: &'static Task, deadline_nanos: Option<u64>) {
        if deadline_nanos.is_some() && task.expire() {
            return;
        }
        while self.word.load(Ordering::Acquire) == SUSPENDED {
            self.word.wait(SUSPENDED, None);
        }
        self.word.swap(SUSPENDED, Ordering::AcqRel);
    }
    fn yield_now(&self) {
        loom::thread::yield_now();
    }
    fn spawn(&self, _name: &str, _body: Box<dyn FnOnce() + Send>) -> TaskRef {
        panic!("models start their own threads");
    }
    fn spawns_tasks(&self) -> bool {
        false
    }
}

/// The kick word of a loop, for models of loops. The real one under another name.
pub struct Kick(crate::fiber::kick::Kick);

impl Kick {
    /// The word of a loop that runs.
    #[allow(clippy::new_without_default)] // As the real one.
    pub fn new() -> Self {
        Kick(crate::fiber::kick::Kick::new())
    }
    /// See the real one.
    pub fn notify(&self) -> bool {
        self.0.notify()
    }
    /// See the real one.
    pub fn begin_sleep(&self) -> bool {
        self.0.begin_sleep()
    }
    /// See the real one.
    pub fn end_sleep(&self) -> bool {
        self.0.end_sleep()
    }
}

/// Runs `f` on this thread as the fiber of its own scheduler.
pub fn as_fiber<R>(f: impl FnOnce() -> R) -> R {
    let word = Futex::new(SUSPENDED);
    let scheduler: &'static OneFiber = Box::leak(Box::new(OneFiber { word }));
    let task = Box::leak(Box::new(Task::new(Home::Fiber(scheduler))));
    let before = set_current(Some(task));
    let result = f();
    set_current(before);
    result
}
