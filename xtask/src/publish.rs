//! `cargo xtask publish`: whether the crates could be published; it never publishes one.
//!
//! 1. Each crate that users need has a description, keywords, a readme and both licence texts in
//!    its package. Addresses that do not exist yet are left out of the manifests, and named here.
//! 2. `cargo publish --dry-run` packs all of them in the order in which they would be published and
//!    builds each from its package alone. `--no-verify` leaves out the builds; a tree with changes
//!    needs `--allow-dirty`, as cargo's own command does.
//! 3. With `--newest` instead: the lock file of a program that depends on `pumice` has no crate for
//!    tests alone, and one that also depends on tokio, zstd and the newest release of each crate
//!    that `pumice` names resolves. That depends on the day, so no test does it.
//!
//! Needs crates.io for its index. Thread safety: one caller, one process.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use crate::suite::target;

/// In the order of publication: each depends on earlier ones only.
const CRATES: [&str; 14] = [
    "pumice-base",
    "pumice-compress",
    "pumice-filter",
    "pumice-port",
    "pumice-env",
    "pumice-cache",
    "pumice-memtable",
    "pumice-wal",
    "pumice-table",
    "pumice-manifest",
    "pumice",
    "pumice-server",
    "pumice-peer",
    "pumice-cli",
];
/// Files that each package must hold.
const FILES: [&str; 3] = ["LICENSE-APACHE", "LICENSE-MIT", "README.md"];
/// Fields that a manifest has as soon as there is an address.
const ADDRESSES: [&str; 3] = ["repository", "homepage", "documentation"];

/// Crates that programs with `pumice` are likely to have, and that share crates with it.
const NEIGHBOURS: [&str; 2] = ["tokio", "zstd"];
/// Crates for tests alone, which no user's lock file has.
const FOR_TESTS: [&str; 3] = ["loom", "proptest", "tempfile"];

/// Runs it with the words after `publish`.
pub fn run(root: &Path, words: &[&str]) -> ExitCode {
    let done = match words {
        ["--newest"] => newest(root),
        flags if flags.iter().all(|flag| ["--no-verify", "--allow-dirty"].contains(flag)) => {
            dry_run(root, flags)
        }
        _ => Err("usage: cargo xtask publish [--newest | [--no-verify] [--allow-dirty]]".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("cargo xtask publish: {message}");
            ExitCode::FAILURE
        }
    }
}

fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    command
}

