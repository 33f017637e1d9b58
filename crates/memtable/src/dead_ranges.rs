//! Ranges of keys in which a reader found nothing to show, so that the next one need not walk them.
//!
//! A reader that walked over many deleted keys says so: "at sequence `seq` nothing in `[start,
//! end)` is visible, in this memtable and in all that is older". That stays true for later readers
//! until something that can be seen is written there, and whatever is written goes through the
//! memtable: each insertion cuts the ranges that hold its key. So a range serves every reader whose
//! sequence is at least `seq` and whose newest memtable is this one, and its iterator jumps over
//! everything that the range covers, entries of this memtable and of all tables alike.
//!
//! RocksDB 11.3 instead inserts a range tombstone into the memtable. That lets a reader jump in
//! what is older than the memtable, but not over the dead entries of the memtable itself, where a
//! queue has them.
//!
//! A reader takes a while to walk a range, and writers do not wait. So it first *announces* the
//! range, from when on insertions cut it, then looks at what was inserted before that, and only
//! then makes it known.
//!
//! Thread safety: one lock, taken by readers that meet deleted keys and, while there are ranges, by
//! insertions; without ranges an insertion costs one load. Invariants: (1) known ranges are in key
//! order, do not overlap and do not touch; (2) while `closed` there are none.

use std::cmp::Ordering::{Equal, Greater, Less};
use std::sync::atomic::{
    AtomicBool,
    Ordering::{Acquire, Release},
};

use pumice_base::{Comparator, SequenceNumber, UserKey};
use pumice_port::sync::Mutex;

/// Ranges kept at most; that of the fewest tombstones makes way.
const RANGES_MAX: usize = 1024;
/// Ranges announced at the same time at most.
const ANNOUNCED_MAX: usize = 16;
/// Longer keys are not kept.
const KEY_BYTES_MAX: usize = 1024;

/// Nothing in `[start, end)` is visible at sequence `seq`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadRange {
    /// The first user key.
    pub start: Vec<u8>,
    /// The user key after the last one.
    pub end: Vec<u8>,
    /// The sequence number of the reader.
    pub seq: SequenceNumber,
    /// Tombstones of single keys that it met there.
    pub tombstones: u64,
    /// How often entries had left the older files without being hidden (filters, FIFO) when the
    /// reader's view was made: one with an older view may still see them.
    pub removals: u64,
}

impl DeadRange {
    /// The first user key.
    #[inline]
    pub fn start(&self) -> UserKey<'_> {
        UserKey::new(&self.start)
    }
    /// The user key after the last one.
    #[inline]
    pub fn end(&self) -> UserKey<'_> {
        UserKey::new(&self.end)
    }

    /// Nothing is left after what is in it from `key` on was cut.
    fn cut_at(&mut self, comparator: &Comparator, key: UserKey<'_>) -> bool {
        let inside = comparator.compare(self.start(), key) != Greater
            && comparator.compare(key, self.end()) == Less;
        if inside {
            self.end.clear();
            self.end.extend_from_slice(key.as_bytes());
        }
        inside && comparator.compare(self.start(), key) == Equal
    }
}

#[derive(Default)]
struct State {
    closed: bool,
    known: Vec<DeadRange>,
    announced: Vec<(u64, DeadRange)>,
    next: u64,
}

impl State {
    /// Index of the first known range that ends after `key`.
    fn first_after(&self, comparator: &Comparator, key: UserKey<'_>) -> usize {
        self.known.partition_point(|range| comparator.compare(range.end(), key) != Greater)
    }

    fn is_empty(&self) -> bool {
        self.known.is_empty() && self.announced.is_empty()
    }

