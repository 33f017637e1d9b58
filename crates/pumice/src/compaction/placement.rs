//! Which level an entry goes to where a compaction has two: the last one, or the one above it.
//!
//! Decided by the sequence number alone: what is newer than one of them goes up. So of the versions
//! of a key, of the operands of a merge and of what a range tombstone covers, nothing that goes up
//! is older than anything that goes down, and reads find the same as before. That number is the
//! newest entry that is known to be old, or the oldest snapshot, if that is older, as in RocksDB;
//! and nothing up to [`ProximalOutput::kept_through`] goes up.
//!
//! Pure: times are given. Invariant: an entry that goes up has its sequence number, since it is
//! zeroed only where it is known to be older.

use pumice_base::SequenceNumber;
use pumice_table::SeqnoToTimeMapping;

use crate::compaction::picker::ProximalOutput;

/// See the module head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placement {
    /// The level above the last one.
    pub level: usize,
    /// Newer entries go there.
    pub after: SequenceNumber,
    /// When the oldest of them was written at the latest, unix seconds: until it is old enough, a
    /// file that says so need not be compacted again.
    pub written: u64,
}

impl Placement {
    /// The placement with `output`, by what `times` know. Entries are old that were written at
    /// `since` or before; then it is `now`.
    pub fn new(
        output: &ProximalOutput,
        times: &SeqnoToTimeMapping,
        (since, now): (u64, u64),
        oldest_snapshot: SequenceNumber,
    ) -> Self {
        let old = times.newest_at(since);
        let after = old.min(oldest_snapshot).max(output.kept_through);
        let written = times.time_after(after.saturating_add(1)).unwrap_or(now).min(now);
        Placement { level: output.range.level, after, written }
    }
}
