//! Internal keys: a user key, a 56-bit sequence number and an 8-bit type.

use std::fmt;

use super::UserKey;
use super::numbers::{MAX_SEQUENCE, SequenceNumber, VALUE_TYPE_FOR_SEEK, ValueType};
use crate::error::{Error, Result};
use crate::narrow::low_u8;

/// Bytes of the trailer after a user key.
pub const TRAILER_LEN: usize = 8;

/// An internal key: a user key and its trailer.
///
/// # Panics
/// Methods that take it apart panic if it is shorter than 8 bytes: callers check keys when they
/// enter the process ([`InternalKey::checked`], [`parse_internal_key`]).
#[derive(Clone, Copy)]
pub struct InternalKey<'a>(&'a [u8]);

impl<'a> InternalKey<'a> {
    /// The internal key that is `bytes`.
    #[inline]
    pub const fn new(bytes: &'a [u8]) -> Self {
        InternalKey(bytes)
    }

    /// The internal key that is `bytes`, `None` if they are too short to be one.
    #[inline]
    pub const fn checked(bytes: &'a [u8]) -> Option<Self> {
        if bytes.len() < TRAILER_LEN { None } else { Some(InternalKey(bytes)) }
    }

    /// Its bytes.
    #[inline]
    pub const fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// How many bytes it has, with the trailer.
    #[inline]
    pub const fn len(self) -> usize {
        self.0.len()
    }

    /// It has no bytes: in metadata, a bound that is not known yet.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// A copy of its bytes.
    #[inline]
    pub fn to_vec(self) -> Vec<u8> {
        self.0.to_vec()
    }

    /// The user key, with its timestamp.
    #[inline]
    pub fn user_key(self) -> UserKey<'a> {
        UserKey::new(&self.0[..self.0.len() - TRAILER_LEN])
    }

    /// Sequence number and type in one number, as [`pack`] makes it.
    #[inline]
    pub fn trailer(self) -> u64 {
        let at = self.0.len() - TRAILER_LEN;
        let mut bytes = [0u8; TRAILER_LEN];
        bytes.copy_from_slice(&self.0[at..]);
        u64::from_le_bytes(bytes)
    }

    /// When it was written.
    #[inline]
    pub fn sequence(self) -> SequenceNumber {
        self.trailer() >> 8
    }

    /// What was written: the byte of a [`ValueType`], unchecked.
    #[inline]
    pub fn tag(self) -> u8 {
        low_u8(self.trailer())
    }

    /// It is no entry but the end of a range deletion, which as the bound of a file is open: the
    /// file has nothing of this user key.
    #[inline]
    pub fn is_range_end(self) -> bool {
        self.trailer() == pack(MAX_SEQUENCE, ValueType::RangeDeletion as u8)
    }

    /// Sequence number and type byte.
    #[inline]
    pub fn sequence_and_type(self) -> (SequenceNumber, u8) {
        unpack(self.trailer())
    }
}

impl fmt::Debug for InternalKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match InternalKey::checked(self.0) {
            Some(key) => write!(f, "{:?}@{}:{:#x}", key.user_key(), key.sequence(), key.tag()),
            None => write!(f, "\"{}\" (too short)", self.0.escape_ascii()),
        }
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

/// Appends `user_key ‖ trailer`.
#[inline]
pub fn append_internal_key<'k>(
    dst: &mut Vec<u8>,
    user_key: impl Into<UserKey<'k>>,
    seq: SequenceNumber,
    tag: u8,
) {
    dst.extend_from_slice(user_key.into().as_bytes());
    dst.extend_from_slice(&pack(seq, tag).to_le_bytes());
}

/// Appends a key to seek to that sorts before all versions of `user_key`, and after all keys
/// before it.
#[inline]
pub fn append_before_versions<'k>(dst: &mut Vec<u8>, user_key: impl Into<UserKey<'k>>) {
    append_internal_key(dst, user_key, MAX_SEQUENCE, 0xff);
}

/// Appends a key to seek to that sorts at or after all versions of `user_key`, and before all keys
/// after it.
#[inline]
pub fn append_after_versions<'k>(dst: &mut Vec<u8>, user_key: impl Into<UserKey<'k>>) {
    append_internal_key(dst, user_key, 0, 0);
}

/// As [`append_before_versions`], in a new buffer.
pub fn before_versions<'k>(user_key: impl Into<UserKey<'k>>) -> Vec<u8> {
    joined(user_key.into(), MAX_SEQUENCE, 0xff)
}

/// `user_key ‖ trailer` in a new buffer.
#[inline]
pub fn internal_key<'k>(
    user_key: impl Into<UserKey<'k>>,
    seq: SequenceNumber,
    value_type: ValueType,
) -> Vec<u8> {
    joined(user_key.into(), seq, value_type as u8)
}

/// The key to seek to for the newest version of `user_key` visible at `seq`.
#[inline]
pub fn seek_key<'k>(user_key: impl Into<UserKey<'k>>, seq: SequenceNumber) -> Vec<u8> {
    joined(user_key.into(), seq, VALUE_TYPE_FOR_SEEK)
}

