//! Transactions: several reads and writes that take effect together or not at all.
//!
//! | file | holds |
//! |---|---|
//! | `options` | the options of databases and transactions, RocksDB's names and defaults |
//! | `builders` | databases with transactions that are to be opened |
//! | `calls` | the calls that both kinds of databases pass on |
//! | `transaction` | the handle of a transaction, of both kinds: its calls |
//! | `ranges` | those that lock ranges of keys |
//! | `times` | those about timestamps: of the commit, of the reads |
//! | `content` | what a transaction has done so far, its save points, its end |
//! | `tracker` | the keys that it has read for update or written |
//! | `pessimistic` | `TransactionDb`: keys are locked as they are used |
//! | `optimistic` | `OptimisticTransactionDb`: keys are checked at the commit |
//! | `two_phase` | names, prepare, prepared transactions that an open finds |
//! | `validate` | whether a key has changed since the transaction saw it |
//! | `reports` | locks, waits and deadlocks as text |
//! | `retry` | the whole transaction once more, where that helps |
//!
//! What it promises in which isolation, and what survives which crash: docs/transactions.md. Texts
//! are RocksDB's. Thread safety: handles of databases and transactions may be shared and moved;
//! calls of one transaction take turns. Lock order: a transaction's content, its batch, the lock
//! table, the engine's locks. Every call that reads, writes or locks may suspend.

mod builders;
mod calls;
mod content;
mod optimistic;
mod options;
mod pessimistic;
mod ranges;
mod reports;
mod retry;
mod times;
mod tracker;
mod transaction;
mod two_phase;
mod validate;

pub use builders::{OptimisticTransactionDbBuilder, TransactionDbBuilder};
pub use content::SnapshotNotice;
pub use optimistic::OptimisticTransactionDb;
pub use options::{
    OccValidationPolicy, OptimisticTransactionDbOptions, OptimisticTransactionOptions,
    RetryOptions, TransactionDbOptions, TransactionOptions, TxnDbWritePolicy,
};
pub use pessimistic::TransactionDb;
pub use transaction::Transaction;

#[cfg(test)]
mod tests;
