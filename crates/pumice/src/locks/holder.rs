//! A holder of locks: a transaction, a plain write, or whoever else needs locks of keys.
//!
//! | from | to | by |
//! |---|---|---|
//! | Started | AwaitingPrepare, AwaitingCommit, AwaitingRollback | its own calls |
//! | AwaitingPrepare | Prepared; Started if the log failed | its prepare |
//! | Prepared | AwaitingCommit, AwaitingRollback | its own calls |
//! | AwaitingCommit | Committed; back where it came from if the write failed | its commit |
//! | AwaitingRollback | RolledBack; Prepared if the log failed | its rollback |
//! | Started, expired | LocksStolen | anyone who wants one of its locks |
//!
//! Thread safety: from any task. Invariant: a change of state is one compare-and-swap, so a holder
//! whose locks were stolen never commits, and one that commits loses no lock.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// Time of expiration of a holder that never expires.
pub(crate) const NEVER: u64 = u64::MAX;

/// Where a transaction is. Numbers are RocksDB's `TransactionState`.
///
/// Example: that of [`HeldLock`](crate::HeldLock).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[repr(u8)]
pub enum TransactionState {
    /// Reads and writes are possible.
    Started = 0,
    /// Its prepare is under way.
    AwaitingPrepare = 1,
    /// It is in the log, and can be committed or rolled back.
    Prepared = 2,
    /// Its commit is under way.
    AwaitingCommit = 3,
    /// It took effect.
    Committed = 4,
    /// The rollback of a prepared one is under way.
    AwaitingRollback = 5,
    /// It was prepared and has no effect.
    RolledBack = 6,
    /// It expired, and another one has taken one of its locks.
    LocksStolen = 7,
}

impl TransactionState {
    const ALL: [TransactionState; 8] = [
        TransactionState::Started,
        TransactionState::AwaitingPrepare,
        TransactionState::Prepared,
        TransactionState::AwaitingCommit,
        TransactionState::Committed,
        TransactionState::AwaitingRollback,
        TransactionState::RolledBack,
        TransactionState::LocksStolen,
    ];
}

/// See the head of this file.
#[derive(Debug)]
pub(crate) struct Holder {
    id: u64,
    /// Microseconds of `port::time::now_micros`.
    expires_at: AtomicU64,
    state: AtomicU8,
}

impl Holder {
    pub fn new(id: u64, expires_at: u64) -> Self {
        let state = AtomicU8::new(TransactionState::Started as u8);
        Holder { id, expires_at: AtomicU64::new(expires_at), state }
    }

    pub fn id(&self) -> u64 {
        self.id
    }

    pub fn state(&self) -> TransactionState {
        TransactionState::ALL[usize::from(self.state.load(Ordering::Acquire)) % 8]
    }

    /// Changes its state; false if it was another one than `from`.
    pub fn change(&self, from: TransactionState, to: TransactionState) -> bool {
        let (from, to) = (from as u8, to as u8);
        self.state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    pub fn expires_at(&self) -> u64 {
        self.expires_at.load(Ordering::Acquire)
    }

    /// It does not expire any more.
    pub fn keep(&self) {
        self.expires_at.store(NEVER, Ordering::Release);
    }

    pub fn is_expired(&self, now: u64) -> bool {
        self.expires_at() <= now
    }

    /// Whether its locks may be taken away: it has expired, and will not commit.
    pub fn steal(&self, now: u64) -> bool {
        let stolen = TransactionState::LocksStolen;
        self.is_expired(now)
            && (self.change(TransactionState::Started, stolen) || self.state() == stolen)
    }
}
