//! The types that flags have: gflags' names of them, and which texts are their values.
//!
//! Thread safety: pure.

use std::ffi::OsStr;
use std::path::PathBuf;

use crate::arguments::boolean;

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
    /// The value of what the command line has, if it is one.
    fn of_word(word: &OsStr) -> Option<Self> {
        Self::parse(word.to_str()?)
    }
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
        boolean(text)
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

impl FlagValue for PathBuf {
    const TYPE: &'static str = "string";
    type Literal = &'static str;
    fn from_literal(literal: &'static str) -> PathBuf {
        literal.into()
    }
    fn parse(text: &str) -> Option<PathBuf> {
        Some(text.into())
    }
    fn of_word(word: &OsStr) -> Option<PathBuf> {
        Some(word.into())
    }
    fn show(&self) -> String {
        format!("{self:?}")
    }
}
