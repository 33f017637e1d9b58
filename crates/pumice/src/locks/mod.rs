//! Locks of keys: who holds them, who waits for whom, and when waiting would never end.
//!
//! | file | holds |
//! |---|---|
//! | `holder` | a transaction as far as locks are concerned: its id, when it expires, its state |
//! | `table` | the locks of all column families, in stripes; waiting |
//! | `ranges` | locks of ranges of keys |
//! | `pause` | one wait: for whom, until when |
//! | `waits` | who waits for whom, the search for deadlocks, the last ones found: pure |
//!
//! It knows keys as bytes and column families as numbers, and nothing of databases. Lock order: a
//! stripe, then the ranges, then the waits. Thread safety: from any task; waiting suspends a fiber
//! and parks a thread.

mod holder;
mod pause;
mod ranges;
mod table;
mod waits;

pub use holder::TransactionState;
pub(crate) use holder::{Holder, NEVER};
pub use table::HeldLock;
pub(crate) use table::{LockOptions, LockTables, Wanted};
pub use waits::{DeadlockPath, Wait};

#[cfg(test)]
mod tests;
