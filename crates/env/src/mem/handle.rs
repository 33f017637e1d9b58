//! Open files and locks of the file system in memory.
//!
//! One handle type serves reading and writing: the trait it is returned as decides what it may do.

use super::device::Completion;
use super::errors::os_error;
use super::fault::{FaultOp, Verdict};
use super::inode::Inode;
use super::world::{Shared, World};
use crate::file_system::{
    FileLock, FileSyncer, RandomAccessFile, ReadRequest, SequentialFile, WritableFile,
    read_one_by_one,
};
use crate::operation;
use pumice_base::hash::hash64;
use pumice_base::{Error, Result};
use pumice_port::sim;
use pumice_port::sync::RwLockReadGuard;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const EIO: i32 = 5;
const ENOSPC: i32 = 28;
const SECTOR_BYTES: u64 = super::inode::SECTOR_BYTES as u64;

/// An open file.
pub(super) struct MemFile {
    pub(super) shared: Arc<Shared>,
    pub(super) inode: Arc<Inode>,
    pub(super) epoch: u64,
    pub(super) position: u64,
    pub(super) path: PathBuf,
}

impl Clone for MemFile {
    fn clone(&self) -> Self {
        self.inode.pin();
        MemFile {
            shared: Arc::clone(&self.shared),
            inode: Arc::clone(&self.inode),
            epoch: self.epoch,
            position: self.position,
            path: self.path.clone(),
        }
    }
}

impl Drop for MemFile {
    fn drop(&mut self) {
        self.inode.unpin();
    }
}

impl MemFile {
    /// Excludes crashes while the guard lives; fails when one has already happened.
    fn enter(&self, operation: &str) -> Result<RwLockReadGuard<'_, World>> {
        let world = self.shared.world.read();
        if world.epoch == self.epoch && !world.dead {
            return Ok(world);
        }
        let path = self.path.display();
        Err(Error::io_message(format!("{operation}: {path}: opened before a crash")))
    }

    /// An operation has had its effect: waits for its completion, which a crash prevents.
    fn complete(&self, completion: Completion, operation: &str) -> Result<()> {
        if completion.wait() { self.enter(operation).map(drop) } else { Ok(()) }
    }

    fn sync_as(&self, operation: &str) -> Result<()> {
        let mark = self.inode.mark();
        let completion = self.shared.device.submit(FaultOp::Sync, self.inode.id());
        let verdict = self.shared.faults.judge(FaultOp::Sync, operation, &self.path)?;
        {
            let _world = self.enter(operation)?;
            if let Verdict::FailSync(failure) = verdict {
                self.inode.fail_sync(failure, mark);
                return Err(os_error(operation, &self.path, EIO));
            }
            self.inode.sync(mark);
        }
        self.complete(completion, operation)
    }

    fn read_as(&self, operation: &str, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let what = self.inode.id() ^ (offset << 20) ^ ((buf.len() as u64) << 8);
        let completion = self.shared.device.submit(FaultOp::Read, what);
        let verdict = self.shared.faults.judge(FaultOp::Read, operation, &self.path)?;
        let bytes = {
            let _world = self.enter(operation)?;
            let bytes = self.inode.read_at(offset, buf);
            bytes.ok_or_else(|| os_error(operation, &self.path, EIO))?
        };
        self.complete(completion, operation)?;
        match verdict {
            Verdict::ReadPart(part) => return Ok(bytes * part as usize / 1024),
            Verdict::FlipBit(bit) if bytes > 0 => {
                let bit = bit % (bytes as u64 * 8);
                buf[(bit / 8) as usize] ^= 1 << (bit % 8);
            }
            _ => {}
        }
        Ok(bytes)
    }

    /// Writes at `position`; returns how many bytes, and the errno when not all were written.
    fn write_as(&self, operation: &str, position: u64, data: &[u8]) -> Result<(usize, i32)> {
        let what = if sim::is_running() { self.inode.id() ^ hash64(data) } else { 0 };
        let completion = self.shared.device.submit(FaultOp::Write, what);
        let verdict = self.shared.faults.judge(FaultOp::Write, operation, &self.path)?;
        let (allowed, errno) = match verdict {
            Verdict::WritePart(part) => (data.len() * part as usize / 1024, EIO),
            _ => (data.len(), ENOSPC),
        };
        let astray = match verdict {
            Verdict::Misdirect(number) if position >= SECTOR_BYTES => {
                SECTOR_BYTES * (1 + number % (position / SECTOR_BYTES))
            }
            _ => 0,
        };
        let (written, number) = {
            let _world = self.enter(operation)?;
            self.inode.write(position, &data[..allowed], astray)
        };
        if verdict == Verdict::SpoilRange && written > 0 {
            self.inode.spoil(position..position + written as u64);
        }
        self.complete(completion, operation)?;
        self.inode.complete(number);
        Ok((written, errno))
    }
}

