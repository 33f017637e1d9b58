//! Caches, write buffer managers, rate limiters, managers of table files.

use std::sync::{Arc, OnceLock};

use pumice::{
    BlockCache, CacheOptions, RateLimiter, RateLimiterMode, RateLimiterOptions, SstFileManager,
    SstFileManagerOptions, WriteBufferManager,
};
use pumice_binding::env::Env;
use pumice_binding::store::{Fields, Store};

use crate::ffi::from::Unused;
use crate::ffi::generated::rocksdb_lru_cache_options_t;
use crate::ffi::into::New;
use crate::ffi::macros::c_api;
use crate::ffi::types::{
    BufferManager, Cache, FileManager, HyperClockOptions, Limiter, MemoryAllocator,
};

fn cache(capacity: usize, charge: usize, strict_capacity_limit: bool) -> Cache {
    let mut options = CacheOptions::new(capacity);
    if charge > 0 {
        options.estimated_entry_charge = charge;
    }
    options.strict_capacity_limit = strict_capacity_limit;
    Cache { blocks: BlockCache::new(options), rows: Arc::new(OnceLock::new()) }
}

fn size(store: &Store, name: &str) -> usize {
    usize::try_from(store.bits(name)).unwrap_or(usize::MAX)
}

fn limiter(rate: i64, refill: i64, fairness: i32, mode: RateLimiterMode, tuned: bool) -> Limiter {
    let options = RateLimiterOptions {
        refill_period_us: u64::try_from(refill).unwrap_or(0),
        fairness: u64::try_from(fairness).unwrap_or(0),
        mode,
        auto_tuned: tuned,
        ..RateLimiterOptions::new(u64::try_from(rate).unwrap_or(0))
    };
    Limiter(RateLimiter::new(&options).map(Arc::new))
}

fn manager(bytes: usize, cache: Option<&Cache>, allow_stall: bool, policy: i32) -> BufferManager {
    let account = cache.map(|cache| Arc::clone(&cache.blocks) as _);
    BufferManager {
        manager: WriteBufferManager::new(bytes, account, allow_stall),
        flush_policy: policy,
    }
}

/// Which memtable is flushed first: the oldest, the largest, the largest of all databases.
fn is_policy(number: i32) -> bool {
    (0..=2).contains(&number)
}

