//! Starts the background jobs and tasks that the state calls for.
//!
//! Column families that want a flush or a compaction are queued; this starts as many pool jobs as
//! the limits allow. A job picks its work itself, under the state lock, when it starts: one flush
//! or compaction, of the family that has waited longest. Then it queues again, so that databases
//! take turns in the pools (`port::pool`). Tasks that wait for a time are started here too.
//!
//! What a job does is not known here: it is data (`state::job`), which `background` runs.
//!
//! Thread safety: functions that take a `DbState` run under the state lock and never wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pumice_base::Error;
use pumice_env::IoPriority;
use pumice_port::pool::{Priority, ThreadPools};
use pumice_port::time;
use pumice_table::TableReason;

use crate::commit::controller::WriteController;
use crate::engine::life::Life;
use crate::engine::{DbInner, start_task};
use crate::snapshot::{SnapshotList, SnapshotOwner};
use crate::state::DbState;
use crate::state::expiry::next_expiry;
use crate::state::family::{CfState, Deferral};
use crate::state::job::{Job, RunJob};
use crate::state::parts::{Background, Directory, Settings};
use crate::state::regulator::has_work;
use crate::state::reports::Reports;
use crate::state::work::CompactionWork;

/// The parts of a database by which it is decided what runs, and no others.
pub(crate) struct Scheduler<'a> {
    pub(super) dir: &'a Directory,
    pub(super) settings: &'a Settings,
    pub(super) reports: &'a Reports,
    pub(super) pools: &'a ThreadPools,
    pub(super) background: &'a Background,
    pub(super) controller: &'a WriteController,
    snapshots: &'a SnapshotList,
    last_sequence: &'a AtomicU64,
    pub(super) life: &'a Life,
}

impl DbInner {
    /// Its scheduler.
    #[inline]
    pub(crate) fn scheduler(&self) -> Scheduler<'_> {
        Scheduler {
            dir: &self.dir,
            settings: &self.settings,
            reports: &self.reports,
            pools: &self.resources.pools,
            background: &self.background,
            controller: &self.writes.controller,
            snapshots: &self.snapshots,
            last_sequence: &self.last_sequence,
            life: &self.life,
        }
    }

    /// Takes back flushes and compactions that no thread has begun: threads may be busy with other
    /// databases for long. They stay due. What the bottom pool has is given up, by a close.
    pub(crate) fn take_back_jobs(&self, closing: bool) {
        let (pools, tag) = (&self.resources.pools, self.scheduler().job_tag());
        let flushes = pools.unschedule(Priority::High, tag);
        let compactions = pools.unschedule(Priority::Low, tag);
        let forwarded = if closing { pools.unschedule(Priority::Bottom, tag) } else { 0 };
        let mut state = self.state.lock();
        state.jobs.scheduled_flushes -= flushes;
        state.jobs.scheduled_compactions -= compactions;
        state.jobs.bottom_compactions -= forwarded;
        if forwarded > 0 {
            state.manual.give_up(&Error::shutdown("the database is closed"));
        }
        // A close may be saving data while work is paused.
        self.scheduler().schedule_background(&mut state);
        self.changed.notify_all();
    }
}

impl SnapshotOwner for DbInner {
    /// The oldest snapshot may have advanced: marks files that no snapshot needs unchanged.
    fn snapshot_released(&self) {
        if self.life.mark.is_locked() {
            return; // The next release does it.
        }
        if self.scheduler().caught_up_below()
            <= self.background.bottommost_threshold.load(Ordering::Acquire)
            || self.life.shutting_down.load(Ordering::Acquire)
        {
            return;
        }
        let mut state = self.state.lock();
        self.background.bottommost_threshold.store(u64::MAX, Ordering::Release);
        let ids: Vec<u32> = state.cfs.keys().copied().collect();
        for id in ids {
            if let Some(cf) = state.cfs.get_mut(&id) {
                self.scheduler().refresh_scores(cf);
            }
            state.queue_compaction(id);
        }
        self.scheduler().schedule_background(&mut state);
    }
}

