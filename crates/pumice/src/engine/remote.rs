//! Compactions that a program's service does elsewhere ([`CompactionService`]): asked, waited for,
//! checked, moved in.
//!
//! | answer | then |
//! |---|---|
//! | to do it here, to either question | it is done here |
//! | failed, or aborted | the compaction ends with that error and is tried again later |
//! | done, but the result cannot be read, or a table is not what it says | it is done here |
//! | done | the tables are renamed into the directory and installed like any others |
//!
//! A table has a number of this database, which it keeps as a pending output, before it gets its
//! name here: so a process that is killed before the MANIFEST names it leaves a file that the next
//! open deletes. The inputs stay until then.
//!
//! Thread safety: from the threads of jobs. It runs the program's code and suspends.
//!
//! What it does not do: hand out parts of column families with blob files or with timestamps, nor
//! what only some callers of manual compactions ask for: the messages have no word for these.

use std::path::Path;
use std::sync::Arc;

use pumice_base::{Error, InternalKey, Result};
use pumice_manifest::FileMetaData;
use pumice_port::thread;
use pumice_table::TableReadOptions;

use crate::compaction::compaction_env::Part;
use crate::compaction::service::{ServiceFile, ServiceInput, ServiceResult};
use crate::compaction::subcompaction::{JobContext, SubcompactionResult};
use crate::engine::DbInner;
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
        if special || blobs || job.cf.timestamp_size > 0 {
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
        let id = &response.scheduled_job_id;
        let (status, bytes) = match self.call(|| service.wait(id)) {
            Ok(answer) => answer,
            Err(error) => return Some(Err(error)),
        };
        match status {
            Status::Success => self.take_over(service, id, job, &bytes),
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
        service: &dyn CompactionService,
        id: &str,
        job: &JobContext,
        bytes: &[u8],
    ) -> Option<Result<SubcompactionResult>> {
        let end = |status| self.call(|| service.on_installation(id, status));
        let taken = ServiceResult::read(bytes).map(|result| match &result.status {
            Err(error) => Err(error.clone()),
            Ok(()) => Ok(self.move_in(job, &result)),
        });
        match taken {
            Ok(Ok(Ok(part))) => Some(end(Status::Success).map(|()| part)),
            Ok(Err(error)) => Some(end(Status::Failure).and(Err(error))),
            Ok(Ok(Err(error))) => self.distrust(job, &error, end(Status::Failure)),
            Err(error) => self.distrust(job, &error, end(Status::UseLocal)),
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
    fn move_in(&self, job: &JobContext, result: &ServiceResult) -> Result<SubcompactionResult> {
        let mut moved = Vec::new();
        let files = result.output_files.iter().map(|file| {
            let number = crate::table_output::env::OutputEnv::begin_output(self);
            let path = job.cf.dirs.table(job.pick.outputs.path_id, number);
            moved.push((number, path.clone()));
            job.outputs.tables.lock().push(number);
            self.move_one(job, file, Path::new(&result.output_path), (number, &path))
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
                ..IterationCounts::default()
            },
            cpu_micros: result.cpu_micros,
            parts: 1,
            ..SubcompactionResult::default()
        })
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
            epoch_number: file.epoch_number,
            oldest_ancester_time: file.oldest_ancester_time,
            file_creation_time: file.file_creation_time,
            marked_for_compaction: file.marked_for_compaction,
            unique_id: file.unique_id,
            file_checksum: file.file_checksum.clone(),
            file_checksum_func_name: file.file_checksum_func_name.clone(),
            ..FileMetaData::default()
        };
        check_table(job, &meta, file.stats.num_entries)
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
        Ok(ServiceResult { status: Err(error), .. }) => error,
        Ok(_) => told("even though the internal status is okay"),
        Err(_) => told("and no valid result is returned"),
    }
}

/// The table must have so many entries, the first and the last of them within its bounds.
fn check_table(job: &JobContext, meta: &FileMetaData, num_entries: u64) -> Result<()> {
    let order = &job.cf.icmp;
    let bounds = (InternalKey::checked(&meta.smallest), InternalKey::checked(&meta.largest));
    let ordered = |(smallest, largest): &(InternalKey<'_>, InternalKey<'_>)| {
        order.compare(*smallest, *largest).is_le()
    };
    let Some((smallest, largest)) = bounds.0.zip(bounds.1).filter(ordered) else {
        return Err(Error::corruption("its bounds are no keys in order"));
    };
    let tables = job.cf.tables();
    let table = tables.table_at(meta, job.pick.output_level)?;
    let found = meta.stats().num_entries;
    if found != num_entries {
        return Err(Error::corruption(format!("has {found} entries and not {num_entries}")));
    }
    let options = TableReadOptions { fill_cache: false, ..TableReadOptions::default() };
    let mut entries = table.share()?.iter(&options);
    for to_first in [true, false] {
        match to_first {
            true => entries.seek_to_first(),
            false => entries.seek_to_last(),
        }
        entries.status()?;
        let inside = |key: InternalKey<'_>| {
            order.compare(smallest, key).is_le() && order.compare(key, largest).is_le()
        };
        if entries.valid() && !inside(entries.key()) {
            return Err(Error::corruption("has keys outside of its bounds"));
        }
    }
    Ok(())
}

/// Tables of one level follow each other.
fn in_order(job: &JobContext, files: &[Arc<FileMetaData>]) -> Result<()> {
    let order = &job.cf.icmp;
    let follows = |pair: &[Arc<FileMetaData>]| {
        order.compare(pair[0].largest_key(), pair[1].smallest_key()).is_lt()
    };
    match job.pick.output_level == 0 || files.windows(2).all(follows) {
        true => Ok(()),
        false => Err(Error::corruption("tables of a remote compaction overlap")),
    }
}
