//! A file in memory that records what happened to it, and fails or panics on demand; or one that
//! discards its bytes, for benchmarks.
#![allow(dead_code, missing_docs)]

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

use pumice_base::{Error, Result};
use pumice_env::{BufferedWriter, FileSyncer, WritableFile, WriterOptions};
use pumice_port::sync::Mutex;

/// What a call of `append` does instead of writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sickness {
    Error,
    Panic,
}

/// What has happened to a file.
#[derive(Clone, Debug, Default)]
pub struct Record {
    pub bytes: Vec<u8>,
    pub appends: usize,
    pub closed: bool,
    pub dropped: bool,
}

/// The file; its record outlives it.
pub struct RecordedFile {
    record: Arc<Mutex<Record>>,
    sick: Option<(usize, Sickness)>,
    /// The file's bytes go into the record.
    keeps: bool,
    bytes: u64,
}

impl RecordedFile {
    /// A writer with a buffer of 4 KiB over a file that fails at `append` number `sick.0`.
    pub fn writer(sick: Option<(usize, Sickness)>) -> (BufferedWriter, Arc<Mutex<Record>>) {
        let record = Arc::new(Mutex::new(Record::default()));
        let file = RecordedFile { record: Arc::clone(&record), sick, keeps: true, bytes: 0 };
        let file = Box::new(file);
        let options = WriterOptions::new(4096);
        (BufferedWriter::new(file, options), record)
    }

    /// A writer with the usual buffer over a file that discards all writes.
    pub fn forgetting() -> BufferedWriter {
        let file = RecordedFile { record: Arc::default(), sick: None, keeps: false, bytes: 0 };
        BufferedWriter::new(Box::new(file), WriterOptions::new(1 << 20))
    }
}

impl Drop for RecordedFile {
    fn drop(&mut self) {
        self.record.lock().dropped = true;
    }
}

impl WritableFile for RecordedFile {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        let mut record = self.record.lock();
        let number = record.appends;
        record.appends += 1;
        assert!(!record.closed, "append after close");
        match self.sick {
            Some((at, kind)) if at == number => {
                drop(record);
                assert!(kind == Sickness::Error, "injected panic");
                return Err(Error::io_message("injected error"));
            }
            Some((at, _)) => assert!(number < at, "append after the injected error"),
            None => {}
        }
        self.bytes += black_box(data).len() as u64;
        if self.keeps {
            record.bytes.extend_from_slice(data);
        }
        Ok(())
    }
    fn overwrite(&mut self, _: u64, _: &[u8], _: u64) -> Result<()> {
        unreachable!("tables are not written over others")
    }
    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
    fn sync(&mut self) -> Result<()> {
        Ok(())
    }
    fn fsync(&mut self) -> Result<()> {
        Ok(())
    }
    fn range_sync(&mut self, _: u64, _: u64, _: bool) -> Result<()> {
        Ok(())
    }
    fn preallocate(&mut self, _: u64) -> Result<()> {
        Ok(())
    }
    fn truncate(&mut self, _: u64) -> Result<()> {
        Err(Error::not_supported("truncate"))
    }
    fn close(&mut self) -> Result<()> {
        self.record.lock().closed = true;
        Ok(())
    }
    fn syncer(&self) -> Result<Arc<dyn FileSyncer>> {
        Err(Error::not_supported("syncer"))
    }
    fn len(&self) -> u64 {
        self.bytes
    }
    fn path(&self) -> &Path {
        Path::new("/recorded.sst")
    }
}
