//! Fixed-width and variable-length integers and length-prefixed slices, as RocksDB stores them.
//!
//! All integers are little-endian; varints are LEB128 (docs/format/primitives.md#integers).
//! Decoding never panics and never reads past its input: it returns `None` and leaves the input
//! unusable.

use crate::copying;
use crate::narrow::{len_u32, low_u8};

/// Longest encoding of a 32-bit varint.
pub const MAX_VARINT32_LEN: usize = 5;
/// Longest encoding of a 64-bit varint.
pub const MAX_VARINT64_LEN: usize = 10;

/// Appends a little-endian 16-bit integer.
#[inline]
pub fn put_fixed16(dst: &mut Vec<u8>, value: u16) {
    dst.extend_from_slice(&value.to_le_bytes());
}
/// Appends a little-endian 32-bit integer.
#[inline]
pub fn put_fixed32(dst: &mut Vec<u8>, value: u32) {
    dst.extend_from_slice(&value.to_le_bytes());
}
/// Appends a little-endian 64-bit integer.
#[inline]
pub fn put_fixed64(dst: &mut Vec<u8>, value: u64) {
    dst.extend_from_slice(&value.to_le_bytes());
}
/// Appends a 32-bit varint.
#[inline]
pub fn put_varint32(dst: &mut Vec<u8>, value: u32) {
    put_varint64(dst, u64::from(value));
}
/// Appends a 64-bit varint.
#[inline]
pub fn put_varint64(dst: &mut Vec<u8>, mut value: u64) {
    if value < 0x80 {
        dst.push(low_u8(value));
        return;
    }
    // The usual length of a block's size, without a function call.
    if value < 1 << 14 {
        dst.extend_from_slice(&[low_u8(value) | 0x80, low_u8(value >> 7)]);
        return;
    }
    let mut buf = [0u8; MAX_VARINT64_LEN];
    let mut n = 0;
    while value >= 0x80 {
        buf[n] = low_u8(value) | 0x80;
        value >>= 7;
        n += 1;
    }
    buf[n] = low_u8(value);
    dst.extend_from_slice(&buf[..=n]);
}
/// Appends a zigzag 64-bit varint.
#[inline]
pub fn put_varsigned64(dst: &mut Vec<u8>, value: i64) {
    put_varint64(dst, ((value << 1) ^ (value >> 63)) as u64);
}
/// Appends a varint32 length and the bytes.
///
/// # Panics
/// If they are 4 GiB or more: callers check lengths before.
#[inline]
pub fn put_length_prefixed(dst: &mut Vec<u8>, bytes: &[u8]) {
    put_varint32(dst, len_u32(bytes.len()));
    copying::extend(dst, bytes);
}
/// Bytes that [`put_varint64`] appends for `value`.
#[inline]
pub fn varint_len(value: u64) -> usize {
    ((70 - (value | 1).leading_zeros() as usize) / 7).max(1)
}

/// Reads the 16-bit integer at the start of `src`.
#[inline]
pub fn get_fixed16(src: &[u8]) -> Option<u16> {
    Some(u16::from_le_bytes(*src.first_chunk()?))
}
/// Reads the 32-bit integer at the start of `src`.
#[inline]
pub fn get_fixed32(src: &[u8]) -> Option<u32> {
    Some(u32::from_le_bytes(*src.first_chunk()?))
}
/// Reads the 64-bit integer at the start of `src`.
#[inline]
pub fn get_fixed64(src: &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(*src.first_chunk()?))
}
/// Reads a varint of at most 32 bits: the value and its encoded length.
#[inline]
pub fn get_varint32(src: &[u8]) -> Option<(u32, usize)> {
    if let Some(&first) = src.first()
        && first < 0x80
    {
        return Some((u32::from(first), 1));
    }
    let mut result = 0u32;
    for (i, &byte) in src.iter().take(MAX_VARINT32_LEN).enumerate() {
        result |= u32::from(byte & 0x7f) << (7 * i);
        if byte < 0x80 {
            return Some((result, i + 1));
        }
    }
    None
}
/// Reads a varint of at most 64 bits: the value and its encoded length.
#[inline]
pub fn get_varint64(src: &[u8]) -> Option<(u64, usize)> {
    if let Some(&first) = src.first()
        && first < 0x80
    {
        return Some((u64::from(first), 1));
    }
    let mut result = 0u64;
    for (i, &byte) in src.iter().take(MAX_VARINT64_LEN).enumerate() {
        result |= u64::from(byte & 0x7f) << (7 * i);
        if byte < 0x80 {
            return Some((result, i + 1));
        }
    }
    None
}

