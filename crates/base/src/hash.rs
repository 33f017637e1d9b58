//! Key hashes (docs/format/primitives.md#hash32 and docs/format/filter.md#key-hash) and hash tables
//! with a fixed hasher.
//!
//! [`hash64`] is the filters' key hash: a preview of XXH3 that RocksDB froze, called XXPH3 here.
//! It differs from the released XXH3 that checksums use. [`hash32`] serves legacy filters and the
//! data-block hash index. Both results are persisted in tables: never change them.
//!
//! Thread safety: pure functions.

use crate::narrow::{low_u32, low_u64};

pub(crate) const P32_1: u64 = 0x9e37_79b1;
pub(crate) const P32_2: u64 = 0x85eb_ca77;
pub(crate) const P32_3: u64 = 0xc2b2_ae3d;
pub(crate) const P64_1: u64 = 0x9e37_79b1_85eb_ca87;
pub(crate) const P64_2: u64 = 0xc2b2_ae3d_27d4_eb4f;
pub(crate) const P64_3: u64 = 0x1656_67b1_9e37_79f9;
pub(crate) const P64_4: u64 = 0x85eb_ca77_c2b2_ae63;
pub(crate) const P64_5: u64 = 0x27d4_eb2f_1656_67c5;

const STRIPE: usize = 64;
const STRIPES_PER_BLOCK: usize = 16;
const SECRET_LEN: usize = 192;

/// Shared by XXH3 and its preview.
pub(crate) static SECRET: [u8; SECRET_LEN] = [
    0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c,
    0xde, 0xd4, 0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f,
    0xcb, 0x79, 0xe6, 0x4e, 0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21,
    0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43, 0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6, 0x81, 0x3a, 0x26, 0x4c,
    0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb, 0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3,
    0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19, 0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8,
    0xa8, 0xfa, 0x76, 0x3f, 0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7, 0xc7, 0x0b, 0x4f, 0x1d,
    0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31, 0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78, 0x73, 0x64,
    0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff, 0xfa, 0x13, 0x63, 0xeb,
    0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3, 0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e,
    0x2b, 0x16, 0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc, 0x8f, 0xf8, 0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce,
    0x45, 0xcb, 0x3a, 0x8f, 0x95, 0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b, 0x40, 0x7e,
];

/// The bytes that keys are mixed with; a seed changes them for long inputs only.
type Secret = [u8; SECRET_LEN];

#[inline(always)]
fn read32(data: &[u8], at: usize) -> u64 {
    let mut bytes = [0u8; 4];
    bytes.copy_from_slice(&data[at..at + 4]);
    u64::from(u32::from_le_bytes(bytes))
}

#[inline(always)]
fn read64(data: &[u8], at: usize) -> u64 {
    let mut bytes = [0u8; 8];
    bytes.copy_from_slice(&data[at..at + 8]);
    u64::from_le_bytes(bytes)
}

/// Multiplies to 128 bits and folds the halves.
#[inline(always)]
pub(crate) fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    low_u64(product) ^ low_u64(product >> 64)
}

#[inline(always)]
fn avalanche(mut h: u64) -> u64 {
    h ^= h >> 37;
    h = h.wrapping_mul(P64_3);
    h ^ (h >> 32)
}

/// Mixes 16 input bytes at `at` with the 16 secret bytes at `secret_at`.
#[inline(always)]
fn mix16(data: &[u8], at: usize, secret_at: usize, seed: u64) -> u64 {
    fold(
        read64(data, at) ^ read64(&SECRET, secret_at).wrapping_add(seed),
        read64(data, at + 8) ^ read64(&SECRET, secret_at + 8).wrapping_sub(seed),
    )
}

/// The 64-bit hash of a key in filters (XXPH3, seed 0).
#[inline]
pub fn hash64(data: &[u8]) -> u64 {
    hash64_seeded(data, 0)
}

/// [`hash64`] with a seed.
#[inline]
pub fn hash64_seeded(data: &[u8], seed: u64) -> u64 {
    match data.len() {
        9..=16 => hash_9_to_16(data, seed),
        17..=128 => hash_17_to_128(data, seed),
        0..=8 => hash_0_to_8(data, seed),
        129..=240 => hash_129_to_240(data, seed),
        _ => hash_long(data, seed),
    }
}

