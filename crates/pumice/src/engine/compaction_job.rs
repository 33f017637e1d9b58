//! A compaction job: picked, moved or run in parts, installed.
//!
//! Thread safety: picking and installing happen under the engine's locks, running under none; the
//! version keeps the inputs. The outputs of failed jobs become obsolete; `compaction_retry` runs
//! them again.

use std::sync::Arc;

use pumice_base::planted::{self, Bug};
use pumice_base::{Error, ErrorKind, Result, SequenceNumber, SubCode};
use pumice_env::IoClass;
use pumice_env::filename::TableDirs;
use pumice_manifest::{FileMetaData, VersionEdit};
use pumice_port::lane::Floor;
use pumice_port::sync::MutexGuard;
use pumice_port::{thread, time};

use crate::compaction::compaction_env::{CompactionEnv, LaneKind};
use crate::compaction::picker::CompactionReason;
use crate::compaction::subcompaction::{self, JobContext, Outputs, SubcompactionResult};
use crate::engine::DbInner;
use crate::snapshot::{LiveSnapshots, SnapshotList};
use crate::state::DbState;
use crate::state::errors::Reason;
use crate::state::job::RunJob;
use crate::state::work::{CompactionWork, input_tombstones, split_points};
use crate::stats::listener::SubcompactionJobInfo;
use crate::stats::thread_status::{JobNote, ThreadStage};
use crate::stats::{CompactionStats, Ticker};

impl DbInner {
    /// Runs one due compaction; the next one has a turn of its own in the pool, after those of
    /// other databases. Body of a pool job; returns whether there was one.
    pub(crate) fn background_compaction(self: &Arc<Self>) -> bool {
        let mut state = self.state.lock();
        let Some(work) = self.pick_compaction(&mut state) else {
            state.jobs.compaction_wanted = false;
            return false;
        };
        if self.resources.runs_at_bottom(&work) {
            let runner = Arc::clone(self) as Arc<dyn RunJob>;
            self.scheduler().forward(runner, &mut state, work);
            return true;
        }
        let deep = usize::from(work.is_deep());
        let merge = usize::from(work.io_class() == IoClass::Merge);
        state.jobs.running_compactions += 1;
        state.jobs.running_deep += deep;
        state.jobs.running_merges += merge;
        state = self.run_compaction(state, work);
        state.jobs.running_compactions -= 1;
        state.jobs.running_deep -= deep;
        state.jobs.running_merges -= merge;
        true
    }

