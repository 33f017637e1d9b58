//! Writes the block of a trie (docs/format/trie_index.md). Pure functions.

use pumice_base::coding::{put_fixed32, put_fixed64};
use pumice_base::narrow::{len_u32, to_usize};

use crate::trie::entries::TrieEntries;
use crate::trie::levels::{Levels, Sparse};
use crate::trie::{Block, HAS_TAGS, MAGIC, VERSION, chains, pad};

/// The block with a trie over `entries`.
pub(super) fn encode(entries: &TrieEntries) -> Vec<u8> {
    let levels = Levels::new(entries);
    let (dense, sparse) = (&levels.dense, &levels.sparse);
    let mut out = Vec::new();
    put_fixed32(&mut out, MAGIC);
    put_fixed32(&mut out, VERSION);
    put_fixed64(&mut out, entries.len() as u64);
    put_fixed32(&mut out, levels.cutoff);
    put_fixed32(&mut out, levels.depth);
    put_fixed64(&mut out, dense.leaves);
    put_fixed64(&mut out, dense.is_key.len() as u64);
    put_fixed64(&mut out, dense.children);
    put_fixed32(&mut out, if entries.len() > 0 { HAS_TAGS } else { 0 });
    pad(&mut out);
    for bits in [&dense.labels, &dense.inner, &dense.is_key] {
        bits.encode_to(&mut out);
    }
    put_fixed64(&mut out, sparse.labels.len() as u64);
    out.extend_from_slice(&sparse.labels);
    pad(&mut out);
    for bits in [&sparse.inner, &sparse.first, &sparse.is_key] {
        bits.encode_to(&mut out);
    }
    put_children(&mut out, sparse, to_usize(dense.children));
    chains::encode_to(&mut out, sparse, dense.children, entries.len());
    if entries.len() > 0 {
        put_blocks(&mut out, entries, &levels.order);
    }
    out
}

/// Where the labels of the nodes under sparse labels, which come after `children` others, begin and
/// end.
fn put_children(out: &mut Vec<u8>, sparse: &Sparse, children: usize) {
    let nodes = children..sparse.starts.len();
    put_fixed64(out, nodes.len() as u64);
    nodes.clone().for_each(|node| put_fixed32(out, sparse.range(node).0));
    pad(out);
    nodes.for_each(|node| put_fixed32(out, sparse.range(node).1));
    pad(out);
}

/// Handles and tags in the order of the trie: of the first block of each separator, then of the
/// others.
fn put_blocks(out: &mut Vec<u8>, entries: &TrieEntries, order: &[usize]) {
    let runs = || order.iter().map(|key| entries.blocks(*key));
    let firsts: Vec<&Block> = runs().filter_map(|run| run.first()).collect();
    let others: Vec<&Block> = runs().flat_map(|run| run.iter().skip(1)).collect();
    put_handles(out, &firsts);
    put_fixed32(out, len_u32(others.len()));
    put_fixed32(out, 0);
    firsts.iter().for_each(|block| put_fixed64(out, block.tag));
    runs().for_each(|run| put_fixed32(out, len_u32(run.len())));
    pad(out);
    put_handles(out, &others);
    others.iter().for_each(|block| put_fixed64(out, block.tag));
}

fn put_handles(out: &mut Vec<u8>, blocks: &[&Block]) {
    blocks.iter().for_each(|block| put_fixed32(out, block.offset));
    pad(out);
    blocks.iter().for_each(|block| put_fixed32(out, block.size));
    pad(out);
}
