//! The background job of a flush.
//!
//! All memtables that wait when the job starts become one file; they leave the column family in
//! the same step that installs the file, so a reader sees either them or it. With `atomic_flush`,
//! and while the database resumes from an error, one job writes the files of several column
//! families (`flush::grouping`) and installs them in one step, or none of them: then all their
//! memtables stay and are tried again.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pumice_base::planted::{self, Bug};
use pumice_base::{FileNumber, Result};
use pumice_env::{IoActivity, IoClass, JobIo, activity};
use pumice_manifest::edit::BlobFileAddition;
use pumice_manifest::{FileMetaData, Version, VersionEdit};
use pumice_memtable::MemTable;
use pumice_port::lane::Floor;
use pumice_port::sync::Mutex;
use pumice_port::{thread, time};
use pumice_table::{SeqnoToTimeMapping, TableReason};

use crate::compaction::compaction_env::LaneKind;
use crate::engine::DbInner;
use crate::flush::grouping::{Grouping, flushed_together};
use crate::flush::{FlushOutput, Flushed, stripping, write_level0};
use crate::lock_order;
use crate::state::errors::Reason;
use crate::state::family::CfState;
use crate::state::manifest_log::EditGroup;
use crate::state::parts::Logs;
use crate::state::{DbState, Files};
use crate::stats::listener::FlushReason;
use crate::stats::thread_status::{ThreadStage, Tracked};
use crate::version::family::CfData;

/// What a flush works on.
struct FlushWork {
    cf: Arc<CfData>,
    mems: Vec<Arc<MemTable>>,
    /// All older files.
    older: Arc<Version>,
    /// When entries were written.
    times: Option<Arc<SeqnoToTimeMapping>>,
    next_log: FileNumber,
    number: FileNumber,
    /// Numbers of its blob files so far.
    blob_files: Mutex<Vec<FileNumber>>,
    epoch: u64,
    reason: FlushReason,
    /// The account of its writes.
    io: Option<Arc<JobIo>>,
}

/// The table written from a flush's memtables.
struct WrittenTable {
    job: u64,
    file: Option<Arc<FileMetaData>>,
    blob_files: Vec<BlobFileAddition>,
    micros: u64,
    cpu_micros: u64,
    /// Its flush is listed until it is installed.
    tracked: Tracked,
}

impl FlushWork {
    /// Its files, written at least in part, are for no edit.
    fn discard(&self, files: &mut Files) {
        files.discard_output(self.number, self.cf.new_table(self.number));
        files.discard_blob_files(&self.cf, &self.blob_files.lock());
    }
}

impl DbInner {
    /// Runs the flush that waits longest, if there is one; the next one has a turn of its own in
    /// the pool. Body of a pool job; returns true, so that tasks waiting for room are checked.
    pub(crate) fn background_flush(self: &Arc<Self>) -> bool {
        let works = self.pick_flush(&mut self.state.lock());
        if works.is_empty() {
            return true;
        }
        let flushed = thread::contain("Flush", || self.flush_together(&works));
        let flushed = flushed.and_then(|done| done);
        if let Err(error) = &flushed {
            self.faults().background_error(error, Reason::Flush);
        }
        let mut state = self.state.lock();
        state.jobs.running_flushes -= 1;
        for work in &works {
            if let Some(cf) = state.cfs.get_mut(&work.cf.id) {
                cf.flush.running = false;
                cf.flush.told = cf.flush.installed;
                cf.reliefs.flush_ended();
            }
            state.files.pending_outputs.remove(&work.number);
            for number in work.blob_files.lock().iter() {
                state.files.pending_outputs.remove(number);
            }
        }
        // After a failure too: a resume may have asked for a flush while this job still ran.
        let again: Vec<u32> = match self.options().atomic_flush {
            // Where only one may run, other families were skipped meanwhile.
            true => state.cfs.keys().copied().collect(),
            false => works.iter().map(|work| work.cf.id).collect(),
        };
        again.iter().for_each(|id| state.queue_flush(*id));
        self.changed.notify_all();
        true
    }

