//! `BlobIndex`: what an entry of type BlobIndex, or a column of an entity, holds in place of its
//! value.
//!
//! ```text
//! 0x01 ‖ varint64 file ‖ varint64 offset ‖ varint64 size ‖ u8 compression
//! ```
//!
//! File 0 is the table that has the entry: the value is in a record of its own there. In memory,
//! once its block is read (`read::embedded`), such an index is followed by fixed64 with the number
//! of that table, so that whoever holds it knows where to read, and fixed64 with a seal. It is a
//! hash with a secret of the process: no bytes of a file are taken for an index that was named.
//!
//! Entries of RocksDB's old BlobDB ([`StackedIndex`]) also have kinds 0 and 2:
//!
//! ```text
//! 0x00 ‖ varint64 expiration ‖ value
//! 0x02 ‖ varint64 expiration ‖ varint64 file ‖ varint64 offset ‖ varint64 size ‖ u8 compression
//! ```
//!
//! Persisted. Never renumber.
//!
//! Thread safety: plain data. Bytes from disk never panic.

use std::sync::OnceLock;

use pumice_base::coding::{Decoder, get_fixed64, put_fixed64, put_varint64};
use pumice_base::hash::hash64_seeded;
use pumice_base::{Error, FileNumber, Result};
use pumice_compress::CompressionType;

const INLINED_TTL: u8 = 0;
const BLOB: u8 = 1;
const BLOB_TTL: u8 = 2;

/// Bytes of a table's number and of the seal.
const NAME_LEN: usize = 2 * size_of::<u64>();

/// Where a value is in a blob file, or in the table that has the entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobIndex {
    /// The blob file, or the table; 0 for a table that is not named.
    pub file: FileNumber,
    /// It is a table ("embedded blob").
    pub in_table: bool,
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
        let compression = input.u8().ok_or_else(malformed)?;
        let compression = CompressionType::from_u8(compression).ok_or_else(malformed)?;
        let (in_table, rest) = (file == 0, input.rest());
        let file = match rest.len() {
            0 => file,
            NAME_LEN if in_table => named(bytes).ok_or_else(malformed)?,
            _ => return Err(malformed()),
        };
        Ok(BlobIndex { file, in_table, offset, size, compression })
    }

    /// The form in memory of the index that is stored as `bytes` in the table of that number; None
    /// if that is the stored one, since the value is in a blob file.
    ///
    /// # Errors
    /// Corruption.
    pub fn name_table(bytes: &[u8], table: FileNumber) -> Result<Option<Vec<u8>>> {
        let index = BlobIndex::decode(bytes)?;
        if !index.in_table {
            return Ok(None);
        }
        if index.file != 0 {
            return Err(malformed());
        }
        let mut named = bytes.to_vec();
        put_fixed64(&mut named, table);
        let seal = seal(&named);
        put_fixed64(&mut named, seal);
        Ok(Some(named))
    }

    /// Appends the stored form.
    pub fn encode(&self, to: &mut Vec<u8>) {
        to.push(BLOB);
        put_varint64(to, if self.in_table { 0 } else { self.file });
        put_varint64(to, self.offset);
        put_varint64(to, self.size);
        to.push(self.compression as u8);
    }
}

/// What an entry of RocksDB's old BlobDB holds in place of its value. Expirations are in seconds
/// since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StackedIndex<'a> {
    /// The value itself, which expires. RocksDB wrote such entries until 10.
    Inlined(u64, &'a [u8]),
    /// A place in a blob file, and when the value expires if it does.
    Blob(BlobIndex, Option<u64>),
}

impl<'a> StackedIndex<'a> {
    /// The index that is stored as `bytes`.
    ///
    /// # Errors
    /// Corruption.
    pub fn decode(bytes: &'a [u8]) -> Result<Self> {
        let mut input = Decoder::new(bytes);
        let kind = input.u8();
        if !matches!(kind, Some(INLINED_TTL | BLOB_TTL)) {
            return on_file(bytes, None);
        }
        let expires = input.varint64().ok_or_else(malformed)?;
        match kind {
            Some(INLINED_TTL) => Ok(StackedIndex::Inlined(expires, input.rest())),
            _ => on_file(&[&[BLOB], input.rest()].concat(), Some(expires)),
        }
    }

    /// It says when its value expires: no table counts a reference to a blob file for it.
    pub fn has_expiration(bytes: &[u8]) -> bool {
        matches!(bytes.first(), Some(&(INLINED_TTL | BLOB_TTL)))
    }

    /// Appends the stored form.
    pub fn encode(&self, to: &mut Vec<u8>) {
        match self {
            StackedIndex::Inlined(expires, value) => {
                to.push(INLINED_TTL);
                put_varint64(to, *expires);
                to.extend_from_slice(value);
            }
            StackedIndex::Blob(place, None) => place.encode(to),
            StackedIndex::Blob(place, Some(expires)) => {
                let mut plain = Vec::new();
                place.encode(&mut plain);
                to.push(BLOB_TTL);
                put_varint64(to, *expires);
                to.extend_from_slice(&plain[1..]);
            }
        }
    }
}

