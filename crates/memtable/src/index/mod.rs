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
//! Keys of a user often begin alike: with the name of a table, or a number with zeros in front. The
//! prefixes of a group whose first eight bytes do not distinguish its keys are therefore those of
//! what follows the bytes that all of the group begin with (`Shared`). A target may not begin with
//! them; the node that is found is then compared with it, and a tree that leads astray costs a
//! search from the head.
//!
//! Costs: 4 to 9 bytes per entry.
//!
//! Thread safety: a published tree is immutable; one thread builds at a time.

mod growing;
mod tree;

use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering::Acquire, Ordering::Release};

use pumice_port::sync::Mutex;

use pumice_base::UserKey;

use self::growing::Growing;
use self::tree::Tree;
use crate::entry::Target;
use crate::node::Node;
use crate::order::KeyOrder;

/// Targets that are searched for together, at most.
pub(crate) const WARMED_MAX: usize = 16;
/// Level of the nodes in the tree: one node in 4.
pub(crate) const INDEX_LEVEL: usize = 1;
/// Entries before the first tree is built; fewer fit the caches.
const FIRST_BUILD_ENTRIES: u64 = 4096;
/// A tree being built, and all trees that were.
struct Builder {
    /// Entries at which to build next.
    build_at: u64,
    /// The next node to take; null: not building.
    at: Node,
    growing: Growing,
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
            growing: Growing::default(),
            built: Vec::new(),
        };
        Index { newest: AtomicPtr::new(ptr::null_mut()), builder: Mutex::new(builder) }
    }

    /// There is a tree.
    #[inline]
    pub(crate) fn is_built(&self) -> bool {
        !self.newest.load(Acquire).is_null()
    }

    /// A node before `target`, of at least level `INDEX_LEVEL`.
    #[inline]
    pub(crate) fn search<O: KeyOrder>(&self, order: O, target: &Target<'_>) -> Option<Node> {
        let tree = self.newest.load(Acquire);
        if tree.is_null() {
            return None;
        }
        // SAFETY: `built` keeps every published tree as long as self.
        unsafe { &*tree }.search(order, target)
    }

    /// As [`Index::search`] for each of at most [`WARMED_MAX`] targets.
    pub(crate) fn search_together<O: KeyOrder>(
        &self,
        order: O,
        targets: &[Target<'_>],
        found: &mut [Option<Node>],
    ) {
        let tree = self.newest.load(Acquire);
        if !tree.is_null() {
            // SAFETY: as in `search`.
            unsafe { &*tree }.search_together(order, targets, found);
        }
    }

    /// Continues building by up to `steps` nodes if a tree is due at `entries`. `first` is the
    /// first node of `INDEX_LEVEL`, `key_of` a node's user key and `next` its successor on that
    /// level. Returns the bytes of a tree finished.
    pub(crate) fn advance<'a, O: KeyOrder>(
        &self,
        order: O,
        (entries, steps): (u64, usize),
        first: impl FnOnce() -> Node,
        key_of: impl Fn(Node) -> UserKey<'a>,
        next: impl Fn(Node) -> Node,
    ) -> usize {
        // Another thread is building: that suffices.
        let Some(mut guard) = self.builder.try_lock() else { return 0 };
        let builder = &mut *guard;
        if builder.at.is_null() {
            if entries < builder.build_at {
                return 0;
            }
            builder.at = first();
            builder.growing = Growing::new(entries);
        }
        for _ in 0..steps {
            if builder.at.is_null() {
                break;
            }
            builder.growing.push(order, &key_of, builder.at);
            builder.at = next(builder.at);
        }
        if !builder.at.is_null() || builder.growing.tree.nodes.is_empty() {
            return 0;
        }
        let mut tree = Box::new(std::mem::take(&mut builder.growing).finish(order, &key_of));
        builder.build_at = entries * 2;
        let bytes = tree.bytes();
        self.newest.store(&raw mut *tree, Release);
        builder.built.push(tree);
        bytes
    }
}
