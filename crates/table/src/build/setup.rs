//! Builds the parts of a builder from the settings of a table: checks, properties known in advance,
//! components.
//!
//! Pure functions.

use pumice_base::hash::hash64;
use pumice_base::narrow::low_u32;
use pumice_base::{Comparator, Error, Result};
use pumice_compress::CompressionType;

use crate::build::context::TableBuildContext;
use crate::data_block_hash::DataBlockHash;
use crate::options::DataBlockIndexType;
use crate::properties::{self, TableProperties};
use crate::trie;

/// Refuses settings that contradict each other or cannot be written.
pub(crate) fn check_settings(context: &TableBuildContext) -> Result<()> {
    // A database refuses `block_align` with a codec. Here it is not an error: the options of a
    // table are read one after another while other threads may change them.
    context.table.validate_for_building()?;
    if context.table.user_defined_index_factory.is_some() {
        check_trie(&context.comparator.user, context.compression_opts.parallel_threads)?;
    }
    Ok(())
}

/// Refuses a trie index in RocksDB's words.
fn check_trie(order: &Comparator, compressing: u32) -> Result<()> {
    if compressing > 1 {
        let why = "user_defined_index_factory not supported with parallel compression";
        return Err(Error::invalid_argument(why));
    }
    trie::check_order(order)
}

/// Sets codec and parameters to those of the table's blocks.
pub(crate) fn settle_codec(context: &mut TableBuildContext) {
    if let Some(manager) = context.compression_manager {
        (context.compression, context.compression_opts) =
            manager.base(context.compression, &context.compression_opts);
    }
    if context.compression_opts.max_compressed_bytes_per_kb <= 0 {
        // No block gets that small. RocksDB also makes such tables without a codec.
        context.compression = CompressionType::None;
    }
}

/// What was configured for the compression. As in RocksDB 11.8, where `_type` is there without a
/// manager too.
fn compression_options(context: &TableBuildContext) -> String {
    let mut text = context.compression_opts.property_text();
    if let Some(manager) = context.compression_manager {
        let (kind, name) = (context.compression as u8, manager.name_in_tables());
        text += &format!("_type={kind}; _compression_manager={name}; ");
    }
    text
}

/// The writer of hash indexes, if they are configured and the comparator allows them.
pub(crate) fn data_block_hash(context: &TableBuildContext) -> Option<DataBlockHash> {
    let options = &context.table;
    if options.data_block_index_type != DataBlockIndexType::BinaryAndHash
        || matches!(context.comparator.user, Comparator::Custom(_))
    {
        return None;
    }
    let interval = options.block_restart_interval.max(1);
    Some(DataBlockHash::new(interval as usize, options.data_block_hash_table_util_ratio))
}

/// A nonzero base for the context checksums that differs between files.
pub(crate) fn base_context(context: &TableBuildContext) -> u32 {
    let origin =
        format!("{}\0{}\0{}", context.db_id, context.db_session_id, context.original_file_number);
    low_u32(hash64(origin.as_bytes())) | 1
}

/// Facts known before the first entry.
pub(crate) fn initial_properties(context: &TableBuildContext) -> TableProperties {
    let options = &context.table;
    let or_null = |name: Option<String>| name.unwrap_or_else(|| "nullptr".to_string());
    let extractor = context.prefix_extractor.as_ref();
    let mut properties = TableProperties {
        column_family_id: u64::from(context.column_family_id),
        column_family_name: context.column_family_name.clone(),
        comparator: context
            .stripped_of
            .clone()
            .unwrap_or_else(|| context.comparator.user.name().to_string()),
        user_timestamps_persisted: u64::from(context.stripped_of.is_none()),
        compression_options: compression_options(context),
        creation_time: context.oldest_ancestor_time,
        oldest_key_time: context.oldest_key_time,
        newest_key_time: context.newest_key_time,
        file_creation_time: context.file_creation_time,
        original_file_number: context.original_file_number,
        db_id: context.db_id.clone(),
        db_session_id: context.db_session_id.clone(),
        db_host_id: context.db_host_id.clone(),
        filter_policy: options.filter_policy.map_or(String::new(), |p| p.name().to_string()),
        format_version: u64::from(options.format_version),
        merge_operator: or_null(context.merge_operator_name.clone()),
        prefix_extractor: or_null(extractor.map(|e| e.name())),
        udi_is_primary_index: options.use_udi_as_primary_index.into(),
        property_collectors: format!("[{}]", context.property_collectors.join(",")),
        ..Default::default()
    };
    if options.separate_key_value_in_data_block {
        // RocksDB finds restart points by counting, and so has to know the interval.
        properties.data_block_restart_interval = options.block_restart_interval.max(1).into();
        properties.index_block_restart_interval =
            options.index_block_restart_interval.max(1).into();
        properties.separate_key_value_in_data_block = 1;
    }
    let flag: fn(bool) -> &'static [u8] = |on| if on { b"1" } else { b"0" };
    properties.collect(properties::INDEX_TYPE, &(options.index_type as u32).to_le_bytes());
    properties.collect(properties::WHOLE_KEY_FILTERING, flag(options.whole_key_filtering));
    properties.collect(properties::PREFIX_FILTERING, flag(extractor.is_some()));
    for (name, value) in &context.user_collected {
        properties.collect(name, value);
    }
    properties
}
