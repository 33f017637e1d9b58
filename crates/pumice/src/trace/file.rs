//! Records of traces, and the files that hold them.
//!
//! ```text
//! record = micros since 1970 (fixed64) ‖ type (1 byte) ‖ length (fixed32) ‖ payload
//! ```
//!
//! Thread safety: a writer and a reader have one user at a time. Every call may suspend.
//!
//! What it does not do: sync. A trace that its process did not end lacks what was buffered; a
//! record that is cut off at the end of the file is the end.

use std::path::{Path, PathBuf};

use pumice_base::coding::{Decoder, put_fixed32, put_fixed64};
use pumice_base::narrow::len_u32;
use pumice_base::{Error, ErrorKind, Result};
use pumice_env::{BufferedWriter, FileOptions, FileSystem, SequentialFile, WriterOptions};
use std::sync::Arc;

/// First in the payload of every header.
pub(crate) const MAGIC: &str = "feedcafedeadbeef";
/// The RocksDB whose formats these are.
pub(crate) const ROCKSDB_VERSION: (u32, u32) = (11, 8);
// Types of records. Persisted. Never renumber.
pub(crate) const BEGIN: u8 = 1;
pub(crate) const END: u8 = 2;
/// Bytes before the payload.
pub(crate) const RECORD_HEADER_LEN: usize = 13;
/// Of the writer.
const BUFFER_BYTES: usize = 1 << 20;
/// Read at once.
const PIECE_BYTES: usize = 64 << 10;

/// The bytes of a record.
pub(crate) fn record(micros: u64, kind: u8, payload: &[u8]) -> Vec<u8> {
    let mut record = Vec::with_capacity(RECORD_HEADER_LEN + payload.len());
    put_fixed64(&mut record, micros);
    record.push(kind);
    put_fixed32(&mut record, len_u32(payload.len()));
    record.extend_from_slice(payload);
    record
}

/// Time, type and payload of a record.
///
/// # Errors
/// Corruption if it is not whole.
pub(crate) fn parts(record: &[u8]) -> Result<(u64, u8, &[u8])> {
    let mut input = Decoder::new(record);
    let head = (input.fixed64(), input.u8(), input.fixed32());
    let (Some(micros), Some(kind), Some(len)) = head else { return Err(cut_record()) };
    match input.bytes(len as usize) {
        Some(payload) if input.is_empty() => Ok((micros, kind, payload)),
        _ => Err(cut_record()),
    }
}

fn cut_record() -> Error {
    Error::corruption("Decode trace string failed")
}

/// Where a trace goes. Its calls come one at a time, from any thread, and must not call the
/// database that is traced.
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// use pumice::trace::{TraceOptions, TraceWriter};
/// use std::sync::{Arc, Mutex};
///
/// struct InMemory(Arc<Mutex<Vec<u8>>>);
///
/// impl TraceWriter for InMemory {
///     fn write(&mut self, record: &[u8]) -> Result<(), pumice::Error> {
///         self.0.lock().unwrap().extend_from_slice(record);
///         Ok(())
///     }
///     fn close(&mut self) -> Result<(), pumice::Error> {
///         Ok(())
///     }
///     fn file_size(&self) -> u64 {
///         self.0.lock().unwrap().len() as u64
///     }
/// }
///
/// # let dir = std::env::temp_dir().join(format!("pumice-trace-writer-{}", std::process::id()));
/// let db = pumice::Db::builder(&dir).create(true).open()?;
/// let bytes = Arc::new(Mutex::new(Vec::new()));
/// db.start_trace(&TraceOptions::default(), Box::new(InMemory(Arc::clone(&bytes))))?;
/// db.put("key", "value")?;
/// db.end_trace()?;
/// assert!(bytes.lock().unwrap().windows(5).any(|part| part == b"value"));
/// # db.close()?;
/// # pumice::Db::destroy(&Default::default(), &dir)?;
/// # Ok(())
/// # }
/// ```
pub trait TraceWriter: Send {
    /// Appends a whole record.
    ///
    /// # Errors
    /// The trace takes no more records then, and its end returns the error.
    fn write(&mut self, record: &[u8]) -> Result<()>;
    /// The trace is over.
    ///
    /// # Errors
    /// Returned by the end of the trace.
    fn close(&mut self) -> Result<()>;
    /// Bytes written so far.
    fn file_size(&self) -> u64;
}

/// Where a trace comes from.
///
/// Example: that of [`FileTraceReader`].
pub trait TraceReader: Send {
    /// The next whole record.
    ///
    /// # Errors
    /// Incomplete at the end; I/O.
    fn read(&mut self) -> Result<Vec<u8>>;
    /// The next record will be the first.
    ///
    /// # Errors
    /// I/O.
    fn reset(&mut self) -> Result<()>;
}

/// A trace's file.
///
/// Example: that of [`FileTraceReader`].
pub struct FileTraceWriter {
    file: BufferedWriter,
}

impl std::fmt::Debug for FileTraceWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileTraceWriter").field("path", &self.file.path()).finish()
    }
}

impl FileTraceWriter {
    /// Makes the file at `path`; one that exists is emptied.
    ///
    /// # Errors
    /// I/O.
    pub fn create(fs: &dyn FileSystem, path: impl AsRef<Path>) -> Result<Self> {
        let file = fs.create(path.as_ref(), &FileOptions::default())?;
        Ok(FileTraceWriter { file: BufferedWriter::new(file, WriterOptions::new(BUFFER_BYTES)) })
    }
}

