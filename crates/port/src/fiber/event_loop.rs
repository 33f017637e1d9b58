//! The loop that runs fibers on one thread.
//!
//! A turn: take what other threads made runnable, wake the waits whose time has come, resume
//! fibers in the order in which they became runnable (at most [`TURN_RESUMES`] of them or for
//! [`TURN_NANOS`]), poll the reactor when that is due. With nothing to run the loop sleeps in the
//! reactor until the next deadline, a completion or a kick (`kick`).
//!
//! Records of loops live forever and are reused, because tasks point to them.
//!
//! Invariants cited by unsafe blocks:
//! 1. `own` and the cells of the loop's slots are touched by the thread that holds the loop (from
//!    `open` to `close`), and by no other. While fibers run, that is also the thread whose
//!    `RUNNING` names the loop.
//! 2. A slot in the queue or the inbox is resumed once for each time it was put there, by the
//!    loop's thread; a fiber does not touch `slot.fiber`, only its loop does.
//! 3. `kicker` is written by `open` and `close` while the kick word is not SLEEP and no kick is
//!    under way, and read only by the one waker that turned SLEEP into NOTIFIED.
//!
//! Thread safety: `wake`, `start` and the counters from anywhere, the rest by invariant 1.

use super::coroutine::{Fiber, Ran};
use super::idle_waiters::IdleWaiters;
use super::inbox::{Inbox, Queue};
use super::kick::Kick;
use super::overflow;
use super::quantum;
use super::runtime::Group;
use super::slot::{Body, Name, Slot};
use super::stack::{Given, Stack, StackPool};
use super::timers::{NO_TIMER, Timers};
use crate::io::{Kicker, Reactor, Wait};
use crate::task::{self, Scheduler, Task, TaskRef};
use crate::time;
use std::cell::{Cell, RefCell, UnsafeCell};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Fibers resumed before the loop checks timers, its inbox and completions again.
const TURN_RESUMES: u32 = 64;
/// The same limit as a time. The clock is read after every [`CLOCK_RESUMES`] resumes.
const TURN_NANOS: u64 = 50_000;
const CLOCK_RESUMES: u32 = 8;
/// How long a fiber may run before `maybe_yield` yields.
const SLICE_NANOS: u64 = 100_000;
/// Without assertions, one in this many ended fibers has its stack measured, because that is a
/// system call; with assertions all are measured.
const MEASURED: u64 = 64;
/// Records of ended fibers that a loop keeps without a lock.
const KEPT_SLOTS: usize = 256;

/// Counters that may be read from anywhere while the loop runs.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) turns: AtomicU64,
    pub(crate) switches: AtomicU64,
    pub(crate) kicks: AtomicU64,
    pub(crate) live: AtomicU64,
    /// The reactor's counters, this one and the next three.
    pub(crate) enters: AtomicU64,
    pub(crate) socket_calls: AtomicU64,
    pub(crate) requests: AtomicU64,
    pub(crate) inflight: AtomicU64,
    /// 1 while io_uring serves the loop.
    pub(crate) rings: AtomicU64,
    /// The deepest stack seen, and the name of its fiber.
    pub(crate) deepest: AtomicU64,
    pub(crate) deepest_name: Name,
}

/// Adds to a counter that only the calling thread changes.
#[inline]
fn count(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
}

/// See the head of this file.
pub(crate) struct Loop {
    kick: Kick,
    inbox: Inbox,
    kicker: UnsafeCell<Option<Kicker>>,
    /// Kicks done so far; the loop counts how many were announced.
    kicked: AtomicU64,
    /// Records of ended fibers, beyond those the loop keeps itself.
    free: Mutex<Vec<&'static Slot>>,
    /// All records of this loop; locked when one is made and for surveys.
    slots: Mutex<Vec<&'static Slot>>,
    pub(crate) counters: Counters,
    /// The slot that runs now, null between fibers; for reports.
    pub(crate) running: AtomicPtr<Slot>,
    own: Own,
}

/// State that only the loop's thread touches.
struct Own {
    queue: Queue,
    idle_waiters: IdleWaiters,
    timers: RefCell<Timers>,
    stacks: RefCell<StackPool>,
    /// New fibers that wait for a stack, because even the reserve is in use.
    stackless: Queue,
    free: RefCell<Vec<&'static Slot>>,
    reactor: RefCell<Option<std::rc::Rc<Reactor>>>,
    group: RefCell<Option<Arc<Group>>>,
    index: Cell<usize>,
    /// Fibers that have ended.
    ended: Cell<u64>,
    /// Kicks announced by wakers so far.
    kicks_due: Cell<u64>,
    /// The resume in which the slice began, and when.
    slice: Cell<(u64, u64)>,
    /// A fiber has used up its quantum: it is time to read the clock.
    tired: Cell<bool>,
}

