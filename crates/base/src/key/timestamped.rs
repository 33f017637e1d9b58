//! Orders whose keys end with a timestamp: the two that are built in, and what is made of any of
//! them: the order of its keys without timestamps, and that of all versions.
//!
//! ```text
//! user key = the user's bytes ‖ timestamp; the user's bytes ascending, timestamps descending
//! ```
//!
//! Thread safety: stateless or immutable. Keys that are shorter than a timestamp come from damaged
//! files only; they are ordered somehow, and never cause a panic.

use std::cmp::Ordering;
use std::sync::Arc;

use super::{Comparator, CustomComparator, InternalKey, InternalKeyComparator, UserKey};

/// Name of the built-in order of keys by their bytes with timestamps. Persisted.
///
/// ```
/// # use pumice_base::Comparator;
/// # use pumice_base::key::{BYTEWISE_U64_TS, REVERSE_BYTEWISE_U64_TS};
/// for name in [BYTEWISE_U64_TS, REVERSE_BYTEWISE_U64_TS] {
///     assert_eq!(Comparator::builtin(name).map(|order| order.timestamp_size()), Some(8));
/// }
/// ```
pub const BYTEWISE_U64_TS: &str = "leveldb.BytewiseComparator.u64ts";
/// Name of the built-in reverse order with timestamps. Persisted.
///
/// Example: that of [`BYTEWISE_U64_TS`].
pub const REVERSE_BYTEWISE_U64_TS: &str = "rocksdb.ReverseBytewiseComparator.u64ts";

/// What ends the names of orders whose timestamps are little-endian numbers of 64 bits. Persisted.
pub const U64_TS_SUFFIX: &str = ".u64ts";

/// Bytes of a timestamp of the built-in orders.
pub const U64_TS_LEN: usize = size_of::<u64>();

/// Keys by their bytes, ascending or descending; timestamps are little-endian numbers, newest
/// first.
struct U64Ts {
    reverse: bool,
}

/// The number that a timestamp of the built-in orders is; 0 if it has another length.
fn number(timestamp: &[u8]) -> u64 {
    timestamp.try_into().map_or(0, u64::from_le_bytes)
}

impl CustomComparator for U64Ts {
    fn name(&self) -> &str {
        if self.reverse { REVERSE_BYTEWISE_U64_TS } else { BYTEWISE_U64_TS }
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        let (a, a_time) = a.split_at(a.len().saturating_sub(U64_TS_LEN));
        let (b, b_time) = b.split_at(b.len().saturating_sub(U64_TS_LEN));
        self.compare_without_timestamp(a, b).then_with(|| number(b_time).cmp(&number(a_time)))
    }
    fn can_keys_with_different_byte_contents_be_equal(&self) -> bool {
        false
    }
    fn timestamp_size(&self) -> usize {
        U64_TS_LEN
    }
    fn compare_without_timestamp(&self, a: &[u8], b: &[u8]) -> Ordering {
        if self.reverse { b.cmp(a) } else { a.cmp(b) }
    }
    fn compare_timestamp(&self, a: &[u8], b: &[u8]) -> Ordering {
        number(a).cmp(&number(b))
    }
    fn timestamp_to_string(&self, timestamp: &[u8]) -> String {
        number(timestamp).to_string()
    }
    fn is_built_in(&self) -> bool {
        true
    }
}

/// The built-in order with timestamps of that name.
pub(super) fn builtin(name: &str) -> Option<Comparator> {
    let reverse = match name {
        BYTEWISE_U64_TS => false,
        REVERSE_BYTEWISE_U64_TS => true,
        _ => return None,
    };
    Some(Comparator::Custom(Arc::new(U64Ts { reverse })))
}

/// An order over its keys without their timestamps.
struct Bare(Arc<dyn CustomComparator>);

impl CustomComparator for Bare {
    fn name(&self) -> &str {
        let name = self.0.name();
        name.strip_suffix(U64_TS_SUFFIX).unwrap_or(name)
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        self.0.compare_without_timestamp(a, b)
    }
    fn can_keys_with_different_byte_contents_be_equal(&self) -> bool {
        self.0.can_keys_with_different_byte_contents_be_equal()
    }
    fn is_built_in(&self) -> bool {
        true
    }
}

