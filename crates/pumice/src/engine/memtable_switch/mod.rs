//! Leadership without a write, and what needs it: sealing memtables, starting a new log.
//!
//! Thread safety: what seals or waits takes [`Leadership`], so that a memtable or the current log
//! is replaced by its holder alone. May wait and do I/O, and so suspends.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use pumice_base::{FileNumber, Result};

use crate::commit::queue::{Joined, Leadership, QueuedBatch, stalled};
use crate::engine::DbInner;
use crate::flush::dead_ranges::hand_over;
use crate::flush::grouping::to_seal;
use crate::state::DbState;
use crate::state::errors::Reason;
use crate::state::family::{CfState, ImmutableMemTable};
use crate::state::log_holders::LogHolder;
use crate::stats::listener::FlushReason;
use crate::version::family::new_memtable;

/// Leadership without a write; given up when dropped.
pub(crate) struct Exclusive<'a> {
    pub(super) db: &'a DbInner,
    pub(super) leader: Leadership,
}

impl Deref for Exclusive<'_> {
    type Target = Leadership;
    fn deref(&self) -> &Leadership {
        &self.leader
    }
}

impl Drop for Exclusive<'_> {
    fn drop(&mut self) {
        self.db.writes.queue.leave(&mut self.leader);
    }
}

