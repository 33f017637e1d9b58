//! Blocks of a table on their way from one *emitter* to the file, compressed by the emitter or by
//! helpers.
//!
//! The emitter fills slots in order; each block is compressed by any participant and written in
//! block order by one thread at a time. A ring is the protocol only: one 64-bit word (`state`) that
//! says where every block is. The caller owns the slots; a change of the word hands a slot from one
//! thread to the next, and everything written to it before is visible to its next owner.
//!
//! | thread | takes, in this order | else |
//! |---|---|---|
//! | emitter | a free slot to fill; a block to compress; the write if not taken | waits |
//! | helper | the write if not taken; a block to compress | leaves |
//!
//! When no helper is attached the emitter writes what is ready before it compresses more.
//!
//! Invariants:
//! 1. Liveness never depends on a helper that might come: the emitter waits only while an attached
//!    helper holds the first unwritten block, and no block is left for the emitter. The thread that
//!    ends the step that changes this wakes it, in the same change of the word.
//! 2. A helper is attached exactly while it holds a step, and leaves by the change of the word that
//!    gives the step back, so a helper that is not running is never waited for.
//! 3. After [`Ring::drain`] has returned `None`, only the caller touches a slot or the file, also
//!    after an abort.
//! 4. `waiter` is written by the emitter before the change that sets `waiting`, and read by the
//!    thread that clears it; task records live forever.
//!
//! Thread safety: `start`, `emitted`, `drain`, `wants_helper` by one task at a time, the emitter;
//! everything else from anywhere.
//!
//! ```text
//! emitter                                       helper (Assist::assist)
//! task = ring.start()                           ring.help(max, helpers::should_leave, |task| {
//! per block, while task is not Emit:                compress, write as task says;
//!     compress, write as task says                  on an error: note it, ring.abort()
//!     task = ring.emitted(task)?                })
//! fill the slot; task = ring.emitted(task)?
//! if ring.wants_helper() { offer.call() }
//! at the end, also after an abort:
//! task = ring.drain(Some(Emit) or None) and again, until None
//! ```
//!
//! It does not call helpers (the module `helpers` does, when [`Ring::wants_helper`] says so), and
//! it knows neither blocks nor errors: a participant that fails records why and calls
//! [`Ring::abort`]. Models: `models/ring.rs`. See docs/port/ring.md.

mod state;
mod stats;
mod watchdog;

use crate::atomic::{AtomicPtr, AtomicU64, Ordering};
use crate::sim;
use crate::sync::planted::{Planted, planted};
use crate::task::{self, TaskRef, WaitReason};

use state::{Pick, State};
pub use stats::RingStats;
use stats::{Counters, Pace};
use std::sync::atomic::{AtomicBool, AtomicU64 as Count, Ordering::Relaxed};
use watchdog::Watchdog;

/// The most slots a ring can have.
pub const MAX_SLOTS: usize = 32;
/// The most helpers a ring can have at one time.
pub const MAX_HELPERS: usize = 31;

static RING: WaitReason = WaitReason("a helper's step in a ring of blocks");

/// A step, with the number of its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Fill the slot. The emitter's only.
    Emit(usize),
    /// Compress the slot's block.
    Compress(usize),
    /// Write the slot's block, which is compressed.
    Write(usize),
    /// Compress the block and write it: it is the first that is not written.
    CompressAndWrite(usize),
}

/// Keeps its content on cache lines of its own; two, since they are fetched in pairs.
#[repr(align(128))]
struct Apart<T>(T);

/// See the head of this module.
pub struct Ring {
    word: Apart<AtomicU64>,
    /// Invariant 4.
    waiter: AtomicPtr<task::Task>,
    visits: Count,
    slots: usize,
    own: Apart<(Counters, Pace, AtomicBool)>,
}

