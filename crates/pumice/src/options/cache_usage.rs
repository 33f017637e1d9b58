//! Which charges to the block cache a column family can have (`cache_usage_options`).
//!
//! The rules and their texts are those of RocksDB's `BlockBasedTableFactory::ValidateOptions`.
//!
//! Thread safety: pure functions.

use std::sync::Arc;

use pumice_base::{Error, Result};
use pumice_cache::ChargedRole;
use pumice_table::Charged;

use super::block_based::{BLOCK_CACHE_BYTES, BlockBasedTableOptions};
use super::cf_options::ColumnFamilyOptions;

/// Refuses to charge what cannot be charged.
///
/// # Errors
/// InvalidArgument.
pub(super) fn check(options: &ColumnFamilyOptions, table: &BlockBasedTableOptions) -> Result<()> {
    let decisions = table.cache_usage_options.decisions().into_iter();
    for (role, _) in decisions.filter(|(_, charged)| *charged == Charged::Enabled) {
        let is_blobs = role == ChargedRole::BlobCache;
        let obstacle = match table.no_block_cache {
            true => Some("block cache is disabled"),
            false if is_blobs => blob_cache_obstacle(options, table),
            false => None,
        };
        if let Some(obstacle) = obstacle {
            return Err(Error::invalid_argument(format!(
                "Enable CacheEntryRoleOptions::charged for CacheEntryRole {} but {obstacle}",
                role.name()
            )));
        }
    }
    Ok(())
}

/// Why the blob cache cannot be charged to the block cache.
fn blob_cache_obstacle(
    options: &ColumnFamilyOptions,
    table: &BlockBasedTableOptions,
) -> Option<&'static str> {
    let Some(blobs) = &options.blob_cache else { return Some("blob cache is not configured") };
    let blocks = table.block_cache.as_ref();
    if blocks.is_some_and(|blocks| Arc::ptr_eq(blocks, blobs)) {
        return Some("blob cache is the same as block cache");
    }
    (blobs.capacity() > blocks.map_or(BLOCK_CACHE_BYTES, |blocks| blocks.capacity()))
        .then_some("blob cache capacity is larger than block cache capacity")
}
