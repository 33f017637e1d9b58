//! A file system that reports operations to a trace ([`IoTrace`]), under RocksDB's names.
//!
//! Files for reads are wrapped when they are opened, so that a trace has reads of tables that were
//! open before it. Files for writes and reads from front to back are wrapped only while there is a
//! trace: a log is written with each put, and its writes pay nothing for a trace that is off. The
//! log that is written when a trace begins is noted from the next log on.
//!
//! Thread safety: as what it wraps. Suspends where that does.

use std::path::Path;
use std::sync::Arc;

use pumice_base::Result;
use pumice_env::{
    FileLock, FileOptions, FileSystem, FileSystemWrapper, RandomAccessFile,
    RandomAccessFileWrapper, ReadFileOptions, ReadRequest, SequentialFile, SequentialFileWrapper,
    WritableFile, WritableFileWrapper,
};
use pumice_port::time::now_nanos;

use super::io::{IoTrace, Numbers};

/// A file system or a file, and the trace that it reports to.
struct Traced<T> {
    of: T,
    trace: Arc<IoTrace>,
}

/// `fs`, which reports to `trace`.
pub(crate) fn trace_files(fs: Arc<dyn FileSystem>, trace: &Arc<IoTrace>) -> Arc<dyn FileSystem> {
    Arc::new(Traced { of: fs, trace: Arc::clone(trace) })
}

impl<T> Traced<T> {
    fn file<F>(&self, of: F) -> Traced<F> {
        Traced { of, trace: Arc::clone(&self.trace) }
    }

    fn plain<R>(
        &self,
        operation: &str,
        path: &Path,
        act: impl FnOnce(&T) -> Result<R>,
    ) -> Result<R> {
        self.trace.watch(operation, path, |_| Numbers::NONE, || act(&self.of))
    }

    /// A new file for writes.
    fn written(&self, file: Box<dyn WritableFile>) -> Box<dyn WritableFile> {
        if self.trace.is_on() { Box::new(self.file(file)) } else { file }
    }
}

impl FileSystemWrapper for Traced<Arc<dyn FileSystem>> {
    fn wrapped(&self) -> &dyn FileSystem {
        &*self.of
    }
    fn is_own(&self) -> bool {
        self.of.is_own()
    }
    fn open_random_with(
        &self,
        path: &Path,
        options: &ReadFileOptions,
    ) -> Result<Arc<dyn RandomAccessFile>> {
        let file = self.plain("NewRandomAccessFile", path, |fs| fs.open_random_with(path, options));
        Ok(Arc::new(self.file(file?)))
    }
    fn open_sequential(&self, path: &Path) -> Result<Box<dyn SequentialFile>> {
        let file = self.plain("NewSequentialFile", path, |fs| fs.open_sequential(path))?;
        Ok(if self.trace.is_on() { Box::new(self.file(file)) } else { file })
    }
    fn create(&self, path: &Path, options: &FileOptions) -> Result<Box<dyn WritableFile>> {
        let file = self.plain("NewWritableFile", path, |fs| fs.create(path, options))?;
        Ok(self.written(file))
    }
    fn reopen_append(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        let file = self.plain("ReopenWritableFile", path, |fs| fs.reopen_append(path))?;
        Ok(self.written(file))
    }
    fn reuse(&self, old: &Path, new: &Path) -> Result<Box<dyn WritableFile>> {
        let file = self.plain("ReuseWritableFile", new, |fs| fs.reuse(old, new))?;
        Ok(self.written(file))
    }
    fn read_file(&self, path: &Path) -> Result<Vec<u8>> {
        let len = |read: &Result<Vec<u8>>| {
            Numbers::len(read.as_ref().map_or(0, |bytes| bytes.len() as u64))
        };
        self.trace.watch("Read", path, len, || self.of.read_file(path))
    }
    fn file_size(&self, path: &Path) -> Result<u64> {
        let size = |found: &Result<u64>| Numbers::size(found.as_ref().copied().unwrap_or(0));
        self.trace.watch("GetFileSize", path, size, || self.of.file_size(path))
    }
    fn truncate(&self, path: &Path, bytes: u64) -> Result<()> {
        let size = |_: &Result<()>| Numbers::size(bytes);
        self.trace.watch("Truncate", path, size, || self.of.truncate(path, bytes))
    }
    fn remove(&self, path: &Path) -> Result<()> {
        self.plain("DeleteFile", path, |fs| fs.remove(path))
    }
    fn create_dir_all(&self, path: &Path) -> Result<()> {
        self.plain("CreateDirIfMissing", path, |fs| fs.create_dir_all(path))
    }
    fn remove_dir(&self, path: &Path) -> Result<()> {
        self.plain("DeleteDir", path, |fs| fs.remove_dir(path))
    }
    fn list(&self, path: &Path) -> Result<Vec<String>> {
        self.plain("GetChildren", path, |fs| fs.list(path))
    }
    fn sync_dir(&self, path: &Path) -> Result<()> {
        self.plain("NewDirectory", path, |fs| fs.sync_dir(path))
    }
    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        self.plain("LockFile", path, |fs| fs.lock(path))
    }
}

