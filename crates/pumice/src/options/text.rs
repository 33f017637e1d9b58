//! Option text: escapes and `name=value;name={...};` maps.
//!
//! The grammar is RocksDB's (docs/format/options.md): pairs are separated by `;`, a value in
//! braces may itself contain `;` and nested braces, `\` escapes `\`, `#`, `:` and, as `\n` and
//! `\r`, line ends. Errors carry RocksDB's wording.
//!
//! Thread safety: pure functions. Limit: nesting is at most [`MAX_NESTING`] deep; nothing recurses.

use pumice_base::{Error, Result};

/// Deepest nesting of braces that is accepted.
pub const MAX_NESTING: usize = 16;

/// `raw` with the special characters escaped. They are ASCII, so all others stay whole.
pub fn escape(raw: &str) -> String {
    String::from_utf8_lossy(&escape_bytes(raw.as_bytes())).into_owned()
}

/// The reverse of [`escape`]; a trailing lone backslash is dropped.
pub fn unescape(escaped: &str) -> String {
    String::from_utf8_lossy(&unescape_bytes(escaped.as_bytes())).into_owned()
}

/// [`unescape`] of any bytes.
pub fn unescape_bytes(escaped: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(escaped.len());
    let mut bytes = escaped.iter();
    while let Some(&byte) = bytes.next() {
        match byte {
            b'\\' => out.extend(bytes.next().map(|next| match next {
                b'n' => b'\n',
                b'r' => b'\r',
                other => *other,
            })),
            byte => out.push(byte),
        }
    }
    out
}

/// [`escape`] of any bytes.
pub fn escape_bytes(raw: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(raw.len());
    for &byte in raw {
        match byte {
            b'\n' => out.extend(b"\\n"),
            b'\r' => out.extend(b"\\r"),
            b'\\' | b'#' | b':' => out.extend([b'\\', byte]),
            byte => out.push(byte),
        }
    }
    out
}

/// `line` without spaces around it and without a comment (`#` that is not escaped).
pub fn trim_comment(line: &[u8]) -> &[u8] {
    let mut escaped = false;
    for (at, &byte) in line.iter().enumerate() {
        if byte == b'#' && !escaped {
            return line[..at].trim_ascii();
        }
        escaped = byte == b'\\' && !escaped;
    }
    line.trim_ascii()
}

/// The inside of `{...}` if one pair of braces spans the whole text, otherwise the text itself.
pub fn strip_braces(text: &str) -> &str {
    let Some(inner) = text.strip_prefix('{').and_then(|t| t.strip_suffix('}')) else {
        return text;
    };
    let mut depth = 1i32;
    for c in inner.chars() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return text; // `{a}{b}`: the first brace closes before the end.
        }
    }
    inner
}

/// Splits `a=1;b={c=2;};` into its top-level pairs, in order.
///
/// # Errors
/// InvalidArgument with RocksDB's wording for each malformed form.
pub fn parse_map(text: &str) -> Result<Vec<(String, String)>> {
    let mut rest = strip_braces(text.trim()).trim();
    let mut pairs = Vec::new();
    while !rest.is_empty() {
        let Some(eq) = rest.find('=') else {
            return Err(Error::invalid_argument("Mismatched key value pair, '=' expected"));
        };
        let key = rest[..eq].trim();
        if key.is_empty() {
            return Err(Error::invalid_argument("Empty key found"));
        }
        if key.contains([';', '{', '}']) {
            return Err(Error::invalid_argument(format!("Unexpected char in key: {key}")));
        }
        let (value, tail) = next_value(rest[eq + 1..].trim_start())?;
        pairs.push((key.to_string(), value.to_string()));
        rest = tail.trim_start();
    }
    Ok(pairs)
}

/// The reverse of [`parse_map`]: `{a=1;b={c=2;};}`.
pub fn format_map(pairs: &[(String, String)]) -> String {
    let mut out = String::from("{");
    for (name, value) in pairs {
        let nested = value.contains(['{', '}', ';', '=']);
        let (open, close) = if nested { ("{", "}") } else { ("", "") };
        out.push_str(&format!("{name}={open}{value}{close};"));
    }
    out.push('}');
    out
}

/// The value at the start of `text` (braces around it removed) and what follows its `;`.
fn next_value(text: &str) -> Result<(&str, &str)> {
    if !text.starts_with('{') {
        let end = text.find(';').unwrap_or(text.len());
        let tail = text.get(end + 1..).unwrap_or("");
        return Ok((text[..end].trim(), tail));
    }
    let close = closing_brace(text)?;
    let tail = text[close + 1..].trim_start();
    match tail.strip_prefix(';') {
        Some(tail) => Ok((text[1..close].trim(), tail)),
        None if tail.is_empty() => Ok((text[1..close].trim(), tail)),
        None => Err(Error::invalid_argument("Unexpected chars after nested options")),
    }
}

/// Position of the brace that closes the one `text` starts with.
fn closing_brace(text: &str) -> Result<usize> {
    let mut depth = 0usize;
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Ok(at);
        }
        if depth > MAX_NESTING {
            return Err(Error::invalid_argument("Options are nested too deep"));
        }
    }
    Err(Error::invalid_argument("Mismatched curly braces for nested options"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn pairs(text: &str) -> Vec<(String, String)> {
        parse_map(text).unwrap()
    }

    fn message(text: &str) -> String {
        parse_map(text).unwrap_err().message().to_string()
    }

    #[pumice_test_macros::test]
    fn escapes_round_trip() {
        for raw in ["", "plain", "a:b#c\\d", "line\nnext\r", "\\#", "é#"] {
            assert_eq!(unescape(&escape(raw)), raw);
        }
        assert_eq!(escape("a:b"), "a\\:b");
        assert_eq!(unescape("tail\\"), "tail");
    }

    #[pumice_test_macros::test]
    fn comments_end_lines_unless_escaped() {
        assert_eq!(trim_comment(b"  a=b # c"), b"a=b");
        assert_eq!(trim_comment(b"a=b\\#c#d"), b"a=b\\#c");
        assert_eq!(trim_comment(b"a=\\\\#d"), b"a=\\\\");
        assert_eq!(trim_comment(b"# caf\xe9"), b"");
    }

    #[pumice_test_macros::test]
    fn maps_nest() {
        assert_eq!(
            pairs("a=1; b = {c=2;d={e=3;};} ;f=;"),
            [("a", "1"), ("b", "c=2;d={e=3;};"), ("f", "")]
                .map(|(k, v)| (k.to_string(), v.to_string()))
        );
        assert_eq!(pairs("{x=y}"), [("x".to_string(), "y".to_string())]);
        for text in ["{}", "{a=1;b={c=2;d={e=3;};};f=;}", "{a={{b=1}:{c=2}};}"] {
            assert_eq!(format_map(&pairs(text)), text);
        }
        assert!(pairs("").is_empty());
    }

    #[pumice_test_macros::test]
    fn malformed_maps_are_refused_in_rocksdb_words() {
        assert_eq!(message("name"), "Mismatched key value pair, '=' expected");
        assert_eq!(message("=1"), "Empty key found");
        assert!(message("a=1;;b=2").starts_with("Unexpected char in key"));
        assert_eq!(message("a={b=1"), "Mismatched curly braces for nested options");
        assert_eq!(message("a={b=1}c=2"), "Unexpected chars after nested options");
        assert_eq!(message(&format!("a={}", "{".repeat(99))), "Options are nested too deep");
    }
}
