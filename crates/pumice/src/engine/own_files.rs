//! The tables and blob files of a follower: links to the leader's files, or copies where there can
//! be no links, in a directory of its own. The leader may then delete its files.
//!
//! A file is taken before a version that has it is published, and given up when no published
//! version has it any more. From then on it is an obsolete file as any other (`obsolete_files`): it
//! stays while a cursor reads it.
//!
//! The file IDENTITY of the directory says of which leader its files are. Files that an earlier
//! open has taken from that leader are kept if they are as long as the MANIFEST says: numbers of
//! files are not used again. Copies get their names when they are whole.
//!
//! Thread safety: one owner, which is in `Life::following`. Suspends on I/O.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use pumice_base::{Error, FileNumber, Result};
use pumice_env::filename::{self, FileType};
use pumice_env::{FileOptions, Temperature};
use pumice_manifest::Version;

use crate::engine::DbInner;
use crate::engine::versions::Versions;
use crate::ingest::transfer::{self, is_unlinkable};
use crate::recovery::leader::Leader;
use crate::state::DbState;
use crate::state::parts::Directory;
use crate::version::family::CfData;

/// See the module head. Without any for a secondary.
#[derive(Default)]
pub(crate) struct OwnFiles {
    /// Those that were taken and not given up, by number.
    taken: BTreeMap<FileNumber, PathBuf>,
    /// A link has proved impossible.
    copies: bool,
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
    from: PathBuf,
    to: PathBuf,
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
            let (number, bytes) = (file.number, file.file_size);
            if !self.taken.contains_key(&number) {
                let (from, to) = (dirs.table(file.path_id, number), family.table_of(file));
                self.take_file(db, Wanted { number, bytes, from, to })?;
            }
        }
        for (&number, blob) in version.blob_files() {
            if !self.taken.contains_key(&number) {
                let (from, to) = (dirs.blob(number), family.blob(number));
                let bytes = blob.shared.file_size();
                self.take_file(db, Wanted { number, bytes, from, to })?;
            }
        }
        Ok(())
    }

    fn take_file(&mut self, db: &DbInner, wanted: Wanted) -> Result<()> {
        pumice_port::fiber::maybe_yield();
        let (fs, Wanted { number, bytes, from, to }) = (&*db.dir.fs, wanted);
        let found = fs.exists(&to)?;
        if !found || fs.file_size(&to)? != bytes {
            if found {
                fs.remove(&to)?;
            }
            check_size(&from, bytes, fs.file_size(&from)?)?;
            self.link_or_copy(db, number, (&from, bytes), &to)?;
        }
        self.taken.insert(number, to);
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
        state.files.obsolete.unnamed.extend(left.into_values());
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
