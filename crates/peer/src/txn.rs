//! Databases with transactions of either kind, and a worker that runs one after the other on the
//! default column family, with as few calls as the C API allows.
//!
//! Thread safety: a worker is used by one thread. Invariants: the crate's, and (9) a worker's
//! transaction, options and database are alive as long as the worker; a snapshot's handle is given
//! back before its transaction goes on.
//!
//! It does not cover names, prepares, save points and cursors.

use crate::api::Object;
use crate::family::TransactionKind;
use crate::{Db, Error, Options, Peer, Result, WriteOptions, c_path};
use std::path::Path;
use std::ptr::null_mut;

/// What the transactions of a worker are like.
#[derive(Clone, Copy, Debug)]
pub struct TxnSettings {
    /// Each takes a snapshot at its begin, and reads with it.
    pub snapshot: bool,
    /// Milliseconds that it waits for a lock.
    pub lock_timeout: i64,
}

impl Db {
    /// Opens or creates a database with transactions, with the default column family only.
    ///
    /// # Errors
    /// RocksDB's.
    pub fn open_for_transactions(
        options: &Options,
        path: &Path,
        kind: TransactionKind,
    ) -> Result<Db> {
        let (peer, name) = (&options.peer, c_path(path)?);
        let whole = peer.checked(|api, error| {
            // SAFETY: live options, which RocksDB copies.
            unsafe {
                match kind {
                    TransactionKind::Locks => {
                        let settings = (api.transactiondb_options_create)();
                        let open = api.transactiondb_open;
                        let opened = open(options.raw, settings, name.as_ptr(), error);
                        (api.transactiondb_options_destroy)(settings);
                        opened
                    }
                    TransactionKind::Checks => {
                        (api.optimistictransactiondb_open)(options.raw, name.as_ptr(), error)
                    }
                }
            }
        })?;
        // SAFETY: an open database; the handle is let go of before it closes (invariant 8).
        let raw = unsafe {
            match kind {
                TransactionKind::Locks => (peer.api.transactiondb_get_base_db)(whole),
                TransactionKind::Checks => (peer.api.optimistictransactiondb_get_base_db)(whole),
            }
        };
        Ok(Db::wrap_whole(peer, raw, Some((kind, whole))))
    }

    /// A worker on a database with transactions; None on another one.
    pub fn txn_worker(&self, write: WriteOptions, settings: TxnSettings) -> Option<TxnWorker> {
        let (kind, whole) = self.inner.whole?;
        let api = &self.inner.peer.api;
        // SAFETY: plain constructors and setters.
        let (options, read) = unsafe {
            let options = match kind {
                TransactionKind::Locks => {
                    let options = (api.transaction_options_create)();
                    (api.transaction_options_set_lock_timeout)(options, settings.lock_timeout);
                    (api.transaction_options_set_set_snapshot)(options, settings.snapshot.into());
                    options
                }
                TransactionKind::Checks => {
                    let options = (api.optimistictransaction_options_create)();
                    let set = api.optimistictransaction_options_set_set_snapshot;
                    set(options, settings.snapshot.into());
                    options
                }
            };
            (options, (api.readoptions_create)())
        };
        let txn = null_mut();
        Some(TxnWorker { db: self.clone(), kind, whole, write, options, read, txn, settings })
    }
}

/// See the module head.
pub struct TxnWorker {
    db: Db,
    kind: TransactionKind,
    whole: Object,
    write: WriteOptions,
    options: Object,
    read: Object,
    /// Null before the first.
    txn: Object,
    settings: TxnSettings,
}

// SAFETY: the objects are of no thread; a worker is used by one at a time.
unsafe impl Send for TxnWorker {}

impl TxnWorker {
    fn peer(&self) -> &Peer {
        &self.db.inner.peer
    }

    /// Begins the next transaction, in the memory of the one before.
    pub fn begin(&mut self) {
        let api = &self.db.inner.peer.api;
        let (whole, write, options) = (self.whole, self.write.raw, self.options);
        // SAFETY: live objects (invariant 9).
        unsafe {
            self.txn = match self.kind {
                TransactionKind::Locks => (api.transaction_begin)(whole, write, options, self.txn),
                TransactionKind::Checks => {
                    (api.optimistictransaction_begin)(whole, write, options, self.txn)
                }
            };
            if self.settings.snapshot {
                let snapshot = (api.transaction_get_snapshot)(self.txn);
                (api.readoptions_set_snapshot)(self.read, snapshot);
                (api.free)(snapshot);
            }
        }
    }

    /// Reads `key` into `value`, for update if wanted; false if it is not there.
    ///
    /// # Errors
    /// RocksDB's.
    pub fn read(&mut self, key: &[u8], for_update: bool, value: &mut Vec<u8>) -> Result<bool> {
        value.clear();
        let found = self.peer().checked(|api, error| {
            let (k, len) = (key.as_ptr(), key.len());
            // SAFETY: live objects; the bytes are read during the call.
            unsafe {
                match for_update {
                    true => {
                        let get = api.transaction_get_pinned_for_update;
                        get(self.txn, self.read, k, len, 1, error)
                    }
                    false => (api.transaction_get_pinned)(self.txn, self.read, k, len, error),
                }
            }
        })?;
        if found.is_null() {
            return Ok(false);
        }
        let (api, mut len) = (&self.peer().api, 0);
        // SAFETY: a live slice of `len` bytes, which is ours to destroy.
        unsafe {
            let data = (api.pinnableslice_value)(found, &mut len);
            value.extend_from_slice(std::slice::from_raw_parts(data, len));
            (api.pinnableslice_destroy)(found);
        }
        Ok(true)
    }

    /// Stores a value.
    ///
    /// # Errors
    /// RocksDB's.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.peer().checked(|api, error| {
            let (k, v) = (key.as_ptr(), value.as_ptr());
            // SAFETY: a live transaction; the bytes are read during the call.
            unsafe { (api.transaction_put)(self.txn, k, key.len(), v, value.len(), error) }
        })
    }

    /// Makes it part of the database.
    ///
    /// # Errors
    /// RocksDB's.
    pub fn commit(&mut self) -> Result<()> {
        // SAFETY: a live transaction.
        self.peer().checked(|api, error| unsafe { (api.transaction_commit)(self.txn, error) })
    }

    /// Takes it back.
    ///
    /// # Errors
    /// RocksDB's.
    pub fn rollback(&mut self) -> Result<()> {
        // SAFETY: a live transaction.
        self.peer().checked(|api, error| unsafe { (api.transaction_rollback)(self.txn, error) })
    }
}

impl Drop for TxnWorker {
    fn drop(&mut self) {
        let api = &self.db.inner.peer.api;
        // SAFETY: crate invariant 1; the database is still open.
        unsafe {
            if !self.txn.is_null() {
                (api.transaction_destroy)(self.txn);
            }
            (api.readoptions_destroy)(self.read);
            match self.kind {
                TransactionKind::Locks => (api.transaction_options_destroy)(self.options),
                TransactionKind::Checks => {
                    (api.optimistictransaction_options_destroy)(self.options);
                }
            }
        }
    }
}

/// Whether an error is one that transactions get when others are in their way.
pub fn is_conflict(error: &Error) -> bool {
    let text = error.to_string();
    let words = ["Resource busy", "Operation timed out", "Operation failed. Try again"];
    words.iter().any(|word| text.starts_with(word))
}
