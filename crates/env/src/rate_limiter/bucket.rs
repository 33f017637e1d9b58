//! The token bucket inside a rate limiter: which request gets how many tokens of a refill, in which
//! order.
//!
//! Plain data: time is an argument, waiters are names for requests, nothing blocks here.
//!
//! A request takes the available tokens and queues for the rest behind others of its priority. A
//! refill serves the queues in an order that `fairness` changes at times, each of them first in,
//! first out; the first request that does not fit takes the remaining tokens and blocks all later
//! ones, so that a large request is not overtaken forever.
//!
//! Invariants:
//! 1. Tokens are left only when every queue is empty.
//! 2. A queued request has bytes left to get.
//!
//! Thread safety: one owner; `RateLimiter` keeps it behind its lock.

use super::priority::IoPriority;
use pumice_base::random::Rng;
use std::collections::VecDeque;

/// A request that waits for the rest of its bytes.
#[derive(Debug)]
struct Queued<W> {
    left: u64,
    waiter: W,
}

/// See the head of this file. `W` identifies a queued request.
#[derive(Debug)]
pub(super) struct Bucket<W> {
    rate_bytes_per_sec: u64,
    refill_period_micros: u64,
    /// 0: as much as one refill.
    single_burst_bytes: u64,
    fairness: u64,
    available: u64,
    next_refill_micros: u64,
    queues: [VecDeque<Queued<W>>; IoPriority::COUNT],
    random: Rng,
}

/// The order in which a refill serves the queues.
pub(super) fn service_order(high_last: bool, mid_after_low: bool) -> [IoPriority; 4] {
    use IoPriority::{High, Low, Mid, User};
    match (high_last, mid_after_low) {
        (false, false) => [User, High, Mid, Low],
        (false, true) => [User, High, Low, Mid],
        (true, false) => [User, Mid, Low, High],
        (true, true) => [User, Low, Mid, High],
    }
}

impl<W> Bucket<W> {
    pub(super) fn new(
        rate_bytes_per_sec: u64,
        refill_period_micros: u64,
        fairness: u64,
        single_burst_bytes: u64,
        now_micros: u64,
    ) -> Self {
        Bucket {
            rate_bytes_per_sec,
            refill_period_micros,
            single_burst_bytes,
            fairness,
            available: 0,
            next_refill_micros: now_micros,
            queues: std::array::from_fn(|_| VecDeque::new()),
            // Only for fairness. Virtual time makes it repeatable in a simulation.
            random: Rng::new(now_micros),
        }
    }

    pub(super) fn rate_bytes_per_sec(&self) -> u64 {
        self.rate_bytes_per_sec
    }
    pub(super) fn set_rate(&mut self, rate_bytes_per_sec: u64) {
        self.rate_bytes_per_sec = rate_bytes_per_sec;
    }
    pub(super) fn set_single_burst(&mut self, bytes: u64) {
        self.single_burst_bytes = bytes;
    }

    /// Tokens of one refill, at least 1, so that a low rate is not rounded down to nothing.
    pub(super) fn refill_bytes(&self) -> u64 {
        let bytes =
            u128::from(self.rate_bytes_per_sec) * u128::from(self.refill_period_micros) / 1_000_000;
        u64::try_from(bytes).unwrap_or(u64::MAX).max(1)
    }
    /// The most bytes that one request should have.
    pub(super) fn burst_bytes(&self) -> u64 {
        match self.single_burst_bytes {
            0 => self.refill_bytes(),
            bytes => bytes,
        }
    }
    pub(super) fn queued(&self, priority: IoPriority) -> usize {
        self.queues[priority as usize].len()
    }

    /// Takes as much of `bytes` as is available; the rest has to be queued.
    #[must_use]
    pub(super) fn take(&mut self, bytes: u64) -> u64 {
        let now = bytes.min(self.available);
        self.available -= now;
        bytes - now
    }

    /// Queues the rest of a request after `take`; not 0.
    pub(super) fn queue(&mut self, left: u64, priority: IoPriority, waiter: W) {
        debug_assert!(left > 0 && self.available == 0, "invariants 1 and 2");
        self.queues[priority as usize].push_back(Queued { left, waiter });
    }

    /// Microseconds until the next refill is due; 0 if it is.
    pub(super) fn micros_to_refill(&self, now_micros: u64) -> u64 {
        self.next_refill_micros.saturating_sub(now_micros)
    }

    /// Fills the bucket and hands its tokens out; calls `granted` for every request that now has
    /// all its bytes. The next refill is due a period after `now_micros`.
    pub(super) fn refill(&mut self, now_micros: u64, mut granted: impl FnMut(IoPriority, W)) {
        self.next_refill_micros = now_micros.saturating_add(self.refill_period_micros);
        self.available = self.available.max(self.refill_bytes());
        let high_last = self.random.one_in(self.fairness);
        let mid_after_low = self.random.one_in(self.fairness);
        for priority in service_order(high_last, mid_after_low) {
            let queue = &mut self.queues[priority as usize];
            while let Some(front) = queue.front_mut() {
                let given = front.left.min(self.available);
                self.available -= given;
                front.left -= given;
                if front.left > 0 {
                    return;
                }
                if let Some(done) = queue.pop_front() {
                    granted(priority, done.waiter);
                }
            }
        }
    }

