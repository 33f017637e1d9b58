//! The slots, the probing that finds them, the clock that empties them, and the accounts.
//!
//! Probing is double hashing over a power of two of slots. Every slot counts the entries that
//! were displaced past it, so a search ends at the first slot with a zero count, and removal
//! leaves no tombstones: it walks the probe path again and takes its counts back. Slots come into
//! use as entries need them: `growth`.
//!
//! Life: the table lives on the heap behind a raw pointer and is owned by `entries`: one count for
//! the [`crate::Cache`] and one per entry, standalone ones included. Handles therefore need no
//! count of their own: a pinned entry is not removed, an entry keeps the table. The thread that
//! takes the count to zero frees the table.
//!
//! Invariants:
//! 1. A `&HashTable` taken from `Cache` is good while the cache is borrowed; one taken through a
//!    handle is good until that handle's pin is dropped, or, if dropping made the caller owner of
//!    the entry, until `remove` returns.
//! 2. `usage` is the sum of the charges of all entries and reservations.

use std::ptr::NonNull;
use std::sync::atomic::{
    AtomicUsize,
    Ordering::{AcqRel, Relaxed},
};

use crossbeam_utils::CachePadded;

use crate::admission::Return;
use crate::growth::Growth;
use crate::key::{CacheKey, Priority};
use crate::slot::{Slot, Sweep};
use crate::slot_array::SlotArray;

/// Slots that one step of the clock's hand examines.
const CLOCK_STEP: usize = 4;
/// Pinned entries seen per entry evicted before eviction gives up (RocksDB's
/// `eviction_effort_cap`): a cache full of pinned entries must not cost every insert a sweep.
const EVICTION_EFFORT_CAP: usize = 30;
/// Sweeps after which every unpinned entry has run out of countdown.
const SWEEPS_MAX: usize = 5;
/// Evictions leave at most this part of the capacity free: they free slightly more than they have
/// to.
const EVICTION_ROOM: usize = 16;
/// Points in time that the clock distinguishes within a sweep, for misses.
const MISS_TIMES_PER_SWEEP: u16 = 4;
/// A return is prompt within this part of the time that an entry stays without a hit: an entry that
/// returns by chance within a fourth of it has one chance in five of a hit, and costs more than
/// that saves.
const PROMPT: u16 = 16;
/// Smallest table.
const SLOTS_MIN: usize = 64;

/// How many of `len` slots entries may fill.
pub(crate) fn occupancy_max(len: usize) -> usize {
    len / 10 * 7
}

/// The part of the cache that outlives it while entries are pinned.
pub(crate) struct HashTable<V> {
    pub(crate) slots: SlotArray<V>,
    pub(crate) growth: Growth,
    /// Entries may fill this many slots: 70 %, beyond which probe paths grow quickly.
    occupancy_max: usize,
    clock: CachePadded<AtomicUsize>,
    /// Entries plus one for the cache.
    pub(crate) entries: CachePadded<AtomicUsize>,
    usage: CachePadded<AtomicUsize>,
    /// Part of `usage`: standalone entries and reservations, which nothing can evict.
    unevictable: AtomicUsize,
    capacity: AtomicUsize,
    on_eviction: Option<Box<dyn EvictionHandler<V>>>,
}

/// Is told of the values that the clock evicts.
pub(crate) trait EvictionHandler<V>: Send + Sync {
    /// The value was evicted, and nobody else has it. `was_hit`: a lookup found it.
    fn evicted(&self, key: &CacheKey, value: &V, was_hit: bool);
}

/// The slots an entry may be in, in probe order.
pub(crate) struct Probe {
    at: usize,
    step: usize,
    mask: usize,
}

impl Probe {
    #[inline]
    pub(crate) fn new(hash: u64, slots: usize) -> Self {
        // An odd step visits every slot of a power of two.
        Probe { at: hash as usize, step: (hash >> 32) as usize | 1, mask: slots - 1 }
    }
    #[inline]
    pub(crate) fn index(&self) -> usize {
        self.at & self.mask
    }
    #[inline]
    pub(crate) fn advance(&mut self) {
        self.at = self.at.wrapping_add(self.step);
    }
}

impl<V> HashTable<V> {
    /// An empty table for `entries_max` entries, which the caller's cache owns.
    pub(crate) fn new(
        capacity: usize,
        entries_max: usize,
        on_eviction: Option<Box<dyn EvictionHandler<V>>>,
    ) -> NonNull<Self> {
        let wanted = entries_max.saturating_mul(10) / 7 + 1;
        let slots = SlotArray::new(wanted.max(SLOTS_MIN).next_power_of_two());
        let len = slots.len();
        let table = Box::new(HashTable {
            slots,
            growth: Growth::new(len),
            occupancy_max: occupancy_max(len),
            clock: CachePadded::new(AtomicUsize::new(0)),
            entries: CachePadded::new(AtomicUsize::new(1)),
            usage: CachePadded::new(AtomicUsize::new(0)),
            unevictable: AtomicUsize::new(0),
            capacity: AtomicUsize::new(capacity),
            on_eviction,
        });
        NonNull::from(Box::leak(table))
    }

