//! Lookups among entries of older levels, and their moves to the current one.
//!
//! Why entries move, and what keeps an erasure from missing one: the head of `growth`.
//!
//! Thread safety: all methods from any thread. Invariants: those of `growth` and `hash_table`.

use std::sync::atomic::{
    Ordering::{Release, SeqCst},
    fence,
};

use crate::growth::Growth;
use crate::hash_table::{HashTable, occupancy_max};
use crate::key::CacheKey;
use crate::slot::Slot;

impl<V> HashTable<V> {
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
        } else {
            self.growth.double(len);
        }
    }

    /// Looks at a few slots of the last level and moves their entries to the current one.
    fn move_some(&self) {
        let len = self.len();
        if self.growth.is_settled(len) {
            return;
        }
        let erasures = self.growth.erasures();
        if !Growth::allows_moves(erasures) {
            return;
        }
        let next = self.growth.next_to_look_at();
        for slot in self.slots[..len / 2].iter().skip(next.start).take(next.len()) {
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
        // An erasure of all entries that is not seen here sees the entry in `to`.
        fence(SeqCst);
        if erased || self.growth.erased_since(erasures) {
            to.erase_moving(None);
        }
        if !to.end_move() {
            self.remove(to);
        }
    }
}
