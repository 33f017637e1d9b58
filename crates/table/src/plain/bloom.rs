//! The bloom block of a plain table: bits of a 32-bit hash, six probes.
//!
//! Pure functions.

use pumice_base::narrow::{low_u32, to_usize};

/// Probes per hash, whatever the number of bits. Persisted by what readers assume.
const PROBES: u32 = 6;

/// The block of these hashes, with so many bits each.
pub(super) fn bloom_block(hashes: &[u32], bits_per_hash: u32) -> Vec<u8> {
    let bits = (hashes.len() as u64).saturating_mul(u64::from(bits_per_hash));
    // Readers count the bits with 32 bits.
    let bytes = bits.div_ceil(8).min(u64::from(u32::MAX / 8));
    let mut block = vec![0; to_usize(bytes)];
    let bits = low_u32(bytes * 8);
    for hash in hashes {
        let (mut at, step) = (*hash, hash.rotate_right(17));
        for _ in 0..PROBES {
            let bit = at % bits;
            block[(bit / 8) as usize] |= 1 << (bit % 8);
            at = at.wrapping_add(step);
        }
    }
    block
}
