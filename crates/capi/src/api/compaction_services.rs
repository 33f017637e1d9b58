//! Compactions for databases of other processes, and what a service of C's is made of.

use std::sync::Arc;

use pumice::options::SstPartitionerFactory;
use pumice::options::{CompactionServiceOptionsOverride, FileChecksumGenFactory};
use pumice::{OpenAndCompactOptions, Result, open_and_compact};
use pumice_binding::database::Slot;
use pumice_binding::env::Env;
use pumice_binding::options::TableOptions;

use crate::api::options_objects::cuckoo_tables;
use crate::ffi::callback::{DestroyFn, Owner};
use crate::ffi::flag::Flag;
use crate::ffi::from::{Out, State, Taken, Text, Unused};
use crate::ffi::generated::{
    rocksdb_cuckoo_table_options_t, rocksdb_table_properties_collector_factory_t,
};
use crate::ffi::into::{Copied, New};
use crate::ffi::listener::Listener;
use crate::ffi::macros::c_api;
use crate::ffi::service::{
    CService, CancelFn, InstallationFn, ScheduleFn, Service, ServiceOverride, WaitFn, WorkerOptions,
};
use crate::ffi::types::{
    ChecksumFactory, Filter, FilterFactory, InfoLogger, Merge, Options, Order, Partitioner, Prefix,
};

fn compact(
    options: &OpenAndCompactOptions,
    (path, output): (Text<'_>, Text<'_>),
    input: &[u8],
    over: &ServiceOverride,
) -> Result<Vec<u8>> {
    let mut engine = over.options.values.to_engine()?;
    let slot = Arc::new(Slot::default());
    for listener in &over.options.listeners {
        engine.db.listeners.push(listener.of_database(&slot, path.path()));
    }
    let over =
        CompactionServiceOptionsOverride { options: engine, options_map: over.options_map.clone() };
    open_and_compact(options, path.path(), output.path(), input, &over)
}

fn given(result: &[u8], mut length: Out<'_, usize>) -> Copied {
    length.set(result.len());
    Copied::of(result)
}

