//! What a leader does before it writes: make room, or wait for it.
//!
//! Thread safety: everything takes [`Leadership`]. May wait and do I/O, and so suspends.

use std::sync::atomic::Ordering;

use pumice_base::{Error, Result};

use crate::commit::queue::Leadership;
use crate::engine::DbInner;
use crate::options::requests::WriteOptions;
use crate::stats::listener::FlushReason;

impl DbInner {
    /// Makes room for a write of `bytes`.
    #[inline]
    pub(crate) fn prepare_write(
        &self,
        leader: &Leadership,
        options: &WriteOptions,
        bytes: usize,
    ) -> Result<()> {
        if self.writes.attention.load(Ordering::Acquire) {
            self.handle_pending(leader)?;
        }
        let limit = self.logs.bytes_limit.load(Ordering::Relaxed);
        if self.logs.bytes.load(Ordering::Relaxed) > limit {
            self.switch_oldest_log(leader)?;
        }
        if let Some(manager) = &self.resources.write_buffer_manager
            && manager.should_flush()
        {
            self.switch_oldest_idle(leader)?;
        }
        if let Some(manager) = &self.resources.write_buffer_manager
            && manager.should_stall()
        {
            self.wait_for_buffer_memory(leader, options, manager)?;
        }
        if self.writes.controller.is_stopped() || self.writes.controller.is_delayed() {
            self.stall(leader, options, bytes as u64)?;
        }
        Ok(())
    }

    /// Checks all rare conditions: background error, shutdown, full memtables.
    fn handle_pending(&self, leader: &Leadership) -> Result<()> {
        self.writes.attention.store(false, Ordering::Release);
        if self.life.closing.load(Ordering::Acquire) {
            self.writes.attention.store(true, Ordering::Release);
            return Err(Error::shutdown("the database is closing"));
        }
        if let Some(error) = self.faults().stopping_error() {
            self.writes.attention.store(true, Ordering::Release);
            return Err(error);
        }
        let full = std::mem::take(&mut *self.writes.full_memtables.lock());
        if full.is_empty() {
            return Ok(());
        }
        self.switch_memtables(leader, &full, FlushReason::WriteBufferFull)
    }
}
