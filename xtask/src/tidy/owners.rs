//! The room `engine` of the crate `pumice`, which wires all others, is at most a fifth of it.
//!
//! A method that needs one part of the database is that part's (`crates/pumice/src/state`); files
//! of the room do not call each other in a circle (`calls`).

use super::Violation;
use super::source::Source;

const CRATE: &str = "crates/pumice/src/";
const ROOM: &str = "crates/pumice/src/engine/";
/// The room's share of the crate's lines.
const SHARE_PERCENT_MAX: usize = 20;

/// Reports a room that is too large.
pub fn check(sources: &[Source]) -> Vec<Violation> {
    let (mut room, mut all) = (0, 0);
    for source in sources.iter().filter(|source| source.path.starts_with(CRATE)) {
        let lines = source.text.lines().count();
        all += lines;
        if source.path.starts_with(ROOM) {
            room += lines;
        }
    }
    let mut found = Vec::new();
    if room * 100 > all * SHARE_PERCENT_MAX {
        let message = format!("{room} of {all} lines: more than {SHARE_PERCENT_MAX} percent");
        found.push(Violation::new(ROOM, message));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_room_of_more_than_a_fifth_is_found() {
        let file =
            |path: &str, lines: usize| Source { path: path.to_string(), text: "\n".repeat(lines) };
        let of = |room: usize| {
            let rest = file("crates/pumice/src/lib.rs", 100 - room);
            check(&[file("crates/pumice/src/engine/x.rs", room), rest]).len()
        };
        assert_eq!((of(20), of(21)), (0, 1));
    }
}
