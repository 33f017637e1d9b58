//! The interface through which the writer of a table uses its database.
//!
//! Thread safety: an environment is shared by all jobs of a database. Nothing here suspends.

use std::path::Path;
use std::sync::Arc;

use pumice_base::{FileNumber, Result, SizeLimits};
use pumice_env::{FileSystem, IoPriority, RateLimiterEvents};
use pumice_table::{BuildStats, TableReason};

use crate::options::DbOptions;
use crate::snapshot::LiveSnapshots;
use crate::stats::Statistics;

/// See the module head.
pub(crate) trait OutputEnv: Send + Sync {
    /// The file system of the tables.
    fn file_system(&self) -> &dyn FileSystem;
    /// The options as they are now.
    fn db_options(&self) -> Arc<DbOptions>;
    /// The database's identity and that of this open, for the properties of tables.
    fn ids(&self) -> (&str, &str);
    /// The counters, if they are wanted.
    fn statistics(&self) -> &Option<Arc<Statistics>>;
    /// Size limits of keys and values.
    fn limits(&self) -> SizeLimits;
    /// Priority of a table at the rate limiter, and the receiver of its grants.
    fn pace(&self, reason: TableReason) -> (IoPriority, Option<Arc<dyn RateLimiterEvents>>);
    /// A number for an output. The file is kept until its job ends.
    fn begin_output(&self) -> FileNumber;
    /// The blob file at `path` is complete and has `bytes` bytes.
    ///
    /// # Errors
    /// IoError if the database must not grow that much.
    fn end_blob_file(&self, path: &Path, bytes: u64) -> Result<()>;
    /// Counts a finished table; returns the CPU time that helpers spent on it, microseconds.
    fn built(&self, table: &BuildStats) -> u64;
    /// The sequence numbers that must stay readable, ascending.
    fn snapshots(&self) -> LiveSnapshots;
}
