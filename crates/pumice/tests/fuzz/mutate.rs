//! Changes of bytes that a decoder may trust: numbers of all widths, lengths, pieces that move.

use pumice_base::coding::{get_varint64, put_varint64};
use pumice_base::random::Rng;

/// Numbers at which arithmetic or checks tend to fail.
pub fn number(rng: &mut Rng) -> u64 {
    const AT: [u64; 15] = [
        0,
        1 << 7,
        1 << 8,
        1 << 14,
        1 << 16,
        1 << 28,
        1 << 31,
        1 << 32,
        1 << 40,
        1 << 48,
        1 << 56,
        1 << 61,
        1 << 62,
        1 << 63,
        u64::MAX,
    ];
    match rng.uniform(4) {
        0 => rng.skewed(63),
        1 => rng.uniform(40),
        _ => {
            let around = rng.uniform(7).wrapping_sub(3);
            AT[rng.uniform(AT.len() as u64) as usize].wrapping_add(around)
        }
    }
}

/// A place in `len` bytes, the end included.
fn place(len: usize, rng: &mut Rng) -> usize {
    rng.uniform(len as u64 + 1) as usize
}

/// A piece of `bytes`, mostly a short one.
fn piece(bytes: &[u8], rng: &mut Rng) -> std::ops::Range<usize> {
    let from = place(bytes.len(), rng);
    let len = rng.skewed(10) as usize;
    from..(from + len).min(bytes.len())
}

/// Overwrites a random position with a number in some encoding.
fn overwrite_number(bytes: &mut Vec<u8>, rng: &mut Rng) {
    let at = place(bytes.len(), rng);
    let number = number(rng);
    let width = [1, 2, 4, 8, 0][rng.uniform(5) as usize];
    if width > 0 {
        let end = (at + width).min(bytes.len());
        let stored = number.to_le_bytes();
        bytes[at..end].copy_from_slice(&stored[..end - at]);
        return;
    }
    let old = get_varint64(&bytes[at..]).map_or(0, |(_, len)| len);
    let mut new = Vec::new();
    put_varint64(&mut new, number);
    bytes.splice(at..at + old, new);
}

/// One change of `bytes`, with pieces of `others`.
pub fn once(bytes: &mut Vec<u8>, others: &[Vec<u8>], rng: &mut Rng) {
    match rng.uniform(9) {
        0 if !bytes.is_empty() => {
            let at = rng.uniform(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << rng.uniform(8);
        }
        1 if !bytes.is_empty() => {
            let at = rng.uniform(bytes.len() as u64) as usize;
            bytes[at] = [0, 1, 0x7f, 0x80, 0xff, rng.next_u32() as u8][rng.uniform(6) as usize];
        }
        2..=4 => overwrite_number(bytes, rng),
        5 => drop(bytes.drain(piece(bytes, rng))),
        6 => {
            let (from, at) = (piece(bytes, rng), place(bytes.len(), rng));
            let copy = bytes[from].to_vec();
            bytes.splice(at..at, copy);
        }
        7 if !others.is_empty() => {
            let other = &others[rng.uniform(others.len() as u64) as usize];
            let (from, at) = (piece(other, rng), place(bytes.len(), rng));
            bytes.splice(at..at, other[from].to_vec());
        }
        _ if rng.one_in(4) => bytes.truncate(place(bytes.len(), rng)),
        _ => overwrite_number(bytes, rng),
    }
}

/// One change or a few.
pub fn some(bytes: &mut Vec<u8>, others: &[Vec<u8>], rng: &mut Rng) {
    for _ in 0..=rng.skewed(2) {
        once(bytes, others, rng);
    }
}
