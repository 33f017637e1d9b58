//! Options of databases and column families that are objects, lists or whole sets.

use std::sync::Arc;

use pumice::options::value::OptionValue;
use pumice::options::{CompactOnDeletionCollectorFactory, DbPath, MemtableFactory, TableFactory};
use pumice::{CappedPrefix, CompressionType, Error, FixedPrefix, TablePropertiesCollectorFactory};
use pumice_binding::env::Env as Files;
use pumice_binding::overlay::{Named, overlay};
use pumice_binding::store::Fields;

use super::callbacks::order_of;
use crate::ffi::accessor::{compression, compression_byte};
use crate::ffi::call::Result;
use crate::ffi::env::{Env, Object};
use crate::ffi::from::{Handle, Taken};
use crate::ffi::handle;
use crate::ffi::into::{New, NewList};
use crate::objects::{
    BufferManager, Cache, CompactionLimit, Compression, Counts, FileManager, Filter, FilterFactory,
    Limiter, MemTable, Merge, Options, Table, Values,
};

include!(concat!(env!("OUT_DIR"), "/family_properties.rs"));

/// Java: Options.newOptions ()
/// Java: DBOptions.newDBOptions ()
/// Java: ColumnFamilyOptions.newColumnFamilyOptions ()
pub fn new(_env: Env<'_>) -> Result<New<Options>> {
    Ok(New(Options::default()))
}

/// Java: Options.newOptions (JJ)
pub fn new_of_both(_env: Env<'_>, db: &Options, cf: &Options) -> Result<New<Options>> {
    let mut both = db.clone();
    for name in FAMILY_PROPERTIES {
        both.store_mut().put(name, cf.store().bits(name));
    }
    both.values.engine.cf = cf.values.engine.cf.clone();
    both.values.table = cf.values.table.clone();
    both.values.replaced.extend(cf.values.replaced.iter().cloned());
    both.values.refused = both.values.refused.or_else(|| cf.values.refused.clone());
    Ok(New(both))
}

/// Java: Options.copyOptions
/// Java: DBOptions.copyDBOptions|newDBOptionsFromOptions
/// Java: ColumnFamilyOptions.copyColumnFamilyOptions|newColumnFamilyOptionsFromOptions
pub fn copy(_env: Env<'_>, options: &Options) -> Result<New<Options>> {
    Ok(New(options.clone()))
}

/// Java: ColumnFamilyOptions.getColumnFamilyOptionsFromProps (T)
/// Java: DBOptions.getDBOptionsFromProps (T)
pub fn from_text(_env: Env<'_>, text: String) -> Result<Option<New<Options>>> {
    // As in RocksDB: a text that is none gives no object.
    let values = Options::default().values.from_string(&text).ok();
    Ok(values.map(|values| New(Options { values, ..Options::default() })))
}

/// Java: ColumnFamilyOptions.getColumnFamilyOptionsFromProps (JT)
/// Java: DBOptions.getDBOptionsFromProps (JT)
pub fn from_text_with(
    env: Env<'_>,
    _config: &Values,
    text: String,
) -> Result<Option<New<Options>>> {
    from_text(env, text)
}

/// Java: Options|DBOptions|ColumnFamilyOptions.disposeInternal
pub fn end(_env: Env<'_>, _options: Taken<Options>) -> Result<()> {
    Ok(())
}

/// Changes the engine's options as a preset does, and reads all of them back.
fn preset(
    options: &mut Options,
    change: impl FnOnce(pumice::Options) -> pumice::Options,
) -> Result<()> {
    let skipped = options.values.engine.db.skipped_options.clone();
    let engine = options.values.to_engine()?;
    let format = engine.cf.table_factory.format_version;
    let mut engine = change(engine);
    engine.db.skipped_options = skipped;
    // Presets begin with the engine's format of tables, which older classes cannot read.
    engine.cf.table_factory.format_version = format;
    options.values.take_engine(engine);
    Ok(())
}

