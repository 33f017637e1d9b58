//! Background thread pools: four priorities, each a queue of jobs served by its own threads.
//!
//! One `ThreadPools` serves every database of an environment, as RocksDB's `Env` does. A pool's CPU
//! and I/O priority is a request that each worker applies to itself before its next job; it is only
//! ever lowered, because raising needs a privilege; and a lowered thread never starts a pool's
//! thread, which would inherit its priority (`keeper`). A job that takes foreground locks is
//! scheduled as parted: only its computation is lowered. A job that panics is counted and does not
//! end its worker.
//!
//! Thread safety: all methods may be called from anywhere, jobs included, except `join_all`, which
//! waits for the jobs. Lock order: a pool's mutex is a leaf; no job runs under it.
//!
//! The jobs of one tag run in the order they came, and tags take turns (`turns`), so that each
//! database of the process gets as many jobs done as every other.
//!
//! It does not share jobs between pools or know what they do.

mod keeper;
mod turns;
mod worker;

use crate::os::{self, CpuPriority, IoPriority};
use crate::sim;
use crate::thread;
use keeper::Keeper;
use pumice_base::{Error, Result};
use std::io;
use std::sync::{Arc, OnceLock};
pub(crate) use worker::Pool;
use worker::Queued;

/// Which pool a job goes to.
///
/// Example: that of [`ThreadPools`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Priority {
    /// Compactions into the last level.
    Bottom = 0,
    /// Compactions.
    Low = 1,
    /// Flushes.
    High = 2,
    /// The user's own jobs.
    User = 3,
}

impl Priority {
    /// All of them, lowest first.
    pub const ALL: [Priority; 4] =
        [Priority::Bottom, Priority::Low, Priority::High, Priority::User];

    fn thread_name(self) -> &'static str {
        match self {
            Priority::Bottom => "pumice:bottom",
            Priority::Low => "pumice:low",
            Priority::High => "pumice:high",
            Priority::User => "pumice:user",
        }
    }
}

/// A piece of background work.
pub type Job = Box<dyn FnOnce() + Send>;

/// The four pools of an environment.
///
/// ```
/// # use pumice_port::pool::{Priority as PoolPriority, ThreadPools};
/// # use pumice_port::os::CpuPriority;
/// let pools = ThreadPools::new();
/// pools.set_background_threads(2, PoolPriority::Low);
/// pools.lower_thread_pool_cpu_priority(PoolPriority::Low, CpuPriority::Idle)?;
/// pools.schedule(PoolPriority::Low, "mine", Box::new(|| println!("when nobody else works")));
/// pools.wait_idle();
/// # Ok::<(), pumice_base::Error>(())
/// ```
pub struct ThreadPools {
    pools: [Arc<Pool>; 4],
    /// Started by the first call that lowers anything.
    keeper: Arc<OnceLock<Keeper>>,
}

impl std::fmt::Debug for ThreadPools {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ThreadPools").finish_non_exhaustive()
    }
}

impl Default for ThreadPools {
    fn default() -> Self {
        Self::new()
    }
}

impl ThreadPools {
    /// The pools that all databases of the process (or of a simulation) share, as RocksDB's default
    /// `Env` has them.
    pub fn shared() -> Arc<ThreadPools> {
        static POOLS: sim::Local<ThreadPools> = sim::Local::new(ThreadPools::new);
        POOLS.get()
    }

    /// Pools with room for one thread each, except the bottom one, which has room for none, as in
    /// RocksDB. No thread runs before its first job.
    pub fn new() -> Self {
        let keeper = Arc::new(OnceLock::new());
        let pool = |p: Priority| Arc::new(Pool::with_keeper(p.thread_name(), Arc::clone(&keeper)));
        let pools = ThreadPools { pools: Priority::ALL.map(pool), keeper };
        pools.set_background_threads(0, Priority::Bottom);
        pools
    }

    fn pool(&self, priority: Priority) -> &Arc<Pool> {
        &self.pools[priority as usize]
    }

    /// Sets the number of threads. Excess threads end after their current job.
    pub fn set_background_threads(&self, threads: usize, priority: Priority) {
        self.pool(priority).set_limit(threads, true);
    }
    /// Raises the number of threads to `threads`; never lowers it.
    pub fn increase_background_threads(&self, threads: usize, priority: Priority) {
        self.pool(priority).set_limit(threads, false);
    }
    /// The number of threads the pool may have.
    pub fn background_threads(&self, priority: Priority) -> usize {
        self.pool(priority).limit()
    }

    /// Starts the first thread of a pool that may have some and has none. A pool that has a thread
    /// keeps at least one, so its jobs will run whatever the operating system refuses later.
    ///
    /// # Errors
    /// `IoError` when the operating system refuses a thread.
    pub fn start_first(&self, priority: Priority) -> Result<()> {
        self.pool(priority).start_first()
    }

