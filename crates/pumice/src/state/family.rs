//! The part of a column family under the state lock.
//!
//! Thread safety: `CfState` belongs to the state lock. Invariant: `CfData::super_version` always
//! equals (mem, imm, version) of its `CfState`; both change together, in [`CfState::publish`].

use std::collections::VecDeque;
use std::sync::Arc;

use pumice_base::{FileNumber, SequenceNumber};
use pumice_env::JobIo;
use pumice_manifest::{FileMetaData, Version};
use pumice_memtable::MemTable;
use pumice_table::{SeqnoToTimeMapping, TableOptions};

use crate::commit::controller::{StallInputs, WriteStall, write_stall};
use crate::compaction::plan::CompactionPlan;
use crate::flush::grouping::Unflushed;
use crate::flush::stripping;
use crate::options::{BackgroundPolicy, ColumnFamilyOptions, ConcurrentTaskLimiter};
use crate::state::regulator::Reliefs;
use crate::state::retry::CompactionRetry;
use crate::stats::listener::FlushReason;
use crate::version::family::{CfData, Publisher};
use crate::version::super_version::SuperVersion;
use crate::version::table_cache::TableCache;

/// A memtable that waits for its flush.
pub(crate) struct ImmutableMemTable {
    pub mem: Arc<MemTable>,
    /// The WAL that was current when the memtable was sealed: once the memtable is in a table
    /// file, logs below this number hold nothing of this column family.
    pub next_log: FileNumber,
    /// Why it was sealed.
    pub reason: FlushReason,
}

/// The state of its flushes.
#[derive(Clone, Copy, Default)]
pub(crate) struct FlushState {
    /// The newest memtable that is in a table, and of which the listeners have been told.
    pub installed: u64,
    pub told: u64,
    /// Memtables up to this one are to be flushed, however few they are.
    pub requested: u64,
    pub running: bool,
    pub queued: bool,
}

/// Files that are opened at once to learn what they hold.
const COUNTED_MAX: usize = 64;

/// Numbers that the family gives out next.
pub(crate) struct NextNumbers {
    /// Of a table, which orders those of level 0.
    pub epoch: u64,
    /// Of a memtable.
    pub memtable: u64,
}

/// The part of a column family under the state lock.
pub(crate) struct CfState {
    pub data: Arc<CfData>,
    publisher: Publisher,
    pub mem: Arc<MemTable>,
    /// Oldest first.
    pub imm: VecDeque<ImmutableMemTable>,
    /// Flushed memtables that are kept for conflict checks, oldest first.
    history: VecDeque<Arc<MemTable>>,
    pub version: Arc<Version>,
    /// Logs below this number hold nothing unflushed of this column family.
    pub log_number: FileNumber,
    pub plan: CompactionPlan,
    pub next: NextNumbers,
    pub flush: FlushState,
    pub compaction_queued: bool,
    pub compaction_retry: CompactionRetry,
    /// Automatic compactions make way for flushes.
    pub deferral: Deferral,
    /// Running jobs that make room for writes, as input of the adaptive policy.
    pub reliefs: Reliefs,
    pub stall: WriteStall,
}

impl CfState {
    /// Wraps the result of recovery or creation.
    pub fn new(
        (data, publisher): (CfData, Publisher),
        mem: Arc<MemTable>,
        version: Arc<Version>,
        log_number: FileNumber,
    ) -> Self {
        // Epoch 1 is reserved for files that are ingested behind all others, if that is allowed.
        let reserved = u64::from(data.options().cf_allow_ingest_behind);
        let next_epoch = 1 + version.max_epoch_number().max(reserved);
        let plan = CompactionPlan::new(&version, &data.options(), 0);
        CfState {
            data: Arc::new(data),
            publisher,
            mem,
            imm: VecDeque::new(),
            history: VecDeque::new(),
            version,
            log_number,
            plan,
            next: NextNumbers { epoch: next_epoch, memtable: 2 },
            flush: FlushState::default(),
            compaction_queued: false,
            compaction_retry: CompactionRetry::default(),
            deferral: Deferral::None,
            reliefs: Reliefs::default(),
            stall: WriteStall::None,
        }
    }

    /// Publishes (mem, imm, version) to readers.
    pub fn publish(&mut self) {
        let times = self.data.super_version.load().times.clone();
        self.publish_times(times);
    }