impl Ring {
    /// An empty ring of `slots` slots.
    ///
    /// # Panics
    /// Unless `slots` is a power of two from 2 to [`MAX_SLOTS`].
    pub fn new(slots: usize) -> Ring {
        assert!(slots.is_power_of_two() && (2..=MAX_SLOTS).contains(&slots), "{slots} slots");
        let own = (Counters::default(), Pace::new(slots), false.into());
        Ring {
            word: Apart(AtomicU64::new(State::EMPTY.0)),
            waiter: AtomicPtr::new(std::ptr::null_mut()),
            visits: 0.into(),
            slots,
            own: Apart(own),
        }
    }

    /// How many slots there are.
    pub fn slots(&self) -> usize {
        self.slots
    }

    #[inline]
    fn load(&self) -> State {
        State(self.word.0.load(Ordering::Acquire))
    }

    /// Changes the word from `from` to `to`; on failure returns its current value. A success is an
    /// acquire and a release: it hands slots over in both directions.
    #[inline]
    fn change(&self, from: State, to: State) -> Result<(), State> {
        let relaxed = planted(Planted::RingRelaxed);
        let order = if relaxed { Ordering::Relaxed } else { Ordering::AcqRel };
        let word = &self.word.0;
        word.compare_exchange_weak(from.0, to.0, order, Ordering::Acquire)
            .map(|_| ())
            .map_err(State)
    }

    /// The emitter's first step.
    pub fn start(&self) -> Task {
        Task::Emit(0)
    }

    /// The emitter has done `done`: its next step, or `None` when the ring was aborted. Suspends
    /// when the ring is full and every block is held by helpers.
    #[inline]
    pub fn emitted(&self, done: Task) -> Option<Task> {
        self.emitter_step(Some(done), false)
    }

    /// The emitter will fill no more slots: returns the next step that is left for it, or `None`
    /// when everything is written or, after an abort, when every helper has left. `done` is the
    /// step it has done; an `Emit` whose slot stays empty is not passed. Suspends.
    ///
    /// A ring that is abandoned, for whatever reason, is drained first (invariant 3).
    pub fn drain(&self, done: Option<Task>) -> Option<Task> {
        self.emitter_step(done, true)
    }

    fn emitter_step(&self, mut done: Option<Task>, closing: bool) -> Option<Task> {
        sim::point();
        let mut state = self.load();
        loop {
            let (next, pick) = self.emitter_draft(state, done, closing);
            if pick == Pick::Wait {
                let task = std::ptr::from_ref(task::current().0).cast_mut();
                self.waiter.store(task, Ordering::Relaxed);
            }
            if let Err(now) = self.change(state, next) {
                state = now;
                continue;
            }
            self.committed(done.take(), next, pick);
            match pick {
                Pick::Do(task) => return Some(task),
                Pick::Finished => return None,
                Pick::Wait => state = self.wait(next),
            }
        }
    }

    /// The emitter's transition from `state`: the next word, and what it does then.
    #[inline]
    fn emitter_draft(&self, state: State, done: Option<Task>, closing: bool) -> (State, Pick) {
        if state.is_aborted() {
            // Emitting ends at once; draining, when the last helper has left.
            let stays = closing && state.attached() > 0;
            return if stays { (state.waiting(), Pick::Wait) } else { (state, Pick::Finished) };
        }
        let mut draft = done.map_or(state, |task| state.retire(task));
        // RocksDB's mistake of PR 13959: the block that was just emitted is not considered.
        let seen = if planted(Planted::RingOldEmit) { state } else { draft };
        if closing {
            draft = draft.closed();
        }
        let (next, pick) = draft.pick_for_emitter(self.slots, seen.backlog());
        (if pick == Pick::Wait { next.waiting() } else { next }, pick)
    }

    /// Waits until the mark is cleared; returns the word then.
    #[cold]
    fn wait(&self, mut state: State) -> State {
        assert!(
            state.may_wait(self.slots),
            "the emitter waits, and no thread could wake it: {state}"
        );
        let start = clock_nanos();
        let own = &self.own.0.0;
        own.waits.add(1);
        let mut watchdog = Watchdog::new(state);
        while state.is_waiting() {
            let notified = task::park_until(&RING, watchdog.deadline());
            state = self.load();
            if !notified {
                watchdog.check(state, self.slots);
            }
        }
        own.idle_nanos.add(clock_nanos() - start);
        state
    }

