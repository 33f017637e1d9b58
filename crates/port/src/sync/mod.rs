//! Locks and waiting, without poisoning, for threads and fibers alike.
//!
//! Every primitive is a state word, changed by one atomic operation where there are no waiters, and
//! a queue of waiters that park (`crate::task`): a thread sleeps, a fiber yields its loop, and both
//! may wait on one lock. The kind of the caller is determined only where it must wait. A task that
//! panics while it holds a guard only releases the lock: code that needs to know that an invariant
//! may be broken keeps its own failed state. Any blocking call here suspends.
//!
//! Contracts (order, fairness, what suspends): docs/port/. Models: `models/mod.rs`.
//! Thread safety: all types are `Sync` as their std counterparts are.

mod condvar;
mod event;
mod mutex;
mod order;
#[doc(hidden)]
pub mod planted;
mod queue;
mod raw_lock;
mod raw_mutex;
mod rwlock;
mod semaphore;
mod shared_work;

pub use condvar::Condvar;
pub use event::Event;
pub use mutex::{Mutex, MutexGuard};
pub use order::{HeldAside, LockRank, RankHeld};
#[cfg(loom)]
#[doc(hidden)]
pub use raw_lock::RawLock;
pub use rwlock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use semaphore::Semaphore;
pub use shared_work::SharedWork;

/// How often a thread looks again whether a lock is free before it queues.
#[cfg(not(loom))]
const SPINS: u32 = 100;
#[cfg(loom)]
const SPINS: u32 = 0;

/// How long a waiter may lose a lock to tasks that came later: 0.5 ms.
#[cfg(not(loom))]
const fn hand_off_nanos() -> u64 {
    500_000
}

/// Without a clock, the model decides whether the time has come.
#[cfg(loom)]
fn hand_off_nanos() -> u64 {
    u64::from(!planted::HAND_OFF.load(std::sync::atomic::Ordering::Relaxed))
}

#[cfg(all(test, not(loom)))]
pub(crate) mod conformance;
#[cfg(all(test, not(loom)))]
mod tests;
