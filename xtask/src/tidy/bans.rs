//! What code may not name: the port seam, plain tests where code waits, unsafe code outside its
//! crates, unfinished work.
//!
//! The seam is also a clippy lint (`clippy.toml`); here it is enforced by name, so that a whole
//! module (`use std::fs;`) and code under `cfg` are covered as well. Unit tests in separate files
//! may use the real thing to check ours, and examples are user programs; they allow it for clippy
//! in their heads.

use super::source::{Source, Token, paths};
use super::{Violation, package_folder};

/// Packages that are not part of the engine, or are the seam itself.
const OUTSIDE_THE_SEAM: &[&str] = &["crates/port", "crates/peer", "tests", "xtask"];

/// (path, what to use); a path bans everything below it.
const SEAM: &[(&str, &str)] = &[
    ("std::sync::Mutex", "port::sync"),
    ("std::sync::MutexGuard", "port::sync"),
    ("std::sync::RwLock", "port::sync"),
    ("std::sync::Condvar", "port::sync"),
    ("std::sync::Barrier", "port::sync"),
    ("std::sync::mpsc", "port::sync"),
    ("std::thread", "port::thread"),
    ("std::time::Instant", "port::time"),
    ("std::time::SystemTime", "port::time"),
    ("std::time::UNIX_EPOCH", "port::time"),
    ("std::fs", "env::FileSystem"),
    ("std::net", "port::net"),
    ("std::os::unix::net", "port::net"),
    ("std::hash::RandomState", "base::hash"),
    ("std::collections::hash_map", "BTreeMap"),
    ("std::collections::HashMap", "BTreeMap"),
    ("std::collections::HashSet", "BTreeSet"),
    ("libc", "port::os"),
];

/// Modules whose bare name would let the items above in unseen.
const SEAM_MODULES: &[&str] =
    &["std::sync", "std::sync::*", "std::time", "std::time::*", "std::collections", "std::*"];

const SAY_WHICH_LOCAL: &str = "thread_local! is banned: port::task_local! or port::worker_local!";

/// Packages whose code can wait: their tests run on threads and on fibers.
const TESTED_ON_FIBERS: &[&str] = &[
    "crates/env",
    "crates/cache",
    "crates/memtable",
    "crates/wal",
    "crates/table",
    "crates/pumice",
    "crates/server",
    "crates/cli",
    "tests",
];
/// How the line above a plain test in those packages begins; the reason follows.
const PLAIN_TEST: &str = "// Plain #[test]: ";

/// The one place that wraps the standard hash map with a fixed hasher.
const HASH_MODULE: &str = "crates/base/src/hash.rs";

/// Where unsafe code may stand; each block there cites an invariant.
const UNSAFE_ALLOWED: &[&str] = &[
    "crates/port/",
    "crates/memtable/",
    "crates/cache/",
    "crates/compress/",
    "crates/peer/",
    "crates/base/src/simd",
    "crates/testkit/src/alloc.rs",
    "crates/capi/src/ffi",
    "crates/jni/src/ffi",
    // The C functions as C calls them.
    "crates/capi/tests",
];

