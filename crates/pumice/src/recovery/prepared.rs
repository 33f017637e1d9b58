//! Prepared sections of RocksDB's two-phase transactions, as logs have them: a section is written
//! first, the record that commits it or rolls it back later, perhaps in another log. Only a commit
//! makes its updates part of the database.
//!
//! A section can stand in a log below all those that an open replays: `min_log_number_to_keep` of
//! the MANIFEST keeps it.
//!
//! What it does not do: sections that were written to memtables before their commit (the policies
//! WritePrepared and WriteUnprepared) are refused. Thread safety: plain data; `find` suspends.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use pumice_base::{Error, FileNumber, Result, ValueType};
use pumice_env::FileSystem;
use pumice_env::filename::{self, FileType};
use pumice_wal::{LogReader, LogReaderOptions, WalRecoveryMode};

use crate::commit::batch::{self, BatchRecord};

/// The sections without an end so far, whole log records, by the transaction's name.
#[derive(Clone, Default)]
pub(crate) struct PreparedSections(BTreeMap<Vec<u8>, Vec<u8>>);

/// What a plain database cannot go on with.
#[cold]
pub(crate) fn refused() -> Error {
    Error::not_supported("the WAL holds prepared transactions. Open with TransactionDB")
}

/// The log record is a prepared section.
pub(crate) fn is_section(record: &[u8]) -> bool {
    record.get(batch::HEADER_LEN) == Some(&(ValueType::BeginPrepareXid as u8))
}

impl PreparedSections {
    /// None is without an end.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Notes the log record `section`.
    ///
    /// # Errors
    /// Corruption; NotSupported for what is not a section of the policy WriteCommitted.
    pub fn add(&mut self, section: &[u8]) -> Result<()> {
        for record in batch::records(section) {
            match record? {
                BatchRecord::Marker(ValueType::BeginPrepareXid | ValueType::Noop, _) => {}
                BatchRecord::Marker(ValueType::EndPrepareXid, name) => {
                    self.0.insert(name.to_vec(), section.to_vec());
                    return Ok(());
                }
                BatchRecord::Marker(..) => return Err(refused()),
                BatchRecord::Entry { .. } | BatchRecord::LogData(_) => {}
            }
        }
        Err(Error::corruption("a prepared section has no end"))
    }

    /// The transaction `name` is over; its section if it is known. One that is not was released
    /// because all of it is in tables.
    pub fn end(&mut self, name: &[u8]) -> Option<Vec<u8>> {
        self.0.remove(name)
    }

    /// The sequence numbers that a log record takes: none for a section; a commit takes those of
    /// its section, which its count does not tell.
    pub fn taken(&self, record: &[u8]) -> u64 {
        if is_section(record) {
            return 0;
        }
        let own = u64::from(batch::count(record));
        if self.is_empty() {
            return own;
        }
        let commits = batch::records(record).filter_map(|part| match part {
            Ok(BatchRecord::Marker(ValueType::CommitXid, name)) => self.0.get(name),
            _ => None,
        });
        own + commits.map(|section| u64::from(batch::count(section))).sum::<u64>()
    }

    /// Those without an end in the logs of `dir` with these numbers. No family needs these logs, so
    /// they are looked through as far as they can be read.
    ///
    /// # Errors
    /// I/O; as [`Self::add`].
    pub fn find(fs: &dyn FileSystem, dir: &Path, numbers: Range<FileNumber>) -> Result<Self> {
        let mut sections = PreparedSections::default();
        if numbers.start == 0 || numbers.is_empty() {
            return Ok(sections); // The MANIFEST keeps none.
        }
        let names = fs.list(dir)?;
        let logs = names.iter().filter_map(|name| match filename::parse(name) {
            Some((number, FileType::Wal)) if numbers.contains(&number) => Some((number, name)),
            _ => None,
        });
        let logs: BTreeMap<_, _> = logs.collect();
        let mode = WalRecoveryMode::SkipAnyCorrupted;
        let mut record = Vec::new();
        for (number, name) in logs {
            let file = match fs.open_sequential(&dir.join(name)) {
                Err(error) if error.is_not_found() => continue, // Its owner needs it no more.
                file => file?,
            };
            let mut reader = LogReader::new(file, LogReaderOptions::wal(number, mode), None);
            while let Ok(Some(_)) = reader.read_record(&mut record) {
                pumice_port::fiber::maybe_yield();
                if batch::check(&record).is_ok() {
                    sections.follow(&record)?;
                }
            }
        }
        Ok(sections)
    }

    /// Notes what the log record begins or ends.
    fn follow(&mut self, record: &[u8]) -> Result<()> {
        if is_section(record) {
            return self.add(record);
        }
        for part in batch::records(record) {
            match part? {
                BatchRecord::Marker(ValueType::CommitXid | ValueType::RollbackXid, name) => {
                    drop(self.end(name));
                }
                BatchRecord::Marker(ValueType::Noop, _) => {}
                BatchRecord::Marker(..) => return Err(refused()),
                BatchRecord::Entry { .. } | BatchRecord::LogData(_) => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::commit::batch::header;

    const PUT: &[u8] = b"\x01\x01k\x01v";

    fn logged(count: u32, records: &[&[u8]]) -> Vec<u8> {
        [&header(7, count)[..], &records.concat()].concat()
    }

    #[pumice_test_macros::test]
    fn sections_wait_for_their_end() {
        let mut sections = PreparedSections::default();
        let section = logged(2, &[b"\x09", PUT, PUT, b"\x0a\x03xid"]);
        let (commit, other) = (logged(0, &[b"\x0b\x03xid"]), logged(0, &[b"\x0b\x01x"]));
        assert_eq!((sections.taken(&section), sections.taken(&commit)), (0, 0));
        sections.follow(&section).unwrap();
        assert_eq!((sections.taken(&commit), sections.taken(&other)), (2, 0));
        assert_eq!(sections.taken(&logged(1, &[b"\x0d", PUT])), 1);
        sections.follow(&other).unwrap();
        assert!(!sections.is_empty());
        assert_eq!(sections.clone().end(b"xid"), Some(section.clone()));
        sections.follow(&logged(0, &[b"\x0c\x03xid"])).unwrap();
        assert!(sections.is_empty());
        for strange in [&b"\x12"[..], b"\x13", b"\x15\x01t\x03xid"] {
            assert!(sections.follow(&logged(0, &[strange])).is_err());
        }
        assert!(sections.add(&logged(1, &[b"\x09", PUT])).unwrap_err().is_corruption());
    }
}
