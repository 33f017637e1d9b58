//! Perf context and IO stats context: what the calls of a task did, and how long they took.
//!
//! RocksDB's names, levels and reports. A task (a thread or a fiber) sets its level, makes calls,
//! and reads the result:
//!
//! ```
//! # fn main() -> Result<(), pumice::Error> {
//! use pumice::perf::{self, PerfLevel, PerfMetric};
//! # let mut options = pumice::Options::default();
//! # options.db.create_if_missing = true;
//! # options.db.file_system = pumice::MemFs::new(1).shared();
//! # let db = pumice::Db::open(&options, "/db")?;
//! db.put("key", "value")?;
//!
//! perf::set_level(PerfLevel::EnableCount);
//! perf::reset();
//! db.get("key")?;
//! let context = perf::context();
//! assert_eq!(context.get(PerfMetric::GetReadBytes), 5);
//! assert_eq!(context.report(true), "get_read_bytes = 5, get_from_memtable_count = 1");
//! perf::set_level(PerfLevel::Disable);
//! # db.close()
//! # }
//! ```
//!
//! The work of background jobs counts for no task that a program sees, and a write counts for the
//! task that wrote for its group. A call on a future ([`Db::get_async`](crate::Db::get_async))
//! counts on the fiber that makes it. docs/statistics.md says which names stay 0.
//!
//! Thread safety: each function acts on the calling task. None suspends.

pub use pumice_env::perf::{
    IoMetric, IoStatsContext, LevelMetric, PerfContext, PerfLevel, PerfMetric, TABLE_LEVELS,
    clear_levels, context, count_by_level, io_context, level, reset, reset_io, set_level,
};
