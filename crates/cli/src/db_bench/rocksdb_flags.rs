//! Flags of RocksDB's db_bench (7.8 to 11.9) that are in no other table: those whose feature is not
//! built, those that have no effect on Pumice, and those that RocksDB itself has retired.
//!
//! A flag that gets built moves to the flag table, and an option that gets a row in the engine is
//! a flag by that row (`option_flags`); tests hold that each name is in one place.

/// A flag without a row of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// Name without dashes.
    pub name: &'static str,
    /// RocksDB's default; `true` and `false` are those of switches.
    pub default: &'static str,
    /// The feature that is missing; empty: the flag has no effect.
    pub feature: &'static str,
}

impl Known {
    /// The flag may stand without a value.
    pub fn is_switch(&self) -> bool {
        matches!(self.default, "true" | "false")
    }

    /// `text` is the default, however it is written.
    pub fn is_default(&self, text: &str) -> bool {
        let yes = ["1", "t", "true", "y", "yes"];
        match (self.default, text.parse::<f64>(), self.default.parse::<f64>()) {
            ("true", ..) => yes.contains(&text.to_ascii_lowercase().as_str()),
            ("false", ..) => !yes.contains(&text.to_ascii_lowercase().as_str()),
            (_, Ok(value), Ok(default)) => value == default,
            (default, ..) => text == default,
        }
    }
}

/// The flag `name`, if it is one of these.
pub fn find(name: &str) -> Option<Known> {
    let refused = REFUSED.iter().find(|(known, ..)| *known == name);
    let refused = refused.map(|&(name, default, feature)| Known { name, default, feature });
    let idle = IDLE.iter().find(|(known, _)| *known == name);
    refused.or(idle.map(|&(name, default)| Known { name, default, feature: "" }))
}

/// Flag, default, and the feature without which no other value can be given.
pub const REFUSED: &[(&str, &str, &str)] = &[
    ("enable_blob_direct_write", "false", "blob files"),
    (
        "use_cache_jemalloc_no_dump_allocator",
        "false",
        "jemalloc: JemallocNodumpAllocator not supported.",
    ),
    (
        "use_cache_memkind_kmem_allocator",
        "false",
        "memkind: Memkind library is not linked with the binary.",
    ),
];

/// Flags, with defaults, that change nothing in Pumice: they concern parts of the engine that it
/// does not have and that affect no result, or matter only with a flag or benchmark that is
/// refused.
pub const IDLE: &[(&str, &str)] = &[
    ("adaptive_readahead", "false"),
    ("auto_refresh_iterator_with_snapshot", "false"),
    ("blob_direct_write_buffer_size", "0"),
    ("blob_direct_write_flush_interval_ms", "0"),
    ("blob_direct_write_partitions", "1"),
    ("blob_direct_write_use_direct_io", "false"),
    ("cache_high_pri_pool_ratio", "0"),
    ("cache_low_pri_pool_ratio", "0"),
    ("compressed_cache_size", "-1"),
    ("compressed_secondary_cache_high_pri_pool_ratio", "0"),
    ("compressed_secondary_cache_low_pri_pool_ratio", "0"),
    ("compressed_secondary_cache_numshardbits", "6"),
    ("disable_seek_compaction", "0"),
    ("hash_bucket_count", "1048576"),
    ("index_block_search_type", "binary_search"),
    ("memtable_batch_lookup_optimization", "false"),
    ("memtable_insert_with_hint_prefix_size", "0"),
    ("memtable_use_huge_page", "false"),
    ("multiread_batched", "false"),
    ("multiscan_coalesce_threshold", "16384"),
    ("multiscan_use_async_io", "false"),
    ("openandcompact_allow_resumption", "false"),
    ("optimize_multiget_for_io", "true"),
    ("read_cache_direct_write", "true"),
    ("skip_list_lookahead", "0"),
    ("transaction_sleep", "0"),
];

/// Retired by RocksDB, but still used in old scripts. Ignored with a warning.
pub const IGNORED: &[&str] = &[
    "blob_db_bytes_per_sync",
    "blob_db_compression_type",
    "blob_db_gc_cutoff",
    "blob_db_is_fifo",
    "blob_db_min_blob_size",
    "compaction_fadvice",
    "compaction_measure_io_stats",
    "compressed_secondary_cache_compress_format_version",
    "hard_rate_limit",
    "rate_limit_delay_max_milliseconds",
    "soft_rate_limit",
];
