//! One pool: a queue, its threads, and the loop each thread runs.
//!
//! A thread has an index. It ends when its index is at or above the limit and it is the newest
//! thread, so that threads end in reverse order of their start and indexes stay dense.
//!
//! A thread that was lowered has a twin that was not: the twin takes the jobs from the queue, whose
//! lock writers need, runs those that were scheduled as parted, and has the lowered thread run the
//! others. So the lowered thread holds no lock of the pool from then on.

use super::Job;
use super::keeper::Keeper;
use super::turns::Turns;
use crate::lane::{Floor, LanePriority, Worker};
use crate::os::{self, CpuPriority, IoPriority};
use crate::sync::{Condvar, Mutex, MutexGuard};
use crate::thread::{self, JoinHandle};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};

pub(super) struct Queued {
    pub(super) name: &'static str,
    pub(super) tag: u64,
    /// It manages its priority itself (`lane`).
    pub(super) parted: bool,
    pub(super) job: Job,
}

struct State {
    queue: Turns,
    threads: Vec<Option<JoinHandle<()>>>,
    /// Parallel to `threads`; 0 until the thread has started to run.
    thread_ids: Vec<u64>,
    /// Parallel to `threads`: those of the twins; 0 where there is none.
    twin_ids: Vec<u64>,
    limit: usize,
    idle: usize,
    running: usize,
    panicked: u64,
    wish: LanePriority,
    stopping: bool,
}

/// One priority's queue and threads.
pub(crate) struct Pool {
    thread_name: &'static str,
    /// Starts the threads once there is one.
    keeper: Arc<OnceLock<Keeper>>,
    state: Mutex<State>,
    /// Signals idle workers: a job, a smaller limit, or the end.
    work: Condvar,
    /// Signals waiters: nothing queued and nothing running, or a thread ended.
    quiet: Condvar,
}

impl Pool {
    /// A pool that starts its threads itself.
    pub(crate) fn new(thread_name: &'static str) -> Self {
        Self::with_keeper(thread_name, Arc::new(OnceLock::new()))
    }

    /// A pool whose threads `keeper` starts once it is there.
    pub(super) fn with_keeper(thread_name: &'static str, keeper: Arc<OnceLock<Keeper>>) -> Self {
        Pool {
            thread_name,
            keeper,
            state: Mutex::new(State {
                queue: Turns::default(),
                threads: Vec::new(),
                thread_ids: Vec::new(),
                twin_ids: Vec::new(),
                limit: 1,
                idle: 0,
                running: 0,
                panicked: 0,
                wish: LanePriority::default(),
                stopping: false,
            }),
            work: Condvar::new(),
            quiet: Condvar::new(),
        }
    }

    pub(crate) fn set_limit(self: &Arc<Self>, threads: usize, may_lower: bool) {
        let mut state = self.state.lock();
        if threads > state.limit || (may_lower && threads < state.limit) {
            state.limit = threads;
            self.start_missing(&mut state);
            self.work.notify_all();
        }
    }
    pub(crate) fn limit(&self) -> usize {
        self.state.lock().limit
    }
    pub(crate) fn queue_len(&self) -> usize {
        self.state.lock().queue.len()
    }
    pub(crate) fn running(&self) -> usize {
        self.state.lock().running
    }
    pub(crate) fn panicked(&self) -> u64 {
        self.state.lock().panicked
    }
    pub(crate) fn wish_cpu(&self, wish: CpuPriority) {
        self.state.lock().wish.cpu = wish;
    }
    pub(crate) fn wish_io(&self, wish: IoPriority) {
        self.state.lock().wish.io = wish;
    }
    pub(crate) fn threads(&self) -> Vec<(u64, u64)> {
        let state = self.state.lock();
        let all = state.thread_ids.iter().copied().zip(state.twin_ids.iter().copied());
        all.filter(|(id, _)| *id != 0).collect()
    }
    pub(crate) fn thread_ids(&self) -> Vec<u64> {
        self.threads().into_iter().map(|(id, _)| id).collect()
    }

    pub(super) fn submit(pool: &Arc<Pool>, job: Queued) {
        let mut state = pool.state.lock();
        state.queue.push(job);
        pool.start_missing(&mut state);
        pool.announce(&state);
    }

