//! Which logs leave the archive, by `WAL_ttl_seconds` and `WAL_size_limit_MB`.
//!
//! The rules are RocksDB's (`WalManager::PurgeObsoleteWALFiles`), but for one: RocksDB counts each
//! log as large as the largest, here each counts what it has. The newest stay that fit together.
//!
//! Thread safety: plain functions.

use pumice_base::FileNumber;

/// Seconds between two checks of the archive, unless the time to live is short.
const INTERVAL_SECONDS_MAX: u64 = 600;

/// A log in the archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ArchivedLog {
    pub number: FileNumber,
    pub bytes: u64,
    /// Last change, in seconds since 1970.
    pub modified: u64,
}

/// How long and how much the archive keeps; 0 is no limit, both 0 is no archive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Retention {
    pub ttl_seconds: u64,
    pub size_limit_mb: u64,
}

impl Retention {
    /// Logs go to the archive.
    pub fn is_wanted(self) -> bool {
        self.ttl_seconds > 0 || self.size_limit_mb > 0
    }

    /// Seconds between two checks of the archive.
    pub fn interval_seconds(self) -> u64 {
        match self.ttl_seconds {
            0 => INTERVAL_SECONDS_MAX,
            ttl => (ttl / 2).clamp(1, INTERVAL_SECONDS_MAX),
        }
    }

    /// The logs of the archive to delete at `now`, in seconds since 1970; `logs` in ascending
    /// order.
    pub fn expired(self, logs: &[ArchivedLog], now: u64) -> Vec<FileNumber> {
        let too_old = |log: &ArchivedLog| {
            // A log dated in the future means that the clock was set back, not that the log is old.
            self.ttl_seconds > 0 && now.saturating_sub(log.modified) > self.ttl_seconds
        };
        let mut gone: Vec<FileNumber> =
            logs.iter().filter(|log| too_old(log)).map(|log| log.number).collect();
        if self.size_limit_mb == 0 {
            return gone;
        }
        let rest = logs.iter().filter(|log| !too_old(log));
        let (used, empty): (Vec<&ArchivedLog>, Vec<_>) = rest.partition(|log| log.bytes > 0);
        gone.extend(empty.iter().map(|log| log.number));
        let limit = self.size_limit_mb.saturating_mul(1 << 20);
        let mut bytes = 0u64;
        // Whoever reads the logs needs them without a gap: what is older than one that goes goes.
        let surplus = used.iter().rev().skip_while(|log| {
            bytes = bytes.saturating_add(log.bytes);
            bytes <= limit
        });
        gone.extend(surplus.map(|log| log.number));
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pumice_base::random::Rng;

    const MB: u64 = 1 << 20;

    fn expired(ttl_seconds: u64, size_limit_mb: u64, logs: &[(u64, u64)]) -> Vec<u64> {
        let logs: Vec<ArchivedLog> = (1..)
            .zip(logs)
            .map(|(number, &(bytes, modified))| ArchivedLog { number, bytes, modified })
            .collect();
        let mut gone = Retention { ttl_seconds, size_limit_mb }.expired(&logs, 1000);
        gone.sort_unstable();
        gone
    }

    #[pumice_test_macros::test]
    fn old_logs_go_and_those_of_the_future_stay() {
        let logs = [(5, 799), (5, 800), (0, 700), (5, 5000)];
        assert_eq!(expired(200, 0, &logs), [1, 3]);
        assert_eq!(expired(u64::MAX, 0, &logs), []);
        assert_eq!(expired(0, 0, &logs), []);
    }

    #[pumice_test_macros::test]
    fn the_newest_logs_that_fit_together_stay() {
        let logs = [(MB, 0), (3 * MB, 0), (1, 0), (0, 0), (1, 0)];
        assert_eq!(expired(0, 9, &logs), [4]);
        assert_eq!(expired(0, 4, &logs), [1, 4], "two bytes too many");
        assert_eq!(expired(0, 3, &logs), [1, 2, 4], "what is older than one that goes goes too");
        assert_eq!(expired(0, u64::MAX, &logs), [4]);
        assert_eq!(expired(0, 1, &[(0, 0)]), [1]);
        assert_eq!(expired(0, 2, &[(MB, 0), (2 * MB, 0)]), [1]);
        assert_eq!(expired(0, 1, &[(MB, 0), (2 * MB, 0)]), [1, 2], "beyond the limit alone");
        let one_large = [(MB, 0); 6].into_iter().chain([(5 * MB, 0)]).collect::<Vec<_>>();
        assert_eq!(expired(0, 12, &one_large), [], "11 MB are");
        assert_eq!(expired(0, 8, &one_large), [1, 2, 3]);
    }

    /// Drawn archives: what is left fits, is without a gap, and the next older log would not fit.
    #[pumice_test_macros::test]
    fn as_much_stays_as_fits() {
        for seed in 0..2000 {
            let mut rng = Rng::new(seed);
            let count = 1 + rng.uniform(12);
            let logs: Vec<(u64, u64)> = (0..count).map(|_| (rng.skewed(23), 0)).collect();
            let limit = 1 + rng.uniform(8);
            let gone = expired(0, limit, &logs);
            let bytes = |numbers: &[u64]| -> u64 {
                numbers.iter().map(|number| logs[*number as usize - 1].0).sum()
            };
            let used = (1..=logs.len() as u64).filter(|number| bytes(&[*number]) > 0);
            let (old, kept): (Vec<u64>, Vec<u64>) = used.partition(|number| gone.contains(number));
            assert!(bytes(&kept) <= limit * MB, "seed {seed}");
            if let (Some(last), Some(first)) = (old.last(), kept.first()) {
                assert!(last < first, "seed {seed}");
            }
            let next = old.last().map(|last| bytes(&kept) + bytes(&[*last]));
            assert!(next.is_none_or(|bytes| bytes > limit * MB), "seed {seed}");
        }
    }

    #[pumice_test_macros::test]
    fn the_size_counts_what_age_leaves() {
        let logs = [(8 * MB, 0), (MB, 900), (MB, 900), (MB, 900)];
        assert_eq!(expired(500, 2, &logs), [1, 2]);
    }

    #[pumice_test_macros::test]
    fn a_short_time_to_live_is_looked_after_more_often() {
        let interval = |ttl_seconds| Retention { ttl_seconds, size_limit_mb: 1 }.interval_seconds();
        let found = [0, 1, 3, 1200, 100_000].map(interval);
        assert_eq!(found, [600, 1, 1, 600, 600]);
        assert_eq!(interval(500), 250);
    }
}
