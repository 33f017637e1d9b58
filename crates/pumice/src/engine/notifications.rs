//! What an open database reports: info log, event log, listeners.
//!
//! Wording and order are RocksDB's, since people and scripts look for its lines.
//!
//! Thread safety: all of it from any thread. Invariant: listeners are never called under a lock or
//! by a leader. Events there are queued: errors until their task holds nothing any more
//! (`error_handler`), the rest, in order, for a background job, which may run after `close`.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use pumice_base::{Error, FileNumber};
use pumice_manifest::FileMetaData;
use pumice_memtable::MemTable;
use pumice_port::pool::Priority;
use pumice_table::TableProperties;

use crate::commit::controller::{StallInputs, WriteController, WriteStall};
use crate::engine::DbInner;
use crate::engine::scheduler::Scheduler;
use crate::options::codec::{compression_of, flush_compression};
use crate::state::events::DeferredEvent;
use crate::state::job::{Job, RunJob};
use crate::state::reports::Reports;
use crate::state::tree_shape::{
    compaction_figures, compaction_info, condition, flush_info, input_counts, inputs_text,
};
use crate::state::work::CompactionWork;
use crate::stats::cf_stats::StallCause;
use crate::stats::listener::CompactionTable;
use crate::stats::listener::{
    CompactionJobInfo, ExternalFileIngestionInfo, FlushJobInfo, FlushReason, MemTableInfo,
    SubcompactionJobInfo, TableFileCreationInfo, TableFileCreationReason, TableFileDeletionInfo,
    WriteStallInfo,
};
use crate::stats::{CompactionStats, event_log};
use crate::version::family::CfData;

/// RocksDB's line on a stall.
fn stall_text(
    controller: &WriteController,
    cf: &CfData,
    cause: StallCause,
    new: WriteStall,
    inputs: &StallInputs,
) -> String {
    let what = if new.is_stop() { "Stopping" } else { "Stalling" };
    let mut text = match cause {
        StallCause::MemtableLimit => format!(
            "{what} writes because we have {} immutable memtables (waiting for flush), \
             max_write_buffer_number is set to {}",
            inputs.immutable_memtables,
            cf.options().max_write_buffer_number
        ),
        StallCause::L0FileCountLimit => {
            format!("{what} writes because we have {} level-0 files", inputs.l0_files)
        }
        StallCause::PendingCompactionBytes => format!(
            "{what} writes because of estimated pending compaction bytes {}",
            inputs.pending_bytes
        ),
    };
    if new.is_delay() {
        text.push_str(&format!(" rate {}", controller.delayed_rate()));
    }
    text
}

impl Scheduler<'_> {
    /// Queues an event that happens under a lock or leadership.
    fn notify_later(&self, event: impl FnOnce() -> DeferredEvent) {
        if self.settings.current().listeners.is_empty() {
            return;
        }
        let Some(runner) = self.life.runner() else { return };
        let mut deferred = self.reports.events.deferred.lock();
        deferred.events.push_back(event());
        if !std::mem::replace(&mut deferred.delivering, true) {
            self.schedule_delivery(runner);
        }
    }

    /// Queues a job that delivers the events that wait.
    fn schedule_delivery(&self, runner: Arc<dyn RunJob>) {
        let job = move || runner.run(Job::DeliverEvents);
        self.pools.schedule(Priority::High, "events", Box::new(job));
    }

    /// A memtable has been sealed. May be called under the state lock.
    pub(crate) fn notify_memtable_sealed(&self, cf: &CfData, mem: &MemTable) {
        self.notify_later(|| {
            DeferredEvent::Sealed(MemTableInfo {
                cf_name: cf.name.clone(),
                first_seqno: mem.first_seq(),
                earliest_seqno: mem.earliest_seq(),
                num_entries: mem.num_entries(),
                num_deletes: mem.num_deletes(),
            })
        });
    }

    /// The stall state of `cf` has changed. May be called under the state lock.
    pub(super) fn note_stall(
        &self,
        cf: &CfData,
        old: WriteStall,
        new: WriteStall,
        inputs: &StallInputs,
    ) {
        if let Some(cause) = new.cause() {
            let version = Arc::clone(&cf.super_version.load().version);
            let l0_busy = version.files(0).iter().any(|f| f.is_being_compacted());
            cf.stats.lock().stalls.count(cause, new.is_stop(), l0_busy);
            self.reports.warn(format_args!(
                "[{}] {}",
                cf.name,
                stall_text(self.controller, cf, cause, new, inputs)
            ));
        }
        let (previous, current) = (condition(old), condition(new));
        if previous != current {
            self.notify_later(|| {
                DeferredEvent::Stall(WriteStallInfo { cf_name: cf.name.clone(), current, previous })
            });
        }
    }
}

