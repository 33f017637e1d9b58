//! Files and directories by path and by descriptor.
//!
//! On a fiber, what may wait for the device suspends the fiber: reads, syncs and direct writes go
//! through the loop's ring, names and lengths are changed on the pool for blocking calls. Elsewhere
//! everything is the plain system call.
//!
//! Invariants cited by unsafe blocks:
//! 1. A `File` owns an open descriptor for its whole life; the calls below take it by number and
//!    pass no pointers.
//! 2. Strings given to libc are live NUL-terminated `CString`s, and out-structs are live locals.

use super::aligned::DIRECT_ALIGNMENT;
use super::read::Heat;
use crate::fiber::{is_alone, offload};
use crate::io::{self as ring, Op};
use crate::machine::{self, Resource};
use crate::task;
use std::ffi::CString;
use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

/// How [`File::open`] opens.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenFlags {
    /// Reading is allowed.
    pub read: bool,
    /// Writing is allowed.
    pub write: bool,
    /// Every write goes to the end.
    pub append: bool,
    /// The file is created when it does not exist.
    pub create: bool,
    /// The file must not exist.
    pub exclusive: bool,
    /// The file is emptied.
    pub truncate: bool,
    /// O_DIRECT: reads and writes bypass the page cache and must be aligned.
    pub direct: bool,
}

impl OpenFlags {
    /// For reading.
    pub const READ: OpenFlags = OpenFlags {
        read: true,
        write: false,
        append: false,
        create: false,
        exclusive: false,
        truncate: false,
        direct: false,
    };
    /// A new or emptied file for writing.
    pub const CREATE: OpenFlags =
        OpenFlags { read: false, write: true, create: true, truncate: true, ..OpenFlags::READ };
}

/// How a file will be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// No particular way.
    Normal,
    /// Random access: the kernel does not read ahead.
    Random,
    /// Sequentially: the kernel reads ahead.
    Sequential,
    /// The range will be read soon.
    WillNeed,
    /// The range will not be read soon; its cached pages may be dropped.
    DontNeed,
}

/// The result of [`stat`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStat {
    /// Length in bytes.
    pub bytes: u64,
    /// Last change of the content, in seconds since 1970.
    pub modified_seconds: u64,
    /// The name is a directory.
    pub is_dir: bool,
    /// Device number; with `inode` the identity of the file.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
    /// Bytes the file occupies on the device.
    pub allocated_bytes: u64,
    /// Names of the file.
    pub links: u64,
}

impl FileStat {
    fn from_metadata(m: &fs::Metadata) -> Self {
        FileStat {
            bytes: m.len(),
            modified_seconds: m.mtime().max(0) as u64,
            is_dir: m.is_dir(),
            device: m.dev(),
            inode: m.ino(),
            allocated_bytes: m.blocks() * 512,
            links: m.nlink(),
        }
    }
}

/// Repeats `call` while it is interrupted by a signal, and also while it would block: POSIX lets a
/// regular file do so, and a database can only try again.
pub(super) fn retry<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) if e.kind() == ErrorKind::WouldBlock => {
                std::thread::sleep(Duration::from_micros(100));
            }
            done => return done,
        }
    }
}

