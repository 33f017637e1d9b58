//! Which logs leave the archive, by `WAL_ttl_seconds` and `WAL_size_limit_MB`.
//!
//! The rules are RocksDB's (`WalManager::PurgeObsoleteWALFiles`). The size limit is applied as a
//! number of logs: as many stay as would fit if each had the size of the largest.
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
        if let Some(largest) = used.iter().map(|log| log.bytes).max() {
            let limit = self.size_limit_mb.saturating_mul(1 << 20);
            let kept = usize::try_from(limit / largest).unwrap_or(usize::MAX);
            let surplus = used.len().saturating_sub(kept);
            gone.extend(used[..surplus].iter().map(|log| log.number));
        }
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn the_largest_log_says_how_many_stay() {
        let logs = [(MB, 0), (3 * MB, 0), (1, 0), (0, 0), (1, 0)];
        assert_eq!(expired(0, 9, &logs), [1, 4], "three of the size of the largest");
        assert_eq!(expired(0, 11, &logs), [1, 4]);
        assert_eq!(expired(0, 12, &logs), [4]);
        assert_eq!(expired(0, 2, &logs), [1, 2, 3, 4, 5], "the largest is beyond the limit");
        assert_eq!(expired(0, u64::MAX, &logs), [4]);
        assert_eq!(expired(0, 1, &[(0, 0)]), [1]);
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
