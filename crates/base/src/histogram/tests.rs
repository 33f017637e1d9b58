//! Buckets, statistics and text against their definition and against db_bench.

use super::*;
use crate::random::Rng;

/// The definition: the first bucket whose limit reaches the value.
fn slow_index(value: u64) -> usize {
    BUCKET_LIMITS.iter().position(|&limit| value <= limit).unwrap_or(BUCKETS - 1)
}

#[test]
fn limits_are_those_of_rocksdb() {
    let start = [1, 2, 3, 4, 6, 10, 15, 22, 34, 51, 76, 110, 170, 250, 380, 580, 870, 1300, 1900];
    assert_eq!(BUCKET_LIMITS[..start.len()], start);
    assert!(BUCKET_LIMITS.windows(2).all(|w| w[0] < w[1]));
    // One more factor of 1.5 would not fit 64 bits.
    assert!(BUCKET_LIMITS[BUCKETS - 1] as f64 * 1.5 > u64::MAX as f64);
}

#[test]
fn index_agrees_with_its_definition() {
    for value in 0..10_000 {
        assert_eq!(bucket_index(value), slow_index(value), "{value}");
    }
    for limit in BUCKET_LIMITS {
        for value in [limit - 1, limit, limit + 1] {
            assert_eq!(bucket_index(value), slow_index(value), "{value}");
        }
    }
    for shift in 0..64 {
        for value in [(1u64 << shift) - 1, 1 << shift, u64::MAX >> shift] {
            assert_eq!(bucket_index(value), slow_index(value), "{value}");
        }
    }
    let mut rng = Rng::new(42);
    for _ in 0..100_000 {
        let value = rng.next_u64() >> rng.uniform(64);
        assert_eq!(bucket_index(value), slow_index(value), "{value}");
    }
}

/// Output of db_bench 7.8.3 (`--benchmarks=fillrandom --num=20000 --histogram=1`).
#[test]
fn prints_as_db_bench() {
    let rows = [
        (2, 55),
        (3, 8238),
        (4, 8924),
        (6, 2453),
        (10, 230),
        (15, 58),
        (22, 28),
        (34, 6),
        (51, 3),
        (76, 3),
        (380, 1),
        (14000, 1),
    ];
    let mut buckets = [0; BUCKETS];
    for (limit, count) in rows {
        buckets[bucket_index(limit)] = count;
    }
    let histogram = Histogram::from_parts(buckets, 88_348, 125_020_000, 2, 11_162);
    let expected = "\
Count: 20000 Average: 4.4174  StdDev: 78.94
Min: 2  Median: 3.1913  Max: 11162
Percentiles: P50: 3.19 P75: 3.75 P99: 8.26 P99.9: 20.50 P99.99: 76.00
------------------------------------------------------
(       1,       2 ]       55   0.275%   0.275% 
(       2,       3 ]     8238  41.190%  41.465% ########
(       3,       4 ]     8924  44.620%  86.085% #########
(       4,       6 ]     2453  12.265%  98.350% ##
(       6,      10 ]      230   1.150%  99.500% 
(      10,      15 ]       58   0.290%  99.790% 
(      15,      22 ]       28   0.140%  99.930% 
(      22,      34 ]        6   0.030%  99.960% 
(      34,      51 ]        3   0.015%  99.975% 
(      51,      76 ]        3   0.015%  99.990% 
(     250,     380 ]        1   0.005%  99.995% 
(    9900,   14000 ]        1   0.005% 100.000% 
";
    assert_eq!(histogram.to_string(), expected);
}

#[test]
fn empty_prints_zeros() {
    let text = Histogram::new().to_string();
    assert!(text.starts_with("Count: 0 Average: 0.0000  StdDev: 0.00\nMin: 0  Median: 0.0000"));
    assert!(text.ends_with("-\n"));
}

#[test]
fn first_bucket_is_closed_on_the_left() {
    let mut histogram = Histogram::new();
    histogram.add(0);
    histogram.add(1);
    assert!(histogram.to_string().contains("[       0,       1 ]        2 100.000% 100.000% #"));
}

#[test]
fn merge_equals_adding_all() {
    let mut rng = Rng::new(9);
    let (mut all, mut left, mut right) = (Histogram::new(), Histogram::new(), Histogram::new());
    let (mut sum, mut min, mut max) = (0, u64::MAX, 0);
    for i in 0..10_000 {
        let value = rng.skewed(40);
        all.add(value);
        if i % 3 == 0 {
            left.add(value)
        } else {
            right.add(value)
        }
        (sum, min, max) = (sum + value, min.min(value), max.max(value));
    }
    left.merge(&right);
    left.merge(&Histogram::new());
    assert_eq!(left, all);
    assert_eq!((all.count(), all.sum(), all.min(), all.max()), (10_000, sum, min, max));
    assert_eq!(all.buckets().iter().sum::<u64>(), 10_000);
    let percentiles: Vec<f64> = (0..=100).map(|p| all.percentile(f64::from(p))).collect();
    assert!(percentiles.windows(2).all(|w| w[0] <= w[1]), "{percentiles:?}");
    assert_eq!((percentiles[0], percentiles[100]), (min as f64, max as f64));
    all.clear();
    assert_eq!(all, Histogram::default());
}

#[test]
fn deviation_of_known_values() {
    let mut histogram = Histogram::new();
    for value in [2, 4, 4, 4, 5, 5, 7, 9] {
        histogram.add(value);
    }
    assert_eq!((histogram.average(), histogram.std_dev()), (5.0, 2.0));
    histogram.add(u64::MAX);
    assert!(histogram.std_dev().is_finite() && histogram.std_dev() > 1e18);
}
