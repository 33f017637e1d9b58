//! How many slots of a table are in use.
//!
//! A cache is mostly made larger than what is read through it. Entries spread over all its slots
//! would each touch a page of their own, several times what an entry needs. So a table begins with
//! the first few slots, and uses twice as many whenever its entries need more.
//!
//! The probe path of an entry depends on the slots in use when it was placed: the *level* of the
//! entry, the binary logarithm of their number. After a doubling, inserts, and hits of entries of
//! older levels, move a few entries each to the new level, until all slots of the old one were
//! looked at. Pinned entries cannot move: they stay where they are until the next doubling. A
//! lookup therefore searches the current level, where nearly all entries are, and after a miss
//! older levels that have entries. It misses an entry that is just being moved.
//!
//! An erasure misses none that was there before it:
//! - Entries move from older levels to newer ones only, and the mover gives up what leads to the
//!   old place after the entry can be found at the new one. So an erasure searches the levels
//!   oldest first. An entry in motion it marks as erased (`slot`, invariant 5).
//! - One of all entries walks over the slots, and an entry might move from before it to behind
//!   it. So no move begins meanwhile, and one that began before it erases its entry, unless the
//!   walk comes after the entry is at its new place.
//!
//! The table does not shrink.
//!
//! Thread safety: all methods from any thread. Invariants:
//! 1. `len` is a power of two, at most the number of slots, and only grows.
//! 2. `counts[level]` is at least the number of entries of that level: it is raised before an entry
//!    is published, and lowered after it was removed or published at another level.
//! 3. An entry of a level lies in the first slots, as many as the level says, so a walk over the
//!    slots of the last level meets the entries of all older ones.

use std::sync::atomic::{
    AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
    fence,
};

use crossbeam_utils::CachePadded;

use crate::key::CacheKey;
use crate::slot::Slot;
use crate::table::{Table, occupancy_max};

/// Slots in use at first.
const FIRST_SLOTS: usize = 1024;
/// Slots that one insert looks at for entries to move. Two would do: by the next doubling there
/// are inserts for seven tenths of the slots of the last level.
const MOVE_STEP: usize = 4;
/// One erasure of all entries that began, in [`Growth::erasures`]; the low bits are those under
/// way.
const ERASURE_BEGAN: u64 = 1 << 32;

/// The slots in use, and what is left of older levels.
pub(crate) struct Growth {
    len: AtomicUsize,
    first_len: usize,
    /// Slots of the last level that were looked at for entries to move.
    looked_at: CachePadded<AtomicUsize>,
    /// Erasures of all entries: begun (high half), under way (low half).
    erasures: AtomicU64,
    /// Entries by level; apart from what lookups read.
    counts: CachePadded<[AtomicUsize; usize::BITS as usize]>,
}

impl Growth {
    /// For a table of so many slots, a power of two.
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

    /// What a move has to know before it begins.
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
}

impl<V> Table<V> {
    /// The visible entry under `key`, which is not of the level of `len`, pinned.
    #[cold]
    pub(crate) fn lookup_older(&self, key: CacheKey, hash: u64, len: usize) -> Option<&Slot<V>> {
        let mut found = None;
        self.growth.for_each_len(|older| {
            if older < len && found.is_none() {
                found = self.lookup_in(key, hash, older);
            }
        });
        if found.is_some() {
            self.move_some();
        }
        found
    }

    /// Before an entry is placed: takes more slots into use if it needs them, else moves a few
    /// entries of older levels.
    pub(crate) fn grow_or_move(&self) {
        let len = self.len();
        if self.occupancy() <= occupancy_max(len) || len == self.slots.len() {
            self.move_some();
        } else if self.growth.len.compare_exchange(len, 2 * len, Relaxed, Relaxed).is_ok() {
            self.growth.looked_at.store(0, Relaxed);
        }
    }

    /// Looks at a few slots of the last level and moves their entries to the current one.
    fn move_some(&self) {
        let len = self.len();
        if self.growth.looked_at.load(Relaxed) >= len / 2 {
            return;
        }
        let erasures = self.growth.erasures();
        if !erasures.is_multiple_of(ERASURE_BEGAN) {
            return;
        }
        let from = self.growth.looked_at.fetch_add(MOVE_STEP, Relaxed);
        for slot in self.slots[..len / 2].iter().skip(from).take(MOVE_STEP) {
            if slot.len_placed_for() < len && slot.begin_move() {
                self.move_to(slot, len, erasures);
            }
        }
    }

    /// Moves the entry in `slot`, of which the caller began a move after it read `erasures`, to the
    /// level of `len`, if it is of an older one.
    pub(crate) fn move_to(&self, slot: &Slot<V>, len: usize, erasures: u64) {
        let hash = slot.key().hash();
        let old_len = slot.len_placed_for();
        let mut to = slot;
        let mut erased = false;
        // Another entry may have come into the slot before the move began.
        if old_len < len
            && let Some(claimed) = self.claim(hash, len, Some(slot))
        {
            to = claimed;
            self.growth.placed(to, len);
            fence(Release);
            if !std::ptr::eq(to, slot) {
                erased = to.take_over(slot);
                fence(Release);
            }
            self.growth.left(old_len);
            self.roll_back(hash, old_len, Some(slot));
        }
        // Whoever erases all entries and is not seen here sees the entry in `to`.
        fence(SeqCst);
        if erased || self.growth.erasures.load(Relaxed) / ERASURE_BEGAN != erasures / ERASURE_BEGAN
        {
            to.erase_moving(None);
        }
        if !to.end_move() {
            self.remove(to);
        }
    }
}
