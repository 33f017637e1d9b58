//! What the threads of the pools do: RocksDB's `ThreadStatus` and `Env::GetThreadList`.
//!
//! The jobs of a database with `enable_thread_tracking` say what they do, on the thread that runs
//! them; the threads of other jobs are listed without. Reads and writes of a job are those of the
//! threads that compute it, as they count them for the IO stats context.
//!
//! Thread safety: any thread. A list has what each thread did at some moment of the call.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

use pumice_env::perf::{self, IoMetric, PerfLevel};
use pumice_port::pool::{Priority as PoolPriority, ThreadPools};
use pumice_port::sync::Mutex;
use pumice_port::{os, sim, time};

use crate::lock_order;

/// What a thread is busy with.
///
/// Example: that of [`thread_list`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ThreadOperation {
    /// A compaction.
    Compaction = 1,
    /// A flush.
    Flush = 2,
}

impl ThreadOperation {
    /// RocksDB's name.
    pub fn name(self) -> &'static str {
        match self {
            ThreadOperation::Compaction => "Compaction",
            ThreadOperation::Flush => "Flush",
        }
    }

    /// RocksDB's names of its numbers, in their order.
    pub fn properties(self) -> &'static [&'static str] {
        match self {
            ThreadOperation::Compaction => &[
                "JobID",
                "InputOutputLevel",
                "Manual/Deletion/Trivial",
                "TotalInputBytes",
                "BytesRead",
                "BytesWritten",
            ],
            ThreadOperation::Flush => &["JobID", "BytesMemtables", "BytesWritten"],
        }
    }

    /// The numbers by name, those that are several in one taken apart.
    pub fn interpret(self, numbers: &[u64]) -> BTreeMap<&'static str, u64> {
        let mut all = BTreeMap::new();
        for (name, number) in self.properties().iter().zip(numbers) {
            match *name {
                "InputOutputLevel" => {
                    all.insert("BaseInputLevel", number >> 32);
                    all.insert("OutputLevel", number & 0xffff_ffff);
                }
                "Manual/Deletion/Trivial" => {
                    for (name, bit) in [("IsManual", 1), ("IsDeletion", 2), ("IsTrivialMove", 3)] {
                        all.insert(name, (number >> bit) & 1);
                    }
                }
                name => _ = all.insert(name, *number),
            }
        }
        all
    }
}

/// How far it is, by RocksDB's numbers.
///
/// Example: that of [`thread_list`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum ThreadStage {
    /// Nowhere.
    #[default]
    Unknown = 0,
    /// A flush that begins or ends.
    FlushRun = 1,
    /// It writes its table.
    FlushWriteL0 = 2,
    /// A compaction finds out what to do.
    CompactionPrepare = 3,
    /// Its parts run.
    CompactionRun = 4,
    /// A part goes through the entries.
    CompactionProcessKv = 5,
    /// It puts its tables in the place of the old ones.
    CompactionInstall = 6,
    /// A table is finished.
    CompactionSyncFile = 7,
    /// A flush puts its table in the place of memtables.
    MemtableInstallFlushResults = 10,
}

/// RocksDB's names of stages, by number.
///
/// Example: that of [`thread_list`].
pub const THREAD_STAGE_NAMES: [&str; 11] = [
    "",
    "FlushJob::Run",
    "FlushJob::WriteLevel0Table",
    "CompactionJob::Prepare",
    "CompactionJob::Run",
    "CompactionJob::ProcessKeyValueCompaction",
    "CompactionJob::Install",
    "CompactionJob::FinishCompactionOutputFile",
    "MemTableList::PickMemtablesToFlush",
    "MemTableList::RollbackMemtableFlush",
    "MemTableList::TryInstallMemtableFlushResults",
];

impl ThreadStage {
    /// RocksDB's name.
    pub fn name(self) -> &'static str {
        THREAD_STAGE_NAMES[self as usize]
    }

    fn from_number(number: u8) -> Self {
        use ThreadStage::*;
        let all = [
            FlushRun,
            FlushWriteL0,
            CompactionPrepare,
            CompactionRun,
            CompactionProcessKv,
            CompactionInstall,
            CompactionSyncFile,
            MemtableInstallFlushResults,
        ];
        all.into_iter().find(|stage| *stage as u8 == number).unwrap_or_default()
    }
}

