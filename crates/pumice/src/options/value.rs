//! The text form of option values: how each type is parsed, printed and described.
//!
//! One trait, [`OptionValue`], implemented here for the plain types. Text forms are RocksDB's:
//! integers take a `K`, `M`, `G` or `T` suffix (powers of 1024), booleans are `true`/`false` or
//! `1`/`0`, lists join with `:`, nested structures are `{name=value;name=value;}`.
//! Differs from RocksDB on purpose: text after a number (`64QX`) and negative unsigned numbers
//! are errors instead of being cut off or wrapped.
//!
//! Thread safety: pure functions.

use std::fmt::Display;

use super::text::parse_map;

/// Why a value was refused; the caller adds the option's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The text is not a value of the option's type.
    Parse(String),
    /// A value of the right type that the option cannot take.
    Bounds(String),
    /// A value that RocksDB accepts and this build does not.
    Unsupported(String),
    /// A nested name that no option has.
    UnknownName(String),
}

impl Refusal {
    /// A parse failure saying what was expected instead of `text`.
    pub fn expected(what: &str, text: &str) -> Self {
        Refusal::Parse(format!("expected {what}, found \"{text}\""))
    }
}

/// The members of a nested structure, `{name=value;...}`, in order.
pub(super) fn members(text: &str) -> Result<Vec<(String, String)>, Refusal> {
    parse_map(text).map_err(|e| Refusal::Parse(e.message().to_string()))
}

/// Of the versions that OPTIONS files name: has members that RocksDB 7.8 does not know.
pub(super) const SINCE_10_10: usize = 1;
/// Has members that RocksDB 10.10 does not know.
pub(super) const SINCE_11_8: usize = 2;

/// A type that options can have.
pub trait OptionValue: Sized {
    /// Short name of the type for the documentation.
    const TYPE: &'static str;

    /// The value written as `text`.
    fn parse(text: &str) -> Result<Self, Refusal>;

    /// The text form; `parse(format())` gives the same value.
    fn format(&self) -> String;

    /// The value is the same as `other`.
    fn same(&self, other: &Self) -> bool {
        self.format() == other.format()
    }

    /// The text form for an OPTIONS file: the members that RocksDB 7.8 understands, and others that
    /// are not the default.
    fn format_saved(&self) -> String {
        self.format()
    }

    /// The first version that knows all members of `format_saved`: 0, [`SINCE_10_10`] or
    /// [`SINCE_11_8`].
    fn members_since(&self) -> usize {
        0
    }

    /// Overwrites the value; structures change only the members that `text` names.
    fn update(&mut self, text: &str) -> Result<(), Refusal> {
        *self = Self::parse(text)?;
        Ok(())
    }
}

impl OptionValue for bool {
    const TYPE: &'static str = "bool";
    fn parse(text: &str) -> Result<Self, Refusal> {
        match text {
            "true" | "1" => Ok(true),
            "false" | "0" => Ok(false),
            _ => Err(Refusal::expected("true or false", text)),
        }
    }
    fn format(&self) -> String {
        self.to_string()
    }
}

/// Splits `64MB` into `64` and the factor; the suffix may be followed by `B` or `iB`.
fn split_suffix(text: &str) -> Option<(&str, u32)> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, suffix) = text.split_at(digits);
    if number.is_empty() {
        return None;
    }
    let mut rest = suffix.chars();
    let shift = match rest.next().map(|c| c.to_ascii_lowercase()) {
        None => return Some((number, 0)),
        Some('b') if suffix.len() == 1 => return Some((number, 0)),
        Some('k') => 10,
        Some('m') => 20,
        Some('g') => 30,
        Some('t') => 40,
        Some(_) => return None,
    };
    matches!(rest.as_str(), "" | "B" | "b" | "iB").then_some((number, shift))
}

