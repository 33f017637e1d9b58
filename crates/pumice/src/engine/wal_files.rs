//! Which logs there are, live and archived, and reading them while the database is open.
//!
//! A log may move to the archive or be deleted at any moment: an open tries both places, and a list
//! leaves out logs deleted meanwhile.
//!
//! Thread safety: from any thread. Reads files and so suspends.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use pumice_base::{Error, FileNumber, Result, SequenceNumber};
use pumice_env::SequentialFile;
use pumice_env::filename;
use pumice_wal::{LogReader, LogReaderOptions};

use crate::commit::batch;
use crate::engine::DbInner;
use crate::engine::checkpoint::KeepFiles;
use crate::log_tail::log_files::{
    LogFile, WalFile, WalFileType, from_sequence, without_passed_over,
};
use crate::log_tail::wal_iterator::{LogSource, WalIterator};

impl LogSource for DbInner {
    fn check_caller(&self) -> Result<()> {
        self.life.check_caller()
    }
    fn published(&self) -> SequenceNumber {
        self.last_sequence.load(Ordering::Acquire)
    }
    fn end_of(&self, number: FileNumber) -> Option<SequenceNumber> {
        self.logs.history.end_of(number)
    }
    fn holds_back(&self, number: FileNumber) -> bool {
        let wal = self.logs.wal.lock();
        wal.number() == number && wal.holds_back()
    }
    fn open(&self, file: LogFile) -> Result<Box<dyn SequentialFile>> {
        let (_, opened) = self.logs.at_log(file, |path| self.dir.fs.open_sequential(path))?;
        Ok(self.up_to_written(file.number, opened))
    }
    fn report(&self, number: FileNumber, what: &str) {
        self.reports.warn(format_args!("log #{number}: {what}"));
    }
}

impl DbInner {
    /// The batches of the logs from `sequence` on.
    ///
    /// # Errors
    /// NotFound if `sequence` is not published yet; I/O; Corruption.
    pub(crate) fn updates_since(self: &Arc<Self>, sequence: SequenceNumber) -> Result<WalIterator> {
        self.life.check_caller()?;
        let published = self.published();
        if sequence > published {
            return Err(Error::not_found("Requested sequence not yet written in the db"));
        }
        let files = from_sequence(self.log_files()?, sequence);
        WalIterator::open(Arc::clone(self) as _, files, sequence, published)
    }

    /// All logs that have a record, ascending, archived ones first.
    ///
    /// # Errors
    /// I/O.
    pub(crate) fn wal_files(&self) -> Result<Vec<WalFile>> {
        self.life.check_caller()?;
        let _keep = KeepFiles::new(self);
        let mut list = Vec::new();
        for file in self.log_files()? {
            let Some(start) = file.start else { continue };
            match self.logs.at_log(file, |path| self.dir.fs.file_size(path)) {
                Ok((archived, bytes)) => {
                    let bytes = self.log_bytes(file.number, bytes);
                    list.push(describe(file.number, archived, start, bytes));
                }
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(list)
    }

    /// The log that writes go to.
    ///
    /// # Errors
    /// NotFound if nothing is written to this database; I/O.
    pub(crate) fn current_wal_file(&self) -> Result<WalFile> {
        self.life.check_caller()?;
        let (number, path) = {
            let wal = self.logs.wal.lock();
            (wal.number(), filename::log_file(wal.dir(), wal.number()))
        };
        if number == 0 {
            return Err(Error::not_found("log file not available"));
        }
        let bytes = self.log_bytes(number, self.dir.fs.file_size(&path)?);
        Ok(describe(number, false, 0, bytes))
    }

    /// The logs that have a record of this database, ascending, and the current one in any case.
    fn log_files(&self) -> Result<Vec<LogFile>> {
        let (dir, current) = {
            let wal = self.logs.wal.lock();
            (wal.dir().to_path_buf(), wal.number())
        };
        let mut found = BTreeMap::new();
        // In this order a log that moves meanwhile is in one of the lists, or in both.
        self.dir.list_logs(&dir, false, &mut found)?;
        self.dir.list_logs(&filename::archive_dir(&dir), true, &mut found)?;
        self.logs.history.retain_starts(|number| found.contains_key(&number));
        {
            let mut wal = self.logs.wal.lock();
            found.retain(|number, _| !wal.spare().has(*number));
        }
        let mut files = Vec::new();
        for (number, archived) in found {
            let mut file = LogFile { number, archived, start: None };
            match self.start_of(file) {
                Ok(start) => file.start = start,
                Err(error) if error.is_not_found() => continue,
                Err(error) => return Err(error),
            }
            // Records that recovery skipped begin after its end.
            let end = self.end_of(number).unwrap_or(SequenceNumber::MAX);
            let has_any = file.start.is_some_and(|start| start <= end.saturating_add(1));
            if has_any || number == current {
                files.push(file);
            }
        }
        Ok(without_passed_over(files))
    }

    /// Sequence number of the first record in a log; None if there is none yet.
    fn start_of(&self, file: LogFile) -> Result<Option<SequenceNumber>> {
        if let Some(start) = self.logs.history.start_of(file.number) {
            return Ok(Some(start));
        }
        let options = LogReaderOptions::growing_wal(file.number);
        let mut reader = LogReader::new(LogSource::open(self, file)?, options, None);
        let mut record = Vec::new();
        while reader.read_record(&mut record)?.is_some() {
            if record.len() >= batch::HEADER_LEN {
                let start = batch::sequence(&record);
                self.logs.history.set_start(file.number, start);
                return Ok(Some(start));
            }
        }
        Ok(None)
    }
}

fn describe(number: FileNumber, archived: bool, start: SequenceNumber, bytes: u64) -> WalFile {
    let top = Path::new("/");
    let (path, file_type) = match archived {
        true => (filename::archived_log_file(top, number), WalFileType::Archived),
        false => (filename::log_file(top, number), WalFileType::Alive),
    };
    WalFile {
        path_name: path.display().to_string(),
        log_number: number,
        file_type,
        start_sequence: start,
        size_file_bytes: bytes,
    }
}
