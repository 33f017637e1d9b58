//! What all tasks of a server share: the sessions' state, how many connections there are, and that
//! it is ending.
//!
//! Thread safety: everything may be shared. Invariant: a connection has entered before it is served
//! and leaves when it has ended; once the shutdown has begun none enters.

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use pumice_port::fiber::Workers;
use pumice_port::sync::{Condvar, Event, Mutex};
use pumice_port::{os, time};

use crate::session::Shared;

/// Descriptors that the database needs.
const OWN_DESCRIPTORS: u64 = 512;

/// State shared by all serving tasks.
pub struct Server {
    /// What connections share.
    pub shared: Shared,
    /// No further connections are accepted.
    pub(super) is_ending: Event,
    /// Connections there are.
    live: Mutex<usize>,
    fewer: Condvar,
    /// Maximum connections for the limit of descriptors.
    connections_max: usize,
    /// Round-robin counter; modulo the loops it gives the next connection's loop.
    pub(super) next_loop: AtomicU64,
    /// The pool that executes commands, with `runtime threads`.
    workers: Option<Workers>,
}

impl Server {
    pub(super) fn new(shared: Shared) -> Server {
        let config = &shared.config;
        let workers = (config.get("runtime") == "threads")
            .then(|| Workers::new("pumice:worker", config.number("workers") as usize));
        Server {
            workers,
            shared,
            is_ending: Event::new(),
            live: Mutex::new(0),
            fewer: Condvar::new(),
            connections_max: os::descriptor_limit().saturating_sub(OWN_DESCRIPTORS) as usize,
            next_loop: AtomicU64::new(0),
        }
    }

    /// The engine is called on fibers, which it does not block.
    pub(super) fn calls_on_loops(&self) -> bool {
        self.workers.is_none()
    }

    /// Runs `f`, which calls the engine, on the kind of thread that such calls need. Suspends.
    pub(super) fn on_worker<R: Send>(&self, f: impl FnOnce() -> R + Send) -> R {
        match &self.workers {
            Some(workers) => workers.run(f),
            None => f(),
        }
    }

    pub(super) fn wait_until_alone(&self, limit: Duration) -> bool {
        let end = time::now_micros() + limit.as_micros() as u64;
        let mut live = self.live.lock();
        while *live > 0 {
            let now = time::now_micros();
            if now >= end {
                return false;
            }
            live = self.fewer.wait_timeout(live, Duration::from_micros(end - now)).0;
        }
        true
    }

    /// A place for one more connection, unless there are too many or the shutdown has begun.
    pub(super) fn enter(&self) -> bool {
        let most = self.shared.config.number("maxclients") as usize;
        let mut live = self.live.lock();
        // Under the lock, so that the wait for all connections to end misses none.
        let room = *live < most.min(self.connections_max) && !self.is_ending.is_set();
        *live += usize::from(room);
        room
    }

    pub(super) fn leave(&self) {
        *self.live.lock() -= 1;
        self.fewer.notify_all();
    }
}
