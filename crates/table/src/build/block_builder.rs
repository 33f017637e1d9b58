//! Encodes entry blocks: data, range-deletion, properties, metaindex (format spec section 2.3).
//!
//! ```text
//! entry*  ‖ fixed32 restart offset* ‖ fixed32 num_restarts
//! entry = varint shared ‖ varint non_shared ‖ varint value_len ‖ key suffix ‖ value
//! ```
//!
//! [`BlockBuilder`] knows no keys: the caller says how much of a key is shared with the one
//! before, which the builder of data blocks knows from the order check. [`MetaBlockBuilder`] keeps
//! the last key for those that know nothing. Buffers are reused: after the first few blocks nothing
//! is allocated. Invariants: (1) `restarts` is never empty; (2) the block so far is the first `len`
//! bytes of `buf`, the room behind them is already initialised, so that an entry is copied into a
//! slice of known length.
//!
//! Index blocks have another entry form; see `index_builder`.

use crate::prefix::{common_prefix, copy_short};

/// Longest entry header: three 5-byte varints.
const MAX_HEADER_LEN: usize = 15;
/// Most that one entry adds to a block besides its key and value: header and restart point.
pub(crate) const MAX_ENTRY_OVERHEAD: usize = MAX_HEADER_LEN + 4;

/// Builds one block after another.
#[derive(Debug)]
pub(crate) struct BlockBuilder {
    buf: Vec<u8>,
    len: usize,
    restarts: Vec<u32>,
    /// Entries before the next restart point.
    until_restart: u32,
    restart_interval: u32,
    /// All ones where keys share prefixes, 0 where they are stored whole.
    share_mask: usize,
}

impl BlockBuilder {
    /// A builder with a restart point every `restart_interval` entries; `delta_keys` off stores
    /// every key whole.
    pub fn new(restart_interval: u32, delta_keys: bool) -> Self {
        BlockBuilder {
            buf: Vec::new(),
            len: 0,
            restarts: vec![0],
            until_restart: 0,
            restart_interval: restart_interval.max(1),
            share_mask: if delta_keys { usize::MAX } else { 0 },
        }
    }

    /// No entry since the last `reset`.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of the block if it were finished now.
    #[inline]
    pub fn estimated_bytes(&self) -> usize {
        self.len + 4 * self.restarts.len() + 4
    }

    /// RocksDB's guess of the block's size after one more entry (`EstimateSizeAfterKV`): the whole
    /// key is counted. Kept equal so that blocks end at the same keys.
    #[inline]
    pub fn estimated_bytes_after(&self, key_len: usize, value_len: usize) -> usize {
        let restart = if self.until_restart == 0 && !self.is_empty() { 4 } else { 0 };
        self.estimated_bytes()
            + key_len
            + value_len
            + restart
            + 4
            + pumice_base::coding::varint_len(key_len as u64)
            + pumice_base::coding::varint_len(value_len as u64)
    }

    /// Appends an entry whose key has `common` leading bytes of the key before it.
    #[inline(always)]
    pub fn append(&mut self, key: &[u8], value: &[u8], common: usize) {
        let mut shared = common & self.share_mask;
        if self.until_restart == 0 {
            self.restart();
            shared = 0;
        }
        self.until_restart -= 1;
        let suffix = &key[shared..];
        let end = self.len + MAX_HEADER_LEN + suffix.len() + value.len();
        if end > self.buf.len() {
            self.grow(end);
        }
        let room = &mut self.buf[self.len..end];
        let header = if (shared | suffix.len() | value.len()) < 0x80 {
            let (header, _) = room.split_at_mut(3);
            header.copy_from_slice(&[shared as u8, suffix.len() as u8, value.len() as u8]);
            3
        } else {
            put_header(room, [shared, suffix.len(), value.len()])
        };
        let (suffix_to, room) = room[header..].split_at_mut(suffix.len());
        copy_short(suffix_to, suffix);
        room[..value.len()].copy_from_slice(value);
        self.len += header + suffix.len() + value.len();
    }

    /// Makes room for a block of `end` bytes.
    #[cold]
    fn grow(&mut self, end: usize) {
        self.buf.resize((end + end / 4).max(1024), 0);
    }

    /// The next entry is a restart point.
    #[cold]
    fn restart(&mut self) {
        if !self.is_empty() {
            self.restarts.push(self.len as u32);
        }
        self.until_restart = self.restart_interval;
    }

