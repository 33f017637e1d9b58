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
//! search therefore looks at the current level, where nearly all entries are, and after a miss at
//! older levels that have entries. An entry being moved is owned for that moment: a lookup misses
//! it and an erasure does not find it, as one being inserted.
//!
//! The table does not shrink.
//!
//! Thread safety: all methods from any thread. Invariants:
//! 1. `len` is a power of two, at most the number of slots, and only grows.
//! 2. `counts[level]` is at least the number of visible and hidden entries of that level: it is
//!    raised before an entry is published and lowered while it is owned.
//! 3. An entry of a level lies in the first slots, as many as the level says, so a walk over the
//!    slots of the last level meets the entries of all older ones.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::key::CacheKey;
use crate::slot::Slot;
use crate::table::{Table, occupancy_max};

/// Slots in use at first.
const FIRST_SLOTS: usize = 1024;
/// Slots that one insert looks at for entries to move. Two would do: by the next doubling there
/// are inserts for seven tenths of the slots of the last level.
const MOVE_STEP: usize = 4;

/// The slots in use, and what is left of older levels.
pub(crate) struct Growth {
    len: AtomicUsize,
    first_len: usize,
    /// Slots of the last level that were looked at for entries to move.
    looked_at: AtomicUsize,
    /// Entries by level.
    counts: [AtomicUsize; usize::BITS as usize],
}

impl Growth {
    /// For a table of so many slots, a power of two.
    pub(crate) fn new(slots: usize) -> Self {
        let first_len = slots.min(FIRST_SLOTS);
        Growth {
            len: AtomicUsize::new(first_len),
            first_len,
            looked_at: AtomicUsize::new(slots),
            counts: std::array::from_fn(|_| AtomicUsize::new(0)),
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

    fn count(&self, len: usize) -> &AtomicUsize {
        &self.counts[len.trailing_zeros() as usize % self.counts.len()]
    }

    /// The caller, owner of `slot`, is about to publish an entry there, placed for `len` slots.
    pub(crate) fn placed<V>(&self, slot: &Slot<V>, len: usize) {
        slot.set_level(len.trailing_zeros() as u8);
        self.count(len).fetch_add(1, Relaxed);
    }

    /// The entry in `slot`, which the caller owns, leaves it. Returns for how many slots it was
    /// placed.
    pub(crate) fn left<V>(&self, slot: &Slot<V>) -> usize {
        let len = 1 << slot.level();
        self.count(len).fetch_sub(1, Relaxed);
        len
    }

    /// Calls `f` with every number of slots for which entries may be placed, latest first.
    pub(crate) fn for_each_len(&self, mut f: impl FnMut(usize)) {
        let mut len = self.len();
        while len >= self.first_len {
            if self.count(len).load(Relaxed) > 0 {
                f(len);
            }
            len /= 2;
        }
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
        let from = self.growth.looked_at.fetch_add(MOVE_STEP, Relaxed);
        for slot in self.slots[..len / 2].iter().skip(from).take(MOVE_STEP) {
            if 1 << slot.level() < len && slot.try_own() {
                self.move_to(slot, len);
            }
        }
    }

    /// Moves the entry in `slot`, which the caller owns, to the level of `len`.
    fn move_to(&self, slot: &Slot<V>, len: usize) {
        let hash = slot.key().hash();
        let Some(to) = self.claim(hash, len, Some(slot)) else {
            slot.disown();
            return;
        };
        let old_len = self.growth.left(slot);
        self.growth.placed(to, len);
        if std::ptr::eq(to, slot) {
            slot.disown();
            self.roll_back(hash, old_len, Some(slot));
            return;
        }
        to.publish_from(slot);
        slot.release();
        self.roll_back(hash, old_len, Some(slot));
        if to.unpin_borrowed() {
            self.remove(to);
        }
    }
}
