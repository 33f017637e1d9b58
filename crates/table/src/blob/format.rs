//! The bytes of a blob file: header, records, footer.
//!
//! ```text
//! header: fixed32 magic ‖ fixed32 version ‖ fixed32 family ‖ u8 flags ‖ u8 compression
//!         ‖ fixed64 expiration from ‖ fixed64 to                                        (30 bytes)
//! record: fixed64 key length ‖ fixed64 value length ‖ fixed64 expiration
//!         ‖ fixed32 header CRC ‖ fixed32 blob CRC ‖ key ‖ value                    (32 bytes + …)
//! footer: fixed32 magic ‖ fixed64 blobs ‖ fixed64 expiration from ‖ fixed64 to ‖ fixed32 CRC (32)
//! ```
//!
//! CRCs are masked CRC-32C: of the first 24 bytes of the record, of key and value, of the first 28
//! bytes of the footer. Keys are user keys; values are as compressed. Expirations are 0 except in
//! files of RocksDB's old BlobDB ([`Expirations`]). Persisted. Never renumber.
//!
//! Thread safety: pure functions. Bytes from disk never panic.

use pumice_base::checksum::{crc32c, crc32c_extend, mask_crc};
use pumice_base::coding::{Decoder, put_fixed32, put_fixed64};
use pumice_base::{Error, Result};
use pumice_compress::CompressionType;

const MAGIC: u32 = 0x0024_8f37;
/// The version of the format.
pub const VERSION: u32 = 1;
/// Flag: blobs expire, as in RocksDB's old BlobDB.
const HAS_TTL: u8 = 1;

/// Bytes of the header of a file.
pub const HEADER_LEN: usize = 30;
/// Bytes of the footer of a file.
pub const FOOTER_LEN: usize = 32;
/// Bytes of a record before its key.
pub const RECORD_HEADER_LEN: usize = 32;
/// The part of a record's header that its CRC covers.
const LENGTHS_LEN: usize = 24;

/// The seconds since 1970 in which the blobs of a file of the old BlobDB expire: from, and before.
pub type Expirations = (u64, u64);

/// What the header of a file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileHeader {
    /// The column family whose values these are.
    pub family: u32,
    /// Of all values of the file.
    pub compression: CompressionType,
}

impl FileHeader {
    /// Appends the stored form.
    pub fn encode(&self, to: &mut Vec<u8>) {
        self.encode_expiring(None, to);
    }

    /// Appends the stored form for a file whose blobs expire, with `expire`.
    pub fn encode_expiring(&self, expire: Option<Expirations>, to: &mut Vec<u8>) {
        put_fixed32(to, MAGIC);
        put_fixed32(to, VERSION);
        put_fixed32(to, self.family);
        to.push(if expire.is_some() { HAS_TTL } else { 0 });
        to.push(self.compression as u8);
        put_range(expire.unwrap_or_default(), to);
    }

    /// The header at the beginning of `bytes`.
    ///
    /// # Errors
    /// Corruption; also for files whose blobs expire.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        match Self::decode_expiring(bytes)? {
            (header, None) => Ok(header),
            (_, Some(_)) => Err(expires()),
        }
    }

    /// The header at the beginning of `bytes`, and when the blobs expire if they do.
    ///
    /// # Errors
    /// Corruption.
    pub fn decode_expiring(bytes: &[u8]) -> Result<(Self, Option<Expirations>)> {
        let mut input = Decoder::new(bytes);
        let cut = || Error::corruption("Error decoding blob file header");
        if input.fixed32().ok_or_else(cut)? != MAGIC {
            return Err(Error::corruption("Blob file header: magic number mismatch"));
        }
        let version = input.fixed32().ok_or_else(cut)?;
        if version != VERSION {
            return Err(Error::corruption(format!("Unknown blob file version {version}")));
        }
        let family = input.fixed32().ok_or_else(cut)?;
        let flags = input.u8().ok_or_else(cut)?;
        let compression = input.u8().ok_or_else(cut)?;
        let range = (input.fixed64().ok_or_else(cut)?, input.fixed64().ok_or_else(cut)?);
        let expire = (flags & HAS_TTL != 0).then_some(range);
        if expire.is_none() && range != (0, 0) {
            return Err(expires());
        }
        let unknown = || Error::corruption(format!("Unknown blob compression type {compression}"));
        let compression = CompressionType::from_u8(compression).ok_or_else(unknown)?;
        Ok((FileHeader { family, compression }, expire))
    }
}