    /// Counts what a change by the emitter has done.
    #[inline]
    fn committed(&self, done: Option<Task>, next: State, pick: Pick) {
        let (own, pace, call) = &self.own.0;
        match done {
            Some(Task::Emit(_)) => {
                own.emitted.add(1);
                if pace.emitted(next.backlog(), next.attached()) {
                    own.calls.add(1);
                    call.store(true, Relaxed);
                }
                if !matches!(pick, Pick::Do(Task::Emit(_))) && !next.is_closed() {
                    own.full_begins(clock_nanos);
                }
            }
            Some(Task::Compress(_)) => own.compressed.add(1),
            Some(Task::Write(_)) => own.written.add(1),
            Some(Task::CompressAndWrite(_)) => {
                own.compressed.add(1);
                own.written.add(1);
            }
            None => {}
        }
        if matches!(pick, Pick::Do(Task::Emit(_)) | Pick::Finished) {
            own.full_ends(clock_nanos);
        }
    }

    /// Whether the emitter should now call one more helper (`Offer::call`). Call it after each
    /// [`Ring::emitted`]; returns true once per helper wanted.
    #[inline]
    pub fn wants_helper(&self) -> bool {
        let call = &self.own.0.2;
        let wants = call.load(Relaxed);
        if wants {
            call.store(false, Relaxed);
        }
        wants
    }

    /// Blocks emitted and not yet taken; may be stale when it is returned.
    pub fn backlog(&self) -> usize {
        self.load().backlog()
    }
    /// Helpers that hold a step; may be stale when it is returned.
    pub fn attached(&self) -> usize {
        self.load().attached()
    }

    /// Attaches a helper: its first step, or `None` when there is nothing to do, `max_helpers` are
    /// attached already, or the ring was aborted. A helper that got a step comes back with
    /// [`Ring::next`], [`Ring::leave`] or [`Ring::fail`]; [`Ring::help`] ensures that.
    pub fn attach(&self, max_helpers: usize) -> Option<Task> {
        let most = max_helpers.min(MAX_HELPERS);
        sim::point();
        let mut state = self.load();
        loop {
            let (next, task) = self.attach_draft(state, most)?;
            match self.change(state, next) {
                Ok(()) => {
                    self.visits.fetch_add(1, Relaxed);
                    return Some(task);
                }
                Err(now) => state = now,
            }
        }
    }

    /// The transition from `state` of a helper that attaches.
    fn attach_draft(&self, state: State, most: usize) -> Option<(State, Task)> {
        if state.is_aborted() || state.attached() >= most {
            return None;
        }
        let (next, task) = state.pick_for_helper(self.slots)?;
        Some((next.attach(), task))
    }

    /// An attached helper has done `done`: its next step, or `None`: nothing to do now, or aborted,
    /// and the helper is no longer attached. Never suspends.
    #[inline]
    pub fn next(&self, done: Task) -> Option<Task> {
        self.helper_step(done, true)
    }

    /// An attached helper has done `done` and leaves, though there may be more to do.
    pub fn leave(&self, done: Task) {
        let none = self.helper_step(done, false);
        debug_assert_eq!(none, None);
    }

    /// An attached helper leaves without having done its step: the ring is aborted.
    pub fn fail(&self) {
        sim::point();
        let mut state = self.load();
        while let Err(now) = self.change(state, state.aborted().detach().awake()) {
            state = now;
        }
        if state.is_waiting() {
            self.wake_emitter();
        }
    }

