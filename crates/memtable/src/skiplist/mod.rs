//! The skip list: sorted, insert-only, read without locks while it grows.
//!
//! A link (`node`) carries the prefix of the key it leads to, so a search looks at a node only when
//! it moves onto it or when prefixes tie; the usual skip list looks at one more node per level.
//! The branching factor is 4: with 2 a node has two links in place of 1.33, which is 10 bytes more,
//! and the index leads just as near.
//!
//! Searches start from the head, or near the target by the [`Index`], which then leaves only the
//! lowest levels to walk. Where many keys share a prefix, because all begin alike, a walk compares
//! whole keys (`walk`).
//!
//! Exclusive inserts keep a *splice*, the predecessors at every level of the place where the last
//! one went: the next key in order is placed with one comparison.
//!
//! Invariants:
//! 1. Node pointers come from `new_node` or are the head, point into `arena`, and live as long.
//! 2. A node of height h has h links, initialised before it is published. It is published bottom
//!    up, by release stores or exchanges of `next`; readers load `next` with acquire.
//! 3. Links only ever change to nearer nodes, so `next` once read stays at or after what `next`
//!    is later.
//! 4. A link's `prefix`, read after its `next`, is at most the prefix of that `next`, because
//!    writers lower `prefix` before they change `next` (a link to nothing has `u64::MAX`). So
//!    `target.prefix < link.prefix` proves `target < next`. Too low a value only costs reading the
//!    node.
//! 5. Nodes at level i are nodes at all lower levels, in the same order.
//! 6. Exclusive inserts hold `exclusive`; they overlap no concurrent insert.

