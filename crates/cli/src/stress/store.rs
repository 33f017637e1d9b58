//! The database under test: three column families, options drawn at random at each open, and those
//! that the parent gives.
//!
//! One family is compacted by level or universally, drawn at each open; one universally; the third
//! by FIFO, whose limit is so high that nothing is deleted: its files are only merged. The options
//! that decide what tables look like are drawn for each open, so that files of many kinds exist
//! together. Whether, and how fast, files are deleted at a rate is drawn too.

use super::expected::FAMILIES;
use super::sets::Setting;
use super::values::COUNTERS;
use pumice::options::{BlockBasedTableOptions, OptionSet};
use pumice::{
    ColumnFamily, ColumnFamilyDescriptor, Db, Options, RateLimiter, RateLimiterOptions, Result,
    SstFileManager, SstFileManagerOptions,
};
use pumice_base::random::Rng;
use std::path::Path;
use std::sync::Arc;

const NAMES: [&str; FAMILIES] = ["default", "counters", "fifo"];
/// The family that is compacted by FIFO.
const FIFO: usize = 2;

/// Options, each with the values of which one is drawn at each open.
const CHOICES: &[(&str, &[&str])] = &[
    ("write_buffer_size", &["65536", "262144", "1048576"]),
    ("max_write_buffer_number", &["2", "3", "5"]),
    ("min_write_buffer_number_to_merge", &["1", "2"]),
    ("atomic_flush", &["false", "false", "true"]),
    ("target_file_size_base", &["65536", "262144"]),
    ("max_bytes_for_level_base", &["262144", "1048576"]),
    ("level_compaction_dynamic_level_bytes", &["true", "false"]),
    ("level0_file_num_compaction_trigger", &["2", "4"]),
    ("max_background_jobs", &["2", "4"]),
    ("max_subcompactions", &["1", "3"]),
    ("allow_concurrent_memtable_write", &["true", "false"]),
    ("max_open_files", &["-1", "20"]),
    ("compression", &["kNoCompression", "kLZ4Compression", "kZSTD", "kZSTD", "kSnappyCompression"]),
    ("compression_opts.parallel_threads", &["1", "1", "2", "3", "4", "5", "8", "9", "16"]),
    ("compression_opts.max_dict_bytes", &["0", "0", "4096", "16384"]),
    ("compression_opts.zstd_max_train_bytes", &["0", "65536"]),
    ("compression_opts.max_dict_buffer_bytes", &["0", "20000"]),
    ("compression_opts.use_zstd_dict_trainer", &["true", "false"]),
    ("prefix_extractor", &["nullptr", "fixed:4", "capped:8", "fixed:11", "fixed:12"]),
    ("memtable_prefix_bloom_size_ratio", &["0", "0.1"]),
    ("memtable_whole_key_filtering", &["false", "true"]),
];

/// The kind of index that needs a prefix extractor.
const HASH: &str = "kHashSearch";

/// The same for the options of tables.
const TABLE_CHOICES: &[(&str, &[&str])] = &[
    ("format_version", &["5", "6", "7"]),
    ("block_size", &["512", "4096"]),
    (
        "filter_policy",
        &["bloomfilter:10:false", "bloomfilter:10:false", "ribbonfilter:10:0", "nullptr"],
    ),
    ("whole_key_filtering", &["true", "true", "false"]),
    (
        "index_type",
        &[
            "kBinarySearch",
            "kTwoLevelIndexSearch",
            "kTwoLevelIndexSearch",
            "kBinarySearchWithFirstKey",
            "kHashSearch",
        ],
    ),
    // Without a partitioned index it is turned off.
    ("partition_filters", &["true", "false"]),
    ("decouple_partitioned_filters", &["false", "true", "true"]),
    ("metadata_block_size", &["256", "1024", "4096"]),
    ("data_block_index_type", &["kDataBlockBinarySearch", "kDataBlockBinaryAndHash"]),
    ("cache_index_and_filter_blocks", &["false", "true"]),
];

/// The open database.
#[derive(Clone)]
pub struct Store {
    /// The database.
    pub db: Db,
    /// The database's families, by the index that `Place` uses.
    pub families: Vec<ColumnFamily>,
}

