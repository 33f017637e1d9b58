//! Traces of a database, in RocksDB's files: what it is asked (queries), which blocks that takes
//! from the block cache, and what it does to files.
//!
//! | module | role |
//! |---|---|
//! | `file` | records, and the files that hold them |
//! | `query` | the calls of a query trace as records, and back |
//! | `blocks`, `lookup` | uses of blocks; the point read that a use belongs to |
//! | `io`, `traced_files` | operations on files; the file system that reports them |
//!
//! A trace that is off costs no check of its own: [`Switch`] makes `perf::is_any` true while one is
//! on, and so calls take the paths where they are counted, on which they are noted, too. Only
//! files ask the switch itself.
//!
//! Thread safety: everything from anywhere. The lock of a trace is held over writes of its file
//! and is the last of all locks, so that a program's writer must not call the database: what
//! waits is Aborted, reads are not noted.
//!
//! Invariant: after the first error of its writer a trace takes no more records, and its end
//! returns that error.

pub(crate) mod blocks;
pub(crate) mod file;
pub(crate) mod io;
pub(crate) mod lookup;
pub(crate) mod options;
pub mod query;
mod traced_files;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pumice_base::{Error, ErrorKind, Result};
use pumice_env::perf::Attention;
use pumice_port::lane::at_normal_priority;
use pumice_port::sync::Mutex;
use pumice_port::thread;
use pumice_port::time::wall_micros;

use crate::callbacks::Mark;
use crate::lock_order;

pub use blocks::{BlockLookup, BlockTraceReader, BlockTraceRecord, BlockType, TableReaderCaller};
pub use file::{FileTraceReader, FileTraceWriter, TraceReader, TraceWriter};
pub use io::{IoTraceReader, IoTraceRecord};
pub use options::{BlockCacheTraceOptions, ReplayOptions, TraceFilter, TraceOptions};
pub use query::{QueryTraceReader, TraceQuery, TraceRecord};

pub(crate) use traced_files::trace_files;

use blocks::BlockTrace;
use io::IoTrace;
use query::QueryTrace;

/// The traces of one database.
pub(crate) struct Traces {
    pub queries: QueryTrace,
    pub blocks: Arc<BlockTrace>,
    pub io: Arc<IoTrace>,
}

impl Traces {
    /// Those of the database `mark`, all off.
    pub fn new(mark: Mark) -> Self {
        Traces {
            queries: QueryTrace::new(mark),
            blocks: Arc::new(BlockTrace::new(mark)),
            io: Arc::new(IoTrace::new(mark)),
        }
    }

    /// Ends those that are on; the first error of their writers.
    pub fn end(&self) -> Result<()> {
        let queries = if self.queries.is_on() { self.queries.end() } else { Ok(()) };
        queries.and(self.blocks.end()).and(self.io.end())
    }
}

/// A trace under way.
struct Running {
    writer: Box<dyn TraceWriter>,
    /// Nothing is written once the file has more bytes.
    bytes_max: u64,
    failed: Result<()>,
    mark: Mark,
    _attention: Attention,
}

/// Runs code of a writer, under the lock of its trace: it may not call the database.
fn run<T>(mark: Mark, code: impl FnOnce() -> T) -> Result<T> {
    let _marked = mark.enter_locked();
    thread::contain("The writer of a trace", code)
}

impl Running {
    fn write(&mut self, record: &[u8]) {
        if self.failed.is_err() {
            return;
        }
        let writer = &mut self.writer;
        self.failed = run(self.mark, || writer.write(record)).and_then(|written| written);
    }

    /// The file takes more. A writer that panics is not asked again.
    fn has_room(&mut self) -> bool {
        if self.failed.is_err() {
            return false;
        }
        match run(self.mark, || self.writer.file_size()) {
            Ok(bytes) => bytes <= self.bytes_max,
            Err(error) => {
                self.failed = Err(error);
                false
            }
        }
    }

    /// Ends it; its first error.
    fn close(self) -> Result<()> {
        let Running { mut writer, failed, mark, .. } = self;
        let closed = run(mark, move || {
            let closed = writer.close();
            drop(writer);
            closed
        });
        failed.and(closed.and_then(|closed| closed))
    }
}