impl DbInner {
    /// Waits for leadership and keeps it until the guard drops. Suspends.
    pub(crate) fn exclusive(&self) -> Exclusive<'_> {
        let batch = QueuedBatch::exclusive();
        match self.writes.queue.join(batch, || Ok(true), |_| ()) {
            Joined::Leader(_, leader) => Exclusive { db: self, leader },
            Joined::Done(..) => unreachable!("a leader never takes an exclusive entry along"),
        }
    }

    /// As `exclusive`, for a user's calls: one from a job does not wait for a stall, which may
    /// be waiting for that job.
    ///
    /// # Errors
    /// Incomplete for such a stall; Aborted from code that runs under locks.
    pub(crate) fn exclusive_here(&self) -> Result<Exclusive<'_>> {
        self.life.mark.check_may_lock()?;
        let batch = QueuedBatch::exclusive();
        match self.writes.queue.join(batch, || self.life.may_wait_for_stall(), |_| ()) {
            Joined::Leader(_, leader) => Ok(Exclusive { db: self, leader }),
            Joined::Done(_, result) => Err(result.err().unwrap_or_else(stalled)),
        }
    }

    /// Log `log` stays until as many calls of `release_log` as of this one. The leader that wrote
    /// there calls it before it leaves: only a leader replaces the current log, so none can release
    /// it before.
    pub(crate) fn hold_log(&self, _: &Leadership, log: FileNumber, holder: LogHolder) {
        self.state.lock().files.log_holders.hold(log, holder);
    }

    /// Ends one `hold_log`. If nothing needs the log any more, the next flush releases it; logs
    /// that are too long ask for that flush.
    pub(crate) fn release_log(&self, log: FileNumber, holder: LogHolder) {
        if self.state.lock().files.log_holders.release(log, holder) {
            self.logs.relieved.store(0, Ordering::Relaxed);
        }
    }

    /// Ends one `hold_log` of a section that was committed without a sync: a power cut may take the
    /// commit. So its log stays until what the logs have now is in tables.
    pub(crate) fn release_log_after_commit(&self, log: FileNumber, holder: LogHolder) {
        let newest = self.logs.wal.lock().number();
        let mut state = self.state.lock();
        let unflushed = state.oldest_unflushed_log(&[]).unwrap_or(0);
        if state.files.log_holders.release_after(log, holder, newest, unflushed) {
            self.logs.relieved.store(0, Ordering::Relaxed);
        }
    }

    /// All logs together are too long: seals the column families that hold the oldest one. Logs are
    /// released from the oldest on, so while something else holds that one, no flush helps; as in
    /// RocksDB one is made, after which nothing else holds it.
    pub(super) fn switch_oldest_log(&self, leader: &Leadership) -> Result<()> {
        let mut oldest = self.logs.wal.lock().oldest();
        if self.logs.relieved.swap(oldest, Ordering::Relaxed) == oldest {
            // Already requested: the flushes that release it are under way, or would not.
            return Ok(());
        }
        let holders: BTreeSet<u32> = {
            let mut state = self.state.lock();
            match state.files.log_holders.oldest() {
                Some((held, holder)) if held <= oldest => {
                    self.reports.info(format_args!(
                        "Unable to release WAL number {oldest}, which is held by {holder:?}"
                    ));
                }
                // Its last holder was no family: the edit of any flush releases it.
                _ => {
                    let until = state.files.log_holders.needed_until(oldest);
                    oldest = oldest.max(state.oldest_unflushed_log(&[]).unwrap_or(0)).max(until);
                }
            }
            let holding = state.cfs.values_mut().filter(|cf| cf.log_number <= oldest);
            let mut waiting = Vec::new();
            let mut holders = BTreeSet::new();
            for cf in holding {
                if !cf.imm.is_empty() {
                    cf.request_flush();
                    waiting.push(cf.data.id);
                }
                if cf.first_log_of_mem() <= oldest && !cf.mem.is_empty() {
                    holders.insert(cf.data.id);
                }
            }
            for id in waiting {
                state.queue_flush(id);
            }
            self.scheduler().schedule_background(&mut state);
            holders
        };
        if holders.is_empty() {
            return Ok(());
        }
        self.reports.info(format_args!(
            "Flushing all column families with data in WAL number {oldest}. Total log size is {} \
             while max_total_wal_size is {}",
            self.logs.bytes.load(Ordering::Relaxed),
            self.logs.bytes_limit.load(Ordering::Relaxed)
        ));
        self.switch_memtables(leader, &holders, FlushReason::WalFull)
    }

    /// Seals the memtables of `ids` that hold anything, on a new log if the current one has
    /// records, and schedules their flush. With `atomic_flush` those of all column families, with
    /// no batch in between.
    ///
    /// # Errors
    /// I/O of the logs, which is a background error.
    pub(crate) fn switch_memtables(
        &self,
        leader: &Leadership,
        ids: &BTreeSet<u32>,
        reason: FlushReason,
    ) -> Result<()> {
        let log_number = self.start_log_if_used(leader)?;
        let mut state = self.state.lock();
        let last_sequence = self.last_sequence.load(Ordering::Acquire);
        let families = state.cfs.values().map(CfState::unflushed);
        let sealed = to_seal(self.options().atomic_flush, ids, families);
        for id in &sealed {
            let Some(cf) = state.cfs.get_mut(id) else { continue };
            self.seal(cf, log_number, last_sequence, reason);
            // A full memtable may wait to be merged with others; these may not.
            if reason != FlushReason::WriteBufferFull {
                cf.request_flush();
            }
        }
        // Column families without unflushed data need no older log.
        for cf in state.cfs.values_mut() {
            if cf.mem.is_empty() && cf.imm.is_empty() && cf.log_number < log_number {
                cf.log_number = log_number;
            }
        }
        // Families without new data may have sealed memtables.
        for id in ids.iter().chain(&sealed) {
            state.queue_flush(*id);
        }
        self.scheduler().schedule_background(&mut state);
        Ok(())
    }

    fn seal(&self, cf: &mut CfState, log_number: u64, last_sequence: u64, reason: FlushReason) {
        let options = cf.data.options();
        let manager = self.resources.write_buffer_manager.clone();
        let fresh =
            new_memtable(&options, &cf.data.icmp, cf.next.memtable, last_sequence + 1, manager);
        cf.next.memtable += 1;
        hand_over(&cf.mem, &fresh, &cf.version, &options);
        let old = std::mem::replace(&mut cf.mem, fresh);
        old.mark_immutable();
        cf.imm.push_back(ImmutableMemTable { mem: Arc::clone(&old), next_log: log_number, reason });
        cf.trim_history();
        cf.publish();
        self.reports.info(format_args!(
            "[{}] New memtable created with log file: #{log_number}. Immutable memtables: {}.",
            cf.data.name,
            cf.imm.len() - 1
        ));
        self.scheduler().notify_memtable_sealed(&cf.data, &old);
        self.scheduler().update_stall(cf);
    }

    /// Number of the log that writes from now on go to: a new one unless the current is empty.
    fn start_log_if_used(&self, _: &Leadership) -> Result<u64> {
        // Where a section stays in sight of recovery, so must the end of each other one that a
        // table makes durable. Before the log's lock, which is taken under that of the state.
        let held = self.state.lock().files.log_holders.oldest().is_some();
        let mut wal = self.logs.at_rest();
        if let Some(error) = wal.failure() {
            // The writer that saw it fail may not have reported it yet. Only a resume may start
            // another log: it flushes everything that the failed one should hold.
            return Err(error.clone());
        }
        if wal.is_empty() {
            return Ok(wal.number());
        }
        let (old, number) = (wal.number(), self.new_file_number());
        let several = self.cfs.load().all().nth(1).is_some();
        match wal.switch(number, several || held) {
            Ok(None) => {}
            Ok(Some(reused)) => {
                self.reports.info(format_args!("reusing log {reused} from recycle list"));
            }
            Err(error) => {
                drop(wal);
                self.faults().background_error_of_leader(&error, Reason::WriteCallback);
                return Err(error);
            }
        }
        self.logs.history.end(old, self.last_sequence.load(Ordering::Acquire));
        Ok(number)
    }

    /// Becomes leader and seals the memtables of `ids` for `reason`. Suspends.
    pub(crate) fn seal_now(&self, ids: &BTreeSet<u32>, reason: FlushReason) -> Result<()> {
        self.with_errors_reported(self.seal_alone(ids, reason))
    }

    fn seal_alone(&self, ids: &BTreeSet<u32>, reason: FlushReason) -> Result<()> {
        let leader = self.exclusive_here()?;
        if let Some(error) = self.faults().stopping_error() {
            return Err(error);
        }
        self.switch_memtables(&leader, ids, reason)
    }
}

/// Ids of all column families that are not dropped.
pub(crate) fn all_ids(state: &DbState) -> BTreeSet<u32> {
    state.cfs.keys().copied().collect()
}

#[cfg(test)]
mod tests;
