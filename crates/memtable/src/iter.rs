//! The iterator over the point entries of a memtable.
//!
//! Thread safety: `Send`; it owns a reference to its memtable, so it may outlive everything else. A
//! skip-list iterator sees entries inserted after it was made; a vector iterator is a snapshot of
//! the moment it was made. Scoped to prefixes, a seek for a prefix that the memtable's filter
//! denies makes the iterator invalid. Invariant: `at` belongs to `table`'s representation.

use std::cmp::Ordering;
use std::sync::Arc;

use pumice_base::Result;
use pumice_base::extractor::Extractor;
use pumice_base::iterator::InternalIterator;
use pumice_base::key::InternalKey;

use crate::entry::{EntryRef, Target};
use crate::memtable::{MemTable, Rep};
use crate::node::Node;
use crate::order::with_order;
use crate::skiplist::SkipList;
use crate::vector::{Sorted, VectorRep};

enum Cursor {
    /// Null: not valid.
    Node(Node),
    /// `items.len()`: not valid.
    Item { items: Sorted, index: usize },
}

/// See the head of the module.
pub struct MemTableIter {
    table: Arc<MemTable>,
    at: Cursor,
    /// Seeks query the filter, which exists and has the prefixes of the scope.
    scoped: bool,
}

// SAFETY: nodes are immutable, shared, and kept by `table`, which is Send and Sync.
unsafe impl Send for MemTableIter {}

/// Where to move.
#[derive(Clone, Copy)]
pub enum Move<'a> {
    /// To the first entry.
    First,
    /// To the last entry.
    Last,
    /// One forward.
    Next,
    /// One back.
    Prev,
    /// To the first entry at or after this key.
    Seek(InternalKey<'a>),
    /// To the last entry at or before this key.
    SeekForPrev(InternalKey<'a>),
}

impl MemTable {
    /// An iterator over the point entries.
    pub fn iter(self: &Arc<Self>) -> MemTableIter {
        MemTableIter::new(Arc::clone(self))
    }

    /// Sorts a vector, which its first reader would do otherwise. Nothing for a skip list.
    pub fn sort(&self) {
        if let Rep::Vector(vector) = &self.rep {
            with_order!(self.comparator(), order => drop(vector.sorted(order)));
        }
    }
}

impl MemTableIter {
    /// An iterator that is not valid until it is moved.
    pub(crate) fn new(table: Arc<MemTable>) -> Self {
        let at = match &table.rep {
            Rep::SkipList(_) => Cursor::Node(std::ptr::null_mut()),
            Rep::Vector(vector) => {
                let items = with_order!(table.comparator(), order => vector.sorted(order));
                let index = items.len();
                Cursor::Item { items, index }
            }
        };
        MemTableIter { table, at, scoped: false }
    }

    /// From now on, a seek may skip keys that do not have the prefix of its target under `scope`;
    /// with None it finds everything.
    pub fn scope_to_prefix(&mut self, scope: Option<&Extractor>) {
        let bloom = self.table.bloom.as_ref();
        // The memtable may be from a time when the column family had another extractor.
        self.scoped = scope.is_some_and(|scope| bloom.is_some_and(|b| b.has_prefixes_of(scope)));
    }

    /// Whether a seek for internal key `target` may find something.
    #[inline]
    fn may_find(&self, target: InternalKey<'_>) -> bool {
        !self.scoped
            || self
                .table
                .bloom
                .as_ref()
                .is_none_or(|b| b.may_hold_prefix(target.user_key().as_bytes()))
    }

    /// Moves, with the checks of the memtable on the way.
    ///
    /// # Errors
    /// Corruption; the iterator is then where it was.
    pub fn go_checked(&mut self, to: Move<'_>) -> Result<()> {
        match to {
            Move::Seek(key) | Move::SeekForPrev(key) if !self.may_find(key) => self.leave(),
            _ => match (&mut self.at, self.table.watched_list()) {
                (Cursor::Node(node), Some(list)) => {
                    *node = self.table.moved_watched(list, *node, to)?;
                }
                _ => self.go(to),
            },
        }
        Ok(())
    }

    fn leave(&mut self) {
        match &mut self.at {
            Cursor::Node(node) => *node = std::ptr::null_mut(),
            Cursor::Item { items, index } => *index = items.len(),
        }
    }

    #[inline]
    fn entry(&self) -> EntryRef<'_> {
        match (&self.at, &self.table.rep) {
            (Cursor::Node(node), Rep::SkipList(list)) => list.entry(*node),
            (Cursor::Item { items, index }, Rep::Vector(vector)) => vector.entry(items[*index]),
            _ => unreachable!("the cursor belongs to the representation"),
        }
    }

    #[inline]
    fn go(&mut self, to: Move<'_>) {
        let comparator = self.table.comparator();
        match (&mut self.at, &self.table.rep) {
            (Cursor::Node(node), Rep::SkipList(list)) => {
                *node = with_order!(comparator, order => move_node(order, list, *node, to));
            }
            (Cursor::Item { items, index }, Rep::Vector(vector)) => {
                *index = with_order!(
                    comparator,
                    order => move_index(order, vector, items, *index, to)
                );
            }
            _ => unreachable!("the cursor belongs to the representation"),
        }
    }
}

