//! Queries of stored Ribbon filters.
//!
//! Thread safety: immutable. No bytes make it panic: words that are not there match.

use super::{Equation, Layout, ROWS, WORD, raw_seed};

/// Parameters of a stored filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RibbonParams {
    raw_seed: u64,
    layout: Layout,
}

impl RibbonParams {
    /// Parses the metadata after the marker of a filter with `data_len` data bytes; `None` if such
    /// a filter cannot be read.
    pub(crate) fn parse(seed: u8, blocks: u32, data_len: usize) -> Option<Self> {
        let words = data_len / WORD;
        if blocks < 2 || words == 0 || !data_len.is_multiple_of(WORD) {
            return None;
        }
        Some(RibbonParams { raw_seed: raw_seed(seed), layout: Layout::new(blocks as usize, words) })
    }

    /// The key with that hash matches.
    pub(crate) fn may_match(&self, data: &[u8], hash: u64) -> bool {
        let key = Equation::new(hash, self.raw_seed, self.layout.starts());
        let (block, shift) = (key.start as usize / ROWS, key.start as usize % ROWS);
        let (first, columns) = self.layout.block(block);
        let spans_two = shift != 0;
        let words = columns * (1 + usize::from(spans_two));
        let Some(bytes) = data.get(first * WORD..(first + words) * WORD) else { return true };
        let (here, next) = bytes.as_chunks::<WORD>().0.split_at(columns);
        let low = key.coefficients << shift;
        let high = if spans_two { key.coefficients >> (ROWS - shift) } else { 0 };
        (0..columns).all(|i| {
            let mut sum = u128::from_le_bytes(here[i]) & low;
            if let Some(word) = next.get(i) {
                sum ^= u128::from_le_bytes(*word) & high;
            }
            sum.count_ones() & 1 == (key.result >> i) & 1
        })
    }
}
