//! What the database tells while it lives: info log, event log, listeners.
//!
//! Wording and order are RocksDB's, since people and scripts look for its lines.
//!
//! Thread safety: all of it from any thread. Invariant: listeners are never called under a lock or
//! by a leader. What happens there is queued: errors until their task has let go of all
//! (`error_handler`), the rest, in order, for a background job, which may be later than `close`.

use pumice_base::narrow::small_i32;
use std::collections::VecDeque;
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pumice_base::{Error, FileNumber};
use pumice_env::filename;
use pumice_manifest::FileMetaData;
use pumice_memtable::MemTable;
use pumice_port::pool::Priority;
use pumice_port::sync::Mutex;
use pumice_port::{thread, time};

use crate::commit::controller::{StallInputs, WriteStall};
use crate::engine::DbInner;
use crate::engine::compaction_job::CompactionWork;
use crate::engine::error_handler::UntoldError;
use crate::engine::family_state::CfState;
use crate::options::InfoLogLevel;
use crate::options::codec::{compression_of, flush_compression};
use crate::stats::cf_stats::StallCause;
use crate::stats::listener::{
    CompactionJobInfo, ExternalFileIngestionInfo, FlushJobInfo, FlushReason, MemTableInfo,
    TableFileCreationInfo, TableFileCreationReason, TableFileDeletionInfo, WriteStallCondition,
    WriteStallInfo,
};
use crate::stats::{CompactionStats, EventListener, Logger, event_log};
use crate::version::family::CfData;

/// Number of the job that opened the database.
const OPEN_JOB: u64 = 1;
const MEGABYTE: f64 = 1_048_576.0;

/// Numbers jobs, counts background errors, and keeps what listeners have yet to hear.
pub(crate) struct EventState {
    last_job: AtomicU64,
    background_errors: AtomicU64,
    /// See `info_dumps`.
    pub last_dump_micros: AtomicU64,
    deferred: Mutex<Deferred>,
    /// Errors of tasks that have yet to tell the listeners.
    pub untold: Mutex<Vec<UntoldError>>,
}

#[derive(Default)]
struct Deferred {
    events: VecDeque<DeferredEvent>,
    /// A job that delivers them is scheduled or running.
    delivering: bool,
}

enum DeferredEvent {
    Sealed(MemTableInfo),
    Stall(WriteStallInfo),
}

impl Default for EventState {
    fn default() -> Self {
        EventState {
            last_job: AtomicU64::new(OPEN_JOB),
            background_errors: AtomicU64::new(0),
            last_dump_micros: AtomicU64::new(time::now_micros()),
            deferred: Mutex::foreground(Deferred::default()),
            untold: Mutex::default(),
        }
    }
}

impl EventState {
    /// Counts a background error.
    pub fn background_error(&self) {
        self.background_errors.fetch_add(1, Ordering::Relaxed);
    }

    /// Background errors since the database was opened.
    pub fn background_errors(&self) -> u64 {
        self.background_errors.load(Ordering::Relaxed)
    }

    fn next_job(&self) -> u64 {
        self.last_job.fetch_add(1, Ordering::Relaxed) + 1
    }
}

impl DbInner {
    /// The host that table properties name.
    pub(crate) fn host_id(&self) -> String {
        crate::version::identity::host_id(&self.options())
    }

    /// Writes a warning to the info log.
    pub(crate) fn warn(&self, line: std::fmt::Arguments<'_>) {
        if let Some(log) = &self.reports.info_log {
            log.log(InfoLogLevel::Warn, line);
        }
    }

    fn log_event(&self, write: impl FnOnce(&dyn Logger)) {
        if let Some(log) = &self.reports.info_log {
            write(&**log);
        }
    }

    pub(crate) fn tell(&self, call: impl Fn(&dyn EventListener)) {
        for listener in &self.options().listeners {
            if let Err(error) = thread::contain("A listener", || call(&**listener)) {
                self.poison(&error);
            }
        }
    }

    /// Queues an event that happens under a lock or leadership.
    fn tell_later(&self, event: impl FnOnce() -> DeferredEvent) {
        if self.options().listeners.is_empty() {
            return;
        }
        let Some(db) = self.life.me.get().and_then(std::sync::Weak::upgrade) else { return };
        let mut deferred = self.reports.events.deferred.lock();
        deferred.events.push_back(event());
        if !std::mem::replace(&mut deferred.delivering, true) {
            let job = Box::new(move || db.deliver_deferred());
            self.resources.pools.schedule(Priority::High, "events", job);
        }
    }

