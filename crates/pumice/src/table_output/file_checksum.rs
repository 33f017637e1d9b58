//! Checksums of whole files that are there, by the factory of the options.
//!
//! While a table is written, its writer (`pumice_env::BufferedWriter`) has the generator.
//!
//! Thread safety: plain functions. Reading suspends as the file does, and calls users' code.

use std::path::Path;

use pumice_base::file_checksum::{FileChecksum, FileChecksumGenerator};
use pumice_base::{Error, Result};

use crate::options::FileChecksumGenFactory;
use crate::options::value::OptionValue;

/// What computes the checksum of `file` that is to be compared with one of `function`.
///
/// # Errors
/// InvalidArgument if `factory` does not know the function, or gives another one.
pub(crate) fn generator(
    factory: &FileChecksumGenFactory,
    file: &Path,
    function: &str,
) -> Result<Box<dyn FileChecksumGenerator>> {
    let Some(generator) = factory.generator(file, function) else {
        return Err(Error::invalid_argument(format!(
            "Cannot get the file checksum generator based on the requested checksum function \
             name: {function} from checksum factory: {}",
            factory.format()
        )));
    };
    match function.is_empty() || generator.name() == function {
        true => Ok(generator),
        false => Err(Error::invalid_argument(format!(
            "Expected file checksum generator named '{function}', while the factory created one \
             named '{}'",
            generator.name()
        ))),
    }
}

/// The checksum of all that `read` gives, which it does by filling a buffer of at most
/// `buffer_bytes`; nothing is the end.
///
/// # Errors
/// The errors of `read`.
pub(crate) fn of_all(
    mut generator: Box<dyn FileChecksumGenerator>,
    buffer_bytes: usize,
    mut read: impl FnMut(&mut [u8]) -> Result<usize>,
) -> Result<FileChecksum> {
    let mut buffer = vec![0; buffer_bytes.max(1)];
    loop {
        match read(&mut buffer)? {
            0 => return Ok(FileChecksum::of(generator)),
            read => generator.update(&buffer[..read]),
        }
    }
}

/// `bytes` as RocksDB shows them in errors.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}

/// What [`hex`] was made of; None for what it does not make.
pub(crate) fn unhex(digits: &str) -> Option<Vec<u8>> {
    let nibble = |digit: &u8| (*digit as char).to_digit(16);
    let pairs = digits.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::try_from(nibble(pair.first()?)? * 16 + nibble(pair.get(1)?)?).ok();
    pairs.map(byte).collect()
}
