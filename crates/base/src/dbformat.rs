//! Internal keys: user key, 56-bit sequence number, 8-bit value type.
//!
//! ```text
//! internal_key = user_key ‖ fixed64((sequence << 8) | type)
//! ```
//!
//! Order: user keys ascending, then the trailer as an integer descending, so that the newest
//! version of a key comes first (docs/format/primitives.md#internal-keys). Numbers here are
//! persisted: never renumber.

use std::cmp::Ordering;

use crate::comparator::Comparator;
use crate::error::{Error, Result};
use crate::narrow::low_u8;

/// Position of a write in the database's history; 56 bits.
pub type SequenceNumber = u64;
/// Number of a file in the database's one number space; 0 is invalid.
pub type FileNumber = u64;

/// Largest sequence number, used to seek to the newest version of a key.
pub const MAX_SEQUENCE: SequenceNumber = (1 << 56) - 1;
/// Largest sequence number that a write may have: readers seek at one more.
pub const LAST_SEQUENCE_MAX: SequenceNumber = MAX_SEQUENCE - 2;
/// Largest file number: RocksDB packs it with two bits that say where the file is.
pub const FILE_NUMBER_MAX: FileNumber = (1 << 62) - 1;
/// Largest number that a file may have when its database is opened. Higher ones are left for future
/// files, so that none of them gets a number that the next open refuses.
pub const FILE_NUMBER_FOUND_MAX: FileNumber = FILE_NUMBER_MAX - (1 << 40);
/// Largest id of a column family.
pub const COLUMN_FAMILY_ID_MAX: u32 = u32::MAX - 1;
/// Type byte of a seek key: sorts before every stored type with the same sequence.
pub const VALUE_TYPE_FOR_SEEK: u8 = 0x18;
/// Bytes of the trailer after a user key.
pub const TRAILER_LEN: usize = 8;

/// Kind of an entry. Persisted in WAL and tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
// The names are RocksDB's, explained in docs/format/primitives.md#internal-keys.
#[allow(missing_docs)]
pub enum ValueType {
    Deletion = 0x00,
    Value = 0x01,
    Merge = 0x02,
    LogData = 0x03,
    ColumnFamilyDeletion = 0x04,
    ColumnFamilyValue = 0x05,
    ColumnFamilyMerge = 0x06,
    SingleDeletion = 0x07,
    ColumnFamilySingleDeletion = 0x08,
    BeginPrepareXid = 0x09,
    EndPrepareXid = 0x0A,
    CommitXid = 0x0B,
    RollbackXid = 0x0C,
    Noop = 0x0D,
    ColumnFamilyRangeDeletion = 0x0E,
    RangeDeletion = 0x0F,
    ColumnFamilyBlobIndex = 0x10,
    BlobIndex = 0x11,
    BeginPersistedPrepareXid = 0x12,
    BeginUnprepareXid = 0x13,
    DeletionWithTimestamp = 0x14,
    CommitXidAndTimestamp = 0x15,
    WideColumnEntity = 0x16,
    ColumnFamilyWideColumnEntity = 0x17,
    ValuePreferredSeqno = 0x18,
    ColumnFamilyValuePreferredSeqno = 0x19,
    MaxValid = 0x1A,
}

impl ValueType {
    /// The type with that tag, `None` for an unknown tag.
    #[inline]
    pub fn from_u8(tag: u8) -> Option<Self> {
        use ValueType::*;
        const TABLE: [ValueType; 27] = [
            Deletion,
            Value,
            Merge,
            LogData,
            ColumnFamilyDeletion,
            ColumnFamilyValue,
            ColumnFamilyMerge,
            SingleDeletion,
            ColumnFamilySingleDeletion,
            BeginPrepareXid,
            EndPrepareXid,
            CommitXid,
            RollbackXid,
            Noop,
            ColumnFamilyRangeDeletion,
            RangeDeletion,
            ColumnFamilyBlobIndex,
            BlobIndex,
            BeginPersistedPrepareXid,
            BeginUnprepareXid,
            DeletionWithTimestamp,
            CommitXidAndTimestamp,
            WideColumnEntity,
            ColumnFamilyWideColumnEntity,
            ValuePreferredSeqno,
            ColumnFamilyValuePreferredSeqno,
            MaxValid,
        ];
        TABLE.get(tag as usize).copied()
    }
}