impl DbInner {
    /// Delivers what is there now; what comes meanwhile has another turn in the pool.
    pub(super) fn deliver_deferred(self: Arc<Self>) {
        let _inside = self.life.mark.enter_job();
        let waiting = self.reports.events.deferred.lock().events.len();
        for _ in 0..waiting {
            let event = self.reports.events.deferred.lock().events.pop_front();
            let Some(event) = event else { break };
            match &event {
                DeferredEvent::Sealed(info) => self.faults().notify(|l| l.on_memtable_sealed(info)),
                DeferredEvent::Stall(info) => {
                    self.faults().notify(|l| l.on_stall_conditions_changed(info))
                }
            }
        }
        let mut deferred = self.reports.events.deferred.lock();
        deferred.delivering = !deferred.events.is_empty();
        if deferred.delivering {
            self.scheduler().schedule_delivery(Arc::clone(&self) as Arc<dyn RunJob>);
        }
    }

    /// A flush of `mems` into file `number` begins; returns its job number.
    pub(crate) fn note_flush_begin(
        &self,
        cf: &CfData,
        number: FileNumber,
        mems: &[Arc<MemTable>],
        reason: FlushReason,
    ) -> u64 {
        let sum = |of: fn(&MemTable) -> u64| mems.iter().map(|mem| of(mem)).sum::<u64>();
        let info = FlushJobInfo {
            num_memtables: mems.len(),
            total_num_input_entries: sum(MemTable::num_entries),
            num_deletes: sum(MemTable::num_deletes),
            num_range_deletes: sum(MemTable::num_range_deletes),
            total_data_size: sum(MemTable::data_bytes),
            memory_usage: sum(|mem| mem.memory_bytes() as u64),
            ..flush_info(cf, self.reports.events.next_job(), reason)
        };
        let job = info.job_id;
        self.reports.log_event(|log| event_log::flush_started(log, &info));
        for mem in mems {
            self.reports.info(format_args!(
                "[{}] [JOB {job}] Flushing memtable id {}",
                cf.name,
                mem.id()
            ));
        }
        self.reports
            .info(format_args!("[{}] [JOB {job}] Level-0 flush table #{number}: started", cf.name));
        self.faults().notify(|l| l.on_flush_begin(&info));
        job
    }

    /// The flush `job` ended; `file` is its output, if there was anything to write.
    pub(crate) fn note_flush_end(
        &self,
        cf: &CfData,
        job: u64,
        file: Option<&FileMetaData>,
        micros: u64,
        reason: FlushReason,
    ) {
        let mut info = flush_info(cf, job, reason);
        if let Some(file) = file {
            info.file_path = cf.table_of(file);
            info.file_number = file.number;
            info.table_properties = self.properties_for_listeners(cf, file).unwrap_or_default();
            info.smallest_seqno = file.smallest_seq;
            info.largest_seqno = file.largest_seq;
            self.reports.info(format_args!(
                "[{}] [JOB {job}] Level-0 flush table #{}: {} bytes OK",
                cf.name, file.number, file.file_size
            ));
            self.note_table_created(cf, job, TableFileCreationReason::Flush, file);
        }
        let name = &cf.name;
        self.reports.info(format_args!("[{name}] [JOB {job}] Flush lasted {micros} microseconds."));
        let shape = self.state.lock().tree_shape(cf.id);
        self.reports.info(format_args!("[{name}] Level summary: {}", shape.summary));
        let options = cf.options();
        let given = flush_compression(&options);
        let codec = compression_of(&options, 0, 1, false, given).0.property_name();
        self.reports.log_event(|log| {
            event_log::flush_finished(log, &info, codec, &shape.files, shape.immutable_memtables);
        });
        self.faults().notify(|l| l.on_flush_completed(&info));
        self.report_if_due();
    }