/// Java: Options|DBOptions.setIncreaseParallelism
pub fn increase_parallelism(_env: Env<'_>, options: &mut Options, threads: i32) -> Result<()> {
    options.store_mut().put_int("max_background_jobs", i64::from(threads));
    Ok(())
}

/// Java: Options|ColumnFamilyOptions.optimizeForPointLookup
pub fn for_point_lookups(_env: Env<'_>, options: &mut Options, mebibytes: usize) -> Result<()> {
    preset(options, |engine| engine.for_point_lookups(mebibytes))
}

/// Java: Options|ColumnFamilyOptions.optimizeLevelStyleCompaction
pub fn optimize_leveled(_env: Env<'_>, options: &mut Options, bytes: u64) -> Result<()> {
    preset(options, |engine| engine.optimize_leveled(bytes))
}

/// Java: Options|ColumnFamilyOptions.optimizeUniversalStyleCompaction
pub fn optimize_universal(_env: Env<'_>, options: &mut Options, bytes: u64) -> Result<()> {
    preset(options, |engine| engine.optimize_universal(bytes))
}

/// Java: Options|DBOptions|ColumnFamilyOptions.optimizeForSmallDb (J)
pub fn for_small_db(_env: Env<'_>, options: &mut Options) -> Result<()> {
    preset(options, pumice::Options::for_small_db)
}

/// Java: Options|ColumnFamilyOptions.optimizeForSmallDb (JJ) 0 1
pub fn for_small_db_with(_env: Env<'_>, options: &mut Options, cache: &Cache) -> Result<()> {
    let blocks = Arc::clone(&cache.blocks);
    preset(options, |engine| pumice::Options { db: engine.db, cf: engine.cf.for_small_db(blocks) })
}

/// Java: Options.prepareForBulkLoad
pub fn for_bulk_load(_env: Env<'_>, options: &mut Options) -> Result<()> {
    preset(options, pumice::Options::for_bulk_load)
}

/// Java: Options|ColumnFamilyOptions.setComparatorHandle (JI)
pub fn set_builtin_order(_env: Env<'_>, options: &mut Options, number: i32) -> Result<()> {
    options.values.engine.cf.comparator = match number {
        1 => pumice::Comparator::ReverseBytewise,
        _ => pumice::Comparator::Bytewise,
    };
    Ok(())
}

/// Java: Options|ColumnFamilyOptions.setComparatorHandle (JJB)
pub fn set_order(env: Env<'_>, options: &mut Options, order: Handle, kind: i8) -> Result<()> {
    options.values.engine.cf.comparator = order_of(env, order, kind)?;
    Ok(())
}

/// Java: Options|ColumnFamilyOptions.setMergeOperatorName
pub fn set_merge_name(_env: Env<'_>, options: &mut Options, name: String) -> Result<()> {
    options.values.engine.cf.merge_operator = pumice::options::merge_operator_by_name(&name);
    Ok(())
}

/// Java: Options|ColumnFamilyOptions.setMergeOperator
pub fn set_merge(_env: Env<'_>, options: &mut Options, merge: Option<&Merge>) -> Result<()> {
    options.values.engine.cf.merge_operator = merge.map(|merge| Arc::clone(&merge.0));
    Ok(())
}

/// Java: Options|ColumnFamilyOptions.setCompactionFilterHandle
pub fn set_filter(_env: Env<'_>, options: &mut Options, filter: Option<&Filter>) -> Result<()> {
    options.values.engine.cf.compaction_filter = filter.map(|filter| Arc::clone(&filter.0));
    Ok(())
}

/// Java: Options|ColumnFamilyOptions.setCompactionFilterFactoryHandle
pub fn set_factory(
    _env: Env<'_>,
    options: &mut Options,
    factory: Option<&FilterFactory>,
) -> Result<()> {
    options.values.engine.cf.compaction_filter_factory =
        factory.map(|factory| Arc::clone(&factory.0));
    Ok(())
}

