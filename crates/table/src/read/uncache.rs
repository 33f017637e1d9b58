//! Takes the blocks of a table out of the block cache, when its file is no longer needed.
//!
//! No file is read for that: only blocks whose index block is in memory are found.
//! `uncache_aggressiveness` decides how long to keep searching for blocks that may not be cached.
//!
//! Thread safety: shared; a concurrent reader of the table reads missing blocks again. Does not
//! suspend.

use pumice_cache::CacheKey;

use crate::handle::{BlockHandle, BlockKind};
use crate::read::blocks::MetaBlock;
use crate::read::cached_block::PinnedBlock;
use crate::read::index::IndexBlock;
use crate::read::table::{HeldPartitions, Table};

/// This many blocks may be missing before the share of those found counts, or as many as the
/// aggressiveness if that is less.
const MISSES_ALLOWED: u32 = 3;
/// Each further unit of aggressiveness lowers the required share by this factor.
const SHARE_PER_UNIT: f64 = 0.99;

/// Decides when looking for blocks is not worth it any more.
struct Patience {
    misses_allowed: u64,
    /// Share of the blocks that has to be found.
    share: f64,
    found: u64,
    missed: u64,
}

impl Patience {
    fn new(aggressiveness: u32) -> Self {
        let beyond_one = i32::try_from(aggressiveness.saturating_sub(1)).unwrap_or(i32::MAX);
        Patience {
            misses_allowed: u64::from(aggressiveness.min(MISSES_ALLOWED)),
            share: SHARE_PER_UNIT.powi(beyond_one),
            found: 0,
            missed: 0,
        }
    }

    fn is_left(&self) -> bool {
        let tried = (self.found + self.missed) as f64;
        self.missed < self.misses_allowed || self.found as f64 >= tried * self.share
    }

    fn note(&mut self, found: bool) {
        if found {
            self.found += 1;
        } else {
            self.missed += 1;
        }
    }
}

impl Table {
    /// Removes the table's blocks from the block cache: filter, data and index, as long as enough
    /// of them are found. With `aggressiveness` 1 the first missing block ends it; with a larger
    /// one it continues while at least 0.99 to the power of `aggressiveness - 1` of them are there.
    /// 0 does nothing. Blocks that the table has pinned are not looked for: they are removed in any
    /// case.
    ///
    /// Does not suspend.
    pub fn uncache(&self, aggressiveness: u32) {
        if aggressiveness == 0 || self.cache.is_none() {
            return;
        }
        if let Some(filter) = &self.filter {
            if filter.partitioned {
                self.uncache_partitions(&filter.block, &filter.partitions, aggressiveness);
            }
            self.uncache_meta(&filter.block);
        }
        if let Some(top) = self.in_memory(&self.index)
            && let Some(top) = top.get().as_index()
        {
            self.uncache_data(top, aggressiveness);
        }
        if self.index_partitioned {
            self.uncache_partitions(&self.index, &self.index_partitions, aggressiveness);
        }
        self.uncache_meta(&self.index);
    }

    /// The data blocks under `top`, as far as the index blocks above them are in memory.
    fn uncache_data(&self, top: &IndexBlock, aggressiveness: u32) {
        let mut patience = Patience::new(aggressiveness);
        if !self.index_partitioned {
            return self.uncache_all(top.handles(), &mut patience);
        }
        for (at, handle) in top.handles().enumerate() {
            let partition = match &self.index_partitions {
                Some(held) => held.get(at).cloned(),
                None => self.find(handle),
            };
            if let Some(partition) = &partition
                && let Some(index) = partition.get().as_index()
            {
                self.uncache_all(index.handles(), &mut patience);
            }
            if !patience.is_left() {
                return;
            }
        }
    }

    /// The partitions that the index or filter with top level `top` has.
    fn uncache_partitions(&self, top: &MetaBlock, held: &HeldPartitions, aggressiveness: u32) {
        if let Some(held) = held {
            for pin in held {
                self.uncache_pinned(pin);
            }
        } else if let Some(top) = self.in_memory(top)
            && let Some(top) = top.get().as_index()
        {
            self.uncache_all(top.handles(), &mut Patience::new(aggressiveness));
        }
    }

    fn uncache_all(&self, handles: impl Iterator<Item = BlockHandle>, patience: &mut Patience) {
        for handle in handles {
            if !patience.is_left() {
                return;
            }
            patience.note(self.erase(&self.cache_key(handle)));
        }
    }

    fn uncache_meta(&self, meta: &MetaBlock) {
        match meta {
            MetaBlock::Held(pin) => self.uncache_pinned(pin),
            MetaBlock::InCache(handle) => {
                self.erase(&self.cache_key(*handle));
            }
        }
    }

    fn uncache_pinned(&self, pin: &PinnedBlock) {
        if let PinnedBlock::Cached(handle) = pin {
            self.erase(&handle.key());
        }
    }

    /// True if the block was there.
    fn erase(&self, key: &CacheKey) -> bool {
        self.cache.as_ref().is_some_and(|cache| cache.erase(key))
    }

    fn in_memory(&self, meta: &MetaBlock) -> Option<PinnedBlock> {
        match meta {
            MetaBlock::Held(pin) => Some(pin.clone()),
            MetaBlock::InCache(handle) => self.find(*handle),
        }
    }

    /// An index block, if it is in the cache. Counts as no use of it.
    fn find(&self, handle: BlockHandle) -> Option<PinnedBlock> {
        let found = self.cache.as_ref()?.lookup_owned(&self.cache_key(handle))?;
        let index = matches!(found.kind(), BlockKind::Index | BlockKind::FilterIndex);
        index.then_some(PinnedBlock::Cached(found))
    }
}

#[cfg(test)]
mod tests {
    use super::Patience;

    /// Blocks tried until it gives up, at most 10,000; `found` says which are cached.
    fn tried(aggressiveness: u32, found: impl Fn(u32) -> bool) -> u32 {
        let mut patience = Patience::new(aggressiveness);
        let mut tried = 0;
        while patience.is_left() && tried < 10_000 {
            patience.note(found(tried));
            tried += 1;
        }
        tried
    }

    #[pumice_test_macros::test]
    fn one_gives_up_at_the_first_miss() {
        assert_eq!(tried(1, |_| false), 1);
        assert_eq!(tried(1, |n| n < 500), 501);
        assert_eq!(tried(1, |_| true), 10_000);
    }

    #[pumice_test_macros::test]
    fn more_goes_on_at_a_smaller_share() {
        assert_eq!(tried(2, |_| false), 2);
        assert_eq!(tried(50, |_| false), 3);
        // 69: about one half must be cached.
        assert_eq!(tried(69, |n| n % 2 == 1), 5, "2 of 5 are too few");
        assert_eq!(tried(72, |n| n % 2 == 0), 10_000);
        assert_eq!(tried(67, |n| n % 2 == 0), 6);
        // 230: one in ten.
        assert_eq!(tried(232, |n| n % 10 == 0), 10_000);
        assert!(tried(220, |n| n % 10 == 0) < 100);
        // The largest never gives up, even though the first three blocks are missing.
        assert_eq!(tried(10_000, |n| n % 1000 == 0), 10_000);
        assert_eq!(tried(u32::MAX, |n| n == 0), 10_000);
    }
}