impl Scheduler<'_> {
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
        let Some(runner) = self.life.runner() else { return };
        let (flushes, compactions) = self.settings.current().background_limits();
        let tag = self.job_tag();
        while state.jobs.scheduled_flushes
            < flushes.min(state.jobs.running_flushes + state.jobs.flush_queue.len())
        {
            state.jobs.scheduled_flushes += 1;
            let runner = Arc::clone(&runner);
            let job = move || runner.run(Job::Flush);
            self.pools.schedule_parted(Priority::High, "flush", tag, Box::new(job));
        }
        if state.jobs.paused > 0 || self.life.aborts_compactions() {
            return;
        }
        let allowed = self.compaction_slots(state, compactions);
        let (automatic, limited) = state.ready_compactions(&self.background.retry);
        let waiting = automatic + state.manual.waiting();
        state.jobs.compaction_wanted |= waiting > 0;
        if limited {
            self.await_retry(state);
        }
        while state.jobs.scheduled_compactions
            < allowed.min(state.jobs.running_compactions + waiting)
        {
            state.jobs.scheduled_compactions += 1;
            let runner = Arc::clone(&runner);
            let job = move || runner.run(Job::Compaction);
            self.pools.schedule_parted(Priority::Low, "compaction", tag, Box::new(job));
        }
    }

    /// Tells this database's queued jobs from those of others.
    pub(crate) fn job_tag(&self) -> u64 {
        std::ptr::from_ref(self.dir) as u64
    }

    /// Hands a picked compaction to the bottom pool. It does not count against the limit on
    /// scheduled compactions: the pool's threads limit it.
    pub(crate) fn forward(
        &self,
        runner: Arc<dyn RunJob>,
        state: &mut DbState,
        work: CompactionWork,
    ) {
        state.jobs.bottom_compactions += 1;
        let job = move || runner.run(Job::BottomCompaction(Box::new(work)));
        let (bottom, tag) = (Priority::Bottom, self.job_tag());
        self.pools.schedule_parted(bottom, "bottom compaction", tag, Box::new(job));
    }

    /// Files or options changed: watches the next file that becomes too old. Does not suspend.
    pub(crate) fn watch_expiry(&self, state: &mut DbState) {
        let Some(next) = next_expiry(state, time::wall_seconds) else { return };
        let watch = &mut state.tasks.expiry;
        if watch.waiting {
            if next < watch.next {
                watch.next = next;
                self.background.expiry_changed.notify_all();
            }
            return;
        }
        let Some(runner) = self.life.runner() else { return };
        watch.next = next;
        // Without a thread the next change checks, as it did before.
        let task = move || runner.run(Job::Expire);
        watch.waiting = start_task("pumice:expiry", task).is_ok();
    }

    /// There may be something to regulate: starts the task or wakes it.
    fn regulate(&self, state: &mut DbState) {
        if !self.settings.current().is_adaptive() || self.dir.read_only {
            return;
        }
        if state.tasks.regulating {
            self.background.regulator.wake(state);
            return;
        }
        if !has_work(state) || self.life.shutting_down.load(Ordering::Acquire) {
            return;
        }
        if let Some(runner) = self.life.runner() {
            let task = move || runner.run(Job::Regulate);
            // Without a thread RocksDB's stop rules hold, and the next attempt comes soon.
            state.tasks.regulating = start_task("pumice:control", task).is_ok();
        }
    }

    /// A compaction has failed or found no place under its limit: starts the task that tries again
    /// when it is time.
    pub(crate) fn await_retry(&self, state: &mut DbState) {
        let Some(runner) = self.life.runner() else { return };
        if state.tasks.awaiting_retry || self.life.shutting_down.load(Ordering::Acquire) {
            return;
        }
        // Without a thread the next job scheduled after that time checks the queue.
        let task = move || runner.run(Job::RetryCompactions);
        state.tasks.awaiting_retry = start_task("pumice:retry", task).is_ok();
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
        if self.settings.current().is_adaptive() {
            let all =
                self.background.regulator.may_use_all_threads() || self.controller.is_stopped();
            self.background.compaction_behind.store(all, Ordering::Release);
            return if all || state.manual.waiting() > 0 { limit } else { 1 };
        }
        let behind = self.controller.is_stopped()
            || self.controller.is_delayed()
            || state.cfs.values().any(pressed);
        self.background.compaction_behind.store(behind, Ordering::Release);
        if behind || state.manual.waiting() > 0 { limit } else { 1 }
    }

    /// Recomputes level scores after a version, snapshot or option change.
    pub(crate) fn refresh_scores(&self, cf: &mut CfState) {
        let freed = self.caught_up_below();
        let version = Arc::clone(&cf.version);
        let offpeak = self.settings.current().offpeak();
        cf.plan.refresh(&version, &cf.data.options(), offpeak, freed);
        self.background
            .bottommost_threshold
            .fetch_min(cf.plan.bottommost_threshold(), Ordering::AcqRel);
    }

    /// The limit below which the last released snapshot left data to clean up
    /// (`SnapshotList::catch_up_limit`).
    pub(crate) fn caught_up_below(&self) -> u64 {
        self.snapshots.catch_up_limit(|| self.last_sequence.load(Ordering::Acquire))
    }

    /// How urgent the table files of a job are to the rate limiter: as urgent as a user's while
    /// writes wait for them. A file keeps what was decided when it was opened.
    pub(crate) fn io_priority(&self, reason: TableReason) -> IoPriority {
        let adaptive = self.settings.current().is_adaptive();
        match reason {
            _ if self.writes_wait() => IoPriority::User,
            TableReason::CompactionLevel0 if adaptive => IoPriority::Mid,
            TableReason::CompactionLevel0 | TableReason::Compaction => IoPriority::Low,
            TableReason::Flush | TableReason::Recovery | TableReason::Other => IoPriority::High,
        }
    }

    /// Writes wait for background work. The adaptive policy's cap does not show that: it is nearly
    /// always set.
    pub(crate) fn writes_wait(&self) -> bool {
        let delayed = !self.settings.current().is_adaptive() && self.controller.is_delayed();
        self.controller.is_stopped() || delayed
    }
}
