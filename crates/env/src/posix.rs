//! The file system of the operating system.
//!
//! Error texts name the operation as RocksDB does, because users grep logs for them.
//! Thread safety: stateless; see the traits. Reads are `pread`, so a shared file needs no lock.

use crate::direct::{DirectRandomAccessFile, DirectWritableFile};
use crate::file_system::{
    FileLock, FileOptions, FileSyncer, FileSystem, RandomAccessFile, ReadFileOptions, ReadRequest,
    SequentialFile, WritableFile,
};
use crate::operation;
use pumice_base::{Error, Result};
use pumice_port::os::{self, Advice, BatchRead, File, LockFailure, OpenFlags};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// errno of "no locks available", which RocksDB reports for a lock held by the same process.
const ENOLCK: i32 = 37;
const ENOENT: i32 = 2;
const ENOTDIR: i32 = 20;
const ENOSYS: i32 = 38;

/// The operating system's file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct PosixFs;

impl PosixFs {
    /// The one shared instance.
    pub fn shared() -> Arc<dyn FileSystem> {
        static SHARED: OnceLock<Arc<PosixFs>> = OnceLock::new();
        Arc::clone(SHARED.get_or_init(|| Arc::new(PosixFs))) as Arc<dyn FileSystem>
    }
}

/// Gives an error of the operating system its operation and path.
fn at<T>(operation: &str, path: &Path, result: io::Result<T>) -> Result<T> {
    result.map_err(|e| Error::io(operation, path, &e))
}

impl FileSystem for PosixFs {
    fn is_own(&self) -> bool {
        true
    }
    fn open_random(&self, path: &Path) -> Result<Arc<dyn RandomAccessFile>> {
        self.open_random_with(path, &ReadFileOptions::default())
    }

    fn open_random_with(
        &self,
        path: &Path,
        options: &ReadFileOptions,
    ) -> Result<Arc<dyn RandomAccessFile>> {
        let flags = OpenFlags { direct: options.direct, ..OpenFlags::READ };
        let file = at(operation::OPEN_RANDOM, path, File::open(path, flags))?;
        let bytes = at(operation::OPEN_RANDOM, path, file.stat())?.bytes;
        let path = path.to_path_buf();
        Ok(if options.direct {
            Arc::new(DirectRandomAccessFile::new(file, bytes, path))
        } else {
            Arc::new(PosixRandomAccessFile { file, bytes, path })
        })
    }

    fn open_sequential(&self, path: &Path) -> Result<Box<dyn SequentialFile>> {
        let file = at(operation::OPEN_SEQUENTIAL, path, File::open(path, OpenFlags::READ))?;
        Ok(Box::new(PosixSequentialFile { file, offset: 0, path: path.to_path_buf() }))
    }

    fn create(&self, path: &Path, options: &FileOptions) -> Result<Box<dyn WritableFile>> {
        let flags = OpenFlags { direct: options.direct, ..OpenFlags::CREATE };
        // A direct writer reads back the block that a truncation has cut.
        let flags = OpenFlags { read: options.direct, ..flags };
        let file = at(operation::CREATE, path, File::open(path, flags))?;
        let plain = PosixWritableFile::new(file, path, 0, options.allow_fallocate);
        Ok(if options.direct { Box::new(DirectWritableFile::new(plain)) } else { Box::new(plain) })
    }

    fn reopen_append(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        let flags = OpenFlags { write: true, create: true, read: false, ..OpenFlags::READ };
        let file = at(operation::REOPEN, path, File::open(path, flags))?;
        let bytes = at(operation::REOPEN, path, file.stat())?.bytes;
        Ok(Box::new(PosixWritableFile::new(file, path, bytes, true)))
    }

    fn reuse(&self, old: &Path, new: &Path) -> Result<Box<dyn WritableFile>> {
        at(&operation::recycle(new), old, os::rename(old, new))?;
        let flags = OpenFlags { write: true, read: false, ..OpenFlags::READ };
        let file = at(operation::REOPEN, new, File::open(new, flags))?;
        Ok(Box::new(PosixWritableFile::new(file, new, 0, true)))
    }

    fn read_file(&self, path: &Path) -> Result<Vec<u8>> {
        at(operation::OPEN_SEQUENTIAL, path, os::read_file(path))
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        match os::stat(path) {
            Ok(_) => Ok(true),
            Err(e) if matches!(e.raw_os_error(), Some(ENOENT | ENOTDIR)) => Ok(false),
            Err(e) => Err(Error::io(operation::ACCESS, path, &e)),
        }
    }

    fn file_size(&self, path: &Path) -> Result<u64> {
        Ok(at(operation::FILE_SIZE, path, os::stat(path))?.bytes)
    }

    fn device(&self, path: &Path) -> Option<u64> {
        os::stat(path).ok().map(|stat| stat.device)
    }

