//! The logs of a database, live and archived, and which of them an iterator has to read.
//!
//! Thread safety: plain data.

use pumice_base::{FileNumber, SequenceNumber};

/// Where a log is.
///
/// Example: that of [`WalFile`](crate::WalFile).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WalFileType {
    /// In the archive: the database does not need it any more.
    Archived = 0,
    /// In the directory of the logs.
    Alive = 1,
}

/// A write-ahead log, as [`crate::Db::wal_files`] lists it.
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// # let dir = std::env::temp_dir().join(format!("pumice-walfile-{}", std::process::id()));
/// # let db = pumice::Db::builder(&dir).create(true).open()?;
/// use pumice::{WalFile, WalFileType};
/// db.put("a", "1")?;
/// let logs: Vec<WalFile> = db.wal_files()?;
/// assert_eq!(logs.len(), 1);
/// assert_eq!(logs[0].file_type, WalFileType::Alive);
/// assert_eq!(logs[0].path_name, format!("/{:06}.log", logs[0].log_number));
/// # db.close()?;
/// # pumice::Db::destroy(&Default::default(), &dir)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WalFile {
    /// Name relative to the directory of the logs, with a leading slash as in RocksDB:
    /// `/000004.log`, `/archive/000004.log`.
    pub path_name: String,
    /// The log's number.
    pub log_number: u64,
    /// Where it is.
    pub file_type: WalFileType,
    /// Sequence number of its first write; 0 if that was not looked up.
    pub start_sequence: SequenceNumber,
    /// The log's length in bytes.
    pub size_file_bytes: u64,
}

/// A log that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogFile {
    pub number: FileNumber,
    pub archived: bool,
    /// Sequence number of its first record; None for the current log while it has none.
    pub start: Option<SequenceNumber>,
}

/// Leaves out of `files`, in ascending order, the logs that begin after a later one. Recovery
/// skipped them, and other writes have their sequence numbers: their records are in no database.
pub(crate) fn without_passed_over(files: Vec<LogFile>) -> Vec<LogFile> {
    let mut next = SequenceNumber::MAX;
    let mut kept: Vec<LogFile> = Vec::with_capacity(files.len());
    for file in files.into_iter().rev() {
        let start = file.start.unwrap_or(next);
        if start <= next {
            next = start;
            kept.push(file);
        }
    }
    kept.reverse();
    kept
}

/// Of `files` in ascending order the last that begins at or before `sequence`, and all later ones;
/// all of them if none does.
pub(crate) fn from_sequence(mut files: Vec<LogFile>, sequence: SequenceNumber) -> Vec<LogFile> {
    let after = files.partition_point(|file| file.start.is_some_and(|start| start <= sequence));
    files.drain(..after.saturating_sub(1));
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(starts: &[Option<u64>]) -> Vec<LogFile> {
        let file = |(at, start): (usize, &Option<u64>)| LogFile {
            number: at as u64,
            archived: false,
            start: *start,
        };
        starts.iter().enumerate().map(file).collect()
    }

    fn numbers(files: &[LogFile]) -> Vec<u64> {
        files.iter().map(|file| file.number).collect()
    }

    #[pumice_test_macros::test]
    fn the_log_with_the_sequence_is_the_first() {
        let all = files(&[Some(10), Some(20), Some(30), None]);
        for (sequence, first) in [(0, 0), (9, 0), (10, 0), (19, 0), (20, 1), (29, 1), (99, 2)] {
            let kept = numbers(&from_sequence(all.clone(), sequence));
            assert_eq!(kept, (first..4).collect::<Vec<u64>>(), "from {sequence}");
        }
        assert_eq!(numbers(&from_sequence(files(&[None]), 5)), [0]);
        assert!(from_sequence(Vec::new(), 5).is_empty());
    }

    #[pumice_test_macros::test]
    fn logs_whose_numbers_others_took_are_left_out() {
        // Recovery stopped inside the first; the second was skipped.
        let all = files(&[Some(1), Some(50), Some(40), Some(60), None]);
        assert_eq!(numbers(&without_passed_over(all)), [0, 2, 3, 4]);
        let all = files(&[Some(1), Some(50), None]);
        assert_eq!(numbers(&without_passed_over(all)), [0, 1, 2]);
    }
}
