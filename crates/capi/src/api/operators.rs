//! Orders, merge operators, filters, prefix extractors, and the pieces of table options.

use std::sync::Arc;

use pumice::{Error, FilterPolicy, FixedPrefix, NoopPrefix, Result};
use pumice_binding::store::{Plain, Store};

use crate::ffi::callback::{DestroyFn, NameFn, Owner, read_name};
use crate::ffi::filter::{CreateFilter, DecideFn, c_filter, c_filter_factory};
use crate::ffi::from::{State, Text};
use crate::ffi::generated::rocksdb_compactionservice_scheduleresponse_t;
use crate::ffi::into::New;
use crate::ffi::macros::c_api;
use crate::ffi::merge::{DeleteValueFn, FullMergeFn, PartialMergeFn, c_merge};
use crate::ffi::order::{CompareFn, c_order};
use crate::ffi::prefix::{InDomainFn, TransformFn, c_prefix};
use crate::ffi::types::{
    ChecksumFactory, Filter, FilterFactory, Merge, Order, Partitioner, Prefix, WalFilter,
};
use crate::ffi::wal_filter::{CWalFilter, LogNumbersFn, RecordFn};

/// What a compaction service answers.
fn response(job: &[u8], status: i32) -> Result<New<rocksdb_compactionservice_scheduleresponse_t>> {
    if !(0..=3).contains(&status) {
        return Err(Error::invalid_argument("Invalid status value. Must be 0-3."));
    }
    let mut store = Store::named("compactionservice_scheduleresponse");
    store.put_int("status", i64::from(status));
    store.put_text("scheduled_job_id", job);
    Ok(New(Plain(store)))
}

c_api! {
    fn rocksdb_comparator_create(
        state: State, destroy: DestroyFn, compare: CompareFn, name: NameFn
    ) -> New<Order> {
        New(c_order(state, destroy, compare, name))
    }

    fn rocksdb_mergeoperator_create(
        state: State, destroy: DestroyFn, full: FullMergeFn, partial: PartialMergeFn,
        delete_value: DeleteValueFn, name: NameFn
    ) -> New<Merge> {
        New(c_merge(state, destroy, full, partial, delete_value, name))
    }

    fn rocksdb_compactionfilter_create(
        state: State, destroy: DestroyFn, decide: DecideFn, name: NameFn
    ) -> New<Filter> {
        New(c_filter(state, destroy, decide, name))
    }

    fn rocksdb_compactionfilter_set_ignore_snapshots(_filter: &mut Filter, _ignore: bool) {
        // Versions that a snapshot needs are never filtered: a stronger promise.
    }

    fn rocksdb_compactionfilterfactory_create(
        state: State, destroy: DestroyFn, create: CreateFilter, name: NameFn
    ) -> New<FilterFactory> {
        New(c_filter_factory(state, destroy, create, name))
    }

    fn rocksdb_slicetransform_create(
        state: State, destroy: DestroyFn, transform: TransformFn, in_domain: InDomainFn,
        name: NameFn
    ) -> New<Prefix> {
        New(c_prefix(state, destroy, transform, in_domain, name))
    }

    fn rocksdb_slicetransform_create_fixed_prefix(length: usize) -> New<Prefix> {
        New(Prefix(Arc::new(FixedPrefix(length))))
    }

    fn rocksdb_slicetransform_create_noop() -> New<Prefix> {
        New(Prefix(Arc::new(NoopPrefix)))
    }

    fn rocksdb_filterpolicy_create_bloom(bits_per_key: f64) -> New<FilterPolicy> {
        New(FilterPolicy::bloom(bits_per_key))
    }

    fn rocksdb_filterpolicy_create_bloom_full(bits_per_key: f64) -> New<FilterPolicy> {
        New(FilterPolicy::bloom(bits_per_key))
    }

    fn rocksdb_filterpolicy_create_ribbon(bloom_equivalent_bits: f64) -> New<FilterPolicy> {
        // At every level, flushes too.
        New(FilterPolicy::ribbon(bloom_equivalent_bits, -1))
    }

    fn rocksdb_filterpolicy_create_ribbon_hybrid(
        bloom_equivalent_bits: f64, bloom_before_level: i32
    ) -> New<FilterPolicy> {
        New(FilterPolicy::ribbon(bloom_equivalent_bits, bloom_before_level))
    }

    fn rocksdb_walfilter_create(
        state: State, destroy: DestroyFn, log_numbers: LogNumbersFn, record: RecordFn, name: NameFn
    ) -> New<WalFilter> {
        let name = read_name(name, state, "WalFilter");
        let owner = Owner { state, destroy };
        New(WalFilter(Arc::new(CWalFilter { owner, log_numbers, record, name })))
    }

    fn rocksdb_compactionservice_scheduleresponse_create(
        scheduled_job_id: Text<'_>, status: i32, errptr: Fail
    ) -> New<rocksdb_compactionservice_scheduleresponse_t> {
        response(scheduled_job_id.bytes(), status)
    }

    fn rocksdb_compactionservice_scheduleresponse_create_with_status(
        status: i32, errptr: Fail
    ) -> New<rocksdb_compactionservice_scheduleresponse_t> {
        response(b"", status)
    }

    fn rocksdb_file_checksum_gen_crc32c_factory_create() -> New<ChecksumFactory> {
        New(ChecksumFactory::default())
    }

    fn rocksdb_sst_partitioner_fixed_prefix_factory_create(length: usize) -> New<Partitioner> {
        New(Partitioner(length))
    }
}
