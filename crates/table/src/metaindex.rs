//! The metaindex: names and handles of the blocks that are not data
//! (docs/format/table.md#metaindex).
//!
//! Names are persisted. Those that are not needed to read entries (hash-index aids, other
//! user-defined indexes, obsolete filters) are skipped.

use crate::handle::{BlockHandle, BlockKind, decode_handle};
use crate::read::block::{Block, Expanded, KeyForm};
use crate::read::cursor::BlockCursor;

/// Name of the properties block.
pub(crate) const PROPERTIES: &str = "rocksdb.properties";
/// Name of the index block, format version 6 and up.
pub(crate) const INDEX: &str = "rocksdb.index";
/// Name of the range-deletion block.
pub(crate) const RANGE_DELETIONS: &str = "rocksdb.range_del";
/// Name of the compression dictionary.
pub(crate) const DICTIONARY: &str = "rocksdb.compression_dict";
/// Name of a full filter of either kind.
pub(crate) const FULL_FILTER: &str = "fullfilter.rocksdb.BuiltinBloomFilter";
/// Name of the top level of a partitioned filter.
pub(crate) const PARTITIONED_FILTER: &str = "partitionedfilter.rocksdb.BuiltinBloomFilter";
/// Prefixes of a hash index.
pub(crate) const HASH_INDEX_PREFIXES: &str = "rocksdb.hashindex.prefixes";
/// Where their keys lie.
pub(crate) const HASH_INDEX_METADATA: &str = "rocksdb.hashindex.metadata";

/// A trie index.
pub(crate) const TRIE_INDEX: &str = "rocksdb.user_defined_index.trie_index";

/// The handles that a reader uses.
#[derive(Debug, Default)]
pub(crate) struct MetaIndex {
    pub properties: Option<BlockHandle>,
    pub index: Option<BlockHandle>,
    pub range_deletions: Option<BlockHandle>,
    pub dictionary: Option<BlockHandle>,
    /// Handle, and whether it is partitioned.
    pub filter: Option<(BlockHandle, bool)>,
    pub trie: Option<BlockHandle>,
}

impl MetaIndex {
    /// Decodes the handles that a reader uses.
    pub fn decode(contents: Vec<u8>) -> Result<MetaIndex, &'static str> {
        let mut meta = MetaIndex::default();
        for (name, handle) in Self::decode_all(contents)? {
            match name.as_str() {
                PROPERTIES => meta.properties = Some(handle),
                INDEX => meta.index = Some(handle),
                RANGE_DELETIONS => meta.range_deletions = Some(handle),
                DICTIONARY => meta.dictionary = Some(handle),
                FULL_FILTER => meta.filter = Some((handle, false)),
                PARTITIONED_FILTER => meta.filter = Some((handle, true)),
                TRIE_INDEX => meta.trie = Some(handle),
                _ => {}
            }
        }
        Ok(meta)
    }

    /// Every name and handle.
    pub fn decode_all(contents: Vec<u8>) -> Result<Vec<(String, BlockHandle)>, &'static str> {
        let block = Block::decode(contents, KeyForm::Raw)?;
        let mut handles = Vec::new();
        let mut names = Expanded::new(&block);
        let mut cursor = BlockCursor::default();
        cursor.seek_to_first(&block);
        while cursor.valid() {
            names.add(cursor.key())?;
            let handle = decode_handle(cursor.value(&block)).ok_or("malformed block handle")?;
            handles.push((String::from_utf8_lossy(cursor.key()).into_owned(), handle));
            cursor.next(&block);
        }
        if cursor.damaged() { Err("malformed entry") } else { Ok(handles) }
    }

    /// The kind of the block of that name.
    pub fn kind_of(name: &str) -> BlockKind {
        match name {
            PROPERTIES => BlockKind::Properties,
            RANGE_DELETIONS => BlockKind::RangeDeletion,
            DICTIONARY => BlockKind::Dictionary,
            FULL_FILTER => BlockKind::Filter,
            PARTITIONED_FILTER => BlockKind::FilterIndex,
            // Also hash-index aids and indexes of users: they may be compressed like an index.
            _ => BlockKind::Index,
        }
    }
}
