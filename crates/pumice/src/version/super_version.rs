//! The state of a column family for a read, as one immutable object found with one atomic load.
//!
//! A super version is replaced, never changed: on memtable switch, flush, compaction and option
//! change. Readers load it without a lock or a shared reference count (`arc-swap`); iterators hold
//! it, which keeps its memtables and table files alive.
//!
//! Order that makes reads right: load the super version first, the sequence number second. A
//! sequence read first could name versions that a later compaction has already dropped. If files
//! were ingested between the two (`CfData::ingestions` says so), load both again: writes after the
//! files go to a memtable that the old super version shares, but it lacks the files.

use std::sync::Arc;

use pumice_manifest::Version;
use pumice_memtable::MemTable;

/// See the module head.
pub struct SuperVersion {
    /// The memtable that takes writes.
    pub mem: Arc<MemTable>,
    /// Memtables waiting for flush, newest first.
    pub imm: Vec<Arc<MemTable>>,
    /// The table files.
    pub version: Arc<Version>,
    /// `CfData::ingestions` when it was made.
    pub ingestions: u64,
}
