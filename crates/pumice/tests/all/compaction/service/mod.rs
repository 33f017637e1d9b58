//! Compactions that a service does: in this process by `open_and_compact`, which opens the database
//! beside its owner as another process would.

mod answers;
mod crashes;
mod distrust;
mod picks;
mod results;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pumice::options::{
    CompactionService, CompactionServiceJobInfo, CompactionServiceJobStatus as Status,
    CompactionServiceOptionsOverride, CompactionServiceScheduleResponse,
};
use pumice::{CompactRangeOptions, Db, OpenAndCompactOptions, Options, open_and_compact};
use pumice_port::sync::Mutex;

use crate::common::{DIR, memory, options};

/// What a job does besides compacting.
pub type Spoil = Box<dyn Fn(&PathBuf, Vec<u8>) -> (Status, Vec<u8>) + Send + Sync>;

/// A service that does its jobs when they are waited for.
pub struct Service {
    pub over: CompactionServiceOptionsOverride,
    pub canceled: OpenAndCompactOptions,
    /// The answer to `schedule`.
    pub takes: Mutex<Status>,
    /// What becomes of a result, which lies in that directory.
    pub spoil: Mutex<Option<Spoil>>,
    pub jobs: Mutex<BTreeMap<String, (CompactionServiceJobInfo, Vec<u8>)>>,
    /// All jobs so far.
    pub seen: Mutex<Vec<CompactionServiceJobInfo>>,
    pub installed: Mutex<Vec<Status>>,
    pub errors: Mutex<Vec<pumice::Error>>,
    pub canceled_all: AtomicUsize,
}

impl Service {
    pub fn new(options: &Options) -> Arc<Service> {
        let over = CompactionServiceOptionsOverride {
            options: options.clone(),
            ..CompactionServiceOptionsOverride::default()
        };
        Arc::new(Service {
            over,
            canceled: OpenAndCompactOptions::default(),
            takes: Mutex::new(Status::Success),
            spoil: Mutex::new(None),
            jobs: Mutex::default(),
            seen: Mutex::default(),
            installed: Mutex::default(),
            errors: Mutex::default(),
            canceled_all: AtomicUsize::new(0),
        })
    }

    /// What went wrong in workers, as text.
    pub fn failures(&self) -> Vec<String> {
        self.errors.lock().iter().map(|error| error.to_string()).collect()
    }

    /// How often a result was installed.
    pub fn successes(&self) -> usize {
        self.installed.lock().iter().filter(|status| **status == Status::Success).count()
    }
}

impl CompactionService for Service {
    fn name(&self) -> &str {
        "Service"
    }
    fn schedule(
        &self,
        info: &CompactionServiceJobInfo,
        input: &[u8],
    ) -> CompactionServiceScheduleResponse {
        let scheduled_job_id = format!("{}-{}", info.db_session_id, info.job_id);
        self.seen.lock().push(info.clone());
        self.jobs.lock().insert(scheduled_job_id.clone(), (info.clone(), input.to_vec()));
        CompactionServiceScheduleResponse { scheduled_job_id, status: *self.takes.lock() }
    }
    fn wait(&self, id: &str) -> (Status, Vec<u8>) {
        let (info, input) = self.jobs.lock().remove(id).unwrap();
        let output = PathBuf::from(format!("/out-{id}"));
        match open_and_compact(&self.canceled, info.db_name, &output, &input, &self.over) {
            Ok(result) => match &*self.spoil.lock() {
                Some(spoil) => spoil(&output, result),
                None => (Status::Success, result),
            },
            Err(error) => {
                self.errors.lock().push(error);
                (Status::Failure, Vec::new())
            }
        }
    }
    fn cancel_awaiting_jobs(&self) {
        self.canceled_all.fetch_add(1, Ordering::Relaxed);
    }
    fn on_installation(&self, _: &str, status: Status) {
        self.installed.lock().push(status);
    }
}

/// A database in memory whose compactions `service` does.
pub fn served(change: impl FnOnce(&mut Options)) -> (Db, Arc<Service>, Options) {
    let (_, fs) = memory();
    let mut options = options(&fs);
    options.cf.disable_auto_compactions = true;
    change(&mut options);
    let service = Service::new(&options);
    options.db.compaction_service = Some(Arc::clone(&service) as _);
    (Db::open(&options, DIR).unwrap(), service, options)
}

/// Writes `count` keys in two overlapping files, with deletions.
pub fn fill(db: &Db, count: u32) {
    for turn in 0..2u8 {
        for n in 0..count {
            db.put(format!("key{n:06}"), [turn.wrapping_add(n as u8); 50]).unwrap();
        }
        for n in (turn.into()..count).step_by(7) {
            db.delete(format!("key{n:06}")).unwrap();
        }
        db.flush().unwrap();
    }
}

pub fn compact(db: &Db) -> pumice::Result<()> {
    db.compact_range(&CompactRangeOptions::default(), None, None)
}

pub fn contents(db: &Db) -> Vec<(Vec<u8>, Vec<u8>)> {
    db.iter().unwrap().map(Result::unwrap).collect()
}

/// The numbers of the tables in the directory, and those that the database has.
pub fn tables(db: &Db, options: &Options) -> (Vec<String>, Vec<String>) {
    let mut there = options.db.file_system.list(DIR.as_ref()).unwrap();
    there.retain(|name| name.ends_with(".sst"));
    there.sort();
    let mut live: Vec<String> =
        db.live_files_metadata().iter().map(|f| f.name.trim_start_matches('/').into()).collect();
    live.sort();
    (there, live)
}
