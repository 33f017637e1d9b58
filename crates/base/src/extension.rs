//! Traits that users implement: merge operators, compaction filters, prefix extractors.
//!
//! Thread safety: implementations are called from any thread at once and must be `Sync`; calls
//! must not re-enter the database. A panic in one is caught at the job's root and becomes a
//! background error.

use std::sync::Arc;

use crate::wide_columns::WideColumn;

/// Combines operands of `merge` writes with the value below them.
///
/// ```
/// # use pumice_base::extension::{MergeOperator, OpFailureScope};
/// /// Numbers are added.
/// struct Sum;
///
/// impl MergeOperator for Sum {
///     fn name(&self) -> &str {
///         "sum"
///     }
///     fn full_merge(
///         &self,
///         _key: &[u8],
///         existing: Option<&[u8]>,
///         operands: &[&[u8]],
///     ) -> Option<Vec<u8>> {
///         let number = |bytes: &[u8]| Some(u64::from_be_bytes(bytes.try_into().ok()?));
///         let numbers = existing.into_iter().chain(operands.iter().copied()).map(number);
///         Some(numbers.sum::<Option<u64>>()?.to_be_bytes().to_vec())
///     }
///     // What is no number stops reads of its key, and nothing else.
///     fn op_failure_scope(&self, _key: &[u8]) -> OpFailureScope {
///         OpFailureScope::MustMerge
///     }
/// }
///
/// let (two, three) = (2u64.to_be_bytes(), 3u64.to_be_bytes());
/// assert_eq!(Sum.full_merge(b"key", Some(&two), &[&three]), Some(5u64.to_be_bytes().to_vec()));
/// assert_eq!(Sum.full_merge(b"key", None, &[b"five"]), None);
/// ```
pub trait MergeOperator: Send + Sync {
    /// Persisted name, informational.
    fn name(&self) -> &str;
    /// How OPTIONS files write it: its name, or `{id=NAME;parameter=value;}` with its parameters.
    fn option_text(&self) -> String {
        self.name().to_string()
    }
    /// The new value of `key` from `existing` (None: absent) and `operands`, oldest first. `None`
    /// fails with Corruption what [`MergeOperator::op_failure_scope`] says. For an entity it gets
    /// the default column, empty if there is none, and returns its new value; other columns stay.
    fn full_merge(
        &self,
        key: &[u8],
        existing: Option<&[u8]>,
        operands: &[&[u8]],
    ) -> Option<Vec<u8>>;
    /// Combines two adjacent operands, `left` the older; `None` keeps both.
    fn partial_merge(&self, _key: &[u8], _left: &[u8], _right: &[u8]) -> Option<Vec<u8>> {
        None
    }
    /// Combines two or more adjacent operands, oldest first; `None` keeps them all. By default two
    /// at a time.
    fn partial_merge_multi(&self, key: &[u8], operands: &[&[u8]]) -> Option<Vec<u8>> {
        let (first, rest) = operands.split_first()?;
        let mut merged = first.to_vec();
        for right in rest {
            merged = self.partial_merge(key, &merged, right)?;
        }
        Some(merged)
    }
    /// What a `full_merge` of `key` that has just returned `None` concerns.
    fn op_failure_scope(&self, _key: &[u8]) -> OpFailureScope {
        OpFailureScope::Default
    }
}

/// What fails when operands cannot be merged, as RocksDB's `MergeOperator::OpFailureScope`.
///
/// Example: that of [`MergeOperator`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OpFailureScope {
    /// Of an operator: what the column family's `merge_operator_failure_scope` says. Of that
    /// option: `TryMerge`.
    #[default]
    Default,
    /// All that tries to merge the key: reads of it, and flushes, compactions and an open that
    /// finds its operands in a log, which stops all writes.
    TryMerge,
    /// What must merge the key: reads of it. All else keeps its operands as they are, so that the
    /// key can still be written, deleted, or merged by another operator.
    MustMerge,
}

