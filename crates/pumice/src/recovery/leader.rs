//! The database that a follower follows, and the directory that the follower has of its own.
//!
//! Thread safety: `Leader` never changes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pumice_base::{Error, Result};
use pumice_env::filename::{self, FileType, TableDirs};
use pumice_env::{FileLock, FileSystem};

use crate::options::{ColumnFamilyOptions, DbOptions};

/// The files of another database.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Leader {
    /// The directory of CURRENT and the MANIFEST.
    pub path: PathBuf,
    /// Where the tables of a column family are, by its name.
    dirs: BTreeMap<String, TableDirs>,
}

impl Leader {
    /// The database at `path` that was opened with `options` and `families`, by name. They become
    /// those of its follower at `own`, whose files are all there.
    ///
    /// # Errors
    /// InvalidArgument if files of the leader are there too.
    pub fn take_paths<'f>(
        path: &Path,
        own: &Path,
        options: &mut DbOptions,
        families: impl Iterator<Item = (&'f str, &'f mut ColumnFamilyOptions)>,
    ) -> Result<Self> {
        let db_paths = std::mem::take(&mut options.db_paths);
        options.wal_dir.clear();
        let mut dirs = BTreeMap::new();
        for (name, options) in families {
            let own_paths = std::mem::take(&mut options.cf_paths);
            let paths = if own_paths.is_empty() { db_paths.clone() } else { own_paths };
            dirs.insert(name.into(), TableDirs::new(paths.into_iter().map(|dir| dir.path), path));
        }
        if path == own || dirs.values().any(|dirs| dirs.all().iter().any(|dir| dir == own)) {
            return Err(needs_own(own, "the leader's files are there"));
        }
        Ok(Leader { path: path.to_path_buf(), dirs })
    }

    /// Where the tables of column family `name`, which was opened, are.
    pub fn tables(&self, name: &str) -> TableDirs {
        self.dirs.get(name).cloned().unwrap_or_else(|| TableDirs::of(&self.path))
    }
}

fn needs_own(dir: &Path, why: &str) -> Error {
    let text = format!("{}: a follower needs a directory of its own: {why}", dir.display());
    Error::invalid_argument(text)
}

/// Takes the directory `dir` for a follower: its tables will be deleted when the leader needs them
/// no more, so none may be another database's. A follower's has the file IDENTITY, see
/// `engine::own_files`.
///
/// # Errors
/// InvalidArgument if the directory is not a follower's; NotFound if there is none, unless
/// `create_if_missing`; IoError if it is in use.
pub(crate) fn lock_own(
    fs: &dyn FileSystem,
    dir: &Path,
    options: &DbOptions,
) -> Result<Box<dyn FileLock>> {
    if options.create_if_missing {
        fs.create_dir_all(dir)?;
    }
    let names = fs.list(dir)?;
    let has = |wanted: &[FileType]| {
        names.iter().any(|name| filename::parse(name).is_some_and(|(_, it)| wanted.contains(&it)))
    };
    // Of a database that lost the others, too: a repair may still save it.
    if has(&[FileType::Current, FileType::Descriptor, FileType::Wal, FileType::Options]) {
        return Err(needs_own(dir, "there is a database"));
    }
    if has(&[FileType::Table, FileType::Blob]) && !has(&[FileType::Identity]) {
        return Err(needs_own(dir, "there are tables that no follower took"));
    }
    fs.lock(&filename::lock_file(dir))
}
