//! Dead files: every `.rs` file is a crate root or is declared by `mod NAME;` from one.
//!
//! Roots are `src/lib.rs`, `src/main.rs`, `build.rs`, `build/main.rs`, and in `src/bin`, `tests`,
//! `examples` and `benches` of a package each file and each `NAME/main.rs`. A `#[path = "..."]` on
//! a line of its own counts from the folder of its file.

use std::collections::BTreeSet;
use std::path::Path;

use super::source::{Source, Token};
use super::{Violation, package_folder};

/// Reports the files that nothing declares.
pub fn check(root: &Path, sources: &[Source]) -> std::io::Result<Vec<Violation>> {
    let mut reached = BTreeSet::new();
    let mut queue: Vec<String> =
        sources.iter().map(|s| s.path.clone()).filter(|path| is_root(path)).collect();
    while let Some(path) = queue.pop() {
        if !reached.insert(path.clone()) {
            continue;
        }
        let source = Source::read(root, &path)?;
        let named = named_paths(&path, &source.text);
        for candidate in declared(&path, &source.tokens()).into_iter().chain(named) {
            if root.join(&candidate).is_file() {
                queue.push(candidate);
            }
        }
    }
    let dead = sources.iter().filter(|source| !reached.contains(&source.path));
    Ok(dead.map(|source| Violation::new(source.path.clone(), "no crate reaches it")).collect())
}

fn is_root(path: &str) -> bool {
    let inside = &path[package_folder(path).len() + 1..];
    match inside.rsplit_once('/') {
        None => inside == "build.rs",
        Some(("src", name)) => name == "lib.rs" || name == "main.rs",
        Some(("build", name)) => name == "main.rs",
        Some((folder, name)) => {
            let folder = match folder.rsplit_once('/') {
                Some((above, _)) if name == "main.rs" && above != "src" => above,
                _ => folder,
            };
            matches!(folder, "src/bin" | "tests" | "examples" | "benches")
        }
    }
}

/// Files that the `#[path = "..."]` lines of `path` name.
fn named_paths(path: &str, text: &str) -> Vec<String> {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let name = |line: &str| {
        let name = line.trim().strip_prefix("#[path = \"")?.strip_suffix("\"]")?;
        Some(without_dots(&format!("{folder}/{name}")))
    };
    text.lines().filter_map(name).collect()
}

/// `a/b/../c` as `a/c`.
fn without_dots(path: &str) -> String {
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

/// Files that the `mod NAME;` lines of `path` may mean.
fn declared(path: &str, tokens: &[Token<'_>]) -> Vec<String> {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let own_folder = if is_root(path) || name == "mod.rs" {
        folder.to_string()
    } else {
        format!("{folder}/{}", name.trim_end_matches(".rs"))
    };
    // Inline modules add a folder each; the stack holds None for braces of other kinds.
    let mut stack: Vec<Option<&str>> = Vec::new();
    let mut files = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        match token.text {
            "{" => {
                let inline = at >= 2 && tokens[at - 2].text == "mod";
                stack.push(inline.then(|| tokens[at - 1].text));
            }
            "}" => {
                stack.pop();
            }
            "mod" if tokens.get(at + 2).is_some_and(|next| next.text == ";") => {
                let mut base = own_folder.clone();
                for inline in stack.iter().flatten() {
                    base = format!("{base}/{inline}");
                }
                let module = tokens[at + 1].text;
                files.push(format!("{base}/{module}.rs"));
                files.push(format!("{base}/{module}/mod.rs"));
            }
            _ => {}
        }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::super::source::tokenize;
    use super::*;

    #[test]
    fn module_files_follow_their_declaration() {
        let tokens = tokenize("mod a; mod b { mod c; } fn f() { }");
        let files = declared("crates/x/src/lib.rs", &tokens);
        assert!(files.contains(&"crates/x/src/a.rs".to_string()));
        assert!(files.contains(&"crates/x/src/b/c/mod.rs".to_string()));
        let files = declared("crates/x/src/y.rs", &tokenize("mod tests;"));
        assert!(files.contains(&"crates/x/src/y/tests.rs".to_string()));
    }

    #[test]
    fn path_attributes_are_followed() {
        let text = "//! #[path]\n#[cfg(x)]\n#[path = \"a/b.rs\"]\nmod c;\n";
        assert_eq!(named_paths("crates/x/src/lib.rs", text), ["crates/x/src/a/b.rs"]);
        let text = "#[path = \"../../y/a.rs\"]\nmod a;\n";
        assert_eq!(named_paths("crates/x/src/lib.rs", text), ["crates/y/a.rs"]);
    }

    #[test]
    fn roots_are_known() {
        assert!(is_root("crates/x/src/lib.rs") && is_root("tests/tests/all.rs"));
        assert!(is_root("crates/x/tests/y/main.rs") && is_root("crates/x/src/bin/y/main.rs"));
        assert!(!is_root("tests/tests/crash/mod.rs") && !is_root("crates/x/src/y/main.rs"));
    }
}
