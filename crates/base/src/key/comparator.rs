//! User-key order.
//!
//! The two built-in orders are enum variants, so a comparison inlines to `memcmp` and no hot loop
//! pays a virtual call; everything else goes through [`CustomComparator`].
//!
//! Thread safety: stateless or immutable. Invariant: `compare` is a total order that never
//! changes for the life of a database; its name is persisted in every MANIFEST and table.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use super::{UserKey, timestamped};

/// The order of two keys that lack their timestamps, by copies of them at one time.
pub fn compare_at_one_time<C: CustomComparator + ?Sized>(
    order: &C,
    a: &[u8],
    b: &[u8],
) -> Ordering {
    let at_one_time = |key: &[u8]| {
        let mut key = key.to_vec();
        key.resize(key.len() + order.timestamp_size(), 0);
        key
    };
    order.compare(&at_one_time(a), &at_one_time(b))
}

/// A user-supplied key order.
///
/// ```
/// # use std::{cmp::Ordering, sync::Arc};
/// # use pumice_base::{Comparator, UserKey, key::CustomComparator};
/// /// Without the difference of capital and small letters.
/// struct AnyCase;
///
/// impl CustomComparator for AnyCase {
///     fn name(&self) -> &str {
///         "any case"
///     }
///     fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
///         a.to_ascii_lowercase().cmp(&b.to_ascii_lowercase())
///     }
/// }
///
/// let order = Comparator::Custom(Arc::new(AnyCase));
/// assert_eq!(order.compare(UserKey::new(b"Key"), UserKey::new(b"kEY")), Ordering::Equal);
/// assert!(Comparator::Bytewise.compare(UserKey::new(b"Key"), UserKey::new(b"kEY")).is_lt());
/// ```
pub trait CustomComparator: Send + Sync {
    /// Persisted name; opening under another name fails.
    fn name(&self) -> &str;
    /// Three-way comparison; a total order.
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering;
    /// Keys of different bytes may compare equal, as in an order without letter case. Unless it is
    /// false, options that hash keys cannot be used: filters of tables and memtables, hash indexes.
    fn can_keys_with_different_byte_contents_be_equal(&self) -> bool {
        true
    }
    /// How many bytes at the end of each key are its timestamp; 0 for none. It must not change for
    /// the life of a database. If it is not 0, `compare` has to order keys by the bytes before the
    /// timestamp and then by time, the newest first; the timestamps of all bytes 0 and all bytes
    /// 0xff have to be the oldest and the newest.
    fn timestamp_size(&self) -> usize {
        0
    }
    /// Three-way comparison of two keys without their timestamps. Called only if there are
    /// timestamps. The default compares copies of the keys at one time.
    fn compare_without_timestamp(&self, a: &[u8], b: &[u8]) -> Ordering {
        compare_at_one_time(self, a, b)
    }
    /// Three-way comparison of two timestamps, the older one first. The default compares keys that
    /// are nothing but a timestamp.
    fn compare_timestamp(&self, a: &[u8], b: &[u8]) -> Ordering {
        self.compare(b, a)
    }
    /// A timestamp as messages show it; the default is the empty text.
    fn timestamp_to_string(&self, _timestamp: &[u8]) -> String {
        String::new()
    }
    /// It is the library's own, and runs none of the user's code.
    #[doc(hidden)]
    fn is_built_in(&self) -> bool {
        false
    }
    /// May shorten `start` to any key in `[start, limit)`. The default does nothing.
    fn find_shortest_separator(&self, _start: &mut Vec<u8>, _limit: &[u8]) {}
    /// May shorten `key` to any key `>= key`. The default does nothing.
    fn find_short_successor(&self, _key: &mut Vec<u8>) {}
}

/// The order of user keys in a column family.
///
/// Example: that of [`CustomComparator`].
#[derive(Clone, Default)]
pub enum Comparator {
    /// `memcmp` order, `leveldb.BytewiseComparator`.
    #[default]
    Bytewise,
    /// Reverse `memcmp` order, `rocksdb.ReverseBytewiseComparator`.
    ReverseBytewise,
    /// A user-supplied order.
    Custom(Arc<dyn CustomComparator>),
}

impl Comparator {
    /// The persisted name.
    pub fn name(&self) -> &str {
        match self {
            Comparator::Bytewise => "leveldb.BytewiseComparator",
            Comparator::ReverseBytewise => "rocksdb.ReverseBytewiseComparator",
            Comparator::Custom(c) => c.name(),
        }
    }

