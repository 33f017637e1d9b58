//! Which compaction a job runs: one that a caller asked for, or the most urgent automatic one.
//!
//! Thread safety: everything takes the state, which its lock guards, and never waits.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pumice_base::{Error, SequenceNumber};

use crate::compaction::picker::{ManualPick, Reach};
use crate::engine::DbInner;
use crate::state::DbState;
use crate::state::family::CfState;
use crate::state::manual_queue::ManualPiece;
use crate::state::work::CompactionWork;

/// Families that were due and could not be picked.
#[derive(Default)]
struct PassedOver {
    families: Vec<u32>,
    /// Some found no place under their limit.
    limited: bool,
}

impl DbInner {
    /// The next compaction to run: manual and automatic ones take turns, manual ones first.
    pub(super) fn pick_compaction(&self, state: &mut DbState) -> Option<CompactionWork> {
        if self.life.shutting_down.load(Ordering::Acquire)
            || state.errors.stopping_jobs().is_some()
            || state.jobs.paused > 0
            || self.life.aborts_compactions()
        {
            return None;
        }
        let automatic_first = std::mem::take(&mut state.manual.went_last);
        let pick_manual = |state: &mut DbState| {
            let work = self.pick_manual(state);
            state.manual.went_last = work.is_some();
            work
        };
        if !automatic_first && let Some(work) = pick_manual(state) {
            return Some(work);
        }
        if state.manual.excludes_automatic() {
            return pick_manual(state);
        }
        let reach = self.reach(state);
        let (work, passed_over) = self.next_automatic(state, reach);
        if passed_over.limited {
            self.scheduler().await_retry(state);
        }
        for id in passed_over.families {
            state.queue_compaction(id);
        }
        if let Some(work) = &work {
            // There may be more to do elsewhere in the tree.
            state.queue_compaction(work.cf.id);
            self.scheduler().schedule_background(state);
        }
        work.or_else(|| if automatic_first { pick_manual(state) } else { None })
    }

    /// Which compactions may start now: under the adaptive policy one thread of several is reserved
    /// for those that writers wait for.
    fn reach(&self, state: &DbState) -> Reach {
        let (_, limit) = self.options().background_limits();
        if !self.options().is_adaptive() || limit <= 1 {
            return Reach::All;
        }
        let others = state.jobs.running_compactions - state.jobs.running_merges;
        match self.background.regulator.may_keep_for_merges() {
            true if others + 1 >= limit => Reach::Merges,
            false if state.jobs.running_deep + 1 >= limit => Reach::Upper,
            _ => Reach::All,
        }
    }

    /// The most urgent compaction within `reach` of the first family in the queue that has one,
    /// and the families that may have one beyond it or once their limit has a place.
    fn next_automatic(
        &self,
        state: &mut DbState,
        reach: Reach,
    ) -> (Option<CompactionWork>, PassedOver) {
        let freed = self.scheduler().caught_up_below();
        let mut passed_over = PassedOver::default();
        let due = |state: &DbState| {
            let mut queue = state.jobs.compaction_queue.iter();
            queue.position(|id| state.cfs.get(id).is_none_or(CfState::may_compact))
        };
        while let Some(id) = due(state).and_then(|at| state.jobs.compaction_queue.remove(at)) {
            let Some(cf) = state.cfs.get_mut(&id) else { continue };
            cf.compaction_queued = false;
            if cf.data.is_dropped() || cf.data.options().disable_auto_compactions {
                continue;
            }
            let bell = &self.background.retry;
            let token = cf.limiter().map(|limiter| limiter.token_until(bell));
            if let Some(None) = token {
                passed_over.families.push(id);
                passed_over.limited = true;
                continue;
            }
            let version = Arc::clone(&cf.version);
            let oldest = || self.snapshots.oldest().unwrap_or(SequenceNumber::MAX);
            let Some((registered, pick)) = cf.plan.pick(&version, freed, oldest, reach) else {
                passed_over.families.extend((reach != Reach::All).then_some(id));
                continue;
            };
            let work = CompactionWork {
                cf: Arc::clone(&cf.data),
                version,
                pick,
                registered,
                base_level: cf.plan.base_level(),
                max_subcompactions: self.options().max_subcompactions.max(1) as usize,
                manual: None,
                token: token.flatten(),
                io: None,
            };
            return (Some(work), passed_over);
        }
        (None, passed_over)
    }

    /// Picks a piece of the first request that nothing conflicts with.
    fn pick_manual(&self, state: &mut DbState) -> Option<CompactionWork> {
        let freed = self.scheduler().caught_up_below();
        let default_parts = self.options().max_subcompactions.max(1) as usize;
        let mut settled = false;
        let mut found = None;
        for request in &mut state.manual.requests {
            if request.running || request.done.is_some() {
                continue;
            }
            let Some(cf) = state.cfs.get_mut(&request.family) else {
                request.done = Some(Err(Error::column_family_dropped("manual compaction")));
                settled = true;
                continue;
            };
            if let Err(error) = self.life.check_manual(request.caller.asked.canceled.as_ref()) {
                request.done = Some(Err(error));
                settled = true;
                continue;
            }
            if request.caller.exclusive && !cf.plan.running().is_empty() {
                continue;
            }
            match request.pick(cf).unwrap_or_else(|error| {
                request.done = Some(Err(error));
                ManualPick::Nothing
            }) {
                ManualPick::Nothing if request.done.is_some() => settled = true,
                ManualPick::Nothing => {
                    request.done = Some(Ok(()));
                    settled = true;
                }
                ManualPick::Conflict => {}
                ManualPick::Pick { pick, resume_at } => {
                    request.running = true;
                    request.wrote_to = Some(pick.output_level);
                    let version = Arc::clone(&cf.version);
                    let registered = cf.plan.register(&version, &pick, freed);
                    let parts = match request.caller.max_subcompactions {
                        0 => default_parts,
                        given => given,
                    };
                    let limiter = cf.limiter();
                    found = Some(CompactionWork {
                        cf: Arc::clone(&cf.data),
                        version,
                        pick: *pick,
                        registered,
                        base_level: cf.plan.base_level(),
                        max_subcompactions: parts,
                        manual: Some(ManualPiece {
                            id: request.id,
                            resume_at,
                            asked: request.caller.asked.clone(),
                        }),
                        token: limiter.and_then(|limiter| limiter.token(true)),
                        io: None,
                    });
                    break;
                }
            }
        }
        if settled {
            self.changed.notify_all();
        }
        found
    }
}
