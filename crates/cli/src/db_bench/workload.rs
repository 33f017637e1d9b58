//! Keys and values, the same for every engine.
//!
//! A key is a number in big-endian order, padded with '0' characters, behind an optional prefix.
//! Values are slices of one buffer of 1 MiB whose 100-byte pieces shrink to `compression_ratio`.
//! Neither allocates per operation.
//!
//! Thread safety: belongs to one thread; the value buffer is shared by `Arc`.

use super::flags::Flags;
use pumice_base::random::Rng;
use std::sync::Arc;

/// Makes keys in a buffer of its own.
#[derive(Clone)]
pub struct KeyMaker {
    key: Vec<u8>,
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
        KeyMaker { key: vec![b'0'; key_size], prefix_len, prefixes }
    }

    /// The key of number `v`, valid until the next call.
    #[inline]
    pub fn key(&mut self, v: u64) -> &[u8] {
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

/// Cuts values of one length from shared bytes.
#[derive(Clone)]
pub struct ValueMaker {
    bytes: Arc<[u8]>,
    at: usize,
    len: usize,
}

impl ValueMaker {
    /// Values of `len` bytes. Requires: `bytes` is at least that long.
    pub fn new(bytes: Arc<[u8]>, len: usize) -> Self {
        assert!(len <= bytes.len(), "value bytes are shorter than a value");
        ValueMaker { bytes, at: 0, len }
    }

    /// The next value.
    #[inline]
    pub fn value(&mut self) -> &[u8] {
        if self.at + self.len > self.bytes.len() {
            self.at = 0;
        }
        let start = self.at;
        self.at += self.len;
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
        let mut values = ValueMaker::new(bytes.clone(), 1 << 19);
        assert_eq!(values.value(), &bytes[..1 << 19]);
        assert_eq!(values.value().len(), 1 << 19);
        assert_eq!(values.value(), &bytes[..1 << 19]);
    }
}
