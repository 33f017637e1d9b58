//! The state of a database between its open and its close.
//!
//! Thread safety: as the fields say; fields that are neither locked nor atomic never change after
//! the open. The order of the locks is in `lock_order`.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use pumice_base::{Error, Result};
use pumice_port::os::is_forked;
use pumice_port::sync::Mutex;

use crate::callbacks::Mark;
use crate::engine::DbInner;
use crate::engine::secondary::Following;
use crate::engine::staged_ingestion::StagedIngestions;
use crate::options::requests::{CancelFlag, WriteOptions};
use crate::state::DbState;
use crate::state::job::RunJob;
use crate::state::manual_queue::{aborted, paused};

/// See the module head.
pub(crate) struct Life {
    /// A close has begun: nothing is written any more.
    pub closing: AtomicBool,
    /// Everything to be saved is saved, and background work ends.
    pub shutting_down: AtomicBool,
    /// Marks tasks that work for it.
    pub mark: Mark,
    /// User code runs under its locks: calls check whether they come from there.
    pub runs_code: AtomicBool,
    /// The database itself, for jobs.
    pub me: OnceLock<Weak<DbInner>>,
    /// Calls that pause manual compactions, less those that let them run: they run unless it is
    /// positive. As in RocksDB it may be negative.
    pub manual_pauses: AtomicI64,
    /// Calls that abort all compactions, less those that let them run: none runs if there are any.
    /// Changed under the state lock.
    pub compaction_aborts: AtomicU64,
    /// How a secondary or a follower reads what another process writes.
    pub following: Mutex<Following>,
    /// Prepared ingestions, until they are committed; the close discards them. No other lock is
    /// taken under it.
    pub staged: Mutex<StagedIngestions>,
}

impl Life {
    /// Refuses calls from code that runs under locks, and in a child that `fork` made.
    ///
    /// # Errors
    /// Aborted; NotSupported in a child.
    #[inline]
    pub fn check_caller(&self) -> Result<()> {
        let ask = self.runs_code.load(Ordering::Relaxed) | is_forked();
        if ask { self.mark.check_may_lock() } else { Ok(()) }
    }

    /// Nothing is written any more, or what is written stays in memory and logs.
    pub fn is_ending(&self) -> bool {
        self.closing.load(Ordering::Acquire) || self.shutting_down.load(Ordering::Acquire)
    }

    /// No compaction may run.
    pub fn aborts_compactions(&self) -> bool {
        self.compaction_aborts.load(Ordering::Acquire) > 0
    }

    /// Whether a manual compaction with that switch may run now.
    ///
    /// # Errors
    /// Incomplete, with the subcode that says why not.
    pub fn check_manual(&self, canceled: Option<&CancelFlag>) -> Result<()> {
        if self.aborts_compactions() {
            return Err(aborted());
        }
        let paused_all = self.manual_pauses.load(Ordering::Acquire) > 0;
        if paused_all || canceled.is_some_and(CancelFlag::is_set) { Err(paused()) } else { Ok(()) }
    }

    pub(crate) fn check_alive(&self, state: &DbState) -> Result<()> {
        if self.shutting_down.load(Ordering::Acquire) {
            return Err(Error::shutdown("the database is closing"));
        }
        match state.errors.stopping_jobs() {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    /// Who runs jobs and tasks; None before the database is assembled and after it is gone.
    pub(crate) fn runner(&self) -> Option<Arc<dyn RunJob>> {
        self.me.get()?.upgrade().map(|db| db as Arc<dyn RunJob>)
    }

    /// A write that must not wait for jobs; one from a job would wait for itself.
    pub(crate) fn must_not_wait(&self, options: &WriteOptions) -> bool {
        options.no_slowdown || self.mark.is_inside()
    }

    /// Whether this task may wait for a stall; the leader itself, in code that it calls, waits for
    /// no turn.
    pub(crate) fn may_wait_for_stall(&self) -> Result<bool> {
        self.mark.check_may_lock()?;
        Ok(!self.mark.is_inside())
    }
}
