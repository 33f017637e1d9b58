//! Job numbers, counts of background errors, and events not yet reported to listeners.
//!
//! Thread safety: from any thread.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use pumice_port::sync::Mutex;
use pumice_port::time;

use crate::lock_order;
use crate::state::errors::UnreportedError;
use crate::stats::listener::{MemTableInfo, WriteStallInfo};

/// Number of the job that opened the database.
pub(crate) const OPEN_JOB: u64 = 1;

/// Numbers jobs, counts background errors, and keeps the events not yet reported to listeners.
pub(crate) struct EventState {
    pub last_job: AtomicU64,
    pub background_errors: AtomicU64,
    /// See `info_dumps`.
    pub last_dump_micros: AtomicU64,
    /// The same for the last sample of the statistics.
    pub last_sample_micros: AtomicU64,
    pub deferred: Mutex<Deferred>,
    /// Errors that their tasks still have to report to the listeners.
    pub unreported: Mutex<Vec<UnreportedError>>,
}

#[derive(Default)]
pub(crate) struct Deferred {
    pub events: VecDeque<DeferredEvent>,
    /// A job that delivers them is scheduled or running.
    pub delivering: bool,
}

pub(crate) enum DeferredEvent {
    Sealed(MemTableInfo),
    Stall(WriteStallInfo),
}

impl Default for EventState {
    fn default() -> Self {
        EventState {
            last_job: AtomicU64::new(OPEN_JOB),
            background_errors: AtomicU64::new(0),
            last_dump_micros: AtomicU64::new(time::now_micros()),
            last_sample_micros: AtomicU64::new(time::now_micros()),
            deferred: Mutex::ranked(&lock_order::EVENTS, Deferred::default()),
            unreported: Mutex::ranked(&lock_order::UNREPORTED, Vec::new()),
        }
    }
}

impl EventState {
    /// Counts a background error.
    pub fn background_error(&self) {
        self.background_errors.fetch_add(1, Ordering::Relaxed);
    }

    /// Background errors since the database was opened.
    pub fn background_errors(&self) -> u64 {
        self.background_errors.load(Ordering::Relaxed)
    }

    pub fn next_job(&self) -> u64 {
        self.last_job.fetch_add(1, Ordering::Relaxed) + 1
    }
}
