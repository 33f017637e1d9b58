//! Stored values become the user's here, for flushes and compactions: what filters see and what
//! merges start from.
//!
//! The only file of `table_output` that knows the forms in which a value is stored. A form that is
//! added, such as a value that lies in a blob file, is added here and, for readers, in
//! `read/value.rs`. Forms: docs/format/values.md.
//!
//! Thread safety: immutable.

use std::sync::Arc;

use pumice_base::{Result, ValueType, WideColumn, wide_columns};
use pumice_manifest::Version;

use crate::read::value::{is_entity, plain};

/// What becomes of the newest version of a stripe, by its type. Single deletions are decided
/// before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InputKind {
    /// A value, which filters see.
    Value,
    /// A value that is written as it stands.
    Untouched,
    /// An operand of a merge.
    Operand,
    Deletion,
    /// No table has such entries.
    Unknown,
}

impl InputKind {
    /// The kind of entries with that type byte.
    #[inline]
    pub fn of_tag(tag: u8) -> Self {
        match ValueType::from_u8(tag) {
            Some(ValueType::Value | ValueType::WideColumnEntity) => InputKind::Value,
            Some(ValueType::BlobIndex | ValueType::ValuePreferredSeqno) => InputKind::Untouched,
            Some(ValueType::Merge) => InputKind::Operand,
            Some(ValueType::Deletion) => InputKind::Deletion,
            _ => InputKind::Unknown,
        }
    }
}

/// A value as a filter sees it.
pub(crate) enum Shown<'v> {
    Plain(&'v [u8]),
    Entity(Vec<WideColumn<'v>>),
}

/// The values of the input, and where those lie that are not in it.
pub(crate) struct InputValues {
    version: Option<Arc<Version>>,
}

impl InputValues {
    /// Values of entries of `version`; without one, of memtables alone.
    pub fn of(version: Option<Arc<Version>>) -> Self {
        InputValues { version }
    }

    /// The version that the input belongs to, if it is known.
    #[inline]
    pub fn version(&self) -> Option<&Version> {
        self.version.as_deref()
    }

    /// A merge can start from a value of type `tag`.
    pub fn can_be_merged(&self, tag: u8) -> bool {
        tag != ValueType::BlobIndex as u8
    }

    /// The user's value that a merge starts from.
    ///
    /// # Errors
    /// NotSupported for blob references; Corruption for unknown types and malformed entities.
    pub fn plain<'v>(&self, tag: u8, stored: &'v [u8]) -> Result<&'v [u8]> {
        plain(tag, stored)
    }

    /// What a filter is to see of a value of [`InputKind::Value`].
    ///
    /// # Errors
    /// Corruption for a malformed entity.
    pub fn shown<'v>(&self, tag: u8, stored: &'v [u8]) -> Result<Shown<'v>> {
        match is_entity(tag) {
            true => Ok(Shown::Entity(wide_columns::decode(stored)?)),
            false => Ok(Shown::Plain(stored)),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[pumice_test_macros::test]
    fn filters_see_values_and_entities() {
        let values = InputValues::of(None);
        assert!(values.version().is_none());
        assert!(matches!(values.shown(0x01, b"v").unwrap(), Shown::Plain(b"v")));
        let entity = b"\x01\x01\x01n\x01v";
        let Shown::Entity(columns) = values.shown(0x16, entity).unwrap() else {
            panic!("an entity is shown by its columns")
        };
        assert_eq!((columns.len(), columns[0].name, columns[0].value), (1, &b"n"[..], &b"v"[..]));
        assert!(values.shown(0x16, &entity[..3]).is_err());
    }

    /// What a merge may start from can be converted; a blob index waits for a reader.
    #[pumice_test_macros::test]
    fn blob_indexes_are_left_alone() {
        let values = InputValues::of(None);
        assert!(values.can_be_merged(0x01) && !values.can_be_merged(0x11));
        assert_eq!(values.plain(0x01, b"v").unwrap(), b"v");
        assert!(values.plain(0x11, b"v").is_err());
        assert_eq!(InputKind::of_tag(0x11), InputKind::Untouched);
        assert_eq!(InputKind::of_tag(0x0f), InputKind::Unknown);
    }
}
