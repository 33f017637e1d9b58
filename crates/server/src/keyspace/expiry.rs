//! Expired keys: found on access and by compactions, deleted through the ordinary path.
//!
//! A compaction sees every record that it rewrites. It reports expired records but keeps them:
//! their deletion has to delete their elements, be counted and be published to subscribers, which
//! only the ordinary path does ([`super::Keyspace::reap`]). The queue is bounded; a key that finds
//! no room is reported again by a later compaction.
//!
//! Thread safety: everything may be shared. Callers pass the time in.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pumice::{CompactionFilter, FilterDecision};
use pumice_port::sync::Mutex;

use super::encoding::{Head, Place, place};

/// Maximum number of reports, and their bytes.
const QUEUE_KEYS: usize = 100_000;
const QUEUE_BYTES: usize = 16 << 20;

/// Keys that were seen to be expired.
#[derive(Default)]
pub struct ExpiredKeys {
    /// The latest time passed in, milliseconds since 1970.
    now: AtomicU64,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    keys: VecDeque<(u8, Vec<u8>)>,
    bytes: usize,
}

impl ExpiredKeys {
    /// The queue is empty.
    pub fn new() -> Arc<ExpiredKeys> {
        Arc::default()
    }
    /// Records that the time is `now`.
    pub fn saw(&self, now: u64) {
        if self.now.load(Ordering::Relaxed) < now {
            self.now.store(now, Ordering::Relaxed);
        }
    }
    /// Reports that this key of a stored database is expired.
    pub fn report(&self, db: u8, key: &[u8]) {
        let mut queue = self.queue.lock();
        if queue.keys.len() < QUEUE_KEYS && queue.bytes + key.len() <= QUEUE_BYTES {
            queue.keys.push_back((db, key.to_vec()));
            queue.bytes += key.len();
        }
    }
    /// One of the reported keys.
    pub fn take(&self) -> Option<(u8, Vec<u8>)> {
        let mut queue = self.queue.lock();
        let taken = queue.keys.pop_front()?;
        queue.bytes -= taken.1.len();
        Some(taken)
    }
}

/// What compactions call.
pub struct ExpiryFilter(pub Arc<ExpiredKeys>);

impl CompactionFilter for ExpiryFilter {
    fn name(&self) -> &str {
        "pumice.ExpiryFilter"
    }
    fn filter(&self, _level: i32, key: &[u8], value: &[u8]) -> FilterDecision {
        if value.first().is_some_and(|tag| tag & 0x80 != 0)
            && let Place::Record(_, db, name) = place(key)
            && let Ok(head) = Head::read(value)
            && head.is_expired(self.0.now.load(Ordering::Relaxed))
        {
            self.0.report(db, name);
        }
        FilterDecision::Keep
    }
}
