//! A built tree of a memtable's index and the searches in it.
//!
//! Thread safety: immutable. Invariants: nodes ascend and belong to a list that outlives the tree;
//! a node that a search returns is before its target. It does not know how the tree was built.

use pumice_base::UserKey;
use pumice_base::narrow::{len_u32, to_usize};

use super::WARMED_MAX;
use crate::entry::{EntryRef, Target, prefetch, prefetch_line};
use crate::node::Node;
use crate::order::KeyOrder;

/// Keys in a group: two cache lines.
pub(super) const FANOUT: usize = 16;
/// The place of a search whose target has no node before it.
const LEFT_OF_ALL: usize = usize::MAX;
/// Bytes that a group leaves out, at most: each search takes their fingerprint.
pub(super) const SHARED_MAX: usize = 256;

/// Prefixes that are compared together. Padding is `u64::MAX`, which is not below any target.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
pub(super) struct Group(pub(super) [u64; FANOUT]);

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

/// What the keys of a group begin with, if their first eight bytes do not distinguish them.
#[derive(Clone, Copy, Default)]
pub(super) struct Shared {
    /// Bytes that the prefixes leave out. 0: none.
    pub(super) len: u32,
    /// Of these bytes. Two that are equal by chance lead a search astray.
    fingerprint: u64,
}

impl Shared {
    /// What a key begins with, and the prefix of what follows.
    #[inline]
    pub(super) fn split<O: KeyOrder>(order: O, user_key: UserKey<'_>, len: u32) -> (Shared, u64) {
        let key = user_key.as_bytes();
        let (start, rest) = key.split_at(key.len().min(to_usize(u64::from(len))));
        (Shared { len, fingerprint: fingerprint(start) }, order.prefix(UserKey::new(rest)))
    }
}

/// A number for `bytes`, which are short: cheap, and good enough to tell names apart.
#[inline]
fn fingerprint(bytes: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let words = words.iter().chain([&last]).map(|word| u64::from_le_bytes(*word));
    words.fold(0, |sum, word| {
        let sum = (sum ^ word).wrapping_mul(FACTOR);
        sum ^ sum >> 32
    })
}

/// How many of `count` ascending things are `below`, by halves.
#[inline]
fn partition(count: usize, below: impl Fn(usize) -> bool) -> usize {
    let (mut from, mut to) = (0, count);
    while from < to {
        let middle = from + (to - from) / 2;
        if below(middle) { from = middle + 1 } else { to = middle }
    }
    from
}

/// A search on its way down.
#[derive(Clone, Copy, Default)]
struct Descent {
    /// The group of the next depth; in the end the node.
    at: usize,
    /// What the target begins with, as the last group asked for it, and what follows.
    own: Shared,
    prefix: u64,
}

impl Descent {
    #[inline]
    fn new<O: KeyOrder>(order: O, target: &Target<'_>) -> Self {
        let (own, prefix) = Shared::split(order, target.user_key, 0);
        Descent { at: 0, own, prefix }
    }
}

/// A depth of a tree: depth 0 has the nodes' prefixes, every other one the first key of each group
/// below.
#[derive(Default)]
pub(super) struct Level {
    pub(super) groups: Vec<Group>,
    pub(super) shared: Vec<Shared>,
}

/// A built tree.
#[derive(Default)]
pub(super) struct Tree {
    pub(super) levels: Vec<Level>,
    pub(super) nodes: Vec<Node>,
    /// Some group leaves bytes out.
    pub(super) has_shared: bool,
}

impl Tree {
    /// The last node whose prefix is below the target's; one before the target, if there is one
    /// near, where groups leave bytes out.
    #[inline]
    pub(super) fn search<O: KeyOrder>(&self, order: O, target: &Target<'_>) -> Option<Node> {
        if self.has_shared {
            return self.search_shared(order, target);
        }
        let mut at = 0;
        for (depth, level) in self.levels.iter().enumerate().rev() {
            let group = &level.groups[at];
            if depth == 0 {
                // The pointer is on a different line from the key: load both at once.
                prefetch(self.nodes.as_ptr().wrapping_add(at * FANOUT).cast());
            }
            // Only at the left edge: below an inner key there is always its own group's first.
            at = at * FANOUT + group.below(target.prefix).checked_sub(1)?;
        }
        let node = self.nodes[at];
        // The node's links and its key, on either side.
        prefetch(node.cast_const().cast::<u8>().wrapping_sub(64));
        Some(node)
    }

    #[inline(never)]
    fn search_shared<O: KeyOrder>(&self, order: O, target: &Target<'_>) -> Option<Node> {
        let mut descent = Descent::new(order, target);
        for depth in (0..self.levels.len()).rev() {
            self.descend(order, target, depth, &mut descent);
        }
        self.end(order, target, &descent)
    }

