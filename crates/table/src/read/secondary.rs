//! Blocks and the secondary cache: how an evicted block becomes bytes, and bytes a block again.
//!
//! The rule is RocksDB's. A block that is found in the secondary cache is good for this use alone,
//! and a *dummy* in the block cache notes that it was used; if it is found again while the dummy
//! is there, it moves back: into the block cache, out of the secondary one.
//!
//! The bytes are those of the block in its file, uncompressed. An index is not kept in that form:
//! it is written anew, as a block with whole handles.
//!
//! Thread safety: pure, and the caches'. Not here: when a lookup comes here (`blocks`).

use std::borrow::Cow;
use std::sync::Arc;

use pumice_base::ValueType;
use pumice_base::coding::put_length_prefixed;
use pumice_base::key::internal_key;
use pumice_cache::{CacheKey, CompressedSecondaryCache, Handle, Priority, SecondaryLookup, Spill};
use pumice_env::perf::{self, PerfMetric};

use crate::build::block_builder::MetaBlockBuilder;
use crate::handle::{BlockHandle, BlockKind};
use crate::read::block::{Block, KeyForm};
use crate::read::cached_block::{BlockCache, CachedBlock, Decoded, PinnedBlock};
use crate::read::index::{IndexBlock, IndexEncoding};
use crate::read::table::Table;

/// Entries from one restart point of an index to the next.
const RESTART_INTERVAL: u32 = 16;
/// The largest block that can be decoded.
const BLOCK_BYTES_MAX: usize = u32::MAX as usize;

impl Spill for CachedBlock {
    #[cold]
    fn spill(&self, key: &CacheKey, secondary: &CompressedSecondaryCache, at_once: bool) {
        // One that changed in memory must not get a new checksum.
        if self.kind() == BlockKind::Dummy || !self.is_intact() {
            return;
        }
        if !at_once && secondary.is_first(key) {
            perf::count(PerfMetric::CompressedSecCacheInsertDummyCount, 1);
            return;
        }
        let Some(contents) = self.contents() else { return };
        let compress = self.kind() != BlockKind::Filter;
        let Ok(tried) = secondary.insert(key, self.kind() as u8, &contents, compress) else {
            return;
        };
        perf::count(PerfMetric::CompressedSecCacheInsertRealCount, 1);
        if let Some(compressed) = tried {
            perf::count(PerfMetric::CompressedSecCacheUncompressedBytes, contents.len() as u64);
            perf::count(PerfMetric::CompressedSecCacheCompressedBytes, compressed as u64);
        }
    }
}

impl CachedBlock {
    /// What the secondary cache keeps of the block; `None` for an index that is too large.
    fn contents(&self) -> Option<Cow<'_, [u8]>> {
        match &self.decoded {
            Decoded::Index(index) => index.to_block().map(Cow::Owned),
            _ => Some(Cow::Borrowed(self.block.data())),
        }
    }
}

impl IndexBlock {
    /// The index as a block, with whole handles, and with first keys whose trailers mean nothing.
    fn to_block(&self) -> Option<Vec<u8>> {
        let mut block = MetaBlockBuilder::new(RESTART_INTERVAL, BLOCK_BYTES_MAX);
        let (mut key, mut value) = (Vec::new(), Vec::new());
        for at in 0..self.len() {
            self.key_into(at, &mut key);
            value.clear();
            self.handle(at).encode_to(&mut value);
            if let Some([common, rest]) = self.first_user_key(at) {
                let first = internal_key(&[common, rest].concat()[..], 0, ValueType::Deletion);
                put_length_prefixed(&mut value, &first);
            }
            block.add(&key, &value);
        }
        block.finish("an index").ok()
    }
}

/// Looks up `key` in the secondary cache of `cache`, which has `found`, a dummy or nothing. `make`
/// turns what is found into the block for the cache. Nothing is found if there is no secondary
/// cache.
#[cold]
pub fn from_secondary(
    cache: &BlockCache,
    (key, kind, priority): (CacheKey, BlockKind, Priority),
    found: Option<Handle<CachedBlock>>,
    make: impl FnOnce(Vec<u8>) -> Option<CachedBlock>,
) -> SecondaryLookup<PinnedBlock> {
    let Some(secondary) = cache.secondary_cache() else { return SecondaryLookup::Missing };
    let again = found.is_some();
    drop(found);
    if again {
        cache.erase(&key);
    }
    let contents = match secondary.lookup(&key, kind as u8, again) {
        SecondaryLookup::Found(contents) => contents,
        SecondaryLookup::Dummy => return SecondaryLookup::Dummy,
        SecondaryLookup::Missing => return SecondaryLookup::Missing,
    };
    let Some(block) = make(contents) else {
        secondary.erase(&key);
        return SecondaryLookup::Missing;
    };
    perf::count(PerfMetric::SecondaryCacheHitCount, 1);
    let charge = block.charge();
    let kept = if again {
        cache.insert_or_return(key, block, charge, priority)
    } else {
        cache.insert_standalone(key, block, charge)
    };
    let metric = match &kept {
        Ok(_) if again => PerfMetric::BlockCacheRealHandleCount,
        _ => PerfMetric::BlockCacheStandaloneHandleCount,
    };
    perf::count(metric, 1);
    if !again {
        // A full cache may refuse it.
        drop(cache.insert(key, CachedBlock::dummy(), 0, priority));
    }
    SecondaryLookup::Found(match kept {
        Ok(handle) => PinnedBlock::Cached(handle),
        Err(block) => PinnedBlock::Owned(Arc::new(block)),
    })
}

impl Table {
    /// As [`Table::decode`], for what the secondary cache kept of a block.
    pub(crate) fn decode_kept(
        &self,
        contents: Vec<u8>,
        handle: BlockHandle,
        kind: BlockKind,
    ) -> Option<CachedBlock> {
        match kind {
            BlockKind::Index | BlockKind::FilterIndex => {
                let encoding = IndexEncoding {
                    delta_handles: false,
                    first_keys: kind == BlockKind::Index && self.index_encoding.first_keys,
                    ..self.index_encoding
                };
                let index = IndexBlock::decode(&contents, encoding, &self.comparator).ok()?;
                Some(CachedBlock::index(index, kind))
            }
            // Its indexes of blobs have the table's number already.
            BlockKind::Data => {
                let block = Block::decode(contents, KeyForm::Internal).ok()?;
                Some(CachedBlock::entries(block, kind))
            }
            _ => self.decode(contents, handle, kind).ok(),
        }
    }
}
