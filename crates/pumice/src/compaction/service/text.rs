//! The text in which RocksDB's processes tell each other of compactions: that of option strings,
//! behind the number of its version.
//!
//! ```text
//! message = version 1 (fixed32) ‖ fields
//! fields  = name=value;name=value;..
//! value   = number | true | false | bytes in hexadecimal | {fields} | list
//! list    = value:value:..; an element that has a colon, and a list of fields, is in braces
//! ```
//!
//! Readers skip names that they do not know, and take any order.
//!
//! Thread safety: plain data. What it does not do: say which names there are.

use std::collections::BTreeMap;
use std::fmt::{Display, Write};

use pumice_base::coding::{get_fixed32, put_fixed32};
use pumice_base::{Error, Result};

use crate::table_output::file_checksum::{hex, unhex};

const VERSION: u32 = 1;
/// Braces within braces; a message has five.
const DEPTH_MAX: usize = 32;

/// The fields of a message or of a part of one.
#[derive(Debug, Default)]
pub(super) struct Fields(BTreeMap<String, String>);

fn malformed(what: &str) -> Error {
    Error::invalid_argument(format!("malformed text of a compaction: {what}"))
}

/// The value at the start of `text`, which ends at `delimiter`, and what follows that; None at the
/// end. Braces around the value are left out.
fn next_value(text: &str, delimiter: char) -> Result<(&str, Option<&str>)> {
    let text = text.trim_start();
    if !text.starts_with('{') {
        return Ok(match text.split_once(delimiter) {
            Some((value, rest)) => (value.trim(), Some(rest)),
            None => (text.trim(), None),
        });
    }
    let mut depth = 0;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => {}
        }
        if depth > DEPTH_MAX {
            return Err(malformed("too many braces"));
        }
        if depth == 0 {
            let (value, rest) = (text[1..at].trim(), text[at + 1..].trim_start());
            return match rest.strip_prefix(delimiter) {
                Some(rest) => Ok((value, Some(rest))),
                None if rest.is_empty() => Ok((value, None)),
                None => Err(malformed("text behind a brace")),
            };
        }
    }
    Err(malformed("a brace is not closed"))
}

impl Fields {
    /// The fields of a message.
    ///
    /// # Errors
    /// InvalidArgument; NotSupported for another version.
    pub fn of_message(bytes: &[u8], what: &str) -> Result<Fields> {
        let (Some(version), true) = (get_fixed32(bytes), bytes.len() > 4) else {
            return Err(Error::invalid_argument(format!("Invalid {what} string")));
        };
        if version != VERSION {
            return Err(Error::not_supported(format!(
                "Compaction Service {what} data version not supported: {version}"
            )));
        }
        let text = std::str::from_utf8(&bytes[4..]).map_err(|_| malformed("no text"))?;
        Fields::of(text)
    }

    /// The fields in `text`, which may be in braces.
    fn of(text: &str) -> Result<Fields> {
        let mut text = text.trim();
        while let Some(inner) = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')) {
            text = inner.trim();
        }
        let mut fields = BTreeMap::new();
        while !text.is_empty() {
            let Some((name, value)) = text.split_once('=') else {
                return Err(malformed("a field without a value"));
            };
            let (value, rest) = next_value(value, ';')?;
            fields.insert(name.trim().to_string(), value.to_string());
            text = rest.unwrap_or_default().trim();
        }
        Ok(Fields(fields))
    }

    /// The text of a field as it stands.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// A number; 0 if it is missing.
    pub fn number<T: std::str::FromStr + Default>(&self, name: &str) -> Result<T> {
        let Some(value) = self.value(name) else { return Ok(T::default()) };
        value.parse().map_err(|_| malformed(name))
    }

    /// Whether there is a field.
    pub fn has(&self, name: &str) -> bool {
        self.value(name).is_some()
    }

    /// Yes or no; no if it is missing.
    pub fn flag(&self, name: &str) -> Result<bool> {
        match self.value(name) {
            Some("true" | "1") => Ok(true),
            Some("false" | "0") | None => Ok(false),
            Some(_) => Err(malformed(name)),
        }
    }

    /// Bytes; none if they are missing.
    pub fn bytes(&self, name: &str) -> Result<Vec<u8>> {
        unhex(self.value(name).unwrap_or_default()).ok_or_else(|| malformed(name))
    }

    /// Bytes that are text.
    pub fn text(&self, name: &str) -> Result<String> {
        String::from_utf8(self.bytes(name)?).map_err(|_| malformed(name))
    }

    /// The fields in a field; none if it is missing.
    pub fn part(&self, name: &str) -> Result<Fields> {
        Fields::of(self.value(name).unwrap_or_default())
    }

    fn list(&self, name: &str) -> Result<Vec<&str>> {
        let mut rest = self.value(name).filter(|value| !value.is_empty());
        let mut list = Vec::new();
        while let Some(text) = rest {
            let (value, after) = next_value(text, ':')?;
            list.push(value);
            rest = after;
        }
        Ok(list)
    }

    /// A list of numbers.
    pub fn numbers(&self, name: &str) -> Result<Vec<u64>> {
        let number = |text: &str| text.parse().map_err(|_| malformed(name));
        self.list(name)?.into_iter().map(number).collect()
    }

    /// A list of texts.
    pub fn texts(&self, name: &str) -> Result<Vec<String>> {
        let text = |text: &str| String::from_utf8(unhex(text)?).ok();
        let texts = self.list(name)?.into_iter().map(text);
        texts.collect::<Option<_>>().ok_or_else(|| malformed(name))
    }

    /// A list of fields.
    pub fn parts(&self, name: &str) -> Result<Vec<Fields>> {
        self.list(name)?.into_iter().map(Fields::of).collect()
    }
}

