//! When entries were written, as a database samples it for the families that keep it
//! (`preserve_internal_time_seconds`, `preclude_last_level_data_seconds`).
//!
//! There is one mapping for all families, sampled for the one that needs it most often and as far
//! back as the one that keeps it longest. Each has a copy of it in its super version, which reads
//! and flushes use; it is made anew with each sample. A sample is taken by `engine::write_times`.
//!
//! Thread safety: [`WriteTimes`] belongs to the state lock.

use std::sync::Arc;

use pumice_base::SequenceNumber;
use pumice_base::narrow::to_usize;
use pumice_table::SeqnoToTimeMapping;

use crate::state::DbState;

/// Sequence numbers that a new database leaves out, so that it can say when data that is older than
/// it was written, as RocksDB does.
pub(crate) const RESERVED: SequenceNumber = 100;
/// Samples in the time that a family keeps.
const SAMPLES: u64 = 100;
/// Samples at most, in memory and for a compaction.
pub(crate) const SAMPLES_MAX: usize = 1000;

/// See the module head.
#[derive(Default)]
pub(crate) struct WriteTimes {
    mapping: SeqnoToTimeMapping,
    /// Seconds between two samples; 0: no family keeps times.
    period: u64,
    /// How far back the mapping reaches, seconds.
    kept: u64,
    samples_max: usize,
    /// When the last sample was taken, seconds since 1970.
    sampled_at: u64,
}

impl WriteTimes {
    /// The families keep times for as many seconds; true if that changes when samples are taken.
    pub fn keep(&mut self, seconds: impl Iterator<Item = u64>) -> bool {
        let (mut least, mut most) = (0, 0);
        for seconds in seconds.filter(|seconds| *seconds > 0) {
            least = if least == 0 { seconds } else { seconds.min(least) };
            most = seconds.max(most);
        }
        if most == 0 {
            *self = WriteTimes::default();
            return false;
        }
        let before = self.period;
        (self.period, self.kept) = (least.div_ceil(SAMPLES), most);
        self.samples_max = to_usize(most.saturating_mul(SAMPLES) / least).min(SAMPLES_MAX);
        self.period != before
    }

    /// The database is new: entries up to `last` are spread over the time that is kept.
    pub fn begin(&mut self, last: SequenceNumber, now: u64) {
        if self.period > 0 && now > self.kept {
            self.mapping = SeqnoToTimeMapping::spread(last, now - self.kept, now);
        }
    }

    /// When the next sample is to be taken; None: never.
    pub fn next_sample(&self) -> Option<u64> {
        (self.period > 0).then(|| self.sampled_at.saturating_add(self.period))
    }

    /// A sample is to be taken, also because there is none or the clock has gone back.
    pub fn is_due(&self, now: u64) -> bool {
        let is_due = |next| now >= next || now < self.sampled_at || self.mapping.is_empty();
        self.next_sample().is_some_and(is_due)
    }

    /// `newest` is the newest entry.
    pub fn sample(&mut self, newest: SequenceNumber, now: u64) {
        self.sampled_at = now;
        self.mapping.sample(newest.max(1), now);
        self.mapping.forget_before(self.mapping.last_seconds().saturating_sub(self.kept));
        if self.mapping.len() > self.samples_max + self.samples_max / 8 {
            self.mapping.thin_out(self.samples_max);
        }
    }
}

/// Publishes the samples to the families that keep times, and takes them from the others.
/// `sampled`: there is a new one.
pub(crate) fn publish(state: &mut DbState, sampled: bool) {
    let mut shared = None;
    for cf in state.cfs.values_mut().filter(|cf| !cf.data.is_dropped()) {
        let keeps = cf.data.options().kept_times() > 0;
        let known = cf.data.super_version.load().times.is_some();
        if keeps && (sampled || !known) {
            let mapping = || Arc::new(state.times.mapping.clone());
            cf.publish_times(Some(Arc::clone(shared.get_or_insert_with(mapping))));
        } else if !keeps && known {
            cf.publish_times(None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(seconds: &[u64]) -> WriteTimes {
        let mut times = WriteTimes::default();
        times.keep(seconds.iter().copied());
        times
    }

    #[pumice_test_macros::test]
    fn the_shortest_time_says_how_often_and_the_longest_how_far_back() {
        for (seconds, period, far, samples) in [
            (&[][..], 0, 0, 0),
            (&[0, 0][..], 0, 0, 0),
            (&[1][..], 1, 1, 100),
            (&[3601, 0][..], 37, 3601, 100),
            (&[1000, 3000][..], 10, 3000, 300),
            (&[100, u64::MAX][..], 1, u64::MAX, SAMPLES_MAX),
        ] {
            let times = kept(seconds);
            assert_eq!((times.period, times.kept, times.samples_max), (period, far, samples));
        }
        let mut times = kept(&[1000]);
        assert!(!times.keep([1000, 5000].into_iter()) && times.keep([500].into_iter()));
        times.sample(5, 7777);
        times.keep([0].into_iter());
        assert!(times.mapping.is_empty() && !times.is_due(u64::MAX));
    }

    #[pumice_test_macros::test]
    fn samples_are_due_by_the_clock_and_reach_back_as_far_as_is_kept() {
        let mut times = kept(&[1000]);
        times.begin(RESERVED, 50_000);
        assert_eq!(times.mapping.newest_at(49_000), 1);
        let (mut now, mut sequence) = (50_000, RESERVED);
        for _ in 0..500 {
            assert!(times.is_due(now));
            times.sample(sequence, now);
            assert!(!times.is_due(now + 9) && times.next_sample() == Some(now + 10));
            (now, sequence) = (now + 10, sequence + 3);
        }
        let last = now - 10;
        assert!((100..=113).contains(&times.mapping.len()), "{}", times.mapping.len());
        assert!(times.mapping.newest_at(last - 1000) > 0);
        assert_eq!(times.mapping.newest_at(last - 1000 - 25), 0, "no more than that");
        assert!(times.is_due(last - 1), "the clock has gone back");
    }
}