    /// Queues a job. `name` identifies it in thread listings and panic reports.
    pub fn schedule(&self, priority: Priority, name: &'static str, job: Job) {
        self.schedule_tagged(priority, name, 0, job);
    }
    /// Queues a job that [`ThreadPools::unschedule`] can take back by `tag`, which is not 0. Tags
    /// take turns, one job each.
    pub fn schedule_tagged(&self, priority: Priority, name: &'static str, tag: u64, job: Job) {
        Pool::submit(self.pool(priority), Queued { name, tag, parted: false, job });
    }
    /// Queues a job whose computation is confined to a lane ([`crate::lane::Lane::run`]): the rest
    /// of it never runs lowered, whatever priority the pool has. `tag` as in `schedule_tagged`, or
    /// 0.
    pub fn schedule_parted(&self, priority: Priority, name: &'static str, tag: u64, job: Job) {
        Pool::submit(self.pool(priority), Queued { name, tag, parted: true, job });
    }
    /// Drops the queued jobs with `tag`, outside any lock; returns how many there were. Running
    /// jobs continue.
    pub fn unschedule(&self, priority: Priority, tag: u64) -> usize {
        self.pool(priority).remove_tagged(tag)
    }

    /// Jobs that wait for a thread.
    pub fn queue_len(&self, priority: Priority) -> usize {
        self.pool(priority).queue_len()
    }
    /// Jobs that run now.
    pub fn running(&self, priority: Priority) -> usize {
        self.pool(priority).running()
    }
    /// Jobs that ended with a panic since the start.
    pub fn panicked_jobs(&self) -> u64 {
        self.pools.iter().map(|p| p.panicked()).sum()
    }
    /// Waits until no job is queued or running in any pool. Suspends.
    pub fn wait_idle(&self) {
        for pool in &self.pools {
            pool.wait_idle();
        }
    }

    /// Asks the pool's threads to take CPU priority `level`, each before its next job: RocksDB's
    /// `Env::LowerThreadPoolCPUPriority`. A level that is not lower than what a thread has changes
    /// nothing. Suspends while a thread finds out whether the kernel allows it.
    ///
    /// # Errors
    /// The kernel's error when a thread tries; then nothing is changed.
    pub fn lower_thread_pool_cpu_priority(&self, pool: Priority, level: CpuPriority) -> Result<()> {
        if level < CpuPriority::Normal {
            self.keep_priority()?;
            tried(move || os::set_thread_cpu_priority(level))?;
        }
        self.pool(pool).wish_cpu(level);
        Ok(())
    }
    /// Asks the pool's threads to take the idle I/O priority, each before its next job: RocksDB's
    /// `Env::LowerThreadPoolIOPriority`. Suspends while a thread finds out whether the kernel
    /// allows it.
    ///
    /// # Errors
    /// The kernel's error when a thread tries; then nothing is changed.
    pub fn lower_thread_pool_io_priority(&self, pool: Priority) -> Result<()> {
        self.keep_priority()?;
        tried(|| os::set_thread_io_priority(IoPriority::Idle))?;
        self.pool(pool).wish_io(IoPriority::Idle);
        Ok(())
    }
    /// From now on no lowered thread starts another pool's threads. In a simulation nothing is ever
    /// lowered.
    fn keep_priority(&self) -> Result<()> {
        if self.keeper.get().is_none() && !sim::is_running() {
            // Two concurrent calls may start two; the later one ends.
            let started = Keeper::start()?;
            drop(self.keeper.set(started));
        }
        Ok(())
    }

    /// The kernel's ids of the pool's live threads.
    pub fn thread_ids(&self, priority: Priority) -> Vec<u64> {
        self.pool(priority).thread_ids()
    }

    /// The kernel's ids of the pool's live threads, each with that of the thread that takes its
    /// jobs in its place; 0 if it does so itself.
    pub fn threads(&self, priority: Priority) -> Vec<(u64, u64)> {
        self.pool(priority).threads()
    }

    /// Ends all threads. With `finish_queued` they first do what is queued, otherwise queued jobs
    /// are dropped. Suspends. The pools stay usable afterwards.
    pub fn join_all(&self, finish_queued: bool) {
        for pool in &self.pools {
            pool.join_all(finish_queued, true);
        }
    }
}

/// The result of `attempt` on a separate thread, because its effect would stick to the calling one.
fn tried(attempt: impl FnOnce() -> io::Result<()> + Send + 'static) -> Result<()> {
    let thread = thread::spawn_os("pumice:try", attempt)?;
    let answer = thread.join().expect("a system call does not panic");
    answer.map_err(|e| Error::io_message(format!("While lowering a thread's priority: {e}")))
}

impl Drop for ThreadPools {
    fn drop(&mut self) {
        for pool in &self.pools {
            pool.join_all(false, false);
        }
    }
}

#[cfg(test)]
mod tests;