    /// Goes down through a group of a level in which some groups leave bytes out.
    #[inline]
    fn descend<O: KeyOrder>(
        &self,
        order: O,
        target: &Target<'_>,
        depth: usize,
        descent: &mut Descent,
    ) {
        if descent.at == LEFT_OF_ALL {
            return;
        }
        let (at, stride) = (descent.at, FANOUT.pow(len_u32(depth)));
        let count = self.nodes.len().div_ceil(stride).saturating_sub(at * FANOUT).min(FANOUT);
        let level = &self.levels[depth];
        let (group, shared) = (&level.groups[at], level.shared[at]);
        if descent.own.len != shared.len {
            (descent.own, descent.prefix) = Shared::split(order, target.user_key, shared.len);
        }
        // SAFETY: a node of the list, which lives as long as its index.
        let entry = |place: usize| unsafe { EntryRef::new(self.nodes[place * stride]) };
        let is_above =
            |below: usize| target.compare_entry(order, entry(at * FANOUT + below)).is_lt();
        let shares = shared.len == 0
            || target.user_key.len() >= to_usize(u64::from(shared.len))
                && descent.own.fingerprint == shared.fingerprint;
        let below = if shares {
            let below = group.below(descent.prefix);
            let ties = group.0[below.min(count)..count].iter();
            let ties = ties.take_while(|other| **other == descent.prefix).count();
            // One tie of the lowest depth is left to the walk.
            if ties > usize::from(depth == 0) {
                below + partition(ties, |tie| is_above(below + tie))
            } else {
                below
            }
        } else if is_above(0) {
            count
        } else {
            0
        };
        if below == 0 && depth > 0 {
            // Left of all: below an inner key there is always its own group's first.
            descent.at = LEFT_OF_ALL;
            return;
        }
        descent.at = at * FANOUT + below.saturating_sub(1);
        match depth.checked_sub(1) {
            Some(next) => {
                let next = &self.levels[next];
                prefetch(next.groups.as_ptr().wrapping_add(descent.at).cast());
                prefetch_line(next.shared.as_ptr().wrapping_add(descent.at).cast());
            }
            None => prefetch_line(self.nodes.as_ptr().wrapping_add(descent.at).cast()),
        }
    }

    /// The node of a descent, if it is before the target.
    #[inline]
    fn end<O: KeyOrder>(&self, order: O, target: &Target<'_>, descent: &Descent) -> Option<Node> {
        let node = *self.nodes.get(descent.at)?;
        prefetch(node.cast_const().cast::<u8>().wrapping_sub(64));
        // SAFETY: as in `descend`.
        let entry = unsafe { EntryRef::new(node) };
        target.compare_entry(order, entry).is_lt().then_some(node)
    }

