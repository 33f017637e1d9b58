//! What a tracer of the block cache is told of each use of a block.
//!
//! Thread safety: a tracer is called from any thread, at most once per block and use. Nothing here
//! reads files.

use pumice_base::UserKey;
use pumice_base::key::InternalKey;

use crate::handle::BlockKind;
use crate::read::block::GlobalSeqno;
use crate::read::cached_block::CachedBlock;
use crate::read::cursor::BlockCursor;

/// Receiver of the uses of blocks that go through the cache.
pub trait BlockTracer: Send + Sync {
    /// Whether it is to be told.
    fn is_on(&self) -> bool;
    /// A block was found in the cache, or read because it was not there.
    fn accessed(&self, access: &BlockAccess<'_>);
}

/// A use of a block.
pub struct BlockAccess<'a> {
    /// What the block holds.
    pub kind: BlockKind,
    /// Its key in the cache.
    pub key: [u64; 2],
    /// What it is charged there.
    pub bytes: usize,
    /// The level of its table.
    pub level: usize,
    /// The file of its table.
    pub file_number: u64,
    /// It was in the cache.
    pub hit: bool,
    /// It is not put there.
    pub no_insert: bool,
    pub(crate) block: &'a CachedBlock,
}

/// What a data block has of a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockEntries {
    /// Entries of the block.
    pub count: u64,
    /// Bytes of the key's newest entry, its key and its value; None if it has none.
    pub found_bytes: Option<u64>,
    /// The internal key of that entry.
    pub found: Vec<u8>,
}

impl BlockAccess<'_> {
    /// Counts the entries of a data block, and looks for those of `user_key`: a walk over all of
    /// it, which only a trace is worth.
    pub fn entries(&self, user_key: &[u8]) -> BlockEntries {
        let mut entries = BlockEntries::default();
        if self.kind != BlockKind::Data {
            return entries;
        }
        let block = &self.block.block;
        let mut cursor = BlockCursor::new(GlobalSeqno::new(None));
        cursor.seek_to_first(block);
        while cursor.valid() {
            entries.count += 1;
            let key = cursor.key();
            let found = InternalKey::checked(key).map(InternalKey::user_key);
            let is_it = found.is_some_and(|found| found.has_bytes_of(UserKey::new(user_key)));
            if is_it && entries.found_bytes.is_none() {
                let bytes = key.len() + cursor.value(block).len();
                entries.found_bytes = Some(bytes as u64);
                entries.found = key.to_vec();
            }
            cursor.next(block);
        }
        entries
    }
}