/// Java: Options|ColumnFamilyOptions.setCompactionThreadLimiter
pub fn set_limit(
    _env: Env<'_>,
    options: &mut Options,
    limit: Option<&CompactionLimit>,
) -> Result<()> {
    options.values.engine.cf.compaction_thread_limiter = limit.map(|limit| Arc::clone(&limit.0));
    Ok(())
}

/// Java: Options|ColumnFamilyOptions.useFixedLengthPrefixExtractor
pub fn set_fixed_prefix(_env: Env<'_>, options: &mut Options, length: i32) -> Result<()> {
    let length = usize::try_from(length).unwrap_or(0);
    options.values.engine.cf.prefix_extractor = Some(Arc::new(FixedPrefix(length)));
    Ok(())
}

/// Java: Options|ColumnFamilyOptions.useCappedPrefixExtractor
pub fn set_capped_prefix(_env: Env<'_>, options: &mut Options, length: i32) -> Result<()> {
    let length = usize::try_from(length).unwrap_or(0);
    options.values.engine.cf.prefix_extractor = Some(Arc::new(CappedPrefix(length)));
    Ok(())
}

/// Java: Options|ColumnFamilyOptions.setTableFactory
pub fn set_table(_env: Env<'_>, options: &mut Options, table: Taken<Table>) -> Result<()> {
    // Java gives the factory away.
    match *table.0 {
        Table::Blocks(table) => options.values.table = *table,
        Table::Plain(plain) => options.values.table.engine.format = TableFactory::Plain(plain),
    }
    Ok(())
}

/// Java: Options|ColumnFamilyOptions.tableFactoryName
pub fn table_name(_env: Env<'_>, options: &Options) -> Result<&'static str> {
    Ok(options.values.table.engine.format.name())
}

/// Java: Options|ColumnFamilyOptions.setMemTableFactory
pub fn set_mem_table(_env: Env<'_>, options: &mut Options, table: Taken<MemTable>) -> Result<()> {
    let factory = &mut options.values.engine.cf.memtable_factory;
    match *table.0 {
        MemTable::SkipList(lookahead) => *factory = MemtableFactory::SkipList { lookahead },
        MemTable::Vector(reserve) => *factory = MemtableFactory::Vector { reserve },
        MemTable::Other(name) => {
            let line = format!("memtable_factory={name} (SkipListFactory is used)");
            options.values.set_replaced("memtable_factory", line);
        }
    }
    Ok(())
}

/// Java: Options|ColumnFamilyOptions.memTableFactoryName
pub fn mem_table_name(_env: Env<'_>, options: &Options) -> Result<&'static str> {
    Ok(match options.values.engine.cf.memtable_factory {
        MemtableFactory::Vector { .. } => "VectorRepFactory",
        _ => "SkipListFactory",
    })
}

/// Members of an option that has a text of its own, set one by one.
struct Members<'a, T>(&'a mut T);

impl<T: OptionValue> Named for Members<'_, T> {
    fn text_of(&self, name: &str) -> pumice::Result<String> {
        Err(Error::invalid_argument(format!("{name} has no text of its own")))
    }
    fn set_text(&mut self, name: &str, text: &str) -> pumice::Result<()> {
        let refused = |why| Error::invalid_argument(format!("{name}={text}: {why:?}"));
        self.0.update(&format!("{{{name}={text};}}")).map_err(refused)
    }
}

/// Java: Options|ColumnFamilyOptions.setCompactionOptionsUniversal
pub fn set_universal(_env: Env<'_>, options: &mut Options, universal: &Values) -> Result<()> {
    let target = &mut options.values.engine.cf.compaction_options_universal;
    options.values.refused = overlay(universal.store(), &mut Members(target)).err();
    Ok(())
}

