//! Transactions: rules and texts of each kind, conflicts found wherever the newer write lies, and
//! many tasks at once.
#![allow(clippy::unwrap_used)]

mod history;
mod locking;
mod ranges;
mod tasks;
mod two_phase;
mod validation;

use std::sync::Arc;

use pumice_env::MemFs;

use super::*;
use crate::options::Options;
use crate::options::requests::WriteOptions;

/// Options with a merge operator that joins operands, over a file system of its own.
fn options() -> Options {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.file_system = Arc::new(MemFs::new(3));
    options.cf.set_merge_operator("joined", |_: &[u8], old: Option<&[u8]>, operands: &[&[u8]]| {
        Some(old.into_iter().chain(operands.iter().copied()).flatten().copied().collect())
    });
    options
}

fn locking() -> TransactionDb {
    TransactionDb::open(&options(), &TransactionDbOptions::default(), "/db").unwrap()
}

fn optimistic() -> OptimisticTransactionDb {
    let transactions = OptimisticTransactionDbOptions::default();
    OptimisticTransactionDb::open(&options(), &transactions, "/db").unwrap()
}

/// Does not wait for locks.
fn at_once() -> TransactionOptions {
    TransactionOptions { lock_timeout: 0, ..TransactionOptions::default() }
}

fn begin(db: &TransactionDb, options: &TransactionOptions) -> Transaction {
    db.transaction_opt(&WriteOptions::default(), options)
}

fn text<T: std::fmt::Debug>(result: crate::Result<T>) -> String {
    result.unwrap_err().to_string()
}

const TIMEOUT: &str = "Operation timed out: Timeout waiting to lock key";
const BUSY: &str = "Resource busy: ";