c_api! {
    fn rocksdb_compactionservice_create(
        state: State, destroy: DestroyFn, schedule: ScheduleFn, name: Text<'_>, wait: WaitFn,
        cancel: CancelFn, installation: InstallationFn
    ) -> New<Service> {
        let (owner, name) = (Owner { state, destroy }, name.text());
        let service = CService { owner, name, schedule, wait, cancel, installation };
        New(Service(Arc::new(service)))
    }

    fn rocksdb_options_set_compaction_service(options: &mut Options, service: Taken<Service>) {
        options.values.engine.db.compaction_service = service.map(|service| service.0 as _);
    }

    fn rocksdb_compaction_service_options_override_create_from_options(
        options: &Options
    ) -> New<ServiceOverride> {
        New(ServiceOverride { options: options.clone(), ..ServiceOverride::default() })
    }

    fn rocksdb_compaction_service_options_override_set_env(
        over: &mut ServiceOverride, env: Option<&Env>
    ) {
        let env = env.cloned().unwrap_or_default();
        over.options.values.engine.db.file_system = Arc::clone(env.file_system());
    }

    fn rocksdb_compaction_service_options_override_set_comparator(
        over: &mut ServiceOverride, comparator: Option<&Order>
    ) {
        let order = comparator.map_or(pumice::Comparator::Bytewise, |order| order.0.clone());
        over.options.values.engine.cf.comparator = order;
    }

    fn rocksdb_compaction_service_options_override_set_merge_operator(
        over: &mut ServiceOverride, operator: Taken<Merge>
    ) {
        over.options.values.engine.cf.merge_operator = operator.map(|operator| operator.0);
    }

    fn rocksdb_compaction_service_options_override_set_compaction_filter(
        over: &mut ServiceOverride, filter: Option<&Filter>
    ) {
        let filter = filter.map(|filter| Arc::clone(&filter.0));
        over.options.values.engine.cf.compaction_filter = filter;
    }

    fn rocksdb_compaction_service_options_override_set_compaction_filter_factory(
        over: &mut ServiceOverride, factory: Taken<FilterFactory>
    ) {
        let factory = factory.map(|factory| factory.0);
        over.options.values.engine.cf.compaction_filter_factory = factory;
    }

    fn rocksdb_compaction_service_options_override_set_prefix_extractor(
        over: &mut ServiceOverride, extractor: Taken<Prefix>
    ) {
        over.options.values.engine.cf.prefix_extractor = extractor.map(|extractor| extractor.0);
    }

    fn rocksdb_compaction_service_options_override_set_block_based_table_factory(
        over: &mut ServiceOverride, table: Option<&TableOptions>
    ) {
        if let Some(table) = table {
            over.options.values.table = table.clone();
        }
    }

    fn rocksdb_compaction_service_options_override_set_cuckoo_table_factory(
        over: &mut ServiceOverride, table: Option<&rocksdb_cuckoo_table_options_t>
    ) {
        let Some(table) = table else { return };
        let values = &mut over.options.values;
        values.refused = cuckoo_tables(table, &mut values.table.engine).err();
    }

    fn rocksdb_compaction_service_options_override_add_event_listener(
        over: &mut ServiceOverride, listener: Taken<Listener>
    ) {
        over.options.listeners.extend(listener.map(|listener| (*listener).into()));
    }

    fn rocksdb_compaction_service_options_override_set_statistics(
        over: &mut ServiceOverride, options: Option<&Options>
    ) {
        let statistics = options.and_then(|o| o.values.engine.db.statistics.clone());
        over.options.values.engine.db.statistics = statistics;
    }

    fn rocksdb_compaction_service_options_override_set_info_log(
        over: &mut ServiceOverride, logger: Option<&InfoLogger>
    ) {
        let logger = logger.map(|logger| Arc::clone(&logger.0));
        over.options.values.engine.db.info_log = logger;
    }

    fn rocksdb_compaction_service_options_override_set_option(
        over: &mut ServiceOverride, key: Text<'_>, value: Text<'_>
    ) {
        over.options_map.insert(key.text(), value.text());
    }

    fn rocksdb_compaction_service_options_override_set_file_checksum_gen_factory(
        over: &mut ServiceOverride, factory: Option<&ChecksumFactory>
    ) {
        over.options.values.engine.db.file_checksum_gen_factory = match factory {
            Some(_) => FileChecksumGenFactory::Crc32c,
            None => FileChecksumGenFactory::None,
        };
    }

    fn rocksdb_compaction_service_options_override_set_sst_partitioner_factory(
        over: &mut ServiceOverride, factory: Option<&Partitioner>
    ) {
        over.options.values.engine.cf.sst_partitioner_factory = match factory {
            Some(factory) => SstPartitionerFactory::FixedPrefix(factory.0),
            None => SstPartitionerFactory::None,
        };
    }

    fn rocksdb_compaction_service_options_override_add_table_properties_collector_factory(
        _over: &mut ServiceOverride,
        _factory: Unused<rocksdb_table_properties_collector_factory_t>
    ) {
        // Nothing in the interface makes such a factory.
    }

    fn rocksdb_open_and_compact_canceled_create() -> Flag {
        Flag::create()
    }

    fn rocksdb_open_and_compact_canceled_destroy(canceled: Flag) {
        canceled.destroy();
    }

    fn rocksdb_open_and_compact_canceled_set(canceled: Flag, value: bool) {
        canceled.set(value);
    }

    fn rocksdb_open_and_compact_options_set_canceled(options: &mut WorkerOptions, canceled: Flag) {
        options.canceled = canceled.share();
    }

    fn rocksdb_open_and_compact(
        path: Text<'_>, output: Text<'_>, input: Bytes, length: Out<'_, usize>,
        over: &ServiceOverride, errptr: Fail
    ) -> Copied {
        let result = compact(&OpenAndCompactOptions::default(), (path, output), input, over)?;
        Ok(given(&result, length))
    }

    fn rocksdb_open_and_compact_with_options(
        options: &WorkerOptions, path: Text<'_>, output: Text<'_>, input: Bytes,
        length: Out<'_, usize>, over: &ServiceOverride, errptr: Fail
    ) -> Copied {
        let options = OpenAndCompactOptions { canceled: options.canceled.clone() };
        let result = compact(&options, (path, output), input, over)?;
        Ok(given(&result, length))
    }
}