/// A trace that is on or off.
pub(crate) struct Switch {
    on: AtomicBool,
    running: Mutex<Option<Running>>,
    mark: Mark,
}

impl Switch {
    /// Off, for the database `mark`.
    fn new(mark: Mark) -> Self {
        let running = Mutex::ranked(&lock_order::TRACE, None);
        Switch { on: AtomicBool::new(false), running, mark }
    }

    /// Whether a trace is on.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// Begins a trace with `header`; the one under way, if there is one, ends without an end
    /// record if it is to be replaced, and nobody is told of its errors. `install` makes the
    /// settings of the new one those that count.
    ///
    /// # Errors
    /// Busy if there is one that is not to be replaced; those of the writer.
    fn start(
        &self,
        writer: Box<dyn TraceWriter>,
        bytes_max: u64,
        (header, replaces): (&[u8], bool),
        install: impl FnOnce(),
    ) -> Result<()> {
        let mut running = self.running.lock();
        if running.is_some() && !replaces {
            return Err(Error::new(pumice_base::ErrorKind::Busy, ""));
        }
        let (failed, mark, _attention) = (Ok(()), self.mark, Attention::pay());
        let mut next = Running { writer, bytes_max, failed, mark, _attention };
        next.write(header);
        if next.failed.is_err() {
            return next.close();
        }
        install();
        let before = running.replace(next);
        self.on.store(true, Ordering::Relaxed);
        drop(before.map(Running::close));
        Ok(())
    }

    /// Ends the trace with `footer`; None if there is none.
    fn end(&self, footer: &[u8]) -> Option<Result<()>> {
        let mut running = self.running.lock();
        self.on.store(false, Ordering::Relaxed);
        let mut trace = running.take()?;
        if !footer.is_empty() {
            trace.write(footer);
        }
        Some(trace.close())
    }

    /// Writes the record that `fill` makes, unless there is no trace or its file is full, or
    /// `wants` declines it.
    fn note(&self, wants: impl FnOnce() -> bool + Send, fill: impl FnOnce() -> Vec<u8> + Send) {
        // What a program's code reads under the database's locks is no call of the program; it may
        // be the writer of this trace.
        if !self.is_on() || self.mark.is_locked() {
            return;
        }
        at_normal_priority(|| {
            let mut running = self.running.lock();
            let Some(trace) = running.as_mut() else { return };
            if trace.has_room() && wants() {
                trace.write(&fill());
            }
        });
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        // The database is gone: there is nobody to tell of an error.
        drop(self.end(&[]));
    }
}

/// The header of traces of blocks and of files: RocksDB's version is that whose formats these are.
fn binary_header() -> Vec<u8> {
    use pumice_base::coding::{put_fixed32, put_length_prefixed};
    let mut payload = Vec::new();
    put_length_prefixed(&mut payload, file::MAGIC.as_bytes());
    put_fixed32(&mut payload, file::ROCKSDB_VERSION.0);
    put_fixed32(&mut payload, file::ROCKSDB_VERSION.1);
    file::record(wall_micros(), file::BEGIN, &payload)
}

/// Reads and checks such a header; its time.
fn read_binary_header(reader: &mut dyn TraceReader) -> Result<u64> {
    use pumice_base::coding::Decoder;
    let bytes = reader.read().map_err(|error| match error.kind() {
        ErrorKind::Incomplete => Error::corruption("Corrupted header in the trace file"),
        _ => error,
    })?;
    let (micros, kind, payload) = file::parts(&bytes)?;
    let mut input = Decoder::new(payload);
    let magic = input.length_prefixed();
    let version = (input.fixed32(), input.fixed32());
    let whole = version.0.is_some() && version.1.is_some() && input.is_empty();
    if kind != file::BEGIN || magic != Some(file::MAGIC.as_bytes()) || !whole {
        return Err(Error::corruption("Corrupted header in the trace file"));
    }
    Ok(micros)
}
