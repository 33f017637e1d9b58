//! Whether there is a database in a directory, and the lock of its writer.
//!
//! Thread safety: free functions. Invariant: a writer decides by what it finds once it holds the
//! lock; the check before that only makes sure that a refused open leaves nothing behind.

use std::path::Path;

use pumice_base::{Error, Result, SequenceNumber};
use pumice_env::filename::{self, FileType};
use pumice_env::{FileLock, FileSystem, create_dir_durably};

use crate::options::DbOptions;
use crate::recovery::best_efforts;
use crate::recovery::leader::{Leader, lock_own};

/// How a database is opened.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode<'a> {
    ReadWrite,
    /// As `ReadWrite`, and prepared transactions in the logs are kept until they end.
    TwoPhase,
    /// To follow a database that another process writes.
    Secondary {
        /// Directory of the info log.
        path: &'a Path,
    },
    /// To compact for a database that another process writes.
    Worker {
        /// Directory of the info log.
        path: &'a Path,
    },
    /// To follow a database that another process writes, with files of its own.
    Follower(&'a Leader),
    ReadOnly {
        error_if_wal_exists: bool,
        /// Only batches that end at or before it are seen.
        until: Option<SequenceNumber>,
    },
}

impl<'a> Mode<'a> {
    /// The database that is followed.
    pub fn leader(self) -> Option<&'a Leader> {
        if let Mode::Follower(leader) = self { Some(leader) } else { None }
    }

    /// Another process has the database open, and writes it.
    pub fn is_guest(self) -> bool {
        matches!(self, Mode::Secondary { .. } | Mode::Worker { .. } | Mode::Follower(_))
    }

    /// The database is written to.
    pub fn writes(self) -> bool {
        matches!(self, Mode::ReadWrite | Mode::TwoPhase)
    }
}

/// Takes the lock if the mode writes, or that of a follower's own directory; returns whether there
/// is a database, which is the leader's then.
pub(crate) fn lock_and_look(
    fs: &dyn FileSystem,
    path: &Path,
    options: &DbOptions,
    mode: Mode<'_>,
) -> Result<(Option<Box<dyn FileLock>>, bool)> {
    if let Mode::Follower(leader) = mode {
        let exists = look(fs, &leader.path, options, mode)?;
        return Ok((Some(lock_own(fs, path, options)?), exists));
    }
    let exists = look(fs, path, options, mode)?;
    if !mode.writes() {
        return Ok((None, exists));
    }
    // The directory of an existing database has been durable since its creation.
    create_dir_durably(fs, path, !exists)?;
    let lock = fs.lock(&filename::lock_file(path))?;
    // Another process may have created or destroyed it before this.
    Ok((Some(lock), look(fs, path, options, mode)?))
}

/// Returns whether there is a database; refuses what the options forbid. Writes nothing.
fn look(fs: &dyn FileSystem, path: &Path, options: &DbOptions, mode: Mode<'_>) -> Result<bool> {
    let current = filename::current_file(path);
    let best_efforts = options.best_efforts_recovery && !mode.is_guest();
    let exists = match best_efforts {
        true => !best_efforts::manifests(fs, path)?.is_empty(),
        false => fs.exists(&current)?,
    };
    if exists && options.error_if_exists && mode.writes() {
        return Err(Error::invalid_argument(format!(
            "{}: exists (error_if_exists is true)",
            path.display()
        )));
    }
    if !exists && !mode.writes() && best_efforts {
        return Err(best_efforts::no_manifest(path));
    }
    if !exists && !mode.writes() {
        // Report what a read of CURRENT would: the path and the reason.
        fs.read_file(&current)?;
    }
    if !exists && !options.create_if_missing {
        return Err(Error::invalid_argument(format!(
            "{}: does not exist (create_if_missing is false)",
            current.display()
        )));
    }
    if !exists {
        check_nothing_left(fs, path)?;
        if !options.wal_dir.is_empty() {
            check_nothing_left(fs, Path::new(&options.wal_dir))?;
        }
    }
    Ok(exists)
}

/// A database that has lost CURRENT is not created again: that would delete its tables and
/// overwrite its logs. Before CURRENT exists there are no tables, and no logs except for an empty
/// one.
fn check_nothing_left(fs: &dyn FileSystem, dir: &Path) -> Result<()> {
    let names = match fs.list(dir) {
        Ok(names) => names,
        Err(error) if error.is_not_found() => return Ok(()),
        Err(error) => return Err(error),
    };
    for name in names {
        let holds_data = match filename::parse(&name) {
            Some((_, FileType::Table)) => true,
            Some((_, FileType::Wal)) => fs.file_size(&dir.join(&name))? > 0,
            _ => false,
        };
        if holds_data {
            return Err(Error::corruption(format!(
                "{}: CURRENT is missing, and there is {name}: repair or destroy the database",
                dir.display()
            )));
        }
    }
    Ok(())
}
