//! Keys are taken apart, built and compared in one place: `crates/base/src/key`.
//!
//! Elsewhere code asks a `UserKey`, an `InternalKey` or a comparator. What the types cannot forbid
//! is found here: the length of the trailer as a number or a constant, a trailer packed by hand,
//! bytes of keys that are compared, and the name of a table or log made by hand. The formats of
//! blocks and of memtables work on parts of keys; their files are listed.
//!
//! Not detected: bytes that pass through a variable before they are compared, and arithmetic on
//! lengths in other words. Tests are not read.

use super::Violation;
use super::rooms::{before_tests, is_test};
use super::source::{Source, Token};

/// Crates whose keys are these.
const CRATES: &[&str] = &[
    "crates/base/src/extractor.rs",
    "crates/base/src/iterator.rs",
    "crates/base/src/range_tombstone",
    "crates/memtable/src/",
    "crates/table/src/",
    "crates/manifest/src/",
    "crates/pumice/src/",
    "crates/binding/src/",
    "crates/capi/src/",
    "crates/jni/src/",
    "crates/cli/src/ldb/",
    "crates/cli/src/sst_dump/",
    "crates/cli/src/text.rs",
];

/// The types, and the formats that take keys apart.
const CODECS: &[&str] = &[
    "crates/base/src/key",
    // Entries of memtables, what is counted of them, and their order.
    "crates/memtable/src/arena.rs",
    "crates/memtable/src/entry.rs",
    "crates/memtable/src/guard.rs",
    "crates/memtable/src/memtable.rs",
    "crates/memtable/src/order.rs",
    "crates/memtable/src/ranges.rs",
    "crates/memtable/src/writer.rs",
    // Blocks and rows, as they are written and read.
    "crates/table/src/build/",
    "crates/table/src/cuckoo/",
    "crates/table/src/plain/rows.rs",
    "crates/table/src/read/block.rs",
    "crates/table/src/read/cursor/",
    "crates/table/src/read/index/",
    "crates/table/src/read/scan.rs",
    "crates/table/src/read/table.rs",
];

/// Where the names of files are made.
const NAMES: &str = "crates/env/src/filename.rs";

const SPLIT: &str = "splits a key by its length: ask `InternalKey`";
const BUILT: &str = "makes a trailer by hand: ask `base::key`";
const COMPARED: &str = "compares bytes of a key: ask its comparator";
const NAMED: &str = "makes a file's name by hand: ask `env::filename`";