fn check(code: libc::c_int) -> io::Result<()> {
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// An open file. Closing happens on drop; use [`File::close`] where its error matters.
#[derive(Debug)]
pub struct File {
    pub(super) inner: fs::File,
    /// Opened with O_DIRECT.
    pub(super) direct: bool,
    pub(super) heat: Heat,
}

/// What `range_sync` asks the kernel for: without the flag to wait it only starts writing, and
/// leaves alone the pages that are already being written.
pub(super) fn range_sync_flags(wait_for_earlier: bool) -> u32 {
    match wait_for_earlier {
        true => libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE,
        false => libc::SYNC_FILE_RANGE_WRITE,
    }
}

impl File {
    /// Opens `path`. The descriptor is not inherited by programs that the process starts.
    pub fn open(path: &Path, flags: OpenFlags) -> io::Result<File> {
        let mut options = fs::OpenOptions::new();
        options.read(flags.read).write(flags.write || flags.append).mode(0o644);
        let mut custom = 0;
        for (wanted, bit) in [
            (flags.append, libc::O_APPEND),
            (flags.create, libc::O_CREAT),
            (flags.exclusive, libc::O_EXCL),
            (flags.truncate, libc::O_TRUNC),
            (flags.direct, libc::O_DIRECT),
        ] {
            if wanted {
                custom |= bit;
            }
        }
        options.custom_flags(custom);
        machine::ask(Resource::Descriptor)?;
        let inner = offload(|| retry(|| options.open(path)))?;
        Ok(File { inner, direct: flags.direct, heat: Heat::new() })
    }

    /// Reads at `offset` until `buf` is full or the file ends; the number of bytes read.
    #[inline]
    pub fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        if task::current_fiber().is_some() {
            return self.read_on_fiber(buf, offset);
        }
        self.read_here(buf, offset)
    }
    /// As [`File::read_at`] by plain system calls, which may block the thread.
    pub(super) fn read_here(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < buf.len() {
            let n = retry(|| self.inner.read_at(&mut buf[done..], offset + done as u64))?;
            done += n;
            if self.is_end(n) {
                break;
            }
        }
        Ok(done)
    }
    /// Continues reading from the file's position until `buf` is full or the file ends.
    pub fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        while done < buf.len() {
            match retry(|| (&self.inner).read(&mut buf[done..]))? {
                0 => break,
                n => done += n,
            }
        }
        Ok(done)
    }
    /// Writes all of `data` at the file's position.
    pub fn write_all(&mut self, data: &[u8]) -> io::Result<()> {
        let mut done = 0;
        while done < data.len() {
            match retry(|| (&self.inner).write(&data[done..]))? {
                0 => return Err(ErrorKind::WriteZero.into()),
                n => done += n,
            }
        }
        Ok(())
    }
    /// Writes all of `data` at `offset`. Into the page cache that is done at once, also on a fiber.
    pub fn write_all_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        let mut done = 0;
        while done < data.len() {
            let (rest, position) = (&data[done..], offset + done as u64);
            let through_ring =
                if self.direct { ring::run(Op::write(self.fd(), rest, position)) } else { None };
            let written = match through_ring {
                Some(result) => result.map(|n| n as usize),
                None => retry(|| self.inner.write_at(rest, position)),
            };
            match written? {
                0 => return Err(ErrorKind::WriteZero.into()),
                n => done += n,
            }
        }
        Ok(())
    }
    /// fdatasync: content and length are durable. Suspends a fiber.
    pub fn sync_data(&self) -> io::Result<()> {
        self.sync(false)
    }
    /// fsync: content and all metadata are durable. Suspends a fiber.
    pub fn sync_all(&self) -> io::Result<()> {
        self.sync(true)
    }
    /// The ring hands a sync to a thread of the kernel, which costs two wake-ups. When no other
    /// fiber could use the time, the loop's thread does it itself. A fiber that another thread
    /// starts there meanwhile waits until this one sync ends.
    fn sync(&self, all: bool) -> io::Result<()> {
        if !is_alone()
            && let Some(result) = ring::run(Op::sync(self.fd(), all))
        {
            return result.map(drop);
        }
        retry(|| if all { self.inner.sync_all() } else { self.inner.sync_data() })
    }
    /// The descriptor's number, for measuring bare system calls.
    #[doc(hidden)]
    pub fn as_raw(&self) -> RawFd {
        self.fd()
    }
    pub(super) fn fd(&self) -> RawFd {
        self.inner.as_raw_fd()
    }
    /// Starts writing the dirty pages of a range to the device, without a promise of durability.
    /// With `wait_for_earlier` it first waits until writes of the range that were started before
    /// are done. ENOSYS where the file system cannot do it.
    pub fn range_sync(&self, offset: u64, bytes: u64, wait_for_earlier: bool) -> io::Result<()> {
        let flags = range_sync_flags(wait_for_earlier);
        let fd = self.inner.as_raw_fd();
        offload(|| {
            retry(|| {
                // SAFETY: invariant 1.
                check(unsafe { libc::sync_file_range(fd, offset as i64, bytes as i64, flags) })
            })
        })
    }
    /// Reserves space for `bytes` from `offset`. With `keep_size` the length stays as it is.
    pub fn allocate(&self, offset: u64, bytes: u64, keep_size: bool) -> io::Result<()> {
        let mode = if keep_size { libc::FALLOC_FL_KEEP_SIZE } else { 0 };
        let fd = self.inner.as_raw_fd();
        offload(|| {
            retry(|| {
                // SAFETY: invariant 1.
                check(unsafe { libc::fallocate(fd, mode, offset as i64, bytes as i64) })
            })
        })
    }
    /// The file system keeps files in memory (tmpfs): reserving space there takes memory at once.
    pub fn is_in_memory(&self) -> bool {
        // SAFETY: an all-zero `statfs` is valid.
        let mut found: libc::statfs = unsafe { std::mem::zeroed() };
        // SAFETY: invariant 1; `found` is of the size that the call fills.
        let code = unsafe { libc::fstatfs(self.inner.as_raw_fd(), &raw mut found) };
        // The two are of one size, and signed or not as the C library has it.
        code == 0 && found.f_type.to_ne_bytes() == libc::TMPFS_MAGIC.to_ne_bytes()
    }
    /// Sets the length.
    pub fn truncate(&self, bytes: u64) -> io::Result<()> {
        offload(|| retry(|| self.inner.set_len(bytes)))
    }
    /// Tells the kernel how a range will be read; 0 bytes means to the end.
    pub fn advise(&self, offset: u64, bytes: u64, advice: Advice) -> io::Result<()> {
        let advice = match advice {
            Advice::Normal => libc::POSIX_FADV_NORMAL,
            Advice::Random => libc::POSIX_FADV_RANDOM,
            Advice::Sequential => libc::POSIX_FADV_SEQUENTIAL,
            Advice::WillNeed => libc::POSIX_FADV_WILLNEED,
            Advice::DontNeed => libc::POSIX_FADV_DONTNEED,
        };
        // SAFETY: invariant 1.
        let code = unsafe {
            libc::posix_fadvise(self.inner.as_raw_fd(), offset as i64, bytes as i64, advice)
        };
        if code == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(code)) }
    }
    /// Length, times and identity.
    pub fn stat(&self) -> io::Result<FileStat> {
        Ok(FileStat::from_metadata(&self.inner.metadata()?))
    }
    /// The unit, in bytes, of the positions and lengths of direct reads: what the kernel requires
    /// for this file (Linux 6.1), a power of two from 512 to [`DIRECT_ALIGNMENT`]; the latter where
    /// it does not say or requires more. Buffers need [`DIRECT_ALIGNMENT`] all the same.
    pub fn direct_read_unit(&self) -> usize {
        // SAFETY: `statx` is all integers, so zeroed is a value.
        let mut stat: libc::statx = unsafe { std::mem::zeroed() };
        let (fd, mask) = (self.inner.as_raw_fd(), libc::STATX_DIOALIGN);
        // SAFETY: invariants 1 and 2.
        let code =
            unsafe { libc::statx(fd, c"".as_ptr(), libc::AT_EMPTY_PATH, mask, &raw mut stat) };
        let unit = stat.stx_dio_offset_align as usize;
        let known = check(code).is_ok() && stat.stx_mask & mask != 0;
        let usable = unit.is_power_of_two() && (512..=DIRECT_ALIGNMENT).contains(&unit);
        if known && usable { unit } else { DIRECT_ALIGNMENT }
    }
    /// Closes, reporting what the kernel says (a network file system may say that a write failed).
    pub fn close(self) -> io::Result<()> {
        let fd = std::os::fd::IntoRawFd::into_raw_fd(self.inner);
        // SAFETY: `into_raw_fd` gave up ownership, so this is the one close of the descriptor.
        check(unsafe { libc::close(fd) })
    }

    /// A POSIX record lock (or unlock) on the whole file, without waiting.
    pub(super) fn record_lock(&self, lock: bool) -> io::Result<()> {
        // SAFETY: invariants 1 and 2; `flock` is all integers, so zeroed is a value.
        retry(|| unsafe {
            let mut range: libc::flock = std::mem::zeroed();
            range.l_type = (if lock { libc::F_WRLCK } else { libc::F_UNLCK }) as libc::c_short;
            range.l_whence = libc::SEEK_SET as libc::c_short;
            // EAGAIN here means "held by another process", which must not be retried.
            match check(libc::fcntl(self.inner.as_raw_fd(), libc::F_SETLK, &range)) {
                Err(e) if e.kind() == ErrorKind::WouldBlock => Ok(Err(e)),
                done => done.map(Ok),
            }
        })?
    }
}