    /// The first in the highest queue that is not empty.
    pub(super) fn first_waiter(&self) -> Option<&W> {
        self.queues.iter().rev().find_map(|queue| queue.front()).map(|queued| &queued.waiter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use IoPriority::{High, Low, Mid, User};

    fn refill(bucket: &mut Bucket<u32>, now: u64) -> Vec<u32> {
        let mut done = Vec::new();
        bucket.refill(now, |_, waiter| done.push(waiter));
        done
    }

    /// Whether a request got all its bytes at once; it is queued otherwise.
    fn ask(bucket: &mut Bucket<u32>, bytes: u64, priority: IoPriority, waiter: u32) -> bool {
        let left = bucket.take(bytes);
        if left > 0 {
            bucket.queue(left, priority, waiter);
        }
        left == 0
    }

    /// A bucket whose fairness never reverses the order within a test.
    fn strict(rate: u64) -> Bucket<u32> {
        Bucket::new(rate, 1_000_000, u64::MAX, 0, 0)
    }

    #[pumice_test_macros::test]
    fn the_order_of_service_follows_the_two_coins() {
        assert_eq!(service_order(false, false), [User, High, Mid, Low]);
        assert_eq!(service_order(false, true), [User, High, Low, Mid]);
        assert_eq!(service_order(true, false), [User, Mid, Low, High]);
        assert_eq!(service_order(true, true), [User, Low, Mid, High]);
    }

    #[pumice_test_macros::test]
    fn a_partial_grant_keeps_the_place_in_the_queue() {
        let mut bucket = strict(100);
        assert!(!ask(&mut bucket, 250, Low, 1));
        assert!(!ask(&mut bucket, 10, Low, 2), "nothing passes a waiting request");
        assert_eq!(refill(&mut bucket, 0), [0u32; 0]);
        assert_eq!(refill(&mut bucket, 1), [0u32; 0]);
        assert_eq!(refill(&mut bucket, 2), [1, 2]);
        // 300 came in, 260 were requested.
        assert!(ask(&mut bucket, 40, High, 3));
        assert!(!ask(&mut bucket, 1, High, 4));
    }

    #[pumice_test_macros::test]
    fn the_first_that_does_not_fit_blocks_lower_queues() {
        let mut bucket = strict(100);
        assert!(!ask(&mut bucket, 1, Low, 1));
        assert!(!ask(&mut bucket, 150, High, 2));
        assert!(!ask(&mut bucket, 20, User, 3));
        assert_eq!(bucket.first_waiter(), Some(&3));
        assert_eq!(refill(&mut bucket, 0), [3]);
        assert_eq!(bucket.first_waiter(), Some(&2));
        assert_eq!(refill(&mut bucket, 1), [2, 1]);
        assert_eq!(bucket.first_waiter(), None);
    }

    /// One refill in `fairness` serves the low queue first: it gets that share, however much the
    /// high queue wants.
    #[pumice_test_macros::test]
    fn fairness_gives_low_its_share() {
        let mut bucket: Bucket<u32> = Bucket::new(100, 1_000_000, 10, 0, 0);
        let mut low = 0;
        assert!(!ask(&mut bucket, 100, Low, 0));
        assert!(!ask(&mut bucket, 100, High, 1));
        for now in 0..10_000 {
            for waiter in refill(&mut bucket, now) {
                low += u32::from(waiter == 0);
                let priority = if waiter == 0 { Low } else { High };
                assert!(!ask(&mut bucket, 100, priority, waiter));
            }
        }
        assert!((800..1200).contains(&low), "{low} of 10,000 refills went to the low queue");
    }

    #[pumice_test_macros::test]
    fn tokens_do_not_pile_up() {
        let mut bucket = strict(100);
        refill(&mut bucket, 0);
        refill(&mut bucket, 1_000_000);
        assert!(ask(&mut bucket, 100, Low, 1));
        assert!(!ask(&mut bucket, 1, Low, 2));
    }

    #[pumice_test_macros::test]
    fn rates_beyond_any_device_do_not_overflow() {
        let mut bucket: Bucket<u32> = Bucket::new(i64::MAX as u64, u64::MAX, 1, 0, u64::MAX - 1);
        assert_eq!(bucket.refill_bytes(), u64::MAX);
        refill(&mut bucket, u64::MAX);
        assert!(ask(&mut bucket, u64::MAX, User, 1));
        bucket.set_rate(1);
        assert_eq!(strict(1).burst_bytes(), 1);
    }
}
