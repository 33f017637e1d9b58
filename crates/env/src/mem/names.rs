//! Directories: names now, durable names, and the changes in between.
//!
//! A pending change is one step of the user's: a rename carries both its names and survives a crash
//! whole or not at all. Changes are kept in one list for all directories, in the order they were
//! made, because a journalling file system keeps that order across directories.

use super::crash::{CrashMode, NameLoss};
use super::inode::{Inode, SpaceMeter};
use super::{EEXIST, ENOENT};
use pumice_base::random::Rng;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const ENOTEMPTY: i32 = 39;

type DirId = u64;
type Entries = BTreeMap<String, Arc<Inode>>;

#[derive(Default)]
struct Dir {
    live: Entries,
    stable: Entries,
}

/// One name of one directory, and the file it got or lost.
#[derive(Clone)]
struct Entry {
    dir: DirId,
    name: String,
    inode: Arc<Inode>,
}

/// One step: a name that goes, a name that comes, or both (a rename).
struct NameChange {
    number: u64,
    unset: Option<Entry>,
    set: Option<Entry>,
}

impl NameChange {
    fn touches(&self, dir: DirId) -> bool {
        [&self.unset, &self.set].into_iter().flatten().any(|e| e.dir == dir)
    }

    /// Applies the step to durable names. A name that meanwhile means another file stays.
    fn apply(&self, stable: &mut BTreeMap<DirId, Entries>) {
        if let Some(e) = &self.unset
            && let Some(entries) = stable.get_mut(&e.dir)
            && entries.get(&e.name).is_some_and(|inode| Arc::ptr_eq(inode, &e.inode))
        {
            entries.remove(&e.name);
        }
        if let Some(e) = &self.set
            && let Some(entries) = stable.get_mut(&e.dir)
        {
            entries.insert(e.name.clone(), Arc::clone(&e.inode));
        }
    }
}

/// See the head of this file.
pub(super) struct Names {
    paths: BTreeMap<PathBuf, DirId>,
    dirs: BTreeMap<DirId, Dir>,
    pending: Vec<NameChange>,
    next_dir: DirId,
    next_change: u64,
    /// A journal that was synced to here has everything before it too.
    journal_floor: u64,
}

impl Names {
    pub(super) fn new() -> Self {
        let mut names = Names {
            paths: BTreeMap::new(),
            dirs: BTreeMap::new(),
            pending: Vec::new(),
            next_dir: 0,
            next_change: 1,
            journal_floor: 0,
        };
        names.insert_dir(Path::new("/"));
        names.insert_dir(Path::new(""));
        names
    }

    fn insert_dir(&mut self, path: &Path) {
        self.paths.insert(path.to_path_buf(), self.next_dir);
        self.dirs.insert(self.next_dir, Dir::default());
        self.next_dir += 1;
    }

    /// Directory and last component of `path`, when the directory exists.
    fn locate(&self, path: &Path) -> Option<(DirId, String)> {
        let dir = *self.paths.get(path.parent()?)?;
        Some((dir, path.file_name()?.to_str()?.to_string()))
    }

    fn entry(&self, path: &Path) -> Option<Entry> {
        let (dir, name) = self.locate(path)?;
        let inode = Arc::clone(self.dirs.get(&dir)?.live.get(&name)?);
        Some(Entry { dir, name, inode })
    }

    pub(super) fn find(&self, path: &Path) -> Option<Arc<Inode>> {
        self.entry(path).map(|e| e.inode)
    }
    pub(super) fn is_dir(&self, path: &Path) -> bool {
        self.paths.contains_key(path)
    }

    fn live(&mut self, dir: DirId) -> Option<&mut Entries> {
        self.dirs.get_mut(&dir).map(|d| &mut d.live)
    }

    /// Applies a step to the names now and notes it as pending.
    fn change(&mut self, unset: Option<Entry>, set: Option<Entry>) {
        let mut gone = Vec::new();
        if let Some(e) = &unset
            && let Some(live) = self.live(e.dir)
        {
            gone.extend(live.remove(&e.name));
        }
        if let Some(e) = &set
            && let Some(live) = self.live(e.dir)
        {
            e.inode.pin();
            gone.extend(live.insert(e.name.clone(), Arc::clone(&e.inode)));
        }
        gone.iter().for_each(|inode| inode.unpin());
        self.pending.push(NameChange { number: self.next_change, unset, set });
        self.next_change += 1;
    }

    /// Gives `inode` the name `path`.
    pub(super) fn set(&mut self, path: &Path, inode: Arc<Inode>) -> Result<(), i32> {
        let (dir, name) = self.locate(path).ok_or(ENOENT)?;
        self.change(None, Some(Entry { dir, name, inode }));
        Ok(())
    }

