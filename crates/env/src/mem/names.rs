//! Directories: names now, durable names, and the changes in between.
//!
//! A directory is a name in the one above it, as a file is: after a crash it is there if that name
//! is durable, and with it what is durable in it; otherwise all of it is gone. The two roots, `/`
//! and the working directory, are always there.
//!
//! A pending change is one step of the user's: a rename has both its names and survives a crash
//! completely or not at all. Changes are kept in one list for all directories, in the order they
//! were made, because a journalling file system keeps that order across directories.
//!
//! Invariant: `paths` has the roots and every directory that the names now lead to.

use super::crash::{CrashMode, NameLoss};
use super::errors::{EEXIST, ENOENT};
use super::inode::{Inode, SpaceMeter};
use pumice_base::random::Rng;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const ENOTEMPTY: i32 = 39;

type DirId = u64;
type Entries = BTreeMap<String, Thing>;

/// The roots, by path: of absolute ones, and of those from the working directory.
const ROOTS: [(&str, DirId); 3] = [("/", 0), ("", 1), (".", 1)];

/// What a name refers to.
#[derive(Clone)]
enum Thing {
    File(Arc<Inode>),
    Dir(DirId),
}

impl Thing {
    fn is(&self, other: &Thing) -> bool {
        match (self, other) {
            (Thing::File(a), Thing::File(b)) => Arc::ptr_eq(a, b),
            (Thing::Dir(a), Thing::Dir(b)) => a == b,
            _ => false,
        }
    }

    fn file(&self) -> Option<&Arc<Inode>> {
        match self {
            Thing::File(inode) => Some(inode),
            Thing::Dir(_) => None,
        }
    }
}

#[derive(Default)]
struct Dir {
    live: Entries,
    stable: Entries,
}

/// One name of one directory, and the change to it.
#[derive(Clone)]
struct Entry {
    dir: DirId,
    name: String,
    thing: Thing,
}

/// One step: a name removed, a name added, or both (a rename).
struct NameChange {
    number: u64,
    unset: Option<Entry>,
    set: Option<Entry>,
}

impl NameChange {
    fn touches(&self, dir: DirId) -> bool {
        [&self.unset, &self.set].into_iter().flatten().any(|e| e.dir == dir)
    }

    /// Applies the step to durable names. A name that was reused meanwhile stays.
    fn apply(&self, stable: &mut BTreeMap<DirId, Entries>) {
        if let Some(e) = &self.unset
            && let Some(entries) = stable.get_mut(&e.dir)
            && entries.get(&e.name).is_some_and(|thing| thing.is(&e.thing))
        {
            entries.remove(&e.name);
        }
        if let Some(e) = &self.set
            && let Some(entries) = stable.get_mut(&e.dir)
        {
            entries.insert(e.name.clone(), e.thing.clone());
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
        Names {
            paths: ROOTS.iter().map(|(path, id)| (PathBuf::from(path), *id)).collect(),
            dirs: ROOTS.iter().map(|(_, id)| (*id, Dir::default())).collect(),
            pending: Vec::new(),
            next_dir: ROOTS.len() as DirId,
            next_change: 1,
            journal_floor: 0,
        }
    }

    /// Directory and last component of `path`, when the directory exists.
    fn locate(&self, path: &Path) -> Option<(DirId, String)> {
        let dir = *self.paths.get(path.parent()?)?;
        Some((dir, path.file_name()?.to_str()?.to_string()))
    }

    fn entry(&self, path: &Path) -> Option<Entry> {
        let (dir, name) = self.locate(path)?;
        let thing = self.dirs.get(&dir)?.live.get(&name)?.clone();
        Some(Entry { dir, name, thing })
    }

    pub(super) fn find(&self, path: &Path) -> Option<Arc<Inode>> {
        self.entry(path)?.thing.file().cloned()
    }
    /// How many names now lead to `inode`.
    pub(super) fn names_of(&self, inode: &Arc<Inode>) -> u64 {
        let all = self.dirs.values().flat_map(|dir| dir.live.values());
        all.filter(|thing| thing.file().is_some_and(|file| Arc::ptr_eq(file, inode))).count() as u64
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
            if let Thing::File(inode) = &e.thing {
                inode.pin();
            }
            gone.extend(live.insert(e.name.clone(), e.thing.clone()));
        }
        gone.iter().filter_map(Thing::file).for_each(|inode| inode.unpin());
        self.pending.push(NameChange { number: self.next_change, unset, set });
        self.next_change += 1;
    }

