//! The handle's calls about traces: begin, end, replay.
//!
//! Thread safety: from any thread. Every call may suspend.

use pumice_base::Result;
use std::sync::atomic::Ordering;

use crate::db::api::Db;
use crate::db::replay::Replayer;
use crate::trace::Traces;
use crate::trace::{BlockCacheTraceOptions, TraceOptions, TraceReader, TraceWriter};
use crate::version::family::ColumnFamily;

impl Db {
    /// The traces, before one begins: its writer may be the program's, whose calls are refused.
    fn traced(&self) -> &Traces {
        self.inner().life.runs_code.store(true, Ordering::Relaxed);
        &self.inner().reports.traces
    }

    /// Records reads, writes and seeks of iterators, of this handle and all that belong to the
    /// database, until [`Db::end_trace`]; a trace under way ends without an end record. As long as
    /// there is a trace in the process, calls of all databases take paths that count more.
    ///
    /// Example: that of [`crate::trace::TraceRecord`].
    ///
    /// # Errors
    /// Those of the writers.
    pub fn start_trace(&self, options: &TraceOptions, writer: Box<dyn TraceWriter>) -> Result<()> {
        self.inner().life.check_caller()?;
        self.traced().queries.start(options, writer)
    }

    /// Ends the trace of queries.
    ///
    /// # Errors
    /// IOError "No trace file to close" if there is none; the first error of its writer, after
    /// which it recorded nothing.
    pub fn end_trace(&self) -> Result<()> {
        self.inner().life.check_caller()?;
        self.inner().reports.traces.queries.end()
    }

    /// Records operations on files until [`Db::end_io_trace`]. `sampling_frequency` and `filter`
    /// have no effect, as in RocksDB. Writes of a file that is open already are missing: of a log,
    /// those before the next log.
    ///
    /// Example: that of [`crate::trace::IoTraceReader`].
    ///
    /// # Errors
    /// Busy if there is such a trace; those of the writer.
    pub fn start_io_trace(
        &self,
        options: &TraceOptions,
        writer: Box<dyn TraceWriter>,
    ) -> Result<()> {
        self.inner().life.check_caller()?;
        self.traced().io.start(options, writer)
    }

    /// Ends the trace of files, if there is one.
    ///
    /// # Errors
    /// The first error of its writer, after which it recorded nothing.
    pub fn end_io_trace(&self) -> Result<()> {
        self.inner().life.check_caller()?;
        self.inner().reports.traces.io.end()
    }

    /// Records uses of the block cache until [`Db::end_block_cache_trace`]. Blocks that their table
    /// holds itself are no use of the cache.
    ///
    /// Example: that of [`crate::trace::BlockTraceReader`].
    ///
    /// # Errors
    /// Busy if there is such a trace; those of the writer.
    pub fn start_block_cache_trace(
        &self,
        options: &BlockCacheTraceOptions,
        writer: Box<dyn TraceWriter>,
    ) -> Result<()> {
        self.inner().life.check_caller()?;
        self.traced().blocks.start(options, writer)
    }

    /// Ends the trace of the block cache, if there is one.
    ///
    /// # Errors
    /// The first error of its writer, after which it recorded nothing.
    pub fn end_block_cache_trace(&self) -> Result<()> {
        self.inner().life.check_caller()?;
        self.inner().reports.traces.blocks.end()
    }

    /// What makes the calls of a trace of queries again, in the column families `families`, found
    /// by their ids.
    ///
    /// # Errors
    /// InvalidArgument for a family of another database, and without any.
    pub fn new_default_replayer(
        &self,
        families: &[ColumnFamily],
        reader: Box<dyn TraceReader>,
    ) -> Result<Replayer> {
        Replayer::new(self.clone(), families, reader)
    }
}
