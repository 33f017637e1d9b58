//! Reads a consistent state of a directory while another process writes to it.
//!
//! Nothing prevents a writer from changing CURRENT and the MANIFEST while they are read, or from
//! deleting files that they name. What was read is consistent if both are the same at the end as at
//! the beginning: no log that they name is deleted, or cleared for another use of its file, without
//! changing them. Otherwise everything is read again.
//!
//! Thread safety: free functions; nothing is written. Suspends.

use std::path::Path;
use std::time::Duration;

use pumice_base::{Error, ErrorKind, FileNumber, Result};
use pumice_env::{FileSystem, filename};
use pumice_port::thread;

use crate::recovery::version_recovery::current_manifest;

/// How often a directory that keeps changing is read.
const TRIES_MAX: u32 = 200;
/// Time that a writer may need to finish a change.
const PAUSE: Duration = Duration::from_millis(1);

/// The state of CURRENT and the MANIFEST; None if they could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp(Option<(FileNumber, u64)>);

impl Stamp {
    /// The present state.
    pub fn of(fs: &dyn FileSystem, dir: &Path) -> Self {
        let number = current_manifest(fs, dir).ok();
        let sized = |number| {
            let bytes = fs.file_size(&filename::manifest_file(dir, number)).ok()?;
            Some((number, bytes))
        };
        Stamp(number.and_then(sized))
    }

    /// # Errors
    /// TryAgain if they have changed.
    pub fn check(self, fs: &dyn FileSystem, dir: &Path) -> Result<()> {
        if Stamp::of(fs, dir) == self { Ok(()) } else { Err(changed(dir)) }
    }
}

fn changed(dir: &Path) -> Error {
    let text = format!("{}: the database changes while it is read", dir.display());
    Error::new(ErrorKind::TryAgain, text)
}

fn is_final(error: &Error, stamp: Stamp, fs: &dyn FileSystem, dir: &Path) -> bool {
    error.kind() != ErrorKind::TryAgain && stamp.check(fs, dir).is_ok()
}

/// Returns the result of `read`, which is called again while it fails and the directory changes.
///
/// # Errors
/// Of `read`; TryAgain if the directory keeps changing.
pub(crate) fn read_settled<T>(
    fs: &dyn FileSystem,
    dir: &Path,
    mut read: impl FnMut(Stamp) -> Result<T>,
) -> Result<T> {
    for _ in 0..TRIES_MAX {
        let stamp = Stamp::of(fs, dir);
        match read(stamp) {
            Err(error) if is_final(&error, stamp, fs, dir) => return Err(error),
            Err(_) => thread::sleep(PAUSE),
            done => return done,
        }
    }
    Err(changed(dir))
}
