//! Logs of a database that another process writes, read record by record as they grow.
//!
//! | at | the next pass |
//! |---|---|
//! | a record | returns it |
//! | the end of a log | begins there again |
//! | the same, or damage, where bytes may be overwritten | opens it again |
//!
//! Once a later log has a record, one more pass makes a log complete.
//!
//! Invariants: (1) records come in the order of the logs, each once; (2) no record of a log comes
//! before all records of the earlier logs: a writer writes to one log at a time.
//!
//! Apparent damage may be a write that is just overwriting an earlier use of the file, so it counts
//! only if the log is complete, or has grown since and is still damaged.
//!
//! Thread safety: one owner. It does not search for logs, and does not interpret their records.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

use pumice_base::{Error, FileNumber, Result};
use pumice_env::{FileSystem, SequentialFile};
use pumice_wal::{LogEnd, LogReader, LogReaderOptions, WalRecoveryMode};

/// The receiver of the records.
pub(crate) trait LogSink {
    /// The next record of log `number`, which has recorded these sizes of timestamps by now.
    fn record(
        &mut self,
        number: FileNumber,
        sizes: TimestampSizes<'_>,
        record: &[u8],
    ) -> Result<()>;
    /// Nothing more comes from log `number`, whose last whole record ended at `end`; after that it
    /// is damaged, if `damaged`.
    fn complete(&mut self, number: FileNumber, end: u64, damaged: Option<Error>) -> Result<()>;
}

/// Bytes of the timestamps of column families, by id.
pub(crate) type TimestampSizes<'s> = &'s [(u32, u16)];

/// Damage that was found, and the log's size at that time.
struct Damage {
    error: Error,
    end: u64,
    bytes: u64,
}

struct Followed {
    number: FileNumber,
    path: PathBuf,
    reader: LogReader,
    /// A record that was read and not returned yet.
    held: Option<Vec<u8>>,
    /// Where the last record read ends. A reader that is before that point skips up to it.
    end: u64,
    damage: Option<Damage>,
    /// It stopped for good.
    stopped: bool,
}

/// See the module head.
pub(crate) struct LogFollower {
    fs: Arc<dyn FileSystem>,
    mode: WalRecoveryMode,
    /// Ascending; those before the first are complete.
    logs: VecDeque<Followed>,
}

impl LogFollower {
    /// Follows no log yet; `mode` says what damage is.
    pub fn new(fs: Arc<dyn FileSystem>, mode: WalRecoveryMode) -> Self {
        LogFollower { fs, mode, logs: VecDeque::new() }
    }

    /// The newest log that is followed.
    pub fn newest(&self) -> Option<FileNumber> {
        self.logs.back().map(|log| log.number)
    }

    /// Follows another log. Its number is above those of all others.
    pub fn add(&mut self, number: FileNumber, path: PathBuf, file: Box<dyn SequentialFile>) {
        let reader = self.reader(number, file);
        self.logs.push_back(Followed {
            number,
            path,
            reader,
            held: None,
            end: 0,
            damage: None,
            stopped: false,
        });
    }

    /// Logs below `number` are not read any more.
    pub fn forget_before(&mut self, number: FileNumber) {
        self.logs.retain(|log| log.number >= number);
    }

    /// Delivers new records. Suspends.
    ///
    /// # Errors
    /// I/O; damage that is not an unfinished write; those of `sink`. After an error of `sink` it
    /// must not be used any more.
    pub fn read_on(&mut self, sink: &mut dyn LogSink) -> Result<()> {
        for at in 0..self.logs.len() {
            self.open_again(at)?;
        }
        while !self.logs.is_empty() {
            self.drain(0, sink)?;
            let mut later = None;
            for at in 1..self.logs.len() {
                if later.is_none() && self.peek(at)? {
                    later = Some(at);
                }
            }
            let Some(later) = later else { break };
            for _ in 0..later {
                self.open_again(0)?;
                self.drain(0, sink)?;
                let Some(done) = self.logs.pop_front() else { break };
                sink.complete(done.number, done.end, done.damage.map(|damage| damage.error))?;
            }
        }
        Ok(())
    }

    /// Delivers the new records of log `at` of the list.
    fn drain(&mut self, at: usize, sink: &mut dyn LogSink) -> Result<()> {
        while self.peek(at)? {
            pumice_port::fiber::maybe_yield();
            let Some(log) = self.logs.get_mut(at) else { break };
            if let Some(record) = log.held.take() {
                sink.record(log.number, log.reader.timestamp_sizes(), &record)?;
            }
        }
        Ok(())
    }

    /// Whether log `at` has a record now, which is held then.
    fn peek(&mut self, at: usize) -> Result<bool> {
        let Some(log) = self.logs.get_mut(at) else { return Ok(false) };
        if log.held.is_some() || log.stopped {
            return Ok(log.held.is_some());
        }
        let mut record = Vec::new();
        loop {
            match log.reader.read_record(&mut record) {
                Ok(Some(info)) if info.end <= log.end => {}
                Ok(Some(info)) => {
                    (log.end, log.held) = (info.end, Some(record));
                    log.damage = None;
                    return Ok(true);
                }
                Ok(None) => {
                    log.stopped = log.reader.end() != LogEnd::NotYet || log.reader.may_change();
                    return Ok(false);
                }
                Err(error) if error.is_corruption() => {
                    log.stopped = true;
                    let bytes = self.fs.file_size(&log.path).unwrap_or(log.end);
                    let before = log.damage.replace(Damage { error, end: log.end, bytes });
                    return match (before, &log.damage) {
                        (Some(before), Some(now)) if before.is_lasting(now) => {
                            Err(now.error.clone())
                        }
                        _ => Ok(false),
                    };
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// A reader that stopped may find more; it starts from the beginning, since its position is
    /// lost.
    fn open_again(&mut self, at: usize) -> Result<()> {
        let Some(log) = self.logs.get(at).filter(|log| log.stopped) else { return Ok(()) };
        let (number, file) = (log.number, self.fs.open_sequential(&log.path)?);
        let reader = self.reader(number, file);
        if let Some(log) = self.logs.get_mut(at) {
            (log.reader, log.stopped) = (reader, false);
        }
        Ok(())
    }

    fn reader(&self, number: FileNumber, file: Box<dyn SequentialFile>) -> LogReader {
        LogReader::new(file, LogReaderOptions::followed_wal(number, self.mode), None)
    }
}

impl Damage {
    /// The damage is unchanged although the log has grown: no write is in progress there.
    fn is_lasting(&self, now: &Damage) -> bool {
        self.end == now.end && self.bytes < now.bytes
    }
}

#[cfg(test)]
mod tests;
