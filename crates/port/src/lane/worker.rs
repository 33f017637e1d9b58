//! The threads of lanes: started for a priority, kept for a while, used again.
//!
//! | a worker | gets bodies from | ends |
//! |---|---|---|
//! | of a lane | [`Worker::find`] | idle for [`IDLE_SECONDS_MAX`], or its priority was changed |
//! | of a lowered pool | the pool, and `find` for the pool's jobs | with the pool's thread |
//!
//! Thread safety: all methods from any thread. The list of idle workers is a leaf; lowered threads
//! take it, and no reader or writer does.

use super::job_thread::change;
use super::{Floor, LanePriority};
use crate::os;
use crate::sim;
use crate::sync::{Condvar, Mutex};
use crate::thread::{self, Body};
use pumice_base::Result;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// For how long an idle worker keeps its thread, in seconds.
const IDLE_SECONDS_MAX: u64 = 10;
/// Idle workers at most; more end at once.
const IDLE_MAX: usize = 16;

static IDLE: Mutex<Vec<Arc<Worker>>> = Mutex::new(Vec::new());

enum Inbox {
    Empty,
    Full(Body),
    Closed,
}

/// A thread that runs one body after another.
pub(crate) struct Worker {
    /// The priority of its thread, unless that was changed.
    priority: Mutex<LanePriority>,
    inbox: Mutex<Inbox>,
    filled: Condvar,
    /// The worker is taken, or it runs a body.
    taken: AtomicBool,
    /// The thread's priority is not the one it was started for.
    other_priority: AtomicBool,
}

impl Worker {
    pub(crate) fn new(priority: LanePriority, taken: bool) -> Arc<Self> {
        Arc::new(Worker {
            priority: Mutex::new(priority),
            inbox: Mutex::new(Inbox::Empty),
            filled: Condvar::new(),
            taken: AtomicBool::new(taken),
            other_priority: AtomicBool::new(false),
        })
    }

    /// A worker of that priority, for one body: the pool's, an idle one, or a new one.
    ///
    /// # Errors
    /// There is no worker, and the operating system refuses a thread.
    pub(super) fn find(floor: &Floor, priority: LanePriority) -> Result<Arc<Self>> {
        if let Some(worker) = &floor.worker
            && worker.priority() == priority
            && !worker.other_priority.load(Ordering::Relaxed)
            && !worker.taken.swap(true, Ordering::Acquire)
        {
            return Ok(Arc::clone(worker));
        }
        // A simulation has no threads of the process.
        if !sim::is_running() {
            let mut idle = IDLE.lock();
            if let Some(at) = idle.iter().rposition(|worker| worker.priority() == priority) {
                return Ok(idle.swap_remove(at));
            }
        }
        let worker = Worker::new(priority, true);
        let own = Arc::clone(&worker);
        thread::spawn_os("pumice:lane", move || own.live())?;
        Ok(worker)
    }

    /// Has a worker that was found run `body`, which does not unwind.
    pub(super) fn give(&self, body: Body) {
        *self.inbox.lock() = Inbox::Full(body);
        self.filled.notify_one();
    }

    /// The worker's thread has a different priority from the one it was started for.
    pub(super) fn mark_other_priority(&self) {
        self.other_priority.store(true, Ordering::Relaxed);
    }
    pub(crate) fn has_other_priority(&self) -> bool {
        self.other_priority.load(Ordering::Relaxed)
    }

    /// The life of a lane's worker.
    fn live(self: Arc<Self>) {
        let base = os::thread_priority();
        // A refusal by the kernel shows in the reports of the lane.
        if change(0, LanePriority::default(), self.priority(), base).is_err() {
            self.mark_other_priority();
        }
        let mut limit = None;
        while let Some(body) = self.next(limit) {
            body();
            if self.has_other_priority() || sim::is_running() || !self.rest() {
                return;
            }
            limit = Some(Duration::from_secs(IDLE_SECONDS_MAX));
        }
    }

    /// Joins the idle workers; false when there are enough.
    fn rest(self: &Arc<Self>) -> bool {
        let mut idle = IDLE.lock();
        let room = idle.len() < IDLE_MAX;
        if room {
            idle.push(Arc::clone(self));
        }
        room
    }

    /// The next body; None when there will be no more, or none came within `limit`.
    fn next(&self, limit: Option<Duration>) -> Option<Body> {
        let mut inbox = self.inbox.lock();
        let mut timed_out = false;
        loop {
            match std::mem::replace(&mut *inbox, Inbox::Empty) {
                Inbox::Full(body) => return Some(body),
                Inbox::Closed => return None,
                Inbox::Empty => {}
            }
            if timed_out {
                // The thread that took it off the list is about to give it something.
                let mut idle = IDLE.lock();
                let place = idle.iter().position(|other| std::ptr::eq(&**other, self));
                if let Some(place) = place {
                    idle.swap_remove(place);
                    return None;
                }
                timed_out = false;
            }
            inbox = match limit {
                None => self.filled.wait(inbox),
                Some(limit) => {
                    let (inbox, late) = self.filled.wait_timeout(inbox, limit);
                    timed_out = late;
                    inbox
                }
            };
        }
    }

    /// The life of a pool's thread after it was lowered: runs bodies until [`Worker::close`].
    pub(crate) fn serve(&self) {
        while let Some(body) = self.next(None) {
            body();
        }
    }

    /// Makes it available again. Called by the thread that took it, after what it was given has
    /// ended.
    pub(super) fn release(&self) {
        self.taken.store(false, Ordering::Release);
    }

    /// Ends `serve`. Everything that was given has been run.
    pub(crate) fn close(&self) {
        *self.inbox.lock() = Inbox::Closed;
        self.filled.notify_one();
    }

    fn priority(&self) -> LanePriority {
        *self.priority.lock()
    }
    /// The worker's thread, a pool's, was lowered further.
    pub(crate) fn set_priority(&self, priority: LanePriority) {
        *self.priority.lock() = priority;
    }

    /// Runs `f` on the thread that serves this, a pool's. Suspends; a panic of `f` continues here.
    pub(crate) fn run<T: Send>(&self, f: impl FnOnce() -> T + Send) -> T {
        let (packet, promise) = thread::Packet::new();
        let work = promise.work(f);
        self.taken.store(true, Ordering::Relaxed);
        // SAFETY: a worker runs what it is given, and that is waited for.
        self.give(unsafe { thread::erase(Box::new(move || work.run_in_passing())) });
        packet.wait();
        self.release();
        packet.take().unwrap_or_else(|panic| resume_unwind(panic))
    }
}
