//! Embedded blobs: values that are apart from their entries, in records of the same table, as
//! RocksDB's `SstFileWriter::OpenWithEmbeddedBlobs` writes them. They are read, not written.
//!
//! ```text
//! record: value ‖ u8 compression (none) ‖ fixed32 checksum
//! ```
//!
//! A record has the form of a block, its checksum too. An entry has an index ([`BlobIndex`]) in the
//! place of its value, and so has a column of an entity. Who holds an entry need not know the table
//! that it is of: so an index is given the table's number when its block is read. Everything else
//! treats it as one into a blob file. The blocks of such a table are cached for this open table
//! alone, since the same file may have other numbers in other databases.
//!
//! Thread safety: shared; each call is independent. Suspends where a record is read.

use std::borrow::Cow;

use pumice_base::wide_columns::{self, StoredColumn, WideColumn};
use pumice_base::{Error, InternalKey, Result, ValueType};
use pumice_compress::CompressionType;

use crate::blob::index::BlobIndex;
use crate::build::block_builder::MetaBlockBuilder;
use crate::handle::{BlockHandle, BlockKind};
use crate::read::block::{Block, Expanded, KeyForm};
use crate::read::cursor::BlockCursor;
use crate::read::table::Table;

/// Entries from one restart point of a rebuilt block to the next.
const RESTART_INTERVAL: u32 = 16;
/// The largest block that can be decoded.
const BLOCK_BYTES_MAX: usize = u32::MAX as usize;

impl Table {
    /// Values of the table are in records of their own.
    pub fn has_embedded_blobs(&self) -> bool {
        self.embeds
    }

    /// The value that `index` of an entry of this table refers to. With `verify` its checksum is
    /// compared.
    ///
    /// # Errors
    /// Corruption, naming file and offset; I/O errors.
    pub fn embedded_blob(&self, index: &BlobIndex, verify: bool) -> Result<Vec<u8>> {
        let handle = BlockHandle::new(index.offset, index.size);
        if !self.embeds || index.compression != CompressionType::None {
            let what = match self.embeds {
                true => "compressed embedded blob",
                false => "same-file blob index in a table without embedded blobs",
            };
            return Err(self.file.bad_block(handle, BlockKind::Blob, what));
        }
        self.file.read(handle, BlockKind::Blob, verify)
    }

    /// A data block that was read, with the number of this table in its indexes.
    pub(crate) fn name_indexes(&self, block: Block, handle: BlockHandle) -> Result<Block> {
        let (mut named, mut is_named) =
            (MetaBlockBuilder::new(RESTART_INTERVAL, BLOCK_BYTES_MAX), false);
        let mut keys = Expanded::new(&block);
        let bad = |what: &str| self.file.bad_block(handle, BlockKind::Data, what);
        let mut cursor = BlockCursor::default();
        cursor.seek_to_first(&block);
        while cursor.valid() {
            keys.add(cursor.key()).map_err(bad)?;
            let value = self.named_value(InternalKey::new(cursor.key()), cursor.value(&block));
            let value = value.map_err(|error| bad(error.message()))?;
            is_named |= matches!(value, Cow::Owned(_));
            named.add(cursor.key(), &value);
            cursor.next(&block);
        }
        if cursor.damaged() {
            return Err(bad("malformed entry"));
        }
        if !is_named {
            return Ok(block);
        }
        Block::decode(named.finish("a data block")?, KeyForm::Internal).map_err(bad)
    }

    /// The value of an entry with this table's number where it is, or has, an index.
    fn named_value<'v>(&self, key: InternalKey<'_>, value: &'v [u8]) -> Result<Cow<'v, [u8]>> {
        let tag = key.tag();
        if tag == ValueType::BlobIndex as u8 {
            let named = BlobIndex::name_table(value, self.file_number)?;
            return Ok(named.map_or(Cow::Borrowed(value), Cow::Owned));
        }
        if tag != ValueType::WideColumnEntity as u8 || !wide_columns::has_blobs(value) {
            return Ok(Cow::Borrowed(value));
        }
        let columns = wide_columns::decode_stored(value)?;
        let name = |stored: &StoredColumn<'_>| match stored.in_blob_file {
            true => BlobIndex::name_table(stored.column.value, self.file_number),
            false => Ok(None),
        };
        let named = columns.iter().map(name).collect::<Result<Vec<_>>>()?;
        if named.iter().all(Option::is_none) {
            return Ok(Cow::Borrowed(value));
        }
        let columns = columns.iter().zip(&named).map(|(stored, named)| StoredColumn {
            column: WideColumn::new(
                stored.column.name,
                named.as_deref().unwrap_or(stored.column.value),
            ),
            in_blob_file: stored.in_blob_file,
        });
        wide_columns::encode_stored(&columns.collect::<Vec<_>>()).map(Cow::Owned)
    }

    /// Reads the values that the entries of a block have in records of this table, and compares
    /// their checksums.
    pub(crate) fn verify_embedded(&self, block: &Block, handle: BlockHandle) -> Result<()> {
        let in_block = |error: Error| self.file.bad_block(handle, BlockKind::Data, error.message());
        let verify = |index: &[u8]| {
            let index = BlobIndex::decode(index).map_err(in_block)?;
            if index.in_table { self.embedded_blob(&index, true).map(drop) } else { Ok(()) }
        };
        let mut cursor = BlockCursor::default();
        cursor.seek_to_first(block);
        while cursor.valid() {
            let (tag, value) = (InternalKey::new(cursor.key()).tag(), cursor.value(block));
            if tag == ValueType::BlobIndex as u8 {
                verify(value)?;
            } else if tag == ValueType::WideColumnEntity as u8 && wide_columns::has_blobs(value) {
                let columns = wide_columns::decode_stored(value).map_err(in_block)?;
                let mut blobs = columns.iter().filter(|stored| stored.in_blob_file);
                blobs.try_for_each(|stored| verify(stored.column.value))?;
            }
            cursor.next(block);
        }
        Ok(())
    }
}
