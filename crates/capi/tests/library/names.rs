//! The names that the library exports, and how many of them are still stubs.

use std::collections::BTreeSet;
use std::process::Command;

use super::{out_dir, shared_library};

/// Functions that only say that they are missing. May only fall.
const STUBS_MAX: usize = 0;

/// The areas whose stubs wait for features that the engine lacks; the others are to become empty.
#[test]
fn stubs_only_become_fewer() {
    let stubs = std::fs::read_to_string(out_dir().join("stubs.txt")).expect("written");
    let count = stubs.lines().count();
    assert_eq!(count, STUBS_MAX, "set STUBS_MAX to the new number, which must be lower");
}

#[test]
fn the_library_exports_the_table_and_nothing_else() {
    let output = Command::new("nm")
        .args(["-D", "--defined-only"])
        .arg(shared_library())
        .output()
        .expect("binutils are installed");
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).expect("names are text");
    let found: BTreeSet<&str> = text.lines().filter_map(|l| l.split_whitespace().last()).collect();
    let table = std::fs::read_to_string(out_dir().join("exports.txt")).expect("written");
    let wanted: BTreeSet<&str> = table.lines().collect();
    let more: Vec<_> = found.difference(&wanted).collect();
    let fewer: Vec<_> = wanted.difference(&found).collect();
    assert!(more.is_empty() && fewer.is_empty(), "not in the table {more:?}, missing {fewer:?}");
    assert_eq!(found.len(), 1780);
}

#[test]
fn the_header_compiles() {
    let header = out_dir().join("c.h");
    for (compiler, language) in [("cc", "c"), ("c++", "c++")] {
        let status = Command::new(compiler)
            .args(["-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-x", language])
            .arg(&header)
            .status();
        assert!(status.expect("a compiler is installed").success(), "{compiler}");
    }
}
