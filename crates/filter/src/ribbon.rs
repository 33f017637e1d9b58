//! Reads the standard 128-bit Ribbon filter.
//!
//! The data is a bit matrix stored by blocks of 128 rows: a block is a run of columns, each a
//! little-endian 128-bit word. A key selects 128 consecutive rows by its start, weights them by
//! its coefficients, and matches if the weighted sum of every column, mod 2, is that bit of its
//! result. Some leading blocks have one column fewer than the rest.

use pumice_base::hash::fast_range64;

const WORD: usize = 16;
const ROWS: u64 = 128;
const MAX_COLUMNS: u64 = 32;

/// Parameters of a stored filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RibbonParams {
    raw_seed: u32,
    starts: u64,
    /// Columns of the later blocks.
    columns: u64,
    /// How many leading blocks have one column fewer.
    short_blocks: u64,
}

impl RibbonParams {
    /// Parses the metadata behind the marker of a filter with `data_len` data bytes; `None` if
    /// such a filter cannot be read.
    pub(crate) fn parse(seed: u8, blocks: u32, data_len: usize) -> Option<Self> {
        let blocks = u64::from(blocks);
        let words = (data_len / WORD) as u64;
        if blocks < 2 || words == 0 || !data_len.is_multiple_of(WORD) {
            return None;
        }
        let columns = words.div_ceil(blocks);
        let (columns, short_blocks) = if columns > MAX_COLUMNS {
            (MAX_COLUMNS, 0)
        } else {
            (columns, columns * blocks - words)
        };
        let mut mixed = u64::from(seed).wrapping_mul(0xc782_19a2_3eea_dd03);
        mixed ^= (mixed & 0xf0f0_f0f0_f0f0_f0f0) >> 4;
        let starts = blocks * ROWS - (ROWS - 1);
        Some(RibbonParams { raw_seed: mixed as u32, starts, columns, short_blocks })
    }

    /// The key with that hash matches.
    pub(crate) fn may_match(&self, data: &[u8], hash: u64) -> bool {
        let hash = (hash ^ u64::from(self.raw_seed)).wrapping_mul(0x6193_d459_236a_3a0d);
        let start = fast_range64(hash, self.starts);
        let a = hash.wrapping_mul(0xc28f_8282_2b65_0bed);
        let coefficients = (u128::from(a) << 64) | u128::from(a ^ 0xc367_844a_6e52_731d) | 1;
        let result = a.swap_bytes() as u32;

        let (block, shift) = (start / ROWS, (start % ROWS) as u32);
        let columns = (self.columns - u64::from(block < self.short_blocks)) as usize;
        let first = (block * self.columns - block.min(self.short_blocks)) as usize;
        let spans_two = shift != 0;
        let words = columns * (1 + usize::from(spans_two));
        let Some(bytes) = data.get(first * WORD..(first + words) * WORD) else { return true };
        let (here, next) = bytes.as_chunks::<WORD>().0.split_at(columns);
        let low = coefficients << shift;
        let high = if spans_two { coefficients >> (ROWS as u32 - shift) } else { 0 };
        (0..columns).all(|i| {
            let mut sum = u128::from_le_bytes(here[i]) & low;
            if let Some(word) = next.get(i) {
                sum ^= u128::from_le_bytes(*word) & high;
            }
            sum.count_ones() & 1 == (result >> i) & 1
        })
    }
}
