//! Checksums of whole files, which the caller of an ingestion may give.
//!
//! RocksDB ignores them without `file_checksum_gen_factory`. Here no given checksum is ignored:
//! RocksDB's own function is known without the factory, and any other function that the factory
//! does not know is refused. With the option, files that come without a checksum get one, and so do
//! files that `write_global_seqno` may have changed.
//!
//! Thread safety: plain functions over a file system. Suspends on I/O.

use std::path::Path;

use pumice_base::file_checksum::{FileChecksum, FileChecksumGenerator};
use pumice_base::{Error, Result};
use pumice_env::FileSystem;

use crate::ingest::IngestExternalFileArg;
use crate::options::FileChecksumGenFactory;
use crate::table_output::file_checksum::{self, hex};

/// Bytes read at a time by default.
const CHUNK: usize = 1 << 20;

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

/// The checksum of file number `at` of `arg`, which is now at `inside`; a given one is compared if
/// the options say so. Unknown with `write_global_seqno`, which may change the file: see [`fresh`].
///
/// # Errors
/// InvalidArgument for a function that is not known; Corruption if the checksum differs; I/O.
pub(crate) fn of_file(
    (fs, factory): (&dyn FileSystem, &FileChecksumGenFactory),
    arg: &IngestExternalFileArg,
    at: usize,
    inside: &Path,
) -> Result<FileChecksum> {
    let readahead = arg.options.verify_checksums_readahead_size;
    let given = arg.files_checksums.get(at).zip(arg.files_checksum_func_names.get(at));
    let Some((value, function)) = given else {
        return match arg.options.write_global_seqno {
            true => Ok(FileChecksum::default()),
            false => fresh((fs, factory), inside, readahead),
        };
    };
    let file = arg.external_files[at].display();
    let generator = file_checksum::generator(factory, inside, function).map_err(|error| {
        let error = error.message();
        Error::invalid_argument(format!(
            "Checksum function name {function} for file {file} not recognized: {error}"
        ))
    })?;
    if arg.options.verify_file_checksum {
        let computed = read_by(generator, fs, inside, readahead)?.value;
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
        return Ok(FileChecksum::default());
    }
    Ok(FileChecksum { value: value.clone(), function: function.clone() })
}

/// The checksum that `factory` gives to new files, of the file at `path`, read this many bytes at a
/// time (0: 1 MiB); unknown if it gives none.
///
/// # Errors
/// I/O.
pub(crate) fn fresh(
    (fs, factory): (&dyn FileSystem, &FileChecksumGenFactory),
    path: &Path,
    readahead: usize,
) -> Result<FileChecksum> {
    match factory.generator(path, "") {
        Some(generator) => read_by(generator, fs, path, readahead),
        None => Ok(FileChecksum::default()),
    }
}

/// The file at `path` must have that checksum of that function.
///
/// # Errors
/// InvalidArgument for a function that is not known; Corruption if the checksum differs; I/O.
pub(crate) fn check_given(
    (fs, factory): (&dyn FileSystem, &FileChecksumGenFactory),
    path: &Path,
    (value, function): (&[u8], &str),
) -> Result<()> {
    let generator = file_checksum::generator(factory, path, function)?;
    let computed = read_by(generator, fs, path, 0)?.value;
    match computed == value {
        true => Ok(()),
        false => Err(Error::corruption(format!(
            "{}: its {function} is {} and not {}",
            path.display(),
            hex(&computed),
            hex(value)
        ))),
    }
}

fn read_by(
    generator: Box<dyn FileChecksumGenerator>,
    fs: &dyn FileSystem,
    path: &Path,
    readahead: usize,
) -> Result<FileChecksum> {
    let mut file = fs.open_sequential(path)?;
    let chunk = if readahead == 0 { CHUNK } else { readahead };
    let len = usize::try_from(fs.file_size(path)?).unwrap_or(usize::MAX);
    file_checksum::of_all(generator, chunk.min(len), |buffer| file.read(buffer))
}
