//! Methods belong to what they use: `DbInner`, the wiring of the engine, does not grow again.
//!
//! A method that needs one part of the database is that part's (`crates/pumice/src/state`). What is
//! left of `impl DbInner` is counted, and so is the room `engine`: at most a fifth of the crate.
//! The count may only fall, and [`METHODS_MAX`] with it.
//!
//! Not detected: functions that take a `&DbInner`, and traits implemented for it.

use super::Violation;
use super::rooms::{before_tests, is_test};
use super::source::{Source, Token};

const CRATE: &str = "crates/pumice/src/";
const ROOM: &str = "crates/pumice/src/engine/";
/// Methods in blocks `impl DbInner`.
const METHODS_MAX: usize = 244;
/// The room's share of the crate's lines.
const SHARE_PERCENT_MAX: usize = 20;

/// Reports methods beyond the ceiling, a ceiling that may fall, and a room that is too large.
pub fn check(sources: &[Source]) -> Vec<Violation> {
    let own = sources.iter().filter(|source| source.path.starts_with(CRATE));
    let (mut methods, mut room, mut all) = (0, 0, 0);
    for source in own {
        let lines = source.text.lines().count();
        all += lines;
        if source.path.starts_with(ROOM) {
            room += lines;
        }
        if !is_test(&source.path) {
            methods += methods_of(before_tests(&source.tokens()));
        }
    }
    judge(methods, METHODS_MAX, room, all)
}

fn judge(methods: usize, methods_max: usize, room: usize, all: usize) -> Vec<Violation> {
    let mut found = Vec::new();
    if methods > methods_max {
        let message = format!(
            "{methods} methods of `DbInner`, {methods_max} at most: give one to the part it uses"
        );
        found.push(Violation::new(ROOM, message));
    } else if methods < methods_max {
        let message = format!("METHODS_MAX in owners.rs may fall to {methods}");
        found.push(Violation::new(ROOM, message));
    }
    if room * 100 > all * SHARE_PERCENT_MAX {
        let message = format!("{room} of {all} lines: more than {SHARE_PERCENT_MAX} percent");
        found.push(Violation::new(ROOM, message));
    }
    found
}

/// Functions right inside blocks `impl DbInner { }`.
fn methods_of(tokens: &[Token<'_>]) -> usize {
    let (mut count, mut depth, mut inside) = (0, 0usize, false);
    for (at, token) in tokens.iter().enumerate() {
        match token.text {
            "{" => {
                let head = at >= 2 && tokens[at - 2].text == "impl";
                inside |= depth == 0 && head && tokens[at - 1].text == "DbInner";
                depth += 1;
            }
            "}" => {
                depth = depth.saturating_sub(1);
                inside &= depth > 0;
            }
            "fn" if inside && depth == 1 => count += 1,
            _ => {}
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::super::source::tokenize;
    use super::*;

    #[test]
    fn methods_of_the_wiring_are_counted() {
        let text = "impl DbInner { fn a() { fn inner() {} } pub fn b() {} } impl Logs { fn c() {} }
                    impl Env for DbInner { fn d() {} } fn e() {} impl DbInner { fn f() {} }";
        assert_eq!(methods_of(&tokenize(text)), 3);
    }

    #[test]
    fn one_method_more_and_a_ceiling_too_high_are_found() {
        assert!(judge(7, 7, 20, 100).is_empty());
        assert_eq!(judge(8, 7, 20, 100).len(), 1);
        assert_eq!(judge(6, 7, 20, 100).len(), 1);
        assert_eq!(judge(7, 7, 21, 100).len(), 1);
    }

    /// Planted in a file of the crate: a method more than the tree has.
    #[test]
    fn a_planted_method_is_found() {
        let file =
            |text: String| vec![Source { path: format!("{ROOM}x.rs"), text }, rest_of_the_crate()];
        let full = "fn a() {} ".repeat(METHODS_MAX);
        assert!(check(&file(format!("impl DbInner {{ {full} }}"))).is_empty());
        assert_eq!(check(&file(format!("impl DbInner {{ {full} fn more() {{}} }}"))).len(), 1);
    }

    fn rest_of_the_crate() -> Source {
        Source { path: format!("{CRATE}lib.rs"), text: "\n".repeat(100) }
    }
}
