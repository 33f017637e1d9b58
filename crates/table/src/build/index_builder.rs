//! Builds a binary-search index (format spec section 2.4).
//!
//! One entry per data block: a separator in `[last key of the block, first key of the next)` and
//! the block's handle. Separators are collected as internal keys in one arena and encoded at the
//! end, because only then is it known whether user keys suffice: they do if no user key spans two
//! blocks anywhere in the file.
//!
//! Handles are delta-encoded where the entry shares a key prefix with its predecessor; this needs
//! blocks without padding between them.

use pumice_base::InternalKeyComparator;
use pumice_base::coding::{put_varint32, put_varint64, put_varsigned64};
use pumice_base::dbformat::{TRAILER_LEN, user_key};

use crate::handle::BlockHandle;
use crate::options::IndexShortening;
use crate::prefix::common_prefix;

/// Collects index entries and encodes the index block.
#[derive(Debug)]
pub(crate) struct IndexBuilder {
    comparator: InternalKeyComparator,
    shortening: IndexShortening,
    restart_interval: u32,
    delta_handles: bool,
    user_key_allowed: bool,
    needs_sequences: bool,
    keys: Vec<u8>,
    key_ends: Vec<usize>,
    handles: Vec<BlockHandle>,
    scratch: Vec<u8>,
}

/// How the index of a file is to be encoded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IndexForm {
    /// How far separators are shortened.
    pub shortening: IndexShortening,
    /// Entries per restart point.
    pub restart_interval: u32,
    /// Handles are delta-encoded (format version 4 and up, no padding).
    pub delta_handles: bool,
    /// User keys may be stored (format version 3 and up).
    pub user_key_allowed: bool,
}

