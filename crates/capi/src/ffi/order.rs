//! Comparators.

use std::cmp::Ordering;
use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

use pumice::{Comparator, CustomComparator};

use super::callback::{DestroyFn, NameFn, Owner, data, read_name};
use crate::ffi::from::State;
use crate::ffi::types::Order;

/// `int (*compare)(void*, const char* a, size_t, const char* b, size_t)`.
pub type CompareFn =
    Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize, *const c_char, usize) -> c_int>;

struct COrder {
    owner: Owner,
    compare: CompareFn,
    name: String,
}

impl CustomComparator for COrder {
    fn name(&self) -> &str {
        &self.name
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        let Some(compare) = self.compare else { return a.cmp(b) };
        // SAFETY: invariant 4 of ffi.
        unsafe { compare(self.owner.state.0, data(a), a.len(), data(b), b.len()) }.cmp(&0)
    }
    /// C has no way to say it, and RocksDB uses filters beside any comparator.
    fn can_keys_with_different_byte_contents_be_equal(&self) -> bool {
        false
    }
}

/// A comparator of C's.
pub fn c_order(state: State, destroy: DestroyFn, compare: CompareFn, name: NameFn) -> Order {
    let name = read_name(name, state, "comparator");
    let order = COrder { owner: Owner { state, destroy }, compare, name };
    Order(Comparator::Custom(Arc::new(order)))
}
