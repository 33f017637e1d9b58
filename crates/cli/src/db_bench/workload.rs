//! Keys and values, the same for every engine.
//!
//! A key is a number in big-endian order, padded with '0' characters, after an optional prefix.
//! Values are slices of one buffer of 1 MiB whose 100-byte pieces shrink to `compression_ratio`.
//! Neither allocates per operation.
//!
//! Thread safety: belongs to one thread; the value buffer is shared by `Arc`.

use super::flags::Flags;
use pumice_base::random::Rng;
use std::sync::Arc;

/// Keys that a database already had (`--use_existing_keys`).
pub type ExistingKeys = Arc<Vec<Vec<u8>>>;

/// Makes keys in a buffer of its own.
#[derive(Clone)]
pub struct KeyMaker {
    key: Vec<u8>,
    /// Chosen from instead of made, where there are such.
    existing: Option<ExistingKeys>,
    prefix_len: usize,
    prefixes: u64,
}

impl KeyMaker {
    /// Keys of `key_size` bytes as `flags` say.
    pub fn new(flags: &Flags, key_size: usize) -> Self {
        let (prefix_len, prefixes) = if flags.keys_per_prefix > 0 {
            let prefixes = (flags.num / flags.keys_per_prefix).max(1);
            (usize::try_from(flags.prefix_size).unwrap_or(0).min(key_size), prefixes as u64)
        } else {
            (0, 1)
        };
        KeyMaker { key: vec![b'0'; key_size], existing: None, prefix_len, prefixes }
    }

    /// The same, choosing from `existing` keys if there are any.
    pub fn choosing(mut self, existing: Option<ExistingKeys>) -> Self {
        self.existing = existing;
        self
    }

    /// Keys with a prefix that no other key has: their padding differs. Requires: a prefix of more
    /// than 8 bytes.
    pub fn with_missing_prefix(mut self) -> Self {
        self.key[8] = b'1';
        self
    }

    /// The key of number `v`, valid until the next call.
    #[inline]
    pub fn key(&mut self, v: u64) -> &[u8] {
        if let Some(existing) = &self.existing {
            return &existing[v as usize];
        }
        if self.prefix_len > 0 {
            fill(&mut self.key[..self.prefix_len], v % self.prefixes);
        }
        fill(&mut self.key[self.prefix_len..], v);
        &self.key
    }
}

/// Writes the low bytes of `v`, big-endian, into up to 8 bytes of `out`.
#[inline]
fn fill(out: &mut [u8], v: u64) {
    if let Some(first) = out.first_chunk_mut::<8>() {
        *first = v.to_be_bytes();
    } else {
        let bytes = v.to_be_bytes();
        let skip = bytes.len() - out.len();
        out.copy_from_slice(&bytes[skip..]);
    }
}

/// The bytes that values are cut from.
pub fn value_bytes(flags: &Flags, longest: usize) -> Arc<[u8]> {
    const PIECE: usize = 100;
    let mut rng = Rng::new(301);
    let len = longest.max(1 << 20);
    let raw = ((PIECE as f64 * flags.compression_ratio) as usize).clamp(1, PIECE);
    let mut bytes = Vec::with_capacity(len + PIECE);
    while bytes.len() < len {
        let piece: Vec<u8> = (0..raw).map(|_| b' ' + rng.uniform(95) as u8).collect();
        bytes.extend(piece.iter().cycle().take(PIECE));
    }
    bytes.into()
}

/// How long values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lengths {
    /// All the same.
    Fixed(usize),
    /// Any from the first to the last with the same probability.
    Uniform(usize, usize),
    /// Normal around the middle of both; 99.7 % of the draws lie between, the rest is cut.
    Normal(usize, usize),
}

impl Lengths {
    /// As `flags` say; `fixed` where all are the same.
    ///
    /// # Errors
    /// No such distribution, or invalid bounds.
    pub fn new(flags: &Flags, fixed: usize) -> Result<Lengths, String> {
        let kind = flags.value_size_distribution_type.to_ascii_lowercase();
        let bounds =
            match (usize::try_from(flags.value_size_min), usize::try_from(flags.value_size_max)) {
                (Ok(min), Ok(max)) if min <= max => (min, max),
                _ => {
                    return Err(
                        "value_size_min must be at most value_size_max, and neither negative"
                            .into(),
                    );
                }
            };
        match kind.as_str() {
            "fixed" => Ok(Lengths::Fixed(fixed)),
            "uniform" => Ok(Lengths::Uniform(bounds.0, bounds.1)),
            "normal" => Ok(Lengths::Normal(bounds.0, bounds.1)),
            other => Err(format!("Cannot parse distribution type '{other}'")),
        }
    }

    /// The longest there can be.
    pub fn longest(self) -> usize {
        match self {
            Lengths::Fixed(len) => len,
            Lengths::Uniform(_, max) | Lengths::Normal(_, max) => max,
        }
    }

    /// The mean.
    pub fn mean(self) -> usize {
        match self {
            Lengths::Fixed(len) => len,
            Lengths::Uniform(min, max) | Lengths::Normal(min, max) => (min + max) / 2,
        }
    }

