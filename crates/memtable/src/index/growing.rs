//! A tree of a memtable's index while nodes are added to it.
//!
//! Thread safety: plain data of whoever builds. Invariant: nodes are added in order. Each takes the
//! same small time, but for the groups that it completes.

use pumice_base::UserKey;
use pumice_base::narrow::{len_u32, to_usize};

use super::tree::{FANOUT, Group, Level, SHARED_MAX, Shared, Tree};
use crate::node::Node;
use crate::order::KeyOrder;

/// A tree that nodes are added to, in order.
#[derive(Default)]
pub(super) struct Growing {
    pub(super) tree: Tree,
    /// Of each level the nodes that are in no group yet.
    pending: Vec<Vec<Node>>,
    /// Groups that leave bytes out as they would be if they did not: depth, place, group.
    whole: Vec<(usize, usize, Group)>,
}

impl Growing {
    /// An empty one for a list of `entries`.
    pub(super) fn new(entries: u64) -> Self {
        let mut growing = Growing::default();
        // Nodes of the index's level and higher ones; some are inserted meanwhile.
        let nodes = to_usize(entries) / 4;
        growing.tree.nodes.reserve_exact(nodes + nodes / 16);
        growing
    }

    /// Adds a node after all others; `key_of` is the user key of a node.
    pub(super) fn push<'a, O: KeyOrder>(
        &mut self,
        order: O,
        key_of: &impl Fn(Node) -> UserKey<'a>,
        node: Node,
    ) {
        self.tree.nodes.push(node);
        self.push_at(0, order, key_of, node);
    }

    fn push_at<'a, O: KeyOrder>(
        &mut self,
        depth: usize,
        order: O,
        key_of: &impl Fn(Node) -> UserKey<'a>,
        node: Node,
    ) {
        let (mut depth, mut node) = (depth, node);
        loop {
            if depth == self.pending.len() {
                self.pending.push(Vec::with_capacity(FANOUT));
                self.tree.levels.push(Level::default());
            }
            self.pending[depth].push(node);
            if self.pending[depth].len() < FANOUT {
                return;
            }
            node = self.close(depth, order, key_of);
            depth += 1;
        }
    }

    /// Makes a group of the pending nodes of a level, of which there are some; returns the first.
    fn close<'a, O: KeyOrder>(
        &mut self,
        depth: usize,
        order: O,
        key_of: &impl Fn(Node) -> UserKey<'a>,
    ) -> Node {
        let nodes = &mut self.pending[depth];
        let mut whole = Group([u64::MAX; FANOUT]);
        let places = whole.0.iter_mut().zip(nodes.iter());
        places.for_each(|(to, node)| *to = order.prefix(key_of(*node)));
        let level = &mut self.tree.levels[depth];
        let (mut shared, mut group) = (Shared::default(), whole);
        if whole.0[..nodes.len()].windows(2).any(|pair| pair[0] == pair[1]) {
            let mut keys = [UserKey::new(&[]); FANOUT];
            keys.iter_mut().zip(nodes.iter()).for_each(|(key, node)| *key = key_of(*node));
            let keys = &keys[..nodes.len()];
            shared = Self::shared_by(order, keys);
            if shared.len > 0 {
                self.whole.push((depth, level.groups.len(), whole));
                let prefixes = keys.iter().map(|key| Shared::split(order, *key, shared.len).1);
                group.0.iter_mut().zip(prefixes).for_each(|(to, prefix)| *to = prefix);
            }
        }
        level.groups.push(group);
        level.shared.push(shared);
        let first = nodes[0];
        nodes.clear();
        first
    }

    /// What ascending keys begin with, if first eight bytes of two that differ are equal.
    fn shared_by<O: KeyOrder>(order: O, keys: &[UserKey<'_>]) -> Shared {
        let ties = |pair: &[UserKey<'_>]| {
            order.prefix(pair[0]) == order.prefix(pair[1]) && !order.same_user_key(pair[0], pair[1])
        };
        let (Some(first), Some(last)) = (keys.first(), keys.last()) else {
            return Shared::default();
        };
        if !keys.windows(2).any(ties) {
            return Shared::default();
        }
        let bytes = first.as_bytes().iter().zip(last.as_bytes());
        let len = len_u32(bytes.take(SHARED_MAX).take_while(|(a, b)| a == b).count());
        Shared::split(order, *first, len).0
    }

    /// The tree of all nodes, of which there are some.
    pub(super) fn finish<'a, O: KeyOrder>(
        mut self,
        order: O,
        key_of: &impl Fn(Node) -> UserKey<'a>,
    ) -> Tree {
        let mut depth = 0;
        while depth < self.pending.len() {
            if !self.pending[depth].is_empty() {
                let first = self.close(depth, order, key_of);
                if depth + 1 < self.pending.len() {
                    self.push_at(depth + 1, order, key_of, first);
                }
            }
            depth += 1;
        }
        self.settle();
        self.tree
    }

    /// Groups leave bytes out only if that helps many: the searches of such a tree cost more.
    fn settle(&mut self) {
        const MANY: usize = 16;
        let groups: usize = self.tree.levels.iter().map(|level| level.groups.len()).sum();
        self.tree.has_shared = self.whole.len() * MANY > groups;
        if self.tree.has_shared {
            return;
        }
        for (depth, at, group) in self.whole.drain(..) {
            self.tree.levels[depth].groups[at] = group;
        }
        self.tree.levels.iter_mut().for_each(|level| level.shared = Vec::new());
    }
}
