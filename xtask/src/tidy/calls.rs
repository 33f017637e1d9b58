//! No circle of files of the engine by calls.
//!
//! A method is called without naming its file, so `circles` does not see it. Here a file of the
//! room `engine` needs another one if it calls a function or method that is defined there:
//!
//! | call | resolves to |
//! |---|---|
//! | `x.name()` | the file that defines `name`, if one file of the workspace does |
//! | `self.name()`, `Self::name`, `db.name()` | the method of the block's type, or of `DbInner` |
//! | `x.part().name()` | the method of the type that `part(&self) -> Type` gives |
//! | `module::name()`, `use crate::engine::module::name` | that module, if it has such a function |
//!
//! Types are passed on and not called: naming one is no need. What a trait declares is called by
//! those who do not know the file behind it, so methods of traits resolve to nothing.
//!
//! `engine/mod.rs` has the type that all others name and is left out. Not detected: methods whose
//! name several files define and that are called on other receivers; calls in macros of other
//! files.

use std::collections::{BTreeMap, BTreeSet};

use super::Violation;
use super::rooms::{before_tests, is_test};
use super::source::{Source, Token};

const ROOM: &str = "crates/pumice/src/engine/";
/// The type that has the wiring.
const WIRING: &str = "DbInner";
/// Variables that hold it.
const WIRING_NAMES: &[&str] = &["self", "db"];

/// Reports every circle of the room.
pub fn check(sources: &[Source]) -> Vec<Violation> {
    let files: Vec<File<'_>> = sources
        .iter()
        .filter(|source| source.path.contains("/src/") && !is_test(&source.path))
        .map(File::read)
        .collect();
    let known = Known::new(&files);
    let needs: BTreeMap<&str, BTreeMap<&str, &str>> = files
        .iter()
        .filter(|file| in_room(file.path))
        .map(|file| (file.path, known.needs(file)))
        .collect();
    circles(&needs).iter().map(|circle| describe(circle, &needs)).collect()
}

fn in_room(path: &str) -> bool {
    path.strip_prefix(ROOM).is_some_and(|file| file != "mod.rs")
}

/// A call: what it is made on, and the name.
struct Call<'a> {
    /// Type of the block that it is in.
    block: &'a str,
    /// The word before the dot or the two colons; empty if there is none.
    on: &'a str,
    /// The method without arguments whose result it is made on; empty if it is made on another.
    part: &'a str,
    name: &'a str,
    /// By `::`.
    by_path: bool,
}

/// What a file defines and calls.
#[derive(Default)]
struct File<'a> {
    path: &'a str,
    /// (type, name) of its inherent methods.
    methods: Vec<(&'a str, &'a str)>,
    /// Names of methods of its traits, declared or implemented.
    of_traits: Vec<&'a str>,
    /// (name, type) of its methods that have no arguments and give a value of a type.
    parts: Vec<(&'a str, &'a str)>,
    functions: BTreeSet<&'a str>,
    calls: Vec<Call<'a>>,
}

/// A block in braces at the top of a file.
#[derive(Clone, Copy, PartialEq)]
enum Block<'a> {
    /// The inherent methods of a type.
    Methods(&'a str),
    /// A trait, or its methods for a type.
    Trait(&'a str),
    Other,
}

impl<'a> File<'a> {
    fn read(source: &'a Source) -> Self {
        let tokens = source.tokens();
        let tokens = before_tests(&tokens);
        let mut file = File { path: &source.path, ..File::default() };
        let (mut depth, mut block, mut head) = (0usize, Block::Other, 0);
        for (at, token) in tokens.iter().enumerate() {
            let next = |n: usize| tokens.get(at + n).map_or("", |token| token.text);
            match token.text {
                "{" => {
                    if depth == 0 {
                        block = block_of(&tokens[head..at]);
                    }
                    depth += 1;
                }
                "}" => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        (block, head) = (Block::Other, at + 1);
                    }
                }
                ";" if depth == 0 => head = at + 1,
                "fn" if depth == 0 => drop(file.functions.insert(next(1))),
                "fn" if depth == 1 => match block {
                    Block::Methods(of) => {
                        file.methods.push((of, next(1)));
                        let head = [2, 3, 4, 5, 6, 7].map(next);
                        if head == ["(", "&", "self", ")", "-", ">"] {
                            file.parts.push((next(1), next(8)));
                        }
                    }
                    Block::Trait(_) => file.of_traits.push(next(1)),
                    Block::Other => {}
                },
                name if is_name(name) => file.calls.extend(call_at(tokens, at, block)),
                _ => {}
            }
        }
        file
    }
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
}

