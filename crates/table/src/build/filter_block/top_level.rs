//! The index over filter partitions: a block of index entries, without compression.
//!
//! Separators are collected as internal keys, because only at the end of the table is it known
//! whether its index stores user keys. The partitions lie back to back, so that handles can be
//! stored as differences.

use pumice_base::Result;
use pumice_base::coding::{put_varint32, put_varint64, put_varsigned64, varint_len};
use pumice_base::key::TRAILER_LEN;
use pumice_base::narrow::len_u32;

use crate::build::block_builder::block_too_large;
use crate::handle::BlockHandle;
use crate::prefix::common_prefix;

/// How the block is encoded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Form {
    /// Entries per restart point.
    pub restart_interval: u32,
    /// Separators are user keys.
    pub user_keys: bool,
    pub delta_handles: bool,
    pub bytes_max: usize,
}

/// Separators of partitions, in order.
#[derive(Debug, Default)]
pub(super) struct Separators {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Separators {
    /// Adds the internal key at which a partition ends.
    pub fn push(&mut self, ikey: &[u8]) {
        self.bytes.extend_from_slice(ikey);
        self.ends.push(self.bytes.len());
    }

    /// Bytes of all of them.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| &self.bytes[start..end])
    }

    /// The block, of at most `bytes_max` bytes, that leads to partitions at `handles`.
    ///
    /// # Errors
    /// NotSupported if it would have more.
    pub fn encode(&self, handles: &[BlockHandle], form: Form) -> Result<Vec<u8>> {
        let Form { restart_interval, user_keys, delta_handles, bytes_max } = form;
        // Lengths take five bytes at most, and a handle and a restart point twenty-four.
        if self.bytes.len() + 64 * handles.len() + 8 > bytes_max {
            return Err(block_too_large("an index of filters", bytes_max));
        }
        let trim = if user_keys { TRAILER_LEN } else { 0 };
        let mut block = Vec::with_capacity(self.bytes.len() + 16 * handles.len() + 8);
        let mut restarts = vec![0u32];
        let mut previous: (&[u8], BlockHandle) = (&[], BlockHandle::default());
        for (i, (key, handle)) in self.iter().zip(handles).enumerate() {
            let key = &key[..key.len() - trim];
            let mut shared = 0;
            if i % restart_interval.max(1) as usize != 0 {
                shared = common_prefix(previous.0, key);
            } else if i > 0 {
                restarts.push(len_u32(block.len()));
            }
            put_varint32(&mut block, len_u32(shared));
            put_varint32(&mut block, len_u32(key.len() - shared));
            if !delta_handles {
                let len = varint_len(handle.offset) + varint_len(handle.size);
                put_varint32(&mut block, len_u32(len));
            }
            block.extend_from_slice(&key[shared..]);
            if delta_handles && shared > 0 {
                put_varsigned64(&mut block, handle.size as i64 - previous.1.size as i64);
            } else {
                put_varint64(&mut block, handle.offset);
                put_varint64(&mut block, handle.size);
            }
            previous = (key, *handle);
        }
        for restart in &restarts {
            block.extend_from_slice(&restart.to_le_bytes());
        }
        block.extend_from_slice(&len_u32(restarts.len()).to_le_bytes());
        Ok(block)
    }
}
