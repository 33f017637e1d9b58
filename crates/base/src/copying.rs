//! Copies of long byte strings, in pieces that every C library copies well.
//!
//! From a few KiB on, glibc (2.36, Debian 12) copies with one `rep movsb`, which Zen 4 executes at
//! a fifteenth of its speed where the target lies 1 to 31 bytes after the source within a page. A
//! log record is such a copy: batch and buffer both begin at the start of a page, and the record's
//! header precedes its payload. Pieces of 2 KiB are copied with vector instructions, for which
//! alignment does not matter, and which are as fast otherwise.
//!
//! Thread safety: functions of their arguments.

/// Longer byte strings are copied in pieces of this size.
pub const PIECE_BYTES: usize = 2 << 10;

/// Appends `src` to `dst`.
#[inline]
pub fn extend(dst: &mut Vec<u8>, src: &[u8]) {
    if src.len() <= PIECE_BYTES { dst.extend_from_slice(src) } else { extend_long(dst, src) }
}

#[inline(never)]
fn extend_long(dst: &mut Vec<u8>, src: &[u8]) {
    dst.reserve(src.len());
    src.chunks(PIECE_BYTES).for_each(|piece| dst.extend_from_slice(piece));
}

/// Copies `src` to `dst`.
///
/// # Panics
/// If the lengths differ.
#[inline]
pub fn copy(dst: &mut [u8], src: &[u8]) {
    if src.len() <= PIECE_BYTES { dst.copy_from_slice(src) } else { copy_long(dst, src) }
}

#[inline(never)]
fn copy_long(dst: &mut [u8], src: &[u8]) {
    assert_eq!(dst.len(), src.len());
    let pieces = dst.chunks_mut(PIECE_BYTES).zip(src.chunks(PIECE_BYTES));
    pieces.for_each(|(to, piece)| to.copy_from_slice(piece));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_arrives_whole() {
        let source: Vec<u8> = (0..3 * PIECE_BYTES + 7).map(|i| (i * 31 % 251) as u8).collect();
        for len in [0, 1, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, source.len()] {
            let mut appended = vec![1, 2, 3];
            extend(&mut appended, &source[..len]);
            assert_eq!((&appended[..3], &appended[3..]), (&[1, 2, 3][..], &source[..len]), "{len}");
            let mut copied = vec![0; len];
            copy(&mut copied, &source[..len]);
            assert_eq!(copied, source[..len], "{len}");
        }
    }

    #[test]
    #[should_panic(expected = "left")]
    fn lengths_that_differ_are_a_bug() {
        copy(&mut [0; PIECE_BYTES + 1], &[0; PIECE_BYTES + 2]);
    }
}
