//! Block handles and the names of block kinds.
//!
//! A handle is `varint64 offset ‖ varint64 size`; `size` excludes the five trailer bytes
//! (compression type, checksum) that follow every block (docs/format/table.md#blocks).

use pumice_base::coding::{Decoder, put_varint64};

/// Bytes after every block: compression type and checksum. Persisted.
pub const BLOCK_TRAILER_LEN: usize = 5;

/// The position of a block in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct BlockHandle {
    /// File offset of the first payload byte.
    pub offset: u64,
    /// Payload bytes, without the trailer.
    pub size: u64,
}

impl BlockHandle {
    /// Longest encoding.
    pub const MAX_ENCODED_LEN: usize = 20;

    /// A handle.
    pub fn new(offset: u64, size: u64) -> Self {
        BlockHandle { offset, size }
    }

    /// Appends the encoding.
    pub fn encode_to(&self, dst: &mut Vec<u8>) {
        put_varint64(dst, self.offset);
        put_varint64(dst, self.size);
    }

    /// Takes a handle off `src`.
    pub fn decode(src: &mut Decoder<'_>) -> Option<Self> {
        Some(BlockHandle { offset: src.varint64()?, size: src.varint64()? })
    }

    /// Offset of the byte after the trailer, `None` on overflow.
    pub fn end(&self) -> Option<u64> {
        self.offset.checked_add(self.size)?.checked_add(BLOCK_TRAILER_LEN as u64)
    }
}

/// A handle stored as a value.
pub(crate) fn decode_handle(value: &[u8]) -> Option<BlockHandle> {
    let mut src = Decoder::new(value);
    let handle = BlockHandle::decode(&mut src)?;
    (handle.size <= u64::MAX - BLOCK_TRAILER_LEN as u64).then_some(handle)
}

/// What a block holds; the unit of cache statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlockKind {
    /// Entries of the table.
    Data,
    /// Index or index partition.
    Index,
    /// Filter or filter partition.
    Filter,
    /// Top level of a partitioned filter.
    FilterIndex,
    /// Compression dictionary.
    Dictionary,
    /// Range tombstones.
    RangeDeletion,
    /// Table properties.
    Properties,
    /// Names and handles of the meta blocks.
    MetaIndex,
    /// A value in a record of the table; or one of a blob file, in the cache.
    Blob,
    /// No block: a note in the block cache that one was found in the secondary cache.
    Dummy,
}

impl BlockKind {
    /// The kind as named in error messages.
    pub fn name(self) -> &'static str {
        match self {
            BlockKind::Data => "data",
            BlockKind::Index => "index",
            BlockKind::Filter => "filter",
            BlockKind::FilterIndex => "filter index",
            BlockKind::Dictionary => "compression dictionary",
            BlockKind::RangeDeletion => "range deletion",
            BlockKind::Properties => "properties",
            BlockKind::MetaIndex => "metaindex",
            BlockKind::Blob => "blob",
            BlockKind::Dummy => "dummy",
        }
    }
}
