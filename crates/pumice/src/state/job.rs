//! What the pools and tasks of a database are asked to do.
//!
//! The scheduler says what is to run; what it does is in files above it, which it does not know.
//!
//! Thread safety: plain data; a [`RunJob`] is called from threads of pools and from tasks.

use std::sync::Arc;

use crate::state::work::CompactionWork;

/// The body of a pool job or of a task that exists only while there is something to wait for.
pub(crate) enum Job {
    /// The flush that waits longest.
    Flush,
    /// The compaction that waits longest.
    Compaction,
    /// A picked compaction of the last level, on the bottom pool.
    BottomCompaction(Box<CompactionWork>),
    /// The ticks of the adaptive policy.
    Regulate,
    /// Waiting for files that become too old.
    Expire,
    /// Events that listeners have not been told of.
    DeliverEvents,
    /// Waiting until failed compactions may be tried again.
    RetryCompactions,
}

/// Runs jobs.
pub(crate) trait RunJob: Send + Sync {
    /// Runs `job` to its end. Suspends.
    fn run(self: Arc<Self>, job: Job);

    /// Automatic attempt to recover from a background error, of at most `most`; `tried` counts
    /// them. Returns whether it was the last one. Suspends.
    fn try_to_resume(self: Arc<Self>, tried: &mut i32, most: i32) -> bool;
}