/// What a compaction filter decides about an entry.
///
/// Example: that of [`CompactionFilter`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilterDecision {
    /// Keep the entry.
    Keep,
    /// Drop the entry (turned into a tombstone where older versions may exist).
    Remove,
    /// Replace the value. An entity becomes a plain value.
    ChangeValue(Vec<u8>),
    /// Put an entity with these columns, names and values in any order, in its place. Two with one
    /// name fail the compaction.
    ChangeWideColumnEntity(Vec<(Vec<u8>, Vec<u8>)>),
}

/// Drops or rewrites entries while they are compacted.
///
/// ```
/// # use pumice_base::extension::{CompactionFilter, FilterDecision};
/// /// Drops what is empty.
/// struct NoEmptyValues;
///
/// impl CompactionFilter for NoEmptyValues {
///     fn name(&self) -> &str {
///         "no empty values"
///     }
///     fn filter(&self, _level: i32, _key: &[u8], value: &[u8]) -> FilterDecision {
///         if value.is_empty() { FilterDecision::Remove } else { FilterDecision::Keep }
///     }
/// }
///
/// assert_eq!(NoEmptyValues.filter(1, b"key", b""), FilterDecision::Remove);
/// ```
pub trait CompactionFilter: Send + Sync {
    /// Name, for the info log.
    fn name(&self) -> &str;
    /// Decides about the newest version of `key`; never called for versions that a snapshot of the
    /// time when the job began needs. One that is taken later keeps the tables of its time, so it
    /// sees what was there, whatever is decided.
    fn filter(&self, level: i32, key: &[u8], value: &[u8]) -> FilterDecision;
    /// As `filter`, about an entity; its columns come by name ascending. Entities are kept if it is
    /// not implemented, as by RocksDB's `FilterV3`.
    fn filter_entity(
        &self,
        _level: i32,
        _key: &[u8],
        _columns: &[WideColumn<'_>],
    ) -> FilterDecision {
        FilterDecision::Keep
    }
    /// As `filter`, about a value that is in a blob file and was not read: None reads it and asks
    /// `filter`, as for all others. Not asked about columns of entities, which are read first.
    fn filter_blob_by_key(&self, _level: i32, _key: &[u8]) -> Option<FilterDecision> {
        None
    }
    /// Decides about a merge operand; true removes it. Called for each operand that no snapshot
    /// needs, the newest of a key first, before operands are combined with each other or with a
    /// value; `filter` is called for a value whose operands were all removed, and not for the
    /// result of a merge. Never called for entries hidden by a newer value, a deletion or a range
    /// deletion.
    fn filter_merge_operand(&self, _level: i32, _key: &[u8], _operand: &[u8]) -> bool {
        false
    }
}

/// Maps a key to the prefix that prefix filters and prefix iteration use.
///
/// ```
/// # use pumice_base::extension::{CappedPrefix, FixedPrefix, NoopPrefix, SliceTransform};
/// /// What is before the first colon.
/// struct UntilColon;
///
/// impl SliceTransform for UntilColon {
///     fn name(&self) -> String {
///         "until colon".to_string()
///     }
///     fn in_domain(&self, key: &[u8]) -> bool {
///         key.contains(&b':')
///     }
///     fn transform<'a>(&self, key: &'a [u8]) -> &'a [u8] {
///         key.split(|byte| *byte == b':').next().unwrap_or_default()
///     }
/// }
///
/// assert_eq!(UntilColon.transform(b"user:17"), b"user");
/// // Those that are there already.
/// assert_eq!(FixedPrefix(4).transform(b"user:17"), b"user");
/// assert!(!FixedPrefix(4).in_domain(b"abc") && CappedPrefix(4).in_domain(b"abc"));
/// assert_eq!(NoopPrefix.transform(b"user:17"), b"user:17");
/// ```
pub trait SliceTransform: Send + Sync {
    /// Persisted name, for instance `rocksdb.FixedPrefix.8`.
    fn name(&self) -> String;
    /// The key has a prefix.
    fn in_domain(&self, key: &[u8]) -> bool;
    /// The prefix of a key in the domain.
    fn transform<'a>(&self, key: &'a [u8]) -> &'a [u8];
}