    /// The flushes to do next, for one job; marks them running. None if there is nothing to do.
    fn pick_flush(&self, state: &mut DbState) -> Vec<FlushWork> {
        if self.life.shutting_down.load(Ordering::Acquire)
            || state.errors.stopping_jobs().is_some()
            || (state.jobs.paused > 0 && !state.jobs.saving)
        {
            return Vec::new();
        }
        let grouping = Grouping::of(self.options().atomic_flush, state.errors.is_resuming());
        let mut ids = Vec::new();
        while let Some(id) = state.jobs.flush_queue.pop_front() {
            let Some(cf) = state.cfs.get_mut(&id) else { continue };
            cf.flush.queued = false;
            if cf.unflushed().is_ready() && !cf.data.is_dropped() {
                ids.push(id);
            }
            if grouping == Grouping::One && !ids.is_empty() {
                break;
            }
        }
        if grouping == Grouping::All && !ids.is_empty() {
            // That is always the same point for all families: they are sealed in one step.
            ids = flushed_together(state.cfs.values().map(CfState::unflushed));
        }
        let works: Vec<FlushWork> =
            ids.iter().filter_map(|id| self.begin_flush(state, *id)).collect();
        state.jobs.running_flushes += usize::from(!works.is_empty());
        works
    }

    fn begin_flush(&self, state: &mut DbState, id: u32) -> Option<FlushWork> {
        let cf = state.cfs.get_mut(&id)?;
        cf.flush.running = true;
        let epoch = cf.next.epoch;
        cf.next.epoch += 1;
        let number = self.new_file_number();
        let work = FlushWork {
            cf: Arc::clone(&cf.data),
            mems: cf.imm.iter().map(|m| Arc::clone(&m.mem)).collect(),
            older: Arc::clone(&cf.version),
            times: cf.data.super_version.load().times.clone(),
            next_log: cf.imm.back().map_or(0, |m| m.next_log),
            number,
            blob_files: Mutex::ranked(&lock_order::JOB_OUTPUTS, Vec::new()),
            epoch,
            reason: cf.imm.back().map_or(FlushReason::Others, |m| m.reason),
            io: self.job_io(IoClass::Flush),
        };
        cf.flush_begins(work.io.as_ref());
        state.files.pending_outputs.insert(number);
        Some(work)
    }

    fn flush_together(self: &Arc<Self>, works: &[FlushWork]) -> Result<()> {
        if planted::is(Bug::FlushNotAtomic) && self.options().atomic_flush {
            return works.chunks(1).try_for_each(|work| self.flush(work));
        }
        self.flush(works)
    }

    /// Writes the tables of `works` and installs them in one step.
    fn flush(self: &Arc<Self>, works: &[FlushWork]) -> Result<()> {
        let mut options = works.iter().map(|work| work.cf.options());
        let filters = options.any(|options| options.compaction_filter_factory.is_some());
        let _filtering = filters.then(|| self.snapshots.filter_begins());
        let mut written = Vec::with_capacity(works.len());
        for work in works {
            match self.write_table(work) {
                Ok(table) => written.push(table),
                Err(error) => {
                    let mut state = self.state.lock();
                    for work in &works[..written.len()] {
                        work.discard(&mut state.files);
                    }
                    return Err(error);
                }
            }
        }
        for table in &written {
            table.tracked.note().at(ThreadStage::MemtableInstallFlushResults);
        }
        // No family is dropped between the two: a drop changes the MANIFEST too.
        let mut live = Vec::new();
        // First, since the installed table may start a compaction, which asks how much is flushed.
        let tables = written.iter().filter_map(|table| table.file.as_ref());
        self.background.lanes.level0_grows(tables.map(|file| file.file_size).sum());
        let applied = self.versions().change_versions(
            |state| {
                for (work, table) in works.iter().zip(&written) {
                    if !work.cf.is_dropped() {
                        live.push((work, table));
                    } else if table.file.is_some() {
                        work.discard(&mut state.files);
                    }
                }
                let edits = live.iter().map(|(work, table)| edit(&self.logs, work, table));
                Ok(EditGroup::from(edits.collect::<Vec<_>>()))
            },
            |state| {
                for work in works.iter().filter(|work| !work.cf.is_dropped()) {
                    self.release_memtables(state, work);
                }
            },
        );
        if let Err(error) = applied {
            let mut state = self.state.lock();
            for work in works {
                state.files.abandon_output(work.number, work.cf.new_table(work.number));
                state.files.abandon_blob_files(&work.cf, &work.blob_files.lock());
            }
            return Err(error);
        }
        for (work, table) in live {
            let blobs = table.blob_files.iter().map(|blob| blob.blob_bytes).sum::<u64>();
            let bytes = table.file.as_ref().map_or(0, |f| f.file_size) + blobs;
            self.reports.count_flush(&work.cf, bytes, table.micros, table.cpu_micros);
            self.reports.count_garbage(&work.mems, table.file.as_deref(), blobs);
            let file = table.file.as_deref();
            self.note_flush_end(&work.cf, table.job, file, table.micros, work.reason);
        }
        self.stop_if_too_large();
        Ok(())
    }