/// An operation has at most so many numbers.
///
/// Example: that of [`thread_list`].
pub const THREAD_PROPERTIES: usize = 6;

/// A thread of a pool, and what it does.
///
/// Example: that of [`thread_list`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadStatus {
    /// The kernel's number.
    pub thread_id: u64,
    /// Its pool.
    pub thread_type: PoolPriority,
    /// The job that it runs, if that is known.
    pub job: Option<JobStatus>,
}

/// A job that a thread runs.
///
/// Example: that of [`thread_list`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobStatus {
    /// The directory of the database.
    pub db_name: String,
    /// The column family.
    pub cf_name: String,
    /// What is done.
    pub operation: ThreadOperation,
    /// For how long.
    pub elapsed_micros: u64,
    /// How far it is.
    pub stage: ThreadStage,
    /// Numbers, see [`ThreadOperation::properties`].
    pub properties: [u64; THREAD_PROPERTIES],
}

/// The threads of all pools, with what they do for databases that have `enable_thread_tracking`.
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// # use pumice::stats::{
/// #     JobStatus, THREAD_PROPERTIES, THREAD_STAGE_NAMES, ThreadOperation, ThreadStage,
/// #     ThreadStatus, micros_to_string, thread_list,
/// # };
/// # let mut options = pumice::Options::default();
/// # options.db.create_if_missing = true;
/// # options.db.file_system = pumice::MemFs::new(1).shared();
/// options.db.enable_thread_tracking = true;
/// let db = pumice::Db::open(&options, "/db")?;
/// db.put("key", "value")?;
/// db.flush()?;
/// let threads: Vec<ThreadStatus> = thread_list();
/// for thread in &threads {
///     let job: Option<&JobStatus> = thread.job.as_ref();
///     if let Some(job) = job.filter(|job| job.operation == ThreadOperation::Flush) {
///         let time = micros_to_string(job.elapsed_micros);
///         println!("thread {} writes {} for {time}", thread.thread_id, job.cf_name);
///         assert_ne!(job.stage, ThreadStage::CompactionRun);
///         assert_eq!(job.stage.name(), THREAD_STAGE_NAMES[job.stage as usize]);
///         assert_eq!(job.properties.len(), THREAD_PROPERTIES);
///     }
/// }
/// # db.close()
/// # }
/// ```
pub fn thread_list() -> Vec<ThreadStatus> {
    use PoolPriority::{Bottom, High, Low, User};
    let running = RUNNING.get();
    let running = running.0.lock();
    let pools = ThreadPools::shared();
    let mut all = Vec::new();
    for thread_type in [High, Low, User, Bottom] {
        for (thread_id, twin) in pools.threads(thread_type) {
            let job = running.get(&thread_id).or_else(|| running.get(&twin));
            let job = job.map(|job| job.status());
            all.push(ThreadStatus { thread_id, thread_type, job });
        }
    }
    all
}

/// A job that says what it does.
struct Running {
    db_name: String,
    cf_name: String,
    operation: ThreadOperation,
    started_micros: u64,
    stage: AtomicU8,
    properties: [AtomicU64; THREAD_PROPERTIES],
}

impl Running {
    fn status(&self) -> JobStatus {
        JobStatus {
            db_name: self.db_name.clone(),
            cf_name: self.cf_name.clone(),
            operation: self.operation,
            elapsed_micros: time::now_micros().saturating_sub(self.started_micros),
            stage: ThreadStage::from_number(self.stage.load(Relaxed)),
            properties: std::array::from_fn(|at| self.properties[at].load(Relaxed)),
        }
    }

    /// It has read and written this many bytes more.
    fn add(&self, read: u64, written: u64) {
        let (reads, writes) = match self.operation {
            ThreadOperation::Compaction => (Some(4), 5),
            ThreadOperation::Flush => (None, 2),
        };
        if let Some(reads) = reads {
            self.properties[reads].fetch_add(read, Relaxed);
        }
        self.properties[writes].fetch_add(written, Relaxed);
    }
}

/// Jobs by the kernel's number of the thread that runs them.
struct RunningJobs(Mutex<BTreeMap<u64, Arc<Running>>>);

