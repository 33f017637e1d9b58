//! What a trie is made of: a separator, a tag and a handle per data block, in block order.
//!
//! One owner. Separators are user keys and ascend; equal ones are next to each other.

use pumice_base::Comparator;
use pumice_base::key::{InternalKey, UserKey};
use pumice_base::narrow::len_u32;

use crate::handle::BlockHandle;
use crate::trie::{Block, DEPTH_MAX};

/// A separator as prepared where the block is made.
#[derive(Debug, Default)]
pub(crate) struct TrieEntry {
    separator: Vec<u8>,
    /// The trailer of the block's last key.
    trailer: u64,
    /// The next block begins with another user key.
    parts_keys: bool,
}

impl TrieEntry {
    /// The separator of a block that ends with internal key `last`; `next` begins the next one.
    /// The shortest one, however the other index shortens its own; the last one is a key.
    pub fn prepare(&mut self, last: &[u8], next: Option<&[u8]>) {
        let last = InternalKey::new(last);
        let next = next.map(|next| InternalKey::new(next).user_key().as_bytes());
        self.trailer = last.trailer();
        self.separator.clear();
        self.separator.extend_from_slice(last.user_key().as_bytes());
        self.parts_keys = next.is_some_and(|next| next != self.separator);
        match next {
            Some(next) if self.parts_keys => {
                Comparator::Bytewise
                    .find_shortest_separator(&mut self.separator, UserKey::new(next));
            }
            // The form has no trie of nothing but the empty key. Where no block follows, any key
            // from the last one on will do.
            None if self.separator.is_empty() => self.separator.push(0),
            _ => {}
        }
    }
}

/// The separators of the blocks so far.
#[derive(Debug, Default)]
pub(crate) struct TrieEntries {
    bytes: Vec<u8>,
    /// Where each different separator ends, and its first block.
    keys: Vec<(usize, u32)>,
    blocks: Vec<Block>,
    /// A block lies where no trie can say, or a separator is longer than readers take.
    beyond: bool,
}

impl TrieEntries {
    /// Adds the block at `handle`.
    pub fn push(&mut self, entry: &TrieEntry, handle: BlockHandle) {
        let is_new = self.keys.is_empty() || self.key(self.keys.len() - 1) != entry.separator;
        if is_new {
            self.bytes.extend_from_slice(&entry.separator);
            self.keys.push((self.bytes.len(), len_u32(self.blocks.len())));
        }
        let narrow = |n: u64| u32::try_from(n).unwrap_or(u32::MAX);
        let (offset, size) = (narrow(handle.offset), narrow(handle.size));
        self.beyond |= BlockHandle::new(offset.into(), size.into()) != handle
            || entry.separator.len() > DEPTH_MAX as usize;
        let tag = if is_new && entry.parts_keys { 0 } else { entry.trailer };
        self.blocks.push(Block { offset, size, tag });
    }

    /// The block of the index; None if the table or one of its keys is too large for one.
    pub fn finish(&self) -> Option<Vec<u8>> {
        (!self.beyond).then(|| super::encode::encode(self))
    }

    /// Number of different separators.
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Separator `i`.
    pub(super) fn key(&self, i: usize) -> &[u8] {
        let from = i.checked_sub(1).map_or(0, |before| self.keys[before].0);
        &self.bytes[from..self.keys[i].0]
    }

    /// The blocks with separator `i`.
    pub(super) fn blocks(&self, i: usize) -> &[Block] {
        let end = self.keys.get(i + 1).map_or(self.blocks.len(), |next| next.1 as usize);
        &self.blocks[self.keys[i].1 as usize..end]
    }
}
