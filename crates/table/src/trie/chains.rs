//! Chains of a trie: paths through nodes of one label, which a search of the stored form compares
//! in one go (docs/format/trie_index.md#chains).
//!
//! Searches here do not need them; they are listed for RocksDB, and must be within bounds in what
//! is read. Pure functions.

use pumice_base::coding::{Decoder, put_fixed16, put_fixed32, put_fixed64};
use pumice_base::narrow::{len_u32, low_u16, round_down_u64, to_usize};

use crate::trie::bits::{Bits, get_words};
use crate::trie::levels::Sparse;
use crate::trie::{NO_NODE, get_padded, pad};

/// Shorter chains are not listed.
const LEN_MIN: u32 = 8;
/// Bytes that a chain takes besides its labels.
const CHAIN_BYTES: u64 = 10;

/// The chain below a label that has a node.
#[derive(Clone, Copy)]
struct Chain {
    /// Number of labels.
    len: u32,
    /// Which label with a node it ends at, among those; `NO_NODE` if at a leaf.
    end: u32,
}

/// The node under the `inner`-th label that has one.
struct Below<'a> {
    sparse: &'a Sparse,
    /// The first node under such a label.
    children: usize,
    /// How many labels with nodes are before each.
    ranks: &'a [u32],
}

impl Below<'_> {
    /// Its label, if it has one and no separator ends there.
    fn only_label(&self, inner: usize) -> Option<usize> {
        let node = self.children + inner;
        let (start, end) = self.sparse.range(node);
        (end - start == 1 && !self.sparse.is_key.get(node)).then_some(start as usize)
    }

    /// The number of a label among those that have nodes.
    fn inner(&self, label: usize) -> Option<u32> {
        self.sparse.inner.get(label).then(|| self.ranks[label])
    }

    /// The chains under all labels that have nodes.
    fn chains(&self, len: usize) -> Vec<Chain> {
        // `tails[i]` goes on as far as there is one label, be it a leaf.
        let mut tails = vec![Chain { len: 0, end: NO_NODE }; len];
        let mut chains = tails.clone();
        for i in (0..len).rev() {
            tails[i].end = len_u32(i);
            let Some(label) = self.only_label(i) else { continue };
            tails[i] = match self.inner(label) {
                None => Chain { len: 1, end: NO_NODE },
                Some(next) => {
                    let tail = tails[next as usize];
                    Chain { len: tail.len + 1, ..tail }
                }
            };
            if self.inner(label).is_some() {
                chains[i] = tails[i];
            }
        }
        chains
    }

    /// The labels of a chain.
    fn labels(&self, mut inner: usize, len: u32, out: &mut Vec<u8>) {
        for _ in 0..len {
            let Some(label) = self.only_label(inner) else { return };
            out.push(self.sparse.labels[label]);
            inner = self.inner(label).map_or(inner, |next| next as usize);
        }
    }
}

/// Appends the chains of the sparse levels. `children`: the first node under one of their labels;
/// `keys`: the number of separators.
pub(super) fn encode_to(out: &mut Vec<u8>, sparse: &Sparse, children: u64, keys: usize) {
    let inners = sparse.inner.iter().scan(0, |rank, inner| {
        let before = *rank;
        *rank += u32::from(inner);
        Some(before)
    });
    let ranks: Vec<u32> = inners.collect();
    let below = Below { sparse, children: to_usize(children), ranks: &ranks };
    let chains = below.chains(sparse.inner.ones());
    let listed = listed(&chains, out.len(), keys);
    put_fixed64(out, listed.len() as u64);
    if listed.is_empty() {
        return;
    }
    let mut has_chain = Bits::default();
    let mut rest = listed.iter().peekable();
    for i in 0..chains.len() {
        has_chain.push(rest.next_if_eq(&&i).is_some());
    }
    has_chain.encode_to(out);
    let mut offset = 0;
    for i in &listed {
        put_fixed32(out, offset);
        offset += chains[*i].len;
    }
    pad(out);
    listed.iter().for_each(|i| put_fixed16(out, low_u16(chains[*i].len.into())));
    pad(out);
    listed.iter().for_each(|i| put_fixed32(out, chains[*i].end));
    pad(out);
    put_fixed64(out, offset.into());
    listed.iter().for_each(|i| below.labels(*i, chains[*i].len, out));
    pad(out);
}

/// Which chains are listed: those long enough, unless they are more than the separators, and as
/// many as a tenth of the block so far has room for, the longest first.
fn listed(chains: &[Chain], block_bytes: usize, keys: usize) -> Vec<usize> {
    let lens = LEN_MIN..=u16::MAX.into();
    let mut listed: Vec<_> = (0..chains.len()).filter(|i| lens.contains(&chains[*i].len)).collect();
    let bitmap = chains.len().div_ceil(8) + (chains.len() / 512 + 1) * 8;
    let room = round_down_u64(block_bytes as f64 * 0.10).checked_sub(bitmap as u64);
    let Some(mut room) = room.filter(|room| *room > 0 && listed.len() <= keys) else {
        return Vec::new();
    };
    listed.sort_by_key(|i| std::cmp::Reverse(chains[*i].len));
    listed.retain(|i| {
        let left = room.checked_sub(CHAIN_BYTES + u64::from(chains[*i].len));
        room = left.unwrap_or(room);
        left.is_some()
    });
    listed.sort_unstable();
    listed
}

/// Takes the chains off `src`: of `inners` labels with nodes.
pub(super) fn check(src: &mut Decoder<'_>, inners: usize) -> Result<(), &'static str> {
    let count = src.fixed64().ok_or("Trie index: truncated chain count")?;
    if count == 0 {
        return Ok(());
    }
    let has_chain = Bits::decode(src)?;
    if has_chain.len() != inners || has_chain.ones() as u64 != count {
        return Err("Trie index: chain bitmap inconsistent with the number of chains");
    }
    let count = has_chain.ones();
    let offsets = get_words(src, count).ok_or("Trie index: truncated chain offsets")?;
    let lens = get_padded(src, 2 * count).ok_or("Trie index: truncated chain lengths")?;
    let lens = lens.as_chunks().0.iter().map(|len| u16::from_le_bytes(*len));
    let ends = get_words(src, count).ok_or("Trie index: truncated chain end indices")?;
    if ends.iter().any(|end| *end != NO_NODE && *end as usize >= inners) {
        return Err("Trie index: chain end child index out of range");
    }
    let bytes = src.fixed64().ok_or("Trie index: truncated chain suffix size")?;
    let len = usize::try_from(bytes).map_err(|_| "Trie index: truncated chain suffix data")?;
    get_padded(src, len).ok_or("Trie index: truncated chain suffix data")?;
    let mut chains = offsets.iter().zip(lens);
    if chains.any(|(offset, len)| u64::from(*offset) + u64::from(len) > bytes) {
        return Err("Trie index: chain suffix offset + length exceeds suffix data");
    }
    Ok(())
}
