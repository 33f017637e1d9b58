//! No circle of files across folders: within a crate, files that need each other lie in one folder.
//!
//! A file needs another one if it names an item of it by a path; a re-export is followed to the
//! file that has the item. A file `x/mod.rs` belongs to the folder `x` if that has other files,
//! else it stands for `x.rs`. Files right in `src` belong to no folder, so that no two of them may
//! need each other.
//!
//! | | may be in a circle |
//! |---|---|
//! | `a/x.rs` and `a/y.rs` | yes, they are read together |
//! | `a/x.rs` and `b/y.rs`, `a/x.rs` and `a/b/y.rs` | no |
//! | `x.rs` and `y.rs` in `src` | no |
//!
//! What is left of older circles is [`LEFT`], by folder, and may only shrink. Tests are not looked
//! at: a file `tests.rs` or in a folder `tests`, and everything below `#[cfg(test)]`.
//!
//! Not detected: items named through an alias (`use a as b`), methods, which are called without
//! naming their file (`calls` sees those of the engine), what a macro of another file names, and an
//! item that a file passes on (`pub use`) and then uses by its bare name.

use std::collections::{BTreeMap, BTreeSet};

use super::Violation;
use super::rooms::{before_tests, is_test};
use super::source::{Source, Token, module_of, paths};

/// (crate, folders that one circle passes, in the order of their names)
const LEFT: &[(&str, &[&str])] = &[
    ("cli", &["db_bench", "db_bench/other_engines"]),
    // A task is a thread, a fiber or a simulated fiber, and all that waits is made of tasks.
    ("port", &["", "fiber", "io", "lane", "os", "sim", "sync", "task", "thread"]),
];

/// Reports circles across folders, and those of [`LEFT`] that are gone.
pub fn check(sources: &[Source]) -> Vec<Violation> {
    let mut crates: BTreeMap<&str, Vec<&Source>> = BTreeMap::new();
    for source in sources.iter().filter(|source| !is_test(&source.path)) {
        let Some((package, inside)) = source.path.split_once("/src/") else { continue };
        if !inside.starts_with("bin/") {
            crates.entry(package).or_default().push(source);
        }
    }
    let mut violations = Vec::new();
    let mut left: BTreeSet<usize> = (0..LEFT.len()).collect();
    for (package, sources) in crates {
        let name = package.rsplit('/').next().unwrap_or(package);
        let house = House::new(&sources);
        for circle in house.circles() {
            let folders: BTreeSet<&str> = circle.iter().map(|file| house.folder(file)).collect();
            let in_one = folders.len() == 1 && !folders.contains("");
            let known = LEFT.iter().position(|(of, known)| {
                *of == name && known.iter().copied().eq(folders.iter().copied())
            });
            match known {
                _ if in_one => {}
                Some(known) => drop(left.remove(&known)),
                None => violations.push(house.describe(&format!("{package}/src/"), &circle)),
            }
        }
    }
    violations.extend(left.into_iter().filter(|_| !sources.is_empty()).map(|at| {
        let message = format!("no circle of `{}` remains through {:?}", LEFT[at].0, LEFT[at].1);
        Violation::new("xtask/src/tidy/circles.rs", message)
    }));
    violations
}

/// Whether a path ends here or goes on in the folder.
fn is_end_of_a_name(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with('/')
}

/// What a file says, as far as other files are concerned.
#[derive(Default)]
struct File<'a> {
    /// Relative to `src`.
    path: &'a str,
    items: BTreeSet<&'a str>,
    /// Full paths of what its `use` brings in, by name.
    uses: BTreeMap<String, Vec<String>>,
    /// Modules of which it brings in everything.
    globs: Vec<Vec<String>>,
    /// What it needs. Re-exports are not in here.
    names: BTreeSet<Vec<String>>,
}

/// A crate's files by their modules.
struct House<'a> {
    files: BTreeMap<Vec<String>, File<'a>>,
    /// For each file what it needs, and the name by which it needs it.
    needs: BTreeMap<&'a str, BTreeMap<&'a str, String>>,
    folders: BTreeSet<&'a str>,
}

