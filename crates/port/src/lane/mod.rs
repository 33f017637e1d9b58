//! Lanes: background work whose threads may run at low priority, and the work such threads must not
//! do.
//!
//! A job has two threads where its priority may be low: the job's own, never lowered, which picks,
//! installs and reports; and a thread of the lane, which computes. The first waits for the second
//! in [`Lane::run`], and meanwhile does what the second hands back ([`at_normal_priority`]):
//! everything that takes a lock which a reader or a writer may need. So a thread at low priority
//! delays only its own job.
//!
//! | lane | its computing runs on | priority |
//! |---|---|---|
//! | [`Lane::fixed`] | the calling thread; on a lowered pool, a thread of the lane | the pool's |
//! | [`Lane::movable`] | a thread of the lane | the lane's or the pool's, whichever is lower |
//!
//! The priority of a lane can be changed at any time, and running threads follow at once; raising
//! it needs a privilege, without which a running job keeps its priority and the next one has the
//! new one. Helpers of parallel compression serve the lane of the job that offers work, and hand
//! back to that job's own thread (`JobThread`).
//!
//! In debug builds, after [`watch_locks`], a lock made by `Mutex::foreground` panics when it is
//! taken on a thread of a movable lane, lowered or not, or of a lowered pool's lane, outside
//! [`at_normal_priority`].
//!
//! Invariants:
//! 1. [`Lane::run`] does not return before what it runs, and all that was handed back, has ended.
//! 2. A lane's lock is taken only by threads that are not lowered.
//! 3. A thread that a lane reuses has exactly the priority that it was started for.
//!
//! Thread safety: everything may be called from anywhere. Threads of lanes are operating-system
//! threads, on fibers too; in a simulation they are fibers and priorities have no effect.

mod hand_back;
mod job_thread;
mod worker;

use crate::os::{self, CpuPriority, IoPriority, ThreadPriority};
use crate::sync::Mutex;
use crate::thread::Packet;
use crate::time;
use pumice_base::{Error, Result};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

#[cfg(debug_assertions)]
pub(crate) use job_thread::check_foreground;
pub(crate) use job_thread::{Helping, JobThread, job_thread_of_caller, unless_lowered};
pub use job_thread::{at_normal_priority, watch_locks};
pub(crate) use worker::Worker;

/// CPU and I/O priority of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LanePriority {
    /// Computing.
    pub cpu: CpuPriority,
    /// Input and output.
    pub io: IoPriority,
}

impl LanePriority {
    /// Below the priority of a thread that was not lowered.
    pub fn is_lowered(self) -> bool {
        self.cpu < CpuPriority::Normal || self.io < IoPriority::Normal
    }
    /// The lower one of each.
    pub fn lower(self, other: Self) -> Self {
        LanePriority { cpu: self.cpu.min(other.cpu), io: self.io.min(other.io) }
    }
    /// Has a separate thread try it, because the change would stick to the calling one. Suspends.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn check(self) -> Result<()> {
        if !self.is_lowered() {
            return Ok(());
        }
        let attempt = move || {
            let base = os::thread_priority();
            job_thread::change(0, LanePriority::default(), self, base)
        };
        let answer = crate::thread::spawn_os("pumice:try", attempt)?.join()?;
        answer.map_err(|e| Error::io_message(format!("While lowering a thread's priority: {e}")))
    }
}

/// The priority that a lowered pool requires of the jobs that run on it.
#[derive(Clone, Default)]
pub struct Floor {
    priority: LanePriority,
    /// The pool's thread, for one part of the job at a time.
    worker: Option<Arc<Worker>>,
}

crate::task_local! {
    static FLOOR: std::cell::RefCell<Floor> = std::cell::RefCell::new(Floor::default());
}

