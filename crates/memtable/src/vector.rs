//! The vector representation: append now, sort once. For bulk loads that do not read.
//!
//! Thread safety: appends and the first read after an append take one short lock. Costs: a read
//! while the memtable still grows sorts the items, and the next append copies them if a reader has
//! them, so a read-write mix is quadratic. Immutable memtables sort once, where the items are.
//!
//! Invariant: items point to entries of `arena`, written before they were pushed under the lock.

use std::cmp::Ordering;
use std::sync::Arc;

use pumice_port::lane::at_normal_priority;
use pumice_port::sync::{Mutex, MutexGuard};

use crate::arena::{Arena, Bump};
use crate::entry::{Entry, EntryRef, Target, entry_bytes, prefetch, write_entry};
use crate::order::KeyOrder;

/// One entry and the prefix of its key, which decides most comparisons of the sort.
#[derive(Clone, Copy)]
pub(crate) struct Item {
    prefix: u64,
    entry: *const Entry,
}

// SAFETY: entries are immutable and live as long as the arena (head's invariant).
unsafe impl Send for Item {}
// SAFETY: as above.
unsafe impl Sync for Item {}

/// Items in internal-key order, once they are shown to readers.
pub(crate) type Sorted = Arc<Vec<Item>>;

/// What a writer holds.
pub(crate) struct State {
    bump: Bump,
    items: Sorted,
    /// `items` is in order, as readers have it.
    is_sorted: bool,
}

/// See the head.
pub(crate) struct VectorRep {
    arena: Arena,
    state: Mutex<State>,
}

/// Maximum entries reserved: more are added as needed.
const RESERVE_MAX: usize = 1 << 20;

impl VectorRep {
    /// An empty vector with room for `reserve` entries, at most `RESERVE_MAX`.
    pub(crate) fn new(arena: Arena, reserve: usize) -> Self {
        let reserve = reserve.min(RESERVE_MAX);
        let items = Arc::new(Vec::with_capacity(reserve));
        let state = State { bump: Bump::new(), items, is_sorted: true };
        arena.charge(reserve * size_of::<Item>());
        VectorRep { arena, state: Mutex::foreground(state) }
    }

    pub(crate) fn arena(&self) -> &Arena {
        &self.arena
    }
    /// Becomes the writer.
    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Appends an entry. Repeated keys are not detected.
    #[inline]
    pub(crate) fn append(&self, state: &mut State, target: &Target<'_>, value: &[u8]) {
        let lane = self.arena.exclusive_lane();
        let bytes = entry_bytes(target.user_key.as_bytes(), value);
        let at = self.arena.allocate(lane, &mut state.bump, bytes);
        // SAFETY: fresh, 8-aligned memory of that size.
        unsafe { write_entry(at, target.user_key.as_bytes(), target.trailer, value) };
        lane.count(target.trailer, target.user_key.len() + value.len());
        let before = state.items.capacity();
        let items = Arc::make_mut(&mut state.items);
        items.push(Item { prefix: target.prefix, entry: at.cast() });
        let grown = items.capacity().saturating_sub(before);
        if grown > 0 {
            self.arena.charge(grown * size_of::<Item>());
        }
        state.is_sorted = false;
    }

    /// Everything appended so far, sorted.
    pub(crate) fn sorted<O: KeyOrder>(&self, order: O) -> Sorted {
        // Readers wait for it, and a flush may be the first.
        at_normal_priority(|| {
            let mut state = self.state.lock();
            if !state.is_sorted {
                let items = Arc::make_mut(&mut state.items);
                items.sort_unstable_by(|a, b| self.compare(order, a, b));
                state.is_sorted = true;
            }
            Arc::clone(&state.items)
        })
    }

    /// The entry of an item of this representation.
    #[inline]
    pub(crate) fn entry(&self, item: Item) -> EntryRef<'_> {
        // SAFETY: the arena lives as long as self (head's invariant).
        unsafe { EntryRef::new(item.entry) }
    }

    /// Starts loading an item's entry.
    #[inline]
    pub(crate) fn prefetch(&self, item: Item) {
        prefetch(item.entry.cast());
    }

    #[inline]
    fn compare<O: KeyOrder>(&self, order: O, a: &Item, b: &Item) -> Ordering {
        a.prefix.cmp(&b.prefix).then_with(|| {
            let (a, b) = (self.entry(*a), self.entry(*b));
            let keys = order.compare(a.user_key(), b.user_key());
            keys.then_with(|| b.trailer().cmp(&a.trailer()))
        })
    }

    /// Index of the first item at or after `target`.
    pub(crate) fn lower_bound<O: KeyOrder>(
        &self,
        order: O,
        items: &[Item],
        target: &Target<'_>,
    ) -> usize {
        items.partition_point(|item| {
            let entry = self.entry(*item);
            item.prefix < target.prefix
                || item.prefix == target.prefix
                    && target.compare_entry(order, entry) == Ordering::Less
        })
    }
}
