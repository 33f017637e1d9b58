//! The notation in which the arguments of commands are written down, and its reader.
//!
//! | notation | argument |
//! |---|---|
//! | `name` | a string |
//! | `name:i` | `:d` a double, `:i` an integer, `:p` a pattern, `:t` a Unix time |
//! | `name:k` | a key, of the first key specification; `:k1` of the second, .. |
//! | `name:p1` | a pattern of keys, of the second key specification |
//! | `NX` | a word by itself, whose name is `nx` |
//! | `CH=change!` | a word by itself with another name |
//! | `EX=seconds:i` | a word, and the argument after it |
//! | `name(A\|B)` | one of several |
//! | `name{a b}` | several, one after the other |
//! | `a b` | the arguments of a command, as those in braces |
//!
//! What follows an argument: `+` it may be repeated, `++` with its word, `^6.2.0` the version of
//! Redis that introduced it. All of it is in brackets if it may be left out: `[COUNT=n:i^6.2.0]`.
//!
//! Thread safety: values. The reader recurses as deep as brackets are nested, which are constants.

use std::borrow::Cow;
use std::fmt::Write;

/// An argument of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument<'a> {
    pub name: Cow<'a, str>,
    pub kind: Kind<'a>,
    /// The word before it, or for [`Kind::Word`] the word.
    pub token: Option<&'a str>,
    /// The version of Redis that introduced it, if the command is older.
    pub since: Option<&'a str>,
    pub optional: bool,
    pub multiple: bool,
    /// The word is repeated too.
    pub multiple_token: bool,
}

/// What an argument is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind<'a> {
    String,
    Integer,
    Double,
    /// Of keys of the key specification with this index; None: not of such.
    Pattern(Option<u8>),
    UnixTime,
    /// A key, of the key specification with this index.
    Key(u8),
    Word,
    OneOf(Vec<Argument<'a>>),
    Block(Vec<Argument<'a>>),
}

impl Kind<'_> {
    /// The name of the type in COMMAND DOCS.
    pub fn name(&self) -> &'static str {
        match self {
            Kind::String => "string",
            Kind::Integer => "integer",
            Kind::Double => "double",
            Kind::Pattern(_) => "pattern",
            Kind::UnixTime => "unix-time",
            Kind::Key(_) => "key",
            Kind::Word => "pure-token",
            Kind::OneOf(_) => "oneof",
            Kind::Block(_) => "block",
        }
    }

    /// The arguments that it consists of.
    pub fn parts(&self) -> &[Argument<'_>] {
        match self {
            Kind::OneOf(parts) | Kind::Block(parts) => parts,
            _ => &[],
        }
    }
}

/// The arguments that `text` writes down; none if it is empty.
///
/// # Errors
/// What was expected, and where.
pub fn read(text: &str) -> Result<Vec<Argument<'_>>, String> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let mut reader = Reader { rest: text };
    let all = reader.list(' ')?;
    if reader.rest.is_empty() { Ok(all) } else { Err(reader.expected("an end")) }
}

struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn expected(&self, what: &str) -> String {
        format!("{what} is expected at \"{}\"", self.rest)
    }

    /// Whether `sign` came next, which is then read.
    fn takes(&mut self, sign: char) -> bool {
        let rest = self.rest.strip_prefix(sign);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn must_take(&mut self, sign: char) -> Result<(), String> {
        if self.takes(sign) { Ok(()) } else { Err(self.expected(&format!("'{sign}'"))) }
    }

    fn word(&mut self) -> Result<&'a str, String> {
        let end = self.rest.find(|c: char| "=!(){}[]+^| ".contains(c));
        let (word, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        if word.is_empty() {
            return Err(self.expected("a name"));
        }
        self.rest = rest;
        Ok(word)
    }

    fn list(&mut self, between: char) -> Result<Vec<Argument<'a>>, String> {
        let mut all = vec![self.argument()?];
        while self.takes(between) {
            all.push(self.argument()?);
        }
        Ok(all)
    }

    fn argument(&mut self) -> Result<Argument<'a>, String> {
        let optional = self.takes('[');
        let mut argument = self.named()?;
        argument.multiple = self.takes('+');
        argument.multiple_token = argument.multiple && self.takes('+');
        argument.since = if self.takes('^') { Some(self.word()?) } else { None };
        argument.optional = optional;
        if optional {
            self.must_take(']')?;
        }
        Ok(argument)
    }

    /// An argument without what follows it.
    fn named(&mut self) -> Result<Argument<'a>, String> {
        let first = self.word()?;
        let (token, word) =
            if self.takes('=') { (Some(first), self.word()?) } else { (None, first) };
        let of = |name: &'a str, kind, token| Argument {
            name: Cow::Borrowed(name),
            kind,
            token,
            since: None,
            optional: false,
            multiple: false,
            multiple_token: false,
        };
        if self.takes('!') {
            return Ok(of(word, Kind::Word, token));
        }
        if self.takes('(') {
            let kind = Kind::OneOf(self.list('|')?);
            self.must_take(')')?;
            return Ok(of(word, kind, token));
        }
        if self.takes('{') {
            let kind = Kind::Block(self.list(' ')?);
            self.must_take('}')?;
            return Ok(of(word, kind, token));
        }
        if token.is_none() && !word.contains(|c: char| c.is_ascii_lowercase()) {
            let name = Cow::Owned(word.to_ascii_lowercase());
            return Ok(Argument { name, ..of(word, Kind::Word, Some(word)) });
        }
        let (name, kind) = typed(word);
        Ok(of(name, kind, token))
    }
}

/// A name, and the type whose letter is behind it. (Some names have a colon.)
fn typed(word: &str) -> (&str, Kind<'_>) {
    let Some((name, letter)) = word.rsplit_once(':') else { return (word, Kind::String) };
    let kind = match letter.as_bytes() {
        b"d" => Kind::Double,
        b"i" => Kind::Integer,
        b"p" => Kind::Pattern(None),
        b"t" => Kind::UnixTime,
        b"k" => Kind::Key(0),
        [b'p', digit @ b'0'..=b'9'] => Kind::Pattern(Some(digit - b'0')),
        [b'k', digit @ b'0'..=b'9'] => Kind::Key(digit - b'0'),
        _ => return (word, Kind::String),
    };
    (name, kind)
}

