//! The share of the processors that compactions out of L0 need to keep up with flushes.
//!
//! Lowering a job saves readers at most what the job uses. If that is little, lowering only keeps
//! L0 full for longer, and every read searches every file of L0. So compactions out of L0 are
//! lowered only above a share of the processors ([`LOWERED_FROM`]). The share is that of the demand
//! (bytes flushed a second, times processor time per byte), not of the use: a starved job uses
//! little and needs much.
//!
//! Thread safety: plain data. What it does not do: read a clock; the caller passes the time.

/// From this share of all processors on they are lowered. On two processors with two readers and
/// compactions out of L0 that need 13 %, lowering them makes the slowest of ten thousand reads a
/// sixth faster, and the mean and p99 worse (up to 13 files in L0 in place of 7).
pub(crate) const LOWERED_FROM: f64 = 0.1;

/// Bytes that came into L0 this long ago count for a third of new ones.
const REMEMBERED_SECONDS: f64 = 30.0;

/// The shortest time over which a rate is computed.
const RATE_SECONDS_MIN: f64 = 0.25;

/// Factor that each job applies to the weight of earlier ones.
const OLDER_JOBS: f64 = 0.5;

/// See the module head.
#[derive(Clone, Debug, Default)]
pub(crate) struct Level0Cost {
    /// When the first files came.
    began: Option<f64>,
    /// Bytes that came since then, older ones for less, as of `at`.
    arrived_bytes: f64,
    at: f64,
    /// Bytes that compactions took out of L0, older jobs for less, and the processor time of these
    /// jobs and of merges inside L0.
    taken_bytes: f64,
    cpu_seconds: f64,
}

impl Level0Cost {
    /// This many bytes came into L0, flushed or ingested.
    pub fn arrived(&mut self, now_seconds: f64, bytes: f64) {
        if bytes <= 0.0 {
            return;
        }
        if self.began.is_none() {
            // The first files only set the start; a rate needs later ones.
            self.began = Some(now_seconds);
        } else {
            self.arrived_bytes = self.arrived_bytes * self.weight(now_seconds) + bytes;
        }
        self.at = now_seconds;
    }

    /// A compaction took this many bytes out of L0; `cpu_seconds` are of all its threads.
    pub fn compacted(&mut self, bytes: f64, cpu_seconds: f64) {
        self.taken_bytes = self.taken_bytes * OLDER_JOBS + bytes;
        self.cpu_seconds = self.cpu_seconds * OLDER_JOBS + cpu_seconds;
    }

    /// A compaction merged files of L0 into others of L0: its bytes are still to be taken out.
    pub fn merged(&mut self, cpu_seconds: f64) {
        self.cpu_seconds += cpu_seconds;
    }

    /// The share of `processors` that they need; 0 until files have come twice and one compaction
    /// has ended. Above 1 they need more than there is.
    pub fn share(&self, now_seconds: f64, processors: f64) -> f64 {
        if self.taken_bytes <= 0.0 || processors <= 0.0 {
            return 0.0;
        }
        self.rate(now_seconds) * self.cpu_seconds / self.taken_bytes / processors
    }

    /// Bytes that arrive per second. The time in the divisor is weighted as they are.
    fn rate(&self, now_seconds: f64) -> f64 {
        let Some(began) = self.began else { return 0.0 };
        let age = (now_seconds - began).max(RATE_SECONDS_MIN);
        let seconds = REMEMBERED_SECONDS * (1.0 - (-age / REMEMBERED_SECONDS).exp());
        self.arrived_bytes * self.weight(now_seconds) / seconds
    }

