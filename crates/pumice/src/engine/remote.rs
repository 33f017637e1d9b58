//! Compactions that a program's service does elsewhere ([`CompactionService`]): asked, waited for,
//! checked, moved in.
//!
//! | answer | then |
//! |---|---|
//! | to do it here, to either question | it is done here |
//! | failed, or aborted | the compaction ends with that error and is tried again later |
//! | done, but the result is not complete or does not fit (`remote_check`) | it is done here |
//! | done | the tables are renamed into the directory and installed like any others |
//!
//! A table has a number of this database, which it keeps as a pending output, before it gets its
//! name here: so a process that is killed before the MANIFEST names it leaves a file that the next
//! open deletes. The inputs stay until then.
//!
//! Thread safety: from the threads of jobs. It runs the program's code and suspends.
//!
//! What it does not do: hand out parts of column families with blob files or with timestamps, what
//! only some callers of manual compactions ask for, compactions that leave young entries above the
//! last level, and compactions of L0 that leave older files there: the messages have no word for
//! these, or a worker would take more files.

use std::path::Path;
use std::sync::Arc;

use pumice_base::{Error, Result};
use pumice_env::filename::{FileType, parse};
use pumice_manifest::FileMetaData;
use pumice_port::thread;

use crate::compaction::compaction_env::Part;
use crate::compaction::service::{ServiceFile, ServiceInput, ServiceResult};
use crate::compaction::subcompaction::{JobContext, SubcompactionResult};
use crate::engine::DbInner;
use crate::engine::remote_check::{
    check_bounds, check_output_dir, check_table, check_whole, in_order,
};
use crate::ingest::checksums;
use crate::options::compaction_service::{
    CompactionService, CompactionServiceJobInfo, CompactionServiceJobStatus as Status,
};
use crate::stats::listener::CompactionReason;
use crate::table_output::counts::IterationCounts;

/// Env::LOW of RocksDB, whose pool compactions run in.
const PRIORITY: i32 = 1;

impl DbInner {
    /// The result of a part of `job` that the service does; None if it is to be done here.
    pub(super) fn ask_service(
        &self,
        job: &JobContext,
        part: Part<'_>,
    ) -> Option<Result<SubcompactionResult>> {
        let service = self.options().compaction_service.clone()?;
        let options = job.cf.options();
        let special = job.manual.as_ref().is_some_and(|asked| asked.trim_above.is_some());
        let blobs = options.enable_blob_files || !job.version.blob_files().is_empty();
        let splits = job.pick.outputs.proximal.is_some();
        if special || splits || blobs || job.cf.timestamp_size > 0 || leaves_older_level0(job) {
            return None;
        }
        self.ask(&*service, job, part)
    }

    fn ask(
        &self,
        service: &dyn CompactionService,
        job: &JobContext,
        part: Part<'_>,
    ) -> Option<Result<SubcompactionResult>> {
        // A closing database cancels the jobs that wait, and no new one must begin; nor one while
        // compactions are aborted, which lets those that wait run to their end.
        if let Err(error) = job.env.check_open() {
            return Some(Err(error));
        }
        let number = job.part.job_id;
        let name = &job.cf.name;
        let input = self.service_input(job, part).write();
        let info = self.service_info(job, part.0);
        self.reports.info(format_args!(
            "[{name}] [JOB {number}] Starting remote compaction (output level: {})",
            job.pick.output_level
        ));
        let asked = self.call(|| service.schedule(&info, &input));
        let response = match asked {
            Ok(response) => response,
            Err(error) => return Some(Err(error)),
        };
        match response.status {
            Status::Success => {}
            Status::UseLocal => return self.locally(job, "Schedule"),
            Status::Aborted => {
                let text = "Scheduling a remote compaction job was aborted";
                return Some(Err(Error::aborted(text)));
            }
            Status::Failure => {
                let text = "CompactionService failed to schedule a remote compaction job.";
                return Some(Err(Error::incomplete(text)));
            }
        }
        if let Err(error) = job.env.check_open() {
            return Some(Err(error));
        }
        let id = &response.scheduled_job_id;
        let (status, bytes) = match self.call(|| service.wait(id)) {
            Ok(answer) => answer,
            Err(error) => return Some(Err(error)),
        };
        match status {
            Status::Success => self.take_over((service, id), job, part, &bytes),
            Status::UseLocal => self.locally(job, "Wait"),
            Status::Aborted => {
                Some(Err(Error::aborted("Waiting a remote compaction job was aborted")))
            }
            Status::Failure => Some(Err(failure(&bytes))),
        }
    }

    /// Runs the service's code, which the job waits for.
    fn call<T>(&self, f: impl FnOnce() -> T) -> Result<T> {
        let _inside = self.life.mark.enter_job();
        thread::contain("The compaction service", f)
    }