/// The arguments as people write them: `key value [NX | XX]`.
pub fn synopsis(arguments: &[Argument<'_>]) -> String {
    joined(arguments, " ")
}

fn joined(arguments: &[Argument<'_>], between: &str) -> String {
    arguments.iter().map(shown).collect::<Vec<_>>().join(between)
}

fn shown(argument: &Argument<'_>) -> String {
    let one = match &argument.kind {
        Kind::Word => String::new(),
        Kind::OneOf(parts) => joined(parts, " | "),
        Kind::Block(parts) => joined(parts, " "),
        _ => argument.name.to_string(),
    };
    // A choice that is in brackets already, or has nothing beside it, needs no others.
    let apart = argument.token.is_some() || argument.multiple || !argument.optional;
    let one = match &argument.kind {
        Kind::OneOf(_) if apart => format!("<{one}>"),
        _ => one,
    };
    let token = argument.token.unwrap_or_default();
    let mut text = format!("{token} {one}").trim().to_string();
    if argument.multiple {
        let again = if argument.multiple_token { text.clone() } else { one };
        write!(text, " [{again} ...]").expect("a String takes everything");
    }
    if argument.optional { format!("[{text}]") } else { text }
}

/// How few words the arguments are, and whether they are always as many: what an arity says.
#[cfg(test)]
pub fn words(arguments: &[Argument<'_>]) -> (usize, bool) {
    let of = |argument: &Argument<'_>| {
        let (inner, fixed) = match &argument.kind {
            Kind::Word => (0, true),
            Kind::Block(parts) => words(parts),
            Kind::OneOf(parts) => {
                let each: Vec<_> =
                    parts.iter().map(|part| words(std::slice::from_ref(part))).collect();
                let least = each.iter().map(|(least, _)| *least).min().unwrap_or(0);
                (least, each.iter().all(|one| *one == (least, true)))
            }
            _ => (1, true),
        };
        let least =
            if argument.optional { 0 } else { inner + usize::from(argument.token.is_some()) };
        (least, fixed && !argument.optional && !argument.multiple)
    };
    let each = arguments.iter().map(of);
    each.fold((0, true), |(sum, all), (least, fixed)| (sum + least, all && fixed))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn plain<'a>(name: &'a str, kind: Kind<'a>) -> Argument<'a> {
        let name = Cow::Borrowed(name);
        let (token, since) = (None, None);
        let (optional, multiple, multiple_token) = (false, false, false);
        Argument { name, kind, token, since, optional, multiple, multiple_token }
    }

    #[pumice_test_macros::test]
    fn every_sign_is_read() {
        assert_eq!(read("").unwrap(), []);
        assert_eq!(read("key:k").unwrap(), [plain("key", Kind::Key(0))]);
        assert_eq!(
            read("key:k ip:port to:k2 a:d b:p1 c:t").unwrap(),
            [
                plain("key", Kind::Key(0)),
                plain("ip:port", Kind::String),
                plain("to", Kind::Key(2)),
                plain("a", Kind::Double),
                plain("b", Kind::Pattern(Some(1))),
                plain("c", Kind::UnixTime),
            ]
        );
        let nx = Argument { token: Some("NX"), ..plain("nx", Kind::Word) };
        let change = Argument { token: Some("CH"), ..plain("change", Kind::Word) };
        let change = Argument { since: Some("3.0.2"), optional: true, ..change };
        let choice = Argument { multiple: true, ..plain("how", Kind::OneOf(vec![nx, change])) };
        assert_eq!(read("how(NX|[CH=change!^3.0.2])+").unwrap(), [choice]);
        let parts = Kind::Block(vec![plain("a", Kind::String), plain("b", Kind::Integer)]);
        let get = Argument { token: Some("GET"), ..plain("pair", parts) };
        let get = Argument { optional: true, multiple: true, multiple_token: true, ..get };
        assert_eq!(read("[GET=pair{a b:i}++]").unwrap(), [get]);
    }

    #[pumice_test_macros::test]
    fn errors_say_where() {
        for (text, error) in [
            ("a  b", "a name is expected at \" b\""),
            ("[a", "']' is expected at \"\""),
            ("a(b|c", "')' is expected at \"\""),
            ("a{b c)", "'}' is expected at \")\""),
            ("a]", "an end is expected at \"]\""),
            ("a^", "a name is expected at \"\""),
        ] {
            assert_eq!(read(text).unwrap_err(), error, "{text}");
        }
    }

    #[pumice_test_macros::test]
    fn people_read_them_and_words_are_counted() {
        for (text, people, least, fixed) in [
            ("key:k value", "key value", 2, true),
            ("key:k+ [COUNT=count:i]", "key [key ...] [COUNT count]", 1, false),
            ("key:k where(LEFT|RIGHT)", "key <LEFT | RIGHT>", 2, true),
            ("[order(ASC|DESC)] [GET=p:p++]", "[ASC | DESC] [GET p [GET p ...]]", 0, false),
            ("[WEIGHTS=w:i+] pair{a b}+", "[WEIGHTS w [w ...]] a b [a b ...]", 2, false),
            ("how(EX=s:i|KEEP)", "<EX s | KEEP>", 1, false),
            ("[TYPE=kind(A|B)]", "[TYPE <A | B>]", 0, false),
            ("[options{count:i [WITHVALUES]}]", "[count [WITHVALUES]]", 0, false),
        ] {
            let arguments = read(text).unwrap();
            assert_eq!(synopsis(&arguments), people);
            assert_eq!(words(&arguments), (least, fixed), "{text}");
        }
    }
}
