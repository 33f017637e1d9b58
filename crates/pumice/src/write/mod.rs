//! Writing: batches, the write queue, write stalls, the logs, and the path through them.

pub mod batch;
pub(crate) mod buffer_memory;
pub mod controller;
pub(crate) mod merge;
pub(crate) mod path;
pub(crate) mod predecessor;
pub(crate) mod queue;
pub(crate) mod switch;
pub(crate) mod wal;