/// Reports names in `source` that violate the rules.
pub fn check(source: &Source, tokens: &[Token<'_>]) -> Vec<Violation> {
    let mut violations = Vec::new();
    let is_build_script = source.path.contains("/build/");
    let inside = !OUTSIDE_THE_SEAM.contains(&package_folder(&source.path)) && !is_build_script;
    if inside && !is_unit_test(&source.path) && !source.path.contains("/examples/") {
        check_seam(source, tokens, &mut violations);
    }
    if TESTED_ON_FIBERS.contains(&package_folder(&source.path)) {
        check_tests(source, &mut violations);
    }
    check_unsafe(source, tokens, &mut violations);
    check_unfinished(source, tokens, &mut violations);
    violations
}

fn is_unit_test(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.ends_with("_tests.rs") || path.contains("/tests/")
}

fn check_seam(source: &Source, tokens: &[Token<'_>], violations: &mut Vec<Violation>) {
    for (path, line) in paths(tokens) {
        let path = path.strip_prefix("core::").map_or(path.clone(), |rest| format!("std::{rest}"));
        if let Some((banned, instead)) = banned_by(&path) {
            if source.path == HASH_MODULE && banned.starts_with("std::collections") {
                continue;
            }
            let place = format!("{}:{line}", source.path);
            let key = format!("seam {} {banned}", source.path);
            let message = format!("`{path}` is banned above port: use {instead}");
            violations.push(Violation::new(place, message).excusable(key, 1));
        }
    }
    for pair in tokens.windows(2) {
        if pair[0].text == "thread_local" && pair[1].text == "!" {
            let place = format!("{}:{}", source.path, pair[0].line);
            violations.push(Violation::new(place, SAY_WHICH_LOCAL));
        }
    }
}

fn banned_by(path: &str) -> Option<(&'static str, &'static str)> {
    let below = |banned: &str| {
        path.strip_prefix(banned).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    };
    if let Some((banned, instead)) = SEAM.iter().find(|(banned, _)| below(banned)) {
        return Some((banned, instead));
    }
    let module = SEAM_MODULES.iter().find(|module| **module == path)?;
    Some((module, "the items by name"))
}

/// A simulation starts every task itself, on a plain thread, so its tests are plain.
fn check_tests(source: &Source, violations: &mut Vec<Violation>) {
    let simulates =
        ["sim::run(", "common::virtual_time::"].iter().any(|mark| source.text.contains(mark))
            || source.path.contains("/sim/");
    let mut above = "";
    for (index, line) in source.text.lines().map(str::trim).enumerate() {
        if line == "#[test]" && !simulates && !above.starts_with(PLAIN_TEST) {
            let place = format!("{}:{}", source.path, index + 1);
            let message = "#[pumice_test_macros::test], or say above why not (`Plain #[test]: `)";
            violations.push(Violation::new(place, message));
        }
        above = line;
    }
}

fn check_unsafe(source: &Source, tokens: &[Token<'_>], violations: &mut Vec<Violation>) {
    if UNSAFE_ALLOWED.iter().any(|prefix| source.path.starts_with(prefix)) {
        return;
    }
    for token in tokens.iter().filter(|token| token.text == "unsafe") {
        let place = format!("{}:{}", source.path, token.line);
        violations.push(Violation::new(place, "unsafe code is not allowed in this crate"));
    }
    let name = source.path.rsplit('/').next().unwrap_or_default();
    let is_root = (name == "lib.rs" || name == "main.rs") && source.path.contains("/src/");
    let depth = source.path.trim_start_matches("crates/").matches('/').count();
    // A crate with an excepted module can only deny, as can one whose macros from outside allow it.
    let denies =
        ["crates/base/", "crates/testkit/", "crates/capi/", "crates/jni/", "crates/python/"]
            .iter()
            .any(|c| source.path.starts_with(c));
    let is_marked = source.text.contains("#![forbid(unsafe_code)]")
        || denies && source.text.contains("#![deny(unsafe_code)]");
    if is_root && depth == 2 && !is_marked && package_folder(&source.path) != "tests" {
        let message = "a crate without unsafe code says #![forbid(unsafe_code)]";
        violations.push(Violation::new(format!("{}:1", source.path), message));
    }
}

fn check_unfinished(source: &Source, tokens: &[Token<'_>], violations: &mut Vec<Violation>) {
    for pair in tokens.windows(2) {
        if pair[1].text == "!" && matches!(pair[0].text, "todo" | "unimplemented" | "dbg") {
            let place = format!("{}:{}", source.path, pair[0].line);
            violations.push(Violation::new(place, format!("{}! is banned", pair[0].text)));
        }
    }
    for (index, line) in source.text.lines().enumerate() {
        let Some((_, comment)) = line.split_once("//") else { continue };
        for mark in ["FIXME", concat!("X", "XX")] {
            if comment.split(|c: char| !c.is_alphanumeric()).any(|word| word == mark) {
                let place = format!("{}:{}", source.path, index + 1);
                violations.push(Violation::new(place, format!("{mark}: finish it or file it")));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        let source = Source { path: path.to_string(), text: text.to_string() };
        check(&source, &source.tokens()).into_iter().map(|v| v.message).collect()
    }

    #[test]
    fn the_seam_is_held_by_name() {
        let file = "crates/env/src/x.rs";
        assert_eq!(found(file, "use std::{fs, sync::{Arc, Mutex}};").len(), 2);
        assert_eq!(found(file, "let t = std::time::Instant::now();").len(), 1);
        assert_eq!(found(file, "use std::collections::HashMap;").len(), 1);
        assert_eq!(found(file, "use std::sync::{self}; thread_local! {}").len(), 2);
        assert!(found(file, "use std::sync::{Arc, atomic::AtomicU64}; // std::fs").is_empty());
        assert!(found(file, "use std::time::Duration;").is_empty());
        assert!(found("crates/port/src/x.rs", "use std::thread;").is_empty());
        assert!(found("crates/env/src/x/tests.rs", "use std::thread;").is_empty());
    }

    #[test]
    fn plain_tests_say_why() {
        let file = "crates/env/src/x.rs";
        assert_eq!(found(file, "#[test]\nfn x() {}").len(), 1);
        assert!(found("crates/base/src/x.rs", "#[test]\nfn x() {}").is_empty());
        assert!(found(file, "// Plain #[test]: why\n#[test]\nfn x() {}").is_empty());
        assert!(found(file, "#[test]\nfn x() { sim::run(f) }").is_empty());
        assert!(found(file, "#[pumice_test_macros::test]\nfn x() {}").is_empty());
    }

    #[test]
    fn unsafe_code_and_unfinished_work_are_found() {
        assert_eq!(found("crates/env/src/x.rs", "unsafe { x() }").len(), 1);
        assert!(found("crates/cache/src/x.rs", "unsafe { x() }").is_empty());
        assert_eq!(found("crates/env/src/lib.rs", "//! Head.").len(), 1);
        let text = concat!("fn f() { to", "do!() } // FIX", "ME later");
        assert_eq!(found("crates/env/src/x.rs", text).len(), 2);
    }
}