/// As [`seek_key`], at the front of `buffer`; `None` if it does not fit.
#[inline]
pub fn seek_key_in<'b>(
    buffer: &'b mut [u8],
    user_key: UserKey<'_>,
    seq: SequenceNumber,
) -> Option<InternalKey<'b>> {
    let user_len = user_key.len();
    let key = buffer.get_mut(..user_len + TRAILER_LEN)?;
    key[..user_len].copy_from_slice(user_key.as_bytes());
    key[user_len..].copy_from_slice(&pack(seq, VALUE_TYPE_FOR_SEEK).to_le_bytes());
    Some(InternalKey::new(key))
}

fn joined(user_key: UserKey<'_>, seq: SequenceNumber, tag: u8) -> Vec<u8> {
    let mut key = Vec::with_capacity(user_key.len() + TRAILER_LEN);
    append_internal_key(&mut key, user_key, seq, tag);
    key
}

/// The parts of an internal key.
#[derive(Clone, Copy, Debug)]
pub struct ParsedInternalKey<'a> {
    /// The user's key.
    pub user_key: UserKey<'a>,
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
    let Some(key) = InternalKey::checked(ikey) else {
        return Err(Error::corruption(format!("internal key too short: {} bytes", ikey.len())));
    };
    let (sequence, tag) = key.sequence_and_type();
    match ValueType::from_u8(tag) {
        Some(value_type) => {
            Ok(ParsedInternalKey { user_key: key.user_key(), sequence, value_type })
        }
        None => Err(Error::corruption(format!("internal key has unknown type {tag:#x}"))),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn layout() {
        let key = internal_key(b"k", 0x0001_0203_0405_0607, ValueType::Merge);
        assert_eq!(key, [b'k', 2, 7, 6, 5, 4, 3, 2, 1]);
        let view = InternalKey::new(&key);
        assert_eq!(view.user_key().as_bytes(), b"k");
        assert_eq!(view.sequence_and_type(), (0x0001_0203_0405_0607, 2));
        assert_eq!((view.sequence(), view.tag()), view.sequence_and_type());
        let parsed = parse_internal_key(&key).unwrap();
        assert_eq!((parsed.user_key.as_bytes(), parsed.value_type), (&b"k"[..], ValueType::Merge));
        assert_eq!(unpack(pack(MAX_SEQUENCE, 0xff)), (MAX_SEQUENCE, 0xff));
    }

    #[test]
    fn what_is_no_internal_key_is_told() {
        let key = internal_key(b"k", 7, ValueType::Value);
        assert!(InternalKey::checked(&key[2..]).is_none());
        assert!(InternalKey::checked(&key[1..]).unwrap().user_key().is_empty());
        assert!(parse_internal_key(&key[2..]).unwrap_err().is_corruption());
        assert!(parse_internal_key(&[0x30, 0, 0, 0, 0, 0, 0, 0]).unwrap_err().is_corruption());
        assert_eq!(format!("{:?}", InternalKey::new(&key)), "\"k\"@7:0x1");
        assert_eq!(format!("{:?}", InternalKey::new(b"k")), "\"k\" (too short)");
    }

    #[test]
    fn bounds_enclose_all_versions() {
        let (mut before, mut after) = (Vec::new(), Vec::new());
        append_before_versions(&mut before, b"k");
        append_after_versions(&mut after, b"k");
        assert_eq!(before, before_versions(b"k"));
        let order = crate::InternalKeyComparator::default();
        let compare = |a: &[u8], b: &[u8]| order.compare(InternalKey::new(a), InternalKey::new(b));
        for (seq, value_type) in [(0, ValueType::Deletion), (MAX_SEQUENCE, ValueType::MaxValid)] {
            let key = internal_key(b"k", seq, value_type);
            assert!(compare(&before, &key).is_lt() && compare(&key, &after).is_le());
        }
        assert!(compare(&after, &before_versions(b"k\0")).is_lt());
        assert!(compare(&internal_key(b"j", 0, ValueType::Deletion), &before).is_lt());
    }

    #[test]
    fn a_key_to_seek_fits_its_buffer_or_is_refused() {
        let mut buffer = [0xaau8; 12];
        let found = seek_key_in(&mut buffer, UserKey::new(b"key"), 9).map(InternalKey::to_vec);
        assert_eq!(found, Some(seek_key(b"key", 9)));
        assert!(seek_key_in(&mut buffer, UserKey::new(b"keys"), 9).is_some());
        assert!(seek_key_in(&mut buffer, UserKey::new(b"keys5"), 9).is_none());
    }

    /// A view costs what the slice costs.
    #[test]
    fn views_are_slices() {
        assert_eq!(size_of::<UserKey<'_>>(), size_of::<&[u8]>());
        assert_eq!(size_of::<Option<InternalKey<'_>>>(), size_of::<&[u8]>());
    }
}
