//! Pumice's databases with transactions, and a worker that runs one after the other.
//!
//! Thread safety: a worker has its own. Calls outside of transactions go to the plain database:
//! they lock nothing, unlike RocksDB's with `--transaction_db`.

use super::engine::{self, Refusal, Result, TransactionKind, TransactionSettings};
use super::flags::Flags;
use super::pumice_engine::text;
use pumice::options::DbOptions;
use pumice::{
    ColumnFamily, ColumnFamilyDescriptor, Db, Error, OptimisticTransactionDb,
    OptimisticTransactionDbOptions, OptimisticTransactionOptions, ReadOptions, Transaction,
    TransactionDb, TransactionDbOptions, TransactionOptions, WriteOptions,
};
use std::path::Path;

/// The kind of database that `flags` ask for.
///
/// # Errors
/// They ask for two.
pub fn wanted(flags: &Flags) -> Result<Option<TransactionKind>> {
    match (flags.transaction_db, flags.optimistic_transaction_db) {
        (false, false) => Ok(None),
        (true, false) => Ok(Some(TransactionKind::Locks)),
        (false, true) => Ok(Some(TransactionKind::Checks)),
        (true, true) => {
            Err("transaction_db and optimistic_transaction_db exclude each other".into())
        }
    }
}

/// A database with transactions.
pub enum Base {
    /// Keys are locked.
    Locks(TransactionDb),
    /// Keys are checked at the commit.
    Checks(OptimisticTransactionDb),
}

impl Base {
    /// Opens one.
    ///
    /// # Errors
    /// Pumice's.
    pub fn open(
        kind: TransactionKind,
        options: &DbOptions,
        path: &Path,
        families: &[ColumnFamilyDescriptor],
    ) -> pumice::Result<(Base, Vec<ColumnFamily>)> {
        match kind {
            TransactionKind::Locks => {
                let own = TransactionDbOptions::default();
                let (db, handles) = TransactionDb::open_cf(options, &own, path, families)?;
                Ok((Base::Locks(db), handles))
            }
            TransactionKind::Checks => {
                let own = OptimisticTransactionDbOptions::default();
                let (db, handles) =
                    OptimisticTransactionDb::open_cf(options, &own, path, families)?;
                Ok((Base::Checks(db), handles))
            }
        }
    }

    /// The plain database.
    pub fn db(&self) -> &Db {
        match self {
            Base::Locks(db) => db.db(),
            Base::Checks(db) => db.db(),
        }
    }

    /// A worker's transactions.
    pub fn transactions(
        &self,
        write: WriteOptions,
        settings: TransactionSettings,
    ) -> Box<dyn engine::Transactions> {
        let snapshot = settings.snapshot;
        let begin: Box<dyn Fn() -> Transaction> = match self {
            Base::Locks(db) => {
                let (db, options) = (
                    db.clone(),
                    TransactionOptions {
                        set_snapshot: snapshot,
                        lock_timeout: settings.lock_timeout,
                        ..TransactionOptions::default()
                    },
                );
                Box::new(move || db.transaction_opt(&write, &options))
            }
            Base::Checks(db) => {
                let (db, options) =
                    (db.clone(), OptimisticTransactionOptions { set_snapshot: snapshot });
                Box::new(move || db.transaction_opt(&write, &options))
            }
        };
        let transaction = begin();
        Box::new(Worker { begin, transaction, read: ReadOptions::default() })
    }
}

struct Worker {
    begin: Box<dyn Fn() -> Transaction>,
    transaction: Transaction,
    read: ReadOptions,
}

fn refusal(error: Error) -> Refusal {
    match error.is_busy() || error.is_timed_out() || error.is_try_again() {
        true => Refusal::Conflict,
        false => Refusal::Failed(text(error)),
    }
}

impl engine::Transactions for Worker {
    fn begin(&mut self) {
        self.transaction = (self.begin)();
        self.read.snapshot = self.transaction.snapshot();
    }

    fn read(
        &mut self,
        key: &[u8],
        for_update: bool,
        value: &mut Vec<u8>,
    ) -> std::result::Result<bool, Refusal> {
        value.clear();
        let transaction = &self.transaction;
        let found = match for_update {
            true => {
                let cf = pumice::Store::default_column_family(transaction);
                transaction.get_for_update_cf_opt(&self.read, cf, key, true)
            }
            false => transaction.get_opt(&self.read, key),
        };
        let found = found.map_err(refusal)?;
        value.extend_from_slice(found.as_deref().unwrap_or_default());
        Ok(found.is_some())
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> std::result::Result<(), Refusal> {
        self.transaction.put(key, value).map_err(refusal)
    }

    fn commit(&mut self) -> std::result::Result<(), Refusal> {
        self.transaction.commit().map_err(refusal)
    }

    fn rollback(&mut self) -> std::result::Result<(), Refusal> {
        self.transaction.rollback().map_err(refusal)
    }
}
