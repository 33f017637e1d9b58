//! The state of one simulation: which fibers can run, what time it is, which choices were made.
//!
//! Nothing here switches or suspends; `scheduler` does. Invariants:
//! 1. A slot is in `runnable` exactly when its `place` says so, and at most once.
//! 2. A timer counts only while its slot's `wait` number equals the one it was made with.

use super::local::Values;
use super::{Deadlock, Options, Schedule, StuckTask, TraceStep};
use crate::fiber::coroutine::{Fiber, FiberExit};
use crate::fiber::stack::Stack;
use crate::task::Task;
use pumice_base::random::Rng;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The machine's clocks when a simulation starts: 2026-01-01, and an hour since boot.
const WALL_START_NANOS: u64 = 1_767_225_600_000_000_000;
const CLOCK_START_NANOS: u64 = 3_600_000_000_000;
/// Reading the clock takes this long.
const CLOCK_READ_NANOS: u64 = 25;
/// The moments of `PriorityChange` are drawn from `0..2^bits` steps with `bits` up to this.
const CHANGE_STEP_BITS: u32 = 18;
/// Once in this many turns priorities are ignored: the fiber that has waited longest runs. Two
/// fibers that wake each other would otherwise starve the one they both wait for.
const FAIR_TURN: u64 = 512;

/// Where a fiber is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// No fiber has the slot.
    Free,
    /// The task waits for its turn.
    Runnable,
    /// The task runs.
    Running,
    /// The task waits to be unparked, or for its deadline.
    Parked,
    /// The task waits for its deadline and nothing else, for this reason.
    Sleeping(&'static str),
}

/// One fiber. Slots and their records are used again.
pub(super) struct Slot {
    pub(super) task: &'static Task,
    pub(super) fiber: Option<Fiber>,
    pub(super) exit: Option<FiberExit>,
    pub(super) place: Place,
    name: String,
    number: u64,
    /// Counts suspensions; invariant 2.
    wait: u64,
    since: u64,
    priority: u64,
}

/// A deadline, a number that breaks ties, and the slot and wait it belongs to.
type Timer = Reverse<(u64, u64, u32, u64)>;

/// See the head of this file.
pub(super) struct Core {
    options: Options,
    /// Choices of the schedule; apart from `world`, so that draws of one do not shift the other.
    choices: Rng,
    /// Randomness that the simulated world asks for.
    pub(super) world: Rng,
    clock: u64,
    wall_offset: i64,
    pub(super) steps: u64,
    pub(super) switches: u64,
    hash: u64,
    pub(super) slots: Vec<Slot>,
    free: Vec<u32>,
    runnable: Vec<u32>,
    timers: BinaryHeap<Timer>,
    timer_count: u64,
    pub(super) running: Option<u32>,
    pub(super) started: u64,
    pub(super) alive: u64,
    pub(super) stacks: Vec<Stack>,
    /// Steps at which the running fiber falls below all others, the next one last.
    changes: Vec<u64>,
    /// Below all priorities given so far.
    lowest: u64,
    /// A fiber of higher priority than the running one became runnable.
    outranked: bool,
    pub(super) values: Values,
    /// Tasks of this name are refused this many times more; and how many were.
    pub(super) refusal: (&'static str, u64),
    pub(super) refused: u64,
    pub(super) trace: Vec<TraceStep>,
}

/// The body of a fiber that will run, and its way back.
pub(super) struct Turn {
    pub(super) slot: u32,
    pub(super) fiber: Fiber,
    pub(super) task: &'static Task,
}

impl Core {
    pub(super) fn new() -> Self {
        Core {
            options: Options::new(0),
            choices: Rng::new(0),
            world: Rng::new(0),
            clock: 0,
            wall_offset: 0,
            steps: 0,
            switches: 0,
            hash: 0,
            slots: Vec::new(),
            free: Vec::new(),
            runnable: Vec::new(),
            timers: BinaryHeap::new(),
            timer_count: 0,
            running: None,
            started: 0,
            alive: 0,
            stacks: Vec::new(),
            changes: Vec::new(),
            lowest: 0,
            outranked: false,
            values: Values::default(),
            refusal: ("", 0),
            refused: 0,
            trace: Vec::new(),
        }
    }