fn parse_magnitude(text: &str) -> Option<u64> {
    let (number, shift) = split_suffix(text)?;
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

macro_rules! integer_value {
    ($($ty:ty, $what:literal);+ $(;)?) => {$(
        impl OptionValue for $ty {
            const TYPE: &'static str = stringify!($ty);
            fn parse(text: &str) -> Result<Self, Refusal> {
                let text = text.trim();
                let (negative, digits) = match text.strip_prefix('-') {
                    Some(rest) => (true, rest),
                    None => (false, text),
                };
                let magnitude = parse_magnitude(digits).map(i128::from);
                magnitude
                    .and_then(|m| <$ty>::try_from(if negative { -m } else { m }).ok())
                    .ok_or_else(|| Refusal::expected($what, text))
            }
            fn format(&self) -> String {
                self.to_string()
            }
        }
    )+};
}

integer_value! {
    i32, "a 32-bit number";
    u32, "an unsigned 32-bit number";
    i64, "a 64-bit number";
    u64, "an unsigned 64-bit number";
    usize, "an unsigned 64-bit number";
}

impl OptionValue for f64 {
    const TYPE: &'static str = "double";
    fn parse(text: &str) -> Result<Self, Refusal> {
        match text.trim().parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(value),
            _ => Err(Refusal::expected("a number", text)),
        }
    }
    fn format(&self) -> String {
        format!("{self:.6}")
    }
    fn same(&self, other: &Self) -> bool {
        self == other
    }
}

impl OptionValue for String {
    const TYPE: &'static str = "string";
    fn parse(text: &str) -> Result<Self, Refusal> {
        Ok(super::text::unescape(text))
    }
    fn format(&self) -> String {
        super::text::escape(self)
    }
}

/// Lists: members joined by `:`, empty text for no member.
impl<T: OptionValue> OptionValue for Vec<T> {
    const TYPE: &'static str = "list";
    fn parse(text: &str) -> Result<Self, Refusal> {
        let text = super::text::strip_braces(text.trim());
        if text.is_empty() {
            return Ok(Vec::new());
        }
        text.split(':').map(T::parse).collect()
    }
    fn format(&self) -> String {
        self.iter().map(T::format).collect::<Vec<_>>().join(":")
    }
}

/// A check that the value is at least `min`.
pub fn at_least<T: PartialOrd + Display>(min: T) -> impl Fn(&T) -> Result<(), Refusal> {
    move |value| {
        if *value >= min {
            return Ok(());
        }
        Err(Refusal::Bounds(format!("{value} is out of range, must be at least {min}")))
    }
}

/// A check that the value lies in `[min, max]`.
pub fn between<T: PartialOrd + Display>(min: T, max: T) -> impl Fn(&T) -> Result<(), Refusal> {
    move |value| {
        if *value >= min && *value <= max {
            return Ok(());
        }
        Err(Refusal::Bounds(format!("{value} is out of range, must be in [{min}, {max}]")))
    }
}

/// Declares an enum whose members have RocksDB's names in option text.
macro_rules! option_enum {
    (
        $(#[$meta:meta])*
        pub enum $name:ident { $($(#[$vmeta:meta])* $variant:ident = $text:literal),+ $(,)? }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$vmeta])* $variant),+ }

        $crate::options::value::option_enum! { @text $name { $($variant = $text),+ } }
    };
    // The text form of an enumeration that is defined elsewhere.
    (@text $name:ident { $($variant:ident = $text:literal),+ $(,)? }) => {
        impl $name {
            /// RocksDB's name of the member in option text.
            pub fn option_name(self) -> &'static str {
                match self { $($name::$variant => $text),+ }
            }
            /// The member with that name.
            pub fn from_option_name(name: &str) -> Option<Self> {
                match name { $($text => Some($name::$variant),)+ _ => None }
            }
        }

        impl $crate::options::value::OptionValue for $name {
            const TYPE: &'static str = stringify!($name);
            fn parse(text: &str) -> Result<Self, $crate::options::value::Refusal> {
                Self::from_option_name(text.trim()).ok_or_else(|| {
                    let names = [$($text),+].join(", ");
                    $crate::options::value::Refusal::expected(&format!("one of {names}"), text)
                })
            }
            fn format(&self) -> String {
                self.option_name().to_string()
            }
        }
    };
}
pub(crate) use option_enum;

/// Text that is kept as it was given, for names of objects and nested structures that this build
/// does not interpret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verbatim(String);

impl OptionValue for Verbatim {
    const TYPE: &'static str = "text";
    fn parse(text: &str) -> Result<Self, Refusal> {
        Ok(Verbatim(text.to_string()))
    }
    fn format(&self) -> String {
        self.0.clone()
    }
}
