//! Statistics as the receiver of what tables report.
//!
//! Thread safety: as [`Statistics`].

use pumice_table::{BlockKind, TableStats};

use super::names::Ticker;
use super::statistics::Statistics;

impl TableStats for Statistics {
    fn cache_hit(&self, kind: BlockKind, bytes: usize) {
        self.record_tick(Ticker::BlockCacheHit, 1);
        self.record_tick(Ticker::BlockCacheBytesRead, bytes as u64);
        self.record_tick(by_kind(kind).hit, 1);
    }

    fn cache_miss(&self, kind: BlockKind) {
        self.record_tick(Ticker::BlockCacheMiss, 1);
        self.record_tick(by_kind(kind).miss, 1);
    }

    fn cache_add(&self, kind: BlockKind, bytes: usize) {
        self.record_tick(Ticker::BlockCacheAdd, 1);
        self.record_tick(Ticker::BlockCacheBytesWrite, bytes as u64);
        self.record_tick(by_kind(kind).add, 1);
        self.record_tick(by_kind(kind).bytes_insert, bytes as u64);
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

    fn block_read(&self, _kind: BlockKind, _bytes: usize) {
        self.record_tick(Ticker::BlockChecksumComputeCount, 1);
    }

    fn decompressed(&self, from_bytes: usize, to_bytes: usize) {
        self.record_tick(Ticker::NumberBlockDecompressed, 1);
        self.record_tick(Ticker::BytesDecompressedFrom, from_bytes as u64);
        self.record_tick(Ticker::BytesDecompressedTo, to_bytes as u64);
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
        let s = Statistics::new();
        for kind in [BlockKind::Data, BlockKind::Index, BlockKind::Filter, BlockKind::FilterIndex] {
            s.cache_miss(kind);
            s.cache_add(kind, 100);
            s.cache_hit(kind, 100);
        }
        s.decompressed(10, 40);
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
            assert_eq!(s.ticker(ticker), count, "{}", ticker.name());
        }
    }
}
