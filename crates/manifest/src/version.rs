//! A version: which files make up a column family at one moment.
//!
//! Thread safety: immutable, shared as `Arc<Version>`; a version keeps its files alive.
//! Invariants: those of [`Level`]; a file number occurs once in all levels.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use pumice_base::{Comparator, InternalKey, InternalKeyComparator, UserKey};

use crate::blob::BlobFiles;
use crate::file_meta::FileMetaData;
use crate::level::{Candidates, Level};
use crate::range::UserRange;

/// The files of a column family.
pub struct Version {
    pub(crate) icmp: InternalKeyComparator,
    pub(crate) levels: Box<[Arc<Level>]>,
    pub(crate) blob_files: Arc<BlobFiles>,
    pub(crate) compact_cursors: Arc<BTreeMap<usize, Vec<u8>>>,
    pub(crate) full_history_ts_low: Option<Arc<[u8]>>,
    /// The order with timestamps, if the tables have keys without.
    pub(crate) stripped_of: Option<Comparator>,
    non_empty_levels: usize,
    overlapping: bool,
}

impl Version {
    /// A version without files.
    pub fn empty(icmp: InternalKeyComparator, num_levels: usize) -> Arc<Self> {
        Arc::new(Version::without_files(icmp, num_levels))
    }

    /// A version without files of a family with keys in `order`, whose tables get these without
    /// their timestamps if `stripped`.
    pub fn of_family(order: &Comparator, stripped: bool, num_levels: usize) -> Arc<Self> {
        if !stripped {
            return Version::empty(InternalKeyComparator::new(order.clone()), num_levels);
        }
        let icmp = InternalKeyComparator::new(order.without_timestamps());
        let mut version = Version::without_files(icmp, num_levels);
        version.stripped_of = Some(order.clone());
        Arc::new(version)
    }

    fn without_files(icmp: InternalKeyComparator, num_levels: usize) -> Self {
        let level = |number| Arc::new(Level::new(number, Vec::new(), &icmp.user));
        let levels = (0..num_levels.max(1)).map(level).collect();
        Version::new(icmp, levels, Arc::default(), Arc::default())
    }

    pub(crate) fn new(
        icmp: InternalKeyComparator,
        levels: Box<[Arc<Level>]>,
        blob_files: Arc<BlobFiles>,
        compact_cursors: Arc<BTreeMap<usize, Vec<u8>>>,
    ) -> Self {
        let non_empty_levels = levels.iter().rposition(|l| !l.is_empty()).map_or(0, |i| i + 1);
        let overlapping = levels.iter().any(|level| level.is_overlapping());
        Version {
            icmp,
            levels,
            blob_files,
            compact_cursors,
            full_history_ts_low: None,
            stripped_of: None,
            non_empty_levels,
            overlapping,
        }
    }

    /// Versions of keys with older timestamps than this may be gone: None if all are there.
    #[inline]
    pub fn full_history_ts_low(&self) -> Option<&Arc<[u8]>> {
        self.full_history_ts_low.as_ref()
    }

    /// All that a file has of keys with timestamps is older than the history that is kept, so that
    /// a compaction of it may take times and sequence numbers away; also without timestamps.
    pub(crate) fn forgets_times(&self, file: &FileMetaData) -> bool {
        let newest = &file.max_timestamp;
        newest.is_empty()
            || self.full_history_ts_low.as_ref().is_some_and(|low| {
                low.len() == newest.len()
                    && self.time_order().compare_timestamp(newest, low).is_lt()
            })
    }

    /// The order of the keys with their timestamps.
    pub fn time_order(&self) -> &Comparator {
        self.stripped_of.as_ref().unwrap_or(&self.icmp.user)
    }

    /// Tables have keys without their timestamps, which memtables have.
    pub fn is_stripped(&self) -> bool {
        self.stripped_of.is_some()
    }

    /// Files overlap in some level where they must not, see [`Level::is_overlapping`].
    #[inline]
    pub fn is_overlapping(&self) -> bool {
        self.overlapping
    }

    /// The order of the keys in tables.
    #[inline]
    pub fn comparator(&self) -> &InternalKeyComparator {
        &self.icmp
    }
    #[inline]
    fn user_cmp(&self) -> &Comparator {
        &self.icmp.user
    }
    /// All levels, L0 first.
    #[inline]
    pub fn levels(&self) -> &[Arc<Level>] {
        &self.levels
    }
    /// One level. Panics if there are fewer levels.
    #[inline]
    pub fn level(&self, level: usize) -> &Level {
        &self.levels[level]
    }
    /// The files of a level, L0 newest first, other levels in key order.
    #[inline]
    pub fn files(&self, level: usize) -> &[Arc<FileMetaData>] {
        self.levels[level].files()
    }
    /// Number of levels.
    #[inline]
    pub fn num_levels(&self) -> usize {
        self.levels.len()
    }
    /// One more than the last level with a file.
    #[inline]
    pub fn num_non_empty_levels(&self) -> usize {
        self.non_empty_levels
    }
    /// Files in `level`.
    pub fn num_level_files(&self, level: usize) -> usize {
        self.levels[level].len()
    }
    /// Bytes in `level`.
    pub fn level_bytes(&self, level: usize) -> u64 {
        self.levels[level].total_bytes()
    }
    /// Files in all levels.
    pub fn num_files(&self) -> usize {
        self.levels.iter().map(|l| l.len()).sum()
    }
    /// Bytes in all levels.
    pub fn total_bytes(&self) -> u64 {
        self.levels.iter().fold(0, |sum, l| sum.saturating_add(l.total_bytes()))
    }
    /// Largest epoch number; the next flush takes a larger one.
    pub fn max_epoch_number(&self) -> u64 {
        self.levels.iter().map(|l| l.max_epoch()).max().unwrap_or(0)
    }
    /// Blob files by number.
    pub fn blob_files(&self) -> &BlobFiles {
        &self.blob_files
    }
    /// Where the next round-robin compaction of `level` starts: an internal key.
    pub fn compact_cursor(&self, level: usize) -> Option<&[u8]> {
        self.compact_cursors.get(&level).map(Vec::as_slice)
    }
    /// The round-robin cursors of all levels.
    pub fn compact_cursors(&self) -> &BTreeMap<usize, Vec<u8>> {
        &self.compact_cursors
    }