    fn deliver_deferred(&self) {
        let _inside = self.life.mark.enter_job();
        loop {
            let mut deferred = self.reports.events.deferred.lock();
            let Some(event) = deferred.events.pop_front() else {
                deferred.delivering = false;
                return;
            };
            drop(deferred);
            match &event {
                DeferredEvent::Sealed(info) => self.tell(|l| l.on_memtable_sealed(info)),
                DeferredEvent::Stall(info) => self.tell(|l| l.on_stall_conditions_changed(info)),
            }
        }
    }

    /// A memtable takes no more writes. May be called under the state lock.
    pub(crate) fn notify_memtable_sealed(&self, cf: &CfData, mem: &MemTable) {
        self.tell_later(|| {
            DeferredEvent::Sealed(MemTableInfo {
                cf_name: cf.name.clone(),
                first_seqno: mem.first_seq(),
                earliest_seqno: mem.earliest_seq(),
                num_entries: mem.num_entries(),
                num_deletes: mem.num_deletes(),
            })
        });
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
            ..self.flush_info(cf, self.reports.events.next_job(), reason)
        };
        let job = info.job_id;
        self.log_event(|log| event_log::flush_started(log, &info));
        for mem in mems {
            self.info(format_args!("[{}] [JOB {job}] Flushing memtable id {}", cf.name, mem.id()));
        }
        self.info(format_args!("[{}] [JOB {job}] Level-0 flush table #{number}: started", cf.name));
        self.tell(|l| l.on_flush_begin(&info));
        job
    }

    fn flush_info(&self, cf: &CfData, job_id: u64, flush_reason: FlushReason) -> FlushJobInfo {
        let (options, files) = (cf.options(), cf.super_version.load().version.num_level_files(0));
        let reaches = |trigger: i32| usize::try_from(trigger).is_ok_and(|trigger| files >= trigger);
        FlushJobInfo {
            cf_id: cf.id,
            cf_name: cf.name.clone(),
            job_id,
            flush_reason,
            num_memtables: 0,
            total_num_input_entries: 0,
            num_deletes: 0,
            num_range_deletes: 0,
            total_data_size: 0,
            memory_usage: 0,
            file_path: PathBuf::new(),
            file_number: 0,
            smallest_seqno: 0,
            largest_seqno: 0,
            triggered_writes_slowdown: reaches(options.level0_slowdown_writes_trigger),
            triggered_writes_stop: reaches(options.level0_stop_writes_trigger),
        }
    }

    /// The flush `job` ended; `file` is what it made, if anything was left to write.
    pub(crate) fn note_flush_end(
        &self,
        cf: &CfData,
        job: u64,
        file: Option<&FileMetaData>,
        micros: u64,
        reason: FlushReason,
    ) {
        let mut info = self.flush_info(cf, job, reason);
        if let Some(file) = file {
            info.file_path = filename::table_file(&self.dir.path, file.number);
            info.file_number = file.number;
            info.smallest_seqno = file.smallest_seq;
            info.largest_seqno = file.largest_seq;
            self.info(format_args!(
                "[{}] [JOB {job}] Level-0 flush table #{}: {} bytes OK",
                cf.name, file.number, file.file_size
            ));
            self.note_table_created(cf, job, TableFileCreationReason::Flush, file);
        }
        let name = &cf.name;
        self.info(format_args!("[{name}] [JOB {job}] Flush lasted {micros} microseconds."));
        let shape = self.tree_shape(cf);
        self.info(format_args!("[{name}] Level summary: {}", shape.summary));
        let options = cf.options();
        let given = flush_compression(&options);
        let codec = compression_of(&options, 0, 1, false, given).0.property_name();
        self.log_event(|log| {
            event_log::flush_finished(log, &info, codec, &shape.files, shape.immutable_memtables);
        });
        self.tell(|l| l.on_flush_completed(&info));
        self.dump_stats_if_due();
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
            file_path: filename::table_file(&self.dir.path, file.number),
            file_number: file.number,
            file_size: file.file_size,
            smallest_seqno: file.smallest_seq,
            largest_seqno: file.largest_seq,
            num_entries: stats.num_entries,
            num_deletions: stats.num_deletions,
            error: None,
        };
        self.log_event(|log| event_log::table_file_created(log, &info));
        self.tell(|l| l.on_table_file_created(&info));
    }

    /// A compaction begins; returns its job number.
    pub(crate) fn note_compaction_begin(&self, work: &CompactionWork) -> u64 {
        let pick = &work.pick;
        let info = compaction_info(work, self.reports.events.next_job());
        let (name, job) = (&work.cf.name, info.job_id);
        self.info(format_args!(
            "[{name}] [JOB {job}] Compacting {} files to L{}, score {:.2}",
            input_counts(&info),
            pick.output_level,
            pick.score
        ));
        self.info(format_args!(
            "[{name}]: Compaction start summary: Base level {}, inputs: {}",
            pick.start_level,
            inputs_text(work)
        ));
        let oldest = self.snapshots.sequences().first().copied();
        self.log_event(|log| event_log::compaction_started(log, &info, oldest));
        self.tell(|l| l.on_compaction_begin(&info));
        job
    }

    /// The compaction `job`, run in `parts`, ended well with these files.
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
        for file in files {
            self.note_table_created(&work.cf, job, TableFileCreationReason::Compaction, file);
        }
        let name = &work.cf.name;
        self.info(format_args!(
            "[{name}] [JOB {job}] Compacted {} files to L{} => {} bytes",
            input_counts(&info),
            info.output_level,
            info.total_output_bytes
        ));
        let shape = self.tree_shape(&work.cf);
        let figures = compaction_figures(&info, counts);
        self.info(format_args!("[{name}] compacted to: {}, {figures}", shape.summary));
        self.log_event(|log| event_log::compaction_finished(log, &info, &shape.files));
        self.tell(|l| l.on_compaction_completed(&info));
        self.dump_stats_if_due();
    }

    /// The compaction `job` failed.
    pub(crate) fn note_compaction_failed(&self, job: u64, work: &CompactionWork, error: &Error) {
        let info = CompactionJobInfo { error: Some(error.clone()), ..compaction_info(work, job) };
        self.warn(format_args!("[{}] [JOB {job}] Compaction failed: {error}", work.cf.name));
        let shape = self.tree_shape(&work.cf);
        self.log_event(|log| event_log::compaction_finished(log, &info, &shape.files));
        self.tell(|l| l.on_compaction_completed(&info));
    }

    /// These files were ingested into these levels of `cf`.
    pub(crate) fn note_ingested(&self, cf: &CfData, files: &[(ExternalFileIngestionInfo, usize)]) {
        for (info, level) in files {
            self.info(format_args!(
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
        let shape = self.tree_shape(cf);
        self.log_event(|log| event_log::ingest_finished(log, &placed, &shape.files));
        for (info, _) in files {
            self.tell(|l| l.on_external_file_ingested(info));
        }
    }

    /// Table file `number` was removed from disk; what `tell_deleted` is to say of it.
    pub(crate) fn note_table_deleted(&self, number: FileNumber) -> TableFileDeletionInfo {
        let info = TableFileDeletionInfo {
            job_id: self.reports.events.last_job.load(Ordering::Relaxed),
            file_path: filename::table_file(&self.dir.path, number),
            file_number: number,
            error: None,
        };
        self.log_event(|log| event_log::table_file_deleted(log, &info));
        info
    }

    /// Tells the listeners of tables that were removed. Requires: no lock held, nor leadership.
    pub(crate) fn tell_deleted(&self, deleted: &[TableFileDeletionInfo]) {
        for info in deleted {
            self.tell(|l| l.on_table_file_deleted(info));
        }
    }

    /// Writes to `cf` are held back in another way than before. May be called under the state
    /// lock.
    pub(crate) fn note_stall(
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
            self.warn(format_args!("[{}] {}", cf.name, self.stall_text(cf, cause, new, inputs)));
        }
        let (previous, current) = (condition(old), condition(new));
        if previous != current {
            self.tell_later(|| {
                DeferredEvent::Stall(WriteStallInfo { cf_name: cf.name.clone(), current, previous })
            });
        }
    }

    fn stall_text(
        &self,
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
            text.push_str(&format!(" rate {}", self.writes.controller.delayed_rate()));
        }
        text
    }

    /// What is where in the tree of `cf` now; empty once it is dropped.
    fn tree_shape(&self, cf: &CfData) -> TreeShape {
        let state = self.state.lock();
        state.cfs.get(&cf.id).map(TreeShape::of).unwrap_or_default()
    }
}