    /// Begins a run. Requires: no fiber is alive.
    pub(super) fn begin(&mut self, options: &Options) {
        let mut seeds = Rng::new(options.seed);
        self.choices = seeds.fork();
        self.world = seeds.fork();
        self.options = *options;
        self.clock = CLOCK_START_NANOS;
        self.wall_offset = 0;
        (self.steps, self.switches, self.started) = (0, 0, 0);
        (self.refusal, self.refused) = (("", 0), 0);
        self.hash = options.seed;
        self.timers.clear();
        self.timer_count = 0;
        // The order of free slots must not depend on the run before.
        self.free.clear();
        self.free.extend((0..self.slots.len() as u32).rev());
        self.lowest = u64::MAX / 2;
        self.outranked = false;
        self.trace = Vec::new();
        self.changes.clear();
        if let Schedule::PriorityChange { depth } = options.schedule {
            let changes = (0..depth).map(|_| self.choices.skewed(CHANGE_STEP_BITS));
            self.changes.extend(changes);
            self.changes.sort_unstable_by_key(|step| Reverse(*step));
        }
    }

    /// The virtual time since the start.
    pub(super) fn elapsed(&self) -> u64 {
        self.clock - CLOCK_START_NANOS
    }
    pub(super) fn clock(&self) -> u64 {
        self.clock
    }
    pub(super) fn read_clock(&mut self) -> u64 {
        self.clock += CLOCK_READ_NANOS;
        self.clock
    }
    pub(super) fn wall_nanos(&self) -> u64 {
        (WALL_START_NANOS + self.elapsed()).saturating_add_signed(self.wall_offset)
    }
    pub(super) fn jump_wall_clock(&mut self, nanos: i64) {
        self.wall_offset = self.wall_offset.saturating_add(nanos);
    }
    pub(super) fn running_number(&self) -> u64 {
        self.running.map_or(0, |slot| self.slots[slot as usize].number)
    }
    pub(super) fn trace_hash(&self) -> u64 {
        self.hash
    }

