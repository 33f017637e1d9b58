//! Pumice as an engine.
//!
//! Options are set by RocksDB's names, as for the RocksDB library. An option that Pumice does not
//! have is passed over when its flag was not given, and refused when it was.

use super::engine::{self, BenchDb, Engine, Hits, Result};
use super::engine_options::{self, LIMITER_FAIRNESS, MAX_TRASH_DB_RATIO, NamedOption};
use super::flags::Flags;
use pumice::{
    BottommostLevelCompaction, ColumnFamilyDescriptor, CompactRangeOptions, CpuPriority, Db,
    DbIterator, FlushOptions, IoPriority, Options, PoolPriority, RateLimiter, RateLimiterMode,
    RateLimiterOptions, ReadOptions, SstFileManager, SstFileManagerOptions, Statistics,
    ThreadPools, WaitForCompactOptions, WriteBatch, WriteOptions,
};
use pumice_cache::{Cache, CacheOptions};
use pumice_port::helpers::HelperPool;
use std::path::Path;
use std::sync::Arc;

/// The options of Pumice's databases.
pub struct Pumice {
    options: Options,
}

impl Pumice {
    /// Turns `flags` into options.
    ///
    /// # Errors
    /// Pumice refuses an option.
    pub fn new(flags: &Flags) -> Result<Self> {
        let mut options = Options::default();
        let named = engine_options::from_flags(flags)?;
        for option in &named.main {
            let result = options.set(option.name, &option.value);
            unless_unasked(option, result)?;
        }
        for option in &named.table {
            let result = options.cf.table_factory.set(option.name, &option.value);
            unless_unasked(option, result)?;
        }
        if !matches!(flags.cache_type.as_str(), "hyper_clock_cache" | "lru_cache") {
            return Err(format!("cache_type {} is not supported yet", flags.cache_type));
        }
        // The cache has no shards: any number that RocksDB takes gives the same one.
        engine_options::cache_shard_bits(flags)?;
        options.cf.table_factory.block_cache = Some(Cache::new(CacheOptions {
            capacity: usize::try_from(flags.cache_size).unwrap_or(0),
            ..CacheOptions::default()
        }));
        options.cf.compression_opts.parallel_fast_codecs = flags.compression_parallel_fast_codecs;
        if let Ok(helpers) = usize::try_from(flags.compression_helpers) {
            HelperPool::shared().set_limit(helpers);
        }
        options.db.rate_limiter = rate_limiter(flags)?;
        options.db.sst_file_manager = file_manager(flags)?;
        options.db.create_if_missing = true;
        if flags.statistics {
            options.db.statistics = Some(Arc::new(Statistics::new()));
        }
        Ok(Pumice { options })
    }
}

/// The limiter that `flags` ask for.
fn rate_limiter(flags: &Flags) -> Result<Option<Arc<RateLimiter>>> {
    let Some(wanted) = engine_options::limiter(flags)? else { return Ok(None) };
    let limiter = RateLimiter::new(&RateLimiterOptions {
        rate_bytes_per_sec: wanted.rate.unsigned_abs(),
        refill_period_us: wanted.refill_period_micros.unsigned_abs(),
        fairness: u64::from(LIMITER_FAIRNESS.unsigned_abs()),
        mode: match wanted.reads_only {
            true => RateLimiterMode::ReadsOnly,
            false => RateLimiterMode::WritesOnly,
        },
        auto_tuned: wanted.auto_tuned,
        single_burst_bytes: wanted.single_burst_bytes.unsigned_abs(),
    });
    Ok(Some(Arc::new(limiter.map_err(text)?)))
}

/// The manager of table files that `flags` ask for.
fn file_manager(flags: &Flags) -> Result<Option<Arc<SstFileManager>>> {
    let Some(wanted) = engine_options::file_manager(flags)? else { return Ok(None) };
    let manager = SstFileManager::new(&SstFileManagerOptions {
        rate_bytes_per_sec: wanted.rate.unsigned_abs(),
        max_trash_db_ratio: MAX_TRASH_DB_RATIO,
        bytes_max_delete_chunk: wanted.bytes_per_truncate,
    });
    Ok(Some(Arc::new(manager.map_err(text)?)))
}

/// Lets a refusal pass when the user did not give the option's flag.
fn unless_unasked(option: &NamedOption, result: pumice::Result<()>) -> Result<()> {
    match result {
        Err(error) if option.given => Err(error.to_string()),
        _ => Ok(()),
    }
}

fn text(error: pumice::Error) -> String {
    error.to_string()
}

impl Engine for Pumice {
    type Db = PumiceDb;

    fn version_line(&self) -> String {
        format!("Pumice:     version {}", env!("CARGO_PKG_VERSION"))
    }

    fn open(&self, path: &Path, read_only: bool) -> Result<PumiceDb> {
        let db = if read_only {
            let family = ColumnFamilyDescriptor::new("default", self.options.cf.clone());
            Db::open_read_only(&self.options.db, path, &[family], false).map(|(db, _)| db)
        } else {
            Db::open(&self.options, path)
        };
        Ok(PumiceDb { db: db.map_err(text)? })
    }

    fn destroy(&self, path: &Path) -> Result<()> {
        Db::destroy(&self.options, path).map_err(text)
    }

    fn set_threads(&self, pool: engine::Pool, threads: u32) -> Result<()> {
        let pool = match pool {
            engine::Pool::Bottom => PoolPriority::Bottom,
            engine::Pool::Low => PoolPriority::Low,
            engine::Pool::High => PoolPriority::High,
        };
        ThreadPools::shared().set_background_threads(threads as usize, pool);
        Ok(())
    }

