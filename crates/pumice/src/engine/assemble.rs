//! Puts a database's parts together from its options and from what recovery found.
//!
//! Nothing is written here, and no job starts. Thread safety: plain functions.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use pumice_base::narrow::to_usize;
use pumice_base::{InternalKeyComparator, Result};
use pumice_compress::CompressionType;
use pumice_env::{FileLock, FileSystem};
use pumice_memtable::WriteBufferManager;
use pumice_port::pool::{Priority, ThreadPools};
use pumice_port::sync::{Condvar, Mutex};
use pumice_port::thread;

use crate::callbacks::{Mark, has_code, has_db_code};
use crate::commit::batch::WriteBatch;
use crate::commit::controller::WriteController;
use crate::commit::queue::WriteQueue;
use crate::commit::shared_insert::Helpers;
use crate::commit::wal::{LogSettings, Wals};
use crate::engine::life::Life;
use crate::engine::open::ColumnFamilyDescriptor;
use crate::engine::secondary::Following;
use crate::engine::{DbInner, compaction_tuning};
use crate::lock_order;
use crate::log_tail::log_history::LogHistory;
use crate::options::{Bell, DbOptions};
use crate::recovery::lock::Mode;
use crate::recovery::version_recovery::{RecoveredFamily, RecoveredVersions};
use crate::snapshot::SnapshotList;
use crate::state::events::EventState;
use crate::state::family::CfState;
use crate::state::manifest_log::ManifestLog;
use crate::state::parts::{Background, Directory, FileNumbers, Logs, Resources, Settings, Writes};
use crate::state::regulator::Regulator;
use crate::state::reports::Reports;
use crate::state::{CfMap, DbState, Files};
use crate::stats::db_stats::DbStats;
use crate::stats::{Logger, StatsHistory, TableBuilds};
use crate::trace::Traces;
use crate::version::charges::charge_metadata;
use crate::version::family::{CfData, new_memtable};
use crate::version::identity::new_session_id;
use crate::version::super_version::SuperVersion;
use crate::version::table_cache::{OpenTables, TableCache};

/// The results of an open so far.
pub(super) struct Assembly<'a> {
    pub options: &'a DbOptions,
    pub fs: Arc<dyn FileSystem>,
    pub path: &'a Path,
    pub wal_dir: &'a Path,
    pub mode: Mode<'a>,
    pub recovered: RecoveredVersions,
    pub descriptors: &'a [ColumnFamilyDescriptor],
    pub db_id: String,
    pub info_log: Option<Arc<dyn Logger>>,
    pub lock: Option<Box<dyn FileLock>>,
    pub mark: Mark,
    pub traces: Arc<Traces>,
}

/// The pools of the process, with enough threads for this database.
fn pools_for(options: &DbOptions) -> Result<Arc<ThreadPools>> {
    let pools = ThreadPools::shared();
    let (flushes, compactions) = options.background_limits();
    pools.increase_background_threads(flushes, Priority::High);
    pools.increase_background_threads(compactions, Priority::Low);
    // Started now, since later there is no call that could fail if there is no thread for a flush:
    // writers would wait for it.
    for priority in [Priority::High, Priority::Low] {
        pools.start_first(priority)?;
    }
    Ok(pools)
}

/// The budget for memtables, if there is one.
fn buffer_manager(options: &DbOptions) -> Option<Arc<WriteBufferManager>> {
    options.write_buffer_manager.clone().or_else(|| {
        let budget = to_usize(options.db_write_buffer_size);
        (budget > 0).then(|| WriteBufferManager::new(budget, None, false))
    })
}