    /// The built-in comparator of that name.
    pub fn builtin(name: &str) -> Option<Self> {
        match name {
            "leveldb.BytewiseComparator" => Some(Comparator::Bytewise),
            "rocksdb.ReverseBytewiseComparator" => Some(Comparator::ReverseBytewise),
            _ => timestamped::builtin(name),
        }
    }

    /// Keys compare as raw bytes, so that prefixes may be compared first.
    #[inline]
    pub fn is_bytewise(&self) -> bool {
        matches!(self, Comparator::Bytewise)
    }

    /// Keys of different bytes may be equal, so that no hash may decide whether a key is there.
    pub fn can_keys_with_different_byte_contents_be_equal(&self) -> bool {
        match self {
            Comparator::Bytewise | Comparator::ReverseBytewise => false,
            Comparator::Custom(c) => c.can_keys_with_different_byte_contents_be_equal(),
        }
    }

    /// How many bytes at the end of each user key are its timestamp: 0 for the two orders by bytes.
    #[inline]
    pub fn timestamp_size(&self) -> usize {
        match self {
            Comparator::Bytewise | Comparator::ReverseBytewise => 0,
            Comparator::Custom(c) => c.timestamp_size(),
        }
    }

    /// `key` without its timestamp: what filters, hashes and prefixes see. All of a key that is
    /// shorter than a timestamp is timestamp.
    #[inline]
    pub fn without_timestamp<'a>(&self, key: UserKey<'a>) -> UserKey<'a> {
        match self {
            Comparator::Bytewise | Comparator::ReverseBytewise => key,
            Comparator::Custom(c) => timestamped::without(&**c, key),
        }
    }

    /// The timestamp of `key`, empty if there are none.
    #[inline]
    pub fn timestamp_of<'a>(&self, key: UserKey<'a>) -> &'a [u8] {
        &key.as_bytes()[self.without_timestamp(key).len()..]
    }

    /// The order of keys that have lost their timestamps, which has none.
    pub fn without_timestamps(&self) -> Comparator {
        match self {
            Comparator::Custom(c) if c.timestamp_size() > 0 => timestamped::bare(c),
            plain => plain.clone(),
        }
    }

    /// The order of internal keys, each taken for a user key, so that every version is a key.
    pub fn of_versions(&self) -> Comparator {
        timestamped::versions(self)
    }

    /// Three-way comparison of user keys, whatever their timestamps.
    #[inline]
    pub fn compare_without_timestamp(&self, a: UserKey<'_>, b: UserKey<'_>) -> Ordering {
        match self {
            Comparator::Bytewise => a.as_bytes().cmp(b.as_bytes()),
            Comparator::ReverseBytewise => b.as_bytes().cmp(a.as_bytes()),
            Comparator::Custom(c) if c.timestamp_size() == 0 => {
                c.compare(a.as_bytes(), b.as_bytes())
            }
            Comparator::Custom(c) => {
                let (a, b) = (timestamped::without(&**c, a), timestamped::without(&**c, b));
                c.compare_without_timestamp(a.as_bytes(), b.as_bytes())
            }
        }
    }

    /// Three-way comparison of two timestamps, the older one first; equal if there are none.
    pub fn compare_timestamp(&self, a: &[u8], b: &[u8]) -> Ordering {
        match self {
            Comparator::Bytewise | Comparator::ReverseBytewise => Ordering::Equal,
            Comparator::Custom(c) => c.compare_timestamp(a, b),
        }
    }

    /// A timestamp as messages show it.
    pub fn timestamp_to_string(&self, timestamp: &[u8]) -> String {
        match self {
            Comparator::Bytewise | Comparator::ReverseBytewise => String::new(),
            Comparator::Custom(c) => c.timestamp_to_string(timestamp),
        }
    }

    /// `key` at the newest timestamp that there can be: before all versions of it.
    pub fn at_newest(&self, key: &[u8]) -> Vec<u8> {
        let mut key = key.to_vec();
        key.resize(key.len() + self.timestamp_size(), 0xff);
        key
    }

    /// `key` at the oldest timestamp that there can be: at or after all versions of it.
    pub fn at_oldest(&self, key: &[u8]) -> Vec<u8> {
        let mut key = key.to_vec();
        key.resize(key.len() + self.timestamp_size(), 0);
        key
    }

    /// Three-way comparison of user keys, with their timestamps.
    #[inline]
    pub fn compare(&self, a: UserKey<'_>, b: UserKey<'_>) -> Ordering {
        let (a, b) = (a.as_bytes(), b.as_bytes());
        match self {
            Comparator::Bytewise => a.cmp(b),
            Comparator::ReverseBytewise => b.cmp(a),
            Comparator::Custom(c) => c.compare(a, b),
        }
    }

    /// The two are one key of the user, written at whatever timestamps.
    #[inline]
    pub fn same_user_key(&self, a: UserKey<'_>, b: UserKey<'_>) -> bool {
        match self {
            Comparator::Bytewise | Comparator::ReverseBytewise => a.as_bytes() == b.as_bytes(),
            Comparator::Custom(c) => same_user_key(&**c, a, b),
        }
    }

    /// The two prefixes, which have no timestamps, are the same one.
    pub fn same_prefix(&self, a: &[u8], b: &[u8]) -> bool {
        match self {
            Comparator::Bytewise | Comparator::ReverseBytewise => a == b,
            Comparator::Custom(c) if c.timestamp_size() == 0 => c.compare(a, b).is_eq(),
            Comparator::Custom(c) => c.compare_without_timestamp(a, b).is_eq(),
        }
    }

    /// The two are one key of the user at one timestamp: entries that differ in nothing but
    /// their sequence number and type.
    #[inline]
    pub fn same_entry_key(&self, a: UserKey<'_>, b: UserKey<'_>) -> bool {
        match self {
            Comparator::Bytewise | Comparator::ReverseBytewise => a.as_bytes() == b.as_bytes(),
            Comparator::Custom(c) => c.compare(a.as_bytes(), b.as_bytes()).is_eq(),
        }
    }

    /// Shortens `start` to some key in `[start, limit)` if possible
    /// (docs/format/primitives.md#comparators).
    pub fn find_shortest_separator(&self, start: &mut Vec<u8>, limit: UserKey<'_>) {
        let limit = limit.as_bytes();
        match self {
            Comparator::Bytewise => bytewise_separator(start, limit),
            Comparator::ReverseBytewise => reverse_separator(start, limit),
            Comparator::Custom(c) => c.find_shortest_separator(start, limit),
        }
    }

    /// Shortens `key` to some key at or after it if it can.
    pub fn find_short_successor(&self, key: &mut Vec<u8>) {
        match self {
            Comparator::Bytewise => {
                if let Some(i) = key.iter().position(|&b| b != 0xff) {
                    key[i] += 1;
                    key.truncate(i + 1);
                }
            }
            Comparator::ReverseBytewise => {}
            Comparator::Custom(c) => c.find_short_successor(key),
        }
    }
}

