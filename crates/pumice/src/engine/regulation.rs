//! The adaptive policy in a database: its input, and the effect of its grants.
//!
//! A task ticks the policy while there is something to regulate: memtables that wait for flush,
//! jobs, or a cap. It wakes at least ten times a second, and whenever work is scheduled. Grants go
//! to the write controller (the cap), to the device scheduler (the rate of deep compactions) and to
//! the scheduling of compactions (how many threads, one reserved for L0 and the base level).
//!
//! Thread safety: from any thread. The state kept between ticks is `state::regulator`.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pumice_base::narrow::round_down_u64;
use pumice_env::{IoClass, JobIo};
use pumice_port::thread;
use pumice_port::time::now_micros;

use crate::control::policy::{Binding, FamilyInputs, Grants, Inputs, Policy};
use crate::engine::DbInner;
use crate::state::DbState;
use crate::state::family::CfState;
use crate::state::regulator::{HISTORY, TICK_MICROS_MIN, Tick, has_work};

impl DbInner {
    /// The account of a job's writes; None if the policy does not use it.
    pub(crate) fn job_io(&self, class: IoClass) -> Option<Arc<JobIo>> {
        self.options().is_adaptive().then(|| JobIo::new(&self.background.regulator.member, class))
    }

    /// Body of the task: ends when there is nothing to regulate any more.
    pub(super) fn keep_regulating(self: Arc<Self>) {
        let mut state = self.state.lock();
        let (mut capped, mut rested) = (false, true);
        while self.options().is_adaptive()
            && !self.life.shutting_down.load(Ordering::Acquire)
            && (capped || has_work(&state))
        {
            let families: Vec<_> = state.cfs.values().map(CfState::regulated).collect();
            drop(state);
            // A user's logger or listener may panic; then RocksDB's rules hold.
            let ticked = thread::contain("Control", || self.tick_policy(families, rested));
            rested = false;
            state = self.state.lock();
            let Ok(grants) = ticked else { break };
            capped = grants.cap.is_some();
            self.use_all_threads(&mut state, grants.all_threads);
            if self.life.shutting_down.load(Ordering::Acquire) {
                break;
            }
            let within = Duration::from_micros(round_down_u64(grants.tick_within * 1e6));
            state = self.background.regulator.wake.wait_timeout(state, within).0;
        }
        self.writes.controller.set_cap(None);
        self.background.regulator.member.set_waiting_rate(None, false);
        self.background.regulator.merges.store(false, Ordering::Relaxed);
        self.background.regulator.times_log.store(false, Ordering::Relaxed);
        self.background.regulator.member.claim(0.0);
        self.use_all_threads(&mut state, false);
        state.tasks.regulating = false;
        self.changed.notify_all();
    }

    /// All compaction threads may work, or one.
    fn use_all_threads(&self, state: &mut DbState, all: bool) {
        if self.background.regulator.all_threads.swap(all, Ordering::Relaxed) != all {
            // Scheduling decides again how many may run, and whether compaction lags.
            self.scheduler().schedule_background(state);
        }
    }

    /// One tick: asks the policy and sets the cap and the rate of compactions that can wait.
    fn tick_policy(&self, families: Vec<FamilyInputs>, rested: bool) -> Grants {
        let regulator = &self.background.regulator;
        let mut law = regulator.law.lock();
        let now = now_micros();
        let micros = now.saturating_sub(law.ticked_micros).max(1);
        if micros < TICK_MICROS_MIN {
            let last = law.history.back().map(|tick| tick.grants).unwrap_or_default();
            return Grants { tick_within: TICK_MICROS_MIN as f64 / 1e6, ..last };
        }
        // Another directory counts as another device.
        let wal_dir = &self.options().wal_dir;
        let same_device = wal_dir.is_empty() || Path::new(wal_dir) == self.dir.path;
        let logged = if same_device { self.reports.stats.wal_bytes() } else { 0 };
        let totals = regulator.totals(self.reports.stats.bytes_written(), logged);
        // Bytes logged between two runs of the task say nothing about the device's rate.
        let fresh = if rested { 0 } else { logged.saturating_sub(law.logged) };
        regulator.member.logged(fresh);
        law.logged = logged;
        let sum = |of: fn(&FamilyInputs) -> f64| families.iter().map(of).sum::<f64>();
        let mut tick = Tick {
            at_micros: now,
            admitted_rate: (totals.admitted - law.admitted) * 1e6 / micros as f64,
            l0_files: sum(|f| f.l0.files),
            debt_bytes: sum(|f| f.debt_bytes),
            sealed: sum(|f| f.sealed),
            grants: Grants::default(),
        };
        (law.ticked_micros, law.admitted) = (now, totals.admitted);
        let grants = law.policy.tick(&Inputs {
            seconds: micros as f64 / 1e6,
            rested,
            totals,
            unpaid: self.writes.controller.take_most_unpaid() as f64,
            families,
            device_rate: regulator.member.device().rate(),
            claimed_elsewhere: regulator.member.claimed_elsewhere(),
        });
        self.writes.controller.set_cap(grants.cap.map(round_down_u64));
        regulator.member.set_waiting_rate(grants.waiting_rate, !grants.level0_first);
        regulator.merges.store(grants.merges, Ordering::Relaxed);
        regulator.times_log.store(grants.times_log, Ordering::Relaxed);
        regulator.member.claim(grants.claim);
        let before = law.history.back().map_or(Binding::Free, |tick| tick.grants.binding);
        tick.grants = grants;
        if law.history.len() == HISTORY {
            law.history.pop_front();
        }
        law.history.push_back(tick);
        if before != grants.binding {
            law.bound_since = now;
        }
        if law.is_news(now) {
            let why = law.why(now);
            drop(law);
            self.reports.info(format_args!("Background controller: {why}"));
        }
        grants
    }
}
