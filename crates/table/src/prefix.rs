//! Byte-prefix arithmetic shared by block building and block search.
//!
//! Pure functions. `prefix_word` maps a key to a `u64` so that unequal words order as the keys do
//! under `memcmp`; equal words say nothing (short keys are padded with zeros).

use std::ops::RangeInclusive;

/// Length of the longest common prefix.
#[inline]
pub(crate) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let n = a.len().min(b.len());
    let (a, b) = (&a[..n], &b[..n]);
    let mut at = 0;
    for (x, y) in a.chunks_exact(8).zip(b.chunks_exact(8)) {
        let diff = word(x) ^ word(y);
        if diff != 0 {
            return at + (diff.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    at + a[at..].iter().zip(&b[at..]).take_while(|(x, y)| x == y).count()
}

/// The little-endian word of an 8-byte chunk.
#[inline]
fn word(chunk: &[u8]) -> u64 {
    chunk.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// Lengths that [`copy_short`] takes.
pub(crate) const SHORT_BYTES: RangeInclusive<usize> = 8..=64;

/// `dst.copy_from_slice(src)` for [`SHORT_BYTES`]: two chunks that may overlap, without a call.
///
/// # Panics
/// If the lengths differ, or are others.
#[inline(always)]
pub(crate) fn copy_short(dst: &mut [u8], src: &[u8]) {
    assert_eq!(dst.len(), src.len());
    match src.len() {
        16..=32 => copy_ends::<16>(dst, src),
        8..16 => copy_ends::<8>(dst, src),
        33..=64 => copy_ends::<32>(dst, src),
        _ => panic!("not short"),
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
/// If those bytes are not inside of `bytes`, unless there are eight other ones.
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
        let from: Vec<u8> = (1..=80).collect();
        for len in SHORT_BYTES {
            let mut to = [0; 80];
            copy_short(&mut to[..len], &from[..len]);
            assert_eq!(to[..len], from[..len]);
            assert!(to[len..].iter().all(|&byte| byte == 0));
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
