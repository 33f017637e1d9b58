//! What a memtable tells about ranges of keys: estimates, and where nothing is visible.
//!
//! Thread safety: from anywhere, but for `write_dead_ranges` and `inherit_dead_ranges`, which
//! exclude writers. Nothing here suspends.

use std::sync::Arc;
use std::sync::atomic::{Ordering::SeqCst, fence};

use pumice_base::key::{self, InternalKey, MAX_SEQUENCE, VALUE_TYPE_FOR_SEEK, pack};
use pumice_base::{InternalIterator, SequenceNumber, UserKey, ValueType};

use crate::dead_ranges::DeadRange;
use crate::entry::Target;
use crate::memtable::{MemTable, Rep};
use crate::order::with_order;

impl MemTable {
    /// Estimates how many point entries lie in `[start, end)` of user keys, and their bytes.
    pub fn approximate_count_and_bytes(&self, start: &[u8], end: &[u8]) -> (u64, u64) {
        let entries = self.sum(|lane| &lane.entries);
        let trailer = pack(MAX_SEQUENCE, VALUE_TYPE_FOR_SEEK);
        let count = with_order!(self.comparator(), order => {
            let target = |key| Target::new(order, UserKey::new(key), trailer);
            let (start, end) = (target(start), target(end));
            match &self.rep {
                Rep::SkipList(list) => list.estimate_between(order, &start, &end),
                Rep::Vector(vector) => {
                    let items = vector.sorted(order);
                    let from = vector.lower_bound(order, &items, &start);
                    vector.lower_bound(order, &items, &end).saturating_sub(from) as u64
                }
            }
        })
        .min(entries);
        let mean = self.data_bytes().checked_div(entries).unwrap_or(0);
        (count, count * mean)
    }

    /// [`MemTableOptions::dead_run_min`](crate::MemTableOptions::dead_run_min); 0: no dead ranges.
    #[inline]
    pub fn dead_run_min(&self) -> u64 {
        u64::from(self.dead_run_min)
    }

    /// A reader whose newest memtable this is met nothing visible in `range`. All entries of older
    /// memtables and tables have sequences up to that of the reader.
    pub fn note_dead_range(self: &Arc<Self>, range: DeadRange) {
        let Rep::SkipList(list) = &self.rep else { return };
        let ticket = {
            // An exclusive insertion is over, or begins after this and cuts the range.
            let _held = list.lock();
            self.dead_ranges.announce(self.comparator(), range.clone())
        };
        let Some(ticket) = ticket else { return };
        fence(SeqCst);
        if self.largest_seq() > range.seq {
            self.cut_at_newer(&range);
        }
        self.dead_ranges.confirm(self.comparator(), ticket);
    }

    /// Cuts `range` where something was inserted after its reader began.
    fn cut_at_newer(self: &Arc<Self>, range: &DeadRange) {
        let mut iter = self.iter();
        iter.seek(InternalKey::new(&key::seek_key(&range.start, MAX_SEQUENCE)));
        while iter.valid() {
            let key = iter.key().user_key();
            if self.comparator().compare(key, range.end()).is_ge() {
                return;
            }
            let (seq, tag) = iter.key().sequence_and_type();
            if seq > range.seq && tag != ValueType::Deletion as u8 {
                return self.dead_ranges.cut(self.comparator(), key);
            }
            iter.next();
        }
    }

    /// The range around `key` in which a reader at `seq`, whose newest memtable this is and whose
    /// view was made after `removals` ([`DeadRange::removals`]), finds nothing; None, by one load,
    /// if there are no such ranges.
    #[inline]
    pub fn dead_range_over(
        &self,
        key: UserKey<'_>,
        seq: SequenceNumber,
        removals: u64,
    ) -> Option<DeadRange> {
        if !self.dead_ranges.any() {
            return None;
        }
        self.dead_ranges.over(self.comparator(), key, seq, removals)
    }

    /// What is older than this memtable changes otherwise than by flushes and compactions: forgets
    /// the dead ranges, and takes none from now on.
    pub fn forget_dead_ranges(&self) {
        self.dead_ranges.close();
    }

    /// The dead ranges with at least `tombstones` become range tombstones of this memtable, where
    /// `wanted` returns true for their begin and end. Nothing is written meanwhile or later. Not
    /// those told after removals: readers with an older view, who share this memtable, would lose
    /// what was removed.
    pub fn write_dead_ranges(&self, tombstones: u64, wanted: impl Fn(&[u8], &[u8]) -> bool) {
        let seq = self.largest_seq();
        for range in self.dead_ranges.known() {
            // An empty memtable is not flushed.
            let may = seq > 0 && range.removals == 0 && range.tombstones >= tombstones;
            if may && wanted(&range.start, &range.end) {
                self.add_range_deletion(seq, &range.start, &range.end);
            }
        }
    }

    /// This memtable, which is empty, follows `older`, into which nothing is written any more. Of
    /// ranges with at least `written` tombstones only later ones count.
    pub fn inherit_dead_ranges(&self, older: &MemTable, written: u64) {
        if self.dead_run_min == 0 {
            return;
        }
        let mut ranges = older.dead_ranges.known();
        for range in &mut ranges {
            range.tombstones %= written.max(1);
        }
        self.dead_ranges.start_with(ranges);
    }
}
