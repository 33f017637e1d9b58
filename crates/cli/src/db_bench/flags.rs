//! Command-line flags with gflags' syntax, generated from one table.
//!
//! Accepted: `-f=v`, `--f=v`, `--f v` (not for booleans), bare `--f` and `--nof` for booleans;
//! `-` and `_` are the same inside a name. The last occurrence wins. Integers are decimal (leading
//! zeros allowed, so `0300` is 300) or `0x` hexadecimal. Unknown flags are an error unless
//! `--undefok` names them. Words that are no flag are passed over with a warning, as db_bench does
//! in silence (`--sync 0` sets sync, and 0 is such a word).
//!
//! Thread safety: [`Flags`] is plain data.

use super::unsupported;

/// A type that a flag can have.
pub trait FlagValue: Sized {
    /// gflags' name of the type.
    const TYPE: &'static str;
    /// How a default is written in the table.
    type Literal;
    /// The default as a value.
    fn from_literal(literal: Self::Literal) -> Self;
    /// The value of `text`, if it is one.
    fn parse(text: &str) -> Option<Self>;
    /// The value as `--help` shows it.
    fn show(&self) -> String;
}

impl FlagValue for bool {
    const TYPE: &'static str = "bool";
    type Literal = bool;
    fn from_literal(literal: bool) -> bool {
        literal
    }
    fn parse(text: &str) -> Option<bool> {
        match text.to_ascii_lowercase().as_str() {
            "1" | "t" | "true" | "y" | "yes" => Some(true),
            "0" | "f" | "false" | "n" | "no" => Some(false),
            _ => None,
        }
    }
    fn show(&self) -> String {
        self.to_string()
    }
}

macro_rules! integer_flag {
    ($ty:ty, $name:literal) => {
        impl FlagValue for $ty {
            const TYPE: &'static str = $name;
            type Literal = $ty;
            fn from_literal(literal: $ty) -> $ty {
                literal
            }
            fn parse(text: &str) -> Option<$ty> {
                let (sign, digits) = match text.strip_prefix('-') {
                    Some(digits) => ("-", digits),
                    None => ("", text),
                };
                match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
                    Some(hex) => <$ty>::from_str_radix(&format!("{sign}{hex}"), 16).ok(),
                    None => text.parse().ok(),
                }
            }
            fn show(&self) -> String {
                self.to_string()
            }
        }
    };
}

integer_flag!(i32, "int32");
integer_flag!(i64, "int64");
integer_flag!(u32, "uint32");
integer_flag!(u64, "uint64");

impl FlagValue for f64 {
    const TYPE: &'static str = "double";
    type Literal = f64;
    fn from_literal(literal: f64) -> f64 {
        literal
    }
    fn parse(text: &str) -> Option<f64> {
        text.trim().parse().ok()
    }
    fn show(&self) -> String {
        self.to_string()
    }
}

impl FlagValue for String {
    const TYPE: &'static str = "string";
    type Literal = &'static str;
    fn from_literal(literal: &'static str) -> String {
        literal.to_string()
    }
    fn parse(text: &str) -> Option<String> {
        Some(text.to_string())
    }
    fn show(&self) -> String {
        format!("{self:?}")
    }
}

/// What `--help` says of one flag.
pub struct Row {
    /// Name without dashes.
    pub name: &'static str,
    /// gflags' name of the type.
    pub kind: &'static str,
    /// Default value.
    pub default: String,
    /// Meaning.
    pub doc: &'static str,
}

