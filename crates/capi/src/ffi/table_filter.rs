//! Filters of tables for scans.

use std::ffi::c_void;

use pumice::TableFilter;
use pumice_binding::reports::Properties;

use super::callback::{DestroyFn, Owner};
use crate::ffi::from::State;

/// `unsigned char (*)(void*, const rocksdb_table_properties_t*)`.
pub type TableFilterFn = Option<unsafe extern "C" fn(*mut c_void, *mut Properties) -> u8>;

/// A filter of C's; without a function all tables are read.
pub fn c_table_filter(state: State, destroy: DestroyFn, wants: TableFilterFn) -> TableFilter {
    let owner = Owner { state, destroy };
    TableFilter::new(move |properties| {
        let (owner, Some(wants)) = (&owner, wants) else { return true };
        let mut properties = Properties::new(properties);
        // SAFETY: invariant 4 of ffi; the properties are borrowed for the call.
        unsafe { wants(owner.state.0, &mut properties) != 0 }
    })
}
