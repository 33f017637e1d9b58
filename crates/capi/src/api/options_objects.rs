//! Options that are objects, or paths and lists.

use std::sync::Arc;

use pumice::FilterPolicy;
use pumice::options::value::OptionValue;
use pumice::options::{
    BlockBasedTableOptions, CompactOnDeletionCollectorFactory, CuckooTableOptions,
    FileChecksumGenFactory, MemtableFactory, PlainEncoding, PlainTableOptions,
    SstPartitionerFactory, TableFactory,
};
use pumice_binding::env::Env;
use pumice_binding::options::TableOptions;
use pumice_binding::overlay::{Named, overlay};
use pumice_binding::store::Fields;

use crate::ffi::from::{Taken, Text, Unused};
use crate::ffi::generated::{
    rocksdb_cuckoo_table_options_t, rocksdb_fifo_compaction_options_t,
    rocksdb_table_properties_collector_factory_t, rocksdb_universal_compaction_options_t,
};
use crate::ffi::into::New;
use crate::ffi::macros::c_api;
use crate::ffi::types::{
    BufferManager, Cache, ChecksumFactory, DbPath, FileManager, Filter, FilterFactory, InfoLogger,
    Limiter, Merge, Options, Order, Partitioner, Prefix, WalFilter,
};

/// Members of an option that has a text of its own, set one by one.
struct Members<'a, T>(&'a mut T);

impl<T: OptionValue> Named for Members<'_, T> {
    fn text_of(&self, name: &str) -> pumice::Result<String> {
        Err(pumice::Error::invalid_argument(format!("{name} has no text of its own")))
    }
    fn set_text(&mut self, name: &str, text: &str) -> pumice::Result<()> {
        let refused = |why| pumice::Error::invalid_argument(format!("{name}={text}: {why:?}"));
        self.0.update(&format!("{{{name}={text};}}")).map_err(refused)
    }
}

fn deletions(options: &mut Options, window: usize, trigger: usize, ratio: f64) {
    let collector = CompactOnDeletionCollectorFactory {
        sliding_window_size: window,
        deletion_trigger: trigger,
        deletion_ratio: ratio,
    };
    let factories = &mut options.values.engine.cf.table_properties_collector_factories;
    factories.push(Arc::new(collector));
}

/// Makes `table` a cuckoo table with these options.
pub(super) fn cuckoo_tables(
    options: &rocksdb_cuckoo_table_options_t,
    table: &mut BlockBasedTableOptions,
) -> pumice::Result<()> {
    let mut cuckoo = CuckooTableOptions::default();
    overlay(options.store(), &mut cuckoo)?;
    table.format = TableFactory::Cuckoo(cuckoo);
    Ok(())
}

fn paths(list: &[&DbPath]) -> Vec<pumice::options::DbPath> {
    list.iter().map(|path| path.0.clone()).collect()
}