/// Makes `Flags` and its table out of `name: type = default, "meaning";` rows.
macro_rules! flag_table {
    ($( $name:ident : $ty:ty = $default:expr, $doc:literal; )*) => {
        /// All flags, by their names.
        #[derive(Clone, Debug)]
        pub struct Flags {
            $( #[doc = $doc] pub $name: $ty, )*
            /// Names of the flags that the command line set.
            given: std::collections::BTreeSet<&'static str>,
        }

        impl Default for Flags {
            fn default() -> Self {
                Flags {
                    $( $name: <$ty as FlagValue>::from_literal($default), )*
                    given: std::collections::BTreeSet::new(),
                }
            }
        }

        impl Flags {
            /// The table, in the order in which it is written.
            pub fn rows() -> Vec<Row> {
                let defaults = Flags::default();
                vec![$( Row {
                    name: stringify!($name),
                    kind: <$ty as FlagValue>::TYPE,
                    default: FlagValue::show(&defaults.$name),
                    doc: $doc,
                }, )*]
            }

            /// Sets flag `name` from `text`. False: `text` is no value of its type.
            /// Requires: `name` is in the table.
            pub fn assign(&mut self, name: &str, text: &str) -> bool {
                match name {
                    $( stringify!($name) => {
                        match <$ty as FlagValue>::parse(text) {
                            Some(value) => self.$name = value,
                            None => return false,
                        }
                        self.given.insert(stringify!($name));
                        true
                    } )*
                    _ => unreachable!("flag {name} was looked up before"),
                }
            }

            /// The command line set this flag.
            pub fn is_given(&self, name: &str) -> bool {
                self.given.contains(name)
            }
        }
    };
}
pub(super) use flag_table;

pub use super::flag_table::Flags;

/// How parsing ended when it did not give flags.
#[derive(Debug, PartialEq, Eq)]
pub enum Stop {
    /// `--help` was asked for.
    Help,
    /// Messages for stderr.
    Errors(Vec<String>),
}

/// Parses `args` (without the program's name). Warnings go to `warn`.
///
/// # Errors
/// `--help`, or every flag that is unknown, not supported, without a value or with a wrong one.
pub fn parse(args: &[String], warn: &mut dyn FnMut(String)) -> Result<Flags, Stop> {
    let mut parser = Parser { flags: Flags::default(), rows: Flags::rows(), errors: Vec::new() };
    let mut unknown = Vec::new();
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        let Some(word) = arg.strip_prefix('-') else {
            warn(format!("WARNING: '{arg}' is not a flag and is ignored"));
            continue;
        };
        let word = word.strip_prefix('-').unwrap_or(word);
        if word.is_empty() {
            break;
        }
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name.replace('-', "_"), Some(value)),
            None => (word.replace('-', "_"), None),
        };
        if name == "help" || name == "helpfull" {
            return Err(Stop::Help);
        }
        if !parser.take(&name, value, &mut rest) {
            unknown.push(name);
        }
    }
    let allowed: Vec<&str> = parser.flags.undefok.split(',').collect();
    let mut errors = parser.errors;
    for name in unknown {
        let plain = name.strip_prefix("no").unwrap_or(&name);
        if allowed.contains(&name.as_str()) || allowed.contains(&plain) {
            continue;
        }
        if unsupported::IGNORED.contains(&name.as_str()) {
            warn(format!("WARNING: flag --{name} has no effect any more and is ignored"));
        } else if unsupported::NAMES.contains(&name.as_str()) || unsupported::NAMES.contains(&plain)
        {
            errors.push(format!("ERROR: flag --{name} of RocksDB's db_bench is not supported yet"));
        } else {
            errors.push(format!("ERROR: unknown command line flag '{name}'"));
        }
    }
    if errors.is_empty() { Ok(parser.flags) } else { Err(Stop::Errors(errors)) }
}

struct Parser {
    flags: Flags,
    rows: Vec<Row>,
    errors: Vec<String>,
}

