//! `--report_file_operations`: the file system below, with counts of what is done to files.
//!
//! Thread safety: any thread; the counts are relaxed and exact. Only what RocksDB counts: files
//! opened, reads and appends of files and their bytes. Reads through a batch count one by one; a
//! file that is read whole counts as one opened and read.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use pumice::{FileSystem, Result};
use pumice_env::{
    FileOptions, FileSystemWrapper, RandomAccessFile, RandomAccessFileWrapper, ReadFileOptions,
    ReadRequest, SequentialFile, SequentialFileWrapper, WritableFile, WritableFileWrapper,
};

/// What was done to files since the last report.
#[derive(Default)]
pub struct FileCounts {
    opened: AtomicU64,
    reads: AtomicU64,
    appends: AtomicU64,
    bytes_read: AtomicU64,
    bytes_written: AtomicU64,
}

impl FileCounts {
    /// RocksDB's lines; the counts begin at 0 again.
    pub fn report(&self) -> String {
        let take = |count: &AtomicU64| count.swap(0, Relaxed);
        format!(
            "Num files opened: {}\nNum Read(): {}\nNum Append(): {}\nNum bytes read: {}\n\
             Num bytes written: {}\n",
            take(&self.opened),
            take(&self.reads),
            take(&self.appends),
            take(&self.bytes_read),
            take(&self.bytes_written)
        )
    }

    /// Bytes that were read since they were last reported or forgotten.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read.load(Relaxed)
    }

    /// The bytes that were read begin at 0 again.
    pub fn forget_reads(&self) {
        self.bytes_read.store(0, Relaxed);
    }

    fn count_read(&self, result: &Result<usize>) {
        self.reads.fetch_add(1, Relaxed);
        self.bytes_read.fetch_add(*result.as_ref().unwrap_or(&0) as u64, Relaxed);
    }
}

/// See the module head.
pub struct CountedFiles {
    /// The file system below.
    pub inner: Arc<dyn FileSystem>,
    /// What is done.
    pub counts: Arc<FileCounts>,
}

impl CountedFiles {
    fn writable(&self, inner: Box<dyn WritableFile>) -> Box<dyn WritableFile> {
        self.counts.opened.fetch_add(1, Relaxed);
        Box::new(Writable { inner, counts: Arc::clone(&self.counts) })
    }
}

impl FileSystemWrapper for CountedFiles {
    fn wrapped(&self) -> &dyn FileSystem {
        &*self.inner
    }
    fn is_own(&self) -> bool {
        self.inner.is_own()
    }
    fn open_random_with(
        &self,
        path: &Path,
        options: &ReadFileOptions,
    ) -> Result<Arc<dyn RandomAccessFile>> {
        let inner = self.inner.open_random_with(path, options)?;
        self.counts.opened.fetch_add(1, Relaxed);
        Ok(Arc::new(Random { inner, counts: Arc::clone(&self.counts) }))
    }
    fn open_sequential(&self, path: &Path) -> Result<Box<dyn SequentialFile>> {
        let inner = self.inner.open_sequential(path)?;
        self.counts.opened.fetch_add(1, Relaxed);
        Ok(Box::new(Sequential { inner, counts: Arc::clone(&self.counts) }))
    }
    fn create(&self, path: &Path, options: &FileOptions) -> Result<Box<dyn WritableFile>> {
        Ok(self.writable(self.inner.create(path, options)?))
    }
    fn reopen_append(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        Ok(self.writable(self.inner.reopen_append(path)?))
    }
    fn reuse(&self, old: &Path, new: &Path) -> Result<Box<dyn WritableFile>> {
        Ok(self.writable(self.inner.reuse(old, new)?))
    }
    fn read_file(&self, path: &Path) -> Result<Vec<u8>> {
        let bytes = self.inner.read_file(path)?;
        self.counts.opened.fetch_add(1, Relaxed);
        self.counts.count_read(&Ok(bytes.len()));
        Ok(bytes)
    }
}

struct Random {
    inner: Arc<dyn RandomAccessFile>,
    counts: Arc<FileCounts>,
}

impl RandomAccessFileWrapper for Random {
    fn wrapped(&self) -> &dyn RandomAccessFile {
        &*self.inner
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let result = self.inner.read_at(offset, buf);
        self.counts.count_read(&result);
        result
    }
    fn read_batch(&self, requests: &mut [ReadRequest<'_>]) {
        self.inner.read_batch(requests);
        requests.iter().for_each(|request| self.counts.count_read(&request.result));
    }
    fn needs_little_stack(&self) -> bool {
        self.inner.needs_little_stack()
    }
}

struct Sequential {
    inner: Box<dyn SequentialFile>,
    counts: Arc<FileCounts>,
}

impl SequentialFileWrapper for Sequential {
    fn wrapped(&self) -> &dyn SequentialFile {
        &*self.inner
    }
    fn wrapped_mut(&mut self) -> &mut dyn SequentialFile {
        &mut *self.inner
    }
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        let result = self.inner.read(buf);
        self.counts.count_read(&result);
        result
    }
}

struct Writable {
    inner: Box<dyn WritableFile>,
    counts: Arc<FileCounts>,
}

impl WritableFileWrapper for Writable {
    fn wrapped(&self) -> &dyn WritableFile {
        &*self.inner
    }
    fn wrapped_mut(&mut self) -> &mut dyn WritableFile {
        &mut *self.inner
    }
    fn append(&mut self, data: &[u8]) -> Result<()> {
        self.counts.appends.fetch_add(1, Relaxed);
        self.counts.bytes_written.fetch_add(data.len() as u64, Relaxed);
        self.inner.append(data)
    }
    fn overwrite(&mut self, ahead: u64, data: &[u8], step: u64) -> Result<()> {
        self.counts.appends.fetch_add(1, Relaxed);
        self.counts.bytes_written.fetch_add(data.len() as u64, Relaxed);
        self.inner.overwrite(ahead, data, step)
    }
}
