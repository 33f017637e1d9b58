//! The purpose for which a task reads and writes files.
//!
//! Set by the code that begins the work ([`during`]), and read where files are read and written, so
//! that the code in between need not pass it on. Names are those of RocksDB's `Env::IOActivity`.
//!
//! Thread safety: each task has its own.

use std::cell::Cell;

/// See the head of this file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IoActivity {
    /// Unknown.
    #[default]
    Unknown,
    /// Flush of memtables.
    Flush,
    /// Compaction.
    Compaction,
    /// Opening a database.
    DbOpen,
    /// A point read.
    Get,
    /// Several point reads as one.
    MultiGet,
    /// An iterator of the user's.
    DbIterator,
}

pumice_port::task_local! {
    static ACTIVITY: Cell<IoActivity> = const { Cell::new(IoActivity::Unknown) };
}

/// Sets the activity back to what it was.
struct Restore(IoActivity);

impl Drop for Restore {
    fn drop(&mut self) {
        ACTIVITY.set(self.0);
    }
}

/// What the calling task does.
pub fn current() -> IoActivity {
    ACTIVITY.get()
}

/// Runs `work`, during which the calling task does `activity`.
pub fn during<R>(activity: IoActivity, work: impl FnOnce() -> R) -> R {
    let _restore = Restore(ACTIVITY.get());
    ACTIVITY.set(activity);
    work()
}
