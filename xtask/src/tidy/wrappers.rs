//! The traits of files have no default methods: what wraps a file would forget one, and nothing
//! would say so. With none, the compiler asks each implementor for it, and wrappers forward what
//! they leave out (`crates/env/src/wrappers.rs`).

use super::Violation;
use super::source::{Source, Token};

const FILE: &str = "crates/env/src/file_system.rs";
const TRAITS: [&str; 5] =
    ["FileSystem", "RandomAccessFile", "SequentialFile", "WritableFile", "FileSyncer"];

/// Reports default methods of the traits, and traits that are no longer in their file.
pub fn check(sources: &[Source]) -> Vec<Violation> {
    let Some(source) = sources.iter().find(|source| source.path == FILE) else {
        return vec![Violation::new(FILE, "is not there, though tidy's `wrappers` reads it")];
    };
    judge(&source.tokens())
}

fn judge(tokens: &[Token<'_>]) -> Vec<Violation> {
    let mut found = Vec::new();
    for name in TRAITS {
        let begins = |pair: &[Token<'_>]| pair[0].text == "trait" && pair[1].text == name;
        match tokens.windows(2).position(begins) {
            None => found.push(Violation::new(FILE, format!("trait {name} is not there"))),
            Some(at) => found.extend(defaults_of(name, &tokens[at..])),
        }
    }
    found
}

/// The methods with a body in the trait that `tokens` begins with.
fn defaults_of(name: &str, tokens: &[Token<'_>]) -> Vec<Violation> {
    let (mut found, mut depth, mut method) = (Vec::new(), 0usize, "");
    for (at, token) in tokens.iter().enumerate() {
        match token.text {
            "{" => {
                depth += 1;
                if depth == 2 {
                    let message = format!("{name}::{method} has a default: wrappers forget it");
                    found.push(Violation::new(format!("{FILE}:{}", token.line), message));
                }
            }
            "}" if depth == 1 => return found,
            "}" => depth -= 1,
            "fn" if depth == 1 => method = tokens.get(at + 1).map_or("", |token| token.text),
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::source::tokenize;
    use super::*;

    #[test]
    fn a_default_method_is_found() {
        let empty = |name: &str| format!("pub trait {name}: Send {{ fn path(&self) -> u8; }}\n");
        let traits: String = TRAITS.iter().map(|name| empty(name)).collect();
        assert_eq!(judge(&tokenize(&traits)).len(), 0);
        let planted = traits.replace("WritableFile: Send {", "WritableFile: Send { fn f() {} ");
        let messages: Vec<_> = judge(&tokenize(&planted)).into_iter().map(|v| v.message).collect();
        assert_eq!(messages, ["WritableFile::f has a default: wrappers forget it"]);
        assert_eq!(judge(&tokenize(&traits.replace("trait FileSyncer", "struct X"))).len(), 1);
    }
}