impl Floor {
    pub(crate) fn new(priority: LanePriority, worker: &Arc<Worker>) -> Self {
        Floor { priority, worker: Some(Arc::clone(worker)) }
    }
    /// The floor that the calling thread's job was given; for the parts of the job on other
    /// threads.
    pub fn of_caller() -> Floor {
        FLOOR.with(|floor| floor.borrow().clone())
    }
    /// The calling thread runs jobs on behalf of a pool. Stays true until the thread ends.
    pub(crate) fn set(self) {
        FLOOR.with(|floor| *floor.borrow_mut() = self);
    }
}

/// The threads of one kind of jobs. See the head of this file.
pub struct Lane {
    movable: bool,
    /// Jobs run at normal priority for now, whatever was requested.
    urgent: AtomicBool,
    state: Mutex<LaneState>,
    /// CPU time of jobs that have ended, and of their helpers.
    cpu_nanos: AtomicU64,
}

struct LaneState {
    priority: LanePriority,
    running: Vec<Arc<JobThread>>,
    jobs: u64,
    refused: u64,
    last: Option<ThreadPriority>,
}

/// A running thread of a lane.
#[derive(Clone, Debug)]
pub struct LaneThread {
    /// The kernel's number.
    pub thread: u64,
    /// The thread's scheduling as the kernel reports it.
    pub priority: ThreadPriority,
    /// CPU time it has spent on its present job, nanoseconds.
    pub cpu_nanos: u64,
}

/// What a lane is doing and has done.
#[derive(Clone, Debug)]
pub struct LaneReport {
    /// The requested priority.
    pub priority: LanePriority,
    /// Jobs run at normal priority for now ([`Lane::set_urgent`]).
    pub urgent: bool,
    /// Threads that run now.
    pub threads: Vec<LaneThread>,
    /// The scheduling of the last job's thread when it began; None before the first.
    pub last: Option<ThreadPriority>,
    /// CPU time of all jobs so far, of their helpers too, nanoseconds. Helpers count when a table
    /// ends.
    pub cpu_nanos: u64,
    /// Parts of jobs that ran.
    pub jobs: u64,
    /// Jobs that ran on their own thread because there was no other.
    pub refused: u64,
}

impl Lane {
    /// A lane whose jobs have the priority of their pool.
    pub fn fixed() -> Self {
        Lane::new(false, LanePriority::default())
    }
    /// A lane whose priority can be changed.
    pub fn movable(priority: LanePriority) -> Self {
        Lane::new(true, priority)
    }
    fn new(movable: bool, priority: LanePriority) -> Self {
        let state = LaneState { priority, running: Vec::new(), jobs: 0, refused: 0, last: None };
        let (urgent, cpu_nanos) = (AtomicBool::new(false), AtomicU64::new(0));
        Lane { movable, urgent, state: Mutex::new(state), cpu_nanos }
    }