use pumice_base::narrow::{len_u32, to_usize};
use std::cmp::Ordering;
use std::ptr;
use std::sync::atomic::{
    AtomicBool, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

use pumice_port::sync::{Mutex, MutexGuard};

use crate::arena::{Arena, Bump, Lane, SharedLane};
use crate::entry::{Entry, EntryRef, Target, entry_bytes, prefetch, write_entry};
use crate::index::{INDEX_LEVEL, Index};
use crate::node::{Link, Node, init_link, link};
use crate::order::KeyOrder;

mod walk;
mod watched;

/// log2 of the branching factor.
const BRANCHING_BITS: u32 = 2;
/// Levels; enough for 2^20 entries, degrading slowly beyond.
pub(crate) const HEIGHT_MAX: usize = 20;

/// Steps forward from the index's node before a search restarts from the head.
const STEPS_MAX: usize = 24;
/// Inserts into one lane between two visits to the index, and nodes indexed in a visit.
const INDEX_STRIDE: u64 = 16;

/// State of the exclusive writer.
pub(crate) struct Exclusive {
    bump: Bump,
    /// `splice[i]`: the last node of level i at or before the last insert; the head if none.
    splice: [Node; HEIGHT_MAX],
    /// Levels of `splice` for which this holds; on others it is from an earlier insert.
    splice_levels: usize,
}

// SAFETY: node pointers are valid on every thread (invariant 1).
unsafe impl Send for Exclusive {}

/// See the head.
pub(crate) struct SkipList {
    arena: Arena,
    head: Node,
    height: AtomicUsize,
    exclusive: Mutex<Exclusive>,
    index: Index,
    /// A concurrent insert has happened since the splice was made.
    splice_stale: AtomicBool,
}

// SAFETY: shared nodes are immutable except for atomics (invariants 1 and 2).
unsafe impl Send for SkipList {}
// SAFETY: as above.
unsafe impl Sync for SkipList {}

/// Where a search ended.
pub(crate) struct Position {
    /// The last node before the target; the head if none.
    pub(crate) prev: Node,
    /// The first node at or after the target; null if none.
    pub(crate) next: Node,
    /// `next` is the target.
    pub(crate) found: bool,
    /// The search began near the target, so it did not pass the upper levels.
    near: bool,
}

/// The height of the node for a key: geometric, and a function of the key and sequence alone, so
/// that a run can be repeated.
#[inline]
fn height_of(target: &Target<'_>) -> usize {
    let mut bits = target.trailer ^ target.prefix.rotate_left(32);
    bits = (bits ^ (bits >> 32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    bits = (bits ^ (bits >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let zeros = (bits ^ (bits >> 32)).trailing_zeros();
    (1 + (zeros / BRANCHING_BITS) as usize).min(HEIGHT_MAX)
}

/// Memory for `height` links and an entry of `bytes`; the pointer is to the entry.
#[inline]
fn new_tower(arena: &Arena, lane: &Lane, bump: &mut Bump, height: usize, bytes: usize) -> Node {
    let links = height * size_of::<Link>();
    let at = arena.allocate(lane, bump, links + bytes.max(size_of::<Entry>()));
    // SAFETY: within the allocation.
    unsafe { at.add(links).cast() }
}

impl SkipList {
    /// An empty list whose nodes will lie in `arena`.
    pub(crate) fn new(arena: Arena) -> Self {
        let mut bump = Bump::new();
        // Nothing reads the head's entry.
        let head = new_tower(&arena, arena.exclusive_lane(), &mut bump, HEIGHT_MAX, 0);
        for level in 0..HEIGHT_MAX {
            // SAFETY: fresh memory for `HEIGHT_MAX` links.
            unsafe { init_link(head, level, ptr::null_mut(), u64::MAX) };
        }
        SkipList {
            arena,
            head,
            height: AtomicUsize::new(1),
            exclusive: Mutex::foreground(Exclusive {
                bump,
                splice: [head; HEIGHT_MAX],
                splice_levels: 0,
            }),
            index: Index::new(),
            splice_stale: AtomicBool::new(false),
        }
    }

    pub(crate) fn arena(&self) -> &Arena {
        &self.arena
    }
    /// Becomes the exclusive writer.
    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, Exclusive> {
        self.exclusive.lock()
    }

    /// The entry of a node.
    #[inline]
    pub(crate) fn entry(&self, node: Node) -> EntryRef<'_> {
        debug_assert!(!node.is_null() && node != self.head);
        // SAFETY: a node's entry lives as long as self (invariant 1).
        unsafe { EntryRef::new(node) }
    }

    /// Finds `target`, passing `at_level` the predecessor on at least each level below `levels`.
    #[inline]
    fn descend<O: KeyOrder>(
        &self,
        order: O,
        target: &Target<'_>,
        levels: usize,
        mut at_level: impl FnMut(usize, Node),
    ) -> Position {
        if levels <= INDEX_LEVEL + 1
            && let Some(start) = self.index.search(order, target)
        {
            // Near the target, unless many keys of one prefix, or many inserts at one place since
            // the index was built, lie between.
            let near = self.walk(order, target, (start, INDEX_LEVEL), STEPS_MAX, &mut at_level);
            if let Some(position) = near {
                return Position { near: true, ..position };
            }
        }
        let top = self.height.load(Relaxed) - 1;
        self.walk(order, target, (self.head, top), usize::MAX, &mut at_level)
            .expect("no limit of steps")
    }

    /// Examines one link. `bound` is a node known to be at or after the target, or null.
    #[inline(always)]
    fn step<O: KeyOrder>(
        &self,
        order: O,
        target: &Target<'_>,
        prev: Node,
        level: usize,
        bound: Node,
    ) -> Step {
        // SAFETY: `prev` was reached on this level, or is the head (invariants 1, 2 and 5).
        let link = unsafe { link(prev, level) };
        let next = link.next.load(Acquire);
        // In this order: invariant 4.
        if link.prefix.load(Relaxed) > target.prefix || next == bound || next.is_null() {
            return Step { next, moved: false, found: false };
        }
        match target.compare_entry(order, self.entry(next)) {
            Ordering::Less => Step { next, moved: true, found: false },
            at => Step { next, moved: false, found: at == Ordering::Equal },
        }
    }

    /// The list is so large that searches start from an index.
    #[inline]
    pub(crate) fn has_index(&self) -> bool {
        self.index.is_built()
    }

    /// Finds `target`.
    #[inline]
    pub(crate) fn find<O: KeyOrder>(&self, order: O, target: &Target<'_>) -> Position {
        self.descend(order, target, 1, |_, _| {})
    }

    /// Inserts; false if the key and sequence are there already.
    #[inline]
    pub(crate) fn insert<O: KeyOrder>(
        &self,
        order: O,
        exclusive: &mut Exclusive,
        target: &Target<'_>,
        value: &[u8],
    ) -> bool {
        if self.splice_stale.load(Relaxed) {
            self.splice_stale.store(false, Relaxed);
            exclusive.splice_levels = 0;
        }
        let height = height_of(target);
        if height > exclusive.splice_levels || !self.splice_fits(order, &exclusive.splice, target) {
            let splice = &mut exclusive.splice;
            let at = self.descend(order, target, height, |level, prev| splice[level] = prev);
            if at.found {
                return false;
            }
            exclusive.splice_levels = if at.near { INDEX_LEVEL + 1 } else { HEIGHT_MAX };
            if !at.near {
                splice[self.height.load(Relaxed)..].fill(self.head);
            }
        }
        let lane = self.arena.exclusive_lane();
        let node = self.new_node(lane, &mut exclusive.bump, height, target, value);
        lane.count(target.trailer, target.user_key.len() + value.len());
        if height > self.height.load(Relaxed) {
            self.height.store(height, Relaxed);
        }
        for level in 0..height {
            // SAFETY: the splice holds predecessors on their levels, the head above.
            let before = unsafe { link(exclusive.splice[level], level) };
            let (next, prefix) = (before.next.load(Relaxed), before.prefix.load(Relaxed));
            // SAFETY: fresh, unpublished on this level.
            unsafe { init_link(node, level, next, prefix) };
            before.prefix.store(target.prefix, Relaxed);
            before.next.store(node, Release);
            exclusive.splice[level] = node;
        }
        self.advance_index(order, lane);
        true
    }

    /// `target` goes right after the last insert. If it does on level 0 it does on all levels
    /// (invariant 5, and no insert came between).
    #[inline]
    fn splice_fits<O: KeyOrder>(
        &self,
        order: O,
        splice: &[Node; HEIGHT_MAX],
        target: &Target<'_>,
    ) -> bool {
        let prev = splice[0];
        if prev == self.head {
            return false;
        }
        // SAFETY: a node has a link 0.
        let link = unsafe { link(prev, 0) };
        let next = link.next.load(Relaxed);
        let before_next = next.is_null()
            || link.prefix.load(Relaxed) > target.prefix
            || target.compare_entry(order, self.entry(next)) == Ordering::Greater;
        before_next && target.compare_entry(order, self.entry(prev)) == Ordering::Less
    }

    /// Inserts among concurrent inserts; false if the key and sequence are there already.
    pub(crate) fn insert_concurrent<O: KeyOrder>(
        &self,
        order: O,
        target: &Target<'_>,
        value: &[u8],
    ) -> bool {
        if !self.splice_stale.load(Relaxed) {
            self.splice_stale.store(true, Relaxed);
        }
        let mut splice = [self.head; HEIGHT_MAX];
        let height = height_of(target);
        if self.descend(order, target, height, |level, prev| splice[level] = prev).found {
            return false;
        }
        let SharedLane { lane, bump } = self.arena.shared_lane();
        let bytes = target.user_key.len() + value.len();
        let node = {
            let mut bump = bump.lock();
            lane.count(target.trailer, bytes);
            self.new_node(lane, &mut bump, height, target, value)
        };
        if height > self.height.load(Relaxed) {
            self.height.fetch_max(height, Relaxed);
        }
        for (level, &prev) in splice.iter().enumerate().take(height) {
            if !self.link_in(order, target, node, level, prev) {
                debug_assert_eq!(level, 0, "one node per key is on level 0, so above");
                let _locked = bump.lock();
                lane.uncount(target.trailer, bytes);
                return false;
            }
        }
        self.advance_index(order, lane);
        true
    }

    /// Links `node` in on one level, after `prev` or later; false if its key is there already.
    fn link_in<O: KeyOrder>(
        &self,
        order: O,
        target: &Target<'_>,
        node: Node,
        level: usize,
        mut prev: Node,
    ) -> bool {
        loop {
            let step = self.step(order, target, prev, level, ptr::null_mut());
            if step.moved {
                prev = step.next;
                continue;
            }
            // Two writers of one key meet on level 0; the loser has published nothing yet.
            if step.found {
                return false;
            }
            let next = step.next;
            // The exact prefix, because the link before may hold too low a one.
            let prefix = if next.is_null() { u64::MAX } else { self.entry(next).prefix(order) };
            // SAFETY: unpublished on this level; `prev` was reached on it.
            let before = unsafe {
                init_link(node, level, next, prefix);
                link(prev, level)
            };
            before.prefix.fetch_min(target.prefix, Relaxed);
            if before.next.compare_exchange(next, node, AcqRel, Relaxed).is_ok() {
                return true;
            }
        }
    }

    /// Updates the index, once every few inserts into `lane`.
    #[inline]
    fn advance_index<O: KeyOrder>(&self, order: O, lane: &Lane) {
        if O::HAS_PREFIX && lane.entries.load(Relaxed).is_multiple_of(INDEX_STRIDE) {
            self.advance_index_now(order);
        }
    }
    #[cold]
    #[inline(never)]
    fn advance_index_now<O: KeyOrder>(&self, order: O) {
        let entries = self.arena.lanes().map(|lane| lane.entries.load(Relaxed)).sum();
        // SAFETY: called with the head and with nodes reached on that level.
        let next = |node| unsafe { link(node, INDEX_LEVEL) }.next.load(Acquire);
        let bytes = self.index.advance(
            order,
            (entries, to_usize(INDEX_STRIDE)),
            || next(self.head),
            |node| self.entry(node).user_key(),
            next,
        );
        if bytes > 0 {
            self.arena.charge(bytes);
        }
    }

    /// A node with its entry written and its links not initialised.
    #[inline]
    fn new_node(
        &self,
        lane: &Lane,
        bump: &mut Bump,
        height: usize,
        target: &Target<'_>,
        value: &[u8],
    ) -> Node {
        let bytes = entry_bytes(target.user_key.as_bytes(), value);
        let node = new_tower(&self.arena, lane, bump, height, bytes);
        // SAFETY: fresh, 8-aligned memory of that size.
        unsafe { write_entry(node.cast(), target.user_key.as_bytes(), target.trailer, value) };
        node
    }

    /// The first node; null if none.
    #[inline]
    pub(crate) fn first(&self) -> Node {
        self.next(self.head)
    }
    /// The node after `node`; null if none.
    #[inline]
    pub(crate) fn next(&self, node: Node) -> Node {
        // SAFETY: a node or the head has a link 0.
        unsafe { link(node, 0) }.next.load(Acquire)
    }
    /// As `next`, for a walk: starts loading the node after that, which is anywhere in memory.
    #[inline]
    pub(crate) fn next_prefetching(&self, node: Node) -> Node {
        let next = self.next(node);
        if !next.is_null() {
            prefetch(self.next(next).cast_const().cast());
        }
        next
    }
    /// Estimates the nodes from `start` to before `end`: counts them on the highest level that has
    /// enough of them between.
    pub(crate) fn estimate_between<O: KeyOrder>(
        &self,
        order: O,
        start: &Target<'_>,
        end: &Target<'_>,
    ) -> u64 {
        const ENOUGH: u64 = 64;
        if order.compare(start.user_key, end.user_key) != Ordering::Less {
            return 0;
        }
        let mut from = [self.head; HEIGHT_MAX];
        let mut to = [self.head; HEIGHT_MAX];
        self.descend(order, start, HEIGHT_MAX, |level, prev| from[level] = prev);
        self.descend(order, end, HEIGHT_MAX, |level, prev| to[level] = prev);
        for level in (0..HEIGHT_MAX).rev() {
            let (mut at, mut count) = (from[level], 0);
            while at != to[level] {
                // SAFETY: reached on this level, and `to[level]` lies ahead.
                at = unsafe { link(at, level) }.next.load(Acquire);
                count += 1;
            }
            if count >= ENOUGH || level == 0 {
                return count << (len_u32(level) * BRANCHING_BITS);
            }
        }
        0
    }
    /// The last node; null if none.
    pub(crate) fn last(&self) -> Node {
        let mut at = self.head;
        for level in (0..self.height.load(Relaxed)).rev() {
            loop {
                // SAFETY: `at` was reached on this level, or is the head.
                let next = unsafe { link(at, level) }.next.load(Acquire);
                if next.is_null() {
                    break;
                }
                at = next;
            }
        }
        self.or_null(at)
    }
    /// `node`, null for the head.
    #[inline]
    pub(crate) fn or_null(&self, node: Node) -> Node {
        if node == self.head { ptr::null_mut() } else { node }
    }
}

/// What one link showed.
struct Step {
    next: Node,
    /// `next` is before the target.
    moved: bool,
    /// `next` is the target.
    found: bool,
}
