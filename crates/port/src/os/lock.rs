//! Whole-file locks between processes, and within this one.
//!
//! A POSIX record lock belongs to the process: a second lock by the same process succeeds, and
//! closing *any* descriptor of the file drops it. So a process-wide table of held files, keyed by
//! device and inode, is consulted before the file is opened at all.
//!
//! Thread safety: the table's mutex is held over the whole of acquiring and releasing.

use super::file::{File, OpenFlags, stat};
use crate::sync::Mutex;
use crate::time;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// Files that are removed one after the other while this process locks them.
const TRIES_MAX: u32 = 100;

type FileIdentity = (u64, u64);

struct Holder {
    since_seconds: u64,
    thread: u64,
}

static HELD: Mutex<BTreeMap<FileIdentity, Holder>> = Mutex::new(BTreeMap::new());

/// Why a lock was not given.
#[derive(Debug)]
pub enum LockFailure {
    /// This process holds it: since a wall time in seconds, taken by a thread (kernel thread id).
    HeldHere {
        /// When it was taken, in seconds since 1970.
        since_seconds: u64,
        /// The kernel's id of the thread that took it.
        thread: u64,
    },
    /// The file could not be opened.
    Open(io::Error),
    /// The kernel refused the lock; EAGAIN or EACCES mean another process has it.
    Lock(io::Error),
}

/// A held lock; dropping it releases.
#[derive(Debug)]
pub struct FileLock {
    file: Option<File>,
    identity: FileIdentity,
}

impl FileLock {
    /// Locks the file at `path`, creating it when missing. Does not wait.
    pub fn acquire(path: &Path) -> Result<FileLock, LockFailure> {
        Self::acquire_with(path, &mut || ())
    }

    /// As `acquire`; `opened` runs when the file is open and not yet locked.
    pub(super) fn acquire_with(
        path: &Path,
        opened: &mut dyn FnMut(),
    ) -> Result<FileLock, LockFailure> {
        for _ in 0..TRIES_MAX {
            if let Some(lock) = Self::try_acquire(path, opened)? {
                return Ok(lock);
            }
        }
        Err(LockFailure::Lock(io::Error::from_raw_os_error(libc::EAGAIN)))
    }

    /// None if the file was removed before it was locked: the remover had it locked, and the next
    /// locker makes another file.
    fn try_acquire(path: &Path, opened: &mut dyn FnMut()) -> Result<Option<FileLock>, LockFailure> {
        let mut held = HELD.lock();
        if let Ok(found) = stat(path)
            && let Some(holder) = held.get(&(found.device, found.inode))
        {
            let Holder { since_seconds, thread } = *holder;
            return Err(LockFailure::HeldHere { since_seconds, thread });
        }
        let flags = OpenFlags { write: true, create: true, ..OpenFlags::READ };
        let file = File::open(path, flags).map_err(LockFailure::Open)?;
        opened();
        file.record_lock(true).map_err(LockFailure::Lock)?;
        let found = file.stat().map_err(LockFailure::Open)?;
        let identity = (found.device, found.inode);
        if !stat(path).is_ok_and(|named| (named.device, named.inode) == identity) {
            return Ok(None);
        }
        let holder = Holder { since_seconds: time::wall_seconds(), thread: super::thread_id() };
        held.insert(identity, holder);
        Ok(Some(FileLock { file: Some(file), identity }))
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        let mut held = HELD.lock();
        // Closing the only descriptor releases the record lock, whether or not unlocking worked.
        self.file = None;
        held.remove(&self.identity);
    }
}
