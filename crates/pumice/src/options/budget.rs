//! Three knobs in place of hundreds of options.
//!
//! A [`Budget`] says what a database may use; [`Budget::options`] derives options from it, which
//! can be read and changed like any others:
//!
//! - **Memory**: one block cache of that size, to which memtables, indexes and filters are charged.
//!   A quarter is for memtables (`write_buffer_manager`), four of `write_buffer_size`; file and
//!   level sizes follow.
//! - **Processors**: `max_background_flushes`, `max_background_compactions`, `max_subcompactions`.
//! - **Device**: `rate_limiter` for flushes and compactions, reads included. Writes are slowed and
//!   stopped at the pending bytes that it can transfer in 5 and 20 minutes.
//!
//! The policy is `adaptive`, filters have ten bits a key.
//!
//! Thread safety: plain data.

use std::sync::Arc;

use pumice_base::narrow::{round_down_u64, small_i32, to_usize};
use pumice_base::{Error, Result};
use pumice_cache::CacheOptions;
use pumice_env::{RateLimiter, RateLimiterMode, RateLimiterOptions};
use pumice_filter::FilterPolicy;
use pumice_memtable::WriteBufferManager;
use pumice_port::thread;
use pumice_table::BlockCache;

use super::{BackgroundPolicy, Options};

const MEBIBYTE: u64 = 1 << 20;
/// Less memory than this cannot hold four memtables and a few blocks.
const MEMORY_MIN: u64 = 8 * MEBIBYTE;
/// Fraction of the memory for memtables, and their number.
const MEMTABLE_SHARE: u64 = 4;
const MEMTABLES: u64 = 4;
/// Larger memtables only make recovery slower.
const MEMTABLE_MAX: u64 = 256 * MEBIBYTE;
/// Table files have the size of a memtable, within these bounds.
const FILE_MIN: u64 = 2 * MEBIBYTE;
const FILE_MAX: u64 = 64 * MEBIBYTE;
/// L0 is compacted from this many files on, into a level of their size.
const LEVEL0_FILES: u64 = 4;
/// Writes are slowed, and stopped, at the debt that the device works off in this many seconds.
const SOFT_SECONDS: u64 = 300;
const HARD_SECONDS: u64 = 1200;
/// At least this many memtables may be owed.
const SOFT_MEMTABLES: u64 = 64;

/// What a database may use: three knobs, from which the options that share out memory, processors
/// and the device follow. What was set by name before stays.
///
/// ```
/// # fn main() -> Result<(), pumice::Error> {
/// let budget = pumice::Budget {
///     memory_bytes: 1 << 30,
///     cpu_share: 0.5,
///     device_bytes_per_sec: 200_000_000,
/// };
/// let options = budget.options()?;
/// assert_eq!(options.get("write_buffer_size")?, "67108864");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// Bytes for cached blocks, memtables, indexes and filters together; at least 8 MiB.
    pub memory_bytes: u64,
    /// Share of the processors that flushes and compactions may keep busy, above 0 and at most 1;
    /// they get one thread each at least.
    pub cpu_share: f64,
    /// Bytes per second that flushes and compactions read and write together at most; 0 for no
    /// limit.
    pub device_bytes_per_sec: u64,
}

impl Default for Budget {
    /// 512 MiB, all processors, and no limit for the device.
    fn default() -> Self {
        Budget { memory_bytes: 512 * MEBIBYTE, cpu_share: 1.0, device_bytes_per_sec: 0 }
    }
}

impl Budget {
    /// Options of a database that stays within the budget.
    ///
    /// # Errors
    /// InvalidArgument for a value out of bounds.
    pub fn options(&self) -> Result<Options> {
        if self.memory_bytes < MEMORY_MIN {
            return Err(Error::invalid_argument("memory_bytes must be at least 8 MiB"));
        }
        if !(self.cpu_share > 0.0 && self.cpu_share <= 1.0) {
            return Err(Error::invalid_argument("cpu_share must be above 0 and at most 1"));
        }
        let mut options = Options::default();
        options.db.background_policy = BackgroundPolicy::Adaptive;
        let memtable = self.set_memory(&mut options);
        self.set_processors(&mut options, thread::available_parallelism());
        self.set_device(&mut options, memtable)?;
        Ok(options)
    }

    /// Returns the bytes of a memtable.
    fn set_memory(&self, options: &mut Options) -> u64 {
        let capacity = to_usize(self.memory_bytes);
        let cache = BlockCache::new(CacheOptions::new(capacity));
        let memtables = self.memory_bytes / MEMTABLE_SHARE;
        let memtable = (memtables / MEMTABLES).min(MEMTABLE_MAX);
        let account = Arc::clone(&cache);
        options.db.write_buffer_manager =
            Some(WriteBufferManager::new(to_usize(memtables), Some(account), true));
        options.cf.write_buffer_size = to_usize(memtable);
        options.cf.max_write_buffer_number = small_i32(to_usize(MEMTABLES));
        options.cf.level0_file_num_compaction_trigger = small_i32(to_usize(LEVEL0_FILES));
        options.cf.target_file_size_base = memtable.clamp(FILE_MIN, FILE_MAX);
        options.cf.max_bytes_for_level_base = (LEVEL0_FILES * memtable).max(4 * FILE_MIN);
        let table = &mut options.cf.table_factory;
        table.block_cache = Some(cache);
        table.cache_index_and_filter_blocks = true;
        table.pin_l0_filter_and_index_blocks_in_cache = true;
        table.filter_policy = Some(FilterPolicy::bloom(10.0));
        memtable
    }