/// The index of kind 1 in `bytes`, which is not into the table that has it.
fn on_file<'a>(bytes: &[u8], expires: Option<u64>) -> Result<StackedIndex<'a>> {
    let place = BlobIndex::decode(bytes)?;
    if place.in_table { Err(malformed()) } else { Ok(StackedIndex::Blob(place, expires)) }
}

/// The table's number in the form in memory; None if that is not what made `bytes`.
fn named(bytes: &[u8]) -> Option<FileNumber> {
    let (named, seal_found) = bytes.split_at_checked(bytes.len().checked_sub(NAME_LEN / 2)?)?;
    let number = named.get(named.len().checked_sub(NAME_LEN / 2)?..)?;
    (get_fixed64(seal_found)? == seal(named)).then(|| get_fixed64(number)).flatten()
}

/// The seal of an index that was named.
fn seal(named: &[u8]) -> u64 {
    static SECRET: OnceLock<u64> = OnceLock::new();
    let secret = SECRET.get_or_init(|| {
        let mut bytes = [0; size_of::<u64>()];
        pumice_port::os::read_random_bytes(&mut bytes);
        u64::from_le_bytes(bytes)
    });
    hash64_seeded(named, *secret)
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
        let in_table = false;
        assert_eq!(index, BlobIndex { file: 10, in_table, offset: 71, size: 29, compression });
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
    }

    #[pumice_test_macros::test]
    fn indexes_of_the_old_blob_db_read_and_write() {
        let place = BlobIndex::decode(&[0x01, 0x0a, 0x47, 0x1d, 0x00]).unwrap();
        for (index, stored) in [
            (StackedIndex::Blob(place, None), &[0x01, 0x0a, 0x47, 0x1d, 0x00][..]),
            (StackedIndex::Blob(place, Some(300)), &[0x02, 0xac, 0x02, 0x0a, 0x47, 0x1d, 0x00]),
            (StackedIndex::Inlined(300, b"v"), &[0x00, 0xac, 0x02, b'v']),
        ] {
            let mut written = Vec::new();
            index.encode(&mut written);
            assert_eq!(written, stored);
            assert_eq!(StackedIndex::decode(stored).unwrap(), index);
            assert_eq!(StackedIndex::has_expiration(stored), stored[0] != 1);
            if let StackedIndex::Blob(..) = index {
                assert!((0..stored.len()).all(|cut| StackedIndex::decode(&stored[..cut]).is_err()));
            }
        }
        assert!(StackedIndex::decode(&[0x01, 0x00, 0x47, 0x1d, 0x00]).is_err(), "in its table");
        assert!(StackedIndex::decode(&[0x03, 0x0a, 0x47, 0x1d, 0x00]).is_err());
    }

    /// As it is stored it does not say which table has it.
    #[pumice_test_macros::test]
    fn an_index_into_the_same_table_is_named() {
        let bytes = [0x01, 0x00, 0x47, 0x1d, 0x00];
        let index = BlobIndex::decode(&bytes).unwrap();
        assert_eq!((index.file, index.in_table, index.offset, index.size), (0, true, 0x47, 0x1d));
        let named = BlobIndex::name_table(&bytes, 300).unwrap().unwrap();
        let index = BlobIndex::decode(&named).unwrap();
        assert_eq!((index.file, index.in_table, index.offset, index.size), (300, true, 0x47, 0x1d));
        let mut written = Vec::new();
        index.encode(&mut written);
        assert_eq!(written, bytes);
        // Nothing of a file names a table.
        assert!(BlobIndex::name_table(&named, 7).is_err());
        for cut in bytes.len() + 1..named.len() {
            assert!(BlobIndex::decode(&named[..cut]).is_err(), "{cut}");
        }
        let in_blob_file = [0x01, 0x0a, 0x47, 0x1d, 0x00];
        assert_eq!(BlobIndex::name_table(&in_blob_file, 7).unwrap(), None);
        assert!(BlobIndex::decode(&[&in_blob_file[..], &[7; 8]].concat()).is_err());
        // What only looks like one that was named.
        for at in bytes.len()..named.len() {
            let mut forged = named.clone();
            forged[at] ^= 1;
            assert!(BlobIndex::decode(&forged).is_err(), "{at}");
        }
        for tail in [&[0; 8][..], &[7; 8], &[0; 16], &[7; 16]] {
            let forged = [&bytes[..], tail].concat();
            assert!(
                BlobIndex::decode(&forged).is_err() && BlobIndex::name_table(&forged, 7).is_err()
            );
        }
    }
}
