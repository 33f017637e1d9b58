//! The database under test: two column families, options drawn by lot at each open.

use super::expected::FAMILIES;
use super::values::COUNTERS;
use pumice::{ColumnFamily, ColumnFamilyDescriptor, Db, Options, Result};
use pumice_base::random::Rng;
use std::path::Path;

const NAMES: [&str; FAMILIES] = ["default", "counters"];

/// Options and the values that one of is drawn from at each open.
const CHOICES: &[(&str, &[&str])] = &[
    ("write_buffer_size", &["65536", "262144", "1048576"]),
    ("max_write_buffer_number", &["2", "3", "5"]),
    ("min_write_buffer_number_to_merge", &["1", "2"]),
    ("target_file_size_base", &["65536", "262144"]),
    ("max_bytes_for_level_base", &["262144", "1048576"]),
    ("level_compaction_dynamic_level_bytes", &["true", "false"]),
    ("level0_file_num_compaction_trigger", &["2", "4"]),
    ("max_background_jobs", &["2", "4"]),
    ("max_subcompactions", &["1", "3"]),
    ("allow_concurrent_memtable_write", &["true", "false"]),
    ("max_open_files", &["-1", "20"]),
    ("compression", &["kNoCompression", "kLZ4Compression", "kZSTD", "kSnappyCompression"]),
];

/// The open database.
#[derive(Clone)]
pub struct Store {
    /// The database.
    pub db: Db,
    /// Its families, by the index that `Place` uses.
    pub families: Vec<ColumnFamily>,
}

/// Opens or creates the database with options that `rng` chooses.
///
/// # Errors
/// The engine's.
pub fn open(path: &Path, rng: &mut Rng) -> Result<Store> {
    let mut options = Options::default();
    options.db.create_if_missing = true;
    options.db.create_missing_column_families = true;
    for (name, values) in CHOICES {
        let value = values[rng.uniform(values.len() as u64) as usize];
        options.set(name, value)?;
    }
    let formats = ["5", "6", "7"];
    options.cf.table_factory.set("format_version", formats[rng.uniform(3) as usize])?;
    options.cf.table_factory.set("block_size", ["512", "4096"][rng.uniform(2) as usize])?;
    options.cf.table_factory.set("filter_policy", "bloomfilter:10:false")?;
    let families = NAMES.iter().enumerate().map(|(family, name)| {
        let mut family_options = options.cf.clone();
        let operator = if family == COUNTERS { "uint64add" } else { "put" };
        family_options.set("merge_operator", operator)?;
        Ok(ColumnFamilyDescriptor::new(*name, family_options))
    });
    let families = families.collect::<Result<Vec<_>>>()?;
    let (db, families) = Db::open_cf(&options.db, path, &families)?;
    Ok(Store { db, families })
}
