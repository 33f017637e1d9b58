//! Which file a name of the caller's is: the commit of a move removes the name, perhaps long after
//! the file was brought in, and the name may be another file's by then.
//!
//! Thread safety: plain data. Suspends on I/O.

use std::path::Path;

use pumice_base::Result;
use pumice_base::hash::hash64;
use pumice_env::FileSystem;

/// Bytes at the end of a table that differ between any two: its properties and checksums are there.
const TAIL_BYTES: u64 = 4096;

/// A file, as far as it can be told from others through any file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileIdentity {
    bytes: u64,
    modified_seconds: u64,
    tail: u64,
}

impl FileIdentity {
    /// The file that `path` names now.
    ///
    /// # Errors
    /// I/O.
    pub fn of(fs: &dyn FileSystem, path: &Path) -> Result<Self> {
        let modified_seconds = fs.modified_time(path)?;
        let file = fs.open_random(path)?;
        let bytes = file.len();
        let mut tail = vec![0; bytes.min(TAIL_BYTES) as usize];
        let read = file.read_at(bytes - tail.len() as u64, &mut tail)?;
        Ok(FileIdentity { bytes, modified_seconds, tail: hash64(&tail[..read]) })
    }
}
