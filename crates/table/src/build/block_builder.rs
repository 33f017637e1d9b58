//! Encodes entry blocks: data, range-deletion, properties, metaindex
//! (docs/format/table.md#entry-blocks).
//!
//! ```text
//! entry*  ‖ fixed32 restart offset* ‖ fixed32 num_restarts
//! entry = varint shared ‖ varint non_shared ‖ varint value_len ‖ key suffix ‖ value
//! ```
//!
//! Or with the values after all keys, in a buffer of their own until the block ends
//! (docs/format/table.md#separated-values).
//!
//! [`BlockBuilder`] knows no keys: the caller says how much of a key is shared with the one before,
//! which the builder of data blocks knows from the order check. [`MetaBlockBuilder`] keeps the last
//! key for callers that do not know it. Buffers are reused: after the first few blocks nothing is
//! allocated. Invariants: (1) `restarts` is never empty; (2) an entry that ends before `free_until`
//! lies in the buffer's room and does not fill the block.
//!
//! Index blocks have another entry form; see `index_builder`.

use pumice_base::coding::varint_len;
use pumice_base::narrow::{len_u32, low_u8, low_u32};
use pumice_base::{Error, Result};

use crate::block_footer::SEPARATED_VALUES;
use crate::build::block_buffer::BlockBuffer;
use crate::build::pipeline::worker::release_large;
use crate::prefix::{common_prefix, copy_key, copy_value};

/// Longest entry header: four 5-byte varints.
const MAX_HEADER_LEN: usize = 20;
/// Longest header of an entry whose key lengths take a byte each and whose value length two.
const USUAL_HEADER_LEN: usize = 4;
/// Most that one entry adds to a block besides its key and value: header and restart point.
pub(crate) const MAX_ENTRY_OVERHEAD: usize = MAX_HEADER_LEN + 4;
/// Bytes of a block without entries: one restart point and the count.
pub(crate) const BLOCK_FOOTER_LEN: usize = 8;

/// Builds one block after another.
#[derive(Debug)]
pub(crate) struct BlockBuilder {
    buffer: BlockBuffer,
    restarts: Vec<u32>,
    /// The values of the block, if it stores them after its keys.
    apart: Option<Vec<u8>>,
    /// Entries before the next restart point.
    until_restart: u32,
    restart_interval: u32,
    /// All ones where keys share prefixes, 0 where they are stored whole.
    share_mask: usize,
    /// Size below which a block is certainly not full.
    surely_open: usize,
    /// Invariant 2.
    free_until: usize,
}

impl BlockBuilder {
    /// A builder with a restart point every `restart_interval` entries; `delta_keys` off stores
    /// every key whole.
    pub fn new(restart_interval: u32, delta_keys: bool) -> Self {
        BlockBuilder {
            buffer: BlockBuffer::default(),
            restarts: vec![0],
            apart: None,
            until_restart: 0,
            restart_interval: restart_interval.max(1),
            share_mask: if delta_keys { usize::MAX } else { 0 },
            surely_open: 0,
            free_until: 0,
        }
    }

    /// As [`BlockBuilder::new`], for blocks that store values after all keys.
    pub fn separated(restart_interval: u32, delta_keys: bool) -> Self {
        let apart = Some(Vec::new());
        BlockBuilder { apart, ..BlockBuilder::new(restart_interval, delta_keys) }
    }

    /// While a block with its next entry stays below `bytes`, it is certainly not full, and usual
    /// entries are taken; never with separated values.
    pub fn set_surely_open(&mut self, bytes: usize) {
        self.surely_open = if self.apart.is_some() { 0 } else { bytes };
        self.set_free();
    }