/// A database with all its parts, before any job.
///
/// # Errors
/// A family's options contradict each other, or no thread can be started.
pub(super) fn assemble(a: Assembly<'_>) -> Result<DbInner> {
    let options = a.options;
    let session_id = new_session_id();
    let ids = (a.db_id.clone(), session_id.clone());
    let open_tables = OpenTables::new(options, (&a.fs, a.path), ids, &a.traces);
    let manager = buffer_manager(options);
    let mut cfs = BTreeMap::new();
    for (id, family) in a.recovered.families {
        let Some(d) = a.descriptors.iter().find(|d| d.name == family.name) else { continue };
        // A secondary's memtables are not flushed, so writers may not be made to wait for that.
        let counted = manager.clone().filter(|_| !a.mode.is_guest());
        let state = new_family_state(&open_tables, counted, id, d, family)?;
        cfs.insert(id, state);
    }
    let state = DbState {
        cfs,
        max_column_family: a.recovered.max_column_family,
        files: Files {
            min_log_to_keep: a.recovered.min_log_to_keep,
            dropped_tail: a.recovered.dropped,
            ..Files::default()
        },
        ..DbState::default()
    };
    let manifest = ManifestLog::replacing(a.recovered.manifest_number);
    let families = state.cfs.values().map(|cf| Arc::clone(&cf.data));
    let families = CfMap::new(families);
    Ok(DbInner {
        settings: Settings {
            options: ArcSwap::from_pointee(options.clone()),
            change: Mutex::ranked(&lock_order::OPTIONS_CHANGE, ()),
            limits: options.limits,
        },
        reports: new_reports(options, a.info_log, a.traces),
        resources: Resources {
            open_tables,
            write_buffer_manager: manager,
            pools: pools_for(options)?,
        },
        background: new_background(options, a.fs.as_ref(), a.path)?,
        snapshots: Arc::new(SnapshotList::default()),
        cfs: ArcSwap::from_pointee(families),
        state: Mutex::ranked(&lock_order::STATE, state),
        changed: Condvar::new(),
        manifest: Mutex::ranked(&lock_order::MANIFEST, manifest),
        writes: new_writes(options),
        logs: no_logs(&a.fs, a.wal_dir, options),
        last_sequence: AtomicU64::new(a.recovered.last_sequence),
        file_numbers: FileNumbers::starting_at(a.recovered.next_file_number),
        life: new_life(a.mark, runs_code(options, a.descriptors)),
        dir: Directory {
            path: a.path.to_path_buf(),
            fs: a.fs,
            read_only: !a.mode.writes(),
            two_phase: a.mode == Mode::TwoPhase,
            secondary: a.mode.is_guest(),
            leader: a.mode.leader().cloned(),
            db_id: a.db_id,
            session_id,
            lock: Mutex::ranked(&lock_order::DIRECTORY, a.lock),
        },
    })
}

fn new_life(mark: Mark, runs_code: bool) -> Life {
    Life {
        closing: AtomicBool::new(false),
        shutting_down: AtomicBool::new(false),
        manual_pauses: AtomicI64::new(0),
        compaction_aborts: AtomicU64::new(0),
        mark,
        runs_code: AtomicBool::new(runs_code),
        me: OnceLock::new(),
        following: Mutex::ranked(&lock_order::FOLLOWING, Following::default()),
        staged: Mutex::default(),
    }
}

fn new_writes(options: &DbOptions) -> Writes {
    Writes {
        queue: WriteQueue::new(group_bytes_max(options)),
        helpers: Mutex::ranked(&lock_order::HELPERS, write_helpers(options)),
        scratch: Mutex::ranked(&lock_order::SCRATCH, WriteBatch::with_limits(options.limits)),
        controller: WriteController::new(options.delayed_write_rate),
        attention: AtomicBool::new(false),
        full_memtables: Mutex::ranked(&lock_order::FULL_MEMTABLES, BTreeSet::new()),
        last_unlogged: AtomicU64::new(0),
    }
}

