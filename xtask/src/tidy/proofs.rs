//! The tables of options: each option that the engine obeys names the test that shows its effect,
//! the test exists, and some code of the engine reads the field.
//!
//! A row is `name: type = default, .. => "proof";` in the section `fields` of a table. A proof is
//! `file::test`, where `file` is the name of a source file without its ending, or of the folder of
//! a `tests.rs`, `mod.rs` or `main.rs`; or `none: reason`. The compiler ensures that there is one;
//! options without effect have their reason in the line above them.

use std::collections::{BTreeMap, BTreeSet};

use super::Violation;
use super::source::Source;

/// Where the tables are.
pub const TABLES: [&str; 4] = [
    "crates/pumice/src/options/db_options.rs",
    "crates/pumice/src/options/cf_options.rs",
    "crates/pumice/src/options/block_based.rs",
    "crates/pumice/src/options/other_tables.rs",
];
/// Normalizes values: a field read only here counts as unread.
const SANITIZER: &str = "crates/pumice/src/options/sanitize.rs";
const ENGINE: &str = "crates/pumice/src/";
/// Finding fewer rows would mean that this file no longer parses the tables.
const ROWS_MIN: usize = 120;

struct Row<'a> {
    place: String,
    name: &'a str,
    proof: &'a str,
}

/// Reports rows whose proof is missing or not a test, and fields that are never read.
pub fn check(sources: &[Source]) -> Vec<Violation> {
    let rows: Vec<Row<'_>> = sources
        .iter()
        .filter(|source| TABLES.contains(&source.path.as_str()))
        .flat_map(|source| rows(&source.path, &source.text))
        .collect();
    let mut violations = Vec::new();
    if rows.len() < ROWS_MIN {
        let found = format!("{} rows of options found, there must be {ROWS_MIN}", rows.len());
        violations.push(Violation::new(TABLES[0], found));
    }
    let tests = tests_by_file(sources);
    let mut read = BTreeSet::new();
    for source in sources.iter().filter(|s| s.path.starts_with(ENGINE) && !is_test(&s.path)) {
        read.extend(fields_read(source));
    }
    for Row { place, name, proof } in rows {
        let known = match proof.split_once("::") {
            Some((file, test)) => tests.get(file).is_some_and(|tests| tests.contains(&test)),
            None => proof.strip_prefix("none:").is_some_and(|reason| reason.trim().len() > 10),
        };
        if !known {
            let message = format!("{name}: its proof \"{proof}\" is neither a test nor a reason");
            violations.push(Violation::new(place.clone(), message));
        }
        if !read.contains(name) {
            violations.push(Violation::new(place, format!("{name}: nothing reads it")));
        }
    }
    violations
}

/// The rows of the section `fields` of a table.
fn rows<'a>(path: &str, text: &'a str) -> Vec<Row<'a>> {
    let mut rows = Vec::new();
    let mut inside = false;
    let mut name = None;
    for (index, line) in text.lines().enumerate() {
        match line {
            "    fields {" => inside = true,
            "    }" => inside = false,
            _ => {}
        }
        let start = line.strip_prefix("        ").filter(|rest| !rest.starts_with([' ', '/']));
        if let Some((word, _)) = start.and_then(|rest| rest.split_once(':')).filter(|_| inside) {
            name = Some((word, index + 1));
        }
        let Some((word, at)) = name.filter(|_| line.ends_with(';')) else { continue };
        name = None;
        let proof = line.rsplit_once("=> \"").and_then(|(_, rest)| rest.strip_suffix("\";"));
        let proof = proof.or_else(|| line.trim().strip_prefix('"')?.strip_suffix("\";"));
        rows.push(Row { place: format!("{path}:{at}"), name: word, proof: proof.unwrap_or("") });
    }
    rows
}

/// The tests by the name of their file; files of one name are together.
pub fn tests_by_file(sources: &[Source]) -> BTreeMap<&str, Vec<&str>> {
    let mut tests: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for source in sources {
        let mut marked = false;
        for line in source.text.lines().map(str::trim) {
            let attribute = line.starts_with("#[test]") || line.contains("test_macros::test");
            marked |= attribute && line.starts_with("#[");
            let Some((_, rest)) = line.split_once("fn ") else { continue };
            let name = rest.split(['(', '<']).next().unwrap_or(rest);
            if std::mem::take(&mut marked) {
                tests.entry(file_name(&source.path)).or_default().push(name);
            }
        }
    }
    tests
}

fn file_name(path: &str) -> &str {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let folder_name = folder.rsplit('/').next().unwrap_or(folder);
    match name {
        "tests.rs" | "mod.rs" | "main.rs" => folder_name,
        _ => name.trim_end_matches(".rs"),
    }
}

fn is_test(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("tests.rs")
}

/// The names after a dot that are not assigned to.
fn fields_read(source: &Source) -> BTreeSet<&str> {
    let tokens = source.tokens();
    let text = |at: usize| tokens.get(at).map_or("", |token| token.text);
    let reads = |at: usize| {
        let assigned = text(at + 1) == "=" && text(at + 2) != "=";
        let ordered = source.path == SANITIZER && at >= 2 && text(at - 2) == "o";
        at >= 1 && text(at - 1) == "." && !assigned && !ordered
    };
    (0..tokens.len()).filter(|at| reads(*at)).map(|at| tokens[at].text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: &str) -> Source {
        Source { path: path.to_string(), text: text.to_string() }
    }

    /// The messages about a table of one row, with a test and code that reads a field.
    fn findings(row: &str) -> Vec<String> {
        let table = format!("    fields {{\n        /// Doc: of it.\n{row}\n    }}\n");
        let code = "fn f(o: &O) -> bool { o.written = 1; o.read }";
        let test = "#[pumice_test_macros::test]\nfn shows() {}\nfn helps() {}";
        let sources = [
            source(TABLES[0], &table),
            source("crates/pumice/src/flush/mod.rs", code),
            source("crates/pumice/tests/effects/main.rs", test),
        ];
        check(&sources).into_iter().skip(1).map(|violation| violation.message).collect()
    }

    #[test]
    fn rows_name_tests_and_are_read() {
        assert!(findings("        read: u64 = 1, fixed, saved => \"effects::shows\";").is_empty());
        let broken = "        read: u64 = 1, fixed,\n            => \"effects::shows\";";
        assert!(findings(broken).is_empty());
        let reason = "        read: u64 = 1, fixed, saved => \"none: nobody can see it\";";
        assert!(findings(reason).is_empty());
        for proof in ["effects::helps", "effects::gone", "none: ", "", "other::shows"] {
            let findings =
                findings(&format!("        read: u64 = 1, fixed, saved => \"{proof}\";"));
            assert!(
                findings.len() == 1 && findings[0].contains("its proof"),
                "{proof}: {findings:?}"
            );
        }
        assert_eq!(findings("        read: u64 = 1, fixed, saved;").len(), 1);
        for name in ["written", "forgotten"] {
            let findings =
                findings(&format!("        {name}: u64 = 1, fixed => \"effects::shows\";"));
            assert_eq!(findings, [format!("{name}: nothing reads it")]);
        }
    }
}
