//! The options of tables that are not block-based: plain and cuckoo tables.
//!
//! Columns as in `db_options`; names, defaults and texts are RocksDB's. Which format a column
//! family has is in its `table_factory`, whose options of blocks say how tables of every format are
//! read.

use pumice_base::narrow::to_usize;
use pumice_filter::FilterPolicy;
use pumice_table::{CuckooFormat, PlainEncoding, PlainFormat, RowTable};

use super::objects::OptionObject;
use super::row::{OptionSet, option_table};
use super::value::at_least;

option_table! {
    /// Options of plain tables. Every public field has the name of RocksDB's option.
    ///
    /// ```
    /// use pumice::options::{ColumnFamilyOptions, PlainEncoding, PlainTableOptions, TableFactory};
    /// let mut options = ColumnFamilyOptions::default();
    /// options.table_factory.format = TableFactory::Plain(PlainTableOptions {
    ///     hash_table_ratio: 0.0,
    ///     encoding_type: PlainEncoding::Plain,
    ///     ..PlainTableOptions::default()
    /// });
    /// ```
    pub struct PlainTableOptions;
    fields {
        /// Bytes of every user key; 0 for keys of several lengths.
        user_key_len: u32 = 0, mutable, saved
            => "other_formats::what_a_plain_table_cannot_hold_is_refused_in_rocksdbs_words";
        /// Bits of the filter per key or prefix, in memory and in a file that has its index; 0 for
        /// none.
        bloom_bits_per_key: i32 = 10, mutable, saved, at_least(0)
            => "other_formats::random_tables_of_other_formats_read_as_the_map";
        /// Prefixes per bucket of an index in the file. Above 0 the column family needs a
        /// `prefix_extractor`.
        hash_table_ratio: f64 = 0.75, mutable, saved
            => "other_formats::plain_tables_want_their_extractor";
        /// Rows of a prefix per entry of the index, and per key in full with kPrefix.
        index_sparseness: u64 = 16, mutable, saved
            => "other_formats::plain_tables_have_two_owners";
        /// How keys are stored: kPlain or kPrefix, without the prefix of the key before.
        encoding_type: PlainEncoding = PlainEncoding::Plain, mutable, saved
            => "other_formats::plain_tables_have_two_owners";
        /// Tables are opened whatever their prefix extractor is. Seeks and lookups work as always,
        /// which RocksDB refuses.
        full_scan_mode: bool = false, mutable, saved
            => "other_formats::a_full_scan_needs_no_extractor";
        /// Write an index and a filter, for RocksDB: Pumice makes its own when it opens a table.
        store_index_in_file: bool = false, mutable, saved
            => "other_formats::plain_tables_have_two_owners";
    }
    components {}
    hints {
        /// Huge pages for index and filter.
        "huge_page_tlb_size": u64 = "0", mutable, saved;
    }
    unsupported {}
    aliases {}
}

option_table! {
    /// Options of cuckoo tables. Every public field has the name of RocksDB's option.
    ///
    /// ```
    /// use pumice::options::{ColumnFamilyOptions, CuckooTableOptions, TableFactory};
    /// let mut options = ColumnFamilyOptions::default();
    /// let cuckoo = CuckooTableOptions { cuckoo_block_size: 3, ..CuckooTableOptions::default() };
    /// options.table_factory.format = TableFactory::Cuckoo(cuckoo);
    /// assert!(options.get("table_factory").is_ok_and(|text| text.contains("size=3;")));
    /// ```
    pub struct CuckooTableOptions;
    fields {
        /// Rows per bucket.
        hash_table_ratio: f64 = 0.9, mutable, saved
            => "other_formats::what_a_plain_table_cannot_hold_is_refused_in_rocksdbs_words";
        /// How many rows may be moved to make room for one.
        max_search_depth: u32 = 100, mutable, saved
            => "other_formats::cuckoo_tables_have_two_owners";
        /// Buckets in a row that a hash function gives to a key.
        cuckoo_block_size: u32 = 5, mutable, saved
            => "other_formats::cuckoo_tables_have_two_owners";
        /// The first hash of a key is its first eight bytes.
        identity_as_first_hash: bool = false, mutable, saved
            => "other_formats::cuckoo_tables_have_two_owners";
        /// Hashes are taken modulo the number of buckets, which else is a power of two.
        use_module_hash: bool = true, mutable, saved
            => "other_formats::cuckoo_tables_have_two_owners";
    }
    components {}
    hints {}
    unsupported {}
    aliases {}
}

