//! Giving space back while nobody writes: what was deleted stays in tables until a compaction meets
//! it, and after FLUSHALL, or when the keys of a burst have expired, there may be no more writes
//! that would cause one.
//!
//! When nothing was written between two looks, [`Space::look`] compacts the range of a table that
//! consists of deletions for a good part, and flushes deletions that are in memory alone; one such
//! step a look, until there is none. A table whose deletions a compaction has kept, because of a
//! snapshot, is not tried again.
//!
//! Thread safety: a [`Space`] belongs to its task. Suspends.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use pumice::{CompactRangeOptions, Db, LiveFile};

use super::Keyspace;

/// A table is compacted if at least one of this many entries is a deletion.
const SHARE: u64 = 4;

/// Deletions in memory that are flushed.
const FLUSHED: u64 = 200;

/// See the module's head.
#[derive(Default)]
pub struct Space {
    /// How much had been written at the last look.
    writes: u64,
    /// How many ranges had been deleted when memory was last flushed.
    ranges: u64,
    tried: BTreeSet<u64>,
}

impl Space {
    /// A step, if nothing was written since the last look. Returns whether there was one. Suspends.
    ///
    /// # Errors
    /// The engine's.
    pub fn look(&mut self, keyspace: &Keyspace) -> pumice::Result<bool> {
        let Some(db) = keyspace.engine().pumice() else { return Ok(false) };
        let writes = keyspace.writes();
        if std::mem::replace(&mut self.writes, writes) != writes {
            return Ok(false);
        }
        let ranges = keyspace.ranges_deleted.load(Ordering::Relaxed);
        // As many single deletions as a table is worth.
        let has_many = number(db, "rocksdb.num-deletes-active-mem-table") > FLUSHED;
        if std::mem::replace(&mut self.ranges, ranges) != ranges || has_many {
            db.flush()?;
            return Ok(true);
        }
        let files = db.live_files_metadata();
        self.tried.retain(|number| files.iter().any(|file| file.file_number == *number));
        let is_dense = |file: &&LiveFile| {
            file.num_deletions > 0 && file.num_deletions * SHARE >= file.num_entries
        };
        let new = |file: &&LiveFile| !self.tried.contains(&file.file_number);
        let Some(file) = files.iter().filter(is_dense).find(new) else { return Ok(false) };
        self.tried.insert(file.file_number);
        let (first, last) = (&file.smallest_key, &file.largest_key);
        db.compact_range(&CompactRangeOptions::default(), Some(first), Some(last))?;
        // What comes out and has deletions still is not better than this.
        let kept = db.live_files_metadata().into_iter().filter(|file| is_dense(&file));
        let within = |file: &LiveFile| file.smallest_key <= *last && *first <= file.largest_key;
        self.tried.extend(kept.filter(within).map(|file| file.file_number));
        Ok(true)
    }
}

fn number(db: &Db, property: &str) -> u64 {
    db.property(property).and_then(|text| text.parse().ok()).unwrap_or(0)
}