impl TraceWriter for FileTraceWriter {
    fn write(&mut self, record: &[u8]) -> Result<()> {
        self.file.append(record)
    }
    fn close(&mut self) -> Result<()> {
        self.file.flush()?;
        self.file.close()
    }
    fn file_size(&self) -> u64 {
        self.file.len()
    }
}

/// Reads a trace's file.
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// use pumice::trace::{FileTraceReader, FileTraceWriter, TraceReader, TraceWriter};
/// let fs = pumice::MemFs::new(1).shared();
/// let mut writer = FileTraceWriter::create(&*fs, "/trace")?;
/// let record = [[0; 8].as_slice(), &[2], &[0; 4]].concat();
/// writer.write(&record)?;
/// assert_eq!(writer.file_size(), 13);
/// writer.close()?;
/// let mut reader = FileTraceReader::open(fs, "/trace")?;
/// assert_eq!(reader.read()?, record);
/// assert_eq!(reader.read().unwrap_err().kind(), pumice::ErrorKind::Incomplete);
/// reader.reset()?;
/// assert_eq!(reader.read()?, record);
/// # Ok(())
/// # }
/// ```
pub struct FileTraceReader {
    fs: Arc<dyn FileSystem>,
    path: PathBuf,
    file: Box<dyn SequentialFile>,
    /// Bytes of the file before those of `read`.
    passed: u64,
    /// Bytes read from the file, of which `at` are behind.
    read: Vec<u8>,
    at: usize,
}

impl std::fmt::Debug for FileTraceReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileTraceReader").field("path", &self.path).finish_non_exhaustive()
    }
}

impl FileTraceReader {
    /// Opens the file at `path`.
    ///
    /// # Errors
    /// I/O.
    pub fn open(fs: Arc<dyn FileSystem>, path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref().to_path_buf();
        let file = fs.open_sequential(&path)?;
        Ok(FileTraceReader { fs, path, file, passed: 0, read: Vec::new(), at: 0 })
    }

    /// Whether `bytes` more are at hand, read if they were not. A length is trusted no further
    /// than the file goes.
    fn have(&mut self, bytes: usize) -> Result<bool> {
        if self.at > PIECE_BYTES {
            self.read.drain(..self.at);
            self.passed += self.at as u64;
            self.at = 0;
        }
        while self.read.len() - self.at < bytes {
            let before = self.read.len();
            self.read.resize(before + PIECE_BYTES, 0);
            let got = self.file.read(&mut self.read[before..])?;
            self.read.truncate(before + got);
            if got == 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl TraceReader for FileTraceReader {
    fn read(&mut self) -> Result<Vec<u8>> {
        let at_end = || Error::new(ErrorKind::Incomplete, "");
        if !self.have(RECORD_HEADER_LEN)? {
            return Err(at_end());
        }
        let head = &self.read[self.at..self.at + RECORD_HEADER_LEN];
        let len = head[9..].iter().rev().fold(0, |len, byte| len << 8 | usize::from(*byte));
        // What cannot be whole is not read.
        let end = self.passed + (self.at + RECORD_HEADER_LEN + len) as u64;
        if len > PIECE_BYTES && end > self.fs.file_size(&self.path)? {
            return Err(at_end());
        }
        if !self.have(RECORD_HEADER_LEN + len)? {
            return Err(at_end());
        }
        let end = self.at + RECORD_HEADER_LEN + len;
        let record = self.read[self.at..end].to_vec();
        self.at = end;
        Ok(record)
    }
    fn reset(&mut self) -> Result<()> {
        self.file = self.fs.open_sequential(&self.path)?;
        self.read.clear();
        (self.passed, self.at) = (0, 0);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use pumice_env::{MemFs, write_file};

    /// Bytes of three records, cut anywhere: whole ones are found, then the end.
    #[pumice_test_macros::test]
    fn a_cut_file_ends_with_its_last_whole_record() {
        let records: Vec<_> =
            [0usize, 70_000, 5].map(|len| record(7, 3, &vec![len as u8; len])).to_vec();
        let whole = records.concat();
        let fs = MemFs::new(1).shared();
        let ends: Vec<usize> = records
            .iter()
            .scan(0, |end, record| {
                *end += record.len();
                Some(*end)
            })
            .collect();
        for len in (0..40).chain((70_000..whole.len() + 1).step_by(3)).chain([whole.len()]) {
            let len = len.min(whole.len());
            write_file(&*fs, Path::new("/t"), &whole[..len], false).expect("written");
            let mut reader = FileTraceReader::open(Arc::clone(&fs), "/t").expect("opened");
            let mut found = Vec::new();
            let end = loop {
                match reader.read() {
                    Ok(record) => found.push(record),
                    Err(error) => break error,
                }
            };
            assert_eq!(end.kind(), ErrorKind::Incomplete);
            let expected = ends.iter().filter(|end| **end <= len).count();
            assert_eq!(found, records[..expected]);
        }
    }

    #[pumice_test_macros::test]
    fn parts_are_those_of_the_record() {
        let bytes = record(5, 9, b"text");
        assert_eq!(parts(&bytes).expect("whole"), (5, 9, &b"text"[..]));
        for len in 0..bytes.len() {
            assert!(parts(&bytes[..len]).unwrap_err().is_corruption());
        }
    }
}
