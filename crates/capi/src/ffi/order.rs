//! Comparators.

use std::cmp::Ordering;
use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

use pumice::{Comparator, CustomComparator};
use pumice_base::key::compare_at_one_time;

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

/// `int (*compare_without_ts)(void*, const char* a, size_t, unsigned char a_has_ts, const char* b,
/// size_t, unsigned char b_has_ts)`.
pub type BareCompareFn = Option<
    unsafe extern "C" fn(*mut c_void, *const c_char, usize, u8, *const c_char, usize, u8) -> c_int,
>;

/// What a comparator knows of timestamps.
pub struct TimedOrder {
    /// The order of two timestamps; without it all are equal.
    pub compare_ts: CompareFn,
    /// The order of two keys with or without timestamps; without it that of whole keys.
    pub compare_without_ts: BareCompareFn,
    /// Bytes of a timestamp.
    pub timestamp_size: usize,
}

/// The order of keys with timestamps.
struct CTimedOrder {
    whole: COrder,
    times: TimedOrder,
}

impl CustomComparator for CTimedOrder {
    fn name(&self) -> &str {
        self.whole.name()
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        self.whole.compare(a, b)
    }
    fn can_keys_with_different_byte_contents_be_equal(&self) -> bool {
        self.whole.can_keys_with_different_byte_contents_be_equal()
    }
    fn timestamp_size(&self) -> usize {
        self.times.timestamp_size
    }
    fn compare_without_timestamp(&self, a: &[u8], b: &[u8]) -> Ordering {
        let Some(compare) = self.times.compare_without_ts else {
            return compare_at_one_time(self, a, b);
        };
        let state = self.whole.owner.state.0;
        // SAFETY: invariant 4 of ffi.
        unsafe { compare(state, data(a), a.len(), 0, data(b), b.len(), 0) }.cmp(&0)
    }
    fn compare_timestamp(&self, a: &[u8], b: &[u8]) -> Ordering {
        let Some(compare) = self.times.compare_ts else { return Ordering::Equal };
        // SAFETY: invariant 4 of ffi.
        unsafe { compare(self.whole.owner.state.0, data(a), a.len(), data(b), b.len()) }.cmp(&0)
    }
}

/// A comparator of C's whose keys have timestamps.
pub fn c_timed_order(
    state: State,
    destroy: DestroyFn,
    compare: CompareFn,
    times: TimedOrder,
    name: NameFn,
) -> Order {
    let name = read_name(name, state, "comparator");
    let whole = COrder { owner: Owner { state, destroy }, compare, name };
    Order(Comparator::Custom(Arc::new(CTimedOrder { whole, times })))
}

/// A comparator of C's.
pub fn c_order(state: State, destroy: DestroyFn, compare: CompareFn, name: NameFn) -> Order {
    let name = read_name(name, state, "comparator");
    let order = COrder { owner: Owner { state, destroy }, compare, name };
    Order(Comparator::Custom(Arc::new(order)))
}
