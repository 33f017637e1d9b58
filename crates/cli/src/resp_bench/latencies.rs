//! Latencies by size, exact to one part in 64.
//!
//! Thread safety: plain data.

/// Buckets of each power of two.
const PARTS: u64 = 64;
const PART_BITS: u32 = PARTS.trailing_zeros();
const BUCKETS: usize = (PARTS as usize) * (64 - PART_BITS as usize + 1);

/// Latencies in nanoseconds.
pub struct Latencies {
    buckets: Vec<u64>,
    sum: u128,
    /// How many there are.
    pub count: u64,
    /// The largest one.
    pub max: u64,
}

/// Values below 64 have a bucket each, larger ones share it with a 64th of their power of two.
fn bucket_of(value: u64) -> usize {
    let Some(shift) = (63 - (value | 1).leading_zeros()).checked_sub(PART_BITS) else {
        return value as usize;
    };
    ((u64::from(shift) + 1) * PARTS + (value >> shift) - PARTS) as usize
}

/// The largest value of a bucket.
fn top_of(bucket: usize) -> u64 {
    let (power, part) = (bucket as u64 / PARTS, bucket as u64 % PARTS);
    match power {
        0 => part,
        _ => ((u128::from(PARTS + part + 1) << (power - 1)) - 1).min(u128::from(u64::MAX)) as u64,
    }
}

impl Default for Latencies {
    fn default() -> Latencies {
        Latencies { buckets: vec![0; BUCKETS], sum: 0, count: 0, max: 0 }
    }
}

impl Latencies {
    /// `times` requests took `nanos`.
    pub fn add(&mut self, nanos: u64, times: u64) {
        self.buckets[bucket_of(nanos)] += times;
        self.sum += u128::from(nanos) * u128::from(times);
        self.count += times;
        self.max = self.max.max(nanos);
    }

    /// Adds the latencies of `other`.
    pub fn merge(&mut self, other: &Latencies) {
        for (own, more) in self.buckets.iter_mut().zip(&other.buckets) {
            *own += more;
        }
        self.sum += other.sum;
        self.count += other.count;
        self.max = self.max.max(other.max);
    }

    /// The mean; 0 of none.
    pub fn mean(&self) -> f64 {
        self.sum as f64 / self.count.max(1) as f64
    }

    /// What `percent` of them do not exceed; 0 of none.
    pub fn percentile(&self, percent: f64) -> u64 {
        let rank =
            ((self.count as f64 * percent / 100.0).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return top_of(bucket).min(self.max);
            }
        }
        self.max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Plain #[test]: nothing here can wait.
    #[test]
    fn percentiles_are_exact_to_a_64th() {
        let mut all = Latencies::default();
        let mut half = Latencies::default();
        for value in 1..=100_000 {
            if value % 2 == 0 { &mut all } else { &mut half }.add(value * 1000, 1);
        }
        all.merge(&half);
        assert_eq!((all.count, all.max), (100_000, 100_000_000));
        assert!((all.mean() - 50_000_500.0).abs() < 1.0);
        for percent in [1.0, 50.0, 99.0, 99.9, 100.0] {
            let (found, exact) = (all.percentile(percent) as f64, percent * 1_000_000.0);
            assert!(found >= exact && found <= exact * (1.0 + 1.0 / 64.0), "{percent}: {found}");
        }
        assert_eq!(Latencies::default().percentile(50.0), 0);
        for value in [0, 1, 63, 64, 65, 127, 128, 1 << 40, u64::MAX] {
            let bucket = bucket_of(value);
            assert!(top_of(bucket) >= value && bucket < BUCKETS, "{value}");
            assert!(bucket == 0 || top_of(bucket - 1) < value, "{value}");
        }
    }
}
