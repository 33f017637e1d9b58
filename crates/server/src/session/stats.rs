//! Counters of the server, for INFO.
//!
//! Thread safety: atomics; each is exact by itself.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

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
    /// Commands a second, lately.
    pub commands_per_second: AtomicU64,
    /// Bytes received and sent a second, lately.
    pub received_per_second: AtomicU64,
    /// See `received_per_second`.
    pub sent_per_second: AtomicU64,
    /// Times that connections which are gone received, and sent.
    pub receives: AtomicU64,
    /// See `receives`.
    pub sends: AtomicU64,
    /// Microseconds of the cycle that deletes expired keys.
    pub expire_micros: AtomicU64,
    /// Rounds of it that ended because of the time they took.
    pub expire_cut_off: AtomicU64,
    /// Checkpoints that SAVE has made.
    pub saves: AtomicU64,
    /// Milliseconds that the last one took.
    pub save_millis: AtomicU64,
    /// [`Keyspace::writes`](crate::keyspace::Keyspace::writes) at the last SAVE or the start.
    pub saved_writes: AtomicU64,
    /// The last SAVE failed.
    pub save_failed: AtomicBool,
    /// Memory of the process when it began to listen, in bytes.
    pub startup_bytes: AtomicU64,
    /// The loops' sockets are served by io_uring.
    pub is_uring: AtomicBool,
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
            &self.receives,
            &self.sends,
            &self.expire_micros,
            &self.expire_cut_off,
        ];
        all.into_iter().for_each(|counter| counter.store(0, Ordering::Relaxed));
    }
}

/// How fast a counter grows, over its last samples.
#[derive(Default)]
pub struct Rate(VecDeque<(u64, u64)>);

impl Rate {
    /// Growth a second since the oldest of the last sixteen samples; the last one is taken now, at
    /// `nanos` on the monotonic clock.
    pub fn sample(&mut self, nanos: u64, count: u64) -> u64 {
        const SAMPLES: usize = 16;
        self.0.push_back((nanos, count));
        if self.0.len() > SAMPLES {
            self.0.pop_front();
        }
        let (began, first) = self.0[0];
        let grown = u128::from(count.saturating_sub(first)) * 1_000_000_000;
        let rate = grown / u128::from(nanos.saturating_sub(began).max(1));
        u64::try_from(rate).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::Rate;

    #[pumice_test_macros::test]
    fn a_rate_is_that_of_the_last_samples() {
        let mut rate = Rate::default();
        assert_eq!(rate.sample(5_000, 70), 0);
        let second = 1_000_000_000;
        assert_eq!(rate.sample(second + 5_000, 170), 100);
        // The counter was set to zero.
        assert_eq!(rate.sample(2 * second, 0), 0);
        for at in 3..40 {
            rate.sample(at * second, at * 7);
        }
        assert_eq!(rate.sample(40 * second, 40 * 7), 7);
    }
}
