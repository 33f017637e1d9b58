//! Command lines of the tools: `--name=value`, `--name`, and plain words.
//!
//! `--name value` is not a form these tools have; `--name=` is `--name`. Words and values are
//! bytes: keys and paths need not be UTF-8. A command line is split first and then held against
//! the flags that the command knows ([`Arguments::check`]), so that nothing is done before all of
//! it is understood. The last of two equal names counts.
//!
//! A switch is true, false, 1, 0, t, f, yes, no, y or n, in letters of either case: what RocksDB's
//! tools, its options and gflags take between them. Thread safety: plain data.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::num::IntErrorKind;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// A flag as it is typed, with its dashes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flag {
    /// `--sync` or `-n`.
    pub name: String,
    /// It needs a value.
    pub takes_value: bool,
    /// What it does, in one line; empty where the table has no words for it.
    pub meaning: String,
}

impl Flag {
    /// The flag `--name`.
    pub fn long(name: &str, takes_value: bool, meaning: &str) -> Flag {
        Flag { name: format!("--{name}"), takes_value, meaning: meaning.to_string() }
    }
}

/// The flags that a command knows.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    /// Flags that stand alone or have a value that is true or false.
    pub switches: &'a [&'a [&'static str]],
    /// Flags that have any value.
    pub values: &'a [&'a [&'static str]],
}

impl Known<'_> {
    /// The flags as they are typed, for completions.
    pub fn flags(&self) -> Vec<Flag> {
        let of = |lists: &[&[&'static str]], takes_value: bool| {
            let names = lists.iter().flat_map(|list| list.iter());
            names.map(|name| Flag::long(name, takes_value, "")).collect::<Vec<_>>()
        };
        [of(self.switches, false), of(self.values, true)].concat()
    }

    /// The names of the flags.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.switches.iter().chain(self.values).flat_map(|list| list.iter().copied())
    }
}

/// Why a command line is refused.
#[derive(Debug, PartialEq, Eq)]
pub enum Wrong {
    /// There is no such flag: what it is called, which is "option", or "flag" without a value, and
    /// its name.
    Unknown(&'static str, String),
    /// The switch has another value than true and false.
    NotBoolean(String, String),
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wrong::Unknown(_, name) => write!(f, "there is no flag --{name}"),
            Wrong::NotBoolean(name, value) => {
                write!(f, "--{name} is true or false, not {value}")
            }
        }
    }
}

/// The boolean that `text` means, if it is one.
pub fn boolean(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "t" | "true" | "y" | "yes" => Some(true),
        "0" | "f" | "false" | "n" | "no" => Some(false),
        _ => None,
    }
}

/// The path that the bytes of a word are.
pub fn path(word: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(word))
}

/// A parsed command line.
#[derive(Clone, Debug, Default)]
pub struct Arguments {
    /// `--name=value`; a bare `--name` has no value.
    options: BTreeMap<String, Option<Vec<u8>>>,
    /// Words without dashes, in order.
    pub words: Vec<Vec<u8>>,
}

impl Arguments {
    /// Splits `args`.
    pub fn parse(args: &[OsString]) -> Self {
        let mut parsed = Arguments::default();
        for arg in args {
            let Some(option) = arg.as_bytes().strip_prefix(b"--") else {
                parsed.words.push(arg.clone().into_vec());
                continue;
            };
            let end = option.iter().position(|byte| *byte == b'=').unwrap_or(option.len());
            let value = option.get(end + 1..).filter(|value| !value.is_empty());
            let name = String::from_utf8_lossy(&option[..end]).into_owned();
            parsed.options.insert(name, value.map(<[u8]>::to_vec));
        }
        parsed
    }

    /// Holds the command line against what is known.
    ///
    /// # Errors
    /// A flag is unknown, those with a value first, or a switch has no boolean value.
    pub fn check(&self, known: &Known<'_>) -> Result<(), Wrong> {
        let holds = |lists: &[&[&str]], name: &str| lists.iter().any(|list| list.contains(&name));
        let is_switch = |name: &str| holds(known.switches, name);
        let is_known = |name: &str| is_switch(name) || holds(known.values, name);
        let mut unknown = self.options.iter().filter(|(name, _)| !is_known(name));
        let first = unknown.clone().find(|(_, value)| value.is_some()).or_else(|| unknown.next());
        if let Some((name, value)) = first {
            let kind = if value.is_some() { "option" } else { "flag" };
            return Err(Wrong::Unknown(kind, name.clone()));
        }
        for (name, value) in self.options.iter().filter(|(name, _)| is_switch(name)) {
            if let Some(value) = value.as_deref().map(String::from_utf8_lossy)
                && boolean(&value).is_none()
            {
                return Err(Wrong::NotBoolean(name.clone(), value.into_owned()));
            }
        }
        Ok(())
    }

    /// The command line with no other options than these.
    pub fn only(&self, names: &[&str]) -> Arguments {
        let mut only = self.clone();
        only.options.retain(|name, _| names.contains(&name.as_str()));
        only
    }

    /// The option was given, with or without a value.
    pub fn has(&self, name: &str) -> bool {
        self.options.contains_key(name)
    }

    /// The switch was given as `--name`, or with a true value.
    ///
    /// # Panics
    /// It has another value than true and false, and [`Arguments::check`] was not asked.
    pub fn flag(&self, name: &str) -> bool {
        self.switch(name).unwrap_or(false)
    }

