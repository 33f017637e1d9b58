//! The handle's calls that pause and end background work.
//!
//! Thread safety: from anywhere. Those that wait for jobs suspend.

use pumice_base::Result;

use crate::db::api::Db;

impl Db {
    /// Stops starting background jobs and waits for the running ones.
    ///
    /// # Panics
    /// In code that the database calls under its locks (comparators, prefix extractors, files).
    pub fn pause_background_work(&self) {
        self.inner().pause_background_work();
    }
    /// Ends one [`Db::pause_background_work`].
    ///
    /// # Errors
    /// InvalidArgument if none is outstanding.
    pub fn continue_background_work(&self) -> Result<()> {
        self.inner().continue_background_work()
    }
    /// Makes manual compactions Incomplete, and waits until none runs. They may run again once
    /// [`Db::enable_manual_compaction`] has been called as many times; calls of that one count even
    /// before.
    pub fn disable_manual_compaction(&self) {
        self.inner().disable_manual_compaction();
    }
    /// See [`Db::disable_manual_compaction`].
    pub fn enable_manual_compaction(&self) {
        self.inner().enable_manual_compaction();
    }
    /// Ends the running compactions early, and lets none begin: automatic ones wait, and calls that
    /// compact are Incomplete with the subcode
    /// [`CompactionAborted`](crate::SubCode::CompactionAborted). Waits until none runs, but not in
    /// code that a job calls; one that a [compaction service](crate::CompactionService) runs is
    /// waited for to its end. They run again once [`Db::resume_all_compactions`] has been called as
    /// many times.
    ///
    /// Flushes go on until there are as many files as stop writes: from then on writers, flushes
    /// with `allow_write_stall = false` and [`Db::wait_for_compact`] wait for the resumption.
    ///
    /// # Panics
    /// In code that the database calls under its locks (comparators, prefix extractors, files).
    pub fn abort_all_compactions(&self) {
        self.inner().abort_all_compactions();
    }
    /// Ends one [`Db::abort_all_compactions`]; without one it does nothing.
    ///
    /// # Panics
    /// As [`Db::abort_all_compactions`].
    pub fn resume_all_compactions(&self) {
        self.inner().resume_all_compactions();
    }
    /// Ends background work for good, as a close does: unlogged writes are flushed unless
    /// `avoid_flush_during_shutdown`, then no flush or compaction starts, and running ones end
    /// early; with `wait` none runs on return. Reads go on, and so do writes until memtables are
    /// full, which are then ShutdownInProgress. What they write is in the log alone.
    ///
    /// # Errors
    /// Those of flushing; the work has ended all the same. Aborted, with nothing done, in code that
    /// a job calls.
    pub fn cancel_all_background_work(&self, wait: bool) -> Result<()> {
        self.inner().cancel_all_background_work(wait)
    }
}
