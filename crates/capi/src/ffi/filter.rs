//! Compaction filters and what makes them.

use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

use pumice::{CompactionFilter, CompactionFilterContext, CompactionFilterFactory, FilterDecision};
use pumice_binding::store::{Plain, Store};

use super::callback::{DestroyFn, NameFn, Owner, data, read_name};
use crate::ffi::from::{State, bytes};
use crate::ffi::generated::rocksdb_compactionfiltercontext_t;
use crate::ffi::handle;
use crate::ffi::types::{Filter, FilterFactory};

/// The decision: state, level, key, value, new value, its length, whether it changed.
pub type DecideFn = Option<
    unsafe extern "C" fn(
        *mut c_void,
        c_int,
        *const c_char,
        usize,
        *const c_char,
        usize,
        *mut *mut c_char,
        *mut usize,
        *mut u8,
    ) -> u8,
>;
/// Makes a filter, which the library then owns.
pub type CreateFilter = Option<
    unsafe extern "C" fn(*mut c_void, *mut rocksdb_compactionfiltercontext_t) -> *mut Filter,
>;

struct CFilter {
    owner: Owner,
    decide: DecideFn,
    name: String,
}

impl CompactionFilter for CFilter {
    fn name(&self) -> &str {
        &self.name
    }
    fn filter(&self, level: i32, key: &[u8], value: &[u8]) -> FilterDecision {
        let Some(decide) = self.decide else { return FilterDecision::Keep };
        let (mut new_value, mut length, mut changed) = (std::ptr::null_mut(), 0, 0);
        // SAFETY: invariant 4 of ffi; a new value is the program's, and copied at once.
        unsafe {
            let remove = decide(
                self.owner.state.0,
                level,
                data(key),
                key.len(),
                data(value),
                value.len(),
                &mut new_value,
                &mut length,
                &mut changed,
            );
            match (remove, changed) {
                (0, 0) => FilterDecision::Keep,
                (0, _) => {
                    let value = bytes(new_value, length).unwrap_or_default();
                    FilterDecision::ChangeValue(value.to_vec())
                }
                _ => FilterDecision::Remove,
            }
        }
    }
}

/// A compaction filter of C's.
pub fn c_filter(state: State, destroy: DestroyFn, decide: DecideFn, name: NameFn) -> Filter {
    let name = read_name(name, state, "compaction filter");
    Filter(Arc::new(CFilter { owner: Owner { state, destroy }, decide, name }))
}

struct CFactory {
    owner: Owner,
    create: CreateFilter,
    name: String,
}

impl CompactionFilterFactory for CFactory {
    fn name(&self) -> &str {
        &self.name
    }
    fn create_compaction_filter(
        &self,
        context: &CompactionFilterContext,
    ) -> Option<Arc<dyn CompactionFilter>> {
        let create = self.create?;
        let store = Store::named("compactionfiltercontext")
            .with("is_full_compaction", u64::from(context.is_full_compaction))
            .with("is_manual_compaction", u64::from(context.is_manual_compaction));
        let mut context = Plain(store);
        // SAFETY: invariant 4 of ffi; the filter is a handle that the library takes over.
        unsafe {
            let filter = create(self.owner.state.0, &mut context);
            Some(handle::take("compaction filter factory", filter)?.0)
        }
    }
}

/// A factory of compaction filters of C's.
pub fn c_filter_factory(
    state: State,
    destroy: DestroyFn,
    create: CreateFilter,
    name: NameFn,
) -> FilterFactory {
    let name = read_name(name, state, "compaction filter factory");
    FilterFactory(Arc::new(CFactory { owner: Owner { state, destroy }, create, name }))
}