    fn modified_time(&self, path: &Path) -> Result<u64> {
        Ok(at(operation::MODIFIED_TIME, path, os::stat(path))?.modified_seconds)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        at(&operation::rename(to), from, os::rename(from, to))
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        at(&operation::link(to), from, os::link(from, to))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        at(operation::REMOVE, path, os::unlink(path))
    }

    fn num_file_links(&self, path: &Path) -> Result<u64> {
        Ok(at(operation::NUM_LINKS, path, os::stat(path))?.links)
    }

    fn truncate(&self, path: &Path, bytes: u64) -> Result<()> {
        at(&operation::truncate(bytes), path, os::truncate(path, bytes))
    }

    fn create_dir_all(&self, path: &Path) -> Result<()> {
        at(operation::MAKE_DIR, path, os::create_dir_all(path))
    }

    fn remove_dir(&self, path: &Path) -> Result<()> {
        at(operation::REMOVE_DIR, path, os::remove_dir(path))
    }

    fn list(&self, path: &Path) -> Result<Vec<String>> {
        at(operation::LIST, path, os::read_dir(path))
    }

    fn sync_dir(&self, path: &Path) -> Result<()> {
        at(operation::FSYNC, path, os::sync_dir(path))
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        match os::FileLock::acquire(path) {
            Ok(lock) => Ok(Box::new(PosixFileLock { _lock: lock })),
            Err(LockFailure::HeldHere { since_seconds, thread }) => {
                let held = operation::lock_held_here(since_seconds, thread);
                Err(Error::io(&held, path, &io::Error::from_raw_os_error(ENOLCK)))
            }
            Err(LockFailure::Open(e)) => Err(Error::io(operation::OPEN_LOCK, path, &e)),
            Err(LockFailure::Lock(e)) => Err(Error::io(operation::LOCK, path, &e)),
        }
    }

    fn free_space(&self, path: &Path) -> Result<u64> {
        at(operation::FREE_SPACE, path, os::free_space(path))
    }
}

struct PosixFileLock {
    _lock: os::FileLock,
}

impl FileLock for PosixFileLock {}

struct PosixRandomAccessFile {
    file: File,
    bytes: u64,
    path: PathBuf,
}

impl RandomAccessFile for PosixRandomAccessFile {
    #[inline]
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.file
            .read_at(buf, offset)
            .map_err(|e| Error::io(&operation::pread(offset, buf.len()), &self.path, &e))
    }
    fn read_batch(&self, requests: &mut [ReadRequest<'_>]) {
        let mut reads: Vec<BatchRead<'_>> = requests
            .iter_mut()
            .map(|r| BatchRead { file: &self.file, buf: r.buf, offset: r.offset, result: Ok(0) })
            .collect();
        os::read_batch(&mut reads);
        let results: Vec<_> = reads.into_iter().map(|read| read.result).collect();
        for (request, result) in requests.iter_mut().zip(results) {
            let text = || operation::pread(request.offset, request.buf.len());
            request.result = result.map_err(|e| Error::io(&text(), &self.path, &e));
        }
    }
    fn needs_little_stack(&self) -> bool {
        true
    }
    fn prefetch(&self, offset: u64, bytes: u64) {
        // A hint: a file system that does not take it still reads correctly.
        drop(self.file.advise(offset, bytes, Advice::WillNeed));
    }
    fn len(&self) -> u64 {
        self.bytes
    }
    fn path(&self) -> &Path {
        &self.path
    }
}

struct PosixSequentialFile {
    file: File,
    offset: u64,
    path: PathBuf,
}

impl SequentialFile for PosixSequentialFile {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        let result = self.file.read_at(buf, self.offset);
        let bytes = at(operation::READ_SEQUENTIAL, &self.path, result)?;
        self.offset += bytes as u64;
        Ok(bytes)
    }
    fn skip(&mut self, bytes: u64) -> Result<()> {
        self.offset = self.offset.saturating_add(bytes);
        Ok(())
    }
    fn path(&self) -> &Path {
        &self.path
    }
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
    fn new(file: File, path: &Path, position: u64, may_allocate: bool) -> Self {
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
            // As RocksDB: where the system cannot tell, a strict writer waits for everything.
            Err(e) if e.raw_os_error() == Some(ENOSYS) && wait_for_earlier => f.sync_data(),
            Err(e) if e.raw_os_error() == Some(ENOSYS) => Ok(()),
            done => done,
        })
    }
    fn preallocate(&mut self, end: u64) -> Result<()> {
        let start = self.allocated_end.max(self.position);
        if self.may_allocate && end > start {
            let reserved = self.with(operation::ALLOCATE, |f| f.allocate(start, end - start, true));
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
            // Truncating to the present length is what gives the reserved blocks back.
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
