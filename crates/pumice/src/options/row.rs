//! One table row per option, and everything that is derived from the rows.
//!
//! `option_table!` turns a list of rows into the public settings struct and a static table of
//! [`OptionRow`]s. From the table come: setting and reading by name, run-time changes, the OPTIONS
//! text, and the documentation page. A row is one of:
//! - *field*: a setting that the engine obeys, a public field named as RocksDB's option;
//! - *hint*: a RocksDB option without meaning here that any program may set: the value is
//!   checked for its type, kept and printed, and changes nothing;
//! - *unsupported*: a RocksDB option whose other values would change behaviour in a way this
//!   build cannot offer: only the listed values are accepted.
//!
//! A table may also have *components*: fields that hold objects and have no text form.
//!
//! Thread safety: rows are immutable statics; the structs are plain data.
//!
//! Invariants:
//! 1. A failed `set` leaves the struct as it was.
//! 2. Names are unique in a table, and every field's default passes its own check (tested).

use std::collections::BTreeMap;

use pumice_base::{Error, Result};

use super::text;
use super::value::{Refusal, SINCE_10_10, SINCE_11_8, members};

/// Values of hint rows that differ from the default, by option name.
pub type Hints = BTreeMap<&'static str, String>;

/// What a row does with a value.
#[derive(Debug)]
pub enum RowKind<S: 'static> {
    /// A public field of the struct.
    Field {
        /// Overwrites the field from text.
        update: fn(&mut S, &str) -> std::result::Result<(), Refusal>,
        /// Refuses values out of bounds.
        check: fn(&S) -> std::result::Result<(), Refusal>,
        /// The text form.
        format: fn(&S) -> String,
        /// The text form for OPTIONS files.
        format_saved: fn(&S) -> String,
        /// The version whose members that text has, see [`OptionValue::members_since`].
        members_since: fn(&S) -> usize,
    },
    /// Kept and printed, without effect.
    Hint {
        /// RocksDB's default.
        default: &'static str,
        /// Brings text into its canonical form, or refuses it.
        normalize: fn(&str) -> std::result::Result<String, Refusal>,
    },
    /// Only these texts are accepted; the first is the default.
    Unsupported {
        /// Accepted texts.
        accepts: &'static [&'static str],
    },
}

/// When an option is written to OPTIONS files, which RocksDB refuses to read if they contain a name
/// that it does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Saved {
    /// Always: every RocksDB since 7.8 knows the name. A row without effect: if it is set.
    Always,
    /// If it is not the default: RocksDB added the name after 7.8. The file then has the version of
    /// the tables, so that older versions can be told to skip the name.
    Newer,
    /// As `Newer`, where RocksDB added the name after 10.10.
    Newest,
    /// Never: no RocksDB knows the name, or the value is an object.
    Never,
}

/// One option.
#[derive(Debug)]
pub struct OptionRow<S: 'static> {
    /// RocksDB's name.
    pub name: &'static str,
    /// Documentation, lines joined by newlines.
    pub doc: &'static str,
    /// Short name of the type.
    pub type_name: &'static str,
    /// May change while the database is open.
    pub mutable: bool,
    /// When it is written to OPTIONS files.
    pub saved: Saved,
    /// The test that shows the effect, `file::test`, or `none:` and why there is none; None for
    /// rows without effect. Tidy checks it.
    pub proof: Option<&'static str>,
    /// What the row does with a value.
    pub kind: RowKind<S>,
}

/// A struct made by `option_table!`.
///
/// ```
/// use pumice::DbOptions;
/// use pumice::options::OptionSet;
/// // All options that may change while the database is open.
/// let mutable: Vec<_> =
///     DbOptions::rows().iter().filter(|row| row.mutable).map(|row| row.name).collect();
/// assert!(mutable.contains(&"bytes_per_sync"));
/// ```
pub trait OptionSet: Default + Clone + 'static {
    /// The table, in documentation order.
    fn rows() -> &'static [OptionRow<Self>];
    /// Older or alternative names: (alias, name of a row).
    fn aliases() -> &'static [(&'static str, &'static str)];
    /// The values of hint rows.
    fn hints(&self) -> &Hints;
    /// The values of hint rows, to change.
    fn hints_mut(&mut self) -> &mut Hints;

    /// The row with that name or alias.
    fn row(name: &str) -> Option<&'static OptionRow<Self>> {
        let name = Self::aliases().iter().find(|(a, _)| *a == name).map_or(name, |(_, n)| n);
        Self::rows().iter().find(|row| row.name == name)
    }
}

/// The error for an option that is in no table, in RocksDB 10's words.
pub fn unknown_option(name: &str) -> Error {
    Error::invalid_argument(format!("Extra option not recognized: {name}"))
}