    /// Runs a picked compaction without the lock.
    pub(super) fn run_compaction<'a>(
        self: &'a Arc<Self>,
        mut state: MutexGuard<'a, DbState>,
        mut work: CompactionWork,
    ) -> MutexGuard<'a, DbState> {
        if work.writes_tables() {
            work.io = self.job_io(work.io_class());
            state.level0_begins(&work);
        }
        let lane = self.background.lane_of(&state, &work, self.scheduler().writes_wait());
        drop(state);
        let compacted = thread::contain("Compaction", || self.compact(&work, lane));
        let result = compacted.and_then(|result| result);
        if let Err(error) = &result {
            // First, so that tasks that waited for the compaction find the state that it left.
            self.faults().background_error(error, Reason::Compaction);
        }
        let mut state = self.state.lock();
        self.compaction_ended(&mut state, work, &result);
        state
    }

    fn compaction_ended(&self, state: &mut DbState, work: CompactionWork, result: &Result<()>) {
        let CompactionWork { cf: data, registered, io, manual, token, .. } = work;
        drop(token); // Its place is for the next one, which is picked below.
        let id = data.id;
        let freed = self.scheduler().caught_up_below();
        if let Some(cf) = state.cfs.get_mut(&id) {
            let version = Arc::clone(&cf.version);
            cf.plan.finished(&version, registered, freed);
            if let Some(io) = &io {
                self.background.regulator.level0_ended(cf, io, result.is_ok());
            }
            self.scheduler().update_stall(cf);
            match result {
                Ok(()) => {
                    cf.compaction_retry.succeeded();
                    state.errors.compaction_found_no_space = false;
                }
                Err(error) if is_paused(error) => {}
                Err(error) => cf.compaction_retry.failed(error),
            }
        }
        if result.as_ref().is_err_and(|error| !is_paused(error)) {
            self.scheduler().await_retry(state);
            self.background.retry.ring(); // The task may wait for something later.
        }
        if let Some(piece) = &manual {
            state.manual.piece_done(piece, result.clone());
        }
        state.queue_compaction(id);
        self.changed.notify_all();
    }

    fn compact(self: &Arc<Self>, work: &CompactionWork, lane: LaneKind) -> Result<()> {
        let tracked = self.track_compaction(work);
        if work.pick.is_trivial_move {
            return self.move_files(work);
        }
        if work.pick.is_deletion {
            return self.drop_files(work);
        }
        // Moves and deletions need no space.
        let _room = self.reserve_room(work)?;
        let started = time::now_micros();
        let job = self.note_compaction_begin(work);
        if work.pick.reason == CompactionReason::ChangeTemperature {
            self.reports.tick(Ticker::FifoChangeTemperatureCompactions, 1);
        }
        let note = tracked.note();
        note.is_job(job);
        let result = self.rewrite(work, lane, &note, job, started);
        if let Err(error) = &result {
            self.note_compaction_failed(job, work, error);
        }
        result
    }

    fn rewrite(
        self: &Arc<Self>,
        work: &CompactionWork,
        lane: LaneKind,
        note: &JobNote,
        job: u64,
        started_micros: u64,
    ) -> Result<()> {
        let filters = work.cf.options().has_filter();
        let _filtering = filters.then(|| self.snapshots.filter_begins());
        let context = Arc::new(self.job_context(work, lane, note, job)?);
        note.at(ThreadStage::CompactionRun);
        let written = self.run_parts(work, &context);
        let numbers = std::mem::take(&mut *context.outputs.tables.lock());
        let blobs = std::mem::take(&mut *context.outputs.blobs.lock());
        let (files, part) = match written {
            Ok(written) => written,
            Err(error) => {
                let mut state = self.state.lock();
                for number in &numbers {
                    state.files.discard_output(*number, work.output_path(*number));
                }
                state.files.discard_blob_files(&work.cf, &blobs);
                return Err(error);
            }
        };
        note.at(ThreadStage::CompactionInstall);
        let installed = self.install(work, &files, &part);
        {
            let mut state = self.state.lock();
            let dropped = |e: &Error| e.kind() == ErrorKind::ColumnFamilyDropped;
            for number in &numbers {
                match &installed {
                    Ok(()) => _ = state.files.pending_outputs.remove(number),
                    Err(error) if dropped(error) => {
                        state.files.discard_output(*number, work.output_path(*number));
                    }
                    Err(_) => state.files.abandon_output(*number, work.output_path(*number)),
                }
            }
            match &installed {
                Ok(()) => state.files.pending_outputs.retain(|number| !blobs.contains(number)),
                Err(error) if dropped(error) => {
                    state.files.discard_blob_files(&work.cf, &blobs);
                }
                Err(_) => state.files.abandon_blob_files(&work.cf, &blobs),
            }
        }
        installed?;
        if let Some(piece) = &work.manual {
            self.state.lock().manual.wrote(piece, job, &numbers);
        }
        let micros = time::now_micros() - started_micros;
        let counts = self.reports.count_compaction(work, &files, &part, micros);
        let files: Vec<_> = files.into_iter().chain(part.young_files).collect();
        if work.pick.start_level == 0 {
            self.background.lanes.count_level0(work, part.cpu_micros);
        }
        self.note_compaction_end(job, work, &files, &counts, part.parts);
        Ok(())
    }

    /// Files change level without being read.
    fn move_files(&self, work: &CompactionWork) -> Result<()> {
        let mut edit = VersionEdit { column_family: work.cf.id, ..VersionEdit::default() };
        let mut bytes = 0;
        let moved = |(level, _): &(usize, &Arc<FileMetaData>)| *level != work.pick.output_level;
        for (level, file) in work.pick.input_files().filter(moved) {
            edit.deleted_files.push((level, file.number));
            edit.new_files.push((work.pick.output_level, Arc::clone(file)));
            // What was read of it was for the level that it leaves.
            file.collapsible_reads.store(0, std::sync::atomic::Ordering::Relaxed);
            bytes += file.file_size;
        }
        work.add_cursor(&mut edit);
        let listeners = self.notify_move_begin(work);
        let changed = self.change_inputs(work, edit);
        if let Some(info) = listeners {
            self.notify_move_end(info, work, changed.as_ref().err());
        }
        changed?;
        self.reports.info(format_args!(
            "[{}] Moved {} files to level-{} {bytes} bytes",
            work.cf.name,
            work.pick.input_files().filter(moved).count(),
            work.pick.output_level
        ));
        work.cf.stats.moved(work.pick.output_level, bytes);
        Ok(())
    }

    /// FIFO compaction: the oldest files leave the tree.
    fn drop_files(&self, work: &CompactionWork) -> Result<()> {
        let started = time::now_micros();
        let job = self.note_compaction_begin(work);
        let mut edit = VersionEdit { column_family: work.cf.id, ..VersionEdit::default() };
        edit.deleted_files.extend(work.pick.input_files().map(|(level, f)| (level, f.number)));
        let count = edit.deleted_files.len();
        if let Err(error) = self.change_inputs(work, edit) {
            self.note_compaction_failed(job, work, &error);
            return Err(error);
        }
        if let Some(ticker) = match work.pick.reason {
            CompactionReason::FifoMaxSize => Some(Ticker::FifoMaxSizeCompactions),
            CompactionReason::FifoTtl => Some(Ticker::FifoTtlCompactions),
            _ => None,
        } {
            self.reports.tick(ticker, 1);
        }
        self.reports.info(format_args!(
            "[{}] Deleted {count} files of level {}, {} bytes",
            work.cf.name,
            work.pick.start_level,
            work.pick.input_bytes()
        ));
        let micros = time::now_micros() - started;
        let counts = CompactionStats { count: 1, micros, ..CompactionStats::default() };
        work.cf.stats.compacted(work.pick.output_level, &counts);
        self.note_compaction_end(job, work, &[], &counts, 0);
        Ok(())
    }

    pub(super) fn job_context(
        self: &Arc<Self>,
        work: &CompactionWork,
        lane: LaneKind,
        note: &JobNote,
        job: u64,
    ) -> Result<JobContext> {
        let input_bytes = work.pick.input_files().map(|(_, file)| file.file_size).sum::<u64>();
        let snapshots = to_keep(&self.snapshots);
        let oldest_snapshot = snapshots.sequences.first().copied().unwrap_or(SequenceNumber::MAX);
        Ok(JobContext {
            env: Arc::clone(self) as Arc<dyn CompactionEnv>,
            cf: Arc::clone(&work.cf),
            version: Arc::clone(&work.version),
            pick: work.pick.clone(),
            base_level: work.base_level,
            snapshots,
            tombstones: input_tombstones(work)?,
            written: self.input_times(work, oldest_snapshot),
            expected_bytes: input_bytes.min(work.pick.max_output_file_size),
            io: work.io.clone(),
            lane,
            floor: Floor::of_caller(),
            manual: work.manual.as_ref().map(|piece| piece.asked.clone()),
            part: self.part_info(work, job),
            outputs: Outputs { note: note.clone(), ..Outputs::default() },
        })
    }

    /// Runs the parts of a job, each on its own thread, and joins their results.
    /// The output files are durable after that.
    fn run_parts(
        &self,
        work: &CompactionWork,
        job: &Arc<JobContext>,
    ) -> Result<(Vec<Arc<FileMetaData>>, SubcompactionResult)> {
        let mut bounds = vec![None];
        bounds.extend(split_points(work).into_iter().map(Some));
        bounds.push(None);
        let ranges = bounds.windows(2).enumerate();
        let ranges: Vec<_> = ranges.map(|(n, w)| (n, w[0].clone(), w[1].clone())).collect();
        let mut handles = Vec::new();
        // Parts for which there is no thread run here, after the first.
        let mut own = vec![ranges[0].clone()];
        for range in &ranges[1..] {
            let (job, own_range) = (Arc::clone(job), range.clone());
            let part = move || run_part(&job, own_range);
            match thread::try_spawn("pumice:sub", part) {
                Ok(handle) => handles.push(handle),
                Err(_) => own.push(range.clone()),
            }
        }
        let run = |range| {
            thread::contain("Compaction", || run_part(job, range)).and_then(|result| result)
        };
        let mut results: Vec<_> = own.into_iter().map(run).collect();
        for handle in handles {
            results.push(handle.join().and_then(|result| result));
        }
        let mut files = Vec::new();
        let mut sum = SubcompactionResult::default();
        for result in results {
            let part = result?;
            files.extend(part.files);
            sum.young_files.extend(part.young_files);
            sum.cpu_micros += part.cpu_micros;
            sum.parts += part.parts;
            sum.counts += part.counts;
            sum.blobs_in.merge(part.blobs_in);
            sum.blobs_out.merge(part.blobs_out);
            sum.blob_files.extend(part.blob_files);
        }
        if !planted::is(Bug::CompactionDirNotSynced) {
            let (tables, blobs) = (work.pick.outputs.path_id, TableDirs::OWN);
            self.dir.fs.sync_dir(work.cf.dirs.dir(tables))?;
            if tables != blobs && !sum.blob_files.is_empty() {
                self.dir.fs.sync_dir(work.cf.dirs.dir(blobs))?;
            }
        }
        if self.options().compaction_verify_record_count && !sum.counts.uncounted {
            let verified = work.verify_entry_count(sum.counts.entries_in);
            // What a service counted shows no damage here: the job is tried again.
            verified.map_err(|error| match sum.counts.elsewhere {
                true => Error::incomplete(error.message()),
                false => error,
            })?;
        }
        if work.cf.is_dropped() {
            return Err(Error::column_family_dropped(work.cf.name.clone()));
        }
        Ok((files, sum))
    }

    fn install(
        &self,
        work: &CompactionWork,
        files: &[Arc<FileMetaData>],
        part: &SubcompactionResult,
    ) -> Result<()> {
        let mut edit = VersionEdit {
            column_family: work.cf.id,
            blob_garbage: part.blobs_in.garbage(&part.blobs_out),
            blob_additions: part.blob_files.clone(),
            ..VersionEdit::default()
        };
        for (level, file) in work.pick.input_files() {
            edit.deleted_files.push((level, file.number));
        }
        for file in files {
            edit.new_files.push((work.pick.output_level, Arc::clone(file)));
        }
        if let Some(proximal) = &work.pick.outputs.proximal {
            let level = proximal.range.level;
            edit.new_files.extend(part.young_files.iter().map(|file| (level, Arc::clone(file))));
        }
        work.add_cursor(&mut edit);
        self.change_inputs(work, edit)
    }

    /// Applies an edit that removes the inputs of `work` from where they were when it was picked.
    /// They are still there: no other change of the tree touches files under compaction.
    fn change_inputs(&self, work: &CompactionWork, edit: VersionEdit) -> Result<()> {
        debug_assert!(work.pick.input_files().all(|(_, file)| file.is_being_compacted()));
        self.versions().change_versions(|_| Ok(edit.into()), |_| ())
    }
}

