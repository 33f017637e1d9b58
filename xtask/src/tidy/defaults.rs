//! Each default is defined once, and so is each enumeration.
//!
//! The default of an option is in its row (`crates/pumice/src/options/`), or in a constant of the
//! crate that uses it, to which the row then refers. Reported as a second one:
//! - a field named as an option to which an `impl Default` or a constant `DEFAULT` of the engine
//!   gives a value, while the row has a value of its own;
//! - a flag of db_bench that repeats name and default of an option instead of taking them;
//! - an enumeration with the same variants as another one, three or more.
//!
//! Not detected: defaults under a name other than the option's.

use std::collections::{BTreeMap, BTreeSet};

use super::Violation;
use super::proofs::TABLES;
use super::rooms::{before_tests, is_test};
use super::source::{Source, Token};

const FLAGS: &str = "crates/cli/src/db_bench/flag_table.rs";
/// Options that are no flags, so that a flag of the same name has a default of its own.
const OTHER_TABLES: &str = "crates/pumice/src/options/other_tables.rs";
/// Crates whose settings come from options.
const ENGINE: &[&str] = &[
    "base", "cache", "compress", "env", "filter", "manifest", "memtable", "port", "pumice",
    "table", "wal",
];

/// Types whose fields are not settings: what a caller passes when it makes or reads a table, and
/// what a table records about itself. Options of one call, whose default defers to the option.
const OTHER_TYPES: &[&str] = &[
    "CompactFilesOptions",
    "CompactRangeOptions",
    "TableBuildContext",
    "TableProperties",
    "TableReadContext",
    "TableReadOptions",
];
/// (type, field): fields named like an option that mean something else.
const OTHER_THINGS: &[(&str, &str)] = &[
    // RocksDB's old BlobDB has an option of that name for files of its own.
    ("BlobDbOptions", "blob_file_size"),
    // The option has no effect on a file for which no space is reserved.
    ("FileOptions", "allow_fallocate"),
    // Tables use the cache that the engine passes; without an option it makes one.
    ("TableOptions", "block_cache"),
    // An object: none unless the engine passes one.
    ("TableOptions", "persistent_cache"),
];
/// Enumerations that mean different things by the same variants.
const OTHER_KINDS: &[[&str; 2]] = &[
    // An option for CPU and I/O alike; the class of a thread's I/O at the kernel.
    ["BackgroundPriority", "IoPriority"],
];

/// Reports second defaults and second enumerations.
pub fn check(sources: &[Source]) -> Vec<Violation> {
    let tables = sources
        .iter()
        .filter(|source| TABLES.contains(&source.path.as_str()) && source.path != OTHER_TABLES);
    let rows: BTreeMap<&str, String> = tables.flat_map(|table| rows(&table.text, 8)).collect();
    let mut violations = Vec::new();
    let mut enums: BTreeMap<BTreeSet<&str>, (&str, &str)> = BTreeMap::new();
    for source in sources {
        if source.path == FLAGS {
            violations.extend(repeated_flags(source, &rows));
        }
        if !is_of_engine(&source.path) {
            continue;
        }
        let tokens = source.tokens();
        let tokens = before_tests(&tokens);
        for (name, field, line) in fields_with_default(tokens) {
            let has_own = rows.get(field).is_some_and(|default| !refers(default));
            let is_other = OTHER_TYPES.contains(&name) || OTHER_THINGS.contains(&(name, field));
            if has_own && !is_other {
                let message = format!("{name}: a second default of the option `{field}`");
                violations.push(Violation::new(format!("{}:{line}", source.path), message));
            }
        }
        for (name, variants, line) in enumerations(tokens) {
            let (first, path) = *enums.entry(variants).or_insert((name, &source.path));
            let is_other =
                OTHER_KINDS.iter().any(|kinds| kinds.iter().all(|k| [first, name].contains(k)));
            if (first, path) != (name, source.path.as_str()) && !is_other {
                let message = format!("`{name}` has the variants of `{first}` in {path}");
                violations.push(Violation::new(format!("{}:{line}", source.path), message));
            }
        }
    }
    violations
}

