//! The database: its state, and the locks that guard it.
//!
//! | lock | guards | held over I/O |
//! |---|---|---|
//! | leadership (`queue`) | sequence numbers, memtable inserts, memtable and log switch | yes |
//! | `manifest` | the MANIFEST writer and the order of version changes | yes |
//! | `state` | column families, versions, job queues | no |
//! | `wal` | the live logs | yes |
//!
//! Lock order: leadership > manifest > state > wal. Readers take none of them: they load a super
//! version and the last sequence (`version::super_version`).
//!
//! Invariants: (1) only the holder of `manifest` replaces a version; (2) only a leader replaces a
//! memtable; (3) a file is deleted only when no version, job or snapshot of the directory can need
//! it (`obsolete_files`); (4) after a background error of severity Hard or worse nothing is
//! written until it is cleared (`error_handler`).

mod assemble;
pub(crate) mod background;
pub(crate) mod buffer_memory;
pub(crate) mod change_level;
pub(crate) mod checkpoint;
pub(crate) mod close;
pub(crate) mod compaction_account;
pub(crate) mod compaction_job;
pub(crate) mod compaction_tuning;
pub(crate) mod ddl;
pub(crate) mod error_handler;
pub(crate) mod events;
pub(crate) mod expiry;
pub(crate) mod family_state;
pub(crate) mod flush_api;
pub(crate) mod flush_job;
pub(crate) mod found_files;
pub(crate) mod identity_file;
pub(crate) mod info_dumps;
pub(crate) mod ingest_job;
pub(crate) mod job_env;
pub(crate) mod lanes;
pub(crate) mod live_files;
pub(crate) mod log_archive;
pub(crate) mod manifest_log;
pub(crate) mod manual_compaction;
pub(crate) mod memtable_switch;
pub(crate) mod obsolete_files;
pub(crate) mod open;
pub(crate) mod options_file;
mod parts;
pub(crate) mod properties;
pub(crate) mod read_api;
pub(crate) mod recovery;
pub(crate) mod regulator;
pub(crate) mod reserve;
pub(crate) mod retry;
pub(crate) mod space;
pub(crate) mod wal_files;
mod write_counts;
mod write_insert;
pub(crate) mod write_merge;
pub(crate) mod write_path;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use pumice_base::{FileNumber, Result};
use pumice_port::os::is_forked;
use pumice_port::sync::{Condvar, Mutex, MutexGuard};
use pumice_port::thread;
use pumice_table::BuildStats;

use crate::commit::wal::Wals;
use crate::engine::error_handler::ErrorState;
use crate::engine::expiry::ExpiryWatch;
use crate::engine::family_state::CfState;
use crate::engine::manifest_log::ManifestLog;
use crate::engine::manual_compaction::ManualQueue;
use crate::engine::obsolete_files::ObsoleteFiles;
use crate::engine::parts::{
    Background, Directory, Life, Logs, Reports, Resources, Settings, Writes,
};
use crate::options::DbOptions;
use crate::recovery::manifest_reader::DroppedTail;
use crate::snapshot::SnapshotList;
use crate::stats::{HistogramKind, Ticker, record_build};
use crate::version::family::CfData;

/// The column families as writers and readers find them, without a lock.
#[derive(Clone, Default)]
pub(crate) struct CfMap {
    by_id: BTreeMap<u32, Arc<CfData>>,
    default: Option<Arc<CfData>>,
}

impl CfMap {
    /// The live column families.
    pub fn new(families: impl Iterator<Item = Arc<CfData>>) -> Self {
        let by_id: BTreeMap<u32, Arc<CfData>> = families.map(|cf| (cf.id, cf)).collect();
        CfMap { default: by_id.get(&0).cloned(), by_id }
    }
    /// The column family with that id.
    #[inline]
    pub fn by_id(&self, id: u32) -> Option<&Arc<CfData>> {
        if id == 0 { self.default.as_ref() } else { self.by_id.get(&id) }
    }
    /// The column family with that name.
    pub fn by_name(&self, name: &str) -> Option<&Arc<CfData>> {
        self.by_id.values().find(|cf| cf.name == name)
    }
    /// All of them, by id.
    pub fn all(&self) -> impl Iterator<Item = &Arc<CfData>> {
        self.by_id.values()
    }
}

