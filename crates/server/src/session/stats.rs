//! Counters of the server, for INFO.
//!
//! Thread safety: atomics; each is exact by itself.

use std::sync::atomic::{AtomicU64, Ordering};

/// See the module's head.
#[derive(Default)]
pub struct Stats {
    /// Connections accepted.
    pub connections: AtomicU64,
    /// Connections refused because there were too many.
    pub refused: AtomicU64,
    /// Commands carried out.
    pub commands: AtomicU64,
    /// Reads of keys that were there.
    pub hits: AtomicU64,
    /// Reads of keys that were not.
    pub misses: AtomicU64,
    /// Keys deleted because they had expired.
    pub expired: AtomicU64,
    /// Bytes received.
    pub received: AtomicU64,
    /// Bytes sent.
    pub sent: AtomicU64,
    /// Replies that were errors.
    pub errors: AtomicU64,
    /// Commands that panicked.
    pub panics: AtomicU64,
    /// Milliseconds since 1970 when the server started.
    pub started_millis: AtomicU64,
    /// Seconds since 1970 of the last SAVE.
    pub saved_seconds: AtomicU64,
}

impl Stats {
    /// One more.
    pub fn add(counter: &AtomicU64, n: u64) {
        counter.fetch_add(n, Ordering::Relaxed);
    }
    /// How many.
    pub fn get(counter: &AtomicU64) -> u64 {
        counter.load(Ordering::Relaxed)
    }
    /// A key was read.
    pub fn looked_up(&self, was_there: bool) {
        Self::add(if was_there { &self.hits } else { &self.misses }, 1);
    }
    /// CONFIG RESETSTAT.
    pub fn reset(&self) {
        let all = [
            &self.connections,
            &self.refused,
            &self.commands,
            &self.hits,
            &self.misses,
            &self.expired,
            &self.received,
            &self.sent,
            &self.errors,
            &self.panics,
        ];
        all.into_iter().for_each(|counter| counter.store(0, Ordering::Relaxed));
    }
}
