//! Plain tables, a format of RocksDB for data that is in memory (docs/format/plain.md).
//!
//! ```text
//! row* ‖ bloom block ‖ index block ‖ properties ‖ metaindex ‖ footer
//! row: key ‖ varint32 bytes of the value ‖ value
//! ```
//!
//! | part | is |
//! |---|---|
//! | `rows` | decodes rows and encodes their keys |
//! | `read` | the rows of a table, for `translated` |
//! | `build` | writes a table |
//! | `index` | the index block: a hash of prefixes, for RocksDB's lookups |
//! | `bloom` | the bloom block, as above |
//!
//! Tables are read through an index and a filter of our own, so index and bloom block, which a
//! table may be without, are written but not read.
//!
//! Thread safety: see each module.

mod bloom;
mod build;
mod index;
mod read;
mod rows;

use pumice_base::hash::hash32;
use pumice_base::{Error, Result};

use crate::formats::PlainFormat;
use crate::read::context::TableReadContext;

pub(crate) use build::PlainTable;
pub(crate) use read::translate;

/// Name of the property with the encoding (fixed32).
const ENCODING_TYPE: &str = "rocksdb.plain.table.encoding.type";
/// Name of the property of tables with an index block ("1").
const BLOOM_VERSION: &str = "rocksdb.plain.table.bloom.version";
/// Name of the property with the lines of the bloom block (varint32), 0 if it has none.
const BLOOM_BLOCKS: &str = "rocksdb.plain.table.bloom.numblocks";
/// Name of the index block in the metaindex.
const INDEX_BLOCK: &str = "PlainTableIndexBlock";
/// Name of the bloom block in the metaindex.
const BLOOM_BLOCK: &str = "kBloomBlock";
/// The user keys of a table have several lengths: `user_key_len` and the property of that.
const VARIABLE_LENGTH: u32 = 0;
/// Offsets in an index have 31 bits.
const MAX_FILE_BYTES: u64 = (1 << 31) - 1;

/// The hash of a key or prefix in index and bloom block.
fn slice_hash(bytes: &[u8]) -> u32 {
    hash32(bytes, 397)
}

/// Refuses what RocksDB refuses when it opens a table with `format` in the options and `named` as
/// the extractor of prefixes in the properties.
fn check_extractor(context: &TableReadContext, format: &PlainFormat, named: &str) -> Result<()> {
    let configured = context.prefix_extractor.as_ref();
    if format.full_scan_mode {
        return Ok(());
    }
    if !named.is_empty() && named != "nullptr" {
        match configured {
            None => {
                return Err(Error::invalid_argument(
                    "Prefix extractor is missing when opening a PlainTable built using a prefix \
                     extractor",
                ));
            }
            Some(extractor) if extractor.name() != named => {
                return Err(Error::invalid_argument(
                    "Prefix extractor given doesn't match the one used to build PlainTable",
                ));
            }
            Some(_) => {}
        }
    }
    if configured.is_none() && format.hash_table_ratio != 0.0 {
        return Err(Error::not_supported(
            "PlainTable requires a prefix extractor enable prefix hash mode.",
        ));
    }
    Ok(())
}