/// The format of new tables; those that there are may have any. The option `table_factory` of
/// RocksDB has its name.
///
/// Example: that of [`PlainTableOptions`].
#[derive(Clone, Debug, PartialEq, Default)]
pub enum TableFactory {
    /// Block-based tables.
    #[default]
    BlockBased,
    /// Plain tables: no checksums, no codecs, no range deletions, no TTL.
    Plain(PlainTableOptions),
    /// Cuckoo tables: as plain ones, and one version per key, all keys and all values of one size,
    /// no merges.
    Cuckoo(CuckooTableOptions),
}

impl TableFactory {
    /// RocksDB's name.
    pub fn name(&self) -> &'static str {
        match self {
            TableFactory::BlockBased => "BlockBasedTable",
            TableFactory::Plain(_) => "PlainTable",
            TableFactory::Cuckoo(_) => "CuckooTable",
        }
    }

    /// The format of that name, with its default options.
    pub fn by_name(name: &str) -> Option<Self> {
        match name {
            "BlockBasedTable" => Some(TableFactory::BlockBased),
            "PlainTable" => Some(TableFactory::Plain(PlainTableOptions::default())),
            "CuckooTable" => Some(TableFactory::Cuckoo(CuckooTableOptions::default())),
            _ => None,
        }
    }

    /// It has blocks.
    pub fn is_block_based(&self) -> bool {
        matches!(self, TableFactory::BlockBased)
    }

    /// What the table layer takes.
    pub(super) fn row_table(&self) -> Option<RowTable> {
        Some(match self {
            TableFactory::BlockBased => return None,
            TableFactory::Plain(plain) => RowTable::Plain(PlainFormat {
                user_key_len: plain.user_key_len,
                bloom_bits_per_key: plain.bloom_bits_per_key.unsigned_abs(),
                hash_table_ratio: plain.hash_table_ratio,
                index_sparseness: to_usize(plain.index_sparseness),
                encoding_type: plain.encoding_type,
                store_index_in_file: plain.store_index_in_file,
                full_scan_mode: plain.full_scan_mode,
            }),
            TableFactory::Cuckoo(cuckoo) => RowTable::Cuckoo(CuckooFormat {
                hash_table_ratio: cuckoo.hash_table_ratio,
                max_search_depth: cuckoo.max_search_depth,
                cuckoo_block_size: cuckoo.cuckoo_block_size,
                identity_as_first_hash: cuckoo.identity_as_first_hash,
                use_module_hash: cuckoo.use_module_hash,
            }),
        })
    }

    /// The filter of its tables, where `blocks` is that of block-based ones.
    pub(super) fn filter(&self, blocks: Option<FilterPolicy>) -> Option<FilterPolicy> {
        match self {
            TableFactory::Plain(plain) if plain.bloom_bits_per_key > 0 => {
                Some(FilterPolicy::bloom(f64::from(plain.bloom_bits_per_key)))
            }
            TableFactory::Plain(_) => None,
            TableFactory::BlockBased | TableFactory::Cuckoo(_) => blocks,
        }
    }
}

impl OptionObject for TableFactory {
    fn same(&self, other: &Self) -> bool {
        self == other
    }
    fn describe(&self) -> String {
        format!("{self:?}")
    }
}

