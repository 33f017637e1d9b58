//! Settings of tables that are not block-based.
//!
//! Field names are RocksDB's option names (`PlainTableOptions`, `CuckooTableOptions`). Plain data.

/// How a plain table stores keys. Persisted: never renumber.
///
/// Example: that of [`RowTable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum PlainEncoding {
    /// As they are.
    #[default]
    Plain = 0,
    /// Without the prefix that they have in common with the key before.
    Prefix = 1,
}

/// Settings of plain tables: `PlainTableOptions` of RocksDB.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlainFormat {
    /// Bytes of every user key; 0 for keys of several lengths.
    pub user_key_len: u32,
    /// Bits of the filter per key, or per prefix; 0 for none.
    pub bloom_bits_per_key: u32,
    /// Prefixes per bucket of an index in the file; 0 for one bucket of all rows.
    pub hash_table_ratio: f64,
    /// Rows of a prefix per entry of the index, and per full key with `PlainEncoding::Prefix`.
    pub index_sparseness: usize,
    /// How keys are stored.
    pub encoding_type: PlainEncoding,
    /// Write an index and a bloom block.
    pub store_index_in_file: bool,
    /// Tables are only read from their first row to the last: neither the extractor of prefixes nor
    /// the hash table matters.
    pub full_scan_mode: bool,
}

/// Settings of cuckoo tables: `CuckooTableOptions` of RocksDB.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CuckooFormat {
    /// Rows per bucket.
    pub hash_table_ratio: f64,
    /// How many rows may be moved for one.
    pub max_search_depth: u32,
    /// Buckets in a row that a hash function gives to a key.
    pub cuckoo_block_size: u32,
    /// The first eight bytes of a user key are its first hash.
    pub identity_as_first_hash: bool,
    /// Hashes are taken modulo the number of buckets; else that is a power of two.
    pub use_module_hash: bool,
}

/// A format of tables that have rows and no blocks.
///
/// ```
/// use pumice_table::{PlainEncoding, PlainFormat, RowTable, TableOptions};
/// let plain = PlainFormat {
///     user_key_len: 0,
///     bloom_bits_per_key: 10,
///     hash_table_ratio: 0.75,
///     index_sparseness: 16,
///     encoding_type: PlainEncoding::Prefix,
///     store_index_in_file: false,
///     full_scan_mode: false,
/// };
/// let row_table = Some(RowTable::Plain(plain));
/// let options = TableOptions { row_table, ..TableOptions::default() };
/// assert_ne!(options.row_table, TableOptions::default().row_table);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RowTable {
    /// Plain tables.
    Plain(PlainFormat),
    /// Cuckoo tables.
    Cuckoo(CuckooFormat),
}
