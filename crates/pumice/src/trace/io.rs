//! The trace of file operations: operations as records, and back.
//!
//! ```text
//! time    = nanoseconds, in place of microseconds since 1970
//! payload = which numbers there are (fixed64, a bit each) ‖ operation (lps) ‖ nanoseconds that it
//!           took (fixed64) ‖ status (lps) ‖ name of the file (lps)
//!           ‖ [size of the file] ‖ [length] ‖ [offset] (fixed64 each)
//!           ‖ which further fields there are (fixed64; bit 0: id of the request, lps)
//! lps     = length (varint32) ‖ bytes
//! ```
//!
//! Thread safety: [`IoTrace`] from anywhere, the rest is plain data.

use std::path::Path;

use pumice_base::coding::{Decoder, put_fixed64, put_length_prefixed};
use pumice_base::{Error, ErrorKind, Result};
use pumice_port::time::now_nanos;

use super::file::{TraceReader, TraceWriter, parts, record};
use super::options::TraceOptions;
use super::{Switch, binary_header, read_binary_header};
use crate::callbacks::Mark;

/// Type of its records. Persisted. Never renumber.
const IO: u8 = 12;
// Bits of the numbers. Persisted. Never renumber.
const FILE_SIZE: u64 = 1;
const LEN: u64 = 1 << 1;
const OFFSET: u64 = 1 << 2;
/// Bit of the further fields.
const REQUEST_ID: u64 = 1;

/// The numbers of an operation; those that do not apply to it are None.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Numbers {
    pub file_size: Option<u64>,
    pub len: Option<u64>,
    pub offset: Option<u64>,
}

impl Numbers {
    /// None.
    pub const NONE: Numbers = Numbers { file_size: None, len: None, offset: None };

    /// That of a whole file.
    pub fn size(file_size: u64) -> Self {
        Numbers { file_size: Some(file_size), ..Numbers::NONE }
    }

    /// Those of a range.
    pub fn range(offset: u64, len: u64) -> Self {
        Numbers { offset: Some(offset), len: Some(len), ..Numbers::NONE }
    }

    /// That of bytes at the place where the file is.
    pub fn len(len: u64) -> Self {
        Numbers { len: Some(len), ..Numbers::NONE }
    }
}

/// An operation on a file or a directory.
///
/// Example: that of [`IoTraceReader`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IoTraceRecord {
    /// When it ended, in nanoseconds of a clock that only moves forward.
    pub nanos: u64,
    /// What was done, as RocksDB calls it: "Append", "Read", "NewWritableFile" ..
    pub file_operation: String,
    /// How long it took.
    pub latency_nanos: u64,
    /// "OK", or the error.
    pub io_status: String,
    /// The last component of the path.
    pub file_name: String,
    /// The size of the file, of operations that tell or set it.
    pub file_size: Option<u64>,
    /// Bytes that were read or written.
    pub len: Option<u64>,
    /// Where.
    pub offset: Option<u64>,
    /// The id of the request, if the program that wrote the trace gave it one.
    pub request_id: Option<String>,
}

impl IoTraceRecord {
    fn encode(&self) -> Vec<u8> {
        let numbers = [(FILE_SIZE, self.file_size), (LEN, self.len), (OFFSET, self.offset)];
        let bits = numbers.iter().filter(|(_, number)| number.is_some());
        let mut payload = Vec::new();
        put_fixed64(&mut payload, bits.fold(0, |map, (bit, _)| map | bit));
        put_length_prefixed(&mut payload, self.file_operation.as_bytes());
        put_fixed64(&mut payload, self.latency_nanos);
        put_length_prefixed(&mut payload, self.io_status.as_bytes());
        put_length_prefixed(&mut payload, self.file_name.as_bytes());
        numbers.iter().filter_map(|(_, number)| *number).for_each(|n| put_fixed64(&mut payload, n));
        put_fixed64(&mut payload, if self.request_id.is_some() { REQUEST_ID } else { 0 });
        if let Some(id) = &self.request_id {
            put_length_prefixed(&mut payload, id.as_bytes());
        }
        record(self.nanos, IO, &payload)
    }

    fn decode(nanos: u64, payload: &[u8]) -> Option<Self> {
        let mut input = Decoder::new(payload);
        let map = input.fixed64()?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut record = IoTraceRecord {
            nanos,
            file_operation: text(input.length_prefixed()?),
            latency_nanos: input.fixed64()?,
            io_status: text(input.length_prefixed()?),
            file_name: text(input.length_prefixed()?),
            file_size: None,
            len: None,
            offset: None,
            request_id: None,
        };
        let numbers = [&mut record.file_size, &mut record.len, &mut record.offset];
        for (bit, number) in [FILE_SIZE, LEN, OFFSET].into_iter().zip(numbers) {
            if map & bit != 0 {
                *number = Some(input.fixed64()?);
            }
        }
        if input.fixed64()? & REQUEST_ID != 0 {
            record.request_id = Some(text(input.length_prefixed()?));
        }
        Some(record)
    }
}

