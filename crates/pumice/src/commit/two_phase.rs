//! What a batch takes from the sequence space and puts into the log, and RocksDB's two-phase
//! transactions as logs have them.
//!
//! The header of a batch counts its updates. A plain batch takes a sequence number for each of them
//! and is logged whole. With transactions neither follows from the count: a prepared section takes
//! no numbers; the record that commits it, later and perhaps in another log, takes one for each of
//! its updates and has none of them in the log. So a writer says both when its batch enters the
//! queue ([`Taken`]), and a reader of logs walks the records ([`sequences_taken`],
//! [`PreparedSections`]). Sections, markers and plain batches may stand in one log record, in any
//! order: RocksDB writes a group of writers as one.
//!
//! Only a commit makes the updates of a section part of the database. A section can stand in a log
//! below all those that an open replays: `min_log_number_to_keep` of the MANIFEST keeps it.
//!
//! What it does not do: sections that were written to memtables before their commit (the policies
//! WritePrepared and WriteUnprepared) are refused. Thread safety: plain data; `find` suspends.
//!
//! Source: RocksDB's `WriteBatch::Iterate` and `MemTableInserter` (db/write_batch.cc).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use pumice_base::coding::{Decoder, put_length_prefixed};
use pumice_base::planted::{self, Bug};
use pumice_base::{Error, FileNumber, Result, ValueType};
use pumice_env::FileSystem;
use pumice_env::filename::{self, FileType};
use pumice_wal::{LogReader, LogReaderOptions, WalRecoveryMode};

use crate::commit::batch::{self, BatchRecord, HEADER_LEN};

/// What a batch that is written takes; known when it enters the write queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    /// One for each update that goes into a memtable.
    pub sequences: u64,
    /// Which records of its wire form are logged, in bytes.
    pub logged: Range<usize>,
    /// How many updates that are: a part of the log record's count.
    pub updates: u32,
}

impl Taken {
    /// Of a batch without markers of transactions.
    #[inline]
    pub fn plain(rep: &[u8]) -> Self {
        let updates = batch::count(rep);
        Taken { sequences: u64::from(updates), logged: HEADER_LEN..rep.len(), updates }
    }
}

/// How many sequence numbers a log record took: one for each update outside of prepared sections,
/// and for each commit the `updates_of` the section with its name. None if one of these is unknown.
pub(crate) fn sequences_taken(
    record: &[u8],
    updates_of: impl Fn(&[u8]) -> Option<u64>,
) -> Option<u64> {
    let (mut taken, mut in_section) = (0, false);
    for part in batch::records(record) {
        match part {
            Ok(BatchRecord::Entry { .. }) => taken += u64::from(!in_section),
            Ok(BatchRecord::Marker(
                ValueType::BeginPrepareXid
                | ValueType::BeginPersistedPrepareXid
                | ValueType::BeginUnprepareXid,
                _,
            )) => in_section = true,
            Ok(BatchRecord::Marker(ValueType::EndPrepareXid, _)) => in_section = false,
            Ok(BatchRecord::Marker(
                ValueType::CommitXid | ValueType::CommitXidAndTimestamp,
                name,
            )) => taken += updates_of(name)?,
            Ok(BatchRecord::Marker(..) | BatchRecord::LogData(_)) => {}
            Err(_) => break,
        }
    }
    Some(taken)
}

/// A batch as it changes the database when it is written: without the markers of transactions, and
/// without sections that wait for their commit. RocksDB's commits have their section behind the
/// marker.
///
/// # Errors
/// Corruption.
pub(crate) fn unmarked(rep: &[u8]) -> Result<Cow<'_, [u8]>> {
    let mut records = batch::records(rep);
    let (mut plain, mut count) = (rep.get(..HEADER_LEN).unwrap_or_default().to_vec(), 0u32);
    let (mut waits, mut committed, mut marked) = (false, false, false);
    loop {
        let before = records.rest();
        let Some(record) = records.next().transpose()? else { break };
        if let BatchRecord::Marker(kind, _) = record {
            marked = true;
            committed |= matches!(kind, ValueType::CommitXid | ValueType::CommitXidAndTimestamp);
            waits = match kind {
                ValueType::BeginPrepareXid => !committed,
                ValueType::EndPrepareXid => false,
                _ => waits,
            };
        } else if !waits {
            count += u32::from(matches!(record, BatchRecord::Entry { .. }));
            plain.extend_from_slice(&before[..before.len() - records.rest().len()]);
        }
    }
    if !marked {
        return Ok(Cow::Borrowed(rep));
    }
    plain[HEADER_LEN - 4..HEADER_LEN].copy_from_slice(&count.to_le_bytes());
    Ok(Cow::Owned(plain))
}

