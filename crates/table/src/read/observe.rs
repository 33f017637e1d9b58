//! Reports of a table about its blocks and filters to statistics and perf contexts.
//!
//! Thread safety: as the table; perf contexts are the calling task's. Nothing suspends.

use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

use pumice_cache::CacheKey;
use pumice_env::perf::{self, LevelMetric, PerfMetric};
use pumice_port::time::now_nanos;

use crate::handle::{BlockHandle, BlockKind};
use crate::read::cached_block::{CachedBlock, PinnedBlock};
use crate::read::file::TableFile;
use crate::read::table::Table;
use crate::trace::BlockAccess;

impl Table {
    /// A read with statistics finds the table in `level`: its blocks are counted for that level. A
    /// table is moved to another level without being opened again.
    #[inline]
    pub fn seen_at(&self, level: usize) {
        if self.file.level() != level {
            self.file.level.store(level, Relaxed);
        }
    }

    /// A point lookup has queried the filter for a whole key or for a prefix.
    pub(super) fn note_filter(&self, whole_key: bool, may_match: bool) {
        if let Some(stats) = &self.file.stats {
            match (whole_key, may_match) {
                (true, true) => stats.filter_positive(),
                (true, false) => stats.filter_useful(),
                (false, _) => stats.prefix_filter_checked(!may_match),
            }
        }
        if perf::is_any() {
            count_filter(may_match);
            if whole_key {
                let metric = match may_match {
                    true => LevelMetric::BloomFilterFullPositive,
                    false => LevelMetric::BloomFilterUseful,
                };
                perf::count_at_level(metric, self.file.level(), 1);
            }
        }
    }

    /// A point lookup that the filter let through has found something.
    pub(super) fn note_true_positive(&self) {
        let whole_keys = self.filter.as_ref().is_some_and(|filter| filter.whole_keys);
        if let Some(stats) = &self.file.stats {
            if whole_keys {
                stats.filter_true_positive();
            } else {
                stats.prefix_filter_true_positive();
            }
        }
        if whole_keys {
            let level = self.file.level();
            perf::count_at_level(LevelMetric::BloomFilterFullTruePositive, level, 1);
        }
    }

    /// A seek has queried the filter for a prefix.
    pub(super) fn note_seek_filter(&self, may_match: bool) {
        if let Some(stats) = &self.file.stats {
            stats.seek_filtered(!may_match);
        }
        if perf::is_any() {
            count_filter(may_match);
        }
    }

    /// A block was found in the cache.
    #[inline]
    pub(super) fn note_cache_hit(&self, handle: BlockHandle, block: &CachedBlock) {
        let (kind, bytes) = (block.kind(), block.charge());
        if let Some(stats) = &self.file.stats {
            stats.cache_hit(kind, bytes);
        }
        if perf::is_any() {
            count_cache_hit(kind, bytes, self.file.level());
            self.trace_access(handle, block, true, false);
        }
    }

    /// Tells the tracer that a block is used, which was in the cache if it was a `hit`.
    #[cold]
    pub(super) fn trace_access(
        &self,
        handle: BlockHandle,
        block: &CachedBlock,
        hit: bool,
        no_insert: bool,
    ) {
        let Some(tracer) = self.file.tracer.as_ref().filter(|tracer| tracer.is_on()) else {
            return;
        };
        let CacheKey(high, low) = self.cache_key(handle);
        tracer.accessed(&BlockAccess {
            kind: block.kind(),
            key: [high, low],
            bytes: block.charge(),
            level: self.file.level(),
            file_number: self.file_number,
            hit,
            no_insert,
            block,
        });
    }

    /// Runs `fetch`, which reads a block and decodes it for the cache.
    pub(super) fn timed_fetch<R>(&self, fetch: impl FnOnce() -> R) -> R {
        let Some(stats) = self.file.stats.as_ref().filter(|stats| stats.wants_times()) else {
            return fetch();
        };
        let start = now_nanos();
        let fetched = fetch();
        stats.block_fetched(now_nanos().saturating_sub(start));
        fetched
    }