    /// As `submit`, for a caller that can also run the job itself.
    ///
    /// # Errors
    /// The job, when there is no thread that will ever take it.
    pub(crate) fn try_submit(pool: &Arc<Pool>, name: &'static str, job: Job) -> Result<(), Job> {
        let mut state = pool.state.lock();
        state.queue.push(Queued { name, tag: 0, parted: false, job });
        pool.start_missing(&mut state);
        if state.threads.is_empty()
            && let Some(own) = state.queue.pop_untagged_back()
        {
            return Err(own.job);
        }
        let ending = state.threads.len() > state.limit;
        // So that the woken thread finds the lock free.
        drop(state);
        if ending {
            pool.work.notify_all();
        } else {
            pool.work.notify_one();
        }
        Ok(())
    }

    /// Wakes a worker for a job that was queued. Requires: lock held.
    fn announce(&self, state: &State) {
        if state.threads.len() > state.limit {
            // One notification could reach a thread that is about to end.
            self.work.notify_all();
        } else {
            self.work.notify_one();
        }
    }

    /// Starts the first thread, if there is none yet. It stays as long as the limit allows any.
    pub(crate) fn start_first(self: &Arc<Self>) -> pumice_base::Result<()> {
        let mut state = self.state.lock();
        if state.threads.is_empty() && state.limit > 0 && !state.stopping {
            self.start_one(&mut state)?;
        }
        Ok(())
    }

    pub(crate) fn remove_tagged(&self, tag: u64) -> usize {
        let mut state = self.state.lock();
        let gone = state.queue.take_tagged(tag);
        self.report_quiet(&state);
        drop(state);
        // `gone` is dropped here, outside the lock: what a job captured may do anything.
        gone.len()
    }

    pub(crate) fn wait_idle(&self) {
        let quiet = |s: &State| s.running == 0 && (s.queue.is_empty() || s.limit == 0);
        drop(self.quiet.wait_while(self.state.lock(), |s| !quiet(s)));
    }

    /// Ends all threads; with `reopen` later jobs start new ones.
    pub(crate) fn join_all(&self, finish_queued: bool, reopen: bool) {
        let mut state = self.state.lock();
        let dropped =
            if finish_queued { Turns::default() } else { std::mem::take(&mut state.queue) };
        state.stopping = true;
        let twins = std::mem::take(&mut state.twin_ids).into_iter();
        let threads: Vec<_> = state.threads.drain(..).zip(twins).collect();
        state.thread_ids.clear();
        self.work.notify_all();
        drop(state);
        drop(dropped);
        // A job may own the last reference to the pools; its own thread ends by itself, and so does
        // the one whose twin that is.
        let own = os::thread_id();
        let others = threads.into_iter().filter(|(_, twin)| *twin != own);
        let others = others.filter_map(|(handle, _)| handle.filter(|h| !h.is_current()));
        for handle in others {
            // A worker catches its jobs' panics; there is nothing else in it that could fail.
            handle.join().expect("a pool thread ends normally");
        }
        self.state.lock().stopping = !reopen;
    }

    /// Starts threads while there are queued jobs without an idle thread. Requires: lock held.
    fn start_missing(self: &Arc<Self>, state: &mut State) {
        while state.threads.len() < state.limit && state.queue.len() > state.idle && !state.stopping
        {
            if self.start_one(state).is_err() {
                // The running threads will do the work. If there is none, the next submit tries
                // again.
                return;
            }
        }
    }

    /// Requires: lock held.
    fn start_one(self: &Arc<Self>, state: &mut State) -> pumice_base::Result<()> {
        let index = state.threads.len();
        let pool = Arc::clone(self);
        let body = move || pool.run(index);
        let handle = match self.keeper.get() {
            Some(keeper) => keeper.spawn(self.thread_name, Box::new(body)),
            None => thread::spawn_os(self.thread_name, body),
        }?;
        state.threads.push(Some(handle));
        state.thread_ids.push(0);
        state.twin_ids.push(0);
        // It counts as idle from its start, so that one job starts one thread.
        state.idle += 1;
        Ok(())
    }

    /// The life of one thread.
    fn run(self: &Arc<Self>, index: usize) {
        if let Some(id) = self.state.lock().thread_ids.get_mut(index) {
            *id = os::thread_id();
        }
        let mut own = LanePriority::default();
        while let Some((job, wish)) = self.take(index) {
            own = lower(own, wish);
            let keeper = self.keeper.get().filter(|_| own.is_lowered());
            let left = match keeper {
                Some(keeper) => self.pair(keeper, index, own, job),
                None => Err(job),
            };
            match left {
                Ok(()) => return,
                // Without a twin it does everything itself.
                Err(job) => self.finish(job.run()),
            }
        }
    }

