//! `cargo xtask tidy`: the project's rules that rustfmt and clippy cannot check.
//!
//! | rule | where |
//! |---|---|
//! | a crate depends only on lower floors and on the edges written down | `floors` |
//! | a room of the engine names only rooms below it | `rooms` |
//! | no circle of files across the folders of a crate | `circles` |
//! | no circle of files of the engine by calls | `calls` |
//! | the port seam, unsafe code and unfinished work | `bans` |
//! | keys are split, built and compared as types; files are named in one place | `raw_keys` |
//! | a module with a folder is its mod.rs | `layout` |
//! | file heads, lengths of files, functions and lines | `lengths` |
//! | the engine's wiring is at most a fifth of its crate | `owners` |
//! | no file that no crate reaches | `reach` |
//! | rows of options name a test, and are read | `proofs` |
//! | differences from RocksDB name a test | `differences` |
//! | no second default of an option, no second enumeration | `defaults` |
//! | what pages and comments refer to is there | `references` |
//! | the walks of ARCHITECTURE.md follow the calls | `walks` |
//! | the traits of files have no default methods | `wrappers` |
//! | every name at the root of the crate `pumice` has an example | `examples` |
//! | counted lines of the programs in docs/api-comparison | `api_lines` |
//!
//! Exceptions are in `xtask/tidy-allow.txt`, one per line, and may only shrink: an entry that is no
//! longer needed, or allows more than needed, is itself a violation.

use std::collections::BTreeMap;
use std::path::Path;

pub mod api_lines;
mod bans;
mod calls;
mod circles;
mod defaults;
mod differences;
mod examples;
mod floors;
mod layout;
mod lengths;
mod owners;
mod proofs;
mod raw_keys;
mod reach;
mod references;
mod rooms;
mod source;
#[cfg(test)]
mod tests;
mod walks;
mod wrappers;

use source::Source;

const ALLOW_FILE: &str = "xtask/tidy-allow.txt";

/// A violation of a rule.
pub struct Violation {
    /// Relative path, with `:line` where there is one.
    pub place: String,
    pub message: String,
    /// The key under which the allow-list may list it, and by how much it exceeds the rule.
    pub exception: Option<(String, u64)>,
}

impl Violation {
    fn new(place: impl Into<String>, message: impl Into<String>) -> Self {
        Violation { place: place.into(), message: message.into(), exception: None }
    }

    fn excusable(mut self, key: String, amount: u64) -> Self {
        self.exception = Some((key, amount));
        self
    }
}

/// Checks every rule and prints the violations; returns their number.
pub fn run(root: &Path) -> usize {
    let violations = match check(root) {
        Ok(violations) => violations,
        Err(error) => {
            eprintln!("tidy: {error}");
            return 1;
        }
    };
    for violation in &violations {
        eprintln!("{}: {}", violation.place, violation.message);
    }
    println!("tidy: {} violations", violations.len());
    violations.len()
}

fn check(root: &Path) -> std::io::Result<Vec<Violation>> {
    let mut rust_files = Vec::new();
    for top in ["crates", "tests", "xtask"] {
        list_files(root, top, ".rs", &mut rust_files)?;
    }
    let sources: Vec<Source> =
        rust_files.iter().map(|path| Source::read(root, path)).collect::<Result<_, _>>()?;
    let mut violations = floors::check(root)?;
    for source in &sources {
        let tokens = source.tokens();
        violations.extend(bans::check(source, &tokens));
        violations.extend(lengths::check(source, &tokens));
        violations.extend(rooms::check(source, &tokens));
        violations.extend(raw_keys::check(source, &tokens));
    }
    violations.extend(reach::check(root, &sources)?);
    violations.extend(references::check(root, &sources)?);
    violations.extend(differences::check(root, &sources)?);
    violations.extend(circles::check(&sources));
    violations.extend(calls::check(&sources));
    violations.extend(owners::check(&sources));
    violations.extend(wrappers::check(&sources));
    violations.extend(layout::check(&sources));
    violations.extend(examples::check(&sources));
    violations.extend(walks::check(root, &sources)?);
    violations.extend(proofs::check(&sources));
    violations.extend(defaults::check(&sources));
    violations.extend(api_lines::check(root)?);
    let allow_list = std::fs::read_to_string(root.join(ALLOW_FILE))?;
    Ok(apply_allow_list(&allow_list, violations))
}

/// Removes what the allow-list excuses and adds entries that excuse too much.
fn apply_allow_list(text: &str, violations: Vec<Violation>) -> Vec<Violation> {
    let (mut allowed, mut kept) = (BTreeMap::new(), Vec::new());
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let entry = line.rsplit_once(' ').and_then(|(key, n)| Some((key, n.parse::<u64>().ok()?)));
        match entry {
            Some((key, amount)) => {
                allowed.insert(key.to_string(), (amount, 0, index + 1));
            }
            None => kept.push(Violation::new(
                format!("{ALLOW_FILE}:{}", index + 1),
                "an entry is `RULE FILE [NAME] AMOUNT`",
            )),
        }
    }
    let mut amounts: BTreeMap<String, u64> = BTreeMap::new();
    for violation in &violations {
        if let Some((key, amount)) = &violation.exception {
            let sum = amounts.entry(key.clone()).or_default();
            *sum += amount;
        }
    }
    for violation in violations {
        let excused = violation.exception.as_ref().is_some_and(|(key, _)| {
            allowed.get(key).is_some_and(|(limit, _, _)| amounts[key] <= *limit)
        });
        if !excused {
            kept.push(violation);
        }
    }
    for (key, (limit, _, line)) in &allowed {
        let used = amounts.get(key).copied().unwrap_or(0);
        if used < *limit {
            kept.push(Violation::new(
                format!("{ALLOW_FILE}:{line}"),
                format!("`{key} {limit}` may shrink to {used}"),
            ));
        }
    }
    kept
}

/// Adds the files under `folder` whose names end in `ending`, sorted, build output left out.
fn list_files(
    root: &Path,
    folder: &str,
    ending: &str,
    out: &mut Vec<String>,
) -> std::io::Result<()> {
    let mut entries: Vec<_> = std::fs::read_dir(root.join(folder))?.collect::<Result<_, _>>()?;
    entries.sort_by_key(|entry| entry.file_name());
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{folder}/{name}");
        if entry.file_type()?.is_dir() {
            if name != "target" {
                list_files(root, &path, ending, out)?;
            }
        } else if name.ends_with(ending) {
            out.push(path);
        }
    }
    Ok(())
}

/// The package's folder (`crates/env`, `tests`, `xtask`) of a file.
fn package_folder(path: &str) -> &str {
    let parts = if path.starts_with("crates/") { 2 } else { 1 };
    match path.match_indices('/').nth(parts - 1) {
        Some((at, _)) => &path[..at],
        None => path,
    }
}
