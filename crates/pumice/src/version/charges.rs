//! Memory of a column family outside of its block cache that is charged to it
//! (`cache_usage_options`): the metadata of its files, and the values in its blob cache. Tables
//! charge theirs themselves.
//!
//! Thread safety: all functions from anywhere. Invariant: a file of a version that a database has
//! is charged once, for as long as its metadata lives.

use std::ops::Deref;
use std::sync::Arc;

use pumice_base::Result;
use pumice_cache::{CacheKey, ChargedRole, Handle, Priority, UsageCharge};
use pumice_manifest::Version;
use pumice_port::lane::at_normal_priority;
use pumice_table::{BlockCache, CachedBlock, TableOptions, over_memory_limit};

use crate::options::ColumnFamilyOptions;

/// Charges the metadata of the files of `version` that are not charged yet, if the options say so.
///
/// # Errors
/// Aborted with subcode MemoryLimit, in RocksDB's words, if a strict cache has no room; what was
/// charged is until its metadata is dropped.
pub(crate) fn charge_metadata(options: &TableOptions, version: &Version) -> Result<()> {
    let role = ChargedRole::FileMetadata;
    let Some(cache) = options.charged_cache(role) else { return Ok(()) };
    version.all_files().try_for_each(|(_, file)| {
        file.charge.try_fill(|| {
            let why = "exceeding the memory limit based on cache capacity";
            cache.try_reserve(role, file.memory_bytes()).map_err(|_| over_memory_limit(role, why))
        })
    })
}

/// The cache of values of blob files, and its charge to the block cache if there is one.
#[derive(Clone)]
pub(crate) struct BlobCache {
    cache: Arc<BlockCache>,
    charge: Option<Arc<UsageCharge<CachedBlock>>>,
}

impl BlobCache {
    /// That of a column family; None without a cache.
    pub fn new(options: &ColumnFamilyOptions, table: &TableOptions) -> Option<Self> {
        let cache = Arc::clone(options.blob_cache.as_ref()?);
        let charge =
            table.charged_cache(ChargedRole::BlobCache).map(|blocks| cache.charge_usage_to(blocks));
        Some(BlobCache { cache, charge })
    }

    /// Puts a value in, which is charged `charge` bytes.
    ///
    /// # Errors
    /// As [`BlockCache::insert`].
    pub fn keep(
        &self,
        at: CacheKey,
        value: CachedBlock,
        charge: usize,
    ) -> Result<Handle<CachedBlock>> {
        let kept = self.cache.insert(at, value, charge, Priority::Bottom);
        if let Some(charge) = &self.charge {
            at_normal_priority(|| charge.refresh());
        }
        kept
    }
}

impl Deref for BlobCache {
    type Target = BlockCache;
    fn deref(&self) -> &BlockCache {
        &self.cache
    }
}