/// The levels of a column family in numbers.
#[derive(Default)]
struct TreeShape {
    files: Vec<u64>,
    immutable_memtables: u64,
    summary: String,
}

impl TreeShape {
    fn of(cf: &CfState) -> Self {
        let levels = cf.version.num_levels();
        let files: Vec<u64> =
            (0..levels).map(|level| cf.version.num_level_files(level) as u64).collect();
        let counts: Vec<String> = files.iter().map(u64::to_string).collect();
        let score = (0..levels).map(|level| cf.plan.score(level)).fold(0.0, f64::max);
        let summary = format!(
            "base level {} files[{}] max score {score:.2}, estimated pending compaction bytes {}",
            cf.plan.base_level(),
            counts.join(" "),
            cf.plan.estimated_pending_bytes()
        );
        TreeShape { files, immutable_memtables: cf.imm.len() as u64, summary }
    }
}

fn compaction_info(work: &CompactionWork, job_id: u64) -> CompactionJobInfo {
    let pick = &work.pick;
    let options = work.cf.options();
    let (deepest, given) = (pick.deepest, pick.compression);
    let codec = compression_of(&options, pick.output_level, work.base_level, deepest, given);
    let numbers = |files: &[Arc<FileMetaData>]| files.iter().map(|f| f.number).collect();
    CompactionJobInfo {
        cf_id: work.cf.id,
        cf_name: work.cf.name.clone(),
        job_id,
        compaction_reason: pick.reason,
        base_input_level: small_i32(pick.start_level),
        output_level: small_i32(pick.output_level),
        input_files: pick.inputs.iter().map(|i| (small_i32(i.level), numbers(&i.files))).collect(),
        output_files: Vec::new(),
        score: pick.score,
        total_input_bytes: pick.input_bytes(),
        total_output_bytes: 0,
        num_input_records: 0,
        num_output_records: 0,
        num_subcompactions: 0,
        elapsed_micros: 0,
        cpu_micros: 0,
        output_compression: codec.0.property_name(),
        error: None,
    }
}