/// What the block after `head` is.
fn block_of<'a>(head: &[Token<'a>]) -> Block<'a> {
    let text = |at: usize| head.get(at).map_or("", |token| token.text);
    let place = |word: &str| head.iter().position(|token| token.text == word);
    if let Some(at) = place("trait").filter(|_| place("fn").is_none()) {
        return Block::Trait(text(at + 1));
    }
    let Some(at) = place("impl").filter(|_| place("fn").is_none()) else { return Block::Other };
    match place("for").filter(|at| text(at + 1) != "<") {
        Some(at) => Block::Trait(type_at(&head[at + 1..])),
        None => Block::Methods(type_at(&head[after_generics(head, at + 1)..])),
    }
}

/// The index after `<..>` at `at`, if it is there.
fn after_generics(head: &[Token<'_>], at: usize) -> usize {
    if head.get(at).is_none_or(|token| token.text != "<") {
        return at;
    }
    let mut depth = 0;
    for (index, token) in head.iter().enumerate().skip(at) {
        match token.text {
            "<" => depth += 1,
            // Not of an arrow.
            ">" if head[index - 1].text != "-" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return index + 1;
        }
    }
    head.len()
}

/// The last name of the path that `tokens` begin with.
fn type_at<'a>(tokens: &[Token<'a>]) -> &'a str {
    let path = tokens.iter().take_while(|token| !matches!(token.text, "<" | "where"));
    path.filter(|token| token.text != ":").last().map_or("", |token| token.text)
}

/// The call, or the function handed on, whose name is at `at`.
fn call_at<'a>(tokens: &[Token<'a>], at: usize, block: Block<'a>) -> Option<Call<'a>> {
    let text = |at: Option<usize>| at.and_then(|at| tokens.get(at)).map_or("", |t| t.text);
    let back = |n: usize| text(at.checked_sub(n));
    let name = tokens[at].text;
    let block = match block {
        Block::Methods(of) | Block::Trait(of) => of,
        Block::Other => "",
    };
    if back(1) == "." {
        // `x.name(` and `x.name::<T>(`; a field is none.
        let called = matches!(text(Some(at + 1)), "(" | ":");
        let part = if [back(2), back(3)] == [")", "("] { back(4) } else { "" };
        return called.then(|| Call { block, on: back(2), part, name, by_path: false });
    }
    let by_path = back(1) == ":" && back(2) == ":";
    by_path.then(|| Call { block, on: back(3), part: "", name, by_path: true })
}

/// Who defines what.
struct Known<'a> {
    /// Files with an inherent method of the name; an empty path for one of a trait.
    by_name: BTreeMap<&'a str, BTreeSet<&'a str>>,
    by_type: BTreeMap<(&'a str, &'a str), BTreeSet<&'a str>>,
    functions: BTreeSet<(&'a str, &'a str)>,
    parts: BTreeMap<&'a str, &'a str>,
}

