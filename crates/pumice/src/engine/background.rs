//! The bodies of background jobs and tasks, and the start of an open database.
//!
//! Thread safety: from threads of the pools and from tasks.

use std::sync::Arc;

use pumice_port::thread;

use crate::engine::DbInner;
use crate::engine::expiry_task::note_range_deletion;
use crate::state::DbState;
use crate::state::family::CfState;
use crate::state::job::{Job, RunJob};

impl RunJob for DbInner {
    fn run(self: Arc<Self>, job: Job) {
        match job {
            Job::Flush => {
                self.run_job("Flush", |s| &mut s.jobs.scheduled_flushes, Self::background_flush);
            }
            Job::Compaction => {
                let body = Self::background_compaction;
                self.run_job("Compaction", |s| &mut s.jobs.scheduled_compactions, body);
            }
            Job::BottomCompaction(work) => {
                let body = move |db: &Arc<Self>| {
                    drop(db.run_compaction(db.state.lock(), *work));
                    true
                };
                self.run_job("Compaction", |s| &mut s.jobs.bottom_compactions, body);
            }
            Job::Regulate => self.keep_regulating(),
            Job::Expire => self.expire(),
            Job::DeliverEvents => self.deliver_deferred(),
            Job::RetryCompactions => self.resume_compactions(),
        }
    }

    fn try_to_resume(self: Arc<Self>, tried: &mut i32, most: i32) -> bool {
        if self.life.is_ending() {
            return true;
        }
        if !self.may_resume() {
            return false;
        }
        *tried += 1;
        self.resumed_or_hopeless(*tried, most)
    }
}

impl DbInner {
    /// The database is open: from now on jobs and tasks may start.
    pub(crate) fn start_background(&self) {
        let mut state = self.state.lock();
        state.opened = true;
        self.track_tables(&mut state);
        self.scheduler().schedule_background(&mut state);
        let unseen = |cf: &CfState| cf.has_idle_deletions() || !cf.uncounted_files().is_empty();
        let recovered = !self.dir.read_only && state.cfs.values().any(unseen);
        drop(state);
        if recovered {
            note_range_deletion(self);
        }
        if self.options().sst_file_manager.is_some() {
            self.delete_obsolete_files(); // Files that `delete_unreferenced_files` has found.
        }
    }

    /// Runs a job that `count` counts. Jobs catch panics of the work they run; one from picking it
    /// (a comparator's) or from the engine itself ends the job and stops writes.
    fn run_job(
        self: &Arc<Self>,
        what: &str,
        count: fn(&mut DbState) -> &mut usize,
        body: impl FnOnce(&Arc<Self>) -> bool,
    ) {
        let _inside = self.life.mark.enter_job();
        let worked = thread::contain(what, || body(self));
        if let Err(error) = &worked {
            self.faults().poison(error);
        }
        let mut state = self.state.lock();
        if let Err(error) = &worked {
            state.manual.give_up(error); // Work that it had picked has no job any more.
        }
        *count(&mut state) -= 1;
        // If nothing could be picked from the queue, the queued work waits for a running job, which
        // checks again when it ends; work that was queued while this job still counted has no such
        // job.
        if worked.unwrap_or(true) || state.jobs.compaction_wanted {
            self.scheduler().schedule_background(&mut state);
        }
        self.changed.notify_all();
        drop(state);
        self.delete_obsolete_files();
    }
}
