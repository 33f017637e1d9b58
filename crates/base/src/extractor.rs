//! Prefix extractors as tables and memtables use them: the built-in ones without a virtual call.
//!
//! Immutable and shared. A name identifies an extractor wherever it is persisted, so one with a
//! built-in name is treated as the built-in one.

use std::sync::Arc;

use crate::Comparator;
use crate::extension::SliceTransform;

/// Maps user keys to prefixes.
#[derive(Clone)]
pub enum Extractor {
    /// The first bytes of keys that are long enough.
    Fixed(usize),
    /// At most this many first bytes of every key.
    Capped(usize),
    /// The whole of every key.
    Noop,
    /// A user's extractor.
    Other(Arc<dyn SliceTransform>),
}

impl Extractor {
    /// The form of `extractor`.
    pub fn new(extractor: &Arc<dyn SliceTransform>) -> Self {
        Self::by_name(&extractor.name()).unwrap_or_else(|| Extractor::Other(Arc::clone(extractor)))
    }

    /// The built-in extractor of a persisted name.
    pub fn by_name(name: &str) -> Option<Self> {
        if name == "rocksdb.Noop" {
            return Some(Extractor::Noop);
        }
        if let Some(n) = name.strip_prefix("rocksdb.FixedPrefix.") {
            return n.parse().ok().map(Extractor::Fixed);
        }
        name.strip_prefix("rocksdb.CappedPrefix.")?.parse().ok().map(Extractor::Capped)
    }

    /// The prefix of a user key, `None` for keys outside of the domain.
    #[inline]
    pub fn prefix<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        match self {
            Extractor::Fixed(n) => key.get(..*n),
            Extractor::Capped(n) => Some(&key[..key.len().min(*n)]),
            Extractor::Noop => Some(key),
            Extractor::Other(other) if other.in_domain(key) => Some(other.transform(key)),
            Extractor::Other(_) => None,
        }
    }

    /// Whether the two map keys alike, judged by their names.
    pub fn is_same(&self, other: &Extractor) -> bool {
        match (self, other) {
            (Extractor::Fixed(a), Extractor::Fixed(b)) => a == b,
            (Extractor::Capped(a), Extractor::Capped(b)) => a == b,
            (Extractor::Noop, Extractor::Noop) => true,
            (Extractor::Other(a), Extractor::Other(b)) => Arc::ptr_eq(a, b) || a.name() == b.name(),
            _ => false,
        }
    }

    /// Whether every key in `[key, upper)` certainly has the prefix of `key`, which is `prefix`:
    /// `upper` has it too, or is the first key after all that have it
    /// (docs/format/filter.md#prefixes).
    ///
    /// RocksDB also takes `b\0` for the first key after those that begin with `a\xff`. It is not:
    /// `b` sorts before it.
    pub fn range_shares_prefix(&self, prefix: &[u8], upper: &[u8], order: &Comparator) -> bool {
        let Some(upper_prefix) = self.prefix(upper) else { return false };
        if order.same_prefix(prefix, upper_prefix) {
            return true;
        }
        let full_len = match self {
            Extractor::Fixed(n) | Extractor::Capped(n) => *n,
            Extractor::Noop | Extractor::Other(_) => return false,
        };
        let next = match (prefix.split_last(), upper.split_last()) {
            (Some((a, head)), Some((b, upper_head))) => {
                head == upper_head && a.checked_add(1) == Some(*b)
            }
            _ => false,
        };
        next && upper.len() == full_len && order.is_bytewise()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extension::FixedPrefix;

    #[test]
    fn names_and_prefixes() {
        let keys: [&[u8]; 4] = [b"", b"ab", b"abc", b"abcd"];
        let cases = [
            ("rocksdb.FixedPrefix.3", [None, None, Some(3), Some(3)]),
            ("rocksdb.CappedPrefix.3", [Some(0), Some(2), Some(3), Some(3)]),
            ("rocksdb.Noop", [Some(0), Some(2), Some(3), Some(4)]),
        ];
        for (name, want) in cases {
            let extractor = Extractor::by_name(name).expect("a built-in name");
            let got = keys.map(|key| extractor.prefix(key).map(<[u8]>::len));
            assert_eq!(got, want, "{name}");
        }
        for name in ["nullptr", "", "rocksdb.FixedPrefix.x", "rocksdb.FixedPrefix", "mine"] {
            assert!(Extractor::by_name(name).is_none(), "{name}");
        }
        let fixed: Arc<dyn SliceTransform> = Arc::new(FixedPrefix(2));
        assert!(matches!(Extractor::new(&fixed), Extractor::Fixed(2)));
        let all = [Extractor::Fixed(2), Extractor::Fixed(3), Extractor::Capped(2)];
        let all = [&all[..], &[Extractor::Noop, Extractor::Other(fixed)]].concat();
        for (i, a) in all.iter().enumerate() {
            assert!(all.iter().enumerate().all(|(j, b)| a.is_same(b) == (i == j)));
        }
    }

    #[test]
    fn ranges_within_a_prefix() {
        let order = Comparator::Bytewise;
        let fixed = Extractor::Fixed(2);
        let shares = |upper: &[u8]| fixed.range_shares_prefix(b"ab", upper, &order);
        assert!(shares(b"ab") && shares(b"abz") && shares(b"ac"));
        assert!(!shares(b"ad") && !shares(b"ac\0") && !shares(b"b") && !shares(b"bb"));
        assert!(fixed.range_shares_prefix(b"a\xfe", b"a\xff", &order));
        assert!(!fixed.range_shares_prefix(b"a\xff", b"b\0", &order));
        assert!(!fixed.range_shares_prefix(b"ab", b"ac", &Comparator::ReverseBytewise));
        let capped = Extractor::Capped(2);
        assert!(capped.range_shares_prefix(b"ab", b"ac", &order));
        assert!(!capped.range_shares_prefix(b"a", b"b", &order));
        assert!(!Extractor::Noop.range_shares_prefix(b"ab", b"ac", &order));
    }
}