#[inline(always)]
fn hash_0_to_8(data: &[u8], seed: u64) -> u64 {
    let n = data.len();
    if n >= 4 {
        let input = read32(data, 0) | (read32(data, n - 4) << 32);
        let keyed = input ^ read64(&SECRET, 0).wrapping_add(seed);
        let mixed = (n as u64).wrapping_add((keyed ^ (keyed >> 51)).wrapping_mul(P32_1));
        avalanche((mixed ^ (mixed >> 47)).wrapping_mul(P64_2))
    } else if n > 0 {
        let combined = u32::from(data[0])
            | (u32::from(data[n >> 1]) << 8)
            | (u32::from(data[n - 1]) << 16)
            | (low_u32(n as u64) << 24);
        let keyed = u64::from(combined) ^ read32(&SECRET, 0).wrapping_add(seed);
        avalanche(keyed.wrapping_mul(P64_1))
    } else {
        fold(read64(&SECRET, 0).wrapping_add(seed), P64_2)
    }
}

#[inline(always)]
fn hash_9_to_16(data: &[u8], seed: u64) -> u64 {
    let n = data.len();
    let low = read64(data, 0) ^ read64(&SECRET, 0).wrapping_add(seed);
    let high = read64(data, n - 8) ^ read64(&SECRET, 8).wrapping_sub(seed);
    avalanche((n as u64).wrapping_add(low).wrapping_add(high).wrapping_add(fold(low, high)))
}

/// Mixes 16-byte pieces pairwise from both ends towards the middle.
#[inline(always)]
fn hash_17_to_128(data: &[u8], seed: u64) -> u64 {
    let n = data.len();
    let mut acc = (n as u64).wrapping_mul(P64_1);
    for pair in 0..n.div_ceil(32).min(4) {
        let from_end = n - 16 * (pair + 1);
        acc = acc.wrapping_add(mix16(data, 16 * pair, 32 * pair, seed)).wrapping_add(mix16(
            data,
            from_end,
            32 * pair + 16,
            seed,
        ));
    }
    avalanche(acc)
}

fn hash_129_to_240(data: &[u8], seed: u64) -> u64 {
    let n = data.len();
    let mut acc = (n as u64).wrapping_mul(P64_1);
    for i in 0..8 {
        acc = acc.wrapping_add(mix16(data, 16 * i, 16 * i, seed));
    }
    acc = avalanche(acc);
    for i in 8..n / 16 {
        acc = acc.wrapping_add(mix16(data, 16 * i, 16 * (i - 8) + 3, seed));
    }
    avalanche(acc.wrapping_add(mix16(data, n - 16, 119, seed)))
}

#[cold]
fn hash_long(data: &[u8], seed: u64) -> u64 {
    let secret = seeded_secret(seed);
    let mut acc = [P32_3, P64_1, P64_2, P64_3, P64_4, P32_2, P64_5, P32_1];
    let (blocks, rest) = data.as_chunks::<{ STRIPE * STRIPES_PER_BLOCK }>();
    for block in blocks {
        for j in 0..STRIPES_PER_BLOCK {
            accumulate(&mut acc, &block[j * STRIPE..], &secret, 8 * j);
        }
        for (i, lane) in acc.iter_mut().enumerate() {
            *lane ^= *lane >> 47;
            *lane = (*lane ^ read64(&secret, SECRET_LEN - STRIPE + 8 * i)).wrapping_mul(P32_1);
        }
    }
    for (j, stripe) in rest.as_chunks::<STRIPE>().0.iter().enumerate() {
        accumulate(&mut acc, stripe, &secret, 8 * j);
    }
    if !data.len().is_multiple_of(STRIPE) {
        accumulate(&mut acc, &data[data.len() - STRIPE..], &secret, SECRET_LEN - STRIPE - 7);
    }
    let mut result = (data.len() as u64).wrapping_mul(P64_1);
    for i in 0..4 {
        let low = acc[2 * i] ^ read64(&secret, 11 + 16 * i);
        let high = acc[2 * i + 1] ^ read64(&secret, 19 + 16 * i);
        result = result.wrapping_add(fold(low, high));
    }
    avalanche(result)
}

/// Adds one 64-byte stripe to the eight lanes.
#[inline(always)]
fn accumulate(acc: &mut [u64; 8], stripe: &[u8], secret: &Secret, secret_at: usize) {
    for (i, lane) in acc.iter_mut().enumerate() {
        let input = read64(stripe, 8 * i);
        let keyed = input ^ read64(secret, secret_at + 8 * i);
        let product = (keyed & 0xffff_ffff).wrapping_mul(keyed >> 32);
        *lane = lane.wrapping_add(input).wrapping_add(product);
    }
}

fn seeded_secret(seed: u64) -> Secret {
    let mut secret = SECRET;
    if seed != 0 {
        for at in (0..SECRET_LEN).step_by(16) {
            let low = read64(&SECRET, at).wrapping_add(seed);
            let high = read64(&SECRET, at + 8).wrapping_sub(seed);
            secret[at..at + 8].copy_from_slice(&low.to_le_bytes());
            secret[at + 8..at + 16].copy_from_slice(&high.to_le_bytes());
        }
    }
    secret
}

