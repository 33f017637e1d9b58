//! Statistics as receiver of the reports of tables.
//!
//! Thread safety: as [`Statistics`].

use std::sync::Arc;

use pumice_env::{IoActivity, activity};
use pumice_table::{BlockKind, TableStats};

use super::names::{HistogramKind, Ticker};
use super::statistics::Statistics;

/// Counts operations of the tables of some level in the statistics.
pub(crate) struct TableTickers {
    statistics: Arc<Statistics>,
    last_level: bool,
}

impl TableTickers {
    /// For tables of the last level, or for all others.
    pub fn new(statistics: Arc<Statistics>, last_level: bool) -> Self {
        TableTickers { statistics, last_level }
    }

    #[inline]
    fn record_tick(&self, ticker: Ticker, count: u64) {
        self.statistics.record_tick(ticker, count);
    }
}

/// A lookup in a simulated cache.
pub(crate) fn simulated(hit: bool) -> Ticker {
    if hit { Ticker::SimBlockCacheHit } else { Ticker::SimBlockCacheMiss }
}

impl TableStats for TableTickers {
    fn cache_hit(&self, kind: BlockKind, bytes: usize) {
        self.record_tick(Ticker::BlockCacheHit, 1);
        self.record_tick(Ticker::BlockCacheBytesRead, bytes as u64);
        self.record_tick(by_kind(kind).hit, 1);
    }

    fn cache_miss(&self, kind: BlockKind) {
        self.record_tick(Ticker::BlockCacheMiss, 1);
        self.record_tick(by_kind(kind).miss, 1);
    }

    fn simulated(&self, hit: bool) {
        self.record_tick(simulated(hit), 1);
    }

    fn persistent(&self, hit: bool) {
        let ticker = if hit { Ticker::PersistentCacheHit } else { Ticker::PersistentCacheMiss };
        self.record_tick(ticker, 1);
    }

    fn secondary_hit(&self, kind: BlockKind) {
        self.record_tick(Ticker::SecondaryCacheHits, 1);
        self.record_tick(Ticker::CompressedSecondaryCacheHits, 1);
        let of_kind = match kind {
            BlockKind::Data => Ticker::SecondaryCacheDataHits,
            BlockKind::Index => Ticker::SecondaryCacheIndexHits,
            BlockKind::Filter => Ticker::SecondaryCacheFilterHits,
            _ => return,
        };
        self.record_tick(of_kind, 1);
    }

    fn secondary_dummy_hit(&self) {
        self.record_tick(Ticker::CompressedSecondaryCacheDummyHits, 1);
    }

    fn cache_add(&self, kind: BlockKind, bytes: usize) {
        self.record_tick(Ticker::BlockCacheAdd, 1);
        self.record_tick(Ticker::BlockCacheBytesWrite, bytes as u64);
        self.record_tick(by_kind(kind).add, 1);
        self.record_tick(by_kind(kind).bytes_insert, bytes as u64);
    }

    fn cache_add_failed(&self) {
        self.record_tick(Ticker::BlockCacheAddFailures, 1);
    }

    fn filter_useful(&self) {
        self.record_tick(Ticker::BloomFilterUseful, 1);
    }

    fn filter_positive(&self) {
        self.record_tick(Ticker::BloomFilterFullPositive, 1);
    }

    fn filter_true_positive(&self) {
        self.record_tick(Ticker::BloomFilterFullTruePositive, 1);
    }

    fn prefix_filter_checked(&self, useful: bool) {
        self.record_tick(Ticker::BloomFilterPrefixChecked, 1);
        self.record_tick(Ticker::BloomFilterPrefixUseful, u64::from(useful));
    }

    fn prefix_filter_true_positive(&self) {
        self.record_tick(Ticker::BloomFilterPrefixTruePositive, 1);
    }

    fn seek_filtered(&self, useful: bool) {
        let ticker = match (self.last_level, useful) {
            (true, true) => Ticker::LastLevelSeekFiltered,
            (true, false) => Ticker::LastLevelSeekFilterMatch,
            (false, true) => Ticker::NonLastLevelSeekFiltered,
            (false, false) => Ticker::NonLastLevelSeekFilterMatch,
        };
        self.record_tick(ticker, 1);
    }