/// `{id=NAME;option=value;..}` with every option that has an effect.
pub(super) fn format_with_id<S: OptionSet>(name: &str, options: &S) -> String {
    let mut out = format!("{{id={name};");
    for row in S::rows().iter().filter(|row| row.is_supported()) {
        out.push_str(&format!("{}={};", row.name, row.get(options)));
    }
    out.push('}');
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::{ColumnFamilyOptions, DbOptions, FileRules};
    use super::super::{format_options_file, parse_options_file};
    use super::*;

    fn family(table: &str) -> ColumnFamilyOptions {
        let mut family = ColumnFamilyOptions::default();
        family.set("table_factory", table).unwrap();
        family
    }

    #[pumice_test_macros::test]
    fn formats_are_in_options_files() {
        let plain = "{id=PlainTable;user_key_len=8;encoding_type=kPrefix;bloom_bits_per_key=3;\
                     hash_table_ratio=0.5;store_index_in_file=true}";
        let cuckoo = "{id=CuckooTable;use_module_hash=false;cuckoo_block_size=2}";
        let families = [family(plain), family(cuckoo), family("PlainTable"), family("{}")];
        let named: Vec<_> = ["default", "b", "c", "d"].into_iter().zip(&families).collect();
        let text = format_options_file(&DbOptions::default(), &named);
        for line in [
            "[TableOptions/PlainTable \"default\"]\n",
            "  table_factory=CuckooTable\n",
            "[TableOptions/CuckooTable \"b\"]\n",
            "  encoding_type=kPrefix\n",
            "  use_module_hash=false\n",
            "[TableOptions/BlockBasedTable \"d\"]\n",
        ] {
            assert!(text.contains(line), "{line}{text}");
        }
        let loaded = parse_options_file(&text, FileRules::default()).unwrap();
        let loaded: Vec<_> = loaded.column_families.iter().map(|cf| &cf.options).collect();
        assert_eq!(loaded, families.iter().collect::<Vec<_>>());
        // The text of an option makes the option.
        for family in &families {
            let mut copy = ColumnFamilyOptions::default();
            copy.set("table_factory", &family.get("table_factory").unwrap()).unwrap();
            assert_eq!(copy.table_factory, family.table_factory);
        }
        let other = text.replace("TableOptions/CuckooTable", "TableOptions/PlainTable");
        assert!(parse_options_file(&other, FileRules::default()).is_err());
    }

    #[pumice_test_macros::test]
    fn members_are_those_of_the_format() {
        let mut plain = family("PlainTable");
        plain.set("plain_table_factory", "{index_sparseness=3}").unwrap();
        plain.set("table_factory.user_key_len", "9").unwrap();
        assert!(plain.set("table_factory", "{block_size=8K}").is_err());
        let TableFactory::Plain(set) = &plain.table_factory.format else { unreachable!() };
        assert_eq!((set.index_sparseness, set.user_key_len), (3, 9));
        // A format begins with its defaults.
        plain.set("table_factory", "PlainTable").unwrap();
        assert_eq!(plain.table_factory, family("PlainTable").table_factory);
        let filter = |family: &ColumnFamilyOptions| family.table_options().unwrap().filter_policy;
        assert_eq!(filter(&plain), Some(FilterPolicy::bloom(10.0)));
        plain.set("table_factory.bloom_bits_per_key", "0").unwrap();
        assert_eq!(filter(&plain), None);
        assert!(plain.set("table_factory.bloom_bits_per_key", "-1").is_err());
    }

    /// Tables without blocks have no ages, and no deletion of a range is made of several.
    #[pumice_test_macros::test]
    fn what_blocks_need_is_off_without_them() {
        let sanitized = family("CuckooTable").sanitized().unwrap();
        let ages = (sanitized.ttl, sanitized.periodic_compaction_seconds);
        assert_eq!((ages, sanitized.min_tombstones_for_range_conversion), ((0, 0), 0));
        // They stay so when other options change.
        sanitized.with_changes(&[("write_buffer_size", "1M")]).unwrap().sanitized().unwrap();
    }
}
