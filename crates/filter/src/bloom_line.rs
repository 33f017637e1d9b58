//! The Bloom filter of format 5 and later: all bits of a key in one 64-byte line.
//!
//! ```text
//! line = low32(hash) scaled to the lines; x = high32(hash)
//! each probe: bit (x >> 23) of the line; x *= GOLDEN
//! metadata: ff 00 probes 00 00
//! ```
//!
//! Thread safety: pure functions.

use pumice_base::hash::fast_range32;

pub(crate) const LINE: usize = 64;
pub(crate) const MAX_PROBES: u8 = 30;
/// First metadata byte.
pub(crate) const MARKER: u8 = 0xff;
pub(crate) const GOLDEN: u32 = 0x9e37_79b9;

/// The line of a hash among `lines`.
#[inline(always)]
pub(crate) fn line_of(hash: u64, lines: u32) -> usize {
    fast_range32(hash as u32, lines) as usize
}

/// All bits of `hash` are set in its line. One branch at the end: which probe fails is random, so
/// leaving early would cost a misprediction, more than the remaining probes of a loaded line.
#[inline(always)]
pub(crate) fn line_matches(line: &[u8; LINE], hash: u64, probes: u8) -> bool {
    match probes {
        6 => probe(line, hash, 6),
        _ => probe(line, hash, probes),
    }
}

#[inline(always)]
fn probe(line: &[u8; LINE], hash: u64, probes: u8) -> bool {
    let mut x = (hash >> 32) as u32;
    let mut all = 1u8;
    for _ in 0..probes {
        let bit = x >> 23;
        all &= line[(bit >> 3) as usize] >> (bit & 7);
        x = x.wrapping_mul(GOLDEN);
    }
    all & 1 != 0
}