/// The trailer of an internal key.
#[inline]
pub fn pack(sequence: SequenceNumber, value_type: u8) -> u64 {
    debug_assert!(sequence <= MAX_SEQUENCE);
    (sequence << 8) | u64::from(value_type)
}

/// Splits a trailer into sequence and type byte.
#[inline]
pub fn unpack(trailer: u64) -> (SequenceNumber, u8) {
    (trailer >> 8, low_u8(trailer))
}

/// The user key of an internal key.
///
/// # Panics
/// If `ikey` is shorter than 8 bytes: callers check keys when they enter the process.
#[inline]
pub fn user_key(ikey: &[u8]) -> &[u8] {
    &ikey[..ikey.len() - TRAILER_LEN]
}

/// The trailer of an internal key. Panics as [`user_key`].
#[inline]
pub fn trailer(ikey: &[u8]) -> u64 {
    let at = ikey.len() - TRAILER_LEN;
    let mut bytes = [0u8; 8];
    bytes.copy_from_slice(&ikey[at..]);
    u64::from_le_bytes(bytes)
}

/// Sequence and type byte of an internal key. Panics as [`user_key`].
#[inline]
pub fn sequence_and_type(ikey: &[u8]) -> (SequenceNumber, u8) {
    unpack(trailer(ikey))
}

/// Appends `user_key ‖ trailer`.
#[inline]
pub fn append_internal_key(dst: &mut Vec<u8>, user_key: &[u8], seq: SequenceNumber, tag: u8) {
    dst.extend_from_slice(user_key);
    dst.extend_from_slice(&pack(seq, tag).to_le_bytes());
}

/// `user_key ‖ trailer` in a new buffer.
pub fn internal_key(user_key: &[u8], seq: SequenceNumber, value_type: ValueType) -> Vec<u8> {
    let mut key = Vec::with_capacity(user_key.len() + TRAILER_LEN);
    append_internal_key(&mut key, user_key, seq, value_type as u8);
    key
}

/// The key to seek to for the newest version of `user_key` visible at `seq`.
pub fn seek_key(user_key: &[u8], seq: SequenceNumber) -> Vec<u8> {
    let mut key = Vec::with_capacity(user_key.len() + TRAILER_LEN);
    append_internal_key(&mut key, user_key, seq, VALUE_TYPE_FOR_SEEK);
    key
}

/// The parts of an internal key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParsedInternalKey<'a> {
    /// The user's key.
    pub user_key: &'a [u8],
    /// When it was written.
    pub sequence: SequenceNumber,
    /// What was written.
    pub value_type: ValueType,
}

/// Splits an internal key into its parts.
///
/// # Errors
/// `Corruption` if it is shorter than 8 bytes or its type is unknown.
#[inline]
pub fn parse_internal_key(ikey: &[u8]) -> Result<ParsedInternalKey<'_>> {
    if ikey.len() < TRAILER_LEN {
        return Err(Error::corruption(format!("internal key too short: {} bytes", ikey.len())));
    }
    let (sequence, tag) = sequence_and_type(ikey);
    match ValueType::from_u8(tag) {
        Some(value_type) => {
            Ok(ParsedInternalKey { user_key: user_key(ikey), sequence, value_type })
        }
        None => Err(Error::corruption(format!("internal key has unknown type {tag:#x}"))),
    }
}

/// Order of internal keys under a user comparator.
#[derive(Clone, Debug, Default)]
pub struct InternalKeyComparator {
    /// Order of the user keys.
    pub user: Comparator,
}