impl<'a> Known<'a> {
    fn new(files: &[File<'a>]) -> Self {
        let (mut by_name, mut by_type) = (BTreeMap::new(), BTreeMap::new());
        let (mut functions, mut parts) = (BTreeSet::new(), BTreeMap::new());
        for file in files {
            for (of, name) in &file.methods {
                by_name.entry(*name).or_insert_with(BTreeSet::new).insert(file.path);
                if in_room(file.path) {
                    by_type.entry((*of, *name)).or_insert_with(BTreeSet::new).insert(file.path);
                }
            }
            for name in &file.of_traits {
                by_name.entry(*name).or_insert_with(BTreeSet::new).insert("");
            }
            functions.extend(file.functions.iter().map(|name| (file.path, *name)));
            if file.path.starts_with(ROOM) {
                parts.extend(file.parts.iter().copied());
            }
        }
        Known { by_name, by_type, functions, parts }
    }

    /// The files of the room that `file` needs, and a name by which it does.
    fn needs(&self, file: &File<'a>) -> BTreeMap<&'a str, &'a str> {
        let mut needs = BTreeMap::new();
        for call in &file.calls {
            if let Some(to) = self.resolve(call)
                && to != file.path
                && in_room(to)
            {
                needs.insert(to, call.name);
            }
        }
        needs
    }

    fn resolve(&self, call: &Call<'a>) -> Option<&'a str> {
        let one = |found: &BTreeSet<&'a str>| match found.len() {
            1 => found.first().copied(),
            _ => None,
        };
        let own = match call.on {
            "Self" => Some(call.block),
            on if WIRING_NAMES.contains(&on) => Some(call.block),
            on if on == WIRING => Some(WIRING),
            _ => None,
        };
        let of = |of: &'a str| self.by_type.get(&(of, call.name)).and_then(one);
        if let Some(found) = own.and_then(|own| of(own).or_else(|| of(WIRING))) {
            return Some(found);
        }
        if let Some(found) = self.parts.get(call.part).and_then(|part| of(part)) {
            return Some(found);
        }
        if call.by_path {
            let paths = [".rs", "/mod.rs"].map(|end| format!("{ROOM}{}{end}", call.on));
            let mut found =
                self.functions.iter().filter(|(file, _)| paths.iter().any(|p| p == file));
            return found.find(|(_, name)| *name == call.name).map(|(file, _)| *file);
        }
        self.by_name.get(call.name).and_then(one)
    }
}

/// Groups of files each of which needs, directly or not, all others of its group.
fn circles<'a>(needs: &BTreeMap<&'a str, BTreeMap<&'a str, &'a str>>) -> Vec<Vec<&'a str>> {
    let reach = |from: &'a str| {
        let (mut reached, mut queue) = (BTreeSet::new(), vec![from]);
        while let Some(file) = queue.pop() {
            let next = needs.get(file).into_iter().flat_map(BTreeMap::keys);
            queue.extend(next.copied().filter(|to| reached.insert(*to)));
        }
        reached
    };
    let reach: BTreeMap<&str, BTreeSet<&str>> =
        needs.keys().map(|file| (*file, reach(file))).collect();
    let mut circles = BTreeSet::new();
    for file in needs.keys() {
        let mates =
            reach[file].iter().filter(|to| reach.get(*to).is_some_and(|r| r.contains(file)));
        circles.insert(mates.copied().collect::<Vec<_>>());
    }
    circles.into_iter().filter(|circle| circle.len() > 1).collect()
}