    fn write_table(self: &Arc<Self>, work: &FlushWork) -> Result<WrittenTable> {
        let (started, lane) = (time::now_micros(), self.background.lanes.of(LaneKind::Normal));
        let job = self.note_flush_begin(&work.cf, work.number, &work.mems, work.reason);
        let tracked = self.track_flush(&work.cf, &work.mems, job);
        let (number, epoch) = (work.number, work.epoch);
        // Here too, so that a panic in user code leaves no file behind.
        let written = thread::contain("Flush", || {
            let (older, times) = (Some(Arc::clone(&work.older)), work.times.clone());
            let (reason, blob_files) = (TableReason::Flush, &work.blob_files);
            let note = tracked.note();
            let output = FlushOutput { number, epoch, reason, older, times, blob_files, note };
            let io = work.io.as_ref();
            lane.run(&Floor::of_caller(), || {
                let _inside = self.life.mark.enter_job(); // Lanes have threads of their own.
                let before = time::thread_cpu_nanos();
                let written = activity::during(IoActivity::Flush, || {
                    write_level0(&**self, &work.cf, &work.mems, &output, io)
                })?;
                Ok((written, time::thread_cpu_nanos() - before))
            })
        });
        let written = written.and_then(|written: Result<_>| written);
        if !matches!(written, Ok((Some(_), _))) {
            work.discard(&mut self.state.lock().files);
        }
        let (written, cpu_nanos) = written?;
        if let Some(written) = &written {
            self.track_table(&work.cf.new_table(number), written.file.meta.file_size);
        }
        let micros = time::now_micros() - started;
        let helped = written.as_ref().map_or(0, |w| w.file.helper_cpu_micros);
        lane.add_cpu_nanos(helped * 1000);
        let cpu_micros = cpu_nanos / 1000 + helped;
        let (file, blob_files) = match written {
            Some(Flushed { file, blob_files }) => (Some(file.meta), blob_files),
            None => (None, Vec::new()),
        };
        Ok(WrittenTable { job, file, blob_files, micros, cpu_micros, tracked })
    }

    /// The memtables are in the new file: releases them and the logs that only they needed.
    fn release_memtables(&self, state: &mut DbState, work: &FlushWork) {
        if let Some(cf) = state.cfs.get_mut(&work.cf.id) {
            for mem in &work.mems {
                if cf.imm.front().is_some_and(|first| Arc::ptr_eq(&first.mem, mem)) {
                    cf.imm.pop_front();
                    cf.flush.installed = mem.id();
                    mem.mark_flushed();
                    cf.keep_for_conflicts(Arc::clone(mem));
                }
            }
            // In the same step, so that no tick sees the memtables in both places, or in none.
            self.background.regulator.flush_released(cf);
        }
        state.queue_compaction(work.cf.id);
        self.scheduler().schedule_background(state);
    }
}

fn edit(logs: &Logs, work: &FlushWork, table: &WrittenTable) -> VersionEdit {
    let released = if planted::is(Bug::FlushReleasesLiveLog) {
        logs.wal.lock().number()
    } else {
        work.next_log
    };
    let low = work.older.full_history_ts_low().map(|low| &**low);
    VersionEdit {
        column_family: work.cf.id,
        log_number: Some(released),
        full_history_ts_low: stripping::low_after(&work.cf.options(), work.mems.iter(), low),
        new_files: table.file.iter().map(|f| (0, Arc::clone(f))).collect(),
        blob_additions: table.blob_files.clone(),
        ..VersionEdit::default()
    }
}
