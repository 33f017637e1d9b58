//! Parsing arguments, with Redis's error texts.
//!
//! Thread safety: pure functions.

use crate::keyspace::{Failure, Outcome};
use crate::protocol::number;

/// Arguments, one after another.
pub type Args<'a> = Vec<&'a [u8]>;

/// An argument that is an integer.
///
/// # Errors
/// The argument is not an integer.
pub fn integer(arg: &[u8]) -> Outcome<i64> {
    number::integer(arg).ok_or(Failure::NOT_AN_INTEGER)
}

/// The refusal of an integer beyond the bounds that a command has.
pub const BEYOND_LONG: Failure = Failure::text(
    "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
);

/// An argument that is a number which a double holds.
///
/// # Errors
/// The argument is not such a number.
pub fn double(arg: &[u8]) -> Outcome<f64> {
    number::double(arg).ok_or(Failure::NOT_A_FLOAT)
}

/// Whether the argument is this word; case is ignored.
pub fn is(arg: &[u8], word: &str) -> bool {
    arg.eq_ignore_ascii_case(word.as_bytes())
}

/// The argument in upper case, for matching words.
pub fn upper(arg: &[u8]) -> Vec<u8> {
    arg.to_ascii_uppercase()
}

/// Text for replies.
pub fn lossy(arg: &[u8]) -> String {
    String::from_utf8_lossy(arg).into_owned()
}

/// The range of a sequence of `len` that two indexes give, counted from the end if negative, both
/// included; None if there is none.
pub fn clamp(start: i64, stop: i64, len: u64) -> Option<(u64, u64)> {
    let len = i64::try_from(len).unwrap_or(i64::MAX);
    let from_end = |place: i64| if place < 0 { place.saturating_add(len) } else { place };
    let (start, stop) = (from_end(start).max(0), from_end(stop).min(len - 1));
    (start <= stop && start < len).then_some((start as u64, stop as u64))
}

/// Too many words after a subcommand; the text quotes it as it was typed.
pub fn too_many_words(args: &[&[u8]]) -> Failure {
    let parent = lossy(&upper(args[0]));
    let what = "ERR unknown subcommand or wrong number of arguments for '";
    fail(quoting(what, args[1], &format!("'. Try {parent} HELP.")))
}

/// An error made of parts. What it quotes goes back as it came, UTF-8 or not.
pub fn fail(text: impl Into<Vec<u8>>) -> Failure {
    Failure::Error(text.into().into())
}

/// `before`, the argument, `after`: the text of an error that quotes an argument.
pub fn quoting(before: &str, arg: &[u8], after: &str) -> Vec<u8> {
    [before.as_bytes(), arg, after.as_bytes()].concat()
}