    fn draw(self, rng: &mut Rng) -> usize {
        match self {
            Lengths::Fixed(len) => len,
            Lengths::Uniform(min, max) => min + rng.uniform((max - min + 1) as u64) as usize,
            Lengths::Normal(min, max) => {
                let (mean, deviation) = ((min + max) as f64 / 2.0, (max - min) as f64 / 6.0);
                ((mean + deviation * normal(rng)) as usize).clamp(min, max)
            }
        }
    }
}

/// A draw from the normal distribution of mean 0 and deviation 1 (Box and Muller).
pub fn normal(rng: &mut Rng) -> f64 {
    let radius = (-2.0 * (1.0 - rng.next_f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng.next_f64()).cos()
}

/// Cuts values from shared bytes.
#[derive(Clone)]
pub struct ValueMaker {
    bytes: Arc<[u8]>,
    at: usize,
    lengths: Lengths,
    /// Percentage of values that are the first bytes.
    same: u64,
    rng: Rng,
}

impl ValueMaker {
    /// Values of those lengths. Requires: `bytes` is as long as the longest.
    pub fn new(bytes: Arc<[u8]>, lengths: Lengths, flags: &Flags, seed: u64) -> Self {
        assert!(lengths.longest() <= bytes.len(), "value bytes are shorter than a value");
        let same = u64::try_from(flags.same_value_percentage).unwrap_or(0);
        ValueMaker { bytes, at: 0, lengths, same, rng: Rng::new(seed) }
    }

    /// The next value.
    #[inline]
    pub fn value(&mut self) -> &[u8] {
        let len = match self.lengths {
            Lengths::Fixed(len) => len,
            lengths => lengths.draw(&mut self.rng),
        };
        self.value_of(len)
    }

    /// The next value, `len` bytes long. Requires: the shared bytes are that long.
    #[inline]
    pub fn value_of(&mut self, len: usize) -> &[u8] {
        if self.same > 0 && self.rng.uniform(100) < self.same {
            return &self.bytes[..len];
        }
        if self.at + len > self.bytes.len() {
            self.at = 0;
        }
        let start = self.at;
        self.at += len;
        &self.bytes[start..self.at]
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[pumice_test_macros::test]
    fn keys_are_rocksdbs() {
        let mut flags = Flags::default();
        let mut keys = KeyMaker::new(&flags, 16);
        assert_eq!(keys.key(0x0102_0304), b"\0\0\0\0\x01\x02\x03\x0400000000");
        assert_eq!(KeyMaker::new(&flags, 4).key(0x0102_0304_0506), b"\x03\x04\x05\x06");
        assert!(flags.assign("keys_per_prefix", "10") && flags.assign("prefix_size", "12"));
        assert!(flags.assign("num", "50"));
        let mut keys = KeyMaker::new(&flags, 24);
        assert_eq!(keys.key(7), b"\0\0\0\0\0\0\0\x020000\0\0\0\0\0\0\0\x070000");
    }

    #[pumice_test_macros::test]
    fn values_repeat_within_a_piece_and_wrap() {
        let flags = Flags::default();
        let bytes = value_bytes(&flags, 0);
        assert_eq!(bytes[0..50], bytes[50..100]);
        assert_ne!(bytes[0..50], bytes[100..150]);
        let lengths = Lengths::new(&flags, 1 << 19).unwrap();
        let mut values = ValueMaker::new(bytes.clone(), lengths, &flags, 1);
        assert_eq!(values.value(), &bytes[..1 << 19]);
        assert_eq!(values.value().len(), 1 << 19);
        assert_eq!(values.value(), &bytes[..1 << 19]);
    }

    #[pumice_test_macros::test]
    fn lengths_follow_their_distribution() {
        let mut flags = Flags::default();
        for (name, value) in [("value_size_min", "50"), ("value_size_max", "150")] {
            assert!(flags.assign(name, value));
        }
        let bytes = value_bytes(&flags, 0);
        for (kind, near) in [("uniform", 50.0), ("normal", 68.3)] {
            assert!(flags.assign("value_size_distribution_type", kind));
            let lengths = Lengths::new(&flags, 7).unwrap();
            let mut values = ValueMaker::new(bytes.clone(), lengths, &flags, 5);
            let drawn: Vec<usize> = (0..10_000).map(|_| values.value().len()).collect();
            assert!(drawn.iter().all(|len| (50..=150).contains(len)));
            let mean = drawn.iter().sum::<usize>() as f64 / 1e4;
            assert!((mean - 100.0).abs() < 2.0, "{kind}: {mean}");
            // The middle half of the range, or one deviation to each side.
            let half = if kind == "uniform" { 25.0 } else { 100.0 / 6.0 };
            let within = drawn.iter().filter(|len| (**len as f64 - 100.0).abs() <= half).count();
            assert!((within as f64 / 100.0 - near).abs() < 4.0, "{kind}: {within}");
        }
        assert!(flags.assign("value_size_distribution_type", "zipf"));
        assert!(Lengths::new(&flags, 7).unwrap_err().contains("'zipf'"));
        assert!(flags.assign("same_value_percentage", "100"));
        let mut values = ValueMaker::new(bytes.clone(), Lengths::Fixed(9), &flags, 5);
        assert_eq!(values.value(), &bytes[..9]);
        assert_eq!(values.value(), &bytes[..9]);
    }
}