/// What a plain database cannot go on with.
#[cold]
pub(crate) fn refused() -> Error {
    Error::not_supported("the WAL holds prepared transactions. Open with TransactionDB")
}

/// How long the timestamps of column families are in a log; 0 of those that it does not name.
type TimestampSizes = Arc<BTreeMap<u32, u16>>;

/// The sections without an end so far, as batches in wire form, by the transaction's name.
#[derive(Clone, Default)]
pub(crate) struct PreparedSections {
    /// Each with the sizes of the log that has it.
    waiting: BTreeMap<Vec<u8>, (Vec<u8>, TimestampSizes)>,
    /// Those of the log that is read, as far as it has said so.
    sizes: TimestampSizes,
}

/// How a log has an update.
pub(crate) struct Recorded<'t> {
    /// The timestamp of the commit of its section, if that has one.
    pub time: Option<&'t [u8]>,
    /// How many bytes of its key are a timestamp.
    pub timestamp_size: usize,
}

/// A prepared transaction in a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Section {
    pub name: Vec<u8>,
    /// Its updates, as a batch in wire form.
    pub updates: Vec<u8>,
    /// The log that has it.
    pub log: FileNumber,
}

/// The log record that prepares the transaction `name` with these updates, a batch in wire form.
pub(crate) fn section(name: &[u8], updates: &[u8]) -> Vec<u8> {
    let records = updates.get(HEADER_LEN..).unwrap_or_default();
    let mut record = batch::header(0, batch::count(updates)).to_vec();
    record.reserve(records.len() + name.len() + 8);
    record.push(ValueType::BeginPrepareXid as u8);
    record.extend_from_slice(records);
    record.push(ValueType::EndPrepareXid as u8);
    put_length_prefixed(&mut record, name);
    record
}

