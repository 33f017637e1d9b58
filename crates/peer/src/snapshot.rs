//! Snapshots.
//!
//! Thread safety: shared freely. Invariants: the crate's.

use crate::api::Object;
use crate::family::DbInner;
use std::sync::Arc;

struct SnapshotInner {
    db: Arc<DbInner>,
    raw: Object,
}

// SAFETY: a snapshot is immutable.
unsafe impl Send for SnapshotInner {}
// SAFETY: as above.
unsafe impl Sync for SnapshotInner {}

/// A state of the database. Clones share it; the last one releases it.
#[derive(Clone)]
pub struct Snapshot(Arc<SnapshotInner>);

impl Snapshot {
    pub(crate) fn new(db: Arc<DbInner>) -> Self {
        // SAFETY: live object.
        let raw = unsafe { (db.peer.api.create_snapshot)(db.raw) };
        Snapshot(Arc::new(SnapshotInner { db, raw }))
    }
    pub(crate) fn raw(&self) -> Object {
        self.0.raw
    }
    /// The sequence number of the state.
    pub fn sequence_number(&self) -> u64 {
        // SAFETY: live object.
        unsafe { (self.0.db.peer.api.snapshot_get_sequence_number)(self.0.raw) }
    }
}

impl Drop for SnapshotInner {
    fn drop(&mut self) {
        // SAFETY: crate invariants 1 and 2.
        unsafe { (self.db.peer.api.release_snapshot)(self.db.raw, self.raw) }
    }
}
