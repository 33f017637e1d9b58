//! Deterministic simulation: fibers on one thread, a virtual clock, a seeded run queue.
//!
//! Inside [`run`] every task is a fiber of one scheduler. Which fiber runs next, how time passes,
//! which random bytes are drawn and how long devices take follow from the seed alone, so a run can
//! be repeated exactly; [`Report::trace_hash`] covers every choice. A run is stuck when no fiber
//! can run and no timer is set; that is exact, not a watchdog's guess.
//!
//! Thread safety: simulations on different threads are independent of each other. A simulation
//! belongs to the thread that called `run`; other threads must not wake its tasks.
//!
//! It does not find data races: one fiber runs at a time, and every access is sequentially
//! consistent. Code that never suspends and never passes a [`point`] cannot be interrupted.

mod core;
mod local;
mod scheduler;

pub use local::Local;
pub use scheduler::run;

use scheduler::Simulation;
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How the next fiber is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// Each runnable fiber with equal probability.
    Uniform,
    /// Random fixed priorities; the highest runs, and at `depth` moments of the run the running
    /// fiber falls below all others. Finds orderings that need few, but unlikely, interruptions.
    /// Now and then the one that has waited longest runs, so that no fiber starves forever.
    PriorityChange {
        /// How many such moments there are.
        depth: u32,
    },
}

/// What decides a run.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// All choices follow from it.
    pub seed: u64,
    /// How the next fiber is chosen.
    pub schedule: Schedule,
    /// At how many points in 1000 a fiber is interrupted (only `Schedule::Uniform`).
    pub preempt_per_mille: u32,
    /// The run fails after this many steps: resumed fibers and points passed.
    pub max_steps: u64,
    /// The run fails after this much virtual time, in nanoseconds.
    pub max_virtual_nanos: u64,
    /// Keep the list of steps in the report.
    pub trace: bool,
}

impl Options {
    /// Default limits and a schedule drawn from the seed.
    pub fn new(seed: u64) -> Self {
        Options {
            seed,
            schedule: Schedule::Uniform,
            preempt_per_mille: 20,
            max_steps: 20_000_000,
            max_virtual_nanos: 24 * 3600 * 1_000_000_000,
            trace: false,
        }
    }
}

/// One fiber of a run that could not end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StuckTask {
    /// The task's name and number.
    pub name: String,
    /// What it waits for; "runnable" when it does not wait.
    pub reason: &'static str,
    /// Since when, in virtual nanoseconds.
    pub since_nanos: u64,
}

/// Every fiber there was when a run could not end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deadlock {
    /// In the order they were started.
    pub tasks: Vec<StuckTask>,
}

impl std::fmt::Display for Deadlock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for task in &self.tasks {
            let StuckTask { name, reason, since_nanos } = task;
            writeln!(f, "  {name} waits for `{reason}` since {since_nanos} ns")?;
        }
        Ok(())
    }
}

/// One step of a run, when [`Options::trace`] was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceStep {
    /// The virtual clock.
    pub nanos: u64,
    /// The number of the fiber, counted from 1.
    pub fiber: u64,
    /// 0 for a resumed fiber, otherwise the value given to [`note`].
    pub note: u64,
}

/// What a run did.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Resumed fibers and points passed.
    pub steps: u64,
    /// Resumed fibers.
    pub switches: u64,
    /// How far the virtual clock went.
    pub virtual_nanos: u64,
    /// All choices and all notes, in order.
    pub trace_hash: u64,
    /// The fibers that were left when the run could not end.
    pub stuck: Option<Deadlock>,
    /// How many fibers there were.
    pub fibers: u64,
    /// The steps, when requested.
    pub trace: Vec<TraceStep>,
}

/// Why a run has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Nothing could run and no timer was set; see [`Report::stuck`].
    Deadlock,
    /// The body panicked with this text.
    Panic(String),
    /// More steps than allowed.
    Steps,
    /// More virtual time than allowed.
    Time,
}

