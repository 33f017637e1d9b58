//! Checks that references in pages and comments exist.
//!
//! | in | reference | has to be |
//! |---|---|---|
//! | a page, at the top or in docs/ | `[text](target)`, no URL | a file, seen from the page |
//! | | `[text](target#anchor)`, `[text](#anchor)` | a heading of that page |
//! | | a path between backticks that begins with one of `TOPS` | a file or folder |
//! | a page, a comment | a word in `.md`, with an anchor or without | a page, seen from the top |
//! | | a word in `.rs`, unless a part of it stands for any name | the end of a source file's path |
//! | | the word decision and four digits, or `decisions/` and these | a page of docs/decisions |
//! | a comment | a path that begins with one of `TOPS` | a file or folder, also of the package |
//!
//! Paths in a page are also resolved relative to its folder and to docs/.
//!
//! An anchor is a heading in lower case, spaces as hyphens, other characters than letters, digits,
//! hyphens and underscores left out.
//!
//! Not checked: references to places inside code, and fenced blocks of a page.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::Violation;
use super::source::Source;

/// How a path from the top begins.
const TOPS: [&str; 4] = ["crates/", "tests/", "xtask/", "docs/"];

/// The possible targets of references.
struct Known<'a> {
    /// The headings of each page, by its path from the top.
    anchors: BTreeMap<String, BTreeSet<String>>,
    /// Paths of source files, from the top.
    sources: Vec<&'a str>,
    exists: Box<dyn Fn(&str) -> bool + 'a>,
}

/// Reports references to targets that do not exist.
pub fn check(root: &Path, sources: &[Source]) -> std::io::Result<Vec<Violation>> {
    let mut pages = Vec::new();
    for entry in std::fs::read_dir(root)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.ends_with(".md") {
            pages.push(name);
        }
    }
    super::list_files(root, "docs", ".md", &mut pages)?;
    pages.sort();
    let mut texts = Vec::new();
    let mut anchors = BTreeMap::new();
    for page in pages {
        let text = std::fs::read_to_string(root.join(&page))?;
        anchors.insert(page.clone(), headings(&text));
        texts.push((page, text));
    }
    let paths = sources.iter().map(|source| source.path.as_str()).collect();
    let exists = Box::new(|path: &str| root.join(path).exists());
    let known = Known { anchors, sources: paths, exists };
    let mut violations = Vec::new();
    for (page, text) in &texts {
        violations.extend(in_page(&known, page, text));
    }
    for source in sources {
        violations.extend(in_source(&known, source));
    }
    Ok(violations)
}

fn in_page(known: &Known<'_>, page: &str, text: &str) -> Vec<Violation> {
    let folder = page.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut found = Vec::new();
    for (line, number) in outside_fences(text) {
        let mut missing: BTreeSet<String> = BTreeSet::new();
        for target in links(line) {
            let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
            let path = if path.is_empty() { page.to_string() } else { join(folder, path) };
            missing.extend(known.missing(&path, anchor));
        }
        for path in code_paths(line).filter(|path| !(known.exists)(path)) {
            missing.insert(path.to_string());
        }
        let plain = links(line).fold(line.to_string(), |rest, link| rest.replace(link, ""));
        missing.extend(known.missing_words(&plain, &["", folder, "docs"]));
        found.extend(missing.into_iter().map(|what| dangling(page, number, &what)));
    }
    found
}

fn in_source(known: &Known<'_>, source: &Source) -> Vec<Violation> {
    let comments = source.text.lines().enumerate().filter_map(|(index, line)| {
        let at = if line.trim_start().starts_with("//") { Some(0) } else { line.find(" // ") };
        // Within a string it is not a comment.
        let at = at.filter(|at| line[..*at].matches('"').count() % 2 == 0)?;
        Some((&line[at..], index + 1))
    });
    let missing = comments.flat_map(|(comment, number)| {
        let mut missing = known.missing_words(comment, &[""]);
        let paths = words(comment).filter(|word| TOPS.iter().any(|top| word.starts_with(top)));
        for path in paths.filter(|path| !path.contains(".md") && decision("", path).is_none()) {
            let package = join(super::package_folder(&source.path), path);
            let seen = (known.exists)(path) || (known.exists)(&package);
            missing.extend((!seen).then(|| path.to_string()));
        }
        missing.into_iter().map(move |what| dangling(&source.path, number, &what))
    });
    missing.collect()
}

