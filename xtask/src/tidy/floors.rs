//! Which crate may depend on which: the layers of the workspace (ARCHITECTURE.md).
//!
//! A crate may name every crate on a lower floor; on its own floor only the edges in its row.
//! Side crates (`peer`, `testkit`, `test-macros`) carry no product code: `peer` is for the binary
//! and for tests, the other two for tests alone. Crates from outside that reach the operating
//! system or bind C are kept to the crates that exist for them.

use std::path::Path;

use super::Violation;

/// (crate, floor, crates of its own floor that it may name)
const FLOORS: &[(&str, u32, &[&str])] = &[
    ("base", 0, &[]),
    ("compress", 0, &["base"]),
    ("filter", 0, &["base"]),
    ("port", 1, &[]),
    ("env", 2, &[]),
    ("cache", 2, &[]),
    ("memtable", 2, &["cache"]),
    ("wal", 2, &["env"]),
    ("table", 3, &[]),
    ("manifest", 3, &[]),
    ("pumice", 4, &[]),
    ("server", 5, &[]),
    ("cli", 5, &["server"]),
    ("binding", 5, &[]),
    ("capi", 5, &["binding"]),
    ("jni", 5, &["binding"]),
    ("python", 5, &[]),
    ("tests", 6, &[]),
];

/// (side crate, what it may name, who may name it in its product code)
const SIDE: &[(&str, &[&str], &[&str])] = &[
    ("peer", &[], &["cli", "tests"]),
    ("testkit", &["base"], &["tests"]),
    ("test-macros", &["port"], &[]),
    ("xtask", &[], &[]),
];

/// (outside crate, the only crates that may name it)
const OUTSIDE: &[(&str, &[&str])] = &[
    ("libc", &["port"]),
    ("corosensei", &["port"]),
    ("io-uring", &["port"]),
    ("loom", &["port"]),
    ("libloading", &["peer", "tests"]),
    ("libmimalloc-sys", &["port"]),
    ("mimalloc", &["cli"]),
    ("zstd-safe", &["compress", "wal"]),
    ("zstd-sys", &["compress"]),
    ("lz4-sys", &["compress"]),
    ("snap", &["compress"]),
    ("flate2", &["compress"]),
    ("bzip2", &["compress"]),
    ("crc32c", &["base"]),
    ("xxhash-rust", &["base", "table"]),
    ("arc-swap", &["pumice", "table"]),
    ("fjall", &["cli"]),
    ("redb", &["cli"]),
    ("regex-lite", &["cli"]),
    ("jni-sys", &["jni"]),
    ("pyo3", &["python"]),
    ("serde", &["cli"]),
    ("serde_json", &["cli"]),
    ("sha2", &["server"]),
    ("subtle", &["server"]),
    ("rustls", &["server"]),
    ("crossbeam-utils", &["port", "cache", "memtable", "table", "pumice"]),
];

/// Side crates that any crate's tests may use.
const TEST_CRATES: &[&str] = &["testkit", "test-macros", "peer"];

/// Outside crates that any crate's tests may use.
const TEST_TOOLS: &[&str] = &["tempfile", "proptest"];

/// Reads the dependencies of every package and reports each edge that is not allowed.
pub fn check(root: &Path) -> std::io::Result<Vec<Violation>> {
    let mut manifests = Vec::new();
    for top in ["crates", "tests", "xtask"] {
        super::list_files(root, top, "Cargo.toml", &mut manifests)?;
    }
    let mut violations = Vec::new();
    for manifest in manifests {
        let folder = super::package_folder(&manifest);
        let name = folder.rsplit('/').next().unwrap_or(folder);
        if !known(name) {
            let message = format!("crate `{name}` is on no floor: add it to floors.rs");
            violations.push(Violation::new(manifest.clone(), message));
        }
        let text = std::fs::read_to_string(root.join(&manifest))?;
        for dependency in dependencies(&text) {
            if let Err(message) = allowed(name, &dependency) {
                let place = format!("{manifest}:{}", dependency.line);
                violations.push(Violation::new(place, message));
            }
        }
    }
    Ok(violations)
}

struct Dependency {
    name: String,
    for_tests: bool,
    line: usize,
}

