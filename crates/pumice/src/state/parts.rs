//! The parts of a database, by what they serve; each has the methods that need nothing else.
//!
//! Thread safety: as the fields say; fields that are neither locked nor atomic never change after
//! the open. The order of the locks is in `lock_order`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::{ArcSwap, Guard};
use pumice_base::order;
use pumice_base::{Error, FileNumber, Result, SizeLimits};
use pumice_env::filename::{self, FileType};
use pumice_env::{FileLock, FileSystem, Temperature};
use pumice_memtable::WriteBufferManager;
use pumice_port::pool::{Priority, ThreadPools};
use pumice_port::sync::{Condvar, Mutex, MutexGuard};

use crate::commit::batch::WriteBatch;
use crate::commit::controller::WriteController;
use crate::commit::queue::WriteQueue;
use crate::commit::shared_insert::Helpers;
use crate::commit::wal::Wals;
use crate::control::tuner::Tuner;
use crate::ingest::transfer::{self, is_unlinkable};
use crate::log_tail::log_files::LogFile;
use crate::log_tail::log_history::LogHistory;
use crate::log_tail::retention::ArchivedLog;
use crate::options::requests::WriteOptions;
use crate::options::{Bell, DbOptions};
use crate::recovery::leader::Leader;
use crate::state::CfMap;
use crate::state::lanes::Lanes;
use crate::state::regulator::Regulator;
use crate::state::work::CompactionWork;
use crate::stats::Logger;
use crate::version::family::CfData;
use crate::version::super_version::SuperVersion;
use crate::version::table_cache::OpenTables;

/// The directory and identity of the database.
pub(crate) struct Directory {
    pub path: PathBuf,
    pub fs: Arc<dyn FileSystem>,
    pub read_only: bool,
    /// Prepared transactions in the logs are kept; without it they are refused.
    pub two_phase: bool,
    /// Another process writes, and this one follows. Then it is also `read_only`.
    pub secondary: bool,
    /// What a follower follows. Its tables are its own, in directories of its own.
    pub leader: Option<Leader>,
    pub db_id: String,
    pub session_id: String,
    /// Taken by the close.
    pub lock: Mutex<Option<Box<dyn FileLock>>>,
}

/// The numbers that new files get.
pub(crate) struct FileNumbers(AtomicU64);

impl FileNumbers {
    /// `next` is the first.
    pub fn starting_at(next: FileNumber) -> Self {
        FileNumbers(AtomicU64::new(next))
    }

    /// Takes one.
    pub fn next(&self) -> FileNumber {
        self.0.fetch_add(1, Ordering::Relaxed)
    }

    /// The one that the next caller of `next` takes.
    pub fn next_free(&self) -> FileNumber {
        self.0.load(Ordering::Relaxed)
    }

    /// None below `next` is taken any more.
    pub fn skip_to(&self, next: FileNumber) {
        self.0.fetch_max(next, Ordering::Relaxed);
    }
}

/// The options of the database.
pub(crate) struct Settings {
    pub options: ArcSwap<DbOptions>,
    /// Held while the options are changed; comes before the state lock.
    pub change: Mutex<()>,
    /// Size limits of keys, values and batches.
    pub limits: SizeLimits,
}

/// Resources that it may share with other databases of the process.
pub(crate) struct Resources {
    pub open_tables: Arc<OpenTables>,
    pub write_buffer_manager: Option<Arc<WriteBufferManager>>,
    pub pools: Arc<ThreadPools>,
}

/// The control of flushes and compactions.
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
    /// Notified when a file will become too old earlier than expected.
    pub expiry_changed: Condvar,
    /// Rings when compactions may be tried again.
    pub retry: Arc<Bell>,
    /// A memtable may have range tombstones, and the task of `engine::expiry_task` knows.
    pub range_deletions: AtomicBool,
}