    /// No entry since the last `reset`.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.buffer.block_len() == 0
    }

    /// Bytes of the block if it were finished now.
    #[inline]
    pub fn estimated_bytes(&self) -> usize {
        let apart = self.apart.as_ref().map_or(0, |values| values.len() + 4);
        self.buffer.block_len() + 4 * self.restarts.len() + 4 + apart
    }

    /// RocksDB's estimate of the block's size after one more entry (`EstimateSizeAfterKV`): the
    /// whole key is counted. Kept equal so that blocks end at the same keys.
    #[inline]
    pub fn estimated_bytes_after(&self, key_len: usize, value_len: usize) -> usize {
        let restart = match &self.apart {
            _ if self.until_restart != 0 || self.is_empty() => 0,
            None => 4,
            Some(values) => 4 + varint_len_of(values.len()),
        };
        self.estimated_bytes()
            + key_len
            + value_len
            + restart
            + 4
            + varint_len_of(key_len)
            + varint_len_of(value_len)
    }

    /// Whether an entry of these lengths is a usual one, for [`BlockBuilder::append_usual`]: its
    /// header is short, and it is far from the end of block and room.
    #[inline(always)]
    pub fn is_usual(&self, key_len: usize, value_len: usize) -> bool {
        let end = self.buffer.bounds().1 + USUAL_HEADER_LEN + key_len + value_len;
        end < self.free_until && key_len < 1 << 7 && value_len < 1 << 14
    }

    /// As [`BlockBuilder::append`] for a usual entry.
    ///
    /// # Panics
    /// If it is none.
    #[inline(always)]
    pub fn append_usual(&mut self, key: &[u8], value: &[u8], common: usize) {
        let mut shared = common & self.share_mask;
        let (left, restart) = self.until_restart.overflowing_sub(1);
        self.until_restart = left;
        if restart {
            self.restart();
            self.until_restart -= 1;
            shared = 0;
        }
        let suffix = &key[shared..];
        // The value's length takes one byte or two.
        let (header, value_header) = match value.len() {
            len @ 0..0x80 => (USUAL_HEADER_LEN - 1, len),
            len => (USUAL_HEADER_LEN, len & 0x7f | 0x80 | len >> 7 << 8),
        };
        let lengths = low_u32((shared | suffix.len() << 8 | value_header << 16) as u64);
        let key_end = header + suffix.len();
        let to = self.buffer.extend_in_room(key_end + value.len());
        let (key_to, value_to) = to.split_at_mut(key_end);
        // The suffix overwrites the surplus bytes of the header.
        key_to[..USUAL_HEADER_LEN].copy_from_slice(&lengths.to_le_bytes());
        copy_key(&mut key_to[header..], suffix);
        copy_value(value_to, value);
    }

    /// Appends an entry whose key has `common` leading bytes of the key before it.
    pub fn append(&mut self, key: &[u8], value: &[u8], common: usize) {
        let mut shared = common & self.share_mask;
        let restarts = self.until_restart == 0;
        if restarts {
            self.restart();
            shared = 0;
        }
        self.until_restart -= 1;
        let suffix = &key[shared..];
        if let Some(values) = &mut self.apart {
            let numbers = [shared, suffix.len(), value.len(), values.len()];
            put_separated(&mut self.buffer, &numbers[..3 + usize::from(restarts)], suffix);
            values.extend_from_slice(value);
            return;
        }
        self.buffer.reserve(MAX_HEADER_LEN + suffix.len() + value.len());
        let lengths = [shared, suffix.len(), value.len()];
        if (shared | suffix.len() | value.len()) < 1 << 7 {
            self.buffer
                .extend_in_room(3)
                .copy_from_slice(&lengths.map(|length| low_u8(length as u64)));
        } else {
            let to = self.buffer.extend_in_room(lengths.map(varint_len_of).iter().sum());
            put_header(to, &lengths);
        }
        copy_key(self.buffer.extend_in_room(suffix.len()), suffix);
        copy_value(self.buffer.extend_in_room(value.len()), value);
        self.set_free();
    }

    /// The next entry is a restart point.
    #[cold]
    fn restart(&mut self) {
        if !self.is_empty() {
            self.restarts.push(len_u32(self.buffer.block_len()));
            self.set_free();
        }
        self.until_restart = self.restart_interval;
    }

    /// Restores invariant 2 after block or room changed.
    fn set_free(&mut self) {
        let entries = self.surely_open.saturating_sub(4 * self.restarts.len() + 4);
        self.free_until = (self.buffer.bounds().0 + entries).min(self.buffer.room_end());
    }

    /// Appends values and restart array and returns the buffer with the finished block; `reset`
    /// before the next entry.
    pub fn finish(&mut self) -> &mut BlockBuffer {
        let count = self.restarts.len();
        let mut packed = len_u32(count);
        let values_at = self.apart.as_ref().map(|values| {
            let at = len_u32(self.buffer.block_len());
            self.buffer.reserve(values.len());
            self.buffer.extend_in_room(values.len()).copy_from_slice(values);
            packed |= SEPARATED_VALUES;
            at
        });
        self.buffer.reserve(4 * count + 8);
        let restarts_to = self.buffer.extend_in_room(4 * count);
        for (restart, to) in self.restarts.iter().zip(restarts_to.chunks_exact_mut(4)) {
            to.copy_from_slice(&restart.to_le_bytes());
        }
        for word in values_at.into_iter().chain([packed]) {
            self.buffer.extend_in_room(4).copy_from_slice(&word.to_le_bytes());
        }
        &mut self.buffer
    }

    /// Starts the next block, after those that the buffer still holds.
    pub fn reset(&mut self) {
        self.buffer.restart_block();
        self.restarts.clear();
        self.restarts.push(0);
        if let Some(values) = &mut self.apart {
            values.clear();
            release_large(values);
        }
        self.until_restart = 0;
        self.set_free();
    }
}

