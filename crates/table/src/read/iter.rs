//! Iterates over a table.
//!
//! The iterator owns the table, a pin on the current index (partition) and data block, and a
//! cursor in it. `next` inside a block touches only the block and the cursor.
//!
//! Blocks come from the cache; those that are missing are read through a readahead buffer, which
//! grows by itself while reads are sequential or has the size that the caller asked for.
//!
//! Thread safety: one owner at a time (`Send`). Invariants: (1) `cursor` positions refer to
//! `block`; (2) after an error the iterator is not valid and `status` returns it until the next
//! seek. Not here: the upper bound, which is the caller's.

use std::cmp::Ordering;
use std::sync::Arc;

use pumice_base::{Error, InternalIterator, InternalKey, Result};
use pumice_env::ReadaheadBuffer;

use crate::Extractor;
use crate::handle::{BlockHandle, BlockKind};
use crate::read::blocks::{MetaBlock, at_pace};
use crate::read::cached_block::PinnedBlock;
use crate::read::context::TableReadOptions;
use crate::read::cursor::BlockCursor;
use crate::read::index::IndexBlock;
use crate::read::table::{Heading, Table};

/// A cursor over the entries of a table.
pub struct TableIter {
    table: Arc<Table>,
    options: TableReadOptions,
    /// The index, or the top level of a partitioned one.
    top: Option<PinnedBlock>,
    top_at: usize,
    /// The current partition of a partitioned index.
    partition: Option<PinnedBlock>,
    /// Number of the current block in `partition`, or in `top` if the index has one level.
    at: usize,
    block: Option<PinnedBlock>,
    cursor: BlockCursor,
    /// Buffer of the last block that was not in a cache.
    spare: Vec<u8>,
    readahead: Option<Box<ReadaheadBuffer>>,
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
        self.reset();
        let moved = self.enter_top(0, false);
        self.settle(moved);
        if self.block.is_some() {
            self.place_first();
        }
    }

    /// Moves to the last entry.
    pub fn seek_to_last(&mut self) {
        self.reset();
        let moved = self.load_top().and_then(|()| {
            let last = self.top_index()?.len();
            if last == 0 { Ok(false) } else { self.enter_top(last - 1, true) }
        });
        self.settle(moved);
        if self.block.is_some() {
            self.place_last();
        }
    }

    /// Moves to the first entry at or after internal key `target`.
    pub fn seek(&mut self, target: InternalKey<'_>) {
        if self.seek_in_block(target, Heading::Forward) {
            return;
        }
        self.reset();
        if self.prefix_may_match(target, Heading::Forward) {
            self.seek_by_index(target, Heading::Forward);
        }
    }

    fn prefix_may_match(&self, target: InternalKey<'_>, heading: Heading) -> bool {
        !self.has_prefixes || self.table.prefix_may_match(&self.options, target, heading)
    }

    /// `seek` through the index, from an unpositioned state; with `Backward` it ends at the last
    /// entry of the block where `target` would be, if the target is after all of them.
    fn seek_by_index(&mut self, target: InternalKey<'_>, heading: Heading) {
        let moved = self.enter_target(target);
        self.settle(moved);
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

    /// Moves to the last entry at or before internal key `target`.
    pub fn seek_for_prev(&mut self, target: InternalKey<'_>) {
        if !self.seek_in_block(target, Heading::Backward) {
            self.reset();
            if !self.prefix_may_match(target, Heading::Backward) {
                return;
            }
            self.seek_by_index(target, Heading::Backward);
        }
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
    }

    /// Records a failed move.
    fn settle(&mut self, moved: Result<bool>) {
        match moved {
            Ok(true) => {}
            Ok(false) => {
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

    fn load_top(&mut self) -> Result<()> {
        if self.top.is_none() {
            self.top = Some(match &self.table.index {
                MetaBlock::Held(block) => block.clone(),
                MetaBlock::InCache(handle) => {
                    self.table.block(*handle, BlockKind::Index, &self.options)?
                }
            });
        }
        Ok(())
    }

    fn top_index(&self) -> Result<&IndexBlock> {
        self.table.index_in(self.top.as_ref().expect("load_top was called"))
    }

    /// The index that `at` counts in.
    fn current_index(&self) -> Result<&IndexBlock> {
        match &self.partition {
            Some(partition) => self.table.index_in(partition),
            None => self.top_index(),
        }
    }

    /// Goes to entry `top_at` of the top level, and there to the first or last block.
    fn enter_top(&mut self, top_at: usize, last: bool) -> Result<bool> {
        self.load_top()?;
        if top_at >= self.top_index()?.len() {
            return Ok(false);
        }
        if !self.table.index_partitioned {
            return self.enter_block(top_at);
        }
        self.enter_partition(top_at)?;
        let len = self.current_index()?.len();
        if len == 0 {
            return Err(self.empty_partition());
        }
        self.enter_block(if last { len - 1 } else { 0 })
    }

    fn empty_partition(&self) -> Error {
        Error::corruption(format!("empty index partition in {}", self.table.file.name()))
    }

    fn enter_partition(&mut self, top_at: usize) -> Result<()> {
        let partition = match &self.table.index_partitions {
            Some(held) => held[top_at].clone(),
            None => {
                let handle = self.top_index()?.handle(top_at);
                self.table.block(handle, BlockKind::Index, &self.options)?
            }
        };
        self.partition = Some(partition);
        self.top_at = top_at;
        Ok(())
    }

    /// Goes to the block that holds the first entry at or after `target`.
    fn enter_target(&mut self, target: InternalKey<'_>) -> Result<bool> {
        self.load_top()?;
        let top_at = self.top_index()?.seek(&self.table.comparator, target);
        if !self.table.index_partitioned || top_at >= self.top_index()?.len() {
            return self.enter_top(top_at, false);
        }
        self.enter_partition(top_at)?;
        let at = self.current_index()?.seek(&self.table.comparator, target);
        if at >= self.current_index()?.len() {
            return self.enter_top(top_at + 1, false);
        }
        self.enter_block(at)
    }

    fn enter_next(&mut self) -> Result<bool> {
        if self.at + 1 < self.current_index()?.len() {
            return self.enter_block(self.at + 1);
        }
        if self.partition.is_none() { Ok(false) } else { self.enter_top(self.top_at + 1, false) }
    }

    fn enter_previous(&mut self) -> Result<bool> {
        if self.at > 0 {
            return self.enter_block(self.at - 1);
        }
        if self.partition.is_none() || self.top_at == 0 {
            return Ok(false);
        }
        self.enter_top(self.top_at - 1, true)
    }

    /// Makes block `at` of the current index the current one.
    fn enter_block(&mut self, at: usize) -> Result<bool> {
        let handle = self.current_index()?.handle(at);
        self.at = at;
        self.cursor.reset();
        if let Some(buffer) = self.block.take().and_then(PinnedBlock::into_buffer) {
            self.spare = buffer;
        }
        self.block = Some(match self.table.cached(handle, BlockKind::Data)? {
            Some(block) => block,
            None => {
                let table = Arc::clone(&self.table);
                table.timed_fetch(|| self.read(handle))?
            }
        });
        Ok(true)
    }

    /// Reads a data block through the readahead buffer.
    fn read(&mut self, handle: BlockHandle) -> Result<PinnedBlock> {
        if self.options.cache_only {
            return Err(Error::incomplete("no blocking io"));
        }
        let table = &self.table;
        let len = table.file.stored_len(handle, BlockKind::Data)?;
        let readahead = self.readahead.get_or_insert_with(|| {
            let (step, step_max) = match self.options.readahead_size {
                0 => {
                    let options = &table.options;
                    (options.initial_auto_readahead_size, options.max_auto_readahead_size)
                }
                fixed => (fixed, fixed),
            };
            Box::new(ReadaheadBuffer::new(Arc::clone(&table.file.file), step, step_max))
        });
        let stored = at_pace(&self.options, || readahead.read_at(handle.offset, len))?;
        if stored.len() != len {
            return Err(table.file.bad_block(handle, BlockKind::Data, "truncated block read"));
        }
        table.file.count_read(BlockKind::Data, len);
        let verify = self.options.verify_checksums;
        let fill = self.options.fill_cache && table.cache.is_some();
        let buffer = if fill { Vec::new() } else { std::mem::take(&mut self.spare) };
        let contents =
            table.file.open_stored_into(handle, BlockKind::Data, verify, stored, buffer)?;
        let block = table.decode(contents, handle, BlockKind::Data)?;
        table.admit(block, handle, self.options.fill_cache)
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
