//! The kick protocol: a loop that sleeps is woken by one system call, one that runs by none.
//!
//! One word per loop, changed by read-modify-write operations only:
//!
//! | word | meaning | left by |
//! |---|---|---|
//! | RUN | the loop runs and has not been notified | a waker (to NOTIFIED), the loop (to SLEEP) |
//! | SLEEP | it sleeps or is about to | a waker (to NOTIFIED, and kicks), the loop (to RUN) |
//! | NOTIFIED | work was published since the loop last looked | the loop (to RUN) |
//!
//! A waker first publishes its work and then calls [`Kick::notify`]; the loop checks for work after
//! each change to RUN. Every change is an acquire and a release of the same word, so a loop that
//! falls asleep without seeing some work has its word at SLEEP when that work's waker reads it. One
//! waker at most reads SLEEP per sleep, hence one kick at most.
//!
//! Thread safety: `notify` from anywhere; the other methods from the loop's thread. It does not do
//! the kick: the waker does, by the means the loop sleeps on.

use crate::atomic::{AtomicU32, Ordering};

const RUN: u32 = 0;
const SLEEP: u32 = 1;
const NOTIFIED: u32 = 2;

/// See the head of this file.
pub(crate) struct Kick(AtomicU32);

impl Kick {
    /// The word of a loop that runs.
    pub(crate) fn new() -> Self {
        Kick(AtomicU32::new(RUN))
    }

    /// Tells the loop that work was published; true when the caller must kick it.
    #[inline]
    pub(crate) fn notify(&self) -> bool {
        self.0.swap(NOTIFIED, Ordering::AcqRel) == SLEEP
    }

    /// The loop found no work and wants to sleep; false when it must check again first.
    pub(crate) fn begin_sleep(&self) -> bool {
        if self.0.compare_exchange(RUN, SLEEP, Ordering::AcqRel, Ordering::Acquire).is_ok() {
            return true;
        }
        self.0.swap(RUN, Ordering::AcqRel);
        false
    }

    /// The loop runs again, for whatever reason; true when a waker kicks or has kicked it.
    pub(crate) fn end_sleep(&self) -> bool {
        self.0.swap(RUN, Ordering::AcqRel) == NOTIFIED
    }

    /// Whether the loop sleeps, as seen from other threads.
    pub(crate) fn sleeps(&self) -> bool {
        self.0.load(Ordering::Relaxed) == SLEEP
    }
}
