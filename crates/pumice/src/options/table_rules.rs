//! The rules between options of tables, those of a format and those of a column family.
//!
//! The rules and their texts are RocksDB's. Thread safety: pure functions.

use pumice_base::{Error, Result};
use pumice_compress::CompressionType;
use pumice_table::{DataBlockIndexType, IndexType};

use super::block_based::BlockBasedTableOptions;
use super::cf_options::{ColumnFamilyOptions, UNSET_SECONDS};
use super::other_tables::TableFactory;
use super::row::check_all;

/// Refuses what tables without blocks cannot do, in RocksDB's words.
pub(super) fn check_format(options: &ColumnFamilyOptions) -> Result<()> {
    match &options.table_factory.format {
        TableFactory::BlockBased => return Ok(()),
        TableFactory::Plain(plain) => check_all(plain)?,
        TableFactory::Cuckoo(cuckoo) => check_all(cuckoo)?,
    }
    if options.ttl > 0 && options.ttl != UNSET_SECONDS {
        let why = "TTL is only supported in Block-Based Table format. ";
        return Err(Error::not_supported(why));
    }
    let periodic = options.periodic_compaction_seconds;
    if periodic > 0 && periodic != UNSET_SECONDS {
        let why = "Periodic Compaction is only supported in Block-Based Table format. ";
        return Err(Error::not_supported(why));
    }
    Ok(())
}

/// The rules between options of tables, in RocksDB's order and words.
pub(super) fn check_table(
    options: &ColumnFamilyOptions,
    table: &BlockBasedTableOptions,
) -> Result<()> {
    let refuse = |why: &str| Err(Error::invalid_argument(why));
    if table.index_type == IndexType::HashSearch && options.prefix_extractor.is_none() {
        return refuse(
            "Hash index is specified for block-based table, but prefix_extractor is not given",
        );
    }
    if table.no_block_cache && table.cache_index_and_filter_blocks {
        return refuse("Enable cache_index_and_filter_blocks, , but block cache is disabled");
    }
    if table.no_block_cache && table.pin_l0_filter_and_index_blocks_in_cache {
        return refuse(
            "Enable pin_l0_filter_and_index_blocks_in_cache, , but block cache is disabled",
        );
    }
    if table.no_block_cache && table.block_cache.is_some() {
        return refuse("no_block_cache is set, but block_cache is not empty");
    }
    if table.block_align {
        let always = options.compression_manager.is_some_and(|m| m.always_compresses());
        let packs = |kind: &CompressionType| always || kind.is_codec();
        if packs(&options.compression) {
            return refuse("Enable block_align, but compression enabled");
        }
        if packs(&options.bottommost_compression) {
            return refuse("Enable block_align, but bottommost_compression enabled");
        }
        if options.compression_per_level.iter().any(packs) {
            return refuse("Enable block_align, but compression_per_level enabled");
        }
    }
    if table.data_block_index_type == DataBlockIndexType::BinaryAndHash
        && table.data_block_hash_table_util_ratio <= 0.0
    {
        return refuse(
            "data_block_hash_table_util_ratio should be greater than 0 when \
             data_block_index_type is set to kDataBlockBinaryAndHash",
        );
    }
    table.check_user_defined_index(options)
}
