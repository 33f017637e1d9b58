//! The last 53 bytes of a table.
//!
//! ```text
//! v2..5: checksum_type ‖ metaindex handle ‖ index handle ‖ 0.. to 41 ‖ version(4) ‖ magic(8)
//! v6..7: checksum_type ‖ 3e007a00 ‖ footer_checksum(4) ‖ base_context(4) ‖ metaindex_size(4)
//!        ‖ 24 zero bytes ‖ version(4) ‖ magic(8)
//! ```
//!
//! From version 6 on the footer is checked, the metaindex block ends right before it and the index
//! handle moves to the metaindex (docs/format/table.md#footer). Pure functions; no I/O.

use pumice_base::checksum::{ChecksumType, block_checksum, context_checksum};
use pumice_base::coding::{Decoder, get_fixed32, get_fixed64};
use pumice_base::{Error, Result};

use crate::handle::{BLOCK_TRAILER_LEN, BlockHandle};

/// Bytes of a footer. Persisted.
pub const FOOTER_LEN: usize = 53;
/// Magic number of block-based tables. Persisted.
pub const BLOCK_BASED_MAGIC: u64 = 0x88e2_41b7_85f4_cff7;
/// Oldest version that is read and written.
pub const MIN_FORMAT_VERSION: u32 = 2;
/// Newest version that is read and written.
pub const MAX_FORMAT_VERSION: u32 = 7;

const LEGACY_MAGIC: u64 = 0xdb47_7524_8b80_fb57;
const PLAIN_TABLE_MAGIC: u64 = 0x8242_2296_63bf_9564;
const LEGACY_PLAIN_TABLE_MAGIC: u64 = 0x4f34_18eb_7a8f_13b8;
const CUCKOO_TABLE_MAGIC: u64 = 0x9267_89d0_c5f1_7873;
const EXTENDED_MAGIC: [u8; 4] = [0x3e, 0x00, 0x7a, 0x00];
const VERSION_AT: usize = 41;
const MAGIC_AT: usize = 45;

/// A decoded footer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footer {
    /// Checksum of every block.
    pub checksum: ChecksumType,
    /// Version of the file, 2..=7.
    pub format_version: u32,
    /// Base of the context checksums; 0 below version 6.
    pub base_context: u32,
    /// The metaindex block.
    pub metaindex: BlockHandle,
    /// The index block; `None` from version 6 on (it is in the metaindex).
    pub index: Option<BlockHandle>,
}