    /// Serves a twin, which continues with `job`, until both end.
    ///
    /// # Errors
    /// The job, if there is no thread for a twin.
    fn pair(
        self: &Arc<Self>,
        keeper: &Keeper,
        index: usize,
        own: LanePriority,
        job: Queued,
    ) -> Result<(), Queued> {
        let worker = Worker::new(own, false);
        let (pool, served) = (Arc::clone(self), Arc::clone(&worker));
        let job = Arc::new(Mutex::new(Some(job)));
        let first = Arc::clone(&job);
        let body = move || {
            let first = first.lock().take();
            pool.run_twin(index, own, &served, first);
            served.close();
        };
        match keeper.spawn(self.thread_name, Box::new(body)) {
            Ok(twin) => {
                worker.serve();
                // It catches its jobs' panics, as the others do.
                twin.join().expect("a pool thread ends normally");
                Ok(())
            }
            Err(_) => job.lock().take().map_or(Ok(()), Err),
        }
    }

    /// The life of the twin of a lowered thread, which serves `worker`.
    fn run_twin(
        &self,
        index: usize,
        mut own: LanePriority,
        worker: &Arc<Worker>,
        mut first: Option<Queued>,
    ) {
        if let Some(id) = self.state.lock().twin_ids.get_mut(index) {
            *id = os::thread_id();
        }
        while let Some((job, wish)) =
            first.take().map(|job| (job, own)).or_else(|| self.take(index))
        {
            let lowered = own.lower(wish);
            if lowered != own {
                own = worker.run(|| lower(own, lowered));
                worker.set_priority(own);
            }
            Floor::new(own, worker).set();
            let panicked = if job.parted { job.run() } else { worker.run(|| job.run()) };
            self.finish(panicked);
        }
    }

    /// Waits for a job; `None` when the thread must end. Also returns the pool's requested
    /// priorities.
    fn take(&self, index: usize) -> Option<(Queued, LanePriority)> {
        let (mut state, job) = self.next_job(self.state.lock(), index)?;
        state.idle -= 1;
        state.running += 1;
        Some((job, state.wish))
    }

    /// A job that was taken is over.
    fn finish(&self, panicked: bool) {
        let mut state = self.state.lock();
        state.running -= 1;
        state.idle += 1;
        state.panicked += u64::from(panicked);
        self.report_quiet(&state);
    }

    /// Waits for a job; `None` when the thread must end. The thread counts as idle meanwhile.
    fn next_job<'a>(
        &self,
        mut state: MutexGuard<'a, State>,
        index: usize,
    ) -> Option<(MutexGuard<'a, State>, Queued)> {
        loop {
            let excess = index >= state.limit && !state.stopping;
            if excess && index + 1 == state.threads.len() {
                state.threads.pop();
                state.thread_ids.pop();
                state.twin_ids.pop();
                state.idle -= 1;
                // The next newest may be excess too.
                self.work.notify_all();
                return None;
            }
            if !excess && let Some(job) = state.queue.pop() {
                return Some((state, job));
            }
            if state.stopping {
                state.idle -= 1;
                return None;
            }
            state = self.work.wait(state);
        }
    }

    fn report_quiet(&self, state: &State) {
        if state.running == 0 && state.queue.is_empty() {
            self.quiet.notify_all();
        }
    }
}

impl Queued {
    /// Runs it; whether it panicked.
    fn run(self) -> bool {
        let result = catch_unwind(AssertUnwindSafe(self.job));
        if let Err(panic) = &result {
            let message = thread::panic_message(panic.as_ref());
            eprintln!("pumice: background job {} panicked: {message}", self.name);
        }
        result.is_err()
    }
}

/// Lowers the calling thread, which has the priority `own`, to what the pool requests; returns what
/// it then has. A priority that the kernel refuses to change stays as it was.
fn lower(mut own: LanePriority, wish: LanePriority) -> LanePriority {
    if wish.cpu < own.cpu && os::set_thread_cpu_priority(wish.cpu).is_ok() {
        own.cpu = wish.cpu;
    }
    if wish.io < own.io && os::set_thread_io_priority(wish.io).is_ok() {
        own.io = wish.io;
    }
    own
}
