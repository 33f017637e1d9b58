//! A file system in memory that crashes and fails on command.
//!
//! It separates durable data from the rest. A file has `stable` bytes and an ordered list of
//! changes since the last sync; a directory has `stable` names and an ordered list of name changes
//! since its last sync. Syncing a file makes that file's changes stable, syncing a directory that
//! directory's names; nothing else does. [`MemFs::crash`] builds one of the states that a power cut
//! could leave: it depends only on the history, the seed and the mode.
//!
//! Invariants:
//! 1. Handles, locks and iterators from before a crash fail for good: they carry the epoch in
//!    which they were made. After `cut_power` everything fails.
//! 2. A crash happens at one moment: operations hold `world` shared (or exclusively, when they
//!    change names), the crash holds it exclusively.
//! 3. Lock order: `world`, then one inode's content, then the fault table.
//!
//! A directory is a name in the one above it: new, removed and renamed ones are durable when that
//! one is synced. Simplification: a rename between two directories becomes durable with the first
//! sync of either.
//!
//! Thread safety: `MemFs` is a handle, cloned freely and used from anywhere.

mod crash;
mod device;
mod errors;
mod fault;
mod handle;
mod inode;
mod names;
mod world;

pub use crash::{CrashMode, FileLoss, NameLoss};
pub use fault::{Fault, FaultOp, FaultRule, FsyncFailure};

use crate::file_system::{
    FileLock, FileOptions, FileSystem, RandomAccessFile, ReadFileOptions, SequentialFile,
    WritableFile,
};
use crate::operation;
use device::{Completion, Device};
use errors::{EAGAIN, EEXIST, ENOENT, halted, os_error};
use fault::FaultTable;
use handle::{MemFile, MemFileLock};
use inode::{Inode, SpaceMeter};
use names::Names;
use pumice_base::Result;
use pumice_base::hash::hash64;
use pumice_base::random::Rng;
use pumice_port::sim;
use pumice_port::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use pumice_port::time::now_nanos;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use world::{Shared, World};

/// An operation on names that was submitted, and the epoch in which; `None` outside simulations.
type Begun = Option<(Completion, u64)>;

/// A file system in memory, for tests and caches: it goes when its last handle does. It can also
/// crash and fail on command, as a power cut and a full disk would.
///
/// ```
/// # fn main() -> Result<(), pumice_base::Error> {
/// # use std::path::Path;
/// # use pumice_env::{FileSystem, MemFs};
/// let memory = MemFs::default();
/// let fs = memory.shared(); // For `DbOptions::file_system`.
/// fs.create_dir_all(Path::new("/db"))?;
/// assert!(fs.exists(Path::new("/db"))?);
/// assert_eq!(memory.used_bytes(), 0);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct MemFs {
    shared: Arc<Shared>,
}

impl Default for MemFs {
    /// [`MemFs::new`] with the seed 0.
    fn default() -> Self {
        Self::new(0)
    }
}

impl MemFs {
    /// An empty file system with the root directory; `seed` decides the lengths of short writes.
    pub fn new(seed: u64) -> Self {
        Self::with_names(Names::new(), Arc::new(SpaceMeter::default()), seed)
    }

    fn with_names(names: Names, space: Arc<SpaceMeter>, seed: u64) -> Self {
        let world =
            RwLock::new(World { epoch: 0, dead: false, names, locks: BTreeSet::new(), space });
        let (faults, device) = (FaultTable::new(seed), Device::new());
        MemFs { shared: Arc::new(Shared { world, faults, device }) }
    }

    /// This file system as the engine takes it.
    pub fn shared(&self) -> Arc<dyn FileSystem> {
        Arc::new(self.clone())
    }

    /// Cuts the power: leaves a state that `seed` chooses among those that `mode` allows, ends all
    /// handles and locks, and removes all faults. The file system serves that state from then on.
    pub fn crash(&self, seed: u64, mode: CrashMode) {
        let mut world = self.shared.world.write();
        let space = Arc::new(world.space.emptied());
        world.names = world.names.survivors(&mut Rng::new(seed), mode, &space);
        world.space = space;
        world.epoch += 1;
        world.locks.clear();
        self.shared.faults.clear();
    }

