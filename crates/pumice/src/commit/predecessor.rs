//! What a log records about the one before it, if that was not durable when the log was started,
//! and what else it has to say before its records.
//!
//! Its first record is then a batch without updates, at the sequence number of the first write:
//!
//! ```text
//! fixed64 sequence ‖ fixed32 0 ‖ LogData(NAME ‖ fixed64 number ‖ fixed64 bytes)
//! ```
//!
//! Recovery replays the records after it only if log `number` has all its `bytes`: otherwise a
//! power loss cut off the end of that log, and these records were written later than the lost ones.
//! RocksDB skips annotations; its own record of this kind (type 130) is not readable by versions
//! before 9.10.
//!
//! Thread safety: plain data.

use pumice_base::coding::{Decoder, put_fixed64};
use pumice_base::narrow::len_u16;
use pumice_base::{FileNumber, Result, SequenceNumber};
use pumice_wal::LogWriter;

use super::batch::{self, BatchRecord, WriteBatch};

const NAME: &[u8] = b"pumice.predecessor_log";

/// A closed log and its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Predecessor {
    pub number: FileNumber,
    pub bytes: u64,
}

impl Predecessor {
    /// The record, before a write of sequence number `next`.
    pub fn record(self, next: SequenceNumber) -> Vec<u8> {
        let mut blob = NAME.to_vec();
        put_fixed64(&mut blob, self.number);
        put_fixed64(&mut blob, self.bytes);
        let mut updates = WriteBatch::new();
        updates.put_log_data(&blob);
        let mut rep = updates.take_rep();
        rep[..batch::HEADER_LEN].copy_from_slice(&batch::header(next, 0));
        rep
    }

    /// Parses `record`; None if it is an ordinary record.
    pub fn parse(record: &[u8]) -> Option<Self> {
        if record.len() < batch::HEADER_LEN || batch::count(record) != 0 {
            return None;
        }
        let Some(Ok(BatchRecord::LogData(blob))) = batch::records(record).next() else {
            return None;
        };
        let mut fields = Decoder::new(blob.strip_prefix(NAME)?);
        let (number, bytes) = (fields.fixed64()?, fields.fixed64()?);
        fields.is_empty().then_some(Predecessor { number, bytes })
    }
}

/// What a log has to say before its records: which log was before it, and how long timestamps are.
#[derive(Default)]
pub(crate) struct Prelude {
    /// The log before, unless it is durable.
    pub predecessor: Option<Predecessor>,
    /// Where the first record of the current log begins: after what says that it is compressed.
    pub records_begin: u64,
    /// The lengths of timestamps of the column families that have some. Ids are not used again, so
    /// that a dropped one need not be forgotten.
    timestamp_sizes: Vec<(u32, u16)>,
    /// How many of them the log has recorded.
    recorded: usize,
    due: bool,
}

impl Prelude {
    /// A log begins.
    pub fn begin_log(&mut self) {
        self.recorded = 0;
        self.due = self.predecessor.is_some() || !self.timestamp_sizes.is_empty();
    }

    /// Keys of column family `id` have timestamps of `size` bytes.
    pub fn note_timestamps(&mut self, id: u32, size: usize) {
        if size > 0 {
            self.timestamp_sizes.push((id, len_u16(size)));
            self.due = true;
        }
    }

    /// There is something to write.
    #[inline]
    pub fn is_due(&self) -> bool {
        self.due
    }

    /// Writes it before a record whose first sequence number is `first`.
    ///
    /// # Errors
    /// I/O.
    #[cold]
    pub fn write(&mut self, log: &mut LogWriter, first: SequenceNumber) -> Result<()> {
        self.due = false;
        if let Some(predecessor) = self.predecessor.take() {
            log.add_record(&predecessor.record(first))?;
        }
        let sizes = &self.timestamp_sizes[self.recorded..];
        if !sizes.is_empty() {
            log.add_timestamp_sizes(sizes)?;
        }
        self.recorded = self.timestamp_sizes.len();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[pumice_test_macros::test]
    fn a_record_is_read_back() {
        let predecessor = Predecessor { number: 7, bytes: 1 << 40 };
        let record = predecessor.record(123);
        assert_eq!(Predecessor::parse(&record), Some(predecessor));
        assert_eq!((batch::sequence(&record), batch::count(&record)), (123, 0));
        batch::check(&record).unwrap();
        for cut in 0..record.len() {
            assert_eq!(Predecessor::parse(&record[..cut]), None, "{cut} bytes");
        }
    }

    #[pumice_test_macros::test]
    fn other_annotations_are_none() {
        let mut updates = WriteBatch::new();
        updates.put_log_data(b"an annotation");
        assert_eq!(Predecessor::parse(&updates.take_rep()), None);
    }
}
