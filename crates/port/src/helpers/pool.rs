//! The threads of a pool: which sleep in which lane, and which go to which offer.
//!
//! Invariants:
//! 1. In each lane `idle + called + evicted` threads sleep or are about to wake up from it: idle
//!    ones, ones called by an offer, and evicted ones that must end.
//! 2. `threads` counts every thread from before its start to its last look at the state; it grows
//!    only while it is below the limit.
//! 3. `free` is 0 when a call could bring no helper: no idle thread and no room for a new one. It
//!    is changed under the mutex and read without it; a call that reads a stale value acts like one
//!    made a moment earlier or later, and the ring calls again.
//! 4. A thread of a lane is started by a caller of that lane, so it inherits the lane's priority;
//!    nothing is ever raised.
//!
//! Thread safety: all methods from any thread.

use super::{Assist, HelperStats, IDLE_SECONDS_MAX, Urgency};
use crate::lane::{Helping, JobThread, job_thread_of_caller};
use crate::os::{self, ThreadPriority};
use crate::ring::MAX_HELPERS;
use crate::sync::{Condvar, Mutex, MutexGuard};
use crate::thread::{self, JoinHandle};
use crate::time;
use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::time::Duration;

/// Priorities a process can have at one time before they share a lane. Pools have two or three.
const LANES_MAX: usize = 8;
/// A value of `pressing` above every urgency: all helpers leave.
const ALL_LEAVE: u8 = u8::MAX;

/// An offer as the pool knows it.
pub(super) struct Record {
    job: Arc<dyn Assist>,
    urgency: Urgency,
    max: usize,
    /// Changed under the pool's mutex only.
    lane: AtomicUsize,
    /// The offering thread, if it is a lane's; helpers hand back to it.
    job_thread: Option<Arc<JobThread>>,
    age: u64,
    /// A call has not been answered yet.
    wanted: AtomicBool,
    /// Helpers inside.
    pub(super) active: AtomicUsize,
}

impl Record {
    fn lane(&self) -> usize {
        self.lane.load(Ordering::Relaxed)
    }
    /// How it competes: urgency first, then age.
    fn rank(&self) -> (Urgency, Reverse<u64>) {
        (self.urgency, Reverse(self.age))
    }
    fn wants(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) && self.active.load(Ordering::Relaxed) < self.max
    }
    /// The value of `pressing` that makes helpers of less urgent jobs leave.
    fn level(&self) -> u8 {
        self.urgency as u8 + 1
    }
}

/// The threads of one priority; invariant 1.
struct Lane {
    priority: ThreadPriority,
    idle: usize,
    called: usize,
    evicted: usize,
    /// Started and not yet running.
    starting: usize,
}

struct State {
    limit: usize,
    /// Helpers that one offer gets at most; once a limit was set, only that counts.
    per_offer_max: usize,
    threads: usize,
    lanes: Vec<Lane>,
    offers: Vec<Arc<Record>>,
    handles: Vec<JoinHandle<()>>,
    stopping: bool,
    next_age: u64,
    busy: usize,
    counts: HelperStats,
}

/// A pool. See the head of this file.
pub(super) struct Shared {
    state: Mutex<State>,
    /// Where the sleepers of each lane sleep.
    wakeups: [Condvar; LANES_MAX],
    /// Invariant 3.
    free: AtomicUsize,
    /// The highest [`Record::level`] among calls for which no helper is free; 0 for none.
    pressing: AtomicU8,
}

/// What a helper does next.
enum Next {
    Visit(Arc<Record>),
    Sleep,
    End,
}

/// The visit the calling helper is on.
struct Visit {
    shared: Arc<Shared>,
    level: u8,
    /// The helper was asked to leave.
    was_pressed: Cell<bool>,
}

crate::task_local! {
    static VISIT: RefCell<Option<Visit>> = const { RefCell::new(None) };
}

pub(super) fn should_leave() -> bool {
    VISIT.with(|visit| visit.borrow().as_ref().is_some_and(Visit::should_end))
}

impl Visit {
    #[inline]
    fn should_end(&self) -> bool {
        let pressed = self.shared.pressing.load(Ordering::Relaxed) > self.level;
        if pressed {
            self.was_pressed.set(true);
        }
        pressed
    }
}

impl Shared {
    pub(super) fn new(limit: usize, per_offer_max: usize) -> Arc<Self> {
        let state = State {
            limit,
            per_offer_max,
            threads: 0,
            lanes: Vec::new(),
            offers: Vec::new(),
            handles: Vec::new(),
            stopping: false,
            next_age: 0,
            busy: 0,
            counts: HelperStats::default(),
        };
        Arc::new(Shared {
            state: Mutex::new(state),
            wakeups: [const { Condvar::new() }; LANES_MAX],
            free: AtomicUsize::new(limit),
            pressing: AtomicU8::new(0),
        })
    }

    pub(super) fn limit(&self) -> usize {
        self.state.lock().limit
    }

