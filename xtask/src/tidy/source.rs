//! A Rust file as tokens, on which the rules of tidy operate.
//!
//! Comments, strings and character literals are dropped, so that prose can name what code may
//! not. What is left is identifiers, numbers and single punctuation characters, each with its
//! line. This is not a parser: it knows just enough (paths, braces, `use` trees) for the rules, and
//! a file that fools it fails a rule rather than slipping through.

use std::path::Path;

/// One identifier, number or punctuation character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token<'a> {
    pub text: &'a str,
    /// Counted from 1.
    pub line: usize,
}

/// A file of the workspace.
pub struct Source {
    /// Relative to the workspace root, with `/`.
    pub path: String,
    pub text: String,
}

impl Source {
    pub fn read(root: &Path, path: &str) -> std::io::Result<Self> {
        Ok(Source { path: path.to_string(), text: std::fs::read_to_string(root.join(path))? })
    }

    pub fn tokens(&self) -> Vec<Token<'_>> {
        tokenize(&self.text)
    }
}

/// Splits `text` into tokens.
pub fn tokenize(text: &str) -> Vec<Token<'_>> {
    let bytes = text.as_bytes();
    let mut tokens = Vec::new();
    let (mut at, mut line) = (0, 1);
    while at < bytes.len() {
        let start = at;
        at = match bytes[at] {
            b'/' if bytes[at..].starts_with(b"//") => skip_line(bytes, at),
            b'/' if bytes[at..].starts_with(b"/*") => skip_block_comment(bytes, at),
            b'"' => skip_string(bytes, at),
            b'\'' => skip_char_or_lifetime(bytes, at),
            b'r' | b'b' | b'c' => match skip_prefixed_literal(bytes, at) {
                Some(end) => end,
                None => push_word(text, at, line, &mut tokens),
            },
            byte if is_word(byte) => push_word(text, at, line, &mut tokens),
            byte if byte.is_ascii_whitespace() => at + 1,
            _ => {
                let len = text[at..].chars().next().map_or(1, char::len_utf8);
                tokens.push(Token { text: &text[at..at + len], line });
                at + len
            }
        };
        line += bytes[start..at].iter().filter(|&&byte| byte == b'\n').count();
    }
    tokens
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn push_word<'a>(text: &'a str, at: usize, line: usize, tokens: &mut Vec<Token<'a>>) -> usize {
    let len = text.as_bytes()[at..].iter().take_while(|&&byte| is_word(byte)).count();
    tokens.push(Token { text: &text[at..at + len], line });
    at + len
}

fn skip_line(bytes: &[u8], at: usize) -> usize {
    bytes[at..].iter().position(|&byte| byte == b'\n').map_or(bytes.len(), |n| at + n)
}

fn skip_block_comment(bytes: &[u8], mut at: usize) -> usize {
    let mut depth = 0;
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if bytes[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                break;
            }
        } else {
            at += 1;
        }
    }
    at
}

/// From the opening quote to after the closing one.
fn skip_string(bytes: &[u8], at: usize) -> usize {
    let mut at = at + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

fn skip_char_or_lifetime(bytes: &[u8], at: usize) -> usize {
    match bytes.get(at + 1) {
        Some(b'\\') => {
            let rest = bytes.get(at + 3..).unwrap_or(&[]);
            rest.iter().position(|&byte| byte == b'\'').map_or(bytes.len(), |n| at + 3 + n + 1)
        }
        Some(&byte) if is_word(byte) && bytes.get(at + 2) != Some(&b'\'') => at + 1, // A lifetime.
        Some(_) => {
            let rest = &bytes[at + 1..];
            rest.iter().position(|&byte| byte == b'\'').map_or(bytes.len(), |n| at + 1 + n + 1)
        }
        None => at + 1,
    }
}

/// `r"..."`, `r#"..."#`, `b"..."`, `b'x'`, `br#"..."#`, `c"..."`; None when it is only an
/// identifier.
fn skip_prefixed_literal(bytes: &[u8], at: usize) -> Option<usize> {
    let prefix = bytes[at..].iter().take_while(|byte| matches!(byte, b'r' | b'b' | b'c')).count();
    let raw = bytes[at..at + prefix].contains(&b'r');
    let after = at + prefix;
    if prefix > 2 {
        return None;
    }
    match bytes.get(after)? {
        b'"' if !raw => Some(skip_string(bytes, after)),
        b'\'' if &bytes[at..after] == b"b" => Some(skip_char_or_lifetime(bytes, after)),
        b'"' | b'#' if raw => {
            let hashes = bytes[after..].iter().take_while(|&&byte| byte == b'#').count();
            if bytes.get(after + hashes) != Some(&b'"') {
                return None; // A raw identifier.
            }
            let mut close = vec![b'"'];
            close.resize(hashes + 1, b'#');
            let body = after + hashes + 1;
            let end = bytes[body..].windows(close.len()).position(|window| window == close);
            Some(end.map_or(bytes.len(), |n| body + n + close.len()))
        }
        _ => None,
    }
}

/// The module of a file, whose path is relative to `src`: `a/b.rs` and `a/b/mod.rs` as [a, b], the
/// crate's root as nothing.
pub fn module_of(path: &str) -> Vec<String> {
    let path = path.trim_end_matches(".rs").trim_end_matches("/mod");
    let parts = path.split('/').map(str::to_string);
    parts.filter(|part| !matches!(part.as_str(), "lib" | "main")).collect()
}

/// Every path that the tokens name (`std::fs`, `a::b`), `use` trees spelled out.
pub fn paths<'a>(tokens: &[Token<'a>]) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let is_start = is_identifier(tokens[at].text) && !(at > 0 && tokens[at - 1].text == ".");
        at = if is_start { path_at(tokens, at, "", &mut found) } else { at + 1 };
    }
    found
}

