//! The traits every backend implements.
//!
//! What the traits promise (the conformance suite in `tests.rs` holds every backend to it):
//! 1. `sync` returning `Ok` makes the file's bytes and length durable, never its name.
//! 2. `sync_dir` returning `Ok` makes the directory's names durable, those of directories in it as
//!    well, never its own.
//! 3. `rename` replaces the target in one step, also across a crash.
//! 4. An open file stays readable and writable after its name is removed.
//! 5. Reads are short only at the end of the file; writes are whole or an error, and after an error
//!    the file's tail is unknown.
//!
//! No method of the traits has a default: what wraps a file or a file system would forget to
//! forward it, and nothing would say so. Wrappers implement the traits of [`crate::wrappers`].
//!
//! Thread safety: `FileSystem` and `RandomAccessFile` are shared; the others have one user.
//! Every call may block, so it may suspend.

use pumice_base::{Error, Result};
use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::temperature::Temperature;

/// How a file is created.
///
/// Example: that of [`FileSystem`].
#[derive(Clone, Copy, Debug)]
pub struct FileOptions {
    /// `preallocate` may reserve space on the device.
    pub allow_fallocate: bool,
    /// The file's bytes bypass the page cache (O_DIRECT). A backend without a page cache ignores
    /// it; a file system that does not support it refuses to create the file.
    pub direct: bool,
    /// Where a file system may place it.
    pub temperature: Temperature,
}

impl Default for FileOptions {
    fn default() -> Self {
        FileOptions { allow_fallocate: true, direct: false, temperature: Temperature::Unknown }
    }
}

/// How a file is opened for reads at any position.
///
/// Example: that of [`FileSystem`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadFileOptions {
    /// As [`FileOptions::direct`].
    pub direct: bool,
    /// Where a file system may have placed it, as far as the MANIFEST says.
    pub temperature: Temperature,
}

/// A place with files in directories.
///
/// ```
/// # fn main() -> Result<(), pumice_base::Error> {
/// # use std::path::Path;
/// # use pumice_env::{
/// #     FileLock, FileOptions, FileSyncer, FileSystem, MemFs, RandomAccessFile, ReadFileOptions,
/// #     ReadRequest, SequentialFile, WritableFile,
/// # };
/// let fs = MemFs::default().shared(); // In memory; `PosixFs::shared()` is the machine's own.
/// let path = Path::new("/file");
/// let mut file: Box<dyn WritableFile> = fs.create(path, &FileOptions::default())?;
/// file.append(b"some bytes")?;
/// let syncer: std::sync::Arc<dyn FileSyncer> = file.syncer()?;
/// syncer.sync()?;
/// file.close()?;
///
/// let mut start = [0; 4];
/// let mut reader: Box<dyn SequentialFile> = fs.open_sequential(path)?;
/// assert_eq!((reader.read(&mut start)?, &start), (4, b"some"));
///
/// let file = fs.open_random_with(path, &ReadFileOptions::default())?;
/// let mut rest = [0; 5];
/// let mut reads = [ReadRequest { offset: 5, buf: &mut rest, result: Ok(0) }];
/// file.read_batch(&mut reads);
/// assert_eq!(reads[0].result.as_ref().ok(), Some(&5));
/// assert_eq!(&rest, b"bytes");
///
/// let lock: Box<dyn FileLock> = fs.lock(Path::new("/LOCK"))?;
/// assert!(fs.lock(Path::new("/LOCK")).is_err());
/// drop(lock);
/// # Ok(())
/// # }
/// ```
pub trait FileSystem: Send + Sync {
    /// Opens a file for reads at any position. A backend without a page cache has nothing to choose
    /// in `options`.
    fn open_random_with(
        &self,
        path: &Path,
        options: &ReadFileOptions,
    ) -> Result<Arc<dyn RandomAccessFile>>;
    /// Opens a file for reading from front to back.
    fn open_sequential(&self, path: &Path) -> Result<Box<dyn SequentialFile>>;
    /// Makes an empty file, or empties an existing one.
    fn create(&self, path: &Path, options: &FileOptions) -> Result<Box<dyn WritableFile>>;
    /// Opens a file, made when missing, for writing at its end.
    fn reopen_append(&self, path: &Path) -> Result<Box<dyn WritableFile>>;
    /// Renames `old` to `new` and opens it for overwriting from its first byte; its bytes stay.
    fn reuse(&self, old: &Path, new: &Path) -> Result<Box<dyn WritableFile>>;
    /// The whole content of a file.
    fn read_file(&self, path: &Path) -> Result<Vec<u8>>;
    /// Whether the name exists. An I/O failure is an error, not "no".
    fn exists(&self, path: &Path) -> Result<bool>;
    /// Length in bytes.
    fn file_size(&self, path: &Path) -> Result<u64>;
    /// Last change of the content, in seconds since 1970.
    fn modified_time(&self, path: &Path) -> Result<u64>;
    /// Renames a file (or directory); replaces a file that has the name.
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;
    /// Gives a file a second name, which must be free.
    fn link(&self, from: &Path, to: &Path) -> Result<()>;
    /// Removes a name of a file.
    fn remove(&self, path: &Path) -> Result<()>;
    /// How many names a file has. A backend that cannot tell returns NotSupported.
    fn num_file_links(&self, path: &Path) -> Result<u64>;
    /// Sets a file's length.
    fn truncate(&self, path: &Path, bytes: u64) -> Result<()>;
    /// Makes a directory and those above it that are missing.
    fn create_dir_all(&self, path: &Path) -> Result<()>;
    /// Removes an empty directory.
    fn remove_dir(&self, path: &Path) -> Result<()>;
    /// The names in a directory, in no order, without `.` and `..`.
    fn list(&self, path: &Path) -> Result<Vec<String>>;
    /// Makes the names in a directory durable.
    fn sync_dir(&self, path: &Path) -> Result<()>;
    /// Locks a file against other processes and other callers in this one; fails when it is held.
    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>>;
    /// Bytes that can still be written to the file system of `path`.
    fn free_space(&self, path: &Path) -> Result<u64>;
    /// The number of the device that holds `path`, if files of other file systems may lie on it
    /// too; databases on one device share its [`crate::DeviceScheduler`].
    fn device(&self, path: &Path) -> Option<u64>;
    /// Whether it is one of this crate's, which call no user code. A database takes precautions
    /// against any other: its panics become errors, and its calls to the database are refused.
    fn is_own(&self) -> bool;
}

