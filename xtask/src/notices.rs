//! `cargo xtask notices`: THIRD-PARTY.md, the crates that are compiled into the program, with their
//! versions, licences and licence texts.
//!
//! The list is `cargo tree`'s for the features that are shipped; the texts are those in the crates'
//! packages. Equal texts are printed once. Thread safety: one caller, one process.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// A crate: name, version, licence.
type Crate = (String, String, String);

/// Runs it.
pub fn run(root: &Path) -> ExitCode {
    let written = page(root).and_then(|page| {
        fs::write(root.join("THIRD-PARTY.md"), page).map_err(|error| error.to_string())
    });
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("cargo xtask notices: {message}");
            ExitCode::FAILURE
        }
    }
}

fn cargo(root: &Path, args: &[&str]) -> Result<String, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo).current_dir(root).args(args).output();
    let output = output.map_err(|error| format!("cargo: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

/// The crates from outside in the output of `cargo tree --format '{p}|{l}'`.
fn crates(tree: &str) -> Vec<Crate> {
    let mut found: Vec<Crate> = tree.lines().filter_map(crate_of).collect();
    found.sort();
    found.dedup();
    found
}

fn crate_of(line: &str) -> Option<Crate> {
    let (package, licence) = line.split_once('|')?;
    let mut words = package.split(' ');
    let (name, version) = (words.next()?, words.next()?.strip_prefix('v')?);
    // Ours have a path.
    let is_ours = package.contains("(/");
    let licence = licence.trim().trim_end_matches(" (*)").replace('/', " OR ");
    (!is_ours).then(|| (name.to_string(), version.to_string(), licence.replace("  ", " ")))
}

/// The unpacked package of a crate.
fn package(name: &str, version: &str) -> Result<PathBuf, String> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let sources = home.ok_or("there is no HOME")?.join("registry/src");
    let registries = fs::read_dir(&sources).map_err(|error| error.to_string())?;
    let folders =
        registries.flatten().map(|folder| folder.path().join(format!("{name}-{version}")));
    let mut folders = folders.filter(|folder| folder.is_dir());
    folders.next().ok_or_else(|| format!("{name} {version} is not unpacked: build it first"))
}

/// The licence texts of a package, those of C sources in it included.
fn texts(folder: &Path, depth: u32, found: &mut Vec<String>) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_uppercase();
        let is_licence =
            ["LICENSE", "LICENCE", "COPYING", "NOTICE"].iter().any(|start| name.starts_with(start));
        if path.is_dir() && depth > 0 {
            texts(&path, depth - 1, found);
        } else if is_licence && let Ok(text) = fs::read_to_string(&path) {
            let lines: Vec<_> = text.lines().map(str::trim_end).collect();
            found.push(lines.join("\n").trim().to_string());
        }
    }
}

fn page(root: &Path) -> Result<String, String> {
    let tree = cargo(
        root,
        &[
            "tree",
            "--locked",
            "-p",
            "pumice-cli",
            "--features",
            "tls",
            "--edges",
            "normal",
            "--prefix",
            "none",
            "--target",
            "x86_64-unknown-linux-gnu",
            "--format",
            "{p}|{l}",
        ],
    )?;
    let crates = crates(&tree);
    let mut page = String::from(
        "# Third-party notices\n\nWhat is compiled into the program `pumice` besides Pumice's own \
         code, with the licences of each.\nMade by `cargo xtask notices`.\n\n\
         | crate | version | licence |\n|---|---|---|\n",
    );
    let mut users: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (name, version, licence) in &crates {
        page.push_str(&format!("| {name} | {version} | {licence} |\n"));
        let mut found = Vec::new();
        texts(&package(name, version)?, 2, &mut found);
        for text in found {
            let names = users.entry(text).or_default();
            if names.last() != Some(&name.as_str()) {
                names.push(name);
            }
        }
    }
    let mut users: Vec<_> = users.into_iter().collect();
    users.sort_by(|a, b| a.1.cmp(&b.1));
    for (text, names) in users {
        page.push_str(&format!("\n## {}\n\n````text\n{text}\n````\n", names.join(", ")));
    }
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_are_read() {
        let tree = "pumice-cli v0.1.0 (/x/crates/cli)|MIT OR Apache-2.0\n\
                    zstd-sys v2.1.2+zstd.1.5.7|MIT/Apache-2.0\n\
                    libc v0.2.1|MIT OR Apache-2.0 (*)\nlibc v0.2.1|MIT OR Apache-2.0\n";
        let found = crates(tree);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0], ("libc".into(), "0.2.1".into(), "MIT OR Apache-2.0".into()));
        assert_eq!(found[1].2, "MIT OR Apache-2.0");
    }

    /// The page names each crate of the lock file that the table of the page must have, in its
    /// version: a new dependency or version needs `cargo xtask notices`.
    #[test]
    fn the_page_has_the_versions_of_the_lock_file() {
        let root = crate::repo_root();
        let page = fs::read_to_string(root.join("THIRD-PARTY.md")).expect("the page is there");
        let lock = fs::read_to_string(root.join("Cargo.lock")).expect("the lock file is there");
        let rows = page.lines().filter_map(|line| {
            let mut cells = line.strip_prefix("| ")?.split(" | ");
            Some((cells.next()?, cells.next()?))
        });
        let mut count = 0;
        for (name, version) in rows.filter(|(name, _)| *name != "crate") {
            let entry = format!("name = \"{name}\"\nversion = \"{version}\"\n");
            assert!(lock.contains(&entry), "{name} {version}: run `cargo xtask notices`");
            count += 1;
        }
        assert!(count > 20, "{count}");
    }
}