    /// A block was not in the cache.
    #[inline]
    pub(super) fn note_cache_miss(&self, kind: BlockKind) {
        if let Some(stats) = &self.file.stats {
            stats.cache_miss(kind);
        }
        perf::count_at_level(LevelMetric::BlockCacheMissCount, self.file.level(), 1);
    }
}

fn count_filter(may_match: bool) {
    let metric = match may_match {
        true => PerfMetric::BloomSstHitCount,
        false => PerfMetric::BloomSstMissCount,
    };
    perf::count(metric, 1);
}

#[cold]
fn count_cache_hit(kind: BlockKind, bytes: usize, level: usize) {
    use PerfMetric::{BlockCacheFilterHitCount, BlockCacheFilterReadByte};
    use PerfMetric::{BlockCacheHitCount, BlockCacheReadByte};
    use PerfMetric::{BlockCacheIndexHitCount, BlockCacheIndexReadByte};
    perf::count(BlockCacheHitCount, 1);
    perf::count(BlockCacheReadByte, bytes as u64);
    let own = match kind {
        BlockKind::Index => Some((BlockCacheIndexHitCount, BlockCacheIndexReadByte)),
        BlockKind::Filter | BlockKind::FilterIndex => {
            Some((BlockCacheFilterHitCount, BlockCacheFilterReadByte))
        }
        _ => None,
    };
    if let Some((hits, of_kind)) = own {
        perf::count(hits, 1);
        perf::count(of_kind, bytes as u64);
    }
    perf::count_at_level(LevelMetric::BlockCacheHitCount, level, 1);
}

impl TableFile {
    fn level(&self) -> usize {
        self.level.load(Relaxed)
    }

    /// Bytes of a block were read.
    pub fn count_read(&self, kind: BlockKind, bytes: usize) {
        if let Some(stats) = &self.stats {
            stats.block_read(kind, bytes);
        }
        if perf::is_any() {
            count_block_read(kind, bytes as u64);
        }
    }
}

#[cold]
fn count_block_read(kind: BlockKind, bytes: u64) {
    perf::count(PerfMetric::BlockReadCount, 1);
    perf::count(PerfMetric::BlockReadByte, bytes);
    let (count, of_kind) = match kind {
        BlockKind::Data => (None, PerfMetric::DataBlockReadByte),
        BlockKind::Index => (Some(PerfMetric::IndexBlockReadCount), PerfMetric::IndexBlockReadByte),
        BlockKind::Filter | BlockKind::FilterIndex => {
            (Some(PerfMetric::FilterBlockReadCount), PerfMetric::FilterBlockReadByte)
        }
        BlockKind::Dictionary => (
            Some(PerfMetric::CompressionDictBlockReadCount),
            PerfMetric::CompressionDictBlockReadByte,
        ),
        _ => (None, PerfMetric::MetadataBlockReadByte),
    };
    perf::count(of_kind, bytes);
    if let Some(metric) = count {
        perf::count(metric, 1);
    }
}

impl Table {
    /// Begins to measure the use of `block`, read for a user from `place`.
    #[cold]
    pub(crate) fn measure(&self, block: &mut CachedBlock, place: u64) {
        if let Some(stats) = &self.file.stats {
            block.measure(self.options.read_amp_bytes_per_bit, place, &**stats);
        }
    }

    /// An entry of `block` was returned.
    #[cold]
    pub(crate) fn note_use(&self, block: &PinnedBlock, entry: Range<usize>, value: Range<usize>) {
        let (Some(read_amp), Some(stats)) = (block.get().read_amp(), &self.file.stats) else {
            return;
        };
        let apart = value.start >= entry.end;
        let bytes = read_amp.mark(entry) + if apart { read_amp.mark(value) } else { 0 };
        if bytes > 0 {
            stats.read_amp_useful(bytes);
        }
    }
}
