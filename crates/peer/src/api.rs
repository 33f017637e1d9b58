//! The table of C functions that the wrapper calls, resolved once when the library is loaded.
//!
//! Names and types are those of RocksDB's `include/rocksdb/c.h` (10.10). Every object is an opaque
//! pointer; booleans are `u8`; a failing call stores a `malloc`ed text through its last argument.
//!
//! Thread safety: immutable after `load`.
//! Invariants: (1) every field was resolved from `library` under the name `rocksdb_<field>` and has
//! the type that c.h gives it; (2) `library` is dropped last, so no field outlives its code.

use crate::{Error, Result};
use libloading::Library;
use std::ffi::{c_char, c_int, c_void};
use std::path::Path;

/// Any `rocksdb_*_t *`.
pub(crate) type Object = *mut c_void;
/// `const char *` with a separate length, or a C string.
pub(crate) type Text = *const c_char;
/// `char **errptr`.
pub(crate) type ErrorOut = *mut *mut c_char;

/// Callback: the state is not needed any more.
pub(crate) type Destructor = unsafe extern "C" fn(*mut c_void);
/// Callback: the name in files.
pub(crate) type NameOf = unsafe extern "C" fn(*mut c_void) -> Text;
/// Callback: two keys' order.
pub(crate) type Compare =
    unsafe extern "C" fn(*mut c_void, *const u8, usize, *const u8, usize) -> c_int;
/// Callback: key, the value there is (or null), operands, their lengths and number, whether it
/// worked, the length of what is returned.
pub(crate) type FullMerge = unsafe extern "C" fn(
    *mut c_void,
    *const u8,
    usize,
    *const u8,
    usize,
    *const *const u8,
    *const usize,
    c_int,
    *mut u8,
    *mut usize,
) -> *mut c_char;
/// Callback: the same without a value.
pub(crate) type PartialMerge = unsafe extern "C" fn(
    *mut c_void,
    *const u8,
    usize,
    *const *const u8,
    *const usize,
    c_int,
    *mut u8,
    *mut usize,
) -> *mut c_char;
/// Callback: a merge's value was copied.
pub(crate) type FreeValue = unsafe extern "C" fn(*mut c_void, Text, usize);

/// `rocksdb_slice_t`, returned by value.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct RawSlice {
    pub(crate) data: *const u8,
    pub(crate) len: usize,
}

macro_rules! functions {
    ($table:ident; $( $name:ident($($arg:ty),*) $(-> $ret:ty)?; )*) => {
        /// Resolved functions; the field `x` is `rocksdb_x`.
        #[allow(non_snake_case)] // RocksDB's own spelling: writeoptions_disable_WAL.
        pub(crate) struct $table {
            $( pub(crate) $name: unsafe extern "C" fn($($arg),*) $(-> $ret)?, )*
            _library: Library,
        }

        impl $table {
            /// Loads the shared library at `path` and resolves every function.
            pub(crate) fn load(path: &Path) -> Result<$table> {
                // SAFETY: loading runs the initialisers of a C++ library that the caller named as
                // RocksDB's; they touch only their own globals.
                let library = unsafe { Library::new(path) }.map_err(|reason| {
                    Error::new(format!("cannot load {}: {reason}", path.display()))
                })?;
                Ok($table {
                    $( $name: {
                        let symbol = concat!("rocksdb_", stringify!($name));
                        // SAFETY: the type is c.h's for this name (invariant 1).
                        let found = unsafe { library.get(symbol.as_bytes()) };
                        *found.map_err(|_| Error::new(format!(
                            "{} has no function {symbol}: no C library of RocksDB, or an older one",
                            path.display()
                        )))?
                    }, )*
                    _library: library,
                })
            }
        }
    };
}

pub(crate) use functions;

