//! The share of the processors that compactions out of L0 need to keep up with flushes.
//!
//! Lowering a job spares readers no more than the job uses. Where that is little, all that it does
//! is to keep L0 full for longer, and every read looks into every file of L0. So compactions out
//! of L0 are lowered from a share of the processors on ([`LOWERED_FROM`]). The share is of what is
//! asked for (bytes flushed a second, times processor time of a byte), not of what is used: a
//! starved job uses little and wants much.
//!
//! Thread safety: plain data. What it does not do: look at a clock; moments are its caller's.

use std::collections::VecDeque;

/// From this share of all processors on they are lowered. With two readers, a writer and a merge
/// on two processors, lowering at half of it made reads a third slower on average (16 files in L0
/// in place of 8) and their p99.9 a tenth better.
pub(crate) const LOWERED_FROM: f64 = 0.1;

/// Flushes closer together than this are one, so that those of many families at once are.
const TOGETHER_SECONDS: f64 = 0.25;

/// So many flushes tell how much is flushed a second; as many as L0 takes before it is compacted,
/// by default.
const FLUSHES: usize = 4;

/// What a job leaves of the weight of those before it.
const OLDER_JOBS: f64 = 0.5;

/// See the module head.
#[derive(Clone, Debug, Default)]
pub(crate) struct Level0Cost {
    /// The last flushes and the one before them: when, and how many bytes.
    flushes: VecDeque<(f64, f64)>,
    /// Bytes that compactions took out of L0, older jobs for less, and their processor time.
    taken_bytes: f64,
    cpu_seconds: f64,
}

impl Level0Cost {
    /// A flush wrote a table of this many bytes.
    pub fn flushed(&mut self, now_seconds: f64, bytes: f64) {
        match self.flushes.back_mut() {
            Some((at, sum)) if now_seconds - *at < TOGETHER_SECONDS => *sum += bytes,
            _ => self.flushes.push_back((now_seconds, bytes)),
        }
        if self.flushes.len() > FLUSHES + 1 {
            self.flushes.pop_front();
        }
    }

    /// A compaction took this many bytes out of L0; `cpu_seconds` are of all its threads.
    pub fn compacted(&mut self, bytes: f64, cpu_seconds: f64) {
        self.taken_bytes = self.taken_bytes * OLDER_JOBS + bytes;
        self.cpu_seconds = self.cpu_seconds * OLDER_JOBS + cpu_seconds;
    }

    /// The share that they want of this many processors; 0 before two flushes and one compaction.
    /// Above 1 is more than there is.
    pub fn share(&self, now_seconds: f64, processors: f64) -> f64 {
        if self.taken_bytes <= 0.0 || processors <= 0.0 {
            return 0.0;
        }
        self.flushed_rate(now_seconds) * self.cpu_seconds / self.taken_bytes / processors
    }

    /// Bytes a second since the first of them. Without newer ones it falls.
    fn flushed_rate(&self, now_seconds: f64) -> f64 {
        let Some((first, _)) = self.flushes.front() else { return 0.0 };
        let bytes: f64 = self.flushes.iter().skip(1).map(|(_, bytes)| bytes).sum();
        bytes / (now_seconds - first).max(TOGETHER_SECONDS)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Flushes of `bytes` every `every` seconds for `seconds`, and a compaction of 40 ns a byte
    /// after each fourth.
    fn after(bytes: f64, every: f64, seconds: f64) -> (Level0Cost, f64) {
        let (mut cost, mut now, mut flushes) = (Level0Cost::default(), 100.0, 0);
        while now < 100.0 + seconds {
            now += every;
            flushes += 1;
            cost.flushed(now, bytes);
            if flushes % 4 == 0 {
                cost.compacted(4.0 * bytes, 4.0 * bytes * 40e-9);
            }
        }
        (cost, now)
    }

    #[pumice_test_macros::test]
    fn the_share_is_that_of_what_is_flushed() {
        for (bytes, every, processors) in [(4e6, 1.0, 2.0), (4e6, 0.4, 4.0), (256e6, 60.0, 8.0)] {
            let (cost, now) = after(bytes, every, 10.0 * every);
            let wanted = bytes / every * 40e-9 / processors;
            assert_close(cost.share(now, processors), wanted);
            // A while later, as nothing was flushed since.
            assert_close(cost.share(now + 4.0 * every, processors), wanted / 2.0);
        }
    }

    #[pumice_test_macros::test]
    fn flushes_of_many_families_at_once_are_one() {
        let mut cost = Level0Cost::default();
        let mut now = 50.0;
        for _ in 0..20 {
            now += 2.0;
            (0..10).for_each(|family| cost.flushed(now + f64::from(family) * 0.01, 1e6));
        }
        cost.compacted(1e6, 0.1);
        assert_close(cost.share(now, 2.0), 10e6 / 2.0 * 100e-9 / 2.0);
    }

    #[pumice_test_macros::test]
    fn a_starved_job_wants_as_much_as_before() {
        let (mut cost, mut now) = after(10e6, 0.5, 30.0);
        let before = cost.share(now, 2.0);
        assert!(before > LOWERED_FROM);
        // Flushes go on, no compaction ends.
        for _ in 0..20 {
            now += 0.5;
            cost.flushed(now, 10e6);
        }
        assert_close(cost.share(now, 2.0), before);
    }

    #[pumice_test_macros::test]
    fn a_load_that_begins_after_a_rest_is_known_after_four_flushes() {
        let (mut cost, mut now) = after(1e6, 1.0, 20.0);
        now += 3600.0;
        for flushes in 1..=5 {
            cost.flushed(now, 50e6);
            let share = cost.share(now, 2.0);
            assert_eq!(share > LOWERED_FROM, flushes > 4, "{share} after {flushes}");
            now += 0.5;
        }
    }

    #[pumice_test_macros::test]
    fn nothing_is_wanted_before_anything_was_seen() {
        let mut cost = Level0Cost::default();
        assert_eq!(cost.share(5.0, 2.0), 0.0);
        cost.compacted(1e9, 40.0);
        cost.flushed(6.0, 1e9);
        assert_eq!(cost.share(6.0, 2.0), 0.0, "one flush has no rate");
        cost.flushed(7.0, 1e9);
        assert!(cost.share(7.0, 2.0) > LOWERED_FROM);
        assert_eq!(cost.share(7.0, 0.0), 0.0);
        let mut unknown = Level0Cost::default();
        (0..9).for_each(|second| unknown.flushed(f64::from(second), 1e9));
        assert_eq!(unknown.share(9.0, 2.0), 0.0, "nobody knows what a byte costs");
    }

    #[pumice_test_macros::test]
    fn a_clock_that_goes_back_does_no_harm() {
        let (mut cost, now) = after(4e6, 1.0, 10.0);
        cost.flushed(now - 50.0, 4e6);
        let share = cost.share(now - 50.0, 2.0);
        assert!(share.is_finite() && share >= 0.0);
    }

    #[pumice_test_macros::test]
    fn what_a_byte_costs_follows_the_last_jobs() {
        let (mut cost, now) = after(4e6, 1.0, 30.0);
        let before = cost.share(now, 2.0);
        for _ in 0..6 {
            cost.compacted(16e6, 16e6 * 400e-9);
        }
        let ratio = cost.share(now, 2.0) / before;
        assert!((9.5..=10.0).contains(&ratio), "{ratio}");
    }

    fn assert_close(share: f64, wanted: f64) {
        assert!((share / wanted - 1.0).abs() < 0.01, "{share}, not {wanted}");
    }
}