/// Java: Options|ColumnFamilyOptions.setCompactionOptionsFIFO
pub fn set_fifo(_env: Env<'_>, options: &mut Options, fifo: &Values) -> Result<()> {
    let target = &mut options.values.engine.cf.compaction_options_fifo;
    options.values.refused = overlay(fifo.store(), &mut Members(target)).err();
    Ok(())
}

/// Java: Options|ColumnFamilyOptions.setMaxTableFilesSizeFIFO
pub fn set_fifo_size(_env: Env<'_>, options: &mut Options, bytes: u64) -> Result<()> {
    options.values.engine.cf.compaction_options_fifo.max_table_files_size = bytes;
    Ok(())
}

/// Java: Options|ColumnFamilyOptions.maxTableFilesSizeFIFO
pub fn fifo_size(_env: Env<'_>, options: &Options) -> Result<u64> {
    Ok(options.values.engine.cf.compaction_options_fifo.max_table_files_size)
}

/// Java: Options|ColumnFamilyOptions.setCompressionPerLevel
pub fn set_compressions(_env: Env<'_>, options: &mut Options, types: Vec<u8>) -> Result<()> {
    let mut list = Vec::new();
    for number in types {
        let bits = compression(number.cast_signed());
        let found = u8::try_from(bits).ok().and_then(CompressionType::from_u8);
        let unknown = || Error::invalid_argument(format!("there is no compression {number}"));
        list.push(found.ok_or_else(unknown)?);
    }
    options.values.engine.cf.compression_per_level = list;
    Ok(())
}

/// Java: Options|ColumnFamilyOptions.compressionPerLevel
pub fn compressions(_env: Env<'_>, options: &Options) -> Result<Vec<u8>> {
    let list = options.values.engine.cf.compression_per_level.iter();
    Ok(list.map(|kind| compression_byte(*kind as u64).cast_unsigned()).collect())
}

/// Java: Options|ColumnFamilyOptions.setMaxBytesForLevelMultiplierAdditional
pub fn set_multipliers(_env: Env<'_>, options: &mut Options, list: Vec<i32>) -> Result<()> {
    options.values.engine.cf.max_bytes_for_level_multiplier_additional = list;
    Ok(())
}

/// Java: Options|ColumnFamilyOptions.maxBytesForLevelMultiplierAdditional
pub fn multipliers(_env: Env<'_>, options: &Options) -> Result<Vec<i32>> {
    Ok(options.values.engine.cf.max_bytes_for_level_multiplier_additional.clone())
}

/// Java: Options|ColumnFamilyOptions.setCompressionOptions
pub fn set_compression(_env: Env<'_>, options: &mut Options, from: &Compression) -> Result<()> {
    // These have properties of their own, which an open writes over the engine's.
    let store = options.store_mut();
    let bytes = u64::from(from.engine.zstd_max_train_bytes);
    store.put("compression_options_zstd_max_train_bytes", bytes);
    options.values.engine.cf.compression_opts = from.engine.clone();
    Ok(())
}

/// Java: Options|ColumnFamilyOptions.setBottommostCompressionOptions
pub fn set_bottommost(_env: Env<'_>, options: &mut Options, from: &Compression) -> Result<()> {
    if from.enabled {
        options.values.engine.cf.bottommost_compression_opts = from.engine.clone();
    }
    Ok(())
}

/// Java: Options|DBOptions.setEnv
pub fn set_env(_env: Env<'_>, options: &mut Options, files: &Files) -> Result<()> {
    options.values.engine.db.file_system = Arc::clone(files.file_system());
    Ok(())
}

/// Java: Options|DBOptions.setRateLimiter
pub fn set_limiter(_env: Env<'_>, options: &mut Options, limiter: Option<&Limiter>) -> Result<()> {
    match limiter.map(|limiter| limiter.0.clone()) {
        Some(Ok(limiter)) => options.values.engine.db.rate_limiter = Some(limiter),
        Some(Err(error)) => return Err(error.into()),
        None => options.values.engine.db.rate_limiter = None,
    }
    Ok(())
}