c_api! {
    fn rocksdb_cache_create_lru(capacity: usize) -> New<Cache> {
        New(cache(capacity, 0, false))
    }

    fn rocksdb_cache_create_lru_with_strict_capacity_limit(capacity: usize) -> New<Cache> {
        New(cache(capacity, 0, true))
    }

    fn rocksdb_cache_create_lru_opts(options: &rocksdb_lru_cache_options_t) -> New<Cache> {
        New(cache(size(options.store(), "capacity"), 0, false))
    }

    fn rocksdb_jemalloc_nodump_allocator_create(errptr: Fail) -> New<MemoryAllocator> {
        // As RocksDB without jemalloc.
        Err(pumice::Error::not_supported(
            "JemallocNodumpAllocator only available with jemalloc version >= 5 and MADV_DONTDUMP \
             is available.",
        ))
    }

    fn rocksdb_lru_cache_options_set_memory_allocator(
        _options: &mut rocksdb_lru_cache_options_t, _allocator: Unused<MemoryAllocator>
    ) {}

    fn rocksdb_hyper_clock_cache_options_create(
        capacity: usize, estimated_entry_charge: usize
    ) -> New<HyperClockOptions> {
        let store = Store::named("hyper_clock_cache_options")
            .with("capacity", capacity as u64)
            .with("estimated_entry_charge", estimated_entry_charge as u64);
        New(HyperClockOptions(store))
    }

    fn rocksdb_hyper_clock_cache_options_set_memory_allocator(
        _options: &mut HyperClockOptions, _allocator: Unused<MemoryAllocator>
    ) {}

    fn rocksdb_cache_create_hyper_clock(
        capacity: usize, estimated_entry_charge: usize
    ) -> New<Cache> {
        New(cache(capacity, estimated_entry_charge, false))
    }

    fn rocksdb_cache_create_hyper_clock_opts(options: &HyperClockOptions) -> New<Cache> {
        let store = options.store();
        New(cache(size(store, "capacity"), size(store, "estimated_entry_charge"), false))
    }

    fn rocksdb_cache_disown_data(cache: &Cache) {
        // What is in the cache stays until the process ends, so that this takes no time.
        std::mem::forget(Arc::clone(&cache.blocks));
    }

    fn rocksdb_cache_set_capacity(cache: &Cache, capacity: usize) {
        cache.blocks.set_capacity(capacity);
    }

    fn rocksdb_cache_get_capacity(cache: &Cache) -> usize {
        cache.blocks.capacity()
    }

    fn rocksdb_cache_get_usage(cache: &Cache) -> usize {
        cache.blocks.usage() + cache.rows.get().map_or(0, |rows| rows.usage())
    }

    fn rocksdb_cache_get_pinned_usage(cache: &Cache) -> usize {
        cache.blocks.pinned_usage()
    }

    fn rocksdb_cache_get_table_address_count(cache: &Cache) -> usize {
        cache.blocks.table_len()
    }

    fn rocksdb_cache_get_occupancy_count(cache: &Cache) -> usize {
        cache.blocks.occupancy()
    }

    fn rocksdb_write_buffer_manager_create(
        buffer_size: usize, allow_stall: bool
    ) -> New<BufferManager> {
        New(manager(buffer_size, None, allow_stall, 0))
    }

    fn rocksdb_write_buffer_manager_create_with_cache(
        buffer_size: usize, cache: &Cache, allow_stall: bool
    ) -> New<BufferManager> {
        New(manager(buffer_size, Some(cache), allow_stall, 0))
    }

    fn rocksdb_write_buffer_manager_create_with_policy(
        buffer_size: usize, allow_stall: bool, flush_policy: i32
    ) -> Option<New<BufferManager>> {
        let known = is_policy(flush_policy);
        known.then(|| New(manager(buffer_size, None, allow_stall, flush_policy)))
    }

    fn rocksdb_write_buffer_manager_create_with_cache_and_policy(
        buffer_size: usize, cache: &Cache, allow_stall: bool, flush_policy: i32
    ) -> Option<New<BufferManager>> {
        let known = is_policy(flush_policy);
        known.then(|| New(manager(buffer_size, Some(cache), allow_stall, flush_policy)))
    }

    fn rocksdb_write_buffer_manager_flush_policy(manager: &BufferManager) -> i32 {
        manager.flush_policy
    }

    fn rocksdb_write_buffer_manager_set_flush_policy(manager: &mut BufferManager, policy: i32) {
        if is_policy(policy) {
            manager.flush_policy = policy;
        }
    }

    fn rocksdb_write_buffer_manager_enabled(manager: &BufferManager) -> bool {
        manager.manager.enabled()
    }

    fn rocksdb_write_buffer_manager_cost_to_cache(manager: &BufferManager) -> bool {
        manager.manager.cost_to_cache()
    }

    fn rocksdb_write_buffer_manager_memory_usage(manager: &BufferManager) -> usize {
        manager.manager.memory_usage()
    }

    fn rocksdb_write_buffer_manager_mutable_memtable_memory_usage(
        manager: &BufferManager
    ) -> usize {
        manager.manager.mutable_memtable_memory_usage()
    }

    fn rocksdb_write_buffer_manager_dummy_entries_in_cache_usage(manager: &BufferManager) -> usize {
        manager.manager.charged_to_cache()
    }

    fn rocksdb_write_buffer_manager_buffer_size(manager: &BufferManager) -> usize {
        manager.manager.buffer_bytes()
    }

    fn rocksdb_write_buffer_manager_set_buffer_size(manager: &BufferManager, buffer_size: usize) {
        manager.manager.set_buffer_bytes(buffer_size);
    }

    fn rocksdb_write_buffer_manager_set_allow_stall(manager: &BufferManager, allow_stall: bool) {
        manager.manager.set_allow_stall(allow_stall);
    }

    fn rocksdb_ratelimiter_create(rate: i64, refill_period_us: i64, fairness: i32) -> New<Limiter> {
        New(limiter(rate, refill_period_us, fairness, RateLimiterMode::WritesOnly, false))
    }

    fn rocksdb_ratelimiter_create_auto_tuned(
        rate: i64, refill_period_us: i64, fairness: i32
    ) -> New<Limiter> {
        New(limiter(rate, refill_period_us, fairness, RateLimiterMode::WritesOnly, true))
    }

    fn rocksdb_ratelimiter_create_with_mode(
        rate: i64, refill_period_us: i64, fairness: i32, mode: i32, auto_tuned: bool
    ) -> New<Limiter> {
        let mode = match mode {
            0 => RateLimiterMode::ReadsOnly,
            2 => RateLimiterMode::AllIo,
            _ => RateLimiterMode::WritesOnly,
        };
        New(limiter(rate, refill_period_us, fairness, mode, auto_tuned))
    }

    fn rocksdb_sst_file_manager_create(_env: Unused<Env>) -> New<FileManager> {
        let manager = SstFileManager::new(&SstFileManagerOptions::default());
        New(FileManager(Arc::new(manager.expect("the defaults are allowed"))))
    }

    fn rocksdb_sst_file_manager_set_max_allowed_space_usage(manager: &FileManager, bytes: u64) {
        manager.0.set_max_allowed_space_usage(bytes);
    }

    fn rocksdb_sst_file_manager_set_compaction_buffer_size(manager: &FileManager, bytes: u64) {
        manager.0.set_compaction_buffer_size(bytes);
    }

    fn rocksdb_sst_file_manager_is_max_allowed_space_reached(manager: &FileManager) -> bool {
        manager.0.is_max_allowed_space_reached()
    }

    fn rocksdb_sst_file_manager_is_max_allowed_space_reached_including_compactions(
        manager: &FileManager
    ) -> bool {
        manager.0.is_max_allowed_space_reached_including_compactions()
    }

    fn rocksdb_sst_file_manager_get_total_size(manager: &FileManager) -> u64 {
        manager.0.total_size()
    }

    fn rocksdb_sst_file_manager_get_delete_rate_bytes_per_second(manager: &FileManager) -> i64 {
        i64::try_from(manager.0.delete_rate_bytes_per_second()).unwrap_or(i64::MAX)
    }

    fn rocksdb_sst_file_manager_set_delete_rate_bytes_per_second(manager: &FileManager, rate: i64) {
        manager.0.set_delete_rate_bytes_per_second(u64::try_from(rate).unwrap_or(0));
    }

    fn rocksdb_sst_file_manager_get_max_trash_db_ratio(manager: &FileManager) -> f64 {
        manager.0.max_trash_db_ratio()
    }

    fn rocksdb_sst_file_manager_set_max_trash_db_ratio(manager: &FileManager, ratio: f64) {
        // A ratio that is none changes nothing; there is no place for an error.
        manager.0.set_max_trash_db_ratio(ratio).ok();
    }

    fn rocksdb_sst_file_manager_get_total_trash_size(manager: &FileManager) -> u64 {
        manager.0.total_trash_size()
    }
}
