//! Pumice as an engine.
//!
//! Options are set by RocksDB's names, as for the RocksDB library. An option that Pumice does not
//! have is skipped if its flag was not given, and refused if it was.

use super::backups;
use super::cache_report;
use super::caches;
use super::counted_files::{CountedFiles, FileCounts};
use super::engine::{self, Access, BenchDb, Engine, Result, TransactionKind};
use super::engine_options::{self, LIMITER_FAIRNESS, MAX_TRASH_DB_RATIO, NamedOption};
use super::families::Families;
use super::flags::Flags;
use super::integers::Uint64Comparator;
use super::open_and_compact;
use super::pumice_blob_db::{self, AnyCursor, Blobs};
use super::pumice_calls::{self, PumiceReader, PumiceWriter, read_options, write_options};
use super::pumice_transactions::{self, Base};
use super::simulated_disk::SimulatedDisks;
use super::stats_history::Sample;
use super::stderr_logger::StderrLogger;
use super::timeseries::is_expired;
use super::user_times::UserTimes;
use pumice::options::{CompactionServiceOptionsOverride, FileRules, parse_options_file};
use pumice::stats::{StatsLevel, ThreadStatus, thread_list};
use pumice::trace::{BlockCacheTraceOptions, FileTraceWriter, TraceOptions};
use pumice::{
    BlobDb, BlobDbOptions, BottommostLevelCompaction, ColumnFamily, ColumnFamilyDescriptor,
    CompactFilesOptions, CompactRangeOptions, CompactionFilter, Comparator, CpuPriority, Db,
    FilterDecision, FlushOptions, Options, PoolPriority, PosixFs, RateLimiter, RateLimiterMode,
    RateLimiterOptions, RowCache, SstFileManager, SstFileManagerOptions, Statistics, ThreadPools,
    WaitForCompactOptions, WriteBufferManager,
};
use pumice_port::helpers::HelperPool;
use pumice_port::sync::Mutex;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// The options of Pumice's databases.
pub struct Pumice {
    options: Options,
    families: Families,
    files: Option<Arc<FileCounts>>,
    time: Arc<AtomicU64>,
    transactions: Option<TransactionKind>,
    times: Option<Arc<UserTimes>>,
    /// For RocksDB's old BlobDB, and below how many seconds its values live; 0: forever.
    blob_db: Option<(BlobDbOptions, u64)>,
}

/// `--expire_style=compaction_filter`: removes what timeseries wrote too long ago.
struct ExpiredFilter {
    /// As timeseries counts it.
    now: Arc<AtomicU64>,
    /// What is older is removed.
    range: u64,
}

impl CompactionFilter for ExpiredFilter {
    fn name(&self) -> &str {
        "ExpiredTimeFilter"
    }
    fn filter(&self, _: i32, key: &[u8], _: &[u8]) -> FilterDecision {
        match is_expired(key, self.now.load(Ordering::Relaxed), self.range) {
            true => FilterDecision::Remove,
            false => FilterDecision::Keep,
        }
    }
}

/// Keeps everything: what calling a filter costs.
struct KeepFilter;

impl CompactionFilter for KeepFilter {
    fn name(&self) -> &str {
        "KeepFilter"
    }
    fn filter(&self, _: i32, _: &[u8], _: &[u8]) -> FilterDecision {
        FilterDecision::Keep
    }
}

