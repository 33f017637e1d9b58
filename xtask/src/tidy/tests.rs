//! The allow-list, and `cargo xtask tidy` as a whole: a copy of the tree passes, and with
//! violations planted in it each one is reported, and nothing else.

use std::path::{Path, PathBuf};

use super::{Violation, apply_allow_list, check, package_folder};

/// (file, the line before which the text is planted, the text, where and what tidy says)
const PLANTED: &[(&str, &str, &str, &str)] = &[
    (
        "crates/pumice/src/commit/wal.rs",
        "use ",
        "use crate::compaction::plan as planted;",
        "crates/pumice/src/commit/wal.rs: room `commit` may not name `compaction`, which is on a \
         higher floor",
    ),
    (
        "crates/pumice/src/read/merge.rs",
        "use ",
        "use super::super::engine as planted;",
        "crates/pumice/src/read/merge.rs: room `read` may not name `engine`, which is on a higher \
         floor",
    ),
    (
        "crates/wal/src/compression.rs",
        "use ",
        "use crate::writer::LogWriter as Planted;",
        "crates/wal/src/: ",
    ),
    (
        "crates/pumice/src/engine/scheduler.rs",
        "use ",
        "fn planted(db: &DbInner) { db.switch_memtables(); }",
        "crates/pumice/src/engine/: ",
    ),
    (
        "crates/wal/src/physical.rs",
        "use ",
        "// See docs/gone.md.",
        "crates/wal/src/physical.rs: there is no docs/gone.md",
    ),
    (
        "crates/pumice/src/read/newest.rs",
        "use ",
        "fn planted(ikey: &[u8]) -> &[u8] { &ikey[..ikey.len() - 8] }",
        "crates/pumice/src/read/newest.rs: splits a key by its length: ask `InternalKey`",
    ),
    (
        "crates/wal/src/writer.rs",
        "use ",
        "// See docs/format/log.md#no-such-section.",
        "crates/wal/src/writer.rs: there is no heading `no-such-section` in docs/format/log.md",
    ),
    (
        "crates/wal/src/reader.rs",
        "use ",
        "// As `crates/wal/src/gone.rs` and nobody else does.",
        "crates/wal/src/reader.rs: there is no crates/wal/src/gone.rs",
    ),
    ("docs/wal.md", "", "[a page](format/gone.md)", "docs/wal.md: there is no docs/format/gone.md"),
    (
        "docs/cache.md",
        "",
        "[a section](wal.md#no-such-section)",
        "docs/cache.md: there is no heading `no-such-section` in docs/wal.md",
    ),
    ("docs/table.md", "", "`read/gone.rs`", "docs/table.md: there is no read/gone.rs"),
    (
        "docs/compatibility.md",
        "- Which statistics are counted",
        "- Planted, as everybody knows.",
        "docs/compatibility.md: a difference without a test",
    ),
    (
        "crates/memtable/src/order.rs",
        "use ",
        "struct Planted { a: u8 }\n\
         impl Default for Planted { fn default() -> Self { Self { write_buffer_size: 1 } } }",
        "crates/memtable/src/order.rs: Planted: a second default of the option \
         `write_buffer_size`",
    ),
    (
        "crates/cli/src/db_bench/flag_table.rs",
        "    open_files: ",
        "    max_open_files: i64 = -1, \"Planted.\";",
        "crates/cli/src/db_bench/flag_table.rs: flag `max_open_files`: without a default it has \
         that of the option",
    ),
];

#[test]
fn each_planted_violation_is_reported() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    let copy = Copy(std::env::temp_dir().join(format!("pumice-tidy-{}", std::process::id())));
    for folder in ["crates", "tests", "xtask", "docs"] {
        copy.fill(root, folder);
    }
    for entry in std::fs::read_dir(root).expect("the workspace") {
        let entry = entry.expect("an entry");
        if entry.file_type().expect("its type").is_file() {
            std::fs::copy(entry.path(), copy.0.join(entry.file_name())).expect("a copy");
        }
    }
    assert_eq!(violations(&copy.0), Vec::<String>::new(), "the tree itself");
    for (file, before, text, _) in PLANTED {
        let path = copy.0.join(file);
        let old = std::fs::read_to_string(&path).expect("a file of the tree");
        let mut lines: Vec<&str> = old.lines().collect();
        let at = lines.iter().position(|line| line.starts_with(before)).expect("its line");
        lines.insert(if before.is_empty() { lines.len() } else { at }, text);
        std::fs::write(&path, lines.join("\n") + "\n").expect("to write the copy");
    }
    let mut violations = violations(&copy.0);
    for (file, _, text, expected) in PLANTED {
        let at = violations.iter().position(|violation| violation.starts_with(expected));
        violations.remove(
            at.unwrap_or_else(|| panic!("`{text}` in {file} is not found: {violations:#?}")),
        );
    }
    assert_eq!(violations, Vec::<String>::new());
}

/// What tidy reports: file and message, without the line.
fn violations(root: &Path) -> Vec<String> {
    let found = check(root).expect("a readable tree").into_iter();
    let violations = found.map(|violation| {
        let file = violation.place.split(':').next().unwrap_or_default();
        format!("{file}: {}", violation.message)
    });
    violations.collect()
}

/// A copy of the tree, removed at the end.
struct Copy(PathBuf);

impl Copy {
    fn fill(&self, root: &Path, folder: &str) {
        std::fs::create_dir_all(self.0.join(folder)).expect("a folder");
        for entry in std::fs::read_dir(root.join(folder)).expect("a folder of the tree") {
            let entry = entry.expect("an entry");
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{folder}/{name}");
            let kind = entry.file_type().expect("its type");
            if kind.is_dir() && name != "target" {
                self.fill(root, &path);
            } else if kind.is_file() {
                std::fs::copy(root.join(&path), self.0.join(&path)).expect("a copy");
            }
        }
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap_or_default();
    }
}

fn too_long(name: &str, excess: u64) -> Violation {
    Violation::new("a.rs:1", "too long").excusable(format!("fn a.rs {name}"), excess)
}

#[test]
fn the_allow_list_excuses_exactly_and_may_only_shrink() {
    let list = "# comment\nfn a.rs f 5\n";
    assert!(apply_allow_list(list, vec![too_long("f", 5)]).is_empty());
    assert_eq!(apply_allow_list(list, vec![too_long("f", 6)]).len(), 1);
    assert_eq!(apply_allow_list(list, vec![too_long("f", 4)]).len(), 1);
    assert_eq!(apply_allow_list(list, vec![]).len(), 1);
    assert_eq!(apply_allow_list("", vec![too_long("f", 1)]).len(), 1);
    assert_eq!(apply_allow_list("fn a.rs f\n", vec![]).len(), 1);
}

#[test]
fn files_belong_to_packages() {
    assert_eq!(package_folder("crates/env/src/a/b.rs"), "crates/env");
    assert_eq!(package_folder("tests/tests/all.rs"), "tests");
}
