//! Iterates over a table.
//!
//! The iterator owns the table, a pin on the current index (partition) and data block, and a
//! cursor in it. `next` inside a block touches only the block and the cursor.
//!
//! A move that starts anew can be made in steps, so that an owner of many iterators reads the
//! blocks of all of them at once: [`TableIter::start`] goes as far as it gets without reading,
//! [`TableIter::fetch`] reads the block that it waits for, and [`TableIter::go_on`] continues. How
//! blocks are found and read is in `iter_blocks`.
//!
//! Thread safety: one owner at a time (`Send`). Invariants: (1) `cursor` positions refer to
//! `block`; (2) after an error the iterator is not valid and `status` returns it until the next
//! seek; (3) `waits` is set only between two steps of a move, and then the iterator is not valid.
//! Not here: the upper bound, which is the caller's.

use std::cmp::Ordering;
use std::sync::Arc;

use pumice_base::{Error, InternalIterator, InternalKey, Result};
use pumice_env::ReadaheadBuffer;

use crate::Extractor;
use crate::handle::{BlockHandle, BlockKind};
use crate::read::cached_block::PinnedBlock;
use crate::read::context::TableReadOptions;
use crate::read::cursor::BlockCursor;
use crate::read::iter_blocks::Fetched;
use crate::read::table::{Heading, Table};

/// Where a move that starts anew goes.
#[derive(Clone, Copy)]
pub enum Goal<'k> {
    /// The first entry.
    First,
    /// The last entry.
    Last,
    /// The first entry at or after this internal key.
    Seek(InternalKey<'k>),
    /// The last entry at or before this internal key.
    SeekForPrev(InternalKey<'k>),
}

/// How a step of a move ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Entered {
    /// There is a current block.
    Block,
    /// There is none in that direction.
    Nothing,
    /// A block has to be read first: `waits`.
    Waits,
}

/// A cursor over the entries of a table.
pub struct TableIter {
    pub(super) table: Arc<Table>,
    pub(super) options: TableReadOptions,
    /// The index, or the top level of a partitioned one.
    pub(super) top: Option<PinnedBlock>,
    pub(super) top_at: usize,
    /// The current partition of a partitioned index.
    pub(super) partition: Option<PinnedBlock>,
    /// Number of the current block in `partition`, or in `top` if the index has one level.
    pub(super) at: usize,
    pub(super) block: Option<PinnedBlock>,
    pub(super) cursor: BlockCursor,
    /// Buffer of the last block that was not in a cache.
    pub(super) spare: Vec<u8>,
    pub(super) readahead: Option<Box<ReadaheadBuffer>>,
    /// A move does not read blocks but waits for them.
    pub(super) defers: bool,
    /// The block that a move waits for.
    pub(super) waits: Option<(BlockHandle, BlockKind)>,
    /// What reading it gave.
    pub(super) fetched: Option<Fetched>,
    /// Blocks are found in the trie index.
    pub(super) by_trie: bool,
    has_prefixes: bool,
    error: Option<Error>,
}

impl Table {
    /// An iterator that is not on an entry yet.
    pub fn iter(self: &Arc<Self>, options: &TableReadOptions) -> TableIter {
        let has_prefixes = self.filter.as_ref().is_some_and(|f| f.prefix.is_some());
        TableIter {
            table: Arc::clone(self),
            options: options.clone(),
            top: None,
            top_at: 0,
            partition: None,
            at: 0,
            block: None,
            cursor: BlockCursor::new(self.global),
            spare: Vec::new(),
            readahead: None,
            defers: false,
            waits: None,
            fetched: None,
            by_trie: self.has_trie && self.trie_for(options).is_some(),
            has_prefixes,
            error: None,
        }
    }
}

impl TableIter {
    /// Changes [`TableReadOptions::prefix_same_as_start`] for later seeks: with a scope they may
    /// skip keys that do not have the prefix of their target under it.
    pub fn scope_to_prefix(&mut self, scope: Option<&Extractor>) {
        // The table may have been opened when the column family had another extractor.
        let own = self.table.filter.as_ref().and_then(|filter| filter.prefix.as_ref());
        let alike = |scope: &Extractor| own.is_some_and(|own| own.is_same(scope));
        self.options.prefix_same_as_start = scope.is_some_and(alike);
    }

    /// The iterator is on an entry.
    #[inline]
    pub fn valid(&self) -> bool {
        self.cursor.valid()
    }

