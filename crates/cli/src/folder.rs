//! Folders: removed, measured, copied, dropped from the page cache, text files replaced.
//!
//! Thread safety: plain calls; files that others change meanwhile are skipped.

use pumice_port::os::{self, Advice, File, OpenFlags};
use std::path::Path;
use std::process::Command;

/// Removes a folder with everything in it; a missing one is not an error, and what cannot be
/// removed stays.
pub fn remove(path: &Path) {
    for name in os::read_dir(path).unwrap_or_default() {
        let inner = path.join(name);
        if os::unlink(&inner).is_err() {
            remove(&inner);
        }
    }
    os::remove_dir(path).ok();
}

/// Bytes of all files in it, without preallocated space.
pub fn bytes(path: &Path) -> u64 {
    let names = os::read_dir(path).unwrap_or_default();
    let of = |name: &String| match os::stat(&path.join(name)) {
        Ok(stat) if stat.is_dir => bytes(&path.join(name)),
        Ok(stat) => stat.bytes.min(stat.allocated_bytes),
        Err(_) => 0,
    };
    names.iter().map(of).sum()
}

/// Copies a folder.
///
/// # Errors
/// `cp` failed.
pub fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let mut command = Command::new("cp");
    command.arg("-r").arg(from).arg(to);
    os::end_with_parent(&mut command);
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("cp -r {}: {status}", from.display())),
        Err(error) => Err(format!("cp: {error}")),
    }
}

/// Writes back the files of a folder and drops their pages from the page cache.
///
/// # Errors
/// What the operating system says.
pub fn drop_pages(path: &Path) -> std::io::Result<()> {
    for name in os::read_dir(path)? {
        let inner = path.join(name);
        if os::stat(&inner)?.is_dir {
            continue;
        }
        let file = File::open(&inner, OpenFlags::READ)?;
        file.sync_data()?;
        file.advise(0, 0, Advice::DontNeed)?;
    }
    Ok(())
}

/// Replaces a text file: it is there as before or as a whole.
///
/// # Errors
/// With the path.
pub fn replace(path: &Path, text: &str) -> Result<(), String> {
    let with_path = |error: std::io::Error| format!("{}: {error}", path.display());
    let new = path.with_extension("new");
    let flags =
        OpenFlags { write: true, create: true, truncate: true, read: false, ..OpenFlags::READ };
    let mut file = File::open(&new, flags).map_err(with_path)?;
    file.write_all(text.as_bytes()).map_err(with_path)?;
    os::rename(&new, path).map_err(with_path)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[pumice_test_macros::test]
    fn folders_are_measured_copied_and_removed() {
        let scratch = tempfile::tempdir().unwrap();
        let (one, two) = (scratch.path().join("one"), scratch.path().join("two"));
        os::create_dir_all(&one.join("inner")).unwrap();
        replace(&one.join("a"), "12345").unwrap();
        replace(&one.join("a"), "123").unwrap();
        replace(&one.join("inner/b"), "4567").unwrap();
        replace(&one.join("hole"), "").unwrap();
        os::truncate(&one.join("hole"), 1 << 20).unwrap();
        assert_eq!(bytes(&one), 7);
        drop_pages(&one).unwrap();
        copy(&one, &two).unwrap();
        remove(&one);
        assert_eq!((bytes(&two), os::stat(&one).is_err()), (7, true));
        assert_eq!(os::read_file(&two.join("a")).unwrap(), b"123");
        remove(&one);
        assert!(copy(&one, &two.join("x")).is_err());
    }
}