    pub(super) fn remove(&mut self, path: &Path) -> Result<(), i32> {
        let entry = self.entry(path).ok_or(ENOENT)?;
        self.change(Some(entry), None);
        Ok(())
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> Result<(), i32> {
        if self.is_dir(from) {
            return self.rename_dir(from, to);
        }
        let old = self.entry(from).ok_or(ENOENT)?;
        let (dir, name) = self.locate(to).ok_or(ENOENT)?;
        if (old.dir, &old.name) != (dir, &name) {
            let new = Entry { dir, name, inode: Arc::clone(&old.inode) };
            self.change(Some(old), Some(new));
        }
        Ok(())
    }

    fn rename_dir(&mut self, from: &Path, to: &Path) -> Result<(), i32> {
        if self.is_dir(to) || self.find(to).is_some() {
            return Err(EEXIST);
        }
        self.locate(to).ok_or(ENOENT)?;
        for (path, id) in std::mem::take(&mut self.paths) {
            let moved = match path.strip_prefix(from) {
                Ok(rest) if rest.as_os_str().is_empty() => to.to_path_buf(),
                Ok(rest) => to.join(rest),
                Err(_) => path,
            };
            self.paths.insert(moved, id);
        }
        Ok(())
    }

    pub(super) fn make_dir(&mut self, path: &Path) -> Result<(), i32> {
        for dir in path.ancestors().collect::<Vec<_>>().into_iter().rev() {
            if self.find(dir).is_some() {
                return Err(EEXIST);
            }
            if !self.is_dir(dir) {
                self.insert_dir(dir);
            }
        }
        Ok(())
    }

    pub(super) fn remove_dir(&mut self, path: &Path) -> Result<(), i32> {
        let id = *self.paths.get(path).ok_or(ENOENT)?;
        if self.list(path).is_some_and(|names| !names.is_empty()) {
            return Err(ENOTEMPTY);
        }
        self.paths.remove(path);
        self.dirs.remove(&id);
        Ok(())
    }

    /// The names of files and directories in `path`, `None` when it is no directory.
    pub(super) fn list(&self, path: &Path) -> Option<Vec<String>> {
        let id = self.paths.get(path)?;
        let mut names: Vec<String> = self.dirs.get(id)?.live.keys().cloned().collect();
        for dir in self.paths.keys() {
            if dir.parent() == Some(path)
                && let Some(name) = dir.file_name().and_then(|n| n.to_str())
            {
                names.push(name.to_string());
            }
        }
        Some(names)
    }

    pub(super) fn sync_dir(&mut self, path: &Path) -> Result<(), i32> {
        let id = *self.paths.get(path).ok_or(ENOENT)?;
        if !self.pending.iter().any(|c| c.touches(id)) {
            return Ok(());
        }
        let mut stable = self.take_stable();
        let (synced, kept): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.pending).into_iter().partition(|c| c.touches(id));
        for change in &synced {
            change.apply(&mut stable);
            self.journal_floor = self.journal_floor.max(change.number);
        }
        self.pending = kept;
        for (id, entries) in stable {
            if let Some(dir) = self.dirs.get_mut(&id) {
                dir.stable = entries;
            }
        }
        Ok(())
    }

    fn take_stable(&mut self) -> BTreeMap<DirId, Entries> {
        self.dirs.iter_mut().map(|(id, dir)| (*id, std::mem::take(&mut dir.stable))).collect()
    }

    /// The names and files after a crash, everything durable.
    pub(super) fn survivors(
        &self,
        rng: &mut Rng,
        mode: CrashMode,
        space: &Arc<SpaceMeter>,
    ) -> Names {
        let mut stable: BTreeMap<DirId, Entries> =
            self.dirs.iter().map(|(id, dir)| (*id, dir.stable.clone())).collect();
        let loss = mode.names.choose(rng);
        let journal_end = self.journal_floor + rng.uniform(self.next_change - self.journal_floor);
        for change in &self.pending {
            let survives = match loss {
                NameLoss::Unsynced => false,
                NameLoss::Nothing => true,
                NameLoss::Journal => change.number <= journal_end,
                NameLoss::Strict | NameLoss::Mixed => rng.one_in(2),
            };
            if survives {
                change.apply(&mut stable);
            }
        }
        let mut renewed: BTreeMap<*const Inode, Arc<Inode>> = BTreeMap::new();
        let mut names = Names {
            paths: self.paths.clone(),
            dirs: BTreeMap::new(),
            pending: Vec::new(),
            next_dir: self.next_dir,
            next_change: 1,
            journal_floor: 0,
        };
        for (id, mut entries) in stable {
            for inode in entries.values_mut() {
                // A file with two names stays one file.
                let new = renewed
                    .entry(Arc::as_ptr(inode))
                    .or_insert_with(|| Arc::new(inode.survivor(rng, mode.files, space)));
                new.pin();
                *inode = Arc::clone(new);
            }
            names.dirs.insert(id, Dir { live: entries.clone(), stable: entries });
        }
        names
    }
}