static RUNNING: sim::Local<RunningJobs> =
    sim::Local::new(|| RunningJobs(Mutex::ranked(&lock_order::RUNNING_JOBS, BTreeMap::new())));

/// What a job says of itself; nothing, if it is not tracked.
#[derive(Clone, Default)]
pub(crate) struct JobNote(Option<Arc<Running>>);

impl JobNote {
    /// The job is at `stage`.
    pub fn at(&self, stage: ThreadStage) {
        if let Some(job) = &self.0 {
            job.stage.store(stage as u8, Relaxed);
        }
    }

    /// Its number.
    pub fn is_job(&self, number: u64) {
        if let Some(job) = &self.0 {
            job.properties[0].store(number, Relaxed);
        }
    }

    /// From now on the reads and writes of the calling task are the job's.
    pub fn count_io(&self) -> JobTraffic {
        let job = self.0.clone().map(|job| {
            let before = perf::level();
            perf::set_level(before.max(PerfLevel::EnableCount));
            (job, before)
        });
        let (read, written) = job.as_ref().map_or((0, 0), |_| own_io());
        JobTraffic { job, read, written }
    }
}

/// Bytes that the calling task has read and written.
fn own_io() -> (u64, u64) {
    let io = perf::io_context();
    (io.get(IoMetric::BytesRead), io.get(IoMetric::BytesWritten))
}

/// Counts what a task reads and writes for a job, until it is dropped on that task.
pub(crate) struct JobTraffic {
    /// With the task's level before.
    job: Option<(Arc<Running>, PerfLevel)>,
    /// What the job has been told.
    read: u64,
    written: u64,
}

impl JobTraffic {
    /// Tells the job what has come since the last time.
    pub fn note(&mut self) {
        if let Some((job, _)) = &self.job {
            let (read, written) = own_io();
            job.add(read.saturating_sub(self.read), written.saturating_sub(self.written));
            (self.read, self.written) = (read, written);
        }
    }
}

impl Drop for JobTraffic {
    fn drop(&mut self) {
        self.note();
        if let Some((_, before)) = &self.job {
            perf::set_level(*before);
        }
    }
}

/// A job that runs on the calling thread; listed until this is dropped, there.
#[derive(Default)]
pub(crate) struct Tracked(JobNote);

impl Tracked {
    /// Lists a job for the column family `cf_name` of the database at `db`.
    pub fn new(
        db: &Path,
        cf_name: &str,
        operation: ThreadOperation,
        stage: ThreadStage,
        properties: [u64; THREAD_PROPERTIES],
    ) -> Self {
        let job = Arc::new(Running {
            db_name: db.to_string_lossy().into_owned(),
            cf_name: cf_name.to_string(),
            operation,
            started_micros: time::now_micros(),
            stage: AtomicU8::new(stage as u8),
            properties: properties.map(AtomicU64::new),
        });
        RUNNING.get().0.lock().insert(os::thread_id(), Arc::clone(&job));
        Tracked(JobNote(Some(job)))
    }

    /// For the job's parts.
    pub fn note(&self) -> JobNote {
        self.0.clone()
    }
}

impl Drop for Tracked {
    fn drop(&mut self) {
        let Some(job) = &self.0.0 else { return };
        let running = RUNNING.get();
        let mut running = running.0.lock();
        let thread = os::thread_id();
        // A later job of several of one thread stays.
        if running.get(&thread).is_some_and(|listed| Arc::ptr_eq(listed, job)) {
            running.remove(&thread);
        }
    }
}

/// A time as RocksDB writes it for people; none is no text.
///
/// Example: that of [`thread_list`].
pub fn micros_to_string(micros: u64) -> String {
    let seconds = |micros: u64| micros as f64 / 1e6;
    let (minutes, rest) = (micros / 60_000_000, seconds(micros % 60_000_000));
    match micros {
        0 => String::new(),
        1..10_000 => format!("{micros} us"),
        10_000..10_000_000 => format!("{:.3} ms", micros as f64 / 1e3),
        10_000_000..60_000_000 => format!("{:.3} sec", seconds(micros)),
        _ if minutes < 60 => format!("{minutes:02}:{rest:.3} M:S"),
        _ => format!("{:02}:{:02}:{rest:.3} H:M:S", minutes / 60, minutes % 60),
    }
}

#[cfg(test)]
mod tests;