impl PreparedSections {
    /// Name and updates, a batch in wire form, of each without an end.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.waiting.iter().map(|(name, (updates, _))| (name.as_slice(), updates.as_slice()))
    }

    /// The records that follow are of a log with these sizes of timestamps.
    pub fn set_timestamp_sizes(&mut self, sizes: &[(u32, u16)]) {
        let known = |(id, size): &(u32, u16)| self.sizes.get(id) == Some(size);
        if sizes.len() != self.sizes.len() || !sizes.iter().all(known) {
            self.sizes = Arc::new(sizes.iter().copied().collect());
        }
    }

    /// Refuses sections whose keys have timestamps of another size than the families have now,
    /// which `now` knows but for those that were dropped: their commits would be of other keys.
    ///
    /// # Errors
    /// NotSupported; Corruption of a section.
    pub fn check_timestamp_sizes(&self, now: impl Fn(u32) -> Option<usize>) -> Result<()> {
        for (updates, sizes) in self.waiting.values() {
            for record in batch::records(updates) {
                let BatchRecord::Entry { column_family: id, .. } = record? else { continue };
                let recorded = timestamp_size(sizes, id);
                if let Some(now) = now(id).filter(|now| *now != recorded) {
                    return Err(Error::not_supported(format!(
                        "the WAL holds a prepared transaction whose keys of column family {id} \
                         have timestamps of {recorded} bytes, and its comparator has such of \
                         {now}. Open with the former comparator, and commit it or roll it back"
                    )));
                }
            }
        }
        Ok(())
    }

    /// None is without an end.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The sequence numbers that a log record takes. A commit of an unknown section takes none: it
    /// was released because all of it is in tables.
    pub fn taken(&self, record: &[u8]) -> u64 {
        let updates_of = |name: &[u8]| {
            Some(self.waiting.get(name).map_or(0, |(section, _)| u64::from(batch::count(section))))
        };
        sequences_taken(record, updates_of).unwrap_or(0)
    }

    /// Reads a log record: gives `insert` each update that is part of the database now, in the
    /// order of their sequence numbers, and keeps or forgets the sections that the record begins or
    /// ends. See [`at_time`] for the time of a commit.
    ///
    /// # Errors
    /// Corruption; NotSupported for what is not of the policy WriteCommitted; those of `insert`.
    pub fn read(
        &mut self,
        record: &[u8],
        mut insert: impl FnMut(Recorded<'_>, BatchRecord<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut parts = batch::records(record);
        let mut section: Option<Vec<u8>> = None;
        loop {
            let from = record.len() - parts.rest().len();
            let Some(part) = parts.next() else { break };
            if part.is_err() && planted::is(Bug::TornBatchAccepted) {
                break;
            }
            let bytes = &record[from..record.len() - parts.rest().len()];
            match (part?, &mut section) {
                (BatchRecord::Marker(ValueType::EndPrepareXid, name), Some(_)) => {
                    let sizes = Arc::clone(&self.sizes);
                    let section = section.take().map(|section| (section, sizes));
                    self.waiting.extend(section.map(|section| (name.to_vec(), section)));
                }
                (BatchRecord::Entry { .. }, Some(section)) => {
                    section.extend_from_slice(bytes);
                    let updates = batch::count(section) + 1;
                    batch::set_count(section, updates);
                }
                (BatchRecord::LogData(_), Some(section)) => section.extend_from_slice(bytes),
                (BatchRecord::Marker(ValueType::Noop, _) | BatchRecord::LogData(_), _) => {}
                (BatchRecord::Marker(..), Some(_)) => return Err(endless()),
                (BatchRecord::Marker(ValueType::BeginPrepareXid, _), None) => {
                    section = Some(batch::header(0, 0).to_vec());
                }
                (
                    BatchRecord::Marker(
                        kind @ (ValueType::CommitXid | ValueType::CommitXidAndTimestamp),
                        name,
                    ),
                    None,
                ) => {
                    let time = match kind {
                        ValueType::CommitXid => None,
                        _ => Decoder::new(&bytes[1..]).length_prefixed(),
                    };
                    let (section, sizes) = self.waiting.remove(name).unwrap_or_default();
                    for part in batch::records(&section) {
                        if let update @ BatchRecord::Entry { column_family: id, .. } = part? {
                            let timestamp_size = timestamp_size(&sizes, id);
                            insert(Recorded { time, timestamp_size }, update)?;
                        }
                    }
                }
                (BatchRecord::Marker(ValueType::RollbackXid, name), None) => {
                    drop(self.waiting.remove(name));
                }
                (BatchRecord::Marker(..), None) => return Err(refused()),
                (update @ BatchRecord::Entry { column_family: id, .. }, None) => {
                    let timestamp_size = timestamp_size(&self.sizes, id);
                    insert(Recorded { time: None, timestamp_size }, update)?;
                }
            }
        }
        section.map_or(Ok(()), |_| Err(endless()))
    }

    /// Those without an end in the logs of `dir` with these numbers. No family needs these logs, so
    /// they are looked through as far as they can be read.
    ///
    /// # Errors
    /// I/O; as [`Self::read`].
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
                sections.set_timestamp_sizes(reader.timestamp_sizes());
                if batch::check(&record).is_ok() {
                    sections.read(&record, |_, _| Ok(()))?;
                }
            }
        }
        Ok(sections)
    }
}

fn timestamp_size(sizes: &TimestampSizes, id: u32) -> usize {
    sizes.get(&id).copied().unwrap_or(0).into()
}

/// The key of a committed section's update: with the commit's timestamp, if its family has such.
///
/// # Errors
/// Corruption for timestamps of another size, and a key that is shorter.
pub(crate) fn at_time<'k>(
    key: &'k [u8],
    time: Option<&[u8]>,
    timestamp_size: usize,
) -> Result<Cow<'k, [u8]>> {
    let Some(time) = time.filter(|_| timestamp_size > 0) else { return Ok(Cow::Borrowed(key)) };
    match key.len().checked_sub(timestamp_size) {
        Some(bare) if time.len() == timestamp_size => Ok(Cow::Owned([&key[..bare], time].concat())),
        _ => Err(Error::corruption("a commit has a timestamp of another size than its keys")),
    }
}

