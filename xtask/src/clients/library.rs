//! The C library that clients are run on, and the crates that they come from.
//!
//! Thread safety: plain functions.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where it is: `librocksdb.so` in `lib`, `rocksdb/c.h` in `include`.
pub struct Library {
    pub lib: PathBuf,
    pub include: PathBuf,
}

/// The library below `folder`, or the one that `cargo xtask capi` has made.
pub fn find(root: &Path, folder: Option<PathBuf>) -> Result<Library, String> {
    let is_own = folder.is_none();
    let folder = folder.unwrap_or_else(|| crate::suite::target(root).join("capi"));
    let library = Library { lib: folder.join("lib"), include: folder.join("include") };
    for needed in [library.lib.join("librocksdb.so"), library.include.join("rocksdb/c.h")] {
        if !needed.is_file() {
            return Err(format!("there is no {}: cargo xtask capi", needed.display()));
        }
    }
    if is_own {
        link(&library.lib, "librocksdb.so.11")?;
    }
    Ok(library)
}

/// Lets the loader find the library under the name that a program was linked with.
pub fn link(lib: &Path, name: &str) -> Result<(), String> {
    let link = lib.join(name);
    if link.symlink_metadata().is_ok() {
        return Ok(());
    }
    std::os::unix::fs::symlink("librocksdb.so", &link)
        .map_err(|e| format!("{}: {e}", link.display()))
}

/// An empty folder for what a client leaves.
pub fn scratch(folder: &Path) -> Result<(), String> {
    let failed = |e: std::io::Error| format!("{}: {e}", folder.display());
    if folder.is_dir() {
        fs::remove_dir_all(folder).map_err(failed)?;
    }
    fs::create_dir_all(folder).map_err(failed)
}

/// Fetches a crate by cargo, and finds where cargo has unpacked it.
pub fn fetch_crate(folder: &Path, name: &str, version: &str) -> Result<PathBuf, String> {
    let package = folder.join("fetch");
    fs::create_dir_all(package.join("src")).map_err(|e| format!("{}: {e}", package.display()))?;
    let manifest = format!(
        "[package]\nname = \"fetch\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[workspace]\n\n\
         [dependencies]\n{name} = \"={version}\"\n"
    );
    write(&package.join("Cargo.toml"), &manifest)?;
    write(&package.join("src/lib.rs"), "")?;
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    command.args(["metadata", "--format-version", "1"]).current_dir(&package);
    let output = command.output().map_err(|e| format!("cargo metadata: {e}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let wanted = format!("/{name}-{version}/Cargo.toml");
    let path = text.split('"').find(|path| path.ends_with(&wanted));
    let path = path.ok_or(format!("cargo metadata names no {wanted}"))?;
    Path::new(path).parent().map(Path::to_path_buf).ok_or(format!("{path} lies nowhere"))
}

/// Copies a folder of sources that may be read-only to `to`, so that a build may write there.
pub fn copy_sources(from: &Path, to: &Path) -> Result<(), String> {
    scratch(to)?;
    check(Command::new("cp").arg("-r").arg(from.join(".")).arg(to))?;
    check(Command::new("chmod").args(["-R", "u+w"]).arg(to))
}

/// Writes a file.
pub fn write(file: &Path, text: &str) -> Result<(), String> {
    fs::write(file, text).map_err(|e| format!("{}: {e}", file.display()))
}

/// A command that must succeed.
pub fn check(command: &mut Command) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{program}: {status}")),
        Err(error) => Err(format!("{program}: {error}")),
    }
}