    /// Publishes the same with other samples, see `SuperVersion::times`.
    pub fn publish_times(&mut self, times: Option<Arc<SeqnoToTimeMapping>>) {
        self.data.installed(&mut self.publisher, &self.version);
        let imm = self.imm.iter().rev().map(|m| Arc::clone(&m.mem)).collect();
        let removes = u64::from(self.data.options().removes_unhidden());
        let removals = self.data.super_version.load().removals + removes;
        self.data.super_version.store(Arc::new(SuperVersion {
            mem: Arc::clone(&self.mem),
            imm,
            history: self.history.iter().rev().map(Arc::clone).collect(),
            version: Arc::clone(&self.version),
            times,
            ingestions: self.data.ingestions(),
            removals,
        }));
    }

    /// A memtable that was flushed, the newest so far, stays for conflict checks as long as options
    /// say.
    pub fn keep_for_conflicts(&mut self, mem: Arc<MemTable>) {
        if self.data.options().history_bytes() > 0 {
            self.history.push_back(mem);
        }
        self.trim_history();
    }

    /// Drops the oldest flushed memtables that are kept while the others have as many bytes as
    /// options ask for. Their successor is published by the caller.
    pub fn trim_history(&mut self) {
        let target = self.data.options().history_bytes();
        let waiting: usize = self.imm.iter().map(|sealed| sealed.mem.memory_bytes()).sum();
        let kept: usize = self.history.iter().map(|mem| mem.memory_bytes()).sum();
        let mut bytes = self.mem.memory_bytes() + waiting + kept;
        while let Some(oldest) = self.history.front() {
            bytes -= oldest.memory_bytes();
            if bytes < target {
                break;
            }
            self.history.pop_front();
        }
    }

    /// Replaces the options.
    pub fn set_options(
        &mut self,
        options: ColumnFamilyOptions,
        table: Arc<TableOptions>,
        tables: Arc<TableCache>,
    ) {
        self.data.set_options(&mut self.publisher, options, table, tables);
    }

    /// Files were ingested; readers find them in the next super version.
    /// `last` is the newest sequence number that they may have.
    pub fn count_ingestion(&mut self, last: SequenceNumber) {
        self.data.ingested_up_to(&mut self.publisher, last);
        self.mem.forget_dead_ranges();
        self.data.count_ingestion(&mut self.publisher);
    }

    /// The column family is dropped from now on.
    pub fn mark_dropped(&mut self) {
        self.data.mark_dropped(&mut self.publisher);
    }

    /// A flush should start: enough memtables wait, or a flush was asked for and one waits.
    pub fn wants_flush(&self) -> bool {
        let needed = self.data.options().min_write_buffer_number_to_merge.max(1) as usize;
        !self.flush.running
            && !self.imm.is_empty()
            && (self.is_flush_requested() || self.imm.len() >= needed && !self.keeps_times())
    }

    /// What is sealed now is to be flushed, however little it is.
    pub fn request_flush(&mut self) {
        let newest = self.imm.back().map_or(0, |sealed| sealed.mem.id());
        self.flush.requested = self.flush.requested.max(newest);
    }

    fn is_flush_requested(&self) -> bool {
        self.imm.front().is_some_and(|oldest| oldest.mem.id() <= self.flush.requested)
    }

    /// A flush would take timestamps off that readers may still ask for, and writes can go on
    /// without it.
    fn keeps_times(&self) -> bool {
        if !self.data.table_keys.stripped {
            return false;
        }
        let stalls = StallInputs {
            // With the memtable that takes writes.
            immutable_memtables: self.imm.len() + 1,
            l0_files: 0,
            pending_bytes: 0,
            thresholds_off: false,
            only_stops: false,
        };
        let low = self.version.full_history_ts_low().map(|low| &**low);
        write_stall(&stalls, &self.data.options()) == WriteStall::None
            && stripping::keeps_times(&self.data, self.imm.iter().map(|sealed| &sealed.mem), low)
    }

    /// Range tombstones in its memtable keep space of its files in use.
    pub fn has_idle_deletions(&self) -> bool {
        self.mem.num_range_deletes() > 0
            && self.mem.dead_run_min() > 0
            && self.version.num_files() > 0
            && !self.data.is_dropped()
    }

