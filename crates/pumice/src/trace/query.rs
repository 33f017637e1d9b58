//! Calls of a database as records of a query trace (version 0.2), and back.
//!
//! ```text
//! file    = Begin, calls, End; the payload of Begin is text, that of End is empty
//! payload = which fields there are (fixed64, a bit each) ‖ the fields, lowest bit first
//! ```
//!
//! Thread safety: [`QueryTrace`] from anywhere, the rest is plain data.
//!
//! What it does not do: note sections of prepared transactions, which are noted when they are
//! committed, and timestamps of reads.

use std::sync::atomic::{AtomicU64, Ordering};

use pumice_base::coding::{Decoder, put_fixed32, put_fixed64, put_length_prefixed};
use pumice_base::narrow::len_u32;
use pumice_base::{Error, ErrorKind, Result};
use pumice_port::sync::Mutex;
use pumice_port::time::wall_micros;

use super::Switch;
use super::file::{BEGIN, END, MAGIC, ROCKSDB_VERSION, TraceReader, TraceWriter, parts, record};
use super::options::{TraceFilter, TraceOptions};
use crate::callbacks::Mark;
use crate::lock_order;

// Types of records. Persisted. Never renumber.
const WRITE: u8 = 3;
const GET: u8 = 4;
const SEEK: u8 = 5;
const SEEK_FOR_PREV: u8 = 6;
const MULTI_GET: u8 = 13;

/// Bits of the payload's map. Persisted. Never renumber.
mod field {
    pub const BATCH: u32 = 1;
    pub const GET_FAMILY: u32 = 2;
    pub const GET_KEY: u32 = 3;
    pub const SEEK_FAMILY: u32 = 4;
    pub const SEEK_KEY: u32 = 5;
    pub const LOWER: u32 = 6;
    pub const UPPER: u32 = 7;
    pub const KEYS: u32 = 8;
    pub const FAMILIES: u32 = 9;
    pub const KEY_LIST: u32 = 10;
}

/// A call of a database.
///
/// Example: that of [`TraceRecord`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TraceQuery {
    /// A batch in its wire format.
    Write(Vec<u8>),
    /// A point read.
    Get {
        /// Id of the column family.
        family: u32,
        /// What was asked for.
        key: Vec<u8>,
    },
    /// A seek of an iterator.
    Seek {
        /// Id of the column family.
        family: u32,
        /// The target.
        key: Vec<u8>,
        /// The iterator's lower and upper bound; empty for none.
        bounds: [Vec<u8>; 2],
        /// To the last key at or before the target.
        for_prev: bool,
    },
    /// Several point reads as one: ids of column families and keys.
    MultiGet(Vec<(u32, Vec<u8>)>),
}

/// A record of a query trace.
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// use pumice::trace::{FileTraceReader, FileTraceWriter, TraceOptions, TraceQuery};
/// use pumice::{Db, MemFs, ReplayOptions};
/// let fs = MemFs::new(1).shared();
/// let own = fs.clone();
/// let db = Db::builder("/db").create(true).configure(|options| options.db.file_system = own);
/// let db = db.open()?;
/// db.start_trace(
///     &TraceOptions::default(),
///     Box::new(FileTraceWriter::create(&*fs, "/trace")?),
/// )?;
/// db.put("key", "value")?;
/// db.get("key")?;
/// db.end_trace()?;
///
/// let trace = Box::new(FileTraceReader::open(fs, "/trace")?);
/// let mut replayer = db.new_default_replayer(&[db.default_column_family().clone()], trace)?;
/// replayer.prepare()?;
/// assert!(matches!(replayer.next()?.query, TraceQuery::Write(_)));
/// let read = replayer.next()?;
/// assert_eq!(read.query, TraceQuery::Get { family: 0, key: b"key".to_vec() });
/// assert!(read.micros >= replayer.header_timestamp());
/// # db.close()
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceRecord {
    /// When it was made: microseconds since 1970.
    pub micros: u64,
    /// What was asked.
    pub query: TraceQuery,
}

