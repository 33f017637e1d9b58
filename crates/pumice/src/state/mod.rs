//! The data under the locks of a database, and decisions that need only that data.
//!
//! The room below `engine`: data, and functions of data. Nothing here knows the database that the
//! data belongs to, takes one of its locks, or starts a job: `engine` does, and calls this room.
//!
//! | part | is |
//! |---|---|
//! | this file | what the state lock guards, and the map of column families |
//! | `family` | a column family under the state lock |
//! | `parts`, `reports` | the parts of a database: directory, logs, writes, reports, .. |
//! | `batch_check` | whether a batch can be applied |
//! | `manifest_log` | the MANIFEST's state, and edits that take effect together |
//! | `log_holders` | which logs stay |
//! | `errors`, `retry` | background errors, and compactions that failed |
//! | `job` | what pools and tasks are asked to do |
//! | `work`, `manual_queue` | picked compactions, and those that callers asked for |
//! | `obsolete`, `expiry` | files that nothing needs, and files that get too old |
//! | `write_times` | when entries were written |
//! | `lanes`, `regulator` | at which priority jobs compute; the adaptive policy's state |
//! | `events`, `tree_shape` | events not yet reported; jobs and trees in numbers |
//! | `properties`, `property_texts` | properties of data, as numbers and as texts |
//!
//! Thread safety: [`DbState`] and the [`CfState`]s in it belong to the state lock: a reference to
//! one is proof that the lock is held. A [`CfMap`] never changes.

pub(crate) mod batch_check;
pub(crate) mod errors;
pub(crate) mod events;
pub(crate) mod expiry;
pub(crate) mod family;
pub(crate) mod job;
pub(crate) mod lanes;
pub(crate) mod log_holders;
pub(crate) mod manifest_log;
pub(crate) mod manual_queue;
pub(crate) mod obsolete;
pub(crate) mod parts;
pub(crate) mod properties;
pub(crate) mod property_texts;
pub(crate) mod regulator;
pub(crate) mod reports;
pub(crate) mod retry;
pub(crate) mod tree_shape;
pub(crate) mod work;
pub(crate) mod write_times;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use pumice_base::{FileNumber, Result};

use crate::commit::two_phase::Section;
use crate::recovery::manifest_reader::DroppedTail;
use crate::state::errors::ErrorState;
use crate::state::expiry::ExpiryWatch;
use crate::state::family::CfState;
use crate::state::log_holders::LogHolders;
use crate::state::manual_queue::ManualQueue;
use crate::state::obsolete::ObsoleteFiles;
use crate::state::tree_shape::TreeShape;
use crate::state::work::CompactionWork;
use crate::state::write_times::WriteTimes;
use crate::version::family::CfData;

/// The column families as writers and readers find them, without a lock.
#[derive(Clone, Default)]
pub(crate) struct CfMap {
    pub by_id: BTreeMap<u32, Arc<CfData>>,
    pub default: Option<Arc<CfData>>,
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

/// What the state lock guards.
#[derive(Default)]
pub(crate) struct DbState {
    pub cfs: BTreeMap<u32, CfState>,
    /// There has been more than one column family since the open (RocksDB's
    /// `single_column_family_mode_` is the opposite). Atomic for those who only read the state.
    pub had_families: AtomicBool,
    /// The open has succeeded: jobs and tasks may start. If started earlier they would outlive a
    /// failed open, and keep the directory locked.
    pub opened: bool,
    pub manual: ManualQueue,
    pub errors: ErrorState,
    pub max_column_family: u32,
    /// The result of the close, once it is over.
    pub closed: Option<Result<()>>,
    pub jobs: Jobs,
    pub tasks: Tasks,
    pub times: WriteTimes,
    pub files: Files,
}

/// Jobs of the pools: the queues, and how many there are.
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
    /// A compaction was requested since a job last found none: a job that ends without work then
    /// has others check again.
    pub compaction_wanted: bool,
    /// Compactions that the bottom pool has, running or not.
    pub bottom_compactions: usize,
    /// Ingestions under way; closing waits for them.
    pub running_ingestions: usize,
    /// Threads that delete obsolete files.
    pub running_deletions: usize,
    /// `pause_background_work` calls outstanding.
    pub paused: usize,
    /// A close is saving unlogged data: flushes run even if background work is paused.
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
    /// The task that lets a follower catch up exists.
    pub following: bool,
    pub expiry: ExpiryWatch,
}

