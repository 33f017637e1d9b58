//! Compactions done elsewhere: what a program provides.
//!
//! Thread safety: a service is called from any thread, several at once.

use std::collections::BTreeMap;

use super::Options;
use crate::stats::listener::CompactionReason;

/// How a step of a compaction that is done elsewhere ended. Numbers are RocksDB's.
///
/// Example: that of [`CompactionService`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum CompactionServiceJobStatus {
    /// It was done.
    Success = 0,
    /// It failed, and so does the compaction, which is tried again later.
    Failure = 1,
    /// It was ended, and so is the compaction, which is tried again later.
    Aborted = 2,
    /// The database is to do it itself.
    UseLocal = 3,
}

/// What a service is told of a compaction, or of a part of one.
///
/// Example: that of [`CompactionService`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactionServiceJobInfo {
    /// The directory of the database.
    pub db_name: String,
    /// Its identity.
    pub db_id: String,
    /// The identity of this open.
    pub db_session_id: String,
    /// The column family.
    pub cf_id: u32,
    /// Its name.
    pub cf_name: String,
    /// Unique in this open, `db_session_id`: the job in the high half, the part of it in the low
    /// one.
    pub job_id: u64,
    /// RocksDB's number of the pool of compactions, 1 (low). That a job would run in the pool of
    /// the last level is not told.
    pub priority: i32,
    /// Why.
    pub compaction_reason: CompactionReason,
    /// The highest level that it reads.
    pub base_input_level: i32,
    /// The level that it writes.
    pub output_level: i32,
    /// It reads all files of the column family.
    pub is_full_compaction: bool,
    /// A caller asked for it.
    pub is_manual_compaction: bool,
    /// Nothing is below what it writes.
    pub bottommost_level: bool,
}

/// The answer to [`CompactionService::schedule`].
///
/// Example: that of [`CompactionService`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactionServiceScheduleResponse {
    /// The service's name of the job.
    pub scheduled_job_id: String,
    /// Whether it takes the job.
    pub status: CompactionServiceJobStatus,
}

/// Does compactions for a database: in another process, perhaps on another machine that sees the
/// same files, by [`open_and_compact`](crate::open_and_compact).
///
/// The database asks it before each compaction that writes tables, in the thread that would do it,
/// which then waits. Compactions of column families with blob files stay here.
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// use std::collections::HashMap;
/// use std::sync::{Arc, Mutex};
///
/// use pumice::options::{
///     CompactionService, CompactionServiceJobInfo, CompactionServiceJobStatus,
///     CompactionServiceOptionsOverride, CompactionServiceScheduleResponse,
/// };
/// use pumice::{Db, MemFs, OpenAndCompactOptions, open_and_compact};
///
/// /// Does them in the same process, as another one would.
/// struct Beside {
///     over: CompactionServiceOptionsOverride,
///     jobs: Mutex<HashMap<String, (String, Vec<u8>)>>,
/// }
///
/// impl CompactionService for Beside {
///     fn name(&self) -> &str {
///         "Beside"
///     }
///     fn schedule(
///         &self,
///         info: &CompactionServiceJobInfo,
///         input: &[u8],
///     ) -> CompactionServiceScheduleResponse {
///         let job = (info.db_name.clone(), input.to_vec());
///         let id = format!("{}-{}", info.db_session_id, info.job_id);
///         self.jobs.lock().unwrap().insert(id.clone(), job);
///         let status = CompactionServiceJobStatus::Success;
///         CompactionServiceScheduleResponse { scheduled_job_id: id, status }
///     }
///     fn wait(&self, id: &str) -> (CompactionServiceJobStatus, Vec<u8>) {
///         let Some((db, input)) = self.jobs.lock().unwrap().remove(id) else {
///             return (CompactionServiceJobStatus::UseLocal, Vec::new());
///         };
///         let options = OpenAndCompactOptions::default();
///         match open_and_compact(&options, db, format!("/out-{id}"), &input, &self.over) {
///             Ok(result) => (CompactionServiceJobStatus::Success, result),
///             Err(_) => (CompactionServiceJobStatus::Failure, Vec::new()),
///         }
///     }
/// }
///
/// let fs = MemFs::new(1).shared();
/// let mut over = CompactionServiceOptionsOverride::default();
/// over.options.db.file_system = fs.clone();
/// let service = Arc::new(Beside { over, jobs: Mutex::default() });
/// let db = Db::builder("/db").create(true).configure(|options| {
///     options.db.file_system = fs;
///     options.db.compaction_service = Some(service);
/// });
/// let db = db.open()?;
/// db.put("a", "1")?;
/// db.flush()?;
/// db.put("a", "2")?;
/// db.flush()?;
/// db.compact_range(&Default::default(), None, None)?;
/// assert_eq!(db.get("a")?.as_deref(), Some(&b"2"[..]));
/// # db.close()
/// # }
/// ```
pub trait CompactionService: Send + Sync {
    /// Its name.
    fn name(&self) -> &str;
    /// Takes a job, or not. `input` is what [`open_and_compact`](crate::open_and_compact) wants.
    fn schedule(
        &self,
        info: &CompactionServiceJobInfo,
        input: &[u8],
    ) -> CompactionServiceScheduleResponse;
    /// Waits for a job that it took: how it ended, and what
    /// [`open_and_compact`](crate::open_and_compact) returned.
    fn wait(&self, scheduled_job_id: &str) -> (CompactionServiceJobStatus, Vec<u8>);
    /// The database closes: calls of [`CompactionService::wait`] are to return. Called again as
    /// long as one does not.
    fn cancel_awaiting_jobs(&self) {}
    /// The new tables are in the directory of the database, or `status` is `Failure`.
    fn on_installation(&self, _scheduled_job_id: &str, _status: CompactionServiceJobStatus) {}
}

/// The objects with which a worker compacts for a database, and settings that are not those of its
/// OPTIONS file.
///
/// Example: that of [`CompactionService`].
#[derive(Clone, Debug, Default)]
pub struct CompactionServiceOptionsOverride {
    /// Their objects are used: file system, comparator, merge operator, compaction filters, prefix
    /// extractor, caches, listeners, statistics and so on. Their settings are not.
    pub options: Options,
    /// Settings by RocksDB's names.
    pub options_map: BTreeMap<String, String>,
}
