//! Heads and lengths: files, functions, lines.
//!
//! 1. Every file opens with `//!`.
//! 2. A file has at most 600 lines; up to 1,000 when a head line `//! Size: ...` says why; more
//!    only on the allow-list (`file PATH EXCESS`).
//! 3. A function has at most 70 lines from `fn` to its closing brace; longer ones only on the
//!    allow-list (`fn PATH NAME EXCESS`).
//! 4. A line has at most 100 characters.
//! 5. A struct of the engine has at most 15 named fields; records whose fields are RocksDB's are
//!    listed here. Structs that macros make, as the options, are not seen.

use super::Violation;
use super::source::{Source, Token};

const FILE_LINES: usize = 600;
const FILE_LINES_WITH_REASON: usize = 1000;
const FUNCTION_LINES: usize = 70;
const COLUMNS: usize = 100;
const STRUCT_FIELDS: usize = 15;
/// Rule 5 holds here.
const ENGINE: &str = "crates/pumice/src/";
/// What events and lists of files report, and what a read is given, field by field as RocksDB does.
const RECORDS: &[&str] = &["FlushJobInfo", "CompactionJobInfo", "LiveFile", "ReadOptions"];
/// Names that say nothing about what a file holds.
const EMPTY_NAMES: &[&str] = &["utils.rs", "util.rs", "helpers.rs", "common.rs", "misc.rs"];

/// Reports what is too long or lacks a head.
pub fn check(source: &Source, tokens: &[Token<'_>]) -> Vec<Violation> {
    let mut violations = Vec::new();
    check_file(source, &mut violations);
    for (name, line, lines) in functions(tokens) {
        if lines > FUNCTION_LINES {
            let message = format!("function `{name}` has {lines} lines (limit {FUNCTION_LINES})");
            let key = format!("fn {} {name}", source.path);
            let excess = (lines - FUNCTION_LINES) as u64;
            let place = format!("{}:{line}", source.path);
            violations.push(Violation::new(place, message).excusable(key, excess));
        }
    }
    if source.path.starts_with(ENGINE) && !super::rooms::is_test(&source.path) {
        violations.extend(large_structs(source, tokens));
    }
    violations
}

fn large_structs(source: &Source, tokens: &[Token<'_>]) -> Vec<Violation> {
    let too_large = structs(tokens)
        .into_iter()
        .filter(|(name, _, fields)| *fields > STRUCT_FIELDS && !RECORDS.contains(name));
    let describe = |(name, line, fields): (&str, usize, usize)| {
        let message = format!("struct `{name}` has {fields} fields (limit {STRUCT_FIELDS})");
        Violation::new(format!("{}:{line}", source.path), message)
    };
    too_large.map(describe).collect()
}

/// Every struct with named fields: name, line, how many.
fn structs<'a>(tokens: &[Token<'a>]) -> Vec<(&'a str, usize, usize)> {
    let mut found = Vec::new();
    for (at, pair) in tokens.windows(2).enumerate() {
        let is_name = pair[1].text.starts_with(|c: char| c.is_ascii_alphabetic());
        if pair[0].text == "struct" && is_name {
            found.push((pair[1].text, pair[0].line, fields(&tokens[at + 2..])));
        }
    }
    found
}

