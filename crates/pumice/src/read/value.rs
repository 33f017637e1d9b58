//! Stored values become the user's here, for reads: of one key, of many, by cursors, and by merges
//! in writes.
//!
//! The only file of `read` that knows the forms in which a value is stored. A form that is added is
//! added here and, for what compactions do with it, in `table_output/value.rs`. Values that lie in
//! blob files are fetched by `elsewhere` first. Forms: docs/format/values.md.
//!
//! Thread safety: borrowed plain data.

use pumice_base::{Error, Result, UserKey, ValueType, wide_columns};

use crate::blob::references::may_refer;
use crate::read::elsewhere::{BlobReads, BlobSource, Fetched};
use crate::version::family::CfData;
use crate::version::super_version::SuperVersion;

/// What a reader does with an entry, by its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryKind {
    /// The stored bytes are the user's value.
    Plain,
    /// A value in another form, which [`Values::fetch`] and [`plain`] convert.
    Converted,
    /// An operand of a merge.
    Operand,
    /// The key is deleted.
    Tombstone,
    /// A value that cannot be read, or no entry of a key.
    Unreadable,
}

impl EntryKind {
    /// The kind of entries of that type.
    #[inline]
    pub const fn of(value_type: ValueType) -> Self {
        match value_type {
            ValueType::Value => EntryKind::Plain,
            ValueType::WideColumnEntity | ValueType::ValuePreferredSeqno | ValueType::BlobIndex => {
                EntryKind::Converted
            }
            ValueType::Merge => EntryKind::Operand,
            ValueType::Deletion | ValueType::SingleDeletion | ValueType::DeletionWithTimestamp => {
                EntryKind::Tombstone
            }
            _ => EntryKind::Unreadable,
        }
    }

    /// As [`EntryKind::of`], for the type byte of an internal key.
    #[inline]
    pub fn of_tag(tag: u8) -> Self {
        KINDS[tag as usize]
    }
}

/// The kinds of all type bytes, since cursors ask for the kind of each entry.
static KINDS: [EntryKind; 256] = {
    let mut kinds = [EntryKind::Unreadable; 256];
    let mut tag = ValueType::MaxValid as u8;
    while let Some(value_type) = ValueType::from_u8(tag) {
        kinds[tag as usize] = EntryKind::of(value_type);
        if tag == 0 {
            break;
        }
        tag -= 1;
    }
    kinds
};

/// The values of one view of a column family: what is needed to make the user's of stored ones.
#[derive(Clone, Copy)]
pub(crate) struct Values<'a> {
    cf: &'a CfData,
    view: &'a SuperVersion,
}

impl<'a> Values<'a> {
    /// The values that are read in `view` of `cf`.
    #[inline]
    pub fn of(cf: &'a CfData, view: &'a SuperVersion) -> Self {
        Values { cf, view }
    }

    /// The view, whose version has the files of the values that are not in memory.
    #[inline]
    pub fn view(self) -> &'a SuperVersion {
        self.view
    }

    /// A stored value of `key` that is not, or not all, where its entry is; None for all others.
    ///
    /// # Errors
    /// Corruption and I/O errors of blob files; Incomplete if `reads` may not read them.
    #[inline]
    pub fn fetch(
        self,
        reads: &BlobReads,
        key: UserKey<'_>,
        tag: u8,
        stored: &[u8],
    ) -> Result<Option<Fetched>> {
        match may_refer(tag, stored) {
            false => Ok(None),
            true => {
                let (tables, version) = (&self.cf.tables(), &self.view.version);
                let source = BlobSource { tables, version, family: self.cf.id, reads: *reads };
                source.fetch(key, tag, stored)
            }
        }
    }
}

/// The user's value in a stored value of type `tag`, all of which is at hand.
///
/// # Errors
/// NotSupported for what must be fetched first ([`Values::fetch`]); Corruption for unknown types
/// and malformed entities.
pub(crate) fn plain(tag: u8, stored: &[u8]) -> Result<&[u8]> {
    match ValueType::from_u8(tag) {
        Some(ValueType::Value) => Ok(stored),
        Some(ValueType::WideColumnEntity) => wide_columns::default_column(stored),
        Some(ValueType::ValuePreferredSeqno) => stored
            .len()
            .checked_sub(SEQUENCE_BYTES)
            .map(|n| &stored[..n])
            .ok_or_else(|| Error::corruption("TimedPut value shorter than its sequence")),
        Some(ValueType::BlobIndex) => {
            Err(Error::not_supported("a value in a blob file, which is not at hand"))
        }
        other => Err(Error::corruption(format!("unexpected entry type {tag:#x} ({other:?})"))),
    }
}