    /// Another file system with the state that a crash now would leave; this one continues.
    pub fn crashed_copy(&self, seed: u64, mode: CrashMode) -> MemFs {
        let world = self.shared.world.read();
        let space = Arc::new(world.space.emptied());
        let names = world.names.survivors(&mut Rng::new(seed), mode, &space);
        MemFs::with_names(names, space, seed)
    }

    /// Cuts the power while operations may be going on: from now on every operation here fails,
    /// including those submitted and not yet completed. Returns another file system with what is
    /// left, as `seed` and `mode` choose.
    pub fn cut_power(&self, seed: u64, mode: CrashMode) -> MemFs {
        let mut world = self.shared.world.write();
        world.dead = true;
        let space = Arc::new(world.space.emptied());
        let names = world.names.survivors(&mut Rng::new(seed), mode, &space);
        MemFs::with_names(names, space, seed)
    }

    /// Makes operations fail from now on as `rule` says. Rules are checked in the order they were
    /// added.
    pub fn add_fault(&self, rule: FaultRule) {
        self.shared.faults.add(rule);
    }
    /// Removes all rules and a pending halt.
    pub fn clear_faults(&self) {
        self.shared.faults.clear();
    }
    /// What was injected so far, one line each, for the failure message of a test.
    pub fn fault_log(&self) -> Vec<String> {
        self.shared.faults.log()
    }
    /// The number of operations so far that changed, or tried to change, files or names.
    pub fn change_count(&self) -> u64 {
        self.shared.faults.change_count()
    }
    /// Records from now on the operations that `change_count` counts.
    pub fn note_changes(&self) {
        self.shared.faults.note_changes();
    }
    /// The operations recorded, in order, with their paths; those that failed are among them.
    pub fn noted_changes(&self) -> Vec<(FaultOp, PathBuf)> {
        self.shared.faults.noted_changes()
    }
    /// Lets `changes` more changing operations happen; then every operation fails, as after the
    /// death of the process. A crash or `clear_faults` ends that.
    pub fn halt_after(&self, changes: u64) {
        self.shared.faults.halt_after(changes);
    }
    /// Limits the bytes all files together may hold; `None` for no limit.
    pub fn set_quota(&self, bytes: Option<u64>) {
        self.shared.world.read().space.set_quota(bytes, u64::MAX);
    }
    /// As `set_quota`, for `nanos` from now on the monotonic clock; then there is no limit.
    pub fn set_quota_for(&self, bytes: u64, nanos: u64) {
        let until = now_nanos().saturating_add(nanos);
        self.shared.world.read().space.set_quota(Some(bytes), until);
    }
    /// In a simulation, operations take `hundredths` of the usual time from now on; 0 for none.
    pub fn set_slowness(&self, hundredths: u64) {
        self.shared.device.set_slowness(hundredths);
    }
    /// Makes the sectors of a range unreadable (EIO) until they are written again; also after a
    /// crash.
    ///
    /// # Errors
    /// When there is no such file.
    pub fn spoil(&self, path: &Path, range: std::ops::Range<u64>) -> Result<()> {
        let world = self.shared.world.read();
        self.find(&world, operation::ACCESS, path)?.spoil(range);
        Ok(())
    }
    /// The bytes all files together hold.
    pub fn used_bytes(&self) -> u64 {
        self.shared.world.read().space.used()
    }

    /// Changes a file's bytes silently and durably: bit rot on the medium.
    ///
    /// # Errors
    /// When there is no such file.
    pub fn damage(&self, path: &Path, change: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
        let world = self.shared.world.read();
        self.find(&world, operation::ACCESS, path)?.damage(change);
        Ok(())
    }

    fn find(&self, world: &World, operation: &str, path: &Path) -> Result<Arc<Inode>> {
        world.names.find(path).ok_or_else(|| os_error(operation, path, ENOENT))
    }

    fn handle(&self, world: &World, inode: Arc<Inode>, path: &Path, position: u64) -> MemFile {
        inode.pin();
        let shared = Arc::clone(&self.shared);
        MemFile { shared, inode, epoch: world.epoch, position, path: path.to_path_buf() }
    }

    /// Submits an operation on names; returns at the moment of its effect.
    fn begin(&self, op: FaultOp, operation: &str, path: &Path) -> Result<Begun> {
        let mut begun = None;
        if sim::is_running() {
            let epoch = self.shared.world.read().epoch;
            let what = hash64(path.as_os_str().as_encoded_bytes());
            begun = Some((self.shared.device.submit(op, what), epoch));
        }
        self.shared.faults.check(op, operation, path)?;
        Ok(begun)
    }