/// Java: Options|DBOptions.setSstFileManager
pub fn set_manager(
    _env: Env<'_>,
    options: &mut Options,
    manager: Option<&FileManager>,
) -> Result<()> {
    options.values.engine.db.sst_file_manager = manager.map(|manager| Arc::clone(&manager.0));
    Ok(())
}

/// Java: Options|DBOptions.setWriteBufferManager
pub fn set_buffers(
    _env: Env<'_>,
    options: &mut Options,
    manager: Option<&BufferManager>,
) -> Result<()> {
    options.values.engine.db.write_buffer_manager =
        manager.map(|manager| Arc::clone(&manager.manager));
    Ok(())
}

/// Java: Options|DBOptions.setRowCache
pub fn set_row_cache(_env: Env<'_>, options: &mut Options, cache: Option<&Cache>) -> Result<()> {
    let rows = |cache: &Cache| {
        let make = || pumice::RowCache::new(cache.blocks.capacity());
        Arc::clone(cache.rows.get_or_init(make))
    };
    options.values.engine.db.row_cache = cache.map(rows);
    Ok(())
}

/// Java: Options|DBOptions.setStatistics
pub fn set_statistics(_env: Env<'_>, options: &mut Options, counts: Option<&Counts>) -> Result<()> {
    options.values.engine.db.statistics = counts.map(|counts| Arc::clone(&counts.0));
    Ok(())
}

/// Java: Options|DBOptions.statistics
pub fn statistics(_env: Env<'_>, options: &Options) -> Result<Option<New<Counts>>> {
    Ok(options.values.engine.db.statistics.clone().map(|counts| New(Counts(counts))))
}

/// Java: Options.setTablePropertiesCollectorFactory
pub fn set_collectors(_env: Env<'_>, options: &mut Options, list: Vec<i64>) -> Result<()> {
    let mut factories = Vec::new();
    for number in list {
        factories.push(Arc::clone(&handle::read::<Collector>(number)?.0));
    }
    options.values.engine.cf.table_properties_collector_factories = factories;
    Ok(())
}

/// Java: Options.tablePropertiesCollectorFactory
pub fn collectors(_env: Env<'_>, options: &Options) -> Result<NewList<Collector>> {
    let factories = &options.values.engine.cf.table_properties_collector_factories;
    Ok(NewList(factories.iter().cloned().map(Collector).collect()))
}

/// What collects properties of tables.
#[derive(Clone, Debug)]
pub struct Collector(Arc<dyn TablePropertiesCollectorFactory>);

impl handle::Held for Collector {
    const NAME: &'static str = "TablePropertiesCollectorFactory";
    const KIND: u16 = 100;
}

/// Java: TablePropertiesCollectorFactory.newCompactOnDeletionCollectorFactory
pub fn new_collector(
    _env: Env<'_>,
    sliding_window_size: usize,
    deletion_trigger: usize,
    deletion_ratio: f64,
) -> Result<New<Collector>> {
    let factory =
        CompactOnDeletionCollectorFactory { sliding_window_size, deletion_trigger, deletion_ratio };
    Ok(New(Collector(Arc::new(factory))))
}

/// Java: TablePropertiesCollectorFactory.deleteCompactOnDeletionCollectorFactory
pub fn end_collector(_env: Env<'_>, _collector: Taken<Collector>) -> Result<()> {
    Ok(())
}

fn paths(paths: Vec<String>, sizes: &[i64]) -> Vec<DbPath> {
    let both = paths.into_iter().zip(sizes);
    both.map(|(path, size)| DbPath::new(path, size.cast_unsigned())).collect()
}

/// Java: Options|DBOptions.setDbPaths
pub fn set_db_paths(
    _env: Env<'_>,
    options: &mut Options,
    list: Vec<String>,
    sizes: Vec<i64>,
) -> Result<()> {
    options.values.engine.db.db_paths = paths(list, &sizes);
    Ok(())
}