    /// As `search_shared` for each of `targets`.
    #[inline(never)]
    fn search_shared_together<O: KeyOrder>(
        &self,
        order: O,
        targets: &[Target<'_>],
        found: &mut [Option<Node>],
    ) {
        let mut descents = [Descent::default(); WARMED_MAX];
        for (descent, target) in descents.iter_mut().zip(targets) {
            *descent = Descent::new(order, target);
        }
        for depth in (0..self.levels.len()).rev() {
            for (descent, target) in descents.iter_mut().zip(targets) {
                self.descend(order, target, depth, descent);
            }
        }
        for (descent, _) in descents.iter().zip(targets) {
            if let Some(node) = self.nodes.get(descent.at) {
                prefetch(node.cast_const().cast::<u8>().wrapping_sub(64));
            }
        }
        for ((descent, target), found) in descents.iter().zip(targets).zip(found) {
            *found = self.end(order, target, descent);
        }
    }

    /// As `search` for each of `targets`, level by level, so that their cache misses overlap.
    pub(super) fn search_together<O: KeyOrder>(
        &self,
        order: O,
        targets: &[Target<'_>],
        found: &mut [Option<Node>],
    ) {
        if self.has_shared {
            return self.search_shared_together(order, targets, found);
        }
        let mut places = [0; WARMED_MAX];
        let places = &mut places[..targets.len()];
        for (depth, level) in self.levels.iter().enumerate().rev() {
            for (at, target) in places.iter_mut().zip(targets) {
                if *at == LEFT_OF_ALL {
                    continue;
                }
                let below = level.groups[*at].below(target.prefix);
                *at = below.checked_sub(1).map_or(LEFT_OF_ALL, |below| *at * FANOUT + below);
                if *at == LEFT_OF_ALL {
                    continue;
                }
                match depth.checked_sub(1) {
                    Some(next) => {
                        prefetch(self.levels[next].groups.as_ptr().wrapping_add(*at).cast())
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

    pub(super) fn bytes(&self) -> usize {
        let groups: usize = self.levels.iter().map(|level| level.groups.capacity()).sum();
        let groups = groups * (size_of::<Group>() + size_of::<Shared>());
        groups + self.nodes.capacity() * size_of::<Node>()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::growing::Growing;
    use super::*;
    use crate::entry::{Entry, entry_bytes, write_entry};
    use crate::order::Forward;

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

    /// Nodes with these user keys, whose links nobody reads.
    fn nodes_of(keys: &[Vec<u8>]) -> (Vec<Vec<u64>>, Vec<Node>) {
        let mut memory: Vec<Vec<u64>> =
            keys.iter().map(|key| vec![0; entry_bytes(key, b"").div_ceil(8)]).collect();
        let nodes = memory.iter_mut().zip(keys).map(|(memory, key)| {
            let at: *mut u8 = memory.as_mut_ptr().cast();
            // SAFETY: aligned, and of that size.
            unsafe { write_entry(at, key, 7 << 8, b"") };
            at.cast::<Entry>()
        });
        let nodes = nodes.collect();
        (memory, nodes)
    }

    fn tree_of(nodes: &[Node]) -> Tree {
        let mut growing = Growing::default();
        // SAFETY: nodes of `nodes_of`.
        let key_of = |node: Node| unsafe { EntryRef::new(node) }.user_key();
        nodes.iter().for_each(|node| growing.push(Forward, &key_of, *node));
        growing.finish(Forward, &key_of)
    }

    /// Trees of one to three levels, targets left of all, between, at and right of the nodes.
    #[pumice_test_macros::test]
    fn searches_find_the_last_node_below() {
        for count in [1, 2, 15, 16, 17, 255, 256, 257, 5_000_u64] {
            let numbers: Vec<u64> = (0..count).map(|n| 100 + n / 2 * 10).collect();
            let keys: Vec<Vec<u8>> = numbers.iter().map(|n| n.to_be_bytes().to_vec()).collect();
            let (_memory, nodes) = nodes_of(&keys);
            let tree = tree_of(&nodes);
            assert!(!tree.has_shared, "{count}");
            let mut names: Vec<[u8; 8]> = (0..count * 5 + 120).map(u64::to_be_bytes).collect();
            names.push(u64::MAX.to_be_bytes());
            for chunk in names.chunks(WARMED_MAX - 1) {
                let targets: Vec<_> =
                    chunk.iter().map(|name| Target::new(Forward, UserKey::new(name), 0)).collect();
                let mut found = vec![None; targets.len()];
                tree.search_together(Forward, &targets, &mut found);
                for (target, found) in targets.iter().zip(found) {
                    let below = numbers.partition_point(|number| *number < target.prefix);
                    let expected = below.checked_sub(1).map(|at| nodes[at]);
                    assert_eq!(found, expected, "{count}: {:?}", target.user_key);
                    assert_eq!(tree.search(Forward, target), expected, "{count}");
                }
            }
        }
    }

    /// Keys of several tables with long names and few rows each: a node before each target that is
    /// a key, and near it; of other targets never one that is not before.
    #[pumice_test_macros::test]
    fn searches_leave_out_what_groups_begin_with() {
        for (tables, rows) in [(1, 3_000), (7, 500), (60, 50), (900, 3)] {
            let key = |table: usize, row: usize| {
                format!("the table with the number {table:04}/rows/{:08}", row * 10).into_bytes()
            };
            let keys: Vec<Vec<u8>> =
                (0..tables).flat_map(|table| (0..rows).map(move |row| key(table, row))).collect();
            let (_memory, nodes) = nodes_of(&keys);
            let tree = tree_of(&nodes);
            assert!(tree.has_shared);
            let place = |node: Node| nodes.iter().position(|other| *other == node).unwrap();
            for (at, key) in keys.iter().enumerate().step_by(7) {
                // Newer than the node, so that it lies before it.
                let target = Target::new(Forward, UserKey::new(key), u64::MAX);
                let found = tree.search(Forward, &target).map(place);
                let mut together = [None; 2];
                tree.search_together(Forward, &[target, target], &mut together);
                assert_eq!(together.map(|node| node.map(place)), [found; 2]);
                let behind = at - found.unwrap_or(0);
                assert!(found.is_none_or(|found| found < at) && behind <= FANOUT, "{at} {found:?}");
                assert!(found.is_some() || at == 0, "{at}");
            }
            // One that a group begins with, whole; and many versions of one key.
            for (at, key) in keys.iter().enumerate().step_by(97) {
                let target = Target::new(Forward, UserKey::new(&key[..key.len() - 8]), u64::MAX);
                let found = tree.search(Forward, &target).map(place);
                assert!(found.is_none_or(|found| found < at), "{at} {found:?}");
            }
            for name in ["", "a", "the table", "the table with the number 0003/rowt", "u"] {
                for tail in ["", "00000000", "99999999", "\u{7f}"] {
                    let name = [name, tail].concat().into_bytes();
                    let target = Target::new(Forward, UserKey::new(&name), 0);
                    let found = tree.search(Forward, &target).map(place);
                    assert!(found.is_none_or(|found| keys[found] < name), "{name:?}");
                }
            }
        }
    }
}