/// Running simulations, on any thread.
static RUNNING: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The simulation that this thread runs.
    static OWN: Cell<Option<&'static Simulation>> = const { Cell::new(None) };
}

/// The simulation of the calling task.
#[inline]
fn own() -> Option<&'static Simulation> {
    if RUNNING.load(Ordering::Relaxed) == 0 { None } else { own_slow() }
}

#[cold]
#[inline(never)]
fn own_slow() -> Option<&'static Simulation> {
    OWN.try_with(Cell::get).unwrap_or(None)
}

/// Whether the caller is inside a simulation.
#[inline]
pub fn is_running() -> bool {
    own().is_some()
}

/// A place where the simulation may let another task run. Outside a simulation: nothing.
#[inline]
pub fn point() {
    if RUNNING.load(Ordering::Relaxed) != 0 {
        point_slow();
    }
}

#[cold]
#[inline(never)]
fn point_slow() {
    if let Some(simulation) = own_slow() {
        simulation.point();
    }
}

/// Mixes `value` into the trace hash: what happened, to compare two runs of one seed.
#[inline]
pub fn note(value: u64) {
    if let Some(simulation) = own() {
        simulation.core().note(value);
    }
}

/// A seeded random number; 0 outside a simulation.
pub fn random() -> u64 {
    own().map_or(0, |simulation| simulation.core().world.next_u64())
}

/// A seeded random number in `0..n`; 0 outside a simulation or when `n` is 0.
pub fn random_below(n: u64) -> u64 {
    own().map_or(0, |simulation| simulation.core().world.uniform(n))
}

/// Suspends the task for `nanos` of virtual time, ignoring wake-ups: it waits for a simulated
/// device. Outside a simulation: nothing.
pub fn device_wait(nanos: u64) {
    if let Some(simulation) = own() {
        simulation.sleep(nanos, &DEVICE);
    }
}

static DEVICE: crate::task::WaitReason = crate::task::WaitReason("device");

/// Moves the wall clock of the simulation by `nanos`; the monotonic clock is unaffected.
pub fn jump_wall_clock(nanos: i64) {
    if let Some(simulation) = own() {
        simulation.core().jump_wall_clock(nanos);
    }
}

/// Makes the next `times` starts of tasks called `name` fail, as when the system refuses a thread.
/// Outside a simulation: nothing.
pub fn refuse_tasks(name: &'static str, times: u64) {
    if let Some(simulation) = own() {
        simulation.core().refusal = (name, times);
    }
}

/// How many starts have failed because of [`refuse_tasks`].
pub fn refused_tasks() -> u64 {
    own().map_or(0, |simulation| simulation.core().refused)
}

/// Whether a task of that name is refused now.
pub(crate) fn refuses(name: &str) -> bool {
    let Some(simulation) = own() else { return false };
    let mut core = simulation.core();
    let refused = core.refusal.0 == name && core.refusal.1 > 0;
    if refused {
        core.refusal.1 -= 1;
        core.refused += 1;
    }
    refused
}

/// The virtual monotonic clock; reading it takes some virtual time, so that polling ends.
#[inline]
pub(crate) fn clock_nanos() -> Option<u64> {
    own().map(|simulation| simulation.core().read_clock())
}

/// The virtual wall clock in nanoseconds since 1970.
#[inline]
pub(crate) fn wall_nanos() -> Option<u64> {
    own().map(|simulation| simulation.core().wall_nanos())
}

/// The number of the running fiber, from 1 in the order of their starts.
#[inline]
pub(crate) fn fiber_number() -> Option<u64> {
    own().map(|simulation| simulation.core().running_number())
}

/// Fills `buf` with seeded bytes; false outside a simulation.
pub(crate) fn fill_random(buf: &mut [u8]) -> bool {
    own().is_some_and(|simulation| {
        simulation.core().world.fill(buf);
        true
    })
}

/// Lets other fibers run; false outside a simulation.
pub(crate) fn yield_now() -> bool {
    own().is_some_and(|simulation| {
        simulation.give_way();
        true
    })
}

#[cfg(test)]
mod tests;
