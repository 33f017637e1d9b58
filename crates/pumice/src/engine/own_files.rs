//! The tables and blob files of a follower: links to the leader's files, or copies where there can
//! be no links, in a directory of its own. The leader may then delete its files.
//!
//! A file is taken before a version that has it is published, and given up when no published
//! version has it any more. From then on it is an obsolete file as any other (`obsolete_files`): it
//! stays while a cursor reads it.
//!
//! The file IDENTITY of the directory says of which leader its files are. A leader that was
//! restored from a backup uses numbers of files again, with the same identity. So links of an
//! earlier open are made anew, and copies are kept only if the leader's file was not written since;
//! a table that is another one than was taken is an error. Copies get their names when they are
//! whole.
//!
//! Thread safety: one owner, which is in `Life::following`. Suspends on I/O.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use pumice_base::{Error, FileNumber, Result};
use pumice_env::filename::{self, FileType};
use pumice_env::{FileOptions, FileSystem, Temperature};
use pumice_manifest::Version;

use crate::engine::DbInner;
use crate::engine::versions::Versions;
use crate::ingest::transfer::{self, is_unlinkable};
use crate::recovery::leader::Leader;
use crate::state::DbState;
use crate::state::parts::Directory;
use crate::version::family::CfData;

/// Bytes that are compared at a time.
const COMPARED_BYTES: usize = 1 << 20;

/// See the module head. Without any for a secondary.
#[derive(Default)]
pub(crate) struct OwnFiles {
    /// Those that were taken and not given up, by number.
    taken: BTreeMap<FileNumber, Taken>,
    /// A link has proved impossible.
    copies: bool,
}

struct Taken {
    path: PathBuf,
    /// As the MANIFEST has it; that of blob files is not known.
    unique_id: [u64; 2],
}

/// Makes the directory that of a follower of this leader: what was another leader's is deleted. Its
/// own file is created as `how` says.
///
/// # Errors
/// I/O.
pub(crate) fn begin(dir: &Directory, how: &FileOptions) -> Result<()> {
    let identity = filename::identity_file(&dir.path);
    let known = dir.fs.exists(&identity)? && dir.fs.read_file(&identity)? == dir.db_id.as_bytes();
    if !known {
        for name in dir.fs.list(&dir.path)? {
            if let Some((_, FileType::Table | FileType::Blob)) = filename::parse(&name) {
                dir.fs.remove(&dir.path.join(name))?;
            }
        }
    }
    dir.write_identity(true, how)
}

/// A file of the leader, of `bytes` bytes, and the name that it gets.
struct Wanted {
    number: FileNumber,
    bytes: u64,
    unique_id: [u64; 2],
    from: PathBuf,
    to: PathBuf,
}

impl Wanted {
    /// An earlier open has copied the leader's file, as it is now.
    fn is_copied(&self, fs: &dyn FileSystem) -> Result<bool> {
        let (from, to) = (&*self.from, &*self.to);
        // A link costs nothing to make, and may be one to a file that the leader has no more.
        let is_link = fs.num_file_links(to).is_ok_and(|links| links > 1);
        if is_link || fs.file_size(to)? != self.bytes {
            return Ok(false);
        }
        let (theirs, own) = (fs.modified_time(from)?, fs.modified_time(to)?);
        Ok(theirs < own || theirs == own && is_same(fs, from, to)?)
    }
}

impl OwnFiles {
    /// Takes the files of `version`, the next one of `family`, that are not taken yet.
    ///
    /// # Errors
    /// NotFound if the leader has deleted one; Corruption if one has another length; I/O;
    /// ShutdownInProgress.
    pub fn take(
        &mut self,
        db: &DbInner,
        leader: &Leader,
        family: &CfData,
        version: &Arc<Version>,
    ) -> Result<()> {
        if Arc::ptr_eq(&family.super_version.load().version, version) {
            return Ok(());
        }
        let dirs = leader.tables(&family.name);
        for (_, file) in version.all_files() {
            let (number, bytes, unique_id) = (file.number, file.file_size, file.unique_id);
            let from = || dirs.table(file.path_id, number);
            if !self.has(number, unique_id, from)? {
                let (from, to) = (from(), family.table_of(file));
                self.take_file(db, Wanted { number, bytes, unique_id, from, to })?;
            }
        }
        for (&number, blob) in version.blob_files() {
            let (bytes, unique_id) = (blob.shared.file_size(), [0; 2]);
            if !self.has(number, unique_id, || dirs.blob(number))? {
                let (from, to) = (dirs.blob(number), family.blob(number));
                self.take_file(db, Wanted { number, bytes, unique_id, from, to })?;
            }
        }
        Ok(())
    }

