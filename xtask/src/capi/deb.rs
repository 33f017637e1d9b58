//! `cargo xtask capi --deb`: the C library as Debian packages, in `target/deb`.
//!
//! `librocksdb-pumice` has the library under the names that programs were linked with, Debian's
//! for RocksDB 7.8 among them; it takes the place of Debian's `librocksdb7.8`.
//! `librocksdb-pumice-dev` has the header, the archive and what pkg-config reads. Programs in C++
//! that use RocksDB's classes cannot run on the library, so the packages conflict with those of
//! Debian.
//!
//! `--try` installs them in a copy of this system that is thrown away, with Debian's unmodified
//! `balboa-backend-rocksdb`, goes back to Debian's library, and removes them
//! (`packaging/try_library.sh`; needs root and Debian's archive).
//!
//! Thread safety: one caller, one process.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{LINKS, VERSION};
use crate::deb::{asked, output, pack, put, version, with_path};
use crate::suite::target;

/// What Debian's packages are called that have the same files.
const DEBIANS: &str = "librocksdb7.8 (= 7.8.3), librocksdb11 (= 11.12.0)";
const REPLACED: &str = "librocksdb7.8, librocksdb11";
/// Packages of Debian whose programs use RocksDB's C++ classes.
const CLASSES: &str = "rocksdb-tools, sortmerna";
/// The names of the library; the first is that of Debian's.
const NAMES: [&str; 3] = ["librocksdb.so.7.8", "librocksdb.so.11", "librocksdb.so.11.12.0"];
/// (file of the repository, name in the folder of a package's documents)
const DOCUMENTS: [(&str, &str); 5] = [
    ("docs/c-library.md", "c-library.md"),
    ("LICENSE-MIT", "LICENSE-MIT"),
    ("LICENSE-APACHE", "LICENSE-APACHE"),
    ("THIRD-PARTY.md", "THIRD-PARTY.md"),
    ("CHANGELOG.md", "changelog"),
];
/// What the trial installs besides: Debian's program, and the library to go back to.
const DEBIAN_PACKAGES: [&str; 3] =
    ["balboa-backend-common", "balboa-backend-rocksdb", "librocksdb7.8"];

/// Makes both packages, whose version ends with `suffix`, and returns where they are. `args` are
/// those of the library's build.
///
/// # Errors
/// What failed.
pub fn packages(root: &Path, suffix: &str, args: &[&str]) -> Result<[PathBuf; 2], String> {
    super::build(root, args)?;
    let made = target(root).join("capi");
    let version = version(root)? + suffix;
    let architecture = asked("dpkg", &["--print-architecture"])?;
    let triplet = asked("dpkg-architecture", &["-qDEB_HOST_MULTIARCH"])
        .or_else(|_| asked("cc", &["-print-multiarch"]))?;
    let lib = format!("usr/lib/{triplet}");
    let out = target(root).join("deb");
    let runtime = out.join("tree-library");
    start(root, &runtime, "librocksdb-pumice")?;
    let real = runtime.join(&lib).join("librocksdb-pumice.so");
    put(&runtime, &format!("{lib}/librocksdb-pumice.so"), b"", 0o644)?;
    let shared = made.join("lib/librocksdb.so");
    output(Command::new("strip").arg("--strip-unneeded").arg("-o").arg(&real).arg(&shared))?;
    for name in NAMES {
        link(&runtime.join(&lib).join(name))?;
    }
    put(&runtime, "DEBIAN/triggers", b"activate-noawait ldconfig\n", 0o644)?;
    put(&runtime, "DEBIAN/control", control(&version, &architecture).as_bytes(), 0o644)?;
    let develop = out.join("tree-develop");
    start(root, &develop, "librocksdb-pumice-dev")?;
    for (from, to) in [
        ("lib/librocksdb.a", format!("{lib}/librocksdb.a")),
        ("include/rocksdb/c.h", "usr/include/rocksdb/c.h".to_string()),
    ] {
        let path = made.join(from);
        put(&develop, &to, &with_path(&path, fs::read(&path))?, 0o644)?;
    }
    link(&develop.join(&lib).join(LINKS[0]))?;
    let config = pkg_config(&triplet);
    put(&develop, &format!("{lib}/pkgconfig/rocksdb.pc"), config.as_bytes(), 0o644)?;
    put(&develop, "DEBIAN/control", develop_control(&version, &architecture).as_bytes(), 0o644)?;
    let file = |name: &str| out.join(format!("{name}_{version}_{architecture}.deb"));
    let packages = [
        pack(&runtime, &file("librocksdb-pumice"))?,
        pack(&develop, &file("librocksdb-pumice-dev"))?,
    ];
    packages.iter().for_each(|path| println!("capi: {}", path.display()));
    Ok(packages)
}

