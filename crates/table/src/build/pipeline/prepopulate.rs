//! `prepopulate_block_cache`: the blocks of a table go into the block cache while it is built, so
//! that the first reads find them there.
//!
//! The entries are those the table's reader would insert: decoded, under the reader's keys, and
//! only blocks that it looks for in the cache. A table holds its dictionary itself, and without
//! `cache_index_and_filter_blocks` an index or filter of one block, or its top level; RocksDB puts
//! those in as well, where they are never found. Priorities are RocksDB's: low for a flush, bottom
//! for a compaction, whose blocks are the first to go. A full cache refuses blocks and the build
//! continues; blocks of a build that fails stay until they are evicted, under keys that no other
//! file has.
//!
//! The bytes of the table do not depend on this. Thread safety: shared freely.

use std::sync::Arc;

use pumice_base::{InternalKeyComparator, Result};
use pumice_cache::{CacheKey, Priority};

use crate::build::context::{TableBuildContext, TableReason};
use crate::build::setup;
use crate::handle::{BlockHandle, BlockKind};
use crate::options::{IndexType, PrepopulateBlockCache};
use crate::read::block::{Block, KeyForm};
use crate::read::cached_block::{BlockCache, CachedBlock};
use crate::read::file::TableFile;
use crate::read::index::{IndexBlock, IndexEncoding};
use crate::stats::TableStats;
use crate::unique_id;

/// Puts the blocks of one table into the cache.
pub(crate) struct Prepopulate {
    cache: Arc<BlockCache>,
    /// The table's `cache_base`.
    base: [u64; 2],
    priority: Priority,
    comparator: InternalKeyComparator,
    first_keys: bool,
    /// The reader looks for unpartitioned metadata in the cache.
    all_metadata: bool,
    read_amp_bytes_per_bit: u32,
    protects: bool,
    stats: Option<Arc<dyn TableStats>>,
}

impl Prepopulate {
    /// `None` if the blocks of this table are not to be cached.
    pub fn new(context: &TableBuildContext) -> Option<Box<Self>> {
        let options = &context.table;
        let priority = priority(options.prepopulate_block_cache, context.reason)?;
        let cache = options.block_cache.as_ref().filter(|_| !options.no_block_cache)?;
        Some(Box::new(Prepopulate {
            cache: Arc::clone(cache),
            // A table without an origin gets keys when it is opened.
            base: unique_id::cache_base(&setup::initial_properties(context))?,
            priority,
            comparator: context.comparator.clone(),
            first_keys: options.index_type == IndexType::BinarySearchWithFirstKey,
            all_metadata: options.cache_index_and_filter_blocks,
            read_amp_bytes_per_bit: options.read_amp_bytes_per_bit,
            protects: options.block_protection,
            stats: context.stats.clone(),
        }))
    }

    /// The data block that will be at `offset`.
    #[cold]
    pub fn data(&self, offset: u64, contents: &[u8]) {
        let mut buffer = TableFile::spare_buffer();
        buffer.extend_from_slice(contents);
        let Ok(mut block) = Block::decode(buffer, KeyForm::Internal) else {
            return Self::malformed();
        };
        if let Some(spare) = block.pack(self.comparator.user.is_bytewise(), self.cache.is_large()) {
            TableFile::recycle(spare);
        }
        let mut block = CachedBlock::entries(block, BlockKind::Data);
        if let Some(stats) = &self.stats {
            block.measure(self.read_amp_bytes_per_bit, offset, &**stats);
        }
        if self.protects {
            block.protect();
        }
        self.insert(offset, block);
    }

    /// The blocks of the index. `top` is its top level, or only block.
    pub fn index(&self, blocks: MetaBlocks, top: BlockHandle, user_keys: bool, delta: bool) {
        let encoding = self.encoding(user_keys, delta, self.first_keys);
        for (handle, contents) in self.looked_for(blocks, top) {
            self.insert_index(handle, &contents, encoding, BlockKind::Index);
        }
    }

    /// The blocks of the filter. `top` is the index of its partitions, or the only block.
    pub fn filter(
        &self,
        blocks: MetaBlocks,
        (top, partitioned): (BlockHandle, bool),
        user_keys: bool,
        delta: bool,
    ) {
        let encoding = self.encoding(user_keys, delta, false);
        for (handle, contents) in self.looked_for(blocks, top) {
            if partitioned && handle == top {
                self.insert_index(handle, &contents, encoding, BlockKind::FilterIndex);
            } else {
                self.insert(handle.offset, CachedBlock::filter(contents));
            }
        }
    }

    fn encoding(&self, user_keys: bool, delta_handles: bool, first_keys: bool) -> IndexEncoding {
        IndexEncoding { user_keys, delta_handles, first_keys }
    }

    /// The blocks of `blocks` that the reader looks for in the cache.
    fn looked_for(
        &self,
        blocks: MetaBlocks,
        top: BlockHandle,
    ) -> impl Iterator<Item = (BlockHandle, Vec<u8>)> {
        let all = self.all_metadata;
        blocks.0.into_iter().flatten().filter(move |(handle, _)| all || *handle != top)
    }

    fn insert_index(
        &self,
        handle: BlockHandle,
        contents: &[u8],
        encoding: IndexEncoding,
        kind: BlockKind,
    ) {
        match IndexBlock::decode(contents, encoding, &self.comparator) {
            Ok(index) => self.insert(handle.offset, CachedBlock::index(index, kind)),
            Err(_) => Self::malformed(),
        }
    }

    fn insert(&self, offset: u64, block: CachedBlock) {
        let key = CacheKey(self.base[0], self.base[1] ^ offset);
        let (kind, charge) = (block.kind(), block.charge());
        let inserted = self.cache.insert(key, block, charge, self.priority);
        if let Some(stats) = &self.stats {
            match inserted {
                Ok(_) => stats.cache_add(kind, charge),
                Err(_) => stats.cache_add_failed(),
            }
        }
    }

    /// The reader would reject the block, and will report it.
    #[cold]
    fn malformed() {
        debug_assert!(false, "the builder made a block that cannot be read");
    }
}

/// The priority of blocks of tables built for `reason`; `None` if they are not to be cached.
fn priority(wanted: PrepopulateBlockCache, reason: TableReason) -> Option<Priority> {
    match (wanted, reason) {
        (PrepopulateBlockCache::Disable, _) => None,
        (_, TableReason::Flush) => Some(Priority::Low),
        (
            PrepopulateBlockCache::FlushAndCompaction,
            TableReason::CompactionLevel0 | TableReason::Compaction,
        ) => Some(Priority::Bottom),
        _ => None,
    }
}

/// The contents of meta blocks, kept while they are written, if they are to be cached.
pub(crate) struct MetaBlocks(Option<Vec<(BlockHandle, Vec<u8>)>>);

impl MetaBlocks {
    /// Keeps blocks if they will be put into the cache.
    pub fn for_cache(prepopulate: &Option<Box<Prepopulate>>) -> Self {
        MetaBlocks(prepopulate.as_ref().map(|_| Vec::new()))
    }

    /// Writes `block` with `write`, which may change it.
    ///
    /// # Errors
    /// The errors of `write`.
    pub fn pass(
        &mut self,
        block: &mut Vec<u8>,
        write: impl FnOnce(&mut Vec<u8>) -> Result<BlockHandle>,
    ) -> Result<BlockHandle> {
        let Some(kept) = &mut self.0 else { return write(block) };
        let contents = block.clone();
        let handle = write(block)?;
        kept.push((handle, contents));
        Ok(handle)
    }
}