fn is_of_engine(path: &str) -> bool {
    let name = path.strip_prefix("crates/").and_then(|rest| rest.split_once("/src/"));
    name.is_some_and(|(name, _)| ENGINE.contains(&name)) && !is_test(path)
}

/// The default is a field of a constant.
fn refers(default: &str) -> bool {
    default.split_once('.').is_some_and(|(constant, _)| {
        !constant.is_empty() && constant.chars().all(|c| c.is_ascii_uppercase() || c == '_')
    })
}

/// The rows `name: type = default, ..` of a table at indentation `indent`, except those without a
/// default.
fn rows(text: &str, indent: usize) -> Vec<(&str, String)> {
    let mut rows = Vec::new();
    let lines: Vec<&str> = text.lines().collect();
    for (at, line) in lines.iter().enumerate() {
        let start = line.get(indent..).filter(|rest| rest.len() == line.trim_start().len());
        let Some((name, rest)) = start.and_then(|rest| rest.split_once(": ")) else { continue };
        if !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            continue;
        }
        // A wrapped row has its default in the second line.
        let next = lines.get(at + 1).map_or("", |next| next.trim());
        let row = if rest.ends_with('=') { format!("{rest} {next}") } else { rest.to_string() };
        let Some((_, default)) = row.split_once("= ") else { continue };
        let ends = [", mutable", ", fixed", ", \"", ",\n"];
        let end = ends.iter().filter_map(|end| default.find(end)).min();
        let default = default[..end.unwrap_or(default.len())].trim_end_matches([',', ';']);
        rows.push((name, default.trim().to_string()));
    }
    rows
}

/// Flags that repeat their option's row.
fn repeated_flags(source: &Source, options: &BTreeMap<&str, String>) -> Vec<Violation> {
    let plain = |text: &str| match text {
        "String::new()" => "\"\"".to_string(),
        _ => text.replace('_', ""),
    };
    let mut violations = Vec::new();
    for (name, default) in rows(&source.text, 4) {
        if options.get(name).is_some_and(|option| plain(option) == plain(&default)) {
            let message = format!("flag `{name}`: without a default it has that of the option");
            violations.push(Violation::new(source.path.clone(), message));
        }
    }
    violations
}

/// (type, field, line) of what `impl Default for` a type, or its constant `DEFAULT`, sets.
fn fields_with_default<'a>(tokens: &[Token<'a>]) -> Vec<(&'a str, &'a str, usize)> {
    let text = |at: usize| tokens.get(at).map_or("", |token| token.text);
    let mut found = Vec::new();
    for at in 0..tokens.len() {
        let implemented = [text(at), text(at + 1), text(at + 2)] == ["impl", "Default", "for"];
        let constant = [text(at), text(at + 1)] == ["const", "DEFAULT"];
        if !implemented && !constant {
            continue;
        }
        let Some(open) = (at..tokens.len()).find(|i| text(*i) == "{") else { break };
        let name = if implemented { text(at + 3) } else { text(open - 1) };
        let body = tokens.iter().enumerate().take(end_of_block(tokens, open)).skip(open + 1);
        for (field, token) in body {
            let is_start = matches!(text(field - 1), "{" | ",");
            if is_start && text(field + 1) == ":" && text(field + 2) != ":" {
                found.push((name, token.text, token.line));
            }
        }
    }
    found
}

