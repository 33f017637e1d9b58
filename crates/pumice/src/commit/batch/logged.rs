//! Batches as they are in logs, including those of RocksDB's transactions.
//!
//! Thread safety: plain functions.

use super::{BatchRecord, WriteBatch, check, check_record, count, records};
use pumice_base::{Result, SizeLimits, ValueType};

impl WriteBatch {
    /// The batch in a log record. One with markers of transactions can be read; `status` says why
    /// it cannot be written.
    ///
    /// # Errors
    /// Corruption if it is too short, a record is malformed or the count is wrong.
    pub(crate) fn from_log(record: Vec<u8>) -> Result<Self> {
        check(&record)?;
        let limits = SizeLimits::FORMAT;
        let mut batch = Self::from_parts(record, limits);
        let (mut range_bytes, mut refused) = (0, limits.check_batch(batch.rep.len(), 0).err());
        for record in records(&batch.rep) {
            match check_record(&record?, limits) {
                Ok(bytes) => range_bytes += bytes,
                Err(error) => drop(refused.get_or_insert(error)),
            }
        }
        (batch.range_bytes, batch.refused) = (range_bytes, refused);
        Ok(batch)
    }
}

/// How many sequence numbers the updates of a log record took. A prepared section takes none; its
/// commit takes one for each update of the section, whose number the commit alone does not give
/// (None).
pub(crate) fn sequences_taken(rep: &[u8]) -> Option<u32> {
    for record in records(rep) {
        match record {
            Ok(BatchRecord::Marker(
                ValueType::BeginPrepareXid
                | ValueType::BeginPersistedPrepareXid
                | ValueType::BeginUnprepareXid,
                _,
            )) => return Some(0),
            Ok(BatchRecord::Marker(ValueType::CommitXid | ValueType::CommitXidAndTimestamp, _)) => {
                return None;
            }
            Ok(_) => {}
            Err(_) => break,
        }
    }
    Some(count(rep))
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
    const COMMIT: &[u8] = b"\x0b\x03xid";
    const NOTE: &[u8] = b"\x03\x04note";

    #[pumice_test_macros::test]
    fn only_commits_take_numbers_that_they_do_not_tell() {
        assert_eq!(sequences_taken(&logged(2, &[PUT, NOTE, PUT])), Some(2));
        assert_eq!(sequences_taken(&logged(0, &[NOTE])), Some(0));
        assert_eq!(sequences_taken(&logged(1, &[BEGIN, PUT, END])), Some(0));
        assert_eq!(sequences_taken(&logged(0, &[COMMIT])), None);
    }

    #[pumice_test_macros::test]
    fn a_transaction_is_read_and_not_written() {
        let batch = WriteBatch::from_log(logged(1, &[BEGIN, PUT, END])).unwrap();
        assert_eq!((batch.count(), batch.iter().count()), (1, 3));
        assert!(batch.status().unwrap_err().kind() == ErrorKind::NotSupported);
        WriteBatch::from_log(logged(2, &[PUT, NOTE, PUT])).unwrap().status().unwrap();
        assert!(WriteBatch::from_log(logged(3, &[PUT])).unwrap_err().is_corruption());
    }
}
