//! What tables report about themselves.
//!
//! Implementations are called from any thread, at most a few times per block or point lookup and
//! never per entry scanned; every method defaults to nothing.

use crate::handle::BlockKind;

/// Receiver of table events, which are RocksDB's tickers of the same names.
pub trait TableStats: Send + Sync {
    /// A block was found in the cache.
    fn cache_hit(&self, _kind: BlockKind, _bytes: usize) {}
    /// A block was not in the cache.
    fn cache_miss(&self, _kind: BlockKind) {}
    /// A block was found in the secondary cache (SECONDARY_CACHE_HITS).
    fn secondary_hit(&self, _kind: BlockKind) {}
    /// A dummy was found there (COMPRESSED_SECONDARY_CACHE_DUMMY_HITS).
    fn secondary_dummy_hit(&self) {}
    /// A block was looked for in the persistent cache (PERSISTENT_CACHE_HIT,
    /// PERSISTENT_CACHE_MISS).
    fn persistent(&self, _hit: bool) {}
    /// A block was put into the cache.
    fn cache_add(&self, _kind: BlockKind, _bytes: usize) {}
    /// The cache had no room for a block.
    fn cache_add_failed(&self) {}
    /// A block was looked for in the simulated cache, which has it or not.
    fn simulated(&self, _hit: bool) {}
    /// The filter said that a key is absent (BLOOM_FILTER_USEFUL).
    fn filter_useful(&self) {}
    /// The filter let a key through (BLOOM_FILTER_FULL_POSITIVE).
    fn filter_positive(&self) {}
    /// A key that the filter let through was there (BLOOM_FILTER_FULL_TRUE_POSITIVE).
    fn filter_true_positive(&self) {}
    /// A point lookup queried the filter for a prefix (BLOOM_FILTER_PREFIX_CHECKED); `useful` if it
    /// is absent (BLOOM_FILTER_PREFIX_USEFUL).
    fn prefix_filter_checked(&self, _useful: bool) {}
    /// A key whose prefix was let through was there (BLOOM_FILTER_PREFIX_TRUE_POSITIVE).
    fn prefix_filter_true_positive(&self) {}
    /// A seek queried the filter for a prefix; `useful` if it is absent.
    fn seek_filtered(&self, _useful: bool) {}
    /// Bytes were read from the file.
    fn block_read(&self, _kind: BlockKind, _bytes: usize) {}
    /// A block's checksum was verified.
    fn checksum_verified(&self, _matches: bool) {}
    /// A block was read whose use is measured (READ_AMP_TOTAL_READ_BYTES).
    fn read_amp_total(&self, _bytes: usize) {}
    /// Approximate bytes of such blocks that were returned for the first time
    /// (READ_AMP_ESTIMATE_USEFUL_BYTES).
    fn read_amp_useful(&self, _bytes: u64) {}
    /// Whether to time reads of blocks.
    fn wants_times(&self) -> bool {
        false
    }
    /// A block was read, checked and decoded, in this many nanoseconds.
    fn block_fetched(&self, _nanos: u64) {}
    /// Whether to time decompression.
    fn wants_codec_times(&self) -> bool {
        false
    }
    /// A block was decompressed, in this many nanoseconds if that is timed.
    fn decompressed(&self, _from_bytes: usize, _to_bytes: usize, _nanos: Option<u64>) {}
}
