//! The two meta blocks of a hash index: which data blocks hold the keys of a prefix.
//!
//! ```text
//! rocksdb.hashindex.prefixes   prefix*
//! rocksdb.hashindex.metadata   (varint32 prefix length ‖ varint32 first block ‖ varint32 blocks)*
//! ```
//!
//! One record per run of keys with one prefix, in key order; blocks are counted as index entries.
//!
//! One owner each. Invariant of [`PrefixRuns`]: `ends` ascends and ends at `bytes.len()`, and no
//! two neighbours are equal.

use pumice_base::coding::put_varint32;
use pumice_base::narrow::len_u32;
use pumice_base::planted::{self, Bug};

/// The prefixes of the keys of one block, each once per run.
#[derive(Debug, Default)]
pub(super) struct PrefixRuns {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl PrefixRuns {
    /// Notes the prefix of the next key.
    #[inline]
    pub fn push(&mut self, prefix: &[u8]) {
        if self.last() == Some(prefix) {
            return;
        }
        self.bytes.extend_from_slice(prefix);
        self.ends.push(self.bytes.len());
    }

    /// Maximum bytes of the prefixes in the meta blocks.
    pub fn estimated_bytes(&self) -> usize {
        self.bytes.len() + 4 * self.ends.len()
    }

    #[inline]
    fn last(&self) -> Option<&[u8]> {
        Some(self.get(self.ends.len().checked_sub(1)?))
    }

    fn get(&self, i: usize) -> &[u8] {
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        &self.bytes[start..self.ends[i]]
    }

    /// Forgets the prefixes and keeps their memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }
}

/// The meta blocks under construction.
#[derive(Debug, Default)]
pub(super) struct PrefixBlocks {
    prefixes: Vec<u8>,
    metadata: Vec<u8>,
    /// The prefix whose run may continue.
    pending: Vec<u8>,
    /// The prefix's first and last block; `None` before the first prefix.
    blocks: Option<(u32, u32)>,
}

impl PrefixBlocks {
    /// Adds the prefixes of block `block`; blocks come in order.
    pub fn push(&mut self, runs: &PrefixRuns, block: u32) {
        for i in 0..runs.ends.len() {
            let prefix = runs.get(i);
            match &mut self.blocks {
                Some((_, last)) if self.pending == prefix => *last = block,
                _ => {
                    self.close();
                    self.pending.clear();
                    self.pending.extend_from_slice(prefix);
                    self.blocks = Some((block, block));
                }
            }
        }
    }

    /// Ends the pending run.
    fn close(&mut self) {
        let Some((first, last)) = self.blocks.take() else { return };
        self.prefixes.extend_from_slice(&self.pending);
        let lost = u32::from(last > first && planted::is(Bug::HashIndexLosesLastBlock));
        for number in [len_u32(self.pending.len()), first, last - first + 1 - lost] {
            put_varint32(&mut self.metadata, number);
        }
    }

    /// Prefixes and metadata; `None` if there was no prefix.
    pub fn finish(&mut self) -> Option<(Vec<u8>, Vec<u8>)> {
        self.close();
        if self.metadata.is_empty() {
            return None;
        }
        Some((std::mem::take(&mut self.prefixes), std::mem::take(&mut self.metadata)))
    }
}