/// A cursor over stored bytes. Every method consumes what it returns; `None` means too short or
/// malformed.
#[derive(Clone, Copy, Debug)]
pub struct Decoder<'a> {
    rest: &'a [u8],
}

impl<'a> Decoder<'a> {
    /// A cursor at the start of `bytes`.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Self {
        Decoder { rest: bytes }
    }
    /// What has not been read.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
    /// Nothing is left.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }
    /// Takes `n` bytes.
    #[inline]
    pub fn bytes(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.rest.split_at_checked(n)?;
        self.rest = tail;
        Some(head)
    }
    /// Takes one byte.
    #[inline]
    pub fn u8(&mut self) -> Option<u8> {
        let (&head, tail) = self.rest.split_first()?;
        self.rest = tail;
        Some(head)
    }
    /// Takes a fixed 16-bit integer.
    #[inline]
    pub fn fixed16(&mut self) -> Option<u16> {
        get_fixed16(self.bytes(2)?)
    }
    /// Takes a fixed 32-bit integer.
    #[inline]
    pub fn fixed32(&mut self) -> Option<u32> {
        get_fixed32(self.bytes(4)?)
    }
    /// Takes a fixed 64-bit integer.
    #[inline]
    pub fn fixed64(&mut self) -> Option<u64> {
        get_fixed64(self.bytes(8)?)
    }
    /// Takes a varint32.
    #[inline]
    pub fn varint32(&mut self) -> Option<u32> {
        let (value, n) = get_varint32(self.rest)?;
        self.rest = &self.rest[n..];
        Some(value)
    }
    /// Takes a varint64.
    #[inline]
    pub fn varint64(&mut self) -> Option<u64> {
        let (value, n) = get_varint64(self.rest)?;
        self.rest = &self.rest[n..];
        Some(value)
    }
    /// Takes a zigzag varint64.
    #[inline]
    pub fn varsigned64(&mut self) -> Option<i64> {
        let z = self.varint64()?;
        Some((z >> 1) as i64 ^ -((z & 1) as i64))
    }
    /// Takes a length-prefixed slice.
    #[inline]
    pub fn length_prefixed(&mut self) -> Option<&'a [u8]> {
        let n = self.varint32()?;
        self.bytes(n as usize)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    /// Values whose encodings have every length.
    fn any_width() -> impl Strategy<Value = u64> {
        (any::<u64>(), 0u32..64).prop_map(|(value, shift)| value >> shift)
    }

    #[test]
    fn known_encodings() {
        let varint = |value| {
            let mut out = Vec::new();
            put_varint64(&mut out, value);
            out
        };
        assert_eq!(varint(0), [0]);
        assert_eq!(varint(127), [0x7f]);
        assert_eq!(varint(128), [0x80, 1]);
        assert_eq!(varint(300), [0xac, 2]);
        assert_eq!(varint(u64::MAX), [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]);
        let mut out = Vec::new();
        put_fixed16(&mut out, 0x0102);
        put_fixed32(&mut out, 0x0304_0506);
        put_fixed64(&mut out, 0x0708_090a_0b0c_0d0e);
        put_length_prefixed(&mut out, b"xy");
        assert_eq!(out, [2, 1, 6, 5, 4, 3, 14, 13, 12, 11, 10, 9, 8, 7, 2, b'x', b'y']);
        for (value, byte) in [(0, 0), (-1, 1), (1, 2), (-2, 3), (63, 126), (-64, 127)] {
            let mut out = Vec::new();
            put_varsigned64(&mut out, value);
            assert_eq!(out, [byte], "{value}");
        }
    }

    #[test]
    fn overlong_varints_are_refused() {
        assert_eq!(get_varint32(&[0xff; 5]), None);
        assert_eq!(get_varint64(&[0xff; 10]), None);
        assert_eq!(get_varint32(&[0xff, 0xff, 0xff, 0xff, 0x0f]), Some((u32::MAX, 5)));
        assert_eq!(get_varint32(&[0x80, 0x80, 0]), Some((0, 3)));
        assert_eq!(get_varint32(&[]), None);
    }

    proptest! {
        #[test]
        fn varints_round_trip(
            value in any_width(),
            tail in prop::collection::vec(any::<u8>(), 0..3),
        ) {
            let mut out = Vec::new();
            put_varint64(&mut out, value);
            let n = out.len();
            prop_assert_eq!(n, varint_len(value));
            for cut in 0..n {
                prop_assert_eq!(get_varint64(&out[..cut]), None);
            }
            out.extend_from_slice(&tail);
            prop_assert_eq!(get_varint64(&out), Some((value, n)));
            let narrow = u32::try_from(value).ok().map(|v| (v, n));
            prop_assert!(narrow.is_none() || get_varint32(&out) == narrow);
        }

        #[test]
        fn decoder_reads_what_was_written(
            a in any::<u16>(), b in any::<u32>(), c in any::<u64>(), d in any_width(),
            e in any::<i64>(), text in prop::collection::vec(any::<u8>(), 0..300),
        ) {
            let mut out = vec![7];
            put_fixed16(&mut out, a);
            put_fixed32(&mut out, b);
            put_fixed64(&mut out, c);
            put_varint32(&mut out, b);
            put_varint64(&mut out, d);
            put_varsigned64(&mut out, e);
            put_length_prefixed(&mut out, &text);
            let mut decoder = Decoder::new(&out);
            prop_assert_eq!(decoder.u8(), Some(7));
            prop_assert_eq!(decoder.fixed16(), Some(a));
            prop_assert_eq!(decoder.fixed32(), Some(b));
            prop_assert_eq!(decoder.fixed64(), Some(c));
            prop_assert_eq!(decoder.varint32(), Some(b));
            prop_assert_eq!(decoder.varint64(), Some(d));
            prop_assert_eq!(decoder.varsigned64(), Some(e));
            let rest = decoder.rest().len();
            let mut short = Decoder::new(&decoder.rest()[..rest - 1]);
            prop_assert!(short.length_prefixed().is_none());
            prop_assert_eq!(decoder.length_prefixed(), Some(&text[..]));
            prop_assert!(decoder.is_empty() && decoder.u8().is_none());
        }

        #[test]
        fn decoder_never_panics(
            bytes in prop::collection::vec(any::<u8>(), 0..40),
            ops in prop::collection::vec(0u8..8, 0..20),
        ) {
            let mut decoder = Decoder::new(&bytes);
            for op in ops {
                let before = decoder.rest().len();
                let read = match op {
                    0 => decoder.u8().is_some(),
                    1 => decoder.fixed16().is_some(),
                    2 => decoder.fixed32().is_some(),
                    3 => decoder.fixed64().is_some(),
                    4 => decoder.varint32().is_some(),
                    5 => decoder.varint64().is_some(),
                    6 => decoder.varsigned64().is_some(),
                    _ => decoder.length_prefixed().is_some(),
                };
                prop_assert!(!read || decoder.rest().len() < before);
            }
        }
    }
}
