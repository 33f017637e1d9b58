//! Formats of tables and memtables, filters, operators.

use std::sync::Arc;

use pumice::options::{PlainEncoding, PlainTableOptions, StringAppend};
use pumice::{FilterPolicy, MergeOperator};
use pumice_binding::options::TableOptions;
use pumice_binding::store::Fields;

use crate::cassandra::{CassandraFilter, CassandraMerge};
use crate::ffi::call::Result;
use crate::ffi::env::Env;
use crate::ffi::into::New;
use crate::objects::{Cache, Filter, MemTable, Merge, Persistent, Policy, Table};

const FLAGS: [&str; 12] = [
    "cache_index_and_filter_blocks",
    "cache_index_and_filter_blocks_with_high_priority",
    "pin_l0_filter_and_index_blocks_in_cache",
    "pin_top_level_index_and_filter",
    "no_block_cache",
    "partition_filters",
    "optimize_filters_for_memory",
    "use_delta_encoding",
    "whole_key_filtering",
    "verify_compression",
    "enable_index_compression",
    "block_align",
];
const BYTES: [&str; 4] = ["index_type", "data_block_index_type", "checksum", "index_shortening"];
const INTS: [&str; 5] = [
    "block_size_deviation",
    "block_restart_interval",
    "index_block_restart_interval",
    "read_amp_bytes_per_bit",
    "format_version",
];

/// What both forms of the constructor have in common: `sizes` are those of a block, of one of
/// metadata, and of a cache of its own.
fn blocks(
    (flags, bytes, ints): ([bool; 12], [i8; 4], [i32; 5]),
    sizes: [i64; 3],
    ratio: f64,
    (cache, persistent): (Option<&Cache>, Option<&Persistent>),
    policy: Option<&Policy>,
) -> TableOptions {
    let mut table = TableOptions::default();
    let [block, metadata, own_cache] = sizes;
    let store = table.store_mut();
    for (name, flag) in FLAGS.iter().zip(flags) {
        store.put(name, u64::from(flag));
    }
    for (name, byte) in BYTES.iter().zip(bytes) {
        store.put_int(name, i64::from(byte));
    }
    for (name, int) in INTS.iter().zip(ints) {
        store.put_int(name, i64::from(int));
    }
    store.put_int("block_size", block);
    store.put_int("metadata_block_size", metadata);
    store.put_double("data_block_hash_table_util_ratio", ratio);
    table.engine.block_cache = match cache {
        _ if table.store().flag("no_block_cache") => None,
        Some(cache) => Some(Arc::clone(&cache.blocks)),
        None if own_cache > 0 => {
            let bytes = usize::try_from(own_cache).unwrap_or(usize::MAX);
            Some(pumice::BlockCache::new(pumice::CacheOptions::new(bytes)))
        }
        // RocksDB makes none of size 0.
        None => {
            table.store_mut().put("no_block_cache", 1);
            None
        }
    };
    table.engine.persistent_cache = persistent.map(|cache| Arc::clone(&cache.0));
    table.engine.filter_policy = policy.map(|policy| policy.0);
    table
}

/// Java: BlockBasedTableConfig.newTableFactoryHandle (ZZZZBBDBZJJJIIIJZZZJZZIIZZBJI)
#[allow(clippy::too_many_arguments)] // Java's.
pub fn new_blocks(
    _env: Env<'_>,
    index: bool,
    high: bool,
    pin_l0: bool,
    pin_top: bool,
    index_type: i8,
    data_index: i8,
    ratio: f64,
    checksum: i8,
    no_cache: bool,
    cache: Option<&Cache>,
    persistent: Option<&Persistent>,
    size: i64,
    deviation: i32,
    restart: i32,
    index_restart: i32,
    metadata: i64,
    partition: bool,
    memory: bool,
    delta: bool,
    policy: Option<&Policy>,
    whole: bool,
    verify: bool,
    amp: i32,
    format: i32,
    packed: bool,
    align: bool,
    shortening: i8,
    own_cache: i64,
    _shard_bits: i32,
) -> Result<New<Table>> {
    let flags = [
        index, high, pin_l0, pin_top, no_cache, partition, memory, delta, whole, verify, packed,
        align,
    ];
    let bytes = [index_type, data_index, checksum, shortening];
    let ints = [deviation, restart, index_restart, amp, format];
    let sizes = [size, metadata, own_cache];
    let table = blocks((flags, bytes, ints), sizes, ratio, (cache, persistent), policy);
    Ok(New(Table::Blocks(Box::new(table))))
}