impl InternalKeyComparator {
    /// Internal order over `user`.
    pub fn new(user: Comparator) -> Self {
        InternalKeyComparator { user }
    }

    /// Three-way comparison; both keys are at least 8 bytes.
    #[inline]
    pub fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        match self.user.compare(user_key(a), user_key(b)) {
            Ordering::Equal => trailer(b).cmp(&trailer(a)),
            other => other,
        }
    }

    /// Shortens internal key `start` to a key in `[start, limit)` (docs/format/table.md#index).
    pub fn find_shortest_separator(&self, start: &mut Vec<u8>, limit: &[u8]) {
        let mut candidate = user_key(start).to_vec();
        self.user.find_shortest_separator(&mut candidate, user_key(limit));
        if candidate.len() <= start.len() - TRAILER_LEN
            && self.user.compare(user_key(start), &candidate) == Ordering::Less
        {
            candidate.extend_from_slice(&pack(MAX_SEQUENCE, VALUE_TYPE_FOR_SEEK).to_le_bytes());
            *start = candidate;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn type_numbers() {
        for tag in 0..=255u8 {
            match ValueType::from_u8(tag) {
                Some(value_type) => assert_eq!(value_type as u8, tag),
                None => assert!(tag > ValueType::MaxValid as u8),
            }
        }
    }

    #[test]
    fn layout() {
        let key = internal_key(b"k", 0x0001_0203_0405_0607, ValueType::Merge);
        assert_eq!(key, [b'k', 2, 7, 6, 5, 4, 3, 2, 1]);
        assert_eq!(
            (user_key(&key), sequence_and_type(&key)),
            (&b"k"[..], (0x0001_0203_0405_0607, 2))
        );
        let parsed = parse_internal_key(&key).unwrap();
        assert_eq!((parsed.user_key, parsed.value_type), (&b"k"[..], ValueType::Merge));
        assert!(parse_internal_key(&key[2..]).unwrap_err().is_corruption());
        assert!(parse_internal_key(&[0x30, 0, 0, 0, 0, 0, 0, 0]).unwrap_err().is_corruption());
        assert_eq!(unpack(pack(MAX_SEQUENCE, 0xff)), (MAX_SEQUENCE, 0xff));
    }

    #[test]
    fn newest_first_within_a_user_key() {
        let cmp = InternalKeyComparator::default();
        let ordered = [
            internal_key(b"", 1, ValueType::Value),
            seek_key(b"a", MAX_SEQUENCE),
            internal_key(b"a", 9, ValueType::Value),
            internal_key(b"a", 9, ValueType::Deletion),
            seek_key(b"a", 8),
            internal_key(b"a", 8, ValueType::RangeDeletion),
            internal_key(b"a", 0, ValueType::Deletion),
            internal_key(b"a\0", 50, ValueType::Value),
            internal_key(b"b", 1, ValueType::Value),
        ];
        for (i, a) in ordered.iter().enumerate() {
            for (j, b) in ordered.iter().enumerate() {
                assert_eq!(cmp.compare(a, b), i.cmp(&j), "{i} {j}");
            }
        }
    }

    proptest! {
        #[test]
        fn separators_separate(
            a in prop::collection::vec(0u8..4, 0..5), b in prop::collection::vec(0u8..4, 0..5),
            s in 0u64..9, t in 0u64..9,
        ) {
            for user in [Comparator::Bytewise, Comparator::ReverseBytewise] {
                let cmp = InternalKeyComparator::new(user);
                let a = internal_key(&a, s, ValueType::Value);
                let b = internal_key(&b, t, ValueType::Value);
                let (start, limit) = if cmp.compare(&a, &b).is_lt() { (a, b) } else { (b, a) };
                let mut separator = start.clone();
                cmp.find_shortest_separator(&mut separator, &limit);
                prop_assert!(cmp.compare(&start, &separator).is_le());
                prop_assert!(start == limit || cmp.compare(&separator, &limit).is_lt());
            }
        }
    }
}