    #[cfg(test)]
    pub(crate) fn displacements(&self) -> u64 {
        self.slots.iter().map(|slot| u64::from(slot.displacements.load(Relaxed))).sum()
    }
    /// Number of slots in use: a power of two.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.growth.len()
    }
    /// The slots in use.
    fn in_use(&self) -> &[Slot<V>] {
        &self.slots[..self.len()]
    }
    pub(crate) fn occupancy(&self) -> usize {
        self.entries.load(Relaxed) - 1
    }
    pub(crate) fn usage(&self) -> usize {
        self.usage.load(Relaxed)
    }
    pub(crate) fn capacity(&self) -> usize {
        self.capacity.load(Relaxed)
    }
    pub(crate) fn set_capacity(&self, capacity: usize) {
        self.capacity.store(capacity, Relaxed);
        let _evicted = self.evict(self.usage().saturating_sub(capacity), 0);
    }
    pub(crate) fn pinned_usage(&self) -> usize {
        let in_slots: usize = self.in_use().iter().map(Slot::pinned_charge).sum();
        in_slots + self.unevictable.load(Relaxed)
    }

    /// The visible entry under `key`, pinned.
    #[inline]
    pub(crate) fn lookup(&self, key: CacheKey) -> Option<&Slot<V>> {
        let hash = key.hash();
        let len = self.len();
        match self.lookup_in(key, hash, len) {
            None if len > self.growth.first_len() => self.lookup_older(key, hash, len),
            found => found,
        }
    }

    /// The visible entry under `key` among those placed when `len` slots were in use, pinned.
    #[inline]
    pub(crate) fn lookup_in(&self, key: CacheKey, hash: u64, len: usize) -> Option<&Slot<V>> {
        let mut probe = Probe::new(hash, len);
        for _ in 0..len {
            let slot = &self.slots[probe.index()];
            let mut owned = false;
            if slot.try_pin(key, &mut owned) {
                slot.touch();
                return Some(slot);
            }
            if owned {
                self.remove(slot);
            }
            if slot.displacements.load(Relaxed) == 0 {
                return None;
            }
            probe.advance();
        }
        None
    }

    /// Whether another `charge` bytes hardly fit without eviction: the free room is only what
    /// evictions leave.
    pub(crate) fn is_full(&self, charge: usize) -> bool {
        let capacity = self.capacity();
        self.usage() + charge > capacity - capacity / EVICTION_ROOM
            || self.occupancy() >= self.occupancy_max
    }

    /// Records that the key with this hash was missed, and returns when it was missed before: in
    /// time if an entry inserted then would still be here.
    pub(crate) fn note_miss(&self, hash: u64, priority: Priority) -> Return {
        // Misses are noted in all slots, whatever part is in use: the cache is full, and one of
        // few large entries needs no fewer notes.
        let now = self.clock.load(Relaxed) / (self.len() / usize::from(MISS_TIMES_PER_SWEEP));
        // The sweeps that an entry stays without a hit are one more than its countdown.
        let stays = (u16::from(priority.initial_countdown()) + 1) * MISS_TIMES_PER_SWEEP;
        let slot = &self.slots[hash as usize & (self.slots.len() - 1)];
        match slot.note_miss((hash >> 40) as u16, now as u16) {
            Some(time) if time <= stays / PROMPT => Return::Prompt,
            Some(time) if time <= stays => Return::InTime,
            _ => Return::Late,
        }
    }

    /// Hides every entry under `key`; true if there was one.
    pub(crate) fn erase(&self, key: CacheKey) -> bool {
        let hash = key.hash();
        let mut found = false;
        self.growth.for_each_len(|len| found |= self.erase_in(key, hash, len));
        found
    }

    /// [`HashTable::erase`] among the entries placed when `len` slots were in use.
    fn erase_in(&self, key: CacheKey, hash: u64, len: usize) -> bool {
        let mut found = false;
        let mut probe = Probe::new(hash, len);
        for _ in 0..len {
            let slot = &self.slots[probe.index()];
            let ends_here = slot.displacements.load(Relaxed) == 0;
            found |= self.erase_slot(slot, Some(key));
            if ends_here {
                break;
            }
            probe.advance();
        }
        found
    }

    /// Hides the entry in `slot`, under `key` or, with `None`, whatever its key; true if there was
    /// one.
    fn erase_slot(&self, slot: &Slot<V>, key: Option<CacheKey>) -> bool {
        let mut found = false;
        // Again only if a move began or ended in between.
        while !found && slot.is_erasable(key) {
            let mut owned = false;
            let pinned = match key {
                Some(key) => slot.try_pin(key, &mut owned),
                None => slot.try_pin_any(&mut owned),
            };
            if pinned {
                slot.hide();
                owned = slot.unpin_borrowed();
            }
            if owned {
                self.remove(slot);
            }
            found = pinned || slot.erase_moving(key);
        }
        found
    }

    /// Puts an entry, already charged, into a free slot, pinned. Gives the value back if there is
    /// none.
    pub(crate) fn place(
        &self,
        key: CacheKey,
        value: V,
        charge: usize,
        priority: Priority,
    ) -> Result<&Slot<V>, V> {
        if self.entries.fetch_add(1, Relaxed) > self.occupancy_max && self.evict(0, 1).entries == 0
        {
            self.entries.fetch_sub(1, Relaxed);
            return Err(value);
        }
        self.grow_or_move();
        let hash = key.hash();
        let len = self.len();
        let Some(slot) = self.claim(hash, len, None) else {
            self.entries.fetch_sub(1, Relaxed);
            return Err(value);
        };
        self.growth.placed(slot, len);
        slot.publish(key, charge, priority, value);
        Ok(slot)
    }

    /// A slot for an entry of `len` slots in use: the first on its path that is empty, which the
    /// caller owns then, or `own`, which the caller owns. `None`: only other threads' unfinished
    /// inserts can have filled the rest of the table.
    pub(crate) fn claim(&self, hash: u64, len: usize, own: Option<&Slot<V>>) -> Option<&Slot<V>> {
        let mut probe = Probe::new(hash, len);
        for _ in 0..len {
            let slot = &self.slots[probe.index()];
            if own.is_some_and(|own| std::ptr::eq(own, slot)) || slot.try_claim() {
                return Some(slot);
            }
            slot.displacements.fetch_add(1, Relaxed);
            probe.advance();
        }
        self.roll_back(hash, len, None);
        None
    }

    /// An entry outside the table, already charged, pinned.
    pub(crate) fn place_standalone(
        &self,
        key: CacheKey,
        value: V,
        charge: usize,
    ) -> NonNull<Slot<V>> {
        self.entries.fetch_add(1, Relaxed);
        self.unevictable.fetch_add(charge, Relaxed);
        NonNull::from(Box::leak(Box::new(Slot::standalone(key, charge, value))))
    }

    /// Takes back the displacement counts from the start of the probe path to `end`, or all round.
    pub(crate) fn roll_back(&self, hash: u64, len: usize, end: Option<&Slot<V>>) {
        let mut probe = Probe::new(hash, len);
        for _ in 0..len {
            let slot = &self.slots[probe.index()];
            if end.is_some_and(|end| std::ptr::eq(slot, end)) {
                return;
            }
            slot.displacements.fetch_sub(1, Relaxed);
            probe.advance();
        }
    }

    /// Empties a slot of the table that the caller owns.
    fn vacate(&self, slot: &Slot<V>) -> (V, usize) {
        let value = slot.take_value();
        let charge = slot.charge();
        let hash = slot.key().hash();
        let len = slot.len_placed_for();
        self.growth.left(len);
        slot.release();
        self.roll_back(hash, len, Some(slot));
        (value, charge)
    }

    /// Removes an entry that the caller owns, while the cache is borrowed.
    #[cold]
    pub(crate) fn remove(&self, slot: &Slot<V>) {
        drop(self.take_out(slot));
    }

    /// The value of an entry that the caller owns, which is removed, while the cache is borrowed.
    fn take_out(&self, slot: &Slot<V>) -> V {
        let (value, charge) = self.vacate(slot);
        self.usage.fetch_sub(charge, Relaxed);
        let before = self.entries.fetch_sub(1, AcqRel);
        debug_assert!(before > 1, "the cache keeps the table");
        value
    }

    /// Removes an entry that the clock chose, and offers it to the secondary cache.
    fn remove_evicted(&self, slot: &Slot<V>) {
        let Some(handler) = &self.on_eviction else { return self.remove(slot) };
        let (key, was_hit) = (slot.key(), slot.was_hit());
        handler.evicted(&key, &self.take_out(slot), was_hit);
    }

    /// Drops one pin of a handle, and with it, if it is the last one, the entry and maybe the
    /// table.
    ///
    /// # Safety
    /// `slot` is an entry of `table`, or a standalone one made by it, on which the caller gives up
    /// a pin.
    #[inline]
    pub(crate) unsafe fn unpin(table: NonNull<Self>, slot: NonNull<Slot<V>>) {
        // SAFETY: the pin keeps the entry and so the table (invariant 1).
        if unsafe { slot.as_ref() }.unpin_owned() {
            // SAFETY: the caller owns the entry, which keeps the table.
            unsafe { Self::remove_last(table, slot) };
        }
    }

    /// # Safety
    /// The caller owns the entry in `slot`, which counts in `table`.
    #[cold]
    unsafe fn remove_last(table: NonNull<Self>, slot: NonNull<Slot<V>>) {
        // SAFETY: the entry's count keeps the table until `release` below.
        let this = unsafe { table.as_ref() };
        // SAFETY: owned by the caller.
        let entry = unsafe { slot.as_ref() };
        let value;
        if entry.is_standalone() {
            let charge = entry.charge();
            this.unevictable.fetch_sub(charge, Relaxed);
            this.usage.fetch_sub(charge, Relaxed);
            value = entry.take_value();
            // SAFETY: made by `place_standalone` from a box; its last pin is gone.
            drop(unsafe { Box::from_raw(slot.as_ptr()) });
        } else {
            let (taken, charge) = this.vacate(entry);
            this.usage.fetch_sub(charge, Relaxed);
            value = taken;
        }
        // SAFETY: the count of the entry just removed.
        unsafe { Self::release(table) };
        drop(value);
    }

    /// Gives up one count of the table's life.
    ///
    /// # Safety
    /// The caller owns that count and does not touch the table afterwards.
    pub(crate) unsafe fn release(table: NonNull<Self>) {
        // SAFETY: the count keeps it.
        if unsafe { table.as_ref() }.entries.fetch_sub(1, AcqRel) == 1 {
            // SAFETY: made by `new` from a box; no entry, handle or cache is left.
            drop(unsafe { Box::from_raw(table.as_ptr()) });
        }
    }

    /// Charges `charge` and evicts what exceeds the capacity. With `strict`, charges nothing and
    /// returns false if it cannot evict enough.
    pub(crate) fn charge(&self, charge: usize, strict: bool) -> bool {
        let now = self.usage.fetch_add(charge, Relaxed) + charge;
        let capacity = self.capacity();
        if now <= capacity {
            return true;
        }
        let excess = now - capacity;
        if strict && charge > capacity {
            self.usage.fetch_sub(charge, Relaxed);
            return false;
        }
        if self.evict(excess, 0).charge < excess && strict && self.usage() > capacity {
            self.usage.fetch_sub(charge, Relaxed);
            return false;
        }
        true
    }
    /// Takes back a charge.
    pub(crate) fn discharge(&self, charge: usize) {
        self.usage.fetch_sub(charge, Relaxed);
    }
    /// Charges a reservation.
    pub(crate) fn reserve(&self, charge: usize, strict: bool) -> bool {
        let granted = self.charge(charge, strict);
        if granted {
            self.unevictable.fetch_add(charge, Relaxed);
        }
        granted
    }
    /// Ends a reservation.
    pub(crate) fn unreserve(&self, charge: usize) {
        self.unevictable.fetch_sub(charge, Relaxed);
        self.discharge(charge);
    }

    /// Moves the clock's hand until `charge` bytes and `entries` entries are evicted, or it is not
    /// worth going on. Values are dropped here, outside of any lock.
    fn evict(&self, charge: usize, entries: usize) -> Evicted {
        let mut done = Evicted::default();
        let mut pinned = 0;
        let mut looked = 0;
        while (done.charge < charge || done.entries < entries)
            && looked < SWEEPS_MAX * self.len()
            && pinned <= EVICTION_EFFORT_CAP * (done.entries + 1) + CLOCK_STEP
        {
            let hand = self.clock.fetch_add(CLOCK_STEP, Relaxed);
            for i in 0..CLOCK_STEP {
                let slot = &self.slots[hand.wrapping_add(i) & (self.len() - 1)];
                match slot.sweep() {
                    Sweep::Passed | Sweep::Aged => {}
                    Sweep::Pinned => pinned += 1,
                    Sweep::Owned => {
                        done.charge += slot.charge();
                        done.entries += 1;
                        self.remove_evicted(slot);
                    }
                }
            }
            looked += CLOCK_STEP;
        }
        done
    }

    /// Calls `f` for every visible entry, pinned meanwhile.
    pub(crate) fn for_each(&self, f: &mut dyn FnMut(&CacheKey, usize, &V)) {
        for slot in self.in_use() {
            let mut owned = false;
            if slot.try_pin_any(&mut owned) {
                // SAFETY: pinned until below.
                f(&slot.key(), slot.charge(), unsafe { slot.value() });
                owned = slot.unpin_borrowed();
            }
            if owned {
                self.remove(slot);
            }
        }
    }

    /// Hides every visible entry.
    pub(crate) fn erase_all(&self) {
        self.growth.erasing_all(|| {
            for slot in self.in_use() {
                self.erase_slot(slot, None);
            }
        });
    }
}

/// What an eviction achieved.
#[derive(Default)]
struct Evicted {
    charge: usize,
    entries: usize,
}
