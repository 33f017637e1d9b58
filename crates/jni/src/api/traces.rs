//! Traces of queries.

use std::sync::Arc;

use pumice::trace::TraceOptions;
use pumice_binding::database::Database;

use crate::callbacks::trace_writer::{JavaTraceWriter, Writes};
use crate::ffi::call::Result;
use crate::ffi::env::{Env, Object};
use crate::ffi::handle;
use crate::ffi::into::New;
use crate::objects::{Slice, TraceFile};

/// Java: AbstractTraceWriter.createNewTraceWriter this
pub fn new_writer(env: Env<'_>, writer: Object<'_>) -> Result<New<TraceFile>> {
    let give = |record: &[u8]| handle::give(Slice::new(record.to_vec()));
    let end = |slice| handle::take::<Slice>(slice).map(drop);
    Ok(New(TraceFile(Arc::new(JavaTraceWriter::new(env, writer, (give, end))?))))
}

/// Java: RocksDB.startTrace
pub fn start(_env: Env<'_>, db: &Database, size_max: i64, writer: &TraceFile) -> Result<()> {
    let options =
        TraceOptions { max_trace_file_size: size_max.cast_unsigned(), ..TraceOptions::default() };
    db.db().start_trace(&options, Box::new(Writes(Arc::clone(&writer.0))))?;
    Ok(())
}

/// Java: RocksDB.endTrace
pub fn end(_env: Env<'_>, db: &Database) -> Result<()> {
    db.db().end_trace()?;
    Ok(())
}
