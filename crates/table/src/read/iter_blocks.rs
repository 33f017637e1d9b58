//! The blocks on the way of an iterator over a table: found in the index, and read.
//!
//! They come from the cache; those that are missing are read through a readahead buffer, which
//! grows by itself while reads are sequential or has the size that the caller asked for. It reads
//! ahead no further than the data blocks go, nor beyond the block in which the upper bound lies;
//! in an index of partitions that block is known once its partition is the current one, so reading
//! ahead stops at the end of the partition before.
//!
//! Thread safety and invariants: `iter`. Suspends where a block is read.

use std::sync::Arc;

use pumice_base::key::{InternalKey, MAX_SEQUENCE, seek_key};
use pumice_base::{Error, Result};
use pumice_env::ReadaheadBuffer;

use crate::handle::{BlockHandle, BlockKind};
use crate::read::blocks::{MetaBlock, at_pace};
use crate::read::by_trie::Blocks;
use crate::read::cached_block::PinnedBlock;
use crate::read::iter::{Entered, TableIter};

/// A block for which a move waited.
pub(super) struct Fetched {
    handle: BlockHandle,
    kind: BlockKind,
    block: Result<PinnedBlock>,
}

impl TableIter {
    /// Whether [`TableIter::fetch`] may run on a task with little stack: it calls no user code.
    pub fn fetches_on_little_stack(&self) -> bool {
        self.waits.is_some_and(|(_, kind)| self.table.loads_on_little_stack(kind))
    }

    /// Reads the block that a move waits for. Errors are those of the move. Suspends.
    pub fn fetch(&mut self) {
        let Some((handle, kind)) = self.waits.take() else { return };
        let table = Arc::clone(&self.table);
        let block = match kind {
            BlockKind::Data => table.timed_fetch(|| self.read(handle, false)),
            _ => table.read_block(handle, kind, &self.options, self.options.fill_cache),
        };
        self.fetched = Some(Fetched { handle, kind, block });
    }

    /// Makes the data block for which a move waited the current one; None if it waited for none.
    pub(super) fn arrived(&mut self) -> Option<Result<Entered>> {
        let Fetched { block, handle, .. } =
            self.fetched.take_if(|fetched| fetched.kind == BlockKind::Data)?;
        Some(block.and_then(|block| {
            if self.table.protects {
                self.table.check_memory(&block, handle)?;
            }
            self.block = Some(block);
            Ok(Entered::Block)
        }))
    }

    /// The block, unless a move has to wait for it.
    fn obtain(&mut self, handle: BlockHandle, kind: BlockKind) -> Result<Option<PinnedBlock>> {
        if let Some(fetched) = self.fetched.take_if(|fetched| fetched.handle == handle) {
            return fetched.block.map(Some);
        }
        if let Some(block) = self.table.cached(handle, kind)? {
            return Ok(Some(block));
        }
        if self.defers {
            if kind == BlockKind::Data {
                self.prepare_readahead();
            }
            self.waits = Some((handle, kind));
            return Ok(None);
        }
        let table = Arc::clone(&self.table);
        match kind {
            BlockKind::Data => {
                self.prepare_readahead();
                table.timed_fetch(|| self.read(handle, true)).map(Some)
            }
            _ => table.read_block(handle, kind, &self.options, self.options.fill_cache).map(Some),
        }
    }

    /// Gets the top level of the index; false if the move has to wait for it.
    fn load_top(&mut self) -> Result<bool> {
        if self.top.is_none() && !self.by_trie {
            self.top = match &self.table.index {
                MetaBlock::Held(block) => Some(block.clone()),
                MetaBlock::InCache(handle) => self.obtain(*handle, BlockKind::Index)?,
            };
        }
        Ok(self.top.is_some() || self.by_trie)
    }