/// The folder of a crate.
fn folder(name: &str) -> String {
    format!("crates/{}", name.strip_prefix("pumice-").unwrap_or(name))
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// What a manifest lacks, given the fields that it inherits from the workspace.
fn missing(manifest: &str, fields: &[&'static str]) -> Vec<&'static str> {
    let package = manifest.split("\n[").next().unwrap_or(manifest);
    let has = |field: &str| {
        package.lines().any(|line| {
            line.strip_prefix(field).is_some_and(|rest| rest.starts_with([' ', '.', '=']))
        })
    };
    fields.iter().filter(|field| !has(field)).copied().collect()
}

fn dry_run(root: &Path, flags: &[&str]) -> Result<(), String> {
    for name in CRATES {
        let manifest = read(&root.join(folder(name)).join("Cargo.toml"))?;
        let wanted = ["description", "license", "readme", "keywords", "categories", "version"];
        let lacks = missing(&manifest, &wanted);
        if !lacks.is_empty() {
            return Err(format!("{name} has no {}", lacks.join(", ")));
        }
        check_files(root, name)?;
    }
    let workspace = read(&root.join("Cargo.toml"))?;
    let package = workspace.split_once("[workspace.package]\n").map_or("", |(_, rest)| rest);
    let lacks = missing(package, &ADDRESSES);
    if !lacks.is_empty() {
        println!("publish: no address yet for {}", lacks.join(", "));
    }
    let mut command = cargo(root);
    command.args(["publish", "--dry-run"]).args(flags);
    command.args(CRATES.iter().flat_map(|name| ["-p", name]));
    let status = command.status().map_err(|error| format!("cargo: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("cargo publish --dry-run: {status}")) }
}

/// The package of `name` has the files that every package must have.
fn check_files(root: &Path, name: &str) -> Result<(), String> {
    let mut command = cargo(root);
    command.args(["package", "--list", "--allow-dirty", "--offline", "-p", name]);
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("cargo: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    // The program has other crates in it; libraries are published without what they name.
    let notices = (name == "pumice-cli").then_some("THIRD-PARTY.md");
    let mut wanted = FILES.iter().copied().chain(notices);
    match wanted.find(|file| !text.lines().any(|line| line == *file)) {
        Some(file) => Err(format!("the package of {name} has no {file}")),
        None => Ok(()),
    }
}

/// The crates from outside that `manifest`, the workspace's, names.
fn outside(manifest: &str) -> Vec<&str> {
    let table = manifest.split_once("[workspace.dependencies]\n").map_or("", |(_, rest)| rest);
    let lines = table.lines().take_while(|line| !line.starts_with('['));
    let names = lines.filter_map(|line| line.split_once(" = ")).map(|(name, _)| name);
    names.filter(|name| !name.starts_with("pumice") && !name.starts_with('#')).collect()
}

fn newest(root: &Path) -> Result<(), String> {
    let program = target(root).join("newest");
    let source = program.join("src");
    fs::create_dir_all(&source).map_err(|e| format!("{}: {e}", source.display()))?;
    let engine = root.join("crates/pumice");
    let manifest = format!(
        "[package]\nname = \"newest\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n\
         [dependencies]\npumice = {{ path = {:?} }}\n",
        engine.display().to_string()
    );
    for (path, text) in [
        (program.join("Cargo.toml"), manifest.as_str()),
        (source.join("main.rs"), "fn main() {}\n"),
    ] {
        fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    let workspace = read(&root.join("Cargo.toml"))?;
    let lock = read(&root.join("Cargo.lock"))?;
    let run = |arguments: &[&str], what: &str| {
        let status = cargo(&program).args(arguments).status();
        let status = status.map_err(|error| format!("cargo: {error}"))?;
        match status.success() {
            true => Ok(()),
            false => Err(format!("the newest crates {what}: cargo {}", arguments.join(" "))),
        }
    };
    run(&["generate-lockfile", "--quiet"], "do not go with pumice")?;
    let alone = read(&program.join("Cargo.lock"))?;
    if let Some((name, _)) = versions(&alone).find(|(name, _)| FOR_TESTS.contains(name)) {
        return Err(format!("users' lock files have {name}, which is for tests alone"));
    }
    let newest = [&["add", "--quiet"][..], &outside(&workspace), &NEIGHBOURS].concat();
    run(&newest, "cannot be found")?;
    run(&["generate-lockfile", "--quiet"], "do not go with pumice")?;
    let resolved = read(&program.join("Cargo.lock"))?;
    let changed = versions(&resolved).filter(|entry| !versions(&lock).any(|own| own == *entry));
    for (name, version) in changed.filter(|(name, _)| outside(&workspace).contains(name)) {
        println!("publish: resolves with {name} {version}");
    }
    Ok(())
}

/// Names and versions in a lock file.
fn versions(lock: &str) -> impl Iterator<Item = (&str, &str)> {
    let value = |line: &'_ str, field: &str| -> Option<(usize, usize)> {
        let start = line.find(field)? + field.len();
        Some((start, start + line[start..].find('"')?))
    };
    lock.split("[[package]]").filter_map(move |entry| {
        let (from, to) = value(entry, "name = \"")?;
        let (start, end) = value(entry, "version = \"")?;
        Some((&entry[from..to], &entry[start..end]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifests_and_locks_are_read() {
        let manifest =
            "[package]\nname = \"x\"\nlicense.workspace = true\n\n[features]\nreadme = []\n";
        assert_eq!(missing(manifest, &["license", "readme"]), ["readme"]);
        let text = "[workspace.dependencies]\npumice = { path = \"x\" }\n# C.\nsnap = \"1\"\n\n\
                    [y]\nz = \"1\"\n";
        assert_eq!(outside(text), ["snap"]);
        let lock = "version = 4\n[[package]]\nname = \"a\"\nversion = \"1.2\"\n";
        assert_eq!(versions(lock).collect::<Vec<_>>(), [("a", "1.2")]);
    }

    /// Each crate depends on earlier ones only, and no dependency of theirs is missing.
    #[test]
    fn the_order_is_one_of_publication() {
        let root = crate::repo_root();
        for (at, name) in CRATES.iter().enumerate() {
            let path = root.join(folder(name)).join("Cargo.toml");
            let manifest = read(&path).expect("a crate has a manifest");
            let (_, table) = manifest.split_once("\n[dependencies]\n").unwrap_or_default();
            let table = table.lines().take_while(|line| !line.starts_with('['));
            for line in table.filter(|line| line.starts_with("pumice")) {
                let end = line.find(['.', ' ']).unwrap_or(line.len());
                assert!(CRATES[..at].contains(&&line[..end]), "{name}: {line}");
            }
        }
    }
}
