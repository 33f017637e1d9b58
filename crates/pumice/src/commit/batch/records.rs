//! The records of a batch, one by one.
//!
//! Thread safety: plain data. Malformed bytes are an error and end the iteration.

use pumice_base::coding::Decoder;
use pumice_base::{Error, Result, ValueType};

use super::HEADER_LEN;

/// RocksDB's text for a record of an unknown kind.
const UNKNOWN_TAG: &str = "unknown WriteBatch tag";

/// One decoded record of a batch.
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// use pumice::{BatchIter, BatchRecord, WriteBatch};
/// let mut batch = WriteBatch::new();
/// batch.put("a", "1");
/// batch.delete("b");
/// let records: BatchIter<'_> = batch.iter();
/// let mut keys = Vec::new();
/// for record in records {
///     if let BatchRecord::Entry { key, .. } = record? {
///         keys.push(key);
///     }
/// }
/// assert_eq!(keys, [b"a", b"b"]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchRecord<'a> {
    /// A keyed update: `value_type` is one of Value, Merge, Deletion, SingleDeletion,
    /// RangeDeletion (value is the exclusive end), BlobIndex, WideColumnEntity.
    Entry {
        /// Column family id.
        column_family: u32,
        /// The operation.
        value_type: ValueType,
        /// Key, or begin of a range.
        key: &'a [u8],
        /// Value, operand, or end of a range; empty for deletions.
        value: &'a [u8],
    },
    /// An annotation that is logged and consumes no sequence number.
    LogData(&'a [u8]),
    /// A transaction marker (prepare, commit, rollback, noop), by its tag.
    Marker(ValueType, &'a [u8]),
}

/// The records of wire form `rep`.
pub(crate) fn records(rep: &[u8]) -> BatchIter<'_> {
    BatchIter { input: Decoder::new(rep.get(HEADER_LEN..).unwrap_or(&[])) }
}

/// The record of wire form `rep` that begins at byte `place`.
///
/// # Errors
/// Corruption if there is none.
pub(crate) fn record_at(rep: &[u8], place: usize) -> Result<BatchRecord<'_>> {
    let mut from = BatchIter { input: Decoder::new(rep.get(place..).unwrap_or_default()) };
    from.next().unwrap_or_else(|| Err(Error::corruption("malformed WriteBatch (too small)")))
}

/// Iterator over the records of a batch; fused after an error.
///
/// Example: that of [`BatchRecord`](crate::BatchRecord).
#[derive(Clone, Debug)]
pub struct BatchIter<'a> {
    input: Decoder<'a>,
}

impl<'a> BatchIter<'a> {
    /// The records not returned yet.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.input.rest()
    }

    #[inline]
    fn entry(&mut self, with_cf: bool, vt: ValueType) -> Option<BatchRecord<'a>> {
        let column_family = if with_cf { self.input.varint32()? } else { 0 };
        let key = self.input.length_prefixed()?;
        let value = match vt {
            ValueType::Deletion | ValueType::SingleDeletion => &[][..],
            _ => self.input.length_prefixed()?,
        };
        Some(BatchRecord::Entry { column_family, value_type: vt, key, value })
    }

    #[inline]
    fn decode(&mut self, tag: ValueType) -> Option<BatchRecord<'a>> {
        use ValueType as T;
        match tag {
            T::Value | T::Merge | T::Deletion | T::SingleDeletion | T::RangeDeletion => {
                self.entry(false, tag)
            }
            T::BlobIndex | T::WideColumnEntity | T::ValuePreferredSeqno => self.entry(false, tag),
            T::ColumnFamilyValue => self.entry(true, T::Value),
            T::ColumnFamilyMerge => self.entry(true, T::Merge),
            T::ColumnFamilyDeletion => self.entry(true, T::Deletion),
            T::ColumnFamilySingleDeletion => self.entry(true, T::SingleDeletion),
            T::ColumnFamilyRangeDeletion => self.entry(true, T::RangeDeletion),
            T::ColumnFamilyBlobIndex => self.entry(true, T::BlobIndex),
            T::ColumnFamilyWideColumnEntity => self.entry(true, T::WideColumnEntity),
            T::ColumnFamilyValuePreferredSeqno => self.entry(true, T::ValuePreferredSeqno),
            T::LogData => Some(BatchRecord::LogData(self.input.length_prefixed()?)),
            T::Noop | T::BeginPrepareXid | T::BeginPersistedPrepareXid | T::BeginUnprepareXid => {
                Some(BatchRecord::Marker(tag, &[]))
            }
            T::EndPrepareXid | T::CommitXid | T::RollbackXid => {
                Some(BatchRecord::Marker(tag, self.input.length_prefixed()?))
            }
            T::CommitXidAndTimestamp => {
                self.input.length_prefixed()?;
                Some(BatchRecord::Marker(tag, self.input.length_prefixed()?))
            }
            T::DeletionWithTimestamp | T::MaxValid => None,
        }
    }
}

impl<'a> Iterator for BatchIter<'a> {
    type Item = Result<BatchRecord<'a>>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let tag = self.input.u8()?;
        let kind = ValueType::from_u8(tag);
        match kind.and_then(|kind| self.decode(kind)) {
            Some(record) => Some(Ok(record)),
            None => {
                self.input = Decoder::new(&[]);
                let what = if kind.is_some() { "bad WriteBatch record, tag" } else { UNKNOWN_TAG };
                Some(Err(Error::corruption(format!("{what} {tag:#x}"))))
            }
        }
    }

    /// Tells only whether there is another record.
    fn size_hint(&self) -> (usize, Option<usize>) {
        if self.input.is_empty() { (0, Some(0)) } else { (1, None) }
    }
}
