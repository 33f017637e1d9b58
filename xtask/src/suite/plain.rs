//! Which tests do not depend on `PUMICE_RUNTIME`: the passes on fibers leave them out, since that
//! on threads has run the same.
//!
//! A test sees that variable when it is written `#[pumice_test_macros::test]`. One that is a plain
//! `#[test]` does not: it starts processes, or is about a simulation or tasks of its own. A plain
//! test depends on it all the same, and stays, in two cases, which its source shows:
//!
//! | source | stays |
//! |---|---|
//! | the test calls `testing::run(..)` | the test |
//! | a file has the word `PUMICE_RUNTIME` | all tests of its folder and those below |
//!
//! Tests are known by their last name: where a package also has another test of that name, which
//! sees the variable, both stay. What a macro makes is not recognised, and stays.
//!
//! Thread safety: plain functions. It reads sources line by line and does not parse Rust.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const PLAIN: &str = "#[test]";
const ON_RUNTIME: &str = "#[pumice_test_macros::test]";
const CALL: &str = "testing::run(";
const VARIABLE: &str = "PUMICE_RUNTIME";

/// The plain tests of a package by their last names, without those that stay.
///
/// # Errors
/// When its sources cannot be read.
pub fn names(package: &Path) -> io::Result<BTreeSet<String>> {
    let mut files = Vec::new();
    for folder in ["src", "tests"].map(|name| package.join(name)) {
        if folder.is_dir() {
            sources(&folder, &mut files)?;
        }
    }
    Ok(without_runtime(&files))
}

/// Adds path and text of each source below `folder`.
fn sources(folder: &Path, files: &mut Vec<(PathBuf, String)>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            sources(&path, files)?;
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let text = fs::read_to_string(&path)?;
            files.push((path, text));
        }
    }
    Ok(())
}

fn without_runtime(files: &[(PathBuf, String)]) -> BTreeSet<String> {
    let asking = files.iter().filter(|(_, text)| text.contains(VARIABLE));
    let asking: Vec<&Path> = asking.filter_map(|(path, _)| path.parent()).collect();
    let (mut plain, mut others) = (BTreeSet::new(), BTreeSet::new());
    for (path, text) in files {
        let stays = asking.iter().any(|folder| path.starts_with(folder));
        for test in tests(text) {
            let depends = stays || !test.is_plain || test.calls;
            if depends { &mut others } else { &mut plain }.insert(test.name.to_string());
        }
    }
    plain.retain(|name| !others.contains(name));
    plain
}

struct Test<'a> {
    name: &'a str,
    is_plain: bool,
    /// Between this test and the next one is a call of [`CALL`].
    calls: bool,
}

fn tests(text: &str) -> Vec<Test<'_>> {
    let (mut found, mut attribute) = (Vec::<Test>::new(), None);
    for line in text.lines().map(str::trim) {
        if line == PLAIN || line == ON_RUNTIME {
            attribute = Some(line == PLAIN);
        } else if let Some(name) = function(line)
            && let Some(is_plain) = attribute.take()
        {
            found.push(Test { name, is_plain, calls: false });
        } else if line.contains(CALL)
            && let Some(last) = found.last_mut()
        {
            last.calls = true;
        }
    }
    found
}

/// The name of the function that begins in this line.
fn function(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("pub ").unwrap_or(line).strip_prefix("fn ")?;
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_')?;
    Some(&rest[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(files: &[(&str, &str)]) -> Vec<String> {
        let files = files.iter().map(|(path, text)| (path.into(), text.to_string()));
        without_runtime(&files.collect::<Vec<_>>()).into_iter().collect()
    }

    const TEXT: &str = "#[test]\n#[should_panic]\nfn a() {\n    b();\n}\nfn b() {}\n\
        #[pumice_test_macros::test]\nfn c() {}\n    #[test]\n    fn d() {}\n";

    #[test]
    fn plain_tests_are_found_and_helpers_are_not() {
        assert_eq!(plain(&[("t/all/x.rs", TEXT)]), ["a", "d"]);
    }

    #[test]
    fn what_depends_on_the_runtime_stays() {
        let calls = "#[test]\nfn a() {\n    pumice_port::testing::run(|| ());\n}\n";
        assert_eq!(plain(&[("t/x.rs", TEXT), ("t/y.rs", calls)]), ["d"]);
        let asks = ("t/serve/main.rs", "std::env::var(\"PUMICE_RUNTIME\")");
        let below = ("t/serve/deep/y.rs", "#[test]\nfn e() {}\n");
        let beside = ("t/served/z.rs", "#[test]\nfn f() {}\n");
        assert_eq!(plain(&[asks, below, beside]), ["f"]);
    }

    #[test]
    fn a_name_that_another_test_has_stays() {
        let other = "#[pumice_test_macros::test]\nfn a() {}\n";
        assert_eq!(plain(&[("t/x.rs", TEXT), ("t/y.rs", other)]), ["d"]);
    }

    #[test]
    fn tests_of_the_server_and_of_user_code_stay() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
        let server = names(&root.join("server")).expect("the sources are there");
        // The server's integration suite starts servers by the variable.
        assert!(server.contains("integers_are_strict"), "{server:?}");
        assert!(!server.contains("commands_of_a_turn_share_a_batch"), "{server:?}");
        let engine = names(&root.join("pumice")).expect("the sources are there");
        assert!(engine.contains("code_waits") && !engine.contains("code_panics"), "{engine:?}");
    }
}
