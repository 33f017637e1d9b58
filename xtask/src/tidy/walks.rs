//! The walks of ARCHITECTURE.md follow the code: each file of a walk has a function that a file
//! before it in the walk names.
//!
//! A walk is an item of the list that begins `- **`, with its files between backticks. Names that
//! every type has ([`COMMON`]) do not count. Not checked: that the calls are made in this order.

use std::collections::BTreeSet;
use std::path::Path;

use super::Violation;
use super::source::{Source, tokenize};

const PAGE: &str = "ARCHITECTURE.md";
/// Where a path without a crate begins.
const ENGINE: &str = "crates/pumice/src/";
const COMMON: [&str; 12] = [
    "new", "len", "is_empty", "default", "drop", "fmt", "clone", "next", "from", "eq", "deref",
    "clear",
];

/// Reports files of a walk that nothing before them leads to.
pub fn check(root: &Path, sources: &[Source]) -> std::io::Result<Vec<Violation>> {
    let page = std::fs::read_to_string(root.join(PAGE))?;
    let walks = walks_of(&page);
    if walks.is_empty() {
        return Ok(vec![Violation::new(PAGE, "has no walks through the code")]);
    }
    Ok(walks.iter().flat_map(|(name, files)| follow(name, files, sources)).collect())
}

/// The name and the files of each walk.
fn walks_of(page: &str) -> Vec<(&str, Vec<String>)> {
    let Some((_, rest)) = page.split_once("walks through the code") else { return Vec::new() };
    let list = rest.split("\n## ").next().unwrap_or_default();
    let items = list.split("\n- **").skip(1);
    items
        .filter_map(|item| {
            let (name, text) = item.split_once("**")?;
            let quoted = text.split('`').skip(1).step_by(2).filter(|path| path.ends_with(".rs"));
            let full = |path: &str| match path.starts_with("crates/") {
                true => path.to_string(),
                false => format!("{ENGINE}{path}"),
            };
            Some((name, quoted.map(full).collect()))
        })
        .collect()
}

fn follow(name: &str, files: &[String], sources: &[Source]) -> Vec<Violation> {
    let (mut found, mut named) = (Vec::new(), BTreeSet::new());
    for (at, file) in files.iter().enumerate() {
        let Some(source) = sources.iter().find(|source| source.path == *file) else {
            found.push(Violation::new(PAGE, format!("{name}: there is no {file}")));
            continue;
        };
        let (defined, uses) = names_of(&source.text);
        if at > 0 && defined.is_disjoint(&named) {
            let message = format!("{name}: nothing before {file} calls a function of it");
            found.push(Violation::new(PAGE, message));
        }
        named.extend(uses);
    }
    found
}

/// The functions that a file defines, and the other names in it.
fn names_of(text: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    let (mut defined, mut named) = (BTreeSet::new(), BTreeSet::new());
    let mut before = "";
    for token in tokenize(text) {
        if !COMMON.contains(&token.text) {
            let names = if before == "fn" { &mut defined } else { &mut named };
            names.insert(token.text.to_string());
        }
        before = token.text;
    }
    (defined, named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_nothing_leads_to_is_found() {
        let source = |path: &str, text: &str| Source { path: path.into(), text: text.into() };
        let sources = [
            source("crates/pumice/src/db.rs", "fn put() { log_it() }"),
            source("crates/pumice/src/log.rs", "fn log_it() { append() } fn new() {}"),
            source("crates/wal/src/w.rs", "fn append() {}"),
        ];
        let page = "Two walks through the code:\n\n- **A put**: `db.rs`, `log.rs`,\n  \
            `crates/wal/src/w.rs`.\n- **A get**: `db.rs`, `crates/wal/src/w.rs`,\n  \
            `none.rs`.\n\n## X";
        let walks = walks_of(page);
        assert_eq!(walks.len(), 2);
        assert_eq!(follow(walks[0].0, &walks[0].1, &sources).len(), 0);
        let wrong = follow(walks[1].0, &walks[1].1, &sources);
        assert_eq!(wrong.len(), 2);
        assert!(wrong[0].message.contains("calls a function"), "{}", wrong[0].message);
    }
}
