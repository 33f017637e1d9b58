//! The order of internal keys.

use std::cmp::Ordering;

use super::numbers::{MAX_SEQUENCE, VALUE_TYPE_FOR_SEEK};
use super::{Comparator, InternalKey, UserKey, pack};

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

    /// Three-way comparison. Panics if a key is shorter than 8 bytes.
    #[inline]
    pub fn compare(&self, a: InternalKey<'_>, b: InternalKey<'_>) -> Ordering {
        match self.user.compare(a.user_key(), b.user_key()) {
            Ordering::Equal => b.trailer().cmp(&a.trailer()),
            other => other,
        }
    }

    /// The two have the same user key and timestamp: they are versions of one entry.
    #[inline]
    pub fn same_entry_key(&self, a: InternalKey<'_>, b: InternalKey<'_>) -> bool {
        self.user.same_entry_key(a.user_key(), b.user_key())
    }

    /// Shortens internal key `start` to a key in `[start, limit)` (docs/format/table.md#index).
    pub fn find_shortest_separator(&self, start: &mut Vec<u8>, limit: InternalKey<'_>) {
        let own = InternalKey::new(start).user_key();
        let mut candidate = own.to_vec();
        self.user.find_shortest_separator(&mut candidate, limit.user_key());
        if candidate.len() <= own.len()
            && self.user.compare(own, UserKey::new(&candidate)) == Ordering::Less
        {
            candidate.extend_from_slice(&pack(MAX_SEQUENCE, VALUE_TYPE_FOR_SEEK).to_le_bytes());
            *start = candidate;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ValueType;
    use super::super::{internal_key, seek_key};
    use super::*;
    use proptest::prelude::*;

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
                assert_eq!(
                    cmp.compare(InternalKey::new(a), InternalKey::new(b)),
                    i.cmp(&j),
                    "{i} {j}"
                );
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
                let order =
                    |a: &[u8], b: &[u8]| cmp.compare(InternalKey::new(a), InternalKey::new(b));
                let (start, limit) = if order(&a, &b).is_lt() { (a, b) } else { (b, a) };
                let mut separator = start.clone();
                cmp.find_shortest_separator(&mut separator, InternalKey::new(&limit));
                prop_assert!(order(&start, &separator).is_le());
                prop_assert!(start == limit || order(&separator, &limit).is_lt());
            }
        }
    }
}
