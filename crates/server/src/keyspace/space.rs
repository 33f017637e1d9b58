//! Giving space back while nobody writes: what was deleted stays in tables until a compaction meets
//! it, and after FLUSHALL, or when the keys of a burst have expired, there may be no more writes
//! that would cause one.
//!
//! When nothing was written between two looks, [`Space::look`] makes one step, until there is none:
//!
//! | what there is | the step |
//! |---|---|
//! | a database was flushed, or nothing is left at the start | everything is compacted |
//! | range deletions, or many others, in memory alone | they get into a table |
//! | a table by whose deletions a good part of what they meet goes | its range is compacted |
//!
//! A table whose deletions a compaction has kept, because of a snapshot, is not tried again.
//!
//! Thread safety: a [`Space`] belongs to its task. Suspends.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use pumice::{BottommostLevelCompaction, CompactRangeOptions, Db, LiveFile};

use super::{DATABASES_MAX, Keyspace};

/// What is compacted shrinks by at least one entry in this many.
const SHARE: u64 = 4;
/// Deletions in memory that are flushed.
const FLUSHED: u64 = 200;
/// Entries that a range deletion stands for: a collection with fewer is deleted singly.
const OF_RANGE: u64 = 33;
/// Tables of an empty keyspace that are worth a compaction at the start.
const BYTES_MIN: u64 = 1 << 20;

/// See the module's head.
#[derive(Default)]
pub struct Space {
    /// How much had been written at the last look.
    writes: u64,
    /// How many databases had been flushed when everything was compacted; None at the start.
    flushes: Option<u64>,
    /// How many ranges had been deleted when memory was last flushed, and how many of them are in
    /// tables since.
    ranges: u64,
    ranges_in_tables: u64,
    tried: BTreeSet<u64>,
}

impl Space {
    /// A step, if nothing was written since the last look. Returns whether there was one. Suspends.
    ///
    /// # Errors
    /// The engine's.
    pub fn look(&mut self, keyspace: &Keyspace) -> pumice::Result<bool> {
        let db = keyspace.db();
        let writes = keyspace.writes();
        if std::mem::replace(&mut self.writes, writes) != writes {
            return Ok(false);
        }
        let flushes = keyspace.flushes.load(Ordering::Relaxed);
        let is_due = match self.flushes.replace(flushes) {
            Some(before) => before != flushes,
            None => {
                let all = (0..DATABASES_MAX).map(|db| keyspace.keys_in(db as u8).keys);
                let bytes: u64 = db.live_files_metadata().iter().map(|file| file.size).sum();
                flushes > 0 || all.sum::<i64>() == 0 && bytes >= BYTES_MIN
            }
        };
        if is_due {
            self.ranges = keyspace.ranges_deleted.load(Ordering::Relaxed);
            db.flush()?;
            db.compact_range(&options(false), None, None)?;
            return Ok(true);
        }
        let ranges = keyspace.ranges_deleted.load(Ordering::Relaxed);
        let has_many = number(db, "rocksdb.num-deletes-active-mem-table") > FLUSHED;
        if self.ranges != ranges || has_many {
            self.ranges_in_tables += ranges - self.ranges;
            self.ranges = ranges;
            db.flush()?;
            return Ok(true);
        }
        self.compact_one(db)
    }

    fn compact_one(&mut self, db: &Db) -> pumice::Result<bool> {
        let files = db.live_files_metadata();
        self.tried.retain(|number| files.iter().any(|file| file.file_number == *number));
        let gone = |file: &LiveFile| {
            let ranges = self.ranges_in_tables.min(file.num_deletions);
            file.num_deletions + ranges * OF_RANGE
        };
        let is_worth_it = |file: &&LiveFile| {
            let meets = files.iter().filter(|other| other.level >= file.level);
            let met: u64 =
                meets.filter(|other| meet(file, other)).map(|other| other.num_entries).sum();
            file.num_deletions > 0 && gone(file) * SHARE >= met
        };
        let new = |file: &&LiveFile| !self.tried.contains(&file.file_number);
        let Some(file) = files.iter().filter(new).find(is_worth_it) else {
            self.ranges_in_tables = 0;
            return Ok(false);
        };
        self.tried.insert(file.file_number);
        let is_last = files.iter().all(|other| other.level <= file.level);
        let (first, last) = (&file.smallest_key, &file.largest_key);
        db.compact_range(&options(is_last), Some(first), Some(last))?;
        // What comes out with deletions still would not get better.
        let kept = db.live_files_metadata().into_iter().filter(|other| meet(file, other));
        let kept = kept.filter(|other| other.num_deletions > 0);
        self.tried.extend(kept.map(|file| file.file_number));
        Ok(true)
    }
}

/// Whether the key ranges of two files overlap.
fn meet(one: &LiveFile, two: &LiveFile) -> bool {
    one.smallest_key <= two.largest_key && two.smallest_key <= one.largest_key
}

/// Compactions that rewrite the last level where they come to it with something, or always.
fn options(of_last: bool) -> CompactRangeOptions {
    let bottommost_level_compaction = match of_last {
        true => BottommostLevelCompaction::ForceOptimized,
        false => BottommostLevelCompaction::Skip,
    };
    CompactRangeOptions { bottommost_level_compaction, ..CompactRangeOptions::default() }
}

fn number(db: &Db, property: &str) -> u64 {
    db.property(property).and_then(|text| text.parse().ok()).unwrap_or(0)
}
