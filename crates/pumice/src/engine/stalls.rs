//! Write stalls: when they begin and end, and how a leader waits in one.
//!
//! Thread safety: what waits takes [`Leadership`]; `update_stall` takes a family's state, which the
//! state lock guards. Waiting suspends.

use std::time::Duration;

use pumice_base::planted::{self, Bug};
use pumice_base::{Error, Result};
use pumice_env::perf::{self, PerfMetric};

use crate::commit::queue::{Leadership, WriteQueue, stalled};
use crate::engine::DbInner;
use crate::engine::scheduler::Scheduler;
use crate::options::BackgroundPolicy;
use crate::options::requests::WriteOptions;
use crate::state::family::{CfState, Deferral};
use crate::stats::{HistogramKind, Ticker};

/// A stopped writer checks again at least this often, in case no wake-up comes.
pub(super) const STOP_POLL: Duration = Duration::from_secs(1);
/// A slowed writer sleeps at most this long at a time.
const DELAY_STEP_MICROS: u64 = 1024;

/// A stall of the leader; over when dropped.
pub(crate) struct Stall<'a>(&'a WriteQueue);

impl Drop for Stall<'_> {
    fn drop(&mut self) {
        self.0.end_stall();
    }
}

impl DbInner {
    /// Waits while writes are stopped, then as long as a slowed write of `bytes` has to.
    pub(super) fn stall(
        &self,
        leader: &Leadership,
        options: &WriteOptions,
        bytes: u64,
    ) -> Result<()> {
        let started = pumice_port::time::now_micros();
        let _time = perf::time(PerfMetric::WriteDelayTime);
        let mut stall = None;
        if self.writes.controller.is_stopped() {
            stall = Some(self.begin_stall(leader, options)?);
            self.wait_while_stopped()?;
        }
        let now = pumice_port::time::now_micros;
        let controller = &self.writes.controller;
        if self.life.must_not_wait(options) && !controller.affords(leader, now(), bytes) {
            return Err(stalled());
        }
        let mut unpaid = controller.pay(leader, now(), bytes);
        if unpaid > 0 && stall.is_none() {
            stall = Some(self.begin_stall(leader, options)?);
        }
        // The rate may change at any time.
        while unpaid > 0 && controller.is_delayed() {
            self.check_waiting()?;
            let step = controller.wait_micros(unpaid).min(DELAY_STEP_MICROS);
            pumice_port::thread::sleep(Duration::from_micros(step));
            unpaid = controller.pay_rest(leader, now(), unpaid);
        }
        if stall.is_some() {
            let micros = now() - started;
            self.reports.stats.stalled(micros);
            self.reports.tick(Ticker::StallMicros, micros);
            if self.reports.statistics.as_ref().is_some_and(|statistics| statistics.wants_timers())
            {
                self.reports.measure(HistogramKind::WriteStall, micros);
            }
        }
        Ok(())
    }

    /// Fails once a waiting write can no longer succeed.
    pub(super) fn check_waiting(&self) -> Result<()> {
        if self.life.is_ending() {
            return Err(Error::shutdown("the database is closing"));
        }
        self.faults().stopping_error().map_or(Ok(()), Err)
    }

    /// Sleeps `micros`, in steps, and checks in between whether the write can still succeed.
    pub(super) fn sleep_slowed(&self, mut micros: u64) -> Result<()> {
        while micros > 0 {
            self.check_waiting()?;
            let step = micros.min(DELAY_STEP_MICROS);
            pumice_port::thread::sleep(Duration::from_micros(step));
            micros -= step;
        }
        Ok(())
    }

    /// Until the returned guard is dropped, writers that do not want to wait are refused.
    pub(crate) fn begin_stall(
        &self,
        leader: &Leadership,
        options: &WriteOptions,
    ) -> Result<Stall<'_>> {
        if self.life.must_not_wait(options) {
            return Err(stalled());
        }
        self.writes.queue.begin_stall(leader);
        Ok(Stall(&self.writes.queue))
    }

    fn wait_while_stopped(&self) -> Result<()> {
        let mut state = self.state.lock();
        while self.writes.controller.is_stopped() {
            if self.life.is_ending() {
                return Err(Error::shutdown("the database is closing"));
            }
            if let Some(error) = state.errors.current()
                && !planted::is(Bug::StallIgnoresError)
            {
                return Err(error.clone());
            }
            if let Some(error) = state.hopeless_stop() {
                return Err(error.clone());
            }
            state = self.changed.wait_timeout(state, STOP_POLL).0;
        }
        Ok(())
    }
}

impl Scheduler<'_> {
    /// Recomputes the stall cause of a column family.
    pub(crate) fn update_stall(&self, cf: &mut CfState) {
        let policy = self.settings.current().background_policy;
        self.background.refresh_deferral(cf, policy);
        let options = cf.data.options();
        let inputs = cf.stall_inputs(policy == BackgroundPolicy::Adaptive);
        let old = cf.stall;
        self.controller.update(&mut cf.stall, &inputs, &options);
        if cf.deferral == Deferral::Guarded && cf.must_compact() {
            // The caller schedules what may run next.
            cf.deferral = Deferral::None;
        }
        if old != cf.stall {
            self.background.lanes.deferred.set_urgent(self.writes_wait());
            self.note_stall(&cf.data, old, cf.stall, &inputs);
        }
    }
}
