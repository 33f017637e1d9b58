//! Checksums of whole files: computed while a table is written, or from the file.
//!
//! RocksDB's own function is the one that is known: CRC-32C, four bytes, the big end first.
//!
//! Thread safety: plain functions. Reading suspends as the file does.

use pumice_base::Result;
use pumice_base::checksum::crc32c_extend;

/// The name of the function. Persisted.
pub(crate) const CRC32C: &str = "FileChecksumCrc32c";

/// A file's checksum and its function, as they go into the MANIFEST; both empty if unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileChecksum {
    pub value: Vec<u8>,
    pub function: String,
}

impl FileChecksum {
    /// Of a file with this CRC-32C; unknown for None.
    pub fn of_crc32c(crc: Option<u32>) -> Self {
        match crc {
            Some(crc) => {
                FileChecksum { value: crc.to_be_bytes().to_vec(), function: CRC32C.to_string() }
            }
            None => FileChecksum::default(),
        }
    }
}

/// The checksum of all that `read` gives, which it does by filling a buffer of at most
/// `buffer_bytes`; nothing is the end.
///
/// # Errors
/// Those of `read`.
pub(crate) fn crc32c_of(
    buffer_bytes: usize,
    mut read: impl FnMut(&mut [u8]) -> Result<usize>,
) -> Result<u32> {
    let mut buffer = vec![0; buffer_bytes.max(1)];
    let mut crc = 0u32;
    loop {
        match read(&mut buffer)? {
            0 => return Ok(crc),
            read => crc = crc32c_extend(crc, &buffer[..read]),
        }
    }
}

/// `bytes` as RocksDB shows them in errors.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}