    /// The value of the switch, if it was given. Panics as [`Arguments::flag`].
    pub fn switch(&self, name: &str) -> Option<bool> {
        let Some(value) = self.options.get(name)?.as_deref() else { return Some(true) };
        let value = std::str::from_utf8(value).ok().and_then(boolean);
        Some(value.expect("the command's table has it among its switches"))
    }

    /// The value of the option.
    pub fn bytes(&self, name: &str) -> Option<&[u8]> {
        self.options.get(name)?.as_deref()
    }

    /// The value of the option as a path.
    pub fn path(&self, name: &str) -> Option<&Path> {
        self.bytes(name).map(path)
    }

    /// The value of the option as text.
    ///
    /// # Errors
    /// It is not UTF-8.
    pub fn text(&self, name: &str) -> Result<Option<&str>, String> {
        self.bytes(name).map(|bytes| utf8(bytes, &format!("--{name}"))).transpose()
    }

    /// The value of the option as a number, if it was given.
    ///
    /// # Errors
    /// It has no value, or one that is not such a number.
    pub fn number<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>, String> {
        if !self.has(name) {
            return Ok(None);
        }
        let text = self.bytes(name).and_then(|bytes| std::str::from_utf8(bytes).ok());
        let number = text.and_then(|text| text.parse().ok());
        number.map(Some).ok_or_else(|| format!("{name} has an invalid value"))
    }

    /// The value of the option as an `int` of C; None if it was not given or has no value.
    ///
    /// # Errors
    /// It is none, in the words of RocksDB's ldb, which `stop` ends.
    pub fn int(&self, name: &str, stop: &str) -> Result<Option<i32>, String> {
        let Some(bytes) = self.bytes(name) else { return Ok(None) };
        let text = String::from_utf8_lossy(bytes);
        match text.parse::<i32>().map_err(|error| *error.kind()) {
            Ok(number) => Ok(Some(number)),
            Err(IntErrorKind::PosOverflow | IntErrorKind::NegOverflow) => {
                Err(format!("{name} has a value out-of-range{stop}"))
            }
            Err(_) => Err(format!("{name} has an invalid value{stop}")),
        }
    }

    /// Names and values of the options, in the order of the names.
    pub fn options(&self) -> impl Iterator<Item = (&str, Option<&[u8]>)> {
        self.options.iter().map(|(name, value)| (name.as_str(), value.as_deref()))
    }
}

/// `word` as text; `what` it is, for the error.
///
/// # Errors
/// It is not UTF-8.
pub fn utf8<'a>(word: &'a [u8], what: &str) -> Result<&'a str, String> {
    std::str::from_utf8(word)
        .map_err(|_| format!("{what}: '{}' is not UTF-8", String::from_utf8_lossy(word)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const KNOWN: Known<'_> = Known { switches: &[&["hex", "x"], &["y"]], values: &[&["db", "n"]] };

    fn parse(args: &[&str]) -> Arguments {
        Arguments::parse(&args.iter().map(OsString::from).collect::<Vec<_>>())
    }

    #[pumice_test_macros::test]
    fn options_flags_words() {
        let parsed = parse(&["--db=a=b", "put", "--hex", "k", "--n=7", "--x=no", "-v", "--m="]);
        assert_eq!(parsed.words, [&b"put"[..], b"k", b"-v"]);
        assert_eq!(parsed.text("db"), Ok(Some("a=b")));
        assert!(parsed.flag("hex") && !parsed.flag("x") && parsed.has("x") && !parsed.flag("y"));
        assert_eq!((parsed.switch("x"), parsed.switch("y")), (Some(false), None));
        assert_eq!(parsed.number::<u64>("n"), Ok(Some(7)));
        assert_eq!(parsed.number::<u64>("o"), Ok(None));
        assert_eq!(parsed.number::<u64>("hex"), Err("hex has an invalid value".into()));
        assert_eq!((parsed.has("m"), parsed.bytes("m")), (true, None));
        assert_eq!(parsed.check(&KNOWN), Err(Wrong::Unknown("flag", "m".into())));
    }

    #[pumice_test_macros::test]
    fn switches_are_true_or_false() {
        for (text, value) in [("TRUE", true), ("t", true), ("1", true), ("No", false)] {
            let parsed = parse(&[&format!("--x={text}")]);
            assert_eq!((parsed.check(&KNOWN), parsed.flag("x")), (Ok(()), value), "{text}");
        }
        for text in ["2", "0xff", "truex", " true", "on", "-"] {
            let error = Wrong::NotBoolean("x".into(), text.into());
            assert_eq!(parse(&[&format!("--x={text}")]).check(&KNOWN), Err(error));
        }
        let unknown = parse(&["--z=1", "--a", "--x=2"]).check(&KNOWN);
        assert_eq!(unknown, Err(Wrong::Unknown("option", "z".into())));
    }

    #[pumice_test_macros::test]
    fn words_and_values_are_bytes() {
        let args = [&b"--db=\xff"[..], b"\xfe", b"--\xfd=1"];
        let args: Vec<OsString> =
            args.iter().map(|arg| OsStr::from_bytes(arg).to_owned()).collect();
        let parsed = Arguments::parse(&args);
        assert_eq!(parsed.bytes("db"), Some(&b"\xff"[..]));
        assert_eq!(parsed.path("db"), Some(path(b"\xff")));
        assert_eq!(parsed.text("db"), Err("--db: '\u{fffd}' is not UTF-8".into()));
        assert_eq!(parsed.words, [b"\xfe"]);
        assert_eq!(parsed.check(&KNOWN), Err(Wrong::Unknown("option", "\u{fffd}".into())));
    }
}
