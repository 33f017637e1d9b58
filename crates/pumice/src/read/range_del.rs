//! Range tombstones as an iterator sees them.
//!
//! A tombstone hides every older entry in its range, whatever level either is on, so all sources
//! are searched in turn. Tombstones of table files count only inside the file's boundaries
//! (docs/format/table.md#range-deletions): keys outside were split off by compaction, and entries
//! there may have had their sequence zeroed.
//!
//! No table is opened for its tombstones alone. Moving an iterator to a key makes its sources visit
//! every file of every level that contains the key, between the target of the last seek and their
//! position: so [`Reached`] shows whether tombstones can matter at all, and the table with the
//! tombstones was opened just before. A level whose files are known to have none is not tracked,
//! and `covers` then costs one branch.
//!
//! Thread safety: one owner at a time (`Send`); [`Reached`] from anywhere.

use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use pumice_base::key::{InternalKey, before_versions};
use pumice_base::range_tombstone::{FragmentedTombstones, RangeTombstone};
use pumice_base::{Comparator, InternalKeyComparator, Result, SequenceNumber, UserKey};
use pumice_manifest::{FileMetaData, Level};
use pumice_table::{Table, TableReadOptions};

use crate::version::table_cache::TableCache;

/// Files by which the span of an answer is widened, on each side.
const WIDEN_MAX: usize = 8;

/// Set by an iterator of a level when it opens a table that has range tombstones.
#[derive(Clone, Default)]
pub struct Reached(Arc<AtomicBool>);

impl Reached {
    /// `table` is opened.
    pub fn note(&self, table: &Table) {
        if table.range_tombstones_ref().is_some() {
            self.0.store(true, Relaxed);
        }
    }
}

type List = Arc<FragmentedTombstones>;

/// The tombstones visible to one iterator.
pub struct RangeDels {
    sequence: SequenceNumber,
    /// Nothing can be covered.
    none: bool,
    memtables: Vec<List>,
    /// Tombstones of files of L0.
    files: Vec<(Arc<FileMetaData>, List)>,
    levels: Vec<LevelDels>,
    /// Only with `levels`: most iterators have none, and allocate nothing here.
    reached: Option<Reached>,
}

impl RangeDels {
    /// Tombstones at or below `sequence`.
    pub fn new(sequence: SequenceNumber) -> Self {
        RangeDels {
            sequence,
            none: true,
            memtables: Vec::new(),
            files: Vec::new(),
            levels: Vec::new(),
            reached: None,
        }
    }

    /// There are none.
    #[inline]
    pub fn is_none(&self) -> bool {
        self.none
    }

    /// Adds a memtable's tombstones.
    pub fn push_memtable(&mut self, list: Option<List>) {
        if let Some(list) = list.filter(|list| !list.is_empty()) {
            self.none = false;
            self.memtables.push(list);
        }
    }

    /// Adds those of a file of L0, which is `table`.
    pub fn push_file(&mut self, file: &Arc<FileMetaData>, table: &Table) {
        if let Some(list) = table.range_tombstones() {
            self.none = false;
            self.files.push((Arc::clone(file), list));
        }
    }

    /// Adds a level. Its iterator has to keep the returned value and note in it the tables that it
    /// opens; None if the level is known to have no tombstones.
    pub fn push_level(
        &mut self,
        tables: &Arc<TableCache>,
        options: &TableReadOptions,
        comparator: &InternalKeyComparator,
        level: &Arc<Level>,
    ) -> Option<Reached> {
        if !level.may_have_range_deletions() {
            return None;
        }
        self.none = false;
        self.levels.push(LevelDels {
            tables: Arc::clone(tables),
            cache_only: options.cache_only,
            comparator: comparator.clone(),
            level: Arc::clone(level),
            span: None,
        });
        Some(self.reached.get_or_insert_default().clone())
    }