/// Writes fields.
#[derive(Default)]
pub(super) struct Text(String);

impl Text {
    /// A field that is shown as it is.
    pub fn put(&mut self, name: &str, value: impl Display) -> &mut Self {
        _ = write!(self.0, "{name}={value};");
        self
    }

    /// Bytes.
    pub fn put_bytes(&mut self, name: &str, bytes: impl AsRef<[u8]>) -> &mut Self {
        self.put(name, hex(bytes.as_ref()))
    }

    /// A list of numbers.
    pub fn put_numbers(&mut self, name: &str, numbers: &[u64]) -> &mut Self {
        let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
        self.put(name, numbers.join(":"))
    }

    /// A list of texts.
    pub fn put_texts(&mut self, name: &str, texts: &[String]) -> &mut Self {
        let texts: Vec<String> = texts.iter().map(|text| hex(text.as_bytes())).collect();
        self.put(name, texts.join(":"))
    }

    /// Fields in a field.
    pub fn put_part(&mut self, name: &str, part: &Text) -> &mut Self {
        self.put(name, format_args!("{{{}}}", part.0))
    }

    /// A list of fields.
    pub fn put_parts(&mut self, name: &str, parts: &[Text]) -> &mut Self {
        let parts: Vec<String> = parts.iter().map(|part| format!("{{{{{}}}}}", part.0)).collect();
        match parts.is_empty() {
            true => self.put(name, ""),
            false => self.put(name, format_args!("{{{}}}", parts.join(":"))),
        }
    }

    /// The message.
    pub fn message(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(4 + self.0.len());
        put_fixed32(&mut bytes, VERSION);
        bytes.extend_from_slice(self.0.as_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[pumice_test_macros::test]
    fn values_come_back() {
        let mut inner = Text::default();
        inner.put("n", 7).put_numbers("id", &[1, u64::MAX]);
        let mut text = Text::default();
        text.put("yes", true).put_bytes("bytes", b"\x00=;{}:").put_numbers("none", &[]);
        text.put_numbers("some", &[3, 4]).put_texts("texts", &["a".into(), "b:".into()]);
        text.put_part("part", &inner).put_parts("empty", &[]);
        let mut other = Text::default();
        other.put("n", 8);
        text.put_parts("parts", &[inner, other]);
        let fields = Fields::of_message(&text.message(), "Input").unwrap();
        assert!(fields.flag("yes").unwrap() && !fields.flag("no").unwrap());
        assert_eq!(fields.bytes("bytes").unwrap(), b"\x00=;{}:");
        assert_eq!(fields.numbers("none").unwrap(), []);
        assert_eq!(fields.numbers("some").unwrap(), [3, 4]);
        assert_eq!(fields.texts("texts").unwrap(), ["a", "b:"]);
        assert_eq!(fields.part("part").unwrap().numbers("id").unwrap(), [1, u64::MAX]);
        assert!(fields.parts("empty").unwrap().is_empty());
        let parts = fields.parts("parts").unwrap();
        let numbers: Vec<u64> = parts.iter().map(|part| part.number("n").unwrap()).collect();
        assert_eq!(numbers, [7, 8]);
    }

    #[pumice_test_macros::test]
    fn damaged_messages_are_errors() {
        let refused = |text: &str| Fields::of(text).and_then(|f| f.parts("a").map(drop)).is_err();
        for text in ["a", "a={", "a={}b", "a={b}c;", "a={{b=1;}:{", "a=b"] {
            assert!(refused(text), "{text}");
        }
        assert!(refused(&format!("a={}", "{".repeat(100_000))));
        assert!(!refused(" { a = {{b=1;}:{b=2;}} ; } "));
        assert!(!refused("a=;"));
        let version = |bytes: &[u8]| Fields::of_message(bytes, "Input").unwrap_err().to_string();
        assert_eq!(version(b""), "Invalid argument: Invalid Input string");
        assert!(version(b"\x02\0\0\0a=1;").ends_with("data version not supported: 2"));
        assert!(Fields::of("a=1x;").unwrap().number::<u64>("a").is_err());
        assert!(Fields::of("a=1;").unwrap().bytes("a").is_err());
        assert!(Fields::of("a=1;").unwrap().flag("a").unwrap());
    }
}