/// Of the preferred sequence number after a value.
const SEQUENCE_BYTES: usize = 8;

/// The number after a value that RocksDB's TimedPut wrote: when it was written, or in a table the
/// newest sequence number of that time. None of other entries.
pub(crate) fn timed_number(value_type: ValueType, stored: &[u8]) -> Option<u64> {
    let (_, number) = stored.split_last_chunk::<SEQUENCE_BYTES>()?;
    (value_type == ValueType::ValuePreferredSeqno).then(|| u64::from_le_bytes(*number))
}

/// The stored value is an entity: [`plain`] gives its default column.
#[inline]
pub(crate) fn is_entity(tag: u8) -> bool {
    tag == ValueType::WideColumnEntity as u8
}

/// Type and stored bytes of a value that was kept as [`plain`] gives it, and of the entity
/// that it is of, which is empty for a plain value.
pub(crate) fn saved<'v>(plain: &'v [u8], entity: &'v [u8]) -> (u8, &'v [u8]) {
    match entity.is_empty() {
        true => (ValueType::Value as u8, plain),
        false => (ValueType::WideColumnEntity as u8, entity),
    }
}

/// The stored form of `merged`, which an operator made from the user's value in `base`: a plain
/// value, or, if `base` (given by type and stored bytes) is an entity, that entity with another
/// default column.
///
/// # Errors
/// Those of encoding the entity.
pub(crate) fn stored_merge(
    base: Option<(u8, &[u8])>,
    merged: Vec<u8>,
) -> Result<(ValueType, Vec<u8>)> {
    match base {
        Some((tag, entity)) if is_entity(tag) => {
            let entity = wide_columns::with_default(entity, &merged)?;
            Ok((ValueType::WideColumnEntity, entity))
        }
        _ => Ok((ValueType::Value, merged)),
    }
}

/// Why an iterator cannot show an entry.
pub(crate) fn unsupported_type(tag: u8, key: &[u8]) -> Error {
    match ValueType::from_u8(tag) {
        Some(t) => Error::not_supported(format!("entry of type {t:?} at key {}", hex(key))),
        None => Error::corruption(format!("entry of unknown type {tag:#x} at key {}", hex(key))),
    }
}

/// A key in the text of an error.
pub(super) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().take(64).fold(String::from("0x"), |mut text, byte| {
        write!(text, "{byte:02X}").expect("writing to a String cannot fail");
        text
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[pumice_test_macros::test]
    fn entity_shows_its_default_column() {
        let entity = b"\x01\x03\x00\x02\x02n1\x02\x02n2\x03dvv1v22";
        assert_eq!(plain(0x16, entity).unwrap(), b"dv");
        for cut in 0..entity.len() {
            assert!(plain(0x16, &entity[..cut]).is_err(), "cut {cut}");
        }
        assert!(plain(0x11, b"x").is_err());
    }

    /// What a cursor shows without conversion and what it converts are all that can be read.
    #[pumice_test_macros::test]
    fn kinds_agree_with_what_can_be_read() {
        let entity = b"\x01\x03\x00\x02\x02n1\x02\x02n2\x03dvv1v22";
        for tag in 0..=255 {
            let readable = plain(tag, entity).is_ok();
            let kind = EntryKind::of_tag(tag);
            let shown = matches!(kind, EntryKind::Plain | EntryKind::Converted);
            let fetched_first = tag == ValueType::BlobIndex as u8;
            assert_eq!(readable || fetched_first, shown, "{tag:#x} is {kind:?}");
        }
        assert_eq!(EntryKind::of_tag(0x02), EntryKind::Operand);
        assert_eq!(EntryKind::of_tag(0x07), EntryKind::Tombstone);
    }

    #[pumice_test_macros::test]
    fn what_is_merged_into_an_entity_is_one() {
        let entity = b"\x01\x01\x01n\x01v";
        let (value_type, stored) = stored_merge(Some((0x16, entity)), b"m".to_vec()).unwrap();
        assert_eq!(value_type, ValueType::WideColumnEntity);
        assert_eq!(stored, b"\x01\x02\x00\x01\x01n\x01mv");
        for base in [None, Some((0x01, &b"old"[..]))] {
            let merged = stored_merge(base, b"m".to_vec()).unwrap();
            assert_eq!(merged, (ValueType::Value, b"m".to_vec()));
        }
    }
}
