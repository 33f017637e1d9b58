//! Runs the fibers of a simulation, one at a time, until all have ended or none can continue.
//!
//! Invariants cited by unsafe blocks:
//! 1. A `Simulation` is used by one thread only: it is reached through that thread's `OWN`, and by
//!    `Scheduler` methods, which are called for tasks of this simulation on its own thread
//!    (asserted).
//! 2. A fiber that has not ended when `run` returns never runs again: it is leaked with its stack,
//!    so what its body borrowed is not used after the borrow.
//! 3. A thread that lends its closure to another one waits until that one has ended.
//!
//! Thread safety: see invariant 1.

use super::core::{Core, Place, Turn};
use super::{Failure, OWN, Options, RUNNING, Report};
use crate::fiber::coroutine::{Fiber, FiberExit, Ran};
use crate::fiber::quantum;
use crate::fiber::stack::Stack;
use crate::task::{self, Home, Scheduler, Task, TaskRef, WaitReason};
use crate::thread::panic_message;
use std::cell::{RefCell, RefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The stack of a simulated fiber; only what is touched takes memory.
const STACK_BYTES: usize = 1 << 20;

/// See the head of this file.
pub(super) struct Simulation {
    core: RefCell<Core>,
}

// SAFETY: invariant 1.
unsafe impl Sync for Simulation {}

/// Why the fibers came to rest.
enum Rest {
    /// All have ended.
    Done,
    /// The remaining fibers wait forever.
    Stuck,
    Steps,
    Time,
}

thread_local! {
    /// A simulation that has ended, to be used again.
    static SPARE: RefCell<Option<&'static Simulation>> = const { RefCell::new(None) };
}

/// Runs `f` as the first fiber of a simulation; returns when all fibers have ended or none can
/// continue. Fibers left over then stay in memory forever, because they cannot be unwound.
///
/// # Panics
/// When the caller is already inside a simulation.
pub fn run<T>(options: &Options, f: impl FnOnce() -> T) -> (Report, Result<T, Failure>) {
    crate::lane::watch_locks();
    assert!(OWN.get().is_none(), "a simulation inside a simulation");
    if !std::thread::panicking() {
        return run_here(options, f);
    }
    // A fiber left in the middle of unwinding has corrupted this thread's count of panics.
    let job = Moved(move || run_here(options, f));
    let answer = std::thread::scope(|scope| {
        let thread = scope.spawn(move || {
            let job = job;
            Moved((job.0)())
        });
        thread.join().map(|moved| moved.0)
    });
    answer.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// A value that another thread may use because the owner only waits for it.
struct Moved<T>(T);

// SAFETY: invariant 3.
unsafe impl<T> Send for Moved<T> {}

fn run_here<T>(options: &Options, f: impl FnOnce() -> T) -> (Report, Result<T, Failure>) {
    let simulation = SPARE
        .with(RefCell::take)
        .unwrap_or_else(|| Box::leak(Box::new(Simulation { core: RefCell::new(Core::new()) })));
    simulation.core().begin(options);
    RUNNING.fetch_add(1, Ordering::Relaxed);
    OWN.set(Some(simulation));
    let mut result = None;
    let main = || {
        let outcome = catch_unwind(AssertUnwindSafe(f));
        result = Some(outcome.map_err(|panic| panic_message(panic.as_ref()).to_string()));
        simulation.drop_values();
    };
    let body: Box<dyn FnOnce() + '_> = Box::new(main);
    // SAFETY: invariant 2. It runs on this thread only, so it need not be `Send`.
    let body: Box<dyn FnOnce() + Send> = unsafe { std::mem::transmute(body) };
    simulation.start("main", body);
    let rest = simulation.drive();
    OWN.set(None);
    RUNNING.fetch_sub(1, Ordering::Relaxed);
    let report = simulation.report(&rest);
    if let Rest::Done = rest {
        SPARE.with(|spare| *spare.borrow_mut() = Some(simulation));
    } else if let Some(Ok(value)) = result.take_if(|r| r.is_ok()) {
        // Dropping the value might wait for what only the leaked fibers can do.
        std::mem::forget(value);
    }
    let outcome = match (result, rest) {
        (Some(Err(panic)), _) => Err(Failure::Panic(panic)),
        (_, Rest::Stuck) => Err(Failure::Deadlock),
        (_, Rest::Steps) => Err(Failure::Steps),
        (_, Rest::Time) => Err(Failure::Time),
        (Some(Ok(value)), Rest::Done) => Ok(value),
        (None, Rest::Done) => unreachable!("the main fiber ended without a result"),
    };
    (report, outcome)
}

impl Simulation {
    /// The state; not to be held over a switch.
    #[inline]
    pub(super) fn core(&self) -> RefMut<'_, Core> {
        self.core.borrow_mut()
    }

    fn report(&self, rest: &Rest) -> Report {
        let mut core = self.core();
        let trace = std::mem::take(&mut core.trace);
        Report {
            steps: core.steps,
            switches: core.switches,
            virtual_nanos: core.elapsed(),
            trace_hash: core.trace_hash(),
            stuck: (!matches!(rest, Rest::Done)).then(|| core.stuck()),
            fibers: core.started,
            trace,
        }
    }

    /// Makes a fiber that will run `body`.
    fn start(&'static self, name: &str, body: Box<dyn FnOnce() + Send>) -> &'static Task {
        let mut core = self.core();
        let slot = core.free_slot().unwrap_or_else(|| {
            let task: &'static Task = Box::leak(Box::new(Task::new(Home::Fiber(self))));
            let slot = core.add_slot(task);
            task.set_data(std::ptr::without_provenance(slot as usize));
            slot
        });
        let task = core.slots[slot as usize].task;
        let body = Box::new(move || {
            body();
            let locals = AssertUnwindSafe(&task.locals);
            // A destructor's panic has been printed, and there is no one to pass it to.
            drop(catch_unwind(|| locals.clear()));
        });
        let stack = core.stacks.pop().unwrap_or_else(|| {
            Stack::new(STACK_BYTES).expect("the operating system gives memory for a stack")
        });
        core.start(slot, name, Fiber::new(stack, body));
        task
    }

    /// Lets the fibers run until they come to rest.
    fn drive(&'static self) -> Rest {
        loop {
            let turn = {
                let mut core = self.core();
                if core.steps_used_up() {
                    return Rest::Steps;
                }
                let turn = core.next_turn();
                if core.time_used_up() {
                    // The fiber was taken out of its slot: it is leaked like the others.
                    std::mem::forget(turn);
                    return Rest::Time;
                }
                turn
            };
            match turn {
                Some(turn) => self.take_turn(turn),
                None if self.core().alive == 0 => return Rest::Done,
                None => return Rest::Stuck,
            }
        }
    }

    fn take_turn(&self, turn: Turn) {
        let Turn { slot, mut fiber, task } = turn;
        let before = task::set_current(Some(task));
        quantum::fill();
        let ran = fiber.resume();
        task::set_current(before);
        let mut core = self.core();
        core.running = None;
        match ran {
            Ran::Suspended => core.slots[slot as usize].fiber = Some(fiber),
            Ran::Ended => core.ended(slot, fiber),
        }
    }

    /// The running fiber's slot, when there is one.
    fn running(&self) -> Option<u32> {
        self.core().running
    }

    /// Switches from the running fiber to the scheduler; its state says what it waits for.
    fn switch(&self, slot: u32) {
        let exit = self.core().slots[slot as usize].exit.take();
        let exit: FiberExit = exit.expect("a running fiber has a way back");
        exit.suspend();
        self.core().slots[slot as usize].exit = Some(exit);
    }

    /// A place where the running fiber may be interrupted.
    pub(super) fn point(&self) {
        let Some(slot) = self.running() else { return };
        let stop = {
            let mut core = self.core();
            let interrupted = core.interrupts() && !std::thread::panicking();
            if interrupted {
                core.make_runnable(slot);
            } else if core.steps_used_up() {
                // It is never resumed: the run ends.
                core.make_runnable(slot);
            }
            interrupted || core.steps_used_up()
        };
        if stop {
            self.switch(slot);
        }
    }

    /// The running fiber lets others run.
    pub(super) fn give_way(&self) {
        let Some(slot) = self.running() else { return };
        self.core().gives_way(slot);
        self.switch(slot);
    }

    /// The running fiber waits for `nanos`, even if unparked.
    pub(super) fn sleep(&self, nanos: u64, reason: &'static WaitReason) {
        let Some(slot) = self.running() else { return };
        {
            let mut core = self.core();
            let deadline = core.clock().saturating_add(nanos);
            core.wait(slot, Place::Sleeping(reason.0), Some(deadline));
        }
        self.switch(slot);
    }

    /// The value of the `Local` at `key`.
    pub(super) fn local<T: Send + Sync + 'static>(&self, key: usize, init: fn() -> T) -> Arc<T> {
        if let Some(value) = self.core().values.get(key) {
            return value;
        }
        let value = Arc::new(init());
        self.core().values.insert(key, Arc::clone(&value));
        value
    }

    /// Drops this simulation's values, which may suspend.
    fn drop_values(&self) {
        loop {
            let value = self.core().values.pop();
            if value.is_none() {
                return;
            }
        }
    }

    fn assert_own_thread(&self) {
        let own = OWN.get().is_some_and(|own| std::ptr::eq(own, self));
        assert!(own, "a task of a simulation was woken or suspended from outside");
    }
}

/// The slot of a task of a simulation: its record's data is this number.
fn slot_of(task: &'static Task) -> u32 {
    task.data().addr() as u32
}

impl Scheduler for Simulation {
    fn wake(&self, task: &'static Task) {
        self.assert_own_thread();
        let slot = slot_of(task);
        self.core().wake(slot);
    }

    fn suspend(&self, task: &'static Task, deadline_nanos: Option<u64>) {
        self.assert_own_thread();
        let slot = slot_of(task);
        self.core().wait(slot, Place::Parked, deadline_nanos);
        self.switch(slot);
    }

    fn yield_now(&self) {
        self.give_way();
    }

    fn spawns_tasks(&self) -> bool {
        true
    }

    fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> TaskRef {
        self.assert_own_thread();
        let task = OWN.get().expect("asserted").start(name, body);
        // The new fiber may run before its creator's next step.
        self.point();
        TaskRef(task)
    }

    fn is_simulation(&self) -> bool {
        true
    }
}
