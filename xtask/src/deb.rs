//! `cargo xtask deb`: a Debian package of the binary, in `target/deb`.
//!
//! It holds the stripped program (at most 10 MB), man pages and completions that the program itself
//! writes, the systemd unit, settings (`packaging/pumice.conf`, a conffile), licences and notices.
//! `--try` then installs, upgrades, removes and purges it in a copy of this system that is thrown
//! away (`packaging/try.sh`; needs root). Needs dpkg-deb.
//!
//! Thread safety: one caller, one process.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use crate::suite::target;

/// What is shipped is no larger.
const BINARY_BYTES_MAX: u64 = 10 << 20;
/// (file of the repository, place in the package, mode)
const FILES: &[(&str, &str, u32)] = &[
    ("packaging/pumice.service", "usr/lib/systemd/system/pumice.service", 0o644),
    ("packaging/pumice.conf", "etc/pumice/pumice.conf", 0o640),
    ("packaging/debian/postinst", "DEBIAN/postinst", 0o755),
    ("packaging/debian/prerm", "DEBIAN/prerm", 0o755),
    ("packaging/debian/postrm", "DEBIAN/postrm", 0o755),
    ("LICENSE-MIT", "usr/share/doc/pumice/LICENSE-MIT", 0o644),
    ("LICENSE-APACHE", "usr/share/doc/pumice/LICENSE-APACHE", 0o644),
    ("THIRD-PARTY.md", "usr/share/doc/pumice/THIRD-PARTY.md", 0o644),
    ("CHANGELOG.md", "usr/share/doc/pumice/changelog", 0o644),
];
/// (shell, place of its script)
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/pumice"),
    ("zsh", "usr/share/zsh/vendor-completions/_pumice"),
    ("fish", "usr/share/fish/vendor_completions.d/pumice.fish"),
];

/// Runs it with the words after `deb`.
pub fn run(root: &Path, words: &[&str]) -> ExitCode {
    let done = match words {
        [] => package(root, "").map(|path| println!("deb: {}", path.display())),
        ["--try"] => attempt(root),
        _ => Err("usage: cargo xtask deb [--try]".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("cargo xtask deb: {message}");
            ExitCode::FAILURE
        }
    }
}

pub(crate) fn with_path<T>(path: &Path, result: std::io::Result<T>) -> Result<T, String> {
    result.map_err(|error| format!("{}: {error}", path.display()))
}

/// Runs a command that must succeed; its output is returned.
pub(crate) fn output(command: &mut Command) -> Result<Vec<u8>, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("{name}: {error}"))?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(format!("{name}: {}", output.status)),
    }
}

/// Builds the program as it is shipped, and returns where it is.
pub fn binary(root: &Path) -> Result<PathBuf, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.current_dir(root).args(["rustc", "--locked", "--profile", "dist", "-p", "pumice-cli"]);
    // Relocations in the form that glibc reads from 2.36 on: a quarter of a megabyte less.
    build.args(["--features", "tls", "--", "-C", "link-arg=-Wl,-z,pack-relative-relocs"]);
    output(&mut build)?;
    let path = target(root).join("dist/pumice");
    let bytes = with_path(&path, fs::metadata(&path))?.len();
    println!("deb: the program has {:.1} MB", bytes as f64 / f64::from(1 << 20));
    match bytes <= BINARY_BYTES_MAX {
        true => Ok(path),
        false => Err(format!("the program has {bytes} bytes, above {BINARY_BYTES_MAX}")),
    }
}

/// Puts a file into the tree of the package, with the folders above it.
pub(crate) fn put(tree: &Path, place: &str, text: &[u8], mode: u32) -> Result<(), String> {
    let path = tree.join(place);
    if let Some(folder) = path.parent() {
        with_path(folder, fs::create_dir_all(folder))?;
    }
    with_path(&path, fs::write(&path, text))?;
    with_path(&path, fs::set_permissions(&path, fs::Permissions::from_mode(mode)))
}

