//! One slot: an entry, its pin count and its life cycle in one 64-bit word.
//!
//! ```text
//! meta:  occupied | shareable | visible | standalone | moving | erased | 0.. | pins (48 bits)
//!           63         62         61         60          59       58
//! ```
//!
//! | state | bits | who enters it | who leaves it |
//! |---|---|---|---|
//! | empty | 000 | the owner, after the value left | an inserter: `try_claim` |
//! | owned | 100 | an inserter, an evictor, a mover or the last unpinner | that thread alone |
//! | visible | 111 | the owner: `publish`, `end_move` | an eraser; unpinned, an evictor or mover |
//! | hidden | 110 | an eraser (or born so: standalone) | the thread that drops the last pin |
//!
//! Invariants:
//! 1. `value` is initialised exactly in states visible and hidden, and while owned between
//!    `write_value` and `take_value`. Only the owner writes it.
//! 2. A thread may read `value` while it holds a pin that it took, or inherited, in state visible
//!    or hidden: visible with pins is never owned by another thread, and hidden becomes owned only
//!    by dropping the last pin.
//! 3. Any thread may raise the count for a moment in any state (a lookup pins first and looks
//!    after), so the owner changes state bits by arithmetic that keeps the count.
//! 4. `publish` and `end_move` release, pinning acquires; unpinning releases, becoming the owner
//!    acquires. All are read-modify-writes of `meta`, so the release sequence is never broken.
//! 5. `moving` is set exactly in an owned slot whose entry is on its way from or to another slot,
//!    or to another level in place. Then `key` is the entry's, and an eraser, who cannot hide what
//!    it cannot pin, sets `erased`: the mover removes the entry instead of making it visible.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::atomic::{
    AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
    fence,
};

use crate::key::{CacheKey, Priority};

const OCCUPIED: u64 = 1 << 63;
const SHAREABLE: u64 = 1 << 62;
const VISIBLE: u64 = 1 << 61;
const STANDALONE: u64 = 1 << 60;
const MOVING: u64 = 1 << 59;
const ERASED: u64 = 1 << 58;
const PINS: u64 = (1 << 48) - 1;
const STATE: u64 = OCCUPIED | SHAREABLE | VISIBLE;

/// Largest countdown a hit can reach.
const COUNTDOWN_MAX: u8 = 3;
/// A countdown counts in twos: the lowest bit says that there was a hit.
const COUNT: u8 = 2;
const WAS_HIT: u8 = 1;

/// Low bits of a noted miss, which are its time; the others are the key's tag.
const MISS_TIME_BITS: u32 = 10;
const MISS_TIME: u16 = (1 << MISS_TIME_BITS) - 1;

/// The state in which the clock found a slot.
pub(crate) enum Sweep {
    /// Nothing, or an entry in transition.
    Passed,
    /// A pinned entry.
    Pinned,
    /// An entry that has sweeps left.
    Aged,
    /// The caller now owns the entry and must remove it.
    Owned,
}

/// An entry of the table, or a standalone one on the heap. All-zero bytes are an empty slot.
#[repr(C, align(64))]
pub(crate) struct Slot<V> {
    meta: AtomicU64,
    /// The key; written by the owner, read by anyone as a filter before pinning.
    key: [AtomicU64; 2],
    charge: AtomicUsize,
    /// How many entries probed past this slot when they were inserted. Zero ends a search.
    pub(crate) displacements: AtomicU32,
    /// Sweeps left, in [`COUNT`]s, and [`WAS_HIT`]. Lossy on purpose: a plain store costs a hit
    /// nothing.
    countdown: AtomicU8,
    /// The level at which the entry was placed; written and read by the owner (head of `growth`).
    level: AtomicU8,
    /// The last miss noted here, of whatever key; see [`Slot::note_miss`]. Not the entry's.
    missed: AtomicU16,
    value: UnsafeCell<MaybeUninit<V>>,
}