fn refused(name: &str, refusal: Refusal) -> Error {
    match refusal {
        Refusal::Parse(why) => Error::invalid_argument(format!("Error parsing {name}: {why}")),
        Refusal::Bounds(why) => Error::invalid_argument(format!("{name}: {why}")),
        Refusal::Unsupported(why) => Error::not_supported(format!("{name}: {why}")),
        Refusal::UnknownName(sub) => {
            Error::invalid_argument(format!("Unrecognized option: {name}.{sub}"))
        }
    }
}

impl<S: OptionSet> OptionRow<S> {
    /// Whether the option has a field that the engine obeys.
    pub fn is_supported(&self) -> bool {
        matches!(self.kind, RowKind::Field { .. })
    }

    /// Sets the option from text.
    pub(super) fn set(&self, options: &mut S, text: &str) -> Result<()> {
        match &self.kind {
            RowKind::Field { update, check, .. } => {
                let mut changed = options.clone();
                update(&mut changed, text).map_err(|r| refused(self.name, r))?;
                check(&changed).map_err(|r| refused(self.name, r))?;
                *options = changed;
            }
            RowKind::Hint { default, normalize } => {
                let value = normalize(text).map_err(|r| refused(self.name, r))?;
                if value == *default {
                    options.hints_mut().remove(self.name);
                } else {
                    options.hints_mut().insert(self.name, value);
                }
            }
            RowKind::Unsupported { accepts } => {
                if !accepts.contains(&text.trim()) {
                    return Err(self.not_supported(text, accepts[0]));
                }
            }
        }
        Ok(())
    }

    /// `text` without the members of a nested structure that the option does not have, and those,
    /// as `member=value`.
    pub(super) fn known_members(&self, options: &S, text: &str) -> (String, Vec<String>) {
        let (mut kept, mut unknown) = (text.to_string(), Vec::new());
        let RowKind::Field { update, .. } = &self.kind else { return (kept, unknown) };
        // Each round removes a member, so there are no more rounds than members.
        while let Err(Refusal::UnknownName(name)) = update(&mut options.clone(), &kept) {
            let Ok(mut pairs) = members(&kept) else { break };
            let Some(at) = pairs.iter().position(|(member, _)| *member == name) else { break };
            let (member, value) = pairs.remove(at);
            unknown.push(format!("{member}={value}"));
            kept = text::format_map(&pairs);
        }
        (kept, unknown)
    }

    fn not_supported(&self, text: &str, default: &str) -> Error {
        let only = if default.is_empty() { "the empty value" } else { default };
        Error::not_supported(format!(
            "{}={} is not supported by this build; only {only} is",
            self.name,
            text.trim()
        ))
    }

    /// The option's present value as text.
    pub fn get(&self, options: &S) -> String {
        match &self.kind {
            RowKind::Field { format, .. } => format(options),
            RowKind::Hint { default, .. } => {
                options.hints().get(self.name).map_or(*default, String::as_str).to_string()
            }
            RowKind::Unsupported { accepts } => accepts[0].to_string(),
        }
    }

    /// The value to write to an OPTIONS file; None when the row is not written.
    pub(super) fn saved_text(&self, options: &S, defaults: &S) -> Option<String> {
        match (self.saved, &self.kind) {
            (Saved::Never, _) | (_, RowKind::Unsupported { .. }) => None,
            (_, RowKind::Hint { .. }) => options.hints().get(self.name).cloned(),
            (Saved::Always, RowKind::Field { format_saved, .. }) => Some(format_saved(options)),
            (Saved::Newer | Saved::Newest, RowKind::Field { format_saved, .. }) => {
                let text = format_saved(options);
                (text != format_saved(defaults)).then_some(text)
            }
        }
    }

    /// The first version that knows the result of `saved_text`, see [`OptionValue::members_since`].
    pub(super) fn saved_since(&self, options: &S) -> usize {
        let members = match &self.kind {
            RowKind::Field { members_since, .. } => members_since(options),
            _ => 0,
        };
        members.max(match self.saved {
            Saved::Newer => SINCE_10_10,
            Saved::Newest => SINCE_11_8,
            Saved::Always | Saved::Never => 0,
        })
    }

    /// Whether the field passes its check; hints and unsupported rows always do.
    pub(super) fn check(&self, options: &S) -> Result<()> {
        match &self.kind {
            RowKind::Field { check, .. } => check(options).map_err(|r| refused(self.name, r)),
            _ => Ok(()),
        }
    }
}

/// Splits `compression_opts.level` into the option and the member to change.
fn split_member<'a>(name: &'a str, value: &str) -> (&'a str, Option<String>) {
    match name.split_once('.') {
        Some((option, member)) => (option, Some(format!("{{{member}={value};}}"))),
        None => (name, None),
    }
}