/// Starts a task of the database's own, which waits most of the time. It is a thread also where
/// fibers run: the database may outlive their runtime, and a fiber that is refused its stack never
/// runs, so that who waits for its end, a close above all, would wait for ever.
///
/// # Errors
/// There is no thread to be had.
pub(crate) fn start_task(name: &str, body: impl FnOnce() + Send + 'static) -> Result<()> {
    thread::spawn_os(name, body).map(drop)
}

/// What the state lock guards.
#[derive(Default)]
pub(crate) struct DbState {
    pub cfs: BTreeMap<u32, CfState>,
    /// There has been more than one column family since the open (RocksDB's
    /// `single_column_family_mode_` is the opposite). Atomic for those who only read the state.
    pub had_families: AtomicBool,
    /// The open has succeeded: jobs and tasks may start. Earlier ones would outlive an open that
    /// fails, and keep the directory locked.
    pub opened: bool,
    pub manual: ManualQueue,
    pub errors: ErrorState,
    pub max_column_family: u32,
    /// How the close went, once it is over.
    pub closed: Option<Result<()>>,
    pub jobs: Jobs,
    pub tasks: Tasks,
    pub files: Files,
}

/// Jobs of the pools: what waits for one, and how many there are.
#[derive(Default)]
pub(crate) struct Jobs {
    pub flush_queue: VecDeque<u32>,
    pub compaction_queue: VecDeque<u32>,
    /// Jobs; one may flush several column families.
    pub running_flushes: usize,
    pub running_compactions: usize,
    /// Those of them that start below the level under L0, and those inside L0.
    pub running_deep: usize,
    pub running_merges: usize,
    /// Jobs handed to a pool, running or not.
    pub scheduled_flushes: usize,
    pub scheduled_compactions: usize,
    /// A compaction was wanted since a job last looked and found none: a job that ends without
    /// work has others look again.
    pub compaction_wanted: bool,
    /// Compactions that the bottom pool has, running or not.
    pub bottom_compactions: usize,
    /// Ingestions under way; closing waits for them.
    pub running_ingestions: usize,
    /// Threads that delete obsolete files.
    pub running_deletions: usize,
    /// `pause_background_work` calls outstanding.
    pub paused: usize,
    /// A close saves what is in no log: flushes run even if background work is paused.
    pub saving: bool,
}

/// The tasks that exist only while there is something to wait for. A close waits for them.
#[derive(Default)]
pub(crate) struct Tasks {
    /// A task waits until failed compactions may be tried again.
    pub awaiting_retry: bool,
    /// The timer's task of auto-tuned compaction exists.
    pub tuning: bool,
    /// The task of the adaptive policy exists.
    pub regulating: bool,
    /// The task that dumps reports into the info log exists.
    pub dumping: bool,
    pub expiry: ExpiryWatch,
}

/// Files beside the versions: being written, obsolete, and what recovery needs.
#[derive(Default)]
pub(crate) struct Files {
    /// Numbers of files being written; they are in no version yet.
    pub pending_outputs: BTreeSet<FileNumber>,
    pub obsolete: ObsoleteFiles,
    /// `disable_file_deletions` calls outstanding.
    pub deletions_disabled: usize,
    /// Smallest log that recovery may need, as last written to the MANIFEST.
    pub min_log_to_keep: FileNumber,
    pub options_file_number: FileNumber,
    /// What the open dropped from the MANIFEST, since a crash had torn it.
    pub dropped_tail: Option<DroppedTail>,
    /// What `sst_file_manager` keeps free for this database after a full disk.
    pub disk_buffer: u64,
}

impl DbState {
    /// A compaction has a thread, or a place in a pool's queue.
    pub fn has_compaction_jobs(&self) -> bool {
        self.jobs.scheduled_compactions + self.jobs.bottom_compactions > 0
    }
    /// The open took back a change of which later bytes had survived than earlier ones.
    pub fn took_change_back(&self) -> bool {
        self.files.dropped_tail.as_ref().is_some_and(|tail| tail.holed)
    }
}

