//! The users' calls to flush memtables and logs, and to wait.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pumice_base::{Error, Result};
use pumice_port::time;

use crate::commit::controller::{WriteStall, write_stall};
use crate::engine::DbInner;
use crate::engine::memtable_switch::all_ids;
use crate::options::requests::{FlushOptions, WaitForCompactOptions};
use crate::state::DbState;
use crate::state::errors::Reason;
use crate::state::family::Deferral;
use crate::state::parts::Logs;
use crate::state::reports::Reports;
use crate::stats::Ticker;
use crate::stats::listener::FlushReason;

/// Waiters check again this often even if they are not woken.
const POLL: Duration = Duration::from_millis(200);

impl DbInner {
    /// Flushes the memtables of `ids` for `reason`; with `atomic_flush` those of all column
    /// families.
    pub(crate) fn flush_families(
        self: &Arc<Self>,
        options: &FlushOptions,
        ids: &BTreeSet<u32>,
        reason: FlushReason,
    ) -> Result<()> {
        self.check_writable()?;
        if options.wait || !options.allow_write_stall {
            self.life.mark.check_may_wait()?;
        }
        let all = self.options().atomic_flush.then(|| all_ids(&self.state.lock()));
        let ids = all.as_ref().unwrap_or(ids);
        if !options.allow_write_stall {
            self.wait_until_flush_would_not_stall(ids, reason)?;
        }
        self.request_flush(ids);
        self.seal_now(ids, reason)?;
        let requested = self.request_flush(ids);
        if options.wait {
            self.wait_flushed(&requested)?;
            self.check_nothing_held()?;
            if options.listener_wait {
                self.wait_told(ids);
            }
        }
        Ok(())
    }

    /// While a failed log is being abandoned, the promises of flushes and syncs hold only once that
    /// is complete (`ManifestLog::hold`).
    fn check_nothing_held(&self) -> Result<()> {
        let Some(error) = self.faults().stopping_error() else { return Ok(()) };
        let manifest = self.manifest.lock();
        if manifest.held || manifest.broken { Err(error) } else { Ok(()) }
    }

    /// Flushes the sealed memtables, and waits.
    pub(crate) fn flush_all_now(self: &Arc<Self>, ids: &BTreeSet<u32>) -> Result<()> {
        let requested = self.request_flush(ids);
        self.wait_flushed(&requested)
    }

    /// Asks for a flush of the memtables that are sealed now; returns the newest of each family.
    fn request_flush(&self, ids: &BTreeSet<u32>) -> Vec<(u32, u64)> {
        let mut state = self.state.lock();
        let mut requested = Vec::new();
        for id in ids {
            if let Some(cf) = state.cfs.get_mut(id) {
                cf.request_flush();
                requested.extend(cf.imm.back().map(|newest| (*id, newest.mem.id())));
            }
            state.queue_flush(*id);
        }
        self.scheduler().schedule_background(&mut state);
        requested
    }

    /// Waits until the memtables of families up to these are in table files.
    fn wait_flushed(&self, memtables: &[(u32, u64)]) -> Result<()> {
        let mut state = self.state.lock();
        loop {
            let pending = memtables.iter().any(|(id, mem)| {
                let family = state.cfs.get(id);
                family.and_then(|cf| cf.imm.front()).is_some_and(|m| m.mem.id() <= *mem)
            });
            if !pending {
                return Ok(());
            }
            self.life.check_alive(&state)?;
            state = self.changed.wait_timeout(state, POLL).0;
        }
    }

    /// Waits until the listeners have been told of the flushes of `ids` that are installed.
    fn wait_told(&self, ids: &BTreeSet<u32>) {
        let mut state = self.state.lock();
        let installed =
            |state: &DbState, id: &u32| state.cfs.get(id).map(|cf| (*id, cf.flush.installed));
        let goal: Vec<(u32, u64)> = ids.iter().filter_map(|id| installed(&state, id)).collect();
        let is_told = |state: &DbState| {
            let told =
                |id: &u32, mem: &u64| state.cfs.get(id).is_none_or(|cf| cf.flush.told >= *mem);
            goal.iter().all(|(id, mem)| told(id, mem))
        };
        while !is_told(&state) {
            state = self.changed.wait_timeout(state, POLL).0;
        }
    }

    /// A flush seals a memtable: waits while that alone would stall writes, and background work is
    /// due that can change it. One for a manual compaction ends with that.
    fn wait_until_flush_would_not_stall(
        &self,
        ids: &BTreeSet<u32>,
        reason: FlushReason,
    ) -> Result<()> {
        let mut state = self.state.lock();
        loop {
            let adaptive = self.options().is_adaptive();
            let stalls = ids.iter().map(|id| (id, stall_once_sealed(&state, *id, adaptive)));
            let stops: Vec<_> = stalls.filter(|(_, stall)| stall.is_stop()).collect();
            if stops.is_empty() {
                return Ok(());
            }
            self.life.check_alive(&state)?;
            if reason == FlushReason::ManualCompaction {
                self.life.check_manual(None)?;
            }
            let compacting = stops.iter().filter(|(_, cause)| cause.waits_for_compaction());
            check_hope(&state, compacting.map(|(id, _)| *id))?;
            state = self.changed.wait_timeout(state, POLL).0;
        }
    }