/// The names in the dependency tables of a manifest. `workspace = true` keys only: versions are in
/// the root manifest, nowhere else.
fn dependencies(text: &str) -> Vec<Dependency> {
    let (mut found, mut section) = (Vec::new(), "");
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.starts_with('[') {
            section = line.trim_matches(['[', ']']);
        } else if section.ends_with("dependencies") && !line.is_empty() && !line.starts_with('#') {
            let end = line.find(['.', ' ', '=']).unwrap_or(line.len());
            found.push(Dependency {
                name: line[..end].to_string(),
                for_tests: section.contains("dev-"),
                line: index + 1,
            });
        }
    }
    found
}

fn floor(name: &str) -> Option<(u32, &'static [&'static str])> {
    FLOORS.iter().find(|row| row.0 == name).map(|row| (row.1, row.2))
}

fn side(name: &str) -> Option<(&'static [&'static str], &'static [&'static str])> {
    SIDE.iter().find(|row| row.0 == name).map(|row| (row.1, row.2))
}

fn known(name: &str) -> bool {
    floor(name).is_some() || side(name).is_some()
}

fn allowed(from: &str, dependency: &Dependency) -> Result<(), String> {
    let to = match dependency.name.as_str() {
        "pumice" => "pumice",
        name => match name.strip_prefix("pumice-") {
            Some(short) => short,
            None => return outside_allowed(from, name, dependency.for_tests),
        },
    };
    if let Some((_, users)) = side(to) {
        let test_tool = TEST_CRATES.contains(&to) && dependency.for_tests;
        return if test_tool || users.contains(&from) {
            Ok(())
        } else {
            Err(format!("`{to}` is a side crate: `{from}` may not name it"))
        };
    }
    if let Some((may_name, _)) = side(from) {
        return if may_name.contains(&to) {
            Ok(())
        } else {
            Err(format!("side crate `{from}` may not name `{to}`"))
        };
    }
    let (Some((from_floor, same_floor)), Some((to_floor, _))) = (floor(from), floor(to)) else {
        return Err(format!("no floor is known for `{from}` -> `{to}`"));
    };
    // Benches of every crate need the clock.
    let clock = to == "port" && dependency.for_tests && from != "base";
    if to_floor < from_floor || same_floor.contains(&to) || clock {
        return Ok(());
    }
    Err(format!("`{from}` (floor {from_floor}) may not name `{to}` (floor {to_floor})"))
}

fn outside_allowed(from: &str, name: &str, for_tests: bool) -> Result<(), String> {
    if for_tests && TEST_TOOLS.contains(&name) {
        return Ok(());
    }
    match OUTSIDE.iter().find(|row| row.0 == name) {
        Some((_, users)) if users.contains(&from) => Ok(()),
        Some((_, users)) => Err(format!("`{name}` is only for {}", users.join(", "))),
        None => Err(format!("outside crate `{name}` is not in floors.rs: say who may name it")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edge(from: &str, to: &str) -> bool {
        let dependency = Dependency { name: to.to_string(), for_tests: false, line: 1 };
        allowed(from, &dependency).is_ok()
    }

    #[test]
    fn edges_go_down() {
        assert!(edge("table", "pumice-env") && edge("memtable", "pumice-cache"));
        assert!(edge("cli", "pumice") && edge("cli", "pumice-peer"));
        assert!(!edge("env", "pumice-table") && !edge("env", "pumice-cache"));
        assert!(!edge("manifest", "pumice-table") && !edge("pumice", "pumice-peer"));
        assert!(edge("port", "libc") && !edge("env", "libc") && !edge("env", "serde"));
        assert!(edge("port", "io-uring") && !edge("env", "io-uring") && !edge("cli", "loom"));
    }

    #[test]
    fn test_crates_are_for_tests() {
        let name = "pumice-test-macros".to_string();
        assert!(!edge("env", &name) && !edge("test-macros", "pumice-env"));
        assert!(allowed("env", &Dependency { name, for_tests: true, line: 1 }).is_ok());
    }

    #[test]
    fn dependency_tables_are_read() {
        let text = "[package]\nname = \"x\"\n[dependencies]\na.workspace = true\n\
                    [dev-dependencies]\nb = { workspace = true }\n[lints]\nworkspace = true";
        let found = dependencies(text);
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].name.as_str(), found[0].for_tests), ("a", false));
        assert_eq!((found[1].name.as_str(), found[1].for_tests, found[1].line), ("b", true, 6));
    }
}
