//! The caches that the flags ask for, and what is charged to the block cache.
//!
//! Pure functions, but that of the persistent cache, which makes its directory.

use std::sync::Arc;

use pumice::options::{CacheUsageOptions, Charged, cache_from_text};
use pumice::{
    BlockCache, CacheOptions, FileSystem, PersistentCache, PersistentCacheOptions,
    TieredCacheOptions,
};

use super::engine_options;
use super::flags::Flags;
use super::pumice_engine::text;
use super::secondary_cache::{self, Secondary};

/// The block cache, with its secondary one.
///
/// # Errors
/// A kind of cache that is not known, a number of shards that no cache has, a text that stands for
/// no cache, or a secondary cache that cannot be made.
pub fn block_cache(flags: &Flags) -> Result<Arc<BlockCache>, String> {
    let bytes = usize::try_from(flags.cache_size).unwrap_or(0);
    // As in RocksDB's: without a size there is no cache, whatever the texts say, and one by text
    // has no secondary cache.
    let secondary = if bytes > 0 { secondary_cache::wanted(flags)? } else { None };
    let is_by_text = bytes > 0 && !flags.cache_uri.is_empty();
    let options = if is_by_text { by_text(&flags.cache_uri)? } else { by_flags(flags, bytes)? };
    let simulated = usize::try_from(flags.simcache_size).ok();
    match (secondary.filter(|_| !is_by_text), simulated) {
        (None, None) => Ok(BlockCache::new(options)),
        (None, Some(simulated)) => Ok(BlockCache::simulating(options, simulated)),
        (Some(Secondary::Own(secondary)), None) => {
            BlockCache::with_secondary(options, &secondary).map_err(text)
        }
        (Some(Secondary::Tier(secondary, policy)), None) => {
            let total = bytes.saturating_add(secondary.capacity);
            let tiers = TieredCacheOptions {
                compressed_secondary_ratio: secondary.capacity as f64 / total as f64,
                adm_policy: policy,
                comp_cache_opts: secondary,
            };
            let options = CacheOptions { capacity: total, ..options };
            BlockCache::tiered(options, &tiers).map_err(text)
        }
        (Some(_), Some(_)) => {
            Err("simcache_size with a secondary cache is not supported yet".into())
        }
    }
}

fn by_flags(flags: &Flags, bytes: usize) -> Result<CacheOptions, String> {
    if !matches!(flags.cache_type.as_str(), "hyper_clock_cache" | "lru_cache") {
        return Err(format!("cache_type {} is not supported yet", flags.cache_type));
    }
    // The cache has no shards: any number that RocksDB takes gives the same one.
    engine_options::cache_shard_bits(flags)?;
    Ok(CacheOptions::new(bytes))
}

/// The cache that `--cache_uri` describes, or RocksDB's words.
fn by_text(text: &str) -> Result<CacheOptions, String> {
    let no_cache = |status: &dyn std::fmt::Display| {
        format!("No  cache registered matching string: {text} status={status}")
    };
    cache_from_text(text).map_err(|error| no_cache(&error))?.ok_or_else(|| no_cache(&"OK"))
}

/// The cache of values in blob files, beside the block cache `shared`.
pub fn blob_cache(flags: &Flags, shared: &Arc<BlockCache>) -> Arc<BlockCache> {
    if flags.use_shared_block_and_blob_cache {
        return Arc::clone(shared);
    }
    let bytes = usize::try_from(flags.blob_cache_size).unwrap_or(usize::MAX);
    BlockCache::new(CacheOptions::new(bytes))
}

/// The cache of blocks in files, if the flags ask for one.
///
/// # Errors
/// RocksDB's words, if it cannot be made.
pub fn persistent_cache(
    flags: &Flags,
    fs: &Arc<dyn FileSystem>,
) -> Result<Option<Arc<PersistentCache>>, String> {
    if flags.read_cache_path.as_os_str().is_empty() {
        return Ok(None);
    }
    let bytes = u64::try_from(flags.read_cache_size).unwrap_or(0);
    let options = PersistentCacheOptions {
        enable_direct_reads: flags.read_cache_direct_read,
        ..PersistentCacheOptions::new(&flags.read_cache_path, bytes)
    };
    let cache = PersistentCache::open(Arc::clone(fs), options);
    cache.map(Some).map_err(|error| format!("Error initializing read cache, {error}"))
}

/// What is charged to the block cache besides blocks. RocksDB's flags decide about each role: none
/// is left to the engine's default.
pub fn charges(flags: &Flags) -> CacheUsageOptions {
    let charged = |flag| if flag { Charged::Enabled } else { Charged::Disabled };
    CacheUsageOptions {
        compression_dictionary_building_buffer: charged(
            flags.charge_compression_dictionary_building_buffer,
        ),
        filter_construction: charged(flags.charge_filter_construction),
        block_based_table_reader: charged(flags.charge_table_reader),
        file_metadata: charged(flags.charge_file_metadata),
        blob_cache: charged(flags.charge_blob_cache),
    }
}
