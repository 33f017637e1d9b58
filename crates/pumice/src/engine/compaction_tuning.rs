//! Auto-tuned compaction in a database: which families are tuned, and what a verdict does.
//!
//! - Guarded: column families with `auto_tuned_compaction`, under every policy but the seed rule.
//!   Stall thresholds stay on. Compaction is enabled again by a verdict, by a timer when nothing
//!   drains, and as soon as the family reaches the point where RocksDB's rules slow or stop writes,
//!   even if the policy slows them by other rules; compactions are then scheduled at once.
//! - Seed rule: all column families under `background_policy=seed_rule`. While compaction is
//!   disabled neither L0 nor debt slow or stop writes. It is enabled again by a verdict, which the
//!   next version to be installed obeys.
//!
//! Thread safety: `Deferral` belongs to the state lock. `switch_compactions` takes it; the caller
//! holds no lock.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use pumice_base::{Error, Result};
use pumice_env::RateLimiterEvents;
use pumice_port::time;
use pumice_table::TableReason;

use crate::control::drain_rule::{Drainer, Verdict};
use crate::control::tuner::{CompactionSwitch, JobEvents, Tuner};
use crate::engine::{DbInner, start_task};
use crate::options::{BackgroundPolicy, ColumnFamilyOptions, DbOptions};
use crate::state::DbState;
use crate::state::family::{CfState, Deferral};
use crate::state::parts::Background;
use crate::stats::Ticker;

/// Refuses a family with auto-tuning if there is no limiter.
pub(crate) fn check_tuned(options: &DbOptions, family: &ColumnFamilyOptions) -> Result<()> {
    if family.auto_tuned_compaction && options.rate_limiter.is_none() {
        return Err(Error::invalid_argument(
            "auto_tuned_compaction: needs a rate_limiter, on whose use it depends",
        ));
    }
    Ok(())
}

/// The tuner of a database with these options.
pub(crate) fn new_tuner(options: &DbOptions) -> Option<Arc<Tuner>> {
    let limiter = options.rate_limiter.as_ref()?;
    Some(Arc::new(Tuner::new(limiter.refill_period_us())))
}

impl DbInner {
    /// Receiver for the outcome of a job's requests to the rate limiter.
    pub(crate) fn job_events(&self, reason: TableReason) -> Option<Arc<dyn RateLimiterEvents>> {
        let db = self.life.me.get().and_then(Weak::upgrade);
        let (Some(tuner), Some(db)) = (&self.background.tuner, db) else {
            return self.options().rate_events();
        };
        let job = match reason {
            TableReason::CompactionLevel0 | TableReason::Compaction => Drainer::Compaction,
            TableReason::Flush | TableReason::Recovery | TableReason::Other => Drainer::Flush,
        };
        Some(Arc::new(JobEvents {
            statistics: self.reports.statistics.clone(),
            tuner: Arc::clone(tuner),
            switch: db,
            job,
        }))
    }

    fn switch_guarded(self: &Arc<Self>, verdict: Verdict) {
        let policy = self.options().background_policy;
        let mut state = self.state.lock();
        if verdict == Verdict::Disable && !self.start_timer(&mut state) {
            return;
        }
        let ids: Vec<u32> = state.cfs.keys().copied().collect();
        for id in ids {
            let Some(cf) = state.cfs.get_mut(&id) else { continue };
            if cf.tuned(policy) != Deferral::Guarded {
                continue;
            }
            let before = cf.deferral;
            // Not while writes already wait for compactions.
            let defer = verdict == Verdict::Disable && !cf.must_compact();
            cf.deferral = if defer { Deferral::Guarded } else { Deferral::None };
            if cf.deferral != before {
                let word = if defer { "disabled" } else { "enabled" };
                self.reports.info(format_args!("[{}] Automatic compaction {word}", cf.data.name));
            }
            state.queue_compaction(id);
        }
        self.scheduler().schedule_background(&mut state);
        self.changed.notify_all();
    }

    /// Starts the timer that applies the rule while no request does. False if there is no thread
    /// for it: then nothing may be deferred.
    fn start_timer(self: &Arc<Self>, state: &mut DbState) -> bool {
        if state.tasks.tuning {
            return true;
        }
        let db = Arc::clone(self);
        let task = move || db.watch_drains();
        state.tasks.tuning = start_task("pumice:tuner", task).is_ok();
        state.tasks.tuning
    }

    /// Body of the timer's task: ends when nothing is deferred any more.
    fn watch_drains(self: Arc<Self>) {
        let Some(tuner) = &self.background.tuner else { return };
        let interval = tuner.interval_micros();
        let deferred =
            |state: &DbState| state.cfs.values().any(|cf| cf.deferral == Deferral::Guarded);
        let mut state = self.state.lock();
        let mut next = time::now_micros().saturating_add(interval);
        loop {
            if self.life.shutting_down.load(Ordering::Acquire) || !deferred(&state) {
                break;
            }
            let now = time::now_micros();
            if now < next {
                let wait = Duration::from_micros(next - now);
                state = self.changed.wait_timeout(state, wait).0;
                continue;
            }
            next = now.saturating_add(interval);
            drop(state);
            match tuner.look_at_rest() {
                None | Some(Verdict::Hold) => {}
                Some(verdict) => self.switch_compactions(verdict),
            }
            state = self.state.lock();
        }
        state.tasks.tuning = false;
        self.changed.notify_all();
    }
}

impl Background {
    /// Column families or options have changed: counts drains if a family is tuned.
    pub fn refresh_tuning(&self, state: &DbState, policy: BackgroundPolicy) {
        let samples = |cf: &CfState| cf.data.options().read_triggered_compaction_threshold > 0.0;
        self.regulator.reads.set_sampled(state.cfs.values().any(samples));
        let Some(tuner) = &self.tuner else { return };
        let tuned = state.cfs.values().any(|cf| cf.tuned(policy) != Deferral::None);
        tuner.set_active(tuned);
        if policy != BackgroundPolicy::SeedRule {
            self.regulator.seed_disabled.store(false, Ordering::Relaxed);
        }
    }

    /// Updates a family's deferral from the options and, under the seed rule, from the last
    /// verdict.
    pub fn refresh_deferral(&self, cf: &mut CfState, policy: BackgroundPolicy) {
        cf.deferral = match cf.tuned(policy) {
            Deferral::Guarded if cf.deferral == Deferral::Guarded => Deferral::Guarded,
            Deferral::Seed if self.regulator.seed_disabled.load(Ordering::Relaxed) => {
                Deferral::Seed
            }
            _ => Deferral::None,
        };
    }
}

impl CompactionSwitch for DbInner {
    fn switch_compactions(&self, verdict: Verdict) {
        if verdict == Verdict::Hold {
            return;
        }
        let disable = verdict == Verdict::Disable;
        if disable {
            self.reports.tick(Ticker::CompactionDisabledCount, 1);
        }
        if self.options().background_policy == BackgroundPolicy::SeedRule {
            // As in the original: the next change of the tree sees it and schedules compactions.
            self.background.regulator.seed_disabled.store(disable, Ordering::Relaxed);
            return;
        }
        if let Some(me) = self.life.me.get().and_then(Weak::upgrade) {
            me.switch_guarded(verdict);
        }
    }
}
