//! Write batches.
//!
//! Thread safety: one thread at a time. Invariants: the crate's.

use crate::Peer;
use crate::api::Object;
use crate::family::ColumnFamily;

/// Updates that are applied together.
pub struct WriteBatch {
    peer: Peer,
    pub(crate) raw: Object,
}

// SAFETY: the C object is a byte string without thread affinity.
unsafe impl Send for WriteBatch {}

impl WriteBatch {
    /// An empty batch.
    pub fn new(peer: &Peer) -> Self {
        // SAFETY: plain constructor.
        let raw = unsafe { (peer.api.writebatch_create)() };
        WriteBatch { peer: peer.clone(), raw }
    }

    /// A batch that RocksDB has made.
    pub(crate) fn from_raw(peer: &Peer, raw: Object) -> Self {
        WriteBatch { peer: peer.clone(), raw }
    }

    /// A batch from its wire form.
    pub fn from_data(peer: &Peer, data: &[u8]) -> Self {
        // SAFETY: RocksDB copies `data`.
        let raw = unsafe { (peer.api.writebatch_create_from)(data.as_ptr(), data.len()) };
        WriteBatch { peer: peer.clone(), raw }
    }

    /// The wire form.
    pub fn data(&self) -> &[u8] {
        let mut len = 0;
        // SAFETY: the bytes live in the batch, which `&self` keeps unchanged.
        unsafe {
            let data = (self.peer.api.writebatch_data)(self.raw, &mut len);
            std::slice::from_raw_parts(data, len)
        }
    }

    /// Number of updates.
    pub fn count(&self) -> usize {
        // SAFETY: live object.
        let count = unsafe { (self.peer.api.writebatch_count)(self.raw) };
        usize::try_from(count).unwrap_or(0)
    }

    /// Removes all updates and keeps the memory.
    pub fn clear(&mut self) {
        // SAFETY: live object.
        unsafe { (self.peer.api.writebatch_clear)(self.raw) }
    }

    /// Adds a put.
    pub fn put(&mut self, cf: &ColumnFamily, key: &[u8], value: &[u8]) {
        let add = self.peer.api.writebatch_put_cf;
        // SAFETY: live objects; the bytes are copied.
        unsafe { add(self.raw, cf.raw(), key.as_ptr(), key.len(), value.as_ptr(), value.len()) }
    }

    /// Adds a merge.
    pub fn merge(&mut self, cf: &ColumnFamily, key: &[u8], operand: &[u8]) {
        let add = self.peer.api.writebatch_merge_cf;
        // SAFETY: live objects; the bytes are copied.
        unsafe { add(self.raw, cf.raw(), key.as_ptr(), key.len(), operand.as_ptr(), operand.len()) }
    }

    /// Adds a delete.
    pub fn delete(&mut self, cf: &ColumnFamily, key: &[u8]) {
        let add = self.peer.api.writebatch_delete_cf;
        // SAFETY: live objects; the bytes are copied.
        unsafe { add(self.raw, cf.raw(), key.as_ptr(), key.len()) }
    }

    /// Adds a single delete.
    pub fn single_delete(&mut self, cf: &ColumnFamily, key: &[u8]) {
        let add = self.peer.api.writebatch_singledelete_cf;
        // SAFETY: live objects; the bytes are copied.
        unsafe { add(self.raw, cf.raw(), key.as_ptr(), key.len()) }
    }

    /// Adds a range deletion of `[begin, end)`.
    pub fn delete_range(&mut self, cf: &ColumnFamily, begin: &[u8], end: &[u8]) {
        let add = self.peer.api.writebatch_delete_range_cf;
        // SAFETY: live objects; the bytes are copied.
        unsafe { add(self.raw, cf.raw(), begin.as_ptr(), begin.len(), end.as_ptr(), end.len()) }
    }

    /// Adds a blob that goes to the WAL only.
    pub fn put_log_data(&mut self, blob: &[u8]) {
        // SAFETY: live object; the bytes are copied.
        unsafe { (self.peer.api.writebatch_put_log_data)(self.raw, blob.as_ptr(), blob.len()) }
    }
}

impl Drop for WriteBatch {
    fn drop(&mut self) {
        // SAFETY: crate invariant 1.
        unsafe { (self.peer.api.writebatch_destroy)(self.raw) }
    }
}