impl Pumice {
    /// Turns `flags` into options.
    ///
    /// # Errors
    /// Pumice refuses an option.
    pub fn new(flags: &Flags) -> Result<Self> {
        let mut options = match flags.options_file.as_os_str().is_empty() {
            true => from_flags(flags)?,
            false => from_file(&flags.options_file)?,
        };
        let cache = caches::block_cache(flags)?;
        if flags.cost_write_buffer_to_cache {
            let limit = usize::try_from(options.db.db_write_buffer_size).unwrap_or(usize::MAX);
            let manager = WriteBufferManager::new(limit, Some(Arc::clone(&cache) as _), false);
            options.db.write_buffer_manager = Some(manager);
        }
        options.cf.blob_cache = flags.use_blob_cache.then(|| caches::blob_cache(flags, &cache));
        options.cf.table_factory.block_cache = Some(cache);
        if flags.options_file.as_os_str().is_empty() {
            options.cf.table_factory.cache_usage_options = caches::charges(flags);
        }
        if flags.use_uint64_comparator {
            if flags.key_size != 8 {
                return Err("Using Uint64 comparator but key size is not 8.".into());
            }
            options.cf.comparator = Comparator::Custom(Arc::new(Uint64Comparator));
        }
        let times = UserTimes::wanted(flags)?.map(|(times, order)| {
            options.cf.comparator = order;
            times
        });
        if let Ok(bytes @ 1..) = usize::try_from(flags.row_cache_size) {
            options.db.row_cache = Some(RowCache::new(bytes));
        }
        options.cf.compression_opts.parallel_fast_codecs = flags.compression_parallel_fast_codecs;
        if let Ok(helpers) = usize::try_from(flags.compression_helpers) {
            HelperPool::shared().set_limit(helpers);
        }
        options.db.rate_limiter = rate_limiter(flags)?.or(options.db.rate_limiter);
        options.db.sst_file_manager = file_manager(flags)?;
        if flags.use_stderr_info_logger {
            options.db.info_log = Some(Arc::new(StderrLogger { level: options.db.info_log_level }));
        }
        options.db.enable_thread_tracking |= flags.thread_status_per_interval > 0;
        options.db.create_if_missing = true;
        options.db.create_missing_column_families = true;
        if flags.wants_statistics() {
            let statistics = Statistics::new();
            statistics.set_level(stats_level(flags.stats_level)?);
            options.db.statistics = Some(Arc::new(statistics));
        }
        if flags.use_keep_filter && options.cf.compaction_filter.is_none() {
            options.cf.compaction_filter = Some(Arc::new(KeepFilter));
            println!("A noop compaction filter is used");
        }
        let time = Arc::<AtomicU64>::default();
        if flags.expire_style == "compaction_filter" {
            let filter = ExpiredFilter { now: time.clone(), range: flags.time_range };
            options.cf.compaction_filter = Some(Arc::new(filter));
            println!("Compaction filter is used to remove expired data");
        }
        options.db.file_system = SimulatedDisks::wanted(flags, options.db.file_system)?;
        let files = flags.report_file_operations.then(Arc::<FileCounts>::default);
        if let Some(counts) = files.clone() {
            let inner = options.db.file_system;
            options.db.file_system = Arc::new(CountedFiles { inner, counts });
        }
        let persistent = caches::persistent_cache(flags, &options.db.file_system)?;
        options.cf.table_factory.persistent_cache = persistent;
        let families = Families::new(flags)?;
        let transactions = pumice_transactions::wanted(flags)?;
        let blob_db = pumice_blob_db::wanted(flags)?;
        let blob_db = blob_db.map(|options| (options, flags.blob_db_max_ttl_range));
        Ok(Pumice { options, families, files, time, transactions, times, blob_db })
    }
}

impl Pumice {
    fn opened(&self, db: Db, families: Vec<ColumnFamily>, base: Option<Base>) -> PumiceDb {
        PumiceDb {
            db,
            base,
            blobs: None,
            created: AtomicUsize::new(families.len()),
            families: Mutex::new(families),
            options: self.options.clone(),
            tracing: AtomicBool::new(false),
            time: Arc::clone(&self.time),
            times: self.times.clone(),
        }
    }
}

/// A file, if it is named.
fn given(path: &Path) -> Option<&Path> {
    (!path.as_os_str().is_empty()).then_some(path)
}

/// The options from the flags.
fn from_flags(flags: &Flags) -> Result<Options> {
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
    println!("Initializing RocksDB Options from command-line flags");
    Ok(options)
}