/// Everything behind a `Db` handle.
pub(crate) struct DbInner {
    pub dir: Directory,
    settings: Settings,
    pub reports: Reports,
    pub resources: Resources,
    pub background: Background,
    pub snapshots: Arc<SnapshotList>,
    pub cfs: ArcSwap<CfMap>,
    pub state: Mutex<DbState>,
    /// Notified whenever `state` changes in a way somebody may wait for.
    pub changed: Condvar,
    pub manifest: Mutex<ManifestLog>,
    pub writes: Writes,
    pub logs: Logs,
    /// Sequence of the newest write that readers may see.
    pub last_sequence: AtomicU64,
    pub next_file_number: AtomicU64,
    pub life: Life,
}

impl DbInner {
    /// The options as they are now.
    pub fn options(&self) -> Arc<DbOptions> {
        self.settings.options.load_full()
    }

    /// Replaces the options. Requires: state lock held.
    pub fn store_options(&self, options: DbOptions) {
        self.settings.options.store(Arc::new(options));
    }

    /// The logs, for who wants to sync, switch or close: while nobody syncs. Suspends.
    pub fn wal_at_rest(&self) -> MutexGuard<'_, Wals> {
        let mut wal = self.logs.wal.lock();
        while wal.is_syncing() {
            wal = self.logs.synced.wait(wal);
        }
        wal
    }

    /// The memtables of `cf` are not going to be flushed any more: who waits for memory does not
    /// wait for theirs. Requires leadership, and that nobody writes to them again.
    pub fn give_up_memory(&self, cf: &CfState) {
        cf.mem.mark_flushed();
        cf.imm.iter().for_each(|sealed| sealed.mem.mark_flushed());
    }

    /// Refuses calls from code that runs under locks, and in a child that `fork` made.
    ///
    /// # Errors
    /// Aborted; NotSupported in a child.
    #[inline]
    pub fn check_caller(&self) -> Result<()> {
        let ask = self.life.runs_code.load(Ordering::Relaxed) | is_forked();
        if ask { self.life.mark.check_may_lock() } else { Ok(()) }
    }

    /// Takes a new file number.
    pub fn new_file_number(&self) -> FileNumber {
        self.next_file_number.fetch_add(1, Ordering::Relaxed)
    }

    /// Counts an event.
    #[inline]
    pub fn tick(&self, ticker: Ticker, count: u64) {
        if let Some(statistics) = &self.reports.statistics {
            statistics.record_tick(ticker, count);
        }
    }

    /// Records a measurement.
    #[inline]
    pub fn measure(&self, kind: HistogramKind, value: u64) {
        if let Some(statistics) = &self.reports.statistics {
            statistics.measure(kind, value);
        }
    }

    /// Counts a finished table; returns the CPU time that helpers spent on it, microseconds.
    pub fn count_build(&self, table: &BuildStats) -> u64 {
        self.reports.table_builds.add(table);
        if let Some(statistics) = &self.reports.statistics {
            record_build(statistics, table);
        }
        table.helper_cpu_nanos / 1000
    }

    /// Writes a line to the info log.
    pub fn info(&self, line: std::fmt::Arguments<'_>) {
        if let Some(log) = &self.reports.info_log {
            log.log(crate::options::InfoLogLevel::Info, line);
        }
    }

    /// Recomputes what options decide about logs: their bytes together, and how they are written.
    pub fn refresh_wal_settings(&self, state: &DbState) {
        let configured = self.options().max_total_wal_size;
        if state.cfs.len() > 1 {
            state.had_families.store(true, Ordering::Relaxed);
        }
        let limit = if !state.had_families.load(Ordering::Relaxed) {
            // The memtable of a single family is all that holds a log.
            u64::MAX
        } else if configured > 0 {
            configured
        } else {
            let budget = |cf: &CfState| {
                let options = cf.data.options();
                let memtables = options.max_write_buffer_number.max(1) as u64;
                (options.write_buffer_size as u64).saturating_mul(memtables)
            };
            let budgets = state.cfs.values().map(budget);
            budgets.fold(0, u64::saturating_add).saturating_mul(4)
        };
        self.logs.bytes_limit.store(limit, Ordering::Relaxed);
        let budgets = state.cfs.values().map(|cf| cf.data.options().write_buffer_size as u64);
        let writer = self.options().wal_writer(budgets.max().unwrap_or(0));
        self.logs.wal.lock().set_writer_options(writer);
    }
}