/// Sets the option `name`; `name` may be `option.member`.
///
/// # Errors
/// InvalidArgument for an unknown name, text that does not parse, or a value out of bounds;
/// NotSupported for a value that this build cannot offer. All name the option.
pub fn set_by_name<S: OptionSet>(options: &mut S, name: &str, value: &str) -> Result<()> {
    let (option, nested) = split_member(name, value);
    let row = S::row(option).ok_or_else(|| unknown_option(name))?;
    row.set(options, nested.as_deref().unwrap_or(value))
}

/// The text of option `name`.
///
/// # Errors
/// InvalidArgument for an unknown name.
pub fn get_by_name<S: OptionSet>(options: &S, name: &str) -> Result<String> {
    S::row(name).map(|row| row.get(options)).ok_or_else(|| unknown_option(name))
}

/// A copy with run-time changes applied, all or none.
///
/// # Errors
/// As [`set_by_name`]; InvalidArgument "Option not changeable: NAME" for a fixed option.
pub fn with_changes<S: OptionSet, K: AsRef<str>, V: AsRef<str>>(
    options: &S,
    changes: &[(K, V)],
) -> Result<S> {
    let mut changed = options.clone();
    for (name, value) in changes {
        let name = name.as_ref();
        let (option, _) = split_member(name, "");
        let row = S::row(option).ok_or_else(|| unknown_option(name))?;
        if !row.mutable {
            return Err(Error::invalid_argument(format!("Option not changeable: {name}")));
        }
        set_by_name(&mut changed, name, value.as_ref())?;
    }
    Ok(changed)
}

/// Applies `name=value;name=value;`, all or none.
///
/// # Errors
/// As [`set_by_name`], and InvalidArgument for text that is no such list.
pub fn set_from_text<S: OptionSet>(options: &mut S, map: &str) -> Result<()> {
    let mut changed = options.clone();
    for (name, value) in text::parse_map(map)? {
        set_by_name(&mut changed, &name, &value)?;
    }
    *options = changed;
    Ok(())
}

/// Checks every field of a struct that was filled by assignment.
///
/// # Errors
/// The first refused field, named.
pub(crate) fn check_all<S: OptionSet>(options: &S) -> Result<()> {
    S::rows().iter().try_for_each(|row| row.check(options))
}

/// `update` of a nested option struct: `{member=value;...}`.
pub(super) fn update_nested<S: OptionSet>(
    options: &mut S,
    map: &str,
) -> std::result::Result<(), Refusal> {
    let pairs = members(map)?;
    for (name, value) in pairs {
        let row = S::row(&name).ok_or(Refusal::UnknownName(name))?;
        row.set(options, &value).map_err(|e| match e.kind() {
            pumice_base::ErrorKind::NotSupported => Refusal::Unsupported(e.message().to_string()),
            _ => Refusal::Parse(e.message().to_string()),
        })?;
    }
    Ok(())
}

