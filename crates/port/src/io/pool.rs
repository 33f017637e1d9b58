//! A ring without a kernel: a few threads perform the calls on files.
//!
//! It serves where io_uring is refused (containers, old kernels). The threads are shared by all
//! loops of the process and end when they have had nothing to do for a while. Sockets are not given
//! to threads, which they could block forever: the loop itself waits for them (`sockets`).
//!
//! Invariants:
//! 1. A call is in exactly one place: `queued`, the pool's queue, with a worker, in line for its
//!    socket, or it has its completion in `finished` or `ready`.
//! 2. Putting a completion into an empty `finished` kicks the loop, so that none is missed.
//!
//! Thread safety: the ring belongs to its loop; workers see only `Finished`. Workers are threads of
//! the operating system and wait on std's locks: they must work when no fiber can run.

use super::in_flight::{Completion, KICK, Request, Uring, Wait, What};
use super::kicker::Kicker;
use super::op::{self, Call};
use super::sockets::Sockets;
use crate::thread::spawn_thread;
use crate::time;
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// At least this many threads may exist, and one per CPU up to `THREADS_MAX`.
const THREADS_MIN: usize = 4;
const THREADS_MAX: usize = 16;
const IDLE: Duration = Duration::from_secs(5);
/// Requests queued before `push` says that the queue is full.
const QUEUE_ENTRIES: usize = 512;

struct Finished {
    list: Mutex<Vec<Completion>>,
    kicker: Kicker,
}

struct Job {
    user_data: u64,
    call: Call,
    finished: Arc<Finished>,
}

struct Queue {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
}

static QUEUE: Mutex<Queue> = Mutex::new(Queue { jobs: VecDeque::new(), threads: 0, idle: 0 });
static WORK: Condvar = Condvar::new();

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Finished {
    fn add(&self, completion: Completion) {
        let mut list = lock(&self.list);
        let first = list.is_empty();
        list.push(completion);
        drop(list);
        if first {
            self.kicker.kick();
        }
    }
}

fn start(job: Job) {
    let mut queue = lock(&QUEUE);
    queue.jobs.push_back(job);
    if queue.idle >= queue.jobs.len() {
        WORK.notify_one();
        return;
    }
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    if queue.threads >= cpus.clamp(THREADS_MIN, THREADS_MAX) {
        return;
    }
    queue.threads += 1;
    if spawn_thread("pumice-io", work).is_err() {
        queue.threads -= 1;
        // Without any thread the call would never be taken: the loop performs it itself.
        if queue.threads == 0
            && let Some(job) = queue.jobs.pop_back()
        {
            drop(queue);
            run(&job);
        }
    }
}

fn run(job: &Job) {
    let result = op::perform(&job.call);
    job.finished.add(Completion { user_data: job.user_data, result, more: false });
}

fn work() {
    let mut queue = lock(&QUEUE);
    loop {
        if let Some(job) = queue.jobs.pop_front() {
            drop(queue);
            run(&job);
            queue = lock(&QUEUE);
            continue;
        }
        queue.idle += 1;
        let (again, timeout) =
            WORK.wait_timeout(queue, IDLE).unwrap_or_else(PoisonError::into_inner);
        queue = again;
        queue.idle -= 1;
        if timeout.timed_out() && queue.jobs.is_empty() {
            queue.threads -= 1;
            return;
        }
    }
}

/// See the head of this file.
pub(crate) struct PoolRing {
    queued: Vec<Request>,
    /// From the first call for a socket on; until then the ring waits for kicks alone.
    sockets: Option<Sockets>,
    ready: VecDeque<Completion>,
    finished: Arc<Finished>,
    kicker: Kicker,
}

impl PoolRing {
    /// A ring that is woken through `kicker`.
    pub(crate) fn new(kicker: Kicker) -> Self {
        let finished = Finished { list: Mutex::new(Vec::new()), kicker: kicker.clone() };
        PoolRing {
            queued: Vec::new(),
            sockets: None,
            ready: VecDeque::new(),
            finished: Arc::new(finished),
            kicker,
        }
    }

    fn end(&mut self, user_data: u64, result: i32) {
        self.ready.push_back(Completion { user_data, result, more: false });
    }

