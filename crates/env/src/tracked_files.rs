//! Files and their sizes, by path, and the sum, for a [`crate::SstFileManager`].
//!
//! Thread safety: from anywhere; its lock is a leaf. Nothing here waits or reads the disk.
//!
//! Invariant: `total` is the sum over `files`.

use pumice_port::sync::Mutex;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

#[derive(Default)]
struct Tracked {
    files: BTreeMap<PathBuf, u64>,
    total: u64,
}

impl Tracked {
    fn insert(&mut self, path: PathBuf, bytes: u64) {
        let before = self.files.insert(path, bytes).unwrap_or(0);
        self.total = self.total - before + bytes;
    }
    fn remove(&mut self, path: &Path) -> Option<u64> {
        let bytes = self.files.remove(path)?;
        self.total -= bytes;
        Some(bytes)
    }
}

/// See the head of this file.
#[derive(Default)]
pub(crate) struct TrackedFiles(Mutex<Tracked>);

impl TrackedFiles {
    /// `path` exists and has this many bytes; replaces what was known of it.
    pub fn insert(&self, path: &Path, bytes: u64) {
        self.0.lock().insert(path.to_path_buf(), bytes);
    }
    /// `path` is gone, if it was known at all.
    pub fn remove(&self, path: &Path) {
        self.0.lock().remove(path);
    }
    /// A file was renamed. An unknown file stays unknown: logs are not tracked.
    pub fn rename(&self, old: &Path, new: &Path) {
        let mut tracked = self.0.lock();
        if let Some(bytes) = tracked.remove(old) {
            tracked.insert(new.to_path_buf(), bytes);
        }
    }
    /// Forgets the files of directory `dir` that `forget` chooses.
    pub fn forget(&self, dir: &Path, forget: impl Fn(&Path) -> bool) {
        let mut tracked = self.0.lock();
        let known = tracked.files.keys();
        let gone: Vec<PathBuf> =
            known.filter(|path| path.parent() == Some(dir) && forget(path)).cloned().collect();
        gone.iter().for_each(|path| _ = tracked.remove(path));
    }
    /// Bytes of all.
    pub fn total_bytes(&self) -> u64 {
        self.0.lock().total
    }
    /// All of them.
    pub fn snapshot(&self) -> BTreeMap<PathBuf, u64> {
        self.0.lock().files.clone()
    }
}
