//! The names that the library exports, and that none of them is a stub.

use std::collections::BTreeSet;
use std::process::Command;

use super::{out_dir, shared_library};

#[test]
fn no_function_is_missing() {
    let stubs = std::fs::read_to_string(out_dir().join("stubs.txt")).expect("written");
    assert_eq!(stubs, "", "they only say that they are not implemented");
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
    assert_eq!(found.len(), 1782);
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
