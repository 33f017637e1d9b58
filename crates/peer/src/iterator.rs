//! Iterators.
//!
//! Thread safety: an iterator belongs to one thread at a time.
//! Invariants: the crate's, and (4) `valid` is what `iter_valid` returned after the last move, so
//! that `key` and `value` never read through an exhausted iterator.

use crate::Result;
use crate::api::Object;
use crate::family::{ColumnFamily, DbInner};
use crate::options::ReadOptions;
use std::sync::Arc;

/// A cursor over one column family.
pub struct DbIterator {
    db: Arc<DbInner>,
    _cf: ColumnFamily,
    _options: ReadOptions,
    raw: Object,
    valid: bool,
}

// SAFETY: RocksDB's iterators have no thread affinity; `&mut self` serialises moves.
unsafe impl Send for DbIterator {}

impl DbIterator {
    pub(crate) fn new(db: Arc<DbInner>, cf: ColumnFamily, options: ReadOptions) -> Self {
        // SAFETY: live objects, kept alive by the fields (crate invariant 2).
        let raw = unsafe { (db.peer.api.create_iterator_cf)(db.raw, options.0.raw, cf.raw()) };
        DbIterator { db, _cf: cf, _options: options, raw, valid: false }
    }

    fn after_move(&mut self) {
        // SAFETY: live object.
        self.valid = unsafe { (self.db.peer.api.iter_valid)(self.raw) } != 0;
    }

    /// The cursor is on an entry.
    pub fn valid(&self) -> bool {
        self.valid
    }
    /// Moves to the first entry.
    pub fn seek_to_first(&mut self) {
        // SAFETY: live object.
        unsafe { (self.db.peer.api.iter_seek_to_first)(self.raw) }
        self.after_move();
    }
    /// Moves to the last entry.
    pub fn seek_to_last(&mut self) {
        // SAFETY: live object.
        unsafe { (self.db.peer.api.iter_seek_to_last)(self.raw) }
        self.after_move();
    }
    /// Moves to the first entry at or after `key`.
    pub fn seek(&mut self, key: &[u8]) {
        // SAFETY: live object; RocksDB copies the key.
        unsafe { (self.db.peer.api.iter_seek)(self.raw, key.as_ptr(), key.len()) }
        self.after_move();
    }
    /// Moves to the last entry at or before `key`.
    pub fn seek_for_prev(&mut self, key: &[u8]) {
        // SAFETY: live object; RocksDB copies the key.
        unsafe { (self.db.peer.api.iter_seek_for_prev)(self.raw, key.as_ptr(), key.len()) }
        self.after_move();
    }
    /// Moves forward; does nothing when not `valid`.
    pub fn next(&mut self) {
        if self.valid {
            // SAFETY: live object on an entry (invariant 4).
            unsafe { (self.db.peer.api.iter_next)(self.raw) }
            self.after_move();
        }
    }
    /// Moves backward; does nothing when not `valid`.
    pub fn prev(&mut self) {
        if self.valid {
            // SAFETY: live object on an entry (invariant 4).
            unsafe { (self.db.peer.api.iter_prev)(self.raw) }
            self.after_move();
        }
    }
    /// The key; empty when not `valid`.
    pub fn key(&self) -> &[u8] {
        if !self.valid {
            return &[];
        }
        // SAFETY: on an entry (invariant 4); the bytes stay until the next move (`&mut self`).
        unsafe {
            let slice = (self.db.peer.api.iter_key_slice)(self.raw);
            std::slice::from_raw_parts(slice.data, slice.len)
        }
    }
    /// The value; empty when not `valid`.
    pub fn value(&self) -> &[u8] {
        if !self.valid {
            return &[];
        }
        // SAFETY: as in `key`.
        unsafe {
            let slice = (self.db.peer.api.iter_value_slice)(self.raw);
            if slice.len == 0 { &[] } else { std::slice::from_raw_parts(slice.data, slice.len) }
        }
    }
    /// The timestamp of the entry; empty when not `valid`, or if keys have none.
    pub fn timestamp(&self) -> &[u8] {
        if !self.valid {
            return &[];
        }
        // SAFETY: as in `key`.
        unsafe {
            let slice = (self.db.peer.api.iter_timestamp_slice)(self.raw);
            if slice.len == 0 { &[] } else { std::slice::from_raw_parts(slice.data, slice.len) }
        }
    }
    /// The first error met since the last seek.
    ///
    /// # Errors
    /// That error.
    pub fn status(&self) -> Result<()> {
        // SAFETY: live object.
        self.db.peer.checked(|api, error| unsafe { (api.iter_get_error)(self.raw, error) })
    }
}

impl Drop for DbIterator {
    fn drop(&mut self) {
        // SAFETY: crate invariant 1; the database is still open (invariant 2).
        unsafe { (self.db.peer.api.iter_destroy)(self.raw) }
    }
}
