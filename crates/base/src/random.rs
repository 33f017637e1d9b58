//! A seeded generator for skip-list heights, sampling and tests.
//!
//! xoshiro256++ with its state filled by SplitMix64: fast, passes the usual test batteries, the
//! same numbers on every machine. Not for secrets. Belongs to one thread at a time.

use crate::narrow::to_usize;

/// A pseudo-random generator; two with one seed give the same numbers.
#[derive(Clone, Debug)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// A generator; every seed, including 0, is good.
    pub fn new(seed: u64) -> Self {
        let mut x = seed;
        let state = std::array::from_fn(|_| {
            x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = x;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        });
        Rng { state }
    }

    /// The next 64 bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.state;
        let result = a.wrapping_add(*d).rotate_left(23).wrapping_add(*a);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        result
    }

    /// The next 32 bits.
    #[inline]
    pub fn next_u32(&mut self) -> u32 {
        (self.next_u64() >> 32) as u32
    }

    /// A number in `0..n`; 0 if `n` is 0. The bias is below `n / 2^64`.
    #[inline]
    pub fn uniform(&mut self, n: u64) -> u64 {
        crate::hash::fast_range64(self.next_u64(), n)
    }

    /// True once in `n` calls on average; always for `n` 0 or 1.
    #[inline]
    pub fn one_in(&mut self, n: u64) -> bool {
        self.uniform(n) == 0
    }

    /// A number in `[0, 1)` with 53 random bits.
    #[inline]
    pub fn next_f64(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// A number in `0..2^bits` with `bits` uniform in `0..=max_bits`: small ones are likely.
    pub fn skewed(&mut self, max_bits: u32) -> u64 {
        let bits = self.uniform(u64::from(max_bits.min(63)) + 1);
        self.uniform(1 << bits)
    }

    /// Fills `out` with random bytes.
    pub fn fill(&mut self, out: &mut [u8]) {
        for chunk in out.chunks_mut(8) {
            let word = self.next_u64().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }

    /// `n` random bytes.
    pub fn bytes(&mut self, n: usize) -> Vec<u8> {
        let mut out = vec![0; n];
        self.fill(&mut out);
        out
    }

    /// Puts `items` into a random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, to_usize(self.uniform(i as u64 + 1)));
        }
    }

    /// A generator whose numbers are independent of this one's further numbers.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Rng::new(self.next_u64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_same_numbers() {
        let (mut a, mut b, mut c) = (Rng::new(7), Rng::new(7), Rng::new(8));
        let first: Vec<u64> = (0..100).map(|_| a.next_u64()).collect();
        assert!(first.iter().all(|&x| x == b.next_u64()));
        assert!(first.iter().any(|&x| x != c.next_u64()));
    }

    #[test]
    fn uniform_is_in_range_and_even() {
        let mut rng = Rng::new(1);
        let mut counts = [0u32; 10];
        for _ in 0..100_000 {
            counts[rng.uniform(10) as usize] += 1;
        }
        assert!(counts.iter().all(|&c| (9_500..10_500).contains(&c)), "{counts:?}");
        assert_eq!(rng.uniform(0), 0);
        assert!(rng.one_in(1) && rng.one_in(0));
        let hits = (0..100_000).filter(|_| rng.one_in(100)).count();
        assert!((800..1200).contains(&hits), "{hits}");
    }

    #[test]
    fn fill_shuffle_skewed_and_floats() {
        let mut rng = Rng::new(2);
        assert_eq!(rng.bytes(0).len(), 0);
        let bytes = rng.bytes(1_000_003);
        let ones: u32 = bytes.iter().map(|b| b.count_ones()).sum();
        assert!((3_990_000..4_010_000).contains(&ones), "{ones}");
        let mut items: Vec<u32> = (0..1000).collect();
        rng.shuffle(&mut items);
        assert!(items.windows(2).any(|w| w[0] > w[1]));
        items.sort_unstable();
        assert!(items.iter().enumerate().all(|(i, &x)| i as u32 == x));
        assert!((0..1000).all(|_| rng.skewed(4) < 16 && (0.0..1.0).contains(&rng.next_f64())));
    }
}