/// The whole content of a file.
pub fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    machine::ask(Resource::Descriptor)?;
    offload(|| fs::read(path))
}

/// Length, times and identity of the file `path` leads to.
pub fn stat(path: &Path) -> io::Result<FileStat> {
    Ok(FileStat::from_metadata(&offload(|| fs::metadata(path))?))
}

/// Gives `to` the mode of `from`.
pub fn copy_mode(from: &Path, to: &Path) -> io::Result<()> {
    offload(|| std::fs::set_permissions(to, std::fs::metadata(from)?.permissions()))
}

/// Renames a file, replacing any file of the new name.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    offload(|| fs::rename(from, to))
}

/// Gives a file a second name.
pub fn link(from: &Path, to: &Path) -> io::Result<()> {
    offload(|| fs::hard_link(from, to))
}

/// Removes a name of a file.
pub fn unlink(path: &Path) -> io::Result<()> {
    offload(|| fs::remove_file(path))
}

/// Makes a directory; its parent must exist.
pub fn create_dir(path: &Path) -> io::Result<()> {
    offload(|| fs::create_dir(path))
}

/// Makes a directory and the missing ones above it; an existing directory is fine.
pub fn create_dir_all(path: &Path) -> io::Result<()> {
    offload(|| fs::create_dir_all(path))
}

