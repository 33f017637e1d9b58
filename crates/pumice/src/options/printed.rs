//! Options as RocksDB prints them into its info log, where programs look for them.
//!
//! Options of tables stand one in a line, in RocksDB's form: booleans and names as numbers,
//! fractions with six digits. What the machine and the build can do stands there too.
//!
//! Thread safety: plain functions. Not here: OPTIONS files, whose form is another one.

use std::fmt::Write;

use super::BlockBasedTableOptions;
use super::other_tables::TableFactory;
use super::row::OptionSet;
use crate::options::ColumnFamilyOptions;

/// Options whose values are names in texts and numbers in the log: the names from 0 on.
const NUMBERED: &[(&str, &[&str])] = &[
    ("encoding_type", &["kPlain", "kPrefix"]),
    ("checksum", &["kNoChecksum", "kCRC32c", "kxxHash", "kxxHash64", "kXXH3"]),
    ("data_block_index_type", &["kDataBlockBinarySearch", "kDataBlockBinaryAndHash"]),
    (
        "index_shortening",
        &["kNoShortening", "kShortenSeparators", "kShortenSeparatorsAndSuccessor"],
    ),
    (
        "index_type",
        &["kBinarySearch", "kHashSearch", "kTwoLevelIndexSearch", "kBinarySearchWithFirstKey"],
    ),
    ("prepopulate_block_cache", &["kDisable", "kFlushOnly", "kFlushAndCompaction"]),
];

/// Codecs, as RocksDB names them there, and whether this build has them.
const CODECS: &[(&str, bool)] = &[
    ("kZSTD", cfg!(feature = "zstd")),
    ("kXpressCompression", false),
    ("kBZip2Compression", true),
    ("kZSTDNotFinalCompression", cfg!(feature = "zstd")),
    ("kLZ4Compression", cfg!(feature = "lz4")),
    ("kZlibCompression", true),
    ("kLZ4HCCompression", cfg!(feature = "lz4")),
    ("kSnappyCompression", true),
];

/// The options of tables, a line each.
pub(crate) fn table_options(options: &BlockBasedTableOptions) -> String {
    match &options.format {
        TableFactory::BlockBased => lines(options),
        TableFactory::Plain(plain) => lines(plain),
        TableFactory::Cuckoo(cuckoo) => lines(cuckoo),
    }
}

fn lines<S: OptionSet>(options: &S) -> String {
    let mut text = String::new();
    for row in S::rows() {
        let value = printed(row.name, &row.get(options));
        writeln!(text, "  {}: {value}", row.name).expect("a string takes all");
    }
    text
}

/// The collectors of table properties, in one line.
pub(crate) fn collectors(options: &ColumnFamilyOptions) -> String {
    let factories = options.table_properties_collector_factories.iter();
    factories.map(|factory| factory.description() + "; ").collect()
}

/// What the machine and the build can do, a line each.
pub(crate) fn abilities() -> String {
    let mut text = "Compression algorithms supported:\n".to_string();
    for (name, has) in CODECS {
        writeln!(text, "\t{name} supported: {}", u8::from(*has)).expect("a string takes all");
    }
    // RocksDB tells what its build was told; the instruction is looked for at run time here.
    text.push_str("Fast CRC32 supported: Not supported on x86\nJemalloc supported: 0");
    text
}

fn printed(name: &str, value: &str) -> String {
    if let Some((_, names)) = NUMBERED.iter().find(|(option, _)| *option == name)
        && let Some(number) = names.iter().position(|known| *known == value)
    {
        return number.to_string();
    }
    match value {
        "true" => "1".to_string(),
        "false" => "0".to_string(),
        _ if value.contains('.') && value.parse::<f64>().is_ok() => {
            value.parse::<f64>().map_or_else(|_| value.to_string(), |value| format!("{value:.6}"))
        }
        _ => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[pumice_test_macros::test]
    fn tables_are_printed_as_rocksdb_prints_them() {
        let text = table_options(&BlockBasedTableOptions::default());
        for line in [
            "  cache_index_and_filter_blocks: 0\n",
            "  cache_index_and_filter_blocks_with_high_priority: 1\n",
            "  data_block_index_type: 0\n",
            "  data_block_hash_table_util_ratio: 0.750000\n",
            "  index_block_restart_interval: 1\n",
        ] {
            assert!(text.contains(line), "{line}{text}");
        }
        assert_eq!(text.lines().count(), BlockBasedTableOptions::rows().len());
    }

    /// A name that is new in an option is given its number here.
    #[pumice_test_macros::test]
    fn every_name_has_its_number() {
        for row in BlockBasedTableOptions::rows() {
            let value = printed(row.name, &row.get(&BlockBasedTableOptions::default()));
            assert!(!value.starts_with('k'), "{}: {value}", row.name);
        }
    }
}
