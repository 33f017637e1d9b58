//! The trie over the separators of a table, level by level, as the block has it.
//!
//! A node is a range of separators that begin alike, so a level is a list of ranges; its labels are
//! the different bytes that follow. Pure functions.

use pumice_base::narrow::{len_u32, low_u8};

use crate::trie::bits::Bits;
use crate::trie::entries::TrieEntries;

/// Nodes with a bitmap of 256 labels each.
#[derive(Default)]
pub(super) struct Dense {
    pub labels: Bits,
    /// A bit per label: there is a node under it.
    pub inner: Bits,
    /// A bit per node: the path to it is a separator.
    pub is_key: Bits,
    /// Labels of the last of these levels that have nodes under them.
    pub children: u64,
    pub leaves: u64,
}

/// Nodes with a list of labels each.
#[derive(Default)]
pub(super) struct Sparse {
    pub labels: Vec<u8>,
    /// A bit per label: there is a node under it.
    pub inner: Bits,
    /// A bit per label: it is the first of its node.
    pub first: Bits,
    /// A bit per node: the path to it is a separator.
    pub is_key: Bits,
    /// Where the labels of each node begin.
    pub starts: Vec<u32>,
}

impl Sparse {
    /// The labels of node `i`.
    pub fn range(&self, i: usize) -> (u32, u32) {
        let end = self.starts.get(i + 1).copied();
        (self.starts[i], end.unwrap_or(len_u32(self.labels.len())))
    }
}

/// A trie.
#[derive(Default)]
pub(super) struct Levels {
    /// How many levels are dense.
    pub cutoff: u32,
    /// Bytes of the longest separator.
    pub depth: u32,
    pub dense: Dense,
    pub sparse: Sparse,
    /// The separators in the order in which the trie has them: by level.
    pub order: Vec<usize>,
}

impl Levels {
    /// The trie over the separators of `entries`.
    pub fn new(entries: &TrieEntries) -> Levels {
        let mut levels = Levels::default();
        if entries.len() == 0 {
            return levels;
        }
        let prefixes = prefixes_by_length(entries);
        levels.depth = len_u32(prefixes.len() - 1);
        // A bitmap costs 257 bits per node and one per label, a list one and ten.
        let pays = |pair: &&[u64]| pair[1] + 257 * pair[0] <= 10 * pair[1] + pair[0];
        levels.cutoff = len_u32(prefixes.windows(2).take_while(pays).count());
        let mut nodes = vec![(0, entries.len())];
        let mut level = 0;
        while !nodes.is_empty() {
            let mut below = Vec::new();
            for node in &nodes {
                levels.add(entries, *node, level, &mut below);
            }
            nodes = below;
            level += 1;
            if level == levels.cutoff as usize {
                levels.dense.children = nodes.len() as u64;
            }
        }
        if levels.cutoff == 0 {
            // The root.
            levels.dense.children = 1;
        }
        levels
    }

    /// Adds a node of separators `from..end`, which have their first `level` bytes in common, and
    /// what is under it to `below`.
    fn add(
        &mut self,
        entries: &TrieEntries,
        (mut from, end): (usize, usize),
        level: usize,
        below: &mut Vec<(usize, usize)>,
    ) {
        let is_dense = level < self.cutoff as usize;
        let leaves = self.order.len();
        let is_key = entries.key(from).len() == level;
        if is_key {
            self.order.push(from);
            from += 1;
        }
        let mut labels = Vec::new();
        while from < end {
            let label = entries.key(from)[level];
            let same = (from..end).take_while(|i| entries.key(*i)[level] == label).count();
            let is_leaf = same == 1 && entries.key(from).len() == level + 1;
            match is_leaf {
                true => self.order.push(from),
                false => below.push((from, from + same)),
            }
            labels.push((label, !is_leaf));
            from += same;
        }
        match is_dense {
            true => {
                self.dense.leaves += (self.order.len() - leaves) as u64;
                self.dense.add(is_key, &labels);
            }
            false => self.sparse.add(is_key, &labels),
        }
    }
}

impl Dense {
    fn add(&mut self, is_key: bool, labels: &[(u8, bool)]) {
        self.is_key.push(is_key);
        let mut rest = labels.iter().peekable();
        for byte in 0..256 {
            let here = rest.next_if(|(label, _)| *label == low_u8(byte));
            self.labels.push(here.is_some());
        }
        labels.iter().for_each(|(_, inner)| self.inner.push(*inner));
    }
}

impl Sparse {
    fn add(&mut self, is_key: bool, labels: &[(u8, bool)]) {
        self.is_key.push(is_key);
        self.starts.push(len_u32(self.labels.len()));
        for (i, (label, inner)) in labels.iter().enumerate() {
            self.labels.push(*label);
            self.inner.push(*inner);
            self.first.push(i == 0);
        }
    }
}

/// How many different prefixes of each length the separators have, from length 0 on.
fn prefixes_by_length(entries: &TrieEntries) -> Vec<u64> {
    let mut counts = vec![1];
    let mut last: &[u8] = &[];
    for key in (0..entries.len()).map(|i| entries.key(i)) {
        let common = crate::prefix::common_prefix(last, key);
        counts.resize(counts.len().max(key.len() + 1), 0);
        counts[common + 1..=key.len()].iter_mut().for_each(|count| *count += 1);
        last = key;
    }
    counts
}