/// Files besides those of the versions: being written, obsolete, and what recovery needs.
#[derive(Default)]
pub(crate) struct Files {
    /// Numbers of files being written; they are in no version yet.
    pub pending_outputs: BTreeSet<FileNumber>,
    pub obsolete: ObsoleteFiles,
    /// `disable_file_deletions` calls outstanding.
    pub deletions_disabled: usize,
    /// Checkpoints and backups that copy files. Not counted above: a caller may allow deletions
    /// once too often.
    pub copies: usize,
    /// What else needs logs than the families' unflushed data.
    pub log_holders: LogHolders,
    /// Prepared transactions that the open found, until their owner asks for them.
    pub recovered_sections: Vec<Section>,
    /// Smallest log that recovery may need, as last written to the MANIFEST.
    pub min_log_to_keep: FileNumber,
    pub options_file_number: FileNumber,
    /// The last OPTIONS file could not be written: the present one lacks a change.
    pub options_stale: bool,
    /// The end of the MANIFEST that the open dropped because a crash had torn it.
    pub dropped_tail: Option<DroppedTail>,
    /// A best-efforts recovery left something out.
    pub left_out: bool,
    /// Bytes that `sst_file_manager` requires free for this database after a full disk.
    pub disk_buffer: u64,
}

impl Files {
    /// Table `number` was written to `path`, at least in part, for an edit that was never tried:
    /// the next deletion removes it.
    pub fn discard_output(&mut self, number: FileNumber, path: PathBuf) {
        self.pending_outputs.remove(&number);
        self.obsolete.unnamed.push(path);
    }

    /// Table `number` was written to `path` for an edit that failed: it is deleted once a MANIFEST
    /// is durable that does not name it.
    pub fn abandon_output(&mut self, number: FileNumber, path: PathBuf) {
        self.pending_outputs.remove(&number);
        self.obsolete.file(path);
    }

    /// Blob files of `cf` were written, at least in part, for an edit that was never tried: as
    /// `discard_output`.
    pub fn discard_blob_files(&mut self, cf: &CfData, numbers: &[FileNumber]) {
        for number in numbers {
            self.discard_output(*number, cf.blob(*number));
        }
    }

    /// Blob files of `cf` were written for an edit that failed: as `abandon_output`.
    pub fn abandon_blob_files(&mut self, cf: &CfData, numbers: &[FileNumber]) {
        for number in numbers {
            self.abandon_output(*number, cf.blob(*number));
        }
    }

    /// Nothing may be deleted now.
    pub fn are_kept(&self) -> bool {
        self.deletions_disabled > 0 || self.copies > 0
    }
}

impl DbState {
    /// The directories of tables of all families.
    pub fn table_dirs(&self) -> BTreeSet<PathBuf> {
        self.cfs.values().flat_map(|cf| cf.data.dirs.all().iter().cloned()).collect()
    }

    /// Queues a flush of column family `id` if it wants one.
    pub fn queue_flush(&mut self, id: u32) {
        if let Some(cf) = self.cfs.get_mut(&id)
            && cf.wants_flush()
            && !cf.flush.queued
        {
            cf.flush.queued = true;
            self.jobs.flush_queue.push_back(id);
        }
    }

    /// Queues column family `id` for compaction if it wants one.
    pub fn queue_compaction(&mut self, id: u32) {
        if let Some(cf) = self.cfs.get_mut(&id)
            && !cf.compaction_queued
            && !cf.data.is_dropped()
            && cf.wants_compaction()
        {
            cf.compaction_queued = true;
            self.jobs.compaction_queue.push_back(id);
        }
    }

    /// A compaction has a thread, or a place in a pool's queue.
    pub fn has_compaction_jobs(&self) -> bool {
        self.jobs.scheduled_compactions + self.jobs.bottom_compactions > 0
    }

    /// The present shape of the tree of column family `id`; empty once it is dropped.
    pub fn tree_shape(&self, id: u32) -> TreeShape {
        self.cfs.get(&id).map(TreeShape::of).unwrap_or_default()
    }

    /// A compaction whose writes are counted begins.
    pub fn level0_begins(&mut self, work: &CompactionWork) {
        let pick = &work.pick;
        if let (0, Some(io), Some(cf)) = (pick.start_level, &work.io, self.cfs.get_mut(&work.cf.id))
        {
            let taken = pick.input_files().filter(|(level, _)| *level == 0).count();
            let put = usize::from(pick.output_level == 0);
            cf.level0_begins(io, taken - put.min(taken), pick.input_entries());
        }
    }

    /// The level to which compactions of `level` write in column family `id`.
    pub fn next_level(&self, id: u32, level: usize) -> usize {
        let base = self.cfs.get(&id).map_or(1, |family| family.plan.base_level());
        if level == 0 { base } else { level + 1 }
    }

    /// Whether the open dropped a change of which later bytes survived but not all earlier ones.
    pub fn took_change_back(&self) -> bool {
        self.files.dropped_tail.as_ref().is_some_and(|tail| tail.holed)
    }
}