/// The options of an OPTIONS file, with those of its first column family.
fn from_file(path: &Path) -> Result<Options> {
    let failed = |error: &dyn std::fmt::Display| {
        format!("Unable to load options file {} --- {error}", path.display())
    };
    let bytes = pumice_port::os::read_file(path).map_err(|error| failed(&error))?;
    let loaded =
        parse_options_file(&bytes, FileRules::default()).map_err(|error| failed(&error))?;
    println!("Initializing RocksDB Options from the specified file");
    let family = loaded.column_families.into_iter().next();
    let cf = family.ok_or_else(|| failed(&"it has no column family"))?.options;
    Ok(Options { db: loaded.db, cf })
}

fn stats_level(number: i32) -> Result<StatsLevel> {
    use StatsLevel::*;
    let levels = [
        DisableAll,
        ExceptHistogramOrTimers,
        ExceptTimers,
        ExceptDetailedTimers,
        ExceptTimeForMutex,
        All,
    ];
    let level = usize::try_from(number).ok().and_then(|at| levels.get(at));
    level.copied().ok_or_else(|| format!("stats_level {number} is not known"))
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

pub(super) fn text(error: pumice::Error) -> String {
    error.to_string()
}

impl Engine for Pumice {
    type Db = PumiceDb;

    fn version_line(&self) -> String {
        format!("Pumice:     version {}", env!("CARGO_PKG_VERSION"))
    }

    fn open(&self, path: &Path, wal_dir: Option<&Path>, access: Access<'_>) -> Result<PumiceDb> {
        let mut options = self.options.db.clone();
        if let Some(dir) = wal_dir {
            options.wal_dir = dir.display().to_string();
        }
        let names = (0..self.families.hot).map(Families::name);
        let families: Vec<ColumnFamilyDescriptor> =
            names.map(|name| ColumnFamilyDescriptor::new(name, self.options.cf.clone())).collect();
        if let (Access::Write, Some(kind)) = (access, self.transactions) {
            let opened = Base::open(kind, &options, path, &families).map_err(text)?;
            return Ok(self.opened(opened.0.db().clone(), opened.1, Some(opened.0)));
        }
        if let Some((blobs, ttl_below)) = &self.blob_db {
            let options = Options { db: options, cf: self.options.cf.clone() };
            let db = BlobDb::open(&options, blobs, path).map_err(text)?;
            let family = db.db().default_column_family().clone();
            let mut opened = self.opened(db.db().clone(), vec![family], None);
            opened.blobs = Some(Blobs { db, ttl_below: *ttl_below });
            return Ok(opened);
        }
        let opened = match access {
            Access::Write => Db::open_cf(&options, path, &families),
            Access::Read => Db::open_read_only(&options, path, &families, false),
            Access::Secondary(beside) => Db::open_as_secondary(&options, path, beside, &families),
            Access::Follower(leader) => {
                options.create_if_missing = true; // Its directory.
                Db::open_as_follower(&options, path, leader, &families)
            }
        };
        let (db, families) = opened.map_err(text)?;
        Ok(self.opened(db, families, None))
    }

    fn destroy(&self, path: &Path) -> Result<()> {
        match self.blob_db {
            Some(_) => BlobDb::destroy(&self.options, path).map_err(text),
            None => Db::destroy(&self.options, path).map_err(text),
        }
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

    fn cache_problems(&self) -> Result<String> {
        let cache = self.options.cf.table_factory.block_cache.as_deref();
        Ok(cache.map(cache_report::text).unwrap_or_default())
    }

    fn file_operations(&self) -> Option<String> {
        self.files.as_ref().map(|counts| counts.report())
    }

    fn statistics(&self) -> Option<String> {
        self.options.db.statistics.as_ref().map(|statistics| statistics.to_string())
    }

    fn simulated_cache(&self) -> Option<String> {
        let cache = self.options.cf.table_factory.block_cache.as_ref()?;
        Some(cache.simulation()?.to_string())
    }
}

/// An open database.
pub struct PumiceDb {
    pub(super) db: Db,
    /// The database with transactions, if it is one.
    base: Option<Base>,
    /// The old BlobDB, if it is one.
    pub(super) blobs: Option<Blobs>,
    /// Handles; only ever grows.
    pub(super) families: Mutex<Vec<ColumnFamily>>,
    /// How many of them there are.
    created: AtomicUsize,
    options: Options,
    /// The traces that the flags ask for are under way.
    tracing: AtomicBool,
    time: Arc<AtomicU64>,
    /// Those of its keys, if they have some.
    pub(super) times: Option<Arc<UserTimes>>,
}

impl BenchDb for PumiceDb {
    type Writer = PumiceWriter;
    type Reader = PumiceReader;
    type Cursor = AnyCursor;

    fn time(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.time)
    }

    fn families(&self) -> usize {
        self.created.load(Ordering::Acquire)
    }

    fn create_families(&self, total: usize) -> Result<()> {
        let mut families = self.families.lock();
        while families.len() < total {
            let name = Families::name(families.len());
            let made = self.db.create_column_family(&self.options.cf, &name);
            families.push(made.map_err(text)?);
            self.created.store(families.len(), Ordering::Release);
        }
        Ok(())
    }

    fn begin_traces(&self, flags: &Flags) -> Result<()> {
        if self.tracing.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let writer = |path: &Path| {
            let writer = FileTraceWriter::create(&*PosixFs::shared(), path);
            writer.map_err(|error| format!("Encountered an error starting a trace, {error}"))
        };
        if let Some(path) = given(&flags.trace_file) {
            let options = TraceOptions::default();
            self.db.start_trace(&options, Box::new(writer(path)?)).map_err(text)?;
            println!("Tracing the workload to: [{}]", path.display());
        }
        if let Some(path) = given(&flags.block_cache_trace_file) {
            let frequency = flags.block_cache_trace_sampling_frequency;
            let bytes_max = flags.block_cache_trace_max_trace_file_size_in_bytes;
            let options = BlockCacheTraceOptions {
                sampling_frequency: frequency.try_into().unwrap_or(1),
                max_trace_file_size: bytes_max.try_into().unwrap_or(0),
            };
            let started = self.db.start_block_cache_trace(&options, Box::new(writer(path)?));
            started.map_err(text)?;
            println!("Tracing block cache accesses to: [{}]", path.display());
        }
        Ok(())
    }

    fn end_traces(&self, flags: &Flags) -> Result<()> {
        if !self.tracing.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        if given(&flags.trace_file).is_some() {
            self.db.end_trace().map_err(text)?;
        }
        self.db.end_block_cache_trace().map_err(text)
    }

    fn catch_up(&self) -> Result<()> {
        self.db.try_catch_up_with_primary().map_err(text)
    }

    fn writer(&self, settings: engine::WriteSettings) -> PumiceWriter {
        PumiceWriter::new(self, settings)
    }

    fn transactions(
        &self,
        write: engine::WriteSettings,
        settings: engine::TransactionSettings,
    ) -> Result<Box<dyn engine::Transactions>> {
        let base = self.base.as_ref().ok_or("the database was opened without transactions")?;
        Ok(base.transactions(write_options(write), settings))
    }

    fn reader(&self, settings: &engine::ReadSettings) -> PumiceReader {
        PumiceReader::new(self, read_options(settings, [None, None]))
    }

    fn cursor(
        &self,
        settings: &engine::ReadSettings,
        bounds: [Option<&[u8]>; 2],
    ) -> Result<AnyCursor> {
        let options = self.scan_options(settings, bounds);
        match &self.blobs {
            Some(blobs) => {
                let cursor = blobs.db.cursor_opt(&options).map_err(text)?;
                Ok(AnyCursor::Blobs(Box::new(cursor)))
            }
            None => Ok(AnyCursor::Plain(self.db.cursor_opt(&options).map_err(text)?)),
        }
    }

    fn multi_scan(
        &self,
        settings: &engine::ReadSettings,
        ranges: &[(Vec<u8>, Vec<u8>)],
        see: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<()> {
        if self.blobs.is_some() {
            return Err("Not implemented: the old BlobDB has no NewMultiScan".into());
        }
        pumice_calls::multi_scan(&self.db, &self.scan_options(settings, [None, None]), ranges, see)
    }

    fn flush(&self) -> Result<()> {
        self.db.flush_all_opt(&FlushOptions::default()).map_err(text)
    }

    fn compact(&self, subcompactions: i32) -> Result<()> {
        let options = CompactRangeOptions {
            bottommost_level_compaction: BottommostLevelCompaction::ForceOptimized,
            max_subcompactions: u32::try_from(subcompactions).unwrap_or(0),
            ..CompactRangeOptions::default()
        };
        self.db.compact_range(&options, None, None).map_err(text)
    }

    fn compact_all(&self, subcompactions: i32) -> Result<()> {
        let options = CompactRangeOptions {
            max_subcompactions: u32::try_from(subcompactions).unwrap_or(0),
            ..CompactRangeOptions::default()
        };
        self.db.compact_range(&options, None, None).map_err(text)
    }

    fn compact_files(&self, names: &[String], level: usize) -> Result<()> {
        let options = CompactFilesOptions {
            output_file_size_limit: self.options.cf.target_file_size_base,
            ..CompactFilesOptions::default()
        };
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let level = i32::try_from(level).map_err(|error| error.to_string())?;
        let family = self.db.default_column_family();
        self.db.compact_files_cf(&options, family, &names, level).map(drop).map_err(text)
    }

    fn table_files(&self) -> Result<Vec<engine::TableFile>> {
        let files = self.db.live_files_metadata();
        let files = files.into_iter().filter(|file| file.column_family_name == "default");
        Ok(files
            .map(|file| engine::TableFile { level: file.level, name: file.name, bytes: file.size })
            .collect())
    }

    fn approximate_sizes(&self, ranges: &[(Vec<u8>, Vec<u8>)]) -> Result<u64> {
        let ranges: Vec<(&[u8], &[u8])> =
            ranges.iter().map(|(begin, end)| (begin.as_slice(), end.as_slice())).collect();
        Ok(self.db.approximate_sizes(&ranges).map_err(text)?.iter().sum())
    }

    fn approximate_memtable_entries(&self, begin: &[u8], end: &[u8]) -> Result<u64> {
        Ok(self.db.approximate_memtable_stats(begin, end).map_err(text)?.0)
    }

    fn reset_stats(&self) -> Result<()> {
        self.db.reset_stats();
        Ok(())
    }

    fn wait_for_compaction(&self) -> Result<()> {
        self.db.wait_for_compact(&WaitForCompactOptions::default()).map_err(text)
    }

    fn verify_checksum(&self) -> Result<()> {
        self.db.verify_checksum().map_err(text)
    }

    fn verify_file_checksums(&self, settings: &engine::ReadSettings) -> Result<()> {
        self.db.verify_file_checksums_opt(&read_options(settings, [None, None])).map_err(text)
    }

    fn stats_history(&self) -> Result<Vec<Sample>> {
        let samples = self.db.get_stats_history(0, u64::MAX).into_iter();
        Ok(samples.map(|sample| (sample.time, sample.stats.into_iter().collect())).collect())
    }

    fn compaction_input(&self, level: usize) -> Result<engine::CompactionInput> {
        open_and_compact::input(&self.db, &*self.options.db.file_system, level)
    }

    fn open_and_compact(
        &self,
        output: &Path,
        input: &engine::CompactionInput,
        cancel: Option<Duration>,
    ) -> Result<(engine::OpenAndCompact, u64)> {
        let over = CompactionServiceOptionsOverride {
            options: self.options.clone(),
            ..CompactionServiceOptionsOverride::default()
        };
        open_and_compact::compact(&self.db, &over, output, input, cancel)
    }

    fn backup(&self, to: &Path, rate: u64) -> Result<()> {
        backups::make(&self.db, to, rate)
    }

    fn restore(&self, from: &Path, to: &Path, rate: u64) -> Result<()> {
        backups::restore(from, to, rate)
    }

    fn thread_list(&self) -> Vec<ThreadStatus> {
        thread_list()
    }

    fn property(&self, name: &str) -> Option<String> {
        self.db.property(name)
    }
}