/// [`Comparator::same_user_key`] of a custom order.
pub fn same_user_key(order: &dyn CustomComparator, a: UserKey<'_>, b: UserKey<'_>) -> bool {
    if order.compare(a.as_bytes(), b.as_bytes()).is_eq() {
        return true;
    }
    if order.timestamp_size() == 0 {
        return false;
    }
    let (a, b) = (timestamped::without(order, a), timestamped::without(order, b));
    order.compare_without_timestamp(a.as_bytes(), b.as_bytes()).is_eq()
}

fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(x, y)| x == y).count()
}

fn bytewise_separator(start: &mut Vec<u8>, limit: &[u8]) {
    let d = common_prefix(start, limit);
    if d >= start.len() || d >= limit.len() || start[d] >= limit[d] {
        return;
    }
    if d + 1 < limit.len() || start[d] + 1 < limit[d] {
        start[d] += 1;
        start.truncate(d + 1);
    } else if let Some(i) = (d + 1..start.len()).find(|&i| start[i] < 0xff) {
        start[i] += 1;
        start.truncate(i + 1);
    }
}

/// In reverse order a separator must sort at or after `start`, so a prefix of it will do.
fn reverse_separator(start: &mut Vec<u8>, limit: &[u8]) {
    let d = common_prefix(start, limit);
    if d >= start.len() || d >= limit.len() {
        return;
    }
    if start[d] > limit[d] && d + 1 < start.len() {
        start.truncate(d + 1);
    }
}

