//! Every option of the engine is a flag: those without a row in the flag table are found here by
//! the engine's option rows, under RocksDB's name of the option or the name that db_bench has for
//! it.
//!
//! Thread safety: plain data.

use super::engine_options;
use pumice::options::row::{OptionRow, RowKind};
use pumice::options::{BlockBasedTableOptions, ColumnFamilyOptions, DbOptions, OptionSet};

/// A flag that is an option.
#[derive(Clone, Debug)]
pub struct OptionFlag {
    /// The option's name.
    pub option: &'static str,
    /// The option is one of the block-based table.
    pub is_table: bool,
    /// The flag may stand without a value.
    pub is_switch: bool,
    /// Pumice keeps the value and does nothing with it.
    pub is_hint: bool,
    /// The default, as text.
    pub default: String,
    /// Name of the type.
    pub kind: &'static str,
    /// Meaning.
    pub doc: &'static str,
}

/// An option that the command line gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenOption {
    /// The option's name.
    pub option: &'static str,
    /// The option is one of the block-based table.
    pub is_table: bool,
    /// The text that was given.
    pub value: String,
}

/// Flags of db_bench whose option has another name.
const RENAMED: &[(&str, &str)] = &[
    ("file_opening_threads", "max_file_opening_threads"),
    ("memtable_verify_per_key_checksum_on_seek", "memtable_veirfy_per_key_checksum_on_seek"),
    ("mmap_read", "allow_mmap_reads"),
    ("mmap_write", "allow_mmap_writes"),
    ("wal_size_limit_MB", "WAL_size_limit_MB"),
    ("wal_ttl_seconds", "WAL_ttl_seconds"),
];

/// The option that flag `name` sets.
pub fn find(name: &str) -> Option<OptionFlag> {
    let option = RENAMED.iter().find(|(flag, _)| *flag == name).map_or(name, |(_, option)| option);
    let db = DbOptions::row(option).map(|row| flag(row, &DbOptions::default(), false));
    let family = || {
        let row = ColumnFamilyOptions::row(option)?;
        Some(flag(row, &ColumnFamilyOptions::default(), false))
    };
    let table = || {
        let row = BlockBasedTableOptions::row(option)?;
        Some(flag(row, &BlockBasedTableOptions::default(), true))
    };
    db.or_else(family).or_else(table)
}

/// All of them, with the names of their flags.
pub fn all() -> Vec<(&'static str, OptionFlag)> {
    let mut names: Vec<&'static str> = DbOptions::rows().iter().map(|row| row.name).collect();
    names.extend(ColumnFamilyOptions::rows().iter().map(|row| row.name));
    names.extend(BlockBasedTableOptions::rows().iter().map(|row| row.name));
    let flag_of = |option: &'static str| {
        RENAMED.iter().find(|(_, name)| *name == option).map_or(option, |(flag, _)| *flag)
    };
    names.into_iter().filter_map(|name| Some((flag_of(name), find(name)?))).collect()
}

/// The engine's word for a value that db_bench spells in its own way.
pub fn engine_word(option: &str, text: String) -> String {
    let word = match (option, text.as_str()) {
        ("blob_compression_type", codec) => engine_options::codec(codec).ok(),
        ("prepopulate_blob_cache", "0") => Some("kDisable"),
        ("prepopulate_blob_cache", "1") => Some("kFlushOnly"),
        _ => None,
    };
    // The engine refuses what it does not know.
    word.map_or(text, str::to_string)
}

/// The value that an option of column families has by what was `given`, as the engine writes it.
///
/// # Panics
/// There is no such option.
pub fn family_option(given: &[GivenOption], name: &str) -> String {
    let row = ColumnFamilyOptions::row(name).expect("an option of column families");
    let mut options = ColumnFamilyOptions::default();
    for option in given.iter().filter(|option| option.option == name) {
        // A wrong value is refused when the database is opened.
        options.set(name, &option.value).ok();
    }
    row.get(&options)
}

fn flag<S: OptionSet>(row: &'static OptionRow<S>, defaults: &S, is_table: bool) -> OptionFlag {
    let default = row.get(defaults);
    OptionFlag {
        option: row.name,
        is_table,
        is_switch: matches!(default.as_str(), "true" | "false"),
        is_hint: matches!(row.kind, RowKind::Hint { .. }),
        default,
        kind: row.type_name,
        doc: row.doc,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[pumice_test_macros::test]
    fn options_are_found_by_both_names() {
        let flag = find("mmap_read").unwrap();
        assert_eq!((flag.option, flag.is_switch, flag.is_table), ("allow_mmap_reads", true, false));
        assert_eq!(find("allow_mmap_reads").unwrap().option, "allow_mmap_reads");
        assert!(find("max_auto_readahead_size").unwrap().is_table);
        assert!(find("use_adaptive_mutex").unwrap().is_hint);
        assert!(find("no_such_option").is_none());
        let all = all();
        assert!(all.len() > 150, "{}", all.len());
        assert!(RENAMED.iter().all(|(name, _)| all.iter().any(|(flag, _)| flag == name)));
    }
}
