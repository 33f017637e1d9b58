//! A static search tree over the taller nodes of a skip list, to start searches near their end.
//!
//! A skip list that does not fit the CPU caches pays a miss for nearly every step. Nodes are never
//! removed, so any node before the target is a good place to start: a tree of key prefixes, 16 to a
//! group and packed, leads to one in two or three misses. Every node of level [`INDEX_LEVEL`] or
//! higher is in it; entries inserted since it was built are found by walking from there.
//!
//! The tree is built again each time the list has doubled, a few nodes at a time during inserts, so
//! that no insert waits for it. Old trees stay until the list is dropped, because readers may be in
//! them; together they are smaller than the newest.
//!
//! Costs: 6 to 8 bytes per entry. It helps only where the first eight bytes distinguish keys.
//!
//! Thread safety: a published tree is immutable; one thread builds at a time.

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering::Acquire, Ordering::Release};

use pumice_port::sync::Mutex;

use crate::entry::{Target, prefetch, prefetch_line};
use crate::node::Node;

/// Targets that are searched for together, at most.
pub(crate) const WARMED_MAX: usize = 16;
/// Level of the nodes in the tree: one node in 4.
pub(crate) const INDEX_LEVEL: usize = 1;
/// Entries before the first tree is built; fewer fit the caches.
const FIRST_BUILD_ENTRIES: u64 = 4096;
/// Keys in a group: two cache lines.
const FANOUT: usize = 16;
/// Levels of a tree of 2^32 groups, and more.
const DEPTH_MAX: usize = 10;

/// Prefixes that are compared together. Padding is `u64::MAX`, which is not below any target.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
struct Group([u64; FANOUT]);

impl Group {
    /// How many are below `prefix`; they are in order. Every fourth one is compared first, then
    /// those of one quarter: seven comparisons without a branch, and both lines are loaded at once.
    #[inline(always)]
    fn below(&self, prefix: u64) -> usize {
        const { assert!(FANOUT == 16) };
        let is_below = |at: usize| usize::from(self.0[at] < prefix);
        let at = 4 * (is_below(3) + is_below(7) + is_below(11));
        at + is_below(at) + is_below(at + 1) + is_below(at + 2) + is_below(at + 3)
    }
}

/// A built tree. `starts[d]` is the first group of depth d; depth 0 has the nodes' prefixes, and
/// every other depth the first key of each group below.
struct Tree {
    groups: Box<[Group]>,
    starts: [usize; DEPTH_MAX],
    depth: usize,
    nodes: Box<[Node]>,
}

impl Tree {
    /// A tree over nodes in order and their prefixes.
    fn build(prefixes: &[u64], nodes: Vec<Node>) -> Self {
        let mut groups: Vec<Group> = Vec::with_capacity(prefixes.len() / 15 + DEPTH_MAX);
        let mut starts = [0; DEPTH_MAX];
        let mut depth = 0;
        let mut keys = prefixes.to_vec();
        loop {
            starts[depth] = groups.len();
            depth += 1;
            for chunk in keys.chunks(FANOUT) {
                let mut group = Group([u64::MAX; FANOUT]);
                group.0[..chunk.len()].copy_from_slice(chunk);
                groups.push(group);
            }
            if keys.len() <= FANOUT {
                break;
            }
            keys = keys.iter().step_by(FANOUT).copied().collect();
        }
        Tree { groups: groups.into(), starts, depth, nodes: nodes.into() }
    }

    /// The last node whose prefix is below `prefix`.
    #[inline]
    fn search(&self, prefix: u64) -> Option<Node> {
        let mut at = 0;
        for depth in (0..self.depth).rev() {
            let group = &self.groups[self.starts[depth] + at];
            if depth == 0 {
                // The pointer is on a different line from the key: load both at once.
                prefetch(self.nodes.as_ptr().wrapping_add(at * FANOUT).cast());
            }
            // Only at the left edge: below an inner key there is always its own group's first.
            at = at * FANOUT + group.below(prefix).checked_sub(1)?;
        }
        let node = self.nodes[at];
        // The node's links and its key, on either side.
        prefetch(node.cast_const().cast::<u8>().wrapping_sub(64));
        Some(node)
    }

    /// As `search` for each of `targets`, level by level, so that their cache misses overlap.
    fn search_together(&self, targets: &[Target<'_>], found: &mut [Option<Node>]) {
        const LEFT_OF_ALL: usize = usize::MAX;
        let mut places = [0; WARMED_MAX];
        let places = &mut places[..targets.len()];
        for depth in (0..self.depth).rev() {
            for (at, target) in places.iter_mut().zip(targets) {
                if *at == LEFT_OF_ALL {
                    continue;
                }
                let below = self.groups[self.starts[depth] + *at].below(target.prefix);
                *at = below.checked_sub(1).map_or(LEFT_OF_ALL, |below| *at * FANOUT + below);
                if *at == LEFT_OF_ALL {
                    continue;
                }
                match depth.checked_sub(1) {
                    Some(next) => {
                        prefetch(self.groups.as_ptr().wrapping_add(self.starts[next] + *at).cast())
                    }
                    None => prefetch_line(self.nodes.as_ptr().wrapping_add(*at).cast()),
                }
            }
        }
        for (at, found) in places.iter().zip(found) {
            *found = self.nodes.get(*at).copied();
            if let Some(node) = *found {
                prefetch(node.cast_const().cast::<u8>().wrapping_sub(64));
            }
        }
    }

    fn bytes(&self) -> usize {
        self.groups.len() * size_of::<Group>() + self.nodes.len() * size_of::<Node>()
    }
}

/// A tree being built, and all trees that were.
struct Builder {
    /// Entries at which to build next.
    build_at: u64,
    /// The next node to take; null: not building.
    at: Node,
    prefixes: Vec<u64>,
    nodes: Vec<Node>,
    /// The newest is published. Boxed: readers hold their addresses.
    #[allow(clippy::vec_box)]
    built: Vec<Box<Tree>>,
}

/// See the head.
pub(crate) struct Index {
    /// The newest tree, owned by `builder.built`; null: none yet.
    newest: AtomicPtr<Tree>,
    builder: Mutex<Builder>,
}

// SAFETY: node pointers are valid on every thread while the list lives (`skiplist` invariant 1),
// and the index is part of the list.
unsafe impl Send for Index {}
// SAFETY: as above; trees are immutable.
unsafe impl Sync for Index {}

impl Index {
    /// No tree.
    pub(crate) fn new() -> Self {
        let builder = Builder {
            build_at: FIRST_BUILD_ENTRIES,
            at: ptr::null_mut(),
            prefixes: Vec::new(),
            nodes: Vec::new(),
            built: Vec::new(),
        };
        Index { newest: AtomicPtr::new(ptr::null_mut()), builder: Mutex::new(builder) }
    }

