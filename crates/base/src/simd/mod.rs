//! CPU instructions that safe Rust cannot use.
//!
//! Here: CRC-32C of short inputs with the SSE4.2 instruction. The `crc32c` crate is made for large
//! inputs; log records are around a hundred bytes, where its set-up costs more than the sum itself.
//! In `xxh3`: XXH3 with AVX2.
//!
//! Thread safety: pure. Invariant (1): a function with `target_feature` runs only after the
//! feature was detected at run time. The safe twin is the `crc32c` crate; a test compares them.
#![allow(unsafe_code)]

pub(crate) mod xxh3;

/// Inputs longer than this go to the interleaved implementation of the `crc32c` crate.
pub(crate) const SHORT_BYTES_MAX: usize = 512;

/// CRC-32C of `A ‖ data` where `crc` is that of `A`, if this CPU can; for short inputs.
#[inline]
pub(crate) fn crc32c_short(crc: u32, data: &[u8]) -> Option<u32> {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("sse4.2") {
        // SAFETY: invariant 1, the feature was detected in the line above.
        return Some(unsafe { crc32c_sse42(crc, data) });
    }
    let _unused = (crc, data);
    None
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
fn crc32c_sse42(crc: u32, data: &[u8]) -> u32 {
    use crate::narrow::low_u32;
    use std::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u64};
    let (words, tail) = data.as_chunks::<8>();
    let mut sum = u64::from(!crc);
    for word in words {
        sum = _mm_crc32_u64(sum, u64::from_le_bytes(*word));
    }
    let mut sum = low_u32(sum);
    for &byte in tail {
        sum = _mm_crc32_u8(sum, byte);
    }
    !sum
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::random::Rng;

    #[test]
    fn the_instruction_agrees_with_the_reference() {
        let mut rng = Rng::new(11);
        for len in 0..=SHORT_BYTES_MAX {
            let mut data = vec![0; len];
            rng.fill(&mut data);
            let start = rng.next_u32();
            let want = crc32c::crc32c_append(start, &data);
            if let Some(found) = crc32c_short(start, &data) {
                assert_eq!(found, want, "length {len}");
            }
        }
    }
}
