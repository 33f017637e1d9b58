//! XXH3 with 64 bits, without seed, with vectors where the CPU has them.
//!
//! The `xxhash-rust` crate chooses vectors when it is compiled, and we compile for every x86-64;
//! blocks are hashed when written and when read, so here AVX2 is detected at run time. Short inputs
//! and other CPUs go to the crate, which also is the safe twin: a test compares them.
//!
//! An input of more than 240 bytes is a row of 64-byte stripes, 16 to a block. Eight lanes of 64
//! bits accumulate the stripes, each mixed with its part of the secret, and are scrambled after
//! every block; the last 64 bytes, which may overlap the stripe before, are added at the end.
//!
//! Thread safety: pure. Invariants: (1) a function with `target_feature` runs only after the
//! feature was detected at run time; (2) a load reads the array it is given, no byte beyond.
#![allow(unsafe_code)]

/// XXH3 of `data`, seed 0.
#[inline]
pub(crate) fn xxh3_64(data: &[u8]) -> u64 {
    #[cfg(target_arch = "x86_64")]
    if data.len() > avx2::SHORT_BYTES_MAX && std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: invariant 1, the feature was detected in the line above.
        return unsafe { avx2::xxh3_64_long(data) };
    }
    xxhash_rust::xxh3::xxh3_64(data)
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::*;

    use crate::hash::{P32_1, P32_2, P32_3, P64_1, P64_2, P64_3, P64_4, P64_5, SECRET, fold};

    /// Shorter inputs have algorithms of their own.
    pub(super) const SHORT_BYTES_MAX: usize = 240;
    const STRIPE: usize = 64;
    const BLOCK: usize = 16 * STRIPE;
    /// Where the secret has its parts for the scrambling, the last stripe and the result.
    const SCRAMBLE_AT: usize = SECRET.len() - STRIPE;
    const LAST_AT: usize = SCRAMBLE_AT - 7;
    const MERGE_AT: usize = 11;
    /// Factor of the final mixing; the filters' preview of XXH3 uses another one.
    const MIX: u64 = 0x1656_6791_9e37_79f9;

    /// Lanes 0 to 3 and 4 to 7.
    type Lanes = [__m256i; 2];

    /// Requires more than `SHORT_BYTES_MAX` bytes.
    #[target_feature(enable = "avx2")]
    pub(super) fn xxh3_64_long(data: &[u8]) -> u64 {
        let mut lanes = [
            _mm256_setr_epi64x(P32_3 as i64, P64_1 as i64, P64_2 as i64, P64_3 as i64),
            _mm256_setr_epi64x(P64_4 as i64, P32_2 as i64, P64_5 as i64, P32_1 as i64),
        ];
        // At least one byte is left for the last stripe, which is not part of a block.
        let (blocks, rest) = data[..data.len() - 1].as_chunks::<BLOCK>();
        for block in blocks {
            add_stripes(&mut lanes, block);
            scramble(&mut lanes);
        }
        add_stripes(&mut lanes, rest);
        if let Some(last) = data.last_chunk() {
            add_stripe(&mut lanes, last, LAST_AT);
        }
        merge(lanes, data.len() as u64)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn add_stripes(lanes: &mut Lanes, bytes: &[u8]) {
        for (number, stripe) in bytes.as_chunks::<STRIPE>().0.iter().enumerate() {
            add_stripe(lanes, stripe, 8 * number);
        }
    }

    /// To each lane: the neighbour's input, and the product of the halves of input and secret.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn add_stripe(lanes: &mut Lanes, stripe: &[u8; STRIPE], secret_at: usize) {
        for (half, lane) in lanes.iter_mut().enumerate() {
            let input = load(stripe, 32 * half);
            let keyed = _mm256_xor_si256(input, load(&SECRET, secret_at + 32 * half));
            let product = _mm256_mul_epu32(keyed, _mm256_srli_epi64::<32>(keyed));
            let neighbour = _mm256_shuffle_epi32::<0b0100_1110>(input);
            *lane = _mm256_add_epi64(*lane, _mm256_add_epi64(product, neighbour));
        }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn scramble(lanes: &mut Lanes) {
        let factor = _mm256_set1_epi64x(P32_1 as i64);
        for (half, lane) in lanes.iter_mut().enumerate() {
            let folded = _mm256_xor_si256(*lane, _mm256_srli_epi64::<47>(*lane));
            let keyed = _mm256_xor_si256(folded, load(&SECRET, SCRAMBLE_AT + 32 * half));
            // A product of 64 and 32 bits out of two of 32 bits each.
            let low = _mm256_mul_epu32(keyed, factor);
            let high = _mm256_mul_epu32(_mm256_srli_epi64::<32>(keyed), factor);
            *lane = _mm256_add_epi64(low, _mm256_slli_epi64::<32>(high));
        }
    }

    /// The hash out of the lanes, which are paired.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn merge(lanes: Lanes, len: u64) -> u64 {
        let mut sum = len.wrapping_mul(P64_1);
        for (half, lane) in lanes.into_iter().enumerate() {
            let keyed = _mm256_xor_si256(lane, load(&SECRET, MERGE_AT + 32 * half));
            let [a, b] = [_mm256_extract_epi64::<0>(keyed), _mm256_extract_epi64::<1>(keyed)];
            let [c, d] = [_mm256_extract_epi64::<2>(keyed), _mm256_extract_epi64::<3>(keyed)];
            sum = sum.wrapping_add(fold(a as u64, b as u64)).wrapping_add(fold(c as u64, d as u64));
        }
        sum ^= sum >> 37;
        sum = sum.wrapping_mul(MIX);
        sum ^ (sum >> 32)
    }

    /// The 32 bytes at `at`.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn load(bytes: &[u8], at: usize) -> __m256i {
        let bytes: &[u8; 32] = bytes[at..at + 32].first_chunk().expect("32 bytes");
        // SAFETY: invariant 2.
        unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Rng;

    #[test]
    fn every_length_agrees_with_the_crate() {
        let mut rng = Rng::new(0x3383);
        let mut data = vec![0; 70_000];
        rng.fill(&mut data);
        let far = [4095, 4096, 4097, 65_535, 65_536, 65_537, 70_000];
        for len in (0..=3 * 1024 + 70).chain(far) {
            let at = rng.uniform((data.len() - len) as u64 + 1) as usize;
            let part = &data[at..at + len];
            assert_eq!(xxh3_64(part), xxhash_rust::xxh3::xxh3_64(part), "length {len} at {at}");
        }
    }

    /// Where all bits are set, carries and sign bits are too.
    #[test]
    fn extreme_inputs_agree_with_the_crate() {
        for byte in [0, 0xff, 0x80] {
            for len in [241, 1024, 1025, 5000] {
                let data = vec![byte; len];
                assert_eq!(xxh3_64(&data), xxhash_rust::xxh3::xxh3_64(&data), "{byte} {len}");
            }
        }
    }
}
