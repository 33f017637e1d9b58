//! Blocks of a table and the persistent cache: what is looked up there, and what is put there.
//!
//! As in RocksDB: each block that a read would take from the file by itself, but not what is read
//! ahead of it; neither the metaindex nor the properties, by which a table gets its keys. A block
//! goes there after its checksum was compared, if the read compares it, and unless the read keeps
//! nothing (`fill_cache`).
//!
//! Thread safety: as the table. Suspends where the cache reads a file. Not here: the cache itself
//! (`persistent_cache`).

use std::sync::Arc;

use pumice_cache::CacheKey;

use crate::handle::{BlockHandle, BlockKind};
use crate::options::TableOptions;
use crate::persistent_cache::PersistentCache;
use crate::read::file::TableFile;

/// The blocks of a table in a persistent cache.
pub(crate) struct PersistentBlocks {
    pub cache: Arc<PersistentCache>,
    /// As in the block cache: `Table::cache_key`.
    pub base: [u64; 2],
}

impl PersistentBlocks {
    /// Those of a table whose blocks have keys that begin with `base`, if there is a cache.
    pub fn of(options: &TableOptions, base: Option<[u64; 2]>) -> Option<Box<Self>> {
        let cache = Arc::clone(options.persistent_cache.as_ref()?);
        Some(Box::new(PersistentBlocks { cache, base: base? }))
    }

    fn key(&self, handle: BlockHandle) -> CacheKey {
        CacheKey(self.base[0], self.base[1] ^ handle.offset)
    }
}

impl TableFile {
    /// Fills `stored` with the block, trailer included, if the cache has it and it is good. One
    /// that is not is forgotten.
    #[cold]
    pub(super) fn find_persistent(
        &self,
        handle: BlockHandle,
        kind: BlockKind,
        verify: bool,
        stored: &mut [u8],
    ) -> bool {
        let Some(blocks) = &self.persistent else { return false };
        let key = blocks.key(handle);
        let found = blocks.cache.lookup(&key, stored);
        if let Some(stats) = &self.stats {
            stats.persistent(found);
        }
        if found && self.check(handle, kind, verify, stored).is_err() {
            // A read that compared nothing put it there.
            blocks.cache.erase(&key);
            return false;
        }
        found
    }

    /// Puts a block that was read from the file into the cache, if there is one.
    pub(super) fn keep_persistent(&self, handle: BlockHandle, stored: &[u8]) {
        if let Some(blocks) = &self.persistent {
            blocks.cache.insert(blocks.key(handle), stored);
        }
    }
}