    /// Every file with its level.
    pub fn all_files(&self) -> impl Iterator<Item = (usize, &Arc<FileMetaData>)> {
        self.levels.iter().flat_map(|l| l.files().iter().map(move |f| (l.number(), f)))
    }

    /// Level and metadata of a file by its number.
    pub fn find_by_number(&self, number: u64) -> Option<(usize, &Arc<FileMetaData>)> {
        self.levels.iter().find_map(|l| {
            let index = l.index_of(number)?;
            Some((l.number(), &l.files()[index]))
        })
    }

    /// Index of the first file of `level` (not L0) whose largest key is at or after `ikey`.
    #[inline]
    pub fn find_file(&self, level: usize, ikey: InternalKey<'_>) -> usize {
        self.levels[level].find_file(&self.icmp, ikey)
    }

    /// The files of `level` that a point read of `ikey` must search, in order.
    #[inline]
    pub fn candidates<'a>(&'a self, level: usize, ikey: InternalKey<'a>) -> Candidates<'a> {
        self.levels[level].candidates(&self.icmp, ikey)
    }

    /// The files of `level` that must be compacted together if `range` is.
    pub fn get_overlapping_inputs(
        &self,
        level: usize,
        range: &UserRange<'_>,
    ) -> Vec<Arc<FileMetaData>> {
        self.levels[level].overlapping_inputs(range, self.user_cmp())
    }

    /// Some file of `level` shares a user key with `range`.
    pub fn range_overlaps(&self, level: usize, range: &UserRange<'_>) -> bool {
        self.levels[level].overlaps(range, self.user_cmp())
    }

    /// Some level below `level` shares a user key with `range`.
    pub fn range_overlaps_beyond(&self, level: usize, range: &UserRange<'_>) -> bool {
        let deeper = self.levels.iter().take(self.non_empty_levels).skip(level + 1);
        deeper.into_iter().any(|l| l.overlaps(range, self.user_cmp()))
    }

    /// Data older than file `index` of `level` may share a user key with `range`: later levels, and
    /// for L0 any older file, whatever its keys. RocksDB up to 7.8 determines the age of L0 files
    /// by their sequence numbers and refuses a tree in which a newer file holds zeros.
    pub fn range_exists_after(&self, level: usize, index: usize, range: &UserRange<'_>) -> bool {
        (level == 0 && index + 1 < self.num_level_files(0))
            || self.range_overlaps_beyond(level, range)
    }

    /// A cursor for [`Self::key_not_exists_beyond`].
    pub fn beyond_cursor(&self, level: usize) -> BeyondCursor {
        let at = vec![0; self.non_empty_levels.saturating_sub(level + 1)];
        BeyondCursor { level, with_level0: false, at }
    }

    /// A cursor for keys of memtables, which are newer than all files, those of L0 too.
    pub fn cursor_of_memtables(&self) -> BeyondCursor {
        BeyondCursor { with_level0: true, ..self.beyond_cursor(0) }
    }

    /// Whether no level below the cursor's holds a file that covers `user_key`, so that a tombstone
    /// of it hides nothing. Keys of one cursor must come in ascending order.
    pub fn key_not_exists_beyond(&self, cursor: &mut BeyondCursor, user_key: UserKey<'_>) -> bool {
        let cmp = self.user_cmp();
        let covers = |file: &Arc<FileMetaData>| {
            cmp.compare_without_timestamp(file.smallest_user_key(), user_key) != Ordering::Greater
                && cmp.compare_without_timestamp(user_key, file.largest_user_key())
                    != Ordering::Greater
        };
        if cursor.with_level0 && self.levels[0].files().iter().any(covers) {
            return false;
        }
        let first = cursor.level + 1;
        for (at, level) in cursor.at.iter_mut().zip(&self.levels[first.min(self.levels.len())..]) {
            while let Some(file) = level.files().get(*at) {
                if cmp.compare_without_timestamp(user_key, file.largest_user_key())
                    == Ordering::Greater
                {
                    *at += 1;
                    continue;
                }
                if cmp.compare_without_timestamp(user_key, file.smallest_user_key())
                    != Ordering::Less
                {
                    return false;
                }
                break;
            }
        }
        true
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for level in self.levels.iter().filter(|l| !l.is_empty()) {
            writeln!(f, "L{}", level.number())?;
            level.files().iter().try_for_each(|file| writeln!(f, "  {file:?}"))?;
        }
        Ok(())
    }
}

/// The position of a compaction in the levels below its output.
#[derive(Clone, Debug)]
pub struct BeyondCursor {
    level: usize,
    /// Files of L0 count too.
    with_level0: bool,
    at: Vec<usize>,
}
