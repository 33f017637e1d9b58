//! A file system that reports `range_sync` and queries of sizes, and counts other file
//! operations that options decide about.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use pumice::{FileSystem, Result};
use pumice_env::{
    FileOptions, FileSystemWrapper, RandomAccessFile, RandomAccessFileWrapper, ReadFileOptions,
    ReadRequest, WritableFile, WritableFileWrapper, read_one_by_one,
};

/// Called with path, offset, bytes, and whether to wait.
pub type RangeSynced = Arc<dyn Fn(&Path, u64, u64, bool) + Send + Sync>;

/// Called with a file whose size is about to be queried.
pub type Looked = Arc<dyn Fn(&Path) + Send + Sync>;

/// See the module head.
pub struct Watched {
    pub inner: Arc<dyn FileSystem>,
    pub range_synced: RangeSynced,
    pub looked: Looked,
    pub counts: Arc<Counts>,
}

/// What was done so far.
#[derive(Default)]
pub struct Counts {
    /// Table files that are open for reading.
    pub open: AtomicUsize,
    /// Reads of them, and the bytes of the largest one.
    pub reads: AtomicUsize,
    pub read_max: AtomicUsize,
    /// Delay of each of them, in microseconds.
    pub read_micros: AtomicUsize,
    /// Files that were synced in each way.
    pub syncs: AtomicUsize,
    pub fsyncs: AtomicUsize,
    /// Requests to reserve space.
    pub reserved: AtomicUsize,
}

impl Counts {
    /// Resets all counts but those of open files.
    pub fn clear(&self) {
        let all = [&self.reads, &self.read_max, &self.syncs, &self.fsyncs, &self.reserved];
        all.iter().for_each(|count| count.store(0, Relaxed));
    }
}

impl Watched {
    /// `inner` with counters.
    pub fn over(inner: Arc<dyn FileSystem>) -> (Arc<dyn FileSystem>, Arc<Counts>) {
        let counts = Arc::new(Counts::default());
        let range_synced: RangeSynced = Arc::new(|_, _, _, _| {});
        let looked: Looked = Arc::new(|_| {});
        (Arc::new(Watched { inner, range_synced, looked, counts: Arc::clone(&counts) }), counts)
    }
}

impl FileSystemWrapper for Watched {
    fn wrapped(&self) -> &dyn FileSystem {
        &*self.inner
    }
    fn is_own(&self) -> bool {
        false
    }
    fn open_random_with(
        &self,
        path: &Path,
        options: &ReadFileOptions,
    ) -> Result<Arc<dyn RandomAccessFile>> {
        let file = self.inner.open_random_with(path, options)?;
        self.counts.open.fetch_add(1, Relaxed);
        Ok(Arc::new(Counted { file, counts: Arc::clone(&self.counts) }))
    }
    fn create(&self, path: &Path, options: &FileOptions) -> Result<Box<dyn WritableFile>> {
        let file = self.inner.create(path, options)?;
        let (range_synced, counts) = (Arc::clone(&self.range_synced), Arc::clone(&self.counts));
        Ok(Box::new(WatchedFile { file, range_synced, counts }))
    }
    fn file_size(&self, path: &Path) -> Result<u64> {
        (self.looked)(path);
        self.inner.file_size(path)
    }
}

/// A file whose being open is counted.
struct Counted {
    file: Arc<dyn RandomAccessFile>,
    counts: Arc<Counts>,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.counts.open.fetch_sub(1, Relaxed);
    }
}

impl RandomAccessFileWrapper for Counted {
    fn wrapped(&self) -> &dyn RandomAccessFile {
        &*self.file
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.counts.reads.fetch_add(1, Relaxed);
        self.counts.read_max.fetch_max(buf.len(), Relaxed);
        match self.counts.read_micros.load(Relaxed) as u64 {
            0 => {}
            micros => pumice::fiber::sleep(std::time::Duration::from_micros(micros)),
        }
        self.file.read_at(offset, buf)
    }
    fn read_batch(&self, requests: &mut [ReadRequest<'_>]) {
        read_one_by_one(self, requests);
    }
    fn needs_little_stack(&self) -> bool {
        false
    }
}

struct WatchedFile {
    file: Box<dyn WritableFile>,
    range_synced: RangeSynced,
    counts: Arc<Counts>,
}

impl WritableFileWrapper for WatchedFile {
    fn wrapped(&self) -> &dyn WritableFile {
        &*self.file
    }
    fn wrapped_mut(&mut self) -> &mut dyn WritableFile {
        &mut *self.file
    }
    fn sync(&mut self) -> Result<()> {
        self.counts.syncs.fetch_add(1, Relaxed);
        self.file.sync()
    }
    fn fsync(&mut self) -> Result<()> {
        self.counts.fsyncs.fetch_add(1, Relaxed);
        self.file.fsync()
    }
    fn range_sync(&mut self, offset: u64, bytes: u64, wait_for_earlier: bool) -> Result<()> {
        (self.range_synced)(self.file.path(), offset, bytes, wait_for_earlier);
        self.file.range_sync(offset, bytes, wait_for_earlier)
    }
    fn preallocate(&mut self, end: u64) -> Result<()> {
        self.counts.reserved.fetch_add(1, Relaxed);
        self.file.preallocate(end)
    }
}
