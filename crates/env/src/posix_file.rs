//! A file of the operating system that is written.
//!
//! Space is reserved ahead of the writes, but not in tmpfs: there every page is taken and cleared
//! at once, for a file that may stay smaller.
//!
//! Thread safety: see the traits. Reading and the file system itself are in `posix`.

use crate::file_system::{FileSyncer, WritableFile};
use crate::operation;
use pumice_base::{Error, Result};
use pumice_port::os::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const ENOSYS: i32 = 38;

/// Gives an error of the operating system its operation and path.
pub(crate) fn at<T>(operation: &str, path: &Path, result: io::Result<T>) -> Result<T> {
    result.map_err(|e| Error::io(operation, path, &e))
}

/// Writes with `pwrite` at its own position, so truncating and reusing need no seek.
pub(crate) struct PosixWritableFile {
    /// `None` after `close`. Shared with the syncers that were given out.
    file: Option<Arc<File>>,
    position: u64,
    /// End of the reserved space; the length may not have reached it.
    allocated_end: u64,
    may_allocate: bool,
    path: PathBuf,
}

impl PosixWritableFile {
    pub(crate) fn new(file: File, path: &Path, position: u64, may_allocate: bool) -> Self {
        let path = path.to_path_buf();
        let file = Some(Arc::new(file));
        PosixWritableFile { file, position, allocated_end: 0, may_allocate, path }
    }

    /// Runs `call` on the open file and gives its error the text `operation`.
    pub(crate) fn with<T>(
        &self,
        operation: &str,
        call: impl FnOnce(&File) -> io::Result<T>,
    ) -> Result<T> {
        at(operation, &self.path, call(self.open_file(operation)?))
    }

    /// The owner has written up to `position` through [`PosixWritableFile::with`].
    pub(crate) fn set_position(&mut self, position: u64) {
        self.position = position;
    }

    fn open_file(&self, operation: &str) -> Result<&Arc<File>> {
        self.file.as_ref().ok_or_else(|| {
            Error::io_message(format!("{operation}: {}: closed", self.path.display()))
        })
    }
}

impl WritableFile for PosixWritableFile {
    #[inline]
    fn append(&mut self, data: &[u8]) -> Result<()> {
        let position = self.position;
        self.with(operation::APPEND, |f| f.write_all_at(data, position))?;
        self.position += data.len() as u64;
        Ok(())
    }
    fn overwrite(&mut self, ahead: u64, data: &[u8], step: u64) -> Result<()> {
        let from = self.position + ahead;
        self.with(operation::APPEND, |f| f.write_all_at(data, from))?;
        self.position += step;
        Ok(())
    }
    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
    fn sync(&mut self) -> Result<()> {
        self.with(operation::SYNC, |f| f.sync_data())
    }
    fn fsync(&mut self) -> Result<()> {
        self.with(operation::FSYNC, |f| f.sync_all())
    }
    fn range_sync(&mut self, offset: u64, bytes: u64, wait_for_earlier: bool) -> Result<()> {
        self.with(operation::RANGE_SYNC, |f| match f.range_sync(offset, bytes, wait_for_earlier) {
            // As RocksDB: if the system cannot wait for a range, a strict writer waits for
            // everything.
            Err(e) if e.raw_os_error() == Some(ENOSYS) && wait_for_earlier => f.sync_data(),
            Err(e) if e.raw_os_error() == Some(ENOSYS) => Ok(()),
            done => done,
        })
    }
    fn preallocate(&mut self, end: u64) -> Result<()> {
        let start = self.allocated_end.max(self.position);
        if self.may_allocate && end > start {
            let is_first = self.allocated_end == 0;
            let reserved = self.with(operation::ALLOCATE, |f| {
                if is_first && f.is_in_memory() {
                    return Err(io::ErrorKind::Unsupported.into());
                }
                f.allocate(start, end - start, true)
            });
            // Reserving is an optimisation: if the file system lacks it, or is full, the writes
            // themselves report it.
            self.may_allocate = reserved.is_ok();
            self.allocated_end = if reserved.is_ok() { end } else { self.allocated_end };
        }
        Ok(())
    }
    fn truncate(&mut self, bytes: u64) -> Result<()> {
        self.with(&operation::truncate(bytes), |f| f.truncate(bytes))?;
        self.position = bytes;
        self.allocated_end = self.allocated_end.min(bytes);
        Ok(())
    }
    fn close(&mut self) -> Result<()> {
        if self.allocated_end > self.position {
            // Truncating to the present length frees the reserved blocks.
            let position = self.position;
            self.with(&operation::truncate(position), |f| f.truncate(position))?;
        }
        match self.file.take().map(Arc::try_unwrap) {
            Some(Ok(file)) => at(operation::CLOSE, &self.path, file.close()),
            // The last syncer closes it.
            Some(Err(_)) | None => Ok(()),
        }
    }
    fn syncer(&self) -> Result<Arc<dyn FileSyncer>> {
        let file = Arc::clone(self.open_file(operation::SYNC)?);
        Ok(Arc::new(PosixFileSyncer { file, path: self.path.clone() }))
    }
    fn len(&self) -> u64 {
        self.position
    }
    fn path(&self) -> &Path {
        &self.path
    }
}

struct PosixFileSyncer {
    file: Arc<File>,
    path: PathBuf,
}

impl FileSyncer for PosixFileSyncer {
    fn sync(&self) -> Result<()> {
        at(operation::SYNC, &self.path, self.file.sync_data())
    }
}
