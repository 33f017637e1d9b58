//! The batches of the logs from a sequence number on.
//!
//! Thread safety: an iterator belongs to one thread at a time. Invariants: the crate's.

use crate::Result;
use crate::api::Object;
use crate::batch::WriteBatch;
use crate::db::Db;
use crate::family::DbInner;
use std::sync::Arc;

/// A cursor over the logs of a database.
pub struct WalIterator {
    db: Arc<DbInner>,
    raw: Object,
}

// SAFETY: RocksDB's iterators have no thread affinity; `&mut self` serialises moves.
unsafe impl Send for WalIterator {}

impl Db {
    /// A cursor on the first batch that has `sequence`, or after the last batch.
    ///
    /// # Errors
    /// RocksDB's.
    pub fn updates_since(&self, sequence: u64) -> Result<WalIterator> {
        let db = &self.inner;
        let raw = db.peer.checked(|api, error| {
            // SAFETY: live object; null stands for the default options.
            unsafe { (api.get_updates_since)(db.raw, sequence, std::ptr::null(), error) }
        })?;
        Ok(WalIterator { db: Arc::clone(db), raw })
    }
}

impl WalIterator {
    /// The cursor is on a batch.
    pub fn valid(&self) -> bool {
        // SAFETY: live object.
        unsafe { (self.db.peer.api.wal_iter_valid)(self.raw) != 0 }
    }
    /// Moves to the next batch; also from after the last one, since more may have been written.
    pub fn next(&mut self) {
        // SAFETY: live object.
        unsafe { (self.db.peer.api.wal_iter_next)(self.raw) }
    }
    /// Takes the batch that the cursor is on, with its sequence number; None if it is on none.
    pub fn batch(&mut self) -> Option<(u64, WriteBatch)> {
        if !self.valid() {
            return None;
        }
        let mut sequence = 0;
        // SAFETY: live object on a batch; the new object is the caller's.
        let raw = unsafe { (self.db.peer.api.wal_iter_get_batch)(self.raw, &mut sequence) };
        Some((sequence, WriteBatch::from_raw(&self.db.peer, raw)))
    }
    /// The error that ended it.
    ///
    /// # Errors
    /// That error.
    pub fn status(&self) -> Result<()> {
        // SAFETY: live object.
        self.db.peer.checked(|api, error| unsafe { (api.wal_iter_status)(self.raw, error) })
    }
}

impl Drop for WalIterator {
    fn drop(&mut self) {
        // SAFETY: crate invariant 1; the database is still open.
        unsafe { (self.db.peer.api.wal_iter_destroy)(self.raw) }
    }
}
