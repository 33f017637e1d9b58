//! Keeps the memory of memtables under a limit that databases share: seals the oldest ones, waits.
//!
//! With `allow_stall` a leader waits at the limit, and meanwhile no other task of its database can
//! seal a memtable. So it keeps sealing until the rest fits, has sealed memtables flushed that wait
//! to be merged with others, and asks the other databases of the manager, which may have no writer.
//! When there is nothing left to flush in any of them it does not wait.
//!
//! Thread safety: everything takes [`Leadership`] except `relieve`, which becomes leader if there
//! is none. Suspends.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

use pumice_base::Result;
use pumice_memtable::{BufferUser, StallWaiter, WriteBufferManager};
use pumice_port::sync::Event;

use crate::commit::queue::Leadership;
use crate::engine::DbInner;
use crate::engine::memtable_switch::Exclusive;
use crate::engine::stalls::STOP_POLL;
use crate::options::requests::WriteOptions;
use crate::stats::listener::FlushReason;

/// A writer that waits for the write buffer manager.
#[derive(Default)]
struct BufferStall(Event);

impl StallWaiter for BufferStall {
    fn resume(&self) {
        self.0.set();
    }
}

impl BufferUser for DbInner {
    fn relieve(&self) -> bool {
        let Some(manager) = &self.resources.write_buffer_manager else { return false };
        if self.dir.read_only || self.check_waiting().is_err() {
            return false;
        }
        let Some(leader) = self.writes.queue.try_lead() else {
            // The leader checks the limit itself, or will be asked again; a stalled one has
            // checked.
            return !self.writes.queue.is_stalled();
        };
        let leader = Exclusive { db: self, leader };
        self.free_memory(&leader, manager).unwrap_or(false)
    }
}

impl DbInner {
    /// Waits until flushes have brought the memory of all memtables below the shared limit, or
    /// until they cannot.
    pub(super) fn wait_for_buffer_memory(
        &self,
        leader: &Leadership,
        options: &WriteOptions,
        manager: &WriteBufferManager,
    ) -> Result<()> {
        let _stall = self.begin_stall(leader, options)?;
        self.reports.stats.add_buffer_manager_stop();
        let me: Weak<dyn BufferUser> = self.life.me.get().cloned().unwrap_or_default();
        while manager.should_stall() {
            self.check_waiting()?;
            let own = self.free_memory(leader, manager)?;
            if !(own || manager.relieve_others(&me)) {
                break;
            }
            let resumed = Arc::new(BufferStall::default());
            manager.begin_stall(Arc::clone(&resumed) as Arc<dyn StallWaiter>);
            resumed.0.wait_timeout(STOP_POLL);
        }
        Ok(())
    }

    /// Seals memtables while the active ones alone are over the limit, and has all sealed ones
    /// flushed; returns whether there are any.
    fn free_memory(&self, leader: &Leadership, manager: &WriteBufferManager) -> Result<bool> {
        // There are no writes meanwhile, so that one more sealed memtable stops none.
        while manager.must_flush() && self.switch_oldest(leader, true)? {}
        let mut state = self.state.lock();
        let sealed = state.cfs.values_mut().filter(|cf| !cf.imm.is_empty());
        let sealed: Vec<u32> = sealed
            .map(|cf| {
                cf.request_flush();
                cf.data.id
            })
            .collect();
        for id in &sealed {
            state.queue_flush(*id);
        }
        self.scheduler().schedule_background(&mut state);
        Ok(!sealed.is_empty())
    }

    /// The write-buffer budget is used up: seals the oldest memtable that has entries. Families
    /// that already have one waiting for a flush are skipped, as by RocksDB's
    /// `HandleWriteBufferManagerFlush`: sealing another would only bring their writers closer to a
    /// stop. False if none is left.
    pub(super) fn switch_oldest_idle(&self, leader: &Leadership) -> Result<bool> {
        self.switch_oldest(leader, false)
    }

    /// As `switch_oldest_idle`; with `any` the families that it skips come last.
    fn switch_oldest(&self, leader: &Leadership, any: bool) -> Result<bool> {
        let oldest = {
            let state = self.state.lock();
            let candidates = state.cfs.values().filter(|cf| !cf.mem.is_empty());
            let idle = candidates.filter(|cf| any || !cf.has_flush_to_come());
            idle.min_by_key(|cf| (cf.has_flush_to_come(), cf.mem.earliest_seq()))
                .map(|cf| cf.data.id)
        };
        let Some(id) = oldest else { return Ok(false) };
        self.switch_memtables(leader, &BTreeSet::from([id]), FlushReason::WriteBufferManager)?;
        Ok(true)
    }
}