fn dangling(place: &str, line: usize, what: &str) -> Violation {
    Violation::new(format!("{place}:{line}"), format!("there is no {what}"))
}

impl Known<'_> {
    /// The missing part of `path#anchor`.
    fn missing(&self, path: &str, anchor: &str) -> Option<String> {
        if !(self.exists)(path) {
            return Some(path.to_string());
        }
        let here = anchor.is_empty() || self.anchors.get(path)?.contains(anchor);
        (!here).then(|| format!("heading `{anchor}` in {path}"))
    }

    /// The pages and decisions that `line` names and that are in none of `folders`.
    fn missing_words(&self, line: &str, folders: &[&str]) -> BTreeSet<String> {
        let mut missing = BTreeSet::new();
        let mut last = "";
        for word in words(line) {
            let (path, anchor) = word.split_once('#').unwrap_or((word, ""));
            if path.ends_with(".md") && path.len() > 3 && !path.starts_with('/') {
                let seen = folders.iter().map(|folder| self.missing(&join(folder, path), anchor));
                let seen: Vec<Option<String>> = seen.collect();
                if seen.iter().all(Option::is_some) {
                    missing.extend(seen.into_iter().flatten().next());
                }
            } else if path.ends_with(".rs") && path.len() > 3 {
                let seen = folders.iter().any(|folder| (self.exists)(&join(folder, path)));
                if !seen && !is_pattern(path) && !self.is_source(path) {
                    missing.insert(path.to_string());
                }
            } else if let Some(number) = decision(last, path) {
                let start = format!("docs/decisions/{number}-");
                if !self.anchors.keys().any(|page| page.starts_with(&start)) {
                    missing.insert(format!("decision {number}"));
                }
            }
            last = word;
        }
        missing
    }

    /// Whether `path` is the end of a source file's path.
    fn is_source(&self, path: &str) -> bool {
        let mut ends = self.sources.iter().filter_map(|source| source.strip_suffix(path));
        ends.any(|above| above.is_empty() || above.ends_with('/'))
    }
}

/// A part of the path stands for any name, in capitals or one letter: `src/NAME/main.rs`, `a/x.rs`.
fn is_pattern(path: &str) -> bool {
    path.trim_end_matches(".rs")
        .split('/')
        .filter(|part| !matches!(*part, "" | "."))
        .any(|part| part.len() == 1 || part.bytes().all(|byte| byte.is_ascii_uppercase()))
}

/// The four digits after the word decision, or after `decisions/`.
fn decision<'a>(last: &str, word: &'a str) -> Option<&'a str> {
    let number = match word.rsplit_once("decisions/") {
        Some((_, number)) => number,
        None if matches!(last, "decision" | "decisions" | "Decision") => word,
        None => return None,
    };
    let is_number = number.len() == 4 && number.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then_some(number)
}

/// `path` relative to `folder`, `..` resolved; one that leaves the top stays as it is.
fn join(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            ".." if parts.pop().is_none() => return path.to_string(),
            ".." | "." | "" => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// The words that could be paths.
fn words(line: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "/._-#".contains(c);
    line.split(move |c| !is_part(c))
        .map(|word| word.trim_end_matches('.'))
        .filter(|w| !w.is_empty())
}

fn code_paths(line: &str) -> impl Iterator<Item = &str> {
    let between = line.split('`').skip(1).step_by(2);
    between.filter(|text| {
        let plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
        plain && TOPS.iter().any(|top| text.starts_with(top))
    })
}

/// Targets of `[text](target)` in this repository.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| {
        let target = rest.split(')').next()?;
        (!target.is_empty() && !target.contains("://")).then_some(target)
    })
}

