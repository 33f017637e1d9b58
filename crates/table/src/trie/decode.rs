//! Reads the block of a trie (docs/format/trie_index.md), from untrusted bytes.
//!
//! Everything that can be computed from the rest is computed and compared, but for the chains,
//! which are not used. Memory and time are proportional to the bytes of the block. Pure functions.

use pumice_base::coding::Decoder;
use pumice_base::narrow::{len_u32, low_u8, low_u32, to_usize};

use crate::handle::BLOCK_TRAILER_LEN;
use crate::trie::bits::{Bits, Ranked, get_words};
use crate::trie::{Block, DEPTH_MAX, HAS_TAGS, KEYS_MAX, MAGIC, TrieIndex, VERSION};
use crate::trie::{chains, get_padded};

type Decoded<T> = Result<T, &'static str>;

/// The numbers at the start of the block.
struct Header {
    keys: usize,
    cutoff: u32,
    depth: u32,
    dense_leaves: usize,
    dense_nodes: u64,
    dense_children: u64,
    has_tags: bool,
}

impl Header {
    fn decode(src: &mut Decoder<'_>) -> Decoded<Header> {
        let mut header =
            Decoder::new(src.bytes(56).ok_or("Trie index: data too short for header")?);
        let mut word = || header.fixed32().unwrap_or_default();
        if word() != MAGIC {
            return Err("Trie index: bad magic number");
        }
        if word() != VERSION {
            return Err("Trie index: unsupported format version");
        }
        let mut long = || header.fixed64().unwrap_or_default();
        let (keys, levels) = (long(), long());
        let (dense_leaves, dense_nodes, dense_children) = (long(), long(), long());
        let flags = long();
        if keys > KEYS_MAX {
            return Err("Trie index: num_keys exceeds reasonable limit");
        }
        let depth = u32::try_from(levels >> 32).unwrap_or(u32::MAX);
        if depth > DEPTH_MAX {
            return Err("Trie index: max_depth exceeds reasonable limit");
        }
        if dense_leaves > keys {
            return Err("Trie index: dense_leaf_count exceeds num_keys");
        }
        if flags & !u64::from(HAS_TAGS) != 0 {
            return Err("Trie index: unknown flags");
        }
        Ok(Header {
            keys: to_usize(keys),
            cutoff: low_u32(levels),
            depth,
            dense_leaves: to_usize(dense_leaves),
            dense_nodes,
            dense_children,
            has_tags: flags != 0,
        })
    }
}

/// Labels and nodes of all levels.
#[derive(Default)]
struct Nodes {
    labels: Vec<u8>,
    inner: Bits,
    is_key: Bits,
    starts: Vec<u32>,
}

impl Nodes {
    fn decode(src: &mut Decoder<'_>, header: &Header) -> Decoded<Nodes> {
        let mut nodes = Nodes::default();
        let bitmaps = Bits::decode(src)?;
        nodes.inner = Bits::decode(src)?;
        nodes.is_key = Bits::decode(src)?;
        if Some(bitmaps.len() as u64) != header.dense_nodes.checked_mul(256) {
            return Err("Trie index: d_labels size inconsistent with dense_node_count");
        }
        if nodes.inner.len() != bitmaps.ones() {
            return Err("Trie index: d_has_child size inconsistent with d_labels");
        }
        if nodes.is_key.len() as u64 != header.dense_nodes {
            return Err("Trie index: d_is_prefix_key size inconsistent with dense_node_count");
        }
        for (at, bit) in bitmaps.iter().enumerate() {
            if at.is_multiple_of(256) {
                nodes.starts.push(len_u32(nodes.labels.len()));
            }
            if bit {
                nodes.labels.push(low_u8(at as u64));
            }
        }
        let leaves = nodes.labels.len() - nodes.inner.ones() + nodes.is_key.ones();
        if leaves != header.dense_leaves {
            return Err("Trie index: dense_leaf_count inconsistent with the dense levels");
        }
        nodes.decode_sparse(src, header)?;
        nodes.check(header)?;
        Ok(nodes)
    }

