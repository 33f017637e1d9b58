//! Byte-prefix arithmetic shared by block building and block search.
//!
//! Pure functions. `prefix_word` maps a key to a `u64` so that unequal words order as the keys do
//! under `memcmp`; equal words say nothing (short keys are padded with zeros).

use pumice_base::copying;

/// Length of the longest common prefix.
#[inline]
pub(crate) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    if let Some((at, x, y)) = differing_word(a, b) {
        return at + equal_bytes(x, y);
    }
    let n = a.len().min(b.len());
    let at = n & !7;
    at + a[at..n].iter().zip(&b[at..n]).take_while(|(x, y)| x == y).count()
}

/// The first whole words, counted from the start, in which the two differ: where they begin, and
/// both. None if they only differ after the last of them, or not at all.
#[inline(always)]
pub(crate) fn differing_word(a: &[u8], b: &[u8]) -> Option<(usize, u64, u64)> {
    let n = a.len().min(b.len());
    let (mut a, mut b) = (&a[..n], &b[..n]);
    while let (Some(x), Some(y)) = (a.first_chunk(), b.first_chunk()) {
        let (x, y) = (u64::from_le_bytes(*x), u64::from_le_bytes(*y));
        if x != y {
            return Some((n - a.len(), x, y));
        }
        (a, b) = (&a[8..], &b[8..]);
    }
    None
}

/// Bytes that two unequal words have in common.
#[inline(always)]
pub(crate) fn equal_bytes(x: u64, y: u64) -> usize {
    ((x ^ y).trailing_zeros() / 8) as usize
}

/// `dst.copy_from_slice(src)`, without a function call for the usual lengths of keys: two chunks
/// that may overlap.
///
/// # Panics
/// If the lengths differ.
#[inline(always)]
pub(crate) fn copy_key(dst: &mut [u8], src: &[u8]) {
    assert_eq!(dst.len(), src.len());
    match src.len() {
        16..=32 => copy_ends::<16>(dst, src),
        8..16 => copy_ends::<8>(dst, src),
        33..=64 => copy_ends::<32>(dst, src),
        _ => dst.copy_from_slice(src),
    }
}

/// As [`copy_key`] for the usual lengths of values.
///
/// # Panics
/// If the lengths differ.
#[inline(always)]
pub(crate) fn copy_value(dst: &mut [u8], src: &[u8]) {
    assert_eq!(dst.len(), src.len());
    match src.len() {
        64..=128 => copy_ends::<64>(dst, src),
        32..64 => copy_ends::<32>(dst, src),
        _ => copying::copy(dst, src),
    }
}

/// Copies the first and the last `N` bytes.
#[inline(always)]
fn copy_ends<const N: usize>(dst: &mut [u8], src: &[u8]) {
    if let (Some(first), Some(to)) = (src.first_chunk::<N>(), dst.first_chunk_mut::<N>()) {
        *to = *first;
    }
    if let (Some(last), Some(to)) = (src.last_chunk::<N>(), dst.last_chunk_mut::<N>()) {
        *to = *last;
    }
}

/// The first eight bytes of `key` as a big-endian integer, padded with zeros.
#[inline]
pub(crate) fn prefix_word(key: &[u8]) -> u64 {
    if let Some(bytes) = key.first_chunk::<8>() {
        return u64::from_be_bytes(*bytes);
    }
    let mut bytes = [0u8; 8];
    bytes[..key.len()].copy_from_slice(key);
    u64::from_be_bytes(bytes)
}

/// `prefix_word` of the `len` bytes at `at`. Cheapest where eight bytes can be read there.
///
/// # Panics
/// Unless `bytes` contains those bytes, or eight bytes from `at` on.
#[inline]
pub(crate) fn word_at(bytes: &[u8], at: usize, len: usize) -> u64 {
    match bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        Some(chunk) if len >= 8 => u64::from_be_bytes(*chunk),
        Some(chunk) => u64::from_be_bytes(*chunk) & !(u64::MAX >> (8 * len)),
        None => prefix_word(&bytes[at..at + len]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[pumice_test_macros::test]
    fn common_prefix_matches_the_byte_loop() {
        let base: Vec<u8> = (0..40u8).collect();
        for len in 0..40 {
            for differ in 0..=len {
                let mut other = base[..len].to_vec();
                if differ < len {
                    other[differ] ^= 0x80;
                }
                assert_eq!(common_prefix(&base, &other), differ, "len {len}");
                assert_eq!(common_prefix(&other, &base), differ, "len {len}");
            }
        }
    }

    #[pumice_test_macros::test]
    fn short_copies_are_copies() {
        let from: Vec<u8> = (1..=150).collect();
        for len in 0..=from.len() {
            for copy in [copy_key, copy_value] {
                let mut to = [0; 200];
                copy(&mut to[..len], &from[..len]);
                assert_eq!(to[..len], from[..len]);
                assert!(to[len..].iter().all(|&byte| byte == 0));
            }
        }
    }

    #[pumice_test_macros::test]
    fn prefix_words_never_contradict_memcmp() {
        let keys: [&[u8]; 8] = [b"", b"\0", b"a", b"a\0", b"ab", b"abcdefgh", b"abcdefghi", b"b"];
        for a in keys {
            for b in keys {
                let (x, y) = (prefix_word(a), prefix_word(b));
                if x != y {
                    assert_eq!(x.cmp(&y), a.cmp(b), "{a:?} {b:?}");
                }
            }
        }
    }
}