/// Lines with their numbers, those between fences left out.
fn outside_fences(text: &str) -> impl Iterator<Item = (&str, usize)> {
    let mut fenced = false;
    text.lines().zip(1..).filter(move |(line, _)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    })
}

fn headings(text: &str) -> BTreeSet<String> {
    let titles = outside_fences(text).filter_map(|(line, _)| {
        let title = line.trim_start_matches('#');
        (title.len() < line.len()).then(|| title.strip_prefix(' ')).flatten()
    });
    titles.map(anchor).collect()
}

fn anchor(title: &str) -> String {
    let kept = title.trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c }).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: &str = "# Tables

## Range deletions

```
# no heading
```
\
                          ### `run`, in short
";

    fn known() -> Known<'static> {
        let pages = [
            ("docs/format/table.md", FORMAT),
            ("docs/a.md", "# A"),
            ("docs/decisions/0016-x.md", ""),
        ];
        let anchors = pages.iter().map(|(page, text)| (page.to_string(), headings(text)));
        let files = ["docs/format/table.md", "docs/a.md", "docs/decisions/0016-x.md", "crates/wal"];
        Known {
            anchors: anchors.collect(),
            sources: vec!["crates/x/src/read/merge.rs"],
            exists: Box::new(move |path| files.contains(&path)),
        }
    }

    fn page(text: &str) -> Vec<String> {
        in_page(&known(), "docs/format/b.md", text).into_iter().map(|v| v.message).collect()
    }

    fn source(text: &str) -> Vec<String> {
        let source = Source { path: "crates/x/src/lib.rs".into(), text: text.into() };
        in_source(&known(), &source).into_iter().map(|v| v.message).collect()
    }

    #[test]
    fn what_is_there_is_found() {
        let text = "[t](table.md#range-deletions), [a](../a.md), `crates/wal` [w](https://a/b#c)\n\
                    docs/a.md. decision 0016, ../a.md, table.md#run-in-short `cargo test`\n";
        assert_eq!(page(text), Vec::<String>::new());
        let text =
            "//! See docs/format/table.md#tables; (docs/decisions/0016).\nlet a = 1; // docs/a.md
             // crates/wal, `read/merge.rs`, src/NAME/main.rs, ends in `.rs`";
        assert_eq!(source(text), Vec::<String>::new());
    }

    #[test]
    fn a_dangling_reference_in_a_page_is_found() {
        assert_eq!(
            page("[t](table.md#range)"),
            ["there is no heading `range` in docs/format/table.md"]
        );
        assert_eq!(page("[t](tables.md)"), ["there is no docs/format/tables.md"]);
        assert_eq!(page("# B\n[b](#c)").len(), 1);
        assert_eq!(page("in `crates/gone`"), ["there is no crates/gone"]);
        assert_eq!(page("decision 0017"), ["there is no decision 0017"]);
        assert_eq!(page("as `read/set.rs` says, not `read/merge.rs`"), ["there is no read/set.rs"]);
        assert_eq!(page("`./read/set.rs`"), ["there is no ./read/set.rs"]);
        assert_eq!(page("[x](../../../shared/x.md)").len(), 1);
        assert_eq!(page("```\ndocs/none.md\n```\n"), Vec::<String>::new());
    }

    #[test]
    fn a_dangling_reference_in_a_comment_is_found() {
        assert_eq!(source("/// see docs/none.md"), ["there is no docs/none.md"]);
        assert_eq!(source("x(); // by reliability.md 2"), ["there is no reliability.md"]);
        let heading = "there is no heading `no-heading` in docs/format/table.md";
        assert_eq!(source("//! docs/format/table.md#no-heading"), [heading]);
        assert_eq!(source("// docs/decisions/0099"), ["there is no decision 0099"]);
        assert_eq!(source("// `write/get.rs` has it, and `.rs`"), ["there is no write/get.rs"]);
        assert_eq!(source("// crates/gone has it"), ["there is no crates/gone"]);
        assert_eq!(source("let path = \"docs/none.md\";"), Vec::<String>::new());
    }
}