fn put_range((from, to): Expirations, bytes: &mut Vec<u8>) {
    put_fixed64(bytes, from);
    put_fixed64(bytes, to);
}

#[cold]
fn expires() -> Error {
    Error::corruption("Unexpected TTL blob file")
}

/// Appends the footer of a file of that many blobs.
pub fn encode_footer(blobs: u64, to: &mut Vec<u8>) {
    encode_expiring_footer(blobs, (0, 0), to);
}

/// As [`encode_footer`], of a file whose blobs expire then.
pub fn encode_expiring_footer(blobs: u64, expire: Expirations, to: &mut Vec<u8>) {
    let start = to.len();
    put_fixed32(to, MAGIC);
    put_fixed64(to, blobs);
    put_range(expire, to);
    let crc = mask_crc(crc32c(&to[start..]));
    put_fixed32(to, crc);
}

/// The number of blobs that the footer `bytes` says.
///
/// # Errors
/// Corruption.
pub fn decode_footer(bytes: &[u8]) -> Result<u64> {
    match decode_expiring_footer(bytes)? {
        (blobs, (0, 0)) => Ok(blobs),
        _ => Err(expires()),
    }
}

/// As [`decode_footer`], and when the blobs expire: zeros for never.
///
/// # Errors
/// Corruption.
pub fn decode_expiring_footer(bytes: &[u8]) -> Result<(u64, Expirations)> {
    let cut = || Error::corruption("Error decoding blob file footer");
    let covered = bytes.get(..FOOTER_LEN - 4).ok_or_else(cut)?;
    let mut input = Decoder::new(bytes);
    if input.fixed32().ok_or_else(cut)? != MAGIC {
        return Err(Error::corruption("Blob file footer: magic number mismatch"));
    }
    let blobs = input.fixed64().ok_or_else(cut)?;
    let expire = (input.fixed64().ok_or_else(cut)?, input.fixed64().ok_or_else(cut)?);
    if input.fixed32().ok_or_else(cut)? != mask_crc(crc32c(covered)) {
        return Err(Error::corruption("Blob file footer: CRC mismatch"));
    }
    Ok((blobs, expire))
}

/// Appends the record's header of a blob.
pub fn encode_record_header(key: &[u8], value: &[u8], to: &mut Vec<u8>) {
    encode_expiring_record_header(key, value, 0, to);
}

/// As [`encode_record_header`], with a time that the old BlobDB writes.
pub fn encode_expiring_record_header(key: &[u8], value: &[u8], expires: u64, to: &mut Vec<u8>) {
    let start = to.len();
    put_fixed64(to, key.len() as u64);
    put_fixed64(to, value.len() as u64);
    put_fixed64(to, expires);
    let crc = mask_crc(crc32c(&to[start..]));
    put_fixed32(to, crc);
    put_fixed32(to, mask_crc(crc32c_extend(crc32c(key), value)));
}

/// What the header of a record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHeader {
    /// Bytes of the user key.
    pub key_len: u64,
    /// Bytes of the value as stored.
    pub value_len: u64,
    /// 0, and in the old BlobDB the largest number: never.
    pub expiration: u64,
    blob_crc: u32,
}