/// A call that is about to be made.
pub(crate) enum Call<'a> {
    /// The parts of a batch in its wire format.
    Write([&'a [u8]; 2]),
    Get(u32, &'a [u8]),
    Seek {
        family: u32,
        key: &'a [u8],
        bounds: [&'a [u8]; 2],
        for_prev: bool,
    },
    MultiGet(&'a [(u32, &'a [u8])]),
}

fn begin_payload() -> String {
    let (major, minor) = ROCKSDB_VERSION;
    format!(
        "{MAGIC}\tTrace Version: 0.2\tRocksDB Version: {major}.{minor}\t\
         Format: Timestamp OpType Payload\n"
    )
}

impl Call<'_> {
    fn filter(&self) -> TraceFilter {
        match self {
            Call::Write(_) => TraceFilter::WRITE,
            Call::Get(..) => TraceFilter::GET,
            Call::Seek { for_prev: false, .. } => TraceFilter::ITERATOR_SEEK,
            Call::Seek { for_prev: true, .. } => TraceFilter::ITERATOR_SEEK_FOR_PREV,
            Call::MultiGet(_) => TraceFilter::MULTI_GET,
        }
    }

    fn encode(&self, micros: u64) -> Vec<u8> {
        let mut payload = Vec::new();
        let mut fields = |bits: &[u32]| {
            put_fixed64(&mut payload, bits.iter().fold(0, |map, bit| map | 1 << bit));
        };
        let kind = match self {
            Call::Write(parts) => {
                fields(&[field::BATCH]);
                put_length_prefixed(&mut payload, &parts.concat());
                WRITE
            }
            Call::Get(family, key) => {
                fields(&[field::GET_FAMILY, field::GET_KEY]);
                put_fixed32(&mut payload, *family);
                put_length_prefixed(&mut payload, key);
                GET
            }
            Call::Seek { family, key, bounds, for_prev } => {
                let given = [field::LOWER, field::UPPER].into_iter().zip(bounds);
                let given = given.filter(|(_, bound)| !bound.is_empty());
                let mut bits = vec![field::SEEK_FAMILY, field::SEEK_KEY];
                bits.extend(given.map(|(bit, _)| bit));
                fields(&bits);
                put_fixed32(&mut payload, *family);
                put_length_prefixed(&mut payload, key);
                let given = bounds.iter().filter(|bound| !bound.is_empty());
                given.for_each(|bound| put_length_prefixed(&mut payload, bound));
                if *for_prev { SEEK_FOR_PREV } else { SEEK }
            }
            Call::MultiGet(keys) => {
                let (mut families, mut list) = (Vec::new(), Vec::new());
                for (family, key) in *keys {
                    put_fixed32(&mut families, *family);
                    put_length_prefixed(&mut list, key);
                }
                fields(&[field::KEYS, field::FAMILIES, field::KEY_LIST]);
                put_fixed32(&mut payload, len_u32(keys.len()));
                put_length_prefixed(&mut payload, &families);
                put_length_prefixed(&mut payload, &list);
                MULTI_GET
            }
        };
        record(micros, kind, &payload)
    }
}

/// What a record of a trace's file is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Decoded {
    Query(TraceRecord),
    /// The end of the trace.
    End,
    /// A type that is no query.
    Other,
}

/// A call further from the beginning of its trace has a damaged time: a year.
const SPAN_MICROS_MAX: u64 = 366 * 86_400 * 1_000_000;

/// The meaning of a record of a trace that began then.
///
/// # Errors
/// Corruption, also for a time that is out of reach: a replay would wait for it.
pub(crate) fn decode_since(began_micros: u64, record: &[u8]) -> Result<Decoded> {
    let decoded = decode(record)?;
    match &decoded {
        Decoded::Query(call) if call.micros.saturating_sub(began_micros) > SPAN_MICROS_MAX => {
            Err(Error::corruption("trace record has a time over a year after the beginning"))
        }
        _ => Ok(decoded),
    }
}

fn decode(record: &[u8]) -> Result<Decoded> {
    let (micros, kind, payload) = parts(record)?;
    match kind {
        END => Ok(Decoded::End),
        WRITE | GET | SEEK | SEEK_FOR_PREV | MULTI_GET => {
            let query = decode_query(kind, payload).ok_or_else(|| {
                Error::corruption(format!("trace record of type {kind} is malformed"))
            })?;
            Ok(Decoded::Query(TraceRecord { micros, query }))
        }
        _ => Ok(Decoded::Other),
    }
}

