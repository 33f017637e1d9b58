//! Fixed-width and variable-length integers and length-prefixed slices, as RocksDB stores them.
//!
//! All integers are little-endian; varints are LEB128 (format spec section 0). Decoding never
//! panics and never reads past its input: it returns `None` and leaves the input unusable.

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
        dst.push(value as u8);
        return;
    }
    let mut buf = [0u8; MAX_VARINT64_LEN];
    let mut n = 0;
    while value >= 0x80 {
        buf[n] = (value as u8) | 0x80;
        value >>= 7;
        n += 1;
    }
    buf[n] = value as u8;
    dst.extend_from_slice(&buf[..=n]);
}
/// Appends a zigzag 64-bit varint.
#[inline]
pub fn put_varsigned64(dst: &mut Vec<u8>, value: i64) {
    put_varint64(dst, ((value << 1) ^ (value >> 63)) as u64);
}
/// Appends a varint32 length and the bytes.
#[inline]
pub fn put_length_prefixed(dst: &mut Vec<u8>, bytes: &[u8]) {
    put_varint32(dst, bytes.len() as u32);
    dst.extend_from_slice(bytes);
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
