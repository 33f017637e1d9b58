//! Walks to a target, which load ahead.
//!
//! Where many keys share a prefix, a walk compares whole keys, each a cache miss. So on arriving at
//! a node it starts loading the nodes that its links lead to on all lower levels; otherwise they
//! would be missed one after the other. Several walks ([`SkipList::warm`]) take turns, and their
//! misses overlap.
//!
//! Thread safety: as the list; a walk belongs to its caller. Unsafe blocks cite the invariants of
//! the module above.

use std::ptr;
use std::sync::atomic::Ordering::Relaxed;

use super::{Position, STEPS_MAX, SkipList};
use crate::entry::{EntryRef, Target, prefetch, prefetch_line};
use crate::index::{INDEX_LEVEL, WARMED_MAX};
use crate::node::{Link, Node, link};
use crate::order::KeyOrder;

/// A walk to a target: at a node before it, on a level of that node.
struct Walk {
    prev: Node,
    level: usize,
    /// The nearest node known to be at or after the target, or null.
    bound: Node,
    /// `bound` is the target.
    found: bool,
    /// Steps forward.
    steps: usize,
}

impl Walk {
    #[inline(always)]
    fn new(prev: Node, level: usize) -> Self {
        Walk { prev, level, bound: ptr::null_mut(), found: false, steps: 0 }
    }
}

/// Where a step of a walk led.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pace {
    Forward,
    Down,
    There,
}

/// Starts loading the nodes that the links of `node` lead to, from `level` down, where the prefix
/// does not rule them out: a walk that arrives at `node` looks at several of them, one after the
/// other. Links of higher levels lead too far.
#[inline(always)]
fn load_ahead(target: &Target<'_>, node: Node, level: usize) {
    if level > INDEX_LEVEL {
        return;
    }
    for level in 0..=level {
        // SAFETY: the walk has reached `node` on this level or a higher one (invariant 5).
        let link = unsafe { link(node, level) };
        if link.prefix.load(Relaxed) <= target.prefix {
            prefetch_node(link.next.load(Relaxed));
        }
    }
}

/// Starts loading the lowest links of a node and its key.
#[inline(always)]
fn prefetch_node(node: Node) {
    const LINKS: usize = (INDEX_LEVEL + 1) * size_of::<Link>();
    const KEY: usize = 40;
    let at = node.cast_const().cast::<u8>();
    prefetch(at.wrapping_sub(LINKS));
    prefetch_line(at.wrapping_add(KEY));
}

impl SkipList {
    /// Shows `f` the entries from `node` on until it returns false.
    #[inline]
    pub(crate) fn visit(&self, mut node: Node, mut f: impl FnMut(EntryRef<'_>) -> bool) {
        while !node.is_null() {
            let (entry, next) = (self.entry(node), self.next(node));
            // The versions below an operand are wanted too, and lie anywhere: the next is loaded
            // while `f` has this one.
            if entry.is_operand() {
                prefetch_node(next);
            }
            if !f(entry) {
                return;
            }
            node = next;
        }
    }

    /// Walks to `target` from a node before it and down from a level of that node. `None` after
    /// `steps_max` steps forward.
    #[inline(always)]
    pub(super) fn walk<O: KeyOrder>(
        &self,
        order: O,
        target: &Target<'_>,
        (start, level): (Node, usize),
        steps_max: usize,
        at_level: &mut impl FnMut(usize, Node),
    ) -> Option<Position> {
        let mut walk = Walk::new(start, level);
        load_ahead(target, start, level);
        loop {
            let level = walk.level;
            match self.advance(order, target, &mut walk) {
                Pace::Forward if walk.steps > steps_max => return None,
                Pace::Forward => load_ahead(target, walk.prev, level),
                Pace::Down => at_level(level, walk.prev),
                Pace::There => {
                    at_level(level, walk.prev);
                    let Walk { prev, bound: next, found, .. } = walk;
                    return Some(Position { prev, next, found, near: false });
                }
            }
        }
    }

    /// Moves by one step.
    #[inline(always)]
    fn advance<O: KeyOrder>(&self, order: O, target: &Target<'_>, walk: &mut Walk) -> Pace {
        let step = self.step(order, target, walk.prev, walk.level, walk.bound);
        if step.moved {
            walk.prev = step.next;
            walk.steps += 1;
            return Pace::Forward;
        }
        if step.next != walk.bound {
            walk.bound = step.next;
            walk.found = step.found;
        }
        if walk.level == 0 {
            return Pace::There;
        }
        walk.level -= 1;
        Pace::Down
    }

    /// Starts loading the data that [`SkipList::find`] reads for these targets, at most
    /// [`WARMED_MAX`]. The walks take turns, so their cache misses overlap. Does nothing to a list
    /// small enough to have no index.
    pub(crate) fn warm<O: KeyOrder>(&self, order: O, targets: &[Target<'_>]) {
        let mut walks = [const { None }; WARMED_MAX];
        let mut starts = [None; WARMED_MAX];
        self.index.search_together(order, targets, &mut starts[..targets.len()]);
        for (walk, start) in walks.iter_mut().zip(starts) {
            *walk = start.map(|start| Walk::new(start, INDEX_LEVEL));
        }
        for (walk, target) in walks.iter().zip(targets) {
            if let Some(walk) = walk {
                load_ahead(target, walk.prev, walk.level);
            }
        }
        let mut are_walking = true;
        while are_walking {
            are_walking = false;
            for (place, target) in walks.iter_mut().zip(targets) {
                let Some(walk) = place else { continue };
                let mut pace = Pace::Down;
                while pace == Pace::Down {
                    pace = self.advance(order, target, walk);
                }
                if pace == Pace::Forward && walk.steps <= STEPS_MAX {
                    load_ahead(target, walk.prev, walk.level);
                    are_walking = true;
                    continue;
                }
                if !walk.bound.is_null() {
                    // After the key, which was read.
                    prefetch(walk.bound.cast_const().cast::<u8>().wrapping_add(64));
                }
                *place = None;
            }
        }
    }
}