    fn top_index(&self) -> Result<Blocks<'_>> {
        if self.by_trie
            && let Some(trie) = &self.table.trie
        {
            return Ok(Blocks::Trie(trie));
        }
        let top = self.top.as_ref().expect("load_top was called");
        self.table.index_in(top).map(Blocks::Index)
    }

    /// The index that `at` counts in.
    pub(super) fn current_index(&self) -> Result<Blocks<'_>> {
        match &self.partition {
            Some(partition) => self.table.index_in(partition).map(Blocks::Index),
            None => self.top_index(),
        }
    }

    /// The index has a top level and partitions.
    fn is_partitioned(&self) -> bool {
        self.table.index_partitioned && !self.by_trie
    }

    /// Goes to entry `top_at` of the top level, and there to the first or last block.
    pub(super) fn enter_top(&mut self, top_at: usize, last: bool) -> Result<Entered> {
        if !self.load_top()? {
            return Ok(Entered::Waits);
        }
        if top_at >= self.top_index()?.len() {
            return Ok(Entered::Nothing);
        }
        if !self.is_partitioned() {
            return self.enter_block(top_at);
        }
        if !self.enter_partition(top_at)? {
            return Ok(Entered::Waits);
        }
        let len = self.current_index()?.len();
        if len == 0 {
            return Err(self.empty_partition());
        }
        self.enter_block(if last { len - 1 } else { 0 })
    }

    /// Goes to the last block.
    pub(super) fn enter_last(&mut self) -> Result<Entered> {
        if !self.load_top()? {
            return Ok(Entered::Waits);
        }
        match self.top_index()?.len() {
            0 => Ok(Entered::Nothing),
            len => self.enter_top(len - 1, true),
        }
    }

    fn empty_partition(&self) -> Error {
        Error::corruption(format!("empty index partition in {}", self.table.file.name()))
    }

    /// Makes a partition the current one; false if the move has to wait for it.
    fn enter_partition(&mut self, top_at: usize) -> Result<bool> {
        // A move that waited for the next one has come here again.
        if self.partition.is_some() && self.top_at == top_at {
            return Ok(true);
        }
        let partition = match &self.table.index_partitions {
            Some(held) => Some(held[top_at].clone()),
            None => {
                let handle = self.top_index()?.handle(top_at);
                self.obtain(handle, BlockKind::Index)?
            }
        };
        let Some(partition) = partition else { return Ok(false) };
        self.partition = Some(partition);
        self.top_at = top_at;
        if self.options.iterate_upper_bound.is_some() && self.readahead.is_some() {
            self.limit_readahead();
        }
        Ok(true)
    }

    /// Goes to the block that holds the first entry at or after `target`.
    pub(super) fn enter_target(&mut self, target: InternalKey<'_>) -> Result<Entered> {
        if !self.load_top()? {
            return Ok(Entered::Waits);
        }
        let top_at = self.top_index()?.seek(&self.table.comparator, target);
        if !self.is_partitioned() || top_at >= self.top_index()?.len() {
            return self.enter_top(top_at, false);
        }
        if !self.enter_partition(top_at)? {
            return Ok(Entered::Waits);
        }
        let at = self.current_index()?.seek(&self.table.comparator, target);
        if at >= self.current_index()?.len() {
            return self.enter_top(top_at + 1, false);
        }
        self.enter_block(at)
    }

    pub(super) fn enter_next(&mut self) -> Result<Entered> {
        if self.at + 1 < self.current_index()?.len() {
            return self.enter_block(self.at + 1);
        }
        match self.partition {
            None => Ok(Entered::Nothing),
            Some(_) => self.enter_top(self.top_at + 1, false),
        }
    }

    pub(super) fn enter_previous(&mut self) -> Result<Entered> {
        if self.at > 0 {
            return self.enter_block(self.at - 1);
        }
        if self.partition.is_none() || self.top_at == 0 {
            return Ok(Entered::Nothing);
        }
        self.enter_top(self.top_at - 1, true)
    }

    /// Makes block `at` of the current index the current one.
    fn enter_block(&mut self, at: usize) -> Result<Entered> {
        let handle = self.current_index()?.handle(at);
        self.at = at;
        self.cursor.reset();
        if let Some(buffer) = self.block.take().and_then(PinnedBlock::into_buffer) {
            self.spare = buffer;
        }
        self.block = self.obtain(handle, BlockKind::Data)?;
        if let Some(block) = self.block.as_ref().filter(|_| self.table.protects) {
            self.table.check_memory(block, handle)?;
        }
        Ok(if self.block.is_some() { Entered::Block } else { Entered::Waits })
    }

    /// Makes the readahead buffer, which asks the order of keys for the limit.
    fn prepare_readahead(&mut self) {
        if self.readahead.is_some() || self.options.cache_only {
            return;
        }
        let (step, step_max) = match self.options.readahead_size {
            0 => {
                let options = &self.table.options;
                (options.initial_auto_readahead_size, options.max_auto_readahead_size)
            }
            fixed => (fixed, fixed),
        };
        let file = Arc::clone(&self.table.file.file);
        let mut readahead = Box::new(ReadaheadBuffer::new(file, step, step_max));
        if self.options.waits_once() {
            readahead.overlap();
        }
        self.readahead = Some(readahead);
        self.limit_readahead();
    }

    /// Tells the buffer where reading ahead ends.
    fn limit_readahead(&mut self) {
        let end = self.readahead_end();
        if let Some(readahead) = &mut self.readahead {
            readahead.limit(end);
        }
    }

    /// Position in the file at which reading ahead ends.
    fn readahead_end(&self) -> u64 {
        let whole = match self.table.properties.data_size {
            // Of a table that another program wrote.
            0 => u64::MAX,
            bytes => bytes,
        };
        let bound = self.options.iterate_upper_bound.as_ref();
        let Some(bound) = bound.filter(|_| self.options.auto_readahead_size) else {
            return whole;
        };
        let bound = seek_key(&**bound, MAX_SEQUENCE);
        let (order, bound) = (&self.table.comparator, InternalKey::new(&bound));
        let (Ok(top), Ok(index)) = (self.top_index(), self.current_index()) else { return whole };
        let is_far = self.is_partitioned() && top.seek(order, bound) > self.top_at + 1;
        if is_far || index.len() == 0 {
            return whole;
        }
        let last = index.handle(index.seek(order, bound).min(index.len() - 1));
        last.end().map_or(whole, |end| whole.min(end))
    }

    /// Reads a data block through the readahead buffer. With `flies` what is read ahead may be in
    /// flight when this returns: not on a fiber whose caller waits for all that it has started.
    fn read(&mut self, handle: BlockHandle, flies: bool) -> Result<PinnedBlock> {
        if self.options.cache_only {
            return Err(Error::incomplete("no blocking io"));
        }
        let table = &self.table;
        let len = table.file.stored_len(handle, BlockKind::Data)?;
        let fill = self.options.fill_cache && table.cache.is_some();
        let buffer = if fill { Vec::new() } else { std::mem::take(&mut self.spare) };
        let readahead = self.readahead.as_mut().expect("prepare_readahead was called");
        let how = self.options.block_read();
        let alone = table.file.persistent.is_some() && readahead.reads_alone(handle.offset, len);
        let mut kept = vec![0; if alone { len } else { 0 }];
        let found =
            alone && table.file.find_persistent(handle, BlockKind::Data, how.verify, &mut kept);
        let contents = if found {
            table.file.unpack(handle, BlockKind::Data, &kept, buffer)?
        } else {
            readahead.fly(flies);
            let stored = at_pace(&self.options, || readahead.read_at(handle.offset, len))?;
            if stored.len() != len {
                return Err(table.file.bad_block(handle, BlockKind::Data, "truncated block read"));
            }
            table.file.count_read(BlockKind::Data, len);
            let (data, verify) = (BlockKind::Data, how.verify);
            let contents = table.file.open_stored_into(handle, data, verify, stored, buffer)?;
            if alone && how.keep {
                table.file.keep_persistent(handle, stored);
            }
            contents
        };
        let block = table.decode(contents, handle, BlockKind::Data)?;
        table.admit(block, handle, self.options.fill_cache)
    }
}