// SAFETY: `value` is shared only through pins (invariant 2) and moved only by the owner
// (invariant 1), hence V must be Sync and Send; the rest is atomics.
unsafe impl<V: Send + Sync> Sync for Slot<V> {}
// SAFETY: as above.
unsafe impl<V: Send + Sync> Send for Slot<V> {}

impl<V> Slot<V> {
    /// A hidden entry with one pin that lives on the heap and belongs to its handles.
    pub(crate) fn standalone(key: CacheKey, charge: usize, value: V) -> Self {
        Slot {
            meta: AtomicU64::new(OCCUPIED | SHAREABLE | STANDALONE | 1),
            key: [AtomicU64::new(key.0), AtomicU64::new(key.1)],
            charge: AtomicUsize::new(charge),
            displacements: AtomicU32::new(0),
            countdown: AtomicU8::new(0),
            level: AtomicU8::new(0),
            missed: AtomicU16::new(0),
            value: UnsafeCell::new(MaybeUninit::new(value)),
        }
    }

    /// The key last written here.
    #[inline]
    pub(crate) fn key(&self) -> CacheKey {
        CacheKey(self.key[0].load(Relaxed), self.key[1].load(Relaxed))
    }
    /// The charge last written here.
    #[inline]
    pub(crate) fn charge(&self) -> usize {
        self.charge.load(Relaxed)
    }
    /// The entry lives on the heap.
    #[inline]
    pub(crate) fn is_standalone(&self) -> bool {
        self.meta.load(Relaxed) & STANDALONE != 0
    }
    /// The charge if the entry is pinned, else 0. A snapshot.
    pub(crate) fn pinned_charge(&self) -> usize {
        let meta = self.meta.load(Relaxed);
        if meta & SHAREABLE != 0 && meta & PINS != 0 { self.charge() } else { 0 }
    }

    /// Makes the caller owner of an empty slot.
    #[inline]
    pub(crate) fn try_claim(&self) -> bool {
        self.meta.load(Relaxed) & STATE == 0
            && self.meta.fetch_or(OCCUPIED, Acquire) & OCCUPIED == 0
    }

    /// The number of slots in use when the entry was placed, from its level.
    #[inline]
    pub(crate) fn len_placed_for(&self) -> usize {
        1 << self.level.load(Relaxed)
    }
    /// Writes the level. The caller owns the slot.
    #[inline]
    pub(crate) fn set_level(&self, level: u8) {
        self.level.store(level, Relaxed);
    }

    /// Fills the slot and makes it visible, with one pin for the caller, who must own it.
    #[inline]
    pub(crate) fn publish(&self, key: CacheKey, charge: usize, priority: Priority, value: V) {
        self.fill(key, charge, COUNT * priority.initial_countdown(), value);
        self.meta.fetch_add((SHAREABLE | VISIBLE) + 1, Release);
    }

    /// Writes an entry. The caller owns the slot, which holds none.
    #[inline]
    fn fill(&self, key: CacheKey, charge: usize, countdown: u8, value: V) {
        // A thread that sees this key, and so no longer the previous one, also sees where a move
        // put that one (`HashTable::erase`).
        fence(Release);
        self.key[0].store(key.0, Relaxed);
        self.key[1].store(key.1, Relaxed);
        self.charge.store(charge, Relaxed);
        self.countdown.store(countdown, Relaxed);
        // SAFETY: the caller owns the slot, which holds no value (invariant 1).
        unsafe { (*self.value.get()).write(value) };
    }

    /// Makes the caller owner of a visible, unpinned entry, in order to move it. False: it is not
    /// one. Ends with [`Slot::end_move`] here, or with [`Slot::take_over`] elsewhere.
    pub(crate) fn begin_move(&self) -> bool {
        let meta = self.meta.load(Relaxed);
        meta & VISIBLE != 0
            && meta & PINS == 0
            && self.meta.compare_exchange(meta, OCCUPIED | MOVING, Acquire, Relaxed).is_ok()
    }

