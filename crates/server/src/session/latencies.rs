//! How long the calls of a command took: a histogram with two significant decimal digits, as
//! Redis's, so that the same durations give the same percentiles and distributions.
//!
//! ```text
//! nanoseconds   0 .. 256 | 256 .. 512 | 512 .. 1024 | ...   | 2^33 .. 2^34
//! a bucket is   1 wide   | 2 wide     | 4 wide      | ...   | 2^26 wide
//! buckets       256      | 128        | 128         | 128   | 128
//! ```
//!
//! Durations come in microseconds; what took longer than the last bucket is in it. Redis counts
//! what took more than a second as a second, and so do the reports here.
//!
//! Thread safety: atomics, which may be shared. What is read while others count is what some of
//! them have counted.

use std::sync::atomic::{AtomicU64, Ordering};

/// Bits of a number that choose its bucket: 8, so a bucket is at most 1/128 of its numbers wide.
const BITS: u32 = 8;
const HALF: usize = 1 << (BITS - 1);
/// Numbers have at most this many bits.
const BITS_MAX: u32 = 34;
const BUCKETS: usize = (BITS_MAX - BITS + 2) as usize * HALF;
/// How many powers of two of microseconds the server's own pages show.
pub const BUCKETS_SHOWN: usize = 24;
/// What reports show at most.
const NANOS_SHOWN: u64 = 1_000_000_000;
/// The first step of a distribution; each is twice the one before.
const FIRST_STEP: u64 = 1024;

/// See the module's head.
pub struct Latencies(Box<[AtomicU64]>);

/// The bucket of a number of nanoseconds.
#[inline]
fn bucket_of(nanos: u64) -> usize {
    let nanos = nanos.min((1 << BITS_MAX) - 1);
    let shift = (u64::BITS - (nanos | 0xff).leading_zeros()) - BITS;
    shift as usize * HALF + (nanos >> shift) as usize
}

/// The largest number of a bucket.
fn end_of(bucket: usize) -> u64 {
    let shift = (bucket / HALF).saturating_sub(1);
    let first = ((bucket - shift * HALF) as u64) << shift;
    first + (1 << shift) - 1
}

impl Default for Latencies {
    fn default() -> Latencies {
        // Not an array: it would be built on a fiber's stack.
        Latencies(std::iter::repeat_with(AtomicU64::default).take(BUCKETS).collect())
    }
}

impl Latencies {
    /// `calls` more that took this many microseconds each.
    #[inline]
    pub fn add(&self, micros: u64, calls: u64) {
        let bucket = bucket_of(micros.saturating_mul(1000));
        self.0[bucket].fetch_add(calls, Ordering::Relaxed);
    }

    /// Forgets all.
    pub fn reset(&self) {
        self.0.iter().for_each(|count| count.store(0, Ordering::Relaxed));
    }

    /// What it holds now.
    pub fn now(&self) -> Counts {
        Counts(self.0.iter().map(|count| count.load(Ordering::Relaxed)).collect())
    }
}

/// What a histogram held at one time.
pub struct Counts(Vec<u64>);

impl Default for Counts {
    fn default() -> Counts {
        Counts(vec![0; BUCKETS])
    }
}

impl Counts {
    /// All calls.
    pub fn calls(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Those of another histogram as well.
    pub fn add(&mut self, other: &Counts) {
        self.0.iter_mut().zip(&other.0).for_each(|(sum, count)| *sum += count);
    }

    /// Microseconds that this share of the calls, in percent, did not exceed; 0 without calls.
    pub fn percentile(&self, percent: f64) -> f64 {
        let rank = (percent / 100.0 * self.calls() as f64 + 0.5) as u64;
        let (rank, mut sum) = (rank.max(1), 0);
        let reached = |(_, count): &(usize, &u64)| {
            sum += **count;
            sum >= rank
        };
        let found = self.0.iter().enumerate().find(reached);
        let most = end_of(bucket_of(NANOS_SHOWN));
        found.map_or(0.0, |(bucket, _)| end_of(bucket).min(most) as f64 / 1000.0)
    }

    /// Pairs: microseconds, and how many calls took no longer; only where the second grows.
    pub fn distribution(&self) -> Vec<(u64, u64)> {
        let (all, mut known, mut pairs) = (self.calls(), 0, Vec::new());
        let mut step = FIRST_STEP;
        while known < all {
            let is_last = step > NANOS_SHOWN;
            let last = if is_last { self.0.len() - 1 } else { bucket_of(step) };
            let sum = self.0[..=last].iter().sum();
            if sum > known {
                pairs.push((end_of(bucket_of(step)) / 1000, sum));
            }
            known = sum;
            step *= 2;
        }
        pairs
    }

    /// Calls by index `i`: those that took less than 2^i microseconds, but at least half of it, or
    /// for the last one any longer time. The ends of the buckets meet these bounds exactly.
    pub fn by_bits<const N: usize>(&self) -> [u64; N] {
        let below = |bits: usize| match bits {
            _ if bits + 1 >= N => BUCKETS,
            bits => bucket_of(1000 << bits).min(BUCKETS),
        };
        let from = |bits: usize| if bits == 0 { 0 } else { below(bits - 1) };
        std::array::from_fn(|bits| self.0[from(bits)..below(bits)].iter().sum())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    // Plain #[test]: nothing here can suspend.
    #[test]
    fn buckets_follow_each_other() {
        assert_eq!((bucket_of(0), end_of(0)), (0, 0));
        for bucket in 1..BUCKETS {
            let first = end_of(bucket - 1) + 1;
            assert_eq!((bucket_of(first), bucket_of(end_of(bucket))), (bucket, bucket));
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    // Plain #[test]: nothing here can suspend.
    #[test]
    fn reports_are_those_of_redis() {
        let all = Latencies::default();
        assert_eq!(all.now().distribution(), []);
        for (micros, calls) in [(0, 1), (1, 3), (2, 28), (7, 30), (14, 1), (528, 1)] {
            all.add(micros, calls);
        }
        let counts = all.now();
        assert_eq!(counts.calls(), 64);
        // As redis-server 7.0.15 shows these durations.
        let shown: Vec<_> =
            [50.0, 99.0, 99.9].map(|p| format!("{:.3}", counts.percentile(p))).into();
        assert_eq!(shown, ["2.007", "14.015", "528.383"]);
        assert_eq!(counts.distribution(), [(1, 4), (2, 32), (8, 62), (16, 63), (528, 64)]);
    }

    // Plain #[test]: nothing here can suspend.
    #[test]
    fn powers_of_two_of_microseconds_are_exact() {
        let all = Latencies::default();
        let mut expected = [0; 24];
        for bits in 0..30 {
            for micros in [1 << bits >> 1, (1 << bits) - 1] {
                all.add(micros, 1);
                let bits = (u64::BITS - micros.leading_zeros()) as usize;
                expected[bits.min(23)] += 1;
            }
        }
        assert_eq!(all.now().by_bits::<24>(), expected);
        all.reset();
        assert_eq!(all.now().calls(), 0);
    }

    // Plain #[test]: nothing here can suspend.
    #[test]
    fn a_second_is_the_most_that_is_shown() {
        let all = Latencies::default();
        all.add(5_000_000, 2);
        assert_eq!(all.now().percentile(50.0), 1_002_438.655);
        assert_eq!(all.now().distribution().last().unwrap().1, 2);
    }
}
