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
    FileLock, FileOptions, FileSyncer, RandomAccessFile, ReadFileOptions, ReadRequest,
    SequentialFile, WritableFile,
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

macro_rules! delegate {
    ($($method:ident(& self $(, $arg:ident: $type:ty)*) -> $result:ty;)*) => {$(
        fn $method(&self $(, $arg: $type)*) -> $result {
            self.inner.$method($($arg),*)
        }
    )*};
    ($($method:ident(&mut self $(, $arg:ident: $type:ty)*) -> $result:ty;)*) => {$(
        fn $method(&mut self $(, $arg: $type)*) -> $result {
            self.inner.$method($($arg),*)
        }
    )*};
}

impl FileSystem for CountedFiles {
    fn open_random(&self, path: &Path) -> Result<Arc<dyn RandomAccessFile>> {
        self.open_random_with(path, &ReadFileOptions::default())
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
    delegate! {
        exists(&self, path: &Path) -> Result<bool>;
        file_size(&self, path: &Path) -> Result<u64>;
        modified_time(&self, path: &Path) -> Result<u64>;
        rename(&self, from: &Path, to: &Path) -> Result<()>;
        link(&self, from: &Path, to: &Path) -> Result<()>;
        remove(&self, path: &Path) -> Result<()>;
        num_file_links(&self, path: &Path) -> Result<u64>;
        truncate(&self, path: &Path, bytes: u64) -> Result<()>;
        create_dir_all(&self, path: &Path) -> Result<()>;
        remove_dir(&self, path: &Path) -> Result<()>;
        list(&self, path: &Path) -> Result<Vec<String>>;
        sync_dir(&self, path: &Path) -> Result<()>;
        lock(&self, path: &Path) -> Result<Box<dyn FileLock>>;
        free_space(&self, path: &Path) -> Result<u64>;
        device(&self, path: &Path) -> Option<u64>;
        is_own(&self) -> bool;
    }
}

struct Random {
    inner: Arc<dyn RandomAccessFile>,
    counts: Arc<FileCounts>,
}

impl RandomAccessFile for Random {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let result = self.inner.read_at(offset, buf);
        self.counts.count_read(&result);
        result
    }
    fn read_batch(&self, requests: &mut [ReadRequest<'_>]) {
        self.inner.read_batch(requests);
        requests.iter().for_each(|request| self.counts.count_read(&request.result));
    }
    delegate! {
        needs_little_stack(&self) -> bool;
        prefetch(&self, offset: u64, bytes: u64) -> ();
        prefetches(&self) -> bool;
        read_unit(&self) -> usize;
        len(&self) -> u64;
        path(&self) -> &Path;
    }
}

struct Sequential {
    inner: Box<dyn SequentialFile>,
    counts: Arc<FileCounts>,
}

impl SequentialFile for Sequential {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        let result = self.inner.read(buf);
        self.counts.count_read(&result);
        result
    }
    delegate! {
        skip(&mut self, bytes: u64) -> Result<()>;
    }
    delegate! {
        path(&self) -> &Path;
    }
}

struct Writable {
    inner: Box<dyn WritableFile>,
    counts: Arc<FileCounts>,
}

impl WritableFile for Writable {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        self.counts.appends.fetch_add(1, Relaxed);
        self.counts.bytes_written.fetch_add(data.len() as u64, Relaxed);
        self.inner.append(data)
    }
    delegate! {
        flush(&mut self) -> Result<()>;
        sync(&mut self) -> Result<()>;
        fsync(&mut self) -> Result<()>;
        range_sync(&mut self, offset: u64, bytes: u64, wait_for_earlier: bool) -> Result<()>;
        preallocate(&mut self, end: u64) -> Result<()>;
        truncate(&mut self, bytes: u64) -> Result<()>;
        close(&mut self) -> Result<()>;
    }
    delegate! {
        syncer(&self) -> Result<Arc<dyn FileSyncer>>;
        len(&self) -> u64;
        path(&self) -> &Path;
    }
}
