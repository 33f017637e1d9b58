//! How the tickers of a database grew, period by period (RocksDB's `GetStatsHistory`).
//!
//! A sample remembers the tickers, and by how much they grew since the sample before it. Samples
//! are in memory only, as many as a number of bytes allows; the oldest are dropped first.
//!
//! Thread safety: from any thread; does not suspend. What it does not do: know when a sample is due
//! (`info_dumps`), or keep samples beyond the close of the database.

use std::collections::BTreeMap;

use pumice_port::sync::Mutex;

use super::names::Ticker;
use super::statistics::Statistics;

/// Growth of the tickers in one period.
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// # let dir = std::env::temp_dir().join(format!("pumice-history-{}", std::process::id()));
/// # let db = pumice::Db::builder(&dir).create(true).open()?;
/// use pumice::StatsHistoryEntry;
/// // By `stats_persist_period_sec`, every ten minutes: none yet.
/// let history: Vec<StatsHistoryEntry> = db.get_stats_history(0, u64::MAX);
/// for entry in &history {
///     println!("{}: {:?}", entry.time, entry.stats.get("rocksdb.number.keys.written"));
/// }
/// assert!(history.is_empty());
/// # db.close()?;
/// # pumice::Db::destroy(&Default::default(), &dir)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatsHistoryEntry {
    /// The end of the period, seconds since 1970.
    pub time: u64,
    /// By how much each ticker grew in it, by RocksDB's names; 0 for one that was reset.
    pub stats: BTreeMap<&'static str, u64>,
}

/// See the module head.
#[derive(Default)]
pub(crate) struct StatsHistory {
    samples: Mutex<Samples>,
}

#[derive(Default)]
struct Samples {
    /// The tickers at the last sample, in the order of [`Ticker::ALL`].
    last: Option<Vec<u64>>,
    /// Growth by time, in that order.
    growth: BTreeMap<u64, Vec<u64>>,
}

/// Memory that a sample takes, without what the map needs for itself.
const SAMPLE_BYTES: u64 = (size_of::<(u64, Vec<u64>)>() + Ticker::COUNT * size_of::<u64>()) as u64;

impl StatsHistory {
    /// Takes a sample at `time`, seconds since 1970, and drops the oldest while all take more than
    /// `bytes_max`. The first is only what the next is compared with. Of two at the same time, the
    /// second has the growth since the first and replaces it, as in RocksDB.
    pub fn sample(&self, statistics: &Statistics, time: u64, bytes_max: u64) {
        let now: Vec<u64> = Ticker::ALL.iter().map(|&ticker| statistics.ticker(ticker)).collect();
        let mut samples = self.samples.lock();
        if let Some(last) = samples.last.replace(now.clone()) {
            let growth = now.iter().zip(last).map(|(now, last)| now.saturating_sub(last));
            samples.growth.insert(time, growth.collect());
        }
        while samples.growth.len() as u64 * SAMPLE_BYTES > bytes_max {
            samples.growth.pop_first();
        }
    }

    /// The samples from `start` to before `end`, seconds since 1970, oldest first.
    pub fn between(&self, start: u64, end: u64) -> Vec<StatsHistoryEntry> {
        if start >= end {
            return Vec::new();
        }
        let samples = self.samples.lock();
        let range = samples.growth.range(start..end);
        range
            .map(|(&time, growth)| {
                let names = Ticker::ALL.iter().map(|ticker| ticker.name());
                StatsHistoryEntry { time, stats: names.zip(growth.iter().copied()).collect() }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[pumice_test_macros::test]
    fn samples_have_the_growth_of_their_period() {
        let (statistics, history) = (Statistics::new(), StatsHistory::default());
        let written = Ticker::NumberKeysWritten;
        for (time, count) in [(10, 5), (20, 7), (20, 1), (30, 0)] {
            statistics.record_tick(written, count);
            history.sample(&statistics, time, u64::MAX);
        }
        let of = |start, end| -> Vec<(u64, u64)> {
            let samples = history.between(start, end).into_iter();
            samples.map(|sample| (sample.time, sample.stats[written.name()])).collect()
        };
        assert_eq!(of(0, u64::MAX), [(20, 1), (30, 0)]);
        assert_eq!(of(20, 30), [(20, 1)]);
        assert_eq!(of(21, 30), []);
        assert_eq!(of(30, 20), []);
        statistics.reset();
        statistics.record_tick(written, 4);
        history.sample(&statistics, 40, u64::MAX);
        assert_eq!(of(40, 41), [(40, 0)]);
        // All tickers are in a sample.
        assert_eq!(history.between(40, 41)[0].stats.len(), Ticker::COUNT);
        history.sample(&statistics, 50, 2 * SAMPLE_BYTES);
        assert_eq!(of(0, u64::MAX), [(40, 0), (50, 0)]);
        history.sample(&statistics, 60, 2 * SAMPLE_BYTES - 1);
        assert_eq!(of(0, u64::MAX), [(60, 0)]);
        history.sample(&statistics, 70, 0);
        assert_eq!(of(0, u64::MAX), []);
    }
}
