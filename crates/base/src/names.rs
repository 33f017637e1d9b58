//! Names as text. In files the names of column families, comparators and the like are bytes of any
//! kind; programs have them as `str`.
//!
//! A name of valid UTF-8 is itself. In others each byte that is not part of a character is written
//! `\xHH`, in capital digits, so that no two names have one text; a backslash that would look like
//! the beginning of such a byte is written `\x5C`.
//!
//! Thread safety: pure functions. Invariant: `bytes_of(&text_of(name)) == name` for all bytes.

use std::borrow::Cow;

/// The text of a name in a file.
///
/// ```
/// # use pumice_base::names::text_of as column_family_name;
/// assert_eq!(column_family_name(b"logs"), "logs");
/// assert_eq!(column_family_name(b"l\xffgs"), r"l\xFFgs");
/// ```
pub fn text_of(name: &[u8]) -> String {
    let mut text = String::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        let mut rest = chunk.valid();
        while let Some(at) = find_escape(rest) {
            text.push_str(&rest[..at]);
            text.push_str("\\x5C");
            rest = &rest[at + 1..];
        }
        text.push_str(rest);
        chunk.invalid().iter().for_each(|byte| text.push_str(&format!("\\x{byte:02X}")));
    }
    text
}

/// The bytes that files have for the name `text`.
pub fn bytes_of(text: &str) -> Cow<'_, [u8]> {
    if find_escape(text).is_none() {
        return Cow::Borrowed(text.as_bytes());
    }
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text);
    while let Some(at) = find_escape(rest) {
        bytes.extend_from_slice(&rest.as_bytes()[..at]);
        bytes.extend(escaped(&rest.as_bytes()[at..]));
        rest = &rest[at + ESCAPE_LEN..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    Cow::Owned(bytes)
}

/// The one text of the name that `text` means.
pub fn canonical(text: &str) -> String {
    match bytes_of(text) {
        Cow::Borrowed(_) => text.to_string(),
        Cow::Owned(bytes) => text_of(&bytes),
    }
}

const ESCAPE_LEN: usize = 4;

/// Where the first escape begins.
fn find_escape(text: &str) -> Option<usize> {
    let mut backslashes = text.match_indices('\\').map(|(at, _)| at);
    backslashes.find(|at| escaped(&text.as_bytes()[*at..]).is_some())
}

/// The byte whose escape `text` begins with.
fn escaped(text: &[u8]) -> Option<u8> {
    let [b'\\', b'x', high, low, ..] = text else { return None };
    let digit = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    };
    let byte = digit(*high)? << 4 | digit(*low)?;
    (byte >= 0x80 || byte == b'\\').then_some(byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn usual_names_are_themselves() {
        let odd = ["a\\b", "\\x41", "\\xe9", "\\xE", "\\", "\\\\x", "\0"];
        for name in ["", "default", "naïve"].into_iter().chain(odd) {
            assert_eq!(text_of(name.as_bytes()), name);
            assert_eq!(&*bytes_of(name), name.as_bytes());
        }
    }

    #[test]
    fn other_bytes_are_escaped() {
        assert_eq!(text_of(b"caf\xe9"), "caf\\xE9");
        assert_eq!(text_of(b"\\\xff\xc3\xa9\xc3"), "\\\\xFFé\\xC3");
        assert_eq!(text_of(b"caf\\xE9"), "caf\\x5CxE9");
        assert_eq!(text_of(b"\\x5C"), "\\x5Cx5C");
        assert_eq!(&*bytes_of("caf\\xE9\\x5C\\xFF"), b"caf\xe9\\\xff");
        // Another spelling of a name that needs none.
        assert_eq!(canonical("\\xC3\\xA9"), "é");
    }

    fn name() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(prop::sample::select(b"\\x5CE9a\xe9\xc3\xa9\xff".to_vec()), 0..9)
    }

    proptest! {
        #[test]
        fn no_two_names_have_one_text(name in name()) {
            let text = text_of(&name);
            prop_assert_eq!(&*bytes_of(&text), &name[..]);
            prop_assert_eq!(canonical(&text), text);
        }
    }
}
