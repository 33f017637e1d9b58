//! One pool of helper threads for all table builds of the process.
//!
//! A build *offers* its work; helpers come when it calls them, and leave when there is nothing to
//! do. No one may wait for a helper that might come: the pool can be empty, its limit can be 0, its
//! threads can all be busy elsewhere, and the thread that offers a job gets it done in any case.
//!
//! | what | rule |
//! |---|---|
//! | which offer | one whose build has called; the highest urgency, then the oldest |
//! | an urgent call, no helper free | helpers of less urgent jobs leave ([`should_leave`]) |
//! | priority | a helper serves offers of threads of its own CPU and I/O priority only (a *lane*) |
//! | how many | threads, busy or idle, of all lanes together: at most the limit |
//! | when | threads start at a call, and end after [`IDLE_SECONDS_MAX`] without one |
//! | a panic | is counted, ends that visit, and nothing else |
//!
//! A helper's thread is started by a thread that offers, and inherits its priority.
//!
//! Thread safety: everything may be called from anywhere. The mutex of a pool is a leaf; no job
//! runs and no job is dropped under it. [`Offer::call`] takes it only when a helper could come.
//! Helpers are operating-system threads; in a simulation, fibers of it.
//!
//! It does not know what the jobs are (module `ring` is the protocol of one), nor when a call pays
//! off (`Ring::wants_helper`). See docs/port/helpers.md.

mod pool;

use crate::sim;
use crate::thread;
use pool::{Record, Shared};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The most helpers a pool can have.
pub const HELPERS_MAX: usize = 256;
/// For how long a helper without work keeps its thread, in seconds.
pub const IDLE_SECONDS_MAX: u64 = 10;

/// How urgent a job is; helpers serve the highest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Urgency {
    /// No task waits for it.
    Low = 0,
    /// A task may come to wait for it.
    Mid = 1,
    /// A task waits for it, or memory is held until it ends.
    High = 2,
}

/// Work in which others can help.
pub trait Assist: Send + Sync {
    /// Joins the work; returns when there is nothing to do now, or, between two steps, when
    /// [`should_leave`] says so. A panic must end the job by itself: `Ring::help` does that.
    fn assist(&self);
}

/// What a pool has counted so far, and what it is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HelperStats {
    /// Threads that there are now.
    pub threads: usize,
    /// Threads that are inside a job now.
    pub busy: usize,
    /// Offers that are open now.
    pub offers: usize,
    /// Calls that found a helper that could come.
    pub calls: u64,
    /// Threads that were started.
    pub started: u64,
    /// Sleeping helpers that were woken.
    pub woken: u64,
    /// How often a helper went into a job.
    pub visits: u64,
    /// Visits that ended because a more urgent job had called, or the pool grew smaller.
    pub left: u64,
    /// Threads that ended because they were not called for a long time.
    pub ended_idle: u64,
    /// Threads that ended to make room for one of another lane.
    pub evicted: u64,
    /// Threads that the operating system refused.
    pub refused: u64,
    /// Visits that ended with a panic.
    pub panics: u64,
}

/// A pool of helpers; clones are the same pool. When the last one is dropped, its helpers leave
/// their jobs after the current step and end, and the drop waits for that (suspends).
#[derive(Clone)]
pub struct HelperPool {
    owner: Arc<Owner>,
}

/// Ends the threads with the last [`HelperPool`].
struct Owner(Arc<Shared>);

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.stop();
    }
}

impl HelperPool {
    /// A pool of at most `limit` helpers, without a thread yet.
    pub fn new(limit: usize) -> Self {
        Self::with(limit, crate::ring::MAX_HELPERS)
    }

    fn with(limit: usize, per_offer_max: usize) -> Self {
        HelperPool { owner: Arc::new(Owner(Shared::new(limit.min(HELPERS_MAX), per_offer_max))) }
    }

    /// The pool of the process: as many helpers as processors, and one fewer per offer, since the
    /// offering thread is busy itself. A simulation has its own.
    pub fn shared() -> HelperPool {
        static POOL: sim::Local<HelperPool> = sim::Local::new(|| {
            let processors = thread::available_parallelism();
            HelperPool::with(processors, processors - 1)
        });
        HelperPool::clone(&POOL.get())
    }

    /// How many helpers there may be.
    pub fn limit(&self) -> usize {
        self.owner.0.limit()
    }
    /// Changes how many helpers there may be; at most [`HELPERS_MAX`]. Excess ones leave their jobs
    /// after the current step. An explicit limit is taken literally: later offers may use all of
    /// them, also in the pool of the process.
    pub fn set_limit(&self, n: usize) {
        self.owner.0.set_limit(n.min(HELPERS_MAX));
    }

    /// Offers `job` to at most `max_helpers` helpers at a time. No helper comes before a call. The
    /// job must not own the offer, or neither would ever be dropped.
    pub fn offer(&self, urgency: Urgency, max_helpers: usize, job: Arc<dyn Assist>) -> Offer {
        let shared = Arc::clone(&self.owner.0);
        let record = shared.offer(urgency, max_helpers, job);
        Offer { shared, record }
    }

    /// What the pool has counted.
    pub fn stats(&self) -> HelperStats {
        self.owner.0.stats()
    }
}

impl std::fmt::Debug for HelperPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HelperPool").field("limit", &self.limit()).finish_non_exhaustive()
    }
}

/// A job that helpers may join. Dropping it withdraws the job; a helper inside ends on its own.
pub struct Offer {
    shared: Arc<Shared>,
    record: Arc<Record>,
}

impl Offer {
    /// Asks for one more helper. Two relaxed loads and a store when none can come; otherwise a
    /// mutex, and the waking or starting of a thread. Never suspends except on that mutex.
    #[inline]
    pub fn call(&self) {
        self.shared.call(&self.record);
    }
    /// Helpers inside the job; may be stale when it is returned.
    pub fn active(&self) -> usize {
        self.record.active.load(Ordering::Relaxed)
    }
}

impl Drop for Offer {
    fn drop(&mut self) {
        self.shared.withdraw(&self.record);
    }
}

impl std::fmt::Debug for Offer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Offer").field("active", &self.active()).finish_non_exhaustive()
    }
}

/// Whether the calling helper should leave its job after the current step: a more urgent one has
/// called and no helper is free, or the pool has become smaller. False on every other thread. Costs
/// a thread-local access and one relaxed load.
pub fn should_leave() -> bool {
    pool::should_leave()
}

#[cfg(test)]
mod tests;