#[cold]
fn endless() -> Error {
    Error::corruption("a prepared section has no end")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const PUT: &[u8] = b"\x01\x01k\x01v";
    const NOTE: &[u8] = b"\x03\x04note";
    const BEGIN: &[u8] = b"\x09";
    const END: &[u8] = b"\x0a\x03xid";
    const COMMIT: &[u8] = b"\x0b\x03xid";
    const ROLLBACK: &[u8] = b"\x0c\x03xid";
    const NOOP: &[u8] = b"\x0d";

    /// A log record with `count` updates: these records.
    fn logged(count: u32, records: &[&[u8]]) -> Vec<u8> {
        [&batch::header(7, count)[..], &records.concat()].concat()
    }

    #[pumice_test_macros::test]
    fn a_write_has_what_its_batch_commits() {
        let plain = |count, records: &[&[u8]], left: &[&[u8]]| {
            let (left, rep) = (logged(left.len() as u32, left), logged(count, records));
            assert_eq!(*unmarked(&rep).unwrap(), left);
        };
        plain(1, &[PUT], &[PUT]);
        plain(2, &[NOOP, PUT, PUT], &[PUT, PUT]);
        // A section waits; one behind a commit, as RocksDB has them in memory, does not.
        plain(1, &[BEGIN, PUT, END], &[]);
        plain(2, &[PUT, BEGIN, PUT, END], &[PUT]);
        plain(1, &[COMMIT, BEGIN, PUT, END], &[PUT]);
        plain(2, &[PUT, COMMIT, BEGIN, PUT, END], &[PUT, PUT]);
        // The commits of this engine, and what takes a transaction back.
        plain(1, &[ROLLBACK, PUT], &[PUT]);
        plain(0, &[ROLLBACK], &[]);
        assert!(matches!(unmarked(&logged(1, &[NOTE, PUT])).unwrap(), Cow::Borrowed(_)));
        assert!(unmarked(&logged(1, &[b"\x01\x05k"])).is_err());
    }

    /// How many updates a record makes part of the database.
    fn read(sections: &mut PreparedSections, record: &[u8]) -> Result<u64> {
        let mut inserted = 0;
        sections.read(record, |_, update| {
            assert!(matches!(update, BatchRecord::Entry { .. }));
            inserted += 1;
            Ok(())
        })?;
        Ok(inserted)
    }

    #[pumice_test_macros::test]
    fn a_plain_batch_takes_a_number_for_each_update_and_is_logged_whole() {
        let rep = logged(2, &[PUT, NOTE, PUT]);
        assert_eq!(Taken::plain(&rep), Taken { sequences: 2, logged: 12..rep.len(), updates: 2 });
        assert_eq!(
            Taken::plain(&logged(0, &[])),
            Taken { sequences: 0, logged: 12..12, updates: 0 }
        );
    }

    #[pumice_test_macros::test]
    fn only_commits_take_numbers_that_they_do_not_tell() {
        let taken = |record: &[u8]| sequences_taken(record, |_| None);
        assert_eq!(taken(&logged(2, &[PUT, NOTE, PUT])), Some(2));
        assert_eq!(taken(&logged(0, &[NOTE])), Some(0));
        assert_eq!(taken(&logged(1, &[BEGIN, PUT, END])), Some(0));
        assert_eq!(taken(&logged(0, &[COMMIT])), None);
        assert_eq!(sequences_taken(&logged(0, &[COMMIT]), |_| Some(3)), Some(3));
    }

    #[pumice_test_macros::test]
    fn sections_wait_for_their_end() {
        let mut sections = PreparedSections::default();
        let section = logged(2, &[BEGIN, PUT, PUT, END]);
        let (commit, other) = (logged(0, &[COMMIT]), logged(0, &[b"\x0b\x01x"]));
        assert_eq!((sections.taken(&section), sections.taken(&commit)), (0, 0));
        assert_eq!(read(&mut sections, &section).unwrap(), 0);
        assert_eq!((sections.taken(&commit), sections.taken(&other)), (2, 0));
        assert_eq!(sections.taken(&logged(1, &[NOOP, PUT])), 1);
        assert_eq!(read(&mut sections, &other).unwrap(), 0);
        assert!(!sections.is_empty());
        assert_eq!(read(&mut sections.clone(), &commit).unwrap(), 2);
        assert_eq!(read(&mut sections, &logged(0, &[ROLLBACK])).unwrap(), 0);
        assert!(sections.is_empty());
        for strange in [&b"\x12"[..], b"\x13"] {
            assert!(read(&mut sections, &logged(0, &[strange])).is_err());
        }
        for torn in [&[BEGIN, PUT][..], &[BEGIN, BEGIN, PUT, END], &[BEGIN, PUT, COMMIT, END]] {
            assert!(read(&mut sections, &logged(1, torn)).unwrap_err().is_corruption());
        }
    }

    /// Keys without a time have zeros in a section.
    #[pumice_test_macros::test]
    fn a_commit_at_a_time_gives_it_to_the_keys_of_families_with_such() {
        let mut sections = PreparedSections::default();
        let timed = b"\x05\x07\x02k\0\x01v";
        let section = logged(2, &[BEGIN, PUT, timed, END]);
        sections.read(&section, |_, _| Ok(())).unwrap();
        let commit = logged(0, &[b"\x15\x01t\x03xid"]);
        assert_eq!(sections.taken(&commit), 2);
        let mut keys = Vec::new();
        let insert = |recorded: Recorded<'_>, update: BatchRecord<'_>| {
            if let BatchRecord::Entry { column_family, key, .. } = update {
                keys.push(
                    at_time(key, recorded.time, usize::from(column_family == 7))?.into_owned(),
                );
            }
            Ok(())
        };
        sections.read(&commit, insert).unwrap();
        assert_eq!(keys, [b"k".to_vec(), b"kt".to_vec()]);
        assert!(at_time(b"", Some(b"t"), 1).unwrap_err().is_corruption());
        assert!(at_time(b"key", Some(b"t"), 2).unwrap_err().is_corruption());
    }

    /// A section's keys are those of its log, whatever the log of its commit has.
    #[pumice_test_macros::test]
    fn a_section_has_the_timestamps_of_its_own_log() {
        let mut sections = PreparedSections::default();
        let timed = b"\x05\x07\x02k\0\x01v";
        sections.set_timestamp_sizes(&[(7, 1)]);
        sections.read(&logged(2, &[BEGIN, PUT, timed, END]), |_, _| Ok(())).unwrap();
        sections.set_timestamp_sizes(&[(0, 3)]);
        let sizes = |id, size| sections.check_timestamp_sizes(|of| (of == id).then_some(size));
        assert!(sizes(7, 1).is_ok() && sizes(0, 0).is_ok() && sizes(9, 9).is_ok());
        let refused = [(7, 0), (7, 8), (0, 3)].map(|(id, size)| sizes(id, size).unwrap_err());
        refused.iter().for_each(|e| assert!(e.to_string().contains("prepared transaction")));
        let mut found = Vec::new();
        let record = logged(1, &[COMMIT, PUT]);
        let insert = |recorded: Recorded<'_>, _: BatchRecord<'_>| {
            found.push(recorded.timestamp_size);
            Ok(())
        };
        sections.read(&record, insert).unwrap();
        assert_eq!(found, [0, 1, 3]);
    }

    /// RocksDB writes a group of writers as one log record.
    #[pumice_test_macros::test]
    fn sections_and_batches_of_one_group_are_told_apart() {
        let mut sections = PreparedSections::default();
        let group = logged(4, &[NOOP, PUT, BEGIN, PUT, PUT, END, NOOP, PUT]);
        assert_eq!(sequences_taken(&group, |_| None), Some(2));
        assert_eq!((sections.taken(&group), read(&mut sections, &group).unwrap()), (2, 2));
        let group = logged(2, &[PUT, COMMIT, PUT]);
        assert_eq!(sequences_taken(&group, |_| None), None);
        assert_eq!((sections.taken(&group), read(&mut sections, &group).unwrap()), (4, 4));
        assert!(sections.is_empty());
    }
}