/// Reads a trace of file operations.
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// use pumice::trace::{FileTraceReader, FileTraceWriter, IoTraceReader, TraceOptions};
/// # let fs = pumice::MemFs::new(1).shared();
/// # let own = fs.clone();
/// # let db = pumice::Db::builder("/db").create(true);
/// # let db = db.configure(|options| options.db.file_system = own).open()?;
/// let writer = FileTraceWriter::create(&*fs, "/trace")?;
/// db.start_io_trace(&TraceOptions::default(), Box::new(writer))?;
/// db.put("key", "value")?;
/// db.flush()?;
/// db.end_io_trace()?;
///
/// let mut reader = IoTraceReader::new(Box::new(FileTraceReader::open(fs, "/trace")?))?;
/// let done = std::iter::from_fn(|| reader.next().transpose());
/// let done: Vec<_> = done.collect::<Result<_, _>>()?;
/// assert!(done.iter().any(|io| io.file_operation == "NewWritableFile" && io.io_status == "OK"));
/// # db.close()
/// # }
/// ```
pub struct IoTraceReader {
    reader: Box<dyn TraceReader>,
    began_micros: u64,
}

impl std::fmt::Debug for IoTraceReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IoTraceReader").finish_non_exhaustive()
    }
}

impl IoTraceReader {
    /// Reads the header.
    ///
    /// # Errors
    /// Corruption if it is none; those of the reader.
    pub fn new(mut reader: Box<dyn TraceReader>) -> Result<Self> {
        let began_micros = read_binary_header(&mut *reader)?;
        Ok(IoTraceReader { reader, began_micros })
    }

    /// When the trace began: microseconds since 1970.
    pub fn began_micros(&self) -> u64 {
        self.began_micros
    }

    /// The next operation; None at the end.
    ///
    /// # Errors
    /// Incomplete for a record that lacks something; those of the reader.
    #[expect(clippy::should_implement_trait, reason = "an error ends no iteration here")]
    pub fn next(&mut self) -> Result<Option<IoTraceRecord>> {
        let bytes = match self.reader.read() {
            Err(error) if error.kind() == ErrorKind::Incomplete => return Ok(None),
            read => read?,
        };
        let (nanos, kind, payload) = parts(&bytes)?;
        if kind != IO {
            return Err(Error::corruption("no record of a trace of files"));
        }
        let record = IoTraceRecord::decode(nanos, payload);
        record.map(Some).ok_or_else(|| Error::incomplete("Incomplete access record"))
    }
}

/// The trace of file operations of a database.
pub(crate) struct IoTrace(Switch);

impl IoTrace {
    /// One that is off, of the database `mark`.
    pub fn new(mark: Mark) -> Self {
        IoTrace(Switch::new(mark))
    }

    /// Begins a trace. As in RocksDB it is neither sampled nor filtered.
    ///
    /// # Errors
    /// Busy if there is one; those of the writer.
    pub fn start(&self, options: &TraceOptions, writer: Box<dyn TraceWriter>) -> Result<()> {
        let header = binary_header();
        self.0.start(writer, options.max_trace_file_size, (&header, false), || ())
    }

    /// Ends it, if there is one.
    ///
    /// # Errors
    /// The first error of its writer.
    pub fn end(&self) -> Result<()> {
        self.0.end(&[]).unwrap_or(Ok(()))
    }

    /// Whether there is one.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.0.is_on()
    }

    /// Runs `act` on the file at `path`, and notes it if there is a trace.
    #[inline]
    pub fn watch<R>(
        &self,
        operation: &str,
        path: &Path,
        numbers: impl FnOnce(&Result<R>) -> Numbers,
        act: impl FnOnce() -> Result<R>,
    ) -> Result<R> {
        if !self.is_on() {
            return act();
        }
        let began = now_nanos();
        let done = act();
        let took = now_nanos().saturating_sub(began);
        self.add(operation, path, (took, done.as_ref().err()), numbers(&done));
        done
    }

    /// Notes an operation that took so many nanoseconds.
    pub fn add(
        &self,
        operation: &str,
        path: &Path,
        (latency_nanos, error): (u64, Option<&Error>),
        numbers: Numbers,
    ) {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let mut record = IoTraceRecord {
            nanos: 0,
            file_operation: operation.to_string(),
            latency_nanos,
            io_status: error.map_or_else(|| "OK".to_string(), Error::to_string),
            file_name: name.unwrap_or_default(),
            file_size: numbers.file_size,
            len: numbers.len,
            offset: numbers.offset,
            request_id: None,
        };
        // Under the lock of the trace, so that times are in the order of records.
        let encode = move || {
            record.nanos = now_nanos();
            record.encode()
        };
        self.0.note(|| true, encode);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[pumice_test_macros::test]
    fn operations_come_back() {
        for bits in 0..16 {
            let number = |bit: u64, value: u64| (bits & bit != 0).then_some(value);
            let record = IoTraceRecord {
                nanos: 5,
                file_operation: "Read".to_string(),
                latency_nanos: 8,
                io_status: "OK".to_string(),
                file_name: "000004.sst".to_string(),
                file_size: number(FILE_SIZE, 1 << 40),
                len: number(LEN, 4096),
                offset: number(OFFSET, 77),
                request_id: number(8, 1).map(|_| "id".to_string()),
            };
            let bytes = record.encode();
            let (nanos, _, payload) = parts(&bytes).unwrap();
            assert_eq!(IoTraceRecord::decode(nanos, payload), Some(record));
            for len in 0..payload.len() {
                assert_eq!(IoTraceRecord::decode(nanos, &payload[..len]), None);
            }
        }
    }
}
