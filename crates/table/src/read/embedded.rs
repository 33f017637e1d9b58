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
//! Records lie between data blocks, wherever the writer was. What is in a data block, or after the
//! first part of the table that is none, is no record, whatever an index says.
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
use crate::read::file::BlockRead;
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
        let bad = |what: &str| Err(self.file.bad_block(handle, BlockKind::Blob, what));
        if !self.embeds {
            return bad("same-file blob index in a table without embedded blobs");
        }
        if index.compression != CompressionType::None {
            return bad("compressed embedded blob");
        }
        if !self.is_between_blocks(handle) {
            return bad("embedded blob where the table has something else");
        }
        let how = BlockRead { verify, keep: false };
        let value = self.file.read(handle, BlockKind::Blob, how)?;
        // A record may say by itself that it is compressed.
        if value.len() as u64 == index.size { Ok(value) } else { bad("compressed embedded blob") }
    }

    /// A record may be there: no data block is, and the rest of the table begins after it.
    fn is_between_blocks(&self, record: BlockHandle) -> bool {
        let blocks = match self.data_blocks.get() {
            Some(blocks) => blocks,
            None => {
                // Not by `get_or_init`: this suspends.
                let (mut blocks, mut damage) = (Vec::new(), Vec::new());
                // Without a part of the index its blocks are not told from records.
                if let Err(error) = self.list_data_blocks(&mut blocks, &mut damage) {
                    damage.push(error);
                }
                self.data_blocks.get_or_init(|| blocks)
            }
        };
        let ends_by = |part: BlockHandle, at: u64| part.end().is_some_and(|end| end <= at);
        let next = blocks.partition_point(|block| block.offset < record.offset);
        let before = next.checked_sub(1).map(|last| blocks[last]);
        let limit = match (blocks.get(next), self.properties.tail_start_offset) {
            (Some(block), _) => block.offset,
            (None, 0) => self.footer.metaindex.offset,
            (None, tail) => tail,
        };
        before.is_none_or(|block| ends_by(block, record.offset)) && ends_by(record, limit)
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
            return self.named_index(value).map(Cow::Owned);
        }
        if tag != ValueType::WideColumnEntity as u8 || !wide_columns::has_blobs(value) {
            return Ok(Cow::Borrowed(value));
        }
        let columns = wide_columns::decode_stored(value)?;
        let name = |stored: &StoredColumn<'_>| {
            stored.in_blob_file.then(|| self.named_index(stored.column.value)).transpose()
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

    /// An index with this table's number: such a table has no blob files.
    fn named_index(&self, index: &[u8]) -> Result<Vec<u8>> {
        let named = BlobIndex::name_table(index, self.file_number)?;
        named.ok_or_else(|| Error::corruption("blob file in a table with embedded blobs"))
    }

    /// Reads the values that the entries of a block have in records of this table, and compares
    /// their checksums.
    pub(crate) fn verify_embedded(&self, block: &Block, handle: BlockHandle) -> Result<()> {
        let in_block = |error: Error| self.file.bad_block(handle, BlockKind::Data, error.message());
        let verify = |index: &[u8]| {
            let index = BlobIndex::decode(index).map_err(in_block)?;
            if !index.in_table {
                return Err(in_block(Error::corruption(
                    "blob file in a table with embedded blobs",
                )));
            }
            self.embedded_blob(&index, true).map(drop)
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