/// Declares an option struct and its table; see the module head for the kinds of rows.
macro_rules! option_table {
    (
        $(#[$meta:meta])*
        pub struct $name:ident;
        fields {
            $( $(#[doc = $doc:literal])+
               $field:ident : $ty:ty = $default:expr, $change:ident, $saved:ident
               $(, $check:expr)? => $proof:literal ; )+
        }
        components {
            $( $(#[doc = $cdoc:literal])+ $cfield:ident : $cty:ty = $cdefault:expr ; )*
        }
        hints {
            $( $(#[doc = $hdoc:literal])+
               $hname:literal : $hty:ty = $hdefault:literal, $hchange:ident, $hsaved:ident ; )*
        }
        unsupported {
            $( $(#[doc = $udoc:literal])+ $uname:literal accepts [$($accept:literal),+] ; )*
        }
        aliases { $( $alias:literal => $target:literal ; )* }
    ) => {
        $(#[$meta])*
        #[derive(Clone)]
        pub struct $name {
            $( $(#[doc = $doc])+ pub $field: $ty, )+
            $( $(#[doc = $cdoc])+ pub $cfield: $cty, )*
            /// Values of options that have no effect here, kept for printing.
            pub hints: $crate::options::row::Hints,
        }

        impl Default for $name {
            fn default() -> Self {
                $name {
                    $( $field: $default, )+
                    $( $cfield: $cdefault, )*
                    hints: $crate::options::row::Hints::new(),
                }
            }
        }

        /// Settings by value; objects are the same if they are one object, or have one name where
        /// their text form is a name.
        impl PartialEq for $name {
            fn eq(&self, other: &Self) -> bool {
                use $crate::options::value::OptionValue;
                $( OptionValue::same(&self.$field, &other.$field) && )+
                $( $crate::options::objects::OptionObject::same(&self.$cfield, &other.$cfield) && )*
                self.hints == other.hints
            }
        }

        /// All settings as text, objects by name or address.
        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                use $crate::options::value::OptionValue;
                f.debug_struct(stringify!($name))
                    $( .field(
                        stringify!($field),
                        &format_args!("{}", OptionValue::format(&self.$field)),
                    ) )+
                    $( .field(
                        stringify!($cfield),
                        &format_args!(
                            "{}",
                            $crate::options::objects::OptionObject::describe(&self.$cfield)
                        ),
                    ) )*
                    .field("hints", &self.hints)
                    .finish()
            }
        }

        impl $name {
            /// Default settings with these objects.
            #[allow(dead_code)] // Not every table has objects.
            pub(super) fn only_components(&self) -> Self {
                $name {
                    $( $cfield: self.$cfield.clone(), )*
                    ..Self::default()
                }
            }
        }

        impl $crate::options::row::OptionSet for $name {
            fn rows() -> &'static [$crate::options::row::OptionRow<Self>] {
                use $crate::options::row::{OptionRow, RowKind};
                use $crate::options::value::OptionValue;
                static ROWS: &[OptionRow<$name>] = &[
                    $( OptionRow {
                        name: stringify!($field),
                        doc: concat!($($doc, "\n"),+),
                        type_name: <$ty as OptionValue>::TYPE,
                        mutable: $crate::options::row::row_flag!($change),
                        saved: $crate::options::row::row_saved!($saved),
                        proof: Some($proof),
                        kind: RowKind::Field {
                            update: |o: &mut $name, text| OptionValue::update(&mut o.$field, text),
                            check: |_o: &$name| { $( ($check)(&_o.$field)?; )? Ok(()) },
                            format: |o: &$name| o.$field.format(),
                            format_saved: |o: &$name| o.$field.format_saved(),
                            members_since: |o: &$name| o.$field.members_since(),
                        },
                    }, )+
                    $( OptionRow {
                        name: $hname,
                        doc: concat!($($hdoc, "\n"),+),
                        type_name: <$hty as OptionValue>::TYPE,
                        mutable: $crate::options::row::row_flag!($hchange),
                        saved: $crate::options::row::row_saved!($hsaved),
                        proof: None,
                        kind: RowKind::Hint {
                            default: $hdefault,
                            normalize: |text| Ok(<$hty as OptionValue>::parse(text)?.format()),
                        },
                    }, )*
                    $( OptionRow {
                        name: $uname,
                        doc: concat!($($udoc, "\n"),+),
                        type_name: "text",
                        mutable: true,
                        saved: $crate::options::row::Saved::Never,
                        proof: None,
                        kind: RowKind::Unsupported { accepts: &[$($accept),+] },
                    }, )*
                ];
                ROWS
            }
            fn aliases() -> &'static [(&'static str, &'static str)] {
                &[$( ($alias, $target) ),*]
            }
            fn hints(&self) -> &$crate::options::row::Hints {
                &self.hints
            }
            fn hints_mut(&mut self) -> &mut $crate::options::row::Hints {
                &mut self.hints
            }
        }

        impl $name {
            /// Sets the option with RocksDB's name `name` from text, for instance
            /// `set("write_buffer_size", "64MB")`.
            ///
            /// # Errors
            /// InvalidArgument or NotSupported, naming the option.
            pub fn set(&mut self, name: &str, value: &str) -> pumice_base::Result<()> {
                $crate::options::row::set_by_name(self, name, value)
            }
            /// The present value of option `name` as text.
            ///
            /// # Errors
            /// InvalidArgument for an unknown name.
            pub fn get(&self, name: &str) -> pumice_base::Result<String> {
                $crate::options::row::get_by_name(self, name)
            }
            /// A copy with run-time changes applied, all or none.
            ///
            /// # Errors
            /// InvalidArgument "Option not changeable: NAME" for an option that is fixed while
            /// the database is open, else as [`Self::set`].
            pub fn with_changes<K: AsRef<str>, V: AsRef<str>>(
                &self,
                changes: &[(K, V)],
            ) -> pumice_base::Result<Self> {
                $crate::options::row::with_changes(self, changes)
            }
            /// Applies `name=value;name={nested=value;};`, all or none.
            ///
            /// # Errors
            /// As [`Self::set`].
            pub fn set_from_text(&mut self, text: &str) -> pumice_base::Result<()> {
                $crate::options::row::set_from_text(self, text)
            }
        }
    };
}
pub(crate) use option_table;

/// The word of a row's change column.
macro_rules! row_flag {
    (mutable) => {
        true
    };
    (fixed) => {
        false
    };
}
pub(crate) use row_flag;

/// The word of a row's saved column.
macro_rules! row_saved {
    (saved) => {
        $crate::options::row::Saved::Always
    };
    (newer) => {
        $crate::options::row::Saved::Newer
    };
    (newest) => {
        $crate::options::row::Saved::Newest
    };
    (unsaved) => {
        $crate::options::row::Saved::Never
    };
}
pub(crate) use row_saved;