    /// The file was taken.
    ///
    /// # Errors
    /// Corruption if that was another one of its number.
    fn has(
        &self,
        number: FileNumber,
        unique_id: [u64; 2],
        path: impl Fn() -> PathBuf,
    ) -> Result<bool> {
        match self.taken.get(&number) {
            Some(taken) if taken.unique_id != unique_id => Err(Error::corruption(format!(
                "{}: this is not the table that was followed: the leader was replaced",
                path().display()
            ))),
            taken => Ok(taken.is_some()),
        }
    }

    fn take_file(&mut self, db: &DbInner, wanted: Wanted) -> Result<()> {
        pumice_port::fiber::maybe_yield();
        let (fs, Wanted { number, bytes, from, to, .. }) = (&*db.dir.fs, &wanted);
        check_size(from, *bytes, fs.file_size(from)?)?;
        let found = fs.exists(to)?;
        if !found || !wanted.is_copied(fs)? {
            if found {
                fs.remove(to)?;
            }
            self.link_or_copy(db, *number, (from, *bytes), to)?;
        }
        let Wanted { number, unique_id, to: path, .. } = wanted;
        self.taken.insert(number, Taken { path, unique_id });
        Ok(())
    }

    fn link_or_copy(
        &mut self,
        db: &DbInner,
        number: FileNumber,
        (from, bytes): (&Path, u64),
        to: &Path,
    ) -> Result<()> {
        let fs = &*db.dir.fs;
        if !self.copies {
            match fs.link(from, to) {
                Err(error) if is_unlinkable(&error) => self.copies = true,
                linked => return linked,
            }
        }
        let stop = || match db.life.closing.load(Ordering::Acquire) {
            true => Err(Error::shutdown("the database is closing")),
            false => Ok(()),
        };
        let whole = filename::temp_file(&db.dir.path, number);
        let to_whole = (whole.as_path(), Temperature::Unknown);
        transfer::copy(fs, db.options().use_fsync, (from, bytes), to_whole, &stop)?;
        fs.rename(&whole, to)
    }

    /// Gives up what no published version has any more. Those of `before` were published until now.
    pub fn give_up(
        &mut self,
        versions: &Versions<'_>,
        state: &mut DbState,
        before: &[(Arc<CfData>, Arc<Version>)],
    ) {
        if self.taken.is_empty() || before.is_empty() {
            return;
        }
        let mut needed = BTreeSet::new();
        for cf in state.cfs.values() {
            needed.extend(cf.files().map(|file| file.number));
            needed.extend(cf.version.blob_files().keys());
        }
        let (kept, mut left) = std::mem::take(&mut self.taken)
            .into_iter()
            .partition::<BTreeMap<_, _>, _>(|(number, _)| needed.contains(number));
        self.taken = kept;
        for (data, version) in before {
            for (_, file) in version.all_files() {
                if left.remove(&file.number).is_some() {
                    versions.table_left(state, data, file, false);
                }
            }
            for (number, blob) in version.blob_files() {
                if left.remove(number).is_some() {
                    versions.blob_file_left(state, data, &blob.shared, false);
                }
            }
        }
        // Taken for a version that was not published.
        state.files.obsolete.unnamed.extend(left.into_values().map(|taken| taken.path));
    }
}

fn check_size(path: &Path, expected: u64, found: u64) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(Error::corruption(format!(
        "Sst file size mismatch: {}: the MANIFEST says {expected} bytes, the file has {found}",
        path.display()
    )))
}

/// The two files, of the same length, have the same bytes.
fn is_same(fs: &dyn FileSystem, one: &Path, other: &Path) -> Result<bool> {
    let (one, other) = (fs.open_random(one)?, fs.open_random(other)?);
    let (mut left, mut right) = (vec![0; COMPARED_BYTES], vec![0; COMPARED_BYTES]);
    let mut offset = 0;
    while offset < one.len() {
        pumice_port::fiber::maybe_yield();
        let read = (one.read_at(offset, &mut left)?, other.read_at(offset, &mut right)?);
        if read.0 == 0 || read.0 != read.1 || left[..read.0] != right[..read.1] {
            return Ok(false);
        }
        offset += read.0 as u64;
    }
    Ok(true)
}
