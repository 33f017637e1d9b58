//! Reads the rest of a damaged table.
//!
//! Blocks are read one by one, in the order of the index. A block that cannot be read, or whose
//! entries are malformed, is skipped as a whole and noted; so are the blocks named in an unreadable
//! part of the index. The keys returned ascend. Nothing goes through the block cache.
//!
//! Thread safety: one user. Suspends on I/O.

use std::sync::Arc;

use pumice_base::key::parse_internal_key;
use pumice_base::{Error, InternalKey, Result};

use crate::handle::{BlockHandle, BlockKind};
use crate::read::block::Block;
use crate::read::cached_block::CachedBlock;
use crate::read::context::TableReadOptions;
use crate::read::cursor::BlockCursor;
use crate::read::file::BlockRead;
use crate::read::table::Table;

/// Entries of a table as far as they can be read, in order; see the module head.
pub struct SalvageIter {
    table: Arc<Table>,
    /// The data blocks, the last one first.
    ahead: Vec<BlockHandle>,
    block: Option<CachedBlock>,
    cursor: BlockCursor,
    /// The last entry of the blocks before this one.
    last: Vec<u8>,
    /// End of the last block that was read.
    end: u64,
    damage: Vec<Error>,
}

impl Table {
    /// The readable entries from the first one on.
    pub fn salvage(self: &Arc<Self>) -> SalvageIter {
        let (mut ahead, mut damage) = (Vec::new(), Vec::new());
        if let Err(error) = self.list_data_blocks(&mut ahead, &mut damage) {
            damage.push(error);
        }
        ahead.reverse();
        let mut iter = SalvageIter {
            table: Arc::clone(self),
            ahead,
            block: None,
            cursor: BlockCursor::new(self.global),
            last: Vec::new(),
            end: 0,
            damage,
        };
        iter.next_block();
        iter
    }

    /// The data blocks in the order of the index, and what of it cannot be read.
    pub(crate) fn list_data_blocks(
        &self,
        handles: &mut Vec<BlockHandle>,
        damage: &mut Vec<Error>,
    ) -> Result<()> {
        let options = TableReadOptions { fill_cache: false, ..TableReadOptions::default() };
        let top = self.meta(&self.index, BlockKind::Index, &options)?;
        let top = self.index_of(&top)?;
        if !self.index_partitioned {
            handles.extend(top.handles());
            return Ok(());
        }
        for handle in top.handles() {
            let read = self.file.read(handle, BlockKind::Index, BlockRead::ONCE);
            match read.and_then(|bytes| self.decode(bytes, handle, BlockKind::Index)) {
                Ok(part) => handles.extend(part.as_index().into_iter().flat_map(|i| i.handles())),
                Err(error) => damage.push(error),
            }
        }
        Ok(())
    }
}

impl SalvageIter {
    /// There is an entry.
    pub fn valid(&self) -> bool {
        self.block.is_some()
    }

    /// The entry's internal key; empty if there is none.
    pub fn key(&self) -> &[u8] {
        if self.valid() { self.cursor.key() } else { &[] }
    }

    /// The entry's value; empty if there is none.
    pub fn value(&self) -> &[u8] {
        self.block.as_ref().map_or(&[], |block| self.cursor.value(&block.block))
    }

    /// Moves on; does nothing at the end.
    #[allow(clippy::should_implement_trait)] // It is a cursor, as `TableIter` is.
    pub fn next(&mut self) {
        let Some(block) = &self.block else { return };
        self.cursor.next(&block.block);
        if !self.cursor.valid() {
            self.next_block();
        }
    }

    /// The table.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// What could not be read so far, with file and offset.
    pub fn damage(&self) -> &[Error] {
        &self.damage
    }

    /// Goes to the first entry of the next block that is sound and not empty.
    fn next_block(&mut self) {
        self.block = None;
        while let Some(handle) = self.ahead.pop() {
            pumice_port::fiber::maybe_yield();
            match self.read(handle) {
                Ok(block) => {
                    self.end = handle.end().unwrap_or(u64::MAX);
                    self.cursor.seek_to_first(&block.block);
                    if self.cursor.valid() {
                        self.block = Some(block);
                        return;
                    }
                }
                Err(error) => self.damage.push(error),
            }
        }
    }

    /// Reads a block and checks all its entries.
    fn read(&mut self, handle: BlockHandle) -> Result<CachedBlock> {
        let table = &self.table;
        let bad = |what: &str| table.file.bad_block(handle, BlockKind::Data, what);
        if handle.offset < self.end {
            return Err(bad("blocks out of order"));
        }
        let contents = table.file.read(handle, BlockKind::Data, BlockRead::ONCE)?;
        let block = table.decode(contents, handle, BlockKind::Data)?;
        match last_of(&block.block, table, &self.last) {
            Ok(last) => self.last = last,
            Err(what) => return Err(bad(&what)),
        }
        Ok(block)
    }
}

/// The last key of a block whose entries ascend from `before` on.
fn last_of(block: &Block, table: &Table, before: &[u8]) -> std::result::Result<Vec<u8>, String> {
    let mut last = before.to_vec();
    let mut cursor = BlockCursor::new(table.global);
    cursor.seek_to_first(block);
    while cursor.valid() {
        parse_internal_key(cursor.key()).map_err(|error| error.message().to_string())?;
        if !last.is_empty()
            && table
                .comparator
                .compare(InternalKey::new(&last), InternalKey::new(cursor.key()))
                .is_ge()
        {
            return Err("keys out of order".to_string());
        }
        last.clear();
        last.extend_from_slice(cursor.key());
        cursor.next(block);
    }
    if cursor.damaged() { Err("malformed entry".to_string()) } else { Ok(last) }
}