// SAFETY: invariants 1 and 3.
unsafe impl Sync for Loop {}
// SAFETY: invariant 1: between `close` and `open` nothing in `own` belongs to a thread.
unsafe impl Send for Loop {}

thread_local! {
    /// The loop whose fibers this thread runs at this moment.
    static RUNNING: Cell<Option<&'static Loop>> = const { Cell::new(None) };
}

/// The loop whose fiber calls.
#[inline]
pub(crate) fn current() -> Option<&'static Loop> {
    RUNNING.get()
}

/// Records of unused loops.
static FREE_LOOPS: Mutex<Vec<&'static Loop>> = Mutex::new(Vec::new());

impl Loop {
    fn leak() -> &'static Loop {
        Box::leak(Box::new(Loop {
            kick: Kick::new(),
            inbox: Inbox::new(),
            kicker: UnsafeCell::new(None),
            kicked: AtomicU64::new(0),
            free: Mutex::new(Vec::new()),
            slots: Mutex::new(Vec::new()),
            counters: Counters::default(),
            running: AtomicPtr::new(std::ptr::null_mut()),
            own: Own {
                queue: Queue::new(),
                idle_waiters: IdleWaiters::new(),
                timers: RefCell::default(),
                stacks: RefCell::new(StackPool::new()),
                stackless: Queue::new(),
                free: RefCell::default(),
                reactor: RefCell::default(),
                group: RefCell::default(),
                index: Cell::new(0),
                ended: Cell::new(0),
                kicks_due: Cell::new(0),
                slice: Cell::new((0, 0)),
                tired: Cell::new(false),
            },
        }))
    }

    /// A record for a new loop, which the caller `open`s on the thread that will run it.
    pub(crate) fn claim() -> &'static Loop {
        let free = FREE_LOOPS.lock().unwrap_or_else(PoisonError::into_inner).pop();
        free.unwrap_or_else(Loop::leak)
    }

    /// Gives back a record that is not open.
    pub(crate) fn release(&'static self) {
        FREE_LOOPS.lock().unwrap_or_else(PoisonError::into_inner).push(self);
    }

    /// Makes the calling thread the loop's thread.
    ///
    /// # Errors
    /// No memory.
    pub(crate) fn open(
        &'static self,
        group: Arc<Group>,
        index: usize,
        reactor: Reactor,
    ) -> io::Result<()> {
        self.own.stacks.borrow_mut().open(group.stack_bytes)?;
        // SAFETY: invariant 3: no waker has seen this loop sleep since it was claimed.
        unsafe { *self.kicker.get() = Some(reactor.kicker()) };
        self.own.reactor.replace(Some(std::rc::Rc::new(reactor)));
        self.own.group.replace(Some(group));
        self.own.index.set(index);
        let counters = &self.counters;
        for counter in [
            &counters.turns,
            &counters.switches,
            &counters.kicks,
            &counters.enters,
            &counters.socket_calls,
            &counters.requests,
            &counters.inflight,
            &counters.deepest,
        ] {
            counter.store(0, Ordering::Relaxed);
        }
        counters.deepest_name.set("");
        counters.rings.store(u64::from(self.reactor().has_ring()), Ordering::Relaxed);
        overflow::prepare();
        Ok(())
    }

    /// Ends the loop's use by the calling thread; no fiber is alive and nothing is in flight.
    pub(crate) fn close(&'static self) {
        debug_assert_eq!(self.counters.live.load(Ordering::Relaxed), 0, "fibers are drained");
        // A waker may still be on its way to the kick it owes; the descriptor must outlive that.
        while self.kicked.load(Ordering::Acquire) != self.own.kicks_due.get() {
            std::thread::yield_now();
        }
        // SAFETY: invariant 3.
        unsafe { *self.kicker.get() = None };
        self.own.reactor.replace(None);
        self.own.group.replace(None);
        self.own.stacks.borrow_mut().close();
    }

    /// The runtime the loop belongs to. On its thread only.
    pub(crate) fn group(&self) -> Arc<Group> {
        Arc::clone(self.own.group.borrow().as_ref().expect("the loop is open"))
    }

    /// Which of its runtime's loops it is. On its thread only.
    pub(crate) fn index(&self) -> usize {
        self.own.index.get()
    }

    /// What the loop waits on. On its thread only.
    pub(crate) fn reactor(&self) -> std::rc::Rc<Reactor> {
        let reactor = self.own.reactor.borrow();
        std::rc::Rc::clone(reactor.as_ref().expect("the loop is open"))
    }

    /// Whether the loop sleeps, as seen from other threads.
    pub(crate) fn sleeps(&self) -> bool {
        self.kick.sleeps()
    }

    /// Whether the running fiber is the only one of the loop, so that blocking the thread delays no
    /// other. On the loop's thread only.
    pub(crate) fn has_one_fiber(&self) -> bool {
        self.counters.live.load(Ordering::Relaxed) == 1
    }

    /// The fiber that runs now; only a hint on threads other than the loop's.
    pub(crate) fn running_slot(&self) -> Option<&'static Slot> {
        // SAFETY: only `resume` writes it, from a `&'static Slot`.
        unsafe { self.running.load(Ordering::Relaxed).as_ref() }
    }

    /// Whether the calling thread runs this loop's fibers now.
    #[inline]
    fn is_here(&self) -> bool {
        RUNNING.get().is_some_and(|running| std::ptr::eq(running, self))
    }

    /// Makes a new fiber that will run `body`. From anywhere.
    pub(crate) fn start(&'static self, name: &str, body: Body) -> TaskRef {
        let here = self.is_here();
        let own = if here { self.own.free.borrow_mut().pop() } else { None };
        let free = || self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let slot = own.or_else(free).unwrap_or_else(|| self.new_slot());
        slot.task.reset();
        slot.name.set(name);
        slot.body.set(Some(body));
        self.counters.live.fetch_add(1, Ordering::Relaxed);
        self.wake(&slot.task);
        TaskRef(&slot.task)
    }

    #[cold]
    fn new_slot(&'static self) -> &'static Slot {
        let slot = Slot::leak(self);
        self.slots.lock().unwrap_or_else(PoisonError::into_inner).push(slot);
        slot
    }

    /// Calls `f` with the slot of each live fiber that has started. On the loop's thread only.
    pub(crate) fn for_each_live(&self, mut f: impl FnMut(&'static Slot)) {
        let slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let started = |slot: &&&Slot| slot.stack_low.load(Ordering::Relaxed) != 0;
        slots.iter().filter(started).for_each(|slot| f(slot));
    }

    /// Tells the loop that there is something new for it; one system call if it sleeps.
    pub(crate) fn notify(&self) {
        if self.kick.notify() {
            // SAFETY: invariant 3: this thread turned SLEEP into NOTIFIED.
            if let Some(kicker) = unsafe { &*self.kicker.get() } {
                kicker.kick();
            }
            self.kicked.fetch_add(1, Ordering::Release);
        }
    }

    /// Runs fibers until `done` says so; it is called when nothing is runnable and before each
    /// turn.
    pub(crate) fn drive(&'static self, done: &dyn Fn() -> bool) {
        let outer = RUNNING.replace(Some(self));
        let reactor = self.reactor();
        loop {
            count(&self.counters.turns, 1);
            self.inbox.take(|task| self.own.queue.push(task));
            self.expire_timers();
            self.run_some();
            let is_busy = !self.own.queue.is_empty();
            if (is_busy || !self.own.idle_waiters.is_empty()) && reactor.should_poll() {
                reactor.poll(Wait::No);
                self.publish(&reactor);
            }
            if self.wake_idle_waiters() || is_busy {
                continue;
            }
            if done() {
                break;
            }
            if !self.kick.begin_sleep() {
                continue;
            }
            let timer = self.own.timers.borrow().next();
            let deadline = match self.release_stacks() {
                Some(look) => Some(timer.map_or(look, |timer| timer.min(look))),
                None => timer,
            };
            self.publish(&reactor);
            reactor.poll(deadline.map_or(Wait::Forever, Wait::Until));
            if self.kick.end_sleep() {
                self.own.kicks_due.set(self.own.kicks_due.get() + 1);
                count(&self.counters.kicks, 1);
            }
        }
        RUNNING.set(outer);
    }

    /// Makes fibers that wait for idleness runnable if their time has come or no other fiber can
    /// run. Returns whether there is something to run.
    #[inline]
    fn wake_idle_waiters(&self) -> bool {
        let Own { queue, idle_waiters, .. } = &self.own;
        if !idle_waiters.is_empty() {
            self.inbox.take(|task| queue.push(task));
            if queue.is_empty() || idle_waiters.are_due() {
                idle_waiters.take(|task| queue.push(task));
            }
        }
        !queue.is_empty()
    }

    /// The running fiber waits until the loop has nothing else to do, up to a limit.
    pub(crate) fn wait_until_idle(&self, nanos: u64) {
        let Some((task, _)) = task::current_fiber() else { return };
        if std::thread::panicking() {
            return;
        }
        self.own.idle_waiters.push(task, time::monotonic_nanos().saturating_add(nanos));
        Slot::of(task).exit.suspend();
    }

    /// Gives back unused stacks; returns when to call this again.
    fn release_stacks(&self) -> Option<u64> {
        let mut stacks = self.own.stacks.borrow_mut();
        stacks.look_at()?;
        stacks.look(time::monotonic_nanos());
        stacks.look_at()
    }

    /// Stacks that are kept for future fibers. On the loop's thread only, or while no thread has
    /// borrowed it.
    #[cfg(test)]
    pub(crate) fn kept_stacks(&self) -> usize {
        self.own.stacks.borrow().free().len()
    }

    /// Frees all but `count` of the stacks kept for future fibers. On the loop's thread only.
    pub(crate) fn keep_stacks(&self, count: usize) {
        self.own.stacks.borrow_mut().keep(count);
    }

    /// Publishes the reactor's counters.
    fn publish(&self, reactor: &Reactor) {
        let stats = reactor.stats();
        self.counters.enters.store(stats.enters, Ordering::Relaxed);
        self.counters.socket_calls.store(reactor.socket_calls(), Ordering::Relaxed);
        self.counters.requests.store(stats.requests, Ordering::Relaxed);
        self.counters.inflight.store(reactor.inflight() as u64, Ordering::Relaxed);
        self.counters.rings.store(u64::from(reactor.has_ring()), Ordering::Relaxed);
    }

    fn expire_timers(&self) {
        let mut timers = self.own.timers.borrow_mut();
        if timers.next().is_none() {
            return;
        }
        let now = time::monotonic_nanos();
        while let Some(slot) = timers.pop_due(now) {
            // Otherwise an unpark came first and has queued the task.
            if slot.task.expire() {
                self.own.queue.push(&slot.task);
            }
        }
    }

    /// Resumes what is runnable, in order, within the limits of a turn.
    fn run_some(&'static self) {
        if self.own.queue.is_empty() {
            return;
        }
        let before = task::set_current(None);
        let start = time::monotonic_nanos();
        let look = self.own.stacks.borrow().look_at();
        if look.is_some_and(|look| look <= start) {
            self.own.stacks.borrow_mut().look(start);
        }
        let mut resumed = 0;
        while let Some(task) = self.own.queue.pop() {
            self.own.queue.load_ahead();
            self.resume(task);
            resumed += 1;
            let look = self.own.tired.replace(false) || resumed % CLOCK_RESUMES == 0;
            if resumed == TURN_RESUMES || (look && time::monotonic_nanos() - start >= TURN_NANOS) {
                break;
            }
        }
        task::set_current(before);
        self.running.store(std::ptr::null_mut(), Ordering::Relaxed);
    }

    #[inline]
    fn resume(&'static self, task: &'static Task) {
        let slot = Slot::of(task);
        self.running.store(std::ptr::from_ref(slot).cast_mut(), Ordering::Relaxed);
        count(&self.counters.switches, 1);
        task::set_current(Some(task));
        quantum::fill();
        // SAFETY: invariant 2.
        let fiber = unsafe { &mut *slot.fiber.get() };
        let ran = match fiber {
            Some(fiber) => fiber.resume(),
            None => self.first_resume(slot, fiber),
        };
        if ran == Ran::Ended {
            self.end(slot);
        }
    }

    /// Gives a new fiber its stack and runs it. Where there is no memory for one, the fiber drops
    /// its body on the loop's reserve: the waiter learns of it that way, and destructors may wait.
    fn first_resume(&self, slot: &'static Slot, fiber: &mut Option<Fiber>) -> Ran {
        let body = || slot.body.take().expect("a new fiber has a body");
        let given = self.own.stacks.borrow_mut().take();
        let (stack, body) = match given {
            Given::Whole(stack) => (stack, body()),
            Given::Reserve(stack) => (stack, unrun(&slot.task, body())),
            Given::Nothing => {
                self.own.stackless.push(&slot.task);
                return Ran::Suspended;
            }
        };
        slot.stack_usable.store(stack.usable(), Ordering::Relaxed);
        slot.stack_low.store(stack.low(), Ordering::Relaxed);
        fiber.insert(Fiber::with_exit(stack, &slot.exit, body)).resume()
    }

    /// Frees the resources of an ended fiber.
    fn end(&self, slot: &'static Slot) {
        // SAFETY: invariant 2; the fiber has ended.
        let fiber = unsafe { &mut *slot.fiber.get() }.take();
        slot.stack_low.store(0, Ordering::Relaxed);
        if let Some(fiber) = fiber {
            let stack = fiber.into_stack();
            let ended = self.own.ended.get();
            self.own.ended.set(ended + 1);
            if cfg!(debug_assertions) || ended.is_multiple_of(MEASURED) {
                self.measure(&stack, &slot.name);
            }
            self.own.stacks.borrow_mut().put(stack);
            // A stack is free again for one more fiber.
            if let Some(waiting) = self.own.stackless.pop() {
                self.own.queue.push(waiting);
            }
        }
        let mut free = self.own.free.borrow_mut();
        if free.len() < KEPT_SLOTS {
            free.push(slot);
        } else {
            self.free.lock().unwrap_or_else(PoisonError::into_inner).push(slot);
        }
        drop(free);
        self.counters.live.fetch_sub(1, Ordering::Relaxed);
        self.own.group.borrow().as_ref().expect("the loop is open").ended();
    }

    /// Notes how deep the stack of the ended fiber `name` has been.
    fn measure(&self, stack: &Stack, name: &Name) {
        let depth = stack.depth() as u64;
        if depth > self.counters.deepest.load(Ordering::Relaxed) {
            self.counters.deepest.store(depth, Ordering::Relaxed);
            self.counters.deepest_name.copy(name);
        }
    }

    /// Lets the other runnable fibers run once, since the running one has used up its quantum.
    pub(crate) fn yield_spent(&self) {
        self.own.tired.set(true);
        self.yield_now();
    }

    /// Yields if the running fiber has had its slice.
    pub(crate) fn maybe_yield(&self) {
        let resume = self.counters.switches.load(Ordering::Relaxed);
        let now = time::monotonic_nanos();
        match self.own.slice.get() {
            (same, began) if same == resume => {
                if now - began >= SLICE_NANOS {
                    self.yield_spent();
                }
            }
            _ => self.own.slice.set((resume, now)),
        }
    }
}

/// What a fiber without a stack does instead of running its body.
fn unrun(task: &'static Task, body: Body) -> Body {
    Box::new(move || {
        let locals = &task.locals;
        // The waiter learns that the body did not run; a destructor's panic is reported to no one.
        drop(catch_unwind(AssertUnwindSafe(|| drop(body))));
        drop(catch_unwind(AssertUnwindSafe(|| locals.clear())));
    })
}

impl Scheduler for Loop {
    #[inline]
    fn wake(&self, task: &'static Task) {
        if self.is_here() {
            self.own.queue.push(task);
        } else {
            self.inbox.push(task);
            self.notify();
        }
    }

    fn wake_many(&self, tasks: &mut dyn Iterator<Item = &'static Task>) {
        if self.is_here() {
            tasks.for_each(|task| self.own.queue.push(task));
            return;
        }
        let Some(last) = tasks.next() else { return };
        let mut first = last;
        for task in tasks {
            // The inbox has the newest in front.
            task.next.store(std::ptr::from_ref(first).cast_mut(), Ordering::Relaxed);
            first = task;
        }
        self.inbox.push_chain(first, last);
        self.notify();
    }

    fn suspend(&self, task: &'static Task, deadline_nanos: Option<u64>) {
        let slot = Slot::of(task);
        if let Some(deadline) = deadline_nanos {
            self.own.timers.borrow_mut().insert(deadline, slot);
        }
        slot.suspend();
        if slot.timer.get() != NO_TIMER {
            self.own.timers.borrow_mut().remove(slot);
        }
    }

    fn yield_now(&self) {
        let Some((task, _)) = task::current_fiber() else { return };
        if std::thread::panicking() {
            return;
        }
        self.own.queue.push(task);
        Slot::of(task).suspend();
    }

    fn spawn(&self, name: &str, body: Body) -> TaskRef {
        self.group().spawn(name, body)
    }

    fn spawn_here(&self, name: &str, body: Body) -> TaskRef {
        let group = self.group();
        group.spawn_on(self.index(), name, body)
    }

    fn spawns_tasks(&self) -> bool {
        self.own.group.borrow().as_ref().is_some_and(|group| group.spawn_as_fibers)
    }
}
