//! Command-line flags with gflags' syntax, generated from one table.
//!
//! Accepted: `-f=v`, `--f=v`, `--f v` (not for booleans), bare `--f` and `--nof` for booleans; `-`
//! and `_` are the same inside a name. The last occurrence wins. Integers are decimal (leading
//! zeros allowed, so `0300` is 300) or `0x` hexadecimal. Unknown flags are an error unless
//! `--undefok` names them. A flag without a row may be an option of the engine, or a flag of
//! RocksDB's whose feature is missing, which takes its default only. Words that are not flags are
//! skipped with a warning; db_bench skips them silently (`--sync 0` sets sync, and 0 is such a
//! word).
//!
//! Thread safety: [`Flags`] is plain data.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::flag_value::FlagValue;
use super::option_flags::{self, GivenOption};
use super::other_engines;
use super::rocksdb_flags::{self, Known};
use crate::nearest::nearest;

/// The `--help` text of one flag.
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

/// The default that the option's row has, as a value of the flag.
/// Requires: there is such an option, and its text is one of the flag's type.
pub(super) fn option_default<T: FlagValue>(option: &str) -> T {
    let flag = option_flags::find(option);
    let value = flag.and_then(|flag| T::parse(&flag.default));
    value.expect("a flag without a default has the name and type of an option")
}
/// The default of a row of [`flag_table!`].
macro_rules! flag_default {
    ($ty:ty, $name:ident = $default:expr) => {
        <$ty as FlagValue>::from_literal($default)
    };
    ($ty:ty, $name:ident as $option:ident) => {
        option_default::<$ty>(stringify!($option))
    };
    ($ty:ty, $name:ident) => {
        option_default::<$ty>(stringify!($name))
    };
}