/// The package's version: the workspace's, and `suffix`.
pub(crate) fn version(root: &Path) -> Result<String, String> {
    let path = root.join("Cargo.toml");
    let text = with_path(&path, fs::read_to_string(&path))?;
    let line = text.lines().find_map(|line| line.strip_prefix("version = \""));
    let version = line.and_then(|rest| rest.split('"').next());
    version.map(str::to_string).ok_or_else(|| "Cargo.toml has no version".to_string())
}

/// Makes the package, and returns where it is.
fn package(root: &Path, suffix: &str) -> Result<PathBuf, String> {
    let program = binary(root)?;
    let (out, version) = (target(root).join("deb"), version(root)? + suffix);
    let tree = out.join("tree");
    // What an earlier version had must not stay.
    if tree.exists() {
        with_path(&tree, fs::remove_dir_all(&tree))?;
    }
    put(&tree, "usr/bin/pumice", &with_path(&program, fs::read(&program))?, 0o755)?;
    for (file, place, mode) in FILES {
        let path = root.join(file);
        put(&tree, place, &with_path(&path, fs::read(&path))?, *mode)?;
    }
    for (shell, place) in COMPLETIONS {
        let script = output(Command::new(&program).args(["completions", shell]))?;
        put(&tree, place, &script, 0o644)?;
    }
    output(Command::new(&program).arg("man").arg(tree.join("usr/share/man/man1")))?;
    put(&tree, "DEBIAN/conffiles", b"/etc/pumice/pumice.conf\n", 0o644)?;
    let architecture = asked("dpkg", &["--print-architecture"])?;
    let control = control(&version, &architecture);
    put(&tree, "DEBIAN/control", control.as_bytes(), 0o644)?;
    pack(&tree, &out.join(format!("pumice_{version}_{architecture}.deb")))
}

/// The one line that a command prints.
pub(crate) fn asked(program: &str, words: &[&str]) -> Result<String, String> {
    let line = output(Command::new(program).args(words))?;
    Ok(String::from_utf8_lossy(&line).trim().to_string())
}

/// Makes the package at `path` of the files in `tree`.
pub(crate) fn pack(tree: &Path, path: &Path) -> Result<PathBuf, String> {
    let mut build = Command::new("dpkg-deb");
    build.args(["--root-owner-group", "--build"]).arg(tree).arg(path);
    output(&mut build)?;
    Ok(path.to_path_buf())
}

fn control(version: &str, architecture: &str) -> String {
    format!(
        "Package: pumice\nVersion: {version}\nArchitecture: {architecture}\n\
         Maintainer: the authors of Pumice <nobody@localhost>\nSection: database\n\
         Priority: optional\nDepends: libc6 (>= 2.36), passwd\nSuggests: systemd, redis-tools\n\
         Description: storage engine with RocksDB's files, and a server with Redis's protocol\n \
         Tools that read and write RocksDB's databases (ldb, sst_dump, db_bench, repair), and a\n \
         server that speaks Redis's protocol and keeps everything on disk.\n"
    )
}

/// Installs, upgrades, removes and purges the package in a copy of this system.
fn attempt(root: &Path) -> Result<(), String> {
    let (first, second) = (package(root, "")?, package(root, "+1")?);
    let conf = root.join("crates/cli/tests/serve/debian_redis.conf");
    let mut script = Command::new("sh");
    script.arg(root.join("packaging/try.sh")).arg(first).arg(second).arg(conf);
    let status = script.status().map_err(|error| format!("sh: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("packaging/try.sh: {status}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_is_packed_is_there() {
        let root = crate::repo_root();
        for (file, ..) in FILES {
            assert!(root.join(file).is_file(), "{file}");
        }
        let text = control("1.2.3", "amd64");
        assert!(text.contains("\nVersion: 1.2.3\nArchitecture: amd64\n") && text.ends_with('\n'));
        assert!(!version(&root).unwrap_or_default().is_empty());
    }
}