impl<'a> House<'a> {
    fn new(sources: &[&'a Source]) -> Self {
        let mut house =
            House { files: BTreeMap::new(), needs: BTreeMap::new(), folders: BTreeSet::new() };
        for source in sources {
            let (_, path) = source.path.split_once("/src/").unwrap_or(("", &source.path));
            if let Some((folder, _)) = path.rsplit_once('/').filter(|(_, name)| *name != "mod.rs") {
                house.folders.insert(folder);
            }
            house.files.insert(module_of(path), read(path, source));
        }
        for (module, file) in &house.files {
            let mut needs = BTreeMap::new();
            for name in &file.names {
                let to = house.resolve(module, name, 0).and_then(|to| house.files.get(&to));
                if let Some(to) = to.filter(|to| to.path != file.path) {
                    needs.insert(to.path, name.join("::"));
                }
            }
            house.needs.insert(file.path, needs);
        }
        house
    }

    /// The module whose file has the item that `path` names in `module`; None for other crates.
    fn resolve(&self, module: &[String], path: &[String], depth: usize) -> Option<Vec<String>> {
        if depth > 10 {
            return None;
        }
        let mut at = module.to_vec();
        let mut rest = path;
        // Names of other crates are followed no further than the first name.
        let mut first = true;
        while let [name, after @ ..] = rest {
            match name.as_str() {
                "crate" => at.clear(),
                "self" => {}
                "super" => drop(at.pop()),
                _ => {
                    let child = [&at[..], std::slice::from_ref(name)].concat();
                    if self.files.contains_key(&child) {
                        (at, rest, first) = (child, after, false);
                        continue;
                    }
                    let file = self.files.get(&at)?;
                    if file.items.contains(name.as_str()) {
                        return Some(at);
                    } else if let Some(full) = file.uses.get(name).filter(|full| *full != path) {
                        let full = [&full[..], after].concat();
                        return self.resolve(&at, &full, depth + 1);
                    } else if let Some(found) = self.through_globs(&at, name, depth) {
                        return Some(found);
                    } else {
                        return (!first).then_some(at);
                    }
                }
            }
            first = false;
            rest = after;
        }
        Some(at)
    }

    fn through_globs(&self, module: &[String], name: &str, depth: usize) -> Option<Vec<String>> {
        let file = self.files.get(module)?;
        let found = file.globs.iter().filter_map(|glob| {
            let path = [&glob[..], &[name.to_string()]].concat();
            self.resolve(module, &path, depth + 1)
        });
        found.into_iter().find(|to| self.files.get(to).is_some_and(|to| to.items.contains(name)))
    }

    fn folder(&self, file: &'a str) -> &'a str {
        let module = file.trim_end_matches(".rs").trim_end_matches("/mod");
        let inside = |folder: &str| folder.strip_prefix(module).is_some_and(is_end_of_a_name);
        match self.folders.range(module..).any(|folder| inside(folder)) {
            true => module,
            false => module.rsplit_once('/').map_or("", |(folder, _)| folder),
        }
    }

    /// Groups of files each of which needs, directly or not, all others of its group.
    fn circles(&self) -> Vec<Vec<&'a str>> {
        let reach: BTreeMap<&str, BTreeSet<&'a str>> =
            self.needs.keys().map(|file| (*file, self.reach(file))).collect();
        let mut circles = BTreeSet::new();
        for file in self.needs.keys() {
            let mates = reach[file].iter().filter(|other| reach[*other].contains(file));
            circles.insert(mates.copied().collect::<Vec<&str>>());
        }
        circles.into_iter().filter(|circle| circle.len() > 1).collect()
    }

    fn reach(&self, file: &'a str) -> BTreeSet<&'a str> {
        let (mut reached, mut queue) = (BTreeSet::new(), vec![file]);
        while let Some(file) = queue.pop() {
            let needs = self.needs.get(file).into_iter().flat_map(BTreeMap::keys);
            queue.extend(needs.copied().filter(|to| reached.insert(*to)));
        }
        reached
    }

    fn describe(&self, root: &str, circle: &[&'a str]) -> Violation {
        let mut edges = Vec::new();
        for file in circle {
            for (to, name) in self.needs[file].iter().filter(|(to, _)| circle.contains(to)) {
                if self.folder(file) != self.folder(to) || self.folder(file).is_empty() {
                    edges.push(format!("{file} needs {to} (`{name}`)"));
                }
            }
        }
        let message = format!("{} files need each other across folders: ", circle.len());
        Violation::new(root, message + &edges.join(", "))
    }
}

fn read<'a>(path: &'a str, source: &'a Source) -> File<'a> {
    let tokens = source.tokens();
    let tokens = before_tests(&tokens);
    let text = |at: usize| tokens.get(at).map_or("", |token| token.text);
    let mut file = File { path, ..File::default() };
    let (mut rest, mut at): (Vec<Token<'a>>, usize) = (Vec::new(), 0);
    while at < tokens.len() {
        if text(at) != "use" {
            let is_item = ["fn", "struct", "enum", "trait", "type", "const", "static", "union"]
                .contains(&text(at));
            if is_item {
                file.items.insert(text(at + 1));
            } else if [text(at), text(at + 1)] == ["macro_rules", "!"] {
                file.items.insert(text(at + 2));
            }
            rest.push(tokens[at]);
            at += 1;
            continue;
        }
        let end = (at..tokens.len()).find(|i| text(*i) == ";").unwrap_or(tokens.len());
        // `pub use`, `pub(crate) use`: handed on, not needed.
        let handed_on = at > 0 && (text(at - 1) == "pub" || text(at - 1) == ")");
        for (name, _) in paths(&tokens[at + 1..end]) {
            let parts: Vec<String> = name.split("::").map(str::to_string).collect();
            match parts.split_last() {
                Some((last, module)) if last == "*" => file.globs.push(module.to_vec()),
                Some((last, _)) => drop(file.uses.insert(last.clone(), parts.clone())),
                None => {}
            }
            if !handed_on {
                file.names.insert(parts.into_iter().filter(|part| part != "*").collect());
            }
        }
        at = end + 1;
    }
    for (name, _) in paths(&rest) {
        if name.contains("::") {
            file.names.insert(name.split("::").map(str::to_string).collect());
        }
    }
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let source = |(path, text): &(&str, &str)| Source {
            path: format!("crates/x/src/{path}"),
            text: text.to_string(),
        };
        let sources: Vec<Source> = files.iter().map(source).collect();
        let found = check(&sources).into_iter().filter(|v| v.place == "crates/x/src/");
        found.map(|violation| violation.message).collect()
    }

    #[test]
    fn a_circle_across_folders_is_found() {
        let files = [
            ("a/mod.rs", "pub mod x;"),
            ("a/x.rs", "use crate::b::Y; pub struct X;"),
            ("b/mod.rs", "mod y; pub use y::Y;"),
            ("b/y.rs", "pub struct Y(super::super::a::x::X);"),
            ("lib.rs", "mod a; mod b;"),
        ];
        let findings = found(&files);
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].contains("a/x.rs needs b/y.rs (`crate::b::Y`)"), "{findings:?}");
        assert!(findings[0].contains("b/y.rs needs a/x.rs"), "{findings:?}");
        // With one edge less there is no circle.
        let without = files.map(|(path, text)| (path, text.replace("(super::super::a::x::X)", "")));
        let without: Vec<(&str, &str)> = without.iter().map(|(p, t)| (*p, t.as_str())).collect();
        assert_eq!(found(&without), Vec::<String>::new());
    }

    #[test]
    fn circles_of_a_folder_and_its_inner_folder_and_of_root_files_are_found() {
        let inner = [("a/mod.rs", "use b::F; pub fn g() {}"), ("a/b.rs", "pub use c::F; mod c;")];
        let last = ("a/b/c.rs", "pub struct F; fn f() { crate::a::g() }");
        assert_eq!(found(&[inner[0], inner[1], last]).len(), 1);
        assert_eq!(
            found(&[
                ("a.rs", "use crate::b::B; pub struct A;"),
                ("b.rs", "pub type B = crate::a::A;")
            ])
            .len(),
            1
        );
    }

    #[test]
    fn circles_inside_one_folder_and_of_tests_are_none() {
        let x = ("a/x.rs", "use super::y::Y; pub struct X;");
        assert!(found(&[x, ("a/y.rs", "use super::x::X; pub struct Y;")]).is_empty());
        let below = "pub struct Y; #[cfg(test)] mod tests { use crate::a::x::X; }";
        let x = ("a/x.rs", "use crate::b::y::Y; pub struct X;");
        assert!(found(&[x, ("b/y.rs", below)]).is_empty());
        assert!(
            found(&[x, ("b/y.rs", "pub struct Y;"), ("b/tests.rs", "use crate::a::x::X;")])
                .is_empty()
        );
        // Handing on is not needing.
        let handed = ("b/y.rs", "pub struct Y; pub(crate) use crate::a::x::X;");
        assert!(found(&[x, handed]).is_empty());
    }

    #[test]
    fn everything_of_a_module_is_followed() {
        let files = [
            ("a/mod.rs", "use crate::b::*; fn f() -> Y { Y::new() } pub struct A;"),
            ("b/mod.rs", "pub struct Y(crate::a::A);"),
        ];
        assert_eq!(found(&files).len(), 1);
    }
}