impl RandomAccessFileWrapper for Traced<Arc<dyn RandomAccessFile>> {
    fn wrapped(&self) -> &dyn RandomAccessFile {
        &*self.of
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let range = Numbers::range(offset, buf.len() as u64);
        self.trace.watch("Read", self.of.path(), |_| range, || self.of.read_at(offset, buf))
    }
    fn read_batch(&self, requests: &mut [ReadRequest<'_>]) {
        if !self.trace.is_on() {
            return self.of.read_batch(requests);
        }
        let began = now_nanos();
        self.of.read_batch(requests);
        let took = now_nanos().saturating_sub(began);
        for request in requests {
            let range = Numbers::range(request.offset, request.buf.len() as u64);
            let error = request.result.as_ref().err();
            self.trace.add("MultiRead", self.of.path(), (took, error), range);
        }
    }
    /// What is noted needs the writer of the trace, which may be the program's: reads of a traced
    /// file stay on their task's own stack.
    fn needs_little_stack(&self) -> bool {
        !self.trace.is_on() && self.of.needs_little_stack()
    }
    fn prefetch(&self, offset: u64, bytes: u64) {
        self.of.prefetch(offset, bytes);
        if self.trace.is_on() {
            let range = Numbers::range(offset, bytes);
            self.trace.add("Prefetch", self.of.path(), (0, None), range);
        }
    }
}

impl SequentialFileWrapper for Traced<Box<dyn SequentialFile>> {
    fn wrapped(&self) -> &dyn SequentialFile {
        &*self.of
    }
    fn wrapped_mut(&mut self) -> &mut dyn SequentialFile {
        &mut *self.of
    }
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        let path = self.of.path().to_path_buf();
        let len = |read: &Result<usize>| Numbers::len(*read.as_ref().unwrap_or(&0) as u64);
        self.trace.watch("Read", &path, len, || self.of.read(buf))
    }
}

impl WritableFileWrapper for Traced<Box<dyn WritableFile>> {
    fn wrapped(&self) -> &dyn WritableFile {
        &*self.of
    }
    fn wrapped_mut(&mut self) -> &mut dyn WritableFile {
        &mut *self.of
    }
    fn append(&mut self, data: &[u8]) -> Result<()> {
        let path = self.of.path().to_path_buf();
        let len = Numbers::len(data.len() as u64);
        self.trace.watch("Append", &path, |_| len, || self.of.append(data))
    }
    fn overwrite(&mut self, ahead: u64, data: &[u8], step: u64) -> Result<()> {
        let path = self.of.path().to_path_buf();
        let range = Numbers::range(self.of.len() + ahead, data.len() as u64);
        let act = || self.of.overwrite(ahead, data, step);
        self.trace.watch("PositionedAppend", &path, |_| range, act)
    }
    fn truncate(&mut self, bytes: u64) -> Result<()> {
        let path = self.of.path().to_path_buf();
        self.trace.watch("Truncate", &path, |_| Numbers::len(bytes), || self.of.truncate(bytes))
    }
    fn close(&mut self) -> Result<()> {
        let path = self.of.path().to_path_buf();
        self.trace.watch("Close", &path, |_| Numbers::NONE, || self.of.close())
    }
}