/// Makes `Flags` and its table out of `name: type = default, "meaning";` rows. A row without a
/// default, `name: type, "meaning";`, has that of the option of its name, and one like
/// `name: type as option, "meaning";` that of the option named.
macro_rules! flag_table {
    ($( $name:ident : $ty:ty $(as $option:ident)? $(= $default:expr)?, $doc:literal; )*) => {
        /// All flags, by their names.
        #[derive(Clone, Debug)]
        pub struct Flags {
            $( #[doc = $doc] pub $name: $ty, )*
            /// Options of the engine that have no flag of their own in the table.
            pub options: Vec<GivenOption>,
            /// Names of the flags that the command line set.
            given: std::collections::BTreeSet<&'static str>,
        }

        impl Default for Flags {
            fn default() -> Self {
                Flags {
                    $( $name: flag_default!($ty, $name $(as $option)? $(= $default)?), )*
                    options: Vec::new(),
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

            /// Sets flag `name` from `word`. False: it is not a value of its type.
            /// Requires: `name` is in the table.
            pub fn assign(&mut self, name: &str, word: impl AsRef<OsStr>) -> bool {
                let word = word.as_ref();
                match name {
                    $( stringify!($name) => {
                        match <$ty as FlagValue>::of_word(word) {
                            Some(value) => self.$name = value,
                            None => return false,
                        }
                        self.given.insert(stringify!($name));
                        true
                    } )*
                    _ => unreachable!("flag {name} was looked up before"),
                }
            }

            /// The flags that the command line set, by name.
            pub fn given(&self) -> impl Iterator<Item = &'static str> {
                self.given.iter().copied()
            }

            /// The command line set this flag.
            pub fn is_given(&self, name: &str) -> bool {
                self.given.contains(name)
            }
        }
    };
}
pub(super) use {flag_default, flag_table};

pub use super::flag_table::Flags;

/// Why parsing ended without flags.
#[derive(Debug, PartialEq, Eq)]
pub enum Stop {
    /// `--help` was asked for.
    Help,
    /// `--version` was asked for.
    Version,
    /// Messages for stderr.
    Errors(Vec<String>),
}

impl Flags {
    /// Whether there are statistics: asked for, or named.
    pub fn wants_statistics(&self) -> bool {
        self.statistics || !self.statistics_string.is_empty()
    }

    /// Whether calls or uses of the block cache are to be traced.
    pub fn traces(&self) -> bool {
        let files = [&self.trace_file, &self.block_cache_trace_file];
        files.iter().any(|file| !file.as_os_str().is_empty())
    }
}

/// Parses `args` (without the program's name). Warnings go to `warn`.
///
/// # Errors
/// `--help`, or every flag that is unknown, not supported, without a value or with a wrong one.
pub fn parse(args: &[OsString], warn: &mut dyn FnMut(String)) -> Result<Flags, Stop> {
    let mut parser = Parser {
        flags: Flags::default(),
        rows: Flags::rows(),
        errors: Vec::new(),
        unknown: Vec::new(),
        idle: Vec::new(),
    };
    parser.words(args, warn)?;
    let allowed: Vec<String> = parser.flags.undefok.split(',').map(str::to_string).collect();
    let mut errors = parser.errors;
    for (name, error) in parser.unknown {
        let plain = name.strip_prefix("no").unwrap_or(&name);
        if allowed.contains(&name) || allowed.iter().any(|allowed| allowed == plain) {
            continue;
        }
        match error {
            _ if rocksdb_flags::IGNORED.contains(&name.as_str()) => {
                warn(format!("WARNING: flag --{name} has no effect any more and is ignored"));
            }
            Some(error) => errors.push(error),
            None => {
                errors.push(format!("ERROR: unknown command line flag '{name}'"));
                let options = option_flags::all();
                let known = options.iter().map(|(name, _)| &**name);
                let rows = parser.rows.iter().map(|row| row.name);
                errors.extend(
                    nearest(&name, rows.chain(known)).map(|near| format!("Did you mean --{near}?")),
                );
            }
        }
    }
    let engine = match parser.flags.engine.as_str() {
        "pumice" => Some("Pumice"),
        other => other_engines::is_one(other).then_some(other),
    };
    if let Some(engine) = engine.filter(|_| !parser.idle.is_empty()) {
        let names = parser.idle.join(", ");
        warn(format!("WARNING: without effect on {engine}: {names}"));
    }
    if errors.is_empty() { Ok(parser.flags) } else { Err(Stop::Errors(errors)) }
}

struct Parser {
    flags: Flags,
    rows: Vec<Row>,
    errors: Vec<String>,
    /// Flags without a row, with what is wrong if they are of RocksDB's.
    unknown: Vec<(String, Option<String>)>,
    /// Flags that were given another value than the default and change nothing.
    idle: Vec<String>,
}

impl Parser {
    fn words(&mut self, args: &[OsString], warn: &mut dyn FnMut(String)) -> Result<(), Stop> {
        let mut rest = args.iter();
        while let Some(arg) = rest.next() {
            let Some(word) = arg.as_bytes().strip_prefix(b"-") else {
                warn(format!("WARNING: '{}' is not a flag and is ignored", arg.display()));
                continue;
            };
            let word = word.strip_prefix(b"-").unwrap_or(word);
            if word.is_empty() {
                break;
            }
            let end = word.iter().position(|byte| *byte == b'=').unwrap_or(word.len());
            let name = String::from_utf8_lossy(&word[..end]).replace('-', "_");
            let value = word.get(end + 1..).map(OsStr::from_bytes);
            match name.as_str() {
                "help" | "helpfull" | "helpshort" | "helpon" | "helpmatch" | "helppackage"
                | "helpxml" => return Err(Stop::Help),
                "version" => return Err(Stop::Version),
                "flagfile" => {
                    self.flag_file(value.or(rest.next().map(OsString::as_os_str)), warn)?
                }
                "fromenv" | "tryfromenv" => {
                    let names = value.or(rest.next().map(OsString::as_os_str)).unwrap_or_default();
                    self.environment(&names.to_string_lossy(), name == "fromenv", warn)?;
                }
                _ if self.take(&name, value, &mut rest) => {}
                _ if rocksdb_flags::find(&name).is_none()
                    && self.take_option(&name, value, &mut rest) => {}
                _ => {
                    let error = self.take_known(&name, value, &mut rest);
                    self.unknown.extend(error.map(|error| (name, error)));
                }
            }
        }
        Ok(())
    }

    /// Takes the flags in a file, one a line; lines that do not begin with a dash are ignored.
    fn flag_file(
        &mut self,
        path: Option<&OsStr>,
        warn: &mut dyn FnMut(String),
    ) -> Result<(), Stop> {
        let file = Path::new(path.unwrap_or_default());
        let path = file.display();
        match pumice_port::os::read_file(file) {
            Ok(bytes) => {
                let lines = bytes.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
                let lines = lines.filter(|line| line.starts_with(b"-"));
                let lines: Vec<OsString> =
                    lines.map(|line| OsStr::from_bytes(line).to_owned()).collect();
                let names_another = |line: &OsString| {
                    line.to_string_lossy().trim_start_matches('-').starts_with("flagfile")
                };
                if lines.iter().any(names_another) {
                    self.errors.push(format!("ERROR: {path}: a flag file cannot name another"));
                    return Ok(());
                }
                self.words(&lines, warn)
            }
            Err(error) => {
                self.errors.push(format!("ERROR: cannot read flag file '{path}': {error}"));
                Ok(())
            }
        }
    }

    /// Takes flags, whose names are in a list, from the variables `FLAGS_NAME`, as gflags does.
    fn environment(
        &mut self,
        names: &str,
        must: bool,
        warn: &mut dyn FnMut(String),
    ) -> Result<(), Stop> {
        for name in names.split(',').filter(|name| !name.is_empty()) {
            let variable = format!("FLAGS_{name}");
            match std::env::var(&variable) {
                // Such a flag would read itself without end; a file of flags may name one of these.
                Ok(_) if ["fromenv", "tryfromenv", "flagfile"].contains(&name) => {
                    self.errors
                        .push(format!("ERROR: infinite recursion on environment flag '{name}'"));
                }
                Ok(value) => self.words(&[OsString::from(format!("--{name}={value}"))], warn)?,
                Err(_) if must => {
                    self.errors.push(format!("ERROR: {variable} not found in environment"));
                }
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// Takes one flag and, if it needs one, its value from `rest`. False: the table has no such
    /// flag.
    fn take(
        &mut self,
        name: &str,
        value: Option<&OsStr>,
        rest: &mut std::slice::Iter<'_, OsString>,
    ) -> bool {
        if let Some(row) = self.rows.iter().find(|row| row.name == name) {
            let (kind, doc) = (row.kind, row.doc);
            let Some(text) = self.text(name, value, kind == bool::TYPE, doc, rest) else {
                return true;
            };
            if !self.flags.assign(name, &text) {
                self.illegal(name, &text, kind);
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

    /// The value of a flag. None: it lacks one, which has been reported.
    fn text(
        &mut self,
        name: &str,
        value: Option<&OsStr>,
        is_switch: bool,
        doc: &str,
        rest: &mut std::slice::Iter<'_, OsString>,
    ) -> Option<OsString> {
        let text = match value {
            Some(value) => Some(value.to_owned()),
            None if is_switch => Some("true".into()),
            None => rest.next().cloned(),
        };
        if text.is_none() {
            self.errors.push(format!(
                "ERROR: flag '--{name}' is missing its argument; flag description: {doc}"
            ));
        }
        text
    }

    fn illegal(&mut self, name: &str, text: &OsStr, kind: &str) {
        let text = text.display();
        let error = format!("ERROR: illegal value '{text}' specified for {kind} flag '{name}'");
        self.errors.push(error);
    }

    /// Takes a flag that is an option of the engine. False: there is no such option.
    fn take_option(
        &mut self,
        name: &str,
        value: Option<&OsStr>,
        rest: &mut std::slice::Iter<'_, OsString>,
    ) -> bool {
        let negated = || {
            let plain = name.strip_prefix("no").filter(|_| value.is_none())?;
            option_flags::find(plain).filter(|flag| flag.is_switch)
        };
        let (flag, text) = match option_flags::find(name) {
            Some(flag) => match self.text(name, value, flag.is_switch, flag.doc, rest) {
                Some(text) => (flag, text),
                None => return true,
            },
            None => match negated() {
                Some(flag) => (flag, "false".into()),
                None => return false,
            },
        };
        let read = match flag.is_switch {
            true => bool::of_word(&text).map(|value| value.to_string()),
            false => String::of_word(&text),
        };
        let Some(text) = read else {
            let kind = if flag.is_switch { bool::TYPE } else { flag.kind };
            self.illegal(name, &text, kind);
            return true;
        };
        if flag.is_hint && text != flag.default {
            self.idle.push(name.to_string());
        }
        let (option, is_table) = (flag.option, flag.is_table);
        self.flags.options.retain(|given| given.option != option);
        let value = option_flags::engine_word(option, text);
        self.flags.options.push(GivenOption { option, is_table, value });
        true
    }

    /// Takes a flag that RocksDB's db_bench has and Pumice has no use for. None: it was one, and
    /// any error has been reported. Otherwise the error, or `Some(None)` if the flag is unknown.
    fn take_known(
        &mut self,
        name: &str,
        value: Option<&OsStr>,
        rest: &mut std::slice::Iter<'_, OsString>,
    ) -> Option<Option<String>> {
        let negated = || {
            let plain = name.strip_prefix("no").filter(|_| value.is_none())?;
            rocksdb_flags::find(plain).filter(Known::is_switch)
        };
        let (flag, text) = match rocksdb_flags::find(name) {
            Some(flag) => (flag, self.text(name, value, flag.is_switch(), "", rest)?),
            None => match negated() {
                Some(flag) => (flag, "false".into()),
                None => return Some(None),
            },
        };
        let text = text.to_string_lossy();
        if flag.is_default(&text) {
            return None;
        }
        if flag.feature.is_empty() {
            self.idle.push(flag.name.to_string());
            return None;
        }
        Some(Some(format!(
            "ERROR: flag --{} of RocksDB's db_bench is not supported yet: it needs {}",
            flag.name, flag.feature
        )))
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
    out.push_str(&format!("\n  Benchmarks: {}\n", super::spec::names()));
    out.push_str(
        "\n  Flags that are options of the engine (docs/options.md has their meanings):\n",
    );
    let rows = Flags::rows();
    for (name, flag) in option_flags::all() {
        if !rows.iter().any(|row| row.name == name) {
            let none = if flag.is_hint { ", without effect" } else { "" };
            out.push_str(&format!(
                "    -{name} type: {} default: {}{none}\n",
                flag.kind, flag.default
            ));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn run(words: &[&str]) -> Result<Flags, Stop> {
        let args: Vec<OsString> = words.iter().map(OsString::from).collect();
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
            errors(&["--enable_blob_direct_write"]),
            ["ERROR: flag --enable_blob_direct_write of RocksDB's db_bench is not supported yet: \
                 it needs blob files"]
        );
        assert_eq!(errors(&["--nonum"]), ["ERROR: unknown command line flag 'nonum'"]);
        assert!(run(&["--undefok=foo,bar", "--foo=1", "--nobar"]).is_ok());
        assert!(run(&["--hard_rate_limit=2"]).is_ok());
        assert_eq!(run(&["--help"]).err(), Some(Stop::Help));
    }

    #[pumice_test_macros::test]
    fn options_and_what_has_no_effect_are_taken() {
        let flags =
            run(&["--arena_block_size=7", "--noparanoid_checks", "--arena_block_size", "8"]);
        let given =
            |option, value: &str| GivenOption { option, is_table: false, value: value.to_string() };
        let expected = [given("paranoid_checks", "false"), given("arena_block_size", "8")];
        assert_eq!(flags.unwrap().options, expected);
        let mut warnings = Vec::new();
        let words = [
            "--compressed_cache_size=1",
            "--hash_bucket_count=5",
            "--use_adaptive_mutex=1",
            "--nouse_trie_index",
        ];
        let words = words.map(OsString::from);
        parse(&words, &mut |warning| warnings.push(warning)).unwrap();
        let names = "use_adaptive_mutex";
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(
            warnings[0].contains("compressed_cache_size, hash_bucket_count")
                && warnings[0].contains(names),
            "{warnings:?}"
        );
        assert!(
            run(&["--use_blob_db=0", "--simcache_size=-1", "--compression_manager=none"]).is_ok()
        );
        assert_eq!(run(&["--version"]).err(), Some(Stop::Version));
    }

    #[pumice_test_macros::test]
    fn every_name_is_in_one_table() {
        let options = option_flags::all();
        for row in Flags::rows() {
            assert!(rocksdb_flags::find(row.name).is_none(), "{}", row.name);
            assert!(help().contains(&format!("    -{} (", row.name)), "{}", row.name);
        }
        let known = rocksdb_flags::REFUSED.iter().map(|(name, ..)| *name);
        let known: Vec<&str> =
            known.chain(rocksdb_flags::IDLE.iter().map(|(name, _)| *name)).collect();
        let both = known.iter().filter(|name| options.iter().any(|(flag, _)| flag == *name));
        assert_eq!(both.count(), 0);
        for (at, name) in known.iter().enumerate() {
            assert!(!known[at + 1..].contains(name), "{name}");
        }
    }
}