functions! {
    Api;

    free(*mut c_void);

    options_create() -> Object;
    options_destroy(Object);
    options_create_copy(Object) -> Object;
    get_options_from_string(Object, Text, Object, ErrorOut);
    load_latest_options(
        Text, Object, bool, Object, *mut Object, *mut usize, *mut *mut *mut c_char,
        *mut *mut Object, ErrorOut);
    load_latest_options_destroy(Object, *mut *mut c_char, *mut Object, usize);
    options_enable_statistics(Object);
    options_statistics_get_string(Object) -> *mut c_char;
    set_perf_level(c_int);
    perfcontext_create() -> Object;
    perfcontext_reset(Object);
    perfcontext_report(Object, u8) -> *mut c_char;
    perfcontext_destroy(Object);
    create_default_env() -> Object;
    env_lower_thread_pool_cpu_priority(Object);
    env_lower_high_priority_thread_pool_cpu_priority(Object);
    env_lower_thread_pool_io_priority(Object);
    env_lower_high_priority_thread_pool_io_priority(Object);
    env_set_bottom_priority_background_threads(Object, c_int);
    env_set_low_priority_background_threads(Object, c_int);
    env_set_high_priority_background_threads(Object, c_int);
    env_destroy(Object);
    options_set_ratelimiter(Object, Object);
    ratelimiter_create_with_mode(i64, i64, i32, c_int, u8) -> Object;
    ratelimiter_destroy(Object);
    options_set_sst_file_manager(Object, Object);
    sst_file_manager_create(Object) -> Object;
    sst_file_manager_destroy(Object);
    sst_file_manager_set_delete_rate_bytes_per_second(Object, i64);
    sst_file_manager_set_max_trash_db_ratio(Object, f64);
    options_set_block_based_table_factory(Object, Object);
    options_set_merge_operator(Object, Object);
    mergeoperator_create(
        *mut c_void, Destructor, FullMerge, PartialMerge, FreeValue, NameOf) -> Object;
    options_set_comparator(Object, Object);
    comparator_create(*mut c_void, Destructor, Compare, NameOf) -> Object;
    block_based_options_create() -> Object;
    block_based_options_destroy(Object);
    block_based_options_set_block_cache(Object, Object);
    options_set_blob_cache(Object, Object);
    options_set_row_cache(Object, Object);
    cache_create_hyper_clock(usize, usize) -> Object;
    cache_create_lru(usize) -> Object;
    hyper_clock_cache_options_create(usize, usize) -> Object;
    hyper_clock_cache_options_set_num_shard_bits(Object, c_int);
    hyper_clock_cache_options_destroy(Object);
    cache_create_hyper_clock_opts(Object) -> Object;
    lru_cache_options_create() -> Object;
    lru_cache_options_set_capacity(Object, usize);
    lru_cache_options_set_num_shard_bits(Object, c_int);
    lru_cache_options_destroy(Object);
    cache_create_lru_opts(Object) -> Object;
    cache_destroy(Object);
    cache_get_usage(Object) -> usize;

    open(Object, Text, ErrorOut) -> Object;
    open_with_ttl(Object, Text, c_int, ErrorOut) -> Object;
    open_for_read_only(Object, Text, u8, ErrorOut) -> Object;
    open_column_families(
        Object, Text, c_int, *const Text, *const Object, *mut Object, ErrorOut) -> Object;
    open_for_read_only_column_families(
        Object, Text, c_int, *const Text, *const Object, *mut Object, u8, ErrorOut) -> Object;
    open_as_secondary_column_families(
        Object, Text, Text, c_int, *const Text, *const Object, *mut Object, ErrorOut) -> Object;
    try_catch_up_with_primary(Object, ErrorOut);
    list_column_families(Object, Text, *mut usize, ErrorOut) -> *mut *mut c_char;
    list_column_families_destroy(*mut *mut c_char, usize);
    close(Object);
    cancel_all_background_work(Object, u8);
    destroy_db(Object, Text, ErrorOut);
    get_default_column_family_handle(Object) -> Object;
    create_column_family(Object, Object, Text, ErrorOut) -> Object;
    drop_column_family(Object, Object, ErrorOut);
    column_family_handle_destroy(Object);

    put_cf(Object, Object, Object, *const u8, usize, *const u8, usize, ErrorOut);
    put_cf_with_ts(
        Object, Object, Object, *const u8, usize, *const u8, usize, *const u8, usize, ErrorOut);
    delete_cf_with_ts(Object, Object, Object, *const u8, usize, *const u8, usize, ErrorOut);
    singledelete_cf_with_ts(Object, Object, Object, *const u8, usize, *const u8, usize, ErrorOut);
    get_cf_with_ts(
        Object, Object, Object, *const u8, usize, *mut usize, *mut *mut c_char, *mut usize,
        ErrorOut) -> *mut c_char;
    increase_full_history_ts_low(Object, Object, *const u8, usize, ErrorOut);
    get_full_history_ts_low(Object, Object, *mut usize, ErrorOut) -> *mut c_char;
    readoptions_set_timestamp(Object, *const u8, usize);
    readoptions_set_iter_start_ts(Object, *const u8, usize);
    iter_timestamp_slice(Object) -> RawSlice;
    merge_cf(Object, Object, Object, *const u8, usize, *const u8, usize, ErrorOut);
    delete_cf(Object, Object, Object, *const u8, usize, ErrorOut);
    singledelete_cf(Object, Object, Object, *const u8, usize, ErrorOut);
    delete_range_cf(Object, Object, Object, *const u8, usize, *const u8, usize, ErrorOut);
    write(Object, Object, Object, ErrorOut);
    get_into_buffer_cf(
        Object, Object, Object, *const u8, usize, *mut u8, usize, *mut usize, *mut u8, ErrorOut
    ) -> u8;
    batched_multi_get_cf(
        Object, Object, Object, usize, *const *const u8, *const usize, *mut Object,
        *mut *mut c_char, bool);
    pinnableslice_value(Object, *mut usize) -> *const u8;
    pinnableslice_destroy(Object);

    writebatch_create() -> Object;
    writebatch_create_from(*const u8, usize) -> Object;
    writebatch_destroy(Object);
    writebatch_clear(Object);
    writebatch_count(Object) -> c_int;
    writebatch_data(Object, *mut usize) -> *const u8;
    writebatch_put_cf(Object, Object, *const u8, usize, *const u8, usize);
    writebatch_merge_cf(Object, Object, *const u8, usize, *const u8, usize);
    writebatch_delete_cf(Object, Object, *const u8, usize);
    writebatch_singledelete_cf(Object, Object, *const u8, usize);
    writebatch_delete_range_cf(Object, Object, *const u8, usize, *const u8, usize);
    writebatch_put_log_data(Object, *const u8, usize);

    readoptions_create() -> Object;
    readoptions_destroy(Object);
    readoptions_set_verify_checksums(Object, u8);
    readoptions_set_fill_cache(Object, u8);
    readoptions_set_snapshot(Object, Object);
    readoptions_set_iterate_upper_bound(Object, *const u8, usize);
    readoptions_set_iterate_lower_bound(Object, *const u8, usize);
    readoptions_set_prefix_same_as_start(Object, u8);
    readoptions_set_total_order_seek(Object, u8);
    readoptions_set_readahead_size(Object, usize);
    readoptions_set_async_io(Object, u8);
    readoptions_set_tailing(Object, u8);
    readoptions_set_read_tier(Object, i32);
    writeoptions_create() -> Object;
    writeoptions_destroy(Object);
    writeoptions_set_sync(Object, u8);
    writeoptions_disable_WAL(Object, c_int);
    writeoptions_set_no_slowdown(Object, u8);
    writeoptions_set_low_pri(Object, u8);

    create_iterator_cf(Object, Object, Object) -> Object;
    iter_destroy(Object);
    iter_valid(Object) -> u8;
    iter_seek_to_first(Object);
    iter_seek_to_last(Object);
    iter_seek(Object, *const u8, usize);
    iter_seek_for_prev(Object, *const u8, usize);
    iter_next(Object);
    iter_prev(Object);
    iter_key_slice(Object) -> RawSlice;
    iter_value_slice(Object) -> RawSlice;
    iter_get_error(Object, ErrorOut);
    create_snapshot(Object) -> Object;
    release_snapshot(Object, Object);
    snapshot_get_sequence_number(Object) -> u64;

    flushoptions_create() -> Object;
    flushoptions_destroy(Object);
    flushoptions_set_wait(Object, u8);
    flush_cf(Object, Object, Object, ErrorOut);
    flush_wal(Object, u8, ErrorOut);
    compactoptions_create() -> Object;
    compactoptions_destroy(Object);
    compactoptions_set_exclusive_manual_compaction(Object, u8);
    compactoptions_set_bottommost_level_compaction(Object, u8);
    compactoptions_set_change_level(Object, u8);
    compactoptions_set_target_level(Object, c_int);
    compactoptions_set_max_subcompactions(Object, c_int);
    compact_range_cf_opt(Object, Object, Object, *const u8, usize, *const u8, usize);
    wait_for_compact_options_create() -> Object;
    wait_for_compact_options_destroy(Object);
    wait_for_compact_options_set_flush(Object, u8);
    wait_for_compact(Object, Object, ErrorOut);
    property_value_cf(Object, Object, Text) -> *mut c_char;
    property_int_cf(Object, Object, Text, *mut u64) -> c_int;
    set_options_cf(Object, Object, c_int, *const Text, *const Text, ErrorOut);
    get_latest_sequence_number(Object) -> u64;
    get_updates_since(Object, u64, *const c_void, ErrorOut) -> Object;
    wal_iter_valid(Object) -> u8;
    wal_iter_next(Object);
    wal_iter_status(Object, ErrorOut);
    wal_iter_get_batch(Object, *mut u64) -> Object;
    wal_iter_destroy(Object);
    checkpoint_object_create(Object, ErrorOut) -> Object;
    checkpoint_create(Object, Text, u64, ErrorOut);
    checkpoint_object_destroy(Object);

    livefiles(Object) -> Object;
    livefiles_count(Object) -> c_int;
    livefiles_name(Object, c_int) -> Text;
    livefiles_level(Object, c_int) -> c_int;
    livefiles_size(Object, c_int) -> usize;
    livefiles_column_family_name(Object, c_int) -> Text;
    livefiles_destroy(Object);

    envoptions_create() -> Object;
    envoptions_destroy(Object);
    sstfilewriter_create(Object, Object) -> Object;
    sstfilewriter_open(Object, Text, ErrorOut);
    sstfilewriter_put(Object, *const u8, usize, *const u8, usize, ErrorOut);
    sstfilewriter_merge(Object, *const u8, usize, *const u8, usize, ErrorOut);
    sstfilewriter_delete(Object, *const u8, usize, ErrorOut);
    sstfilewriter_delete_range(Object, *const u8, usize, *const u8, usize, ErrorOut);
    sstfilewriter_finish(Object, ErrorOut);
    sstfilewriter_destroy(Object);
    ingestexternalfileoptions_create() -> Object;
    ingestexternalfileoptions_destroy(Object);
    ingestexternalfileoptions_set_move_files(Object, u8);
    ingestexternalfileoptions_set_snapshot_consistency(Object, u8);
    ingestexternalfileoptions_set_allow_global_seqno(Object, u8);
    ingestexternalfileoptions_set_allow_blocking_flush(Object, u8);
    ingestexternalfileoptions_set_ingest_behind(Object, u8);
    ingestexternalfileoptions_set_fail_if_not_bottommost_level(Object, u8);
    ingest_external_file_cf(Object, Object, *const Text, usize, Object, ErrorOut);

    transactiondb_options_create() -> Object;
    transactiondb_options_destroy(Object);
    transactiondb_open(Object, Object, Text, ErrorOut) -> Object;
    transactiondb_close(Object);
    transactiondb_get_base_db(Object) -> Object;
    transactiondb_close_base_db(Object);
    transactiondb_put(Object, Object, *const u8, usize, *const u8, usize, ErrorOut);
    transactiondb_flush(Object, Object, ErrorOut);
    transactiondb_get_prepared_transactions(Object, *mut usize) -> *mut Object;
    transaction_options_create() -> Object;
    transaction_options_destroy(Object);
    transaction_begin(Object, Object, Object, Object) -> Object;
    transaction_set_name(Object, Text, usize, ErrorOut);
    transaction_put(Object, *const u8, usize, *const u8, usize, ErrorOut);
    transaction_prepare(Object, ErrorOut);
    transaction_commit(Object, ErrorOut);
    transaction_rollback(Object, ErrorOut);
    transaction_destroy(Object);
    transaction_options_set_lock_timeout(Object, i64);
    transaction_options_set_set_snapshot(Object, u8);
    transaction_get_snapshot(Object) -> Object;
    transaction_get_pinned(Object, Object, *const u8, usize, ErrorOut) -> Object;
    transaction_get_pinned_for_update(Object, Object, *const u8, usize, u8, ErrorOut) -> Object;
    optimistictransactiondb_open(Object, Text, ErrorOut) -> Object;
    optimistictransactiondb_close(Object);
    optimistictransactiondb_get_base_db(Object) -> Object;
    optimistictransactiondb_close_base_db(Object);
    optimistictransaction_options_create() -> Object;
    optimistictransaction_options_destroy(Object);
    optimistictransaction_options_set_set_snapshot(Object, u8);
    optimistictransaction_begin(Object, Object, Object, Object) -> Object;
}