/// An empty tree with the documents of a package.
fn start(root: &Path, tree: &Path, package: &str) -> Result<(), String> {
    if tree.exists() {
        with_path(tree, fs::remove_dir_all(tree))?;
    }
    for (file, name) in DOCUMENTS {
        let path = root.join(file);
        let text = with_path(&path, fs::read(&path))?;
        put(tree, &format!("usr/share/doc/{package}/{name}"), &text, 0o644)?;
    }
    Ok(())
}

fn link(at: &Path) -> Result<(), String> {
    if let Some(folder) = at.parent() {
        with_path(folder, fs::create_dir_all(folder))?;
    }
    with_path(at, std::os::unix::fs::symlink("librocksdb-pumice.so", at))
}

fn pkg_config(triplet: &str) -> String {
    format!(
        "prefix=/usr\nlibdir=${{prefix}}/lib/{triplet}\nincludedir=${{prefix}}/include\n\n\
         Name: rocksdb\nDescription: The C interface of RocksDB, by Pumice\nVersion: {VERSION}\n\
         Cflags: -I\"${{includedir}}\"\nLibs: -L\"${{libdir}}\" -lrocksdb\n"
    )
}

fn control(version: &str, architecture: &str) -> String {
    format!(
        "Package: librocksdb-pumice\nVersion: {version}\nArchitecture: {architecture}\n\
         Maintainer: the authors of Pumice <nobody@localhost>\nSection: libs\n\
         Priority: optional\nMulti-Arch: same\nDepends: libc6 (>= 2.34), libgcc-s1\n\
         Provides: {DEBIANS}\nReplaces: {REPLACED}\nConflicts: {REPLACED}, {CLASSES}\n\
         Description: RocksDB's C interface, by Pumice\n \
         Programs that were linked with RocksDB's C functions, since 7.8, run on it unchanged,\n \
         and read and write RocksDB's files. Programs that use its C++ classes do not.\n"
    )
}

fn develop_control(version: &str, architecture: &str) -> String {
    format!(
        "Package: librocksdb-pumice-dev\nVersion: {version}\nArchitecture: {architecture}\n\
         Maintainer: the authors of Pumice <nobody@localhost>\nSection: libdevel\n\
         Priority: optional\nDepends: librocksdb-pumice (= {version})\n\
         Replaces: librocksdb-dev\nConflicts: librocksdb-dev\n\
         Description: RocksDB's C interface, by Pumice (to build programs)\n \
         The header, a static library and what pkg-config reads.\n"
    )
}

/// Tries the packages in a copy of this system.
///
/// # Errors
/// What failed.
pub fn attempt(root: &Path, args: &[&str]) -> Result<(), String> {
    let [library, develop] = packages(root, "", args)?;
    let [second, second_develop] = packages(root, "+1", args)?;
    let folder = target(root).join("deb/debian");
    if folder.exists() {
        with_path(&folder, fs::remove_dir_all(&folder))?;
    }
    with_path(&folder, fs::create_dir_all(&folder))?;
    let mut fetch = Command::new("apt-get");
    output(fetch.arg("download").args(DEBIAN_PACKAGES).current_dir(&folder))?;
    let mut script = Command::new("sh");
    script.arg(root.join("packaging/try_library.sh")).args([
        library,
        develop,
        second,
        second_develop,
        folder,
    ]);
    let status = script.status().map_err(|error| format!("sh: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("packaging/try_library.sh: {status}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_is_there_and_described() {
        let root = crate::repo_root();
        for (file, _) in DOCUMENTS {
            assert!(root.join(file).is_file(), "{file}");
        }
        for text in [control("1.2.3", "amd64"), develop_control("1.2.3", "amd64")] {
            assert!(text.contains("\nVersion: 1.2.3\nArchitecture: amd64\n"), "{text}");
            assert!(text.ends_with('\n') && !text.contains("\n\n"), "{text}");
        }
        assert!(NAMES[1..].iter().all(|name| LINKS.contains(name)));
    }
}