    /// The properties of a table that a job has just used; None without listeners.
    fn properties_for_listeners(
        &self,
        cf: &CfData,
        file: &FileMetaData,
    ) -> Option<TableProperties> {
        if self.options().listeners.is_empty() {
            return None;
        }
        let tables = cf.tables();
        let table = tables.table(file).ok()?;
        Some(table.properties().clone())
    }

    fn note_table_created(
        &self,
        cf: &CfData,
        job_id: u64,
        reason: TableFileCreationReason,
        file: &FileMetaData,
    ) {
        let stats = file.stats();
        let info = TableFileCreationInfo {
            cf_name: cf.name.clone(),
            job_id,
            reason,
            file_path: cf.table_of(file),
            file_number: file.number,
            file_size: file.file_size,
            smallest_seqno: file.smallest_seq,
            largest_seqno: file.largest_seq,
            num_entries: stats.num_entries,
            num_deletions: stats.num_deletions,
            error: None,
        };
        self.reports.log_event(|log| event_log::table_file_created(log, &info));
        self.faults().notify(|l| l.on_table_file_created(&info));
    }

    /// What listeners are told of the parts of compaction `job`.
    pub(crate) fn part_info(&self, work: &CompactionWork, job: u64) -> SubcompactionJobInfo {
        let info = compaction_info(work, job);
        SubcompactionJobInfo {
            cf_id: info.cf_id,
            cf_name: info.cf_name,
            job_id: job,
            subcompaction_job_id: 0,
            compaction_reason: info.compaction_reason,
            base_input_level: info.base_input_level,
            output_level: info.output_level,
            output_compression: info.output_compression,
            num_input_records: 0,
            num_output_records: 0,
            total_output_bytes: 0,
            num_output_files: 0,
            elapsed_micros: 0,
            cpu_micros: 0,
            error: None,
        }
    }

    /// A compaction begins; returns its job number.
    pub(crate) fn note_compaction_begin(&self, work: &CompactionWork) -> u64 {
        let pick = &work.pick;
        let info = compaction_info(work, self.reports.events.next_job());
        let (name, job) = (&work.cf.name, info.job_id);
        self.reports.info(format_args!(
            "[{name}] [JOB {job}] Compacting {} files to L{}, score {:.2}",
            input_counts(&info),
            pick.output_level,
            pick.score
        ));
        self.reports.info(format_args!(
            "[{name}]: Compaction start summary: Base level {}, inputs: {}",
            pick.start_level,
            inputs_text(work)
        ));
        let oldest = self.snapshots.sequences().first().copied();
        self.reports.log_event(|log| event_log::compaction_started(log, &info, oldest));
        self.faults().notify(|l| l.on_compaction_begin(&info));
        job
    }

    /// The compaction `job`, run in `parts`, succeeded with these files.
    pub(crate) fn note_compaction_end(
        &self,
        job: u64,
        work: &CompactionWork,
        files: &[Arc<FileMetaData>],
        counts: &CompactionStats,
        parts: usize,
    ) {
        let mut info = compaction_info(work, job);
        info.num_subcompactions = parts;
        info.output_files = files.iter().map(|f| f.number).collect();
        info.total_output_bytes = counts.bytes_written;
        info.num_input_records = counts.num_input_records;
        info.num_output_records = files.iter().map(|f| f.stats().num_entries).sum();
        info.elapsed_micros = counts.micros;
        info.cpu_micros = counts.cpu_micros;
        self.add_tables(&mut info, work, files);
        for file in files {
            self.note_table_created(&work.cf, job, TableFileCreationReason::Compaction, file);
        }
        let name = &work.cf.name;
        self.reports.info(format_args!(
            "[{name}] [JOB {job}] Compacted {} files to L{} => {} bytes",
            input_counts(&info),
            info.output_level,
            info.total_output_bytes
        ));
        let shape = self.state.lock().tree_shape(work.cf.id);
        let figures = compaction_figures(&info, counts);
        self.reports.info(format_args!("[{name}] compacted to: {}, {figures}", shape.summary));
        self.reports.log_event(|log| event_log::compaction_finished(log, &info, &shape.files));
        self.faults().notify(|l| l.on_compaction_completed(&info));
        self.report_if_due();
    }