    fn decode_sparse(&mut self, src: &mut Decoder<'_>, header: &Header) -> Decoded<()> {
        let len = src.fixed64().ok_or("Trie index: truncated sparse labels size")?;
        let len = usize::try_from(len).map_err(|_| "Trie index: truncated sparse labels")?;
        let labels = get_padded(src, len).ok_or("Trie index: truncated sparse labels")?;
        let (inner, first, is_key) = (Bits::decode(src)?, Bits::decode(src)?, Bits::decode(src)?);
        if inner.len() != len {
            return Err("Trie index: s_has_child size inconsistent with s_labels_size");
        }
        if first.len() != len || (len > 0 && !first.get(0)) {
            return Err("Trie index: s_louds size inconsistent with s_labels_size");
        }
        if is_key.len() != first.ones() {
            return Err("Trie index: s_is_prefix_key size inconsistent with s_louds");
        }
        if self.labels.len() + len > u32::MAX as usize {
            return Err("Trie index: too many labels");
        }
        let mut starts: Vec<_> = (0..len).filter(|at| first.get(*at)).map(len_u32).collect();
        let begin = len_u32(self.labels.len());
        self.starts.extend(starts.iter().map(|start| begin + start));
        self.starts.push(begin + len_u32(len));
        starts.push(len_u32(len));
        self.labels.extend_from_slice(labels);
        self.inner.append(&inner);
        self.is_key.append(&is_key);
        check_children(src, &starts, inner.ones(), header.dense_children)?;
        chains::check(src, inner.ones())
    }

    fn len(&self) -> usize {
        self.starts.len() - 1
    }

    fn labels(&self, node: usize) -> std::ops::Range<usize> {
        self.starts[node] as usize..self.starts[node + 1] as usize
    }

    /// Checks that this is a trie of the separators that the header tells of.
    fn check(&self, header: &Header) -> Decoded<()> {
        let inners = self.inner.ones();
        if self.labels.len() - inners + self.is_key.ones() != header.keys {
            return Err("Trie index: number of leaves inconsistent with num_keys");
        }
        if self.len() != if header.keys == 0 { 0 } else { inners + 1 } {
            return Err("Trie index: number of nodes inconsistent with has_child");
        }
        let mut depths = vec![0; self.len()];
        let (mut below, mut deepest) = (0, 0);
        for node in 0..self.len() {
            let labels = self.labels(node);
            let own = &self.labels[labels.clone()];
            if own.is_empty() || !own.is_sorted_by(|a, b| a < b) {
                return Err("Trie index: labels of a node are not ascending");
            }
            if (depths[node] < header.cutoff) != ((node as u64) < header.dense_nodes) {
                return Err("Trie index: cutoff_level inconsistent with the levels");
            }
            let depth = depths[node] + 1;
            deepest = depth.max(deepest);
            for at in labels.filter(|at| self.inner.get(*at)) {
                below += 1;
                if self.starts[below] as usize <= at {
                    return Err("Trie index: a node is before the label that leads to it");
                }
                depths[below] = depth;
            }
        }
        if deepest != header.depth {
            return Err("Trie index: max_depth inconsistent with the levels");
        }
        Ok(())
    }
}

/// Takes the table of nodes under sparse labels off `src`; it repeats `starts`.
fn check_children(
    src: &mut Decoder<'_>,
    starts: &[u32],
    inners: usize,
    before: u64,
) -> Decoded<()> {
    let count = src.fixed64().ok_or("Trie index: truncated child position table count")?;
    let nodes = starts.len() - 1;
    if count != inners as u64 || before.checked_add(count) != Some(nodes as u64) {
        return Err("Trie index: child position table inconsistent with s_has_child");
    }
    let from = get_words(src, inners).ok_or("Trie index: truncated child start position table")?;
    let to = get_words(src, inners).ok_or("Trie index: truncated child end position table")?;
    let first = nodes - inners;
    if from != starts[first..nodes] || to != starts[first + 1..] {
        return Err("Trie index: child position out of range for sparse labels");
    }
    Ok(())
}

/// Blocks in the order of the trie.
struct Leaves {
    firsts: Vec<Block>,
    /// How many blocks each separator has.
    runs: Vec<u32>,
    /// The blocks besides the first of each.
    others: Vec<Block>,
}