    fn mix(&mut self, value: u64) {
        let mixed = (self.hash ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.hash = mixed ^ (mixed >> 29);
    }

    pub(super) fn note(&mut self, value: u64) {
        self.mix(value);
        if self.options.trace {
            let (nanos, fiber) = (self.elapsed(), self.running_number());
            self.trace.push(TraceStep { nanos, fiber, note: value });
        }
    }

    /// Whether the run has used up its steps.
    pub(super) fn steps_used_up(&self) -> bool {
        self.steps > self.options.max_steps
    }
    pub(super) fn time_used_up(&self) -> bool {
        self.elapsed() > self.options.max_virtual_nanos
    }

    /// A slot without a fiber.
    pub(super) fn free_slot(&mut self) -> Option<u32> {
        self.free.pop()
    }

    /// Puts a new fiber into `slot`; it becomes runnable.
    pub(super) fn start(&mut self, slot: u32, name: &str, fiber: Fiber) {
        self.started += 1;
        self.alive += 1;
        // Random, and never below what a change of priority gives.
        let priority = u64::MAX / 2 + (self.choices.next_u64() >> 1);
        let started = self.started;
        let s = &mut self.slots[slot as usize];
        s.task.reset();
        s.name.clear();
        s.name.push_str(name);
        s.number = started;
        s.priority = priority;
        s.exit = Some(fiber.exit());
        s.fiber = Some(fiber);
        self.make_runnable(slot);
    }

    /// Adds a slot for the record `task`.
    pub(super) fn add_slot(&mut self, task: &'static Task) -> u32 {
        self.slots.push(Slot {
            task,
            fiber: None,
            exit: None,
            place: Place::Free,
            name: String::new(),
            number: 0,
            wait: 0,
            since: 0,
            priority: 0,
        });
        (self.slots.len() - 1) as u32
    }

    /// Takes back the slot of a fiber that has ended.
    pub(super) fn ended(&mut self, slot: u32, fiber: Fiber) {
        self.stacks.push(fiber.into_stack());
        let s = &mut self.slots[slot as usize];
        s.exit = None;
        s.place = Place::Free;
        s.wait += 1;
        self.alive -= 1;
        self.free.push(slot);
    }

    pub(super) fn make_runnable(&mut self, slot: u32) {
        let s = &mut self.slots[slot as usize];
        s.place = Place::Runnable;
        s.wait += 1;
        s.since = self.clock;
        let priority = s.priority;
        self.runnable.push(slot);
        if let Some(running) = self.running {
            self.outranked |= priority > self.slots[running as usize].priority;
        }
    }

    /// A wake-up for `slot`, whose task was moved out of PARKED. A fiber that has not switched away
    /// yet, or sleeps, notices it by itself.
    pub(super) fn wake(&mut self, slot: u32) {
        if self.slots[slot as usize].place == Place::Parked {
            self.make_runnable(slot);
        }
    }

    /// The running fiber is about to wait in `place`, at most until `deadline`.
    pub(super) fn wait(&mut self, slot: u32, place: Place, deadline: Option<u64>) {
        let s = &mut self.slots[slot as usize];
        s.place = place;
        s.wait += 1;
        s.since = self.clock;
        if let Some(deadline) = deadline {
            self.timer_count += 1;
            self.timers.push(Reverse((deadline, self.timer_count, slot, s.wait)));
        }
    }

    /// Counts a passed point; returns whether the running fiber is interrupted there.
    pub(super) fn interrupts(&mut self) -> bool {
        self.steps += 1;
        match self.options.schedule {
            Schedule::Uniform => {
                let chance = u64::from(self.options.preempt_per_mille);
                self.choices.uniform(1000) < chance && !self.runnable.is_empty()
            }
            Schedule::PriorityChange { .. } => {
                self.change_priority();
                std::mem::take(&mut self.outranked)
            }
        }
    }

    /// Lowers the running fiber when its step has come.
    fn change_priority(&mut self) {
        while self.changes.last().is_some_and(|step| *step <= self.steps) {
            self.changes.pop();
            if let Some(slot) = self.running {
                self.lower(slot);
            }
        }
    }

    /// Puts a fiber below all others.
    fn lower(&mut self, slot: u32) {
        self.lowest -= 1;
        self.slots[slot as usize].priority = self.lowest;
        self.outranked = true;
    }

    /// The running fiber gives way: it stays runnable, below all others in schedules with
    /// priorities.
    pub(super) fn gives_way(&mut self, slot: u32) {
        if let Schedule::PriorityChange { .. } = self.options.schedule {
            self.lower(slot);
        }
        self.make_runnable(slot);
    }

    /// Chooses the fiber that runs next and lets time pass; `None` when none can run.
    pub(super) fn next_turn(&mut self) -> Option<Turn> {
        self.fire_due();
        if self.runnable.is_empty() {
            self.skip_to_next_timer();
        }
        let at = self.choose()?;
        let slot = self.runnable.swap_remove(at);
        self.steps += 1;
        self.switches += 1;
        self.clock += 300 + (self.choices.next_u64() & 255);
        self.running = Some(slot);
        self.outranked = false;
        let number = self.slots[slot as usize].number;
        self.mix(number ^ (self.clock << 16));
        if self.options.trace {
            let nanos = self.elapsed();
            self.trace.push(TraceStep { nanos, fiber: number, note: 0 });
        }
        if let Schedule::PriorityChange { .. } = self.options.schedule {
            self.change_priority();
        }
        let s = &mut self.slots[slot as usize];
        s.place = Place::Running;
        let fiber = s.fiber.take().expect("a runnable slot has a fiber");
        Some(Turn { slot, fiber, task: s.task })
    }

    fn choose(&mut self) -> Option<usize> {
        match (self.runnable.len(), self.options.schedule) {
            (0, _) => None,
            (n, Schedule::Uniform) => Some(self.choices.uniform(n as u64) as usize),
            (n, Schedule::PriorityChange { .. }) if self.switches % FAIR_TURN == FAIR_TURN - 1 => {
                (0..n).min_by_key(|at| self.slots[self.runnable[*at] as usize].since)
            }
            (n, Schedule::PriorityChange { .. }) => {
                let priority = |at: &usize| self.slots[self.runnable[*at] as usize].priority;
                (0..n).max_by_key(priority)
            }
        }
    }

    /// Makes the fibers runnable whose deadline has passed.
    fn fire_due(&mut self) {
        while let Some(Reverse((deadline, ..))) = self.timers.peek()
            && *deadline <= self.clock
        {
            self.fire_first();
        }
    }

    fn fire_first(&mut self) {
        let Some(Reverse((deadline, _, slot, wait))) = self.timers.pop() else { return };
        let s = &self.slots[slot as usize];
        if s.wait != wait {
            return;
        }
        self.clock = self.clock.max(deadline);
        let runs = match s.place {
            Place::Parked => s.task.expire(),
            Place::Sleeping(_) => true,
            Place::Free | Place::Runnable | Place::Running => false,
        };
        if runs {
            self.make_runnable(slot);
        }
    }

    /// Nothing can run: time jumps to the next deadline that counts.
    fn skip_to_next_timer(&mut self) {
        while self.runnable.is_empty() && !self.timers.is_empty() {
            self.fire_first();
        }
        self.fire_due();
    }

    /// Every fiber that is left.
    pub(super) fn stuck(&self) -> Deadlock {
        let mut left: Vec<&Slot> = self.slots.iter().filter(|s| s.place != Place::Free).collect();
        left.sort_by_key(|s| s.number);
        let task = |s: &&Slot| StuckTask {
            name: format!("{}#{}", s.name, s.number),
            reason: match s.place {
                Place::Parked => s.task.reason(),
                Place::Sleeping(reason) => reason,
                _ => "runnable",
            },
            since_nanos: s.since - CLOCK_START_NANOS,
        };
        Deadlock { tasks: left.iter().map(task).collect() }
    }
}