/// State that writers share.
pub(crate) struct Writes {
    pub queue: WriteQueue,
    /// How many members a leader asks to insert concurrently with it; used by the leader.
    pub helpers: Mutex<Helpers>,
    /// The leader's batch for an update that is written alone, without a batch of its caller's.
    pub scratch: Mutex<WriteBatch>,
    pub controller: WriteController,
    /// There may be something for `DbInner::handle_pending`, which the next leader calls.
    pub attention: AtomicBool,
    pub full_memtables: Mutex<BTreeSet<u32>>,
    /// Sequence of the newest write that skipped the log; 0 if none did since the open.
    pub last_unlogged: AtomicU64,
}

/// The write-ahead logs.
pub(crate) struct Logs {
    pub wal: Mutex<Wals>,
    /// Files of logs are used again.
    pub recycles: bool,
    /// Notified when a sync of the log that did not hold `wal` is over.
    pub synced: Condvar,
    pub bytes: AtomicU64,
    pub bytes_limit: AtomicU64,
    /// The log for whose release flushes were last requested.
    pub relieved: AtomicU64,
    pub history: LogHistory,
}

impl Logs {
    /// The logs, to sync, switch or close them: once no sync is under way. Suspends.
    pub fn at_rest(&self) -> MutexGuard<'_, Wals> {
        let mut wal = self.wal.lock();
        while wal.is_syncing() {
            wal = self.synced.wait(wal);
        }
        wal
    }

    /// The directory of the logs.
    pub fn dir(&self) -> PathBuf {
        self.wal.lock().dir().to_path_buf()
    }

    /// Applies an operation to a log where it is expected, or else in the other place; returns
    /// whether that was the archive.
    pub fn at_log<T>(
        &self,
        file: LogFile,
        mut act: impl FnMut(&Path) -> Result<T>,
    ) -> Result<(bool, T)> {
        let dir = self.dir();
        let path = |archived: bool| -> PathBuf {
            let find = if archived { filename::archived_log_file } else { filename::log_file };
            find(&dir, file.number)
        };
        match act(&path(file.archived)) {
            Err(error) if error.is_not_found() => {
                act(&path(!file.archived)).map(|done| (!file.archived, done))
            }
            result => result.map(|done| (file.archived, done)),
        }
    }
}

impl Directory {
    /// The directory of CURRENT and the MANIFEST.
    pub fn source(&self) -> &Path {
        self.leader.as_ref().map_or(&self.path, |leader| &leader.path)
    }

    /// The files in its directories are its own, to be deleted once nothing needs them.
    pub fn owns_files(&self) -> bool {
        !self.read_only || self.leader.is_some()
    }

    /// Refuses operations that a database opened for reading cannot do.
    pub fn check_writable(&self) -> Result<()> {
        match (self.read_only, self.secondary) {
            (false, _) => Ok(()),
            (true, false) => {
                Err(Error::not_supported("Not supported operation in read only mode."))
            }
            (true, true) => Err(Error::not_supported("Not supported operation in secondary mode.")),
        }
    }

    /// Adds the logs in `dir`, which is the archive if `archived`, to `found`; an archive may be
    /// missing.
    pub fn list_logs(
        &self,
        dir: &Path,
        archived: bool,
        found: &mut BTreeMap<FileNumber, bool>,
    ) -> Result<()> {
        let names = match self.fs.list(dir) {
            Ok(names) => names,
            Err(error) if archived && error.is_not_found() => return Ok(()),
            Err(error) => return Err(error),
        };
        for name in names {
            if let Some((number, FileType::Wal)) = filename::parse(&name) {
                found.insert(number, archived);
            }
        }
        Ok(())
    }

    /// The logs in archive `dir`, ascending.
    pub fn archived_logs(&self, dir: &Path) -> Result<Vec<ArchivedLog>> {
        let fs = &self.fs;
        let mut logs = Vec::new();
        for name in fs.list(dir)? {
            let Some((number, FileType::Wal)) = filename::parse(&name) else { continue };
            let path = dir.join(name);
            let (bytes, modified) = (fs.file_size(&path)?, fs.modified_time(&path)?);
            logs.push(ArchivedLog { number, bytes, modified });
        }
        order::sort_by_key(&mut logs, |log| log.number);
        Ok(logs)
    }