impl Leaves {
    fn decode(src: &mut Decoder<'_>, header: &Header) -> Decoded<Leaves> {
        let keys = header.keys;
        let offsets = get_words(src, keys).ok_or("Trie index: truncated handle offsets")?;
        let sizes = get_words(src, keys).ok_or("Trie index: truncated handle sizes")?;
        if !header.has_tags || keys == 0 {
            let firsts = blocks(&offsets, &sizes, std::iter::repeat(0)).collect();
            return Ok(Leaves { firsts, runs: vec![1; keys], others: Vec::new() });
        }
        let count = src.fixed64().ok_or("Trie index: truncated seqno side-table header")?;
        let tags = get_tags(src, keys).ok_or("Trie index: truncated leaf seqnos")?;
        let firsts = blocks(&offsets, &sizes, tags).collect();
        let runs = get_words(src, keys).ok_or("Trie index: truncated leaf block counts")?;
        if runs.contains(&0) {
            return Err("Trie index: leaf block count is zero");
        }
        let more: u64 = runs.iter().map(|run| u64::from(run - 1)).sum();
        if count != more {
            return Err("Trie index: overflow count mismatch with leaf block counts");
        }
        let more = to_usize(more);
        let offsets = get_words(src, more).ok_or("Trie index: truncated overflow offsets")?;
        let sizes = get_words(src, more).ok_or("Trie index: truncated overflow sizes")?;
        let tags = get_tags(src, more).ok_or("Trie index: truncated overflow seqnos")?;
        let others = blocks(&offsets, &sizes, tags).collect();
        Ok(Leaves { firsts, runs, others })
    }

    /// Puts the blocks into key order; also the first block under each label.
    fn in_order(&self, nodes: &Nodes) -> Decoded<(Vec<u32>, Vec<Block>)> {
        let sizes = self.sizes(nodes);
        let total = self.firsts.len() + self.others.len();
        let mut numbers = vec![0; nodes.labels.len()];
        let mut ordered = vec![Block::default(); total];
        // Where the blocks of each node begin.
        let mut begins = vec![0; nodes.len()];
        let (mut below, mut leaf, mut others) = (0, 0, &*self.others);
        let mut place = |at: usize| {
            let run = self.runs[leaf] as usize;
            ordered[at] = self.firsts[leaf];
            let (more, rest) = others.split_at(run - 1);
            ordered[at + 1..at + run].copy_from_slice(more);
            (others, leaf) = (rest, leaf + 1);
            run
        };
        for node in 0..nodes.len() {
            let mut at = begins[node];
            if nodes.is_key.get(node) {
                at += place(at);
            }
            for label in nodes.labels(node) {
                numbers[label] = len_u32(at);
                if nodes.inner.get(label) {
                    below += 1;
                    begins[below] = at;
                    at += sizes[below];
                } else {
                    at += place(at);
                }
            }
        }
        let ends = |block: &Block| {
            u64::from(block.offset) + u64::from(block.size) + BLOCK_TRAILER_LEN as u64
        };
        if ordered.windows(2).any(|pair| u64::from(pair[1].offset) < ends(&pair[0])) {
            return Err("Trie index: data blocks are not in the order of the file");
        }
        Ok((numbers, ordered))
    }

    /// How many blocks are under each node.
    fn sizes(&self, nodes: &Nodes) -> Vec<usize> {
        let mut sizes = vec![0; nodes.len()];
        let (mut below, mut runs) = (nodes.len(), self.runs.iter().rev());
        for node in (0..nodes.len()).rev() {
            for label in nodes.labels(node).rev() {
                sizes[node] += if nodes.inner.get(label) {
                    below -= 1;
                    sizes[below]
                } else {
                    runs.next().map_or(0, |run| *run as usize)
                };
            }
            if nodes.is_key.get(node) {
                sizes[node] += runs.next().map_or(0, |run| *run as usize);
            }
        }
        sizes
    }
}

fn blocks(
    offsets: &[u32],
    sizes: &[u32],
    tags: impl IntoIterator<Item = u64>,
) -> impl Iterator<Item = Block> {
    let places = offsets.iter().zip(sizes);
    places.zip(tags).map(|((&offset, &size), tag)| Block { offset, size, tag })
}

/// `n` integers of 64 bits.
fn get_tags(src: &mut Decoder<'_>, n: usize) -> Option<Vec<u64>> {
    let bytes = src.bytes(n.checked_mul(8)?)?;
    Some(bytes.as_chunks().0.iter().map(|tag| u64::from_le_bytes(*tag)).collect())
}

impl TrieIndex {
    /// Decodes the contents of a block. The error says what is wrong with it.
    pub(crate) fn decode(contents: &[u8]) -> Result<TrieIndex, &'static str> {
        let src = &mut Decoder::new(contents);
        let header = Header::decode(src)?;
        let nodes = Nodes::decode(src, &header)?;
        let leaves = Leaves::decode(src, &header)?;
        if !src.is_empty() {
            return Err("Trie index: data after the end");
        }
        let (numbers, blocks) = leaves.in_order(&nodes)?;
        Ok(TrieIndex {
            inner: Ranked::new(&nodes.inner),
            labels: nodes.labels.into(),
            numbers: numbers.into(),
            starts: nodes.starts.into(),
            blocks: blocks.into(),
        })
    }
}