/// (name, variants, line) of enumerations with three variants or more.
fn enumerations<'a>(tokens: &[Token<'a>]) -> Vec<(&'a str, BTreeSet<&'a str>, usize)> {
    let text = |at: usize| tokens.get(at).map_or("", |token| token.text);
    let mut found = Vec::new();
    for at in 0..tokens.len() {
        if text(at) != "enum" || text(at + 2) != "{" {
            continue;
        }
        let (mut variants, mut depth) = (BTreeSet::new(), 0);
        for i in at + 3..end_of_block(tokens, at + 2) {
            match text(i) {
                "{" | "(" | "[" => depth += 1,
                "}" | ")" | "]" => depth -= 1,
                word if depth == 0
                    && matches!(text(i - 1), "{" | "," | "]")
                    && word.starts_with(|c: char| c.is_ascii_uppercase()) =>
                {
                    variants.insert(word);
                }
                _ => {}
            }
        }
        if variants.len() > 2 {
            found.push((text(at + 1), variants, tokens[at].line));
        }
    }
    found
}

/// The index of the brace that closes the one at `open`.
fn end_of_block(tokens: &[Token<'_>], open: usize) -> usize {
    let mut depth = 0usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.text {
            "{" => depth += 1,
            "}" if depth == 1 => return at,
            "}" => depth -= 1,
            _ => {}
        }
    }
    tokens.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "    fields {\n        /// Doc.\n        \
        size: u64 = 64 << 20, mutable, saved => \"x::y\";\n        /// Doc.\n        \
        depth: i32 =\n            LOWER.depth as i32, fixed, saved => \"x::y\";\n        \
        /// Doc.\n        dir: String = String::new(), fixed, saved => \"x::y\";\n    }\n";

    fn findings(path: &str, text: &str) -> Vec<String> {
        let source = |path: &str, text: &str| Source { path: path.into(), text: text.into() };
        let sources = [
            source(TABLES[0], TABLE),
            source("crates/env/src/a.rs", "pub enum Cause { One, Two(u8), Three }"),
            source(path, text),
        ];
        check(&sources).into_iter().map(|violation| violation.message).collect()
    }

    #[test]
    fn a_second_default_is_found() {
        let lower = "crates/table/src/options.rs";
        let implemented = "impl Default for T { fn default() -> Self { T { size: 1, other: 2 } } }";
        assert_eq!(findings(lower, implemented), ["T: a second default of the option `size`"]);
        let constant = "impl T { pub const DEFAULT: Self = T { other: 1, size: 1 << 20 }; }";
        assert_eq!(findings(lower, constant).len(), 1);
        assert_eq!(findings("crates/pumice/src/flush/mod.rs", implemented).len(), 1);
        // If the row refers to it, it is not a second one.
        assert!(findings(lower, "impl T { const DEFAULT: T = T { depth: 7 }; }").is_empty());
        assert!(findings(lower, "fn f() -> T { T { size: options.size } }").is_empty());
        assert!(findings("crates/table/src/x/tests.rs", implemented).is_empty());
    }

    #[test]
    fn a_flag_that_repeats_its_option_is_found() {
        for repeated in ["size: u64 = 64 << 20, \"Doc\";", "dir: String = \"\", \"Doc\";"] {
            assert_eq!(findings(FLAGS, &format!("flag_table! {{\n    {repeated}\n}}")).len(), 1);
        }
        for fine in ["size: u64, \"Doc\";", "size: u64 = 32 << 20, \"Its own\";", "num: i64 = 1,"] {
            assert!(
                findings(FLAGS, &format!("flag_table! {{\n    {fine}\n}}")).is_empty(),
                "{fine}"
            );
        }
    }

    #[test]
    fn a_second_enumeration_is_found() {
        let twin = "/// Doc.\n#[repr(u8)]\npub enum Why { #[default] Three, One, Two(u16), }";
        assert_eq!(
            findings("crates/pumice/src/flush/mod.rs", twin),
            ["`Why` has the variants of `Cause` in crates/env/src/a.rs"]
        );
        assert!(findings("crates/pumice/src/flush/mod.rs", "enum Why { One, Two }").is_empty());
        assert!(findings("crates/server/src/a.rs", twin).is_empty());
    }
}