    fn lower_priority(&self, cpu: bool, io: bool) -> Result<()> {
        let pools = ThreadPools::shared();
        for pool in [PoolPriority::Low, PoolPriority::High] {
            if io {
                pools.lower_thread_pool_io_priority(pool).map_err(text)?;
            }
            if cpu {
                pools.lower_thread_pool_cpu_priority(pool, CpuPriority::Low).map_err(text)?;
            }
        }
        Ok(())
    }

    fn statistics(&self) -> Option<String> {
        self.options.db.statistics.as_ref().map(|statistics| statistics.to_string())
    }
}

/// An open database.
pub struct PumiceDb {
    db: Db,
}

impl BenchDb for PumiceDb {
    type Writer = PumiceWriter;
    type Reader = PumiceReader;
    type Cursor = DbIterator;

    fn writer(&self, settings: engine::WriteSettings) -> PumiceWriter {
        let options = WriteOptions {
            sync: settings.sync,
            disable_wal: settings.disable_wal,
            rate_limiter_priority: settings.limited.then_some(IoPriority::User),
            ..WriteOptions::default()
        };
        PumiceWriter { db: self.db.clone(), options, batch: WriteBatch::new() }
    }

    fn reader(&self, settings: &engine::ReadSettings) -> PumiceReader {
        PumiceReader { db: self.db.clone(), options: read_options(settings, [None, None]) }
    }

    fn cursor(
        &self,
        settings: &engine::ReadSettings,
        bounds: [Option<&[u8]>; 2],
    ) -> Result<DbIterator> {
        self.db.iter(&read_options(settings, bounds)).map_err(text)
    }

    fn flush(&self) -> Result<()> {
        self.db.flush(&FlushOptions::default()).map_err(text)
    }

    fn compact(&self, subcompactions: i32) -> Result<()> {
        let options = CompactRangeOptions {
            bottommost_level_compaction: BottommostLevelCompaction::ForceOptimized,
            max_subcompactions: u32::try_from(subcompactions).unwrap_or(0),
            ..CompactRangeOptions::default()
        };
        self.db.compact_range(&options, None, None).map_err(text)
    }

    fn wait_for_compaction(&self) -> Result<()> {
        self.db.wait_for_compact(&WaitForCompactOptions::default()).map_err(text)
    }

    fn verify_checksum(&self) -> Result<()> {
        self.db.verify_checksum().map_err(text)
    }

    fn property(&self, name: &str) -> Option<String> {
        self.db.property(name)
    }
}

fn read_options(
    settings: &engine::ReadSettings,
    [lower, upper]: [Option<&[u8]>; 2],
) -> ReadOptions {
    ReadOptions {
        verify_checksums: settings.verify_checksums,
        total_order_seek: settings.total_order_seek,
        prefix_same_as_start: settings.prefix_same_as_start,
        readahead_size: settings.readahead_size,
        rate_limiter_priority: settings.limited.then_some(IoPriority::User),
        iterate_lower_bound: lower.map(<[u8]>::to_vec),
        iterate_upper_bound: upper.map(<[u8]>::to_vec),
        ..ReadOptions::default()
    }
}

/// Writes of one worker.
pub struct PumiceWriter {
    db: Db,
    options: WriteOptions,
    batch: WriteBatch,
}

impl engine::Writer for PumiceWriter {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.db.put(&self.options, key, value).map_err(text)
    }
    fn merge(&mut self, key: &[u8], operand: &[u8]) -> Result<()> {
        self.db.merge(&self.options, key, operand).map_err(text)
    }
    fn batch_put(&mut self, key: &[u8], value: &[u8]) {
        self.batch.put(key, value);
    }
    fn batch_delete(&mut self, key: &[u8]) {
        self.batch.delete(key);
    }
    fn commit(&mut self) -> Result<()> {
        let written = self.db.write(&self.options, &mut self.batch);
        self.batch.clear();
        written.map_err(text)
    }
}

/// Point reads of one worker.
pub struct PumiceReader {
    db: Db,
    options: ReadOptions,
}

impl engine::Reader for PumiceReader {
    fn get(&mut self, key: &[u8]) -> Result<Option<usize>> {
        match self.db.get(&self.options, key) {
            Ok(value) => Ok(value.map(|value| value.len())),
            Err(error) => Err(text(error)),
        }
    }

    fn multi_get(&mut self, keys: &[u8], key_len: usize) -> Result<Hits> {
        let keys: Vec<&[u8]> = keys.chunks_exact(key_len).collect();
        let mut hits = Hits::default();
        for value in self.db.multi_get(&self.options, &keys) {
            if let Some(value) = value.map_err(text)? {
                hits.found += 1;
                hits.bytes += (key_len + value.len()) as u64;
            }
        }
        Ok(hits)
    }
}

impl engine::Cursor for DbIterator {
    fn valid(&self) -> bool {
        self.valid()
    }
    fn seek_to_first(&mut self) {
        self.seek_to_first();
    }
    fn seek_to_last(&mut self) {
        self.seek_to_last();
    }
    fn seek(&mut self, key: &[u8]) {
        self.seek(key);
    }
    fn next(&mut self) {
        self.next();
    }
    fn prev(&mut self) {
        self.prev();
    }
    fn key(&self) -> &[u8] {
        self.key()
    }
    fn value(&self) -> &[u8] {
        self.value()
    }
    fn status(&self) -> Result<()> {
        self.status().map_err(text)
    }
}
