//! The trie index: a second index of a table in a meta block of its own, as RocksDB's
//! `TrieIndexFactory` writes it (docs/format/trie_index.md).
//!
//! | part | is |
//! |---|---|
//! | `entries` | what the builder of a table collects per data block |
//! | `levels` | the trie over the separators, level by level, for the writer |
//! | `chains` | runs of nodes with one label, which the writer lists |
//! | `encode`, `decode` | the block |
//! | `bits` | its bit vectors |
//!
//! On disk the upper levels have a bitmap per node and the lower ones a list of labels. In memory
//! there is one list, in the order of levels: `labels`, and per node where its own begin. A label
//! leads to a leaf, or to the node whose number is one more than the labels with a node before it,
//! so that each step of a search goes forward in the list and must end.
//!
//! Data blocks are numbered in key order. Each label knows the first block under it, so a search
//! has its answer where the target and the trie part: below the label there, or after everything
//! under the node. There is no way back up.
//!
//! Immutable. Invariants, which `decode` checks: (1) every node has labels, and they ascend; (2)
//! the node under a label begins after it; (3) blocks are in the order of the file.

mod bits;
mod chains;
mod decode;
mod encode;
mod entries;
mod levels;
#[cfg(test)]
mod tests;

use pumice_base::coding::Decoder;
use pumice_base::key::InternalKey;
use pumice_base::{Comparator, Error, Result};

use crate::handle::BlockHandle;
use bits::Ranked;

pub(crate) use entries::{TrieEntries, TrieEntry};

/// What the block begins with. Persisted.
const MAGIC: u32 = 0x5452_4945;
/// Persisted.
const VERSION: u32 = 1;
/// There are tags of separators. Persisted.
const HAS_TAGS: u32 = 1;
/// More separators are not read.
const KEYS_MAX: u64 = 1 << 30;
/// Longer separators are not read.
const DEPTH_MAX: u32 = 1 << 16;
/// Where a list of chains says that a leaf follows.
const NO_NODE: u32 = u32::MAX;

/// Zeros up to a multiple of eight bytes.
fn pad(out: &mut Vec<u8>) {
    out.resize(out.len().next_multiple_of(8), 0);
}

/// `n` bytes and the padding after them, which is zeros.
fn get_padded<'a>(src: &mut Decoder<'a>, n: usize) -> Option<&'a [u8]> {
    let (bytes, padding) = src.bytes(n.checked_next_multiple_of(8)?)?.split_at(n);
    padding.iter().all(|byte| *byte == 0).then_some(bytes)
}

/// Refuses orders of keys that are not that of their bytes, in RocksDB's words.
///
/// # Errors
/// NotSupported.
pub(crate) fn check_order(order: &Comparator) -> Result<()> {
    if matches!(order, Comparator::Bytewise) {
        return Ok(());
    }
    let text = format!("TrieIndexFactory requires BytewiseComparator; got: : {}", order.name());
    Err(Error::not_supported(text))
}

/// A data block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Block {
    offset: u32,
    size: u32,
    /// Trailer of its separator: of its last key, if a version of the separator's user key may be
    /// in a later block; else 0.
    tag: u64,
}

/// A decoded trie.
pub(crate) struct TrieIndex {
    labels: Box<[u8]>,
    /// The label has a node under it.
    inner: Ranked,
    /// The first block under each label.
    numbers: Box<[u32]>,
    /// Where the labels of each node begin; also where those of the last one end.
    starts: Box<[u32]>,
    blocks: Box<[Block]>,
}

impl TrieIndex {
    /// Number of blocks.
    #[inline]
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// The handle of block `i`, which is below `len`.
    #[inline]
    pub fn handle(&self, i: usize) -> BlockHandle {
        let block = &self.blocks[i];
        BlockHandle::new(block.offset.into(), block.size.into())
    }

    /// Memory held.
    pub fn memory_bytes(&self) -> usize {
        let lists = size_of_val(&*self.labels)
            + size_of_val(&*self.numbers)
            + size_of_val(&*self.starts)
            + size_of_val(&*self.blocks);
        size_of::<Self>() + lists + self.inner.memory_bytes()
    }

    /// The first block whose separator is at or after internal key `target`; `len` if none.
    pub fn seek(&self, target: InternalKey<'_>) -> usize {
        let (first, end, equal) = self.find(target.user_key().as_bytes());
        if !equal {
            return first;
        }
        let reaches = |block: &Block| block.tag <= target.trailer();
        let same = &self.blocks[first..end];
        first + same.iter().position(reaches).unwrap_or(same.len())
    }

    /// The first block whose separator is at or after the user key; if it has that separator, then
    /// also the end of those that have, and true.
    fn find(&self, target: &[u8]) -> (usize, usize, bool) {
        // Blocks under the node are `first..end`.
        let (mut node, mut first, mut end) = (0, 0, self.len());
        for (depth, byte) in target.iter().enumerate() {
            let Some((from, to)) = self.range(node) else { return (end, end, false) };
            let at = from + self.labels[from..to].partition_point(|label| label < byte);
            if at == to {
                return (end, end, false);
            }
            first = self.numbers[at] as usize;
            if self.labels[at] > *byte {
                return (first, first, false);
            }
            if at + 1 < to {
                end = self.numbers[at + 1] as usize;
            }
            match self.inner.rank_of(at) {
                Some(rank) => node = rank + 1,
                // The separator ends here, the target perhaps later.
                None if depth + 1 == target.len() => return (first, end, true),
                None => return (end, end, false),
            }
        }
        // The separator that is the path to the node, if there is one, is before its labels.
        let labeled = self.range(node).map_or(end, |(from, _)| self.numbers[from] as usize);
        (first, labeled, first < labeled)
    }

    /// The labels of a node; None in a trie without separators.
    #[inline]
    fn range(&self, node: usize) -> Option<(usize, usize)> {
        Some((*self.starts.get(node)? as usize, *self.starts.get(node + 1)? as usize))
    }
}
