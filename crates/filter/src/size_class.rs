//! `optimize_filters_for_memory`: filters that fill their allocations.
//!
//! A filter in the block cache is an allocation of data, metadata and block trailer. Allocators
//! round it up to a size class, four of which lie between a size and its double in mimalloc (which
//! Pumice's binaries use), jemalloc and others, so on average a tenth would be lost. A filter takes
//! the class above or the class below instead. RocksDB asks its allocator for the usable size.
//!
//! Which of the two follows from a [`RateBalance`], as in RocksDB: the sum by which the filters so
//! far are over or under the configured false-positive rate. A filter takes the class that brings
//! the sum nearer to 0, so that the average is right over few filters: the sum never exceeds half
//! of the effect of a single choice. RocksDB keeps it below 0 instead, by at most the whole effect.
//!
//! The filters of a column family share a balance, so their lengths depend on which were built
//! before; those of tables built at the same moment on the clock, as in RocksDB. A builder that
//! shares no balance has its own, and its output is a function of entries and options: that balance
//! starts at a value derived from the hashes of the first filter, so that the average over many
//! such builders is right too (docs/decisions/0017).
//!
//! Limits, RocksDB's: at most a quarter less and a third more than configured. Blocks above 256 KiB
//! are rounded to pages, since untouched pages cost nothing.
//!
//! Thread safety: [`RateBalance`] is shared freely; overlapping choices see the same sum, which
//! makes it leave its bounds for the next few filters. Everything else is pure functions.

use std::sync::atomic::{AtomicI64, Ordering};

use crate::METADATA_LEN;
use crate::dedup::KeyHashes;

/// Bytes of metadata and block trailer, which are allocated with the data.
const OVERHEAD: usize = METADATA_LEN + 5;
const CLASSES_UP_TO: usize = 256 << 10;
const PAGE: usize = 4096;
/// A false-positive rate of 1 in a balance.
const ONE: f64 = 4_294_967_296.0;

/// The sum by which the false-positive rates of filters exceed the configured ones.
#[derive(Debug, Default)]
pub struct RateBalance(AtomicI64);

impl RateBalance {
    fn get(&self) -> f64 {
        self.0.load(Ordering::Relaxed) as f64 / ONE
    }

    fn add(&self, excess: f64) {
        self.0.fetch_add((excess * ONE) as i64, Ordering::Relaxed);
    }
}

/// Distance of the size classes around an allocation of `size` bytes.
fn spacing(size: usize) -> usize {
    if size > CLASSES_UP_TO { PAGE } else { (size.next_power_of_two() / 8).max(16) }
}

/// A number from -0.5 to 0.5 that depends on the entries alone.
pub(crate) fn dice(hashes: &KeyHashes<u64>) -> f64 {
    let ends = [hashes.first(), hashes.last()].map(|hash| hash.unwrap_or(0));
    let mixed = (ends[0] ^ ends[1].rotate_left(32) ^ hashes.len() as u64)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed >> 32) as f64 + 0.5) / ONE - 0.5
}

/// The length of data, a multiple of `unit`, for a filter with a target of `target` bytes. `rate`
/// tells the false-positive rate at a length; it falls with the length. `offset` shifts the choice
/// by that share of the difference between the two classes: more bytes if it is above 0.
pub(crate) fn choose(
    target: usize,
    unit: usize,
    (balance, offset): (&RateBalance, f64),
    rate: impl Fn(usize) -> f64,
) -> usize {
    let spacing = spacing(target + OVERHEAD);
    let class = (target + OVERHEAD).next_multiple_of(spacing);
    let fit = |class: usize| class.saturating_sub(OVERHEAD) / unit * unit;
    let (lower, upper) = (fit(class - spacing), fit(class));
    if upper <= target || upper > target + target / 3 {
        return target;
    }
    let (most, wanted, least) = (rate(lower), rate(target), rate(upper));
    let after = |rate: f64| balance.get() + rate - wanted;
    let middle = (after(most) + after(least)) / 2.0 + offset * (most - least);
    let (len, rate) = match lower >= target - target / 4 && middle < 0.0 {
        true => (lower, most),
        false => (upper, least),
    };
    balance.add(rate - wanted);
    len
}

#[cfg(test)]
mod tests {
    use super::*;
    use pumice_base::random::Rng;

    #[test]
    fn classes() {
        let cases = [
            (64, 16),
            (80, 16),
            (128, 16),
            (129, 32),
            (256, 32),
            (257, 64),
            (4096, 512),
            (4097, 1024),
        ];
        for (size, expected) in cases {
            assert_eq!(spacing(size), expected, "{size}");
        }
        assert_eq!(spacing(1 << 20), PAGE);
    }

    fn rate(target: usize) -> impl Fn(usize) -> f64 {
        move |len| (-(len as f64) / target as f64 * 4.6).exp()
    }

    /// The chosen lengths fill their class, and the average rate is the configured one: over the
    /// few filters of one balance, and over many balances of one filter each.
    #[test]
    fn average_rate_is_kept() {
        let mut rng = Rng::new(7);
        for target in (1..300).map(|lines| lines * 64) {
            let rate = rate(target);
            let one_sided = choose(target, 64, (&RateBalance::default(), -0.5), &rate) >= target;
            let shared = RateBalance::default();
            let (mut few, mut many) = (0.0, 0.0);
            for n in 0..4000 {
                let own = RateBalance::default();
                let offset = f64::from(rng.next_u32()) / ONE - 0.5;
                let lens = [
                    choose(target, 64, (&shared, 0.0), &rate),
                    choose(target, 64, (&own, offset), &rate),
                ];
                for len in lens {
                    assert!(len * 4 >= target * 3 && len * 3 <= target * 4, "{target} {len}");
                    assert!(len.is_multiple_of(64));
                }
                if n < 16 {
                    few += rate(lens[0]) / rate(target) / 16.0;
                }
                many += rate(lens[1]) / rate(target) / 4000.0;
            }
            // Where only the class above is allowed the rate is better.
            for (mean, slack) in [(few, 0.04), (many, 0.05)] {
                assert!(mean < 1.0 + slack, "{target}: {mean}");
                assert!(one_sided || mean > 1.0 - slack, "{target}: {mean}");
            }
        }
    }

    /// What was saved is spent, and what was overspent is saved; then the balance stays near 0.
    #[test]
    fn a_balance_comes_back_to_zero() {
        for start in [-0.02, 0.02] {
            let balance = RateBalance::default();
            balance.add(start);
            for lines in 100..300 {
                let target = lines * 64;
                let len = choose(target, 64, (&balance, 0.0), rate(target));
                if lines == 101 {
                    assert_eq!(len < target, start < 0.0, "{start}");
                }
            }
            assert!(balance.get().abs() < 0.01, "{start}: {}", balance.get());
        }
    }
}
