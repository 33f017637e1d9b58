//! Databases with two-phase transactions, of the default column family and the default policy.
//!
//! Thread safety: used by one thread. Invariants: the crate's, and (7) a transaction borrows its
//! database, which therefore closes later.
//!
//! It does not cover reads, locks or options of transactions: only what comes into logs.

use crate::api::Object;
use crate::options::{Options, WriteOptions};
use crate::{Peer, Result, c_path};
use std::path::Path;
use std::ptr::null_mut;

/// An open `TransactionDB`.
pub struct TransactionDb {
    peer: Peer,
    raw: Object,
    /// Options of transactions, and those of the database.
    settings: (Object, Object),
}

/// A named transaction. One that is dropped after [`Transaction::prepare`] stays in the log.
pub struct Transaction<'a> {
    db: &'a TransactionDb,
    raw: Object,
}

impl TransactionDb {
    /// Opens or creates the database at `path`.
    ///
    /// # Errors
    /// RocksDB's.
    pub fn open(options: &Options, path: &Path) -> Result<TransactionDb> {
        let (peer, name) = (options.peer.clone(), c_path(path)?);
        // SAFETY: plain constructors.
        let settings = unsafe {
            ((peer.api.transaction_options_create)(), (peer.api.transactiondb_options_create)())
        };
        let opened = peer.checked(|api, error| {
            // SAFETY: live options; RocksDB copies them.
            unsafe { (api.transactiondb_open)(options.raw, settings.1, name.as_ptr(), error) }
        });
        let db = TransactionDb { peer, raw: *opened.as_ref().unwrap_or(&null_mut()), settings };
        opened.map(|_| db)
    }

    /// Stores a value outside of any named transaction.
    ///
    /// # Errors
    /// RocksDB's.
    pub fn put(&self, wo: &WriteOptions, key: &[u8], value: &[u8]) -> Result<()> {
        self.peer.checked(|api, error| {
            let (k, v) = (key.as_ptr(), value.as_ptr());
            // SAFETY: live objects; the bytes are read during the call.
            unsafe {
                (api.transactiondb_put)(self.raw, wo.raw, k, key.len(), v, value.len(), error);
            }
        })
    }

    /// Flushes the memtable and waits.
    ///
    /// # Errors
    /// RocksDB's.
    pub fn flush(&self) -> Result<()> {
        self.peer.checked(|api, error| {
            // SAFETY: live objects; the options are used during the call.
            unsafe {
                let options = (api.flushoptions_create)();
                (api.transactiondb_flush)(self.raw, options, error);
                (api.flushoptions_destroy)(options);
            }
        })
    }

    /// How many transactions are prepared and neither committed nor rolled back.
    pub fn prepared(&self) -> usize {
        let mut count = 0;
        // SAFETY: a live database; the array is a malloc block, and what it points to belongs to
        // the database.
        unsafe {
            let all = (self.peer.api.transactiondb_get_prepared_transactions)(self.raw, &mut count);
            (self.peer.api.free)(all.cast());
        }
        count
    }

    /// Begins a transaction.
    ///
    /// # Errors
    /// RocksDB's; the name is in use.
    pub fn begin(&self, wo: &WriteOptions, name: &str) -> Result<Transaction<'_>> {
        // SAFETY: live objects; null is no transaction to reuse.
        let raw = unsafe {
            (self.peer.api.transaction_begin)(self.raw, wo.raw, self.settings.0, null_mut())
        };
        let transaction = Transaction { db: self, raw };
        self.peer.checked(|api, error| {
            // SAFETY: the bytes are read during the call.
            unsafe { (api.transaction_set_name)(raw, name.as_ptr().cast(), name.len(), error) }
        })?;
        Ok(transaction)
    }
}

impl Drop for TransactionDb {
    fn drop(&mut self) {
        let api = &self.peer.api;
        // SAFETY: crate invariants 1 and 2, and 7.
        unsafe {
            if !self.raw.is_null() {
                (api.transactiondb_close)(self.raw);
            }
            (api.transaction_options_destroy)(self.settings.0);
            (api.transactiondb_options_destroy)(self.settings.1);
        }
    }
}

impl Transaction<'_> {
    /// Stores a value in the transaction.
    ///
    /// # Errors
    /// RocksDB's; another transaction has locked the key.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.db.peer.checked(|api, error| {
            let (k, v) = (key.as_ptr(), value.as_ptr());
            // SAFETY: a live transaction; the bytes are read during the call.
            unsafe { (api.transaction_put)(self.raw, k, key.len(), v, value.len(), error) }
        })
    }

    /// Writes it to the log.
    ///
    /// # Errors
    /// RocksDB's.
    pub fn prepare(&self) -> Result<()> {
        // SAFETY: a live transaction.
        self.db.peer.checked(|api, error| unsafe { (api.transaction_prepare)(self.raw, error) })
    }

    /// Makes it part of the database.
    ///
    /// # Errors
    /// RocksDB's.
    pub fn commit(self) -> Result<()> {
        // SAFETY: a live transaction.
        self.db.peer.checked(|api, error| unsafe { (api.transaction_commit)(self.raw, error) })
    }

    /// Takes it back.
    ///
    /// # Errors
    /// RocksDB's.
    pub fn rollback(self) -> Result<()> {
        // SAFETY: a live transaction.
        self.db.peer.checked(|api, error| unsafe { (api.transaction_rollback)(self.raw, error) })
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        // SAFETY: crate invariant 1; the database is still open.
        unsafe { (self.db.peer.api.transaction_destroy)(self.raw) }
    }
}