/// Runs one part of a job, between two keys, and tells the listeners.
fn run_part(
    job: &Arc<JobContext>,
    (number, start, end): (usize, Option<Vec<u8>>, Option<Vec<u8>>),
) -> Result<SubcompactionResult> {
    let started = time::now_micros();
    let begun = SubcompactionJobInfo { subcompaction_job_id: number, ..job.part.clone() };
    job.env.note_part(&begun, false);
    let elsewhere = job.env.run_elsewhere(job, (number, &start, &end));
    let result = elsewhere.unwrap_or_else(|| subcompaction::run(job, start, end));
    let mut ended = SubcompactionJobInfo {
        elapsed_micros: time::now_micros().saturating_sub(started),
        error: result.as_ref().err().cloned(),
        ..begun
    };
    if let Ok(part) = &result {
        ended.num_input_records = part.counts.entries_in;
        let files = || part.files.iter().chain(&part.young_files);
        ended.num_output_records = files().map(|file| file.stats().num_entries).sum();
        ended.total_output_bytes = files().map(|file| file.file_size).sum();
        ended.num_output_files = files().count();
        ended.cpu_micros = part.cpu_micros;
    }
    job.env.note_part(&ended, true);
    result
}

/// The caller of a manual compaction ended it, or one of all compactions: nothing is wrong.
fn is_paused(error: &Error) -> bool {
    matches!(error.subcode(), SubCode::ManualCompactionPaused | SubCode::CompactionAborted)
}

/// The sequence numbers that must stay readable.
fn to_keep(snapshots: &SnapshotList) -> LiveSnapshots {
    let mut live = snapshots.live();
    if planted::is(Bug::SnapshotIgnored) {
        live.sequences.clear();
    }
    live
}
