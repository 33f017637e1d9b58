//! Whether the keys of an index block lie at even distances (`uniform_cv_threshold`).
//!
//! A key counts as the eight bytes, a big-endian number, that follow what the first and the last
//! key of the block begin with. The measure is the coefficient of variation of the distances: their
//! standard deviation divided by their mean.
//!
//! Pure functions. The sums are made in RocksDB's order, so that both mark the same blocks.

use crate::prefix::common_prefix;

/// Bytes of a key that count.
const WORD_LEN: usize = 8;

/// The keys at the restart points of a block are at distances that vary less than `threshold`.
/// Their last `trailer_len` bytes are no part of the user key.
pub(super) fn are_even<'a>(
    mut keys: impl Iterator<Item = &'a [u8]> + Clone,
    trailer_len: usize,
    threshold: f64,
) -> bool {
    let Some((first, last)) = keys.clone().next().zip(keys.clone().last()) else { return false };
    let common = common_prefix(first, last);
    let mut distances = Distances::default();
    keys.all(|key| {
        let user = key.len().checked_sub(trailer_len).and_then(|len| key.get(..len));
        user.map(|user| distances.add(word(user.get(common..).unwrap_or(&[])))).is_some()
    }) && distances.variation().is_some_and(|variation| variation < threshold)
}

/// The first bytes of `key`, zeros behind it.
fn word(key: &[u8]) -> u64 {
    let mut bytes = [0; WORD_LEN];
    let len = key.len().min(WORD_LEN);
    bytes[..len].copy_from_slice(&key[..len]);
    u64::from_be_bytes(bytes)
}

/// Mean and variance of the distances so far (Welford 1962).
#[derive(Default)]
struct Distances {
    last: Option<u64>,
    count: f64,
    mean: f64,
    /// Sum of the squares of the differences from the mean.
    squares: f64,
}

impl Distances {
    /// The next key. In an order that descends distances wrap around.
    fn add(&mut self, key: u64) {
        if let Some(last) = self.last.replace(key) {
            let distance = key.wrapping_sub(last) as f64;
            let off = distance - self.mean;
            self.count += 1.0;
            self.mean += off / self.count;
            self.squares += off * (distance - self.mean);
        }
    }

    /// The coefficient of variation; None of less than two distances, or if all are 0.
    fn variation(&self) -> Option<f64> {
        let known = self.count >= 2.0 && self.mean > 0.0;
        known.then(|| (self.squares / self.count).sqrt() / self.mean)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn even(keys: &[&str], trailer_len: usize, threshold: f64) -> bool {
        are_even(keys.iter().map(|key| key.as_bytes()), trailer_len, threshold)
    }

    #[pumice_test_macros::test]
    fn even_keys_vary_little() {
        assert!(even(&["kb", "kd", "kf", "kh"], 0, 0.01));
        assert!(!even(&["kb", "kd", "kf", "kh"], 0, 0.0), "nothing is below 0");
        // Distances 2, 2 and 5: mean 3, deviation 1.414.
        assert!(even(&["kb", "kd", "kf", "kk"], 0, 0.48));
        assert!(!even(&["kb", "kd", "kf", "kk"], 0, 0.47));
        // Two distances at least, which are not 0.
        assert!(!even(&["kb", "kd"], 0, 9.0));
        assert!(!even(&["kb", "kb", "kb"], 0, 9.0));
        // What is not the user key does not count.
        assert!(even(&["kb-12345678", "kd-12345678", "kf-12345678"], 9, 0.01));
        assert!(!even(&["kb-1", "kd-12345678", "kf-12345678"], 9, 9.0), "a key without one");
        assert!(!even(&[], 0, 9.0));
    }
}
