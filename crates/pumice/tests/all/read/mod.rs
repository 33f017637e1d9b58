//! Reads: point lookups, iterators, and the I/O that caches and filters save.

mod cache_only;
mod filter_kinds;
mod held;
mod limits;
mod merge_operands;
mod multi_scan;
mod read_options;
mod row_cache;
mod skipping;
mod table_filter;
mod table_opens;
mod uncache;
mod wait_once;
mod wide_columns;
mod wide_columns_drawn;