impl fmt::Debug for Comparator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names() {
        for cmp in [Comparator::Bytewise, Comparator::ReverseBytewise] {
            let found = Comparator::builtin(cmp.name()).unwrap();
            assert_eq!(format!("{found:?}"), cmp.name());
            assert_eq!(found.is_bytewise(), cmp.is_bytewise());
        }
        assert!(Comparator::builtin("rocksdb.Other").is_none());
        assert!(Comparator::default().is_bytewise());
    }

    #[test]
    fn bytewise_shortening() {
        let separator = |start: &[u8], limit: &[u8]| {
            let mut key = start.to_vec();
            Comparator::Bytewise.find_shortest_separator(&mut key, UserKey::new(limit));
            key
        };
        assert_eq!(separator(b"abcdef", b"abzz"), b"abd");
        assert_eq!(separator(b"abc", b"abcd"), b"abc");
        assert_eq!(separator(b"abcd", b"abc"), b"abcd");
        assert_eq!(separator(b"ab1xx", b"ab2"), b"ab1y");
        assert_eq!(separator(b"ab1\xff\xffz1", b"ab2"), b"ab1\xff\xff{");
        assert_eq!(separator(b"ab1\xff", b"ab2"), b"ab1\xff");
        assert_eq!(separator(b"ab1xx", b"ab2y"), b"ab2");
        let successor = |key: &[u8]| {
            let mut key = key.to_vec();
            Comparator::Bytewise.find_short_successor(&mut key);
            key
        };
        assert_eq!(successor(b"abc"), b"b");
        assert_eq!(successor(b"\xff\xffabc"), b"\xff\xffb");
        assert_eq!(successor(b"\xff\xff"), b"\xff\xff");
    }

    /// Keys that share prefixes and border on 0xff.
    fn key() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(prop::sample::select(vec![0u8, 1, 2, 0x7f, 0xfe, 0xff]), 0..6)
    }

    /// One byte of timestamp at the end, newest first.
    struct Stamped;
    impl CustomComparator for Stamped {
        fn name(&self) -> &str {
            "stamped"
        }
        fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
            let ((a_stamp, a), (b_stamp, b)) = (a.split_last().unwrap(), b.split_last().unwrap());
            a.cmp(b).then(b_stamp.cmp(a_stamp))
        }
        fn timestamp_size(&self) -> usize {
            1
        }
        fn compare_without_timestamp(&self, a: &[u8], b: &[u8]) -> Ordering {
            a.cmp(b)
        }
    }

    #[test]
    fn a_key_with_timestamps_is_one_key_and_several_entries() {
        let cmp = Comparator::Custom(Arc::new(Stamped));
        let (old, new, other) = (UserKey::new(b"k1"), UserKey::new(b"k2"), UserKey::new(b"l1"));
        assert_eq!(cmp.compare(new, old), Ordering::Less);
        assert!(cmp.same_user_key(old, new) && !cmp.same_user_key(old, other));
        assert!(cmp.same_entry_key(old, old) && !cmp.same_entry_key(old, new));
        assert_eq!(cmp.without_timestamp(new).as_bytes(), b"k");
        assert!(cmp.without_timestamp(UserKey::new(b"")).is_empty());
        for plain in [Comparator::Bytewise, Comparator::ReverseBytewise] {
            assert_eq!(plain.timestamp_size(), 0);
            assert!(!plain.same_user_key(old, new));
            assert_eq!(plain.without_timestamp(new).as_bytes(), b"k2");
        }
    }

    proptest! {
        #[test]
        fn shortened_keys_stay_in_their_interval(a in key(), b in key()) {
            for cmp in [Comparator::Bytewise, Comparator::ReverseBytewise] {
                let order = |a: &[u8], b: &[u8]| cmp.compare(UserKey::new(a), UserKey::new(b));
                let (start, limit) = if order(&a, &b).is_lt() { (&a, &b) } else { (&b, &a) };
                let mut separator = start.clone();
                cmp.find_shortest_separator(&mut separator, UserKey::new(limit));
                prop_assert!(separator.len() <= start.len());
                prop_assert!(order(start, &separator).is_le());
                prop_assert!(start == limit || order(&separator, limit).is_lt());
                let mut successor = a.clone();
                cmp.find_short_successor(&mut successor);
                prop_assert!(successor.len() <= a.len() && order(&a, &successor).is_le());
                let (x, y) = (UserKey::new(&a), UserKey::new(&b));
                prop_assert_eq!(cmp.same_entry_key(x, y), order(&a, &b).is_eq());
                prop_assert_eq!(cmp.same_user_key(x, y), order(&a, &b).is_eq());
            }
        }
    }
}