/// The 32-bit hash of legacy Bloom filters and of the data-block hash index.
pub fn hash32(data: &[u8], seed: u32) -> u32 {
    const M: u32 = 0xc6a4_a793;
    let mut h = seed ^ low_u32(data.len() as u64).wrapping_mul(M);
    let (words, tail) = data.as_chunks::<4>();
    for word in words {
        h = h.wrapping_add(u32::from_le_bytes(*word)).wrapping_mul(M);
        h ^= h >> 16;
    }
    if !tail.is_empty() {
        for (i, &byte) in tail.iter().enumerate() {
            // RocksDB reads these as signed chars.
            h = h.wrapping_add((i32::from(byte as i8) as u32) << (8 * i));
        }
        h = h.wrapping_mul(M);
        h ^= h >> 24;
    }
    h
}

/// `h` scaled from 32 bits to `0..n`.
#[inline(always)]
pub fn fast_range32(h: u32, n: u32) -> u32 {
    ((u64::from(h) * u64::from(n)) >> 32) as u32
}

/// `h` scaled from 64 bits to `0..n`.
#[inline(always)]
pub fn fast_range64(h: u64, n: u64) -> u64 {
    ((u128::from(h) * u128::from(n)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(n: usize) -> Vec<u8> {
        (0..n).map(|i| (7 * i + 3) as u8).collect()
    }

    /// The vectors of docs/format/filter.md#key-hash, taken from RocksDB's own header.
    #[test]
    fn hash64_vectors() {
        let vectors: [(usize, u64); 18] = [
            (0, 0x5342_c301_0fe1_dd04),
            (1, 0x81b7_8b21_c2ce_4f18),
            (3, 0x6731_a716_813e_e5f1),
            (4, 0x3a5a_fd96_7aca_f5c3),
            (8, 0xbcb5_6b6f_8d4b_12da),
            (9, 0x0378_7b4e_ec57_bf4b),
            (16, 0x8172_0cc0_702e_dd73),
            (17, 0x0b51_5520_f462_e96f),
            (33, 0xd020_587a_3c72_b988),
            (65, 0xd401_43de_1bea_dd46),
            (97, 0x19e9_c187_1ecd_39dc),
            (128, 0x8ea7_6d83_8ce7_563f),
            (129, 0x3992_d120_c8c4_677a),
            (240, 0xdf41_bc5f_ea3a_61e8),
            (241, 0x91d1_0f06_82af_4ac3),
            (1024, 0x7d54_b94e_0436_75ba),
            (1025, 0x90ac_daaa_aca6_75b0),
            (5000, 0x0dda_1962_3d7c_49df),
        ];
        for (n, expected) in vectors {
            assert_eq!(hash64(&pattern(n)), expected, "length {n}");
        }
    }

    /// Seeds matter at every length, and so does every byte.
    #[test]
    fn hash64_depends_on_seed_and_bytes() {
        for n in [1, 2, 3, 5, 8, 9, 16, 17, 32, 33, 64, 65, 96, 97, 128, 129, 240, 241, 1100] {
            let mut data = pattern(n);
            let h = hash64(&data);
            assert_ne!(hash64_seeded(&data, 1), h, "length {n}");
            for i in 0..n {
                data[i] ^= 1;
                assert_ne!(hash64(&data), h, "length {n} byte {i}");
                data[i] ^= 1;
            }
        }
        assert_ne!(hash64_seeded(b"", 1), hash64(b""));
    }

    /// Numbers RocksDB's own test expects; high bits in the tail prove the sign extension.
    #[test]
    fn hash32_vectors() {
        let vectors: [(&[u8], u32); 8] = [
            (b"", 3_164_544_308),
            (b"\x17", 3_168_152_998),
            (b"\x9a", 3_195_034_349),
            (b"\x91\xf7", 31_066_776),
            (b"\x6a\xb5\xf4", 2_469_105_222),
            (b"\x69\xb8\xc0\x88", 3_416_318_611),
            (b"\xb7\x46\xbb\x77\xce", 2_048_907_743),
            (b"\xbd\x2c\x63\x38\xbf\xe9\x78\xb7\xbf\x15", 3_382_479_516),
        ];
        for (data, expected) in vectors {
            assert_eq!(hash32(data, 0xbc9f_1d34), expected, "{data:x?}");
        }
    }

    #[test]
    fn ranges_cover_their_interval() {
        for n in [1u32, 2, 3, 1000, u32::MAX] {
            assert_eq!(fast_range32(0, n), 0);
            assert_eq!(fast_range32(u32::MAX, n), n - 1);
            assert_eq!(fast_range64(u64::MAX, u64::from(n)), u64::from(n) - 1);
        }
    }
}
