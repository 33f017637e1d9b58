//! `WalIterator`: the batches of the logs from a sequence number on, while more are written.
//!
//! | at | the next call |
//! |---|---|
//! | a record that is published | returns it |
//! | everything published was returned | returns None, and checks again when called again |
//! | a record that is not published yet | returns None, and keeps it |
//! | the end of a log that has a successor in the list | continues in that one |
//! | the end of the last, with more published elsewhere | TryAgain, for good |
//!
//! Invariants: (1) the list of logs does not change: logs that begin later are for another
//! iterator; (2) no batch is returned that is not published, or that is in no database though a log
//! has it (`LogHistory`); (3) each batch begins where the previous one ended, or there is an error;
//! (4) after an error nothing more is returned.
//!
//! Thread safety: one owner, `Send`. It does not prevent logs from being deleted: one that it has
//! not opened may be gone.

use std::sync::Arc;

use pumice_base::{Error, ErrorKind, FileNumber, Result, SequenceNumber};
use pumice_env::SequentialFile;
use pumice_wal::{LogReader, LogReaderOptions};

use super::log_files::LogFile;
use crate::commit::batch::{self, WriteBatch};
use crate::commit::predecessor::Predecessor;
use crate::commit::two_phase::sequences_taken;

/// The database, as an iterator over its logs sees it.
pub(crate) trait LogSource: Send + Sync {
    /// Refuses calls from code that must not make them.
    fn check_caller(&self) -> Result<()>;
    /// The last sequence number that readers may see.
    fn published(&self) -> SequenceNumber;
    /// The last valid sequence number in log `number`; None if everything published is valid.
    fn end_of(&self, number: FileNumber) -> Option<SequenceNumber>;
    /// Log `number` is being written and has records that have not reached the file.
    fn holds_back(&self, number: FileNumber) -> bool;
    /// Opens a log, wherever it is now.
    fn open(&self, file: LogFile) -> Result<Box<dyn SequentialFile>>;
    /// Reports that a part of a log is damaged and was skipped.
    fn report(&self, number: FileNumber, what: &str);
}

/// The batches of the write-ahead logs in order, made by [`crate::Db::get_updates_since`].
///
/// Each item is the sequence number of a batch's first update and the batch. `None` means that
/// there is nothing more **now**: a later call returns what was written since. After an error there
/// is nothing more, see [`WalIterator::status`].
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// # use pumice::{Db, MemFs, Options};
/// # let mut options = Options::default();
/// # options.db.create_if_missing = true;
/// # options.db.file_system = MemFs::new(1).shared();
/// # let db = Db::open(&options, "/db")?;
/// db.put("a", "1")?;
/// let mut updates = db.get_updates_since(0)?;
/// let (sequence, batch) = updates.next().expect("one write")?;
/// assert_eq!((sequence, batch.count()), (1, 1));
/// assert!(updates.next().is_none(), "nothing more yet");
/// db.put("b", "2")?;
/// assert_eq!(updates.next().expect("another one")?.0, 2);
/// # db.close()
/// # }
/// ```
pub struct WalIterator {
    source: Arc<dyn LogSource>,
    /// Batches that end before it are skipped.
    from: SequenceNumber,
    /// What was published when the iterator was made.
    known: SequenceNumber,
    files: Vec<LogFile>,
    /// Which of `files` is read.
    at: usize,
    reader: Option<LogReader>,
    record: Vec<u8>,
    /// `record` was read and not returned yet.
    held: bool,
    /// The batch that the next call returns.
    first: Option<(SequenceNumber, WriteBatch)>,
    /// The last sequence number that was returned; None before the first batch.
    last: Option<SequenceNumber>,
    /// Where the next batch must begin; None if anywhere.
    next: Option<SequenceNumber>,
    failed: Option<Error>,
}

/// The result of reading.
enum Found {
    /// `record` is a batch: its first sequence number and how many it took.
    Batch(SequenceNumber, Option<u64>),
    /// The next batch is not published.
    Later,
    /// There is no further record now in the last log.
    End,
}

impl WalIterator {
    /// Reads `files`, in ascending order, up to the first batch that has `from`. Suspends.
    ///
    /// # Errors
    /// I/O; Corruption if a record is no batch.
    pub(crate) fn open(
        source: Arc<dyn LogSource>,
        files: Vec<LogFile>,
        from: SequenceNumber,
        known: SequenceNumber,
    ) -> Result<Self> {
        let mut iterator = WalIterator {
            source,
            from,
            known,
            files,
            at: 0,
            reader: None,
            record: Vec::new(),
            held: false,
            first: None,
            last: None,
            next: None,
            failed: None,
        };
        iterator.first = iterator.advance()?;
        Ok(iterator)
    }

