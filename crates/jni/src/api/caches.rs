//! Caches, write buffer managers, rate limiters, managers of table files, environments.

use std::sync::{Arc, OnceLock};

use jni_sys::jvalue;
use pumice::{
    BlockCache, CacheOptions, ConcurrentTaskLimiter, IoPriority, PersistentCache,
    PersistentCacheOptions, PoolPriority, RateLimiter, RateLimiterMode, RateLimiterOptions,
    SstFileManager, SstFileManagerOptions, WriteBufferManager,
};
use pumice_binding::database::Database;
use pumice_binding::env::Env as Files;
use pumice_env::IoKind;

use crate::ffi::call::{Result, missing};
use crate::ffi::env::{Env, Object};
use crate::ffi::from::{Handle, Taken};
use crate::ffi::handle;
use crate::ffi::into::New;
use crate::maps;
use crate::objects::{BufferManager, Cache, CompactionLimit, FileManager, Limiter, Persistent};

fn cache(capacity: usize, charge: usize, strict: bool) -> New<Cache> {
    let mut options = CacheOptions::new(capacity);
    if charge > 0 {
        options.estimated_entry_charge = charge;
    }
    options.strict_capacity_limit = strict;
    New(Cache { blocks: BlockCache::new(options), rows: Arc::new(OnceLock::new()) })
}

/// Java: LRUCache.newLRUCache
pub fn new_lru(
    _env: Env<'_>,
    capacity: usize,
    _shard_bits: i32,
    strict: bool,
    _high_priority: f64,
    _low_priority: f64,
) -> Result<New<Cache>> {
    Ok(cache(capacity, 0, strict))
}

/// Java: ClockCache.newClockCache
pub fn new_clock(
    _env: Env<'_>,
    capacity: usize,
    _shard_bits: i32,
    strict: bool,
) -> Result<New<Cache>> {
    Ok(cache(capacity, 0, strict))
}

/// Java: HyperClockCache.newHyperClockCache
pub fn new_hyper_clock(
    _env: Env<'_>,
    capacity: usize,
    charge: usize,
    _shard_bits: i32,
    strict: bool,
) -> Result<New<Cache>> {
    Ok(cache(capacity, charge, strict))
}

/// Java: PersistentCache.newPersistentCache
pub fn new_persistent(
    _env: Env<'_>,
    files: &Files,
    path: String,
    bytes: u64,
    _logger: Handle,
    _optimized_for_nvm: bool,
) -> Result<New<Persistent>> {
    let options = PersistentCacheOptions::new(path, bytes);
    Ok(New(Persistent(PersistentCache::open(Arc::clone(files.file_system()), options)?)))
}

/// Java: Cache.getUsage
pub fn usage(_env: Env<'_>, cache: &Cache) -> Result<usize> {
    Ok(cache.blocks.usage() + cache.rows.get().map_or(0, |rows| rows.usage()))
}

/// Java: Cache.getPinnedUsage
pub fn pinned_usage(_env: Env<'_>, cache: &Cache) -> Result<usize> {
    Ok(cache.blocks.pinned_usage())
}

/// Java: WriteBufferManager.newWriteBufferManager
pub fn new_buffers(
    _env: Env<'_>,
    bytes: usize,
    cache: Option<&Cache>,
    allow_stall: bool,
) -> Result<New<BufferManager>> {
    let account = cache.map(|cache| Arc::clone(&cache.blocks) as _);
    let manager = WriteBufferManager::new(bytes, account, allow_stall);
    Ok(New(BufferManager { manager }))
}

/// Java: RateLimiter.newRateLimiterHandle
pub fn new_limiter(
    _env: Env<'_>,
    rate: i64,
    refill_us: i64,
    fairness: i32,
    mode: i8,
    tuned: bool,
) -> Result<New<Limiter>> {
    let mode = match mode {
        0 => RateLimiterMode::ReadsOnly,
        2 => RateLimiterMode::AllIo,
        _ => RateLimiterMode::WritesOnly,
    };
    let options = RateLimiterOptions {
        refill_period_us: u64::try_from(refill_us).unwrap_or(0),
        fairness: u64::try_from(fairness).unwrap_or(0),
        mode,
        auto_tuned: tuned,
        ..RateLimiterOptions::new(u64::try_from(rate).unwrap_or(0))
    };
    Ok(New(Limiter(RateLimiter::new(&options).map(Arc::new))))
}

fn limiter(limiter: &Limiter) -> Result<&Arc<RateLimiter>> {
    limiter.0.as_ref().map_err(|error| error.clone().into())
}