#[inline]
fn varint_len_of(length: usize) -> usize {
    varint_len(length as u64)
}

/// Appends the entry of a key whose value is stored apart from it.
fn put_separated(buffer: &mut BlockBuffer, numbers: &[usize], suffix: &[u8]) {
    buffer.reserve(MAX_HEADER_LEN + suffix.len());
    let header = numbers.iter().map(|&number| varint_len_of(number)).sum();
    put_header(buffer.extend_in_room(header), numbers);
    copy_key(buffer.extend_in_room(suffix.len()), suffix);
}

/// Fills `to` with the numbers.
fn put_header(to: &mut [u8], numbers: &[usize]) {
    let mut to = to.iter_mut();
    for &length in numbers {
        let mut rest = length as u64;
        for byte in to.by_ref() {
            *byte = low_u8(rest);
            if rest < 0x80 {
                break;
            }
            *byte |= 0x80;
            rest >>= 7;
        }
    }
}

/// A [`BlockBuilder`] that remembers the last key, and enforces a size limit.
#[derive(Debug)]
pub(crate) struct MetaBlockBuilder {
    block: BlockBuilder,
    last_key: Vec<u8>,
    bytes_max: usize,
    too_large: bool,
}

impl MetaBlockBuilder {
    /// A builder with a restart point every `restart_interval` entries, for `bytes_max` bytes.
    pub fn new(restart_interval: u32, bytes_max: usize) -> Self {
        MetaBlockBuilder {
            block: BlockBuilder::new(restart_interval, true),
            last_key: Vec::new(),
            bytes_max,
            too_large: false,
        }
    }

    /// Bytes of the block if it ended now.
    pub fn estimated_bytes(&self) -> usize {
        self.block.estimated_bytes()
    }

    /// Appends an entry whose key sorts after the last one.
    pub fn add(&mut self, key: &[u8], value: &[u8]) {
        let now = self.block.estimated_bytes();
        self.too_large |= now + key.len() + value.len() + MAX_ENTRY_OVERHEAD > self.bytes_max;
        if self.too_large {
            return;
        }
        let common = common_prefix(&self.last_key, key);
        self.block.append(key, value, common);
        self.last_key.truncate(common);
        self.last_key.extend_from_slice(&key[common..]);
    }

    /// The block, for the part of a table that `what` names.
    ///
    /// # Errors
    /// NotSupported if it would be larger than a block may be.
    pub fn finish(mut self, what: &str) -> Result<Vec<u8>> {
        if self.too_large {
            return Err(block_too_large(what, self.bytes_max));
        }
        Ok(std::mem::take(self.block.finish().take_block()))
    }
}