    /// The first files above the last level that no one has opened, with their levels: whether they
    /// hold tombstones is not known.
    pub fn uncounted_files(&self) -> Vec<(usize, Arc<FileMetaData>)> {
        let last = self.version.num_non_empty_levels().saturating_sub(1).max(1);
        let levels = self.version.levels().iter().take(last);
        let files = levels.flat_map(|level| level.files().iter().map(|f| (level.number(), f)));
        let unknown = files.filter(|(_, file)| file.stats.get().is_none());
        match self.mem.dead_run_min() {
            0 => Vec::new(),
            _ => unknown.take(COUNTED_MAX).map(|(level, file)| (level, Arc::clone(file))).collect(),
        }
    }

    /// Its data that is in no table.
    pub fn unflushed(&self) -> Unflushed {
        Unflushed {
            id: self.data.id,
            active: !self.mem.is_empty(),
            sealed: !self.imm.is_empty(),
            flushing: self.flush.running,
        }
    }

    /// A flush is running, or will start.
    pub fn has_flush_to_come(&self) -> bool {
        self.flush.running || self.wants_flush()
    }

    /// The oldest log that may hold entries of the mutable memtable.
    pub fn first_log_of_mem(&self) -> FileNumber {
        self.imm.back().map_or(self.log_number, |sealed| sealed.next_log)
    }

    /// Numbers of all files of the current version.
    pub fn files(&self) -> impl Iterator<Item = &Arc<FileMetaData>> {
        self.version.levels().iter().flat_map(|level| level.files().iter())
    }

    /// A flush of all sealed memtables begins.
    pub fn flush_begins(&mut self, io: Option<&Arc<JobIo>>) {
        let sum =
            |of: fn(&MemTable) -> u64| self.imm.iter().map(|m| of(&m.mem)).sum::<u64>() as f64;
        let bytes = sum(|mem| mem.memory_bytes() as u64);
        let entries = sum(|mem| mem.num_entries() - mem.num_range_deletes());
        self.reliefs.flush = io.map(|io| (Arc::clone(io), bytes, entries));
    }

    /// A compaction that takes `files` out of L0 begins, with this many entries in all its inputs.
    pub fn level0_begins(&mut self, io: &Arc<JobIo>, files: usize, entries: u64) {
        self.reliefs.level0.push((Arc::clone(io), files as f64, entries as f64));
    }

    /// The memtables of `cf` will not be flushed any more, so tasks that wait for memory do not
    /// wait for them. They are not written to again: the family is dropped, or the database closes.
    pub fn give_up_memory(&self) {
        self.mem.mark_flushed();
        self.imm.iter().for_each(|sealed| sealed.mem.mark_flushed());
    }
}

/// Automatic compactions of a column family make way for flushes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Deferral {
    #[default]
    None,
    Guarded,
    Seed,
}

impl CfState {
    /// The numbers that decide the stall state.
    pub fn stall_inputs(&self, adaptive: bool) -> StallInputs {
        StallInputs {
            immutable_memtables: self.imm.len(),
            l0_files: self.plan.counted_runs(&self.version),
            pending_bytes: self.plan.estimated_pending_bytes(),
            thresholds_off: self.deferral == Deferral::Seed,
            only_stops: adaptive,
        }
    }

    /// Automatic compaction may start now, as far as earlier failures and tuning go.
    pub fn may_compact(&self) -> bool {
        !self.compaction_retry.is_too_early() && self.deferral == Deferral::None
    }

    /// What limits its compactions.
    pub fn limiter(&self) -> Option<Arc<ConcurrentTaskLimiter>> {
        self.data.options().compaction_thread_limiter.clone()
    }

    /// Automatic compaction has something to do.
    pub fn wants_compaction(&self) -> bool {
        !self.data.options().disable_auto_compactions && self.plan.needs_compaction()
    }

    /// The form in which the family is tuned; `None` if it is not.
    pub fn tuned(&self, policy: BackgroundPolicy) -> Deferral {
        match policy {
            BackgroundPolicy::SeedRule => Deferral::Seed,
            _ if self.data.options().auto_tuned_compaction => Deferral::Guarded,
            _ => Deferral::None,
        }
    }

    /// L0 or debt is where RocksDB's rules slow writes, whatever the policy does: a guarded family
    /// has to compact.
    pub fn must_compact(&self) -> bool {
        write_stall(&self.stall_inputs(false), &self.data.options()).is_for_compaction()
    }
}