    pub(super) fn set_limit(&self, limit: usize) {
        let mut state = self.state.lock();
        state.limit = limit;
        state.per_offer_max = MAX_HELPERS;
        self.publish(&state);
        self.wakeups.iter().for_each(Condvar::notify_all);
    }

    pub(super) fn stats(&self) -> HelperStats {
        let state = self.state.lock();
        HelperStats {
            threads: state.threads,
            busy: state.busy,
            offers: state.offers.len(),
            ..state.counts
        }
    }

    pub(super) fn offer(
        &self,
        urgency: Urgency,
        max_helpers: usize,
        job: Arc<dyn Assist>,
    ) -> Arc<Record> {
        let priority = os::thread_priority();
        let mut state = self.state.lock();
        let lane = state.lane(priority);
        let age = state.next_age;
        state.next_age += 1;
        let record = Arc::new(Record {
            job,
            urgency,
            max: max_helpers.min(state.per_offer_max),
            lane: AtomicUsize::new(lane),
            job_thread: job_thread_of_caller(),
            age,
            wanted: AtomicBool::new(false),
            active: AtomicUsize::new(0),
        });
        state.offers.push(Arc::clone(&record));
        record
    }

    pub(super) fn withdraw(&self, record: &Arc<Record>) {
        record.wanted.store(false, Ordering::Relaxed);
        let mut state = self.state.lock();
        let place = state.offers.iter().position(|other| Arc::ptr_eq(other, record));
        // The caller holds a reference, so the job is not dropped under the lock.
        let withdrawn = place.map(|place| state.offers.swap_remove(place));
        self.publish(&state);
        drop(state);
        drop(withdrawn);
    }

    /// See [`super::Offer::call`].
    #[inline]
    pub(super) fn call(self: &Arc<Self>, record: &Record) {
        if record.active.load(Ordering::Relaxed) >= record.max {
            return;
        }
        record.wanted.store(true, Ordering::Relaxed);
        if self.free.load(Ordering::Relaxed) > 0 {
            self.summon(record);
        } else if self.pressing.load(Ordering::Relaxed) < record.level() {
            self.pressing.fetch_max(record.level(), Ordering::Relaxed);
        }
    }

    /// Wakes or starts a helper for the lane of `record`, unless enough are on their way.
    #[cold]
    fn summon(self: &Arc<Self>, record: &Record) {
        // The priority of a lane's thread may have been changed since it offered.
        let priority = record.job_thread.as_ref().map(|_| os::thread_priority());
        let mut guard = self.state.lock();
        let state = &mut *guard;
        if let Some(priority) = priority {
            record.lane.store(state.lane(priority), Ordering::Relaxed);
        }
        let at = record.lane();
        let wishes = state.offers.iter().filter(|r| r.lane() == at && r.wants()).count();
        let lane = &mut state.lanes[at];
        if state.stopping || lane.called + lane.starting >= wishes {
            return;
        }
        let mut woken = None;
        if lane.idle > 0 {
            lane.idle -= 1;
            lane.called += 1;
            state.counts.woken += 1;
            state.counts.calls += 1;
            woken = Some(at);
        } else if state.threads < state.limit {
            state.counts.calls += 1;
            self.start(state, at);
        } else if let Some(other) = state.lanes.iter().position(|lane| lane.idle > 0) {
            // It ends, and the next call finds room for a thread of its own lane.
            state.lanes[other].idle -= 1;
            state.lanes[other].evicted += 1;
            state.counts.evicted += 1;
            woken = Some(other);
        }
        self.publish(state);
        drop(guard);
        if let Some(lane) = woken {
            self.wakeups[lane].notify_one();
        }
    }

    /// Starts a thread. The calling one has the lane's priority.
    fn start(self: &Arc<Self>, state: &mut State, lane: usize) {
        state.handles.retain(|handle| !handle.is_finished());
        let shared = Arc::clone(self);
        match thread::spawn_os("pumice:helper", move || shared.run(lane)) {
            Ok(handle) => {
                state.handles.push(handle);
                state.threads += 1;
                state.lanes[lane].starting += 1;
                state.counts.started += 1;
            }
            Err(_) => state.counts.refused += 1,
        }
    }

    /// Brings `free` and `pressing` up to date. Requires: lock held.
    fn publish(&self, state: &State) {
        let idle: usize = state.lanes.iter().map(|lane| lane.idle).sum();
        let room = state.limit.saturating_sub(state.threads);
        let free = if state.stopping { 0 } else { idle + room };
        let pressing = if state.stopping || state.threads > state.limit {
            ALL_LEAVE
        } else if free > 0 {
            0
        } else {
            let calls = state.offers.iter().filter(|record| record.wants());
            calls.map(|record| record.level()).max().unwrap_or(0)
        };
        self.free.store(free, Ordering::Relaxed);
        self.pressing.store(pressing, Ordering::Relaxed);
    }

