//! The open database that handles keep alive, and its column families.
//!
//! Thread safety: used from any thread. Invariants: the crate's.

use crate::Peer;
use crate::api::Object;
use std::sync::Arc;

pub(crate) struct DbInner {
    pub(crate) peer: Peer,
    pub(crate) raw: Object,
}

// SAFETY: RocksDB's DB is thread safe.
unsafe impl Send for DbInner {}
// SAFETY: as above.
unsafe impl Sync for DbInner {}

impl Drop for DbInner {
    fn drop(&mut self) {
        // SAFETY: crate invariants 1 and 2: nothing else refers to the database any more.
        unsafe { (self.peer.api.close)(self.raw) }
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
