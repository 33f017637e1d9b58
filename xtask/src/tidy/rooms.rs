//! The rooms inside the engine: which folder of `crates/pumice/src` may name which.
//!
//! A file names only rooms above its own row of the list, and its own. So no two rooms depend on
//! each other, and none depends on the handle. Tests may name everything: a file `tests.rs` or in a
//! folder `tests`, and everything below `#[cfg(test)]`.
//!
//! Not detected: methods of a type are called without naming its room.

use super::Violation;
use super::source::{Source, Token, module_of, paths};

const ROOT: &str = "crates/pumice/src/";

/// From the room that needs nothing to the one that none may need. ARCHITECTURE.md describes each.
const ROOMS: &[&str] = &[
    "cost",
    "fiber",
    "lock_order",
    "perf",
    "row_cache",
    "snapshot",
    "locks",
    "stats",
    "options",
    "callbacks",
    "trace",
    "blob",
    "version",
    "read",
    "table_output",
    "commit",
    "log_tail",
    "flush",
    "compaction",
    "ingest",
    "recovery",
    "control",
    "state",
    "engine",
    "repair",
    "db",
    "batch_index",
    "transactions",
    "backup",
    "stacked_blob_db",
    "ttl",
    "typed",
];

/// Reports each name of a room that the file's own room may not name, and files in no room.
pub fn check(source: &Source, tokens: &[Token<'_>]) -> Vec<Violation> {
    let Some(path) = source.path.strip_prefix(ROOT) else { return Vec::new() };
    if path == "lib.rs" || is_test(path) {
        return Vec::new();
    }
    let room = path.split(['/', '.']).next().unwrap_or(path);
    let Some(own) = rank(room) else {
        let message = format!("`{room}` is not a room of the engine: add it to rooms.rs");
        return vec![Violation::new(source.path.clone(), message)];
    };
    let mut violations = Vec::new();
    for (name, line) in paths(before_tests(tokens)) {
        let Some(name) = from_the_root(path, &name) else { continue };
        let Some(to) = name.split("::").next() else { continue };
        if rank(to).is_some_and(|rank| rank > own) {
            let place = format!("{}:{line}", source.path);
            let message = format!("room `{room}` may not name `{to}`, which is on a higher floor");
            violations.push(Violation::new(place, message));
        } else if to.starts_with(char::is_uppercase) && Some(own) < rank("db") {
            // Items that lib.rs re-exports belong to a room, and must be named through it here.
            let place = format!("{}:{line}", source.path);
            violations.push(Violation::new(place, format!("`crate::{to}` hides a room")));
        }
    }
    violations
}

/// `name`, as the file `path` says it, without `crate::`; None for a path that does not begin at
/// the root and does not leave its module.
fn from_the_root(path: &str, name: &str) -> Option<String> {
    if let Some(rest) = name.strip_prefix("crate::") {
        return Some(rest.to_string());
    }
    let (mut module, mut rest) = (module_of(path), name);
    while let Some(after) = rest.strip_prefix("super::") {
        module.pop();
        rest = after;
    }
    module.push(rest.to_string());
    (rest != name).then(|| module.join("::"))
}

fn rank(room: &str) -> Option<usize> {
    ROOMS.iter().position(|name| *name == room)
}

pub fn is_test(path: &str) -> bool {
    path.split('/').any(|part| part == "tests" || part.ends_with("tests.rs"))
}

/// Tests are at the end of a file; a file of tests may be named anywhere.
pub fn before_tests<'a, 'b>(tokens: &'a [Token<'b>]) -> &'a [Token<'b>] {
    let is_mark = |found: &[Token<'_>]| {
        let text: Vec<&str> = found.iter().map(|token| token.text).collect();
        text[..6] == ["cfg", "(", "test", ")", "]", "mod"] && text[7] == "{"
    };
    let end = tokens.windows(8).position(is_mark);
    &tokens[..end.unwrap_or(tokens.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, text: &str) -> Vec<String> {
        let source = Source { path: format!("{ROOT}{path}"), text: text.to_string() };
        let found = super::check(&source, &source.tokens());
        found.into_iter().map(|violation| violation.message).collect()
    }

    #[test]
    fn a_file_of_tests_hides_nothing_below_it() {
        let above = "#[cfg(test)]\nmod tests;\nuse crate::engine::x;";
        assert_eq!(check("stats/a.rs", above).len(), 1);
        let inside = "#[cfg(test)]\nmod tests {\n    use crate::engine::x;\n}";
        assert_eq!(check("stats/a.rs", inside), Vec::<String>::new());
    }

    #[test]
    fn rooms_name_what_is_below() {
        let text = "use crate::commit::batch; use crate::{options::enums, stats};";
        assert_eq!(check("commit/queue.rs", text), Vec::<String>::new());
        assert_eq!(check("db/api.rs", "use crate::engine::DbInner; type A = crate::Db;").len(), 0);
        assert_eq!(check("lib.rs", "pub use db::api::Db; type A = crate::db::Db;").len(), 0);
    }

    /// One of the two edges of a cycle violates the order, whichever it is.
    #[test]
    fn a_circle_between_rooms_is_found() {
        for (one, other) in [("commit", "compaction"), ("read", "engine"), ("flush", "control")] {
            let edge = |from: &str, to: &str| {
                check(&format!("{from}/x.rs"), &format!("use crate::{{{to}::a, fiber}};")).len()
            };
            assert_eq!(edge(one, other) + edge(other, one), 1, "{one} and {other}");
        }
    }

    #[test]
    fn ways_around_are_found() {
        assert_eq!(check("flush/x.rs", "fn f() { crate::engine::f() }").len(), 1);
        assert_eq!(check("flush/x.rs", "fn f(db: &crate::Db) {}").len(), 1);
        assert_eq!(check("cellar/x.rs", "").len(), 1);
        assert_eq!(check("flush/x.rs", "use super::super::engine::a;").len(), 1);
        assert_eq!(check("flush/mod.rs", "use super::{engine::a, commit::b};").len(), 1);
        assert_eq!(check("flush/x.rs", "use super::engine::a;").len(), 0, "flush::engine");
    }

    #[test]
    fn tests_may_name_everything() {
        let text = "use crate::engine::a;";
        assert_eq!(check("flush/tests.rs", text).len() + check("read/x/tests/y.rs", text).len(), 0);
        assert_eq!(check("flush/x.rs", &format!("#[cfg(test)] mod t {{ {text} }}")).len(), 0);
        assert_eq!(check("flush/x.rs", &format!("#[cfg(test)] {text}")).len(), 1);
    }
}
