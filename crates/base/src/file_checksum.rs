//! Checksums of whole files: what computes them, RocksDB's own function and users'.
//!
//! Names and the bytes of a checksum are persisted, in the MANIFEST.
//!
//! Thread safety: factories are called from any thread at once; a generator has one owner, which
//! may be a thread other than the one that made it. Neither may call a database. Not here: which
//! factory a database has (its options), and when checksums are compared.

use std::path::Path;

use crate::checksum::crc32c_extend;

/// The name of RocksDB's own function: CRC-32C, four bytes, the big end first. Persisted.
pub const FILE_CHECKSUM_CRC32C: &str = "FileChecksumCrc32c";

/// What a generator is made for.
///
/// Example: that of [`CustomFileChecksumGenFactory`].
#[derive(Clone, Copy, Debug)]
pub struct FileChecksumGenContext<'a> {
    /// The file.
    pub file_name: &'a Path,
    /// The function whose checksum is to be compared; empty for a file that is written, and for
    /// one whose checksum is new.
    pub requested_checksum_func_name: &'a str,
}

/// A user's factory of generators, RocksDB's `FileChecksumGenFactory`.
///
/// ```
/// # use std::path::Path;
/// # use pumice_base::file_checksum::{
/// #     CustomFileChecksumGenFactory, FileChecksumGenContext, FileChecksumGenerator,
/// # };
/// /// The sum of all bytes.
/// #[derive(Default)]
/// struct ByteSum(u64);
///
/// impl FileChecksumGenerator for ByteSum {
///     fn name(&self) -> &str {
///         "byte sum"
///     }
///     fn update(&mut self, data: &[u8]) {
///         self.0 += data.iter().map(|byte| u64::from(*byte)).sum::<u64>();
///     }
///     fn finalize(&mut self) -> Vec<u8> {
///         self.0.to_be_bytes().to_vec()
///     }
/// }
///
/// struct ByteSums;
///
/// impl CustomFileChecksumGenFactory for ByteSums {
///     fn name(&self) -> &str {
///         "byte sums"
///     }
///     fn create(
///         &self,
///         context: &FileChecksumGenContext<'_>,
///     ) -> Option<Box<dyn FileChecksumGenerator>> {
///         match context.requested_checksum_func_name {
///             "" | "byte sum" => Some(Box::new(ByteSum::default())),
///             _ => None,
///         }
///     }
/// }
///
/// let file_name = Path::new("000012.sst");
/// let context = FileChecksumGenContext { file_name, requested_checksum_func_name: "" };
/// let mut generator = ByteSums.create(&context).expect("any function will do");
/// generator.update(&[1, 2]);
/// generator.update(&[3]);
/// assert_eq!(generator.finalize(), 6u64.to_be_bytes());
/// ```
pub trait CustomFileChecksumGenFactory: Send + Sync {
    /// Name, for OPTIONS files.
    fn name(&self) -> &str;
    /// A generator for one file. None for a function that is not known; a file that is written has
    /// no checksum then.
    fn create(
        &self,
        context: &FileChecksumGenContext<'_>,
    ) -> Option<Box<dyn FileChecksumGenerator>>;
}

/// Computes the checksum of one file.
///
/// Example: that of [`CustomFileChecksumGenFactory`].
pub trait FileChecksumGenerator: Send {
    /// The name of the function. Persisted.
    fn name(&self) -> &str;
    /// Takes the next bytes of the file.
    fn update(&mut self, data: &[u8]);
    /// The checksum of all bytes; the last call. Persisted.
    fn finalize(&mut self) -> Vec<u8>;
}

/// RocksDB's own function.
#[derive(Debug, Default)]
pub struct FileChecksumCrc32c(u32);

impl FileChecksumGenerator for FileChecksumCrc32c {
    fn name(&self) -> &str {
        FILE_CHECKSUM_CRC32C
    }
    fn update(&mut self, data: &[u8]) {
        self.0 = crc32c_extend(self.0, data);
    }
    fn finalize(&mut self) -> Vec<u8> {
        self.0.to_be_bytes().to_vec()
    }
}

/// A file's checksum and its function, as they go into the MANIFEST; both empty if unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileChecksum {
    /// The checksum.
    pub value: Vec<u8>,
    /// The name of the function.
    pub function: String,
}

impl FileChecksum {
    /// The checksum of what `generator` was given.
    pub fn of(mut generator: Box<dyn FileChecksumGenerator>) -> Self {
        FileChecksum { value: generator.finalize(), function: generator.name().to_string() }
    }
}
