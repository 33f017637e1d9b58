//! Batches as they are in logs, including those of RocksDB's transactions, and in place of bytes
//! that are none.
//!
//! Thread safety: plain functions.

use super::stamps::Stamps;
use super::{BatchRecord, HEADER_LEN, WriteBatch, check, check_record, records};
use pumice_base::{Error, Result, SizeLimits, ValueType};

impl WriteBatch {
    /// The batch in a log record. One with markers of transactions can be read; `status` says why
    /// it cannot be written.
    ///
    /// # Errors
    /// Corruption if it is too short, a record is malformed or the count is wrong.
    pub fn from_log(record: Vec<u8>) -> Result<Self> {
        check(&record)?;
        let record = without_section_ends(&record)?.unwrap_or(record);
        let limits = SizeLimits::FORMAT;
        let mut batch = Self::from_parts(record, limits);
        let mut stamps = Stamps::default();
        let (mut range_bytes, mut refused) = (0, limits.check_batch(batch.rep.len(), 0).err());
        for record in records(&batch.rep) {
            let record = record?;
            stamps.add_record(&record);
            match check_record(&record, limits) {
                Ok(bytes) => range_bytes += bytes,
                Err(error) => drop(refused.get_or_insert(error)),
            }
        }
        batch.stamps = stamps;
        (batch.range_bytes, batch.refused) = (range_bytes, refused);
        Ok(batch)
    }

    /// The wire form of the records whose column family `wanted` accepts.
    pub(crate) fn filtered(&self, wanted: impl Fn(u32) -> bool) -> Result<Vec<u8>> {
        let mut kept = WriteBatch::with_limits(self.limits);
        let mut from = HEADER_LEN;
        let mut records = self.iter();
        while let Some(record) = records.next() {
            let to = self.rep.len() - records.rest().len();
            let counts = match record? {
                BatchRecord::Entry { column_family, .. } if !wanted(column_family) => {
                    from = to;
                    continue;
                }
                record => matches!(record, BatchRecord::Entry { .. }),
            };
            kept.rep.extend_from_slice(&self.rep[from..to]);
            kept.set_count(kept.count() + u32::from(counts));
            from = to;
        }
        Ok(kept.rep)
    }

    /// An empty batch whose write fails with `error`.
    #[doc(hidden)]
    pub fn refusing(error: Error) -> Self {
        WriteBatch { refused: Some(error), ..Self::new() }
    }
}

/// `rep` without ends of prepared sections, or None if it has none. They mean something only in the
/// log that has the sections: elsewhere they would end another section of the same name.
fn without_section_ends(rep: &[u8]) -> Result<Option<Vec<u8>>> {
    let mut kept: Option<Vec<u8>> = None;
    let (mut from, mut all) = (HEADER_LEN, records(rep));
    while let Some(record) = all.next() {
        let to = rep.len() - all.rest().len();
        match (record?, &mut kept) {
            (BatchRecord::Marker(ValueType::RollbackXid, _), kept) => {
                kept.get_or_insert_with(|| rep[..from].to_vec());
            }
            (_, Some(kept)) => kept.extend_from_slice(&rep[from..to]),
            (_, None) => {}
        }
        from = to;
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::commit::batch::header;
    use pumice_base::ErrorKind;

    /// A log record with `count` updates: these records.
    fn logged(count: u32, records: &[&[u8]]) -> Vec<u8> {
        [&header(7, count)[..], &records.concat()].concat()
    }

    const PUT: &[u8] = b"\x01\x01k\x01v";
    const BEGIN: &[u8] = b"\x09";
    const END: &[u8] = b"\x0a\x03xid";
    const NOTE: &[u8] = b"\x03\x04note";

    #[pumice_test_macros::test]
    fn a_transaction_is_read_and_not_written() {
        let batch = WriteBatch::from_log(logged(1, &[BEGIN, PUT, END])).unwrap();
        assert_eq!((batch.count(), batch.iter().count()), (1, 3));
        assert!(batch.status().unwrap_err().kind() == ErrorKind::NotSupported);
        WriteBatch::from_log(logged(2, &[PUT, NOTE, PUT])).unwrap().status().unwrap();
        assert!(WriteBatch::from_log(logged(3, &[PUT])).unwrap_err().is_corruption());
    }
}
