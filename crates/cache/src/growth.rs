//! How many slots of a table are in use.
//!
//! A cache is usually larger than the data read through it. Entries spread over all its slots would
//! each touch a separate page, several times the memory of an entry. So a table starts with the
//! first few slots, and doubles their number whenever its entries need more.
//!
//! The probe path of an entry depends on the slots in use when it was placed: the *level* of the
//! entry, the binary logarithm of their number. After a doubling, inserts, and hits of entries of
//! older levels, move a few entries each to the new level, until all slots of the old one have been
//! examined. Pinned entries cannot move: they stay where they are until the next doubling. A lookup
//! therefore searches the current level, where nearly all entries are, and after a miss older
//! levels that have entries. It misses an entry that is just being moved.
//!
//! An erasure misses no entry that was there before it:
//! - Entries move from older levels to newer ones only, and the mover gives up what leads to the
//!   old place after the entry can be found at the new one. So an erasure searches the levels
//!   oldest first. It marks an entry in motion as erased (`slot`, invariant 5).
//! - An erasure of all entries walks over the slots, and an entry might move from a slot before it
//!   to one after it. So no move begins meanwhile, and one that began before it erases its entry,
//!   unless the walk comes after the entry is at its new place.
//!
//! The table does not shrink.
//!
//! Thread safety: all methods from any thread. Invariants:
//! 1. `len` is a power of two, at most the number of slots, and only grows.
//! 2. `counts[level]` is at least the number of entries of that level: it is raised before an entry
//!    is published, and lowered after it was removed or published at another level.
//! 3. An entry of a level lies in the first slots, as many as the level says, so a walk over the
//!    slots of the last level meets the entries of all older ones.

use std::ops::Range;
use std::sync::atomic::{
    AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
    fence,
};

use crossbeam_utils::CachePadded;

use crate::slot::Slot;

/// Slots in use at first.
const FIRST_SLOTS: usize = 1024;
/// Slots that one insert examines for entries to move. Two would be enough: before the next
/// doubling there are inserts for seven tenths of the slots of the last level.
const MOVE_STEP: usize = 4;
/// One erasure that has begun, as [`Growth::erasures`] counts them; the low bits count those under
/// way.
const ERASURE_BEGAN: u64 = 1 << 32;

/// The slots in use, and what is left of older levels.
pub(crate) struct Growth {
    len: AtomicUsize,
    first_len: usize,
    /// Slots of the last level that were examined for entries to move.
    looked_at: CachePadded<AtomicUsize>,
    /// Erasures of all entries: begun (high half), under way (low half).
    erasures: AtomicU64,
    /// Entries by level; apart from what lookups read.
    counts: CachePadded<[AtomicUsize; usize::BITS as usize]>,
}

impl Growth {
    /// For a table of `slots` slots, a power of two.
    pub(crate) fn new(slots: usize) -> Self {
        let first_len = slots.min(FIRST_SLOTS);
        Growth {
            len: AtomicUsize::new(first_len),
            first_len,
            looked_at: CachePadded::new(AtomicUsize::new(slots)),
            erasures: AtomicU64::new(0),
            counts: CachePadded::new(std::array::from_fn(|_| AtomicUsize::new(0))),
        }
    }

    /// Number of slots in use.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len.load(Relaxed)
    }
    /// Number of slots in use at first.
    #[inline]
    pub(crate) fn first_len(&self) -> usize {
        self.first_len
    }

    /// Entries of all levels.
    #[cfg(test)]
    pub(crate) fn counted(&self) -> usize {
        self.counts.iter().map(|count| count.load(Relaxed)).sum()
    }

    fn count(&self, len: usize) -> &AtomicUsize {
        &self.counts[len.trailing_zeros() as usize % self.counts.len()]
    }

    /// The caller, owner of `slot`, is about to publish an entry there, placed for `len` slots.
    pub(crate) fn placed<V>(&self, slot: &Slot<V>, len: usize) {
        slot.set_level(len.trailing_zeros() as u8);
        self.count(len).fetch_add(1, Relaxed);
    }

    /// An entry placed for `len` slots is no longer there.
    pub(crate) fn left(&self, len: usize) {
        self.count(len).fetch_sub(1, Relaxed);
    }

    /// Calls `f` with every number of slots for which entries may be placed, first ones first. All
    /// that `f` reads before one of them is read before what it reads for the next.
    pub(crate) fn for_each_len(&self, mut f: impl FnMut(usize)) {
        let mut len = self.first_len;
        while len <= self.len() {
            if self.count(len).load(Relaxed) > 0 {
                f(len);
            }
            fence(Acquire);
            len *= 2;
        }
    }

    /// The number of erasures, which a move reads before it begins.
    pub(crate) fn erasures(&self) -> u64 {
        self.erasures.load(SeqCst)
    }

    /// Runs `f`, which erases all entries, without any move that it could miss.
    pub(crate) fn erasing_all(&self, f: impl FnOnce()) {
        self.erasures.fetch_add(ERASURE_BEGAN + 1, SeqCst);
        fence(SeqCst);
        f();
        self.erasures.fetch_sub(1, Release);
    }

    /// Takes twice as many as `len` slots into use, if these are still all.
    pub(crate) fn double(&self, len: usize) {
        if self.len.compare_exchange(len, 2 * len, Relaxed, Relaxed).is_ok() {
            self.looked_at.store(0, Relaxed);
        }
    }

    /// Whether all slots of the level before that of `len` were examined for entries to move.
    #[inline]
    pub(crate) fn is_settled(&self, len: usize) -> bool {
        self.looked_at.load(Relaxed) >= len / 2
    }

    /// The next slots to examine, some of which may be beyond the last level.
    pub(crate) fn next_to_look_at(&self) -> Range<usize> {
        let from = self.looked_at.fetch_add(MOVE_STEP, Relaxed);
        from..from.saturating_add(MOVE_STEP)
    }

    /// No erasure of all entries was under way when `erasures` was read.
    pub(crate) fn allows_moves(erasures: u64) -> bool {
        erasures.is_multiple_of(ERASURE_BEGAN)
    }

    /// An erasure of all entries has begun since `erasures` was read.
    pub(crate) fn erased_since(&self, erasures: u64) -> bool {
        self.erasures.load(Relaxed) / ERASURE_BEGAN != erasures / ERASURE_BEGAN
    }
}
