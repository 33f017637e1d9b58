//! `BlobIndex`: what an entry of type BlobIndex, or a column of an entity, holds in place of its
//! value.
//!
//! ```text
//! 0x01 ‖ varint64 file ‖ varint64 offset ‖ varint64 size ‖ u8 compression
//! ```
//!
//! Kinds 0 (the value itself, with an expiration) and 2 (with an expiration) are of RocksDB's old
//! BlobDB, which nobody opens here. Persisted. Never renumber.
//!
//! Thread safety: plain data. Bytes from disk never panic.

use pumice_base::coding::{Decoder, put_varint64};
use pumice_base::{Error, FileNumber, Result};
use pumice_compress::CompressionType;

const INLINED_TTL: u8 = 0;
const BLOB: u8 = 1;
const BLOB_TTL: u8 = 2;

/// Where a value is in a blob file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobIndex {
    /// The blob file.
    pub file: FileNumber,
    /// Of the stored value, not of its record.
    pub offset: u64,
    /// Of the stored value in bytes.
    pub size: u64,
    /// That of the file.
    pub compression: CompressionType,
}

impl BlobIndex {
    /// The index that is stored as `bytes`.
    ///
    /// # Errors
    /// Corruption.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut input = Decoder::new(bytes);
        match input.u8() {
            Some(BLOB) => {}
            Some(INLINED_TTL | BLOB_TTL) => {
                return Err(Error::corruption("Unexpected TTL/inlined blob index"));
            }
            Some(kind) => {
                return Err(Error::corruption(format!("Unknown blob index type: {kind}")));
            }
            None => return Err(malformed()),
        }
        let file = input.varint64().ok_or_else(malformed)?;
        let offset = input.varint64().ok_or_else(malformed)?;
        let size = input.varint64().ok_or_else(malformed)?;
        let compression = input.u8().filter(|_| input.is_empty()).ok_or_else(malformed)?;
        let compression = CompressionType::from_u8(compression).ok_or_else(malformed)?;
        if file == 0 {
            return Err(Error::corruption("Invalid blob file number"));
        }
        Ok(BlobIndex { file, offset, size, compression })
    }

    /// Appends the stored form.
    pub fn encode(&self, to: &mut Vec<u8>) {
        to.push(BLOB);
        put_varint64(to, self.file);
        put_varint64(to, self.offset);
        put_varint64(to, self.size);
        to.push(self.compression as u8);
    }
}

#[cold]
fn malformed() -> Error {
    Error::corruption("Error while decoding blob index")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[pumice_test_macros::test]
    fn an_index_of_rocksdb_reads_and_writes() {
        let bytes = [0x01, 0x0a, 0x47, 0x1d, 0x00];
        let index = BlobIndex::decode(&bytes).unwrap();
        let compression = CompressionType::None;
        assert_eq!(index, BlobIndex { file: 10, offset: 71, size: 29, compression });
        let mut written = Vec::new();
        index.encode(&mut written);
        assert_eq!(written, bytes);
        for cut in 0..bytes.len() {
            assert!(BlobIndex::decode(&bytes[..cut]).is_err(), "{cut}");
        }
        assert!(BlobIndex::decode(&[&bytes[..], b"x"].concat()).is_err());
        for first in [0, 2, 3, 0xff] {
            assert!(BlobIndex::decode(&[first, 0x0a, 0x47, 0x1d, 0x00]).is_err());
        }
        // In the same table: such tables are refused when they are opened.
        assert!(BlobIndex::decode(&[0x01, 0x00, 0x47, 0x1d, 0x00]).is_err());
    }
}
