//! The lines of the programs in `docs/api-comparison` and of the examples that they repeat. The
//! table and the excerpts in `docs/api-comparison.md` are those of the files.
//!
//! A line counts unless it is blank, a comment, or an import: `use .. ;` over all its lines,
//! `#include`, `#pragma`, `using namespace`, an attribute of the whole file. `check.h` takes the
//! place of Rust's `?` and is not counted.

use std::collections::BTreeSet;
use std::path::Path;

use super::Violation;

const PAGE: &str = "docs/api-comparison.md";
const PROGRAMS: &str = "docs/api-comparison";
const EXAMPLES: &str = "crates/pumice/examples";
/// The columns before Pumice's, by the endings of the programs' names.
const OTHERS: [&str; 3] = [".cc", "_rocksdb.rs", "_fjall.rs"];
const HEAD: &str =
    "| job | RocksDB, C++ | rust-rocksdb | fjall | Pumice |\n|---|---|---|---|---|\n";
/// They do it in another way, or do less of it; the page says how.
const OTHERWISE: &[&str] = &[
    "bulk_load_fjall.rs",
    "checkpoint_fjall.rs",
    "counter_fjall.rs",
    "fibers.cc",
    "fibers_fjall.rs",
    "fibers_rocksdb.rs",
    "prometheus_fjall.rs",
    "tuning.cc",
    "tuning_fjall.rs",
    "tuning_rocksdb.rs",
    "web.cc",
    "web_fjall.rs",
    "web_rocksdb.rs",
];

/// The table as it must stand in the page.
pub fn table(root: &Path) -> std::io::Result<String> {
    let mut text = HEAD.to_string();
    for name in examples(root)? {
        text += &format!("| {name} |");
        for ending in OTHERS {
            let file = format!("{name}{ending}");
            let mark = if OTHERWISE.contains(&file.as_str()) { " \\*" } else { "" };
            text += &match std::fs::read_to_string(root.join(PROGRAMS).join(&file)) {
                Ok(program) => format!(" [{}](api-comparison/{file}){mark} |", count(&program)),
                Err(_) => " not possible |".to_string(),
            };
        }
        let file = format!("{EXAMPLES}/{name}.rs");
        let lines = count(&std::fs::read_to_string(root.join(&file))?);
        text += &format!(" [{lines}](../{file}) |\n");
    }
    Ok(text)
}

/// Reports a table that is not that of the files, excerpts that no example has, and programs that
/// belong to no row.
pub fn check(root: &Path) -> std::io::Result<Vec<Violation>> {
    let page = std::fs::read_to_string(root.join(PAGE))?;
    let mut violations = Vec::new();
    if !page.contains(&table(root)?) {
        let message = "the table is not what `cargo xtask api-lines` prints";
        violations.push(Violation::new(PAGE, message));
    }
    let names = examples(root)?;
    let mut sources = Vec::new();
    for name in &names {
        sources.push(std::fs::read_to_string(root.join(format!("{EXAMPLES}/{name}.rs")))?);
    }
    for excerpt in excerpts(&page) {
        if !sources.iter().any(|source| has(source, &excerpt)) {
            let first = excerpt.first().unwrap_or(&"");
            violations.push(Violation::new(PAGE, format!("no example has the excerpt `{first}`")));
        }
    }
    for entry in std::fs::read_dir(root.join(PROGRAMS))? {
        let file = entry?.file_name().to_string_lossy().into_owned();
        let of_a_row =
            OTHERS.iter().any(|e| file.strip_suffix(e).is_some_and(|n| names.contains(n)));
        if !of_a_row && !["check.h", ".clang-format"].contains(&file.as_str()) {
            violations.push(Violation::new(format!("{PROGRAMS}/{file}"), "of no example"));
        }
    }
    Ok(violations)
}

/// The names of the examples, sorted.
fn examples(root: &Path) -> std::io::Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for entry in std::fs::read_dir(root.join(EXAMPLES))? {
        let file = entry?.file_name().to_string_lossy().into_owned();
        names.extend(file.strip_suffix(".rs").map(str::to_string));
    }
    Ok(names)
}

fn count(program: &str) -> usize {
    let mut in_use = false;
    let mut count = 0;
    for line in program.lines().map(str::trim) {
        let starts_use = line.starts_with("use ");
        if in_use || starts_use {
            in_use = !line.ends_with(';');
            continue;
        }
        let left_out = line.is_empty()
            || ["//", "#include", "#pragma", "#![", "using namespace "]
                .iter()
                .any(|start| line.starts_with(start));
        count += usize::from(!left_out);
    }
    count
}

/// The lines of each Rust fence.
fn excerpts(page: &str) -> Vec<Vec<&str>> {
    let fences = page.split("\n```rust\n").skip(1);
    fences.filter_map(|rest| Some(rest.split_once("\n```")?.0.lines().collect())).collect()
}

/// Whether `source` has these lines in a row, however far they are indented.
fn has(source: &str, excerpt: &[&str]) -> bool {
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let wanted: Vec<&str> = excerpt.iter().map(|line| line.trim()).collect();
    !wanted.is_empty() && lines.windows(wanted.len()).any(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imports_comments_and_blank_lines_do_not_count() {
        let rust = "//! Head.\n#![allow(x)]\n\nuse a::{\n    b,\n};\nuse c::d;\n\n/// Says.\n\
            fn f() {\n    g(); // Does.\n    // Why.\n}\n";
        assert_eq!(count(rust), 3);
        let cpp =
            "// Head.\n#include <x>\n\nusing namespace rocksdb;\nusing A = B;\nint main() {\n}\n";
        assert_eq!(count(cpp), 3);
    }

    #[test]
    fn excerpts_are_lines_in_a_row() {
        let page = "# A\n\n```rust\nf();\n    g();\n```\n\n```sh\nls\n```\n";
        assert_eq!(excerpts(page), [["f();", "    g();"]]);
        assert!(has("fn a() {\n    f();\n        g();\n}\n", &["f();", "    g();"]));
        assert!(!has("f();\nh();\ng();\n", &["f();", "g();"]));
        assert!(!has("f();\n", &[]));
    }
}
