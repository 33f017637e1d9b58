//! The file system of the operating system.
//!
//! Error texts name the operation as RocksDB does, because users grep logs for them.
//! Thread safety: stateless; see the traits. Reads are `pread`, so a shared file needs no lock.

use crate::direct::{DirectRandomAccessFile, DirectWritableFile};
use crate::file_system::{
    FileLock, FileOptions, FileSystem, RandomAccessFile, ReadFileOptions, ReadRequest,
    SequentialFile, WritableFile,
};
use crate::operation;
use crate::posix_file::{PosixWritableFile, at};
use pumice_base::{Error, Result};
use pumice_port::os::{self, Advice, BatchRead, File, LockFailure, OpenFlags};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// errno of "no locks available", which RocksDB reports for a lock held by the same process.
const ENOLCK: i32 = 37;
const ENOENT: i32 = 2;
const ENOTDIR: i32 = 20;

/// The operating system's file system.
///
/// ```
/// # fn main() -> Result<(), pumice_base::Error> {
/// # use pumice_env::{FileSystem, PosixFs};
/// let fs = PosixFs::shared(); // The default of `DbOptions::file_system`.
/// let directory = std::env::temp_dir();
/// assert!(fs.exists(&directory)? && fs.free_space(&directory)? > 0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct PosixFs;

impl PosixFs {
    /// The one shared instance.
    pub fn shared() -> Arc<dyn FileSystem> {
        static SHARED: OnceLock<Arc<PosixFs>> = OnceLock::new();
        Arc::clone(SHARED.get_or_init(|| Arc::new(PosixFs))) as Arc<dyn FileSystem>
    }
}

impl FileSystem for PosixFs {
    fn is_own(&self) -> bool {
        true
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
        // Only a hint: a file system that ignores it still reads correctly.
        drop(self.file.advise(offset, bytes, Advice::WillNeed));
    }
    fn prefetches(&self) -> bool {
        true
    }
    fn read_unit(&self) -> usize {
        1
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