    /// Ok while the iterator can continue.
    ///
    /// # Errors
    /// The one that ended it. NotFound "Gap in sequence numbers": writes are missing in the logs.
    /// TryAgain: a new iterator, from the next sequence number on, finds more. I/O; Corruption.
    pub fn status(&self) -> Result<()> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    /// The next batch, if there is one now.
    fn advance(&mut self) -> Result<Option<(SequenceNumber, WriteBatch)>> {
        let mut careful = false;
        loop {
            // In this order, so that records that are published and not held back are already in
            // the file.
            let published = self.source.published();
            let known = self.last.unwrap_or(self.known);
            if self.last.is_some_and(|last| last >= published) {
                return Ok(None);
            }
            let current = self.files.last().map(|file| file.number);
            let held_back = careful && current.is_some_and(|log| self.source.holds_back(log));
            match self.read(published)? {
                Found::Batch(first, taken) => {
                    if let Some(batch) = self.take(first, taken)? {
                        return Ok(Some((first, batch)));
                    }
                }
                Found::Later => return Ok(None),
                Found::End if published <= known || held_back => return Ok(None),
                Found::End if careful => {
                    let text = "Create a new iterator to fetch the new tail.";
                    return Err(Error::new(ErrorKind::TryAgain, text));
                }
                Found::End => careful = true,
            }
        }
    }

    /// `record` as a batch, unless it is before the requested sequence number.
    fn take(&mut self, first: SequenceNumber, taken: Option<u64>) -> Result<Option<WriteBatch>> {
        let after = first.saturating_add(taken.unwrap_or(1));
        match (self.last, self.next) {
            (None, _) if after <= self.from => {
                self.held = false;
                return Ok(None);
            }
            (Some(_), Some(next)) if first != next => {
                return Err(Error::not_found("Gap in sequence numbers"));
            }
            _ => {}
        }
        self.held = false;
        let batch = WriteBatch::from_log(std::mem::take(&mut self.record));
        let batch = batch.map_err(|error| match self.files.get(self.at) {
            Some(file) => error.with_context(format!("log #{}", file.number)),
            None => error,
        })?;
        self.last = Some(after.saturating_sub(1));
        self.next = taken.map(|_| after);
        Ok(Some(batch))
    }

    /// Reads the next batch into `record`, from whichever log has it.
    fn read(&mut self, published: SequenceNumber) -> Result<Found> {
        while let Some(file) = self.files.get(self.at).copied() {
            let limit = self.limit(file);
            while self.held || self.read_record(file)? {
                self.held = false;
                if self.record.len() < batch::HEADER_LEN {
                    self.source.report(file.number, "a record is too small");
                    continue;
                }
                if Predecessor::parse(&self.record).is_some() {
                    continue; // Pumice's own.
                }
                let first = batch::sequence(&self.record);
                let taken = sequences_taken(&self.record, |_| None);
                let last = first.saturating_add(taken.unwrap_or(1)).saturating_sub(1);
                if last > limit {
                    break; // Other writes have these numbers.
                }
                self.held = true;
                return Ok(if last > published {
                    Found::Later
                } else {
                    Found::Batch(first, taken)
                });
            }
            if self.at + 1 == self.files.len() {
                break;
            }
            self.at += 1;
            self.reader = None;
        }
        Ok(Found::End)
    }

    /// Reads a record of `file`; false if there is none now.
    fn read_record(&mut self, file: LogFile) -> Result<bool> {
        if self.reader.is_none() {
            let (source, number) = (Arc::clone(&self.source), file.number);
            let report = move |bytes: u64, error: &Error| {
                source.report(number, &format!("{bytes} bytes dropped; {error}"));
            };
            let options = LogReaderOptions::growing_wal(number);
            let opened = self.source.open(file)?;
            self.reader = Some(LogReader::new(opened, options, Some(Box::new(report))));
        }
        match &mut self.reader {
            Some(reader) => Ok(reader.read_record(&mut self.record)?.is_some()),
            None => Ok(false),
        }
    }

    /// The last valid sequence number in `file`, which is being read.
    fn limit(&self, file: LogFile) -> SequenceNumber {
        let next = self.files.get(self.at + 1).and_then(|next| next.start);
        let before = next.map_or(SequenceNumber::MAX, |start| start.saturating_sub(1));
        self.source.end_of(file.number).map_or(before, |end| end.min(before))
    }
}

impl Iterator for WalIterator {
    type Item = Result<(SequenceNumber, WriteBatch)>;

    /// The next batch; None if there is none now. Suspends.
    fn next(&mut self) -> Option<Self::Item> {
        if let Some(first) = self.first.take() {
            return Some(Ok(first));
        }
        if self.failed.is_some() {
            return None;
        }
        if let Err(error) = self.source.check_caller() {
            return Some(Err(error));
        }
        let result = self.advance();
        if let Err(error) = &result {
            self.failed = Some(error.clone());
        }
        result.transpose()
    }
}

impl std::fmt::Debug for WalIterator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WalIterator")
            .field("from", &self.from)
            .field("last", &self.last)
            .field("failed", &self.failed)
            .finish_non_exhaustive()
    }
}
