//! Every name that the crate `pumice` has at its root, and at those of its public modules, has an
//! example that is run: its documentation has one, or says `Example: that of` another name,
//! whose example names it. (Documentation tests run them.)
//!
//! A definition is looked up by its name in all crates, since the root shows what lies below it.

use std::collections::BTreeMap;

use super::Violation;
use super::source::{Source, Token};

/// The crate's root and those of its public modules.
const ROOTS: [&str; 6] = [
    "crates/pumice/src/lib.rs",
    "crates/pumice/src/backup/mod.rs",
    "crates/pumice/src/fiber.rs",
    "crates/pumice/src/options/mod.rs",
    "crates/pumice/src/perf.rs",
    "crates/pumice/src/stats/mod.rs",
];
/// How a page says whose example shows it.
const OF_ANOTHER: &str = "Example: that of [`";

/// Reports names without an example, and those that another's example does not name.
pub fn check(sources: &[Source]) -> Vec<Violation> {
    let mut pages: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for source in sources.iter().filter(|source| source.path.contains("/src/")) {
        pages_of(&source.text, &mut pages);
    }
    let mut found = Vec::new();
    for path in ROOTS {
        match sources.iter().find(|source| source.path == path) {
            Some(root) => {
                let mut names = exported(&root.tokens());
                names.extend(own(&root.text));
                found.extend(judge(path, &names, &pages));
            }
            None => {
                found.push(Violation::new(path, "is not there, though tidy's `examples` reads it"));
            }
        }
    }
    found
}

/// The names that a root exports, with those that they are defined under. What `#[doc(hidden)]`
/// hides is no user's.
fn exported<'a>(tokens: &[Token<'a>]) -> Vec<(&'a str, &'a str)> {
    let (mut found, mut at) = (Vec::new(), 0);
    while at + 1 < tokens.len() {
        if (tokens[at].text, tokens[at + 1].text) != ("pub", "use") {
            at += 1;
            continue;
        }
        let hidden = at >= 4 && tokens[at - 3].text == "hidden";
        let length = tokens[at..].iter().take_while(|token| token.text != ";").count();
        let item = &tokens[at + 2..at + length];
        let mut names: Vec<(&str, &str)> = Vec::new();
        for (place, token) in item.iter().enumerate() {
            match (place.checked_sub(1).map(|before| item[before].text), token.text) {
                (_, "{" | "}" | "," | "::" | ":" | "as") => {}
                (Some("as"), alias) => {
                    if let Some(renamed) = names.last_mut() {
                        renamed.0 = alias;
                    }
                }
                (_, name) if item.get(place + 1).is_none_or(|next| !next.text.starts_with(':')) => {
                    names.push((name, name));
                }
                _ => {}
            }
        }
        found.extend(names.into_iter().filter(|_| !hidden));
        at += length;
    }
    found
}

/// The names that a root defines itself.
fn own(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let lines = text.lines().filter(|line| line.starts_with("pub "));
    lines.filter_map(defined).map(|name| (name, name))
}

/// Adds the documentation of each definition of `text`, without its slashes.
fn pages_of<'a>(text: &'a str, pages: &mut BTreeMap<&'a str, Vec<String>>) {
    let mut page = String::new();
    for line in text.lines().map(str::trim_start) {
        if let Some(doc) = line.strip_prefix("///") {
            page += doc;
            page.push('\n');
        } else if !line.starts_with("#[") {
            if let (Some(name), false) = (defined(line), page.is_empty()) {
                pages.entry(name).or_default().push(std::mem::take(&mut page));
            }
            page.clear();
        }
    }
}

/// The name that a line defines; those of a macro's invocation have no keyword before them.
fn defined(line: &str) -> Option<&str> {
    const WORDS: [&str; 6] = ["struct ", "enum ", "trait ", "type ", "fn ", "const "];
    let rest = line.strip_prefix("pub ");
    let named = rest.and_then(|rest| WORDS.iter().find_map(|word| rest.strip_prefix(word)));
    let named = named.or_else(|| line.strip_prefix("macro_rules! "));
    let of_macro = || line.split_once(": ").map(|_| line).filter(|line| line.ends_with(';'));
    let rest = named.or_else(of_macro)?;
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    Some(&rest[..end])
}

fn judge(
    path: &str,
    names: &[(&str, &str)],
    pages: &BTreeMap<&str, Vec<String>>,
) -> Vec<Violation> {
    let of = |name: &str| pages.get(name).map_or(&[][..], Vec::as_slice);
    let report = |name: &str, what: String| Violation::new(path, format!("{name} {what}"));
    let mut found = Vec::new();
    for (shown, name) in names {
        if of(name).iter().any(|page| page.contains("```")) {
            continue;
        }
        let other = of(name).iter().find_map(|page| page.split_once(OF_ANOTHER));
        let Some(other) = other.and_then(|(_, rest)| rest.split('`').next()) else {
            found.push(report(shown, "has no example".into()));
            continue;
        };
        let mut examples = of(other).iter().filter_map(|page| page.split_once("```"));
        let says = |word: &&str| [*shown, *name].contains(word);
        let words = |(_, code): (&str, &str)| {
            code.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| says(&word))
        };
        if !examples.any(words) {
            found.push(report(shown, format!("is not named by the example of {other}")));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::source::tokenize;
    use super::*;

    #[test]
    fn names_without_an_example_are_found() {
        let root = "pub use a::{B, c::D as E};\npub use a::F;\n#[doc(hidden)]\npub use a::G;\n\
                    pub use a::H;\n";
        let names = exported(&tokenize(root));
        assert_eq!(names, [("B", "B"), ("E", "D"), ("F", "F"), ("H", "H")]);
        let owned =
            "pub mod a;\npub(crate) fn b() {}\npub struct I;\nimpl I {\n    pub fn c() {}\n}\n";
        assert_eq!(own(owned).collect::<Vec<_>>(), [("I", "I")]);
        let text = "/// B.\n///\n/// ```\n/// let x = E;\n/// ```\n#[derive(Debug)]\n\
                    pub struct B;\n\
                    /// Example: that of [`B`].\npub enum D {}\n\
                    /// Example: that of [`B`](crate::B).\npub trait F {}\n\
                    /// Of others.\n    H: I, Send;\n";
        let mut pages = BTreeMap::new();
        pages_of(text, &mut pages);
        let found = judge(ROOTS[0], &names, &pages);
        let found: Vec<_> = found.into_iter().map(|v| v.message).collect();
        assert_eq!(found, ["F is not named by the example of B", "H has no example"]);
    }
}