    /// The internal key. Requires `valid`.
    #[inline]
    pub fn key(&self) -> InternalKey<'_> {
        InternalKey::new(self.cursor.key())
    }

    /// The value. Requires `valid`.
    #[inline]
    pub fn value(&self) -> &[u8] {
        match &self.block {
            Some(block) => self.cursor.value(block.block()),
            None => &[],
        }
    }

    /// Moves forward. Requires `valid`.
    #[inline]
    pub fn next(&mut self) {
        if let Some(block) = &self.block {
            self.cursor.next(block.block());
            if self.cursor.valid() {
                return;
            }
        }
        self.leave_forward();
    }

    /// Moves backward. Requires `valid`.
    #[inline]
    pub fn prev(&mut self) {
        if let Some(block) = &self.block {
            self.cursor.prev(block.block());
            if self.cursor.valid() {
                return;
            }
        }
        self.leave_backward();
    }

    /// Moves to the first entry.
    pub fn seek_to_first(&mut self) {
        self.start(Goal::First, false);
    }

    /// Moves to the last entry.
    pub fn seek_to_last(&mut self) {
        self.start(Goal::Last, false);
    }

    /// Moves to the first entry at or after internal key `target`.
    pub fn seek(&mut self, target: InternalKey<'_>) {
        self.start(Goal::Seek(target), false);
    }

    /// Moves to the last entry at or before internal key `target`.
    pub fn seek_for_prev(&mut self, target: InternalKey<'_>) {
        self.start(Goal::SeekForPrev(target), false);
    }

    /// Moves to the goal. With `defers` the move stops before it reads a block on its way to the
    /// one that the goal is in, and this is true: then [`TableIter::fetch`] and
    /// [`TableIter::go_on`], or another move, have to follow.
    pub fn start(&mut self, goal: Goal<'_>, defers: bool) -> bool {
        match goal {
            Goal::First | Goal::Last => self.reset(),
            Goal::Seek(target) => {
                if self.seek_in_block(target, Heading::Forward) {
                    return false;
                }
                self.reset();
                if !self.prefix_may_match(target, Heading::Forward) {
                    return false;
                }
            }
            Goal::SeekForPrev(target) => {
                if self.seek_in_block(target, Heading::Backward) {
                    self.step_before(target);
                    return false;
                }
                self.reset();
                if !self.prefix_may_match(target, Heading::Backward) {
                    return false;
                }
            }
        }
        self.defers = defers && self.options.waits_once() && !self.options.cache_only;
        self.go_on(goal)
    }

    /// Continues a move that waited for a block which is fetched now; true if it waits for another.
    pub fn go_on(&mut self, goal: Goal<'_>) -> bool {
        let moved = match (self.arrived(), goal) {
            (Some(block), _) => block,
            (None, Goal::First) => self.enter_top(0, false),
            (None, Goal::Last) => self.enter_last(),
            (None, Goal::Seek(target) | Goal::SeekForPrev(target)) => self.enter_target(target),
        };
        let waits = matches!(moved, Ok(Entered::Waits));
        self.settle(moved);
        if waits {
            return true;
        }
        self.defers = false;
        match goal {
            Goal::First => self.place_first(),
            Goal::Last => self.place_last(),
            Goal::Seek(target) => self.place(target, Heading::Forward),
            Goal::SeekForPrev(target) => {
                self.place(target, Heading::Backward);
                self.step_before(target);
            }
        }
        false
    }

    fn prefix_may_match(&self, target: InternalKey<'_>, heading: Heading) -> bool {
        !self.has_prefixes || self.table.prefix_may_match(&self.options, target, heading)
    }

    /// Searches the current block, where `target` would be, if there is one. With `Backward` it
    /// ends at the last entry, if the target is after all of them.
    fn place(&mut self, target: InternalKey<'_>, heading: Heading) {
        let Some(block) = &self.block else { return };
        self.cursor.seek(block.block(), &self.table.comparator, target);
        if !self.cursor.valid() {
            self.leave_target(target, heading);
        }
    }

    /// All entries of the block in which `target` belongs are before it.
    fn leave_target(&mut self, target: InternalKey<'_>, heading: Heading) {
        match heading {
            Heading::Forward => {
                self.leave_forward();
                self.check_side(target, Ordering::Less);
            }
            // A malformed entry ended the search: it must be reported, not skipped.
            Heading::Backward if self.cursor.damaged() => self.leave_forward(),
            // The next block is not needed and not even read.
            Heading::Backward => self.place_last(),
        }
    }

    /// The end of a search for the last entry at or before `target`.
    fn step_before(&mut self, target: InternalKey<'_>) {
        if self.error.is_some() {
            return;
        }
        if !self.valid() {
            self.seek_to_last();
        }
        if self.valid() && self.table.comparator.compare(self.key(), target).is_gt() {
            self.prev();
            self.check_side(target, Ordering::Greater);
        }
    }

    /// An entry on one side of `target` must be followed by one on the other side, or keys are out
    /// of order: the current entry must not be on the side `wrong`.
    #[cold]
    fn check_side(&mut self, target: InternalKey<'_>, wrong: Ordering) {
        if self.valid() && self.table.comparator.compare(self.key(), target) == wrong {
            let handle = self.current_index().map(|index| index.handle(self.at));
            let bad = |handle| {
                Err(self.table.file.bad_block(handle, BlockKind::Data, "keys out of order"))
            };
            let error = handle.and_then(bad);
            self.settle(error);
        }
    }

    /// The first error since the last seek.
    pub fn status(&self) -> Result<()> {
        match &self.error {
            None => Ok(()),
            Some(error) => Err(error.clone()),
        }
    }

    /// The value is returned to a user. Requires `valid`.
    #[cold]
    pub fn note_use(&self) {
        if let Some(block) = &self.block {
            let (entry, value) = self.cursor.place();
            self.table.note_use(block, entry, value);
        }
    }

    /// A short hop forward inside the current block needs no index search: the target lies after
    /// the current entry and not after the block's separator.
    fn seek_in_block(&mut self, target: InternalKey<'_>, heading: Heading) -> bool {
        let (true, Some(block)) = (self.valid(), &self.block) else { return false };
        let cmp = &self.table.comparator;
        if cmp.compare(self.key(), target).is_gt() {
            return false;
        }
        let Ok(index) = self.current_index() else { return false };
        let inside = index.reaches(self.at, cmp, target);
        if inside {
            self.cursor.seek(block.block(), cmp, target);
            if !self.cursor.valid() {
                self.leave_target(target, heading);
            }
        }
        inside
    }

    fn reset(&mut self) {
        self.cursor.reset();
        self.block = None;
        self.partition = None;
        self.error = None;
        self.defers = false;
        self.waits = None;
        self.fetched = None;
    }

    /// Records a failed move.
    fn settle(&mut self, moved: Result<Entered>) {
        match moved {
            Ok(Entered::Block) => {}
            Ok(Entered::Nothing | Entered::Waits) => {
                self.block = None;
                self.cursor.reset();
            }
            Err(error) => {
                self.block = None;
                self.cursor.reset();
                self.error = Some(error);
            }
        }
    }

    fn place_first(&mut self) {
        let Some(block) = &self.block else { return };
        self.cursor.seek_to_first(block.block());
        if !self.cursor.valid() {
            self.leave_forward();
        }
    }

    fn place_last(&mut self) {
        let Some(block) = &self.block else { return };
        self.cursor.seek_to_last(block.block());
        if !self.cursor.valid() {
            self.leave_backward();
        }
    }

    /// The cursor ran off the end of its block.
    #[cold]
    #[inline(never)]
    fn leave_forward(&mut self) {
        pumice_port::fiber::maybe_yield();
        while !self.cursor.valid() && self.block.is_some() {
            let moved = self.check_damage().and_then(|()| self.enter_next());
            self.settle(moved);
            if let Some(block) = &self.block {
                self.cursor.seek_to_first(block.block());
            }
        }
    }

    /// The cursor ran off the start of its block.
    #[cold]
    #[inline(never)]
    fn leave_backward(&mut self) {
        pumice_port::fiber::maybe_yield();
        while !self.cursor.valid() && self.block.is_some() {
            let moved = self.check_damage().and_then(|()| self.enter_previous());
            self.settle(moved);
            if let Some(block) = &self.block {
                self.cursor.seek_to_last(block.block());
            }
        }
    }

    fn check_damage(&self) -> Result<()> {
        if !self.cursor.damaged() {
            return Ok(());
        }
        let handle = self.current_index()?.handle(self.at);
        Err(self.table.file.bad_block(handle, BlockKind::Data, "malformed entry"))
    }
}

impl InternalIterator for TableIter {
    #[inline]
    fn valid(&self) -> bool {
        self.valid()
    }
    fn seek_to_first(&mut self) {
        self.seek_to_first();
    }
    fn seek_to_last(&mut self) {
        self.seek_to_last();
    }
    fn seek(&mut self, target: InternalKey<'_>) {
        self.seek(target);
    }
    fn seek_for_prev(&mut self, target: InternalKey<'_>) {
        self.seek_for_prev(target);
    }
    #[inline]
    fn next(&mut self) {
        self.next();
    }
    #[inline]
    fn prev(&mut self) {
        self.prev();
    }
    #[inline]
    fn key(&self) -> InternalKey<'_> {
        self.key()
    }
    #[inline]
    fn value(&self) -> &[u8] {
        self.value()
    }
    fn status(&self) -> Result<()> {
        self.status()
    }
}
