//! Writes a plain table: rows as they come, then what RocksDB needs to find them.
//!
//! Thread safety: one owner.

use pumice_base::coding::{put_varint32, put_varint64};
use pumice_base::key::{InternalKey, ValueType};
use pumice_base::narrow::{len_u32, low_u32};
use pumice_base::{Error, Result};

use crate::Extractor;
use crate::build::context::TableBuildContext;
use crate::footer::OtherFormat;
use crate::formats::{PlainEncoding, PlainFormat};
use crate::plain::bloom::bloom_block;
use crate::plain::index::PlainIndex;
use crate::plain::rows::KeyEncoder;
use crate::plain::{
    BLOOM_BLOCK, BLOOM_BLOCKS, BLOOM_VERSION, ENCODING_TYPE, INDEX_BLOCK, MAX_FILE_BYTES,
    VARIABLE_LENGTH, slice_hash,
};
use crate::properties::TableProperties;
use crate::row_builder::{FileOutput, RowFormat, Rows};

/// The rows of a plain table under construction.
pub(crate) struct PlainTable {
    format: PlainFormat,
    keys: KeyEncoder,
    /// What the file gets besides rows, if it does.
    index: Option<PlainIndex>,
    /// The hash of each row's prefix, or of its user key without an extractor.
    hashes: Vec<u32>,
    row: Vec<u8>,
}

impl PlainTable {
    /// A table without rows.
    pub fn new(format: PlainFormat, context: &TableBuildContext) -> Self {
        let extractor = context.prefix_extractor.as_ref().map(Extractor::new);
        let is_hashed = extractor.is_some();
        let ratio = if is_hashed { format.hash_table_ratio } else { 0.0 };
        let index = || PlainIndex::new(format.index_sparseness, ratio);
        PlainTable {
            keys: KeyEncoder::new(
                format.encoding_type,
                format.user_key_len,
                extractor,
                format.index_sparseness,
            ),
            index: format.store_index_in_file.then(index),
            hashes: Vec::new(),
            row: Vec::new(),
            format,
        }
    }
}

impl RowFormat for PlainTable {
    fn format(&self) -> OtherFormat {
        OtherFormat::Plain
    }

    fn describe(&self, properties: &mut TableProperties) {
        let encoding = self.keys.encoding() as u32;
        properties.fixed_key_len = u64::from(self.format.user_key_len);
        properties.num_data_blocks = 1;
        properties.format_version = u64::from(self.keys.encoding() != PlainEncoding::Plain);
        properties.collect(ENCODING_TYPE, &encoding.to_le_bytes());
        if self.index.is_some() {
            properties.collect(BLOOM_VERSION, b"1");
        }
    }

    fn add(&mut self, out: &mut FileOutput, ikey: &[u8], value: &[u8]) -> Result<()> {
        let key = InternalKey::new(ikey);
        let user = key.user_key().as_bytes();
        let wanted = self.format.user_key_len;
        if wanted != VARIABLE_LENGTH && len_u32(user.len()) != wanted {
            return Err(Error::invalid_argument(format!(
                "user key of {} bytes in a PlainTable with user_key_len {wanted}",
                user.len()
            )));
        }
        let offset = out.len();
        if offset + (ikey.len() + value.len()) as u64 > MAX_FILE_BYTES {
            return Err(Error::not_supported(format!(
                "PlainTable file of more than {MAX_FILE_BYTES} bytes"
            )));
        }
        self.row.clear();
        self.keys.encode(&mut self.row, user, key.trailer());
        put_varint32(&mut self.row, len_u32(value.len()));
        out.append(&self.row)?;
        out.append(value)?;
        if let Some(index) = &mut self.index {
            let prefix = self.keys.prefix(user);
            index.add(prefix, low_u32(offset));
            let hashed = if self.keys.is_hashed() { prefix } else { user };
            self.hashes.push(slice_hash(hashed));
        }
        let properties = out.properties_mut();
        properties.raw_value_size += value.len() as u64;
        let is_merge = key.sequence_and_type().1 == ValueType::Merge as u8;
        properties.num_merge_operands += u64::from(is_merge);
        Ok(())
    }

    fn finish(&mut self, out: &mut FileOutput) -> Result<()> {
        out.end_data();
        let Some(index) = self.index.take().filter(|_| !self.hashes.is_empty()) else {
            return Ok(());
        };
        let bits = self.format.bloom_bits_per_key;
        if bits > 0 {
            let block = bloom_block(&self.hashes, bits);
            let mut lines = Vec::new();
            put_varint64(&mut lines, 0);
            let properties = out.properties_mut();
            properties.collect(BLOOM_BLOCKS, &lines);
            properties.filter_size = block.len() as u64;
            out.add_block(BLOOM_BLOCK, &block)?;
        }
        let block = index.finish()?;
        out.properties_mut().index_size = block.len() as u64;
        out.add_block(INDEX_BLOCK, &block)
    }

    fn rows(&self) -> Option<Rows<'_>> {
        None
    }

    fn estimated_bytes(&self, out: &FileOutput) -> u64 {
        out.len()
    }
}
