//! `read_amp_bytes_per_bit`: how much of the blocks read was used.
//!
//! A data block that is read for a user, or prepopulated, then has a bitmap. Each bit stands for
//! one byte of the block, at regular steps from a first one that differs from block to block.
//! Returning an entry sets the bits within it, and counts those that were not set. Both sums are
//! tickers: bytes of the blocks, and bytes used.
//!
//! As in RocksDB, except for what is not measured here: blocks that are read without filling the
//! cache (compactions, which use all of a block), and entries that a lookup meets and does not
//! return.
//!
//! Thread safety: bits are set with relaxed atomics; each is counted once.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::handle::BlockKind;
use crate::read::cached_block::CachedBlock;
use crate::stats::TableStats;

/// Which bytes of a block were used.
#[derive(Debug)]
pub(crate) struct ReadAmp {
    words: Box<[AtomicU32]>,
    /// Byte of the first bit, below `1 << shift`.
    first: usize,
    /// Log2 of the bytes between two bits.
    shift: u32,
}

impl ReadAmp {
    /// Nothing of `bytes` bytes was used. One bit for `bytes_per_bit`, or the next power of two
    /// below; `place` is the block's in the file. Requires `bytes_per_bit > 0`.
    pub fn new(bytes: usize, bytes_per_bit: u32, place: u64) -> Self {
        let shift = bytes_per_bit.ilog2();
        let bits = (bytes >> shift) + 1;
        let spread = place.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        ReadAmp {
            words: (0..bits.div_ceil(32)).map(|_| AtomicU32::new(0)).collect(),
            first: spread as usize & ((1 << shift) - 1),
            shift,
        }
    }

    /// `range` was used: the bytes that are counted for it, 0 if it was used before.
    pub fn mark(&self, range: Range<usize>) -> u64 {
        let mut fresh = 0;
        for bit in self.bits_before(range.start)..self.bits_before(range.end) {
            let Some(word) = self.words.get(bit / 32) else { break };
            let mask = 1 << (bit % 32);
            fresh += u64::from(word.fetch_or(mask, Ordering::Relaxed) & mask == 0);
        }
        fresh << self.shift
    }

    /// Bits that stand for bytes before `at`.
    fn bits_before(&self, at: usize) -> usize {
        let round_up = (1 << self.shift) - 1;
        (at.saturating_sub(self.first) + round_up) >> self.shift
    }

    /// Memory held.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.words)
    }
}

impl CachedBlock {
    /// Begins to measure the use of this block, if it is one of data, which is at `place`.
    pub(crate) fn measure(&mut self, bytes_per_bit: u32, place: u64, stats: &dyn TableStats) {
        let bytes = self.block.entries_end();
        if self.kind() != BlockKind::Data || bytes == 0 || bytes_per_bit == 0 {
            return;
        }
        self.set_read_amp(ReadAmp::new(bytes, bytes_per_bit, place));
        stats.read_amp_total(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pumice_base::random::Rng;

    #[pumice_test_macros::test]
    fn with_a_bit_per_byte_it_is_exact() {
        let map = ReadAmp::new(1000, 1, 7);
        assert_eq!(map.mark(10..30), 20);
        assert_eq!(map.mark(10..30), 0);
        assert_eq!(map.mark(20..40), 10);
        assert_eq!(map.mark(0..0), 0);
        assert_eq!(map.mark(0..1000), 970);
    }

    /// Whatever the first byte, all entries together cover the block, except for one bit.
    #[pumice_test_macros::test]
    fn estimates_are_near() {
        let mut rng = Rng::new(5);
        for bytes_per_bit in [2, 8, 31, 32, 33, 64] {
            let size = 1u64 << u32::ilog2(bytes_per_bit);
            let (mut sum, mut true_sum) = (0u64, 0u64);
            for place in 0..200 {
                let map = ReadAmp::new(4000, bytes_per_bit, place * 4021);
                let (mut at, mut whole) = (0, 0);
                while at < 4000 {
                    let end = (at + 1 + rng.uniform(120) as usize).min(4000);
                    let marked = map.mark(at..end);
                    whole += marked;
                    if rng.one_in(3) {
                        (sum, true_sum) = (sum + marked, true_sum + (end - at) as u64);
                    }
                    at = end;
                }
                assert!(whole.abs_diff(4000) < size, "{bytes_per_bit}: {whole}");
            }
            assert!(sum.abs_diff(true_sum) * 50 < true_sum, "{bytes_per_bit}: {sum} {true_sum}");
        }
    }
}
