//! Transactions by seed, and the judge of what they did.
//!
//! | file | holds |
//! |---|---|
//! | `actor` | a task that runs one drawn transaction after the other |
//! | `ledger` | what was committed, what is under way, what a crash may leave of it |
//! | `crowd` | many actors on one database, on threads or on fibers |
//!
//! Every value names its writer and the version that it replaced (`testkit::serial`), so the
//! database itself shows the order of commits.

pub mod actor;
pub mod crowd;
pub mod ledger;

use pumice::{
    ColumnFamily, Db, OptimisticTransactionDb, OptimisticTransactionOptions, Transaction,
    TransactionDb, TransactionOptions, WriteOptions,
};
use pumice_testkit::serial::Level;

/// A database of either kind.
#[derive(Clone, Debug)]
pub enum Base {
    /// Keys are locked.
    Locks(TransactionDb),
    /// Keys are checked at the commit.
    Checks(OptimisticTransactionDb),
}

impl Base {
    /// The plain database.
    pub fn db(&self) -> &Db {
        match self {
            Base::Locks(db) => db.db(),
            Base::Checks(db) => db.db(),
        }
    }

    /// Begins a transaction.
    pub fn begin(&self, write: &WriteOptions, options: &TransactionOptions) -> Transaction {
        match self {
            Base::Locks(db) => db.transaction_opt(write, options),
            Base::Checks(db) => {
                let set_snapshot = options.set_snapshot;
                db.transaction_opt(write, &OptimisticTransactionOptions { set_snapshot })
            }
        }
    }
}

/// A wait for a lock that ends before anybody looks at the time, in milliseconds.
pub const PATIENT: i64 = 3_600_000;

/// How the transactions of a run read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// For update, every one.
    ForUpdate,
    /// Of the snapshot that is taken at the begin.
    Snapshot,
    /// The newest state.
    Plain,
}

impl Reads {
    /// What docs/transactions.md promises for them.
    pub fn level(self) -> Level {
        match self {
            Reads::ForUpdate => Level::Serializable,
            Reads::Snapshot => Level::Snapshot,
            Reads::Plain => Level::ReadCommitted,
        }
    }
}

/// What the transactions of a run are like.
#[derive(Clone, Debug)]
pub struct Manner {
    /// How they read.
    pub reads: Reads,
    /// What is to be updated is read for update, however other keys are read: no update is lost,
    /// and each version names the one before it.
    pub locked_updates: bool,
    /// Different keys. A key is in the family of its number, modulo their number.
    pub keys: u32,
    /// Reads and updates of one transaction at most.
    pub steps_max: u64,
    /// Bytes of the longest value.
    pub value_bytes_max: u64,
    /// One in so many commits is synced; 0: none.
    pub one_sync_in: u64,
    /// One in so many is prepared before its commit; 0: none.
    pub one_prepared_in: u64,
    /// One in so many of those is committed with a batch of the commit; 0: none.
    pub one_beside_in: u64,
    /// One in so many expires soon; 0: none.
    pub one_expiring_in: u64,
    /// Milliseconds until that.
    pub expiration: i64,
    /// Milliseconds of waiting for a lock. [`PATIENT`]: deadlocks are searched for instead.
    pub lock_timeout: i64,
}

/// The family of a key.
pub fn family_of(families: &[ColumnFamily], key: u32) -> &ColumnFamily {
    &families[key as usize % families.len()]
}

/// What a transaction writes with a batch of its commit: a key of its own, longer than those that
/// transactions read, which is never written again.
pub fn beside_key(id: u64) -> [u8; 12] {
    let mut key = *b"beside-key-0";
    key[4..].copy_from_slice(&id.to_be_bytes());
    key
}

/// The transaction of a key that [`beside_key`] gave; None for other keys.
pub fn beside_id(key: &[u8]) -> Option<u64> {
    let id = key.strip_prefix(b"besi")?;
    id.try_into().ok().map(u64::from_be_bytes)
}

/// The bytes of a key.
pub fn key_bytes(key: u32) -> [u8; 4] {
    key.to_be_bytes()
}