    /// An entry of `key` with `sequence` is deleted by a newer tombstone. If keys have timestamps
    /// that of `key` is the reader's.
    ///
    /// # Errors
    /// Of opening a table. May suspend.
    #[inline]
    pub fn covers(
        &mut self,
        comparator: &Comparator,
        key: UserKey<'_>,
        sequence: SequenceNumber,
    ) -> Result<bool> {
        if self.none {
            return Ok(false);
        }
        self.find(comparator, key, sequence)
    }

    fn find(
        &mut self,
        comparator: &Comparator,
        key: UserKey<'_>,
        sequence: SequenceNumber,
    ) -> Result<bool> {
        let newest = |list: &List| list.max_covering_seq(comparator, key, self.sequence);
        let inside = |file: &FileMetaData| inside_file(comparator, key, file);
        if self.memtables.iter().any(|list| newest(list) > sequence)
            || self.files.iter().any(|(file, list)| newest(list) > sequence && inside(file))
        {
            return Ok(true);
        }
        if !self.reached.as_ref().is_some_and(|reached| reached.0.load(Relaxed)) {
            return Ok(false);
        }
        for level in &mut self.levels {
            if level.newest_over(key, self.sequence)? > sequence {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// The tombstones of a sorted level, of one or two of its files at a time.
struct LevelDels {
    tables: Arc<TableCache>,
    cache_only: bool,
    comparator: InternalKeyComparator,
    level: Arc<Level>,
    span: Option<Span>,
}

/// The keys strictly between two files, `first - 1` and `end`, and the tombstones that can cover
/// them: those of the only file in between, or none.
struct Span {
    first: usize,
    end: usize,
    list: Option<List>,
}

impl LevelDels {
    /// The newest sequence at or below `upper` of a tombstone over `key`; 0 if there is none.
    fn newest_over(&mut self, key: UserKey<'_>, upper: SequenceNumber) -> Result<SequenceNumber> {
        if !self.span.as_ref().is_some_and(|span| self.is_within(key, span)) {
            return self.search(key, upper);
        }
        let Some(Span { first, list: Some(list), .. }) = &self.span else { return Ok(0) };
        Ok(self.newest_in(&self.level.files()[*first], list, key, upper))
    }

    fn is_within(&self, key: UserKey<'_>, span: &Span) -> bool {
        let (files, comparator) = (self.level.files(), &self.comparator.user);
        let before = |file: &Arc<FileMetaData>| {
            comparator.compare_without_timestamp(key, file.smallest_user_key()) == Ordering::Less
        };
        let ends_before = |file: &Arc<FileMetaData>| {
            comparator.compare_without_timestamp(key, file.largest_user_key()) == Ordering::Greater
        };
        files.get(span.end).is_none_or(before)
            && span.first.checked_sub(1).is_none_or(|last| ends_before(&files[last]))
    }

    fn newest_in(
        &self,
        file: &FileMetaData,
        list: &List,
        key: UserKey<'_>,
        upper: SequenceNumber,
    ) -> SequenceNumber {
        let comparator = &self.comparator.user;
        match list.max_covering_seq(comparator, key, upper) {
            found if found > 0 && inside_file(comparator, key, file) => found,
            _ => 0,
        }
    }

    /// As `newest_over`, if the span does not contain `key`: moves it there.
    fn search(&mut self, key: UserKey<'_>, upper: SequenceNumber) -> Result<SequenceNumber> {
        self.span = None;
        let level = Arc::clone(&self.level);
        let comparator = &self.comparator.user;
        let target = match comparator.timestamp_size() {
            0 => before_versions(key),
            _ => {
                let newest = comparator.at_newest(comparator.without_timestamp(key).as_bytes());
                before_versions(&newest)
            }
        };
        let start = level.find_file(&self.comparator, InternalKey::new(&target));
        let mut span = Span { first: start, end: start, list: None };
        let mut newest = 0;
        for file in &level.files()[start..] {
            let smallest = file.smallest_user_key();
            if comparator.compare_without_timestamp(smallest, key) == Ordering::Greater {
                break;
            }
            span.end += 1;
            span.list = self.list_of(file)?;
            if let Some(list) = &span.list {
                newest = newest.max(self.newest_in(file, list, key, upper));
            }
        }
        // Two files share the key: the result holds for this key alone.
        if span.end - span.first < 2 {
            if span.list.is_none() {
                let clear = |file: &&Arc<FileMetaData>| file.has_no_range_deletions();
                let (before, after) = level.files().split_at(span.end);
                span.end += after.iter().take(WIDEN_MAX).take_while(clear).count();
                let before = &before[..span.first];
                span.first -= before.iter().rev().take(WIDEN_MAX).take_while(clear).count();
            }
            self.span = Some(span);
        }
        Ok(newest)
    }

    fn list_of(&self, file: &FileMetaData) -> Result<Option<List>> {
        if file.has_no_range_deletions() {
            return Ok(None);
        }
        let options = TableReadOptions { cache_only: self.cache_only, ..Default::default() };
        let table = self.tables.table_for(&options, file, self.level.number())?;
        Ok(table.range_tombstones())
    }
}

/// Cuts a file's tombstones to its boundaries, given as internal keys. Appends to `out`.
///
/// The upper bound follows docs/format/table.md#range-deletions: a largest key `(K, maxseq,
/// RangeDeletion)` is an artificial end, exclusive. Any other largest key belongs to the file, so
/// the tombstone must cover its user key too, which as a user-key range is `[.., K]`; the part of
/// K's versions that a neighbouring file holds is older than the tombstone by construction of the
/// cut.
pub(crate) fn truncate_to_file(
    comparator: &Comparator,
    list: &FragmentedTombstones,
    smallest: InternalKey<'_>,
    largest: InternalKey<'_>,
    out: &mut Vec<RangeTombstone>,
) {
    let bare =
        |key: InternalKey<'_>| comparator.without_timestamp(key.user_key()).as_bytes().to_vec();
    let (low, high) = (comparator.at_newest(&bare(smallest)), comparator.at_newest(&bare(largest)));
    let (low, high) = (UserKey::new(&low), UserKey::new(&high));
    let exclusive = largest.is_range_end();
    // The successor of K in byte order is K followed by a zero byte; for other comparators the
    // tombstone is left whole on that side, which is correct unless a neighbour shares the key.
    let by_bytes = comparator.without_timestamps().is_bytewise();
    let inclusive_end = || {
        let mut end = bare(largest);
        end.push(0);
        comparator.at_newest(&end)
    };
    for fragment in list.fragments() {
        let mut start = fragment.start();
        if comparator.compare(start, low) == Ordering::Less {
            start = low;
        }
        let mut end = fragment.end.clone();
        if comparator.compare(fragment.end(), high) == Ordering::Greater {
            if exclusive {
                end = high.to_vec();
            } else if by_bytes {
                end = inclusive_end();
            }
        }
        if comparator.compare(start, UserKey::new(&end)) != Ordering::Less {
            continue;
        }
        for (seq, time) in fragment.tombstones() {
            let (start, end, time) = (start.to_vec(), end.clone(), time.to_vec());
            out.push(RangeTombstone { start, end, seq, time });
        }
    }
}

/// Whether the tombstones of `file` apply to `key`; see [`truncate_to_file`].
pub(crate) fn inside_file(comparator: &Comparator, key: UserKey<'_>, file: &FileMetaData) -> bool {
    if comparator.compare_without_timestamp(key, file.smallest_user_key()) == Ordering::Less {
        return false;
    }
    match comparator.compare_without_timestamp(key, file.largest_user_key()) {
        Ordering::Less => true,
        Ordering::Greater => false,
        Ordering::Equal => !file.largest_key().is_range_end(),
    }
}
