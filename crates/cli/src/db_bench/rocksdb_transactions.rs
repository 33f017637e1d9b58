//! A RocksDB library's transactions for a worker.
//!
//! Thread safety: a worker has its own.

use super::engine::{self, Refusal, TransactionKind};
use pumice_peer::{Error, TxnWorker, is_conflict};

/// The binding's word for it.
pub fn kind(kind: TransactionKind) -> pumice_peer::TransactionKind {
    match kind {
        TransactionKind::Locks => pumice_peer::TransactionKind::Locks,
        TransactionKind::Checks => pumice_peer::TransactionKind::Checks,
    }
}

fn refusal(error: Error) -> Refusal {
    match is_conflict(&error) {
        true => Refusal::Conflict,
        false => Refusal::Failed(error.to_string()),
    }
}

impl engine::Transactions for TxnWorker {
    fn begin(&mut self) {
        self.begin();
    }

    fn read(&mut self, key: &[u8], for_update: bool, value: &mut Vec<u8>) -> Result<bool, Refusal> {
        self.read(key, for_update, value).map_err(refusal)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Refusal> {
        self.put(key, value).map_err(refusal)
    }

    fn commit(&mut self) -> Result<(), Refusal> {
        self.commit().map_err(refusal)
    }

    fn rollback(&mut self) -> Result<(), Refusal> {
        self.rollback().map_err(refusal)
    }
}
