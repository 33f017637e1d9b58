//! The lock inside a wait queue: a few instructions long, never held over anything that suspends.
//!
//! It blocks the thread, not the fiber: its holder is always running (or preempted), so the wait is
//! short, and waiters for a holder at low priority sleep in the kernel instead of spinning. States:
//! 0 free, 1 held, 2 held and possibly slept on.
//!
//! Thread safety: all methods from any thread. Not fair.

use crate::atomic::{Ordering, constant};
use crate::task::futex::Futex;

const FREE: u32 = 0;
const HELD: u32 = 1;
const SLEPT_ON: u32 = 2;

/// How often a taker looks again before it sleeps.
#[cfg(not(loom))]
const SPINS: u32 = 64;
#[cfg(loom)]
const SPINS: u32 = 0;

/// See the module head.
pub struct RawLock(Futex);

impl RawLock {
    constant! {
        /// A free lock.
        pub fn new() -> RawLock {
            RawLock(Futex::new(FREE))
        }
    }

    /// Takes the lock. Blocks the thread.
    #[inline]
    pub fn lock(&self) {
        if self.0.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_err() {
            self.lock_slow();
        }
    }

    #[cold]
    fn lock_slow(&self) {
        for _ in 0..SPINS {
            let free = self.0.load(Ordering::Relaxed) == FREE;
            let (from, to) = (FREE, HELD);
            if free
                && self.0.compare_exchange(from, to, Ordering::Acquire, Ordering::Relaxed).is_ok()
            {
                return;
            }
            std::hint::spin_loop();
        }
        while self.0.swap(SLEPT_ON, Ordering::Acquire) != FREE {
            self.0.wait(SLEPT_ON, None);
        }
    }

    /// Gives the lock back. The word is not read or written after the others can see it free.
    #[inline]
    pub fn unlock(&self) {
        if self.0.swap(FREE, Ordering::Release) == SLEPT_ON {
            self.0.wake_one();
        }
    }
}