/// Removes an empty directory.
pub fn remove_dir(path: &Path) -> io::Result<()> {
    offload(|| fs::remove_dir(path))
}

/// The names in a directory, without `.` and `..`, in no order. Names that are not UTF-8 are left
/// out: no file of a database has one.
pub fn read_dir(path: &Path) -> io::Result<Vec<String>> {
    machine::ask(Resource::Descriptor)?;
    offload(|| {
        let mut names = Vec::new();
        for entry in fs::read_dir(path)? {
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
        }
        Ok(names)
    })
}

/// Makes the names in a directory durable.
pub fn sync_dir(path: &Path) -> io::Result<()> {
    File::open(path, OpenFlags::READ)?.sync_all()
}

/// Sets the length of the file at `path`.
pub fn truncate(path: &Path, bytes: u64) -> io::Result<()> {
    File::open(path, OpenFlags { write: true, read: false, ..OpenFlags::READ })?.truncate(bytes)
}

/// Bytes an ordinary user can still write to the file system of `path`.
pub fn free_space(path: &Path) -> io::Result<u64> {
    let name = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: invariant 2; `statvfs` is all integers, so zeroed is a value.
    offload(|| unsafe {
        let mut stats: libc::statvfs = std::mem::zeroed();
        check(libc::statvfs(name.as_ptr(), &mut stats))?;
        Ok(stats.f_bavail * stats.f_frsize)
    })
}