fn move_node<O: crate::order::KeyOrder>(
    order: O,
    list: &SkipList,
    node: Node,
    to: Move<'_>,
) -> Node {
    match to {
        Move::First => list.first(),
        Move::Last => list.last(),
        Move::Next => list.next_prefetching(node),
        Move::Prev => {
            let target = Target::from_ikey(order, list.entry(node).key());
            list.or_null(list.find(order, &target).prev)
        }
        Move::Seek(ikey) => list.find(order, &Target::from_ikey(order, ikey)).next,
        Move::SeekForPrev(ikey) => {
            let position = list.find(order, &Target::from_ikey(order, ikey));
            if position.found { position.next } else { list.or_null(position.prev) }
        }
    }
}

fn move_index<O: crate::order::KeyOrder>(
    order: O,
    vector: &VectorRep,
    items: &Sorted,
    index: usize,
    to: Move<'_>,
) -> usize {
    let end = items.len();
    let before = |index: usize| index.checked_sub(1).unwrap_or(end);
    match to {
        Move::First => 0,
        Move::Last => before(end),
        Move::Next => index + 1,
        Move::Prev => before(index),
        Move::Seek(ikey) => vector.lower_bound(order, items, &Target::from_ikey(order, ikey)),
        Move::SeekForPrev(ikey) => {
            let target = Target::from_ikey(order, ikey);
            let at = vector.lower_bound(order, items, &target);
            let found = items.get(at).is_some_and(|item| {
                target.compare_entry(order, vector.entry(*item)) == Ordering::Equal
            });
            if found { at } else { before(at) }
        }
    }
}

impl InternalIterator for MemTableIter {
    #[inline]
    fn valid(&self) -> bool {
        match &self.at {
            Cursor::Node(node) => !node.is_null(),
            Cursor::Item { items, index } => *index < items.len(),
        }
    }
    fn seek_to_first(&mut self) {
        self.go(Move::First);
    }
    fn seek_to_last(&mut self) {
        self.go(Move::Last);
    }
    fn seek(&mut self, target: InternalKey<'_>) {
        if self.may_find(target) { self.go(Move::Seek(target)) } else { self.leave() }
    }
    fn seek_for_prev(&mut self, target: InternalKey<'_>) {
        if self.may_find(target) { self.go(Move::SeekForPrev(target)) } else { self.leave() }
    }
    #[inline]
    fn next(&mut self) {
        debug_assert!(self.valid());
        match (&mut self.at, &self.table.rep) {
            (Cursor::Node(node), Rep::SkipList(list)) => *node = list.next_prefetching(*node),
            (Cursor::Item { items, index }, Rep::Vector(vector)) => {
                *index += 1;
                if let Some(ahead) = items.get(*index + 4) {
                    vector.prefetch(*ahead);
                }
            }
            _ => unreachable!("the cursor belongs to the representation"),
        }
    }
    fn prev(&mut self) {
        debug_assert!(self.valid());
        self.go(Move::Prev);
    }
    #[inline]
    fn key(&self) -> InternalKey<'_> {
        self.entry().key()
    }
    #[inline]
    fn value(&self) -> &[u8] {
        self.entry().value()
    }
    fn status(&self) -> Result<()> {
        Ok(())
    }
}
