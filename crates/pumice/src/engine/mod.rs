//! The database: its locks, and the wiring of its parts (`state`).
//!
//! The locks and their order are in `lock_order`. Files of this room do not call each other in a
//! circle (`cargo xtask tidy`): from the bottom up `error_handler`, `scheduler` and
//! `notifications`, then `deletion` and `stalls`, then `versions` and `memtable_switch`, then jobs,
//! then what users call; `background` runs the jobs that the scheduler starts without knowing them.
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
pub(crate) mod compaction_job;
mod compaction_pick;
pub(crate) mod compaction_retry;
pub(crate) mod compaction_tuning;
pub(crate) mod ddl;
mod deletion;
pub(crate) mod error_handler;
pub(crate) mod expiry_task;
pub(crate) mod export_family;
pub(crate) mod flush_api;
pub(crate) mod flush_job;
pub(crate) mod follower;
pub(crate) mod found_files;
mod history_low;
pub(crate) mod identity_file;
pub(crate) mod import_family;
pub(crate) mod info_dumps;
pub(crate) mod ingest_job;
pub(crate) mod job_env;
pub(crate) mod lane_choice;
mod life;
pub(crate) mod live_files;
pub(crate) mod log_archive;
mod log_recycling;
mod manifest_check;
pub(crate) mod manual_compaction;
pub(crate) mod memtable_switch;
pub(crate) mod notifications;
pub(crate) mod obsolete_files;
pub(crate) mod open;
pub(crate) mod open_and_compact;
pub(crate) mod options_file;
mod own_files;
mod prepared_ingestion;
mod preprocess;
pub(crate) mod property_api;
pub(crate) mod read_api;
pub(crate) mod recovery;
pub(crate) mod regulation;
mod remote;
mod remote_check;
pub(crate) mod replay_keys;
mod replay_tables;
pub(crate) mod reserve;
pub(crate) mod resume;
mod scheduler;
pub(crate) mod secondary;
pub(crate) mod space;
pub(crate) mod staged_ingestion;
mod stalls;
pub(crate) mod storage_info;
mod tracking;
pub(crate) mod two_phase;
pub(crate) mod versions;
pub(crate) mod wal_files;
mod write_content;
mod write_insert;
pub(crate) mod write_merge;
pub(crate) mod write_path;
mod write_refusals;
mod write_times;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use pumice_base::{FileNumber, Result};
use pumice_port::sync::{Condvar, Mutex};
use pumice_port::thread;

use crate::engine::life::Life;
use crate::options::DbOptions;
use crate::snapshot::SnapshotList;
use crate::state::family::CfState;
use crate::state::manifest_log::ManifestLog;
use crate::state::parts::{Background, Directory, FileNumbers, Logs, Resources, Settings, Writes};
use crate::state::reports::Reports;
use crate::state::{CfMap, DbState};

/// Starts a task of the database's own, which waits most of the time. It is a thread even where
/// fibers run: the database may outlive their runtime, and a fiber that gets no stack never runs,
/// so that a close, which waits for its end, would hang.
///
/// # Errors
/// No thread can be started.
pub(crate) fn start_task(name: &str, body: impl FnOnce() + Send + 'static) -> Result<()> {
    thread::spawn_os(name, body).map(drop)
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
    /// Notified whenever `state` changes in a way that a task may wait for.
    pub changed: Condvar,
    pub manifest: Mutex<ManifestLog>,
    pub writes: Writes,
    pub logs: Logs,
    /// Sequence of the newest write that readers may see.
    pub last_sequence: AtomicU64,
    pub file_numbers: FileNumbers,
    pub life: Life,
}

impl DbInner {
    /// The options as they are now.
    pub fn options(&self) -> Arc<DbOptions> {
        self.settings.current()
    }

    /// Replaces the options.
    pub fn store_options(&self, _: &mut DbState, options: DbOptions) {
        self.settings.options.store(Arc::new(options));
    }

    /// Takes a new file number.
    pub fn new_file_number(&self) -> FileNumber {
        self.file_numbers.next()
    }

    /// Recomputes the settings of logs from the options: their total size, and how they are
    /// written.
    pub fn refresh_wal_settings(&self, state: &DbState) {
        let configured = self.options().max_total_wal_size;
        if state.cfs.len() > 1 {
            state.had_families.store(true, Ordering::Relaxed);
        }
        let limit = if !state.had_families.load(Ordering::Relaxed) {
            // With one family only its memtable holds a log, so the limit does not apply.
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
