//! A thread that starts other threads, at the priority that it was itself started with.
//!
//! A new thread inherits its starter's priority, and raising it needs a privilege. A lowered worker
//! that hands a job to another pool could start that pool's first thread, and all jobs of that pool
//! would run lowered from then on. So once anything is lowered, the keeper starts the threads.
//!
//! Invariants:
//! 1. At most one request is in the slot: callers hold `turn` from before it is put there until the
//!    answer is taken.
//! 2. The keeper takes no other lock, so it may be called while any is held.
//!
//! Thread safety: all methods from any thread; `spawn` waits for the keeper.

use crate::sync::{Condvar, Mutex};
use crate::thread::{self, JoinHandle};
use pumice_base::Result;
use std::sync::Arc;

type Body = Box<dyn FnOnce() + Send>;

enum Slot {
    Empty,
    Wanted(&'static str, Body),
    Started(Result<JoinHandle<()>>),
    Stop,
}

struct Shared {
    turn: Mutex<()>,
    slot: Mutex<Slot>,
    changed: Condvar,
}

/// See the head of this file. Dropping it ends the thread, and waits for that.
pub(super) struct Keeper {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    /// Starts the keeper, at the priority of the calling thread.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(super) fn start() -> Result<Self> {
        let shared = Arc::new(Shared {
            turn: Mutex::new(()),
            slot: Mutex::new(Slot::Empty),
            changed: Condvar::new(),
        });
        let own = Arc::clone(&shared);
        let thread = thread::spawn_os("pumice:keeper", move || own.run())?;
        Ok(Keeper { shared, thread: Some(thread) })
    }

    /// Starts a thread at the keeper's priority. Suspends for as long as that takes.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(super) fn spawn(&self, name: &'static str, body: Body) -> Result<JoinHandle<()>> {
        let shared = &*self.shared;
        let _turn = shared.turn.lock();
        let mut slot = shared.slot.lock();
        *slot = Slot::Wanted(name, body);
        shared.changed.notify_all();
        loop {
            match std::mem::replace(&mut *slot, Slot::Empty) {
                Slot::Started(answer) => return answer,
                other => *slot = other,
            }
            slot = shared.changed.wait(slot);
        }
    }
}

impl Shared {
    fn run(&self) {
        let mut slot = self.slot.lock();
        loop {
            match std::mem::replace(&mut *slot, Slot::Empty) {
                Slot::Stop => return,
                Slot::Wanted(name, body) => {
                    *slot = Slot::Started(thread::spawn_os(name, body));
                    self.changed.notify_all();
                }
                other => *slot = other,
            }
            slot = self.changed.wait(slot);
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        *self.shared.slot.lock() = Slot::Stop;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take().filter(|thread| !thread.is_current()) {
            thread.join().expect("the keeper runs nobody's code");
        }
    }
}