    fn locally(&self, job: &JobContext, step: &str) -> Option<Result<SubcompactionResult>> {
        self.reports.info(format_args!(
            "[{}] [JOB {}] Remote compaction fallback to local by API ({step})",
            job.cf.name, job.part.job_id
        ));
        None
    }

    /// Installs what the service says that it has done; None if that is not there.
    fn take_over(
        &self,
        (service, id): (&dyn CompactionService, &str),
        job: &JobContext,
        part: Part<'_>,
        bytes: &[u8],
    ) -> Option<Result<SubcompactionResult>> {
        let end = |status| self.call(|| service.on_installation(id, status));
        let taken = ServiceResult::read(bytes).map(|result| match &result.status {
            Err(error) => Err(failed_elsewhere(error)),
            Ok(()) => Ok(self.move_in(job, part, &result)),
        });
        match taken {
            Ok(Ok(Ok(part))) => Some(end(Status::Success).map(|()| part)),
            Ok(Err(error)) => Some(end(Status::Failure).and(Err(error))),
            Ok(Ok(Err(error))) | Err(error) => self.distrust(job, &error, end(Status::Failure)),
        }
    }

    fn distrust(
        &self,
        job: &JobContext,
        error: &Error,
        told: Result<()>,
    ) -> Option<Result<SubcompactionResult>> {
        self.reports.info(format_args!(
            "WARNING: [{}] [JOB {}] The result of a remote compaction is not used, and the \
             compaction is done here: {error}",
            job.cf.name, job.part.job_id
        ));
        told.err().map(Err)
    }

    /// Gives the tables of `result` names here, and checks them. On an error none is left.
    fn move_in(
        &self,
        job: &JobContext,
        part: Part<'_>,
        result: &ServiceResult,
    ) -> Result<SubcompactionResult> {
        let from = Path::new(&result.output_path);
        check_whole(job, part, result)?;
        self.check_source(job, from, result)?;
        result.output_files.iter().try_for_each(|file| check_bounds(job, part, file))?;
        let mut moved = Vec::new();
        let files = result.output_files.iter().map(|file| {
            let number = crate::table_output::env::OutputEnv::begin_output(self);
            let path = job.cf.dirs.table(job.pick.outputs.path_id, number);
            moved.push((number, path.clone()));
            job.outputs.tables.lock().push(number);
            self.move_one(job, file, from, (number, &path))
        });
        let files: Result<Vec<_>> = files.collect();
        let files = files.and_then(|files| in_order(job, &files).map(|()| files));
        if files.is_err() {
            let mut state = self.state.lock();
            for (number, path) in moved {
                state.files.discard_output(number, path);
                job.outputs.tables.lock().retain(|other| *other != number);
            }
        }
        Ok(SubcompactionResult {
            files: files?,
            counts: IterationCounts {
                entries_in: result.entries_in.unwrap_or(0),
                uncounted: result.entries_in.is_none(),
                elsewhere: true,
                ..IterationCounts::default()
            },
            cpu_micros: result.cpu_micros,
            parts: 1,
            ..SubcompactionResult::default()
        })
    }

    /// What is to be moved must not be the database's: a live table would lose its name.
    fn check_source(&self, job: &JobContext, from: &Path, result: &ServiceResult) -> Result<()> {
        let fs = &*self.dir.fs;
        let mut dirs = self.state.lock().table_dirs();
        dirs.insert(self.logs.wal.lock().dir().into());
        dirs.insert(self.dir.path.clone());
        let inputs: Vec<_> = job.pick.input_files().map(|(_, file)| file.number).collect();
        if !result.output_files.is_empty() {
            let dirs = dirs.iter().map(|dir| dir.as_path());
            check_output_dir(fs, from, dirs, inputs.iter().copied())?;
        }
        // A worker begins after the numbers of its inputs.
        let first = inputs.into_iter().max().unwrap_or(0);
        for file in &result.output_files {
            let name = &file.file_name;
            let Some((number, FileType::Table)) = parse(name) else { continue };
            let bytes = fs.file_size(&from.join(name))?;
            let state = self.state.lock();
            let mut live = state.cfs.values().filter_map(|cf| cf.version.find_by_number(number));
            // One of another directory may have the number, but hardly the length as well.
            if number <= first || live.any(|(_, file)| file.file_size == bytes) {
                let text = format!("{}: may be a table of the database", from.join(name).display());
                return Err(Error::corruption(text));
            }
        }
        Ok(())
    }