    /// The world, for an operation that only reads.
    fn look(&self, operation: &str, path: &Path) -> Result<RwLockReadGuard<'_, World>> {
        let world = self.shared.world.read();
        if world.dead { Err(halted(operation, path)) } else { Ok(world) }
    }
    /// The world, for an operation that changes names.
    fn change(&self, operation: &str, path: &Path) -> Result<RwLockWriteGuard<'_, World>> {
        let world = self.shared.world.write();
        if world.dead { Err(halted(operation, path)) } else { Ok(world) }
    }

    /// Waits for the completion of an operation on names that has had its effect; a crash since
    /// its submission makes it fail.
    fn complete<T>(&self, begun: Begun, operation: &str, path: &Path, result: T) -> Result<T> {
        let Some((completion, epoch)) = begun else { return Ok(result) };
        if completion.wait() && self.look(operation, path)?.epoch != epoch {
            return Err(halted(operation, path));
        }
        Ok(result)
    }

    fn open(&self, operation: &str, path: &Path) -> Result<MemFile> {
        let begun = self.begin(FaultOp::Open, operation, path)?;
        let file = {
            let world = self.look(operation, path)?;
            let inode = self.find(&world, operation, path)?;
            self.handle(&world, inode, path, 0)
        };
        self.complete(begun, operation, path, file)
    }

    /// Opens for writing, making the file when it is missing.
    fn open_for_write(
        &self,
        operation: &str,
        path: &Path,
        truncate: bool,
    ) -> Result<Box<dyn WritableFile>> {
        let begun = self.begin(FaultOp::Create, operation, path)?;
        let file = {
            let mut world = self.change(operation, path)?;
            let inode = match world.names.find(path) {
                Some(inode) => inode,
                None => {
                    let inode = Arc::new(Inode::new(&world.space));
                    let made = world.names.set(path, Arc::clone(&inode));
                    made.map_err(|errno| os_error(operation, path, errno))?;
                    inode
                }
            };
            if truncate {
                inode.truncate(0);
            }
            let position = inode.len();
            self.handle(&world, inode, path, position)
        };
        self.complete(begun, operation, path, Box::new(file) as Box<dyn WritableFile>)
    }

    /// Runs `change` on the names, after checking for faults.
    fn change_names(
        &self,
        op: FaultOp,
        operation: &str,
        path: &Path,
        change: impl FnOnce(&mut Names) -> std::result::Result<(), i32>,
    ) -> Result<()> {
        let begun = self.begin(op, operation, path)?;
        let changed = change(&mut self.change(operation, path)?.names);
        changed.map_err(|errno| os_error(operation, path, errno))?;
        self.complete(begun, operation, path, ())
    }

    /// Runs `look` on the world, after checking for faults.
    fn ask<T>(
        &self,
        op: FaultOp,
        operation: &str,
        path: &Path,
        look: impl FnOnce(&World) -> Result<T>,
    ) -> Result<T> {
        let begun = self.begin(op, operation, path)?;
        let answer = look(&*self.look(operation, path)?)?;
        self.complete(begun, operation, path, answer)
    }
}

impl FileSystem for MemFs {
    fn is_own(&self) -> bool {
        true
    }
    fn open_random_with(
        &self,
        path: &Path,
        _options: &ReadFileOptions,
    ) -> Result<Arc<dyn RandomAccessFile>> {
        Ok(Arc::new(self.open(operation::OPEN_RANDOM, path)?))
    }

    /// Each of them is a disk of its own.
    fn device(&self, _path: &Path) -> Option<u64> {
        None
    }

    fn open_sequential(&self, path: &Path) -> Result<Box<dyn SequentialFile>> {
        Ok(Box::new(self.open(operation::OPEN_SEQUENTIAL, path)?))
    }

    fn create(&self, path: &Path, _options: &FileOptions) -> Result<Box<dyn WritableFile>> {
        self.open_for_write(operation::CREATE, path, true)
    }

    fn reopen_append(&self, path: &Path) -> Result<Box<dyn WritableFile>> {
        self.open_for_write(operation::REOPEN, path, false)
    }

