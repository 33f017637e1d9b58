//! Block, WAL and MANIFEST checksums (docs/format/primitives.md#checksums and
//! docs/format/table.md#blocks).
//!
//! Thread safety: pure functions. The numbers are persisted: never renumber.
//! Not here: the filters' key hash, which only looks like XXH3 (see [`crate::hash`]).

use crate::narrow::low_u32;
use xxhash_rust::{xxh32, xxh64};

use crate::simd::xxh3::xxh3_64;
use crate::simd::{SHORT_BYTES_MAX, crc32c_short};

/// Factor that mixes the last byte of an XXH3 block into its checksum.
const XXH3_LAST_BYTE_PRIME: u32 = 0x6b90_83d9;
/// Constant of the mask over a stored CRC.
const MASK_DELTA: u32 = 0xa282_ead8;

/// The checksum type of a table's blocks; the first byte of its footer.
///
/// ```
/// # use pumice_base::checksum::ChecksumType;
/// // `options.tables().checksum = ChecksumType::Crc32c`, or by the name in OPTIONS files:
/// assert_eq!(ChecksumType::from_name("kCRC32c"), Some(ChecksumType::Crc32c));
/// assert_eq!(ChecksumType::default().name(), "kXXH3");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum ChecksumType {
    /// Stored as zero (plus context) and never verified.
    None = 0,
    /// Masked CRC-32C.
    Crc32c = 1,
    /// XXH32.
    XxHash = 2,
    /// The low half of XXH64.
    XxHash64 = 3,
    /// The low half of XXH3 over all but the last byte, which is mixed in afterwards.
    #[default]
    Xxh3 = 4,
}

impl ChecksumType {
    const ALL: [ChecksumType; 5] =
        [Self::None, Self::Crc32c, Self::XxHash, Self::XxHash64, Self::Xxh3];

    /// The type with that stored number.
    pub fn from_u8(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
    /// The name in OPTIONS files.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "kNoChecksum",
            Self::Crc32c => "kCRC32c",
            Self::XxHash => "kxxHash",
            Self::XxHash64 => "kxxHash64",
            Self::Xxh3 => "kXXH3",
        }
    }
    /// The type with that OPTIONS name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|t| t.name() == name)
    }
}

/// CRC-32C (Castagnoli) of `data`.
#[inline]
pub fn crc32c(data: &[u8]) -> u32 {
    crc32c_extend(0, data)
}

/// CRC-32C of `A ‖ data`, where `crc` is that of `A`.
#[inline]
pub fn crc32c_extend(crc: u32, data: &[u8]) -> u32 {
    if data.len() <= SHORT_BYTES_MAX
        && let Some(sum) = crc32c_short(crc, data)
    {
        return sum;
    }
    crc32c::crc32c_append(crc, data)
}

/// The form in which a CRC is stored, so that a CRC over stored CRCs stays strong.
#[inline]
pub fn mask_crc(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(MASK_DELTA)
}

/// Inverse of [`mask_crc`].
#[inline]
pub fn unmask_crc(masked: u32) -> u32 {
    masked.wrapping_sub(MASK_DELTA).rotate_left(15)
}

/// The checksum over `payload ‖ last_byte`, before the context is added. For a block the last
/// byte is the compression type, for a footer the last byte of the magic number.
#[inline]
pub fn block_checksum(kind: ChecksumType, payload: &[u8], last_byte: u8) -> u32 {
    match kind {
        ChecksumType::None => 0,
        ChecksumType::Crc32c => mask_crc(crc32c_extend(crc32c(payload), &[last_byte])),
        ChecksumType::XxHash => {
            let mut state = xxh32::Xxh32::new(0);
            state.update(payload);
            state.update(&[last_byte]);
            state.digest()
        }
        ChecksumType::XxHash64 => {
            let mut state = xxh64::Xxh64::new(0);
            state.update(payload);
            state.update(&[last_byte]);
            low_u32(state.digest())
        }
        ChecksumType::Xxh3 => {
            let body = low_u32(xxh3_64(payload));
            body ^ u32::from(last_byte).wrapping_mul(XXH3_LAST_BYTE_PRIME)
        }
    }
}