impl RecordHeader {
    /// The header at the beginning of `bytes`.
    ///
    /// # Errors
    /// Corruption.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let cut = || Error::corruption("Error decoding blob record");
        let lengths = bytes.get(..LENGTHS_LEN).ok_or_else(cut)?;
        let mut input = Decoder::new(bytes);
        let key_len = input.fixed64().ok_or_else(cut)?;
        let value_len = input.fixed64().ok_or_else(cut)?;
        let expiration = input.fixed64().ok_or_else(cut)?;
        if input.fixed32().ok_or_else(cut)? != mask_crc(crc32c(lengths)) {
            return Err(Error::corruption("Blob record: header CRC mismatch"));
        }
        let blob_crc = input.fixed32().ok_or_else(cut)?;
        Ok(RecordHeader { key_len, value_len, expiration, blob_crc })
    }

    /// Checks what follows the header.
    ///
    /// # Errors
    /// Corruption.
    pub fn check_blob(&self, key: &[u8], value: &[u8]) -> Result<()> {
        match mask_crc(crc32c_extend(crc32c(key), value)) == self.blob_crc {
            true => Ok(()),
            false => Err(Error::corruption("Blob record: blob CRC mismatch")),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[pumice_test_macros::test]
    fn parts_are_read_as_written_and_no_cut_or_changed_byte_passes() {
        let header = FileHeader { family: 7, compression: CompressionType::Lz4 };
        let mut bytes = Vec::new();
        header.encode(&mut bytes);
        assert_eq!(bytes.len(), HEADER_LEN);
        assert_eq!(FileHeader::decode(&bytes).unwrap(), header);
        assert!((0..HEADER_LEN).all(|cut| FileHeader::decode(&bytes[..cut]).is_err()));

        let mut footer = Vec::new();
        encode_footer(3, &mut footer);
        assert_eq!((footer.len(), decode_footer(&footer).unwrap()), (FOOTER_LEN, 3));
        let mut record = Vec::new();
        encode_record_header(b"key", b"value", &mut record);
        let read = RecordHeader::decode(&record).unwrap();
        assert_eq!((record.len(), read.key_len, read.value_len), (RECORD_HEADER_LEN, 3, 5));
        read.check_blob(b"key", b"value").unwrap();
        assert!(read.check_blob(b"kez", b"value").is_err());
        for at in 0..FOOTER_LEN {
            let mut changed = footer.clone();
            changed[at] ^= 4;
            assert!(decode_footer(&changed).is_err(), "{at}");
            let mut changed = record.clone();
            changed[at] ^= 4;
            let read = RecordHeader::decode(&changed);
            let passes = read.is_ok_and(|read| read.check_blob(b"key", b"value").is_ok());
            assert!(!passes, "{at}");
        }
    }

    #[pumice_test_macros::test]
    fn files_that_expire_are_refused_unless_asked_for() {
        let header = FileHeader { family: 0, compression: CompressionType::None };
        let (mut first, mut last) = (Vec::new(), Vec::new());
        header.encode_expiring(Some((60, 120)), &mut first);
        encode_expiring_footer(9, (60, 120), &mut last);
        assert_eq!((first.len(), last.len()), (HEADER_LEN, FOOTER_LEN));
        assert_eq!(FileHeader::decode_expiring(&first).unwrap(), (header, Some((60, 120))));
        assert_eq!(decode_expiring_footer(&last).unwrap(), (9, (60, 120)));
        assert!(FileHeader::decode(&first).is_err() && decode_footer(&last).is_err());
        let mut record = Vec::new();
        encode_expiring_record_header(b"key", b"value", 77, &mut record);
        assert_eq!(RecordHeader::decode(&record).unwrap().expiration, 77);
    }

    /// As RocksDB 11.9 wrote it.
    #[pumice_test_macros::test]
    fn header_of_rocksdb() {
        let header = FileHeader { family: 0, compression: CompressionType::None };
        let mut bytes = Vec::new();
        header.encode(&mut bytes);
        let mut known = vec![0x37, 0x8f, 0x24, 0, 1, 0, 0, 0];
        known.resize(HEADER_LEN, 0);
        assert_eq!(bytes, known);
    }
}
