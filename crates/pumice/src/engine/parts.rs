//! The parts of [`DbInner`](super::DbInner), by what they serve.
//!
//! Thread safety: as the fields say; what is neither behind a lock nor atomic never changes after
//! the open. The order of the locks is in `engine`.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock, Weak};

use arc_swap::ArcSwap;
use pumice_base::SizeLimits;
use pumice_env::{FileLock, FileSystem};
use pumice_memtable::WriteBufferManager;
use pumice_port::pool::ThreadPools;
use pumice_port::sync::{Condvar, Mutex};

use crate::callbacks::Mark;
use crate::commit::batch::WriteBatch;
use crate::commit::controller::WriteController;
use crate::commit::queue::WriteQueue;
use crate::commit::shared_insert::Helpers;
use crate::commit::wal::Wals;
use crate::control::tuner::Tuner;
use crate::engine::DbInner;
use crate::engine::events::EventState;
use crate::engine::lanes::Lanes;
use crate::engine::regulator::Regulator;
use crate::log_tail::history::LogHistory;
use crate::options::DbOptions;
use crate::stats::db_stats::DbStats;
use crate::stats::{Logger, Statistics, TableBuilds};
use crate::version::table_cache::OpenTables;

/// Where the database is, and who it is.
pub(crate) struct Directory {
    pub path: PathBuf,
    pub fs: Arc<dyn FileSystem>,
    pub read_only: bool,
    pub db_id: String,
    pub session_id: String,
    /// Taken by the close.
    pub lock: Mutex<Option<Box<dyn FileLock>>>,
}

/// What the database was told.
pub(crate) struct Settings {
    pub options: ArcSwap<DbOptions>,
    /// Held while the options are changed; comes before the state lock.
    pub change: Mutex<()>,
    /// What keys, values and batches may have.
    pub limits: SizeLimits,
}

/// What it tells.
pub(crate) struct Reports {
    pub info_log: Option<Arc<dyn Logger>>,
    pub statistics: Option<Arc<Statistics>>,
    /// Point reads go the way that counts, which is the one to the row cache, too.
    pub observes_reads: bool,
    pub stats: DbStats,
    pub table_builds: TableBuilds,
    pub events: EventState,
    /// Notified when reports may have to be dumped at another time.
    pub dumps_changed: Condvar,
}

/// What it may share with other databases of the process.
pub(crate) struct Resources {
    pub open_tables: Arc<OpenTables>,
    pub write_buffer_manager: Option<Arc<WriteBufferManager>>,
    pub pools: Arc<ThreadPools>,
}

/// What steers flushes and compactions.
pub(crate) struct Background {
    /// None without a rate limiter.
    pub tuner: Option<Arc<Tuner>>,
    pub regulator: Regulator,
    pub lanes: Lanes,
    /// Compaction needs all its threads: low-priority writes make way.
    pub compaction_behind: AtomicBool,
    /// When the oldest snapshot passes this, there may be more to compact.
    pub bottommost_threshold: AtomicU64,
    /// A job that deletes obsolete files is queued and has not started.
    pub purge_scheduled: AtomicBool,
    /// Notified when a file gets too old earlier than was thought.
    pub expiry_changed: Condvar,
}

/// What writers share.
pub(crate) struct Writes {
    pub queue: WriteQueue,
    /// The leader's: how many members it asks to insert beside it.
    pub helpers: Mutex<Helpers>,
    /// The leader's batch, for groups of several.
    pub scratch: Mutex<WriteBatch>,
    pub controller: WriteController,
    /// Something in `attend` may hold; the leader looks there.
    pub attention: AtomicBool,
    pub full_memtables: Mutex<BTreeSet<u32>>,
    /// Sequence of the newest write that skipped the log; 0 if none did since the open.
    pub last_unlogged: AtomicU64,
}

/// The write-ahead logs.
pub(crate) struct Logs {
    pub wal: Mutex<Wals>,
    /// Notified when a sync of the log that did not hold `wal` is over.
    pub synced: Condvar,
    pub bytes: AtomicU64,
    pub bytes_limit: AtomicU64,
    /// The log that flushes were last asked for to make it obsolete.
    pub relieved: AtomicU64,
    pub history: LogHistory,
}

/// How far the database's life has come.
pub(crate) struct Life {
    /// A close has begun: nothing is written any more.
    pub closing: AtomicBool,
    /// What was to be saved is, and background work ends.
    pub shutting_down: AtomicBool,
    /// For tasks that work for it.
    pub mark: Mark,
    /// Code of the user's runs under its locks: calls look whether they come from there.
    pub runs_code: AtomicBool,
    /// Itself, for jobs.
    pub me: OnceLock<Weak<DbInner>>,
}