/// Java: BlockBasedTableConfig.newTableFactoryHandle (ZZZZBBDBZJJJIIIJZZZJZZIIZDZZJJBBJI)
#[allow(clippy::too_many_arguments)] // Java's.
pub fn new_blocks_of_11(
    _env: Env<'_>,
    index: bool,
    high: bool,
    pin_l0: bool,
    pin_top: bool,
    index_type: i8,
    data_index: i8,
    ratio: f64,
    checksum: i8,
    no_cache: bool,
    cache: Option<&Cache>,
    persistent: Option<&Persistent>,
    size: i64,
    deviation: i32,
    restart: i32,
    index_restart: i32,
    metadata: i64,
    partition: bool,
    memory: bool,
    delta: bool,
    policy: Option<&Policy>,
    whole: bool,
    verify: bool,
    amp: i32,
    format: i32,
    separate: bool,
    uniform: f64,
    packed: bool,
    align: bool,
    alignment: i64,
    alignment_ratio: i64,
    shortening: i8,
    search: i8,
    own_cache: i64,
    _shard_bits: i32,
) -> Result<New<Table>> {
    let flags = [
        index, high, pin_l0, pin_top, no_cache, partition, memory, delta, whole, verify, packed,
        align,
    ];
    let bytes = [index_type, data_index, checksum, shortening];
    let ints = [deviation, restart, index_restart, amp, format];
    let sizes = [size, metadata, own_cache];
    let mut table = blocks((flags, bytes, ints), sizes, ratio, (cache, persistent), policy);
    let store = table.store_mut();
    store.put("separate_key_value_in_data_block", u64::from(separate));
    store.put_double("uniform_cv_threshold", uniform);
    store.put_int("super_block_alignment_size", alignment);
    store.put_int("super_block_alignment_space_overhead_ratio", alignment_ratio);
    store.put_int("index_block_search_type", i64::from(search));
    Ok(New(Table::Blocks(Box::new(table))))
}

/// Java: PlainTableConfig.newTableFactoryHandle
#[allow(clippy::too_many_arguments)] // Java's.
pub fn new_plain(
    _env: Env<'_>,
    key_size: i32,
    bloom_bits: i32,
    ratio: f64,
    sparseness: i32,
    _huge_page: i32,
    encoding: i8,
    full_scan: bool,
    store_index: bool,
) -> Result<New<Table>> {
    Ok(New(Table::Plain(PlainTableOptions {
        user_key_len: u32::try_from(key_size).unwrap_or(0),
        bloom_bits_per_key: bloom_bits,
        hash_table_ratio: ratio,
        index_sparseness: u64::try_from(sparseness).unwrap_or(0),
        encoding_type: if encoding == 0 { PlainEncoding::Plain } else { PlainEncoding::Prefix },
        full_scan_mode: full_scan,
        store_index_in_file: store_index,
        ..PlainTableOptions::default()
    })))
}

/// Java: SkipListMemTableConfig.newMemTableFactoryHandle0
pub fn new_skip_list(_env: Env<'_>, lookahead: usize) -> Result<New<MemTable>> {
    Ok(New(MemTable::SkipList(lookahead)))
}

/// Java: VectorMemTableConfig.newMemTableFactoryHandle
pub fn new_vector(_env: Env<'_>, reserve: usize) -> Result<New<MemTable>> {
    Ok(New(MemTable::Vector(reserve)))
}

/// Java: HashSkipListMemTableConfig.newMemTableFactoryHandle
pub fn new_hash_skip_list(
    _env: Env<'_>,
    _buckets: i64,
    _height: i32,
    _branching: i32,
) -> Result<New<MemTable>> {
    Ok(New(MemTable::Other("HashSkipListRepFactory")))
}

/// Java: HashLinkedListMemTableConfig.newMemTableFactoryHandle
pub fn new_hash_linked_list(
    _env: Env<'_>,
    _buckets: i64,
    _huge_page: i64,
    _threshold: i32,
    _log: bool,
    _skip_list: i32,
) -> Result<New<MemTable>> {
    Ok(New(MemTable::Other("HashLinkListRepFactory")))
}

/// Java: BloomFilter.createNewBloomFilter
pub fn new_bloom(_env: Env<'_>, bits_per_key: f64) -> Result<New<Policy>> {
    Ok(New(Policy(FilterPolicy::bloom(bits_per_key))))
}

fn appending(delimiter: &[u8]) -> Merge {
    Merge(Arc::new(StringAppend::new(delimiter)))
}

/// Java: StringAppendOperator.newSharedStringAppendOperator (C)
pub fn new_append(_env: Env<'_>, delimiter: u16) -> Result<New<Merge>> {
    // A byte, as C++ takes it.
    Ok(New(appending(&[delimiter as u8])))
}

/// Java: StringAppendOperator.newSharedStringAppendOperator (T)
pub fn new_append_text(_env: Env<'_>, delimiter: String) -> Result<New<Merge>> {
    Ok(New(appending(delimiter.as_bytes())))
}

/// Java: CassandraValueMergeOperator.newSharedCassandraValueMergeOperator 0
pub fn new_cassandra(_env: Env<'_>, grace: i32) -> Result<New<Merge>> {
    Ok(New(Merge(Arc::new(CassandraMerge { grace }))))
}

/// Java: CassandraCompactionFilter.createNewCassandraCompactionFilter0
pub fn new_cassandra_filter(_env: Env<'_>, purges: bool, grace: i32) -> Result<New<Filter>> {
    Ok(New(Filter(Arc::new(CassandraFilter { purges, grace }))))
}

/// Java: UInt64AddOperator.newSharedUInt64AddOperator
pub fn new_add(_env: Env<'_>) -> Result<New<Merge>> {
    let operator: Option<Arc<dyn MergeOperator>> =
        pumice::options::merge_operator_by_name("uint64add");
    Ok(New(Merge(operator.ok_or_else(|| pumice::Error::not_supported("uint64add"))?)))
}
