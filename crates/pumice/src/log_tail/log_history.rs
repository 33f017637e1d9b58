//! What is known about the logs without reading them: where each begins and where its valid records
//! end.
//!
//! A log may hold records that are in no database: writes that were refused when the log failed,
//! and records that recovery did not apply. Other writes have their sequence numbers now.
//!
//! Thread safety: all of it from anywhere; the lock is a leaf and never held over I/O.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use pumice_base::{FileNumber, SequenceNumber};
use pumice_port::sync::Mutex;

use crate::lock_order;

/// Ends of this many logs are remembered. For older ones the beginning of the next log is used.
const ENDS_MAX: usize = 4096;

/// See the module head.
pub(crate) struct LogHistory {
    facts: Mutex<Facts>,
    /// When the archive was last checked, in seconds since 1970; 0 for never.
    purged: AtomicU64,
}

#[derive(Default)]
struct Facts {
    /// Sequence number of the first record, by log.
    starts: BTreeMap<FileNumber, SequenceNumber>,
    /// The last sequence number that was published when the next log took its place.
    ends: BTreeMap<FileNumber, SequenceNumber>,
    /// The first log of this open.
    first_log: FileNumber,
    /// The last sequence number that recovery gave.
    recovered: SequenceNumber,
}

impl LogHistory {
    pub fn new() -> Self {
        let facts = Mutex::ranked(&lock_order::LOG_HISTORY, Facts::default());
        LogHistory { facts, purged: AtomicU64::new(0) }
    }

    /// The database is open: log `first` receives writes after sequence number `recovered`.
    pub fn begin(&self, first: FileNumber, recovered: SequenceNumber) {
        let mut facts = self.facts.lock();
        (facts.first_log, facts.recovered) = (first, recovered);
    }

    /// Another log receives writes after sequence number `last`. Must be called before any of those
    /// is published.
    pub fn end(&self, log: FileNumber, last: SequenceNumber) {
        let mut facts = self.facts.lock();
        facts.ends.insert(log, last);
        if facts.ends.len() > ENDS_MAX {
            facts.ends.pop_first();
        }
    }

    /// The last valid sequence number in `log`; None if that is unknown, as for the current one.
    pub fn end_of(&self, log: FileNumber) -> Option<SequenceNumber> {
        let facts = self.facts.lock();
        if log < facts.first_log {
            return Some(facts.recovered);
        }
        facts.ends.get(&log).copied()
    }

    /// Sequence number of the first record in `log`, if it was read since the open.
    pub fn start_of(&self, log: FileNumber) -> Option<SequenceNumber> {
        self.facts.lock().starts.get(&log).copied()
    }
    /// See `start_of`.
    pub fn set_start(&self, log: FileNumber, start: SequenceNumber) {
        self.facts.lock().starts.insert(log, start);
    }
    /// Forgets the start of logs that no longer exist.
    pub fn retain_starts(&self, is_there: impl Fn(FileNumber) -> bool) {
        self.facts.lock().starts.retain(|log, _| is_there(*log));
    }

    /// Whether the archive should be checked now, at `seconds` since 1970; then not again for
    /// `interval` seconds, unless the clock is set.
    pub fn claim_purge(&self, seconds: u64, interval: u64) -> bool {
        let due = |last: u64| (seconds.abs_diff(last) >= interval).then_some(seconds);
        self.purged.fetch_update(Ordering::Relaxed, Ordering::Relaxed, due).is_ok()
    }
}