    pub(crate) fn check_writable(&self) -> Result<()> {
        self.life.check_caller()?;
        self.dir.check_writable()?;
        if self.life.shutting_down.load(Ordering::Acquire) {
            return Err(Error::shutdown("the database is closing"));
        }
        Ok(())
    }

    /// Hands logged writes to the operating system; durable if `sync`.
    pub(crate) fn flush_wal(&self, sync: bool) -> Result<()> {
        self.with_errors_reported(self.flush_wal_as_leader(sync))
    }

    /// As `flush_wal`, also for a leader.
    pub(crate) fn flush_wal_as_leader(&self, sync: bool) -> Result<()> {
        self.check_writable()?;
        let result =
            if sync { self.logs.sync(&self.reports) } else { self.logs.wal.lock().flush(false) };
        if let Err(error) = &result {
            self.faults().background_error_of_leader(error, Reason::WriteCallback);
        }
        result.and_then(|()| self.check_nothing_held())
    }

    /// Waits until no flush or compaction runs or is due.
    pub(crate) fn wait_for_compact(
        self: &Arc<Self>,
        options: &WaitForCompactOptions,
    ) -> Result<()> {
        self.check_writable()?;
        self.life.mark.check_may_wait()?;
        if options.flush {
            let ids = all_ids(&self.state.lock());
            self.flush_families(&FlushOptions::default(), &ids, FlushReason::ManualFlush)?;
        }
        let deadline = (options.timeout_micros > 0)
            .then(|| time::now_micros().saturating_add(options.timeout_micros));
        let mut state = self.state.lock();
        loop {
            if state.jobs.paused > 0 && options.abort_on_pause {
                return Err(Error::aborted("background work is paused"));
            }
            self.life.check_alive(&state)?;
            let busy = state.jobs.scheduled_flushes > 0
                || state.has_compaction_jobs()
                || !state.jobs.flush_queue.is_empty()
                || state.jobs.compaction_queue.iter().any(|id| !is_off_for_good(&state, *id))
                || state.manual.waiting() > 0;
            if !busy {
                return Ok(());
            }
            check_hope(&state, state.jobs.compaction_queue.iter())?;
            if deadline.is_some_and(|d| time::now_micros() >= d) {
                return Err(Error::new(pumice_base::ErrorKind::TimedOut, "wait_for_compact"));
            }
            state = self.changed.wait_timeout(state, POLL).0;
        }
    }

    /// Stops starting background jobs and waits for the running ones; not from one of them.
    pub(crate) fn pause_background_work(&self) {
        self.life.mark.assert_may_lock();
        self.state.lock().jobs.paused += 1;
        self.take_back_jobs(false);
        let mut state = self.state.lock();
        while !self.life.mark.is_inside()
            && (state.jobs.scheduled_flushes > 0 || state.has_compaction_jobs())
        {
            state = self.changed.wait_timeout(state, POLL).0;
        }
    }

    /// Ends one `pause_background_work`.
    pub(crate) fn continue_background_work(&self) -> Result<()> {
        self.life.check_caller()?;
        let mut state = self.state.lock();
        if state.jobs.paused == 0 {
            return Err(Error::invalid_argument("background work is not paused"));
        }
        state.jobs.paused -= 1;
        self.scheduler().schedule_background(&mut state);
        Ok(())
    }
}

/// Whether writes would be slowed or stopped if the family's memtable were sealed while others
/// wait. Not below the triggers of automatic flushes and compactions, as in RocksDB: nothing would
/// end the stall but the flush itself.
fn stall_once_sealed(state: &DbState, id: u32, adaptive: bool) -> WriteStall {
    let Some(cf) = state.cfs.get(&id).filter(|cf| !cf.mem.is_empty() && !cf.imm.is_empty()) else {
        return WriteStall::None;
    };
    let trigger = cf.data.options().level0_file_num_compaction_trigger;
    let runs = cf.plan.counted_runs(&cf.version) as i64;
    if !cf.has_flush_to_come() && runs < i64::from(trigger) {
        return WriteStall::None;
    }
    let mut inputs = cf.stall_inputs(adaptive);
    inputs.immutable_memtables += 1;
    write_stall(&inputs, &cf.data.options())
}

/// Nothing will start the family's compactions again, so waiting is pointless.
fn is_off_for_good(state: &DbState, id: u32) -> bool {
    state.cfs.get(&id).is_some_and(|cf| cf.deferral == Deferral::Seed)
}

/// The error of compactions of `families` for which waiting is pointless (`CompactionRetry`).
fn check_hope<'a>(state: &DbState, families: impl Iterator<Item = &'a u32>) -> Result<()> {
    let mut families = families.filter_map(|id| state.cfs.get(id));
    families.find_map(|cf| cf.compaction_retry.hopeless()).map_or(Ok(()), |e| Err(e.clone()))
}

impl Logs {
    /// Makes the log durable. Writers that do not sync continue meanwhile.
    fn sync(&self, reports: &Reports) -> Result<()> {
        let Some(sync) = self.at_rest().begin_sync()? else { return Ok(()) };
        reports.tick(Ticker::WalFileSynced, 1);
        let result = sync.run();
        self.wal.lock().end_sync(&sync, &result);
        self.synced.notify_all();
        result
    }
}