impl Footer {
    /// The 53 bytes of a footer that begins at `offset`.
    ///
    /// # Panics
    /// From version 6 on, if the metaindex block does not end at `offset` or is 4 GiB or larger;
    /// below it, if there is no index handle.
    pub fn encode(&self, offset: u64) -> [u8; FOOTER_LEN] {
        let mut out = [0u8; FOOTER_LEN];
        out[0] = self.checksum as u8;
        out[VERSION_AT..MAGIC_AT].copy_from_slice(&self.format_version.to_le_bytes());
        out[MAGIC_AT..].copy_from_slice(&BLOCK_BASED_MAGIC.to_le_bytes());
        if self.format_version < 6 {
            let mut handles = Vec::with_capacity(2 * BlockHandle::MAX_ENCODED_LEN);
            self.metaindex.encode_to(&mut handles);
            self.index.expect("formats below 6 name the index here").encode_to(&mut handles);
            out[1..=handles.len()].copy_from_slice(&handles);
            return out;
        }
        assert_eq!(self.metaindex.end(), Some(offset), "the metaindex ends before the footer");
        let size = u32::try_from(self.metaindex.size).expect("a metaindex block is small");
        out[1..5].copy_from_slice(&EXTENDED_MAGIC);
        out[9..13].copy_from_slice(&self.base_context.to_le_bytes());
        out[13..17].copy_from_slice(&size.to_le_bytes());
        let sum = footer_checksum(&out, self.checksum, self.base_context, offset);
        out[5..9].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// Decodes the footer that begins at `offset` of the file called `file`.
    ///
    /// # Errors
    /// `Corruption` for wrong magic, version, checksum or handles; `NotSupported` for other table
    /// formats and features from the future.
    pub fn decode(bytes: &[u8], offset: u64, file: &str) -> Result<Footer> {
        let short = || {
            Error::corruption(format!(
                "file is too short ({} bytes) to be an sstable: {file}",
                bytes.len()
            ))
        };
        let bytes: &[u8; FOOTER_LEN] = bytes.try_into().map_err(|_| short())?;
        check_magic(get_fixed64(&bytes[MAGIC_AT..]).ok_or_else(short)?, file)?;
        let format_version = get_fixed32(&bytes[VERSION_AT..]).ok_or_else(short)?;
        if !(MIN_FORMAT_VERSION..=MAX_FORMAT_VERSION).contains(&format_version) {
            return Err(Error::corruption(format!(
                "Corrupt or unsupported format_version: {format_version} in {file}"
            )));
        }
        let checksum = ChecksumType::from_u8(bytes[0]).ok_or_else(|| {
            Error::corruption(format!(
                "Corrupt or unsupported checksum type: {} in {file}",
                bytes[0]
            ))
        })?;
        if format_version < 6 {
            decode_handles(bytes, checksum, format_version, file)
        } else {
            decode_extended(bytes, checksum, format_version, offset, file)
        }
    }
}

/// RocksDB's name of the factory that reads the table which ends with `bytes`; `None` if none does.
pub fn factory_name(bytes: &[u8]) -> Option<&'static str> {
    match u64::from_le_bytes(*bytes.last_chunk()?) {
        BLOCK_BASED_MAGIC | LEGACY_MAGIC => Some("BlockBasedTable"),
        PLAIN_TABLE_MAGIC | LEGACY_PLAIN_TABLE_MAGIC => Some("PlainTable"),
        CUCKOO_TABLE_MAGIC => Some("CuckooTable"),
        _ => None,
    }
}

/// A format of tables that are not block-based.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OtherFormat {
    Plain,
    Cuckoo,
}

/// The magic number of a format, of block-based tables for `None`.
pub(crate) fn magic_of(format: Option<OtherFormat>) -> u64 {
    match format {
        None => BLOCK_BASED_MAGIC,
        Some(OtherFormat::Plain) => PLAIN_TABLE_MAGIC,
        Some(OtherFormat::Cuckoo) => CUCKOO_TABLE_MAGIC,
    }
}

/// The footer of such a table. Version 0 has no checksum type and no version:
///
/// ```text
/// v0:  metaindex handle ‖ index handle, not used ‖ 0.. to 40 ‖ legacy magic(8)
/// v1:  checksum_type ‖ metaindex handle ‖ index handle ‖ 0.. to 41 ‖ version(4) ‖ magic(8)
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OtherFooter {
    pub format: OtherFormat,
    pub metaindex: BlockHandle,
}

impl OtherFooter {
    /// Decodes a footer at the end of `bytes`; `None` if it is not that of such a table.
    ///
    /// # Errors
    /// Corruption.
    pub fn decode(bytes: &[u8], file: &str) -> Result<Option<OtherFooter>> {
        let Some(magic) = bytes.last_chunk().map(|magic| u64::from_le_bytes(*magic)) else {
            return Ok(None);
        };
        let (format, skipped) = match magic {
            LEGACY_PLAIN_TABLE_MAGIC => (OtherFormat::Plain, bytes.len().checked_sub(V0_LEN)),
            PLAIN_TABLE_MAGIC => (OtherFormat::Plain, after_checksum_type(bytes, file)?),
            CUCKOO_TABLE_MAGIC => (OtherFormat::Cuckoo, after_checksum_type(bytes, file)?),
            _ => return Ok(None),
        };
        let handle = skipped.and_then(|at| BlockHandle::decode(&mut Decoder::new(&bytes[at..])));
        match handle {
            Some(metaindex) => Ok(Some(OtherFooter { format, metaindex })),
            None => Err(Error::corruption(format!("bad block handle in the footer of {file}"))),
        }
    }

