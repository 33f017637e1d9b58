//! Counts of the entries that a flush or a compaction read and dropped.
//!
//! Thread safety: plain data.

use std::ops::AddAssign;

/// Entries of one key range, or of several.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct IterationCounts {
    /// Read; no range tombstones.
    pub entries_in: u64,
    /// How many were read is not known of all.
    pub uncounted: bool,
    /// A service counted them, or some of them.
    pub elsewhere: bool,
    /// A newer version of the same stripe hides them.
    pub dropped_hidden: u64,
    /// Deletions with nothing left to delete.
    pub dropped_obsolete: u64,
    /// Entries that were dropped above the bottommost level.
    pub dropped_early: u64,
    /// A range tombstone covers them.
    pub dropped_range_deleted: u64,
    /// A compaction filter removed them.
    pub dropped_by_filter: u64,
    /// Pieces of range tombstones with nothing left to delete.
    pub dropped_tombstones: u64,
}

impl AddAssign for IterationCounts {
    fn add_assign(&mut self, part: IterationCounts) {
        self.entries_in += part.entries_in;
        self.uncounted |= part.uncounted;
        self.elsewhere |= part.elsewhere;
        self.dropped_hidden += part.dropped_hidden;
        self.dropped_obsolete += part.dropped_obsolete;
        self.dropped_early += part.dropped_early;
        self.dropped_range_deleted += part.dropped_range_deleted;
        self.dropped_by_filter += part.dropped_by_filter;
        self.dropped_tombstones += part.dropped_tombstones;
    }
}
