//! A file system that reports `range_sync` and queries of sizes, and counts other file
//! operations that options decide about.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use pumice::{FileSystem, Result};
use pumice_env::{
    FileLock, FileOptions, FileSyncer, RandomAccessFile, ReadFileOptions, SequentialFile,
    WritableFile,
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

macro_rules! delegate {
    ($($method:ident($($arg:ident: $type:ty),*) -> $result:ty;)*) => {$(
        fn $method(&self, $($arg: $type),*) -> Result<$result> {
            self.inner.$method($($arg),*)
        }
    )*};
}

impl FileSystem for Watched {
    fn open_random(&self, path: &Path) -> Result<Arc<dyn RandomAccessFile>> {
        self.open_random_with(path, &ReadFileOptions::default())
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
    delegate! {
        open_sequential(path: &Path) -> Box<dyn SequentialFile>;
        reopen_append(path: &Path) -> Box<dyn WritableFile>;
        reuse(old: &Path, new: &Path) -> Box<dyn WritableFile>;
        read_file(path: &Path) -> Vec<u8>;
        exists(path: &Path) -> bool;
        modified_time(path: &Path) -> u64;
        rename(from: &Path, to: &Path) -> ();
        link(from: &Path, to: &Path) -> ();
        remove(path: &Path) -> ();
        truncate(path: &Path, bytes: u64) -> ();
        create_dir_all(path: &Path) -> ();
        remove_dir(path: &Path) -> ();
        list(path: &Path) -> Vec<String>;
        sync_dir(path: &Path) -> ();
        lock(path: &Path) -> Box<dyn FileLock>;
        free_space(path: &Path) -> u64;
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

impl RandomAccessFile for Counted {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.counts.reads.fetch_add(1, Relaxed);
        self.counts.read_max.fetch_max(buf.len(), Relaxed);
        match self.counts.read_micros.load(Relaxed) as u64 {
            0 => {}
            micros => pumice::fiber::sleep(std::time::Duration::from_micros(micros)),
        }
        self.file.read_at(offset, buf)
    }
    fn prefetch(&self, offset: u64, bytes: u64) {
        self.file.prefetch(offset, bytes);
    }
    fn len(&self) -> u64 {
        self.file.len()
    }
    fn path(&self) -> &Path {
        self.file.path()
    }
}

struct WatchedFile {
    file: Box<dyn WritableFile>,
    range_synced: RangeSynced,
    counts: Arc<Counts>,
}

impl WritableFile for WatchedFile {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        self.file.append(data)
    }
    fn flush(&mut self) -> Result<()> {
        self.file.flush()
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
    fn truncate(&mut self, bytes: u64) -> Result<()> {
        self.file.truncate(bytes)
    }
    fn close(&mut self) -> Result<()> {
        self.file.close()
    }
    fn syncer(&self) -> Result<Arc<dyn FileSyncer>> {
        self.file.syncer()
    }
    fn len(&self) -> u64 {
        self.file.len()
    }
    fn path(&self) -> &Path {
        self.file.path()
    }
}