fn is_identifier(text: &str) -> bool {
    text.as_bytes().first().is_some_and(|&byte| byte.is_ascii_alphabetic() || byte == b'_')
}

fn is_separator(tokens: &[Token<'_>], at: usize) -> bool {
    matches!(tokens.get(at..at + 2), Some([a, b]) if a.text == ":" && b.text == ":")
}

/// Reads the path that starts at `at`; returns the index after it.
fn path_at(
    tokens: &[Token<'_>],
    mut at: usize,
    prefix: &str,
    out: &mut Vec<(String, usize)>,
) -> usize {
    let mut path = prefix.to_string();
    while let Some(token) = tokens.get(at) {
        if token.text == "{" && !path.is_empty() {
            return use_group(tokens, at + 1, &path, out);
        }
        if !is_identifier(token.text) && token.text != "*" {
            break;
        }
        if token.text != "self" || path.is_empty() {
            if !path.is_empty() {
                path.push_str("::");
            }
            path.push_str(token.text);
        }
        if !is_separator(tokens, at + 1) {
            out.push((path, token.line));
            return at + 1;
        }
        at += 3;
    }
    // `Type::<T>`: the path ends at the bracket.
    out.push((path, tokens.get(at).map_or(0, |token| token.line)));
    at
}

/// Reads `a, b::c, d as e }`; returns the index after the closing brace.
fn use_group(
    tokens: &[Token<'_>],
    mut at: usize,
    prefix: &str,
    out: &mut Vec<(String, usize)>,
) -> usize {
    while let Some(token) = tokens.get(at) {
        match token.text {
            "}" => return at + 1,
            "," => at += 1,
            "as" => at += 2,
            text if is_identifier(text) || text == "*" => at = path_at(tokens, at, prefix, out),
            _ => at += 1,
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<&str> {
        tokenize(text).iter().map(|token| token.text).collect()
    }

    #[test]
    fn comments_and_literals_are_dropped() {
        assert_eq!(words("a // std::fs\nb /* c /* d */ e */ f"), ["a", "b", "f"]);
        assert_eq!(words(r##"x "un\"safe" r#"a " b"# b"q" b'z' 'c' '\n' '\'' y"##), ["x", "y"]);
        assert_eq!(
            words("fn f<'a>(r: &'a str)"),
            ["fn", "f", "<", "a", ">", "(", "r", ":", "&", "a", "str", ")"]
        );
    }

    #[test]
    fn lines_are_counted_through_literals() {
        let tokens = tokenize("a\n\"x\ny\"\nb");
        assert_eq!(tokens[1], Token { text: "b", line: 4 });
    }

    #[test]
    fn use_trees_are_spelled_out() {
        let tokens = tokenize("use std::{fs, sync::{Arc, Mutex as M, atomic::*}}; x.std::y");
        let found: Vec<String> = paths(&tokens).into_iter().map(|(path, _)| path).collect();
        for path in ["std::fs", "std::sync::Arc", "std::sync::Mutex", "std::sync::atomic::*"] {
            assert!(found.iter().any(|f| f == path), "{path} in {found:?}");
        }
        let tokens = tokenize("use std::sync::{self};");
        assert_eq!(paths(&tokens)[1].0, "std::sync");
    }
}