    /// Gives a table file a second name, or copies it once links have proved impossible.
    pub fn link_or_copy(&self, from: &Path, to: &Path, linking: &mut bool) -> Result<()> {
        if *linking {
            match self.fs.link(from, to) {
                Err(error) if is_unlinkable(&error) => *linking = false,
                result => return result,
            }
        }
        self.copy(from, to, self.fs.file_size(from)?)
    }

    /// Copies the first `bytes` bytes of a file, durably.
    pub fn copy(&self, from: &Path, to: &Path, bytes: u64) -> Result<()> {
        transfer::copy(&*self.fs, false, (from, bytes), (to, Temperature::Unknown), &|| Ok(()))
    }

    /// A line for each kind of file in the directory; a directory that cannot be read has no lines.
    pub fn log_directory(&self, log: &(dyn Logger + 'static)) {
        let Ok(names) = self.fs.list(&self.path) else { return };
        let mut tables = 0;
        for name in &names {
            match filename::parse(name) {
                Some((_, FileType::Table)) => tables += 1,
                Some((_, FileType::Current)) => log.header(format_args!("CURRENT file:  {name}")),
                Some((_, FileType::Identity)) => log.header(format_args!("IDENTITY file:  {name}")),
                Some((_, FileType::Descriptor)) => {
                    log.header(format_args!("MANIFEST file:  {name}"));
                }
                Some((_, FileType::Wal)) => {
                    log.header(format_args!("Write Ahead Log file:  {name}"));
                }
                _ => {}
            }
        }
        let dir = self.path.display();
        log.header(format_args!("SST files in {dir} dir, Total Num: {tables}"));
    }
}

impl Writes {
    /// A memtable of column family `id` is full: the next leader seals it.
    pub fn request_switch(&self, id: u32) {
        self.full_memtables.lock().insert(id);
        self.attention.store(true, Ordering::Release);
    }

    /// How many members of a group are asked to insert concurrently with their leader: none if a
    /// memtable takes one inserter only.
    pub fn helpers_to_ask(&self, key_space: &CfMap, followers: usize, updates: u64) -> usize {
        let asked = self.helpers.lock().decide(followers, updates);
        let concurrent = |cf: &CfData| cf.super_version.load().mem.takes_concurrent_adds();
        if asked > 0 && key_space.all().all(|cf| concurrent(cf)) { asked } else { 0 }
    }

    #[inline(always)]
    pub fn note_full_memtable(&self, at: &Option<(u32, Guard<Arc<SuperVersion>>)>) {
        if let Some((id, super_version)) = at
            && super_version.mem.should_flush()
        {
            self.request_switch(*id);
        }
    }
}

impl Resources {
    /// A compaction that rewrites the last level runs on the bottom pool, if that pool may have
    /// threads and gets one: it takes longest, and nothing waits for it.
    pub fn runs_at_bottom(&self, work: &CompactionWork) -> bool {
        let (pick, pools) = (&work.pick, &self.pools);
        let rewrites = !pick.is_trivial_move && !pick.is_deletion;
        let reserved = usize::from(work.cf.options().cf_allow_ingest_behind);
        let last = work.version.num_levels() - 1 - reserved;
        rewrites
            && pick.output_level > 0
            && pick.output_level == last
            && pools.background_threads(Priority::Bottom) > 0
            && pools.start_first(Priority::Bottom).is_ok()
    }
}

impl Settings {
    /// The options as they are now.
    pub fn current(&self) -> Arc<DbOptions> {
        self.options.load_full()
    }

    pub fn one_update(
        &self,
        options: &WriteOptions,
        fill: impl FnOnce(&mut WriteBatch),
    ) -> Result<WriteBatch> {
        let mut own = WriteBatch::sized(256, self.limits);
        if options.protection_bytes_per_key != 0 {
            own.protect_for(options)?;
        }
        fill(&mut own);
        own.status()?;
        Ok(own)
    }
}
