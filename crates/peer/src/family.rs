//! The open database that handles keep alive, and its column families.
//!
//! Thread safety: used from any thread. Invariants: the crate's, and (8) `raw` of a database with
//! transactions is the plain database inside of it, which is let go of before the whole is closed.

use crate::Peer;
use crate::api::Object;
use std::sync::Arc;

/// What keeps transactions apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionKind {
    /// `TransactionDB`: locks of keys.
    Locks,
    /// `OptimisticTransactionDB`: checks at the commit.
    Checks,
}

pub(crate) struct DbInner {
    pub(crate) peer: Peer,
    pub(crate) raw: Object,
    /// The database with transactions of that kind, if it is one.
    pub(crate) whole: Option<(TransactionKind, Object)>,
}

// SAFETY: RocksDB's DB is thread safe.
unsafe impl Send for DbInner {}
// SAFETY: as above.
unsafe impl Sync for DbInner {}

impl Drop for DbInner {
    fn drop(&mut self) {
        let api = &self.peer.api;
        // SAFETY: crate invariants 1 and 2, and 8: nothing else refers to the database any more.
        unsafe {
            match self.whole {
                None => (api.close)(self.raw),
                Some((TransactionKind::Locks, whole)) => {
                    (api.transactiondb_close_base_db)(self.raw);
                    (api.transactiondb_close)(whole);
                }
                Some((TransactionKind::Checks, whole)) => {
                    (api.optimistictransactiondb_close_base_db)(self.raw);
                    (api.optimistictransactiondb_close)(whole);
                }
            }
        }
    }
}

struct ColumnFamilyInner {
    db: Arc<DbInner>,
    raw: Object,
}

// SAFETY: handles are immutable.
unsafe impl Send for ColumnFamilyInner {}
// SAFETY: as above.
unsafe impl Sync for ColumnFamilyInner {}

impl Drop for ColumnFamilyInner {
    fn drop(&mut self) {
        // SAFETY: crate invariant 1; the database is still open.
        unsafe { (self.db.peer.api.column_family_handle_destroy)(self.raw) }
    }
}

/// A column family of an open database. Clones share it.
#[derive(Clone)]
pub struct ColumnFamily(Arc<ColumnFamilyInner>);

impl ColumnFamily {
    /// Takes over `raw`, a handle of `db`.
    pub(crate) fn new(db: Arc<DbInner>, raw: Object) -> Self {
        ColumnFamily(Arc::new(ColumnFamilyInner { db, raw }))
    }
    pub(crate) fn raw(&self) -> Object {
        self.0.raw
    }
}
