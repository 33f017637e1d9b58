//! Planted bugs that loom must find: the proof that its models detect anything at all.
//!
//! A model switches one on for the execution of one test, through a std atomic that loom does not
//! track. Outside loom one of them can be turned on for the simulation (`pumice_base::planted`),
//! and without its cfg `planted` is a constant false. Thread safety: any thread.

/// One wrong line each; the models in `models/mod.rs` say which of them detects it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Planted {
    /// A waiter for a mutex links its node without marking the state.
    MutexQueuesUnmarked = 1,
    /// A condvar's waiter unlocks the mutex before it is in the queue.
    CondvarUnlocksFirst,
    /// A condvar's waiter that times out does not check whether it is still in the queue.
    CondvarTimeoutUnlinksTwice,
    /// The last reader does not check for waiters.
    RwLockReaderLeavesQuietly,
    /// A releaser reads the permits before it takes the queue's lock, and not again.
    SemaphoreQueuesUnmarked,
    /// A waiter for an event links its node without checking the flag again.
    EventNoRecheck,
    /// An event publishes its flag without ordering earlier writes.
    EventRelaxed,
    /// The setter of an event wakes the waiters before it is done with the event.
    EventWakesUnderLock,
    /// The emitter of a ring looks for blocks to compress before it counts the one it has emitted.
    RingOldEmit,
    /// A helper checks whether the emitter must be woken before its own step counts as done.
    RingWakesLate,
    /// A ring's changes are relaxed: they order nothing else.
    RingRelaxed,
    /// The owner of shared work does not wait for helpers that are still at a piece.
    SharedWorkNotAwaited,
}

#[cfg(not(loom))]
#[inline(always)]
pub(crate) fn planted(bug: Planted) -> bool {
    use pumice_base::planted::{Bug, is};
    bug == Planted::CondvarUnlocksFirst && is(Bug::CondvarLosesWakeup)
}

#[cfg(loom)]
pub(crate) use switched::planted;
#[cfg(loom)]
pub use switched::{ACTIVE, HAND_OFF};

#[cfg(loom)]
mod switched {
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

    /// The bug that is on, as a number; 0 for none.
    pub static ACTIVE: AtomicU32 = AtomicU32::new(0);
    /// Whether every waiter that has lost once counts as overdue.
    pub static HAND_OFF: AtomicBool = AtomicBool::new(false);

    pub(crate) fn planted(bug: super::Planted) -> bool {
        ACTIVE.load(Ordering::Relaxed) == bug as u32
    }
}