    /// A helper's whole visit: attaches, does every step it is given by `work`, until there is
    /// nothing to do or `leave`, called between two steps, returns true. A panic in `work` aborts
    /// the ring and continues.
    pub fn help(&self, max_helpers: usize, leave: impl Fn() -> bool, mut work: impl FnMut(Task)) {
        let mut given = self.attach(max_helpers);
        while let Some(task) = given {
            let holds = FailsOnPanic(self);
            work(task);
            std::mem::forget(holds);
            given = if leave() { self.helper_step(task, false) } else { self.next(task) };
        }
    }

    fn helper_step(&self, done: Task, stays: bool) -> Option<Task> {
        sim::point();
        let mut state = self.load();
        loop {
            let (next, task) = self.helper_draft(state, done, stays);
            match self.change(state, next) {
                Ok(()) => {
                    if state.is_waiting() && !next.is_waiting() {
                        self.wake_emitter();
                    }
                    return task;
                }
                Err(now) => state = now,
            }
        }
    }

    /// An attached helper's transition from `state`. When the emitter waits and must be woken after
    /// this, the mark is cleared.
    #[inline]
    fn helper_draft(&self, state: State, done: Task, stays: bool) -> (State, Option<Task>) {
        let retired = if state.is_aborted() { state } else { state.retire(done) };
        let (next, task) = match retired.pick_for_helper(self.slots) {
            Some((next, task)) if stays && !state.is_aborted() => (next, Some(task)),
            _ => (retired.detach(), None),
        };
        let seen = if planted(Planted::RingWakesLate) { state } else { next };
        let wakes = next.is_waiting() && seen.should_wake(self.slots);
        (if wakes { next.awake() } else { next }, task)
    }

    /// Wakes the emitter. Called by the thread that has cleared its mark.
    #[cold]
    fn wake_emitter(&self) {
        let waiter = self.waiter.load(Ordering::Relaxed);
        // SAFETY: invariant 4.
        let waiter = unsafe { waiter.cast_const().as_ref() };
        TaskRef(waiter.expect("the mark is set after the waiter")).unpark();
    }

    /// Ends the ring: from now on no step is given out, except that the emitter still drains. True
    /// for the first call. Never suspends.
    pub fn abort(&self) -> bool {
        sim::point();
        let mut state = self.load();
        while let Err(now) = self.change(state, state.aborted().awake()) {
            state = now;
        }
        if state.is_waiting() {
            self.wake_emitter();
        }
        !state.is_aborted()
    }

    /// Whether the ring was aborted.
    #[inline]
    pub fn is_aborted(&self) -> bool {
        self.load().is_aborted()
    }

    /// What was counted so far.
    pub fn stats(&self) -> RingStats {
        let (own, state) = (&self.own.0.0, self.load());
        let emitted = own.emitted.get();
        let (compressed, written) = (own.compressed.get(), own.written.get());
        let taken = emitted.saturating_sub(state.backlog() as u64);
        let finished = emitted.saturating_sub(state.in_flight() as u64);
        RingStats {
            emitted,
            calls: own.calls.get(),
            visits: self.visits.load(Relaxed),
            steals_compressed: compressed,
            steals_written: written,
            helper_compressed: taken.saturating_sub(compressed),
            helper_written: finished.saturating_sub(written),
            waits: own.waits.get(),
            idle_nanos: own.idle_nanos.get(),
            ring_full: own.full.get(),
            ring_full_nanos: own.full_nanos.get(),
        }
    }
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Ring({} slots, {})", self.slots, self.load())
    }
}

/// Aborts the ring for a helper whose step ends by a panic.
struct FailsOnPanic<'a>(&'a Ring);

impl Drop for FailsOnPanic<'_> {
    fn drop(&mut self) {
        self.0.fail();
    }
}

#[cfg(not(loom))]
#[inline]
fn clock_nanos() -> u64 {
    crate::time::now_nanos()
}
/// Models have no clock.
#[cfg(loom)]
fn clock_nanos() -> u64 {
    0
}

#[cfg(all(test, not(loom)))]
pub(crate) mod tests;
#[cfg(all(test, not(loom)))]
mod watchdog_tests;