    /// Appends the restart array and returns the block; `reset` before the next entry. The caller
    /// may exchange the block for another vector.
    pub fn finish(&mut self) -> &mut Vec<u8> {
        self.buf.truncate(self.len);
        self.buf.reserve(4 * self.restarts.len() + 4 + crate::handle::BLOCK_TRAILER_LEN);
        for restart in &self.restarts {
            self.buf.extend_from_slice(&restart.to_le_bytes());
        }
        self.buf.extend_from_slice(&(self.restarts.len() as u32).to_le_bytes());
        &mut self.buf
    }

    /// Starts the next block. The room is that of the block before, whose bytes may be anything.
    pub fn reset(&mut self) {
        self.len = 0;
        self.buf.resize(self.buf.capacity(), 0);
        self.restarts.clear();
        self.restarts.push(0);
        self.until_restart = 0;
    }
}

/// Puts the three lengths at the start of `room` and says how many bytes they take.
#[cold]
fn put_header(room: &mut [u8], lengths: [usize; 3]) -> usize {
    let mut at = 0;
    for length in lengths {
        let mut rest = length as u32;
        while rest >= 0x80 {
            room[at] = rest as u8 | 0x80;
            rest >>= 7;
            at += 1;
        }
        room[at] = rest as u8;
        at += 1;
    }
    at
}

/// A [`BlockBuilder`] that remembers the last key.
#[derive(Debug)]
pub(crate) struct MetaBlockBuilder {
    block: BlockBuilder,
    last_key: Vec<u8>,
}

impl MetaBlockBuilder {
    /// A builder with a restart point every `restart_interval` entries.
    pub fn new(restart_interval: u32) -> Self {
        MetaBlockBuilder { block: BlockBuilder::new(restart_interval, true), last_key: Vec::new() }
    }

    /// Appends an entry whose key sorts after the last one.
    pub fn add(&mut self, key: &[u8], value: &[u8]) {
        let common = common_prefix(&self.last_key, key);
        self.block.append(key, value, common);
        self.last_key.truncate(common);
        self.last_key.extend_from_slice(&key[common..]);
    }

    /// The block.
    pub fn finish(mut self) -> Vec<u8> {
        std::mem::take(self.block.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The documented block with one entry, and the documented empty block.
    #[pumice_test_macros::test]
    fn encodes_the_documented_examples() {
        let mut builder = BlockBuilder::new(16, true);
        builder.append(&[0x7a, 0x01, 0x0b, 0, 0, 0, 0, 0, 0], b"26", 0);
        let want = [0, 9, 2, 0x7a, 1, 0x0b, 0, 0, 0, 0, 0, 0, 0x32, 0x36, 0, 0, 0, 0, 1, 0, 0, 0];
        assert_eq!(builder.estimated_bytes(), want.len());
        assert_eq!(builder.finish(), &want);
        builder.reset();
        assert_eq!(builder.finish(), &[0, 0, 0, 0, 1, 0, 0, 0]);
    }

    #[pumice_test_macros::test]
    fn restart_points_store_whole_keys() {
        let mut builder = MetaBlockBuilder::new(2);
        for key in [&b"aaa1"[..], b"aaa2", b"aaa3"] {
            builder.add(key, b"");
        }
        let block = builder.finish();
        assert_eq!(&block[..3], &[0, 4, 0]);
        assert_eq!(&block[7..11], &[3, 1, 0, b'2']);
        assert_eq!(&block[11..18], b"\x00\x04\x00aaa3");
        assert_eq!(&block[18..], &[0, 0, 0, 0, 11, 0, 0, 0, 2, 0, 0, 0]);
    }

    #[pumice_test_macros::test]
    fn long_values_use_varint_headers() {
        let mut builder = BlockBuilder::new(16, false);
        let value = vec![7u8; 300];
        builder.append(b"k", &value, 0);
        builder.append(b"k2", &value, 1);
        let block = builder.finish();
        assert_eq!(&block[..5], &[0, 1, 0xac, 0x02, b'k']);
        assert_eq!(&block[305..311], &[0, 2, 0xac, 0x02, b'k', b'2']);
    }

    /// The guess counts the whole key, and a restart point where the next entry makes one.
    #[pumice_test_macros::test]
    fn the_guess_counts_the_whole_key() {
        let mut builder = BlockBuilder::new(2, true);
        builder.append(b"key1", b"v", 0);
        let now = builder.estimated_bytes();
        assert_eq!(builder.estimated_bytes_after(4, 1), now + 4 + 1 + 4 + 1 + 1);
        builder.append(b"key2", b"v", 3);
        let now = builder.estimated_bytes();
        assert_eq!(builder.estimated_bytes_after(4, 200), now + 4 + 200 + 4 + 4 + 1 + 2);
    }
}