/// A part that must be one block would exceed the size of a block.
#[cold]
pub(crate) fn block_too_large(what: &str, bytes_max: usize) -> Error {
    Error::not_supported(format!("{what} of more than {bytes_max} bytes in one table"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[pumice_test_macros::test]
    fn a_block_that_cannot_be_counted_is_refused() {
        for bytes in [100, 200] {
            let mut builder = MetaBlockBuilder::new(1, bytes);
            builder.add(b"a", &[1; 60]);
            builder.add(b"b", &[1; 60]);
            builder.add(b"c", b"");
            let size = builder.finish("range deletions").map(|block| block.len());
            match bytes {
                100 => assert!(size.unwrap_err().message().starts_with("range deletions of more")),
                _ => assert!(size.unwrap() <= bytes),
            }
        }
    }

    /// The documented block with one entry, and the documented empty block.
    #[pumice_test_macros::test]
    fn encodes_the_documented_examples() {
        let mut builder = BlockBuilder::new(16, true);
        builder.append(&[0x7a, 0x01, 0x0b, 0, 0, 0, 0, 0, 0], b"26", 0);
        let want = [0, 9, 2, 0x7a, 1, 0x0b, 0, 0, 0, 0, 0, 0, 0x32, 0x36, 0, 0, 0, 0, 1, 0, 0, 0];
        assert_eq!(builder.estimated_bytes(), want.len());
        assert_eq!(builder.finish().block(), want);
        builder.reset();
        assert_eq!(builder.finish().block(), [0, 0, 0, 0, 1, 0, 0, 0]);
    }

    #[pumice_test_macros::test]
    fn restart_points_store_whole_keys() {
        let mut builder = MetaBlockBuilder::new(2, 1 << 20);
        for key in [&b"aaa1"[..], b"aaa2", b"aaa3"] {
            builder.add(key, b"");
        }
        let block = builder.finish("keys").unwrap();
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
        let block = builder.finish().block();
        assert_eq!(&block[..5], &[0, 1, 0xac, 0x02, b'k']);
        assert_eq!(&block[305..311], &[0, 2, 0xac, 0x02, b'k', b'2']);
    }

    /// A value follows the one before it; where it is stands at restart points.
    #[pumice_test_macros::test]
    fn values_follow_all_keys() {
        let mut builder = BlockBuilder::separated(2, true);
        for (key, value) in [(b"aa", &b"1"[..]), (b"ab", b""), (b"ac", b"22"), (b"ad", b"3")] {
            builder.append(key, value, usize::from(key != b"aa"));
        }
        let mut want = vec![0, 2, 1, 0, b'a', b'a', 1, 1, 0, b'b'];
        want.extend([0, 2, 2, 1, b'a', b'c', 1, 1, 1, b'd']);
        want.extend(b"1223");
        want.extend([0, 0, 0, 0, 10, 0, 0, 0, 20, 0, 0, 0, 2, 0, 0, 0x10]);
        assert_eq!(builder.estimated_bytes(), want.len());
        // The key, its lengths, and a restart point that says where the value is.
        assert_eq!(builder.estimated_bytes_after(2, 1), want.len() + 2 + 1 + 4 + 1 + 4 + 1 + 1);
        assert_eq!(builder.finish().block(), want);
        builder.reset();
        assert_eq!(builder.estimated_bytes(), 12);
        assert_eq!(builder.finish().block(), [0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0x10]);
    }

    /// Both ways of appending produce the same bytes, whatever the lengths.
    #[pumice_test_macros::test]
    fn usual_entries_are_entries() {
        let mut usual = 0;
        for key_len in [8, 9, 15, 16, 17, 32, 33, 64, 65] {
            for value_len in [0, 1, 127, 128, 129, 300, 16_383, 16_384] {
                for common in [0, 1, key_len - 8] {
                    let (mut fast, mut slow) =
                        (BlockBuilder::new(4, true), BlockBuilder::new(4, true));
                    fast.set_surely_open(1 << 20);
                    let key: Vec<u8> = (1..=key_len as u8).collect();
                    let value: Vec<u8> = (0..value_len).map(|i: usize| (i / 3) as u8).collect();
                    for builder in [&mut fast, &mut slow] {
                        builder.append(&key, &vec![1; 40_000], 0);
                        builder.append(&key, b"", 0);
                    }
                    // Over a restart point.
                    for _ in 0..5 {
                        slow.append(&key, &value, common);
                        if fast.is_usual(key_len, value_len) {
                            usual += 1;
                            fast.append_usual(&key, &value, common);
                        } else {
                            fast.append(&key, &value, common);
                        }
                    }
                    let what = format!("{key_len} {value_len} {common}");
                    assert_eq!(fast.finish().block(), slow.finish().block(), "{what}");
                }
            }
        }
        assert!(usual > 500, "{usual}");
    }

    /// The estimate counts the whole key, and a restart point where the next entry makes one.
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