fn decode_query(kind: u8, payload: &[u8]) -> Option<TraceQuery> {
    let mut input = Decoder::new(payload);
    let map = input.fixed64()?;
    let has = |bit: u32| map & 1 << bit != 0;
    let own = |bytes: &[u8]| bytes.to_vec();
    match kind {
        WRITE if has(field::BATCH) => Some(TraceQuery::Write(own(input.length_prefixed()?))),
        GET if has(field::GET_FAMILY) && has(field::GET_KEY) => {
            let (family, key) = (input.fixed32()?, own(input.length_prefixed()?));
            Some(TraceQuery::Get { family, key })
        }
        SEEK | SEEK_FOR_PREV if has(field::SEEK_FAMILY) && has(field::SEEK_KEY) => {
            let (family, key) = (input.fixed32()?, own(input.length_prefixed()?));
            let mut bounds = [Vec::new(), Vec::new()];
            for (bound, bit) in bounds.iter_mut().zip([field::LOWER, field::UPPER]) {
                if has(bit) {
                    *bound = own(input.length_prefixed()?);
                }
            }
            Some(TraceQuery::Seek { family, key, bounds, for_prev: kind == SEEK_FOR_PREV })
        }
        MULTI_GET => {
            let count = input.fixed32()?;
            let mut families = Decoder::new(input.length_prefixed()?);
            let mut list = Decoder::new(input.length_prefixed()?);
            let keys =
                (0..count).map(|_| Some((families.fixed32()?, own(list.length_prefixed()?))));
            Some(TraceQuery::MultiGet(keys.collect::<Option<_>>()?))
        }
        _ => None,
    }
}

fn bad_header(what: &str) -> Error {
    Error::corruption(format!("Corrupted trace file. Incorrect {what}."))
}

/// The time of a trace's header, its first record.
///
/// # Errors
/// Corruption for what is no header; NotSupported for another version of the format; those of the
/// reader.
pub(crate) fn read_header(reader: &mut dyn TraceReader) -> Result<u64> {
    match reader.read() {
        Err(error) if error.kind() == ErrorKind::Incomplete => Err(bad_header("header")),
        record => began(&record?),
    }
}

fn began(record: &[u8]) -> Result<u64> {
    let (micros, kind, payload) = parts(record)?;
    let text = std::str::from_utf8(payload).unwrap_or_default();
    if kind != BEGIN {
        return Err(bad_header("header"));
    }
    let mut words = text.split('\t');
    if words.next() != Some(MAGIC) {
        return Err(bad_header("magic"));
    }
    match words.next().and_then(|word| word.strip_prefix("Trace Version: ")) {
        Some("0.2") => {}
        version => {
            let version = version.unwrap_or_default();
            return Err(Error::not_supported(format!("trace version {version:?}")));
        }
    }
    if micros == 0 {
        return Err(bad_header("header timestamp"));
    }
    Ok(micros)
}

/// Reads a trace of queries.
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// use pumice::trace::{FileTraceReader, FileTraceWriter, QueryTraceReader, TraceOptions};
/// # let fs = pumice::MemFs::new(1).shared();
/// # let own = fs.clone();
/// # let db = pumice::Db::builder("/db").create(true);
/// # let db = db.configure(|options| options.db.file_system = own).open()?;
/// let writer = FileTraceWriter::create(&*fs, "/trace")?;
/// db.start_trace(&TraceOptions::default(), Box::new(writer))?;
/// db.get("key")?;
/// db.end_trace()?;
/// let mut reader = QueryTraceReader::new(Box::new(FileTraceReader::open(fs, "/trace")?))?;
/// assert!(reader.next()?.is_some_and(|record| record.micros >= reader.began_micros()));
/// assert_eq!(reader.next()?, None);
/// # db.close()
/// # }
/// ```
pub struct QueryTraceReader {
    reader: Box<dyn TraceReader>,
    began_micros: u64,
}

impl std::fmt::Debug for QueryTraceReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QueryTraceReader").finish_non_exhaustive()
    }
}

impl QueryTraceReader {
    /// Reads the header.
    ///
    /// # Errors
    /// Corruption if it is none, NotSupported for another version than 0.2; those of the reader.
    pub fn new(mut reader: Box<dyn TraceReader>) -> Result<Self> {
        let began_micros = read_header(&mut *reader)?;
        Ok(QueryTraceReader { reader, began_micros })
    }

    /// When the trace began: microseconds since 1970.
    pub fn began_micros(&self) -> u64 {
        self.began_micros
    }

    /// The next call; None at the end. A trace that was not ended ends with its last whole record.
    ///
    /// # Errors
    /// Corruption; NotSupported for a record that is no call, after which come the others; those
    /// of the reader.
    #[expect(clippy::should_implement_trait, reason = "an error ends no iteration here")]
    pub fn next(&mut self) -> Result<Option<TraceRecord>> {
        let bytes = match self.reader.read() {
            Err(error) if error.kind() == ErrorKind::Incomplete => return Ok(None),
            read => read?,
        };
        match decode_since(self.began_micros, &bytes)? {
            Decoded::Query(record) => Ok(Some(record)),
            Decoded::End => Ok(None),
            Decoded::Other => Err(Error::not_supported("Unsupported trace type.")),
        }
    }
}

/// The query trace of a database.
pub(crate) struct QueryTrace {
    switch: Switch,
    options: Mutex<TraceOptions>,
    /// Queries since the last that was recorded.
    passed: AtomicU64,
}

