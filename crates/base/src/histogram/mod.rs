//! Histograms with RocksDB's buckets, percentiles and text.
//!
//! Bucket limits are 1, 2 and then the powers 2 * 1.5^k cut down to two significant digits; bucket
//! `i` counts the values in `(limit[i-1], limit[i]]`. A [`Histogram`] belongs to one thread at a
//! time; shared ones are built from [`bucket_index`] and [`BUCKET_LIMITS`] over atomics and turned
//! into a `Histogram` by [`Histogram::from_parts`].
//!
//! Invariant 1: between two powers of two lie at most two limits, so that a value's bucket is
//! found from its bit length and two comparisons.

use crate::narrow::{low_u8, round_down_u64, to_usize};
use std::fmt;

/// Number of buckets.
pub const BUCKETS: usize = 109;

/// Upper limits of the buckets, inclusive. Values above the last count in the last.
pub const BUCKET_LIMITS: [u64; BUCKETS] = bucket_limits();

/// For each bit length the first bucket whose limit has at least that bit length.
const FIRST_OF_BIT_LENGTH: [u8; 65] = first_of_bit_length();

const fn bucket_limits() -> [u64; BUCKETS] {
    let mut limits = [0; BUCKETS];
    limits[0] = 1;
    limits[1] = 2;
    let mut exact = 2.0f64;
    let mut i = 2;
    while i < BUCKETS {
        exact *= 1.5;
        let mut digits = round_down_u64(exact);
        let mut power = 1;
        while digits / 10 > 10 {
            digits /= 10;
            power *= 10;
        }
        limits[i] = digits * power;
        i += 1;
    }
    limits
}

const fn first_of_bit_length() -> [u8; 65] {
    let mut table = [0; 65];
    let mut bits = 1;
    while bits <= 64 {
        let lowest = 1u64 << (bits - 1);
        let mut i = 0;
        while i < BUCKETS - 1 && BUCKET_LIMITS[i] < lowest {
            i += 1;
        }
        table[bits] = low_u8(i as u64);
        bits += 1;
    }
    table
}

/// The bucket that counts `value`.
#[inline]
pub fn bucket_index(value: u64) -> usize {
    let first = usize::from(FIRST_OF_BIT_LENGTH[64 - value.leading_zeros() as usize]);
    // By invariant 1 the bucket is `first` or one of the next two.
    let second = (first + 1).min(BUCKETS - 1);
    let above =
        usize::from(value > BUCKET_LIMITS[first]) + usize::from(value > BUCKET_LIMITS[second]);
    (first + above).min(BUCKETS - 1)
}

/// Counts of values by bucket, with exact count, sum, minimum and maximum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    count: u64,
    sum: u64,
    sum_squares: u128,
    min: u64,
    max: u64,
    buckets: [u64; BUCKETS],
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// An empty histogram.
    pub fn new() -> Self {
        Histogram { count: 0, sum: 0, sum_squares: 0, min: u64::MAX, max: 0, buckets: [0; BUCKETS] }
    }

    /// A histogram from counts kept elsewhere. `min` is ignored if all buckets are empty.
    pub fn from_parts(
        buckets: [u64; BUCKETS],
        sum: u64,
        sum_squares: u128,
        min: u64,
        max: u64,
    ) -> Self {
        let count = buckets.iter().sum();
        let min = if count == 0 { u64::MAX } else { min };
        Histogram { count, sum, sum_squares, min, max, buckets }
    }

    /// Counts one value.
    #[inline]
    pub fn add(&mut self, value: u64) {
        self.buckets[bucket_index(value)] += 1;
        self.count += 1;
        self.sum = self.sum.wrapping_add(value);
        self.sum_squares += u128::from(value) * u128::from(value);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &Histogram) {
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
        self.count += other.count;
        self.sum = self.sum.wrapping_add(other.sum);
        self.sum_squares += other.sum_squares;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        *self = Self::new();
    }
    /// Number of values.
    pub fn count(&self) -> u64 {
        self.count
    }
    /// Sum of the values.
    pub fn sum(&self) -> u64 {
        self.sum
    }
    /// Sum of the squares of the values.
    pub fn sum_squares(&self) -> u128 {
        self.sum_squares
    }
    /// Smallest value; 0 if there is none.
    pub fn min(&self) -> u64 {
        if self.count == 0 { 0 } else { self.min }
    }
    /// Largest value; 0 if there is none.
    pub fn max(&self) -> u64 {
        self.max
    }
    /// Counts by bucket.
    pub fn buckets(&self) -> &[u64; BUCKETS] {
        &self.buckets
    }

    /// Arithmetic mean; 0 if there is no value.
    pub fn average(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 }
    }

    /// Standard deviation; 0 if there is no value.
    pub fn std_dev(&self) -> f64 {
        if self.count == 0 {
            return 0.0;
        }
        let (n, sum) = (self.count as f64, self.sum as f64);
        let variance = (self.sum_squares as f64 * n - sum * sum) / (n * n);
        variance.max(0.0).sqrt()
    }

    /// The 50th percentile.
    pub fn median(&self) -> f64 {
        self.percentile(50.0)
    }

    /// The value below which `p` percent of the values lie, interpolated within its bucket and
    /// kept between minimum and maximum.
    pub fn percentile(&self, p: f64) -> f64 {
        let threshold = self.count as f64 * (p / 100.0);
        let mut below = 0u64;
        for (i, &here) in self.buckets.iter().enumerate() {
            if (below + here) as f64 >= threshold {
                let left = lower_limit(i) as f64;
                let width = BUCKET_LIMITS[i] as f64 - left;
                let part = if here == 0 { 0.0 } else { (threshold - below as f64) / here as f64 };
                let value = left + width * part;
                return value.max(self.min() as f64).min(self.max as f64);
            }
            below += here;
        }
        self.max as f64
    }
}

/// The exclusive lower limit of a bucket.
fn lower_limit(bucket: usize) -> u64 {
    if bucket == 0 { 0 } else { BUCKET_LIMITS[bucket - 1] }
}

/// The text that `db_bench --histogram` and the info log print.
impl fmt::Display for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (n, mean) = (self.count, self.average());
        writeln!(f, "Count: {n} Average: {mean:.4}  StdDev: {:.2}", self.std_dev())?;
        let (min, median, max) = (self.min(), self.median(), self.max);
        writeln!(f, "Min: {min}  Median: {median:.4}  Max: {max}")?;
        f.write_str("Percentiles:")?;
        for p in [50.0, 75.0, 99.0, 99.9, 99.99] {
            write!(f, " P{p}: {:.2}", self.percentile(p))?;
        }
        f.write_str("\n------------------------------------------------------\n")?;
        let percent = 100.0 / self.count as f64;
        let mut cumulative = 0;
        for (i, &here) in self.buckets.iter().enumerate().filter(|(_, here)| **here > 0) {
            cumulative += here;
            let open = if i == 0 { '[' } else { '(' };
            let (left, right) = (lower_limit(i), BUCKET_LIMITS[i]);
            let (share, total) = (percent * here as f64, percent * cumulative as f64);
            write!(f, "{open} {left:>7}, {right:>7} ] {here:>8} {share:>7.3}% {total:>7.3}% ")?;
            let marks = to_usize(round_down_u64(share / 5.0 + 0.5));
            writeln!(f, "{}", "#".repeat(marks))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