    /// The footer in the form that RocksDB writes: version 0 of plain tables, 1 of cuckoo tables.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = match self.format {
            OtherFormat::Plain => Vec::new(),
            OtherFormat::Cuckoo => vec![ChecksumType::None as u8],
        };
        let handles_end = bytes.len() + 2 * BlockHandle::MAX_ENCODED_LEN;
        self.metaindex.encode_to(&mut bytes);
        BlockHandle::default().encode_to(&mut bytes);
        bytes.resize(handles_end, 0);
        let magic = match self.format {
            OtherFormat::Plain => LEGACY_PLAIN_TABLE_MAGIC,
            OtherFormat::Cuckoo => {
                bytes.extend_from_slice(&1u32.to_le_bytes());
                CUCKOO_TABLE_MAGIC
            }
        };
        bytes.extend_from_slice(&magic.to_le_bytes());
        bytes
    }
}

/// Bytes of a footer of version 0.
const V0_LEN: usize = 48;

/// Where the handles begin in a footer with a checksum type, whose version must be known.
fn after_checksum_type(bytes: &[u8], file: &str) -> Result<Option<usize>> {
    let Some(at) = bytes.len().checked_sub(FOOTER_LEN) else { return Ok(None) };
    let version = get_fixed32(&bytes[at + VERSION_AT..]).unwrap_or(0);
    if (1..6).contains(&version) {
        return Ok(Some(at + 1));
    }
    let what = format!("Corrupt or unsupported format_version: {version} in {file}");
    Err(Error::corruption(what))
}

fn check_magic(magic: u64, file: &str) -> Result<()> {
    match magic {
        BLOCK_BASED_MAGIC => Ok(()),
        LEGACY_MAGIC => Err(Error::not_supported(format!("format_version 0 table: {file}"))),
        PLAIN_TABLE_MAGIC | LEGACY_PLAIN_TABLE_MAGIC => {
            Err(Error::not_supported(format!("PlainTable file: {file}")))
        }
        CUCKOO_TABLE_MAGIC => Err(Error::not_supported(format!("CuckooTable file: {file}"))),
        found => Err(Error::corruption(format!(
            "Bad table magic number: expected {BLOCK_BASED_MAGIC}, found {found} in {file}"
        ))),
    }
}

fn decode_handles(
    bytes: &[u8; FOOTER_LEN],
    checksum: ChecksumType,
    format_version: u32,
    file: &str,
) -> Result<Footer> {
    let mut src = Decoder::new(&bytes[1..VERSION_AT]);
    let metaindex = BlockHandle::decode(&mut src);
    let index = BlockHandle::decode(&mut src);
    match (metaindex, index) {
        (Some(metaindex), Some(index)) => {
            Ok(Footer { checksum, format_version, base_context: 0, metaindex, index: Some(index) })
        }
        _ => Err(Error::corruption(format!("bad block handle in the footer of {file}"))),
    }
}

fn decode_extended(
    bytes: &[u8; FOOTER_LEN],
    checksum: ChecksumType,
    format_version: u32,
    offset: u64,
    file: &str,
) -> Result<Footer> {
    let mut src = Decoder::new(&bytes[1..]);
    let mut field = || src.fixed32().unwrap_or_default();
    if field().to_le_bytes() != EXTENDED_MAGIC {
        return Err(Error::corruption(format!("Bad extended magic number in {file}")));
    }
    let (stored, base_context, metaindex_size) = (field(), field(), field());
    if base_context == 0 {
        return Err(Error::corruption(format!("Invalid base context checksum in {file}")));
    }
    let computed = footer_checksum(bytes, checksum, base_context, offset);
    if stored != computed {
        return Err(Error::corruption(format!(
            "Footer at {offset} checksum mismatch in {file}: stored {stored:#x}, \
             computed {computed:#x}"
        )));
    }
    if bytes[33..VERSION_AT].iter().any(|&b| b != 0) {
        return Err(Error::not_supported(format!("File uses a future feature: {file}")));
    }
    let size = u64::from(metaindex_size);
    let at = offset.checked_sub(size + BLOCK_TRAILER_LEN as u64).ok_or_else(|| {
        Error::corruption(format!("metaindex of {size} bytes before footer at {offset} of {file}"))
    })?;
    let metaindex = BlockHandle::new(at, size);
    Ok(Footer { checksum, format_version, base_context, metaindex, index: None })
}