    fn set_processors(&self, options: &mut Options, processors: usize) {
        let threads = (processors as f64 * self.cpu_share).round().max(1.0);
        let threads = small_i32(to_usize(round_down_u64(threads)));
        options.db.max_background_flushes = (threads / 4).max(1);
        options.db.max_background_compactions = threads;
        options.db.max_subcompactions = threads.unsigned_abs();
    }

    fn set_device(&self, options: &mut Options, memtable: u64) -> Result<()> {
        let rate = self.device_bytes_per_sec;
        if rate == 0 {
            return Ok(());
        }
        let settings =
            RateLimiterOptions { mode: RateLimiterMode::AllIo, ..RateLimiterOptions::new(rate) };
        options.db.rate_limiter = Some(Arc::new(RateLimiter::new(&settings)?));
        let soft = rate.saturating_mul(SOFT_SECONDS).max(SOFT_MEMTABLES * memtable);
        let hard = rate.saturating_mul(HARD_SECONDS).max(2 * SOFT_MEMTABLES * memtable);
        let cf = &mut options.cf;
        cf.soft_pending_compaction_bytes_limit = soft.min(cf.soft_pending_compaction_bytes_limit);
        cf.hard_pending_compaction_bytes_limit = hard.min(cf.hard_pending_compaction_bytes_limit);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{Db, MemFs, ReadOptions, WriteOptions};

    #[pumice_test_macros::test]
    fn everything_follows_and_can_be_read_back() {
        let budget =
            Budget { memory_bytes: 1 << 30, cpu_share: 0.5, device_bytes_per_sec: 100_000_000 };
        let options = budget.options().unwrap();
        for (name, value) in [
            ("write_buffer_size", "67108864"),
            ("max_write_buffer_number", "4"),
            ("max_bytes_for_level_base", "268435456"),
            ("target_file_size_base", "67108864"),
            ("soft_pending_compaction_bytes_limit", "30000000000"),
            ("hard_pending_compaction_bytes_limit", "120000000000"),
            ("background_policy", "adaptive"),
        ] {
            assert_eq!(options.get(name).unwrap(), value, "{name}");
        }
        let table = &options.cf.table_factory;
        assert_eq!(table.block_cache.as_ref().unwrap().capacity(), 1 << 30);
        let manager = options.db.write_buffer_manager.as_ref().unwrap();
        assert_eq!(manager.buffer_bytes(), 256 << 20);
        let limiter = options.db.rate_limiter.as_ref().unwrap();
        assert_eq!(limiter.bytes_per_second(), 100_000_000);
    }

    #[pumice_test_macros::test]
    fn shares_become_threads() {
        for (processors, share, flushes, compactions) in
            [(1, 0.1, 1, 1), (2, 0.5, 1, 1), (8, 0.5, 1, 4), (16, 1.0, 4, 16), (64, 0.25, 4, 16)]
        {
            let mut options = Options::default();
            Budget { cpu_share: share, ..Budget::default() }
                .set_processors(&mut options, processors);
            let db = &options.db;
            let threads = (db.max_background_flushes, db.max_background_compactions);
            assert_eq!(threads, (flushes, compactions), "{share} of {processors}");
        }
    }

    #[pumice_test_macros::test]
    fn what_is_out_of_bounds_is_refused() {
        let refused = |budget: Budget| budget.options().err().unwrap().to_string();
        let small = Budget { memory_bytes: (8 << 20) - 1, ..Budget::default() };
        assert!(refused(small).contains("memory_bytes must be at least 8 MiB"));
        for cpu_share in [0.0, -1.0, 1.1, f64::NAN] {
            let text = refused(Budget { cpu_share, ..Budget::default() });
            assert!(text.contains("cpu_share must be above 0"), "{text}");
        }
    }

    /// A database in the smallest budget works, and its memtables stay within their share.
    #[pumice_test_macros::test]
    fn the_smallest_budget_is_enough() {
        let budget = Budget { memory_bytes: 8 << 20, ..Budget::default() };
        let mut options = budget.options().unwrap();
        options.db.create_if_missing = true;
        options.db.file_system = MemFs::new(1).shared();
        let manager = Arc::clone(options.db.write_buffer_manager.as_ref().unwrap());
        let db = Db::open(&options, "/db").unwrap();
        for n in 0..8000u32 {
            db.put_opt(&WriteOptions::default(), &n.to_be_bytes(), &[7; 1000]).unwrap();
            assert!(manager.memory_usage() <= 4 << 20, "{}", manager.memory_usage());
        }
        for n in (0..8000u32).step_by(97) {
            let value = db.get_opt(&ReadOptions::default(), &n.to_be_bytes()).unwrap();
            assert_eq!(value.as_deref(), Some(&[7; 1000][..]));
        }
        db.close().unwrap();
    }
}
