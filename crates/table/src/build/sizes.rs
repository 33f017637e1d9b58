//! Estimates the size of the file, as a function of the entries alone.
//!
//! Files are cut by this estimate, so it must not depend on how far compression has come. With a
//! codec, blocks at least [`LAG`] back count with their stored size (no pipeline has more blocks in
//! progress), later ones with their raw size times the ratio so far. Without a codec the estimate
//! is exact.
//!
//! One owner, the emitter. Invariants: (1) block `i` is in the windows while `i >= emitted - LAG`;
//! (2) the stored size of a block is noted before the block leaves the window.

use pumice_base::narrow::saturating_u64;

/// Blocks whose stored size is not used yet.
pub(crate) const LAG: usize = 32;

/// Raw and stored sizes, trailers and padding included.
#[derive(Debug)]
pub(crate) struct SizeEstimate {
    emitted: usize,
    /// Sizes of the last blocks, at block number modulo `LAG`.
    raw: [u64; LAG],
    stored: [u64; LAG],
    /// Sum of `raw`.
    window_raw: u64,
    /// Sums over the blocks that left the window.
    settled_raw: u64,
    settled_stored: u64,
    /// Bytes before the first block.
    start: u64,
    /// Blocks are stored as they are.
    exact: bool,
    /// The size up to the end of the data blocks, and of what follows them, as of the last block.
    data: u64,
    tail: u64,
}

impl SizeEstimate {
    /// No block yet, after `start` bytes of file; `exact` if blocks are stored as they are.
    pub fn new(start: u64, exact: bool) -> Self {
        SizeEstimate {
            emitted: 0,
            raw: [0; LAG],
            stored: [0; LAG],
            window_raw: 0,
            settled_raw: 0,
            settled_stored: 0,
            start,
            exact,
            data: start,
            tail: 0,
        }
    }

    /// The next block has `raw` bytes, and everything after the data blocks about `tail`. `stored`,
    /// if known already, is the block's size in the file.
    pub fn emitted(&mut self, raw: u64, stored: u64, tail: u64) {
        let at = self.emitted % LAG;
        self.settled_raw += self.raw[at];
        self.settled_stored += self.stored[at];
        self.window_raw = self.window_raw - self.raw[at] + raw;
        self.raw[at] = raw;
        self.stored[at] = stored;
        self.emitted += 1;
        (self.data, self.tail) = (self.start + self.data_bytes(), tail);
    }

    /// Block `number` takes `bytes` in the file; reported before block `number + LAG` is emitted.
    pub fn stored(&mut self, number: usize, bytes: u64) {
        debug_assert!(number < self.emitted && number + LAG >= self.emitted, "outside the window");
        self.stored[number % LAG] = bytes;
    }

    /// `bytes` of blocks wait for a dictionary; nothing is emitted yet.
    pub fn waiting(&mut self, bytes: u64, tail: u64) {
        (self.data, self.tail) = (self.start + bytes, tail);
    }

    /// Data blocks emitted.
    pub fn blocks(&self) -> usize {
        self.emitted
    }

    /// The estimate as of the last block.
    #[inline]
    pub fn get(&self) -> u64 {
        self.data + self.tail
    }

    /// The part of [`SizeEstimate::get`] that is data blocks.
    #[inline]
    pub fn data(&self) -> u64 {
        self.data
    }

    /// The part of it that follows the data blocks.
    pub fn tail(&self) -> u64 {
        self.tail
    }

    fn data_bytes(&self) -> u64 {
        if self.exact || self.settled_raw == 0 {
            return self.settled_stored + self.window_raw;
        }
        let scaled = u128::from(self.window_raw) * u128::from(self.settled_stored)
            / u128::from(self.settled_raw);
        self.settled_stored + saturating_u64(scaled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However late stored sizes become known, the estimate is the same.
    #[pumice_test_macros::test]
    fn the_estimate_does_not_depend_on_when_sizes_are_known() {
        let mut rng = pumice_base::random::Rng::new(5);
        let blocks: Vec<(u64, u64)> =
            (0..300).map(|_| (4000 + rng.uniform(200), 1000 + rng.uniform(2000))).collect();
        let mut at_once = SizeEstimate::new(7, false);
        for lag in [1, 2, 4, 8, 16, 32] {
            let mut late = SizeEstimate::new(7, false);
            at_once = SizeEstimate::new(7, false);
            for (i, &(raw, stored)) in blocks.iter().enumerate() {
                at_once.emitted(raw, stored, 9);
                if i >= lag {
                    late.stored(i - lag, blocks[i - lag].1);
                }
                late.emitted(raw, 0, 9);
                assert_eq!(at_once.get(), late.get(), "block {i} lag {lag}");
            }
        }
        let stored: u64 = blocks.iter().map(|block| block.1).sum();
        let error = at_once.get().abs_diff(stored) as f64 / stored as f64;
        assert!(error < 0.05, "{} for {stored}", at_once.get());
    }

    #[pumice_test_macros::test]
    fn without_a_codec_it_is_exact() {
        let mut sizes = SizeEstimate::new(0, true);
        for i in 1..100 {
            sizes.emitted(4096, 4096, 11);
            assert_eq!(sizes.get(), 4096 * i + 11);
        }
        assert_eq!(sizes.blocks(), 99);
    }
}