fn new_background(options: &DbOptions, fs: &dyn FileSystem, path: &Path) -> Result<Background> {
    Ok(Background {
        tuner: compaction_tuning::new_tuner(options),
        regulator: Regulator::of(fs, path, options),
        lanes: crate::state::lanes::Lanes::new(options)?,
        compaction_behind: AtomicBool::new(false),
        bottommost_threshold: AtomicU64::new(u64::MAX),
        purge_scheduled: AtomicBool::new(false),
        expiry_changed: Condvar::new(),
        retry: Bell::new(),
        range_deletions: AtomicBool::new(false),
    })
}

/// Some user code runs under locks.
fn runs_code(options: &DbOptions, descriptors: &[ColumnFamilyDescriptor]) -> bool {
    !options.file_system.is_own()
        || has_db_code(options)
        || descriptors.iter().any(|d| has_code(&d.options))
}

/// The logs of a database before its first log.
fn no_logs(fs: &Arc<dyn FileSystem>, dir: &Path, options: &DbOptions) -> Logs {
    let (use_fsync, manual) = (options.use_fsync, options.manual_wal_flush);
    let writer = options.wal_writer(0);
    let compresses = options.wal_compression != CompressionType::None;
    let recycled = to_usize(options.recycled_logs());
    let temperature = options.wal_write_temperature;
    let how = LogSettings { use_fsync, manual_flush: manual, compresses, temperature, recycled };
    let wals = Wals::new(Arc::clone(fs), dir.to_path_buf(), how, writer);
    Logs {
        recycles: recycled > 0,
        wal: Mutex::ranked(&lock_order::LOGS, wals),
        synced: Condvar::new(),
        bytes: AtomicU64::new(0),
        bytes_limit: AtomicU64::new(u64::MAX),
        relieved: AtomicU64::new(0),
        history: LogHistory::new(),
    }
}

fn new_reports(
    options: &DbOptions,
    info_log: Option<Arc<dyn Logger>>,
    traces: Arc<Traces>,
) -> Reports {
    Reports {
        info_log,
        statistics: options.statistics.clone(),
        observes_reads: options.statistics.is_some() || options.row_cache.is_some(),
        stats: DbStats::new(),
        table_builds: TableBuilds::default(),
        events: EventState::default(),
        traces,
        history: StatsHistory::default(),
        dumps_changed: Condvar::new(),
    }
}

/// Members that may insert concurrently with the leader of their group.
fn write_helpers(options: &DbOptions) -> Helpers {
    Helpers::new(match options.allow_concurrent_memtable_write {
        true => thread::available_parallelism() - 1,
        false => 0,
    })
}

/// A group becomes one record, whose count of updates has 32 bits.
fn group_bytes_max(options: &DbOptions) -> usize {
    let most = options.limits.batch_bytes();
    usize::try_from(options.max_write_batch_group_size_bytes).unwrap_or(most).min(most)
}

/// The runtime state of a column family around its recovered version.
pub(crate) fn new_family_state(
    open_tables: &Arc<OpenTables>,
    manager: Option<Arc<WriteBufferManager>>,
    id: u32,
    descriptor: &ColumnFamilyDescriptor,
    family: RecoveredFamily,
) -> Result<CfState> {
    let options = &descriptor.options;
    let icmp = InternalKeyComparator::new(options.comparator.clone());
    let table_options = Arc::new(options.table_options()?);
    let tables = Arc::new(TableCache::new(
        Arc::clone(open_tables),
        Arc::clone(&table_options),
        InternalKeyComparator::new(options.table_order()),
        (id, &family.name, options),
    ));
    let mem = new_memtable(options, &icmp, 1, 0, manager);
    let version = family.version;
    charge_metadata(&table_options, &version)?;
    let first = Arc::new(SuperVersion {
        mem: Arc::clone(&mem),
        imm: Vec::new(),
        history: Vec::new(),
        version: Arc::clone(&version),
        times: None,
        ingestions: 0,
        removals: 0,
    });
    let data = CfData::new(id, &family.name, options.clone(), table_options, tables, first);
    Ok(CfState::new(data, mem, version, family.log_number))
}
