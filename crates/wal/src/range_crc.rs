//! CRC-32C of any range of a block, each in the same short time.
//!
//! The register of a CRC is linear in its input. So the registers after every byte of the block,
//! computed in one pass, give that of any range: the register at its end minus the one at its start
//! advanced to the end. Advancing a register by `n` bytes multiplies it by `x^(8 n)`, modulo the
//! polynomial.
//!
//! Registers and polynomials have their bits reversed, as the checksum has: the top bit is `x^0`.
//! Thread safety: pure; [`RangeCrc`] has one owner. Ranges are checked.

use pumice_base::narrow::{len_u32, low_u8};
use std::ops::Range;

/// CRC-32C's polynomial.
const POLYNOMIAL: u32 = 0x82F6_3B78;
/// `x^0`.
const ONE: u32 = 1 << 31;

/// The registers of a block.
pub(crate) struct RangeCrc {
    table: [u32; 256],
    /// The register after each number of bytes, starting from zero.
    registers: Vec<u32>,
    /// `x^(8 n)` for each length `n`.
    shifts: Vec<u32>,
}

impl RangeCrc {
    /// An empty one.
    pub fn new() -> Self {
        RangeCrc { table: shift_table(), registers: vec![0], shifts: vec![ONE] }
    }

    /// Replaces the block by `bytes`.
    pub fn set(&mut self, bytes: &[u8]) {
        self.registers.clear();
        let mut register = 0;
        self.registers.push(register);
        for byte in bytes {
            register = register >> 8 ^ self.table[usize::from(low_u8(u64::from(register)) ^ byte)];
            self.registers.push(register);
        }
        while self.shifts.len() <= bytes.len() {
            let last = self.shifts.last().copied().unwrap_or(ONE);
            self.shifts.push(last >> 8 ^ self.table[usize::from(low_u8(u64::from(last)))]);
        }
    }

    /// `crc32c` of those bytes; `None` if they are out of range.
    pub fn of(&self, range: Range<usize>) -> Option<u32> {
        let shift = *self.shifts.get(range.end.checked_sub(range.start)?)?;
        let (before, after) = (self.registers.get(range.start)?, self.registers.get(range.end)?);
        // The register of a checksum begins with all bits set.
        Some(!(after ^ product(before ^ u32::MAX, shift)))
    }
}

/// `a` times `b`.
fn product(mut a: u32, b: u32) -> u32 {
    let mut sum = 0;
    for power in (0..32).rev() {
        // All bits set if `b` has this power, otherwise none.
        sum ^= a & (b >> power & 1).wrapping_neg();
        a = a >> 1 ^ POLYNOMIAL & (a & 1).wrapping_neg();
    }
    sum
}

/// The term that shifting by a byte adds, indexed by the byte shifted out.
pub(crate) fn shift_table() -> [u32; 256] {
    std::array::from_fn(|byte| {
        (0..8).fold(len_u32(byte), |crc, _| crc >> 1 ^ if crc & 1 == 1 { POLYNOMIAL } else { 0 })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pumice_base::checksum::crc32c;
    use pumice_base::random::Rng;

    #[pumice_test_macros::test]
    fn every_range_has_its_checksum() {
        let mut rng = Rng::new(3);
        let mut sums = RangeCrc::new();
        assert_eq!(sums.of(0..1), None);
        for len in [0, 1, 2, 3, 40, 300, 17] {
            let bytes = rng.bytes(len);
            sums.set(&bytes);
            for start in 0..=len {
                for end in start..=len {
                    let want = crc32c(&bytes[start..end]);
                    assert_eq!(sums.of(start..end), Some(want), "{start}..{end} of {len}");
                }
            }
            assert_eq!(sums.of(0..len + 1), None);
            assert_eq!(sums.of(Range { start: 1, end: 0 }), None);
        }
        let bytes = rng.bytes(1 << 15);
        sums.set(&bytes);
        for _ in 0..1000 {
            let end = rng.uniform(bytes.len() as u64 + 1) as usize;
            let start = rng.uniform(end as u64 + 1) as usize;
            assert_eq!(sums.of(start..end), Some(crc32c(&bytes[start..end])), "{start}..{end}");
        }
    }
}
