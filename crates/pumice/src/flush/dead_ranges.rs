//! What becomes of the ranges in which readers found nothing, when their memtable is sealed.
//!
//! The next memtable inherits them. Where such a range covers older files and many tombstones, it
//! is also written, as a range tombstone: the flush then drops the point tombstones in it, readers
//! of RocksDB skip what is older, and compactions drop that. The range tombstone hides nothing that
//! any reader sees: at its sequence number nothing in it is visible, and readers at older ones do
//! not see it.
//!
//! Thread safety: the caller leads the write queue and has the state lock.

use pumice_manifest::{UserRange, Version};
use pumice_memtable::MemTable;

use crate::options::ColumnFamilyOptions;

/// A range is written if it has so many times `min_tombstones_for_range_conversion` tombstones.
const RUNS_WRITTEN: u64 = 16;

/// `fresh` follows `old`, which is sealed; `version` has all older files.
pub(crate) fn hand_over(
    old: &MemTable,
    fresh: &MemTable,
    version: &Version,
    options: &ColumnFamilyOptions,
) {
    let tombstones = old.dead_run_min().saturating_mul(RUNS_WRITTEN);
    // What will be ingested behind all files must not be hidden.
    if tombstones > 0 && !options.cf_allow_ingest_behind {
        let comparator = &version.comparator().user;
        old.write_dead_ranges(tombstones, |start, end| {
            let range = UserRange::closed(Some(start), Some(end));
            version.levels().iter().any(|level| level.overlaps(&range, comparator))
        });
    }
    fresh.inherit_dead_ranges(old, tombstones);
}