    /// There is a tree.
    #[inline]
    pub(crate) fn is_built(&self) -> bool {
        !self.newest.load(Acquire).is_null()
    }

    /// A node before every key with `prefix`, of at least level `INDEX_LEVEL`.
    #[inline]
    pub(crate) fn search(&self, prefix: u64) -> Option<Node> {
        let tree = self.newest.load(Acquire);
        if tree.is_null() {
            return None;
        }
        // SAFETY: `built` keeps every published tree as long as self.
        unsafe { &*tree }.search(prefix)
    }

    /// As [`Index::search`] for each of at most [`WARMED_MAX`] targets.
    pub(crate) fn search_together(&self, targets: &[Target<'_>], found: &mut [Option<Node>]) {
        let tree = self.newest.load(Acquire);
        if !tree.is_null() {
            // SAFETY: as in `search`.
            unsafe { &*tree }.search_together(targets, found);
        }
    }

    /// Continues building by up to `steps` nodes if a tree is due at `entries`. `first` is the
    /// first node of `INDEX_LEVEL`; `prefix_and_next` returns a node's exact prefix and its
    /// successor on that level. Returns the bytes of a tree finished.
    pub(crate) fn advance(
        &self,
        entries: u64,
        steps: usize,
        first: impl FnOnce() -> Node,
        prefix_and_next: impl Fn(Node) -> (u64, Node),
    ) -> usize {
        // Another thread is building: that suffices.
        let Some(mut guard) = self.builder.try_lock() else { return 0 };
        let builder = &mut *guard;
        if builder.at.is_null() {
            if entries < builder.build_at {
                return 0;
            }
            builder.at = first();
        }
        for _ in 0..steps {
            if builder.at.is_null() {
                break;
            }
            let (prefix, next) = prefix_and_next(builder.at);
            builder.prefixes.push(prefix);
            builder.nodes.push(builder.at);
            builder.at = next;
        }
        if !builder.at.is_null() || builder.nodes.is_empty() {
            return 0;
        }
        let nodes = std::mem::take(&mut builder.nodes);
        let mut tree = Box::new(Tree::build(&builder.prefixes, nodes));
        builder.prefixes = Vec::new();
        builder.build_at = entries * 2;
        let bytes = tree.bytes();
        self.newest.store(&raw mut *tree, Release);
        builder.built.push(tree);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::Forward;
    use pumice_base::UserKey;

    /// Equal keys and padding, and targets that are below, at and above each.
    #[pumice_test_macros::test]
    fn a_group_counts_what_is_below() {
        for len in 0..=FANOUT {
            for equal in 1..=3 {
                let mut group = Group([u64::MAX; FANOUT]);
                (0..len).for_each(|at| group.0[at] = (at / equal * 2) as u64);
                for prefix in (0..2 * FANOUT as u64 + 2).chain([u64::MAX]) {
                    let expected = group.0.iter().filter(|key| **key < prefix).count();
                    assert_eq!(group.below(prefix), expected, "{:?}, {prefix}", group.0);
                }
            }
        }
    }

    /// Trees of one to three levels, targets left of all, between, at and right of the nodes.
    #[pumice_test_macros::test]
    fn searches_together_find_what_each_finds() {
        for count in [1, 2, 15, 16, 17, 255, 256, 257, 5_000_u64] {
            let prefixes: Vec<u64> = (0..count).map(|n| 100 + n / 2 * 10).collect();
            let node = |n: u64| ptr::without_provenance_mut((n as usize + 1) * 64);
            let tree = Tree::build(&prefixes, (0..count).map(node).collect());
            let mut names: Vec<[u8; 8]> = (0..count * 5 + 120).map(u64::to_be_bytes).collect();
            names.push(u64::MAX.to_be_bytes());
            for chunk in names.chunks(WARMED_MAX - 1) {
                let targets: Vec<_> =
                    chunk.iter().map(|name| Target::new(Forward, UserKey::new(name), 0)).collect();
                let mut found = vec![None; targets.len()];
                tree.search_together(&targets, &mut found);
                let alone: Vec<_> = targets.iter().map(|t| tree.search(t.prefix)).collect();
                assert_eq!(found, alone, "{count}: {chunk:?}");
            }
        }
    }
}