/// `rocksdb.FixedPrefix.N`: the first N bytes of keys that have them.
///
/// Example: that of [`SliceTransform`].
#[derive(Clone, Copy, Debug)]
pub struct FixedPrefix(pub usize);

impl SliceTransform for FixedPrefix {
    fn name(&self) -> String {
        format!("rocksdb.FixedPrefix.{}", self.0)
    }
    fn in_domain(&self, key: &[u8]) -> bool {
        key.len() >= self.0
    }
    fn transform<'a>(&self, key: &'a [u8]) -> &'a [u8] {
        &key[..self.0]
    }
}

/// `rocksdb.CappedPrefix.N`: at most the first N bytes of every key.
///
/// Example: that of [`SliceTransform`].
#[derive(Clone, Copy, Debug)]
pub struct CappedPrefix(pub usize);

impl SliceTransform for CappedPrefix {
    fn name(&self) -> String {
        format!("rocksdb.CappedPrefix.{}", self.0)
    }
    fn in_domain(&self, _key: &[u8]) -> bool {
        true
    }
    fn transform<'a>(&self, key: &'a [u8]) -> &'a [u8] {
        &key[..key.len().min(self.0)]
    }
}

/// `rocksdb.Noop`: every key is its own prefix.
///
/// Example: that of [`SliceTransform`].
#[derive(Clone, Copy, Debug)]
pub struct NoopPrefix;

impl SliceTransform for NoopPrefix {
    fn name(&self) -> String {
        "rocksdb.Noop".to_string()
    }
    fn in_domain(&self, _key: &[u8]) -> bool {
        true
    }
    fn transform<'a>(&self, key: &'a [u8]) -> &'a [u8] {
        key
    }
}

/// The built-in prefix extractor of that persisted name.
pub fn builtin_slice_transform(name: &str) -> Option<Arc<dyn SliceTransform>> {
    if name == "rocksdb.Noop" {
        return Some(Arc::new(NoopPrefix));
    }
    if let Some(n) = name.strip_prefix("rocksdb.FixedPrefix.") {
        return Some(Arc::new(FixedPrefix(n.parse().ok()?)));
    }
    let n = name.strip_prefix("rocksdb.CappedPrefix.")?;
    Some(Arc::new(CappedPrefix(n.parse().ok()?)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn builtin_extractors() {
        let fixed = builtin_slice_transform("rocksdb.FixedPrefix.3").unwrap();
        assert_eq!(fixed.name(), "rocksdb.FixedPrefix.3");
        assert!(fixed.in_domain(b"abc") && !fixed.in_domain(b"ab"));
        assert_eq!(fixed.transform(b"abcd"), b"abc");
        let capped = builtin_slice_transform("rocksdb.CappedPrefix.3").unwrap();
        assert_eq!(capped.name(), "rocksdb.CappedPrefix.3");
        assert!(capped.in_domain(b""));
        assert_eq!((capped.transform(b"ab"), capped.transform(b"abcd")), (&b"ab"[..], &b"abc"[..]));
        let noop = builtin_slice_transform("rocksdb.Noop").unwrap();
        assert_eq!((noop.name().as_str(), noop.transform(b"abc")), ("rocksdb.Noop", &b"abc"[..]));
        assert!(noop.in_domain(b""));
        for other in ["rocksdb.FixedPrefix", "rocksdb.FixedPrefix.x", "rocksdb.Noop.1"] {
            assert!(builtin_slice_transform(other).is_none(), "{other}");
        }
    }
}