    /// Gives `inode` the name `path`, which no directory has.
    pub(super) fn set(&mut self, path: &Path, inode: Arc<Inode>) -> Result<(), i32> {
        let (dir, name) = self.locate(path).ok_or(ENOENT)?;
        if self.is_dir(path) {
            return Err(EEXIST);
        }
        self.change(None, Some(Entry { dir, name, thing: Thing::File(inode) }));
        Ok(())
    }

    pub(super) fn remove(&mut self, path: &Path) -> Result<(), i32> {
        let entry = self.entry(path).filter(|e| e.thing.file().is_some()).ok_or(ENOENT)?;
        self.change(Some(entry), None);
        Ok(())
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> Result<(), i32> {
        let old = self.entry(from).ok_or(ENOENT)?;
        let (dir, name) = self.locate(to).ok_or(ENOENT)?;
        let is_dir = matches!(old.thing, Thing::Dir(_));
        if self.is_dir(to) || is_dir && self.find(to).is_some() {
            return Err(EEXIST);
        }
        if (old.dir, &old.name) == (dir, &name) {
            return Ok(());
        }
        let new = Entry { dir, name, thing: old.thing.clone() };
        self.change(Some(old), Some(new));
        if is_dir {
            self.find_dirs();
        }
        Ok(())
    }

    pub(super) fn make_dir(&mut self, path: &Path) -> Result<(), i32> {
        for made in path.ancestors().collect::<Vec<_>>().into_iter().rev() {
            if self.is_dir(made) {
                continue;
            }
            if self.find(made).is_some() {
                return Err(EEXIST);
            }
            let (dir, name) = self.locate(made).ok_or(ENOENT)?;
            let id = self.next_dir;
            self.next_dir += 1;
            self.paths.insert(made.to_path_buf(), id);
            self.dirs.insert(id, Dir::default());
            self.change(None, Some(Entry { dir, name, thing: Thing::Dir(id) }));
        }
        Ok(())
    }

    /// The directory's durable content comes back with its name, if a crash restores that.
    pub(super) fn remove_dir(&mut self, path: &Path) -> Result<(), i32> {
        let entry = self.entry(path).ok_or(ENOENT)?;
        let Thing::Dir(id) = entry.thing else { return Err(ENOENT) };
        if self.dirs.get(&id).is_some_and(|dir| !dir.live.is_empty()) {
            return Err(ENOTEMPTY);
        }
        self.change(Some(entry), None);
        self.paths.remove(path);
        Ok(())
    }

    /// Restores the invariant: follows the names now from the roots.
    fn find_dirs(&mut self) {
        self.paths.clear();
        let mut found: Vec<(PathBuf, DirId)> =
            ROOTS.iter().map(|(path, id)| (PathBuf::from(path), *id)).collect();
        while let Some((path, id)) = found.pop() {
            for (name, thing) in self.dirs.get(&id).into_iter().flat_map(|dir| &dir.live) {
                if let Thing::Dir(below) = thing {
                    found.push((path.join(name), *below));
                }
            }
            self.paths.insert(path, id);
        }
    }

    /// The names of files and directories in `path`, `None` when it is not a directory.
    pub(super) fn list(&self, path: &Path) -> Option<Vec<String>> {
        let id = self.paths.get(path)?;
        Some(self.dirs.get(id)?.live.keys().cloned().collect())
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
            paths: BTreeMap::new(),
            dirs: BTreeMap::new(),
            pending: Vec::new(),
            next_dir: self.next_dir,
            next_change: 1,
            journal_floor: 0,
        };
        for (id, mut entries) in stable {
            for thing in entries.values_mut() {
                let Thing::File(inode) = thing else { continue };
                // A file with two names stays one file.
                let new = renewed
                    .entry(Arc::as_ptr(inode))
                    .or_insert_with(|| Arc::new(inode.survivor(rng, mode.files, space)));
                new.pin();
                *inode = Arc::clone(new);
            }
            names.dirs.insert(id, Dir { live: entries.clone(), stable: entries });
        }
        names.find_dirs();
        names
    }
}