impl dyn FileSystem + '_ {
    /// Opens a file for reads at any position, through the page cache where there is one.
    ///
    /// # Errors
    /// The errors of [`FileSystem::open_random_with`].
    pub fn open_random(&self, path: &Path) -> Result<Arc<dyn RandomAccessFile>> {
        self.open_random_with(path, &ReadFileOptions::default())
    }
}

/// One read of a batch.
///
/// Example: that of [`FileSystem`].
pub struct ReadRequest<'a> {
    /// Position of the first byte.
    pub offset: u64,
    /// Where the bytes go.
    pub buf: &'a mut [u8],
    /// The number of bytes read, short only at the end of the file.
    pub result: Result<usize>,
}

/// A file open for reads at any position.
///
/// Example: that of [`FileSystem`].
#[allow(clippy::len_without_is_empty)] // No caller asks it.
pub trait RandomAccessFile: Send + Sync {
    /// Reads from `offset` until `buf` is full or the file ends; the number of bytes read.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize>;
    /// Performs the requests, in any order, each with its own result. A file that gains nothing by
    /// reading several at once uses [`read_one_by_one`].
    fn read_batch(&self, requests: &mut [ReadRequest<'_>]);
    /// Whether reads need little stack: then those of a thread may be made on its fibers, so that
    /// several are in flight at once.
    fn needs_little_stack(&self) -> bool;
    /// Hints that a range will be read soon.
    fn prefetch(&self, offset: u64, bytes: u64);
    /// Whether [`RandomAccessFile::prefetch`] fetches into a cache of the system's, from which
    /// reads are copies: then readahead needs no buffer of its own.
    fn prefetches(&self) -> bool;
    /// Reads whose position, length and memory are multiples of this (the memory of
    /// `pumice_port::os::DIRECT_ALIGNMENT`) go to the device as they are; a power of two. Others
    /// are copied where it is above 1.
    fn read_unit(&self) -> usize;
    /// Length when it was opened: files are not read while they are written, except logs.
    fn len(&self) -> u64;
    /// The name it was opened with, for messages.
    fn path(&self) -> &Path;
}

/// Performs the requests of [`RandomAccessFile::read_batch`] in order, by `read_at`.
pub fn read_one_by_one(file: &dyn RandomAccessFile, requests: &mut [ReadRequest<'_>]) {
    for request in requests {
        request.result = file.read_at(request.offset, request.buf);
    }
}

/// A file open for reading from front to back.
///
/// Example: that of [`FileSystem`].
pub trait SequentialFile: Send {
    /// Continues reading until `buf` is full or the file ends; the number of bytes read.
    fn read(&mut self, buf: &mut [u8]) -> Result<usize>;
    /// Moves the position `bytes` further; beyond the end the next read returns 0.
    fn skip(&mut self, bytes: u64) -> Result<()>;
    /// The name it was opened with, for messages.
    fn path(&self) -> &Path;
}

/// A file open for writing at one moving position.
///
/// The writer above stops using it after the first error, so an implementation needs no state for
/// that. Dropping closes without reporting errors and without making anything durable.
///
/// Example: that of [`FileSystem`].
#[allow(clippy::len_without_is_empty)] // No caller asks it.
pub trait WritableFile: Send {
    /// Appends all of `data`.
    fn append(&mut self, data: &[u8]) -> Result<()>;
    /// Writes `data` from `ahead` bytes after the position on, over what is there, and moves the
    /// position by `step`: for a file that is used again ([`FileSystem::reuse`]). NotSupported
    /// where files are not used again.
    fn overwrite(&mut self, ahead: u64, data: &[u8], step: u64) -> Result<()>;
    /// Hands everything to the operating system, so that it survives a crash of the process.
    fn flush(&mut self) -> Result<()>;
    /// Makes content and length durable (fdatasync).
    fn sync(&mut self) -> Result<()>;
    /// As `sync`, with all metadata (fsync).
    fn fsync(&mut self) -> Result<()>;
    /// Hints that a written range should go to the device soon; with `wait_for_earlier` it returns
    /// when what earlier hints covered of the range is written. Promises no durability.
    fn range_sync(&mut self, offset: u64, bytes: u64, wait_for_earlier: bool) -> Result<()>;
    /// Reserves space up to position `end` without changing the length. Best effort.
    fn preallocate(&mut self, end: u64) -> Result<()>;
    /// Sets the length and moves the position there.
    fn truncate(&mut self, bytes: u64) -> Result<()>;
    /// Ends writing, gives back reserved space, reports late errors. Not durable by itself.
    fn close(&mut self) -> Result<()>;
    /// A handle with which another task makes what was written so far durable, while this one
    /// continues writing.
    fn syncer(&self) -> Result<Arc<dyn FileSyncer>>;
    /// The position of the next byte.
    fn len(&self) -> u64;
    /// The name it was opened with, for messages.
    fn path(&self) -> &Path;
}

/// Makes the bytes of a file durable that its writer has handed to the operating system.
///
/// Example: that of [`FileSystem`].
pub trait FileSyncer: Send + Sync {
    /// As [`WritableFile::sync`]. After an error the writer must no longer be trusted either, see
    /// [`crate::BufferedWriter::poison`].
    fn sync(&self) -> Result<()>;
}

/// A held lock; dropping it releases.
///
/// Example: that of [`FileSystem`].
pub trait FileLock: Send + Sync {}

/// Makes the file `path` with content `data`; with `sync` the content is durable, not the name.
///
/// # Errors
/// The errors of creating, writing, syncing and closing.
pub fn write_file(fs: &dyn FileSystem, path: &Path, data: &[u8], sync: bool) -> Result<()> {
    write_file_with(fs, path, data, sync, &FileOptions::default())
}

/// [`write_file`] with options of its creation.
///
/// # Errors
/// As there.
pub fn write_file_with(
    fs: &dyn FileSystem,
    path: &Path,
    data: &[u8],
    sync: bool,
    options: &FileOptions,
) -> Result<()> {
    let mut file = fs.create(path, options)?;
    file.append(data)?;
    if sync {
        file.sync()?;
    }
    file.close()
}

/// The directory that holds the name of `path`: for a bare name, the working directory.
pub fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => path,
    }
}

/// Makes directory `path` and those above it that are missing, and their names durable. With
/// `doubtful` existing ones are synced too: the process that made them may have been killed before
/// it synced them. Where that is not permitted, they were made by another user, and where the file
/// system does not support it, nothing can be done.
///
/// # Errors
/// The errors of checking, making and syncing directories.
pub fn create_dir_durably(fs: &dyn FileSystem, path: &Path, doubtful: bool) -> Result<()> {
    let mut missing = Vec::new();
    let mut rest = path.ancestors().filter(|dir| !dir.as_os_str().is_empty());
    let there = loop {
        match rest.next() {
            Some(dir) if !fs.exists(dir)? => missing.push(dir),
            there => break there,
        }
    };
    fs.create_dir_all(path)?;
    for made in missing.iter().rev() {
        fs.sync_dir(parent_of(made))?;
    }
    if doubtful {
        for dir in there.into_iter().chain(rest) {
            sync_dir_if_permitted(fs, parent_of(dir))?;
        }
    }
    Ok(())
}

/// Syncs a directory of any user. That of another user may be inaccessible, and not every file
/// system can do it.
fn sync_dir_if_permitted(fs: &dyn FileSystem, dir: &Path) -> Result<()> {
    use io::ErrorKind::{InvalidInput, PermissionDenied, ReadOnlyFilesystem, Unsupported};
    let synced = fs.sync_dir(dir);
    let errno = synced.as_ref().err().and_then(Error::os_error);
    match errno.map(|errno| io::Error::from_raw_os_error(errno).kind()) {
        Some(PermissionDenied | ReadOnlyFilesystem | InvalidInput | Unsupported) => Ok(()),
        _ => synced,
    }
}