/// `4@0 + 1@6`: files by level.
fn input_counts(info: &CompactionJobInfo) -> String {
    let counts = info.input_files.iter().map(|(level, files)| format!("{}@{level}", files.len()));
    counts.collect::<Vec<_>>().join(" + ")
}

/// `[12(1024B) 9(7B)], [3(2048B)]`: every input file with its bytes.
fn inputs_text(work: &CompactionWork) -> String {
    let mut text = String::new();
    for input in &work.pick.inputs {
        let files: Vec<String> =
            input.files.iter().map(|f| format!("{}({}B)", f.number, f.file_size)).collect();
        let comma = if text.is_empty() { "" } else { ", " };
        write!(text, "{comma}[{}]", files.join(" ")).expect("writing to a String cannot fail");
    }
    text
}

/// Rates and ratios of a compaction, the second half of its closing line.
fn compaction_figures(info: &CompactionJobInfo, counts: &CompactionStats) -> String {
    let (upper, lower) = (counts.bytes_read_non_output_levels, counts.bytes_read_output_level);
    let written = counts.bytes_written;
    let megabytes = |bytes: u64| bytes as f64 / MEGABYTE;
    let rate = |bytes: u64| bytes as f64 / counts.micros.max(1) as f64;
    let per_input = |bytes: u64| bytes as f64 / upper.max(1) as f64;
    let files_at = |same: bool| -> usize {
        let at = info.input_files.iter().filter(|(l, _)| (*l == info.output_level) == same);
        at.map(|(_, files)| files.len()).sum()
    };
    format!(
        "MB/sec: {:.1} rd, {:.1} wr, level {}, files in({}, {}) out({}) MB in({:.1}, {:.1}) \
         out({:.1}), read-write-amplify({:.1}) write-amplify({:.1}) OK, records in: {}, records \
         dropped: {} output_compression: {}",
        rate(upper + lower),
        rate(written),
        info.output_level,
        files_at(false),
        files_at(true),
        info.output_files.len(),
        megabytes(upper),
        megabytes(lower),
        megabytes(written),
        per_input(upper + lower + written),
        per_input(written),
        counts.num_input_records,
        counts.num_dropped_records,
        info.output_compression
    )
}

fn condition(stall: WriteStall) -> WriteStallCondition {
    match stall {
        WriteStall::None => WriteStallCondition::Normal,
        WriteStall::Delayed(_) => WriteStallCondition::Delayed,
        WriteStall::Stopped(_) => WriteStallCondition::Stopped,
    }
}