    /// Runs `f` as part of a job with that floor. The caller holds no lock that `f`, or the work
    /// `f` hands back, needs. Suspends until `f` has ended; a panic of `f` continues here.
    pub fn run<T: Send>(&self, floor: &Floor, f: impl FnOnce() -> T + Send) -> T {
        if !self.movable && !floor.priority.is_lowered() {
            return self.run_here(f);
        }
        let job_thread = Arc::new(JobThread::new(floor.priority, os::thread_priority()));
        let priority = self.enter(&job_thread);
        let worker = match Worker::find(floor, priority) {
            Ok(worker) => worker,
            Err(_) => {
                // The job must be done; its own thread is not lowered, so nothing is handed back.
                self.state.lock().refused += 1;
                job_thread.begin_here();
                let _entered = Entered(self, &job_thread);
                return f();
            }
        };
        let _entered = Entered(self, &job_thread);
        let (packet, promise) = Packet::new();
        let work = promise.work(f);
        let (own, on) = (Arc::clone(&job_thread), Arc::clone(&worker));
        let body = move || {
            own.begin(priority);
            work.run_in_passing();
            if !own.end() {
                on.mark_other_priority();
            }
            own.hand_back().end();
        };
        // SAFETY: invariant 1: `serve` returns after the body's last line, and a worker drops no
        // body that it was given.
        let body = unsafe { crate::thread::erase(Box::new(body)) };
        worker.give(body);
        job_thread.hand_back().serve();
        worker.release();
        packet.take().unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// On the calling thread, whose priority does not change meanwhile.
    fn run_here<T>(&self, f: impl FnOnce() -> T) -> T {
        let job_thread =
            Arc::new(JobThread::new(LanePriority::default(), ThreadPriority::default()));
        job_thread.begin_here();
        self.enter(&job_thread);
        let _entered = Entered(self, &job_thread);
        f()
    }

    /// The priority at which a job with that floor runs.
    fn priority_of(&self, state: &LaneState, floor: LanePriority) -> LanePriority {
        let urgent = self.urgent.load(Ordering::Relaxed);
        if urgent { floor } else { state.priority.lower(floor) }
    }

    fn enter(&self, job_thread: &Arc<JobThread>) -> LanePriority {
        let mut state = self.state.lock();
        state.jobs += 1;
        state.running.push(Arc::clone(job_thread));
        let priority = self.priority_of(&state, job_thread.floor());
        job_thread.want(priority);
        priority
    }

    fn leave(&self, job_thread: &Arc<JobThread>) {
        self.cpu_nanos.fetch_add(job_thread.cpu_nanos(), Ordering::Relaxed);
        let mut state = self.state.lock();
        state.running.retain(|other| !Arc::ptr_eq(other, job_thread));
        state.last = Some(job_thread.began_with());
    }

    /// Counts CPU time that others spent for a job of this lane.
    pub fn add_cpu_nanos(&self, nanos: u64) {
        self.cpu_nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    /// Changes the priority, of running threads at once. Suspends. Returns how many of these could
    /// not be changed: raising needs a privilege.
    pub fn set_priority(&self, priority: LanePriority) -> usize {
        debug_assert!(self.movable, "a fixed lane has its pool's priority");
        let mut state = self.state.lock();
        state.priority = priority;
        let refused =
            |one: &&Arc<JobThread>| one.change_to(self.priority_of(&state, one.floor())).is_err();
        state.running.iter().filter(refused).count()
    }

    /// From now on jobs begin at normal priority, or at the lane's again; running ones follow where
    /// the kernel allows it. Never waits: while other threads use the lane's lock, running threads
    /// are left unchanged.
    pub fn set_urgent(&self, urgent: bool) {
        self.urgent.store(urgent, Ordering::Relaxed);
        if let Some(state) = self.state.try_lock()
            && state.priority.is_lowered()
        {
            for job_thread in &state.running {
                job_thread.try_change_to(self.priority_of(&state, job_thread.floor()));
            }
        }
    }

    /// What the lane is doing and has done. Suspends.
    pub fn report(&self) -> LaneReport {
        let state = self.state.lock();
        let of = |job_thread: &Arc<JobThread>| {
            let (thread, cpu_nanos) = (job_thread.thread()?, job_thread.cpu_nanos());
            let priority = os::thread_priority_of(thread).ok()?;
            Some(LaneThread { thread, priority, cpu_nanos })
        };
        let threads: Vec<_> = state.running.iter().filter_map(of).collect();
        let running: u64 = threads.iter().map(|thread| thread.cpu_nanos).sum();
        LaneReport {
            priority: state.priority,
            urgent: self.urgent.load(Ordering::Relaxed),
            last: state.last,
            cpu_nanos: self.cpu_nanos.load(Ordering::Relaxed) + running,
            jobs: state.jobs,
            refused: state.refused,
            threads,
        }
    }
}

/// Takes the job off the lane's list, after a panic too.
struct Entered<'a>(&'a Lane, &'a Arc<JobThread>);

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.0.leave(self.1);
    }
}

/// CPU time of a thread so far, for its present lane.
fn spent() -> u64 {
    time::thread_cpu_nanos()
}

#[cfg(test)]
mod tests;
