//! The entries of the block cache, and pins on them.
//!
//! A cached block is stored decoded: bytes uncompressed, side arrays built, indexes in flat form.
//! Blocks that are not in a cache have the same form in an `Arc`.
//!
//! Thread safety: immutable, shared freely; a pin keeps the block in memory.

use std::sync::Arc;

use pumice_cache::{Cache, Handle};
use pumice_filter::FilterReader;

use crate::handle::BlockKind;
use crate::read::block::Block;
use crate::read::index::IndexBlock;
use crate::read::protect::Protection;
use crate::read::read_amp::ReadAmp;

/// The cache of decoded blocks that tables share.
///
/// ```
/// # use pumice_table::BlockCache;
/// # use pumice_cache::CacheOptions;
/// // One for several databases: `BlockBasedTableOptions::block_cache` takes a clone.
/// let cache = BlockCache::new(CacheOptions::new(64 << 20));
/// assert_eq!((cache.capacity(), cache.pinned_usage()), (64 << 20, 0));
/// ```
pub type BlockCache = Cache<CachedBlock>;

/// What a block is, besides its bytes.
#[derive(Debug)]
pub(crate) enum Decoded {
    /// Entries, or nothing more than bytes.
    Plain,
    /// Entries whose use is measured.
    Measured(Box<ReadAmp>),
    /// Entries with a checksum.
    Protected(Box<Protection>),
    /// An index; the bytes are not kept.
    Index(Box<IndexBlock>),
    /// A filter over the bytes.
    Filter(Box<FilterReader>),
}

/// A decoded block.
#[derive(Debug)]
pub struct CachedBlock {
    pub(crate) block: Block,
    pub(crate) decoded: Decoded,
    kind: BlockKind,
}

impl CachedBlock {
    /// A block of entries.
    pub(crate) fn entries(block: Block, kind: BlockKind) -> Self {
        CachedBlock { block, decoded: Decoded::Plain, kind }
    }

    /// A decoded index.
    pub(crate) fn index(index: IndexBlock, kind: BlockKind) -> Self {
        let decoded = Decoded::Index(Box::new(index));
        CachedBlock { block: Block::default(), decoded, kind }
    }

    /// A filter.
    pub(crate) fn filter(contents: Vec<u8>) -> Self {
        let reader = FilterReader::new(&contents);
        CachedBlock {
            block: Block::opaque(contents),
            decoded: Decoded::Filter(Box::new(reader)),
            kind: BlockKind::Filter,
        }
    }

    /// A value of a blob file, uncompressed.
    pub fn blob(value: Vec<u8>) -> Self {
        CachedBlock { block: Block::opaque(value), decoded: Decoded::Plain, kind: BlockKind::Blob }
    }

    /// The place of a block that was found in the secondary cache, and is charged nothing.
    pub(crate) fn dummy() -> Self {
        let kind = BlockKind::Dummy;
        CachedBlock { block: Block::default(), decoded: Decoded::Plain, kind }
    }

    /// What the block holds.
    pub fn kind(&self) -> BlockKind {
        self.kind
    }

    /// Bytes that the block is charged in the cache.
    pub fn charge(&self) -> usize {
        let decoded = match &self.decoded {
            Decoded::Index(index) => index.memory_bytes(),
            Decoded::Measured(read_amp) => read_amp.memory_bytes(),
            Decoded::Protected(protection) => protection.memory_bytes(),
            Decoded::Plain | Decoded::Filter(_) => 0,
        };
        self.block.memory_bytes() + decoded + size_of::<Self>() - size_of::<Block>()
    }

    /// From now on `read_amp` tracks which entries were used.
    pub(crate) fn set_read_amp(&mut self, read_amp: ReadAmp) {
        self.decoded = Decoded::Measured(Box::new(read_amp));
    }

    /// Which entries were used, if that is measured.
    pub(crate) fn read_amp(&self) -> Option<&ReadAmp> {
        match &self.decoded {
            Decoded::Measured(read_amp) => Some(read_amp),
            Decoded::Protected(protection) => protection.read_amp.as_deref(),
            _ => None,
        }
    }

    /// The index, if it is one.
    #[inline]
    pub(crate) fn as_index(&self) -> Option<&IndexBlock> {
        match &self.decoded {
            Decoded::Index(index) => Some(index),
            _ => None,
        }
    }

    /// The filter's verdict on a key with that `hash64`; true for other blocks.
    #[inline]
    pub(crate) fn filter_may_match(&self, key: &[u8], hash: u64) -> bool {
        match &self.decoded {
            Decoded::Filter(reader) => reader.may_match_hashed(self.block.data(), key, hash),
            _ => true,
        }
    }
}

/// Keeps a decoded block alive, in the cache or outside of it.
#[derive(Clone)]
pub enum PinnedBlock {
    /// Pinned in the cache.
    Cached(Handle<CachedBlock>),
    /// Owned together with other pins.
    Owned(Arc<CachedBlock>),
}

impl PinnedBlock {
    /// The decoded block.
    #[inline]
    pub(crate) fn get(&self) -> &CachedBlock {
        match self {
            PinnedBlock::Cached(handle) => handle,
            PinnedBlock::Owned(block) => block,
        }
    }

    /// The entries.
    #[inline]
    pub(crate) fn block(&self) -> &Block {
        &self.get().block
    }

    /// The uncompressed bytes of the block.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.block().data()
    }

    /// The byte buffer for reuse, if this is the only pin on the block and it is not in a cache.
    pub(crate) fn into_buffer(self) -> Option<Vec<u8>> {
        match self {
            PinnedBlock::Owned(block) => Arc::try_unwrap(block).ok()?.block.into_data(),
            PinnedBlock::Cached(_) => None,
        }
    }

    /// A separate pin on the block, and where in `bytes` the given value lies.
    ///
    /// # Panics
    /// If `value` is not a part of `bytes`.
    pub fn pin(&self, value: &[u8]) -> (PinnedBlock, usize) {
        (self.clone(), self.offset_of(value))
    }

    /// Where in `bytes` the given part of it lies.
    fn offset_of(&self, value: &[u8]) -> usize {
        let bytes = self.bytes();
        let offset = (value.as_ptr() as usize).wrapping_sub(bytes.as_ptr() as usize);
        let inside = offset <= bytes.len() && value.len() <= bytes.len() - offset;
        assert!(inside, "a pinned value lies in its block");
        offset
    }
}