    /// The weight that `arrived_bytes` still have.
    fn weight(&self, now_seconds: f64) -> f64 {
        (-(now_seconds - self.at).max(0.0) / REMEMBERED_SECONDS).exp()
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
            cost.arrived(now, bytes);
            if flushes % 4 == 0 {
                cost.compacted(4.0 * bytes, 4.0 * bytes * 40e-9);
            }
        }
        (cost, now)
    }

    #[pumice_test_macros::test]
    fn the_share_is_that_of_what_is_flushed() {
        for (bytes, every, processors) in [(4e6, 1.0, 2.0), (4e6, 0.4, 4.0), (64e6, 3.0, 8.0)] {
            for flushes in [4.0, 40.0, 400.0] {
                let (cost, now) = after(bytes, every, flushes * every);
                let wanted = bytes / every * 40e-9 / processors;
                // The flush that has just ended makes the share slightly too large.
                let ratio = cost.share(now, processors) / wanted;
                assert!((0.99..1.0 + every / 20.0).contains(&ratio), "{ratio}");
                // A while later, as nothing was flushed since.
                let later = cost.share(now + 60.0, processors);
                assert!(later < wanted / 4.0, "{later} of {wanted}");
            }
        }
    }

    #[pumice_test_macros::test]
    fn each_family_counts_for_what_it_flushes() {
        let (mut cost, mut shares) = (Level0Cost::default(), Vec::new());
        for half_seconds in 1..=400 {
            let now = f64::from(half_seconds) * 0.5;
            // One family flushes little often, the other much every 20 s.
            cost.arrived(now, 64e3);
            if half_seconds % 40 == 0 {
                cost.arrived(now + 0.01, 256e6);
            }
            cost.compacted(1e6, 0.04);
            shares.push(cost.share(now + 0.02, 2.0));
        }
        let wanted = (256e6 / 20.0 + 64e3 / 0.5) * 40e-9 / 2.0;
        for share in &shares[200..] {
            assert!((0.6..1.6).contains(&(share / wanted)), "{share} of {wanted}");
        }
    }

    #[pumice_test_macros::test]
    fn merges_inside_level_0_cost_without_taking_anything_out() {
        let (mut cost, now) = after(4e6, 1.0, 30.0);
        let before = cost.share(now, 2.0);
        // As much processor time again for each byte.
        cost.merged(cost.cpu_seconds);
        assert_close(cost.share(now, 2.0), 2.0 * before);
    }

    #[pumice_test_macros::test]
    fn a_starved_job_wants_as_much_as_before() {
        let (mut cost, mut now) = after(10e6, 0.5, 30.0);
        let before = cost.share(now, 2.0);
        assert!(before > LOWERED_FROM);
        // Flushes continue, no compaction ends.
        for _ in 0..20 {
            now += 0.5;
            cost.arrived(now, 10e6);
        }
        let ratio = cost.share(now, 2.0) / before;
        assert!((0.95..1.05).contains(&ratio), "{ratio}");
    }

    #[pumice_test_macros::test]
    fn a_load_that_begins_after_a_rest_is_soon_known() {
        let (mut cost, mut now) = after(1e6, 1.0, 20.0);
        now += 3600.0;
        for flushes in 1..=8 {
            cost.arrived(now, 50e6);
            let share = cost.share(now, 2.0);
            assert_eq!(share > LOWERED_FROM, flushes > 3, "{share} after {flushes}");
            now += 0.5;
        }
    }

    #[pumice_test_macros::test]
    fn nothing_is_wanted_before_anything_was_seen() {
        let mut cost = Level0Cost::default();
        assert_eq!(cost.share(5.0, 2.0), 0.0);
        cost.compacted(1e9, 40.0);
        cost.arrived(6.0, 1e9);
        assert_eq!(cost.share(6.0, 2.0), 0.0, "one flush has no rate");
        cost.arrived(7.0, 1e9);
        assert!(cost.share(7.0, 2.0) > LOWERED_FROM);
        assert_eq!(cost.share(7.0, 0.0), 0.0);
        let mut unknown = Level0Cost::default();
        (0..9).for_each(|second| unknown.arrived(f64::from(second), 1e9));
        assert_eq!(unknown.share(9.0, 2.0), 0.0, "what a byte costs is not known");
    }

    #[pumice_test_macros::test]
    fn a_clock_that_goes_back_does_no_harm() {
        let (mut cost, now) = after(4e6, 1.0, 10.0);
        cost.arrived(now - 50.0, 4e6);
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
