//! The standard 128-bit Ribbon filter: about 30 % smaller than a Bloom filter of the same
//! false-positive rate, and several times as slow to build.
//!
//! The data is a bit matrix stored by blocks of 128 rows ("slots"): a block is a run of columns,
//! each a little-endian 128-bit word. A key selects 128 consecutive rows by its start, weights them
//! by its coefficients, and matches if the weighted sum of every column, mod 2, is that bit of its
//! result. Some leading blocks have one column fewer than the rest, which makes any length usable.
//! To build one is to solve a system of linear equations with a band of 128 (`banding`, `solve`).
//!
//! ```text
//! metadata: fe, seed, 24-bit number of blocks
//! ```

mod banding;
mod builder;
mod reader;
mod sizing;
mod solve;

pub use builder::RibbonBuilder;
pub(crate) use reader::RibbonParams;

use pumice_base::hash::fast_range64;

/// First metadata byte.
pub(crate) const MARKER: u8 = 0xfe;
/// Bytes of a word.
const WORD: usize = 16;
/// Rows of a block, and of a key.
const ROWS: usize = 128;
/// Bits of a result.
const MAX_COLUMNS: usize = 32;

/// How the words of a filter are divided among its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    blocks: usize,
    /// Columns of the later blocks.
    columns: usize,
    /// How many leading blocks have one column fewer.
    short_blocks: usize,
}

impl Layout {
    /// The layout of `words` words; `blocks` is not 0. Words beyond 32 columns stay unused.
    fn new(blocks: usize, words: usize) -> Self {
        match words.div_ceil(blocks) {
            columns if columns > MAX_COLUMNS => {
                Layout { blocks, columns: MAX_COLUMNS, short_blocks: 0 }
            }
            columns => Layout { blocks, columns, short_blocks: columns * blocks - words },
        }
    }

    /// Number of places where the rows of a key may start.
    fn starts(&self) -> u64 {
        (self.blocks * ROWS - (ROWS - 1)) as u64
    }

    /// First word and number of columns of a block.
    fn block(&self, block: usize) -> (usize, usize) {
        let first = block * self.columns - block.min(self.short_blocks);
        (first, self.columns - usize::from(block < self.short_blocks))
    }

    /// The false-positive rate to expect: a half to the power of the columns.
    fn rate(&self) -> f64 {
        let short = (self.short_blocks * ROWS) as f64 / self.starts() as f64;
        let rate = 0.5f64.powi(self.columns as i32);
        short * 2.0 * rate + (1.0 - short) * rate
    }
}

/// What the persisted seed does to every key's hash.
fn raw_seed(seed: u8) -> u64 {
    let mut mixed = u64::from(seed).wrapping_mul(0xc782_19a2_3eea_dd03);
    mixed ^= (mixed & 0xf0f0_f0f0_f0f0_f0f0) >> 4;
    mixed & 0xffff_ffff
}

/// The equation of a key.
struct Equation {
    /// First row.
    start: u64,
    /// Weights of the 128 rows; the first is 1.
    coefficients: u128,
    /// The sum, a bit per column.
    result: u32,
}

impl Equation {
    #[inline(always)]
    fn new(hash: u64, raw_seed: u64, starts: u64) -> Self {
        let hash = (hash ^ raw_seed).wrapping_mul(0x6193_d459_236a_3a0d);
        let a = hash.wrapping_mul(0xc28f_8282_2b65_0bed);
        Equation {
            start: fast_range64(hash, starts),
            coefficients: (u128::from(a) << 64) | u128::from(a ^ 0xc367_844a_6e52_731d) | 1,
            result: a.swap_bytes() as u32,
        }
    }
}
