//! Locks and waiting, without poisoning.
//!
//! `Mutex`, `RwLock` and `Condvar` have std's shape and std's futex fast path (one atomic
//! operation, inlined). A thread that panics while it holds a guard releases the lock and nothing
//! else: whoever needs "the invariant may be broken" keeps its own failed state. Any blocking call
//! here suspends.
//!
//! Thread safety: all types are `Sync` as their std counterparts are. None is fair.

mod mutex;
mod semaphore;

pub use mutex::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use semaphore::{Event, Semaphore};

#[cfg(test)]
mod tests;