c_api! {
    fn rocksdb_options_set_comparator(options: &mut Options, comparator: Option<&Order>) {
        let order = comparator.map_or(pumice::Comparator::Bytewise, |order| order.0.clone());
        options.values.engine.cf.comparator = order;
    }

    fn rocksdb_options_set_merge_operator(options: &mut Options, operator: Taken<Merge>) {
        options.values.engine.cf.merge_operator = operator.map(|operator| operator.0);
    }

    fn rocksdb_options_set_uint64add_merge_operator(options: &mut Options) {
        options.values.engine.cf.merge_operator =
            pumice::options::merge_operator_by_name("uint64add");
    }

    fn rocksdb_options_set_compaction_filter(options: &mut Options, filter: Option<&Filter>) {
        options.values.engine.cf.compaction_filter = filter.map(|filter| Arc::clone(&filter.0));
    }

    fn rocksdb_options_set_compaction_filter_factory(
        options: &mut Options, factory: Taken<FilterFactory>
    ) {
        options.values.engine.cf.compaction_filter_factory = factory.map(|factory| factory.0);
    }

    fn rocksdb_options_set_prefix_extractor(options: &mut Options, extractor: Taken<Prefix>) {
        options.values.engine.cf.prefix_extractor = extractor.map(|extractor| extractor.0);
    }

    fn rocksdb_options_set_block_based_table_factory(
        options: &mut Options, table: Option<&TableOptions>
    ) {
        if let Some(table) = table {
            options.values.table = table.clone();
        }
    }

    fn rocksdb_options_set_cuckoo_table_factory(
        options: &mut Options, table: Option<&rocksdb_cuckoo_table_options_t>
    ) {
        let Some(table) = table else { return };
        let result = cuckoo_tables(table, &mut options.values.table.engine);
        options.values.refused = result.err();
    }

    fn rocksdb_options_set_plain_table_factory(
        options: &mut Options, user_key_len: u32, bloom_bits_per_key: i32, hash_table_ratio: f64,
        index_sparseness: usize, huge_page_tlb_size: usize, encoding_type: std::ffi::c_char,
        full_scan_mode: u8, store_index_in_file: u8
    ) {
        let encoding_type = match encoding_type {
            0 => PlainEncoding::Plain,
            _ => PlainEncoding::Prefix,
        };
        let mut plain = PlainTableOptions {
            user_key_len,
            bloom_bits_per_key,
            hash_table_ratio,
            index_sparseness: index_sparseness as u64,
            encoding_type,
            full_scan_mode: full_scan_mode != 0,
            store_index_in_file: store_index_in_file != 0,
            ..PlainTableOptions::default()
        };
        let pages = plain.set("huge_page_tlb_size", &huge_page_tlb_size.to_string());
        options.values.refused = pages.err();
        options.values.table.engine.format = TableFactory::Plain(plain);
    }

    fn rocksdb_options_set_memtable_vector_rep(options: &mut Options) {
        options.values.engine.cf.memtable_factory = MemtableFactory::Vector { reserve: 0 };
    }

    fn rocksdb_options_set_hash_skip_list_rep(
        options: &mut Options, _bucket_count: usize, _height: i32, _branching_factor: i32
    ) {
        let line = "memtable_factory=HashSkipListRepFactory (SkipListFactory is used)";
        options.values.set_replaced("memtable_factory", line.to_string());
    }

    fn rocksdb_options_set_hash_link_list_rep(options: &mut Options, _bucket_count: usize) {
        let line = "memtable_factory=HashLinkListRepFactory (SkipListFactory is used)";
        options.values.set_replaced("memtable_factory", line.to_string());
    }

    fn rocksdb_options_set_universal_compaction_options(
        options: &mut Options, universal: Option<&rocksdb_universal_compaction_options_t>
    ) {
        let Some(universal) = universal else { return };
        let target = &mut options.values.engine.cf.compaction_options_universal;
        options.values.refused = overlay(universal.store(), &mut Members(target)).err();
    }

    fn rocksdb_options_set_fifo_compaction_options(
        options: &mut Options, fifo: Option<&rocksdb_fifo_compaction_options_t>
    ) {
        let Some(fifo) = fifo else { return };
        let target = &mut options.values.engine.cf.compaction_options_fifo;
        options.values.refused = overlay(fifo.store(), &mut Members(target)).err();
    }

    fn rocksdb_options_set_env(options: &mut Options, env: Option<&Env>) {
        let env = env.cloned().unwrap_or_default();
        options.values.engine.db.file_system = Arc::clone(env.file_system());
    }

    fn rocksdb_options_set_info_log(options: &mut Options, logger: Option<&InfoLogger>) {
        options.values.engine.db.info_log = logger.map(|logger| Arc::clone(&logger.0));
        options.logger = logger.cloned();
    }

    fn rocksdb_options_get_info_log(options: &Options) -> Option<New<InfoLogger>> {
        options.logger.clone().map(New)
    }

    fn rocksdb_options_set_write_buffer_manager(
        options: &mut Options, manager: Option<&BufferManager>
    ) {
        options.values.engine.db.write_buffer_manager =
            manager.map(|manager| Arc::clone(&manager.manager));
    }

    fn rocksdb_options_set_sst_file_manager(options: &mut Options, manager: Option<&FileManager>) {
        options.values.engine.db.sst_file_manager = manager.map(|manager| Arc::clone(&manager.0));
    }

    fn rocksdb_options_set_ratelimiter(options: &mut Options, limiter: Option<&Limiter>) {
        match limiter.map(|limiter| limiter.0.clone()) {
            Some(Ok(limiter)) => options.values.engine.db.rate_limiter = Some(limiter),
            Some(Err(error)) => options.values.refused = Some(error),
            None => options.values.engine.db.rate_limiter = None,
        }
    }

    fn rocksdb_options_set_row_cache(options: &mut Options, cache: Option<&Cache>) {
        let rows = |cache: &Cache| {
            let make = || pumice::RowCache::new(cache.blocks.capacity());
            Arc::clone(cache.rows.get_or_init(make))
        };
        options.values.engine.db.row_cache = cache.map(rows);
    }

    fn rocksdb_options_set_blob_cache(options: &mut Options, cache: Option<&Cache>) {
        let blocks = cache.map(|cache| Arc::clone(&cache.blocks));
        options.values.engine.cf.blob_cache = blocks;
    }

    fn rocksdb_options_set_file_checksum_gen_factory(
        options: &mut Options, factory: Option<&ChecksumFactory>
    ) {
        options.values.engine.db.file_checksum_gen_factory = match factory {
            Some(_) => FileChecksumGenFactory::Crc32c,
            None => FileChecksumGenFactory::None,
        };
    }

    fn rocksdb_options_set_sst_partitioner_factory(
        options: &mut Options, factory: Option<&Partitioner>
    ) {
        options.values.engine.cf.sst_partitioner_factory = match factory {
            Some(factory) => SstPartitionerFactory::FixedPrefix(factory.0),
            None => SstPartitionerFactory::None,
        };
    }

    fn rocksdb_options_set_wal_filter(
        options: &mut Options, filter: Option<&WalFilter>
    ) {
        options.values.engine.db.wal_filter = filter.map(|filter| filter.0.clone() as _);
    }

    fn rocksdb_options_clear_wal_filter(options: &mut Options) {
        options.values.engine.db.wal_filter = None;
    }

    fn rocksdb_options_add_table_properties_collector_factory(
        options: &mut Options, _factory: Unused<rocksdb_table_properties_collector_factory_t>
    ) {
        // Nothing in the interface makes such a factory.
        let line = "table_properties_collector_factory (none is used)";
        options.values.set_replaced("table_properties_collector_factory", line.to_string());
    }

    fn rocksdb_options_add_compact_on_deletion_collector_factory(
        options: &mut Options, window_size: usize, num_dels_trigger: usize
    ) {
        deletions(options, window_size, num_dels_trigger, 0.0);
    }

    fn rocksdb_options_add_compact_on_deletion_collector_factory_del_ratio(
        options: &mut Options, window_size: usize, num_dels_trigger: usize, deletion_ratio: f64
    ) {
        deletions(options, window_size, num_dels_trigger, deletion_ratio);
    }

    fn rocksdb_options_add_compact_on_deletion_collector_factory_min_file_size(
        options: &mut Options, window_size: usize, num_dels_trigger: usize, deletion_ratio: f64,
        min_file_size: u64
    ) {
        deletions(options, window_size, num_dels_trigger, deletion_ratio);
        if min_file_size > 0 {
            let line = format!("CompactOnDeletionCollector.min_file_size={min_file_size}");
            options.values.set_replaced("CompactOnDeletionCollector", line);
        }
    }

    fn rocksdb_dbpath_create(path: Text<'_>, target_size: u64) -> New<DbPath> {
        New(DbPath(pumice::options::DbPath::new(path.path(), target_size)))
    }

    fn rocksdb_options_set_db_paths(options: &mut Options, list: List<DbPath>) {
        options.values.engine.db.db_paths = paths(&list);
    }

    fn rocksdb_options_set_cf_paths(options: &mut Options, list: List<DbPath>) {
        options.values.engine.cf.cf_paths = paths(&list);
    }

    fn rocksdb_options_set_db_log_dir(options: &mut Options, path: Text<'_>) {
        options.store_mut().put_text("db_log_dir", path.bytes());
    }

    fn rocksdb_options_set_wal_dir(options: &mut Options, path: Text<'_>) {
        options.store_mut().put_text("wal_dir", path.bytes());
    }

    fn rocksdb_options_set_db_host_id(options: &mut Options, id: Text<'_>) {
        options.store_mut().put_text("db_host_id", id.bytes());
    }

    fn rocksdb_options_set_daily_offpeak_time_utc(options: &mut Options, time: Text<'_>) {
        options.store_mut().put_text("daily_offpeak_time_utc", time.bytes());
    }

    fn rocksdb_block_based_options_set_filter_policy(
        options: &mut TableOptions, policy: Taken<FilterPolicy>
    ) {
        options.engine.filter_policy = policy.map(|policy| *policy);
    }

    fn rocksdb_block_based_options_set_block_cache(
        options: &mut TableOptions, cache: Option<&Cache>
    ) {
        options.engine.block_cache = cache.map(|cache| Arc::clone(&cache.blocks));
    }

    fn rocksdb_block_based_options_set_block_cache_compressed(
        _options: &mut TableOptions, _cache: Option<&Cache>
    ) {
        // Removed from RocksDB 8: blocks in memory are not compressed there, either.
    }

    fn rocksdb_block_based_options_set_checksum(
        options: &mut TableOptions, checksum: std::ffi::c_char
    ) {
        options.store_mut().put_int("checksum", i64::from(checksum));
    }

    fn rocksdb_block_based_options_set_user_defined_index_factory_from_string(
        options: &mut TableOptions, name: Bytes, errptr: Fail
    ) {
        if name.is_empty() {
            return Err(pumice::Error::invalid_argument("the name of the index is empty"));
        }
        let text = String::from_utf8_lossy(name);
        if pumice::options::UserDefinedIndex::by_name(&text).is_none() {
            return Err(pumice::Error::not_supported(format!(
                "Could not load UserDefinedIndexFactory: {text}"
            )));
        }
        options.store_mut().put_text("user_defined_index_factory_name", name);
        Ok(())
    }

    fn rocksdb_block_based_options_clear_user_defined_index_factory(options: &mut TableOptions) {
        options.store_mut().put_text("user_defined_index_factory_name", "");
    }
}
