//! Writes: the queue, memtables, logs, and which logs flushes release.

mod archive;
mod atomic_flush;
mod buffer_order;
mod buffer_stall;
mod failed_log;
mod log_switch;
mod memtables;
mod mixed_logging;
mod replay;
mod shared_writes;
mod wal_archive;
mod wal_compression;
mod wal_filter;
mod wal_recycling;
mod wal_updates;
