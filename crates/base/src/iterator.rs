//! The iterator over internal keys that memtables, tables, levels and merges implement.
//!
//! Thread safety: an iterator belongs to one thread or fiber at a time (`Send`, not `Sync`).
//! Invariants: (1) `key` and `value` may be called only while `valid`; (2) an error makes the
//! iterator invalid and stays in `status` until the next seek; (3) `next`/`prev` require `valid`.
//! Any call may read a file and so may suspend.

use crate::error::Result;
use crate::key::InternalKey;

/// A cursor over entries in internal-key order.
pub trait InternalIterator: Send {
    /// The cursor is on an entry.
    fn valid(&self) -> bool;
    /// Moves to the first entry.
    fn seek_to_first(&mut self);
    /// Moves to the last entry.
    fn seek_to_last(&mut self);
    /// Moves to the first entry at or after internal key `target`.
    fn seek(&mut self, target: InternalKey<'_>);
    /// Moves to the last entry at or before internal key `target`.
    fn seek_for_prev(&mut self, target: InternalKey<'_>);
    /// Moves forward. Requires `valid`.
    fn next(&mut self);
    /// Moves backward. Requires `valid`.
    fn prev(&mut self);
    /// The internal key. Requires `valid`.
    fn key(&self) -> InternalKey<'_>;
    /// The value. Requires `valid`.
    fn value(&self) -> &[u8];
    /// The first error since the last seek.
    fn status(&self) -> Result<()>;
}

impl<T: InternalIterator + ?Sized> InternalIterator for Box<T> {
    fn valid(&self) -> bool {
        (**self).valid()
    }
    fn seek_to_first(&mut self) {
        (**self).seek_to_first();
    }
    fn seek_to_last(&mut self) {
        (**self).seek_to_last();
    }
    fn seek(&mut self, target: InternalKey<'_>) {
        (**self).seek(target);
    }
    fn seek_for_prev(&mut self, target: InternalKey<'_>) {
        (**self).seek_for_prev(target);
    }
    fn next(&mut self) {
        (**self).next();
    }
    fn prev(&mut self) {
        (**self).prev();
    }
    fn key(&self) -> InternalKey<'_> {
        (**self).key()
    }
    fn value(&self) -> &[u8] {
        (**self).value()
    }
    fn status(&self) -> Result<()> {
        (**self).status()
    }
}