/// `order` over its keys without their timestamps.
pub(super) fn bare(order: &Arc<dyn CustomComparator>) -> Comparator {
    match order.name() {
        BYTEWISE_U64_TS => Comparator::Bytewise,
        REVERSE_BYTEWISE_U64_TS => Comparator::ReverseBytewise,
        _ => Comparator::Custom(Arc::new(Bare(Arc::clone(order)))),
    }
}

/// Internal keys as if each were a user key: every version is an entry of its own.
struct Versions(InternalKeyComparator);

impl CustomComparator for Versions {
    fn name(&self) -> &str {
        self.0.user.name()
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        match (InternalKey::checked(a), InternalKey::checked(b)) {
            (Some(a), Some(b)) => self.0.compare(a, b),
            (a, b) => a.is_some().cmp(&b.is_some()),
        }
    }
    fn is_built_in(&self) -> bool {
        true
    }
}

/// The order of the internal keys over `user`, taken for user keys.
pub(super) fn versions(user: &Comparator) -> Comparator {
    Comparator::Custom(Arc::new(Versions(InternalKeyComparator::new(user.clone()))))
}

/// `key` without its timestamp.
pub(super) fn without<'a>(order: &dyn CustomComparator, key: UserKey<'a>) -> UserKey<'a> {
    let len = key.len().saturating_sub(order.timestamp_size());
    UserKey::new(&key.as_bytes()[..len])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::ValueType;
    use crate::key::{MAX_SEQUENCE, internal_key};

    fn at(key: &str, time: u64) -> Vec<u8> {
        [key.as_bytes(), &time.to_le_bytes()].concat()
    }

    #[test]
    fn built_in_orders_have_newest_first_and_numbers_for_times() {
        for name in [BYTEWISE_U64_TS, REVERSE_BYTEWISE_U64_TS] {
            let order = Comparator::builtin(name).unwrap();
            assert_eq!((order.name(), order.timestamp_size()), (name, 8));
            let compare = |a: &[u8], b: &[u8]| order.compare(UserKey::new(a), UserKey::new(b));
            // As bytes 256 would come before 255.
            assert!(compare(&at("k", 256), &at("k", 255)).is_lt());
            assert!(compare(&at("k", 7), &at("k", 7)).is_eq());
            let keys = compare(&at("a", 1), &at("b", 9));
            assert_eq!(keys.is_lt(), name == BYTEWISE_U64_TS);
            assert!(!order.can_keys_with_different_byte_contents_be_equal());
            let (old, new) = (at("k", 1), at("k", 2));
            assert!(order.same_user_key(UserKey::new(&old), UserKey::new(&new)));
            let both = order.compare_without_timestamp(UserKey::new(&old), UserKey::new(&new));
            assert!(both.is_eq());
            assert!(order.compare_timestamp(&1u64.to_le_bytes(), &256u64.to_le_bytes()).is_lt());
            assert_eq!(order.timestamp_to_string(&300u64.to_le_bytes()), "300");
            assert_eq!(order.timestamp_of(UserKey::new(&new)), 2u64.to_le_bytes());
            assert!(compare(b"short", &old).is_ne() && compare(b"", b"x").is_eq());
            let bare = order.without_timestamps();
            assert_eq!(bare.is_bytewise(), name == BYTEWISE_U64_TS);
        }
    }

    #[test]
    fn versions_are_ordered_by_key_then_time_then_sequence() {
        let order = Comparator::builtin(BYTEWISE_U64_TS).unwrap().of_versions();
        let rows = [
            internal_key(&at("a", u64::MAX), MAX_SEQUENCE, ValueType::MaxValid),
            internal_key(&at("a", 3), 1, ValueType::Value),
            internal_key(&at("a", 2), 9, ValueType::DeletionWithTimestamp),
            internal_key(&at("a", 2), 5, ValueType::Value),
            internal_key(&at("b", 7), 2, ValueType::Value),
        ];
        assert!(rows.is_sorted_by(|a, b| order.compare(a.into(), b.into()).is_lt()));
        assert!(order.compare(UserKey::new(b"x"), UserKey::from(&rows[0])).is_lt());
    }
}