    /// Takes the entry over from `from`, which is released; it is not visible yet: the caller has
    /// to end the move here. The caller owns both slots and began a move of `from`. Returns whether
    /// the entry was erased meanwhile.
    pub(crate) fn take_over(&self, from: &Slot<V>) -> bool {
        let countdown = from.countdown.load(Relaxed);
        self.fill(from.key(), from.charge(), countdown, from.take_value());
        self.meta.fetch_or(MOVING, Release);
        // `from` last: an eraser that comes too late there finds the entry here.
        from.meta.fetch_and(!(OCCUPIED | MOVING | ERASED), AcqRel) & ERASED != 0
    }

    /// Makes an entry visible that the caller, its owner, moved. False: it was erased meanwhile,
    /// and the caller, still owner, must remove it.
    #[must_use]
    pub(crate) fn end_move(&self) -> bool {
        let mut old = self.meta.load(Relaxed);
        loop {
            let erased = old & ERASED != 0;
            let now = old & !(MOVING | ERASED);
            let new = if erased { now } else { now | SHAREABLE | VISIBLE };
            match self.meta.compare_exchange_weak(old, new, Release, Relaxed) {
                Ok(_) => return !erased,
                Err(seen) => old = seen,
            }
        }
    }

    /// Erases the entry if it is being moved, under `key` or, with `None`, whatever its key.
    /// If it gave up the slot meanwhile, another entry in motion may be erased in its stead, which
    /// a cache may do.
    pub(crate) fn erase_moving(&self, key: Option<CacheKey>) -> bool {
        let mut old = self.meta.load(Acquire);
        while old & MOVING != 0 && key.is_none_or(|key| self.key() == key) {
            match self.meta.compare_exchange_weak(old, old | ERASED, Relaxed, Acquire) {
                Ok(_) => return true,
                Err(seen) => old = seen,
            }
        }
        false
    }

    /// There is an entry to erase, under `key` or, with `None`, whatever its key.
    pub(crate) fn is_erasable(&self, key: Option<CacheKey>) -> bool {
        self.meta.load(Acquire) & (VISIBLE | MOVING) != 0 && key.is_none_or(|key| self.key() == key)
    }

    /// Pins the entry if it is visible under `key`. False leaves no pin behind, and may have made
    /// the caller owner of the entry: then `*owned` is set and the caller must remove it.
    #[inline]
    pub(crate) fn try_pin(&self, key: CacheKey, owned: &mut bool) -> bool {
        if self.key() != key || self.meta.load(Relaxed) & VISIBLE == 0 {
            return false;
        }
        let old = self.meta.fetch_add(1, Acquire);
        // The key is stable from here on if the entry is visible; before, it was only a filter.
        if old & VISIBLE != 0 && self.key() == key {
            return true;
        }
        *owned = self.unpin_borrowed();
        false
    }

    /// Pins the entry if it is visible, whatever its key. As [`Slot::try_pin`].
    pub(crate) fn try_pin_any(&self, owned: &mut bool) -> bool {
        if self.meta.load(Relaxed) & VISIBLE == 0 {
            return false;
        }
        if self.meta.fetch_add(1, Acquire) & VISIBLE != 0 {
            return true;
        }
        *owned = self.unpin_borrowed();
        false
    }

    /// Counts a hit for the clock.
    #[inline]
    pub(crate) fn touch(&self) {
        const MOST: u8 = (COUNT * COUNTDOWN_MAX) | WAS_HIT;
        let countdown = self.countdown.load(Relaxed);
        if countdown < MOST {
            self.countdown.store(MOST.min((countdown | WAS_HIT) + COUNT), Relaxed);
        }
    }

    /// A lookup found the entry since it was placed.
    pub(crate) fn was_hit(&self) -> bool {
        self.countdown.load(Relaxed) & WAS_HIT != 0
    }

