//! Log files that are used again (`recycle_log_file_num`): which, and what readers in this process
//! see of them.
//!
//! An obsolete log becomes a spare file where it would be deleted, under the same conditions: so
//! none that a recovery could read is touched. It is cleared then, by the task that deletes; the
//! log that takes it over finds the pages in memory. What cannot be cleared is deleted.
//!
//! Thread safety: from any thread that may delete obsolete files. No lock is held over I/O.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pumice_base::{Error, FileNumber, Result};
use pumice_env::filename;
use pumice_env::{SequentialFile, SequentialFileWrapper};
use pumice_port::thread;
use pumice_wal::reuse;

use crate::engine::DbInner;

impl DbInner {
    /// Keeps as many of the obsolete logs among `paths` as are wanted, cleared for their next use;
    /// returns the other paths. Failures are logged. Suspends.
    pub(crate) fn keep_spare_logs(&self, mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
        let dir = self.logs.dir();
        paths.retain(|path| match self.dir.log_in(path, &dir) {
            Some(number) if self.logs.wal.lock().spare().wants(number) => {
                let cleared = thread::contain("Log recycling", || self.clear_log(number));
                let bytes = cleared.and_then(|cleared| cleared);
                if let Err(error) = &bytes {
                    self.reports.warn(format_args!("log #{number} is not used again: {error}"));
                }
                let kept = self.logs.wal.lock().spare().prepared(number, bytes.ok());
                if kept {
                    self.reports.info(format_args!("adding log {number} to recycle list"));
                }
                !kept
            }
            _ => true,
        });
        paths
    }

    /// Clears the file of log `number`; returns its bytes.
    fn clear_log(&self, number: FileNumber) -> Result<u64> {
        let path = filename::log_file(&self.logs.dir(), number);
        let fs = &self.dir.fs;
        // A copy of the database, or the user, may have given it another name.
        if fs.num_file_links(&path)? != 1 {
            return Err(Error::not_supported("the file has several names"));
        }
        let bytes = fs.file_size(&path)?;
        if bytes == 0 {
            return Err(Error::not_supported("the file is empty"));
        }
        let mut file = fs.reuse(&path, &path)?;
        reuse::clear(&mut *file, bytes)?;
        // Not closed: that cuts the file to what was written.
        Ok(bytes)
    }

    /// `file`, opened for log `number`, as far as its writer has got.
    pub(crate) fn up_to_written(
        &self,
        number: FileNumber,
        file: Box<dyn SequentialFile>,
    ) -> Box<dyn SequentialFile> {
        if !self.logs.recycles {
            return file;
        }
        match self.logs.wal.lock().written(number) {
            Some(written) => Box::new(UpToWritten { file, position: 0, written }),
            None => file,
        }
    }

    /// Bytes of log `number`, whose file has `bytes`.
    pub(crate) fn log_bytes(&self, number: FileNumber, bytes: u64) -> u64 {
        let written = self.logs.wal.lock().written(number);
        written.map_or(bytes, |written| written.load(Ordering::Acquire).min(bytes))
    }
}

/// A log while it is written: it ends where what its writer has handed to the system ends, not with
/// its file.
struct UpToWritten {
    file: Box<dyn SequentialFile>,
    position: u64,
    written: Arc<AtomicU64>,
}

impl SequentialFileWrapper for UpToWritten {
    fn wrapped(&self) -> &dyn SequentialFile {
        &*self.file
    }
    fn wrapped_mut(&mut self) -> &mut dyn SequentialFile {
        &mut *self.file
    }
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        let left = self.written.load(Ordering::Acquire).saturating_sub(self.position);
        let bytes = buf.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let read = self.file.read(&mut buf[..bytes])?;
        self.position += read as u64;
        Ok(read)
    }
    fn skip(&mut self, bytes: u64) -> Result<()> {
        self.position = self.position.saturating_add(bytes);
        self.file.skip(bytes)
    }
}
