//! A write on its way to the log: batches, the write queue, write stalls, the logs.

pub mod batch;
pub mod controller;
pub(crate) mod log_sizes;
pub(crate) mod predecessor;
pub(crate) mod queue;
pub(crate) mod shared_insert;
pub(crate) mod spare_logs;
pub(crate) mod two_phase;
pub(crate) mod update_family;
pub(crate) mod wal;