fn describe(circle: &[&str], needs: &BTreeMap<&str, BTreeMap<&str, &str>>) -> Violation {
    let short = |path: &str| path.trim_start_matches(ROOM).to_string();
    let mut edges = Vec::new();
    for file in circle {
        for (to, name) in needs[file].iter().filter(|(to, _)| circle.contains(to)) {
            edges.push(format!("{} calls `{name}` of {}", short(file), short(to)));
        }
    }
    let message = format!("{} files call each other in a circle: ", circle.len());
    Violation::new(ROOM, message + &edges.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let source = |(path, text): &(&str, &str)| Source {
            path: format!("{ROOM}{path}"),
            text: text.to_string(),
        };
        let sources: Vec<Source> = files.iter().map(source).collect();
        check(&sources).into_iter().map(|violation| violation.message).collect()
    }

    /// Planted: two files of the wiring that call each other.
    #[test]
    fn a_circle_by_methods_is_found() {
        let a = ("a.rs", "impl DbInner { fn one(&self) { self.two(); } }");
        let b = ("b.rs", "impl DbInner { pub(crate) fn two(&self) { self.one::<u8>() } }");
        let findings = found(&[a, b]);
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].contains("a.rs calls `two` of b.rs"), "{findings:?}");
        assert!(findings[0].contains("b.rs calls `one` of a.rs"), "{findings:?}");
        let b = ("b.rs", "impl DbInner { pub(crate) fn two(&self) { self.one } }");
        assert_eq!(found(&[a, b]), Vec::<String>::new(), "a field is no call");
    }

    #[test]
    fn a_circle_of_three_through_other_receivers_and_functions_is_found() {
        let files = [
            ("a.rs", "impl DbInner { fn one(&self) { self.db.two(); } }"),
            ("b.rs", "impl<'a> Part<'a> where A: B { fn two(&self) { c::three(self) } }"),
            ("c.rs", "pub fn three(d: &DbInner) { let f = DbInner::one; }"),
        ];
        assert_eq!(found(&files).len(), 1);
        for left_out in 0..3 {
            let rest: Vec<_> = (0..3).filter(|at| *at != left_out).map(|at| files[at]).collect();
            assert_eq!(found(&rest), Vec::<String>::new());
        }
    }

    #[test]
    fn traits_tests_and_names_of_several_files_are_none() {
        let a = ("a.rs", "impl DbInner { fn one(&self) { runner.run(); self.shared.put() } }");
        let b = "impl Run for DbInner { fn run(&self) { self.one() } }";
        assert_eq!(found(&[a, ("b.rs", b)]), Vec::<String>::new());
        let b = "impl B { fn put(&self) { db.one() } }";
        assert_eq!(found(&[a, ("b.rs", b)]).len(), 1);
        let c = ("c.rs", "impl C { fn put(&self) {} }");
        assert_eq!(found(&[a, ("b.rs", b), c]), Vec::<String>::new());
        let test =
            "impl DbInner { fn two(&self) {} } #[cfg(test)] mod tests { fn t() { db.one() } }";
        let a = ("a.rs", "impl DbInner { fn one(&self) { self.two() } }");
        assert_eq!(found(&[a, ("b.rs", test)]), Vec::<String>::new());
    }

    #[test]
    fn calls_of_a_part_are_resolved() {
        let part = "impl DbInner { fn faults(&self) -> Faults<'_> { } }
                    impl Faults<'_> { fn poison(&self) { x.two() } }";
        let a = ("a.rs", "impl DbInner { fn two(&self) { self.faults().poison() } }");
        let other = ("c.rs", "impl Wal { fn poison(&self) { } }");
        assert_eq!(found(&[("part.rs", part), a, other]).len(), 1);
        let a = ("a.rs", "impl DbInner { fn two(&self) { self.wal().poison() } }");
        assert_eq!(found(&[("part.rs", part), a, other]), Vec::<String>::new());
    }

    #[test]
    fn heads_of_blocks_are_read() {
        fn of(text: &'static str) -> Block<'static> {
            block_of(&super::super::source::tokenize(text))
        }
        assert!(of("impl DbInner ") == Block::Methods("DbInner"));
        assert!(of("impl<'a, F: Fn(u8) -> u8> x::Part<'a, F> ") == Block::Methods("Part"));
        assert!(of("impl<T> Drop for Part<T> ") == Block::Trait("Part"));
        assert!(of("pub(crate) trait Run: Send ") == Block::Trait("Run"));
        assert!(of("fn f(x: impl Fn()) ") == Block::Other);
        assert!(of("mod x ") == Block::Other);
    }
}
