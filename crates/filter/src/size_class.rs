//! `optimize_filters_for_memory`: filters that fill what the allocator gives for them.
//!
//! A filter in the block cache is an allocation of data, metadata and block trailer. Allocators
//! round it up to a size class, four of which lie between a size and its double in mimalloc (which
//! Pumice's binaries use), jemalloc and others, so on average a tenth would be lost. RocksDB asks
//! its allocator for the usable size and keeps, for the whole process, an account of the
//! false positives that rounding saved, to spend it on smaller filters. Then bytes depend on what
//! was built before. Here the same is done without memory: a filter takes the class above or the
//! class below, below with the probability with which the expected false-positive rate is just the
//! configured one; the dice are the hashes of its own entries. So the output is a function of
//! entries and options, and the rate is right on the average of many filters.
//!
//! Limits, RocksDB's: at most a quarter less and a third more than configured. Blocks above
//! 256 KiB are rounded to pages, since pages that nobody touches cost nothing.
//!
//! Pure functions.

use crate::METADATA_LEN;
use crate::dedup::KeyHashes;

/// Bytes of metadata and block trailer, which are allocated with the data.
const OVERHEAD: usize = METADATA_LEN + 5;
const CLASSES_UP_TO: usize = 256 << 10;
const PAGE: usize = 4096;

/// Distance of the size classes around an allocation of `size` bytes.
fn spacing(size: usize) -> usize {
    if size > CLASSES_UP_TO { PAGE } else { (size.next_power_of_two() / 8).max(16) }
}

/// 32 bits that depend on the entries alone.
pub(crate) fn entropy(hashes: &KeyHashes<u64>) -> u32 {
    let hashes = hashes.as_slice();
    let ends = [hashes.first(), hashes.last()].map(|hash| hash.copied().unwrap_or(0));
    let mixed = (ends[0] ^ ends[1].rotate_left(32) ^ hashes.len() as u64)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 32) as u32
}

/// The length of data, a multiple of `unit`, for a filter that should have `target` bytes of it.
/// `rate` tells the false-positive rate at a length; it falls with the length.
pub(crate) fn choose(
    target: usize,
    unit: usize,
    entropy: u32,
    rate: impl Fn(usize) -> f64,
) -> usize {
    let spacing = spacing(target + OVERHEAD);
    let class = (target + OVERHEAD).next_multiple_of(spacing);
    let fit = |class: usize| class.saturating_sub(OVERHEAD) / unit * unit;
    let (lower, upper) = (fit(class - spacing), fit(class));
    if upper <= target || upper > target + target / 3 {
        return target;
    }
    if lower < target - target / 4 {
        return upper;
    }
    let (most, wanted, least) = (rate(lower), rate(target), rate(upper));
    let share_of_lower = (wanted - least) / (most - least);
    let dice = (f64::from(entropy) + 0.5) / 4_294_967_296.0;
    if dice < share_of_lower { lower } else { upper }
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

    /// The chosen lengths fill their class, and the average rate is the configured one.
    #[test]
    fn average_rate_is_kept() {
        let mut rng = Rng::new(7);
        for target in (1..300).map(|lines| lines * 64) {
            let rate = |len: usize| (-(len as f64) / target as f64 * 4.6).exp();
            let mut sum = 0.0;
            for _ in 0..4000 {
                let len = choose(target, 64, rng.next_u32(), rate);
                assert!(len * 4 >= target * 3 && len * 3 <= target * 4, "{target} {len}");
                assert!(len.is_multiple_of(64));
                sum += rate(len) / rate(target);
            }
            let mean = sum / 4000.0;
            assert!(mean < 1.05, "{target}: {mean}");
            // Where only the class above is allowed the rate is better.
            let one_sided = choose(target, 64, 0, rate) >= target;
            assert!(one_sided || mean > 0.95, "{target}: {mean}");
        }
    }
}