    fn block_read(&self, _kind: BlockKind, bytes: usize) {
        let (count, sum) = match self.last_level {
            true => (Ticker::LastLevelReadCount, Ticker::LastLevelReadBytes),
            false => (Ticker::NonLastLevelReadCount, Ticker::NonLastLevelReadBytes),
        };
        self.record_tick(count, 1);
        self.record_tick(sum, bytes as u64);
    }

    fn checksum_verified(&self, matches: bool) {
        self.record_tick(Ticker::BlockChecksumComputeCount, 1);
        if !matches {
            self.record_tick(Ticker::BlockChecksumMismatchCount, 1);
        }
    }

    fn read_amp_total(&self, bytes: usize) {
        self.record_tick(Ticker::ReadAmpTotalReadBytes, bytes as u64);
    }

    fn read_amp_useful(&self, bytes: u64) {
        self.record_tick(Ticker::ReadAmpEstimateUsefulBytes, bytes);
    }

    fn wants_times(&self) -> bool {
        self.statistics.wants_timers()
    }

    fn block_fetched(&self, nanos: u64) {
        let kind = match activity::current() {
            IoActivity::Compaction => HistogramKind::ReadBlockCompactionMicros,
            _ => HistogramKind::ReadBlockGetMicros,
        };
        self.statistics.measure(kind, nanos / 1000);
    }

    fn wants_codec_times(&self) -> bool {
        self.statistics.wants_detailed_timers()
    }

    fn decompressed(&self, from_bytes: usize, to_bytes: usize, nanos: Option<u64>) {
        self.record_tick(Ticker::NumberBlockDecompressed, 1);
        self.record_tick(Ticker::BytesDecompressedFrom, from_bytes as u64);
        self.record_tick(Ticker::BytesDecompressedTo, to_bytes as u64);
        if let Some(nanos) = nanos {
            self.statistics.measure(HistogramKind::DecompressionTimesNanos, nanos);
        }
    }
}

/// The tickers of one kind of block.
struct KindTickers {
    hit: Ticker,
    miss: Ticker,
    add: Ticker,
    bytes_insert: Ticker,
}

const DATA: KindTickers = KindTickers {
    hit: Ticker::BlockCacheDataHit,
    miss: Ticker::BlockCacheDataMiss,
    add: Ticker::BlockCacheDataAdd,
    bytes_insert: Ticker::BlockCacheDataBytesInsert,
};
const INDEX: KindTickers = KindTickers {
    hit: Ticker::BlockCacheIndexHit,
    miss: Ticker::BlockCacheIndexMiss,
    add: Ticker::BlockCacheIndexAdd,
    bytes_insert: Ticker::BlockCacheIndexBytesInsert,
};
const FILTER: KindTickers = KindTickers {
    hit: Ticker::BlockCacheFilterHit,
    miss: Ticker::BlockCacheFilterMiss,
    add: Ticker::BlockCacheFilterAdd,
    bytes_insert: Ticker::BlockCacheFilterBytesInsert,
};

/// As RocksDB, which counts every other kind of block as data.
fn by_kind(kind: BlockKind) -> &'static KindTickers {
    match kind {
        BlockKind::Index => &INDEX,
        BlockKind::Filter | BlockKind::FilterIndex => &FILTER,
        _ => &DATA,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[pumice_test_macros::test]
    fn kinds_go_to_their_tickers() {
        let statistics = Arc::new(Statistics::new());
        let s = TableTickers::new(Arc::clone(&statistics), false);
        for kind in [BlockKind::Data, BlockKind::Index, BlockKind::Filter, BlockKind::FilterIndex] {
            s.cache_miss(kind);
            s.cache_add(kind, 100);
            s.cache_hit(kind, 100);
        }
        s.decompressed(10, 40, None);
        for (ticker, count) in [
            (Ticker::BlockCacheMiss, 4),
            (Ticker::BlockCacheHit, 4),
            (Ticker::BlockCacheBytesRead, 400),
            (Ticker::BlockCacheDataMiss, 1),
            (Ticker::BlockCacheIndexAdd, 1),
            (Ticker::BlockCacheFilterHit, 2),
            (Ticker::BlockCacheFilterBytesInsert, 200),
            (Ticker::BytesDecompressedTo, 40),
        ] {
            assert_eq!(statistics.ticker(ticker), count, "{}", ticker.name());
        }
    }
}
