//! Options of reads as tables take them.
//!
//! Thread safety: plain functions.

use std::sync::Arc;

use pumice_table::{ReadLimits, TableReadOptions};

use crate::options::requests::ReadOptions;

#[inline]
fn limits(options: &ReadOptions) -> ReadLimits {
    ReadLimits {
        deadline_micros: options.deadline_micros,
        io_timeout_micros: options.io_timeout_micros,
    }
}

/// Table options of a scan.
pub(crate) fn table_options(options: &ReadOptions) -> TableReadOptions {
    TableReadOptions {
        verify_checksums: options.verify_checksums,
        fill_cache: options.fill_cache,
        readahead_size: options.readahead_size,
        auto_readahead_size: options.auto_readahead_size,
        async_io: options.async_io,
        total_order_seek: true,
        // Prefix filters may be used where the bound shows that they make no difference.
        auto_prefix_mode: options.auto_prefix_mode
            && !options.total_order_seek
            && options.iterate_upper_bound.is_some(),
        iterate_upper_bound: options.iterate_upper_bound.as_deref().map(Arc::from),
        cache_only: options.cache_only,
        io_priority: options.rate_limiter_priority,
        limits: limits(options),
        ignore_range_deletions: options.ignore_range_deletions,
        table_index_factory: options.table_index_factory,
        ..TableReadOptions::default()
    }
}

/// Table options of a point read: no allocation.
pub(crate) fn point_options(options: &ReadOptions) -> TableReadOptions {
    TableReadOptions {
        verify_checksums: options.verify_checksums,
        fill_cache: options.fill_cache,
        async_io: options.async_io,
        total_order_seek: true,
        cache_only: options.cache_only,
        io_priority: options.rate_limiter_priority,
        limits: limits(options),
        ignore_range_deletions: options.ignore_range_deletions,
        table_index_factory: options.table_index_factory,
        ..TableReadOptions::default()
    }
}