    fn move_one(
        &self,
        job: &JobContext,
        file: &ServiceFile,
        from: &Path,
        (number, path): (u64, &Path),
    ) -> Result<Arc<FileMetaData>> {
        let fs = &*self.dir.fs;
        let from = from.join(&file.file_name);
        let file_size = fs.file_size(&from)?;
        let bad = |what: String| Error::corruption(format!("{}: {what}", from.display()));
        if file.file_size != 0 && file.file_size != file_size {
            let told = file.file_size;
            return Err(bad(format!("has {file_size} bytes and not {told}")));
        }
        fs.rename(&from, path)?;
        if !file.file_checksum.is_empty() {
            let factory = &self.options().file_checksum_gen_factory;
            let (value, function) = (&file.file_checksum, &file.file_checksum_func_name);
            checksums::check_given((fs, factory), path, (value, function))?;
        }
        let meta = FileMetaData {
            number,
            path_id: job.pick.outputs.path_id,
            file_size,
            smallest: file.smallest.clone(),
            largest: file.largest.clone(),
            smallest_seq: file.smallest_seq,
            largest_seq: file.largest_seq,
            epoch_number: job.pick.output_epoch(),
            oldest_ancester_time: file.oldest_ancester_time,
            file_creation_time: file.file_creation_time,
            marked_for_compaction: file.marked_for_compaction,
            unique_id: file.unique_id,
            temperature: file.temperature,
            file_checksum: file.file_checksum.clone(),
            file_checksum_func_name: file.file_checksum_func_name.clone(),
            ..FileMetaData::default()
        };
        check_table(job, &self.dir.db_id, &meta, file.stats.num_entries)
            .map_err(|error| Error::corruption(format!("{}: {error}", from.display())))?;
        Ok(Arc::new(meta))
    }

    fn service_input(&self, job: &JobContext, (_, begin, end): Part<'_>) -> ServiceInput {
        ServiceInput {
            cf_name: job.cf.name.clone(),
            snapshots: job.snapshots.sequences.clone(),
            input_files: job.pick.input_files().map(|(_, file)| file.number).collect(),
            output_level: i32::try_from(job.pick.output_level).unwrap_or(i32::MAX),
            db_id: self.dir.db_id.clone(),
            begin: begin.clone(),
            end: end.clone(),
            options_file_number: self.state.lock().files.options_file_number,
        }
    }

    fn service_info(&self, job: &JobContext, part: usize) -> CompactionServiceJobInfo {
        let inputs = job.pick.input_files().count();
        CompactionServiceJobInfo {
            db_name: self.dir.path.display().to_string(),
            db_id: self.dir.db_id.clone(),
            db_session_id: self.dir.session_id.clone(),
            cf_id: job.cf.id,
            cf_name: job.cf.name.clone(),
            job_id: job.part.job_id << 32 | part as u64,
            priority: PRIORITY,
            compaction_reason: job.pick.reason,
            base_input_level: i32::try_from(job.pick.start_level).unwrap_or(i32::MAX),
            output_level: i32::try_from(job.pick.output_level).unwrap_or(i32::MAX),
            is_full_compaction: inputs == job.version.num_files(),
            is_manual_compaction: job.pick.reason == CompactionReason::ManualCompaction,
            bottommost_level: job.pick.bottommost,
        }
    }

    /// The database closes: jobs that wait for a service are to end.
    pub(super) fn cancel_remote_jobs(&self) {
        if self.dir.read_only {
            return; // The service may be that of the database's owner.
        }
        let Some(service) = self.options().compaction_service.clone() else { return };
        if let Err(error) = self.call(|| service.cancel_awaiting_jobs()) {
            self.reports.info(format_args!("the compaction service cancelled no jobs: {error}"));
        }
    }
}

/// The error of a job that failed elsewhere.
fn failure(bytes: &[u8]) -> Error {
    let told = |how: &str| {
        Error::incomplete(format!("CompactionService failed to run the compaction job ({how})."))
    };
    match ServiceResult::read(bytes) {
        Ok(ServiceResult { status: Err(error), .. }) => failed_elsewhere(&error),
        Ok(_) => told("even though the internal status is okay"),
        Err(_) => told("and no valid result is returned"),
    }
}

/// The error of a job for that of a worker: whatever that is, nothing here is damaged or full.
fn failed_elsewhere(error: &Error) -> Error {
    Error::incomplete(format!("CompactionService failed to run the compaction job ({error})."))
}

/// Whether files of L0 stay there that are older than the inputs; a worker would include them.
fn leaves_older_level0(job: &JobContext) -> bool {
    let level0 = job.pick.inputs.iter().find(|inputs| inputs.level == 0);
    let oldest = job.version.files(0).last().map(|file| file.number);
    level0.is_some_and(|inputs| inputs.files.last().map(|file| file.number) != oldest)
}
