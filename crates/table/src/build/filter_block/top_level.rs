//! The index over filter partitions: a block of index entries, without compression.
//!
//! Separators are collected as internal keys, since only at the end of the table is it known
//! whether its index stores user keys. The partitions lie back to back, so that handles can be
//! stored as differences.

use pumice_base::coding::{put_varint32, put_varint64, put_varsigned64, varint_len};
use pumice_base::dbformat::TRAILER_LEN;

use crate::handle::BlockHandle;
use crate::prefix::common_prefix;

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

    /// The block that leads to partitions at `handles`.
    pub fn encode(
        &self,
        handles: &[BlockHandle],
        restart_interval: u32,
        user_keys: bool,
        delta_handles: bool,
    ) -> Vec<u8> {
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
                restarts.push(block.len() as u32);
            }
            put_varint32(&mut block, shared as u32);
            put_varint32(&mut block, (key.len() - shared) as u32);
            if !delta_handles {
                let len = varint_len(handle.offset) + varint_len(handle.size);
                put_varint32(&mut block, len as u32);
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
        block.extend_from_slice(&(restarts.len() as u32).to_le_bytes());
        block
    }
}