/// The value that tables of format 6 and later add (wrapping) to the checksum of a block at
/// `offset`, so that a block read from the wrong place or file does not verify. `base` 0 means no
/// context.
#[inline]
pub fn context_checksum(base: u32, offset: u64) -> u32 {
    if base == 0 { 0 } else { base ^ low_u32(offset).wrapping_add(low_u32(offset >> 32)) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const ALL_BYTES_CRC: [(&[u8], u32); 4] = [
        (b"", 0),
        (b"123456789", 0xe306_9283),
        (&[0u8; 32], 0x8a91_36aa),
        (&[0xffu8; 32], 0x62a8_ab43),
    ];

    #[test]
    fn crc_vectors_and_extension() {
        for (data, crc) in ALL_BYTES_CRC {
            assert_eq!(crc32c(data), crc);
            for cut in 0..=data.len() {
                assert_eq!(crc32c_extend(crc32c(&data[..cut]), &data[cut..]), crc);
            }
        }
        assert_eq!(mask_crc(0), MASK_DELTA);
        for crc in [0, 1, 0xe306_9283, u32::MAX, 0x8000_7fff] {
            assert_eq!(unmask_crc(mask_crc(crc)), crc);
            assert_ne!(mask_crc(crc), crc);
        }
    }

    #[test]
    fn names_and_numbers() {
        for number in 0..=255u8 {
            match ChecksumType::from_u8(number) {
                Some(t) => {
                    assert_eq!(t as u8, number);
                    assert_eq!(ChecksumType::from_name(t.name()), Some(t));
                }
                None => assert!(number > 4),
            }
        }
        assert_eq!(ChecksumType::from_name("xxh3"), None);
        assert_eq!(ChecksumType::default(), ChecksumType::Xxh3);
    }

    /// The one-entry data block of docs/format/table.md#blocks (format 5, no context).
    #[test]
    fn xxh3_block_of_a_real_file() {
        let block = [
            0x00, 0x09, 0x02, 0x7a, 0x01, 0x0b, 0, 0, 0, 0, 0, 0, 0x32, 0x36, 0, 0, 0, 0, 1, 0, 0,
            0,
        ];
        assert_eq!(block_checksum(ChecksumType::Xxh3, &block, 0), 0x0056_8531);
    }

    /// The footer and first data block of docs/format/table.md#footer (RocksDB 11.9, format 7).
    #[test]
    fn footer_of_a_real_file() {
        let mut footer = [0u8; 53];
        footer[..17].copy_from_slice(&[
            0x04, 0x3e, 0, 0x7a, 0, 0, 0, 0, 0, 0xae, 0x57, 0x6a, 0x24, 0x36, 0, 0, 0,
        ]);
        footer[41] = 7;
        footer[45..].copy_from_slice(&0x88e2_41b7_85f4_cff7u64.to_le_bytes());
        let (last, head) = footer.split_last().unwrap();
        let sum = block_checksum(ChecksumType::Xxh3, head, *last);
        assert_eq!(sum, 0x8dd8_25ec);
        let context = context_checksum(0x246a_57ae, 0x4e1);
        assert_eq!(context, 0x246a_534f);
        assert_eq!(sum.wrapping_add(context), 0xb242_793b);
    }

    #[test]
    fn context_uses_both_halves_of_the_offset() {
        assert_eq!(context_checksum(0, 77), 0);
        assert_eq!(context_checksum(0x10, 0), 0x10);
        assert_eq!(context_checksum(0x10, 1 << 32), 0x11);
        assert_eq!(context_checksum(0x10, (1 << 32) | 0xffff_ffff), 0x10);
    }

    /// Streaming and one-shot forms agree, and every type depends on the last byte.
    #[test]
    fn last_byte_counts() {
        let data: Vec<u8> = (0..1000u32).map(|i| (i * 7 + 3) as u8).collect();
        for n in [0, 1, 15, 16, 17, 31, 32, 33, 239, 240, 241, 1000] {
            let mut joined = data[..n].to_vec();
            joined.push(7);
            let sum = |kind| block_checksum(kind, &data[..n], 7);
            assert_eq!(sum(ChecksumType::None), 0);
            assert_eq!(sum(ChecksumType::Crc32c), mask_crc(crc32c(&joined)));
            assert_eq!(sum(ChecksumType::XxHash), xxh32::xxh32(&joined, 0));
            assert_eq!(sum(ChecksumType::XxHash64), xxh64::xxh64(&joined, 0) as u32);
            for kind in &ChecksumType::ALL[1..] {
                assert_ne!(sum(*kind), block_checksum(*kind, &data[..n], 6), "{kind:?} {n}");
            }
        }
    }
}