/// Named fields of the struct whose generics or body `tokens` begin with.
fn fields(tokens: &[Token<'_>]) -> usize {
    let (mut depth, mut count) = (0usize, 0);
    for (at, token) in tokens.iter().enumerate() {
        match token.text {
            ";" if depth == 0 => return 0,
            "(" if depth == 0 => return 0,
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => {
                depth = depth.saturating_sub(1);
                if depth == 0 && token.text == "}" {
                    return count;
                }
            }
            ":" if depth == 1 => {
                let beside = [at.checked_sub(1), Some(at + 1)];
                let is_path = beside
                    .into_iter()
                    .flatten()
                    .any(|next| tokens.get(next).is_some_and(|token| token.text == ":"));
                count += usize::from(!is_path);
            }
            _ => {}
        }
    }
    count
}

fn check_file(source: &Source, violations: &mut Vec<Violation>) {
    if !source.text.starts_with("//!") {
        let place = format!("{}:1", source.path);
        violations.push(Violation::new(place, "the file has no head (`//! what it is`)"));
    }
    let name = source.path.rsplit('/').next().unwrap_or_default();
    if EMPTY_NAMES.contains(&name) {
        violations.push(Violation::new(source.path.clone(), "the name says nothing"));
    }
    let lines = source.text.lines().count();
    let has_reason = source.text.lines().take_while(|line| line.starts_with("//!"));
    let has_reason = has_reason.into_iter().any(|line| line.starts_with("//! Size:"));
    let limit = if has_reason { FILE_LINES_WITH_REASON } else { FILE_LINES };
    if lines > limit {
        let message = format!(
            "{lines} lines (limit {FILE_LINES}, or {FILE_LINES_WITH_REASON} \
             with a `//! Size:` line that says why)"
        );
        let key = format!("file {}", source.path);
        let violation = Violation::new(source.path.clone(), message);
        violations.push(violation.excusable(key, (lines - limit) as u64));
    }
    for (index, line) in source.text.lines().enumerate() {
        if line.chars().count() > COLUMNS {
            let place = format!("{}:{}", source.path, index + 1);
            violations.push(Violation::new(place, format!("over {COLUMNS} columns")));
        }
    }
}

/// Every function with a body: name, first line, length in lines.
fn functions<'a>(tokens: &[Token<'a>]) -> Vec<(&'a str, usize, usize)> {
    let mut found = Vec::new();
    for (at, pair) in tokens.windows(2).enumerate() {
        let is_name = pair[1].text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        if pair[0].text != "fn" || !is_name {
            continue;
        }
        if let Some(last) = body_end(&tokens[at..]) {
            found.push((pair[1].text, pair[0].line, last - pair[0].line + 1));
        }
    }
    found
}

/// The line of the brace that closes the first body in `tokens`; None for a declaration.
fn body_end(tokens: &[Token<'_>]) -> Option<usize> {
    let (mut braces, mut brackets) = (0usize, 0usize);
    for token in tokens {
        match token.text {
            "(" | "[" => brackets += 1,
            ")" | "]" => brackets = brackets.saturating_sub(1),
            ";" if braces == 0 && brackets == 0 => return None,
            "{" => braces += 1,
            "}" => {
                braces = braces.checked_sub(1)?;
                if braces == 0 && brackets == 0 {
                    return Some(token.line);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::source::tokenize;
    use super::*;

    #[test]
    fn functions_are_measured_to_their_closing_brace() {
        let text = "trait T { fn a(x: [u8; 4]); fn b() {\n if x { y }\n}\n}\nfn c(\n) {\n}";
        let tokens = tokenize(text);
        assert_eq!(functions(&tokens), [("b", 1, 3), ("c", 5, 3)]);
    }

    #[test]
    fn fields_of_structs_are_counted() {
        let text = "struct A<T: B> where T: C { a: x::Y<(u8, z::Z)>, pub(super) b: [u8; 4],\n\
                    #[cfg(x)] c: fn(d: u8) } struct D(u8); struct E;";
        let tokens = tokenize(text);
        assert_eq!(structs(&tokens), [("A", 1, 3), ("D", 2, 0), ("E", 2, 0)]);
    }

    #[test]
    fn a_large_struct_of_the_engine_is_found() {
        let text = format!("//! Head.\nstruct A {{ {} }}", "a: u8,\n".repeat(16));
        let found = |path: &str| {
            let source = Source { path: path.to_string(), text: text.clone() };
            check(&source, &source.tokens()).len()
        };
        assert_eq!(found("crates/pumice/src/engine/x.rs"), 1);
        assert_eq!(found("crates/port/src/x.rs"), 0);
    }

    #[test]
    fn a_long_function_and_a_headless_file_are_found() {
        let text = format!("fn f() {{\n{}}}\n", "x();\n".repeat(80));
        let source = Source { path: "crates/env/src/x.rs".to_string(), text };
        let found = check(&source, &source.tokens());
        assert_eq!(found.len(), 2);
        let exception = found[1].exception.clone();
        assert_eq!(exception, Some(("fn crates/env/src/x.rs f".to_string(), 12)));
    }
}
