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

/// A user-supplied key order.
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
    /// May shorten `start` to any key in `[start, limit)`. The default does nothing.
    fn find_shortest_separator(&self, _start: &mut Vec<u8>, _limit: &[u8]) {}
    /// May shorten `key` to any key `>= key`. The default does nothing.
    fn find_short_successor(&self, _key: &mut Vec<u8>) {}
}

/// The order of user keys in a column family.
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
            _ => None,
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

    /// Three-way comparison of user keys.
    #[inline]
    pub fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        match self {
            Comparator::Bytewise => a.cmp(b),
            Comparator::ReverseBytewise => b.cmp(a),
            Comparator::Custom(c) => c.compare(a, b),
        }
    }

    /// The two keys are the same key.
    #[inline]
    pub fn equal(&self, a: &[u8], b: &[u8]) -> bool {
        match self {
            Comparator::Bytewise | Comparator::ReverseBytewise => a == b,
            Comparator::Custom(c) => c.compare(a, b) == Ordering::Equal,
        }
    }

    /// Shortens `start` to some key in `[start, limit)` if possible
    /// (docs/format/primitives.md#comparators).
    pub fn find_shortest_separator(&self, start: &mut Vec<u8>, limit: &[u8]) {
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
            Comparator::Bytewise.find_shortest_separator(&mut key, limit);
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

    proptest! {
        #[test]
        fn shortened_keys_stay_in_their_interval(a in key(), b in key()) {
            for cmp in [Comparator::Bytewise, Comparator::ReverseBytewise] {
                let (start, limit) = if cmp.compare(&a, &b).is_lt() { (&a, &b) } else { (&b, &a) };
                let mut separator = start.clone();
                cmp.find_shortest_separator(&mut separator, limit);
                prop_assert!(separator.len() <= start.len());
                prop_assert!(cmp.compare(start, &separator).is_le());
                prop_assert!(start == limit || cmp.compare(&separator, limit).is_lt());
                let mut successor = a.clone();
                cmp.find_short_successor(&mut successor);
                prop_assert!(successor.len() <= a.len() && cmp.compare(&a, &successor).is_le());
                prop_assert_eq!(cmp.equal(&a, &b), cmp.compare(&a, &b).is_eq());
            }
        }
    }
}