impl QueryTrace {
    /// One that is off, of the database `mark`.
    pub fn new(mark: Mark) -> Self {
        QueryTrace {
            switch: Switch::new(mark),
            options: Mutex::ranked(&lock_order::TRACE_OPTIONS, TraceOptions::default()),
            passed: AtomicU64::new(0),
        }
    }

    /// Begins a trace, in place of the one under way if there is one.
    ///
    /// # Errors
    /// Those of the writer; a trace under way then goes on.
    pub fn start(&self, options: &TraceOptions, writer: Box<dyn TraceWriter>) -> Result<()> {
        let header = record(wall_micros(), BEGIN, begin_payload().as_bytes());
        self.switch.start(writer, options.max_trace_file_size, (&header, true), || {
            *self.options.lock() = options.clone();
            self.passed.store(0, Ordering::Relaxed);
        })
    }

    /// Ends it.
    ///
    /// # Errors
    /// IOError if there is none; the first error of its writer.
    pub fn end(&self) -> Result<()> {
        let ended = self.switch.end(&record(wall_micros(), END, b""));
        ended.unwrap_or_else(|| Err(Error::new(ErrorKind::IoError, "No trace file to close")))
    }

    /// Whether there is one.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.switch.is_on()
    }

    /// Notes a call that is about to be made.
    #[cold]
    pub fn note(&self, call: &Call<'_>) {
        self.switch.note(|| self.wants(call.filter()), || call.encode(wall_micros()));
    }

    /// Whether the sample has a query of that kind. Called under the lock of the trace.
    fn wants(&self, kind: TraceFilter) -> bool {
        let options = self.options.lock();
        if options.filter.contains(kind) {
            return false;
        }
        let passed = self.passed.load(Ordering::Relaxed) + 1;
        let wanted = passed >= options.sampling_frequency;
        self.passed.store(if wanted { 0 } else { passed }, Ordering::Relaxed);
        wanted
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn calls() -> Vec<(Call<'static>, TraceQuery)> {
        let mut calls = vec![
            (Call::Write([b"bat", b"ch"]), TraceQuery::Write(b"batch".to_vec())),
            (Call::Get(7, b"key"), TraceQuery::Get { family: 7, key: b"key".to_vec() }),
            (
                Call::MultiGet(&[(0, b"one"), (2, b"")]),
                TraceQuery::MultiGet(vec![(0, b"one".to_vec()), (2, Vec::new())]),
            ),
        ];
        let bounds: [[&[u8]; 2]; 4] = [[b"", b""], [b"a", b""], [b"", b"z"], [b"a", b"z"]];
        for (bounds, for_prev) in bounds.into_iter().zip([false, true, false, true]) {
            let call = Call::Seek { family: 3, key: b"k", bounds, for_prev };
            let bounds = bounds.map(<[u8]>::to_vec);
            calls
                .push((call, TraceQuery::Seek { family: 3, key: b"k".to_vec(), bounds, for_prev }));
        }
        calls
    }

    #[pumice_test_macros::test]
    fn calls_come_back() {
        for (micros, (call, query)) in (100..).zip(calls()) {
            let decoded = decode(&call.encode(micros)).unwrap();
            assert_eq!(decoded, Decoded::Query(TraceRecord { micros, query }));
        }
    }

    #[pumice_test_macros::test]
    fn damaged_records_are_errors() {
        for (call, _) in calls() {
            let whole = call.encode(5);
            let (micros, kind, payload) = parts(&whole).unwrap();
            for len in 0..payload.len() {
                assert!(decode(&record(micros, kind, &payload[..len])).is_err());
            }
            for at in 0..whole.len() {
                for flip in [1, 0x55, 0x80] {
                    let mut bytes = whole.clone();
                    bytes[at] ^= flip;
                    drop(decode(&bytes)); // Never panics, nor takes much memory.
                }
            }
        }
    }

    #[pumice_test_macros::test]
    fn only_version_0_2_is_read() {
        let header = |text: &str| record(9, BEGIN, text.as_bytes());
        assert_eq!(began(&header(&begin_payload())).unwrap(), 9);
        let old = begin_payload().replace("0.2", "0.1");
        let error = began(&header(&old)).unwrap_err();
        assert_eq!(error.to_string(), "Not implemented: trace version \"0.1\"");
        let error = began(&header("feedcafe")).unwrap_err();
        assert_eq!(error.to_string(), "Corruption: Corrupted trace file. Incorrect magic.");
        let error = began(&record(9, WRITE, b"")).unwrap_err();
        assert_eq!(error.to_string(), "Corruption: Corrupted trace file. Incorrect header.");
    }
}
