//! Filters of tables for scans.

use crate::ffi::callback::DestroyFn;
use crate::ffi::from::State;
use crate::ffi::macros::c_api;
use crate::ffi::table_filter::{TableFilterFn, c_table_filter};
use crate::ffi::types::ReadOptions;

c_api! {
    fn rocksdb_readoptions_set_table_filter(
        options: &mut ReadOptions, state: State, destroy: DestroyFn, filter: TableFilterFn
    ) {
        options.table_filter = Some(c_table_filter(state, destroy, filter));
    }

    fn rocksdb_readoptions_clear_table_filter(options: &mut ReadOptions) {
        options.table_filter = None;
    }

    fn rocksdb_readoptions_has_table_filter(options: &ReadOptions) -> bool {
        options.table_filter.is_some()
    }
}
