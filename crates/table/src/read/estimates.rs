//! Estimates of an open table: where data lies, and the memory it holds.
//!
//! Thread safety: as the table. Suspends where an index block has to be read.

use pumice_base::{InternalKey, Result};

use crate::handle::{BlockHandle, BlockKind};
use crate::read::blocks::MetaBlock;
use crate::read::cached_block::PinnedBlock;
use crate::read::context::TableReadOptions;
use crate::read::table::{HeldPartitions, Table};

impl Table {
    /// Approximate file offset of the data of internal key `target`.
    ///
    /// # Errors
    /// As [`Table::get`], for index blocks.
    pub fn approximate_offset_of(&self, target: InternalKey<'_>) -> Result<u64> {
        let options = TableReadOptions::default();
        let top = self.meta(&self.index, BlockKind::Index, &options)?;
        let top = self.index_of(&top)?;
        let at = top.seek(&self.comparator, target);
        if at >= top.len() {
            return Ok(self.data_end());
        }
        let inside = |handle: BlockHandle| handle.offset.min(self.file.len);
        if !self.index_partitioned {
            return Ok(inside(top.handle(at)));
        }
        let partition = self.index_partition(top, at, &options)?;
        let index = self.index_of(&partition)?;
        let first = index.seek(&self.comparator, target);
        Ok(if first < index.len() { inside(index.handle(first)) } else { self.data_end() })
    }

    /// Offset after the last data block.
    fn data_end(&self) -> u64 {
        match self.properties.data_size {
            _ if self.other_format.is_some() => self.footer.metaindex.offset,
            0 => self.footer.metaindex.offset.min(self.file.len),
            size => size.min(self.file.len),
        }
    }

    /// Memory held outside of the block cache, bytes.
    pub fn approximate_memory(&self) -> usize {
        let held = |meta: &MetaBlock| match meta {
            MetaBlock::Held(PinnedBlock::Owned(block)) => block.charge(),
            _ => 0,
        };
        let partitions = |held: &HeldPartitions| {
            let blocks = held.iter().flat_map(|blocks| blocks.iter());
            let owned = blocks.filter(|block| matches!(block, PinnedBlock::Owned(_)));
            owned.map(|block| block.get().charge()).sum::<usize>()
        };
        let filter = self.filter.as_ref().map_or(0, |f| held(&f.block) + partitions(&f.partitions));
        let index = held(&self.index) + partitions(&self.index_partitions);
        let tombstones = self.range_tombstones.as_ref().map_or(0, |t| t.memory_bytes());
        let trie = self.trie.as_ref().map_or(0, |trie| trie.memory_bytes());
        let dictionary = self.file.dictionary.as_ref().map_or(0, |d| d.memory_bytes());
        let properties = self.properties.heap_bytes();
        let rest = trie + tombstones + dictionary + self.image_memory;
        size_of::<Self>() + properties + index + filter + rest
    }
}