    /// Records that a key with this tag was missed at this time of the clock, and returns the time
    /// since its previous miss, if no other key recorded here was missed since. Lossy: tags are
    /// short and times wrap.
    pub(crate) fn note_miss(&self, tag: u16, now: u16) -> Option<u16> {
        let tag = tag << MISS_TIME_BITS;
        let now = now & MISS_TIME;
        let before = self.missed.load(Relaxed);
        self.missed.store(tag | now, Relaxed);
        (before & !MISS_TIME == tag).then(|| now.wrapping_sub(before) & MISS_TIME)
    }

    /// Adds a pin to those the caller has.
    #[inline]
    pub(crate) fn pin_again(&self) {
        self.meta.fetch_add(1, Relaxed);
    }

    /// Drops a pin while something else keeps the table alive. True: the caller now owns the entry
    /// and must remove it.
    #[inline]
    #[must_use]
    pub(crate) fn unpin_borrowed(&self) -> bool {
        let old = self.meta.fetch_sub(1, Release);
        if old & STATE != (OCCUPIED | SHAREABLE) || old & PINS != 1 {
            return false;
        }
        // The last pin of a hidden entry. A passing lookup may pin and unpin again meanwhile and
        // come here too: the winner of the exchange removes the entry.
        let now = old - 1;
        self.meta.compare_exchange(now, now & !SHAREABLE, Acquire, Relaxed).is_ok()
    }

    /// Drops a pin that may be the last thing that keeps the table alive: after this call returned
    /// false the slot must not be touched. True: as [`Slot::unpin_borrowed`].
    ///
    /// An exchange instead of a subtraction, because a hidden entry must go from one pin to owned
    /// in one step: an intermediate state with no pins would let another thread remove it, and free
    /// the table, in the middle of this call.
    #[inline]
    #[must_use]
    pub(crate) fn unpin_owned(&self) -> bool {
        let mut old = self.meta.load(Relaxed);
        loop {
            let last = old & STATE == (OCCUPIED | SHAREABLE) && old & PINS == 1;
            let new = if last { (old - 1) & !SHAREABLE } else { old - 1 };
            match self.meta.compare_exchange_weak(old, new, AcqRel, Relaxed) {
                Ok(_) => return last,
                Err(seen) => old = seen,
            }
        }
    }

    /// Makes a visible entry hidden. The caller holds a pin.
    pub(crate) fn hide(&self) {
        self.meta.fetch_and(!VISIBLE, Relaxed);
    }

    /// One pass of the clock's hand.
    pub(crate) fn sweep(&self) -> Sweep {
        let meta = self.meta.load(Relaxed);
        if meta & VISIBLE == 0 {
            return Sweep::Passed;
        }
        if meta & PINS != 0 {
            return Sweep::Pinned;
        }
        let countdown = self.countdown.load(Relaxed);
        if countdown >= COUNT {
            self.countdown.store(countdown - COUNT, Relaxed);
            return Sweep::Aged;
        }
        match self.meta.compare_exchange(meta, OCCUPIED, Acquire, Relaxed) {
            Ok(_) => Sweep::Owned,
            Err(_) => Sweep::Passed,
        }
    }

    /// Takes the value out. The caller owns the entry and calls this once.
    #[inline]
    pub(crate) fn take_value(&self) -> V {
        // SAFETY: the owner of a published entry; nothing else reads it (invariants 1 and 2).
        unsafe { (*self.value.get()).assume_init_read() }
    }

    /// Releases an owned slot without a value.
    #[inline]
    pub(crate) fn release(&self) {
        self.meta.fetch_and(!OCCUPIED, Release);
    }

    /// The value.
    ///
    /// # Safety
    /// The caller holds a pin for the returned lifetime.
    #[inline]
    pub(crate) unsafe fn value(&self) -> &V {
        // SAFETY: pinned, hence initialised and not owned by another thread (invariant 2).
        unsafe { (*self.value.get()).assume_init_ref() }
    }
}
