//! `IndexOwner`: a database stacked on this one that keeps blobs of its own, for which the engine
//! only stores indexes (`stacked_blob_db`).
//!
//! In a column family with an owner the engine resolves no index: readers and filters see it as the
//! only column of an entity, of the name [`INDEX_COLUMN`]. The owner's factory of compaction
//! filters says who it is.
//!
//! Thread safety: an owner is called from any job at once, a mover by one part of a compaction.
//! Both are called under no lock and may suspend.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pumice_base::wide_columns::{self, WideColumn};
use pumice_base::{Error, Result};
use pumice_env::FileSystem;
use pumice_env::filename::{FileType, parse};

/// The name of the column that shows an index.
pub(crate) const INDEX_COLUMN: &[u8] = b"pumice.stacked_blob_index";

/// RocksDB's name of the directory of an owner's blobs, in that of the database.
pub(crate) const DIRECTORY: &str = "blob_dir";

/// The owner's blob files of the database at `path`; none of a plain one.
///
/// # Errors
/// I/O.
pub(crate) fn blobs_of(fs: &dyn FileSystem, path: &Path) -> Result<Vec<PathBuf>> {
    let dir = path.join(DIRECTORY);
    if !fs.exists(&dir)? {
        return Ok(Vec::new());
    }
    let names = fs.list(&dir)?.into_iter();
    let blobs = names.filter(|name| matches!(parse(name), Some((_, FileType::Blob))));
    Ok(blobs.map(|name| dir.join(name)).collect())
}

/// See the module head.
pub trait IndexOwner: Send + Sync {
    /// Finds the blobs: this open has the lock of the database, and reads its log next.
    ///
    /// # Errors
    /// Corruption, I/O; the database is then not opened.
    fn recover(&self) -> Result<()>;
    /// Makes all blobs durable that indexes in memtables refer to: a table is written next.
    ///
    /// # Errors
    /// I/O; the table is then not written.
    fn sync(&self) -> Result<()>;
    /// What moves the blobs of one part of a compaction; None if all stay.
    fn mover(self: Arc<Self>) -> Option<Box<dyn IndexMover>>;
}

/// Moves blobs while the entries that refer to them are written to another table. One that is
/// dropped without `finish` takes back what it has written.
pub trait IndexMover: Send {
    /// The index to write in place of `index` of `key`; None if its blob stays.
    ///
    /// # Errors
    /// I/O; Corruption of the blob.
    fn place(&mut self, key: &[u8], index: &[u8]) -> Result<Option<Vec<u8>>>;
    /// Makes what was moved durable.
    ///
    /// # Errors
    /// I/O.
    fn finish(self: Box<Self>) -> Result<()>;
}

/// An index as readers see it: an encoded entity.
///
/// # Errors
/// Those of encoding it.
pub(crate) fn shown_index(index: &[u8]) -> Result<Vec<u8>> {
    wide_columns::encode(&mut [WideColumn::new(INDEX_COLUMN, index)])
}

/// For calls that copy the files of a database: they know nothing of the owner's.
///
/// # Errors
/// NotSupported if there is one.
pub(crate) fn check_unowned(owner: Option<&Arc<dyn IndexOwner>>) -> Result<()> {
    owner.map_or(Ok(()), |_| Err(no_copies()))
}

/// As [`check_unowned`] where the database at `path` is not opened by its owner.
///
/// # Errors
/// NotSupported if it has blobs; I/O.
pub(crate) fn check_no_blobs(fs: &dyn FileSystem, path: &Path) -> Result<()> {
    if blobs_of(fs, path)?.is_empty() { Ok(()) } else { Err(no_copies()) }
}

fn no_copies() -> Error {
    Error::not_supported("copies of the files of RocksDB's old BlobDB")
}
