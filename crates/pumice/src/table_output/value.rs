//! Stored values become the user's here, for flushes and compactions: what filters see and what
//! merges start from.
//!
//! The only file of `table_output` that knows the forms in which a value is stored. A form that is
//! added is added here and, for readers, in `read/value.rs`. Forms: docs/format/values.md.
//!
//! Thread safety: immutable. Reads blob files and so suspends.

use std::sync::Arc;

use pumice_base::{Error, Result, UserKey, ValueType, WideColumn, wide_columns};
use pumice_manifest::Version;
use pumice_table::TableReadOptions;
use pumice_table::blob::index::BlobIndex;

use crate::blob::references::{is_embedded, may_refer};
use crate::read::elsewhere::{BlobReads, BlobSource, Fetched};
use crate::read::value::is_entity;
use crate::version::family::CfData;

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
    /// A deletion at a timestamp.
    TimedDeletion,
    /// No table has such entries.
    Unknown,
}

impl InputKind {
    /// The kind of entries with that type byte.
    #[inline]
    pub fn of_tag(tag: u8) -> Self {
        match ValueType::from_u8(tag) {
            Some(ValueType::Value | ValueType::WideColumnEntity | ValueType::BlobIndex) => {
                InputKind::Value
            }
            Some(ValueType::ValuePreferredSeqno) => InputKind::Untouched,
            Some(ValueType::Merge) => InputKind::Operand,
            Some(ValueType::Deletion) => InputKind::Deletion,
            Some(ValueType::DeletionWithTimestamp) => InputKind::TimedDeletion,
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
    cf: Option<Arc<CfData>>,
    reads: BlobReads,
}

impl InputValues {
    /// Values of entries of `version` of `cf`; without a version, of memtables alone.
    pub fn of(
        version: Option<Arc<Version>>,
        cf: Option<Arc<CfData>>,
        options: &TableReadOptions,
    ) -> Self {
        InputValues { version, cf, reads: BlobReads::of(options) }
    }

    /// The version that the input belongs to, if it is known.
    #[inline]
    pub fn version(&self) -> Option<&Version> {
        self.version.as_deref()
    }

    /// A value of `key` that is not, or not all, in the input; None for all others.
    ///
    /// # Errors
    /// Corruption and I/O errors of blob files.
    #[inline]
    pub fn fetch(&self, key: UserKey<'_>, tag: u8, stored: &[u8]) -> Result<Option<Fetched>> {
        match may_refer(tag, stored) {
            false => Ok(None),
            true => self.fetch_blobs(key, tag, stored),
        }
    }

    #[cold]
    fn fetch_blobs(&self, key: UserKey<'_>, tag: u8, stored: &[u8]) -> Result<Option<Fetched>> {
        let (Some(version), Some(cf)) = (&self.version, &self.cf) else {
            return Err(Error::corruption("a value in a blob file, of no version"));
        };
        let tables = &cf.tables();
        BlobSource { tables, version, family: cf.id, reads: self.reads }.fetch(key, tag, stored)
    }

    /// A value of `key` that is, in whole or in part, in another record of its table; None for all
    /// others. An output has no such records.
    ///
    /// # Errors
    /// Corruption and I/O errors of the table.
    #[inline]
    pub fn take_in(&self, key: UserKey<'_>, tag: u8, stored: &[u8]) -> Result<Option<Fetched>> {
        match may_refer(tag, stored) && is_embedded(tag, stored)? {
            false => Ok(None),
            true => self.fetch_blobs(key, tag, stored),
        }
    }

    /// Has the system read `bytes` of a blob file from a blob on. Only a hint: what cannot be read
    /// is reported by the read that needs it.
    pub fn read_ahead(&self, index: &BlobIndex, bytes: u64) {
        let (Some(version), Some(cf)) = (&self.version, &self.cf) else { return };
        let Some(file) = version.blob_files().get(&index.file) else { return };
        if let Ok(file) = cf.tables().blob_file(&file.shared, cf.id) {
            file.prefetch(index.offset, bytes);
        }
    }

    /// What a filter is to see of a value of [`InputKind::Value`] that is at hand.
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
        let values = InputValues::of(None, None, &TableReadOptions::default());
        assert!(values.version().is_none());
        assert!(matches!(values.shown(0x01, b"v").unwrap(), Shown::Plain(b"v")));
        let entity = b"\x01\x01\x01n\x01v";
        let Shown::Entity(columns) = values.shown(0x16, entity).unwrap() else {
            panic!("an entity is shown by its columns")
        };
        assert_eq!((columns.len(), columns[0].name, columns[0].value), (1, &b"n"[..], &b"v"[..]));
        assert!(values.shown(0x16, &entity[..3]).is_err());
    }

    #[pumice_test_macros::test]
    fn only_what_may_be_in_blob_files_is_fetched() {
        let values = InputValues::of(None, None, &TableReadOptions::default());
        let key = UserKey::new(b"k");
        assert!(values.fetch(key, 0x01, b"v").unwrap().is_none());
        assert!(values.fetch(key, 0x11, b"v").is_err());
        assert_eq!(InputKind::of_tag(0x11), InputKind::Value);
        assert_eq!(InputKind::of_tag(0x0f), InputKind::Unknown);
    }
}