impl Parser {
    /// Takes one flag and, if it needs one, its value from `rest`. False: no such flag.
    fn take(
        &mut self,
        name: &str,
        value: Option<&str>,
        rest: &mut std::slice::Iter<'_, String>,
    ) -> bool {
        if let Some(row) = self.rows.iter().find(|row| row.name == name) {
            let text = match value {
                Some(value) => value,
                None if row.kind == bool::TYPE => "true",
                None => match rest.next() {
                    Some(next) => next,
                    None => {
                        self.errors.push(format!(
                            "ERROR: flag '--{name}' is missing its argument; flag description: {}",
                            row.doc
                        ));
                        return true;
                    }
                },
            };
            if !self.flags.assign(name, text) {
                self.errors.push(format!(
                    "ERROR: illegal value '{text}' specified for {} flag '{name}'",
                    row.kind
                ));
            }
            return true;
        }
        let negated = name.strip_prefix("no");
        let row = negated.and_then(|plain| self.rows.iter().find(|row| row.name == plain));
        match row {
            Some(row) if row.kind == bool::TYPE && value.is_none() => {
                let plain = row.name;
                self.flags.assign(plain, "false")
            }
            _ => false,
        }
    }
}

/// The text of `--help`.
pub fn help() -> String {
    let mut out = String::from(
        "pumice db_bench: RocksDB's benchmark program, on Pumice or on a RocksDB library\n\n\
         USAGE: pumice db_bench [--flag=value]...\n\n  Flags:\n",
    );
    for row in Flags::rows() {
        let text =
            format!("-{} ({}) type: {} default: {}", row.name, row.doc, row.kind, row.default);
        let mut column = 4;
        out.push_str("    ");
        for word in text.split(' ') {
            if column + word.len() > 79 && column > 6 {
                out.push_str("\n      ");
                column = 6;
            }
            out.push_str(word);
            out.push(' ');
            column += word.len() + 1;
        }
        out.pop();
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn run(words: &[&str]) -> Result<Flags, Stop> {
        let args: Vec<String> = words.iter().map(|word| word.to_string()).collect();
        parse(&args, &mut |_| {})
    }

    #[pumice_test_macros::test]
    fn every_spelling_of_gflags() {
        let flags = run(&[
            "-num=5",
            "--threads",
            "3",
            "--sync",
            "--nohistogram",
            "--use-existing-db=yes",
            "-cache_size=0300000000",
            "--seed=0x1F",
            "--num=7",
            "--disable_wal",
            "0",
            "-compression_ratio=0.25",
            "--sine_c=-1.5e-3",
        ])
        .unwrap();
        assert_eq!((flags.num, flags.threads, flags.sync), (7, 3, true));
        assert_eq!((flags.use_existing_db, flags.cache_size, flags.seed), (true, 300_000_000, 31));
        assert!(flags.disable_wal, "a bare boolean does not take the next word");
        assert!(flags.is_given("histogram") && !flags.histogram && !flags.is_given("db"));
        assert_eq!((flags.compression_ratio, flags.sine_c), (0.25, -1.5e-3));
    }

    #[pumice_test_macros::test]
    fn every_refusal_names_the_flag() {
        let errors = |words: &[&str]| match run(words) {
            Err(Stop::Errors(errors)) => errors,
            other => panic!("{words:?} gave {other:?}"),
        };
        assert_eq!(errors(&["--nosuch=1"]), ["ERROR: unknown command line flag 'nosuch'"]);
        assert_eq!(
            errors(&["--num=abc"]),
            ["ERROR: illegal value 'abc' specified for int64 flag 'num'"]
        );
        assert!(errors(&["--num"])[0].starts_with("ERROR: flag '--num' is missing its argument; "));
        assert_eq!(
            errors(&["--trace_file=x"]),
            ["ERROR: flag --trace_file of RocksDB's db_bench is not supported yet"]
        );
        assert_eq!(errors(&["--nonum"]), ["ERROR: unknown command line flag 'nonum'"]);
        assert!(run(&["--undefok=foo,bar", "--foo=1", "--nobar"]).is_ok());
        assert!(run(&["--hard_rate_limit=2"]).is_ok());
        assert_eq!(run(&["--help"]).err(), Some(Stop::Help));
    }

    #[pumice_test_macros::test]
    fn no_flag_is_both_known_and_refused() {
        for row in Flags::rows() {
            assert!(!unsupported::NAMES.contains(&row.name), "{}", row.name);
            assert!(help().contains(&format!("    -{} (", row.name)), "{}", row.name);
        }
    }
}
