//! The engine as jobs see it.
//!
//! Thread safety: from any job. `begin_output` takes the state lock.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use pumice_base::{Error, FileNumber, Result, SizeLimits};
use pumice_env::{FileSystem, IoPriority, RateLimiterEvents};
use pumice_port::lane::{Lane, at_normal_priority};
use pumice_table::{BuildStats, TableReason};

use crate::callbacks::Entered;
use crate::compaction::compaction_env::{CompactionEnv, LaneKind, Part};
use crate::compaction::subcompaction::{JobContext, SubcompactionResult};
use crate::engine::DbInner;
use crate::options::DbOptions;
use crate::options::requests::CancelFlag;
use crate::snapshot::LiveSnapshots;
use crate::state::manual_queue::aborted;
use crate::stats::Statistics;
use crate::stats::listener::SubcompactionJobInfo;
use crate::table_output::env::OutputEnv;

impl OutputEnv for DbInner {
    fn file_system(&self) -> &dyn FileSystem {
        &*self.dir.fs
    }
    fn db_options(&self) -> Arc<DbOptions> {
        self.options()
    }
    fn ids(&self) -> (&str, &str) {
        (&self.dir.db_id, &self.dir.session_id)
    }
    fn statistics(&self) -> &Option<Arc<Statistics>> {
        &self.reports.statistics
    }
    fn limits(&self) -> SizeLimits {
        self.settings.limits
    }
    fn pace(&self, reason: TableReason) -> (IoPriority, Option<Arc<dyn RateLimiterEvents>>) {
        (self.scheduler().io_priority(reason), self.job_events(reason))
    }
    fn begin_output(&self) -> FileNumber {
        let number = self.new_file_number();
        at_normal_priority(|| self.state.lock().files.pending_outputs.insert(number));
        number
    }
    fn end_blob_file(&self, path: &Path, bytes: u64) -> Result<()> {
        self.track_table(path, bytes);
        self.check_space()
    }
    fn built(&self, table: &BuildStats) -> u64 {
        self.reports.count_build(table)
    }
    fn snapshots(&self) -> LiveSnapshots {
        self.snapshots.live()
    }
}

impl CompactionEnv for DbInner {
    fn lane(&self, kind: LaneKind) -> &Lane {
        self.background.lanes.of(kind)
    }
    fn enter_job(&self) -> Entered {
        self.life.mark.enter_job()
    }
    fn check_open(&self) -> Result<()> {
        if self.life.shutting_down.load(Ordering::Acquire) {
            return Err(Error::aborted("compaction cancelled: the database is closing"));
        }
        if self.life.aborts_compactions() { Err(aborted()) } else { Ok(()) }
    }
    fn check_manual(&self, canceled: Option<&CancelFlag>) -> Result<()> {
        self.life.check_manual(canceled)
    }
    fn note_part(&self, part: &SubcompactionJobInfo, ended: bool) {
        let _inside = self.life.mark.enter_job();
        self.faults().notify(|listener| match ended {
            false => listener.on_subcompaction_begin(part),
            true => listener.on_subcompaction_completed(part),
        });
    }
    fn run_elsewhere(
        &self,
        job: &JobContext,
        part: Part<'_>,
    ) -> Option<Result<SubcompactionResult>> {
        self.ask_service(job, part)
    }
    fn end_output(&self, path: &Path, bytes: u64) -> Result<()> {
        at_normal_priority(|| self.track_table(path, bytes));
        self.check_space()
    }
}
