//! Checksums of whole files, which the caller of an ingestion may give.
//!
//! RocksDB computes them with `file_checksum_gen_factory`, and ignores them without one. There is
//! no such option here: RocksDB's own function is known, any other is refused, and no given
//! checksum is ignored.
//!
//! Thread safety: plain functions over a file system. Suspends on I/O.

use std::path::Path;

use pumice_base::checksum::crc32c_extend;
use pumice_base::{Error, Result};
use pumice_env::FileSystem;

use crate::ingest::IngestExternalFileArg;

/// The one function that is known. Persisted.
const CRC32C: &str = "FileChecksumCrc32c";
/// Bytes read at a time by default.
const CHUNK: usize = 1 << 20;

/// A file's checksum and its function, as they go into the MANIFEST; both empty if unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileChecksum {
    pub value: Vec<u8>,
    pub function: String,
}

/// Refuses lists that do not fit the files.
///
/// # Errors
/// InvalidArgument.
pub(crate) fn check_lists(arg: &IngestExternalFileArg) -> Result<()> {
    let (sums, names) = (arg.files_checksums.len(), arg.files_checksum_func_names.len());
    if sums == names && (sums == 0 || sums == arg.external_files.len()) {
        return Ok(());
    }
    Err(Error::invalid_argument(
        "The checksum information of ingested sst files are nonempty and the size of checksums or \
         the size of the checksum function names does not match with the number of ingested sst \
         files",
    ))
}

/// The checksum of file number `at` of `arg`, which is now at `inside`; compared if the options
/// say so.
///
/// # Errors
/// InvalidArgument for a function that is not known; Corruption if the checksum is another; I/O.
pub(crate) fn of_file(
    fs: &dyn FileSystem,
    arg: &IngestExternalFileArg,
    at: usize,
    inside: &Path,
) -> Result<FileChecksum> {
    let given = arg.files_checksums.get(at).zip(arg.files_checksum_func_names.get(at));
    let Some((value, function)) = given else { return Ok(FileChecksum::default()) };
    let file = arg.external_files[at].display();
    if function != CRC32C {
        return Err(Error::invalid_argument(format!(
            "Checksum function name {function} for file {file} not recognized: only {CRC32C} is"
        )));
    }
    if arg.options.verify_file_checksum {
        let computed = crc32c_of(fs, inside, arg.options.verify_checksums_readahead_size)?;
        if *value != computed {
            return Err(Error::corruption(format!(
                "Checksum verification mismatch for ingestion file {file} using function \
                 {function}. Expected: {} Computed: {}",
                hex(value),
                hex(&computed)
            )));
        }
    }
    if arg.options.write_global_seqno {
        // The file will be changed.
        return Ok(FileChecksum::default());
    }
    Ok(FileChecksum { value: value.clone(), function: function.clone() })
}

fn crc32c_of(fs: &dyn FileSystem, path: &Path, readahead: usize) -> Result<[u8; 4]> {
    let mut file = fs.open_sequential(path)?;
    let chunk = if readahead == 0 { CHUNK } else { readahead };
    let len = usize::try_from(fs.file_size(path)?).unwrap_or(usize::MAX);
    let mut buffer = vec![0; chunk.min(len).max(1)];
    let mut crc = 0u32;
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            return Ok(crc.to_be_bytes());
        }
        crc = crc32c_extend(crc, &buffer[..read]);
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}