impl RandomAccessFile for MemFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.read_as(operation::PREAD, offset, buf)
    }
    fn read_batch(&self, requests: &mut [ReadRequest<'_>]) {
        read_one_by_one(self, requests);
    }
    fn needs_little_stack(&self) -> bool {
        true
    }
    fn prefetch(&self, _offset: u64, _bytes: u64) {}
    fn prefetches(&self) -> bool {
        false
    }
    fn read_unit(&self) -> usize {
        1
    }
    fn len(&self) -> u64 {
        self.inode.len()
    }
    fn path(&self) -> &Path {
        &self.path
    }
}

impl SequentialFile for MemFile {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        let bytes = self.read_as(operation::READ_SEQUENTIAL, self.position, buf)?;
        self.position += bytes as u64;
        Ok(bytes)
    }
    fn skip(&mut self, bytes: u64) -> Result<()> {
        self.position = self.position.saturating_add(bytes);
        Ok(())
    }
    fn path(&self) -> &Path {
        &self.path
    }
}

impl WritableFile for MemFile {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        let operation = operation::APPEND;
        let (written, errno) = self.write_as(operation, self.position, data)?;
        self.position += written as u64;
        if written < data.len() { Err(os_error(operation, &self.path, errno)) } else { Ok(()) }
    }
    fn overwrite(&mut self, ahead: u64, data: &[u8], step: u64) -> Result<()> {
        let operation = operation::APPEND;
        let (written, errno) = self.write_as(operation, self.position + ahead, data)?;
        if written < data.len() {
            return Err(os_error(operation, &self.path, errno));
        }
        self.position += step;
        Ok(())
    }
    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
    fn sync(&mut self) -> Result<()> {
        self.sync_as(operation::SYNC)
    }
    fn fsync(&mut self) -> Result<()> {
        self.sync_as(operation::FSYNC)
    }
    fn range_sync(&mut self, _offset: u64, _bytes: u64, _wait: bool) -> Result<()> {
        Ok(())
    }
    fn preallocate(&mut self, _end: u64) -> Result<()> {
        Ok(())
    }
    fn truncate(&mut self, bytes: u64) -> Result<()> {
        let operation = operation::truncate(bytes);
        let completion = self.shared.device.submit(FaultOp::Truncate, self.inode.id() ^ bytes);
        self.shared.faults.check(FaultOp::Truncate, &operation, &self.path)?;
        {
            let _world = self.enter(&operation)?;
            self.inode.truncate(bytes);
        }
        self.position = bytes;
        self.complete(completion, &operation)
    }
    fn close(&mut self) -> Result<()> {
        let completion = self.shared.device.submit(FaultOp::Close, self.inode.id());
        self.shared.faults.check(FaultOp::Close, operation::CLOSE, &self.path)?;
        self.enter(operation::CLOSE).map(drop)?;
        self.complete(completion, operation::CLOSE)
    }
    fn syncer(&self) -> Result<Arc<dyn FileSyncer>> {
        Ok(Arc::new(self.clone()))
    }
    fn len(&self) -> u64 {
        self.position
    }
    fn path(&self) -> &Path {
        &self.path
    }
}

impl FileSyncer for MemFile {
    fn sync(&self) -> Result<()> {
        self.sync_as(operation::SYNC)
    }
}

/// A held lock.
pub(super) struct MemFileLock {
    pub(super) shared: Arc<Shared>,
    pub(super) epoch: u64,
    pub(super) path: PathBuf,
}

impl FileLock for MemFileLock {}

impl Drop for MemFileLock {
    fn drop(&mut self) {
        let mut world = self.shared.world.write();
        if world.epoch == self.epoch {
            world.locks.remove(&self.path);
        }
    }
}
