//! Where a job's own thread picks up the work that its lane's threads hand back.
//!
//! Invariants:
//! 1. What was handed back is run by the serving thread, before `serve` returns.
//! 2. A thread that puts something there waits until it was run.
//!
//! Thread safety: one thread serves; any may put.

use crate::sync::{Condvar, Mutex};
use crate::thread::{Body, Packet, erase};
use std::collections::VecDeque;
use std::panic::resume_unwind;

#[derive(Default)]
struct State {
    tasks: VecDeque<Body>,
    /// The work is done: remaining requests are run, and then nothing more is served.
    ended: bool,
    closed: bool,
}

/// See the head of this file.
#[derive(Default)]
pub(crate) struct HandBack {
    state: Mutex<State>,
    changed: Condvar,
}

impl HandBack {
    /// Runs `f` on the thread that serves; here if none serves any more. Suspends.
    pub(crate) fn put<T: Send>(&self, f: impl FnOnce() -> T + Send) -> T {
        let (packet, promise) = Packet::new();
        let work = promise.work(f);
        // SAFETY: it is run, and dropped, before this returns: by the serving thread (invariants 1
        // and 2), or right here.
        let task = unsafe { erase(Box::new(move || work.run_in_passing())) };
        let mut state = self.state.lock();
        if state.closed {
            drop(state);
            task();
        } else {
            state.tasks.push_back(task);
            drop(state);
            self.changed.notify_one();
        }
        packet.wait();
        packet.take().unwrap_or_else(|panic| resume_unwind(panic))
    }

    /// Runs what is put, until the work has ended. Suspends.
    pub(crate) fn serve(&self) {
        let mut state = self.state.lock();
        loop {
            if let Some(task) = state.tasks.pop_front() {
                drop(state);
                task();
                state = self.state.lock();
            } else if state.ended {
                state.closed = true;
                return;
            } else {
                state = self.changed.wait(state);
            }
        }
    }

    /// The work has ended.
    pub(crate) fn end(&self) {
        self.state.lock().ended = true;
        self.changed.notify_one();
    }
}