    fn reuse(&self, old: &Path, new: &Path) -> Result<Box<dyn WritableFile>> {
        let operation = operation::recycle(new);
        self.change_names(FaultOp::Rename, &operation, old, |names| names.rename(old, new))?;
        Ok(Box::new(self.open(operation::REOPEN, new)?))
    }

    fn read_file(&self, path: &Path) -> Result<Vec<u8>> {
        let file = self.open(operation::OPEN_SEQUENTIAL, path)?;
        let mut data = vec![0; file.inode.len() as usize];
        let bytes = file.read_at(0, &mut data)?;
        data.truncate(bytes);
        Ok(data)
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        self.ask(FaultOp::Stat, operation::ACCESS, path, |world| {
            Ok(world.names.find(path).is_some() || world.names.is_dir(path))
        })
    }

    fn file_size(&self, path: &Path) -> Result<u64> {
        let operation = operation::FILE_SIZE;
        self.ask(FaultOp::Stat, operation, path, |world| {
            Ok(self.find(world, operation, path)?.len())
        })
    }

    fn modified_time(&self, path: &Path) -> Result<u64> {
        let operation = operation::MODIFIED_TIME;
        self.ask(FaultOp::Stat, operation, path, |world| {
            Ok(self.find(world, operation, path)?.modified_seconds())
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let operation = operation::rename(to);
        self.change_names(FaultOp::Rename, &operation, from, |names| names.rename(from, to))
    }

    fn link(&self, from: &Path, to: &Path) -> Result<()> {
        let operation = operation::link(to);
        self.change_names(FaultOp::Link, &operation, from, |names| {
            let inode = names.find(from).ok_or(ENOENT)?;
            if names.find(to).is_some() { Err(EEXIST) } else { names.set(to, inode) }
        })
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.change_names(FaultOp::Remove, operation::REMOVE, path, |names| names.remove(path))
    }

    fn num_file_links(&self, path: &Path) -> Result<u64> {
        self.ask(FaultOp::Stat, operation::NUM_LINKS, path, |world| {
            let inode = self.find(world, operation::NUM_LINKS, path)?;
            Ok(world.names.names_of(&inode))
        })
    }

    fn truncate(&self, path: &Path, bytes: u64) -> Result<()> {
        let operation = operation::truncate(bytes);
        self.ask(FaultOp::Truncate, &operation, path, |world| {
            self.find(world, &operation, path)?.truncate(bytes);
            Ok(())
        })
    }

    fn create_dir_all(&self, path: &Path) -> Result<()> {
        self.change_names(FaultOp::MakeDir, operation::MAKE_DIR, path, |names| names.make_dir(path))
    }

    fn remove_dir(&self, path: &Path) -> Result<()> {
        let operation = operation::REMOVE_DIR;
        self.change_names(FaultOp::Remove, operation, path, |names| names.remove_dir(path))
    }

    fn list(&self, path: &Path) -> Result<Vec<String>> {
        self.ask(FaultOp::List, operation::LIST, path, |world| {
            world.names.list(path).ok_or_else(|| os_error(operation::LIST, path, ENOENT))
        })
    }

    fn sync_dir(&self, path: &Path) -> Result<()> {
        self.change_names(FaultOp::SyncDir, operation::FSYNC, path, |names| names.sync_dir(path))
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        let begun = self.begin(FaultOp::Lock, operation::LOCK, path)?;
        if !self.exists(path)? {
            drop(self.open_for_write(operation::OPEN_LOCK, path, false)?);
        }
        let lock = {
            let mut world = self.change(operation::LOCK, path)?;
            if !world.locks.insert(path.to_path_buf()) {
                return Err(os_error(operation::LOCK, path, EAGAIN));
            }
            let (shared, epoch) = (Arc::clone(&self.shared), world.epoch);
            MemFileLock { shared, epoch, path: path.to_path_buf() }
        };
        self.complete(begun, operation::LOCK, path, Box::new(lock) as Box<dyn FileLock>)
    }

    fn free_space(&self, path: &Path) -> Result<u64> {
        let operation = operation::FREE_SPACE;
        self.ask(FaultOp::Stat, operation, path, |world| Ok(world.space.free()))
    }
}

#[cfg(test)]
mod device_tests;
#[cfg(test)]
mod tests;