/// Reports keys that `source` handles as bytes, and names of files that it makes.
pub fn check(source: &Source, tokens: &[Token<'_>]) -> Vec<Violation> {
    if is_test(&source.path) {
        return Vec::new();
    }
    let mut found = Vec::new();
    let tokens = before_tests(tokens);
    let holds_keys = CRATES.iter().any(|prefix| source.path.starts_with(prefix));
    if holds_keys && !CODECS.iter().any(|prefix| source.path.starts_with(prefix)) {
        for at in 0..tokens.len() {
            if let Some(what) = raw_at(&tokens[at..]) {
                found.push(Violation::new(format!("{}:{}", source.path, tokens[at].line), what));
            }
        }
    }
    if source.path.starts_with("crates/") && source.path.contains("/src/") && source.path != NAMES {
        found.extend(names(source, tokens.last().map_or(0, |token| token.line)));
    }
    found
}

/// What is raw in the code that begins with `tokens`.
fn raw_at(tokens: &[Token<'_>]) -> Option<&'static str> {
    let begins = |words: &[&str]| {
        tokens.len() >= words.len()
            && tokens.iter().zip(words).all(|(token, word)| token.text == *word)
    };
    let splits = begins(&["TRAILER_LEN"])
        || begins(&["len", "(", ")", "-", "8"])
        || begins(&["len", "(", ")", ".", "checked_sub", "(", "8"])
        || begins(&["len", "(", ")", ".", "saturating_sub", "(", "8"])
        || begins(&["last_chunk", ":", ":", "<", "8"])
        || begins(&["split_last_chunk", ":", ":", "<", "8"]);
    let builds = ["pack", "unpack"].iter().any(|call| begins(&["key", ":", ":", call]))
        || begins(&["<", "<", "8", ")", "|"]);
    let compares = ["=", "!", "<", ">"]
        .iter()
        .any(|sign| begins(&["user_key", "(", ")", ".", "as_bytes", "(", ")", sign]))
        || ["cmp", "partial_cmp", "eq", "ne", "lt", "le", "gt", "ge"]
            .iter()
            .any(|call| begins(&["user_key", "(", ")", ".", "as_bytes", "(", ")", ".", call, "("]));
    match (splits, builds, compares) {
        (true, _, _) => Some(SPLIT),
        (_, true, _) => Some(BUILT),
        (_, _, true) => Some(COMPARED),
        _ => None,
    }
}

/// Format strings that are names of tables, logs or MANIFESTs, in the lines before the tests.
fn names(source: &Source, lines: usize) -> Vec<Violation> {
    let made = |line: &str| {
        let code = line.split("//").next().unwrap_or_default();
        [":06}.sst", ":06}.log", "MANIFEST-{"].iter().any(|name| code.contains(name))
    };
    let numbered = source.text.lines().take(lines).enumerate();
    let by_hand = numbered.filter(|(_, line)| made(line));
    by_hand.map(|(at, _)| Violation::new(format!("{}:{}", source.path, at + 1), NAMED)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<&'static str> {
        let source = Source { path: path.to_string(), text: text.to_string() };
        let all = [SPLIT, BUILT, COMPARED, NAMED];
        let message = |v: Violation| all.into_iter().find(|known| *known == v.message);
        check(&source, &source.tokens()).into_iter().filter_map(message).collect()
    }

    const FILE: &str = "crates/pumice/src/read/x.rs";

    #[test]
    fn what_is_listed_is_there() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for path in CRATES.iter().chain(CODECS).chain([&NAMES]) {
            let there =
                [root.join(path), root.join(format!("{path}.rs"))].iter().any(|p| p.exists());
            assert!(there, "{path}");
        }
    }

    #[test]
    fn a_planted_split_is_found() {
        for text in [
            "fn f(ikey: &[u8]) -> &[u8] { &ikey[..ikey.len() - 8] }",
            "fn f(ikey: &[u8]) -> usize { ikey.len() - TRAILER_LEN }",
            "use pumice_base::key::TRAILER_LEN;",
            "fn f(k: &[u8]) { k.len().checked_sub(8); }",
            "fn f(k: &[u8]) { k.split_last_chunk::<8>(); }",
        ] {
            assert_eq!(found(FILE, text), [SPLIT], "{text}");
        }
    }

    #[test]
    fn a_planted_trailer_and_a_planted_compare_are_found() {
        assert_eq!(found(FILE, "fn f() { k.extend(&key::pack(seq, 1).to_le_bytes()); }"), [BUILT]);
        assert_eq!(found(FILE, "fn f() -> u64 { (seq << 8) | 1 }"), [BUILT]);
        for sign in ["==", "!=", "<", ">="] {
            let text = format!("fn f() -> bool {{ a.user_key().as_bytes() {sign} b }}");
            assert_eq!(found(FILE, &text), [COMPARED], "{text}");
        }
        assert_eq!(found(FILE, "fn f() { a.user_key().as_bytes().cmp(b); }"), [COMPARED]);
    }

    #[test]
    fn a_planted_name_is_found() {
        let text = "fn f() { dir.join(format!(\"{number:06}.sst\")); }\nfn g() {}";
        assert_eq!(found(FILE, text), [NAMED]);
        assert_eq!(found("crates/env/src/x.rs", text), [NAMED]);
        assert!(found(NAMES, text).is_empty());
    }

    #[test]
    fn codecs_tests_and_prose_are_left_alone() {
        let text = "fn f(k: &[u8]) -> usize { k.len() - TRAILER_LEN }";
        assert!(found("crates/table/src/read/block.rs", text).is_empty());
        assert!(found("crates/base/src/key/internal.rs", text).is_empty());
        assert!(found("crates/pumice/src/read/x/tests.rs", text).is_empty());
        assert!(found("crates/server/src/x.rs", text).is_empty());
        assert!(found(FILE, "// k.len() - TRAILER_LEN, 000012.sst").is_empty());
        assert!(found(FILE, "#[cfg(test)] mod tests { fn f() { k.len() - 8; } }").is_empty());
        assert!(found(FILE, "fn f() { out.extend(key.user_key().as_bytes()); }").is_empty());
    }
}