    /// The life of one helper.
    fn run(self: &Arc<Self>, lane: usize) {
        let mut state = self.state.lock();
        state.lanes[lane].starting -= 1;
        loop {
            match state.next(lane) {
                Next::Visit(record) => {
                    state.busy += 1;
                    state.counts.visits += 1;
                    self.publish(&state);
                    drop(state);
                    let (left, panicked) = self.visit(&record);
                    // The last reference to a job may be this one.
                    drop(record);
                    state = self.state.lock();
                    state.busy -= 1;
                    state.counts.left += u64::from(left);
                    state.counts.panics += u64::from(panicked);
                }
                Next::Sleep => match self.sleep(state, lane) {
                    (woken, true) => state = woken,
                    (ending, false) => return self.end(ending),
                },
                Next::End => return self.end(state),
            }
        }
    }

    fn end(&self, mut state: MutexGuard<'_, State>) {
        state.threads -= 1;
        self.publish(&state);
    }

    /// Joins a job; whether it was left for a more urgent one, and whether it panicked.
    fn visit(self: &Arc<Self>, record: &Record) -> (bool, bool) {
        let visit = Visit {
            shared: Arc::clone(self),
            level: record.level(),
            was_pressed: Cell::new(false),
        };
        VISIT.with(|current| *current.borrow_mut() = Some(visit));
        let helping = Helping::of(record.job_thread.as_ref());
        let result = catch_unwind(AssertUnwindSafe(|| record.job.assist()));
        drop(helping);
        let visit = VISIT.with(|current| current.borrow_mut().take());
        let left = visit.is_some_and(|visit| visit.was_pressed.get());
        if left {
            // The job may have more work: a helper that becomes free returns to it.
            record.wanted.store(true, Ordering::Relaxed);
        }
        record.active.fetch_sub(1, Ordering::Relaxed);
        if let Err(panic) = &result {
            eprintln!("pumice: a helper panicked: {}", thread::panic_message(panic.as_ref()));
        }
        (left, result.is_err())
    }

    /// Sleeps until called; false when the thread must end.
    fn sleep<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        lane: usize,
    ) -> (MutexGuard<'a, State>, bool) {
        state.lanes[lane].idle += 1;
        self.publish(&state);
        let limit = Duration::from_secs(IDLE_SECONDS_MAX);
        let deadline = time::now_nanos() + IDLE_SECONDS_MAX * 1_000_000_000;
        let mut timed_out = false;
        loop {
            let excess = state.stopping || state.threads > state.limit;
            let own = &mut state.lanes[lane];
            if own.called > 0 {
                own.called -= 1;
                return (state, true);
            }
            if own.evicted > 0 {
                own.evicted -= 1;
                return (state, false);
            }
            if excess || timed_out {
                own.idle -= 1;
                state.counts.ended_idle += u64::from(timed_out);
                return (state, false);
            }
            (state, timed_out) = self.wakeups[lane].wait_timeout(state, limit);
            timed_out |= time::now_nanos() >= deadline;
        }
    }

    /// Ends the pool: helpers leave their jobs after the current step. Waits for them. Suspends.
    pub(super) fn stop(&self) {
        let mut state = self.state.lock();
        state.stopping = true;
        let handles = std::mem::take(&mut state.handles);
        self.publish(&state);
        self.wakeups.iter().for_each(Condvar::notify_all);
        drop(state);
        // A job may own the last reference to the pool; its helper's thread ends by itself.
        for handle in handles.into_iter().filter(|handle| !handle.is_current()) {
            handle.join().expect("a helper catches the panics of its jobs");
        }
    }
}

impl State {
    /// The index of the lane for `priority`. When there are too many priorities, the last lane
    /// serves the rest.
    fn lane(&mut self, priority: ThreadPriority) -> usize {
        let known = self.lanes.iter().position(|lane| lane.priority == priority);
        if let Some(lane) = known {
            return lane;
        }
        if self.lanes.len() < LANES_MAX {
            self.lanes.push(Lane { priority, idle: 0, called: 0, evicted: 0, starting: 0 });
        }
        self.lanes.len() - 1
    }

    /// What an idle helper of `lane` does next.
    fn next(&mut self, lane: usize) -> Next {
        if self.stopping || self.threads > self.limit {
            return Next::End;
        }
        let calls = || self.offers.iter().filter(|record| record.wants());
        let here = calls().filter(|record| record.lane() == lane).max_by_key(|r| r.rank());
        // The thread's priority cannot be raised, so the helper ends to make room for one of
        // another lane.
        let blocked = calls().filter(|record| record.lane() != lane && self.is_blocked(record));
        if blocked.map(|r| r.urgency).max() > here.map(|r| r.urgency) {
            self.counts.evicted += 1;
            return Next::End;
        }
        let Some(record) = here else { return Next::Sleep };
        record.wanted.store(false, Ordering::Relaxed);
        record.active.fetch_add(1, Ordering::Relaxed);
        Next::Visit(Arc::clone(record))
    }

    /// Whether no helper can come to `record` because its lane has no room for a thread.
    fn is_blocked(&self, record: &Record) -> bool {
        let lane = &self.lanes[record.lane()];
        let idle: usize = self.lanes.iter().map(|lane| lane.idle).sum();
        self.threads >= self.limit && idle == 0 && lane.called + lane.starting == 0
    }
}