/// An option that is drawn at each open, or one of its members.
pub fn draws(option: &str) -> bool {
    let names = CHOICES.iter().chain(TABLE_CHOICES).map(|(name, _)| *name);
    names
        .chain(["rate_limiter", "sst_file_manager"])
        .any(|name| name.split('.').next() == Some(option))
}

/// Sets the option, of the database, its families or their tables.
///
/// # Errors
/// The engine's.
pub fn set(options: &mut Options, name: &str, value: &str) -> Result<()> {
    let row = name.split('.').next().unwrap_or_default();
    match BlockBasedTableOptions::row(row) {
        Some(_) => options.cf.table_factory.set(name, value),
        None => options.set(name, value),
    }
}

/// Opens or creates the database with options that `rng` chooses; `given` come after them.
///
/// # Errors
/// The engine's.
pub fn open(path: &Path, rng: &mut Rng, given: &[Setting]) -> Result<Store> {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.create_missing_column_families = true;
    let style = given.iter().find(|(name, _)| name == "compaction_style");
    let mut draw = |values: &[&'static str]| values[rng.uniform(values.len() as u64) as usize];
    for (name, values) in CHOICES {
        options.set(name, draw(values))?;
    }
    for (name, values) in TABLE_CHOICES {
        options.cf.table_factory.set(name, draw(values))?;
    }
    if options.cf.prefix_extractor.is_none() && options.cf.table_factory.get("index_type")? == HASH
    {
        options.set("prefix_extractor", "fixed:4")?;
    }
    for (name, value) in given.iter().filter(|(name, _)| name != "compaction_style") {
        set(&mut options, name, value)?;
    }
    let merges_files = draw(&["true", "true", "false"]);
    let universal = draw(&["true", "false"]);
    let merges = format!(
        "{{size_ratio={};max_size_amplification_percent={};stop_style={};allow_trivial_move={};\
         incremental={};}}",
        draw(&["1", "20", "100"]),
        draw(&["25", "200"]),
        draw(&["kCompactionStopStyleTotalSize", "kCompactionStopStyleSimilarSize"]),
        draw(&["true", "false"]),
        draw(&["true", "false"])
    );
    options.db.sst_file_manager = match draw(&["none", "none", "slow", "fast"]) {
        "slow" => Some(manager(2_000_000)?),
        "fast" => Some(manager(100_000_000)?),
        _ => None,
    };
    if draw(&["none", "none", "tuned"]) == "tuned" {
        let limits = RateLimiterOptions { auto_tuned: true, ..RateLimiterOptions::new(64 << 20) };
        options.db.rate_limiter = Some(Arc::new(RateLimiter::new(&limits)?));
    }
    let families = NAMES.iter().enumerate().map(|(family, name)| {
        let mut family_options = options.cf.clone();
        let operator = if family == COUNTERS { "uint64add" } else { "put" };
        family_options.set("merge_operator", operator)?;
        if family == COUNTERS || (family != FIFO && universal == "true") {
            family_options.set("compaction_style", "kCompactionStyleUniversal")?;
            family_options.set("compaction_options_universal", &merges)?;
        }
        if let Some((name, value)) = style.filter(|_| family == 0) {
            family_options.set(name, value)?;
        }
        if family == FIFO {
            family_options.set("compaction_style", "kCompactionStyleFIFO")?;
            let fifo = format!("{{max_table_files_size=1T;allow_compaction={merges_files};}}");
            family_options.set("compaction_options_fifo", &fifo)?;
            family_options.set("ttl", "0")?;
        }
        Ok(ColumnFamilyDescriptor::new(*name, family_options))
    });
    let families = families.collect::<Result<Vec<_>>>()?;
    let (db, families) = Db::open_cf(&options.db, path, &families)?;
    Ok(Store { db, families })
}

/// Deletes at a rate, large files in many parts, so that a killed process leaves trash.
fn manager(rate_bytes_per_sec: u64) -> Result<Arc<SstFileManager>> {
    let max_trash_db_ratio = SstFileManagerOptions::default().max_trash_db_ratio;
    let bytes_max_delete_chunk = 16 << 10;
    let options =
        SstFileManagerOptions { rate_bytes_per_sec, max_trash_db_ratio, bytes_max_delete_chunk };
    SstFileManager::new(&options).map(Arc::new)
}