/// Java: RateLimiter.getBytesPerSecond
pub fn rate(_env: Env<'_>, it: &Limiter) -> Result<u64> {
    Ok(limiter(it)?.bytes_per_second())
}

/// Java: RateLimiter.setBytesPerSecond
pub fn set_rate(_env: Env<'_>, it: &Limiter, rate: u64) -> Result<()> {
    Ok(limiter(it)?.set_bytes_per_second(rate)?)
}

/// Java: RateLimiter.getSingleBurstBytes
pub fn burst(_env: Env<'_>, it: &Limiter) -> Result<u64> {
    Ok(limiter(it)?.single_burst_bytes())
}

/// Java: RateLimiter.getTotalBytesThrough
pub fn bytes_through(_env: Env<'_>, it: &Limiter) -> Result<u64> {
    Ok(limiter(it)?.total_bytes_through(None))
}

/// Java: RateLimiter.getTotalRequests
pub fn requests(_env: Env<'_>, it: &Limiter) -> Result<u64> {
    Ok(limiter(it)?.total_requests(None))
}

/// Java: RateLimiter.request
pub fn request(_env: Env<'_>, it: &Limiter, bytes: u64) -> Result<()> {
    limiter(it)?.request(bytes, IoPriority::Low, IoKind::Write, None);
    Ok(())
}

/// Java: ConcurrentTaskLimiterImpl.newConcurrentTaskLimiterImpl0
pub fn new_limit(_env: Env<'_>, name: String, max: i32) -> Result<New<CompactionLimit>> {
    Ok(New(CompactionLimit(Arc::new(ConcurrentTaskLimiter::new(name, max)))))
}

/// Java: ConcurrentTaskLimiterImpl.name
pub fn limit_name<'a>(_env: Env<'_>, limit: &'a CompactionLimit) -> Result<&'a str> {
    Ok(limit.0.name())
}

/// Java: ConcurrentTaskLimiterImpl.setMaxOutstandingTask
pub fn set_limit(_env: Env<'_>, limit: &CompactionLimit, max: i32) -> Result<()> {
    limit.0.set_max_outstanding_tasks(max);
    Ok(())
}

/// Java: ConcurrentTaskLimiterImpl.resetMaxOutstandingTask
pub fn reset_limit(_env: Env<'_>, limit: &CompactionLimit) -> Result<()> {
    limit.0.reset_max_outstanding_tasks();
    Ok(())
}

/// Java: ConcurrentTaskLimiterImpl.outstandingTask
pub fn outstanding(_env: Env<'_>, limit: &CompactionLimit) -> Result<i32> {
    Ok(limit.0.outstanding_tasks())
}

/// Java: ConcurrentTaskLimiterImpl.disposeInternal
pub fn end_limit(_env: Env<'_>, _limit: Taken<CompactionLimit>) -> Result<()> {
    Ok(())
}

/// Java: SstFileManager.newSstFileManager
pub fn new_file_manager(
    _env: Env<'_>,
    _files: &Files,
    _logger: Handle,
    rate: i64,
    ratio: f64,
    _chunk_bytes: i64,
) -> Result<New<FileManager>> {
    let manager = SstFileManager::new(&SstFileManagerOptions::default())?;
    manager.set_delete_rate_bytes_per_second(u64::try_from(rate).unwrap_or(0));
    manager.set_max_trash_db_ratio(ratio)?;
    Ok(New(FileManager(Arc::new(manager))))
}

/// Java: SstFileManager.setMaxAllowedSpaceUsage
pub fn set_max_space(_env: Env<'_>, it: &FileManager, bytes: u64) -> Result<()> {
    it.0.set_max_allowed_space_usage(bytes);
    Ok(())
}

/// Java: SstFileManager.setCompactionBufferSize
pub fn set_compaction_buffer(_env: Env<'_>, it: &FileManager, bytes: u64) -> Result<()> {
    it.0.set_compaction_buffer_size(bytes);
    Ok(())
}

/// Java: SstFileManager.getTrackedFiles
pub fn tracked_files<'a>(env: Env<'a>, it: &FileManager) -> Result<Object<'a>> {
    let map = env.construct("java/util/HashMap", "()V", &[])?;
    for (path, bytes) in it.0.tracked_files() {
        let path = env.new_text(&path.to_string_lossy())?;
        let bytes = [jvalue { j: i64::try_from(bytes).unwrap_or(i64::MAX) }];
        let bytes = env.construct("java/lang/Long", "(J)V", &bytes)?;
        maps::put(env, map, path, bytes)?;
        env.forget(path);
        env.forget(bytes);
    }
    Ok(map)
}

