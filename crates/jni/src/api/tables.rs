//! Formats of tables and memtables, filters, operators.

use std::sync::Arc;

use pumice::options::StringAppend;
use pumice::{FilterPolicy, MergeOperator};
use pumice_binding::options::TableOptions;
use pumice_binding::store::Fields;

use crate::ffi::call::Result;
use crate::ffi::env::Env;
use crate::ffi::into::New;
use crate::objects::{Cache, MemTable, Merge, Policy, Table};

/// What both forms of the constructor of a block-based table's options have in common.
struct Common<'a> {
    flags: [(&'static str, bool); 12],
    numbers: [(&'static str, i64); 13],
    cache: (Option<&'a Cache>, i64),
    policy: Option<&'a Policy>,
}

impl Common<'_> {
    fn table(&self) -> TableOptions {
        let mut table = TableOptions::default();
        for (name, flag) in self.flags {
            table.store_mut().put(name, u64::from(flag));
        }
        for (name, number) in self.numbers {
            table.store_mut().put_int(name, number);
        }
        let no_cache = table.store().flag("no_block_cache");
        table.engine.block_cache = match self.cache {
            _ if no_cache => None,
            (Some(cache), _) => Some(Arc::clone(&cache.blocks)),
            (None, size) if size > 0 => {
                let bytes = usize::try_from(size).unwrap_or(usize::MAX);
                Some(pumice::BlockCache::new(pumice::CacheOptions::new(bytes)))
            }
            // RocksDB makes none of size 0.
            (None, _) => {
                table.store_mut().put("no_block_cache", 1);
                None
            }
        };
        table.engine.filter_policy = self.policy.map(|policy| policy.0.clone());
        table
    }
}

/// Java: BlockBasedTableConfig.newTableFactoryHandle (ZZZZBBDBZJJJIIIJZZZJZZIIZZBJI)
#[allow(clippy::too_many_arguments)] // Java's.
pub fn new_blocks(
    _env: Env<'_>,
    cache_index: bool,
    high_priority: bool,
    pin_l0: bool,
    pin_top: bool,
    index_type: i8,
    data_index: i8,
    hash_ratio: f64,
    checksum: i8,
    no_cache: bool,
    cache: Option<&Cache>,
    _persistent: i64,
    block_size: i64,
    deviation: i32,
    restart: i32,
    index_restart: i32,
    metadata_size: i64,
    partition: bool,
    for_memory: bool,
    delta: bool,
    policy: Option<&Policy>,
    whole_key: bool,
    verify: bool,
    read_amp: i32,
    format: i32,
    index_compression: bool,
    align: bool,
    shortening: i8,
    cache_size: i64,
    _shard_bits: i32,
) -> Result<New<Table>> {
    let common = Common {
        flags: [
            ("cache_index_and_filter_blocks", cache_index),
            ("cache_index_and_filter_blocks_with_high_priority", high_priority),
            ("pin_l0_filter_and_index_blocks_in_cache", pin_l0),
            ("pin_top_level_index_and_filter", pin_top),
            ("no_block_cache", no_cache),
            ("partition_filters", partition),
            ("optimize_filters_for_memory", for_memory),
            ("use_delta_encoding", delta),
            ("whole_key_filtering", whole_key),
            ("verify_compression", verify),
            ("enable_index_compression", index_compression),
            ("block_align", align),
        ],
        numbers: [
            ("index_type", i64::from(index_type)),
            ("data_block_index_type", i64::from(data_index)),
            ("data_block_hash_table_util_ratio", hash_ratio.to_bits().cast_signed()),
            ("checksum", i64::from(checksum)),
            ("block_size", block_size),
            ("block_size_deviation", i64::from(deviation)),
            ("block_restart_interval", i64::from(restart)),
            ("index_block_restart_interval", i64::from(index_restart)),
            ("metadata_block_size", metadata_size),
            ("read_amp_bytes_per_bit", i64::from(read_amp)),
            ("format_version", i64::from(format)),
            ("index_shortening", i64::from(shortening)),
            ("super_block_alignment_size", 0),
        ],
        cache: (cache, cache_size),
        policy,
    };
    Ok(New(Table::Blocks(Box::new(common.table()))))
}

/// Java: BlockBasedTableConfig.newTableFactoryHandle (ZZZZBBDBZJJJIIIJZZZJZZIIZDZZJJBBJI)
#[allow(clippy::too_many_arguments)] // Java's.
pub fn new_blocks_of_11(
    env: Env<'_>,
    cache_index: bool,
    high_priority: bool,
    pin_l0: bool,
    pin_top: bool,
    index_type: i8,
    data_index: i8,
    hash_ratio: f64,
    checksum: i8,
    no_cache: bool,
    cache: Option<&Cache>,
    persistent: i64,
    block_size: i64,
    deviation: i32,
    restart: i32,
    index_restart: i32,
    metadata_size: i64,
    partition: bool,
    for_memory: bool,
    delta: bool,
    policy: Option<&Policy>,
    whole_key: bool,
    verify: bool,
    read_amp: i32,
    format: i32,
    separate: bool,
    uniform: f64,
    index_compression: bool,
    align: bool,
    alignment: i64,
    alignment_ratio: i64,
    shortening: i8,
    search_type: i8,
    cache_size: i64,
    shard_bits: i32,
) -> Result<New<Table>> {
    let made = new_blocks(
        env,
        cache_index,
        high_priority,
        pin_l0,
        pin_top,
        index_type,
        data_index,
        hash_ratio,
        checksum,
        no_cache,
        cache,
        persistent,
        block_size,
        deviation,
        restart,
        index_restart,
        metadata_size,
        partition,
        for_memory,
        delta,
        policy,
        whole_key,
        verify,
        read_amp,
        format,
        index_compression,
        align,
        shortening,
        cache_size,
        shard_bits,
    )?;
    let New(Table::Blocks(mut table)) = made else { return Ok(made) };
    let store = table.store_mut();
    store.put("separate_key_value_in_data_block", u64::from(separate));
    store.put_double("uniform_cv_threshold", uniform);
    store.put_int("super_block_alignment_size", alignment);
    store.put_int("super_block_alignment_space_overhead_ratio", alignment_ratio);
    store.put_int("index_block_search_type", i64::from(search_type));
    Ok(New(Table::Blocks(table)))
}

/// Java: PlainTableConfig.newTableFactoryHandle
#[allow(clippy::too_many_arguments)] // Java's.
pub fn new_plain(
    _env: Env<'_>,
    _key_size: i32,
    _bloom_bits: i32,
    _ratio: f64,
    _sparseness: i32,
    _huge_page: i32,
    _encoding: i8,
    _full_scan: bool,
    _store_index: bool,
) -> Result<New<Table>> {
    Ok(New(Table::Other("PlainTable")))
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

/// Java: UInt64AddOperator.newSharedUInt64AddOperator
pub fn new_add(_env: Env<'_>) -> Result<New<Merge>> {
    let operator: Option<Arc<dyn MergeOperator>> =
        pumice::options::merge_operator_by_name("uint64add");
    Ok(New(Merge(operator.ok_or_else(|| pumice::Error::not_supported("uint64add"))?)))
}