    fn take_over(&mut self, request: &Request) {
        match request.what {
            What::Call(call) => {
                let finished = Arc::clone(&self.finished);
                start(Job { user_data: request.user_data, call, finished });
            }
            What::Cancel(target) => {
                let result = self.cancel(target);
                self.end(request.user_data, result);
            }
            // `submit` watches the kicker by itself.
            What::Kicks(_) => {}
        }
    }

    /// Ends a call that no worker has begun; the result of the cancellation.
    fn cancel(&mut self, target: u64) -> i32 {
        if self.sockets.as_mut().is_some_and(|sockets| sockets.cancel(target)) {
            self.end(target, -libc::ECANCELED);
            return 0;
        }
        let mut queue = lock(&QUEUE);
        let own = |job: &Job| job.user_data == target && Arc::ptr_eq(&job.finished, &self.finished);
        let Some(place) = queue.jobs.iter().position(own) else { return -libc::ENOENT };
        queue.jobs.remove(place);
        drop(queue);
        self.end(target, -libc::ECANCELED);
        0
    }

    fn collect(&mut self) {
        self.ready.extend(lock(&self.finished.list).drain(..));
    }

    /// Begins a call for a socket.
    fn begin(&mut self, user_data: u64, call: Call) {
        let sockets = match &mut self.sockets {
            Some(sockets) => sockets,
            none => match Sockets::new(&self.kicker) {
                Ok(new) => none.insert(new),
                Err(e) => return self.end(user_data, -e.raw_os_error().unwrap_or(libc::EIO)),
            },
        };
        if let Some(result) = sockets.begin(user_data, call) {
            self.end(user_data, result);
        }
    }

    /// System calls made for sockets so far.
    pub(super) fn socket_calls(&self) -> u64 {
        self.sockets.as_ref().map_or(0, Sockets::calls)
    }

    /// Waits for a kick or a socket, at most `nanos`.
    fn wait(&mut self, nanos: Option<u64>) {
        let ready = &mut self.ready;
        let end = |user_data, result| {
            ready.push_back(Completion { user_data, result, more: false });
        };
        let is_kicked = match &mut self.sockets {
            Some(sockets) => sockets.wait(nanos, end),
            None => op::wait_for(self.kicker.fd(), libc::POLLIN, nanos).is_ok_and(|seen| seen != 0),
        };
        if is_kicked {
            if self.sockets.is_none() {
                self.kicker.clear();
            }
            self.ready.push_back(Completion { user_data: KICK, result: 0, more: true });
        }
    }
}

impl Uring for PoolRing {
    fn push(&mut self, request: &Request) -> bool {
        if let What::Call(call) = request.what
            && !matches!(call, Call::Read { .. } | Call::Write { .. } | Call::Sync { .. })
        {
            self.begin(request.user_data, call);
            return true;
        }
        let room = self.queued.len() < QUEUE_ENTRIES;
        if room {
            self.queued.push(*request);
        }
        room
    }

    fn queued(&self) -> usize {
        self.queued.len()
    }

    fn is_ready(&self) -> bool {
        !self.ready.is_empty() || !lock(&self.finished.list).is_empty()
    }

    fn must_look(&self) -> bool {
        self.sockets.as_ref().is_some_and(|sockets| sockets.waiting() > 0)
    }

    fn submit(&mut self, wait: Wait) -> io::Result<()> {
        let mut queued = std::mem::take(&mut self.queued);
        for request in queued.drain(..) {
            self.take_over(&request);
        }
        self.queued = queued;
        self.collect();
        let nanos = match wait {
            _ if !self.ready.is_empty() => Some(0),
            Wait::No => Some(0),
            Wait::Until(deadline) => Some(deadline.saturating_sub(time::monotonic_nanos())),
            Wait::Forever | Wait::Completion => None,
        };
        if nanos != Some(0) || self.must_look() {
            self.wait(nanos);
            self.collect();
        }
        Ok(())
    }

    fn reap(&mut self) -> Option<Completion> {
        self.ready.pop_front()
    }

    /// It never fails.
    fn close(&mut self, _is_used: bool) {}
}