    /// Listeners, if there are some, hear that files will change level without being read.
    pub(crate) fn notify_move_begin(&self, work: &CompactionWork) -> Option<CompactionJobInfo> {
        if self.options().listeners.is_empty() {
            return None;
        }
        let info = compaction_info(work, self.reports.events.next_job());
        self.faults().notify(|l| l.on_compaction_begin(&info));
        Some(info)
    }

    /// Listeners hear that the files of [`Self::notify_move_begin`] have moved, or why not. What
    /// comes out are the files that went in; no entry was read or written.
    pub(crate) fn notify_move_end(
        &self,
        mut info: CompactionJobInfo,
        work: &CompactionWork,
        error: Option<&Error>,
    ) {
        let level = work.pick.output_level;
        let moved = work.pick.input_files().filter(|(from, _)| *from != level);
        info.output_files = moved.map(|(_, file)| file.number).collect();
        info.error = error.cloned();
        self.add_tables(&mut info, work, &[]);
        self.faults().notify(|l| l.on_compaction_completed(&info));
    }

    /// What listeners are told of the tables that went in and came out.
    fn add_tables(
        &self,
        info: &mut CompactionJobInfo,
        work: &CompactionWork,
        files: &[Arc<FileMetaData>],
    ) {
        let all = work.pick.input_files().map(|(_, file)| file).chain(files);
        let table = |file: &Arc<FileMetaData>| {
            let properties = self.properties_for_listeners(&work.cf, file)?;
            Some((file.number, CompactionTable { path: work.cf.table_of(file), properties }))
        };
        info.tables = all.filter_map(table).collect();
    }

    /// The compaction `job` failed.
    pub(crate) fn note_compaction_failed(&self, job: u64, work: &CompactionWork, error: &Error) {
        let info = CompactionJobInfo { error: Some(error.clone()), ..compaction_info(work, job) };
        self.reports
            .warn(format_args!("[{}] [JOB {job}] Compaction failed: {error}", work.cf.name));
        let shape = self.state.lock().tree_shape(work.cf.id);
        self.reports.log_event(|log| event_log::compaction_finished(log, &info, &shape.files));
        self.faults().notify(|l| l.on_compaction_completed(&info));
    }

    /// These files were ingested into these levels of `cf`.
    pub(crate) fn note_ingested(&self, cf: &CfData, files: &[(ExternalFileIngestionInfo, usize)]) {
        for (info, level) in files {
            self.reports.info(format_args!(
                "[AddFile] External SST file {} was ingested in L{level} with path {} \
                 (global_seqno={})",
                info.external_file_path.display(),
                info.internal_file_path.display(),
                info.global_seqno
            ));
        }
        let path = |info: &ExternalFileIngestionInfo| info.internal_file_path.display().to_string();
        let paths: Vec<String> = files.iter().map(|(info, _)| path(info)).collect();
        let placed: Vec<(&str, usize)> =
            paths.iter().map(String::as_str).zip(files.iter().map(|(_, level)| *level)).collect();
        let shape = self.state.lock().tree_shape(cf.id);
        self.reports.log_event(|log| event_log::ingest_finished(log, &placed, &shape.files));
        for (info, _) in files {
            self.faults().notify(|l| l.on_external_file_ingested(info));
        }
    }

    /// Reports removed tables to the listeners. Requires: neither a lock nor leadership is held.
    pub(crate) fn notify_deleted(&self, deleted: &[TableFileDeletionInfo]) {
        for info in deleted {
            self.faults().notify(|l| l.on_table_file_deleted(info));
        }
    }
}

impl Reports {
    /// Table file `number`, at `path`, was removed from disk; returns the event for
    /// `notify_deleted`.
    pub(crate) fn table_deleted(&self, path: PathBuf, number: FileNumber) -> TableFileDeletionInfo {
        let info = TableFileDeletionInfo {
            job_id: self.events.last_job.load(Ordering::Relaxed),
            file_path: path,
            file_number: number,
            error: None,
        };
        self.log_event(|log| event_log::table_file_deleted(log, &info));
        info
    }
}
