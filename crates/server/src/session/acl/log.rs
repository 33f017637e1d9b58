//! The log of refusals: ACL LOG.
//!
//! A refusal that repeats within a minute is counted, not listed again.
//!
//! Thread safety: everything may be shared.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use pumice_port::sync::Mutex;

/// How long similar refusals are merged.
const ALIKE_MILLIS: u64 = 60_000;
/// How many of the latest entries are searched for a similar one.
const LOOKED_AT: usize = 10;
/// Bytes that are kept of names that clients chose.
const NAME_BYTES: usize = 1024;

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// `command`, `key`, `channel` or `auth`.
    pub reason: &'static str,
    /// `toplevel` or `multi`.
    pub context: &'static str,
    /// What was refused: its name.
    pub object: Vec<u8>,
    /// The refused user.
    pub user: Vec<u8>,
}

/// Equal refusals, counted together.
#[derive(Clone, Debug)]
pub struct Entry {
    /// How many.
    pub count: u64,
    /// What they have in common.
    pub refusal: Refusal,
    /// Milliseconds since 1970 of the last one.
    pub millis: u64,
    /// The last client refused, as CLIENT LIST shows it.
    pub client: String,
}

/// See the module's head.
#[derive(Debug, Default)]
pub struct Log {
    entries: Mutex<VecDeque<Entry>>,
    most: AtomicU64,
    /// Refusals there were, by reason: command, key, channel, auth.
    pub counts: [AtomicU64; 4],
}

/// The reasons, in the order of [`Log::counts`].
pub const REASONS: [&str; 4] = ["command", "key", "channel", "auth"];

impl Log {
    /// Keeps this many entries from now on.
    pub fn set_most(&self, most: u64) {
        self.most.store(most, Ordering::Relaxed);
        self.entries.lock().truncate(most as usize);
    }

    /// Something was refused.
    pub fn add(&self, mut refusal: Refusal, client: String, millis: u64) {
        if let Some(at) = REASONS.iter().position(|reason| *reason == refusal.reason) {
            self.counts[at].fetch_add(1, Ordering::Relaxed);
        }
        refusal.object.truncate(NAME_BYTES);
        refusal.user.truncate(NAME_BYTES);
        let mut entries = self.entries.lock();
        let is_alike = |entry: &Entry| {
            entry.refusal == refusal && millis.saturating_sub(entry.millis) <= ALIKE_MILLIS
        };
        let alike = entries.iter().take(LOOKED_AT).position(is_alike);
        let known = alike.and_then(|at| entries.remove(at)).map_or(0, |entry| entry.count);
        entries.push_front(Entry { count: known + 1, refusal, millis, client });
        entries.truncate(self.most.load(Ordering::Relaxed) as usize);
    }

    /// Up to `most` entries, the latest first.
    pub fn entries(&self, most: usize) -> Vec<Entry> {
        self.entries.lock().iter().take(most).cloned().collect()
    }

    /// Forgets all entries.
    pub fn reset(&self) {
        self.entries.lock().clear();
    }
}