/// Checksum over the footer with its checksum field zeroed.
fn footer_checksum(
    bytes: &[u8; FOOTER_LEN],
    kind: ChecksumType,
    base_context: u32,
    offset: u64,
) -> u32 {
    let mut copy = *bytes;
    copy[5..9].fill(0);
    block_checksum(kind, &copy[..FOOTER_LEN - 1], copy[FOOTER_LEN - 1])
        .wrapping_add(context_checksum(base_context, offset))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const ALL: [ChecksumType; 5] = [
        ChecksumType::None,
        ChecksumType::Crc32c,
        ChecksumType::XxHash,
        ChecksumType::XxHash64,
        ChecksumType::Xxh3,
    ];

    #[pumice_test_macros::test]
    fn round_trips_every_version_and_checksum() {
        for checksum in ALL {
            for format_version in MIN_FORMAT_VERSION..=MAX_FORMAT_VERSION {
                let old = format_version < 6;
                let footer = Footer {
                    checksum,
                    format_version,
                    base_context: if old { 0 } else { 0x246a_57ae },
                    metaindex: BlockHandle::new(1190, 54),
                    index: old.then(|| BlockHandle::new(27, 13)),
                };
                let bytes = footer.encode(1249);
                assert_eq!(Footer::decode(&bytes, 1249, "f").unwrap(), footer);
            }
        }
    }

    /// The two worked examples of the format specification.
    #[pumice_test_macros::test]
    fn encodes_the_documented_examples() {
        let v5 = Footer {
            checksum: ChecksumType::Xxh3,
            format_version: 5,
            base_context: 0,
            metaindex: BlockHandle::new(921, 32),
            index: Some(BlockHandle::new(27, 13)),
        };
        let mut want = vec![0x04, 0x99, 0x07, 0x20, 0x1b, 0x0d];
        want.resize(41, 0);
        want.extend([5, 0, 0, 0, 0xf7, 0xcf, 0xf4, 0x85, 0xb7, 0x41, 0xe2, 0x88]);
        assert_eq!(v5.encode(958).as_slice(), want);

        let v7 = Footer {
            checksum: ChecksumType::Xxh3,
            format_version: 7,
            base_context: 0x246a_57ae,
            metaindex: BlockHandle::new(1190, 54),
            index: None,
        };
        let mut want = vec![4, 0x3e, 0, 0x7a, 0, 0x3b, 0x79, 0x42, 0xb2, 0xae, 0x57, 0x6a, 0x24];
        want.extend([0x36, 0, 0, 0]);
        want.resize(41, 0);
        want.extend([7, 0, 0, 0, 0xf7, 0xcf, 0xf4, 0x85, 0xb7, 0x41, 0xe2, 0x88]);
        assert_eq!(v7.encode(1249).as_slice(), want);
    }

    #[pumice_test_macros::test]
    fn refuses_damaged_extended_footers() {
        let footer = Footer {
            checksum: ChecksumType::Crc32c,
            format_version: 6,
            base_context: 77,
            metaindex: BlockHandle::new(100, 40),
            index: None,
        };
        let good = footer.encode(145);
        for at in 0..FOOTER_LEN {
            let mut bad = good;
            bad[at] ^= 0x10;
            assert!(Footer::decode(&bad, 145, "f").is_err(), "byte {at}");
        }
        assert!(Footer::decode(&good, 146, "f").is_err());
        assert!(Footer::decode(&good[1..], 145, "f").is_err());
    }

    #[pumice_test_macros::test]
    fn names_foreign_formats() {
        let mut bytes = [0u8; FOOTER_LEN];
        bytes[MAGIC_AT..].copy_from_slice(&PLAIN_TABLE_MAGIC.to_le_bytes());
        let error = Footer::decode(&bytes, 0, "f.sst").unwrap_err();
        assert!(error.to_string().contains("PlainTable"), "{error}");
        assert_eq!((factory_name(&bytes), factory_name(&[0; 8])), (Some("PlainTable"), None));
    }
}
