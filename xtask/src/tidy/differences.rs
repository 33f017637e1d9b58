//! The list of differences from RocksDB: each of them cites a test that shows it, or says why there
//! is none.
//!
//! The list is in docs/compatibility.md: the bullets below `START` and the paragraph that begins
//! with `LDB`. A test is cited as the tables of options do it (`proofs`), between backticks:
//! `file::test`, in lower case, which is what tells it from names of the interface. The other form
//! is `not tested: reason`. A citation has to mean one function.

use std::path::Path;

use super::Violation;
use super::proofs::tests_by_file;
use super::source::Source;

const PAGE: &str = "docs/compatibility.md";
/// The end of the line above the bullets.
const START: &str = "Behaviour that differs on purpose:";
/// How the paragraph about the tool begins.
const LDB: &str = "Where `pumice ldb` differs from RocksDB's on purpose";
/// Finding fewer would mean that this file no longer finds the list.
const DIFFERENCES_MIN: usize = 40;

/// Reports differences without a citation, and citations of what is not one test.
pub fn check(root: &Path, sources: &[Source]) -> std::io::Result<Vec<Violation>> {
    let page = std::fs::read_to_string(root.join(PAGE))?;
    let found = differences(&page);
    let mut violations = Vec::new();
    if found.len() < DIFFERENCES_MIN || !found.iter().any(|(_, text)| text.starts_with(LDB)) {
        let message = format!("{} differences found, there must be more", found.len());
        violations.push(Violation::new(PAGE, message));
    }
    violations.extend(untested(&found, sources));
    Ok(violations)
}

fn untested(differences: &[(usize, String)], sources: &[Source]) -> Vec<Violation> {
    let tests = tests_by_file(sources);
    let mut violations = Vec::new();
    for (line, text) in differences {
        let mut report = |message: String| {
            violations.push(Violation::new(format!("{PAGE}:{line}"), message));
        };
        for (file, test) in citations(text) {
            let all = tests.get(file).into_iter().flatten();
            match all.filter(|name| **name == test).count() {
                1 => {}
                count => report(format!("`{file}::{test}` is {count} tests, not one")),
            }
        }
        let reason = text.split_once("not tested: ").is_some_and(|(_, reason)| reason.len() > 10);
        if citations(text).next().is_none() && !reason {
            report("a difference without a test: cite one, or say `not tested: why`".to_string());
        }
    }
    violations
}

/// The bullets and the paragraph, each in one line, with the number of their first line.
fn differences(page: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let (mut listed, mut open) = (false, false);
    for (line, number) in page.lines().zip(1..) {
        let is_bullet = listed && line.starts_with("- ");
        // Lines that continue a bullet are indented, those of the paragraph are not.
        open &= !line.is_empty() && !is_bullet;
        if is_bullet || line.starts_with(LDB) {
            found.push((number, line.to_string()));
            open = true;
        } else if open {
            if let Some((_, text)) = found.last_mut() {
                text.push(' ');
                text.push_str(line.trim_start());
            }
        } else if !line.is_empty() {
            listed = line.ends_with(START);
        }
    }
    found
}

/// File and test of each citation.
fn citations(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let is_name = |name: &str| {
        let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        !name.is_empty() && name.chars().all(is_part)
    };
    let quoted = text.split('`').skip(1).step_by(2);
    quoted
        .filter_map(|word| word.split_once("::"))
        .filter(move |(file, test)| is_name(file) && is_name(test))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(page: &str) -> Vec<String> {
        let source = |path: &str, name: &str| Source {
            path: path.to_string(),
            text: format!("#[test]\nfn {name}() {{}}\nfn helps() {{}}"),
        };
        let sources = [
            source("crates/pumice/tests/all/write/logs.rs", "shows"),
            source("crates/cli/tests/ldb/values.rs", "twice"),
            source("crates/pumice/src/values.rs", "twice"),
        ];
        let violations = untested(&differences(page), &sources).into_iter();
        violations.map(|violation| format!("{}: {}", violation.place, violation.message)).collect()
    }

    fn in_list(text: &str) -> Vec<String> {
        messages(&format!("The same: x. {START}\n\n- {text}\n- Last (`logs::shows`).\n\nMore.\n"))
    }

    #[test]
    fn a_difference_has_a_test_or_a_reason() {
        assert_eq!(in_list("One (`logs::shows`)."), Vec::<String>::new());
        assert_eq!(in_list("One, over two lines\n  (`logs::shows`)."), Vec::<String>::new());
        assert_eq!(in_list("One (not tested: there is no such code)."), Vec::<String>::new());
        let none = "docs/compatibility.md:3: a difference without a test: cite one, or say \
                    `not tested: why`";
        assert_eq!(in_list("One."), [none]);
        assert_eq!(in_list("`Db::open` of\n  `options`."), [none]);
        assert_eq!(in_list("One (not tested: )."), [none]);
        for name in ["logs::gone", "logs::helps", "gone::shows"] {
            let message = format!("docs/compatibility.md:3: `{name}` is 0 tests, not one");
            assert_eq!(in_list(&format!("One (`logs::shows`, `{name}`).")), [message]);
        }
        let both = "docs/compatibility.md:3: `values::twice` is 2 tests, not one";
        assert_eq!(in_list("One (`values::twice`)."), [both]);
    }

    #[test]
    fn only_the_list_and_the_paragraph_are_looked_at() {
        let page = format!("- Before.\n\n{START}\n\n- In (`logs::shows`).\n\nOther:\n\n- After.\n");
        assert_eq!(messages(&page), Vec::<String>::new());
        let page = format!("Text.\n\n{LDB}: this and\nthat (`logs::gone`).\n\n- After.\n");
        assert_eq!(messages(&page), ["docs/compatibility.md:3: `logs::gone` is 0 tests, not one"]);
        assert_eq!(messages(&format!("{LDB}: this.\n")).len(), 1);
    }
}