    /// Adds `range`, merged with those that it overlaps or touches.
    fn add(&mut self, comparator: &Comparator, mut range: DeadRange) {
        let touches = |known: &DeadRange| comparator.compare(known.end(), range.start()) == Less;
        let first = self.known.partition_point(touches);
        let beyond = |known: &DeadRange| comparator.compare(known.start(), range.end()) != Greater;
        let count = self.known[first..].iter().take_while(|known| beyond(known)).count();
        for old in self.known.drain(first..first + count) {
            let (earlier, later) = (
                comparator.compare(old.start(), range.start()) == Less,
                comparator.compare(old.end(), range.end()) == Greater,
            );
            if earlier {
                range.start = old.start;
            }
            if later {
                range.end = old.end;
            }
            range.seq = range.seq.max(old.seq);
            range.removals = range.removals.max(old.removals);
            range.tombstones += old.tombstones;
        }
        self.known.insert(first, range);
        if self.known.len() > RANGES_MAX
            && let Some((least, _)) =
                self.known.iter().enumerate().min_by_key(|(_, range)| range.tombstones)
        {
            self.known.remove(least);
        }
    }
}

/// See the head.
pub(crate) struct DeadRanges {
    any: AtomicBool,
    state: Mutex<State>,
}

impl DeadRanges {
    pub(crate) fn new() -> Self {
        DeadRanges { any: AtomicBool::new(false), state: Mutex::foreground(State::default()) }
    }

    /// There may be ranges, known or announced.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.any.load(Acquire)
    }

    /// Insertions cut `range` from now on; returns its ticket, or None if it is not wanted.
    pub(crate) fn announce(&self, comparator: &Comparator, range: DeadRange) -> Option<u64> {
        let mut state = self.state.lock();
        if state.closed
            || state.announced.len() >= ANNOUNCED_MAX
            || range.start.len().max(range.end.len()) > KEY_BYTES_MAX
            || comparator.compare(range.start(), range.end()) != Less
        {
            return None;
        }
        let ticket = state.next;
        state.next += 1;
        state.announced.push((ticket, range));
        self.any.store(true, Release);
        Some(ticket)
    }

    /// What was announced as `ticket`, as far as it was not cut since, is known.
    pub(crate) fn confirm(&self, comparator: &Comparator, ticket: u64) {
        let mut state = self.state.lock();
        let Some(at) = state.announced.iter().position(|(known, _)| *known == ticket) else {
            return;
        };
        let (_, range) = state.announced.swap_remove(at);
        state.add(comparator, range);
    }

    /// `key` may have become visible.
    #[cold]
    pub(crate) fn cut(&self, comparator: &Comparator, key: UserKey<'_>) {
        let mut state = self.state.lock();
        let at = state.first_after(comparator, key);
        if let Some(range) = state.known.get_mut(at)
            && range.cut_at(comparator, key)
        {
            state.known.remove(at);
        }
        state.announced.retain_mut(|(_, range)| !range.cut_at(comparator, key));
        self.any.store(!state.is_empty(), Release);
    }

    /// The known range around `key`, for a reader at `seq` whose view has `removals`.
    pub(crate) fn over(
        &self,
        comparator: &Comparator,
        key: UserKey<'_>,
        seq: SequenceNumber,
        removals: u64,
    ) -> Option<DeadRange> {
        let state = self.state.lock();
        let range = state.known.get(state.first_after(comparator, key))?;
        let covers = range.seq <= seq
            && range.removals <= removals
            && comparator.compare(range.start(), key) != Greater;
        covers.then(|| range.clone())
    }

    /// Forgets all ranges, and takes none from now on.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        *state = State { closed: true, next: state.next, ..State::default() };
        self.any.store(false, Release);
    }

    /// All known ranges.
    pub(crate) fn known(&self) -> Vec<DeadRange> {
        self.state.lock().known.clone()
    }

    /// Starts with `ranges`, which are as invariant 1 wants them.
    pub(crate) fn start_with(&self, ranges: Vec<DeadRange>) {
        let mut state = self.state.lock();
        self.any.store(!ranges.is_empty(), Release);
        state.known = ranges;
    }
}