impl IndexBuilder {
    /// An empty index.
    pub fn new(comparator: InternalKeyComparator, form: IndexForm) -> Self {
        IndexBuilder {
            comparator,
            shortening: form.shortening,
            restart_interval: form.restart_interval.max(1),
            delta_handles: form.delta_handles,
            user_key_allowed: form.user_key_allowed,
            needs_sequences: false,
            keys: Vec::new(),
            key_ends: Vec::new(),
            handles: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// Adds the block at `handle` that ends with `last_key`; `next_key` begins the next block.
    pub fn add(&mut self, last_key: &[u8], next_key: Option<&[u8]>, handle: BlockHandle) {
        self.scratch.clear();
        self.scratch.extend_from_slice(last_key);
        match next_key {
            Some(next) => {
                if self.comparator.user.equal(user_key(last_key), user_key(next)) {
                    self.needs_sequences = true;
                } else if self.shortening != IndexShortening::None {
                    self.comparator.find_shortest_separator(&mut self.scratch, next);
                }
            }
            None if self.shortening == IndexShortening::SeparatorsAndSuccessor => {
                self.shorten_successor(last_key);
            }
            None => {}
        }
        self.keys.extend_from_slice(&self.scratch);
        self.key_ends.push(self.keys.len());
        self.handles.push(handle);
    }

    fn shorten_successor(&mut self, last_key: &[u8]) {
        let mut user = user_key(last_key).to_vec();
        self.comparator.user.find_short_successor(&mut user);
        let last = user_key(last_key);
        if user.len() <= last.len() && self.comparator.user.compare(last, &user).is_lt() {
            use pumice_base::dbformat::{MAX_SEQUENCE, VALUE_TYPE_FOR_SEEK, append_internal_key};
            self.scratch.clear();
            append_internal_key(&mut self.scratch, &user, MAX_SEQUENCE, VALUE_TYPE_FOR_SEEK);
        }
    }

    /// The block will hold user keys, not internal keys.
    pub fn stores_user_keys(&self) -> bool {
        self.user_key_allowed && !self.needs_sequences
    }

    /// Handles are delta-encoded.
    pub fn delta_handles(&self) -> bool {
        self.delta_handles
    }

    /// Rough size of the block so far.
    pub fn estimated_bytes(&self) -> usize {
        self.keys.len() + 8 * self.handles.len() + 8
    }

    /// The index block.
    pub fn finish(&self) -> Vec<u8> {
        let trim = if self.stores_user_keys() { TRAILER_LEN } else { 0 };
        let mut block = Vec::with_capacity(self.estimated_bytes() + 8 * self.handles.len());
        let mut restarts = vec![0u32];
        let mut previous: &[u8] = &[];
        let mut previous_handle = BlockHandle::default();
        let mut start = 0;
        for (i, (&end, handle)) in self.key_ends.iter().zip(&self.handles).enumerate() {
            let key = &self.keys[start..end - trim];
            start = end;
            let mut shared = 0;
            if i % self.restart_interval as usize != 0 {
                shared = common_prefix(previous, key);
            } else if i > 0 {
                restarts.push(block.len() as u32);
            }
            put_varint32(&mut block, shared as u32);
            put_varint32(&mut block, (key.len() - shared) as u32);
            if self.delta_handles {
                block.extend_from_slice(&key[shared..]);
                if shared == 0 {
                    handle.encode_to(&mut block);
                } else {
                    let delta = handle.size as i64 - previous_handle.size as i64;
                    put_varsigned64(&mut block, delta);
                }
            } else {
                let len = varint_pair_len(handle);
                put_varint32(&mut block, len as u32);
                block.extend_from_slice(&key[shared..]);
                put_varint64(&mut block, handle.offset);
                put_varint64(&mut block, handle.size);
            }
            previous = key;
            previous_handle = *handle;
        }
        for restart in &restarts {
            block.extend_from_slice(&restart.to_le_bytes());
        }
        block.extend_from_slice(&(restarts.len() as u32).to_le_bytes());
        block
    }
}

fn varint_pair_len(handle: &BlockHandle) -> usize {
    use pumice_base::coding::varint_len;
    varint_len(handle.offset) + varint_len(handle.size)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use pumice_base::ValueType;
    use pumice_base::dbformat::internal_key;

    fn form(restart_interval: u32) -> IndexForm {
        IndexForm {
            shortening: IndexShortening::Separators,
            restart_interval,
            delta_handles: true,
            user_key_allowed: true,
        }
    }

    fn key(text: &str, seq: u64) -> Vec<u8> {
        internal_key(text.as_bytes(), seq, ValueType::Value)
    }

    /// The documented delta-encoded index of four blocks.
    #[pumice_test_macros::test]
    fn encodes_the_documented_example() {
        let mut builder = IndexBuilder::new(InternalKeyComparator::default(), form(4));
        let ends = ["key000005", "key000011", "key000017", "key000023"];
        let sizes = [262u64, 263, 262, 263];
        let mut offset = 0;
        for (end, size) in ends.iter().zip(sizes) {
            let last = key(end, 1);
            let next = key(&format!("{end}0"), 1);
            builder.add(&last, Some(&next), BlockHandle::new(offset, size));
            offset += size + 5;
        }
        let mut want = b"\x00\x09key000005\x00\x86\x02".to_vec();
        want.extend(b"\x07\x0211\x02");
        want.extend(b"\x08\x017\x01");
        want.extend(b"\x07\x0223\x02");
        want.extend([0, 0, 0, 0, 1, 0, 0, 0]);
        assert!(builder.stores_user_keys());
        assert_eq!(builder.finish(), want);
    }

    #[pumice_test_macros::test]
    fn a_user_key_in_two_blocks_needs_sequences() {
        let mut builder = IndexBuilder::new(InternalKeyComparator::default(), form(1));
        builder.add(&key("a", 9), Some(&key("a", 3)), BlockHandle::new(0, 10));
        builder.add(&key("a", 1), None, BlockHandle::new(15, 10));
        assert!(!builder.stores_user_keys());
        let block = builder.finish();
        assert_eq!(&block[..2], &[0, 9]);
        assert_eq!(&block[2..11], key("a", 9));
    }
}
