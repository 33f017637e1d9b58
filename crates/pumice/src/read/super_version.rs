//! What a read needs to see of a column family, as one immutable object behind one atomic load.
//!
//! A super version is replaced, never changed: on memtable switch, flush, compaction and option
//! change. Readers load it without a lock or a shared reference count (`arc-swap`); iterators hold
//! it, which keeps its memtables and table files alive.
//!
//! Order that makes reads right: load the super version first, the sequence number second. A
//! sequence read first could name versions that a later compaction has already dropped.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use pumice_base::range_tombstone::FragmentedTombstones;
use pumice_base::{Comparator, Result};
use pumice_manifest::Version;
use pumice_memtable::MemTable;

use crate::read::range_del::truncate_to_file;
use crate::table_cache::TableCache;

/// A version with what is derived from its files on first use.
pub struct LiveVersion {
    /// The files.
    pub version: Arc<Version>,
    tombstones: OnceLock<Option<Arc<FragmentedTombstones>>>,
}

impl LiveVersion {
    /// Wraps a version.
    pub fn new(version: Arc<Version>) -> Self {
        LiveVersion { version, tombstones: OnceLock::new() }
    }

    /// The range tombstones of all files, cut to file boundaries; None when there are none.
    ///
    /// # Errors
    /// Of opening a table. May read files and so suspend.
    pub fn tombstones(
        &self,
        cache: &TableCache,
        comparator: &Comparator,
    ) -> Result<Option<Arc<FragmentedTombstones>>> {
        if let Some(found) = self.tombstones.get() {
            return Ok(found.clone());
        }
        let mut all = Vec::new();
        for (number, level) in self.version.levels().iter().enumerate() {
            for file in level.files() {
                if let Some(list) = cache.table_at(file, number)?.range_tombstones() {
                    truncate_to_file(comparator, &list, &file.smallest, &file.largest, &mut all);
                }
            }
        }
        let list =
            (!all.is_empty()).then(|| Arc::new(FragmentedTombstones::build(all, comparator)));
        Ok(self.tombstones.get_or_init(|| list).clone())
    }
}

impl Deref for LiveVersion {
    type Target = Version;
    fn deref(&self) -> &Version {
        &self.version
    }
}

/// See the module head.
pub struct SuperVersion {
    /// The memtable that takes writes.
    pub mem: Arc<MemTable>,
    /// Memtables waiting for flush, newest first.
    pub imm: Vec<Arc<MemTable>>,
    /// The table files.
    pub version: Arc<LiveVersion>,
}
