//! Gaussian elimination on the fly: brings the equations of the keys into row echelon form.
//!
//! The pivot of an equation is its first row with a nonzero coefficient. One that meets a pivot in
//! use subtracts the equation there and moves on, at most 127 rows. The pivots and, with the free
//! rows at zero, the solution do not depend on the order of the keys, nor does solvability.
//!
//! Thread safety: one owner. Invariants: (1) `coefficients[i]` is 0 for a free row, otherwise bit 0
//! is set and bit `k` weighs row `i + k`; no set bit is beyond the last row, since starts leave 127
//! rows after them; (2) `results[i]` is 0 for a free row.

use super::{Equation, ROWS, raw_seed};
use crate::dedup::KeyHashes;
use crate::parts;

/// Slots that the second-level cache may be expected to hold, at 20 bytes each.
const CACHED_SLOTS: usize = 1 << 16;
/// Hashes of a larger system that are sorted at once: 8 MiB, where the system takes 20.
const AT_ONCE: usize = 1 << 20;
/// Slots of a part of a larger system.
const LOG2_PART_SLOTS: u32 = 13;

/// Equations in echelon form.
pub(super) struct Banding {
    pub(super) coefficients: Vec<u128>,
    pub(super) results: Vec<u32>,
}

impl Banding {
    /// Bytes that [`Banding::solvable`] takes.
    pub(super) fn bytes(hashes: &KeyHashes<u64>, slots: usize) -> usize {
        let sorting = match slots <= CACHED_SLOTS {
            true => 0,
            false => parts::bytes(hashes, AT_ONCE, slots.div_ceil(1 << LOG2_PART_SLOTS)),
        };
        slots * (size_of::<u128>() + size_of::<u32>()) + sorting
    }

    /// Tries the 256 seeds, `first_seed` and onward, until the equations of `hashes` can be solved
    /// with `slots` rows. The seed and the equations; `None` if no seed does.
    pub(super) fn solvable(
        hashes: &KeyHashes<u64>,
        slots: usize,
        first_seed: u8,
    ) -> Option<(u8, Banding)> {
        let mut banding = Banding { coefficients: vec![0; slots], results: vec![0; slots] };
        for attempt in 0..=255u8 {
            let seed = first_seed.wrapping_add(attempt);
            if attempt > 0 {
                banding.coefficients.fill(0);
                banding.results.fill(0);
            }
            if banding.add_all(hashes, raw_seed(seed)) {
                return Some((seed, banding));
            }
        }
        None
    }

    fn add_all(&mut self, hashes: &KeyHashes<u64>, raw_seed: u64) -> bool {
        let slots = self.results.len();
        let starts = (slots - (ROWS - 1)) as u64;
        let add = |hashes: &[u64]| {
            hashes.iter().all(|&hash| self.add(Equation::new(hash, raw_seed, starts)))
        };
        if slots <= CACHED_SLOTS {
            return hashes.chunks().all(add);
        }
        let parts = slots.div_ceil(1 << LOG2_PART_SLOTS);
        let part_of =
            |hash| Equation::new(hash, raw_seed, starts).start as usize >> LOG2_PART_SLOTS;
        parts::visit_by_part(hashes, AT_ONCE, parts, part_of, add)
    }

    /// False if the equation contradicts those before it.
    #[inline(always)]
    fn add(&mut self, equation: Equation) -> bool {
        let Equation { start, mut coefficients, mut result } = equation;
        let mut row = start as usize;
        loop {
            let pivot = &mut self.coefficients[row];
            if *pivot == 0 {
                *pivot = coefficients;
                self.results[row] = result;
                return true;
            }
            coefficients ^= *pivot;
            result ^= self.results[row];
            if coefficients == 0 {
                // A redundant equation: the key came twice, or is the sum of others.
                return result == 0;
            }
            let skip = coefficients.trailing_zeros();
            coefficients >>= skip;
            row += skip as usize;
        }
    }
}