/// Java: SstFileManager.isMaxAllowedSpaceReached
pub fn is_full(_env: Env<'_>, it: &FileManager) -> Result<bool> {
    Ok(it.0.is_max_allowed_space_reached())
}

/// Java: SstFileManager.isMaxAllowedSpaceReachedIncludingCompactions
pub fn is_full_with_compactions(_env: Env<'_>, it: &FileManager) -> Result<bool> {
    Ok(it.0.is_max_allowed_space_reached_including_compactions())
}

/// Java: SstFileManager.getTotalSize
pub fn total_size(_env: Env<'_>, it: &FileManager) -> Result<u64> {
    Ok(it.0.total_size())
}

/// Java: SstFileManager.getDeleteRateBytesPerSecond
pub fn delete_rate(_env: Env<'_>, it: &FileManager) -> Result<u64> {
    Ok(it.0.delete_rate_bytes_per_second())
}

/// Java: SstFileManager.setDeleteRateBytesPerSecond
pub fn set_delete_rate(_env: Env<'_>, it: &FileManager, rate: i64) -> Result<()> {
    it.0.set_delete_rate_bytes_per_second(u64::try_from(rate).unwrap_or(0));
    Ok(())
}

/// Java: SstFileManager.getMaxTrashDBRatio
pub fn trash_ratio(_env: Env<'_>, it: &FileManager) -> Result<f64> {
    Ok(it.0.max_trash_db_ratio())
}

/// Java: SstFileManager.setMaxTrashDBRatio
pub fn set_trash_ratio(_env: Env<'_>, it: &FileManager, ratio: f64) -> Result<()> {
    Ok(it.0.set_max_trash_db_ratio(ratio)?)
}

/// The default environment's handle, which Java never ends.
static DEFAULT: OnceLock<i64> = OnceLock::new();

/// Java: Env.getDefaultEnvInternal
pub fn default_env(_env: Env<'_>) -> Result<i64> {
    Ok(*DEFAULT.get_or_init(|| handle::give(Files::default())))
}

/// Java: RocksDB.getEnv
pub fn env_of(env: Env<'_>, db: &Database) -> Result<i64> {
    let own = &db.db().options().file_system;
    if !Arc::ptr_eq(own, Files::default().file_system()) {
        return Err(missing("RocksDB.getEnv of an environment that is not the default"));
    }
    default_env(env)
}

/// Java: RocksMemEnv.createMemEnv 0
pub fn new_mem_env(_env: Env<'_>, _base: i64) -> Result<New<Files>> {
    Ok(New(Files::in_memory()))
}

/// Java: TimedEnv.createTimedEnv
pub fn new_timed_env(_env: Env<'_>, base: &Files) -> Result<New<Files>> {
    // What it times is in the perf context already.
    Ok(New(base.clone()))
}

fn pool(number: i8) -> PoolPriority {
    match number {
        0 => PoolPriority::Bottom,
        2 => PoolPriority::High,
        3 => PoolPriority::User,
        _ => PoolPriority::Low,
    }
}

/// Java: Env.setBackgroundThreads
pub fn set_threads(_env: Env<'_>, files: &Files, threads: i32, priority: i8) -> Result<()> {
    files.set_background_threads(pool(priority), i64::from(threads));
    Ok(())
}

/// Java: Env.getBackgroundThreads
pub fn threads(_env: Env<'_>, files: &Files, priority: i8) -> Result<i32> {
    Ok(i32::try_from(files.background_threads(pool(priority))).unwrap_or(i32::MAX))
}

/// Java: Env.getThreadPoolQueueLen
pub fn queue_length(_env: Env<'_>, files: &Files, priority: i8) -> Result<i32> {
    Ok(i32::try_from(files.queue_len(pool(priority))).unwrap_or(i32::MAX))
}

/// Java: Env.incBackgroundThreadsIfNeeded
pub fn add_threads(_env: Env<'_>, files: &Files, threads: i32, priority: i8) -> Result<()> {
    let present = i64::try_from(files.background_threads(pool(priority))).unwrap_or(i64::MAX);
    if i64::from(threads) > present {
        files.set_background_threads(pool(priority), i64::from(threads));
    }
    Ok(())
}

/// Java: Env.lowerThreadPoolIOPriority|lowerThreadPoolCPUPriority
pub fn lower_priority(_env: Env<'_>, _files: &Files, _priority: i8) -> Result<()> {
    // Threads of the pools have their priorities from the engine.
    Ok(())
}