/// Java: Options|ColumnFamilyOptions.setCfPaths
pub fn set_cf_paths(
    _env: Env<'_>,
    options: &mut Options,
    list: Vec<String>,
    sizes: Vec<i64>,
) -> Result<()> {
    options.values.engine.cf.cf_paths = paths(list, &sizes);
    Ok(())
}

/// Fills Java's arrays, which have as many places as there are paths.
fn fill(env: Env<'_>, list: &[DbPath], texts: Object<'_>, sizes: Object<'_>) -> Result<()> {
    for (at, path) in list.iter().enumerate() {
        let text = env.new_text(&path.path.to_string_lossy())?;
        env.set_element(texts, at, text)?;
        env.forget(text);
    }
    let bytes: Vec<i64> = list.iter().map(|path| path.target_size.cast_signed()).collect();
    env.write_longs(sizes, &bytes)
}

/// Java: Options|DBOptions.dbPathsLen
pub fn db_paths_count(_env: Env<'_>, options: &Options) -> Result<usize> {
    Ok(options.values.engine.db.db_paths.len())
}

/// Java: Options|DBOptions.dbPaths
pub fn db_paths(
    env: Env<'_>,
    options: &Options,
    texts: Object<'_>,
    sizes: Object<'_>,
) -> Result<()> {
    fill(env, &options.values.engine.db.db_paths, texts, sizes)
}

/// Java: Options|ColumnFamilyOptions.cfPathsLen
pub fn cf_paths_count(_env: Env<'_>, options: &Options) -> Result<usize> {
    Ok(options.values.engine.cf.cf_paths.len())
}

/// Java: Options|ColumnFamilyOptions.cfPaths
pub fn cf_paths(
    env: Env<'_>,
    options: &Options,
    texts: Object<'_>,
    sizes: Object<'_>,
) -> Result<()> {
    fill(env, &options.values.engine.cf.cf_paths, texts, sizes)
}

/// What a column family's options were in an older version of RocksDB.
fn old_family(options: &mut Options, version: (i32, i32)) {
    let store = options.store_mut();
    if version <= (5, 18) {
        store.put_int("compaction_pri", 0);
    }
    if version < (4, 7) {
        store.put("write_buffer_size", 4 << 20);
        store.put("target_file_size_base", 2 << 20);
        store.put("max_bytes_for_level_base", 10 << 20);
        store.put("soft_pending_compaction_bytes_limit", 0);
        store.put("hard_pending_compaction_bytes_limit", 0);
    }
    match version {
        (..5, _) => store.put_int("level0_stop_writes_trigger", 24),
        (5, ..2) => store.put_int("level0_stop_writes_trigger", 30),
        _ => {}
    }
}

/// The same of a database's.
fn old_database(options: &mut Options, version: (i32, i32)) {
    let store = options.store_mut();
    if version < (4, 7) {
        store.put_int("max_file_opening_threads", 1);
        store.put_int("table_cache_numshardbits", 4);
    }
    if version < (5, 2) {
        store.put("delayed_write_rate", 2 << 20);
    } else if version < (5, 6) {
        store.put("delayed_write_rate", 16 << 20);
    }
    store.put_int("max_open_files", 5000);
    // Damage at the end of a log is let go.
    store.put_int("wal_recovery_mode", 0);
}

/// Java: Options.oldDefaults
pub fn old(_env: Env<'_>, options: &mut Options, major: i32, minor: i32) -> Result<()> {
    old_database(options, (major, minor));
    old_family(options, (major, minor));
    Ok(())
}

/// Java: ColumnFamilyOptions.oldDefaults
pub fn old_of_family(_env: Env<'_>, options: &mut Options, major: i32, minor: i32) -> Result<()> {
    old_family(options, (major, minor));
    Ok(())
}
