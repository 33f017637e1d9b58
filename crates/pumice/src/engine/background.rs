//! Which background jobs run when.
//!
//! Column families that want a flush or a compaction are queued; this starts as many pool jobs as
//! the limits allow. A job picks its work itself, under the state lock, when it starts.
//!
//! Thread safety: functions that take a `DbState` run under the state lock and never wait.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pumice_env::IoPriority;
use pumice_port::pool::Priority;
use pumice_port::thread;
use pumice_table::TableReason;

use crate::engine::DbInner;
use crate::engine::expiry::note_range_deletion;
use crate::snapshot::SnapshotOwner;
use crate::state::DbState;
use crate::state::family::{CfState, Deferral};

impl SnapshotOwner for DbInner {
    /// The oldest snapshot may have advanced: marks files that no snapshot needs unchanged.
    fn snapshot_released(&self) {
        if self.life.mark.is_locked() {
            return; // The next release does it.
        }
        if self.caught_up_below() <= self.background.bottommost_threshold.load(Ordering::Acquire)
            || self.life.shutting_down.load(Ordering::Acquire)
        {
            return;
        }
        let mut state = self.state.lock();
        self.background.bottommost_threshold.store(u64::MAX, Ordering::Release);
        let ids: Vec<u32> = state.cfs.keys().copied().collect();
        for id in ids {
            if let Some(cf) = state.cfs.get_mut(&id) {
                self.refresh_scores(cf);
            }
            state.queue_compaction(id);
        }
        self.schedule_background(&mut state);
    }
}

impl DbInner {
    /// How urgent the table files of a job are to the rate limiter: as urgent as a user's while
    /// writes wait for them. A file keeps what was decided when it was opened.
    pub(crate) fn io_priority(&self, reason: TableReason) -> IoPriority {
        let adaptive = self.options().is_adaptive();
        match reason {
            _ if self.writes_wait() => IoPriority::User,
            TableReason::CompactionLevel0 if adaptive => IoPriority::Mid,
            TableReason::CompactionLevel0 | TableReason::Compaction => IoPriority::Low,
            TableReason::Flush | TableReason::Recovery | TableReason::Other => IoPriority::High,
        }
    }

    /// The database is open: from now on jobs and tasks may start.
    pub(crate) fn start_background(&self) {
        let mut state = self.state.lock();
        state.opened = true;
        self.track_tables(&mut state);
        self.schedule_background(&mut state);
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

    /// Starts jobs for what is queued.
    pub(crate) fn schedule_background(&self, state: &mut DbState) {
        if self.dir.read_only
            || !state.opened
            || (state.jobs.paused > 0 && !state.jobs.saving)
            || self.life.shutting_down.load(Ordering::Acquire)
            || state.errors.stopping_jobs().is_some()
        {
            return;
        }
        self.watch_expiry(state);
        self.regulate(state);
        let Some(me) = self.life.me.get().and_then(std::sync::Weak::upgrade) else { return };
        let (flushes, compactions) = self.options().background_limits();
        while state.jobs.scheduled_flushes
            < flushes.min(state.jobs.running_flushes + state.jobs.flush_queue.len())
        {
            state.jobs.scheduled_flushes += 1;
            let db = Arc::clone(&me);
            let job = move || {
                db.run_job("Flush", |s| &mut s.jobs.scheduled_flushes, Self::background_flush)
            };
            self.resources.pools.schedule_parted(Priority::High, "flush", 0, Box::new(job));
        }
        if state.jobs.paused > 0 {
            return;
        }
        let allowed = self.compaction_slots(state, compactions);
        let ready = |id: &&u32| state.cfs.get(id).is_some_and(CfState::may_compact);
        let automatic = state.jobs.compaction_queue.iter().filter(ready).count();
        let waiting = automatic + state.manual.waiting();
        state.jobs.compaction_wanted |= waiting > 0;
        while state.jobs.scheduled_compactions
            < allowed.min(state.jobs.running_compactions + waiting)
        {
            state.jobs.scheduled_compactions += 1;
            let db = Arc::clone(&me);
            let body = Self::background_compaction;
            let job = move || db.run_job("Compaction", |s| &mut s.jobs.scheduled_compactions, body);
            self.resources.pools.schedule_parted(Priority::Low, "compaction", 0, Box::new(job));
        }
    }

    /// Runs a job that `count` counts. Jobs catch panics of the work they run; one from picking it
    /// (a comparator's) or from the engine itself ends the job and stops writes.
    pub(crate) fn run_job(
        self: &Arc<Self>,
        what: &str,
        count: fn(&mut DbState) -> &mut usize,
        body: impl FnOnce(&Arc<Self>) -> bool,
    ) {
        let _inside = self.life.mark.enter_job();
        let worked = thread::contain(what, || body(self));
        if let Err(error) = &worked {
            self.poison(error);
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
            self.schedule_background(&mut state);
        }
        self.changed.notify_all();
        drop(state);
        self.delete_obsolete_files();
    }

    /// Compactions that may run: up to the limit under pressure or on request, otherwise one, as in
    /// RocksDB.
    fn compaction_slots(&self, state: &DbState, limit: usize) -> usize {
        let pressed = |cf: &CfState| {
            if cf.plan.is_fifo() {
                return false; // Many files are normal, and one job deletes as many as needed.
            }
            if cf.deferral == Deferral::Seed {
                return false; // Nothing compacts it, and its thresholds are off.
            }
            let options = cf.data.options();
            let trigger = i64::from(options.level0_file_num_compaction_trigger);
            let slowdown = i64::from(options.level0_slowdown_writes_trigger);
            let l0 = cf.plan.counted_runs(&cf.version) as i64;
            let soft = options.soft_pending_compaction_bytes_limit;
            let pending = cf.plan.estimated_pending_bytes();
            l0 >= (2 * trigger).min(trigger + (slowdown - trigger) / 4)
                || (soft > 0 && pending >= soft / 4)
        };
        if self.options().is_adaptive() {
            let all = self.background.regulator.may_use_all_threads()
                || self.writes.controller.is_stopped();
            self.background.compaction_behind.store(all, Ordering::Release);
            return if all || state.manual.waiting() > 0 { limit } else { 1 };
        }
        let behind = self.writes.controller.is_stopped()
            || self.writes.controller.is_delayed()
            || state.cfs.values().any(pressed);
        self.background.compaction_behind.store(behind, Ordering::Release);
        if behind || state.manual.waiting() > 0 { limit } else { 1 }
    }

    /// Recomputes level scores after a version, snapshot or option change.
    pub(crate) fn refresh_scores(&self, cf: &mut CfState) {
        let freed = self.caught_up_below();
        let version = Arc::clone(&cf.version);
        let offpeak = self.options().offpeak();
        cf.plan.refresh(&version, &cf.data.options(), offpeak, freed);
        self.background
            .bottommost_threshold
            .fetch_min(cf.plan.bottommost_threshold(), Ordering::AcqRel);
    }
}
